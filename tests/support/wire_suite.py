"""Runs all cases of a folder, on both backends and however their bytes are cut, and says how each run went."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anthropic  # noqa: F401 -- importing it takes a second, which would be part of a delay
import anyio
import openai  # noqa: F401 -- likewise

from support.wire_checks import Fact, check
from support.wire_paths import SidecarError
from support.wire_play import observe
from support.wire_replies import Cutting, Play
from support.wire_sidecar import Facts, Sidecar, find_sidecars, read_sidecar

BACKENDS = ("asyncio", "trio")

AT_ONCE = 8
"""How many cases are played at the same time: most of their time they wait."""

SECONDS = 120.0
"""Limit of one run; those of slow replies wait in earnest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run of a case went. ``error`` says why it could not be played to its end."""

    file: str
    backend: str
    cut: Cutting
    facts: tuple[Fact, ...] = ()
    error: str | None = None

    @property
    def ok(self) -> bool:
        """Whether everything was as expected."""
        return self.error is None and all(fact.ok for fact in self.facts)

    def line(self) -> str:
        """Return it as a line of JSON: with all facts where it passed, else with those that are wrong."""
        shown = [fact for fact in self.facts if self.ok or not fact.ok]
        line: Facts = {"file": self.file, "backend": self.backend, "cut": self.cut, "ok": self.ok}
        line["expected"] = {fact.name: fact.expected for fact in shown}
        line["got"] = {fact.name: fact.got for fact in shown}
        if self.error is not None:
            line["error"] = self.error
        return json.dumps(line, default=repr, ensure_ascii=False)


def cuttings(case: Sidecar) -> Sequence[Cutting]:
    """Return the ways to cut the bytes of a case's replies."""
    return ("whole", "cut", "bytes") if case.cut else ("whole", "bytes")


def run_folder(folder: Path, backend: str) -> list[Outcome]:
    """Run all cases of a folder on a backend; the outcomes are in the order of the files."""
    return anyio.run(run_files, list(find_sidecars(folder)), backend, backend=backend)


async def run_files(files: Sequence[Path], backend: str) -> list[Outcome]:
    """Run these cases, several at a time."""
    runs = dict(enumerate([run for file in files for run in _runs_of(file, backend)]))
    outcomes = {number: run for number, run in runs.items() if isinstance(run, Outcome)}
    limiter = anyio.CapacityLimiter(AT_ONCE)

    async def run_one(number: int, case: Sidecar, cut: Cutting) -> None:
        async with limiter:
            outcomes[number] = await run_case(case, cut, backend)

    for timed in (True, False):  # apart, so that no delay is measured while others are at work
        async with anyio.create_task_group() as tasks:
            for number, run in runs.items():
                if not isinstance(run, Outcome) and _is_timed(run[0].expect) is timed:
                    tasks.start_soon(run_one, number, *run)
    return [outcomes[number] for number in sorted(outcomes)]


def _is_timed(expect: Facts) -> bool:
    return any(key in str(expect) for key in ("delay_between_requests_s", "delay_s"))


def _runs_of(file: Path, backend: str) -> Iterator[Outcome | tuple[Sidecar, Cutting]]:
    try:
        case = read_sidecar(file)
    except SidecarError as exc:
        yield Outcome(file=file.name, backend=backend, cut="whole", error=str(exc))
        return
    for cut in cuttings(case):
        yield case, cut


async def run_case(case: Sidecar, cut: Cutting, backend: str, expect: Facts | None = None) -> Outcome:
    """Run one case; ``expect`` in place of its own."""
    facts: tuple[Fact, ...] = ()
    error: str | None = None
    play = Play(cutting=cut)
    try:
        with anyio.fail_after(SECONDS):
            observed = await observe(case, play)
            facts = tuple(await check(case, play, observed, case.expect if expect is None else expect))
    except SidecarError as exc:
        error = str(exc)
    except Exception as exc:  # noqa: BLE001 -- whatever it is, this run has failed and the others are still to come
        error = f"{type(exc).__name__}: {exc}"
    return Outcome(file=case.path.name, backend=backend, cut=cut, facts=facts, error=error)


def summary(outcomes: Iterable[Outcome]) -> str:
    """Return the line that counts how the runs went."""
    ran: list[Any] = [outcome.ok for outcome in outcomes]
    return f"{ran.count(True)} passed, {ran.count(False)} failed"

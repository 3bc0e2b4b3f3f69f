"""Runs any recorded vector and says how it went: passed, departed by a rule, waiting for something, or failed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from support import (
    vector_agent,
    vector_filter,
    vector_judge,
    vector_loop,
    vector_record,
    vector_retry,
    vector_rubric,
    vector_scorer,
    virtual_time,
)
from support.vector_blur import agree
from support.vector_retry import UnknownNotationError
from support.vector_state import begins_alike

Facts = dict[str, Any]

NEEDS = ("memory",)
"""Keys of ``given`` that ask for what the package does not have yet."""


LONG = 1_000_000.0
"""Seconds, of virtual time, after which a run is taken to hang."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a vector went. ``ok`` is ``None`` where it waits for ``needs``; ``rule`` names what it departs by."""

    name: str
    ok: bool | None
    rule: str | None = None
    expected: Any = None
    got: Any = None
    needs: str | None = None
    error: str | None = None
    unread: tuple[str, ...] = ()

    def line(self) -> str:
        """Return it as a line of JSON."""
        facts = {name: getattr(self, name) for name in ("name", "ok", "rule", "expected", "got")}
        facts |= {name: value for name in ("needs", "error", "unread") if (value := getattr(self, name))}
        return json.dumps(facts, default=repr, ensure_ascii=False)


def find_vectors(folder: Path) -> Iterator[Facts]:
    """Return the vectors in all JSON files below a folder, in the order of the files' paths."""
    for file in sorted(folder.rglob("*.json")):
        yield from json.loads(file.read_text(encoding="utf-8"))


def run_vector(vector: Facts, backend: str) -> Outcome:
    """Run one vector on ``backend``, in virtual time."""
    try:
        return virtual_time.run(_run, vector, backend=backend)
    except UnknownNotationError as exc:
        return Outcome(name=vector["name"], ok=False, error=str(exc))
    except Exception as exc:  # noqa: BLE001 -- whatever it is, this vector has failed and the others are still to run
        return Outcome(name=vector["name"], ok=False, error=f"{type(exc).__name__}: {exc}")


async def _run(vector: Facts) -> Outcome:
    with anyio.fail_after(LONG):
        return await _outcome(vector)


async def _outcome(vector: Facts) -> Outcome:
    name, kind, given = vector["name"], vector["kind"], vector["given"]
    if needs := next((key for key in NEEDS if key in given and kind in {"completion", "retry"}), None):
        return Outcome(name=name, ok=None, needs=needs)
    if kind in {"completion", "stream"} or given.get("level") == "agent":
        return await _run_agent(vector)
    expected, rules, got = await _run_alone(vector)
    rule = "+".join(_sorted(rules)) or None
    return Outcome(name=name, ok=got == expected, rule=rule if got == expected else None, expected=expected, got=got)


async def _run_alone(vector: Facts) -> tuple[Any, Iterable[str], Any]:
    """Return what has to come of a vector that runs no agent, by which rules that departs, and what came."""
    given = vector["given"]
    match vector["kind"], given.get("level"):
        case "rubric_parse", _:
            got, expected = await vector_rubric.play_parse(given), vector_rubric.expected_parse
        case "rubric_score", _:
            got, expected = await vector_rubric.play_score(given), vector_rubric.expected_score
        case "scorer_run", _:
            got, expected = await vector_scorer.play(given), vector_scorer.expected
        case "filter_run", _:
            got, expected = vector_filter.play(given), vector_filter.expected
        case "retry", "judge":
            got, expected = await vector_judge.play(given), vector_judge.expected
        case "retry", "processor":
            got = await vector_retry.play(given)
            wanted, rule = vector_retry.expected(vector)
            return wanted, [rule] if rule else [], got
        case kind, level:
            msg = f"unknown kind of vector {kind!r}, level {level!r}"
            raise UnknownNotationError(msg)
    return *expected(vector), got  # played first: that is where unknown notation is found


async def _run_agent(vector: Facts) -> Outcome:
    """Compare what came with the record, and with the reckoning where a rule may make a difference."""
    got = await vector_agent.play(vector["kind"], vector["given"])
    recorded = vector_record.recorded_facts(vector)
    run = await vector_loop.reckon(vector["given"])
    _refuse_unexplained(recorded, run)
    reckoned, claims = run.facts, run.claims
    fields = [f for f in (*recorded, "stop_reason") if f in recorded or f in claims]
    if "refused" in {*reckoned, *got}:
        fields, recorded = ["refused"], {"refused": None}
    expected = {f: reckoned[f] if f in claims else recorded[f] for f in fields}
    came = {f: got.get(f) for f in fields}
    departing = [f for f in fields if f in claims and (f not in recorded or came[f] != recorded[f])]
    rules = {rule for f in departing for rule in claims[f]}
    wrong = [f for f in fields if came[f] != expected[f]]
    return Outcome(
        name=vector["name"],
        ok=not wrong,
        rule="+".join(_sorted(rules)) or None if not wrong else None,
        expected={f: expected[f] for f in wrong} if wrong else expected,
        got={f: came[f] for f in wrong} if wrong else came,
        unread=tuple(vector_record.unread(vector)),
    )


def _refuse_unexplained(recorded: Facts, run: vector_loop.Reckoned) -> None:
    """Fail where the record differs from our run before a rule has it differ, or in what that rule is not about."""
    odd = [name for name, fork in run.forks.items() if name in recorded and not begins_alike(recorded[name], fork)]
    if not run.another_run:
        claims = {name: rules for name, rules in run.claims.items() if name in recorded}
        odd += [name for name, rules in claims.items() if not agree(name, rules, recorded[name], run.facts[name])]
    assert not odd, f"no rule explains the record of {', '.join(odd)}: {[recorded[name] for name in odd]}"


def _sorted(rules: Iterable[str]) -> list[str]:
    return sorted(rules, key=lambda rule: int(rule[1:]))


def summary(outcomes: Iterable[Outcome]) -> str:
    """Return the line that counts how the vectors went."""
    counts = dict.fromkeys(("passed", "departed", "waiting", "failed"), 0)
    for outcome in outcomes:
        match outcome:
            case Outcome(ok=None):
                counts["waiting"] += 1
            case Outcome(ok=False):
                counts["failed"] += 1
            case Outcome(rule=None):
                counts["passed"] += 1
            case _:
                counts["departed"] += 1
    return ", ".join(f"{count} {how}" for how, count in counts.items())

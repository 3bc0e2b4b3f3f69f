"""Runs any recorded vector and says how it went: passed, departed by a rule, waiting for something, or failed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from support.vector_retry import UnknownNotationError

Facts = dict[str, Any]

NEEDS = ("sub_agents", "memory")
"""Keys of ``given`` that ask for what the package does not have yet."""


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
            return *vector_rubric.expected_parse(vector), await vector_rubric.play_parse(given)
        case "rubric_score", _:
            return *vector_rubric.expected_score(vector), await vector_rubric.play_score(given)
        case "scorer_run", _:
            return *vector_scorer.expected(vector), await vector_scorer.play(given)
        case "filter_run", _:
            return *vector_filter.expected(vector), vector_filter.play(given)
        case "retry", "judge":
            return *vector_judge.expected(vector), await vector_judge.play(given)
        case "retry", "processor":
            expected, rule = vector_retry.expected(vector)
            return expected, [rule] if rule else [], await vector_retry.play(given)
        case kind, level:
            msg = f"unknown kind of vector {kind!r}, level {level!r}"
            raise UnknownNotationError(msg)


async def _run_agent(vector: Facts) -> Outcome:
    """Compare what came with the record, and with the reckoning where a rule may make a difference."""
    got = await vector_agent.play(vector["kind"], vector["given"])
    recorded = vector_record.recorded_facts(vector)
    reckoned, claims = await vector_loop.reckon(vector["given"])
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

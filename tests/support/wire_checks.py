"""What a case expects against what came of it: a :class:`Fact` for each key, those of further plays among them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

from mastra_py.errors import ModelError, ScorerRunError
from mastra_py.events import AgentEvent, ModelFinished, ReasoningDelta, TextDelta, ToolCall
from mastra_py.messages import Usage
from mastra_py.scoring import JudgeRecord
from support.wire_paths import MISSING, find, holds, same
from support.wire_play import Observed, again, observe, without
from support.wire_replies import Play, Seen
from support.wire_sidecar import DATE, Facts, Sidecar, read_variant


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that was expected, and what came."""

    name: str
    expected: Any
    got: Any
    ok: bool


def fits(expected: Any, got: Any) -> bool:
    """Tell whether ``got`` is as expected; a list where a plain value is meant is any of its values."""
    if isinstance(expected, list) and not isinstance(got, list):
        return any(fits(one, got) for one in expected)
    return same(expected, got)


async def check(case: Sidecar, play: Play, observed: Observed, expect: Facts, prefix: str = "") -> list[Fact]:
    """Return a fact for each key of ``expect``; what it says of further plays is played here."""
    facts: list[Fact] = []
    for key, value in expect.items():
        name = f"{prefix}{key}"
        if key in _FACTS:
            got, ok = _FACTS[key](value, observed)
            facts.append(Fact(name, value, got, ok))
        elif key == "assert":
            facts += [_asserted(f"{name}[{n}]", claim, observed.played) for n, claim in enumerate(value)]
        elif key == "one_of":
            facts.append(await _one_of(case, play, observed, value, name))
        elif key not in _TWO_TURNS:
            facts += await _FURTHER[key](case, play, observed, expect, name)
    if wanted := {key: expect[key] for key in _TWO_TURNS if key in expect}:
        facts += await _two_turns(case, play, wanted, prefix)
    return facts


# --- further plays


async def _played(case: Sidecar, play: Play, expect: Facts, name: str) -> list[Fact]:
    return await check(case, play, await observe(case, play), expect, f"{name}.")


async def _without_processor(case: Sidecar, play: Play, _: Observed, expect: Facts, name: str) -> list[Fact]:
    return await _played(case, again(play, processors=False), expect["without_processor"], name)


async def _if_served(case: Sidecar, play: Play, _: Observed, expect: Facts, name: str) -> list[Fact]:
    return await _played(case, again(play, conditional=False), expect["if_served"], name)


async def _also_for(case: Sidecar, play: Play, _: Observed, expect: Facts, name: str) -> list[Fact]:
    facts: list[Fact] = []
    for provider in expect["also_for"]:
        same_expected = without(expect, "also_for")
        facts += await _played(case, again(play, provider=provider), same_expected, f"{name}[{provider}]")
    return facts


async def _variants(case: Sidecar, play: Play, _: Observed, expect: Facts, name: str) -> list[Fact]:
    facts: list[Fact] = []
    for n, variant in enumerate(expect["variants"]):
        other = again(play, headers=read_variant(variant))
        observed = await observe(case, other)
        here = f"{name}[{n}]"
        if "delay_s" in variant:
            gaps = _gaps(observed)
            dated = any(DATE.search(text) for text in other.headers.values() if text is not None)
            ok = bool(gaps) and all(_is_delay(variant["delay_s"], gap, early=1.05 if dated else 0.05) for gap in gaps)
            facts.append(Fact(f"{here}.delay_s", variant["delay_s"], gaps, ok))
        left = without(expect, "variants", "also_for", "delay_between_requests_s")
        facts += await check(case, other, observed, left, f"{here}.")
    return facts


async def _replay(case: Sidecar, play: Play, observed: Observed, expect: Facts, name: str) -> list[Fact]:
    wanted = expect["replay"]
    source: Any = observed.result if observed.result is not None else observed.error
    history = tuple(getattr(source, "messages", ()))
    other = again(play, provider=wanted["provider"], history=history)
    return await _played(case, other, without(wanted, "provider"), name)


async def _one_of(case: Sidecar, play: Play, observed: Observed, outcomes: Sequence[Facts], name: str) -> Fact:
    came: list[Any] = []
    for outcome in outcomes:
        facts = await check(case, play, observed, outcome)
        came.append({fact.name: fact.got for fact in facts if not fact.ok})
    return Fact(name, list(outcomes), came, any(not wrong for wrong in came))


async def _two_turns(case: Sidecar, play: Play, wanted: Facts, prefix: str) -> list[Fact]:
    observed = await observe(case, again(play, turns=2))
    seen = [*observed.agent, *observed.judge]
    came = {_TWO_TURNS[0]: len(observed.judge), _TWO_TURNS[1]: sum(request.status == 400 for request in seen)}
    return [Fact(f"{prefix}{key}", value, came[key], fits(value, came[key])) for key, value in wanted.items()]


_TWO_TURNS = ("judge_requests_over_two_turns", "total_400_over_two_turns")
_FURTHER: dict[str, Callable[..., Any]] = {
    "without_processor": _without_processor,
    "if_served": _if_served,
    "also_for": _also_for,
    "variants": _variants,
    "replay": _replay,
}


# --- requests


def _asserted(name: str, claim: Facts, requests: Sequence[Seen]) -> Fact:
    """Check what a case asserts about requests; ``request`` counts from 1, ``"*"`` is each of them."""
    number = claim["request"]
    chosen = list(requests) if number == "*" else list(requests[number - 1 : number])
    found = [find(request.json, claim["path"]) for request in chosen]
    ok = bool(chosen) and all(holds(request.json, claim) for request in chosen)
    got = [repr(each) if each is MISSING else each for each in found]
    return Fact(name, claim, got if number == "*" else (got or ["no such request"])[0], ok)


def _gaps(observed: Observed) -> list[float]:
    """Return the seconds from each request that the case's body answered to the request after it."""
    seen = observed.played
    return [round(b.at - a.at, 3) for a, b in pairwise(seen) if a.by_body]


def _in_range(wanted: Facts, gap: float) -> bool:
    return wanted.get("min", 0) <= gap <= wanted.get("max", math.inf)


def _is_delay(wanted: Any, gap: float, *, early: float) -> bool:
    """Tell whether a gap is that delay, a range or a number of seconds; a date has whole seconds only."""
    if isinstance(wanted, list):
        return any(_is_delay(one, gap, early=early) for one in wanted)
    return _in_range(wanted if isinstance(wanted, dict) else {"min": wanted - early, "max": wanted + 1}, gap)


# --- the reply in the body


def _joined(events: Iterable[AgentEvent], kind: type[TextDelta | ReasoningDelta]) -> str:
    return "".join([event.text for event in events if isinstance(event, kind)])


def _end_of(events: Iterable[AgentEvent]) -> ModelFinished | None:
    return next((event for event in events if isinstance(event, ModelFinished)), None)


def _judge_record(observed: Observed) -> JudgeRecord | None:
    """Return what a judge did, whose replies are not in the events of the run."""
    entry = observed.entry
    if not observed.is_judge or entry is None:
        return None
    result = entry.result
    if result is None and isinstance(entry.error, ScorerRunError):
        result = entry.error.result
    return result.judge.get("analyze") if result is not None else None


def _text(observed: Observed) -> str | None:
    if (record := _judge_record(observed)) is not None:
        return record.output
    return None if observed.reply is None else _joined(observed.reply, TextDelta)


def _reasoning(observed: Observed) -> str | None:
    return None if observed.reply is None else _joined(observed.reply, ReasoningDelta)


def _finish_reason(observed: Observed) -> str | None:
    if observed.reply is None:
        return None
    end = _end_of(observed.reply)
    return "error" if end is None else end.finish_reason


def _refusal(expected: Any, observed: Observed) -> tuple[Any, bool]:
    refused = _finish_reason(observed) == "refusal"
    if isinstance(expected, bool):
        return refused, refused is expected
    got = _text(observed) if refused else None
    return got, fits(expected, got)


def _usage(expected: Facts, observed: Observed) -> tuple[Any, bool]:
    record = _judge_record(observed)
    end = _end_of(observed.reply or ())
    usage: Usage | None = record.usage if record is not None else end.usage if end is not None else None
    if usage is None:
        return None, False
    spent = {
        "input": usage.input_tokens,
        "input_uncached": usage.input_tokens - usage.cached_input_tokens,
        "cache_read": usage.cached_input_tokens,
        "output": usage.output_tokens,
        "reasoning": usage.reasoning_tokens,
    }
    return {key: spent[key] for key in expected}, all(fits(value, spent[key]) for key, value in expected.items())


def _tool_calls(expected: Sequence[Facts], observed: Observed) -> tuple[Any, bool]:
    calls = [event for event in observed.reply or () if isinstance(event, ToolCall)]
    got: list[Facts] = []
    ok = observed.reply is not None and len(calls) == len(expected)
    for n, call in enumerate(calls):
        args = call.args
        if call.raw_args is not None and n < len(expected) and expected[n].get("args") in (None, call.raw_args):
            args = expected[n].get("args")  # what cannot be parsed has no parsed value
        got.append({"id": call.tool_call_id, "name": call.tool_name, "args": args})
    return got, ok and all(_is_call(wanted, came) for wanted, came in zip(expected, got, strict=False))


def _is_call(wanted: Facts, came: Facts) -> bool:
    return all(fits(value, came[key]) for key, value in wanted.items())


# --- the run


def _executed(expected: Sequence[Facts], observed: Observed) -> tuple[Any, bool]:
    got = observed.executed
    return got, len(got) == len(expected) and all(map(_is_call, expected, got))


def _failure(observed: Observed) -> BaseException | None:
    """Return the error of the run, or in a judge case that of the scorer."""
    error: BaseException | None = observed.error
    if error is None and observed.is_judge and observed.entry is not None:
        error = observed.entry.error
        while error is not None and not isinstance(error, ModelError):
            error = error.__cause__
    return error


def _error(expected: Any, observed: Observed) -> tuple[Any, bool]:
    error = observed.error if expected is None else _failure(observed)
    got: Facts | None = None
    if isinstance(error, ModelError):
        names = ("kind", "retryable", "status", "code", "message")
        got = {name: getattr(error, name) for name in names}
    elif error is not None:
        got = {"kind": type(error).__name__, "message": str(error)}
    choices = expected if isinstance(expected, list) else [expected]
    return got, any(_is_error(one, got) for one in choices)


def _is_error(wanted: Facts | None, got: Facts | None) -> bool:
    if wanted is None or got is None:
        return wanted is got
    facts = dict(wanted)
    said = facts.pop("message_contains", "")
    code = facts.pop("code", MISSING)
    codes = [None if one is None else str(one) for one in (code if isinstance(code, list) else [code])]
    if code is not MISSING and got.get("code") not in codes:  # 502 and "502" are the same code
        return False
    texts = said if isinstance(said, list) else [said]
    return any(text in got["message"] for text in texts) and all(fits(v, got.get(k)) for k, v in facts.items())


def _delay(expected: Facts, observed: Observed) -> tuple[Any, bool]:
    gaps = _gaps(observed)
    return gaps, bool(gaps) and all(_in_range(expected, gap) for gap in gaps)


def _unmet(expected: Any, observed: Observed) -> tuple[Any, bool]:
    entry = observed.entry
    criteria = entry.result.criteria if entry is not None and entry.result is not None else None
    got = None if criteria is None else [c.description for c in criteria if c.required and not c.satisfied]
    return got, same(expected, got)


def _scorer_error(expected: bool, observed: Observed) -> tuple[Any, bool]:
    entry = observed.entry
    stopped = observed.result is not None and observed.result.stop_reason == "scorer_error"
    got = stopped and entry is not None and entry.score is None and entry.passed is False
    return got, got is expected and stopped is expected


def _events(expected: Any, observed: Observed) -> tuple[Any, bool]:
    wanted = [expected] if isinstance(expected, str) else cast("list[str]", expected)
    got = list(dict.fromkeys([event.type for event in observed.events]))
    return got, set(wanted) <= set(got)


def _plain(get: Callable[[Observed], Any]) -> Callable[[Any, Observed], tuple[Any, bool]]:
    def compare(expected: Any, observed: Observed) -> tuple[Any, bool]:
        got = get(observed)
        return got, fits(expected, got)

    return compare


def _at_most(get: Callable[[Observed], int]) -> Callable[[Any, Observed], tuple[Any, bool]]:
    def compare(expected: Any, observed: Observed) -> tuple[Any, bool]:
        got = get(observed)
        return got, got <= (max(expected) if isinstance(expected, list) else expected)

    return compare


def _requests(observed: Observed) -> int:
    return len(observed.agent) + len(observed.judge)


_FACTS: dict[str, Callable[[Any, Observed], tuple[Any, bool]]] = {
    "text": _plain(_text),
    "reasoning": _plain(_reasoning),
    "refusal": _refusal,
    "tool_calls": _tool_calls,
    "finish_reason": _plain(_finish_reason),
    "usage": _usage,
    "final_text": _plain(lambda seen: seen.result.text if seen.result is not None else None),
    "stop_reason": _plain(lambda seen: seen.result.stop_reason if seen.result is not None else None),
    "text_partial": _plain(lambda seen: getattr(seen.error, "partial_text", None)),
    "executed": _executed,
    "executed_count": _plain(lambda seen: len(seen.executed)),
    "error": _error,
    "requests": _plain(_requests),
    "max_requests": _at_most(_requests),
    "agent_requests": _plain(lambda seen: len(seen.agent)),
    "judge_requests": _plain(lambda seen: len(seen.judge)),
    "max_judge_requests": _at_most(lambda seen: len(seen.judge)),
    "preprocess_calls": _plain(lambda seen: seen.counts.preprocess_calls),
    "scorers_run": _plain(lambda seen: seen.counts.scorers_run),
    "delay_between_requests_s": _delay,
    "score": _plain(lambda seen: seen.entry.score if seen.entry is not None else None),
    "passed": _plain(lambda seen: seen.entry.passed if seen.entry is not None else None),
    "unmet_required": _unmet,
    "scorer_error": _scorer_error,
    "events_include": _events,
}

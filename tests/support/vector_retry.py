"""Reads recorded retry vectors of level ``processor``: what was given, what must come out, by which rule it differs.

An unknown key or value fails the vector: it would otherwise pass without having been looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mastra_py.errors import ModelError, UserError
from mastra_py.processors import ApiErrorContext, RetryMatcher, StreamErrorRetryProcessor, is_bad_request
from mastra_py.testing import api_error
from support.vector_replies import OneOf
from support.vector_retry_rules import (
    ENDLESS,
    Reckoned,
    departs_by_d12,
    is_marked,
    reckon_ours,
    reckon_theirs,
    refused_option,
    rule_of,
)

__all__ = ["departs_by_d12"]

JsonObject = Mapping[str, Any]


class UnknownNotationError(AssertionError):
    """A vector holds something that this reader does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What asking a processor until it declines came to; delays in seconds.

    ``raised`` is the message of what came out of the processor, ``refused`` the option that its constructor refused,
    ``retryable`` the mark of the error where it was made from a response.
    """

    retries: int = 0
    delays: tuple[float, ...] = ()
    on_retry: tuple[tuple[int, float], ...] = ()
    raised: str | None = None
    refused: str | None = None
    retryable: bool | None = None


@dataclass(slots=True)
class _Built:
    processor: StreamErrorRetryProcessor
    on_retry: list[tuple[int, float]] = field(default_factory=list)


async def play(given: JsonObject) -> Outcome:
    """Ask a processor made as ``given`` says about its error, with retry counts from 0, until it declines."""
    _only(given, "level", "now", "options", "error")
    error = build_error(given["error"])
    retryable = bool(error.retryable) if isinstance(error, ModelError) and _is_response(given["error"]) else None
    try:
        built = _build_processor(given["options"])
    except UserError as refusal:
        return Outcome(refused=str(refusal).split()[1], retryable=retryable)
    now = datetime.fromisoformat(given["now"])
    delays: list[float] = []
    raised = None
    while len(delays) < ENDLESS:
        ctx = ApiErrorContext(error=error, retry_count=len(delays), received_at=now)  # type: ignore[arg-type]
        try:
            retry = await built.processor.process_api_error(ctx)
        except Exception as exc:  # noqa: BLE001 -- what came out is what is compared
            raised = str(exc)
            break
        if retry is None:
            break
        delays.append(retry.delay)
    return Outcome(
        retries=len(delays),
        delays=tuple(delays),
        on_retry=tuple(built.on_retry),
        raised=raised,
        retryable=retryable,
    )


def expected(vector: JsonObject) -> tuple[Outcome, str | None]:
    """Return what must come out, and the rule by which it differs from the record, ``None`` where it does not."""
    expect, given = vector["expect"], vector["given"]
    _only(expect, "retries", "delays_ms", "on_retry", "thrown", "derived_is_retryable")
    recorded = Outcome(
        retries=expect["retries"],
        delays=tuple(ms / 1000 for ms in expect["delays_ms"]),
        on_retry=tuple((call["retry_count"], call["delay_ms"] / 1000) for call in expect.get("on_retry", ())),
        raised=expect["thrown"]["message"] if "thrown" in expect else None,
        retryable=expect.get("derived_is_retryable"),
    )
    now = datetime.fromisoformat(given["now"])
    theirs = reckon_theirs(given["error"], given["options"], now)
    assert recorded.retryable in {None, is_marked(given["error"])}, "the reader's idea does not explain the mark"
    option = refused_option(given["options"])
    if option is not None:
        facts, rule = Outcome(refused=option, retryable=recorded.retryable), "D37"
    else:
        ours = reckon_ours(given["error"], given["options"], now)
        marked = OneOf(False, recorded.retryable) if recorded.retryable and not ours.retries else None
        facts, rule = _outcome(ours, recorded, marked), rule_of(given["error"])
        if ours == theirs or facts == recorded:
            return recorded, None
    assert _outcome(theirs, recorded) == recorded, f"the reader's idea does not explain the record: {theirs}"
    return facts, rule


def _outcome(reckoned: Reckoned, recorded: Outcome, retryable: Any = None) -> Outcome:
    return Outcome(
        retries=reckoned.retries,
        delays=reckoned.delays,
        on_retry=reckoned.on_retry,
        raised=reckoned.raised,
        retryable=recorded.retryable if retryable is None else retryable,
    )


# --- errors


def build_error(spec: JsonObject | str | None) -> Exception:
    """Return the exception that an error of a vector stands for."""
    if spec is None:
        return Exception()
    if isinstance(spec, str):
        return Exception(spec)
    match spec["type"]:
        case "api_call_error":
            _only(spec, "type", "status", "headers", "body", "message", "is_retryable", "cause")
            error = _response_error(spec)
        case "error":
            error = _plain_exception(spec)
        case "plain_object" | "plain_object_with_cause":
            _only(spec, "type", "value", "cause")
            error = _from_value(spec["value"])
        case "string":
            _only(spec, "type", "value")
            error = Exception(spec["value"])
        case "null" | "undefined":
            _only(spec, "type")
            error = Exception()
        case other:
            msg = f"unknown type of error {other!r}"
            raise UnknownNotationError(msg)
    if "cause" in spec:
        error.__cause__ = build_error(spec["cause"])
    return error


def _response_error(spec: JsonObject) -> ModelError:
    facts = {name: spec[name] for name in ("headers", "body", "message") if name in spec}
    error = api_error(spec["status"], **facts) if "status" in spec else ModelError(**{"message": "", **facts})
    if "is_retryable" in spec:
        error.retryable = spec["is_retryable"]
    return error


def _from_value(value: Any) -> ModelError:
    if not isinstance(value, dict):
        return ModelError(body=value)
    mark, message = value.get("is_retryable"), value.get("message")
    return ModelError(
        message if isinstance(message, str) else "",
        body=value,
        retryable=mark if isinstance(mark, bool) else None,
    )


def _plain_exception(spec: JsonObject) -> Exception:
    attributes = ("name", "code", "status", "status_code", "headers", "is_retryable")
    _only(spec, "type", "message", "cause", "circular_cause", "circular_pair", *attributes)
    error = Exception(spec.get("message", ""))
    for name in attributes:
        if name in spec:
            setattr(error, name, spec[name])
    if spec.get("circular_cause"):
        error.__cause__ = error
    if spec.get("circular_pair"):
        error.__cause__ = Exception("the other one")
        error.__cause__.__cause__ = error
    return error


def _is_response(spec: JsonObject | str | None) -> bool:
    return isinstance(spec, Mapping) and spec["type"] == "api_call_error"


# --- options


def build_processor(options: JsonObject) -> StreamErrorRetryProcessor:
    """Return the retry processor that the options of a vector describe."""
    return _build_processor(options).processor


def _build_processor(options: JsonObject) -> _Built:
    _only(options, "max_retries", "delay_ms", "max_retry_after_ms", "retry_unknown_errors", "matchers")
    on_retry: list[tuple[int, float]] = []
    ours: dict[str, Any] = {}
    if "max_retries" in options:
        ours["max_retries"] = _number(options["max_retries"])
    if "delay_ms" in options:
        ours["delay"] = _delay(options["delay_ms"])
    if "max_retry_after_ms" in options:
        ours["max_retry_after"] = _seconds(options["max_retry_after_ms"])
    if "retry_unknown_errors" in options:
        ours["retry_unknown_errors"] = options["retry_unknown_errors"]
    if "matchers" in options:
        ours["matchers"] = [_matcher(spec, on_retry) for spec in options["matchers"]]
    return _Built(StreamErrorRetryProcessor(**ours), on_retry)


def _matcher(spec: JsonObject, on_retry: list[tuple[int, float]]) -> RetryMatcher | Callable[[Exception], bool]:
    _only(spec, "match", "max_retries", "delay_ms", "plain")
    match = _match(spec["match"])
    if spec.get("plain"):
        return match
    return RetryMatcher(
        match,
        max_retries=_number(spec["max_retries"]) if "max_retries" in spec else None,
        delay=_delay(spec["delay_ms"]) if "delay_ms" in spec else None,
        on_retry=lambda ctx, delay: on_retry.append((ctx.retry_count, delay)),
    )


def _match(spec: JsonObject) -> Callable[[Exception], bool]:
    match spec:
        case {"always": True, **rest} if not rest:
            return lambda _: True
        case {"message_contains": str(text), **rest} if not rest:
            return lambda error: text in getattr(error, "message", str(error))  # without whose error it is
        case {"builtin": "bad_request", **rest} if not rest:
            return is_bad_request
        case {"throws": True, **rest} if not rest:
            return lambda _: _raise("matcher broke")
        case _:
            msg = f"unknown match {spec!r}"
            raise UnknownNotationError(msg)


def _delay(spec: Any) -> Any:
    if not isinstance(spec, Mapping):
        return _seconds(spec)
    match spec:
        case {"fn": "linear", "base": base, **rest} if not rest:
            return lambda ctx: _seconds(base * (ctx.retry_count + 1))
        case {"fn": "async_constant", "value": value, **rest} if not rest:

            async def constant(_: ApiErrorContext) -> float:
                return _seconds(value)

            return constant
        case {"fn": "throws", **rest} if not rest:
            return lambda _: _raise("delay function broke")
        case _:
            msg = f"unknown delay {spec!r}"
            raise UnknownNotationError(msg)


def _seconds(milliseconds: float | str) -> float:
    return float(milliseconds) / 1000


def _number(value: int | str) -> Any:
    return float(value) if isinstance(value, str) else value


def _raise(message: str) -> bool:
    raise Exception(message)  # a recorded throw has no class


def _only(spec: JsonObject, *known: str) -> None:
    if unknown := set(spec) - set(known):
        msg = f"unknown key {min(unknown)!r} in {dict(spec)!r}"
        raise UnknownNotationError(msg)

"""Reads what recorded vectors script: the turns of models, and error processors."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, cast

import anyio

from mastra_py import Retry, TripWire
from mastra_py.errors import StreamError
from mastra_py.models.base import ModelRequest
from mastra_py.models.profile import ModelProfile
from mastra_py.processors import ApiErrorContext, ErrorProcessor
from mastra_py.testing import FunctionModel, Turn
from support.vector_notation import read_value, refuse_unknown
from support.vector_retry import UnknownNotationError, build_error, build_processor

TURN = (
    "text",
    "text_chunks",
    "json",
    "wrap",
    "reasoning",
    "tool_calls",
    "finish_reason",
    "hang",
    "delay_ms",
    "error",
    "error_at",
)


ENDLESS = 500
"""Calls of a model after which a run is taken never to end: it may take no time, not even a virtual one."""


def scripted_model(
    turns: Sequence[dict[str, Any]],
    *,
    id: str = "judge",
    native: bool = False,
    on_call: Callable[[ModelRequest], None] | None = None,
) -> FunctionModel:
    """Return a model that plays recorded turns, the last one again and again; ``on_call`` gets each request."""
    script = [(turn.get("delay_ms", 0) / 1000, read_turn(turn)) for turn in turns]

    async def answer(request: ModelRequest) -> Turn:
        assert model.calls < ENDLESS, "the run never ends"
        if on_call is not None:
            on_call(request)
        delay, turn = script[min(model.calls, len(script)) - 1]
        if delay:
            await anyio.sleep(delay)
        return turn

    model = FunctionModel(answer, id=id, profile=ModelProfile(native_output=native))
    model.provider = "scripted"
    return model


def read_turn(turn: dict[str, Any]) -> Turn:
    """Return a recorded turn as ours."""
    refuse_unknown("a turn", turn, TURN)
    return Turn(
        text=text_of(turn) if "text_chunks" not in turn else "",
        text_chunks=turn.get("text_chunks", ()),
        reasoning=turn.get("reasoning", ""),
        tool_calls=[_tool_call(call) for call in turn.get("tool_calls", ())],
        finish_reason=cast("Any", turn["finish_reason"].replace("-", "_")) if "finish_reason" in turn else None,
        error=turn_error(turn),
        error_at=turn.get("error_at", "before_first_chunk"),
        hang=turn.get("hang", False),
    )


def turn_error(turn: dict[str, Any]) -> Exception | None:
    """Return the error of a recorded turn; where the bytes break off, it is of kind ``stream``."""
    error = build_error(turn["error"]) if "error" in turn else None
    if turn.get("error_at") != "stream_broken":
        return error
    broken = StreamError(str(error or "the connection broke off"))
    broken.__cause__ = error
    return broken


def text_of(turn: dict[str, Any]) -> str:
    """Return what a recorded turn says."""
    if "json" not in turn:
        return "".join(turn.get("text_chunks", ())) or turn.get("text", "")
    before, after = turn.get("wrap", ("", ""))
    return f"{before}{json.dumps(_camel_case(read_value(turn['json'])))}{after}"


def _camel_case(value: Any) -> Any:
    if isinstance(value, list):
        return [_camel_case(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {re.sub(r"_([a-z])", lambda m: m[1].upper(), key): _camel_case(item) for key, item in value.items()}


def _tool_call(call: dict[str, Any]) -> tuple[str, str, Any]:
    refuse_unknown("a tool call", call, ("id", "name", "args", "raw_args"))
    return call["id"], call["name"], call["raw_args"] if "raw_args" in call else call.get("args", {})


class ScriptedProcessor:
    """An error processor that answers by script, its last answer again and again."""

    def __init__(self, spec: dict[str, Any], calls: list[tuple[str, int]]) -> None:
        refuse_unknown("a processor", spec, ("type", "id", "script"))
        self.id = spec["id"]
        self._script = spec["script"]
        self._asked = 0
        self._calls = calls
        for entry in self._script:
            _refuse_unknown_answer(entry)

    async def process_api_error(self, ctx: ApiErrorContext, /) -> Retry | None:
        self._calls.append((self.id, ctx.retry_count))
        entry = self._script[min(self._asked, len(self._script) - 1)]
        self._asked += 1
        if "throws" in entry:
            raise build_error(entry["throws"])
        if "abort" in entry:
            raise TripWire(entry["abort"])
        return Retry() if entry["retry"] else None


def _refuse_unknown_answer(entry: dict[str, Any]) -> None:
    match entry:
        case {"retry": bool(), **rest} | {"abort": str(), **rest} if not rest:
            pass
        case {"throws": error, **rest} if not rest:
            build_error(error)
        case _:
            msg = f"unknown answer of a processor {entry!r}"
            raise UnknownNotationError(msg)


class _Recorded:
    """A retry processor that notes each time it is asked."""

    def __init__(self, spec: dict[str, Any], calls: list[tuple[str, int]]) -> None:
        refuse_unknown("a processor", spec, ("type", "id", "options"))
        self._processor = build_processor(spec.get("options", {}))
        self.id = spec.get("id", "stream_error_retry")
        self._calls = calls
        self.waits: list[float] = []

    async def process_api_error(self, ctx: ApiErrorContext, /) -> Retry | None:
        self._calls.append((self.id, ctx.retry_count))
        retry = await self._processor.process_api_error(ctx)
        self.waits += [retry.delay] if retry is not None else []
        return retry


def read_processor(spec: dict[str, Any], calls: list[tuple[str, int]]) -> ErrorProcessor:
    """Return a recorded error processor; ``calls`` gets its id and the retry count of each time it is asked."""
    match spec["type"]:
        case "scripted":
            return ScriptedProcessor(spec, calls)
        case "stream_error_retry":
            return _Recorded(spec, calls)
        case other:
            msg = f"unknown error processor {other!r}"
            raise UnknownNotationError(msg)

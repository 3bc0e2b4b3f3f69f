"""Doubles for tests, public and without a network: scripted models, provider errors, and the grammar of a stream.

Example::

    with ScriptedModel(["a draft", "a better one"]) as model:  # fails if a turn is left over
        agent = Agent(id="writer", model=model)
        result = await agent.generate("Write", is_task_complete=[is_better])
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias, cast, get_args

import anyio
import anyio.lowlevel

from mastra_py._grammar import assert_well_formed
from mastra_py._loop.callbacks import resolve
from mastra_py.errors import ModelError, StreamError, UserError
from mastra_py.events import (
    FinishReason,
    ModelEvent,
    ModelFinished,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
)
from mastra_py.messages import Message, Usage
from mastra_py.models._errors import model_error
from mastra_py.models.base import ModelRequest
from mastra_py.models.profile import ModelProfile

__all__ = ["ErrorAt", "FunctionModel", "ScriptedModel", "Turn", "api_error", "assert_well_formed"]

ErrorAt = Literal["before_first_chunk", "stream_start", "mid_stream", "stream_broken"]
"""Where a scripted error comes: as the response, in-band before any content, or after the turn's content. With
``stream_broken`` the reply just breaks off after the content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One scripted reply of a model.

    Attributes:
        text: what it says, as one delta.
        text_chunks: the same as several deltas, in place of ``text``.
        reasoning: what it thinks before.
        tool_calls: ``(id, name, args)`` each; ``args`` a dict, or a text that may be no JSON.
        usage: tokens it reports; one in and one out unless given. A failing turn reports only what is given.
        finish_reason: by content unless given.
        error: raised instead of finishing, see ``error_at``.
        error_at: where the error comes.
        hang: never end, after the content.
    """

    text: str = ""
    text_chunks: Sequence[str] = ()
    reasoning: str = ""
    tool_calls: Sequence[tuple[str, str, Mapping[str, Any] | str]] = ()
    usage: Usage | None = None
    finish_reason: FinishReason | None = None
    error: BaseException | None = None
    error_at: ErrorAt = "before_first_chunk"
    hang: bool = False

    def __post_init__(self) -> None:
        if self.text and self.text_chunks:
            msg = "a Turn takes text or text_chunks, not both"
            raise UserError(msg)
        if self.error_at not in get_args(ErrorAt):
            msg = f"Turn error_at must be one of {', '.join(get_args(ErrorAt))}; got {self.error_at!r}"
            raise UserError(msg)
        if self.finish_reason is not None and self.finish_reason not in get_args(FinishReason):
            msg = f"Turn finish_reason must be one of {', '.join(get_args(FinishReason))}; got {self.finish_reason!r}"
            raise UserError(msg)
        if self.error_at == "stream_broken" and self.error is None:
            object.__setattr__(self, "error", StreamError("the connection broke off"))


TurnLike: TypeAlias = str | Turn


def _read_turn(turn: object) -> Turn:
    if isinstance(turn, str):
        return Turn(text=turn)
    if isinstance(turn, Turn):
        return turn
    msg = f"a turn is a text or a Turn, got {turn!r}"
    raise UserError(msg)


def _read_args(args: Mapping[str, Any] | str) -> tuple[str, dict[str, Any], str | None]:
    """Return the arguments as text, as a dict, and as raw text where they are no JSON object."""
    if not isinstance(args, str):
        return json.dumps(dict(args)), dict(args), None
    if not args.strip():
        return args, {}, None
    try:
        value: object = json.loads(args)
    except ValueError:
        value = None
    if isinstance(value, dict):
        return args, cast("dict[str, Any]", value), None
    return args, {}, args


def _content(turn: Turn) -> list[ModelEvent]:
    events: list[ModelEvent] = []
    if turn.reasoning:
        events += [ReasoningStart(), ReasoningDelta(turn.reasoning), ReasoningEnd()]
    chunks = turn.text_chunks or ([turn.text] if turn.text else [])
    if chunks:
        events += [TextStart(), *[TextDelta(chunk) for chunk in chunks]]
        if turn.error is None and not turn.hang:
            events.append(TextEnd())
    for call_id, name, args in turn.tool_calls:
        text, value, raw = _read_args(args)
        events += [ToolInputStart(call_id, name), ToolInputDelta(call_id, text), ToolInputEnd(call_id)]
        events.append(ToolCall(call_id, name, value, raw))
    return events


async def _play(turn: Turn) -> AsyncIterator[ModelEvent]:
    await anyio.lowlevel.checkpoint()
    if turn.error is not None and turn.error_at == "stream_start":
        raise turn.error
    for event in _content(turn):
        yield event
        # Twice, so that a reader has always been at work on an event before the next one comes.
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
    if turn.hang:
        await anyio.sleep_forever()
    if turn.error is not None:
        if turn.usage is not None:
            yield ModelFinished(finish_reason="error", usage=turn.usage)
        raise turn.error
    reason = turn.finish_reason or ("tool_calls" if turn.tool_calls else "stop")
    yield ModelFinished(finish_reason=reason, usage=turn.usage or Usage(input_tokens=1, output_tokens=1))


class _Playing(AbstractAsyncContextManager[AsyncIterator[ModelEvent]]):
    """A reply being played; leaving it closes its generator in the task that reads it."""

    def __init__(self, start: Callable[[], Awaitable[AsyncIterator[ModelEvent]]]) -> None:
        self._start = start
        self._events: AsyncIterator[ModelEvent] | None = None

    async def __aenter__(self) -> AsyncIterator[ModelEvent]:
        self._events = await self._start()
        return self._events

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        close = getattr(self._events, "aclose", None)
        if close is not None:
            await close()


class _Double:
    """What the doubles share: a name, a profile, and a record of what they were asked."""

    def __init__(self, id: str, profile: ModelProfile | None) -> None:
        self.id = id
        self.provider = "test"
        self.profile = profile or ModelProfile()
        self.requests: list[ModelRequest] = []

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    @property
    def calls(self) -> int:
        """How often the model was called."""
        return len(self.requests)

    @property
    def prompts(self) -> list[list[Message]]:
        """The conversations it was sent, the system prompt first where there was one."""
        return [
            [*([Message("system", request.system)] if request.system else []), *request.messages]
            for request in self.requests
        ]


class ScriptedModel(_Double):
    """A model that plays a script, one turn a call.

    Running out of turns is an ``AssertionError``, and so are turns left over, at the end of ``with ScriptedModel(...)``
    or by :meth:`assert_exhausted`. With ``repeat_last`` the last turn repeats for ever.
    """

    def __init__(
        self,
        turns: Iterable[TurnLike],
        *,
        repeat_last: bool = False,
        id: str = "scripted",
        profile: ModelProfile | None = None,
    ) -> None:
        super().__init__(id, profile)
        if isinstance(turns, str | Turn):
            msg = f"a ScriptedModel takes a list of turns, got {turns!r} alone"
            raise UserError(msg)
        self._turns = [_read_turn(turn) for turn in turns]
        self._repeat_last = repeat_last

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if exc is None:
            self.assert_exhausted()

    def assert_exhausted(self) -> None:
        """Raise an ``AssertionError`` if turns are left over."""
        left = len(self._turns) - self.calls
        if left > 0:
            msg = f"{self!r}: {left} of {len(self._turns)} turns were not played"
            raise AssertionError(msg)

    def stream(self, request: ModelRequest, /) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Play the next turn."""

        async def start() -> AsyncIterator[ModelEvent]:
            await anyio.lowlevel.checkpoint()
            index = len(self.requests)
            self.requests.append(request)
            if index >= len(self._turns) and not (self._repeat_last and self._turns):
                msg = f"{self!r}: call {index + 1}, but the script has only {len(self._turns)} turns"
                raise AssertionError(msg)
            turn = self._turns[min(index, len(self._turns) - 1)]
            if turn.error is not None and turn.error_at == "before_first_chunk":
                raise turn.error
            return _play(turn)

        return _Playing(start)


ModelFunction: TypeAlias = Callable[[ModelRequest], TurnLike | Awaitable[TurnLike] | AsyncIterator[ModelEvent]]


class FunctionModel(_Double):
    """A model that is a function of the request: it returns a text or a :class:`Turn`, or yields model events."""

    def __init__(
        self,
        function: ModelFunction,
        *,
        id: str = "function",
        profile: ModelProfile | None = None,
    ) -> None:
        super().__init__(id, profile)
        self._function = function

    def stream(self, request: ModelRequest, /) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Ask the function and play its answer."""

        async def start() -> AsyncIterator[ModelEvent]:
            await anyio.lowlevel.checkpoint()
            self.requests.append(request)
            answer = self._function(request)
            if isinstance(answer, AsyncIterator):
                return answer
            turn = _read_turn(await resolve(answer))
            if turn.error is not None and turn.error_at == "before_first_chunk":
                raise turn.error
            return _play(turn)

        return _Playing(start)


def api_error(
    status: int,
    *,
    headers: Mapping[str, str] | None = None,
    body: Any = None,
    message: str | None = None,
) -> ModelError:
    """Return the error that a provider's response of that status becomes.

    Example: ``Turn(error=api_error(429, headers={"retry-after": "2"}))``
    """
    whole = _mapping(body)
    facts = _mapping(whole.get("error", whole))
    return model_error(
        status=status,
        code=facts.get("code"),
        error_type=facts.get("type"),
        message=message or facts.get("message") or "the request failed",
        headers=headers,
        body=body,
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}

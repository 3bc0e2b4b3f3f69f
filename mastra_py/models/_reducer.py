"""From the deltas of a reply to model events: the one reducer behind every wire.

A wire module reads its provider's chunks and tells a :class:`ReplyReducer` what is in them. The reducer knows the
order that events have (a start, its deltas, its end), which delta belongs to which tool call, and how a reply ends.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Literal

from mastra_py.errors import StreamError
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
from mastra_py.messages import Usage
from mastra_py.models._json import read_object

_CUT: frozenset[FinishReason] = frozenset({"length", "content_filter", "refusal", "error"})
"""Ends at which the reply is not whole: a tool call that is still open then is none."""


class _Call:
    """A tool call while its deltas arrive."""

    __slots__ = ("args", "ended", "given_id", "id", "metadata", "name")

    def __init__(self, given_id: str | None, metadata: dict[str, Any] | None) -> None:
        self.given_id = given_id
        self.metadata = metadata
        self.id = ""  # chosen when the call is announced, which takes a name
        self.name = ""
        self.args: list[str] = []
        self.ended = False  # its input is over

    def read_args(self) -> dict[str, Any] | None:
        return read_object("".join(self.args))

    @property
    def is_blank(self) -> bool:
        return not any(piece.strip() for piece in self.args)


class ReplyReducer:
    """Makes the events of one reply.

    Every method returns the events that its news leads to; after :meth:`finish` none does. Text, reasoning and tool
    calls are blocks one after another: what is new closes what is open. A tool call counts as whole when its arguments
    are a JSON object and something else begins, or when the reply ends in good order.

    Attributes:
        reason: the provider's reason for the end, as it is known so far.
        response_id: the provider's id of the reply.
        model: the model that the provider names.
        finished: whether the reply is over.
    """

    __slots__ = (
        "_block",
        "_calls",
        "_metadata",
        "_open",
        "_provider",
        "_slots",
        "_taken",
        "_usage",
        "finished",
        "model",
        "reason",
        "response_id",
    )

    def __init__(self, *, provider: str, taken_ids: Iterable[str] = ()) -> None:
        """Begin a reply of ``provider``.

        A call's id is kept as it is given, unless it is missing, or in use already: by another call of the reply or
        in ``taken_ids``, the ids of the conversation so far, which are read only when the first call comes.
        """
        self.reason: FinishReason | None = None
        self.response_id: str | None = None
        self.model: str | None = None
        self.finished = False
        self._provider = provider
        self._block: Literal["text", "reasoning"] | None = None
        self._metadata: dict[str, Any] | None = None  # of the open block of reasoning
        self._calls: list[_Call] = []
        self._open: list[_Call] = []  # those not settled yet, in order
        self._slots: dict[Hashable, _Call] = {}
        self._taken: Iterable[str] | set[str] = taken_ids
        self._usage = Usage()

    def text(self, text: str) -> list[ModelEvent]:
        """Add to the text."""
        if not text or self.finished:
            return []
        if self._block == "text":
            return [TextDelta(text)]
        return [*self._begin("text"), TextStart(), TextDelta(text)]

    def reasoning(self, text: str, metadata: dict[str, Any] | None = None) -> list[ModelEvent]:
        """Add to the reasoning; ``metadata`` is gathered for the end of its block, which it opens even without text."""
        if self.finished or not (text or metadata):
            return []
        events: list[ModelEvent] = []
        if self._block != "reasoning":
            events = [*self._begin("reasoning"), ReasoningStart()]
        if metadata and metadata is not self._metadata:  # most wires say the same with every delta
            self._metadata = {**self._metadata, **metadata} if self._metadata else metadata
        if text:
            events.append(ReasoningDelta(text))
        return events

    def end_block(self) -> list[ModelEvent]:
        """End the open block of text or reasoning, where a provider says so. The next delta begins another one."""
        block, self._block = self._block, None
        if block == "text":
            return [TextEnd()]
        if block == "reasoning":
            metadata, self._metadata = self._metadata, None
            return [ReasoningEnd(self._provider, dict(metadata) if metadata else None)]
        return []

    def tool(
        self,
        slot: Hashable | None,
        call_id: str | None,
        name: str | None,
        args: str | None,
        *,
        metadata: dict[str, Any] | None = None,
    ) -> list[ModelEvent]:
        """Add to a tool call, or begin one.

        ``slot`` is the provider's key of the call within the reply. Servers leave it out, repeat ids and names with
        every piece, or send them empty: an empty one is none, and what is known of a call is never replaced.
        """
        if self.finished:
            return []
        events: list[ModelEvent] = []
        call = self._find(slot, call_id, name, args)
        if call is None:
            if not (call_id or name or (args and args.strip())):
                return []
            events = [*self.end_block(), *self._settle()]
            call = self._add(slot, call_id, metadata)
        if call.ended:
            return events
        if args:
            call.args.append(args)
        if call.name:
            return [*events, *self.end_block(), ToolInputDelta(call.id, args)] if args else events
        return [*events, *self.end_block(), *self._announce(call, name)] if name else events

    def end_tool(self, slot: Hashable) -> list[ModelEvent]:
        """End the input of a tool call, where a provider says so.

        Where its arguments are no JSON object, the ``ToolCall`` waits until it is known that the reply is not cut off
        in it.
        """
        call = self._slots.get(slot)
        if self.finished or call is None or call.ended or not call.name:
            return []
        call.ended = True
        events: list[ModelEvent] = [ToolInputEnd(call.id)]
        while self._open and self._open[0].ended and self._is_sound(self._open[0]):
            events.append(self._tool_call(self._open.pop(0)))
        return events

    def usage(
        self,
        *,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        cached_input_tokens: int | None = None,
        reasoning_tokens: int | None = None,
    ) -> None:
        """Take what the provider reports to be spent so far. The last value counts; nothing is added up."""
        usage = self._usage
        if input_tokens is not None:
            usage.input_tokens = input_tokens
        if output_tokens is not None:
            usage.output_tokens = output_tokens
        if cached_input_tokens is not None:
            usage.cached_input_tokens = cached_input_tokens
        if reasoning_tokens is not None:
            usage.reasoning_tokens = reasoning_tokens

    def finish(self) -> list[ModelEvent]:
        """End the reply.

        Whether there are whole tool calls decides between ``tool_calls`` and ``stop``, whatever the provider calls it.
        In a reply that was cut off, an open call is dropped: its input ends, and no ``ToolCall`` follows.

        Raises:
            StreamError: a tool call never got a name.
        """
        if self.finished:
            return []
        reason = self.reason or "stop"
        events = self.end_block()
        if reason in _CUT:
            events += [ToolInputEnd(call.id) for call in self._open if call.name and not call.ended]
        else:
            for call in self._open:
                if not call.name:
                    msg = "the reply holds a tool call without a name"
                    raise StreamError(msg)
                events += self._close(call)
            if self._calls:
                reason = "tool_calls"
            elif reason == "tool_calls":
                reason = "stop"
        self.finished = True
        return [*events, self._finished(reason)]

    def fail(self) -> list[ModelEvent]:
        """End a reply that failed: what it is reported to have cost counts all the same."""
        if self.finished:
            return []
        self.finished = True
        return [] if self._usage == Usage() else [self._finished("error")]

    def _finished(self, reason: FinishReason) -> ModelFinished:
        return ModelFinished(finish_reason=reason, usage=self._usage, response_id=self.response_id, model=self.model)

    def _begin(self, block: Literal["text", "reasoning"]) -> list[ModelEvent]:
        events = [*self.end_block(), *self._settle()]
        self._block = block
        return events

    def _find(self, slot: Hashable | None, call_id: str | None, name: str | None, args: str | None) -> _Call | None:
        """Return the call that a delta goes on with, ``None`` where it begins one."""
        if slot is not None:
            call = self._slots.get(slot)
        elif call_id:
            return next((c for c in self._calls if c.given_id == call_id), None)
        else:
            call = self._calls[-1] if self._calls else None
        if call is None or not name or not call.name:
            return call
        # With a name it may still be another call: some servers count every call as the first one, or not at all.
        if call_id and call.given_id:
            return call if call_id == call.given_id else None
        if name != call.name or (args and not call.is_blank and call.read_args() is not None):
            return None
        return call

    def _add(self, slot: Hashable | None, call_id: str | None, metadata: dict[str, Any] | None) -> _Call:
        call = _Call(call_id or None, metadata)
        self._calls.append(call)
        self._open.append(call)
        if slot is not None:
            self._slots[slot] = call
        return call

    def _announce(self, call: _Call, name: str) -> list[ModelEvent]:
        call.name = name
        call.id = self._unique_id(call.given_id)
        start = ToolInputStart(call.id, name)
        held = "".join(call.args)
        return [start, ToolInputDelta(call.id, held)] if held else [start]

    def _unique_id(self, given: str | None) -> str:
        if not isinstance(self._taken, set):
            self._taken = set(self._taken)
        taken: set[str] = self._taken
        call_id = given
        n = 0
        while not call_id or call_id in taken:
            n += 1
            call_id = f"{given}_{n}" if given else f"call_{n}"
        taken.add(call_id)
        return call_id

    def _settle(self) -> list[ModelEvent]:
        """Close the calls that are whole as something else begins; from the first on, so that they stay in order."""
        events: list[ModelEvent] = []
        while self._open:
            call = self._open[0]
            # Blank arguments of a call that has not ended may still come: calls may be interleaved.
            if not call.ended and (not call.name or call.is_blank or call.read_args() is None):
                break
            events += self._close(self._open.pop(0))
        return events

    def _close(self, call: _Call) -> list[ModelEvent]:
        events: list[ModelEvent] = [] if call.ended else [ToolInputEnd(call.id)]
        events.append(self._tool_call(call))
        return events

    def _is_sound(self, call: _Call) -> bool:
        return call.is_blank or call.read_args() is not None

    def _tool_call(self, call: _Call) -> ToolCall:
        call.ended = True
        args = {} if call.is_blank else call.read_args()
        raw_args = "".join(call.args) if args is None else None
        return ToolCall(call.id, call.name, args or {}, raw_args, call.metadata)

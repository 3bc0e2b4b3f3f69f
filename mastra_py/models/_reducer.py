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
from mastra_py.models._open_call import OpenCall

MAX_REPLY_CHARS = 16 * 1024 * 1024
"""How much a reply may hold: text, reasoning and arguments together. The longest of any model are far below."""

MAX_CALLS = 1_000
"""How many tool calls a reply may have."""

_BLOCK_CHARS = 100
"""What a block counts beside its content, so that very many empty ones are too many as well."""

_CUT: frozenset[FinishReason] = frozenset({"length", "content_filter", "refusal", "error"})
"""Ends at which the reply is not whole: a tool call that is still open then is none."""


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
        "_size",
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
        self._calls: list[OpenCall] = []
        self._open: list[OpenCall] = []  # those not settled yet, in order
        self._size = 0
        self._slots: dict[Hashable, OpenCall] = {}
        self._taken: Iterable[str] | set[str] = taken_ids
        self._usage = Usage()

    @property
    def is_empty(self) -> bool:
        """Whether nothing has come of the reply yet."""
        return self._size == 0

    def text(self, text: str) -> list[ModelEvent]:
        """Add to the text.

        Raises:
            StreamError: the reply is too long.
        """
        if not text or self.finished:
            return []
        if self._block == "text" and type(text) is str and self._size <= MAX_REPLY_CHARS:  # nearly every delta
            self._size += len(text)
            return [TextDelta(text)]
        self._grow(text)
        if self._block == "text":
            return [TextDelta(text)]
        return [*self._begin("text"), TextStart(), TextDelta(text)]

    def reasoning(self, text: str, metadata: dict[str, Any] | None = None) -> list[ModelEvent]:
        """Add to the reasoning; ``metadata`` is gathered for the end of its block, which it opens even without text.

        Raises:
            StreamError: the reply is too long.
        """
        if self.finished or not (text or metadata):
            return []
        self._grow(text)
        events: list[ModelEvent] = []
        if self._block != "reasoning":
            events = [*self._begin("reasoning"), ReasoningStart()]
        if metadata and metadata is not self._metadata:  # most wires say the same with every delta
            for value in metadata.values():
                if isinstance(value, str):
                    self._grow(value)
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

        Raises:
            StreamError: the arguments or the reply are too long, or the calls too many.
        """
        if self.finished:
            return []
        for text in (call_id, name, args):
            if text is not None:
                self._grow(text)
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
            call.add(args)
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
        input_tokens: object = None,
        output_tokens: object = None,
        cached_input_tokens: object = None,
        reasoning_tokens: object = None,
    ) -> None:
        """Take what the provider reports to be spent so far. The last value counts; nothing is added up.

        What is no number of tokens is passed over: a reply is worth more than its bill.
        """
        usage = self._usage
        if (tokens := _tokens(input_tokens)) is not None:
            usage.input_tokens = tokens
        if (tokens := _tokens(output_tokens)) is not None:
            usage.output_tokens = tokens
        if (tokens := _tokens(cached_input_tokens)) is not None:
            usage.cached_input_tokens = tokens
        if (tokens := _tokens(reasoning_tokens)) is not None:
            usage.reasoning_tokens = tokens

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
        response_id = self.response_id if isinstance(self.response_id, str) else None
        model = self.model if isinstance(self.model, str) else None
        return ModelFinished(finish_reason=reason, usage=self._usage, response_id=response_id, model=model)

    def _grow(self, text: str) -> None:
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] -- as servers send it
            msg = f"a text is expected, there is {type(text).__name__}"
            raise TypeError(msg)
        self._size += len(text)
        if self._size > MAX_REPLY_CHARS:
            msg = f"the reply is longer than {MAX_REPLY_CHARS} characters"
            raise StreamError(msg, retryable=False)

    def _begin(self, block: Literal["text", "reasoning"]) -> list[ModelEvent]:
        self._size += _BLOCK_CHARS
        events = [*self.end_block(), *self._settle()]
        self._block = block
        return events

    def _find(self, slot: Hashable | None, call_id: str | None, name: str | None, args: str | None) -> OpenCall | None:
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

    def _add(self, slot: Hashable | None, call_id: str | None, metadata: dict[str, Any] | None) -> OpenCall:
        if len(self._calls) >= MAX_CALLS:
            msg = f"the reply has more than {MAX_CALLS} tool calls"
            raise StreamError(msg, retryable=False)
        call = OpenCall(call_id or None, metadata)
        self._calls.append(call)
        self._open.append(call)
        if slot is not None:
            self._slots[slot] = call
        return call

    def _announce(self, call: OpenCall, name: str) -> list[ModelEvent]:
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

    def _close(self, call: OpenCall) -> list[ModelEvent]:
        events: list[ModelEvent] = [] if call.ended else [ToolInputEnd(call.id)]
        events.append(self._tool_call(call))
        return events

    def _is_sound(self, call: OpenCall) -> bool:
        return call.is_blank or call.read_args() is not None

    def _tool_call(self, call: OpenCall) -> ToolCall:
        call.ended = True
        args = {} if call.is_blank else call.read_args()
        raw_args = "".join(call.args) if args is None else None
        return ToolCall(call.id, call.name, args or {}, raw_args, call.metadata)


def _tokens(value: object) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None

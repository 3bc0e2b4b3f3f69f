"""Any conversation, made into one that every provider takes. Pure; it runs before each request.

Runs are cancelled between a call and its result, histories are cut, merged and moved from one provider to another, and
what tools found holds texts that cannot be encoded. A provider refuses such a conversation for ever, so it is repaired
here, once for all wires. What is repaired of its beginning does not depend on how it goes on: caches of prompts stay.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from logging import getLogger
from operator import is_
from typing import Any, TypeVar

from mastra_py._jsonable import clean_text
from mastra_py.messages import (
    INTERRUPTED,
    FeedbackPart,
    FilePart,
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    require_source,
)
from mastra_py.models._sendable import clean_tool, cleaned, encodable, is_clean
from mastra_py.models.base import ModelRequest

logger = getLogger("mastra_py")

OPENING = "(The conversation begins here.)"
"""Said by the user before the assistant's greeting, for models with which the user speaks first."""

NOTED = "Noted."
"""Said by the assistant between a tool's result and the user's words, for models that want it so."""

GO_ON = "Go on."
"""Said by the user after a conversation that ends with the assistant's words."""

_PartT = TypeVar("_PartT", bound=Part)

_PLACES: Mapping[Role, Mapping[type[Any], Role]] = {
    "system": {TextPart: "system", FeedbackPart: "user", ToolResultPart: "tool"},
    "user": {
        TextPart: "user",
        FeedbackPart: "user",
        ImagePart: "user",
        FilePart: "user",
        ToolResultPart: "tool",
    },
    "assistant": {
        TextPart: "assistant",
        ReasoningPart: "assistant",
        ToolCallPart: "assistant",
        FeedbackPart: "user",
        ToolResultPart: "tool",
    },
    "tool": {
        TextPart: "user",
        FeedbackPart: "user",
        ImagePart: "user",
        FilePart: "user",
        ToolResultPart: "tool",
    },
}
"""In which message the parts of a message belong, by its role.

Parts that are not listed are left out: no wire has a place for them. Words in a tool message are somebody's, so they
follow it as the user's; images of the assistant's own cannot be sent back.
"""

_SOURCE_FIELDS = ("url", "data", "media_type", "filename")
"""The texts of images and files; an image has no name."""


def repaired(request: ModelRequest, *, prefill: bool) -> ModelRequest:
    """Return ``request`` with a conversation that can be sent, and texts that can be encoded.

    The messages given are not changed; the ones returned are these same ones where nothing was wrong with them, and if
    nothing was wrong at all, the request is the same one too. Then:

    - Every assistant message with calls is followed by one tool message with a result for each, in the order of the
      calls. Ids occur once. A call without a result was interrupted; a result without a call before it is left out.
    - Tool and system messages apart, user and assistant alternate. No message is empty and no text blank.
    - The last word is the user's or a tool's. With ``prefill`` it may be the assistant's.
    - System messages stay where they are, but never between a call and its result.

    Of a conversation without anything in it nothing is left.

    Raises:
        UserError: the arguments or the result of a call hold something that has no JSON form.
    """
    repair = _Repair()
    for message in request.messages:
        repair.add(message)
    messages = repair.finished(prefill=prefill)
    changes: dict[str, Any] = {}
    if not _same(messages, request.messages):
        changes["messages"] = tuple(messages)
    if (system := _said(request.system)) != request.system:
        changes["system"] = system
    if not _same(tools := [clean_tool(tool) for tool in request.tools], request.tools):
        changes["tools"] = tuple(tools)
    return dataclasses.replace(request, **changes) if changes else request


def in_turns(messages: Sequence[Message], *, assistant_first: bool, user_after_tool: bool) -> Sequence[Message]:
    """Return a repaired conversation with the fixed lines that a model wants where speakers would not alternate."""
    lines: list[tuple[int, Message]] = []
    spoken = [(index, message.role) for index, message in enumerate(messages) if message.role != "system"]
    if not assistant_first and spoken and spoken[0][1] == "assistant":
        lines.append((spoken[0][0], Message("user", OPENING)))
    if not user_after_tool:
        lines += [
            (index, Message("assistant", NOTED))
            for (_, before), (index, role) in pairwise(spoken)
            if (before, role) == ("tool", "user")
        ]
    if not lines:
        return messages
    told = list(messages)
    for index, line in reversed(lines):
        told.insert(index, line)
    return told


@dataclass(slots=True, eq=False)
class _Call:
    """A call under the id that it is sent with. ``turn`` is the position of its turn."""

    id: str
    name: str
    turn: int
    result: ToolResultPart | None = None


@dataclass(slots=True, eq=False)
class _Turn:
    """A message in the making, and that with the results of its calls.

    ``source`` is the message it may turn out to be the same as, ``results_from`` likewise for the results. What follows
    a ``closed`` one is another turn, also where the same speaker goes on.
    """

    role: Role
    source: Message
    parts: list[Part] = field(default_factory=list[Part])
    calls: list[_Call] = field(default_factory=list[_Call])
    results_from: Message | None = None
    closed: bool = False

    @property
    def leads_nowhere(self) -> bool:
        """Whether it is thinking only: what it led to is not there, and providers refuse it."""
        return self.role == "assistant" and all(type(part) is ReasoningPart for part in self.parts)


class _Repair:
    """Takes the messages of a conversation one after another."""

    def __init__(self) -> None:
        self._turns: list[_Turn] = []
        self._waiting: dict[str, list[_Call]] = {}  # calls without a result, by the id that they came with
        self._interrupted: dict[str, list[_Call]] = {}  # calls whose result says only that they were interrupted
        self._ids: set[str] = set()
        self._copies: dict[str, int] = {}  # how often an id has been made into another

    def add(self, message: Message) -> None:
        # A later message is none of a turn that has calls, as their results come between; system messages stay apart.
        if self._turns and (self._turns[-1].calls or self._turns[-1].role == "system"):
            self._turns[-1].closed = True
        places = _PLACES[message.role]
        for part in message.parts:
            place = places.get(type(part))
            if place is None:
                logger.debug("a %s part of a %s message is not sent", part.type, message.role)
            elif type(part) is ToolResultPart:
                self._add_result(part, message)
            elif type(part) is ToolCallPart:
                self._add_call(part, message)
            elif (clean := _cleaned_part(part)) is not None:
                self._turn(place, message).parts.append(clean)

    def finished(self, *, prefill: bool) -> list[Message]:
        turns = self._turns
        if turns and turns[-1].leads_nowhere:
            turns.pop()
        messages: list[Message] = []
        for turn in turns:
            messages.append(_message(turn.role, turn.parts, turn.source))
            if turn.calls:
                results = [call.result or _interrupted(call) for call in turn.calls]
                messages.append(_message("tool", results, turn.results_from))
        spoken = (message.role for message in reversed(messages) if message.role != "system")
        if not prefill and next(spoken, None) == "assistant":
            messages.append(Message("user", GO_ON))
        return messages

    def _turn(self, role: Role, message: Message) -> _Turn:
        """Return the turn that the next part of ``role`` belongs to, which comes from ``message``."""
        if role != "assistant" and self._turns and self._turns[-1].leads_nowhere:
            self._turns.pop()
        if self._turns and not self._turns[-1].closed and self._turns[-1].role == role:
            return self._turns[-1]
        turn = _Turn(role, message)
        self._turns.append(turn)
        return turn

    def _add_call(self, part: ToolCallPart, message: Message) -> None:
        turn = self._turn("assistant", message)
        call_id = clean_text(part.tool_call_id)
        call = _Call(self._own_id(call_id), part.tool_name, len(self._turns) - 1)
        if call.id != call_id:
            _forget_led_to(turn.parts)
        turn.parts.append(_cleaned_call(part, call.id))
        turn.calls.append(call)
        self._waiting.setdefault(part.tool_call_id, []).append(call)

    def _own_id(self, call_id: str) -> str:
        """Return an id that no call before has: ``call_id``, or else one made of it."""
        if not call_id.strip():
            call_id = f"call_{len(self._ids) + 1}"
        own = call_id
        while own in self._ids:
            self._copies[call_id] = self._copies.get(call_id, 1) + 1
            own = f"{call_id}_{self._copies[call_id]}"
        self._ids.add(own)
        return own

    def _add_result(self, part: ToolResultPart, message: Message) -> None:
        if self._turns and self._turns[-1].calls:
            self._turns[-1].closed = True  # what the message says after a result was said knowing it
        says_nothing = part.is_error and part.result == INTERRUPTED
        calls = self._waiting.get(part.tool_call_id)
        if not calls and not says_nothing:
            calls = self._interrupted.get(part.tool_call_id)
        if not calls:
            logger.debug("a result of %r is not sent: call %r waits for none", part.tool_name, part.tool_call_id)
            return
        call = _asked(calls, part.tool_name)
        calls.remove(call)
        call.result = _cleaned_result(part, call.id)
        turn = self._turns[call.turn]
        turn.results_from = turn.results_from or message
        if says_nothing:
            self._interrupted.setdefault(part.tool_call_id, []).append(call)


def _forget_led_to(parts: list[Part]) -> None:
    """Take what it led to off the thinking at the end of ``parts``: the call that follows goes by another id now.

    It is a turn's second copy. Who wants thinking back with the very item that it led to refuses it before another one.
    """
    for index in range(len(parts) - 1, -1, -1):
        part = parts[index]
        if type(part) is not ReasoningPart:
            return
        if part.metadata and "led_to" in part.metadata:
            kept = {name: value for name, value in part.metadata.items() if name != "led_to"}
            parts[index] = dataclasses.replace(part, metadata=kept)


def _asked(calls: list[_Call], name: str) -> _Call:
    """Return which of several calls of one id a result of tool ``name`` is for.

    Some servers count their calls anew in each turn, and calls of an earlier turn may have been given up: the latest
    turn counts, and within it the order.
    """
    if len(calls) == 1:
        return calls[0]
    calls = [call for call in calls if call.name == name] or calls
    return next(call for call in calls if call.turn == calls[-1].turn)


def _interrupted(call: _Call) -> ToolResultPart:
    return ToolResultPart(call.id, clean_text(call.name), INTERRUPTED, is_error=True)


def _message(role: Role, parts: Sequence[Part], source: Message | None) -> Message:
    if source is not None and source.role == role and _same(parts, source.parts):
        return source
    return Message(role, parts)


def _same(these: Sequence[object], those: Sequence[object]) -> bool:
    return len(these) == len(those) and all(map(is_, these, those))


# --- parts


def _cleaned_part(part: Part) -> Part | None:
    """Return a part that is neither call nor result as it can be sent; ``None`` where it says nothing."""
    if type(part) is TextPart or type(part) is FeedbackPart:
        text = _said(part.text)
        return None if text is None else _with(part, {"text": text})
    if type(part) is ReasoningPart:
        return _cleaned_reasoning(part)
    if type(part) is ImagePart or type(part) is FilePart:
        require_source(part)
    return _with(part, {name: _cleaned_text(getattr(part, name)) for name in _SOURCE_FIELDS if hasattr(part, name)})


def _cleaned_reasoning(part: ReasoningPart) -> ReasoningPart | None:
    """Return thinking as it is wherever that can be encoded: its provider compares it with its signature."""
    text, metadata = part.text, part.metadata
    if not encodable(metadata):
        metadata = None
    if not encodable(text):
        text = clean_text(text)
        if metadata is not None and "signature" in metadata:
            metadata = None  # it would not be true of the text any more
    if not metadata and not text.strip():
        return None
    return _with(part, {"text": text, "metadata": metadata})


def _cleaned_call(part: ToolCallPart, call_id: str) -> ToolCallPart:
    args = part.args
    if not is_clean(args):
        args = cleaned(args, f"the arguments of call {part.tool_call_id!r} of tool {part.tool_name!r}")
    changes = {
        "tool_call_id": call_id,
        "tool_name": clean_text(part.tool_name),
        "args": args,
        "raw_args": _cleaned_text(part.raw_args),
        "metadata": part.metadata if encodable(part.metadata) else None,
    }
    return _with(part, changes)


def _cleaned_result(part: ToolResultPart, call_id: str) -> ToolResultPart:
    result = part.result
    if not is_clean(result):
        result = cleaned(result, f"the result of call {part.tool_call_id!r} of tool {part.tool_name!r}")
    return _with(part, {"tool_call_id": call_id, "tool_name": clean_text(part.tool_name), "result": result})


def _cleaned_text(text: str | None) -> str | None:
    return text and clean_text(text)


def _said(text: str | None) -> str | None:
    """Return the text clean; ``None`` where it is blank."""
    return None if not text or text.isspace() else clean_text(text)


def _with(part: _PartT, values: Mapping[str, Any]) -> _PartT:
    """Return ``part`` with these values: itself, where it has them already."""
    for name, value in values.items():
        own = getattr(part, name)
        if value is not own and not (type(value) is str and value == own):
            return dataclasses.replace(part, **values)
    return part

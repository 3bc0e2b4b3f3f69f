"""The events of one model reply, folded into what was said. Pure: no I/O, no waiting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mastra_py.errors import StreamError
from mastra_py.events import (
    FinishReason,
    ModelEvent,
    ModelFinished,
    ReasoningDelta,
    ReasoningEnd,
    TextDelta,
    ToolCall,
)
from mastra_py.messages import Message, Part, ReasoningPart, TextPart, ToolCallPart, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A whole reply of a model. ``attempts`` counts the calls it took, ``parts`` is what it said, in order."""

    parts: tuple[Part, ...]
    text: str
    reasoning: str
    tool_calls: tuple[ToolCallPart, ...]
    finish_reason: FinishReason
    usage: Usage
    attempts: int
    model: str | None
    response_id: str | None

    @property
    def message(self) -> Message:
        """The reply as an assistant message."""
        return Message("assistant", self.parts)


class ReplyFold:
    """Takes the events of one attempt as they come."""

    __slots__ = ("_parts", "_reasoning", "_text", "finished", "shown")

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self.finished: ModelFinished | None = None
        self.shown = False
        """Whether anything has come that a reader could see."""

    def add(self, event: ModelEvent) -> None:
        """Take one event.

        Raises:
            StreamError: the model goes on after it has finished.
        """
        if self.finished is not None:
            msg = f"the model sent {event.type} after it had finished"
            raise StreamError(msg, retryable=False)
        if type(event) is TextDelta:  # most events are this one
            self.shown = True
            if self._reasoning:
                self._close_reasoning(None, None)
            self._text.append(event.text)
            return
        if type(event) is ModelFinished:
            self.finished = event
            return
        self.shown = True
        if type(event) is ReasoningDelta:
            self._close_text()
            self._reasoning.append(event.text)
        elif type(event) is ReasoningEnd:
            self._close_text()
            self._close_reasoning(event.provider, event.metadata)
        elif type(event) is ToolCall:
            self._close_text()
            self._close_reasoning(None, None)
            part = ToolCallPart(event.tool_call_id, event.tool_name, event.args, event.raw_args, event.metadata)
            self._parts.append(part)

    @property
    def text(self) -> str:
        """All text so far."""
        return "".join([*[p.text for p in self._parts if type(p) is TextPart], *self._text])

    @property
    def shown_text(self) -> str | None:
        """The text that a reader could see; ``None`` where there is none, or where it is held back."""
        return (self.text or None) if self.shown else None

    def reply(self, attempts: int) -> Reply:
        """Return what was said. To be called once ``finished`` is set."""
        self._close_text()
        self._close_reasoning(None, None)
        end = self.finished or ModelFinished(finish_reason="other")
        calls = tuple([p for p in self._parts if type(p) is ToolCallPart])
        return Reply(
            parts=tuple(self._parts),
            text="".join([p.text for p in self._parts if type(p) is TextPart]),
            reasoning="".join([p.text for p in self._parts if type(p) is ReasoningPart]),
            tool_calls=calls,
            # Some servers label a turn with tool calls "stop": that the calls are there decides, not the label.
            finish_reason="tool_calls" if calls and end.finish_reason in {"stop", "other"} else end.finish_reason,
            usage=end.usage,
            attempts=attempts,
            model=end.model,
            response_id=end.response_id,
        )

    def _close_text(self) -> None:
        if self._text:
            text = "".join(self._text)
            self._text.clear()
            if self._parts and type(last := self._parts[-1]) is TextPart:
                last.text += text
            else:
                self._parts.append(TextPart(text))

    def _close_reasoning(self, provider: str | None, metadata: dict[str, Any] | None) -> None:
        if self._reasoning or metadata:
            self._parts.append(ReasoningPart("".join(self._reasoning), provider, metadata))
            self._reasoning.clear()

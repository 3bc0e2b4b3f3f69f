"""The input and output processors of one run: asked in order, each with notes of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast, get_args

from mastra_py._loop.accumulate import Reply
from mastra_py._loop.callbacks import passing_over, resolve
from mastra_py.errors import UserError
from mastra_py.events import ModelEvent, ModelFinished, TextDelta, TextEnd, TextStart, ToolCall, ToolInputStart
from mastra_py.messages import Message
from mastra_py.models.base import ModelRequest
from mastra_py.processors.base import InputProcessor, OutputProcessor, ProcessorContext

T = TypeVar("T")

INPUT_METHODS = ("process_input", "process_input_step")
ERROR_METHODS = ("process_api_error",)
OUTPUT_METHODS = ("process_output_stream", "process_output_step", "process_output_result")

_KEEP: Any = object()
"""A processor has no such method, or has failed: go on with what there was."""


class Pipeline:
    """The processors of one run. ``streams`` and ``holds`` say whether replies are changed event by event, or whole."""

    __slots__ = ("_contexts", "_inputs", "_outputs", "holds", "streams")

    def __init__(
        self, inputs: Sequence[InputProcessor], outputs: Sequence[OutputProcessor], context: ProcessorContext
    ) -> None:
        self._inputs = inputs
        self._outputs = outputs
        # By identity: one that stands among the input and the output processors has one set of notes.
        self._contexts = {id(p): dataclasses.replace(context, state={}) for p in (*inputs, *outputs)}
        self.streams = any(hasattr(p, "process_output_stream") for p in outputs)
        self.holds = any(hasattr(p, m) for p in outputs for m in OUTPUT_METHODS[1:])

    def at(self, step: int, attempt: int) -> None:
        """Tell the processors where the run is."""
        for context in self._contexts.values():
            context.step, context.attempt = step, attempt

    async def input(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return the messages that the run begins with."""
        for processor in self._inputs:
            messages = await self._change(processor, "process_input", messages, _read_messages)
        return messages

    async def request(self, request: ModelRequest) -> ModelRequest:
        """Return the request to send."""
        for processor in self._inputs:
            request = await self._change(processor, "process_input_step", request, _read_request)
        return request

    async def event(self, event: ModelEvent) -> ModelEvent | None:
        """Return the event to pass on; ``None`` where a processor dropped it."""
        step, current = event.step, event
        for processor in self._outputs:
            changed = await self._ask(processor, "process_output_stream", current, _read_event)
            if changed is None:
                return None
            if changed is not _KEEP and changed is not current:
                # A new event does not know its step, and a processor may return the same one time and again.
                current = dataclasses.replace(changed, step=step)
        return current

    async def text(self, text: str, *, answer: bool) -> str:
        """Return the text of a whole reply to go on with."""
        for method in OUTPUT_METHODS[1 : 3 if answer else 2]:
            for processor in self._outputs:
                text = await self._change(processor, method, text, _read_text)
        return text

    async def _change(self, processor: Any, method: str, value: T, read: Callable[[object], T]) -> T:
        changed = await self._ask(processor, method, value, read)
        return value if changed is None or changed is _KEEP else changed

    async def _ask(self, processor: Any, method: str, value: object, read: Callable[[object], Any]) -> Any:
        function = getattr(processor, method, None)
        if function is None:
            return _KEEP
        with passing_over(processor.id, method):
            answer: object = await resolve(function(value, self._contexts[id(processor)]))
            return None if answer is None else read(answer)
        return _KEEP


def _read_messages(answer: object) -> tuple[Message, ...]:
    messages = tuple(cast("Iterable[object]", answer)) if isinstance(answer, Iterable) else ()
    if not messages or not all(isinstance(m, Message) for m in messages):
        msg = f"process_input must return messages or None, got {answer!r}"
        raise TypeError(msg)
    return cast("tuple[Message, ...]", messages)


def _read_request(answer: object) -> ModelRequest:
    if not isinstance(answer, ModelRequest):
        msg = f"process_input_step must return a ModelRequest or None, got {answer!r}"
        raise TypeError(msg)
    return answer


_EVENTS = frozenset(get_args(ModelEvent)) - {ModelFinished}


def _read_event(answer: object) -> ModelEvent:
    if type(answer) not in _EVENTS:
        msg = f"process_output_stream must return an event of a reply or None, got {answer!r}"
        raise TypeError(msg)
    return cast("ModelEvent", answer)


def _read_text(answer: object) -> str:
    if not isinstance(answer, str):
        msg = f"the processed text must be a str or None, got {answer!r}"
        raise TypeError(msg)
    return answer


def check_processors(value: object, where: str, methods: Sequence[str]) -> tuple[Any, ...]:
    """Return ``value``, one processor or several, each with an id and at least one of ``methods``.

    Raises:
        UserError: one of them has none.
    """
    items = cast("Sequence[Any]", value if isinstance(value, list | tuple) else (value,))
    for item in items:
        if isinstance(item, type) or not hasattr(item, "id") or not any(hasattr(item, m) for m in methods):
            name = f"the class {item.__name__} and not an instance" if isinstance(item, type) else repr(item)
            msg = (
                f"{where} holds {name}, which is no processor for that: it needs an id and one of {', '.join(methods)}"
            )
            raise UserError(msg)
    return tuple(items)


def with_text(events: Sequence[ModelEvent], reply: Reply, text: str) -> list[ModelEvent]:
    """Return the held-back events of a reply, with ``text`` in the place of what it said.

    Where it had said nothing, the text comes before its tool calls.
    """
    if text == reply.text:
        return list(events)
    kept = [event for event in events if type(event) not in _TEXT]
    if text:
        before = [type(event) in (_TEXT if reply.text else _ENDS) for event in events].index(True)
        at = len([event for event in events[:before] if type(event) not in _TEXT])
        step = events[0].step
        kept[at:at] = [TextStart(step=step), TextDelta(text, step=step), TextEnd(step=step)]
    return kept


_TEXT = frozenset({TextStart, TextDelta, TextEnd})
_ENDS = frozenset({ToolInputStart, ToolCall, ModelFinished})

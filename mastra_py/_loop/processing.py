"""The input and output processors of one run: asked in order, each with notes of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from mastra_py._loop.accumulate import Reply
from mastra_py._loop.callbacks import logger, resolve
from mastra_py.errors import MastraError, TripWire, UserError
from mastra_py.events import ModelEvent, TextDelta, TextEnd, TextStart
from mastra_py.messages import Message
from mastra_py.models.base import ModelRequest
from mastra_py.processors.base import InputProcessor, OutputProcessor, ProcessorContext

INPUT_METHODS = ("process_input", "process_input_step")
ERROR_METHODS = ("process_api_error",)
OUTPUT_METHODS = ("process_output_stream", "process_output_step", "process_output_result")

_KEEP: Any = object()
"""A processor raised: go on with what there was."""


class Pipeline:
    """The processors of one run. ``streams`` and ``holds`` say whether replies are changed event by event, or whole."""

    __slots__ = ("_context", "_inputs", "_outputs", "_states", "holds", "streams")

    def __init__(
        self, inputs: Sequence[InputProcessor], outputs: Sequence[OutputProcessor], context: ProcessorContext
    ) -> None:
        self._inputs = inputs
        self._outputs = outputs
        self._context = context
        self._states: dict[int, dict[str, Any]] = {}
        self.streams = any(hasattr(p, "process_output_stream") for p in outputs)
        self.holds = any(hasattr(p, m) for p in outputs for m in OUTPUT_METHODS[1:])

    async def input(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return the messages that the run begins with."""
        for processor in self._inputs:
            changed = await self._ask(processor, "process_input", messages, step=0)
            messages = messages if changed is None or changed is _KEEP else tuple(changed)
        return messages

    async def request(self, request: ModelRequest, step: int) -> ModelRequest:
        """Return the request to send."""
        for processor in self._inputs:
            changed = await self._ask(processor, "process_input_step", request, step=step)
            request = request if changed is None or changed is _KEEP else changed
        return request

    async def event(self, event: ModelEvent, step: int) -> ModelEvent | None:
        """Return the event to pass on; ``None`` where a processor dropped it."""
        current: ModelEvent | None = event
        for processor in self._outputs:
            if current is not None and hasattr(processor, "process_output_stream"):
                changed = await self._ask(processor, "process_output_stream", current, step=step)
                current = current if changed is _KEEP else changed
        return current

    async def text(self, text: str, step: int, *, answer: bool) -> str:
        """Return the text of a whole reply to go on with."""
        for method in OUTPUT_METHODS[1 : 3 if answer else 2]:
            for processor in self._outputs:
                changed = await self._ask(processor, method, text, step=step)
                text = text if changed is None or changed is _KEEP else changed
        return text

    async def _ask(self, processor: Any, method: str, value: object, *, step: int) -> Any:
        function = getattr(processor, method, None)
        if function is None:
            return _KEEP
        context = self._context
        context.step = step
        context.state = self._states.setdefault(id(processor), {})
        try:
            return await resolve(function(value, context))
        except MastraError as exc:
            if isinstance(exc, TripWire) and exc.processor_id is None:
                exc.processor_id = processor.id
            raise
        except Exception:  # noqa: BLE001 -- a faulty processor is passed over, like a faulty callback
            logger.exception("processor %r raised in %s; it is passed over", processor.id, method)
            return _KEEP


def check_processors(value: object, where: str, methods: Sequence[str]) -> tuple[Any, ...]:
    """Return the processors in ``value``, each with an id and at least one of ``methods``.

    Raises:
        UserError: one of them has none.
    """
    items = cast("Sequence[Any]", value if isinstance(value, list | tuple) else (value,))
    for item in items:
        if isinstance(item, type) or not hasattr(item, "id") or not any(hasattr(item, m) for m in methods):
            name = item.__name__ if isinstance(item, type) else repr(item)
            msg = (
                f"{where} holds {name}, which is no processor for that: it needs an id and one of {', '.join(methods)}"
            )
            raise UserError(msg)
    return tuple(items)


def with_text(events: Sequence[ModelEvent], reply: Reply, text: str) -> list[ModelEvent]:
    """Return the held-back events of a reply, with ``text`` in the place of what it said."""
    if text == reply.text:
        return list(events)
    kept: list[ModelEvent] = []
    place: int | None = None
    for event in events:
        if type(event) in {TextStart, TextDelta, TextEnd}:
            place = len(kept) if place is None else place
        else:
            kept.append(event)
    if text:
        step = events[0].step if events else 0
        at = len(kept) - 1 if place is None else place  # before model-finish
        kept[at:at] = [TextStart(step=step), TextDelta(text, step=step), TextEnd(step=step)]
    return kept

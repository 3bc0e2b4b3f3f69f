"""One reply of OpenAI's Responses API: its events, as a server sends them, made into model events. No I/O.

Other servers and proxies speak this wire too, and each a little differently: reading is forgiving where the meaning is
clear.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from mastra_py.errors import ModelError, StreamError
from mastra_py.events import FinishReason, ModelEvent
from mastra_py.models._error_body import is_error
from mastra_py.models._errors import model_error
from mastra_py.models._reducer import ReplyReducer
from mastra_py.models._responses_items import thought_of
from mastra_py.models._responses_output import (
    KINDS,
    Kind,
    OutputItem,
    OutputItems,
    args_of,
    parts_of,
    text_of,
    texts_of,
    whole_of,
)

_PLACES: Mapping[str, tuple[Kind, str]] = {
    "response.output_text": ("message", "text"),
    "response.refusal": ("message", "refusal"),
    "response.reasoning_summary_text": ("reasoning", "summary"),
    "response.reasoning_summary": ("reasoning", "summary"),
    "response.reasoning_text": ("reasoning", "content"),
    "response.reasoning": ("reasoning", "content"),
    "response.function_call_arguments": ("function_call", "arguments"),
}
"""What events tell of, by their types without the ending: as ``.delta`` a piece of it, as ``.done`` the whole."""

_DELTAS = {f"{name}.delta": place for name, place in _PLACES.items()}
_WHOLES = {f"{name}.done": place for name, place in _PLACES.items()}

_PARTS: Mapping[str, tuple[Kind, str]] = {
    "output_text": ("message", "text"),
    "text": ("message", "text"),
    "refusal": ("message", "refusal"),
    "summary_text": ("reasoning", "summary"),
    "reasoning_text": ("reasoning", "content"),
}
"""What the parts of items are, by their types."""

_PART_ENDS = frozenset({"response.content_part.done", "response.reasoning_summary_part.done"})

_ENDS = frozenset({"response.completed", "response.incomplete", "response.done"})

_CUT_BY: Mapping[str, FinishReason] = {"content_filter": "content_filter", "max_messages": "other", "steered": "other"}
"""Why a reply is incomplete; anything else is the limit of its length."""


class ResponsesDecoder:
    """Reads the events of one reply."""

    __slots__ = ("_current", "_items", "_owes_led_to", "_reducer", "_refused", "_server")

    def __init__(self, reducer: ReplyReducer, *, server: str) -> None:
        """Decode for ``reducer``; reasoning is marked as that of ``server``."""
        self._reducer = reducer
        self._server = server
        self._items = OutputItems()
        self._current: OutputItem | None = None  # the one that is being shown
        # The current item is whole reasoning that can go back, and what it leads to is to come.
        self._owes_led_to = False
        self._refused = False

    @property
    def finished(self) -> bool:
        """Whether the reply is whole."""
        return self._reducer.finished

    def decode(self, chunk: dict[str, Any], name: str | None = None) -> list[ModelEvent]:
        """Return the events of one event of the wire; of one that is unknown, none.

        Raises:
            ModelError: it is an error that the provider reports within the reply.
        """
        kind: str = chunk.get("type") or name or ""
        if (place := _DELTAS.get(kind)) is not None:  # nearly every event
            return self._read_delta(chunk, place)
        response = self._read_response(chunk)
        if kind in {"error", "response.error", "response.failed"} or name == "error" or chunk.get("error"):
            raise _error(chunk, response)
        if kind == "response.cancelled":
            msg = "the provider cancelled the reply"
            raise StreamError(msg, body=chunk)
        if kind in _ENDS:
            return self._read_end(chunk, response)
        if kind in {"response.output_item.added", "response.output_item.done"}:
            return self._read_item(chunk["item"], chunk.get("output_index"), is_whole=kind.endswith("done"))
        if (place := _WHOLES.get(kind)) is not None:
            return self._read_part(chunk, place, args_of(chunk) if place[0] == "function_call" else text_of(chunk))
        if kind in _PART_ENDS:
            part: dict[str, Any] = chunk["part"]
            if (place := _PARTS.get(part.get("type", ""))) is not None:
                return self._read_part(chunk, place, text_of(part))
        elif not kind.startswith("response.") and is_error(chunk):
            raise _error(chunk, response)
        return []

    def end(self, *, marked: bool) -> list[ModelEvent]:
        """End the reply: at its ``[DONE]``, or else at the end of its body.

        Raises:
            StreamError: it broke off.
        """
        if not marked:
            msg = "the reply broke off: it ended without saying how"
            raise StreamError(msg)
        return self._finish("stop")

    def fail(self) -> list[ModelEvent]:
        """End the reply because it failed."""
        return self._reducer.fail()

    # --- the reply as a whole

    def _read_response(self, chunk: dict[str, Any]) -> dict[str, Any]:
        response: dict[str, Any] = chunk.get("response") or {}
        reducer = self._reducer
        reducer.response_id = reducer.response_id or response.get("id") or None
        reducer.model = reducer.model or response.get("model") or None
        if usage := response.get("usage") or chunk.get("usage"):
            self._read_usage(usage)
        return response

    def _read_usage(self, usage: dict[str, Any]) -> None:
        input_details: dict[str, Any] = usage.get("input_tokens_details") or {}
        output_details: dict[str, Any] = usage.get("output_tokens_details") or {}
        self._reducer.usage(
            input_tokens=usage.get("input_tokens"),
            output_tokens=usage.get("output_tokens"),
            cached_input_tokens=input_details.get("cached_tokens"),
            reasoning_tokens=output_details.get("reasoning_tokens"),
        )

    def _read_end(self, chunk: dict[str, Any], response: dict[str, Any]) -> list[ModelEvent]:
        status = response.get("status")
        if status in {"failed", "cancelled"} or response.get("error"):
            raise _error(chunk, response)
        output = [raw for raw in response.get("output") or () if raw.get("type") in KINDS]
        events: list[ModelEvent] = []
        for raw, item in zip(output, self._items.of_output(output, [whole_of(raw) for raw in output]), strict=True):
            events += self._complete(raw, item, None)
        details: dict[str, Any] = response.get("incomplete_details") or {}
        if details.get("reason") or "incomplete" in {status, chunk.get("type", "").removeprefix("response.")}:
            return events + self._finish(_CUT_BY.get(details.get("reason") or "", "length"))
        return events + self._finish("stop")

    def _finish(self, reason: FinishReason) -> list[ModelEvent]:
        reducer = self._reducer
        reducer.reason = "refusal" if self._refused else reason
        events: list[ModelEvent] = []
        for item in self._items.waiting_calls():
            events += reducer.tool(item, item.call_id, item.name, item.text)
        return events + reducer.finish()

    # --- items and their parts

    def _read_delta(self, chunk: dict[str, Any], place: tuple[Kind, str]) -> list[ModelEvent]:
        text = chunk.get("delta")
        if text is None:
            return []
        item, events = self._item_of(place[0], chunk)
        return events + self._take(item, place[1], chunk, text if type(text) is str else text_of(text), is_whole=False)

    def _read_part(self, chunk: dict[str, Any], place: tuple[Kind, str], text: str) -> list[ModelEvent]:
        item, events = self._item_of(place[0], chunk)
        return events + self._take(item, place[1], chunk, text, is_whole=True)

    def _read_item(self, raw: dict[str, Any], index: int | None, *, is_whole: bool) -> list[ModelEvent]:
        kind = KINDS.get(raw.get("type", ""))
        if kind is None:  # what a tool of the provider's own did
            return self._turn_to(None, raw)
        if is_whole:
            return self._complete(raw, self._items.of_end(kind, raw, index, whole_of(raw)), index)
        item = self._items.of_start(kind, raw, index)
        if item is not None:
            item.learn(raw, index)
            return []
        item, events = self._begin(kind, raw, index)
        if kind != "function_call":
            return events
        args = whole_of(raw)
        if args:
            item.add(args, "arguments")
        return events + self._show_call(item, args)

    def _item_of(self, kind: Kind, chunk: dict[str, Any]) -> tuple[OutputItem, list[ModelEvent]]:
        item_id, index = chunk.get("item_id"), chunk.get("output_index")
        item = self._items.of_piece(kind, item_id, index)
        return self._begin(kind, {"type": kind, "id": item_id}, index) if item is None else (item, [])

    def _begin(self, kind: Kind, raw: dict[str, Any], index: int | None) -> tuple[OutputItem, list[ModelEvent]]:
        item = self._items.begin(kind)
        item.learn(raw, index)
        return item, self._turn_to(item, raw)

    def _turn_to(self, item: OutputItem | None, raw: dict[str, Any]) -> list[ModelEvent]:
        """Go on with another item: the block of the one before is over, and what it led to is known."""
        if item is not None and item is self._current:
            return []
        self._current = item
        events: list[ModelEvent] = []
        if self._owes_led_to:
            self._owes_led_to = False
            known_by = "id" if raw.get("type") == "reasoning" else "call_id"  # one thought may lead to the next
            led_to = {name: raw[name] for name in ("type", known_by) if raw.get(name)}
            events = self._reducer.reasoning("", {"led_to": led_to})
        return events + self._reducer.end_block()

    def _take(
        self, item: OutputItem, channel: str, chunk: dict[str, Any], text: str, *, is_whole: bool
    ) -> list[ModelEvent]:
        """Take a piece of an item, or with ``is_whole`` all of one of its parts."""
        if channel == "refusal":
            self._refused = True
        place: Hashable = (channel, chunk.get("summary_index" if channel == "summary" else "content_index"))
        events: list[ModelEvent] = []
        if item.kind == "function_call":
            place = "arguments"
        elif item.kind == "reasoning":
            item.channel = item.channel or channel
            if item.channel != channel:  # some servers tell the same as a summary and as it is
                return []
            if item is self._current and item.begins_part(place):
                events = self._reducer.end_block()
        if is_whole:
            text = item.end_part(text, place)
        else:
            item.add(text, place)
        return events + self._show(item, text)

    def _show(self, item: OutputItem, text: str) -> list[ModelEvent]:
        if not text:
            return []
        if item.kind == "function_call":
            return self._show_call(item, text)
        show = self._reducer.text if item.kind == "message" else self._reducer.reasoning
        if item is self._current:
            return show(text)
        return self._turn_to(item, {"type": item.kind}) + show(text)

    def _show_call(self, item: OutputItem, args: str) -> list[ModelEvent]:
        """Tell of a call's arguments. It waits for a name and an id: once they are told they stand."""
        if item.shown:
            return self._reducer.tool(item, None, None, args) if args else []
        if item.name is None or (item.call_id is None and not item.done):
            return []
        item.shown = True
        return self._reducer.tool(item, item.call_id, item.name, item.text)

    def _complete(self, raw: dict[str, Any], item: OutputItem | None, index: int | None) -> list[ModelEvent]:
        """Take an item as a whole. ``item`` is what is known of it, ``None`` where nothing is."""
        events: list[ModelEvent] = []
        if item is None:
            item, events = self._begin(KINDS[raw["type"]], raw, index)
        item.learn(raw, index)
        if item.kind == "reasoning":
            return events + self._complete_thought(item, raw)
        text = item.end(whole_of(raw))
        if item.kind == "function_call":
            events += self._show_call(item, text)
            return events if raw.get("status") == "incomplete" else events + self._reducer.end_tool(item)
        if any(part.get("type") == "refusal" for part in parts_of(raw)):
            self._refused = True
        events += self._show(item, text)
        return events + self._reducer.end_block() if item is self._current else events

    def _complete_thought(self, item: OutputItem, raw: dict[str, Any]) -> list[ModelEvent]:
        if item.done and item is not self._current:
            return []  # it is over; what follows it is there already
        summary, content = (texts_of(raw.get(name)) for name in ("summary", "content"))
        item.channel = item.channel or ("summary" if any(summary) else "content")
        parts = summary if item.channel == "summary" else content
        events: list[ModelEvent] = []
        if item.pieces:
            events += self._show(item, item.end("".join(parts)))
        else:
            for n, text in enumerate(parts):
                events += self._take(item, item.channel, {"summary_index": n, "content_index": n}, text, is_whole=True)
        item.done = True
        thought = thought_of(raw)
        if thought is None:
            return events + self._reducer.end_block() if item is self._current else events
        events += self._turn_to(item, raw)
        self._owes_led_to = True
        return events + self._reducer.reasoning("", {"server": self._server, "item": thought})


def _error(chunk: dict[str, Any], response: dict[str, Any]) -> ModelError:
    """Return the error that an event reports: within its response, beside it, or as the event itself."""
    details: dict[str, Any] = response.get("status_details") or {}
    said: Any = response.get("error") or chunk.get("error") or details.get("error")
    status = chunk.get("status_code") or chunk.get("status")
    if not said:
        said = {name: chunk[name] for name in ("code", "message", "param", "detail") if chunk.get(name)}
    if not said:
        return StreamError("the provider ended the reply with an error that it does not name", body=chunk)
    return model_error(status=status if isinstance(status, int) else None, body={"error": said})

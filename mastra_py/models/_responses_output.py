"""The output items of one Responses reply: which item a piece belongs to, and what of it has been told already. Pure.

An item is told up to four times: in deltas, by the end of a part, by the end of the item, and in the reply as a whole.
Servers leave any of these out, number items wrongly, or give an item another id each time. What was shown cannot be
taken back, and nothing may be shown twice.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Kind: TypeAlias = Literal["message", "reasoning", "function_call"]

KINDS: Mapping[str, Kind] = {"message": "message", "reasoning": "reasoning", "function_call": "function_call"}
"""The items that are read, by their types."""


@dataclass(slots=True, eq=False)
class _Part:
    pieces: list[str] = field(default_factory=list[str])
    said: str | None = None
    """What its end has told it to be."""


@dataclass(slots=True, eq=False)
class OutputItem:
    """One item and what is known of it so far.

    Attributes:
        kind: what it is.
        ids: all ids that it came with.
        index: its place in the output.
        call_id: the id of the call that it is.
        name: the tool that is called.
        channel: which of two forms of the thinking is shown.
        shown: whether it is told of, where it is a call.
        done: whether its end was told.
        pieces: its text, or the arguments of the call.
    """

    kind: Kind
    ids: set[str] = field(default_factory=set[str])
    index: int | None = None
    call_id: str | None = None
    name: str | None = None
    channel: str | None = None
    shown: bool = False
    done: bool = False
    pieces: list[str] = field(default_factory=list[str])
    _parts: dict[Hashable, _Part] = field(default_factory=dict[Hashable, _Part])

    @property
    def text(self) -> str:
        """All that was told of it, in the order in which it was."""
        return "".join(self.pieces)

    def begins_part(self, place: Hashable) -> bool:
        """Whether what comes at ``place`` is a further part of it, and not the first one."""
        return bool(self.pieces) and place not in self._parts

    def add(self, text: str, place: Hashable) -> None:
        """Take a delta of the part at ``place``."""
        part = self._parts.get(place)
        if part is None or part.said is not None:  # a server that counts every part as the same one
            part = self._parts[place] = _Part()
        part.pieces.append(text)
        self.pieces.append(text)

    def end_part(self, text: str, place: Hashable) -> str:
        """Take a part as a whole and return what had not been told of it."""
        part = self._parts.get(place)
        if part is None or (part.said is not None and not text.startswith(part.said)):
            part = self._parts[place] = _Part()
        rest = _rest("".join(part.pieces) if part.said is None else part.said, text)
        part.said = text
        if rest:
            part.pieces.append(rest)
            self.pieces.append(rest)
        return rest

    def end(self, text: str) -> str:
        """Take the item as a whole and return what had not been told of it."""
        self.done = True
        rest = _rest(self.text, text)
        if rest:
            self.pieces.append(rest)
        return rest

    def learn(self, item: dict[str, Any], index: int | None) -> None:
        """Take what an event tells of the item beside its text."""
        if item_id := item.get("id"):
            self.ids.add(item_id)
        if self.index is None:
            self.index = index
        self.call_id = self.call_id or item.get("call_id") or None
        self.name = self.name or item.get("name") or None


class OutputItems:
    """The items of one reply, in the order in which they came."""

    __slots__ = ("_items", "_last")

    def __init__(self) -> None:
        self._items: list[OutputItem] = []
        self._last: OutputItem | None = None

    def begin(self, kind: Kind) -> OutputItem:
        """Return a new item."""
        item = OutputItem(kind)
        self._items.append(item)
        return item

    def waiting_calls(self) -> list[OutputItem]:
        """Return the calls that are not told of, as something of them is missing."""
        return [item for item in self._items if item.kind == "function_call" and not item.shown]

    def of_piece(self, kind: Kind, item_id: str | None, index: int | None) -> OutputItem | None:
        """Return the item that a delta, or the end of a part, belongs to; ``None`` where it begins one."""
        last = self._last
        if last is None or last.kind != kind or item_id not in last.ids or _differ(last.index, index):
            last = self._last = self._of_piece(kind, item_id, index)
        return last

    def _of_piece(self, kind: Kind, item_id: str | None, index: int | None) -> OutputItem | None:
        known = _nearest([item for item in self._items if item.kind == kind and item_id in item.ids], index)
        if known is not None:
            return known
        pending = [item for item in self._items if item.kind == kind and not item.done]
        if index is not None:
            found = next((item for item in reversed(pending) if item.index == index), None)
            if found is not None or item_id:
                return found
        return pending[-1] if pending else None

    def of_start(self, kind: Kind, raw: dict[str, Any], index: int | None) -> OutputItem | None:
        """Return the item whose beginning is told once more; ``None`` where it is news."""
        for item in self._items:
            if item.kind != kind or _are_other_calls(item, raw) or _differ(item.index, index):
                continue
            if raw.get("id") in item.ids or (item.call_id and item.call_id == raw.get("call_id")):
                return item
        return None

    def of_end(self, kind: Kind, raw: dict[str, Any], index: int | None, text: str) -> OutputItem | None:
        """Return the item whose end is told; ``None`` where nothing had been told of it."""
        known = [item for item in self._items if item.kind == kind and not _are_other_calls(item, raw)]
        found = _nearest([item for item in known if raw.get("id") in item.ids], index)
        if found is None and raw.get("call_id"):
            found = next((item for item in known if item.call_id and not item.done), None)
        if found is not None:
            return found
        pending = [item for item in known if not item.done]
        if index is not None:
            found = next((item for item in reversed(pending) if item.index == index), None)
            if found is not None:
                return found
        for item in known:  # told again, under another id
            if item.done and not _differ(item.index, index) and item.text == text:
                return item
        for item in pending:
            if text.startswith(item.text) and (item.pieces or not _differ(item.index, index)):
                return item
        return None

    def of_output(self, output: Sequence[dict[str, Any]], texts: Sequence[str]) -> list[OutputItem | None]:
        """Return which item each one of a whole output is; ``None`` for those that only the output has."""
        left = list(self._items)
        found: list[OutputItem | None] = [None] * len(output)
        for is_it in (_is_surely, _is_likely):
            for n, raw in enumerate(output):
                if found[n] is None:
                    found[n] = next((item for item in left if is_it(item, raw, texts[n])), None)
                    left = [item for item in left if item is not found[n]]
        return found


def _nearest(items: Sequence[OutputItem], index: int | None) -> OutputItem | None:
    """Return which of the items of one id is at ``index``, else the first one: either may be wrong."""
    return next((item for item in items if not _differ(item.index, index)), items[0] if items else None)


def _is_surely(item: OutputItem, raw: dict[str, Any], _text: str) -> bool:
    if item.kind != raw["type"] or _are_other_calls(item, raw):
        return False
    return raw.get("id") in item.ids or bool(item.call_id and item.call_id == raw.get("call_id"))


def _is_likely(item: OutputItem, raw: dict[str, Any], text: str) -> bool:
    """Whether it is the same by its kind, which for a call is not enough: a call that is told twice runs twice."""
    if item.kind != raw["type"]:
        return False
    return item.kind != "function_call" or (item.name == raw.get("name") and text.startswith(item.text))


def _are_other_calls(item: OutputItem, raw: dict[str, Any]) -> bool:
    return bool(item.call_id and raw.get("call_id") and item.call_id != raw["call_id"])


def _differ(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one != other


# --- what is in the events


def whole_of(raw: Mapping[str, Any]) -> str:
    """Return all the text of an item, or the arguments of a call. Of thinking it is the one form that has some."""
    if raw.get("type") == "function_call":
        return args_of(raw)
    if raw.get("type") == "reasoning":
        return "".join(texts_of(raw.get("summary"))) or "".join(texts_of(raw.get("content")))
    return "".join(text_of(part) for part in parts_of(raw))


def parts_of(raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of a message; a plain text is one."""
    content: Any = raw.get("content")
    if isinstance(content, str):
        return [{"type": "output_text", "text": content}]
    return [part for part in content or () if part.get("type") in {"output_text", "text", "refusal"}]


def texts_of(parts: Any) -> list[str]:
    """Return the texts of the parts of thinking."""
    return [parts] if isinstance(parts, str) else [text_of(part) for part in parts or ()]


def text_of(part: Any) -> str:
    """Return the text of a part, or of the event that ends one."""
    return part if isinstance(part, str) else part.get("text") or part.get("refusal") or ""


def args_of(raw: Mapping[str, Any]) -> str:
    """Return the arguments of a call as JSON text, which a few servers send as the object."""
    args = raw.get("arguments")
    return args if isinstance(args, str) else "" if args is None else json.dumps(args, ensure_ascii=False)


def _rest(told: str, whole: str) -> str:
    return whole[len(told) :] if whole.startswith(told) else ""

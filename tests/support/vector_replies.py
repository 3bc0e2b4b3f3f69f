"""What a recorded reply says to a reader that wants JSON: ours, and theirs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

Facts = dict[str, Any]

CUT_OFF = {"length", "content-filter", "content_filter", "refusal"}
"""Finish reasons of a reply that is not whole: ours does not read it (D4)."""

_BEGINS = re.compile(r'\{\s*("|\}|\Z)')


class OneOf:
    """Equal to each of its items: what is not fixed."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, *items: Any) -> None:
        self.items = items

    def __eq__(self, other: object) -> bool:
        return other in self.items

    def __repr__(self) -> str:
        return f"one of {self.items}"


def is_whole(turn: Facts) -> bool:
    """Return whether a scripted reply was finished."""
    return turn.get("finish_reason") not in CUT_OFF


def our_object(text: str) -> Facts | None:
    """Return the object in a reply: the whole reply, else its last top-level one; ``None`` where that is broken."""
    whole = _decoded(text.strip())
    if whole is not _NOTHING:
        return whole if isinstance(whole, dict) else None
    return next(iter([*_objects(text)][::-1]), None)


def their_object(text: str) -> Facts | None:
    """Return what the recorded program takes for the object: the first if the reply begins with it, else the last."""
    whole = _decoded(text.strip())
    if whole is not _NOTHING:
        return whole if isinstance(whole, dict) else None
    found = [*_objects(text)]
    if text.lstrip().startswith("{"):
        return found[0]
    return next(iter([each for each in found if each is not None][::-1]), None)


_NOTHING = object()


def _decoded(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refused)
    except ValueError:
        return _NOTHING


def _objects(text: str) -> Iterator[Facts | None]:
    """Yield the top-level objects of a text, ``None`` for one that is broken: nothing comes after it."""
    position = 0
    while (start := text.find("{", position)) >= 0:
        try:
            value, position = _DECODER.raw_decode(text, start)
            yield value
        except ValueError:
            if _BEGINS.match(text, start):
                yield None
                return
            position = start + 1


def _refused(name: str) -> Any:
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_constant=_refused)


def said_lines(text: str | None) -> list[str]:
    """Return the lines of a text that say something: how they are set out is not compared."""
    return [line.strip() for line in (text or "").splitlines() if line.strip()]


def said(text: str | None) -> str:
    """Return a text as it is compared."""
    return "\n".join(said_lines(text))


def all_said_in_order(lines: list[str], pieces: Iterable[list[str]]) -> bool:
    """Return whether each piece stands in ``lines``, one line after the other, and one piece after the other."""
    at = 0
    for piece in pieces:
        while lines[at : at + len(piece)] != piece:
            at += 1
            if at > len(lines):
                return False
        at += len(piece)
    return True


def our_score(text: str) -> float | None:
    """Return the score in a reply as ours reads it: a number, or a decimal string (D38)."""
    score = (our_object(text) or {}).get("score")
    if isinstance(score, str):
        return float(score) if _DECIMAL.fullmatch(score.strip()) else None
    return score if is_finite_number(score) and not isinstance(score, bool) else None


def their_score(text: str) -> float | None:
    """Return the score in a reply as the recorded program reads it."""
    score = (their_object(text) or {}).get("score")
    return score if is_finite_number(score) and not isinstance(score, bool) else None


def is_finite_number(value: Any) -> bool:
    try:
        return isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:  # an integer that no float can hold
        return False


_DECIMAL = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")

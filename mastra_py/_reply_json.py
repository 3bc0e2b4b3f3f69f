"""The JSON in a reply: what a model says around its answer, or quotes before it, is not the answer."""

from __future__ import annotations

import json
import math
import re
from typing import Any


class Unusable(Exception):  # noqa: N818 -- a finding that leads to a re-ask, not an error of the program
    """A reply does not have the wanted form; the text says what is wrong, to the model."""


def read_json_reply(text: str) -> tuple[Any, str]:
    """Return the JSON value of a reply and its source text: the whole reply, else its last top-level object.

    The last one counts or none does: where it is broken or cut off, an object that stands before it is an example or a
    draft, and one within it is a part.

    Raises:
        Unusable: there is none.
    """
    whole = text.strip()
    try:
        return _DECODER.decode(whole), whole
    except (ValueError, RecursionError):
        pass
    for source in reversed(_top_level_values(whole)):
        if source.startswith("["):
            msg = "its last JSON value is a list, not an object"
            raise Unusable(msg)
        try:
            return _DECODER.decode(source), source
        except (ValueError, RecursionError):
            msg = "its last JSON object is cut off or broken"
            raise Unusable(msg) from None
    msg = "there is no JSON object in it" if whole else "it is empty"
    raise Unusable(msg)


def _top_level_values(text: str) -> list[str]:
    """Return what stands between braces, or between brackets round braces, and in nothing else. One pass.

    The last of them may lack its end.
    """
    found: list[str] = []
    depth, start, position = 0, 0, 0
    while (mark := _MARKS.search(text, position)) is not None:
        position = mark.end()
        sign = mark[0][0]
        if depth and sign == '"':
            string = _STRING.match(text, mark.start())
            position = string.end() if string is not None else len(text)
        elif sign in "{[":
            if not depth and not _BEGINS_LIKE_JSON.match(text, mark.start()):
                continue  # a brace or bracket of prose
            start = start if depth else mark.start()
            depth += 1
        elif depth and sign in "}]":
            depth -= 1
            if not depth:
                found.append(text[start:position])
    return [*found, text[start:]] if depth else found


def refuse_contradictions(source: str) -> None:
    """Raise :class:`Unusable` where an object of the JSON text ``source`` gives a key two different values."""
    json.loads(source, object_pairs_hook=_without_contradictions)


def _without_contradictions(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found and found[key] != value:
            msg = f"it gives {key!r} two different values"
            raise Unusable(msg)
        found[key] = value
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


_DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)
_MARKS = re.compile(r"[{}\[\]\"]")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BEGINS_LIKE_JSON = re.compile(
    r"""\[[\s\[]*\{                              # a list of objects
      | \{\s*(?: \}                              # an object that is empty,
             | "(?:[^"\\]|\\.)*"\s*(?: : | \Z )  # or begins with a key,
             | '[^']*'\s*(?: : | \Z )             # if only as another language has it,
             | \w+\s*:
             | ["'][^"']*\Z | \Z )               # or is cut off before one
    """,
    re.VERBOSE | re.DOTALL,
)

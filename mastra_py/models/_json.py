"""Reading JSON that a model or its server wrote: fast where it is sound, forgiving where its text is not."""

from __future__ import annotations

import json
import math
import re
from typing import Any, cast

from jiter import from_json

_HUGE = re.compile(r"\d{300}|\d[eE]\+?\d{3}")
"""Numbers that may be beyond what a float holds."""


def read_json(data: bytes) -> Any:
    """Return the value of ``data``.

    A lone surrogate, and a byte that is no UTF-8, becomes U+FFFD; two escapes that are a pair become one character.

    Raises:
        ValueError: it is no JSON.
    """
    try:
        return from_json(data)
    except ValueError:
        return _read_leniently(data.decode("utf-8", "replace"))


def read_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object that ``text`` is, or ``None``.

    NaN and Infinity are no JSON here, nor is a number that is too large for a float: it would be read as infinite.
    """
    data = text.encode("utf-8", "replace")
    try:
        value = from_json(data, allow_inf_nan=False)
    except ValueError:
        try:
            value = _read_leniently(text)
        except ValueError:
            return None
    if not isinstance(value, dict) or (_HUGE.search(text) and not _is_finite(cast("Any", value))):
        return None
    return cast("dict[str, Any]", value)


def _is_finite(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_is_finite(v) for v in cast("dict[str, Any]", value).values())
    if isinstance(value, list):
        return all(_is_finite(v) for v in cast("list[Any]", value))
    return not isinstance(value, float) or math.isfinite(value)


def _read_leniently(text: str) -> Any:
    try:
        value = json.loads(text, parse_constant=_refuse)
        clean = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return json.loads(clean)
    except RecursionError as exc:
        msg = "it is nested too deeply"
        raise ValueError(msg) from exc


def _refuse(constant: str) -> float:
    msg = f"{constant} is no JSON"
    raise ValueError(msg)

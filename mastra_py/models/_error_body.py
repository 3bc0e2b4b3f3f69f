"""What the body of an error says: its code, type and message, in whichever shape a server puts them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from mastra_py.models._json import read_json

HTTP_STATUS = re.compile(r"[1-5]\d\d")

_DEEPEST = 4  # errors within errors: proxies wrap those of others, some as text
_LONGEST_PAGE = 300  # characters of a page for people
_MOST_PROBLEMS = 10  # of a validation; and so many steps of the path to each

_CODES = ("code", "error_code", "errorCode")
_TYPES = ("type", "error_type", "__type", "status", "title")
_MESSAGES = ("message", "detail", "msg", "error_message", "error_description", "title")

_SAYS_NOTHING = frozenset({"", "none", "null", "error", "unknown", "unknown_error"})
"""Codes and types without a meaning, in lower case."""

_TELLS_LITTLE = re.compile(r"provider returned (?:an )?error|upstream error|bad request", re.IGNORECASE)
"""Messages of proxies that keep the words of the server behind them elsewhere."""

_TAGS = re.compile(r"<(script|style)\b.*?</\1\s*>|<[^>]*>", re.DOTALL | re.IGNORECASE)


def read_error_body(body: object) -> dict[str, str]:
    """Return what an error body says, as far as it does: ``code``, ``type``, ``message`` and ``request_id``.

    Known are ``{"error": {...}}``, ``{"error": "text"}``, ``{"message": ...}``, ``{"detail": ...}``, ``{"errors":
    [...]}``, a list of one of these, each within another or as its text, and plain text. A code may stand in the
    error's ``details``, ``innererror`` or ``metadata``.
    """
    said = _read(body, 0)
    return {name: text for name, text in said.items() if text}


def is_error(fields: Mapping[str, object]) -> bool:
    """Return whether an object is an error: it holds one, says that it is one, or is a code beside its message."""
    if fields.get("error") or fields.get("object") == "error":
        return True
    code = next((found for name in _CODES if (found := fields.get(name))), None)
    return code not in (None, 200, "200") and _message(fields) is not None


def retry_delay(body: object) -> float | None:
    """Return the seconds that a body asks to wait, as Google's do: ``{"details": [{"retryDelay": "36s"}]}``."""
    for detail in _details(_error_of(body)):
        found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)s", text_of(detail.get("retryDelay")) or "")
        if found:
            return float(found[1])
    return None


def text_of(value: object) -> str | None:
    """Return a text or a number as text, anything else and an empty text as ``None``."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**18:
        return str(value)
    return None


def _read(body: object, level: int) -> dict[str, str | None]:
    if isinstance(body, str):
        return _read_text(body, level)
    error = _error_of(body)
    if not error:
        return {}
    words = {name: text_of(error.get(name)) for name in (*_CODES, *_TYPES)}
    code = next((word for name in _CODES if (word := _meaningful(words[name]))), None)
    if code is None or HTTP_STATUS.fullmatch(code):
        code = _inner_code(error) or code
    kind = next((word for name in _TYPES if (word := _meaningful(words[name])) and not word.isdigit()), None)
    message = _message(error)
    said: dict[str, str | None] = {"code": code, "type": kind, "message": message, "request_id": _request_id(body)}
    if level < _DEEPEST:
        _add_words_behind(said, error, level)
    return said


def _read_text(text: str, level: int) -> dict[str, str | None]:
    if text.lstrip()[:1] in ("{", "[") and level < _DEEPEST:
        try:
            inner = _read(read_json(text.encode("utf-8", "replace")), level + 1)
        except ValueError:
            inner = {}
        if inner.get("message"):
            return inner
    if text.lstrip()[:1] == "<":  # a page for people, from what stands before the provider
        text = " ".join(_TAGS.sub(" ", text).split())[:_LONGEST_PAGE]
    return {"message": text or None}


def _error_of(body: object) -> Mapping[str, object]:
    """Return the object that tells of the error: the innermost one."""
    fields: Mapping[str, object] = {}
    for _ in range(_DEEPEST):
        if isinstance(body, list):
            body = next(iter(cast("list[object]", body)), None)
        if not isinstance(body, Mapping):
            break
        fields = cast("Mapping[str, object]", body)
        inner = fields.get("error")
        if isinstance(inner, str) and inner:
            return {"message": inner, **fields}
        body = inner or (fields.get("errors") if not fields.get("message") else None) or fields.get("message")
    return fields


def _message(error: Mapping[str, object]) -> str | None:
    for name in _MESSAGES:
        value = error.get(name)
        if isinstance(value, list):  # of a validation: [{"loc": [...], "msg": "..."}]
            value = "; ".join(_validation(cast("list[object]", value)))
        if isinstance(value, Mapping):
            value = _message(cast("Mapping[str, object]", value)) if name == "detail" else None
        if text := text_of(value):
            return text
    return None


def _validation(problems: list[object]) -> Iterator[str]:
    for problem in problems[:_MOST_PROBLEMS]:
        if isinstance(problem, str):
            yield problem
        elif isinstance(problem, Mapping):
            fields = cast("Mapping[str, Any]", problem)
            place = fields.get("loc")
            path = ".".join(map(str, cast("list[object]", place)[:_MOST_PROBLEMS])) if isinstance(place, list) else ""
            if text := text_of(fields.get("msg")):
                yield f"{path}: {text}" if path else text


def _inner_code(error: Mapping[str, object]) -> str | None:
    for place in (*_details(error), *_details({"details": error.get("innererror")})):
        for name in ("error_code", "code", "reason"):
            if code := _meaningful(text_of(place.get(name))):
                return code
    metadata = error.get("metadata")
    if isinstance(metadata, Mapping) and "flagged_input" in metadata:
        return "moderation"
    return None


def _details(error: Mapping[str, object]) -> list[Mapping[str, object]]:
    details = error.get("details") or error.get("errors")
    if isinstance(details, Mapping):
        return [cast("Mapping[str, object]", details)]
    if not isinstance(details, list):
        return []
    return [cast("Mapping[str, object]", item) for item in cast("list[object]", details) if isinstance(item, Mapping)]


def _add_words_behind(said: dict[str, str | None], error: Mapping[str, object], level: int) -> None:
    """Add what a proxy passes on as text: the error of the server behind it."""
    message = said["message"] or ""
    behind: dict[str, str | None] = {}
    if message.lstrip()[:1] in ("{", "["):
        behind = _read_text(message, level)
        said["message"] = behind.get("message") or message
    metadata = error.get("metadata")
    raw = cast("Mapping[str, object]", metadata).get("raw") if isinstance(metadata, Mapping) else None
    if raw and _TELLS_LITTLE.match(message):
        behind = _read(raw, level + 1)
        if behind.get("message"):
            said["message"] = f"{message}: {behind['message']}"
    for name in ("code", "type"):
        known = said[name]
        if known is None or HTTP_STATUS.fullmatch(known):
            said[name] = behind.get(name) or known


def _request_id(body: object) -> str | None:
    if not isinstance(body, Mapping):
        return None
    fields = cast("Mapping[str, object]", body)
    return text_of(fields.get("request_id")) or text_of(fields.get("requestId"))


def _meaningful(word: str | None) -> str | None:
    return None if word is None or word.lower() in _SAYS_NOTHING else word

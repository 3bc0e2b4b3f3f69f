"""Python values as JSON values, and text that can be sent.

Results of tools pass through here before they enter a conversation: from there on everything is JSON that any provider
accepts.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import math
from collections import deque
from collections.abc import Generator, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, NoReturn, cast

from pydantic_core import to_jsonable_python

from mastra_py.errors import ToolError

_LISTS = (list, tuple, AbstractSet, deque, range, Generator)
_INFINITIES = {math.inf: "Infinity", -math.inf: "-Infinity"}


def to_json_value(value: object, *, owner: str = "the tool") -> Any:
    """Return ``value`` as a JSON value, for a model to read.

    Dates are ISO texts, a Decimal and a UUID are texts, bytes are base64, an enum is its value, a set is a list, sorted
    where it sorts; dataclasses are objects, and so are pydantic models, by their own JSON rules. NaN and the
    infinities, which JSON lacks, are the texts "NaN", "Infinity" and "-Infinity". Texts are cleaned, see
    :func:`clean_text`.

    Raises:
        ToolError: something in it has no JSON form; the error names ``owner`` and the type.
    """
    try:
        return _jsonable(value)
    except _NoJsonFormError as exc:
        msg = (
            f"{owner} returned a {_type_name(exc.found)}, which has no JSON form; return text, numbers, lists or dicts"
        )
        raise ToolError(msg) from None
    except (ValueError, RecursionError) as exc:  # it contains itself, or a model's own JSON rules fail
        msg = f"{owner} returned a {_type_name(type(value))}, which has no JSON form: {exc}"
        raise ToolError(msg) from exc


def clean_text(text: str) -> str:
    """Return ``text`` as it can be sent: surrogate pairs joined, lone surrogates and NUL replaced by U+FFFD."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\0", "\ufffd")


class _NoJsonFormError(Exception):
    def __init__(self, found: type) -> None:
        super().__init__(found)
        self.found = found


def _refuse(value: object) -> NoReturn:
    raise _NoJsonFormError(type(value))


def _type_name(found: type) -> str:
    return found.__qualname__ if found.__module__ == "builtins" else f"{found.__module__}.{found.__qualname__}"


def _jsonable(value: Any) -> Any:
    if value is None or value is True or value is False or type(value) is int:
        return value
    if isinstance(value, enum.Enum):  # before str and int: it may be one of them too
        return _jsonable(value.value)
    if isinstance(value, str):
        return clean_text(str.__str__(value))
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _INFINITIES.get(value, "NaN")
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(cast("bytes", value)).decode()
    if (serializer := getattr(cast("Any", type(value)), "__pydantic_serializer__", None)) is not None:
        return _jsonable(_pydantic_jsonable(value, serializer))
    if isinstance(value, Mapping):
        return {_json_key(k): _jsonable(v) for k, v in cast("Mapping[object, object]", value).items()}
    if isinstance(value, _LISTS):
        return [_jsonable(v) for v in _in_order(cast("Iterable[object]", value))]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _jsonable(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return to_jsonable_python(value, fallback=_refuse)


def _pydantic_jsonable(value: object, serializer: Any) -> Any:
    try:
        return to_jsonable_python(value, bytes_mode="base64", fallback=_refuse)
    except UnicodeDecodeError:  # bytes in a model that are no text: its own JSON rules fail, so ours must do
        return serializer.to_python(value, by_alias=True)


def _json_key(key: object) -> str:
    if isinstance(key, str):
        return clean_text(str.__str__(key))
    return next(iter(to_jsonable_python({key: None}, bytes_mode="base64", fallback=_refuse)))


def _in_order(values: Iterable[object]) -> Iterable[object]:
    """Return the elements of a set in an order that does not change from run to run, where they have one."""
    if not isinstance(values, AbstractSet):
        return values
    try:
        return sorted(cast("Iterable[Any]", values))
    except TypeError:
        return values

"""What can be encoded as the JSON of a request, and making it so. What is sound already is returned as it is. Pure."""

from __future__ import annotations

import copy
import json
import math
from typing import Any, cast

from mastra_py._jsonable import clean_text, to_json_value
from mastra_py.errors import ToolError, UserError
from mastra_py.tools import Tool

_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def encodable(value: object) -> bool:
    """Return whether ``value`` can stand in a JSON body as it is."""
    if is_clean(value):
        return True
    try:
        _JSON.encode(value).encode()
    except (TypeError, ValueError, RecursionError):  # a UnicodeEncodeError is a ValueError
        return False
    return True


def is_clean(value: object) -> bool:
    """Return whether ``value`` is JSON, and all texts in it are as :func:`~mastra_py._jsonable.clean_text` has them."""
    try:
        return _is_clean(value)
    except RecursionError:
        return False


def _is_clean(value: object) -> bool:
    kind = type(value)
    if kind is str:
        return _is_clean_text(cast("str", value))
    if value is None or kind is int or kind is bool:
        return True
    if kind is dict:
        for key, item in cast("dict[object, object]", value).items():
            if type(key) is not str or not _is_clean_text(key):
                return False
            if type(item) is str:  # a call less for what most values are
                if not _is_clean_text(item):
                    return False
            elif not _is_clean(item):
                return False
        return True
    if kind is list:
        return all(map(_is_clean, cast("list[object]", value)))
    return kind is float and math.isfinite(cast("float", value))


def _is_clean_text(text: str) -> bool:
    if text.isascii():  # nearly all of them
        return "\0" not in text
    return clean_text(text) == text


def cleaned(value: Any, owner: str) -> Any:
    """Return ``value`` as clean JSON, see :func:`~mastra_py._jsonable.to_json_value`.

    Raises:
        UserError: something in it has no JSON form; the error names ``owner``.
    """
    try:
        return to_json_value(value)
    except ToolError as exc:
        msg = f"{owner} cannot be sent: give text, numbers, lists or dicts ({exc})"
        raise UserError(msg) from exc


def clean_tool(tool: Tool) -> Tool:
    """Return ``tool``, or a copy of it whose description and parameters can be encoded.

    Raises:
        UserError: its parameters hold something that has no JSON form.
    """
    if encodable(tool.description) and encodable(tool.parameters):
        return tool
    clean = copy.copy(tool)
    clean.description = clean_text(tool.description) if tool.description else tool.description
    clean.parameters = cleaned(tool.parameters, f"the parameters of tool {tool.name!r}")
    return clean

"""Values that each wire writes in the same way. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from mastra_py.errors import UserError
from mastra_py.messages import FilePart, ImagePart, ToolResultPart
from mastra_py.tools import Tool


def json_text(value: object) -> str:
    """Return a JSON value as text: the arguments of a call, or its result."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def result_text(part: ToolResultPart) -> str:
    """Return the result of a call as text: one that is a text goes as it is, without quotes."""
    return part.result if isinstance(part.result, str) else json_text(part.result)


def typed_data(part: ImagePart | FilePart) -> tuple[str, str]:
    """Return the media type of ``part``, and its data in base64.

    Raises:
        UserError: there is none, or it is not said of what type it is.
    """
    if part.data is None or part.media_type is None:
        msg = f"{type(part).__name__} needs a url, or data together with its media_type"
        raise UserError(msg)
    return part.media_type, part.data


def data_url(part: ImagePart | FilePart) -> str:
    """Return the data of ``part`` as a URL; raises as :func:`typed_data`."""
    media_type, data = typed_data(part)
    return f"data:{media_type};base64,{data}"


def chosen_tool(choice: str, tools: Sequence[Tool]) -> str:
    """Return the name of the tool that a request forces.

    Raises:
        UserError: it is none of the request's tools.
    """
    names = [tool.name for tool in tools]
    if choice not in names:
        msg = f"tool_choice {choice!r} is no tool of this request; there are: {', '.join(names)}"
        raise UserError(msg)
    return choice

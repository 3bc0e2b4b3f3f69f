"""A conversation as OpenAI's Responses API wants it: a list of items. Pure.

Items go back as what they say and without the ids that the server gave them. By an id the server looks the item up,
and it may not be there: nothing is kept with ``store=False``, elsewhere not for ever, and not on each machine of a
provider. So reasoning goes back encrypted, whether the reply is kept or not, and only where it is valid: to its own
server, before the very item that it led to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from mastra_py.messages import (
    FeedbackPart,
    FilePart,
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from mastra_py.models._wire_names import wire_id, wire_name
from mastra_py.models._wire_values import data_url, json_text, result_text

PROVIDER = "openai"

_ID_LIMIT = 64
"""Characters that the id of a call may have."""

_WANTS_IDS = ".azure.com"
"""Hosts under it refuse reasoning without its id, and before a message they want that one's id, too."""


def items_of(message: Message, *, server: str, reasons: bool) -> list[dict[str, Any]]:
    """Return the items of a message.

    ``server`` is the base URL that they go to. ``reasons`` says that the model takes reasoning back.

    Raises:
        UserError: a part has no place on this wire.
    """
    match message.role:
        case "system":
            return [{"type": "message", "role": "system", "content": message.text}]
        case "user":
            content = [part for part in map(_user_part, message.parts) if part]
            if len(content) == 1 and "text" in content[0]:
                content = content[0]["text"]
            return [{"type": "message", "role": "user", "content": content}] if content else []
        case "assistant":
            return _assistant(message, server, reasons=reasons)
        case "tool":
            return [_tool_result(result) for result in message.tool_results]


def thought_of(item: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what a reasoning item takes back: encrypted content, or the thinking itself; ``None`` where neither is."""
    kept = {name: item[name] for name in ("id", "summary", "content", "encrypted_content") if item.get(name)}
    return kept if "encrypted_content" in kept or "content" in kept else None


def _user_part(part: Part) -> dict[str, Any] | None:
    match part:
        case TextPart(text=text) | FeedbackPart(text=text):
            return {"type": "input_text", "text": text}
        case ImagePart(url=url):
            return {"type": "input_image", "detail": "auto", "image_url": url or data_url(part)}
        case FilePart(url=url, filename=filename):
            if url and not url.startswith("data:"):
                return {"type": "input_file", "file_url": url}
            return {"type": "input_file", "filename": filename or "file", "file_data": url or data_url(part)}
        case _:
            return None


def _assistant(message: Message, server: str, *, reasons: bool) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    thinking: ReasoningPart | None = None  # what the last of the items was made of, where it is thinking
    for part in reversed(message.parts):  # whether reasoning is valid depends on what follows it
        match part:
            case TextPart(text=text):
                # A plain text: as a list of output_text, other servers want the id that the item had.
                items.append({"type": "message", "role": "assistant", "content": text})
                thinking = None
            case ToolCallPart():
                items.append(_tool_call(part))
                thinking = None
            case ReasoningPart() if reasons and items:
                if thought := _thought(part, server, items[-1], thinking):
                    items += thought
                    thinking = part
            case _:
                pass
    return items[::-1]


def _thought(
    part: ReasoningPart, server: str, following: dict[str, Any], thinking: ReasoningPart | None
) -> list[dict[str, Any]]:
    """Return the reasoning item before ``following``, none where it has no place there.

    ``thinking`` is what ``following`` was made of, where that is reasoning too.
    """
    metadata = part.metadata or {}
    if part.provider != PROVIDER or metadata.get("server") != server or not _leads_to(metadata, following, thinking):
        return []
    thought = thought_of(cast("Mapping[str, Any]", metadata["item"]))
    if thought is None:
        return []
    if "encrypted_content" in thought:
        wants_ids = (urlsplit(server).hostname or "").endswith(_WANTS_IDS)
        if wants_ids and following["type"] == "message":
            return []
        if not wants_ids:
            thought.pop("id", None)
    return [{"type": "reasoning", "summary": [], **thought}]


def _leads_to(metadata: Mapping[str, Any], item: dict[str, Any], thinking: ReasoningPart | None) -> bool:
    """Whether ``item`` is what the reasoning led to. In between, ids of calls may have been told apart by a number."""
    led_to = metadata.get("led_to")
    if not isinstance(led_to, dict) or "item" not in metadata:
        return False
    wanted = cast("dict[str, Any]", led_to)
    if wanted.get("type") != item["type"]:
        return False
    if thinking is not None:
        return wanted.get("id") in (None, cast("Mapping[str, Any]", (thinking.metadata or {})["item"]).get("id"))
    call_id = wanted.get("call_id")
    return call_id is None or re.fullmatch(rf"{re.escape(_call_id(call_id))}(?:_\d+)?", item["call_id"]) is not None


def _tool_call(call: ToolCallPart) -> dict[str, Any]:
    # Arguments that were no JSON object go back as the `{}` that `args` then is: servers parse them.
    return {
        "type": "function_call",
        "call_id": _call_id(call.tool_call_id),
        "name": wire_name(call.tool_name),
        "arguments": json_text(call.args),
    }


def _tool_result(part: ToolResultPart) -> dict[str, Any]:
    # The wire has no mark for errors. Their text says what went wrong and goes as it is: a ToolError chose its words.
    return {"type": "function_call_output", "call_id": _call_id(part.tool_call_id), "output": result_text(part)}


def _call_id(call_id: str) -> str:
    """Return the id of a call as this wire takes it: of any characters, but not too many."""
    return call_id if 0 < len(call_id) <= _ID_LIMIT else wire_id(call_id, _ID_LIMIT)

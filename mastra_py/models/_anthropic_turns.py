"""A conversation as Anthropic's Messages API wants it: turns of user and assistant made of blocks. Pure.

That API is strict: it refuses empty texts, and ids and names that other providers allow. The conversation has been
repaired before: results follow their calls at once.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from mastra_py.errors import UserError
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
from mastra_py.models._wire_values import result_text, typed_data

_Block: TypeAlias = dict[str, Any]

_DATA_URL = re.compile(r"data:(?P<media_type>[^;,]+);base64,(?P<data>.*)", re.DOTALL)

_NOTHING_SAID = "The tool failed and gave no reason."
"""Content of an error result without text, which this wire refuses."""


def turns_of(messages: Sequence[Message], server: str) -> list[dict[str, Any]]:
    """Return the turns of user and assistant: they alternate, and none is empty.

    Raises:
        UserError: nothing is left to be sent, or a part has no place on this wire.
    """
    turns: list[dict[str, Any]] = []
    for message in messages:
        blocks = _blocks(message, server)
        if not blocks:
            continue
        role = "assistant" if message.role == "assistant" else "user"
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    if not turns:
        msg = "Anthropic wants at least one message with something in it, and there is none"
        raise UserError(msg)
    last = turns[-1]["content"][-1]
    if turns[-1]["role"] == "assistant" and last["type"] == "text":
        last["text"] = last["text"].rstrip()  # words to go on with must not end in white space
    return turns


def _blocks(message: Message, server: str) -> list[_Block]:
    match message.role:
        case "system":
            return []  # it belongs to the system prompt: older models know no other place for it
        case "user":
            return [block for block in map(_user_block, message.parts) if block]
        case "assistant":
            return _assistant(message, server)
        case "tool":
            return [_tool_result(result) for result in message.tool_results]


def _user_block(part: Part) -> _Block | None:
    match part:
        case TextPart(text=text) | FeedbackPart(text=text):
            return _text(text)
        case ImagePart():
            return {"type": "image", "source": _source(part)}
        case FilePart():
            return _file(part)
        case _:
            return None


def _text(text: str) -> _Block | None:
    return {"type": "text", "text": text} if text.strip() else None


def _source(part: ImagePart | FilePart) -> dict[str, Any]:
    if part.url is None:
        media_type, data = typed_data(part)
        return {"type": "base64", "media_type": media_type, "data": data}
    if inline := _DATA_URL.fullmatch(part.url):
        return {"type": "base64", "media_type": inline["media_type"], "data": inline["data"]}
    return {"type": "url", "url": part.url}


def _file(part: FilePart) -> _Block:
    source = _source(part)
    media_type = str(source.get("media_type") or part.media_type or "application/pdf")
    if media_type.startswith("image/"):
        return {"type": "image", "source": source}
    if media_type.startswith("text/") and source["type"] == "base64":
        source = {"type": "text", "media_type": "text/plain", "data": _decoded(source["data"])}
    elif media_type != "application/pdf":
        msg = f"Anthropic takes files that are images, PDFs, or text given as data, not {media_type!r}"
        raise UserError(msg)
    document = {"type": "document", "source": source}
    return {**document, "title": part.filename} if part.filename else document


def _decoded(data: str) -> str:
    try:
        return base64.b64decode(data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as exc:
        msg = f"the data of a FilePart of text must be UTF-8 in base64: {exc}"
        raise UserError(msg) from exc


def _assistant(message: Message, server: str) -> list[_Block]:
    blocks = [block for block in (_assistant_block(part, server) for part in message.parts) if block]
    # Thinking that nothing follows is refused, and of no use: what it led to is not there. Nor is a part of a turn's
    # thinking taken without the rest.
    if blocks and blocks[-1]["type"].endswith("thinking"):
        return [block for block in blocks if not block["type"].endswith("thinking")]
    return blocks


def _assistant_block(part: Part, server: str) -> _Block | None:
    match part:
        case TextPart(text=text):
            return _text(text)
        case ReasoningPart(provider="anthropic", metadata=dict() as metadata) if (
            metadata.get("server", server) == server
        ):
            return _thinking(part.text, metadata)
        case ToolCallPart():
            # Arguments that were no JSON object go back as the `{}` that `args` then is.
            name = wire_name(part.tool_name)  # one that a model of another provider made up
            return {"type": "tool_use", "id": wire_id(part.tool_call_id), "name": name, "input": part.args}
        case _:
            return None


def _thinking(text: str, metadata: Mapping[str, Any]) -> _Block | None:
    """Return thinking as its server wants it back, byte for byte; ``None`` where it has not signed it."""
    if "redacted" in metadata:
        return {"type": "redacted_thinking", "data": metadata["redacted"]}
    if "signature" in metadata:
        return {"type": "thinking", "thinking": text, "signature": metadata["signature"]}
    return None


def _tool_result(part: ToolResultPart) -> _Block:
    block: _Block = {"type": "tool_result", "tool_use_id": wire_id(part.tool_call_id)}
    content = result_text(part)
    if content.strip():
        block["content"] = content
    elif part.is_error:
        block["content"] = _NOTHING_SAID
    if part.is_error:
        block["is_error"] = True
    return block

"""Events of OpenAI's Responses API, as that API itself sends them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any


def named(*payloads: Mapping[str, Any]) -> list[str]:
    """Return one server-sent event a payload, named by its type."""
    return [f"event: {payload['type']}\ndata: {json.dumps(payload)}\n\n" for payload in payloads]


def added(item: Mapping[str, Any], index: int = 0) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(item: Mapping[str, Any], index: int = 0) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def text_item(*texts: str, item_id: str = "msg_1") -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"type": "message", "id": item_id, "role": "assistant", "status": "completed", "content": content}


def call_item(call_id: str, name: str, args: str, item_id: str | None = None) -> dict[str, Any]:
    item_id = item_id or f"fc_{call_id}"
    head = {"type": "function_call", "id": item_id, "status": "completed"}
    return {**head, "call_id": call_id, "name": name, "arguments": args}


def thought_item(encrypted: str | None, *summary: str, item_id: str = "rs_1") -> dict[str, Any]:
    parts = [{"type": "summary_text", "text": text} for text in summary]
    return {"type": "reasoning", "id": item_id, "summary": parts, "encrypted_content": encrypted}


def delta(text: str, item_id: str = "msg_1", index: int = 0, part: int = 0) -> dict[str, Any]:
    place = {"item_id": item_id, "output_index": index, "content_index": part}
    return {"type": "response.output_text.delta", **place, "delta": text}


def args_delta(text: str, item_id: str, index: int = 0) -> dict[str, Any]:
    place = {"item_id": item_id, "output_index": index}
    return {"type": "response.function_call_arguments.delta", **place, "delta": text}


def message(*pieces: str, item_id: str = "msg_1", index: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the events of a message, one delta a piece."""
    item = text_item("".join(pieces), item_id=item_id)
    yield added({**item, "status": "in_progress", "content": []}, index)
    for piece in pieces:
        yield delta(piece, item_id, index)
    yield done(item, index)


def replied(
    *output: Mapping[str, Any], usage: Mapping[str, Any] | None = None, incomplete: str | None = None
) -> dict[str, Any]:
    """Return the event that ends a reply."""
    status = "incomplete" if incomplete else "completed"
    head = {"id": "r1", "object": "response", "status": status, "model": "m1", "error": None}
    details = {"reason": incomplete} if incomplete else None
    return {
        "type": f"response.{status}",
        "response": {**head, "incomplete_details": details, "output": list(output), "usage": usage},
    }

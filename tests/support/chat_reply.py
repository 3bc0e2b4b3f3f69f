"""Scripted turns as the replies of a server of OpenAI's: what code that names a real model talks to in tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from mastra_py.errors import ModelError
from mastra_py.testing import Turn
from support.http_server import Reply, Request, chunks, sse
from support.responses_events import message, named, replied


def reply_to(request: Request, turn: str | Turn) -> Reply:
    """Return what says what ``turn`` says on the wire that the request is on."""
    return responses_reply(turn) if request.path.endswith("/responses") else chat_reply(turn)


def chat_reply(turn: str | Turn) -> Reply:
    """Return the HTTP reply that says what ``turn`` says; a ``ModelError`` in it becomes a reply of that status."""
    turn = Turn(text=turn) if isinstance(turn, str) else turn
    return _refusal(turn) or sse(*chunks(*_payloads(turn)))


def responses_reply(turn: str | Turn) -> Reply:
    """Return what :func:`chat_reply` does, on the wire of the Responses API."""
    turn = Turn(text=turn) if isinstance(turn, str) else turn
    return _refusal(turn) or sse(*named(*_events(turn)))


def _refusal(turn: Turn) -> Reply | None:
    if not isinstance(turn.error, ModelError):
        return None
    error = turn.error
    body = {"error": {"message": error.message, "code": error.code}} if error.body is None else error.body
    headers = {**error.headers, "content-type": "application/json"}
    return Reply(json.dumps(body).encode(), status=error.status or 500, headers=headers)


def _events(turn: Turn) -> Iterator[dict[str, Any]]:
    if text := turn.text or "".join(turn.text_chunks):
        yield from message(*(turn.text_chunks or [text]))
    for call_id, name, args in turn.tool_calls:
        text = args if isinstance(args, str) else json.dumps(dict(args))
        item = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name, "arguments": text}
        yield {"type": "response.output_item.done", "item": item}
    incomplete = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(turn.finish_reason or "")
    yield replied(usage={"input_tokens": 1, "output_tokens": 1}, incomplete=incomplete)


def _payloads(turn: Turn) -> Iterator[dict[str, Any]]:
    for text in turn.text_chunks or [turn.text]:
        yield _delta(content=text)
    for index, (call_id, name, args) in enumerate(turn.tool_calls):
        text = args if isinstance(args, str) else json.dumps(dict(args))
        function = {"name": name, "arguments": text}
        yield _delta(tool_calls=[{"index": index, "id": call_id, "type": "function", "function": function}])
    yield _delta(finish_reason=turn.finish_reason or ("tool_calls" if turn.tool_calls else "stop"))
    yield {**_HEAD, "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}


_HEAD = {"id": "reply", "model": "stand-in"}


def _delta(finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    return {**_HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}

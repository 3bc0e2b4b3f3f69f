"""Scripted turns as the replies of a chat completions server: what code that names a real model talks to in tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from mastra_py.errors import ModelError
from mastra_py.testing import Turn
from support.http_server import Reply, chunks, sse


def chat_reply(turn: str | Turn) -> Reply:
    """Return the HTTP reply that says what ``turn`` says; a ``ModelError`` in it becomes a reply of that status."""
    if isinstance(turn, str):
        turn = Turn(text=turn)
    if isinstance(turn.error, ModelError):
        error = turn.error
        body = {"error": {"message": error.message, "code": error.code}} if error.body is None else error.body
        headers = {**error.headers, "content-type": "application/json"}
        return Reply(json.dumps(body).encode(), status=error.status or 500, headers=headers)
    return sse(*chunks(*_payloads(turn)))


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

"""A local server that plays scripts by the name of the model, reports tokens, and adds up what it reported."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from mastra_py import Agent
from mastra_py.messages import Usage
from mastra_py.models import OpenAIChatModel
from mastra_py.testing import Turn
from support.http_server import HTTPServer, Reply, Request, chunks, sse


class CountingServer(HTTPServer):
    """Plays for each model its own turns; every reply costs other tokens than the one before."""

    def __init__(self, scripts: Mapping[str, Sequence[str | Turn | int]]) -> None:
        super().__init__(self._answer)
        self._scripts = scripts
        self.sent: Counter[str] = Counter()
        self.spent: dict[str, Usage] = {}

    @property
    def total(self) -> Usage:
        return sum(self.spent.values(), Usage())

    def model(self, name: str) -> OpenAIChatModel:
        return OpenAIChatModel(name, base_url=self.base_url, api_key="none")

    def agent(self, name: str, **options: Any) -> Agent:
        return Agent(**{"id": name, "model": self.model(name), **options})

    def _answer(self, request: Request) -> Reply:
        name = request.json["model"]
        turn = self._scripts[name][self.sent[name]]
        self.sent[name] += 1
        if isinstance(turn, int):
            return Reply(json.dumps({"error": {"message": "scripted"}}).encode(), status=turn)
        number = sum(self.sent.values())
        usage = Usage(input_tokens=100 + number, output_tokens=10 + number, cached_input_tokens=number)
        self.spent[name] = self.spent.get(name, Usage()) + usage
        return sse(*chunks(*_payloads(Turn(text=turn) if isinstance(turn, str) else turn, usage)))


def _payloads(turn: Turn, usage: Usage) -> list[dict[str, Any]]:
    calls = [
        {"index": i, "id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
        for i, (id, name, args) in enumerate(turn.tool_calls)
    ]
    delta: dict[str, Any] = {"content": turn.text or None, **({"tool_calls": calls} if calls else {})}
    reported = {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_input_tokens},
    }
    return [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}]},
        {"choices": [], "usage": reported},
    ]

"""What the field cases share: a run on scripted replies of a local server, and everything that came of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import anthropic  # noqa: F401 -- importing it takes a second, which no bounded wait of a test should have in it
import anyio
import openai  # noqa: F401 -- likewise

from mastra_py import Agent, AgentResult, RunError, Tool, ToolResultPart
from mastra_py.events import AgentEvent, ReasoningDelta, TextDelta, ToolCall
from mastra_py.models import AnthropicModel, Model, OpenAIChatModel, OpenAIResponsesModel
from mastra_py.testing import assert_well_formed
from support.http_server import WIRE, HTTPServer, Reply, Request, Script, chunks, sse

Facts: TypeAlias = dict[str, Any]

CITY: Facts = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
SUM: Facts = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
FILE: Facts = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
    "required": ["path", "content"],
}
EMPTY: Facts = {"type": "object", "properties": {}}

CHAT, RESPONSES, ANTHROPIC = "chat", "responses", "anthropic"
MODELS = {CHAT: OpenAIChatModel, RESPONSES: OpenAIResponsesModel, ANTHROPIC: AnthropicModel}
FINAL = {
    CHAT: "_final-openai-chat.sse",
    RESPONSES: "_final-openai-responses.sse",
    ANTHROPIC: "_final-anthropic.sse",
}


def model_at(server: HTTPServer, kind: str = CHAT, **options: Any) -> Model:
    """Return a model of that kind behind a server."""
    return MODELS[kind]("test-model", base_url=server.base_url, api_key="a key", **options)


def from_field(name: str) -> Reply:
    """Return a body of the folder ``wire`` as a streamed reply."""
    return Reply((WIRE / name).read_bytes(), headers={"content-type": "text/event-stream"})


def failing(status: int, body: Mapping[str, Any], **headers: str) -> Reply:
    """Return a reply of that status; ``retry_after="1"`` is a header ``retry-after: 1``."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Reply(json.dumps(body).encode(), status=status, headers={"content-type": "application/json", **named})


LIMITED: Facts = {"error": {"message": "Rate limit hit.", "type": "requests", "code": "rate_limit_exceeded"}}


def choice(finish_reason: str | None = None, **delta: Any) -> Facts:
    """Return the payload of one chat completions event."""
    return {"id": "r1", "model": "m1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


def fragment(text: str, **more: Any) -> Facts:
    """Return a delta of a tool call: a piece of its arguments, and what else it has."""
    name = {"name": more.pop("name")} if "name" in more else {}
    return choice(tool_calls=[{**more, "function": {**name, "arguments": text}}])


def chat(*payloads: Facts, done: bool = True, usage: tuple[int, int] | None = None) -> Reply:
    """Return a chat completions reply of these payloads."""
    spent = [] if usage is None else [{"choices": [], "usage": dict(zip(TOKENS, usage, strict=True))}]
    return sse(*chunks(*payloads, *spent, done=done))


TOKENS = ("prompt_tokens", "completion_tokens")


def says(text: str, usage: tuple[int, int] = (1, 1)) -> Reply:
    """Return a chat completions reply that says ``text``."""
    return chat(choice(content=text), choice("stop"), usage=usage)


def calls(*named: tuple[str, str, Mapping[str, Any]], usage: tuple[int, int] = (1, 1)) -> Reply:
    """Return a chat completions reply that makes these calls: id, name and arguments."""
    made = [fragment(json.dumps(args), index=n, id=i, name=name) for n, (i, name, args) in enumerate(named)]
    return chat(*made, choice("tool_calls"), usage=usage)


class Recorder:
    """Makes tools that record their calls and answer "ok"."""

    def __init__(self) -> None:
        self.executed: list[tuple[str, Facts]] = []

    def tool(self, name: str, parameters: Facts = EMPTY) -> Tool:
        async def run(**args: Any) -> str:
            self.executed.append((name, args))
            return "ok"

        return Tool(name=name, parameters=parameters, run=run)


class Counting:
    """A scorer that gives these scores, the last one again and again, and keeps what it has seen."""

    def __init__(self, *scores: Any) -> None:
        self._scores = scores
        self.seen: list[Any] = []

    def __call__(self, run: Any) -> Any:
        self.seen.append(run)
        return self._scores[min(len(self.seen), len(self._scores)) - 1]

    @property
    def runs(self) -> int:
        return len(self.seen)


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of a run: its events, its result or its error, and the bodies of its requests."""

    events: Sequence[AgentEvent]
    result: AgentResult | None
    error: RunError | None
    requests: Sequence[Any]

    @property
    def final(self) -> AgentResult:
        assert self.error is None, self.error
        assert self.result is not None
        return self.result

    @property
    def failure(self) -> Any:
        assert self.error is not None
        return self.error

    @property
    def text(self) -> str:
        return "".join([event.text for event in self.events if isinstance(event, TextDelta)])

    @property
    def reasoning(self) -> str:
        return "".join([event.text for event in self.events if isinstance(event, ReasoningDelta)])

    @property
    def calls(self) -> list[tuple[str, str, Facts]]:
        return [(e.tool_call_id, e.tool_name, e.args) for e in self.events if isinstance(e, ToolCall)]

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.events]

    @property
    def results(self) -> list[ToolResultPart]:
        history = self.result.messages if self.result is not None else self.failure.messages
        return [part for message in history for part in message.tool_results]


async def read_run(agent: Agent, *, seen: Sequence[Request] = (), prompt: str | None = "go", **options: Any) -> Ran:
    """Read a run to its end, within ten seconds."""
    events: list[AgentEvent] = []
    result: AgentResult | None = None
    error: RunError | None = None
    with anyio.fail_after(10):
        try:
            async with agent.stream(prompt, **options) as stream:
                async for event in stream:
                    events.append(event)
                result = await stream.result()
        except RunError as exc:
            error = exc
    assert_well_formed(events)
    return Ran(events, result, error, [request.json for request in seen])


async def run_on(
    *script: str | Script, kind: str = CHAT, agent: Mapping[str, Any] | None = None, **options: Any
) -> Ran:
    """Run an agent on a server that plays these replies; a text names a body of the folder ``wire``."""
    replies = [from_field(each) if isinstance(each, str) else each for each in script]
    async with HTTPServer(*replies) as server:
        made = Agent(**{"id": "a", "model": model_at(server, kind), **(agent or {})})
        return await read_run(made, seen=server.requests, **options)


def said_by(role: str, body: Any) -> list[Any]:
    """Return the messages of that role in a request."""
    return [message for message in body.get("messages", body.get("input")) if message.get("role") == role]

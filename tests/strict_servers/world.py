"""A world for random conversations: strict servers, models for them, tools that count, and one history.

A :class:`Plan` says how one run goes; :meth:`World.run` plays it and checks what has to hold after every run.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import anyio
from support.http_server import HTTPServer

from mastra_py import Agent, ModelError, OutputValidationError, StreamErrorRetryProcessor, TaskCompletion, UserError
from mastra_py.messages import Message, dump_messages, load_messages
from mastra_py.models import AnthropicModel, FallbackModel, OpenAIChatModel, OpenAIResponsesModel
from mastra_py.models._openai_profiles import known_profile
from mastra_py.stream import AgentStream
from strict_servers.answers import Answer, Issued
from strict_servers.anthropic import StrictAnthropic
from strict_servers.chat import StrictChat
from strict_servers.compatible import StrictCompatible
from strict_servers.responses import StrictResponses
from strict_servers.server import StrictServer
from strict_servers.tools import Bench, run_key

Reading = Literal["generate", "events", "texts", "result"]
How = Literal["cancel", "leave", "scope"]

SERVER_OF = {
    "gpt-4o": "chat",
    "gpt-5": "chat",
    "qwen3": "open",
    "responses gpt-5": "responses",
    "responses gpt-4o": "responses",
    "claude-sonnet-4-5": "anthropic",
    "claude-opus-4-8": "anthropic",
    "kimi-k2": "kimi",
}
"""The models, and the servers that they are on. Those of one provider are on one server."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """When and how a run is cancelled: after so many events, once a tool waits, or once nothing goes on any more."""

    how: How
    at: int | Literal["tool", "idle"]


@dataclass(frozen=True, slots=True)
class Plan:
    """How one run goes. ``models``: one, or two of which the second is fallen back on."""

    models: tuple[str, ...]
    answers: tuple[Answer, ...]
    prompt: str | None = "go"
    reading: Reading = "generate"
    cancel: Cancel | None = None
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    retries: int = 0
    rejected: int = 0
    feedback: Literal["latest", "all"] = "latest"
    output: Any = None
    tool_choice: str = "auto"
    instructions: str | None = "Be brief."


class World:
    """The servers, their models, the tools, and the conversation so far. Within an ``async with`` block."""

    def __init__(self) -> None:
        self.servers: dict[str, StrictServer] = {
            "chat": StrictChat("chat"),
            "open": StrictCompatible("open"),
            "responses": StrictResponses("responses"),
            "anthropic": StrictAnthropic("anthropic"),
            "kimi": StrictAnthropic("kimi"),
        }
        self.messages: tuple[Message, ...] = ()
        self.bench = Bench()
        self._exits = AsyncExitStack()
        self._models: dict[str, Any] = {}

    async def __aenter__(self) -> Self:
        await self._exits.__aenter__()
        urls = {
            name: (await self._exits.enter_async_context(HTTPServer(server))).base_url
            for name, server in self.servers.items()
        }
        self._models = {name: _model(name, urls[server]) for name, server in SERVER_OF.items()}
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._exits.__aexit__(None, None, None)

    # A run.

    async def run(self, plan: Plan) -> None:
        """Play a run and check what has to hold after it."""
        if plan.prompt is None and not self.messages:
            plan = dataclasses.replace(plan, prompt="go")
        issued = {name: len(server.issued) for name, server in self.servers.items()}
        faults = {name: len(server.faults) for name, server in self.servers.items()}
        executed = Counter(self.bench.executed)
        self.bench.begin(waits=plan.cancel is not None and plan.cancel.at == "tool")
        answers = [self.bench.numbered(answer) for answer in plan.answers]
        for name, server in self.servers.items():
            server.script.clear()
            server.hangs = False
            server.script.extend(answers if name == SERVER_OF[plan.models[0]] else [])
        error = await self._played(plan)
        new = [i for name, server in self.servers.items() for i in server.issued[issued[name] :]]
        failed = any(len(server.faults) > faults[name] for name, server in self.servers.items())
        self._check_refusals()
        self._check_error(error, plan, failed=failed)
        self._check_executed(new, Counter(self.bench.executed) - executed, whole=plan.cancel is None)
        self._check_history()

    async def _played(self, plan: Plan) -> BaseException | None:
        """Play the run and take its history; return the error that it ended with."""
        agent = self._agent(plan)
        options: dict[str, Any] = {"messages": self.messages, "tool_choice": plan.tool_choice}
        if plan.output is not None:
            options["output"] = plan.output
        if plan.rejected:
            options["is_task_complete"] = self._gate(plan)
        try:
            with anyio.fail_after(20):
                if plan.reading == "generate" and plan.cancel is None:
                    self.messages = (await agent.generate(plan.prompt, **options)).messages
                else:
                    await self._streamed(agent.stream(plan.prompt, **options), plan)
        except (ModelError, OutputValidationError) as exc:
            self.messages = tuple(exc.messages)
            return exc
        except UserError as exc:
            return exc
        return None

    def _agent(self, plan: Plan) -> Agent:
        models = [self._models[name] for name in plan.models]
        return Agent(
            id="talker",
            instructions=plan.instructions,
            model=models[0] if len(models) == 1 else FallbackModel(*models),
            tools=self.bench.tools,
            model_settings=plan.settings,
            error_processors=[StreamErrorRetryProcessor(max_retries=plan.retries)] if plan.retries else (),
            defaults={"max_steps": 4},
        )

    def _gate(self, plan: Plan) -> TaskCompletion:
        left = plan.rejected

        def judge(run: Any) -> float:
            nonlocal left
            left -= 1
            return float(left < 0)

        return TaskCompletion([judge], keep_feedback=plan.feedback)

    async def _streamed(self, stream: AgentStream[Any], plan: Plan) -> None:
        error: Exception | None = None
        with anyio.CancelScope() as scope:
            async with stream, anyio.create_task_group() as group:
                if plan.cancel is not None and not isinstance(plan.cancel.at, int):
                    group.start_soon(self._cancel_later, plan.cancel, stream, scope)
                try:
                    if not await _read(stream, plan, scope):
                        self.messages = (await stream.result()).messages
                except Exception as exc:  # noqa: BLE001 -- raised outside of the group, as it is
                    error = exc
                group.cancel_scope.cancel()
        if error is not None:
            raise error

    async def _cancel_later(self, cancel: Cancel, stream: AgentStream[Any], scope: anyio.CancelScope) -> None:
        if cancel.at == "tool":
            await self.bench.waiting.wait()
        else:
            while not any(server.hangs for server in self.servers.values()):
                await anyio.wait_all_tasks_blocked()
            await anyio.wait_all_tasks_blocked()
        if cancel.how == "cancel":
            stream.cancel()
        else:
            scope.cancel()

    # What has to hold.

    def _check_refusals(self) -> None:
        for server in self.servers.values():
            for problem, body in server.problems:
                text = body if isinstance(body, bytes) else json.dumps(body, indent=1)
                raise AssertionError(f"{server.name} refused: {problem.message}\n{text}")

    def _check_error(self, error: BaseException | None, plan: Plan, *, failed: bool) -> None:
        if isinstance(error, UserError):
            assert plan.prompt is None, f"a run with a prompt must not be misuse: {error}"
        elif isinstance(error, OutputValidationError):
            assert plan.output is not None, f"there is no output type: {error!r}"
        elif error is not None:
            assert failed, f"no server has failed: {error!r}"

    def _check_executed(self, issued: Sequence[Issued], executed: Counter[str], *, whole: bool) -> None:
        due = Counter([key for i in issued if i.runs and (key := run_key(i.call)) is not None])
        twice = executed - due
        assert not twice, f"these ran though no whole reply asked for it, or twice: {dict(twice)}"
        if whole:
            lost = due - executed
            assert not lost, f"these never ran: {dict(lost)}"

    def _check_history(self) -> None:
        dumped = json.loads(json.dumps(dump_messages(self.messages)))
        loaded = load_messages(dumped)
        assert loaded == list(self.messages), _difference(loaded, self.messages)


def _difference(loaded: Sequence[Message], messages: Sequence[Message]) -> str:
    pairs = [(a, b) for a, b in zip(loaded, messages, strict=True) if a != b]
    return f"loaded: {pairs[0][0]}\nheld: {pairs[0][1]}" if pairs else "other messages"


async def _read(stream: AgentStream[Any], plan: Plan, scope: anyio.CancelScope) -> bool:
    """Read the stream as planned; return whether it is left before its end."""
    cancel = plan.cancel
    seen = 0
    if plan.reading == "result" and cancel is None:
        return False
    source: Any = stream.text_deltas() if plan.reading == "texts" else stream
    async for _ in source:
        seen += 1
        if cancel is None or cancel.at != seen:
            continue
        if cancel.how == "leave":
            return True
        if cancel.how == "cancel":
            stream.cancel()
        else:
            scope.cancel()
    return False


def _model(name: str, url: str) -> Any:
    server, real = SERVER_OF[name], name.rpartition(" ")[2]
    at: dict[str, Any] = {"base_url": url, "api_key": "a key that opens nothing"}
    match server:
        case "open":
            return OpenAIChatModel(real, base_url=url)
        case "chat":
            return OpenAIChatModel(real, **at, profile=known_profile(real, True))
        case "responses":
            return OpenAIResponsesModel(real, **at, profile=known_profile(real, True))
        case _:
            return AnthropicModel(real, **{**at, "base_url": url.removesuffix("/v1")})

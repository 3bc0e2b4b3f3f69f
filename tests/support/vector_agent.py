"""Plays the vectors that run an agent (``completion``, ``stream``, ``retry`` of level ``agent``) and says what came.

Played in virtual time (``support.virtual_time``): delays and waits are as long as recorded and take no time.
"""

from __future__ import annotations

from typing import Any

import anyio
import anyio.abc

from mastra_py import Agent, AgentResult, TaskCompletion, Tool, create_rubric_scorer, create_scorer
from mastra_py.errors import RunError, UserError
from mastra_py.events import AgentEvent, RetryScheduled, RunFinished, TaskCompletionChecked
from mastra_py.models.base import ModelRequest
from mastra_py.scoring import Verdict
from mastra_py.stream import AgentStream
from mastra_py.testing import FunctionModel, assert_well_formed
from support.vector_agents import ScriptedAgents
from support.vector_forms import (
    check_form,
    error_form,
    event_forms,
    message_forms,
    prompt_forms,
    tool_forms,
    usage_form,
    verdict_form,
    without_results,
)
from support.vector_models import ScriptedModels
from support.vector_notation import read_value, refuse_unknown
from support.vector_retry import UnknownNotationError, build_error
from support.vector_rubric import read_prompt
from support.vector_turns import read_processor, scripted_model

Facts = dict[str, Any]

KEYS = {
    "completion": (
        "prompt", "max_steps", "method", "model_turns", "tools", "scorers", "strategy", "parallel", "timeout_ms",
        "suppress_feedback", "on_complete_throws", "request_context", "abort_after_ms",
        "sub_agents",
    ),
    "stream": (
        "prompt", "model_turns", "tools", "max_steps", "abort_on_text_delta", "abort_on_tool_call", "model_spec",
    ),
    "retry": (
        "level", "prompt", "model_turns", "models", "error_processors", "max_processor_retries",
        "stream_max_processor_retries", "agent_max_retries", "model_settings_max_retries", "max_steps",
        "abort_after_call", "abort_delay_ms",
    ),
}  # fmt: skip
TYPES: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "string[]": {"type": "array", "items": {"type": "string"}},
}
REFUSED: Facts = {"refused": "UserError"}
LONG = 100_000.0
"""Seconds, of virtual time, after which a run is taken to hang."""


async def play(kind: str, given: Facts) -> Facts:
    """Run the agent of a vector and return what came of it."""
    refuse_unknown("the vector", given, KEYS[kind])
    build_error(given.get("on_complete_throws"))
    try:
        stage = _Stage(given)
        options = stage.options()
        with anyio.fail_after(LONG):
            if given.get("method", "stream") == "generate":
                await stage.generate(options)
            else:
                await stage.stream(options)
    except UserError:
        return REFUSED
    return stage.facts()


class _Stage:
    """An agent made as a vector says, what is noted while it runs, and what it came to."""

    def __init__(self, given: Facts) -> None:
        self.given = given
        self.models = ScriptedModels(given, self._on_call)
        self.requests: list[ModelRequest] = []
        self.awaited_call = anyio.Event()
        self.judges: dict[str, FunctionModel] = {}
        self.asked: list[tuple[str, int]] = []
        self.scorer_calls: dict[str, list[int]] = {}
        self.contexts: dict[str, list[Facts]] = {s["id"]: [] for s in given.get("scorers", ()) if "script" in s}
        self.verdicts: list[Verdict] = []
        self.events: list[AgentEvent] = []
        self.result: AgentResult[str] | None = None
        self.error: RunError | None = None
        self.tools = [_tool(spec) for spec in given.get("tools", ())]
        self.sub_agents = ScriptedAgents(given)
        self.agent = self._agent()

    def _agent(self) -> Agent:
        more: Facts = {}
        if "error_processors" in self.given:
            more["error_processors"] = [read_processor(each, self.asked) for each in self.given["error_processors"]]
        if "max_processor_retries" in self.given:
            more["max_processor_retries"] = self.given["max_processor_retries"]
        return Agent(
            id="agent-1",
            name="Agent One",
            instructions="Be helpful",
            model=self.models.model,
            tools=self.tools,
            agents=self.sub_agents.agents(),
            **more,
        )

    def options(self) -> Facts:
        options: Facts = {}
        if "stream_max_processor_retries" in self.given:
            options["max_processor_retries"] = self.given["stream_max_processor_retries"]
        for name in ("max_steps", "request_context"):
            if name in self.given:
                options[name] = read_value(self.given[name])
        if "scorers" in self.given:
            options["is_task_complete"] = self._completion()
        return options

    def _completion(self) -> TaskCompletion:
        settings = {k: self.given[k] for k in ("strategy", "parallel", "suppress_feedback") if k in self.given}
        if "timeout_ms" in self.given:
            settings["timeout"] = self.given["timeout_ms"] / 1000
        return TaskCompletion(
            scorers=[self._scorer(spec) for spec in self.given["scorers"]],
            on_complete=self._on_complete,
            keep_feedback="all",  # as recorded
            **settings,
        )

    def _on_complete(self, verdict: Verdict) -> None:
        self.verdicts.append(verdict)
        if "on_complete_throws" in self.given:
            raise build_error(self.given["on_complete_throws"])

    def _scorer(self, spec: Facts) -> Any:
        calls = self.scorer_calls[spec["id"]] = [0]
        if "judge_turns" in spec:
            refuse_unknown("a rubric scorer", spec, ("id", "name", "rubric", "judge_turns"))
            self.judges[spec["id"]] = judge = scripted_model(spec["judge_turns"])
            named = {"name": spec["name"]} if "name" in spec else {}
            return create_rubric_scorer(judge, read_value(spec.get("rubric")), id=spec["id"], **named)
        refuse_unknown("a scorer", spec, ("id", "name", "script"))
        for entry in spec["script"]:  # not in the scorer, whose failure may be what is expected
            refuse_unknown("a scorer's script", entry, ("score", "reason", "delay_ms", "throws"))
            build_error(entry.get("throws"))

        async def score(ctx: Any) -> Any:
            entry = _entry(spec, calls[0])
            calls[0] += 1
            self.contexts[spec["id"]].append(_context(ctx.run))
            if entry.get("delay_ms"):
                await anyio.sleep(entry["delay_ms"] / 1000)
            if "throws" in entry:
                raise build_error(entry["throws"])
            return read_value(entry.get("score"))

        def reason(_: Any) -> Any:
            return read_value(_entry(spec, calls[0] - 1).get("reason"))

        return create_scorer(spec["id"], name=spec.get("name")).generate_score(score).generate_reason(reason)

    # Running.

    async def generate(self, options: Facts) -> None:
        try:
            self.result = await self.agent.generate(self.given["prompt"], **options)
        except RunError as exc:
            self.error = exc

    async def stream(self, options: Facts) -> None:
        begin = anyio.current_time()
        async with self.agent.stream(self.given["prompt"], **options) as stream:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._abort_in_time, stream)
                try:
                    await self._read(stream)
                except RunError as exc:
                    self.error = exc
                tasks.cancel_scope.cancel()
            if self.events[-1].type != "abort":
                assert anyio.current_time() - begin >= sum(self.waits()) - 1e-6, "a wait was not served"
            if self.error is None:
                self.result = await stream.result()
        assert_well_formed(self.events)

    async def _read(self, stream: AgentStream[str]) -> None:
        deltas = 0
        async for event in stream:
            self.events.append(event)
            deltas += event.type == "text-delta"
            at_delta = event.type == "text-delta" and deltas == self.given.get("abort_on_text_delta")
            if at_delta or (event.type == "tool-call" and self.given.get("abort_on_tool_call")):
                stream.cancel()

    def waits(self) -> list[float]:
        return [event.delay for event in self.events if isinstance(event, RetryScheduled)]

    def _on_call(self, request: ModelRequest) -> None:
        self.requests.append(request)
        if len(self.requests) == self.given.get("abort_after_call"):
            self.awaited_call.set()

    async def _abort_in_time(self, stream: AgentStream[str]) -> None:
        if "abort_after_ms" in self.given:
            await anyio.sleep(self.given["abort_after_ms"] / 1000)
            stream.cancel()
        if "abort_after_call" in self.given:
            await self.awaited_call.wait()
            await anyio.sleep(self.given.get("abort_delay_ms", 0) / 1000)
            stream.cancel()

    # What came of it.

    def facts(self) -> Facts:
        came = self.result if self.result is not None else self.error
        assert came is not None
        tools = {**{tool.name: tool.name for tool in self.tools}, **self.sub_agents.names}
        rubrics = set(self.judges)
        events = event_forms(self.events, tools)
        prompts = [prompt_forms(request, self.verdicts, tools) for request in self.requests]
        verdicts = [attempt.verdict for attempt in came.attempts]
        messages = message_forms(came.messages, verdicts, tools, with_reasoning=True)
        return {
            "types": [form[0] for form in events],
            "events": events,
            "tool_chunks": tool_forms(events),
            "checks": [check_form(e, rubrics) for e in self.events if isinstance(e, TaskCompletionChecked)],
            "on_complete": [verdict_form(verdict, rubrics) for verdict in self.verdicts],
            "final_text": came.partial_text or (self.result.text if self.result is not None else ""),
            "finish_reason": self._end(),
            "steps": len(came.steps),
            "step_texts": [step.text for step in came.steps],
            "messages": without_results(messages),
            "prompts": prompts,
            "last_prompt": prompts[-1] if prompts else None,
            "model_calls": self.models.calls(),
            "usage": usage_form(came.usage),
            "on_finish": self._finished(),
            "error": error_form(self.error) if self.error is not None else None,
            "stop_reason": self.result.stop_reason if self.result is not None else None,
            "scorer_calls": {
                id: self.judges[id].calls if id in self.judges else count[0] for id, count in self.scorer_calls.items()
            },
            "sent_to_judge": {id: [_asked(r) for r in judge.requests] for id, judge in self.judges.items()},
            "scorer_contexts": self.contexts,
            **self.sub_agents.facts(self.requests, lambda request: prompt_forms(request, (), {})),
            "processor_calls": self.asked,
            "waits": [round(wait * 1000) for wait in self.waits() if wait > 0.4],
        }

    def _end(self) -> str | None:
        if self.result is None:
            return "error"
        ends = {"cancelled": "aborted", "tripwire": "tripwire"}
        return ends.get(self.result.stop_reason, self.result.finish_reason)

    def _finished(self) -> Facts | None:
        last = self.events[-1] if self.events else None
        if not isinstance(last, RunFinished) or last.stop_reason == "tripwire":
            return None
        return {"text": last.text, "finish_reason": last.finish_reason}


def _asked(request: ModelRequest) -> Facts:
    return read_prompt(request.messages[0].text)


def _entry(spec: Facts, index: int) -> Facts:
    return spec["script"][min(index, len(spec["script"]) - 1)]


def _context(run: Any) -> Facts:
    return {
        "iteration": run.input.iteration,
        "max_steps": run.input.max_steps,
        "task": run.input.task,
        "output": run.output,
        "request_context": run.request_context,
        "tool_calls": [(call.tool_name, call.args) for call in run.input.tool_calls],
    }


def _tool(spec: Facts) -> Tool:
    refuse_unknown("a tool", spec, ("name", "input", "result", "throws", "delay_ms"))
    if unknown := set(spec["input"].values()) - set(TYPES):
        msg = f"unknown type of a tool's parameter: {min(unknown)!r}"
        raise UnknownNotationError(msg)
    build_error(spec.get("throws"))

    async def run(**_: Any) -> Any:
        if spec.get("delay_ms"):
            await anyio.sleep(spec["delay_ms"] / 1000)
        if "throws" in spec:
            raise build_error(spec["throws"])
        return read_value(spec.get("result"))

    properties = {name: TYPES[kind] for name, kind in spec["input"].items()}
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return Tool(name=spec["name"], description=f"The tool {spec['name']}.", parameters=parameters, run=run)

"""The sub-agents of a vector (``sub_agents``): made for a run, read from the record, and reckoned."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from mastra_py import Agent
from mastra_py.models.base import ModelRequest
from mastra_py.testing import FunctionModel
from support.vector_notation import refuse_unknown
from support.vector_turns import scripted_model

Facts = dict[str, Any]
Form = tuple[Any, ...]
ItemT = TypeVar("ItemT")

FIELDS = ("sub_agent_calls", "sub_agent_prompts", "tools_offered")
KEYS = ("key", "id", "name", "description", "model_turns")
OUTPUT = "tool-output"
_ANSWERS = {"tool-result", "tool-error"}
_ARGUMENTS = {"prompt", "max_steps"}


def tool_name(spec: Facts) -> str:
    """Return what the supervisor calls a sub-agent by."""
    return f"agent-{spec.get('key', spec['id'])}"


class ScriptedAgents:
    """The sub-agents that a supervisor is given. ``names`` has their ids by what it calls them."""

    def __init__(self, given: Facts) -> None:
        self._specs: list[Facts] = given.get("sub_agents", [])
        for spec in self._specs:
            refuse_unknown("a sub-agent", spec, KEYS)
        self._models: dict[str, FunctionModel] = {s["id"]: scripted_model(s["model_turns"]) for s in self._specs}
        self.names = {tool_name(spec): spec["id"] for spec in self._specs}

    def agents(self) -> dict[str, Agent]:
        return {
            spec.get("key", spec["id"]): Agent(
                id=spec["id"],
                name=spec.get("name"),
                description=spec.get("description", ""),
                instructions=f"You are {spec['id']}",
                model=self._models[spec["id"]],
            )
            for spec in self._specs
        }

    def facts(self, requests: Sequence[ModelRequest], form: Callable[[ModelRequest], list[Form]]) -> Facts:
        """Return what came of them; ``requests`` are the supervisor's, ``form`` is what is compared of a request."""
        offered = requests[0].tools if requests else ()
        return {
            "sub_agent_calls": {id: model.calls for id, model in self._models.items()},
            "sub_agent_prompts": {id: [form(r) for r in model.requests] for id, model in self._models.items()},
            "tools_offered": [
                (tool.name, tool.description, list(tool.parameters["required"]))
                for tool in offered
                if tool.name in self.names
            ],
        }


# --- the record


def read_offered(tools: Iterable[Facts]) -> list[Form]:
    """Return the sub-agents among the tools that were offered; that theirs take more arguments is R11's to say."""
    return [(t["name"], t["description"], t["required"]) for t in tools if t["name"].startswith("agent-")]


def read_result(value: Any) -> Any:
    """Return what a tool gave; of a delegation only its text, V5."""
    return value["text"] if isinstance(value, dict) and "sub_agent_thread_id" in value else value


def outputs_first(events: Sequence[ItemT]) -> list[ItemT]:
    """Return events with those of sub-agents before what became of calls: at once, their order is not fixed."""
    ordered: list[ItemT] = []
    answers: list[ItemT] = []
    for event in events:
        kind = event if isinstance(event, str) else event[0]  # type: ignore[index]
        if kind in _ANSWERS:
            answers.append(event)
            continue
        if kind != OUTPUT:
            ordered += answers
            answers = []
        ordered.append(event)
    return ordered + answers


# --- the reckoning


class Call(Protocol):
    """A scripted tool call."""

    name: str
    args: Facts
    tool: Facts | None
    seconds: float

    @property
    def is_unfit(self) -> bool: ...


class Reckoning(Protocol):
    """A run that is being reckoned, as far as sub-agents are concerned."""

    given: Facts
    clock: float
    abort_at: float
    events: list[Form]
    prompts: list[list[Form]]
    texts: list[str]
    stop_reason: str | None
    error: Exception | None
    models: Any

    async def run(self) -> None: ...
    def claim(self, rules: str, *fields: str) -> None: ...


class ReckonedAgents:
    """The sub-agents in a reckoning; ``tools`` is what they are as tools."""

    def __init__(self, given: Facts) -> None:
        self._specs = {tool_name(spec): spec for spec in given.get("sub_agents", ())}
        self._calls = {spec["id"]: 0 for spec in self._specs.values()}
        self._prompts: dict[str, list[list[Form]]] = {id: [] for id in self._calls}
        self.tools: dict[str, Facts] = {
            name: {"name": name, "input": {"prompt": "string"}, "result": ""} for name in self._specs
        }

    def facts(self) -> Facts:
        return {
            "sub_agent_calls": dict(self._calls),
            "sub_agent_prompts": {id: list(prompts) for id, prompts in self._prompts.items()},
            "tools_offered": [(name, spec.get("description", ""), ["prompt"]) for name, spec in self._specs.items()],
        }

    async def delegate(self, calls: Iterable[Call], outer: Reckoning) -> None:
        """Run the sub-agents that are called: say in each call what it gives, and add their events to the run's."""
        for call in calls:
            if call.name not in self._specs or call.is_unfit:
                continue
            if set(call.args) - _ARGUMENTS or not call.args["prompt"].strip():
                outer.claim("D35", "types", "events", "tool_chunks", "prompts", "last_prompt", *FIELDS[:2])
                call.tool = {**self.tools[call.name], "throws": {"type": "error"}}
                continue
            await self._run(call, outer)

    async def _run(self, call: Call, outer: Reckoning) -> None:
        spec = self._specs[call.name]
        run = self._inner(call, spec, outer)
        await run.run()
        cancelled = run.stop_reason == "cancelled"
        outer.claim("D15", "sub_agent_prompts")
        call.seconds = math.inf if cancelled else run.clock
        call.tool = {**self.tools[call.name], "result": run.texts[-1] if run.texts else ""}
        if run.error is not None or run.stop_reason != "answered":
            outer.claim("D15", "types", "events", "tool_chunks", "prompts", "last_prompt")
            call.tool = {**self.tools[call.name], "throws": {"type": "error"}}
        self._calls[spec["id"]] += run.models.total
        self._prompts[spec["id"]] += [[("system", "text", f"You are {spec['id']}"), *p[1:]] for p in run.prompts]
        outer.events += [(OUTPUT,)] * (len(run.events) - cancelled)

    def _inner(self, call: Call, spec: Facts, outer: Reckoning) -> Reckoning:
        turns, done = spec["model_turns"], self._calls[spec["id"]]
        given: Facts = {
            "prompt": call.args["prompt"],
            "model_turns": turns[min(done, len(turns) - 1) :],
            "max_steps": min(5, int(call.args.get("max_steps") or 5)),
        }
        if outer.abort_at < math.inf:
            given["abort_after_ms"] = (outer.abort_at - outer.clock) * 1000
        return type(outer)(given)  # type: ignore[call-arg]

"""Plays a case through the public API: servers, agent, scorers and judge of its set-up, and what came of the run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio.lowlevel

from mastra_py import (
    Agent,
    AgentResult,
    Judge,
    ModelSettings,
    RubricCriterion,
    RunError,
    ScorerVerdict,
    StreamErrorRetryProcessor,
    TaskCompletion,
    Tool,
    ToolContext,
    create_rubric_scorer,
)
from mastra_py.events import AgentEvent, ToolCall
from mastra_py.models import AnthropicModel, Model, OpenAIChatModel, OpenAIResponsesModel
from mastra_py.scorers import StepScorer
from mastra_py.testing import assert_well_formed
from support.http_server import HTTPServer
from support.wire_replies import Play, Seen, final_script, said_script, script_of
from support.wire_sidecar import Facts, Sidecar

NO_PARAMETERS: Facts = {"type": "object", "properties": {}}
MODELS: dict[str, Callable[..., Model]] = {
    "openai-chat": OpenAIChatModel,
    "openai-responses": OpenAIResponsesModel,
    "anthropic": AnthropicModel,
}
BEFORE_A_REQUEST = {"step-start", "retry-scheduled", "model-profile-learned"}
"""Types of the events before each request of an agent."""


@dataclass(slots=True, kw_only=True)
class Counts:
    """What the doubles of a set-up have counted."""

    executed: list[tuple[str, str, Facts]] = field(default_factory=list)
    """Id, name and arguments of each call that ran."""
    scorers_run: int = 0
    preprocess_calls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What came of a play; ``events``, ``result`` and ``error`` are of its first turn."""

    events: Sequence[AgentEvent]
    result: AgentResult | None
    error: RunError | None
    played: Sequence[Seen]
    """Requests to the server of the case's replies."""
    agent: Sequence[Seen]
    judge: Sequence[Seen]
    counts: Counts
    is_judge: bool

    @property
    def executed(self) -> list[Facts]:
        """The calls that ran, in the order in which the model made them: trio starts tasks in any order."""
        made = [(event.tool_call_id, event.tool_name) for event in self.events if isinstance(event, ToolCall)]
        place = {call: n for n, call in reversed(list(enumerate(made)))}
        ran = sorted(self.counts.executed, key=lambda call: place.get(call[:2], len(made)))
        return [{"name": name, "args": args} for _, name, args in ran]

    @property
    def reply(self) -> Sequence[AgentEvent] | None:
        """The events of the reply that the case's body was; ``None`` where no request of the agent was answered so."""
        requests = [n for n, request in enumerate(self.played) if request.by_body]
        if self.is_judge or not requests:
            return None
        attempts: list[list[AgentEvent]] = []
        for event in self.events:
            if event.type in BEFORE_A_REQUEST:
                attempts.append([])
            elif attempts:
                attempts[-1].append(event)
        return attempts[requests[0]] if requests[0] < len(attempts) else None

    @property
    def entry(self) -> ScorerVerdict | None:
        """What the first scorer made of the answer, in a judge case the rubric's."""
        verdict = self.result.completion if self.result is not None else None
        return verdict.results[0] if verdict is not None and verdict.results else None


async def observe(case: Sidecar, play: Play) -> Observed:
    """Play a case and return what came of it."""
    played = script_of(case, play)
    is_judge = case.is_judge and play.history is None
    other = final_script(case, play) if is_judge else said_script(case.judge_text or "")
    async with HTTPServer(played) as played_at, HTTPServer(other) as other_at:
        agent_at, judge_at = (other_at, played_at) if is_judge else (played_at, other_at)
        provider = play.provider or case.provider
        counts = Counts()
        judge_model = model_of(provider if is_judge else "openai-chat", judge_at)
        agent = _agent(case, play, model_of(provider, agent_at), counts, played=not is_judge)
        options: Facts = {"is_task_complete": _completion(case, play, judge_model, counts)}
        if case.max_steps is not None or is_judge:
            options["max_steps"] = case.max_steps or 1
        observed: list[tuple[list[AgentEvent], AgentResult | None, RunError | None]] = []
        for _ in range(play.turns):
            observed.append(await _run(agent, play, options))
    events, result, error = observed[0]
    agent_seen, judge_seen = (other.seen, played.seen) if is_judge else (played.seen, other.seen)
    return Observed(
        events=events,
        result=result,
        error=error,
        played=played.seen,
        agent=agent_seen,
        judge=judge_seen,
        counts=counts,
        is_judge=is_judge,
    )


async def _run(
    agent: Agent, play: Play, options: Facts
) -> tuple[list[AgentEvent], AgentResult | None, RunError | None]:
    events: list[AgentEvent] = []
    result: AgentResult | None = None
    error: RunError | None = None
    try:
        async with agent.stream("Go on.", messages=play.history, **options) as stream:
            async for event in stream:
                events.append(event)
            result = await stream.result()
    except RunError as exc:  # whatever else leaves a run is no outcome of it but a fault
        error = exc
    if events:
        assert_well_formed(events)
    return events, result, error


def model_of(provider: str, server: HTTPServer) -> Model:
    """Return a model behind a server that plays that API."""
    return MODELS[provider]("test-model", base_url=server.base_url, api_key="a key that opens nothing")


def _agent(case: Sidecar, play: Play, model: Model, counts: Counts, *, played: bool) -> Agent:
    return Agent(
        id="agent",
        model=model,
        tools=[_recorder(definition, counts) for definition in case.tools],
        error_processors=_processors(case, play, "agent"),
        model_settings=_settings(case) if played else None,
    )


def _settings(case: Sidecar) -> ModelSettings:
    return ModelSettings(max_output_tokens=case.max_tokens, store=case.store)


def _processors(case: Sidecar, play: Play, on: str) -> list[StreamErrorRetryProcessor]:
    chosen = [spec for spec in case.processors if play.processors and spec.get("on", "agent") == on]
    return [StreamErrorRetryProcessor(**{k: v for k, v in spec.items() if k not in {"type", "on"}}) for spec in chosen]


def _recorder(definition: Facts, counts: Counts) -> Tool:
    """Return a tool that records its calls and answers "ok". Of several calls the first takes longest."""
    name = definition["name"]

    async def run(_tool_context_: ToolContext, **args: Any) -> str:
        counts.executed.append((_tool_context_.tool_call_id, name, args))
        for _ in range(max(0, 20 - 4 * len(counts.executed))):
            await anyio.lowlevel.checkpoint()
        return "ok"

    parameters = definition.get("parameters", NO_PARAMETERS)
    return Tool(name=name, description=definition.get("description"), parameters=parameters, run=run)


# --- what judges the answer


def _completion(case: Sidecar, play: Play, judge_model: Model, counts: Counts) -> TaskCompletion | None:
    if play.history is not None:
        return None
    scores = list(case.scorers)
    if not scores and (wanted := _wanted_scorings(case.expect)) is not None:
        scores = [(*[0.0] * (wanted - 1), 1.0) if wanted else (0.0,)]
    scorers: list[Any] = [_function_scorer(n, each, counts) for n, each in enumerate(scores)]
    if case.rubric is not None:
        scorers.insert(0, _rubric_scorer(case, play, judge_model, counts))
    return TaskCompletion(scorers=scorers) if scorers else None


def _wanted_scorings(expect: Facts) -> int | None:
    """Return how often scorers are to run by any of the expectations; ``None`` where none says so."""
    wanted = expect.get("scorers_run")
    if wanted is not None:
        return wanted[0] if isinstance(wanted, list) else wanted
    inner = [expect.get("without_processor"), expect.get("if_served"), *expect.get("one_of", ())]
    found = [_wanted_scorings(each) for each in inner if each is not None]
    return next((each for each in found if each is not None), None)


def _function_scorer(number: int, scores: Sequence[float], counts: Counts) -> Callable[[Any], float]:
    """Return a scorer that gives these scores, the last one again and again."""
    given = 0

    def scorer(_: Any) -> float:
        nonlocal given
        given += 1
        counts.scorers_run += 1
        return scores[min(given, len(scores)) - 1]

    scorer.__name__ = f"scorer_{number + 1}"
    return scorer


def _rubric_scorer(case: Sidecar, play: Play, model: Model, counts: Counts) -> StepScorer[Any, Any, Any, Any]:
    criteria = [each if isinstance(each, str) else RubricCriterion(**each) for each in case.rubric]
    settings = _settings(case) if case.is_judge else ModelSettings()
    judge = Judge(model=model, error_processors=_processors(case, play, "judge"), model_settings=settings)

    def count(_: Any) -> None:
        counts.preprocess_calls += 1
        counts.scorers_run += 1

    return create_rubric_scorer(criteria=criteria, judge=judge).preprocess(count)


def without(expect: Facts, *keys: str) -> Facts:
    """Return ``expect`` without these keys."""
    return {key: value for key, value in expect.items() if key not in keys}


def again(play: Play, **changes: Any) -> Play:
    """Return the play with something else about it."""
    return dataclasses.replace(play, **changes)

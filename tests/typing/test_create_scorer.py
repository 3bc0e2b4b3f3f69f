# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""What type checkers know of scorers. Never run: an ignore marks a line that pyright and mypy must find wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, assert_type

from mastra_py.messages import Message, TextPart
from mastra_py.scorers import ReasonContext, StepContext, StepScorer, create_scorer, filter_run
from mastra_py.scoring import (
    AgentRunInput,
    AgentRunOutput,
    NotScorable,
    Score,
    Scorer,
    ScorerLike,
    ScorerResult,
    ScorerRun,
    not_scorable,
)


@dataclass
class In:
    query: str


@dataclass
class Out:
    answer: str
    confidence: float


class Facts(TypedDict):
    words: int


def facts(ctx: StepContext[In, Out, None, None]) -> Facts:
    return {"words": len(ctx.run.output.answer.split())}


async def facts_later(ctx: StepContext[In, Out, None, None]) -> Facts:
    return facts(ctx)


def labels(ctx: StepContext[In, Out, Facts, None]) -> list[str]:
    return [ctx.run.input.query] * ctx.results.preprocess["words"]


def facts_or_nothing(ctx: StepContext[In, Out, None, None]) -> Facts | NotScorable:
    return facts(ctx) if ctx.run.output.answer else not_scorable("no answer")


async def facts_or_nothing_later(ctx: StepContext[In, Out, None, None]) -> Facts | NotScorable:
    return facts_or_nothing(ctx)


typed = create_scorer("typed", input=In, output=Out)
assert_type(typed, StepScorer[In, Out, None, None])


# The results of earlier steps, of plain and async functions alike.
def score(ctx: StepContext[In, Out, Facts, list[str]]) -> float:
    assert_type(ctx.run, ScorerRun[In, Out])
    assert_type(ctx.results.preprocess, Facts)
    assert_type(ctx.results.analyze, list[str])
    return ctx.results.preprocess["words"] * ctx.run.output.confidence


def reason(ctx: ReasonContext[In, Out, Facts, list[str]]) -> str:
    assert_type(ctx.score, float)
    return f"{ctx.score}: {', '.join(ctx.results.analyze)}"


full = typed.preprocess(facts).analyze(labels).generate_score(score).generate_reason(reason)
assert_type(full, StepScorer[In, Out, Facts, list[str]])
assert_type(typed.preprocess(facts_later), StepScorer[In, Out, Facts, None])
assert_type(typed.preprocess(facts_or_nothing), StepScorer[In, Out, Facts, None])
assert_type(typed.preprocess(facts_or_nothing_later), StepScorer[In, Out, Facts, None])
typed.preprocess(facts_later).analyze(labels).generate_score(score)


# An async analyze, score and reason.
async def labels_later(ctx: StepContext[In, Out, Facts, None]) -> list[str]:
    return labels(ctx)


async def score_later(ctx: StepContext[In, Out, Facts, list[str]]) -> Score | NotScorable:
    return Score(score(ctx), "because") if ctx.results.analyze else not_scorable()


async def reason_later(ctx: ReasonContext[In, Out, Facts, list[str]]) -> str | None:
    return reason(ctx)


typed.preprocess(facts).analyze(labels_later).generate_score(score_later).generate_reason(reason_later)

# Lambdas.
by_lambda = (
    typed.preprocess(lambda ctx: len(ctx.run.output.answer))
    .analyze(lambda ctx: [ctx.run.input.query] * ctx.results.preprocess)
    .generate_score(lambda ctx: ctx.results.preprocess / len(ctx.results.analyze))
    .generate_reason(lambda ctx: f"{ctx.score:.1f} {ctx.results.analyze[0].upper()}")
)
assert_type(by_lambda, StepScorer[In, Out, int, list[str]])

# What is wrong is seen: a misspelt key or field, a step that expects other results, an answer of a wrong type.
typed.preprocess(facts).generate_score(lambda ctx: ctx.results.preprocess["wrods"])  # type: ignore[typeddict-item]
typed.generate_score(lambda ctx: ctx.results.analyse)  # type: ignore[attr-defined]
typed.generate_score(lambda ctx: ctx.run.output.confidenze)  # type: ignore[attr-defined]
typed.analyze(labels)  # type: ignore[arg-type]
typed.preprocess(facts).analyze(labels).generate_score(lambda ctx: ctx.results.analyze)  # type: ignore[arg-type, return-value]
typed.generate_score(lambda ctx: ctx.score)  # type: ignore[attr-defined]
typed.generate_score(lambda ctx: "high")  # type: ignore[arg-type, return-value]
typed.generate_score(lambda ctx: 1).generate_reason(lambda ctx: 1)  # type: ignore[arg-type, return-value]
typed.preprocess({"words": 3})  # type: ignore[call-overload]


# A step may ask for less than it is given.
def any_score(ctx: StepContext) -> float:
    return 1.0 if ctx.run.output else 0.0


def first(ctx: StepContext[In, Out, Sequence[str], Any]) -> str:
    return ctx.results.preprocess[0]


full.generate_reason(lambda ctx: None)
typed.preprocess(facts).analyze(labels).generate_score(any_score)
assert_type(typed.preprocess(lambda ctx: ["a"]).analyze(first), StepScorer[In, Out, list[str], str])


# An untyped function gives an untyped result.
def untyped(ctx: Any) -> Any:
    return ctx


typed.preprocess(untyped).generate_score(lambda ctx: ctx.results.preprocess.anything)

# Without types, anything goes.
assert_type(create_scorer("untyped"), StepScorer[Any, Any, None, None])
assert_type(create_scorer(id="half", output=str), StepScorer[Any, str, None, None])

# An agent's scorer.
agent = create_scorer("agent", type="agent")
assert_type(agent, StepScorer[AgentRunInput, AgentRunOutput, None, None])
agent.generate_score(lambda ctx: len(ctx.run.input.input_messages) + len(ctx.run.output.text))
agent.generate_score(lambda ctx: ctx.run.input.messages)  # type: ignore[attr-defined]
create_scorer("agent", type="agent", output=str)  # type: ignore[call-overload]


# prepare_run has the run's types.
def shorten(run: ScorerRun[In, Out]) -> ScorerRun[In, Out]:
    return run


async def shorten_later(run: ScorerRun[In, Out]) -> ScorerRun[In, Out]:
    return run


def other(run: ScorerRun[Out, In]) -> ScorerRun[Out, In]:
    return run


assert_type(create_scorer("s", input=In, output=Out, prepare_run=shorten), StepScorer[In, Out, None, None])
assert_type(create_scorer("s", prepare_run=shorten_later), StepScorer[In, Out, None, None])
assert_type(
    create_scorer("s", input=In, output=Out, prepare_run=filter_run(drop_ground_truth=True)),
    StepScorer[In, Out, None, None],
)
assert_type(
    create_scorer("s", type="agent", prepare_run=filter_run(max_output_messages=1)),
    StepScorer[AgentRunInput, AgentRunOutput, None, None],
)
create_scorer("s", prepare_run=filter_run(drop_ground_truth=True)).generate_score(lambda ctx: ctx.run.output.anything)
create_scorer("s", input=In, output=Out, prepare_run=other)  # type: ignore[arg-type]
create_scorer("s", prepare_run=lambda run: None)  # type: ignore[arg-type, return-value]

# A scorer of steps is a scorer.
scorer: Scorer = full
agent_scorer: Scorer = agent
likes: list[ScorerLike] = [full, agent, "by name"]


# Running one: a run, or its fields.
async def run_them() -> None:
    run = ScorerRun(input=In("q"), output=Out("a", 1.0))
    assert_type(await full.run(run), ScorerResult)
    assert_type(await full.run(input=In("q"), output=Out("a", 1.0), run_id=None, ground_truth="gt"), ScorerResult)
    await full.run()
    await agent.run(input="q", output="a")
    await agent.run(input=AgentRunInput(task="q"), output=[Message("assistant", [TextPart("a")])])
    await agent.run(input=[{"role": "user", "content": "q"}], output=AgentRunOutput())
    await create_scorer("untyped").run(input={"q": 1}, output=3)
    await full.run(run, ground_truth="gt")  # type: ignore[call-overload]
    await full.run(input="q")  # type: ignore[call-overload]
    await full.run(outputs=Out("a", 1.0))  # type: ignore[call-overload]
    await agent.run(output=3)  # type: ignore[call-overload]


# A scorer does not change.
full.threshold = 0.5  # type: ignore[misc]

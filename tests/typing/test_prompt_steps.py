# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""What type checkers know of judges and prompt steps. Never run: an ignore marks a line that has to be found wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

from pydantic import BaseModel, TypeAdapter

from mastra_py import Agent, Judge, LegacyModel, PromptStep, StreamErrorRetryProcessor, create_scorer
from mastra_py.scorers import ReasonContext, StepContext, StepScorer
from mastra_py.scoring import AgentRunInput, AgentRunOutput, Scorer, ScorerResult


@dataclass
class In:
    question: str


class Claims(BaseModel):
    claims: list[str]


class Grade(BaseModel):
    score: float


judge = Judge(
    model="openai/gpt-5-mini",
    instructions="You grade.",
    json_prompt_injection="inline",
    error_processors=[StreamErrorRetryProcessor(max_retries=2)],
    max_processor_retries=2,
    model_settings={"temperature": 0.0},
)
Judge(model=LegacyModel(str.upper), instructions="You grade.", json_prompt_injection=False)
Judge(json_prompt_injection="native")  # type: ignore[arg-type]
Judge(modle="openai/gpt-5-mini")  # type: ignore[call-arg]
Judge("openai/gpt-5-mini")  # type: ignore[call-arg]
judge.model = None  # type: ignore[misc]

typed = create_scorer("typed", input=In, output=str, judge=judge)
create_scorer("panel", judge=Agent(id="panel", model="openai/gpt-5-mini"))
create_scorer("wrong", judge="openai/gpt-5-mini")  # type: ignore[call-overload]


# What a prompt step is answered is known in the later steps, and its functions know the context.
def ask_claims(ctx: StepContext[In, str, None, None]) -> str:
    assert_type(ctx.run.input, In)
    return f"{ctx.run.input.question}: {ctx.run.output}"


async def ask_truth(ctx: StepContext[In, str, Claims, None]) -> str:
    assert_type(ctx.results.preprocess, Claims)
    return "\n".join(ctx.results.preprocess.claims)


def ask_grade(ctx: StepContext[In, str, Claims, list[bool]]) -> str:
    assert_type(ctx.results.analyze, list[bool])
    return f"{ctx.results.analyze}"


def weigh(ctx: StepContext[In, str, Claims, list[bool]], grade: Grade) -> float:
    return grade.score / len(ctx.results.preprocess.claims)


def ask_why(ctx: ReasonContext[In, str, Claims, list[bool]]) -> str:
    assert_type(ctx.score, float)
    return f"Why {ctx.score}?"


claims = PromptStep(output=Claims, create_prompt=ask_claims)
assert_type(claims, PromptStep[Claims, StepContext[In, str, None, None]])
full = (
    typed.preprocess(claims)
    .analyze(PromptStep(output=TypeAdapter(list[bool]), create_prompt=ask_truth))
    .generate_score(PromptStep(output=Grade, create_prompt=ask_grade, calculate_score=weigh))
    .generate_reason(PromptStep(create_prompt=ask_why, judge=Judge(instructions="Explain.")))
)
assert_type(full, StepScorer[In, str, Claims, list[bool]])
scorer: Scorer = full

# With lambdas, too.
by_lambda = (
    typed.preprocess(PromptStep(output=Claims, create_prompt=lambda ctx: f"List the claims in: {ctx.run.output}"))
    .analyze(PromptStep(output=list[bool], create_prompt=lambda ctx: "\n".join(ctx.results.preprocess.claims)))
    .generate_score(lambda ctx: sum(ctx.results.analyze) / len(ctx.results.preprocess.claims))
    .generate_reason(
        PromptStep(create_prompt=lambda ctx: f"Why {ctx.score:.1f}? {ctx.results.preprocess.claims[0].upper()}")
    )
)
assert_type(by_lambda, StepScorer[In, str, Claims, list[bool]])

# A JSON Schema tells nothing.
assert_type(
    typed.analyze(PromptStep(output={"type": "object"}, create_prompt=lambda ctx: ctx.run.output)),
    StepScorer[In, str, None, Any],
)

# What is wrong is seen.
typed.analyze(PromptStep(output=list[bool], create_prompt=ask_truth))  # type: ignore[arg-type]
typed.preprocess(claims).generate_score(lambda ctx: ctx.results.preprocess.claimz)  # type: ignore[attr-defined]
PromptStep(output=Grade)  # type: ignore[call-arg]
PromptStep(output=Grade, create_prompt=ask_grade, calculate_score=lambda ctx, value: value.points)  # type: ignore[attr-defined]
PromptStep(create_promt=ask_grade)  # type: ignore[call-arg]
PromptStep(create_prompt=3)  # type: ignore[arg-type]

# An agent's scorer.
agent_scorer = create_scorer("agent", type="agent", judge=judge).generate_score(
    PromptStep(create_prompt=lambda ctx: f"{ctx.run.input.task}: {ctx.run.output.text}")
)
assert_type(agent_scorer, StepScorer[AgentRunInput, AgentRunOutput, None, None])


async def read_evidence() -> None:
    result = await full.run(input=In("q"), output="a")
    assert_type(result, ScorerResult)
    assert_type(result.judge["analyze"].output, str | None)
    assert_type(result.judge["analyze"].model_calls, int)
    assert_type(result.prompts["analyze"], str)
    result.score = 1  # type: ignore[misc]

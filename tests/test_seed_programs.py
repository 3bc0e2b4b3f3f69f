"""The programs of the two reference pages, in Python."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from support.streams import read_all

from mastra_py import (
    Agent,
    Judge,
    JudgeError,
    PromptStep,
    RubricCriterion,
    ScorerResult,
    ScorerRunError,
    StreamErrorRetryProcessor,
    TaskCompletion,
    create_rubric_scorer,
    create_scorer,
)
from mastra_py.models.local import local_model
from mastra_py.testing import ScriptedModel, Turn, api_error


def verdicts(*satisfied: bool) -> str:
    entries = [
        f'{{"id": "{n}", "reasoning": "because {n}", "satisfied": {str(met).lower()}}}'
        for n, met in enumerate(satisfied, 1)
    ]
    return f'{{"criteria": [{", ".join(entries)}], "overall_assessment": "seen"}}'


async def test_a_supervisor_goes_on_until_its_rubric_is_satisfied() -> None:
    judge = ScriptedModel([verdicts(True, False), verdicts(True, True)])
    rubric = create_rubric_scorer(
        model=judge,
        criteria=[
            RubricCriterion("The response includes an analysis section"),
            RubricCriterion("The response includes concrete recommendations"),
        ],
    )
    with ScriptedModel(["## Analysis", "## Analysis\n## Recommendations"]) as model:
        supervisor = Agent(id="supervisor", instructions="You coordinate research and writing.", model=model)
        _, result = await read_all(
            supervisor,
            "Research AI in education",
            max_steps=10,
            is_task_complete=TaskCompletion(scorers=[rubric], strategy="all"),
        )
    assert (result.stop_reason, result.text) == ("complete", "## Analysis\n## Recommendations")
    told = str(result.messages[2].parts)
    assert "The response includes concrete recommendations" in told
    assert "because 2" in told
    assert "Research AI in education" in judge.prompts[0][-1].text


async def test_a_string_is_a_checklist_and_optional_criteria_do_not_gate() -> None:
    checklist = create_rubric_scorer(
        model=ScriptedModel([verdicts(True, True)]),
        criteria="- All tests pass in the test suite\n- The function is named find_duplicates",
    )
    assert (await checklist.run(output="def find_duplicates")).score == 1
    optional = create_rubric_scorer(
        model=ScriptedModel([verdicts(True, False)]),
        criteria=[
            RubricCriterion("Includes an analysis section", required=True),
            RubricCriterion("Includes citations", required=False),
        ],
    )
    result = await optional.run(output="analysis")
    assert (result.score, result.passed) == (1, True)
    assert "Includes citations" in (result.reason or "")


async def test_one_scorer_serves_the_rubric_of_each_run_and_gates_nothing_without_one() -> None:
    judge = ScriptedModel([verdicts(False, True), verdicts(True, True)])
    rubric = create_rubric_scorer(model=judge)
    with ScriptedModel(["def f", "def find_duplicates", "hello"]) as model:
        agent = Agent(id="coder", model=model)
        _, result = await read_all(
            agent,
            "Write find_duplicates",
            is_task_complete=TaskCompletion(scorers=[rubric]),
            request_context={"rubric": "- All tests pass\n- The function is named find_duplicates"},
        )
        assert result.stop_reason == "complete"
        _, free = await read_all(agent, "Say hello", is_task_complete=[rubric])
    assert (free.stop_reason, judge.calls) == ("complete", 2)


async def test_response_quality_asks_again_only_for_the_step_that_failed() -> None:
    def transient(error: BaseException) -> bool:
        return re.search(r"ECONNRESET|ETIMEDOUT|socket hang up", str(error), re.IGNORECASE) is not None

    retry = StreamErrorRetryProcessor(
        max_retries=2,
        max_retry_after=0.01,
        delay=lambda ctx: min(0.001 * 2**ctx.retry_count, 0.01),
        matchers=[transient],
    )
    hang_up = Turn(error=api_error(400, message="socket hang up"))
    judge_model = ScriptedModel(['{"score": 0.8}', hang_up, hang_up, "It is clear."])
    scorer = (
        create_scorer(
            "response-quality",
            description="Scores response quality",
            judge=Judge(
                model=judge_model,
                instructions="Return a score and concise reason.",
                error_processors=[retry],
                max_processor_retries=2,
            ),
        )
        .generate_score(
            PromptStep(description="Score the response quality.", create_prompt=lambda ctx: f"Score: {ctx.run.output}")
        )
        .generate_reason(PromptStep(description="Explain the score.", create_prompt=lambda ctx: "Explain the score."))
    )
    result = await scorer.run(output="an answer")
    assert (result.score, result.reason, judge_model.calls) == (0.8, "It is clear.", 4)
    assert [result.judge[step].model_calls for step in ("generate_score", "generate_reason")] == [1, 3]


async def test_an_agent_scorer_sees_the_users_message_and_the_response() -> None:
    scorer = (
        create_scorer("agent-response-quality", type="agent", description="Evaluates agent responses")
        .preprocess(lambda ctx: {"user_message": ctx.run.input.input_messages[0].text})
        .generate_score(lambda ctx: 1.0 if len(ctx.run.output[0].text) > 10 else 0.5)
        .generate_reason(lambda ctx: f"asked: {ctx.results.preprocess['user_message']}")
    )
    with ScriptedModel(["short", "a longer response"]) as model:
        _, result = await read_all(Agent(id="a", model=model), "Tell me", is_task_complete=scorer)
    assert [a.accepted for a in result.attempts] == [False, True]
    assert result.completion is not None
    assert result.completion.reason == "asked: Tell me"


async def test_a_scorer_of_types_of_ones_own() -> None:
    @dataclass
    class CustomInput:
        query: str

    @dataclass
    class CustomOutput:
        answer: str
        confidence: float

    scorer = create_scorer("custom-scorer", input=CustomInput, output=CustomOutput).generate_score(
        lambda ctx: ctx.run.output.confidence
    )
    result = await scorer.run(input=CustomInput("q"), output=CustomOutput("a", 0.7))
    assert (result.score, result.passed) == (0.7, False)


@pytest.mark.local_model
async def test_a_judge_on_the_local_model_gives_a_verdict_of_the_right_shape() -> None:
    result: ScorerResult | None = None
    # A model of this size rambles now and then until it is cut off, which is no verdict.
    for seed in range(1, 5):
        settings = {"max_output_tokens": 160, "temperature": 0, "seed": seed}
        judge = Judge(model=local_model("smollm2"), model_settings=settings)
        rubric = create_rubric_scorer(judge=judge, criteria=["It is about tea"])
        try:
            result = await rubric.run(input="Write about tea", output="Tea is a drink made from leaves.")
            break
        except ScorerRunError as exc:
            assert isinstance(exc.__cause__, JudgeError)  # noqa: PT017 -- a failure of another kind is none of that
    assert result is not None
    assert result.score in {0, 1}
    (criterion,) = result.criteria
    assert criterion.description == "It is about tea"
    assert isinstance(criterion.satisfied, bool)
    assert result.judge["analyze"].usage.output_tokens > 0

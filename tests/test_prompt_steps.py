"""Prompt steps: the steps of a scorer that a judge answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import anyio.lowlevel
import pytest
from pydantic import BaseModel, Field, TypeAdapter
from support.cancelling import Stubborn, is_not_swallowed
from support.judges import graded, prompt
from support.streams import read_all
from support.vector_judge import expected as judge_expected
from support.vector_judge import play as play_judge
from support.vector_notation import UnknownNotationError, load_vectors
from support.vector_scorer import expected, in_function_mode, play

from mastra_py import (
    Agent,
    Judge,
    JudgeError,
    ModelError,
    NotScorable,
    PromptStep,
    Score,
    ScorerRunError,
    TaskCompletion,
    UserError,
    create_scorer,
    not_scorable,
)
from mastra_py.scorers import StepContext, StepScorer
from mastra_py.testing import ScriptedModel, Turn, api_error

STEPS = ("preprocess", "analyze", "generate_score", "generate_reason")
DOWN = Turn(error=api_error(503))


class Claims(BaseModel):
    claims: list[str]


def scripted(*turns: Any) -> tuple[StepScorer[Any, Any, None, None], ScriptedModel]:
    """Return a scorer without steps, and the model of its judge."""
    model = ScriptedModel(turns)
    return create_scorer("s", judge=Judge(model=model, instructions="You judge.")), model


# --- recorded behaviour

VECTORS = [v for v in load_vectors("scorer_run") if not in_function_mode(v)]
JUDGE_VECTORS = [v for v in load_vectors("retry") if v["given"]["level"] == "judge"]


@pytest.mark.parametrize("vector", VECTORS, ids=[v["name"] for v in VECTORS])
async def test_prompt_steps_run_as_recorded_or_as_a_rule_says(vector: dict[str, Any]) -> None:
    facts, _rules = expected(vector)
    assert await play(vector["given"]) == facts


def test_prompt_steps_depart_from_the_recordings_by_these_rules_only() -> None:
    departures = {v["name"].removeprefix("scorer_run/"): rules for v in VECTORS if (rules := expected(v)[1])}
    assert departures == {
        "prompt_no_judge": {"D39"},
        "prompt_no_instructions": {"D39"},
        "prompt_analyze_without_schema": {"D39"},
        "calculate_score_schema_without_score_key": {"D19"},
        "judge_score_string": {"D38"},
    }


async def test_a_prompt_vector_with_an_unknown_key_is_not_read() -> None:
    step = {"step": "generate_score", "mode": "prompt", "prompt": "x", "temperature": 1}
    with pytest.raises(UnknownNotationError, match="the step generate_score has unknown keys: temperature"):
        await play({"scorer": {"id": "s"}, "run": {}, "steps": [step]})


@pytest.mark.parametrize("vector", JUDGE_VECTORS, ids=[v["name"] for v in JUDGE_VECTORS])
async def test_a_judge_retries_as_recorded_or_as_a_rule_says(vector: dict[str, Any]) -> None:
    facts, _rules = judge_expected(vector)
    assert await play_judge(vector["given"]) == facts


def test_judges_depart_from_the_recordings_by_these_rules_only() -> None:
    departures = {v["name"].removeprefix("retry/judge/"): r for v in JUDGE_VECTORS if (r := judge_expected(v)[1])}
    assert departures == {
        "step_override_inherits_cap": {"D18", "D32"},
        "reason_fails_once_no_processors": {"D18", "D43"},
        "reason_fails_once_default_model_retries": {"D18", "D43"},
        "judge_cap_unset_greedy": {"D13", "D32"},
        "invalid_json_always_default_retry_processor": {"D33"},
    }


async def test_a_judge_vector_with_an_unknown_key_is_not_read() -> None:
    with pytest.raises(UnknownNotationError, match="the judge has unknown keys: patience"):
        await play_judge({"level": "judge", "judge": {"patience": 3}, "judge_turns": []})


# --- what the steps get and give


async def test_each_step_may_be_a_prompt_and_knows_what_the_earlier_ones_gave() -> None:
    seen: list[Any] = []

    def ask(ctx: Any) -> str:
        seen.append((ctx.run.output, ctx.results.preprocess, ctx.results.analyze, getattr(ctx, "score", None)))
        return f"question {len(seen)}"

    claims = Claims(claims=["a", "b"])
    scorer, model = scripted('{"claims": ["a", "b"]}', '{"result": [true, false]}', '{"score": 0.5}', "One is wrong.")
    steps = (
        scorer.preprocess(PromptStep(output=Claims, create_prompt=ask))
        .analyze(PromptStep(output=list[bool], create_prompt=ask))
        .generate_score(PromptStep(create_prompt=ask))
        .generate_reason(PromptStep(create_prompt=ask))
    )
    result = await steps.run(output="text")
    assert seen == [
        ("text", None, None, None),
        ("text", claims, None, None),
        ("text", claims, [True, False], None),
        ("text", claims, [True, False], 0.5),
    ]
    assert (result.preprocess, result.analyze) == (claims, [True, False])
    assert (result.score, result.reason) == (0.5, "One is wrong.")
    assert dict(result.prompts) == {step: f"question {i}" for i, step in enumerate(STEPS, 1)}
    assert [r.messages[0].text for r in model.requests] == list(result.prompts.values())


@pytest.mark.parametrize(
    ("output", "reply", "value"),
    [
        (Claims, '{"claims": ["a"]}', Claims(claims=["a"])),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (bool, '{"result": "false"}', False),
        (TypeAdapter(list[Claims]), '{"result": [{"claims": []}]}', [Claims(claims=[])]),
        ({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}, '{"n": 3}', {"n": 3}),
    ],
)
async def test_the_validated_value_is_the_steps_result(output: Any, reply: str, value: Any) -> None:
    scorer, _ = scripted(reply)
    steps = scorer.analyze(prompt(output=output)).generate_score(lambda ctx: ctx.results.analyze == value)
    assert (await steps.run()).score == 1


async def test_a_reply_that_does_not_fit_is_re_asked_once_and_then_fails_the_step() -> None:
    scorer, model = scripted('{"claims": "a"}', '{"claims": [1]}')
    with pytest.raises(ScorerRunError) as caught:
        await scorer.analyze(prompt(output=Claims)).generate_score(lambda ctx: 1).run()
    assert isinstance(caught.value.__cause__, JudgeError)
    assert (caught.value.failed_step, caught.value.__cause__.raw_text) == ("analyze", '{"claims": [1]}')
    assert "claims" in model.requests[1].messages[-1].text


async def test_steps_run_in_pipeline_order_whatever_the_order_they_were_added_in() -> None:
    scorer, model = scripted('{"claims": []}', '{"score": 1}', "fine")
    steps = scorer.generate_reason(prompt("3")).generate_score(prompt("2")).analyze(prompt("1", output=Claims))
    await steps.run()
    assert [r.messages[0].text for r in model.requests] == ["1", "2", "3"]
    with pytest.raises(UserError, match="has a step analyze already"):
        steps.analyze(prompt(output=Claims))


async def test_a_prompt_may_be_made_async() -> None:
    async def ask(ctx: Any) -> str:
        await anyio.lowlevel.checkpoint()
        return f"Grade: {ctx.run.output}"

    scorer, model = scripted('{"score": 1}')
    await scorer.generate_score(PromptStep(create_prompt=ask)).run(output="text")
    assert model.requests[0].messages[0].text == "Grade: text"


async def test_a_create_prompt_that_raises_fails_its_step_without_asking_the_judge() -> None:
    def broken(ctx: Any) -> str:
        raise ValueError("prompt broke")

    scorer, model = scripted('{"score": 1}')
    steps = scorer.preprocess(lambda ctx: 1).generate_score(PromptStep(create_prompt=broken))
    with pytest.raises(ScorerRunError, match="prompt broke") as caught:
        await steps.run()
    assert (caught.value.failed_step, caught.value.completed_steps) == ("generate_score", ("preprocess",))
    assert (dict(caught.value.result.judge), model.calls) == ({}, 0)


@pytest.mark.parametrize("value", [None, 3, ["a"], b"bytes"])
async def test_a_prompt_that_is_no_text_fails_its_step_without_asking_the_judge(value: Any) -> None:
    scorer, model = scripted('{"score": 1}')
    with pytest.raises(ScorerRunError, match="create_prompt must return a text, got"):
        await scorer.generate_score(PromptStep(create_prompt=lambda _: value)).run()
    assert model.calls == 0


async def test_create_prompt_cannot_write_what_it_is_given() -> None:
    def tamper(ctx: Any) -> str:
        ctx.run.output = "better"
        return "x"

    scorer, _ = scripted()
    with pytest.raises(ScorerRunError, match="cannot assign to field"):
        await scorer.generate_score(PromptStep(create_prompt=tamper)).run()


async def test_prompt_and_function_steps_mix_and_only_prompts_ask() -> None:
    scorer, model = scripted('{"claims": ["a", "b"]}')
    steps = scorer.analyze(prompt(output=Claims)).generate_score(lambda ctx: len(ctx.results.analyze.claims) / 4)
    result = await steps.generate_reason(lambda ctx: f"{ctx.score}").run()
    assert (result.score, result.reason, model.calls) == (0.5, "0.5", 1)
    assert list(result.judge) == ["analyze"]


# --- generate_score


def verdicts(ctx: StepContext[Any, Any, Any, Any], value: Any) -> float:
    return sum(value) / len(value)


async def test_calculate_score_makes_a_score_of_the_reply() -> None:
    scorer, _ = scripted('{"result": [true, true, false, true]}')
    assert (await scorer.generate_score(prompt(output=list[bool], calculate_score=verdicts)).run()).score == 0.75


async def test_calculate_score_knows_the_context_and_may_be_async() -> None:
    async def weigh(ctx: Any, value: float) -> Score:
        await anyio.lowlevel.checkpoint()
        return Score(value * ctx.results.preprocess, f"weighed for {ctx.run.output}", passed=True)

    scorer, _ = scripted('{"score": 0.5}')
    steps = scorer.preprocess(lambda ctx: 0.5).generate_score(prompt(calculate_score=weigh))
    result = await steps.run(output="text")
    assert (result.score, result.passed, result.reason) == (0.25, True, "weighed for text")


async def test_calculate_score_may_abstain() -> None:
    def weigh(ctx: Any, value: float) -> NotScorable:
        return not_scorable("too little to go by")

    scorer, _ = scripted('{"score": 0.5}')
    result = await scorer.generate_score(prompt(calculate_score=weigh)).run()
    assert (result.score, result.not_scorable) == (None, NotScorable("too little to go by", "generate_score"))
    assert list(result.judge) == ["generate_score"]


@pytest.mark.parametrize("value", ["high", None, float("nan")])
async def test_a_calculated_score_has_to_be_a_finite_number(value: Any) -> None:
    scorer, model = scripted('{"score": 0.5}')
    with pytest.raises(ScorerRunError, match="step generate_score failed"):
        await scorer.generate_score(prompt(calculate_score=lambda ctx, reply: value)).run()
    assert model.calls == 1


class Grade(BaseModel):
    score: float
    why: str = ""


@pytest.mark.parametrize(
    ("output", "reply", "score"),
    [
        (Grade, '{"score": 0.4, "why": "dull"}', 0.4),
        (Annotated[float, Field(ge=0, le=1)], '{"result": 0.4}', 0.4),
        (bool, '{"result": true}', 1.0),
        (dict[str, float], '{"score": 0.4}', 0.4),
        ({"type": "object", "properties": {"score": {"type": "number"}}}, '{"score": 0.4}', 0.4),
    ],
)
async def test_without_calculate_score_the_reply_is_the_score_or_has_it(output: Any, reply: str, score: float) -> None:
    scorer, model = scripted(reply)
    assert (await scorer.generate_score(prompt(output=output)).run()).score == score
    assert model.requests[0].output is not None


# --- generate_reason: the score stands


@pytest.mark.parametrize("turns", [[DOWN], ["", "  "]])
async def test_a_reason_that_fails_leaves_the_score_and_is_an_error_on_the_result(turns: list[Any]) -> None:
    scorer, model = graded('{"score": 0.9}', *turns)
    result = await scorer.analyze(lambda ctx: 2).generate_reason(prompt("Why?")).run()
    assert (result.score, result.passed, result.reason, result.not_scorable) == (0.9, False, None, None)
    error = result.error
    assert isinstance(error, ScorerRunError)
    assert (error.failed_step, error.completed_steps) == ("generate_reason", ("analyze", "generate_score"))
    assert isinstance(error.__cause__, ModelError | JudgeError)
    assert (result.judge["generate_reason"].status, model.calls) == ("failed", 1 + len(turns))
    assert error.result.judge == result.judge


@pytest.mark.asyncio
async def test_an_error_in_the_place_of_a_cancel_is_no_failed_reason() -> None:
    stubborn = Stubborn()
    scorer, _ = graded('{"score": 1}')
    await is_not_swallowed(scorer.generate_reason(stubborn.wait).run(), stubborn)


async def test_in_the_gate_a_score_passes_though_its_reason_failed() -> None:
    scorer, _ = graded('{"score": 1}', DOWN)
    steps = scorer.generate_reason(prompt("Why?"))
    _, result = await read_all(Agent(id="a", model=ScriptedModel(["draft"])), is_task_complete=steps)
    assert (result.stop_reason, result.accepted) == ("complete", True)
    assert result.completion
    scored = result.completion.results[0].result
    assert scored
    assert isinstance(scored.error, ScorerRunError)


async def test_the_reason_of_a_judge_is_the_feedback() -> None:
    scorer, _ = graded('{"score": 0}', "Name the price.", '{"score": 1}', "Good.")
    writer = ScriptedModel(["Tea.", "Tea: 4.50."])
    steps = scorer.generate_reason(prompt("Why?"))
    _, result = await read_all(Agent(id="a", model=writer), is_task_complete=steps)
    assert (result.text, result.stop_reason) == ("Tea: 4.50.", "complete")
    assert "Name the price." in str(writer.requests[1].messages[-1].parts)


async def test_the_draft_and_the_task_reach_the_prompt_in_the_gate() -> None:
    def ask(ctx: Any) -> str:
        return f"{ctx.run.input.task} -> {ctx.run.output} ({ctx.run.request_context['tone']})"

    scorer, model = scripted('{"score": 1}')
    steps = scorer.generate_score(PromptStep(create_prompt=ask))
    agent = Agent(id="a", model=ScriptedModel(["Tea."]))
    await read_all(agent, "Advertise", is_task_complete=steps, request_context={"tone": "warm"})
    assert model.requests[0].messages[0].text == "Advertise -> Tea. (warm)"


# --- misuse


@pytest.mark.parametrize(
    ("step", "options", "complaint"),
    [
        ("preprocess", {}, "scorer 's': step preprocess is a prompt and needs output="),
        ("analyze", {}, "scorer 's': step analyze is a prompt and needs output="),
        ("analyze", {"output": Claims, "calculate_score": len}, "calculate_score belongs to generate_score"),
        ("generate_score", {"output": Claims}, "there is no score in output=; give calculate_score="),
        ("generate_score", {"output": {"type": "number or so"}}, "output is no valid JSON Schema"),
        ("generate_score", {"output": len}, "step generate_score: output must be a type"),
        ("generate_reason", {"output": Claims}, "step generate_reason is answered in text; leave out output="),
        ("generate_reason", {"calculate_score": len}, "calculate_score belongs to generate_score"),
    ],
)
def test_a_step_that_cannot_work_is_refused_when_it_is_added(
    step: str, options: Mapping[str, Any], complaint: str
) -> None:
    scorer, _ = scripted()
    with pytest.raises(UserError, match=complaint):
        getattr(scorer, step)(prompt(**options))


@pytest.mark.parametrize("options", [{"create_prompt": "Grade it."}, {"create_prompt": len, "calculate_score": 1}])
def test_functions_have_to_be_functions(options: Any) -> None:
    with pytest.raises(UserError, match=r"PromptStep (create_prompt|calculate_score) must be a function"):
        PromptStep(**options)


def test_a_prompt_step_needs_create_prompt() -> None:
    make: Any = PromptStep
    with pytest.raises(TypeError, match="create_prompt"):
        make(description="Grade it.")


async def test_a_judge_given_to_the_step_alone_is_enough() -> None:
    model = ScriptedModel(['{"score": 1}'])
    step = prompt(judge=Judge(model=model, instructions="i"))
    assert (await create_scorer("s").generate_score(step).run()).score == 1


async def test_one_step_without_a_judge_is_found_before_the_others_run() -> None:
    ran: list[Any] = []
    judge = Judge(model=ScriptedModel([]), instructions="i")
    scorer = (
        create_scorer("s")
        .preprocess(ran.append)
        .generate_score(prompt(judge=judge))
        .generate_reason(prompt("Why?", judge=Judge(instructions="i")))
    )
    complaint = "scorer 's': step generate_reason is a prompt, and its judge has no model"
    with pytest.raises(UserError, match=complaint):
        await scorer.run()
    with pytest.raises(UserError, match=complaint):
        Agent(id="a", model=ScriptedModel([])).stream("go", is_task_complete=TaskCompletion([scorer]))
    assert ran == []

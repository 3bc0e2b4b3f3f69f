"""The rubric scorer: a judge grades, the required criteria decide, and the reason works as feedback."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass, replace
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.rubrics import BAD, GOOD, RUBRIC, all_of, prompt_of, reply, said
from support.streams import read_all, read_failing
from support.vector_notation import UnknownNotationError, load_vectors
from support.vector_rubric import expected_score, play_score
from support.vector_scorer import Context

from mastra_py import (
    Agent,
    AgentRunInput,
    AgentRunOutput,
    Judge,
    JudgeError,
    Message,
    PromptStep,
    RubricCriterion,
    ScorerResult,
    ScorerRunError,
    UserError,
    create_rubric_scorer,
    not_scorable,
)
from mastra_py.models.base import ModelRequest
from mastra_py.models.profile import ModelProfile
from mastra_py.scorers import RubricVerdict
from mastra_py.testing import FunctionModel, ScriptedModel, Turn

VECTORS = load_vectors("rubric_score")


# --- recorded behaviour


@pytest.mark.parametrize("vector", VECTORS, ids=[v["name"] for v in VECTORS])
async def test_grades_as_recorded_or_as_a_rule_says(vector: dict[str, Any]) -> None:
    facts, _rules = expected_score(vector)
    came = await play_score(vector["given"])
    assert {key: came.get(key) for key in facts} == facts


def test_departs_from_the_recordings_by_these_rules_only() -> None:
    departures = {v["name"].removeprefix("rubric_score/"): rules for v in VECTORS if (rules := expected_score(v)[1])}
    assert departures == {
        "scale_half_pass": {"D23"},
        "scale_0_pass": {"D37"},
        "judge_flips_required_to_optional": {"D1"},
        "judge_flips_optional_to_required": {"D1"},
        "judge_flips_all_to_optional": {"D1"},
        "judge_omits_a_required_criterion": {"D1"},
        "judge_returns_no_criteria": {"D1"},
        "judge_adds_unknown_optional_unmet": {"D1"},
        "judge_rewrites_text": {"D1"},
        "judge_extra_keys": {"D1"},
        "no_rubric_judge_invalid_json": {"D2"},
        "no_rubric_scale_10": {"D2"},
        "precedence_empty_string_rc_blocks": {"D2"},
        "precedence_empty_array_rc_blocks": {"D2"},
        "non_string_rubric_number": {"D24"},
        "non_string_rubric_object": {"D24"},
        "array_of_strings": {"D1", "D24"},
    }


@pytest.mark.parametrize(
    "given",
    [
        {"judge_turns": [], "run": {}, "strictness": 3},
        {"judge_turns": [{"text": "x", "mood": "good"}], "run": {}},
        {"judge_turns": [{"text": "x"}], "run": {"thread": "t"}},
    ],
)
async def test_a_vector_with_an_unknown_key_is_not_read(given: dict[str, Any]) -> None:
    with pytest.raises(UnknownNotationError, match="unknown keys"):
        await play_score(given)


# --- R1, R2: score and reason


@pytest.mark.parametrize(
    ("analysis", "cites", "score"), [(True, True, 1), (True, False, 1), (False, True, 0), (False, False, 0)]
)
@pytest.mark.parametrize("scale", [1.0, 0.5, 10])
async def test_the_score_is_the_scale_where_every_required_criterion_is_met_and_else_0(
    analysis: bool, cites: bool, score: int, scale: float
) -> None:
    judge = ScriptedModel([all_of({"analysis": analysis, "cites": cites})])
    result = await create_rubric_scorer(judge, RUBRIC, scale).run(output="text")
    assert (result.score, result.passed) == (score * scale, analysis)
    assert [(c.id, c.satisfied) for c in result.criteria] == [("analysis", analysis), ("cites", cites)]


@pytest.mark.parametrize("scale", [0.001, 1000])
async def test_the_scale_does_not_change_what_the_gate_accepts(scale: float) -> None:
    for text, stop in ((GOOD, "complete"), (BAD, "max_steps")):
        scorer = create_rubric_scorer(ScriptedModel([text]), RUBRIC, scale)
        _, result = await read_all(Agent(id="a", model=ScriptedModel(["x"])), is_task_complete=scorer, max_steps=1)
        assert result.stop_reason == stop


async def test_the_reason_lists_each_criterion_with_its_verdict_and_why() -> None:
    judge = ScriptedModel([reply(said("analysis", False, "only\nfacts"), said("cites", True, "names two"))])
    result = await create_rubric_scorer(judge, RUBRIC).run(output="text")
    assert result.reason == (
        "The rubric is not satisfied yet: not every required criterion is met.\n"
        "\n"
        "- [unmet, required] Has an analysis\n"
        "  only\n"
        "  facts\n"
        "- [met, optional] Cites\n"
        "  names two\n"
        "\n"
        "Overall: All in all.\n"
        "\n"
        "Still to be met: Has an analysis"
    )


async def test_the_reason_of_a_pass_shows_the_optional_criteria_that_are_unmet() -> None:
    judge = ScriptedModel([reply(said("analysis", True, ""), said("cites", False, "none"), overall_assessment="")])
    result = await create_rubric_scorer(judge, RUBRIC).run(output="text")
    assert result.reason == (
        "The rubric is satisfied: every required criterion is met.\n"
        "\n"
        "- [met, required] Has an analysis\n"
        "- [unmet, optional] Cites\n"
        "  none"
    )


async def test_an_all_optional_rubric_gates_and_says_what_is_unmet() -> None:
    """D23"""
    judge = ScriptedModel([all_of({"1": True, "2": False})])
    criteria = [RubricCriterion("alpha", required=False), RubricCriterion("beta\n gamma", required=False)]
    result = await create_rubric_scorer(judge, criteria).run(output="text")
    assert (result.score, result.passed) == (0, False)
    assert result.reason is not None
    assert result.reason.startswith("The rubric is not satisfied yet: not every criterion is met.")
    assert result.reason.endswith("Still to be met: beta gamma")


async def test_the_result_keeps_verdicts_and_evidence() -> None:
    judge = ScriptedModel(["Let me think.", BAD], id="small")
    result = await create_rubric_scorer(judge, RUBRIC).run(output="text", run_id="r")
    assert isinstance(result.analyze, RubricVerdict)
    assert result.analyze.criteria == result.criteria
    assert [c.id for c in result.analyze.unmet] == ["analysis"]
    assert result.prompts == {"analyze": prompt_of(judge)}
    record = result.judge["analyze"]
    assert (record.status, record.model, record.output, record.attempts, record.model_calls) == (
        "ok", "small", BAD, 2, 2,
    )  # fmt: skip
    assert (record.usage.input_tokens, result.run_id) == (2, "r")


# --- R4 to R6: which rubric


async def test_a_rubric_of_the_run_is_taken_from_the_first_source_that_has_one() -> None:
    sources = {"request_context": "- of the request", "additional_context": ["of more"], "input": "of the input"}
    for name in list(sources):
        judge = ScriptedModel([all_of({"1": True})])
        run: dict[str, Any] = {key: {"rubric": value, "other": 1} for key, value in sources.items()}
        result = await create_rubric_scorer(judge).run(output="x", **run)
        assert [c.description for c in result.criteria] == [str(sources.pop(name)).strip("-[]' ")]


async def test_a_rubric_of_its_own_wins_unless_it_is_blank() -> None:
    for own, used in (("- own", "own"), ("  \n-", "of the run"), ([], "of the run")):
        judge = ScriptedModel([all_of({"1": True})])
        result = await create_rubric_scorer(judge, own).run(output="x", request_context={"rubric": "of the run"})
        assert [c.description for c in result.criteria] == [used]


@pytest.mark.parametrize("context", [{"rubric": None}, {}, Context({}), None, object(), "rubric"])
async def test_a_context_without_a_rubric_leaves_it_to_the_next(context: Any) -> None:
    judge = ScriptedModel([all_of({"1": True})])
    run: Any = {"request_context": context, "additional_context": Context({"rubric": "- next"})}
    assert (await create_rubric_scorer(judge).run(output="x", **run)).criteria[0].description == "next"


@pytest.mark.parametrize("context", [None, {"rubric": ""}, {"rubric": []}, {"rubric": " \n- "}])
@pytest.mark.parametrize("scale", [1, 10])
async def test_without_a_rubric_the_score_is_1_and_no_judge_is_asked(context: Any, scale: float) -> None:
    """D2"""
    with ScriptedModel([]) as judge:
        scorer = create_rubric_scorer(judge, scale=scale)
        result = await scorer.run(output="", request_context=context, additional_context={"rubric": None})
        _, run = await read_all(
            Agent(id="a", model=ScriptedModel(["x"])), is_task_complete=scorer, request_context=context
        )
    assert (result.score, result.passed, result.criteria, result.judge) == (1, True, (), {})
    assert result.reason == "There is no rubric, so there was nothing to grade."
    assert run.stop_reason == "complete"


async def test_without_a_rubric_no_key_is_needed_and_with_one_its_lack_is_found_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    scorer = create_rubric_scorer("openai/gpt-5-mini")
    assert (await scorer.run(output="x")).score == 1
    with pytest.raises(UserError, match="OPENAI_API_KEY"):
        await scorer.run(output="x", request_context={"rubric": "a"})
    with pytest.raises(UserError, match="OPENAI_API_KEY"):
        Agent(id="a", model=ScriptedModel([])).stream("go", is_task_complete=create_rubric_scorer("openai/x", "a"))


@pytest.mark.parametrize(
    ("rubric", "named"),
    [(7, "got int: 7"), ({"description": "x"}, "got dict"), (True, "got bool"), (["ok", ""], r"\[1\]: a criterion")],
)
async def test_what_a_run_brings_and_is_no_rubric_is_a_mistake_that_leaves_the_gate_too(
    rubric: Any, named: str
) -> None:
    """D24"""
    scorer = create_rubric_scorer(ScriptedModel([]), id="r")
    with pytest.raises(UserError, match=f"scorer 'r': the rubric in the run's request_context.*{named}"):
        await scorer.run(output="x", request_context={"rubric": rubric}, input={"rubric": "- fine"})
    writer = ScriptedModel(["x"])
    _, error = await read_failing(
        Agent(id="a", model=writer), is_task_complete=scorer, request_context={"rubric": rubric}
    )
    assert isinstance(error, UserError)
    assert re.search(named, str(error))


async def test_one_scorer_serves_many_rubrics_at_once() -> None:
    def grade(request: ModelRequest) -> str:
        return all_of({"1": "Rome" in request.messages[0].text.partition("</rubric>")[0]})

    judge = FunctionModel(grade)
    scorer = create_rubric_scorer(judge)
    agent = Agent(id="a", model=FunctionModel(lambda request: "text"))
    passed: dict[str, Any] = {}

    async def run(city: str) -> None:
        context = {"rubric": f"- Names {city}"}
        result = await agent.generate("go", is_task_complete=scorer, request_context=context, max_steps=1)
        assert result.completion is not None
        passed[city] = result.completion.passed

    async with anyio.create_task_group() as tasks:
        for city in ("Rome", "Oslo", "Lima"):
            tasks.start_soon(run, city)
    assert passed == {"Rome": True, "Oslo": False, "Lima": False}


# --- what the judge is told, and asked again


async def test_criteria_are_sent_with_id_and_words_and_the_reply_has_a_form() -> None:
    judge = ScriptedModel([all_of({"1": True, 'a "b"': True})])
    criteria = ["line one\nline two", RubricCriterion("Grün \ud83d <b>", required=False, id='a "b"')]
    result = await create_rubric_scorer(judge, criteria).run(input="t", output="o")
    assert '<criterion id="1" required>\nline one\nline two\n</criterion>' in prompt_of(judge)
    assert '<criterion id="a \\"b\\"" optional>\nGrün \ufffd <b>\n</criterion>' in prompt_of(judge)
    (request,) = judge.requests
    assert request.output is not None
    assert request.output.name == "rubric_verdicts"
    assert "grade the output of an assistant" in (request.system or "")
    assert [c.description for c in result.criteria] == ["line one\nline two", "Grün \ud83d <b>"]


async def test_a_judge_without_native_output_is_told_the_form_in_words() -> None:
    judge = ScriptedModel([GOOD], profile=ModelProfile(native_output=False))
    await create_rubric_scorer(judge, RUBRIC).run(output="o")
    (request,) = judge.requests
    assert request.output is None
    assert '"overall_assessment"' in request.messages[0].text


async def test_what_is_missing_is_asked_for_once_and_then_unmet() -> None:
    """D1"""
    judge = ScriptedModel([reply(said("cites", True))], repeat_last=True)
    result = await create_rubric_scorer(judge, RUBRIC).run(output="o")
    assert (result.score, result.passed, judge.calls) == (0, False, 2)
    assert [(c.satisfied, c.reasoning) for c in result.criteria] == [(False, "no verdict"), (True, "because")]
    assert "[unmet, required] Has an analysis\n  no verdict" in (result.reason or "")
    again = judge.requests[1].messages
    assert [m.role for m in again] == ["user", "assistant", "user"]
    assert 'verdicts are missing on "analysis"; the other verdicts are kept' in again[-1].text


@pytest.mark.parametrize(
    "text", ["It looks fine.", "", reply(), reply(said("invented", True)), reply(said(None, True))]
)
async def test_a_judge_without_any_usable_verdict_is_an_error_and_never_a_verdict(text: str) -> None:
    """A43, D1"""
    judge = ScriptedModel([text], repeat_last=True)
    with pytest.raises(ScorerRunError) as caught:
        await create_rubric_scorer(judge, RUBRIC, id="strict").run(output="o")
    assert (caught.value.failed_step, judge.calls) == ("analyze", 2)
    error = caught.value.__cause__
    assert isinstance(error, JudgeError)
    assert error.raw_text == text
    assert "strict" in str(error)


@dataclass
class Essay:
    title: str
    pages: int


@pytest.mark.parametrize(
    ("given", "task"),
    [
        ("the task", "the task"),
        ({"task": "the task"}, "the task"),
        ({"original_task": "the task", "task": "another"}, "the task"),
        ({"original_task": " ", "task": 7, "input_messages": [{"role": "user", "content": "the task"}]}, "the task"),
        ([Message("user", "first"), Message("assistant", "ok"), Message("user", "the task")], "the task"),
        (AgentRunInput(input_messages=(Message("user", "the task"),)), "the task"),
        (AgentRunInput(input_messages=(Message("user", "more"),), task="the task"), "the task"),
        (None, None),
        ("", None),
        ({"query": "x"}, None),
        (["no", "messages"], None),
        (AgentRunInput(), None),
    ],
)
async def test_the_task_is_found_in_the_input(given: Any, task: str | None) -> None:
    judge = ScriptedModel([GOOD])
    await create_rubric_scorer(judge, RUBRIC).run(input=given, output="o")
    section = re.search(r"\[task \w+\]\n(.*)\n\[end of task \w+\]", prompt_of(judge), re.DOTALL)
    assert (section and section[1]) == task
    assert ("(no task provided)" in prompt_of(judge)) == (task is None)


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (" as it is\n", " as it is\n"),
        ([Message("assistant", "first"), Message("assistant", "last"), Message("tool", [])], "last"),
        (AgentRunOutput([Message("assistant", "said"), Message("assistant", [])]), "said"),
        ([{"role": "assistant", "content": "said"}], "said"),
        (Message("assistant", "said"), "said"),
        ({"answer": "grün", "n": 1}, '{"answer": "grün", "n": 1}'),
        (["a", 1], '["a", 1]'),
        (Essay("T", 3), '{"title": "T", "pages": 3}'),
        (3.5, "3.5"),
        (object, "<class 'object'>"),
        ("bad \ud83d\0", "bad \ufffd\ufffd"),
        (None, None),
        (" \n", None),
        ([], None),
        ([Message("user", "not the assistant's")], None),
    ],
)
async def test_the_output_is_shown_as_text(output: Any, text: str | None) -> None:
    judge = ScriptedModel([GOOD], repeat_last=True)
    scorer = create_rubric_scorer(judge, RUBRIC)
    await scorer.run(output=output)
    section = re.search(r"\[output \w+\]\n(.*)\n\[end of output \w+\]", prompt_of(judge), re.DOTALL)
    assert (section and section[1]) == text
    await scorer.run(output=output, input={"current_text": "what stands there now"})
    assert ("what stands there now" in prompt_of(judge, 1)) == (text is None)


# --- making one


async def test_the_judge_may_be_told_more() -> None:
    model = ScriptedModel([GOOD], profile=ModelProfile(native_output=False))
    judge = Judge(model=model, instructions="Be strict.", json_prompt_injection="system", model_settings={"seed": 7})
    await create_rubric_scorer(criteria=RUBRIC, judge=judge).run(output="o")
    (request,) = model.requests
    assert (request.system or "").startswith("Be strict.\n\nAnswer with one JSON object")
    assert request.settings.seed == 7
    assert "<rubric>" in request.messages[0].text


async def test_model_wins_over_the_judges_own() -> None:
    model = ScriptedModel([GOOD])
    judge = Judge(model=ScriptedModel([]), model_settings={"seed": 7})
    await create_rubric_scorer(model, RUBRIC, judge=judge).run(output="o")
    assert model.requests[0].settings.seed == 7


async def test_an_agent_may_be_the_judge() -> None:
    looked_up: list[str] = []

    def lookup(word: str) -> str:
        """Look a word up."""
        looked_up.append(word)
        return "found"

    model = ScriptedModel([Turn(tool_calls=[("1", "lookup", {"word": "tea"})]), GOOD])
    judge = Agent(id="critic", model=model, instructions="You are a critic.", tools=[lookup])
    writer = Agent(id="a", model=ScriptedModel(["x"]))
    scorer = create_rubric_scorer(criteria=RUBRIC, judge=judge)
    _, result = await read_all(writer, is_task_complete=scorer, max_steps=1)
    assert (result.stop_reason, looked_up, model.calls) == ("complete", ["tea"], 2)
    assert model.requests[0].system == "You are a critic."
    assert result.usage.by["judge:rubric-scorer"].input_tokens == 2


async def test_an_agent_as_judge_is_asked_again_for_what_is_missing_and_its_verdicts_are_kept() -> None:
    model = ScriptedModel([reply(said("analysis", True)), reply(said("cites", True))])
    judge = Agent(id="critic", model=model)
    result = await create_rubric_scorer(criteria=RUBRIC, judge=judge).run(output="x")
    assert (result.passed, model.calls) == (True, 2)
    assert all(c.satisfied for c in result.criteria)


async def test_an_agent_as_judge_has_one_re_ask_in_all_and_is_read_as_leniently() -> None:
    model = ScriptedModel([reply(said("analysis", "true"), said("cites", "false"))])
    result = await create_rubric_scorer(criteria=RUBRIC, judge=Agent(id="critic", model=model)).run(output="x")
    assert (result.passed, model.calls) == (True, 1)
    assert [c.satisfied for c in result.criteria] == [True, False]
    model = ScriptedModel([reply(said("analysis", True), said("cites", "maybe")), reply(said("cites", True))])
    result = await create_rubric_scorer(criteria=RUBRIC, judge=Agent(id="critic", model=model)).run(output="x")
    assert (result.passed, model.calls) == (True, 2), "the verdicts of the first reply are kept"
    model = ScriptedModel(["prose", "prose"])
    with pytest.raises(ScorerRunError):
        await create_rubric_scorer(criteria=RUBRIC, judge=Agent(id="critic", model=model)).run(output="x")
    assert model.calls == 2


async def test_a_verdict_that_the_judges_own_scorers_reject_is_none() -> None:
    good = reply(said("analysis", True), said("cites", True))
    judge = Agent(
        id="critic",
        model=ScriptedModel([good], repeat_last=True),
        defaults={"is_task_complete": lambda run: 0, "max_steps": 2},
    )
    with pytest.raises(ScorerRunError, match="its run ended as max_steps"):
        await create_rubric_scorer(criteria=RUBRIC, judge=judge).run(output="x")


async def test_a_key_that_is_given_twice_does_not_pass_through_an_agent() -> None:
    twice = '{"criteria": [{"id": "analysis", "reasoning": "r", "satisfied": false, "satisfied": true}]}'
    model = ScriptedModel([twice], repeat_last=True)
    with pytest.raises(ScorerRunError):
        await create_rubric_scorer(criteria=RUBRIC, judge=Agent(id="critic", model=model)).run(output="x")


@pytest.mark.parametrize("reason", ["length", "refusal", "content_filter"])
async def test_a_judges_reply_that_is_not_whole_is_not_read(reason: Any) -> None:
    good = reply(said("analysis", True), said("cites", True))
    model = ScriptedModel([Turn(text=good, finish_reason=reason)], repeat_last=True)
    with pytest.raises(ScorerRunError, match=f"not whole .{reason}"):
        await create_rubric_scorer(model, RUBRIC).run(output="x")
    assert model.calls == 2


async def test_steps_may_be_added_around_the_grading() -> None:
    base = create_rubric_scorer(ScriptedModel([BAD]), RUBRIC)
    scorer = base.preprocess(lambda ctx: len(ctx.run.output)).generate_reason(
        lambda ctx: f"{ctx.results.preprocess} letters, score {ctx.score:g}, unmet: {ctx.results.analyze.unmet[0].id}"
    )
    result = await scorer.run(output="four")
    assert (result.preprocess, result.reason) == (4, "4 letters, score 0, unmet: analysis")
    short = base.preprocess(lambda ctx: not_scorable("too short"))
    abstained = await short.run(output="x")
    assert (abstained.score, abstained.not_scorable and abstained.not_scorable.reason) == (None, "too short")
    with pytest.raises(UserError, match="has a step analyze already"):
        base.analyze(lambda ctx: None)


async def test_a_criterion_of_several_lines_stays_in_its_entry_and_is_named_in_one() -> None:
    judge = ScriptedModel([all_of({"1": False, "2": False})])
    result = await create_rubric_scorer(judge, ["Has an\nanalysis", "Cites"]).run(output="text")
    assert "- [unmet, required] Has an\n  analysis\n" in (result.reason or "")
    assert (result.reason or "").endswith("Still to be met: Has an analysis; Cites")


async def test_a_step_that_is_added_is_answered_by_the_same_judge() -> None:
    judge = ScriptedModel([GOOD, "It has all it needs."])
    scorer = create_rubric_scorer(judge, RUBRIC).generate_reason(PromptStep(create_prompt=lambda ctx: "Say why."))
    result = await scorer.run(output="text")
    assert (result.score, result.reason, judge.calls) == (1, "It has all it needs.", 2)


async def test_the_judge_is_told_which_ids_there_are() -> None:
    judge = ScriptedModel([all_of({"analysis": True, "2": True})], profile=ModelProfile(native_output=True))
    await create_rubric_scorer(judge, [RUBRIC[0], "Cites"]).run(output="text")
    (request,) = judge.requests
    assert request.output is not None
    entry = request.output.schema["properties"]["criteria"]["items"]
    assert entry["properties"]["id"]["enum"] == ["analysis", "2"]


def test_it_has_a_name_and_an_id() -> None:
    scorer = create_rubric_scorer(ScriptedModel([]))
    assert (scorer.id, scorer.name) == ("rubric-scorer", "Rubric (LLM)")
    other = create_rubric_scorer(ScriptedModel([]), id="style", name="Style")
    assert (other.id, other.name) == ("style", "Style")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "scorer 'rubric-scorer' needs a judge"),
        ({"judge": Judge(instructions="Grade.")}, "needs a judge"),
        ({"judge": "openai/gpt-5-mini"}, "judge must be a Judge or an Agent"),
        ({"model": "gpt-5-mini"}, "model string 'gpt-5-mini' is not understood"),
        ({"model": 7}, "a model is a string"),
        ({"model": "openai/x", "judge": Agent(id="a", model=ScriptedModel([]))}, "leave out model="),
        *[
            ({"model": "openai/x", "scale": scale}, "scale must be a finite number above 0")
            for scale in (0, -1, float("nan"), float("inf"), 10**400, -(10**5000), True, "1", None)
        ],
        ({"model": "openai/x", "scale": 0}, "got 0$"),
        ({"model": "openai/x", "scale": 10**5000}, "got one too big for a float$"),
        ({"model": "openai/x", "criteria": 7}, "criteria must be a text .* got int"),
        ({"model": "openai/x", "id": " "}, "id of a scorer"),
    ],
)
def test_what_cannot_work_is_refused_when_it_is_made(options: dict[str, Any], named: str) -> None:
    with pytest.raises(UserError, match=named):
        create_rubric_scorer(**options)


# --- any rubric, any judge


SATISFIED = st.sampled_from([True, False, "true", "FALSE", " True ", 1, 0, "1", "yes", "", 2, None, [], 0.5])
REASONING = st.sampled_from(["because", "", None, 7])
CLEAR = {
    "True": True,
    "False": False,
    "'true'": True,
    "'FALSE'": False,
    "' True '": True,
    "1": True,
    "0": False,
    "'1'": True,
}


@dataclass(frozen=True)
class Heard:
    """What one reply says clearly, by the ids of the criteria: its verdicts, with ``None`` for an unclear one."""

    text: str
    told: dict[str, list[tuple[bool | None, bool]]]


@st.composite
def replies(draw: st.DrawFn, texts: list[str]) -> Heard:
    """A judge's reply about criteria ``1``, ``2``, ... in every sloppy form, and what is really in it."""
    entries: list[Any] = []
    told: dict[str, list[tuple[bool | None, bool]]] = {}
    for _ in range(draw(st.integers(0, 2 * len(texts)))):
        if draw(st.integers(0, 9)) == 0:
            entries.append(draw(st.sampled_from(["junk", None, 3, []])))
            continue
        satisfied, reasoning = draw(SATISFIED), draw(REASONING)
        entry: dict[str, Any] = {"reasoning": reasoning, "satisfied": satisfied, "required": draw(st.booleans())}
        index = draw(st.integers(0, len(texts)))  # the last one is made up
        text = texts[index] if index < len(texts) else "gamma"
        named = [str(index + 1)] if index < len(texts) else []
        match draw(st.integers(0, 3)):
            case 0:
                entry["id"] = index + 1
            case 1:
                entry |= {"id": None, "criterion": f" {text.upper()}"}
                named = [str(i + 1) for i, known in enumerate(texts) if known == text]
            case 2:
                entry = {"criterion": text, **entry}
                named = [str(i + 1) for i, known in enumerate(texts) if known == text]
            case _:
                entry |= {"id": str(index + 1), "criterion": "alpha"}
        entries.append(entry)
        for own_id in named:
            told.setdefault(own_id, []).append((CLEAR.get(repr(satisfied)), isinstance(reasoning, str)))
    source = json.dumps({"criteria": entries, draw(st.sampled_from(["overallAssessment", "x"])): "fine"})
    decoy = draw(st.sampled_from(["", "Sure:\n```json\n", all_of({str(i + 1): True for i in range(len(texts))}), "{"]))
    if draw(st.integers(0, 4)) == 0:
        return Heard(decoy + source[: draw(st.integers(1, len(source) - 1))], {})
    return Heard(f"{decoy}{source}{draw(st.sampled_from(['', ' ', chr(10) + '```', ' Well, {that} is all.']))}", told)


@st.composite
def graded_rubrics(draw: st.DrawFn) -> tuple[list[RubricCriterion], Heard, Heard]:
    texts = draw(st.lists(st.sampled_from(["alpha", "beta", "delta"]), min_size=1, max_size=4))
    criteria = [RubricCriterion(text, required=draw(st.booleans())) for text in texts]
    return criteria, draw(replies(texts)), draw(replies(texts))


def must_not_pass(heard: list[Heard], own_id: str) -> bool:
    """Tell whether nothing clear says that the criterion is met, or something clear says that it is not."""
    spoken = [h.told[own_id] for h in heard if own_id in h.told]
    if not spoken:
        return True
    first_stands = {satisfied for satisfied, _ in spoken[0]} == {False} and any(why for _, why in spoken[0])
    return {satisfied for satisfied, _ in spoken[-1]} != {True} or first_stands


@settings(max_examples=150)
@given(graded_rubrics())
async def test_no_sloppiness_of_a_judge_makes_a_pass(
    graded: tuple[list[RubricCriterion], Heard, Heard],
) -> None:
    criteria, *heard = graded
    judge = ScriptedModel([h.text for h in heard])
    try:
        result = await create_rubric_scorer(judge, criteria).run(output="o")
    except ScorerRunError as exc:
        result = exc.__cause__
    if not isinstance(result, ScorerResult):
        assert isinstance(result, JudgeError)
        assert judge.calls == 2
        return
    assert [(c.description, c.required) for c in result.criteria] == [(c.description, c.required) for c in criteria]
    assert result.score == float(result.passed is True)
    gating = [c for c in result.criteria if c.required] or result.criteria
    assert result.passed is all(c.satisfied for c in gating)
    for criterion in result.criteria:
        if must_not_pass(heard[: judge.calls], criterion.id):
            assert not criterion.satisfied


# --- limits of the scale, and what is said of the scorer and of its faults


async def test_the_scale_may_be_the_greatest_number_there_is() -> None:
    judge = ScriptedModel([all_of({"analysis": True, "cites": True})])
    assert (await create_rubric_scorer(judge, RUBRIC, sys.float_info.max).run(output="o")).score == sys.float_info.max


async def test_without_a_rubric_an_output_passes_whatever_score_is_asked_for() -> None:
    scorer = replace(create_rubric_scorer(ScriptedModel([]), scale=10), threshold=5)
    result = await scorer.run(output="o")
    assert (result.score, result.passed) == (1, True)


def test_it_says_what_it_judges() -> None:
    assert create_rubric_scorer(ScriptedModel([])).description == "Grades an output against a rubric."


def test_a_judge_that_is_none_is_refused_by_the_scorers_name() -> None:
    with pytest.raises(UserError, match=r"^scorer 'style': judge must be a Judge or an Agent"):
        create_rubric_scorer(id="style", judge="openai/gpt-5-mini")  # type: ignore[arg-type]


async def test_an_agent_as_judge_is_told_the_form_by_its_plain_name() -> None:
    model = ScriptedModel([all_of({"analysis": True, "cites": True})], profile=ModelProfile(native_output=True))
    await create_rubric_scorer(criteria=RUBRIC, judge=Agent(id="j", model=model)).run(output="o")
    (request,) = model.requests
    assert request.output is not None
    assert request.output.name == "output"
    assert list(request.output.schema["properties"]) == ["criteria", "overall_assessment"]


async def test_a_judge_whose_instructions_are_empty_is_named_with_its_scorer_and_step() -> None:
    scorer = create_rubric_scorer(ScriptedModel([]), RUBRIC, id="style", judge=Judge(instructions=""))
    with pytest.raises(UserError, match=r"^scorer 'style': step analyze .* its judge has no instructions"):
        await scorer.run(output="o")

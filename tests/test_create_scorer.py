"""``create_scorer``: a scorer made of function steps."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from support.vector_notation import UnknownNotationError, load_vectors
from support.vector_scorer import expected, in_function_mode, play

from mastra_py.errors import RunError, ScorerRunError, TripWire, UserError
from mastra_py.messages import Message, TextPart
from mastra_py.scorers import ReasonContext, StepContext, StepScorer, create_scorer
from mastra_py.scoring import (
    AgentRunInput,
    AgentRunOutput,
    NotScorable,
    Score,
    Scorer,
    ScorerResult,
    ScorerRun,
    as_scorer,
    not_scorable,
)

VECTORS = [v for v in load_vectors("scorer_run") if in_function_mode(v)]
STEPS = ("preprocess", "analyze", "generate_score", "generate_reason")


def scored(score: Any = 1.0, **options: Any) -> StepScorer[Any, Any, None, None]:
    """Return a scorer that gives ``score``."""
    return create_scorer("s", **options).generate_score(lambda ctx: score)


def crash(ctx: Any) -> Any:
    raise ValueError("broke")


# --- recorded behaviour


@pytest.mark.parametrize("vector", VECTORS, ids=[v["name"] for v in VECTORS])
async def test_runs_as_recorded_or_as_a_rule_says(vector: dict[str, Any]) -> None:
    facts, _rules = expected(vector)
    assert await play(vector["given"]) == facts


def test_departs_from_the_recordings_by_these_rules_only() -> None:
    departures = {v["name"].removeprefix("scorer_run/"): rules for v in VECTORS if (rules := expected(v)[1])}
    assert departures == {
        "score_nan": {"D17"},
        "score_null": {"D17"},
        "score_infinity": {"D17"},
        "score_undefined": {"D17"},
        "score_object": {"D17"},
        "reason_throws_keeps_score": {"D18"},
        "not_scorable_generate_reason": {"D18"},
        "same_step_twice_generate_score": {"D27"},
        "reason_before_score": {"D27"},
        "analyze_after_score": {"D27"},
        "step_mutates_results_object": {"D16"},
        "step_mutates_run_output": {"D16"},
        "extra_run_keys_pass_through": {"D40"},
    }


async def test_a_vector_with_an_unknown_key_is_not_read() -> None:
    vector = {"scorer": {"id": "s"}, "run": {}, "steps": [{"step": "analyze", "mode": "function", "retries": 2}]}
    with pytest.raises(UnknownNotationError, match="the step analyze has unknown keys: retries"):
        await play(vector)


# --- making one


def test_the_id_is_required() -> None:
    make: Any = create_scorer
    with pytest.raises(TypeError, match="id"):
        make(name="nameless")


@pytest.mark.parametrize("value", ["", "  \n", None, 7])
def test_a_blank_id_is_refused(value: Any) -> None:
    with pytest.raises(UserError, match="id of a scorer must be a text that is not blank"):
        create_scorer(value)


def test_the_name_is_the_id_where_none_is_given() -> None:
    assert create_scorer("brief").name == "brief"
    assert create_scorer(id="brief", name="Brevity", description="few words").name == "Brevity"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.5, "1", None])
def test_a_threshold_that_is_no_finite_number_from_0_is_refused(value: Any) -> None:
    with pytest.raises(UserError, match="scorer 's': threshold must be a finite number from 0"):
        create_scorer("s", threshold=value)


def test_another_type_than_agent_is_refused() -> None:
    make: Any = create_scorer
    with pytest.raises(UserError, match="scorer 's': type must be 'agent' or None, got 'workflow'"):
        make("s", type="workflow")


@pytest.mark.parametrize("option", ["input", "output"])
def test_an_agents_scorer_takes_no_types_besides(option: str) -> None:
    make: Any = create_scorer
    with pytest.raises(UserError, match="type='agent' already says what input and output are"):
        make("s", type="agent", **{option: str})


def test_a_prepare_run_that_is_no_function_is_refused() -> None:
    make: Any = create_scorer
    with pytest.raises(UserError, match="scorer 's': prepare_run must be a function of the run"):
        make("s", prepare_run={"drop": "all"})


@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_is_no_function_is_refused(step: str) -> None:
    with pytest.raises(UserError, match=f"scorer 's': the step {step} must be a function"):
        getattr(create_scorer("s"), step)({"description": "what"})


@pytest.mark.parametrize("step", STEPS)
def test_a_step_added_twice_is_refused(step: str) -> None:
    once = getattr(create_scorer("s"), step)(lambda ctx: 1)
    with pytest.raises(UserError, match=f"scorer 's' has a step {step} already"):
        getattr(once, step)(lambda ctx: 2)


async def test_adding_a_step_leaves_the_scorer_as_it_was() -> None:
    base = create_scorer("s").preprocess(lambda ctx: "shared")
    one = base.generate_score(lambda ctx: 1)
    two = base.generate_score(lambda ctx: 2)
    assert [(await one.run()).score, (await two.run()).score] == [1, 2]
    assert list(base.steps) == ["preprocess"]


def test_a_scorer_cannot_be_changed() -> None:
    scorer: Any = scored()
    with pytest.raises(dataclasses.FrozenInstanceError):
        scorer.threshold = 0.1
    with pytest.raises(TypeError):
        scorer.steps["generate_score"] = crash


def test_the_repr_names_the_scorer_and_its_steps() -> None:
    assert repr(scored().preprocess(crash)) == "StepScorer('s', steps=[generate_score, preprocess])"


async def test_a_scorer_without_generate_score_cannot_run() -> None:
    scorer = create_scorer("half").preprocess(lambda ctx: 1)
    for use in (scorer.require_complete, lambda: as_scorer(scorer)):
        with pytest.raises(UserError, match="scorer 'half' has no generate_score step; add one with "):
            use()
    with pytest.raises(UserError, match="scorer 'half' has no generate_score step"):
        await scorer.run(output="x")


def test_a_complete_scorer_passes_as_a_scorer() -> None:
    scorer = scored()
    assert isinstance(scorer, Scorer)
    assert as_scorer(scorer) is scorer


# --- what a run is


async def test_a_run_is_given_whole_or_by_its_fields() -> None:
    fields: dict[str, Any] = {
        "input": "in",
        "output": "out",
        "run_id": "r",
        "request_context": {"a": 1},
        "additional_context": {"b": 2},
        "ground_truth": "gt",
        "expected_trajectory": ["x"],
    }
    run = ScorerRun(**fields)
    assert (await scored().run(**fields)).run == run
    assert (await scored().run(run)).run is run


async def test_a_run_and_fields_together_are_a_type_error() -> None:
    scorer: Any = scored()
    with pytest.raises(TypeError, match="scorer 's': give a ScorerRun or its fields as keywords, not both"):
        await scorer.run(ScorerRun(output="x"), ground_truth="gt")


async def test_an_unknown_field_of_a_run_is_a_type_error() -> None:
    scorer: Any = scored()
    with pytest.raises(TypeError, match="whatever"):
        await scorer.run(output="x", whatever=9)


async def test_something_else_than_a_run_is_a_type_error() -> None:
    scorer: Any = scored()
    with pytest.raises(TypeError, match="scorer 's': run\\(\\) takes a ScorerRun or its fields as keywords, got"):
        await scorer.run({"output": "x"})


@pytest.mark.parametrize("given", [{}, {"run_id": None}, {"run_id": ""}])
async def test_a_missing_run_id_is_generated(given: dict[str, Any]) -> None:
    first, second = await scored().run(**given), await scored().run(**given)
    assert uuid.UUID(first.run_id)
    assert first.run_id != second.run_id
    assert first.run
    assert first.run.run_id == first.run_id


# --- prepare_run


async def test_prepare_run_comes_first_and_the_result_holds_the_run_the_steps_saw() -> None:
    seen: list[Any] = []

    def prepare(run: ScorerRun[Any, Any]) -> ScorerRun[Any, Any]:
        return dataclasses.replace(run, output=run.output.upper(), run_id="")

    scorer = create_scorer("s", prepare_run=prepare).preprocess(lambda ctx: seen.append(ctx.run))
    given = ScorerRun(output="text", run_id="r")
    result = await scorer.generate_score(lambda ctx: 1).run(given)
    assert result.run
    assert result.run.output == "TEXT"
    assert seen == [result.run]
    assert uuid.UUID(result.run_id)  # it was emptied
    assert given == ScorerRun(output="text", run_id="r")


async def test_prepare_run_may_be_async() -> None:
    async def prepare(run: ScorerRun[Any, Any]) -> ScorerRun[Any, Any]:
        await anyio.lowlevel.checkpoint()
        return dataclasses.replace(run, output="prepared")

    result = await create_scorer("s", prepare_run=prepare).generate_score(lambda ctx: len(ctx.run.output)).run()
    assert result.score == len("prepared")


async def test_what_prepare_run_raises_comes_out_as_it_is() -> None:
    error = ValueError("prepare broke")

    def prepare(run: Any) -> Any:
        raise error

    with pytest.raises(ValueError, match="prepare broke") as caught:
        await scored(prepare_run=prepare).run()
    assert caught.value is error


async def test_a_prepare_run_that_returns_no_run_is_named() -> None:
    with pytest.raises(UserError, match="scorer 's': prepare_run must return a ScorerRun, got None"):
        await scored(prepare_run=lambda run: None).run()


# --- the steps


async def test_steps_run_in_pipeline_order_whatever_the_order_they_were_added_in() -> None:
    def step(name: str) -> Callable[[Any], Any]:
        def run(ctx: StepContext) -> Any:
            order.append((name, ctx.results.preprocess, ctx.results.analyze, getattr(ctx, "score", None)))
            return 0.5 if name == "generate_score" else name

        return run

    for names in (STEPS, STEPS[::-1], ("generate_score", "preprocess", "generate_reason", "analyze")):
        order: list[Any] = []
        scorer: Any = create_scorer("s")
        for name in names:
            scorer = getattr(scorer, name)(step(name))
        result = await scorer.run()
        assert order == [
            ("preprocess", None, None, None),
            ("analyze", "preprocess", None, None),
            ("generate_score", "preprocess", "analyze", None),
            ("generate_reason", "preprocess", "analyze", 0.5),
        ]
        assert (result.preprocess, result.analyze, result.score) == ("preprocess", "analyze", 0.5)
        assert result.reason == "generate_reason"


async def test_every_step_may_be_async() -> None:
    async def later(value: Any) -> Any:
        await anyio.lowlevel.checkpoint()
        return value

    scorer = (
        create_scorer("s")
        .preprocess(lambda ctx: later(["a", "b"]))
        .analyze(lambda ctx: later(len(ctx.results.preprocess)))
        .generate_score(lambda ctx: later(Score(ctx.results.analyze / 4, "half")))
        .generate_reason(lambda ctx: later(f"{ctx.score} of 1"))
    )
    result = await scorer.run()
    assert (result.preprocess, result.analyze, result.score, result.reason) == (["a", "b"], 2, 0.5, "0.5 of 1")


@pytest.mark.parametrize(
    ("where", "write"),
    [
        ("run", lambda ctx: setattr(ctx, "run", None)),
        ("run.output", lambda ctx: setattr(ctx.run, "output", "tampered")),
        ("results", lambda ctx: setattr(ctx, "results", None)),
        ("results.preprocess", lambda ctx: setattr(ctx.results, "preprocess", "tampered")),
        ("an unknown result", lambda ctx: setattr(ctx.results, "sneaky", 1)),
        ("an unknown field", lambda ctx: setattr(ctx, "sneaky", 1)),
    ],
)
async def test_writing_a_field_fails_the_step(where: str, write: Callable[[Any], None]) -> None:
    scorer = scored().preprocess(lambda ctx: 1).analyze(write)
    with pytest.raises(ScorerRunError, match="cannot assign to field") as caught:
        await scorer.run(output="x")
    assert (caught.value.failed_step, caught.value.completed_steps) == ("analyze", ("preprocess",))


async def test_values_are_not_copied() -> None:
    value = {"words": []}
    result = await scored().preprocess(lambda ctx: ctx.run.input["words"].append("a")).run(input=value)
    assert value == {"words": ["a"]}
    assert result.run
    assert result.run.input is value


# --- the score


@pytest.mark.parametrize(
    ("answer", "threshold", "score", "passed"),
    [
        (1, 1.0, 1, True),
        (0.99, 1.0, 0.99, False),
        (0.5, 0.5, 0.5, True),
        (3, 1.0, 3, True),
        (-3.5, 0, -3.5, False),
        (True, 1.0, 1.0, True),
        (False, 1.0, 0.0, False),
        (Score(0.2, passed=True), 1.0, 0.2, True),
        (Score(1.0, passed=False), 1.0, 1.0, False),
        (Score(0.8), 0.7, 0.8, True),
    ],
)
async def test_a_score_passes_at_the_threshold_unless_it_says_so_itself(
    answer: Any, threshold: float, score: float, passed: bool
) -> None:
    result = await scored(answer, threshold=threshold).run()
    assert (result.score, result.passed) == (score, passed)
    assert type(result.score) is not bool


@pytest.mark.parametrize("answer", [float("nan"), float("inf"), None, "1", {"score": 1}, Score(float("nan")), 10**400])
async def test_a_score_that_is_no_finite_number_fails_the_run(answer: Any) -> None:
    with pytest.raises(ScorerRunError, match="scorer 's': step generate_score failed") as caught:
        await scored(answer).preprocess(lambda ctx: 7).run()
    error = caught.value
    assert (error.scorer_id, error.failed_step, error.completed_steps) == ("s", "generate_score", ("preprocess",))
    assert (error.result.preprocess, error.result.score) == (7, None)


# --- the reason


@pytest.mark.parametrize(
    ("answer", "reason"),
    [("from the step", "from the step"), (None, "from the score"), (not_scorable("no words"), "from the score")],
)
async def test_the_reason_of_the_score_stands_unless_the_step_gives_one(answer: Any, reason: str) -> None:
    result = await scored(Score(0.4, "from the score")).generate_reason(lambda ctx: answer).run()
    assert (result.score, result.reason, result.not_scorable, result.error) == (0.4, reason, None, None)


async def test_without_a_reason_step_the_reason_of_the_score_stands() -> None:
    assert (await scored(Score(1, "because")).run()).reason == "because"
    assert (await scored(1).run()).reason is None


@pytest.mark.parametrize(("given", "reason"), [(0.9, None), (Score(0.9, "because"), "because")])
async def test_a_reason_step_that_fails_keeps_the_score(given: Any, reason: str | None) -> None:
    result = await scored(given).analyze(lambda ctx: 2).generate_reason(crash).run()
    assert (result.score, result.passed, result.reason, result.not_scorable) == (0.9, False, reason, None)
    error = result.error
    assert isinstance(error, ScorerRunError)
    assert (error.failed_step, error.completed_steps) == ("generate_reason", ("analyze", "generate_score"))
    assert isinstance(error.__cause__, ValueError)
    assert error.result.score == 0.9


@pytest.mark.parametrize("answer", [7, b"bytes", ["a"], Score(1)])
async def test_a_reason_that_is_no_text_is_an_error_on_the_result(answer: Any) -> None:
    result = await scored().generate_reason(lambda ctx: answer).run()
    assert (result.score, result.reason) == (1, None)
    assert "generate_reason must return a str or None" in str(result.error)


# --- abstaining and failing


@pytest.mark.parametrize(("step", "ran"), [("preprocess", 0), ("analyze", 1), ("generate_score", 2)])
async def test_not_scorable_ends_the_run_without_a_score(step: str, ran: int) -> None:
    calls: list[str] = []
    scorer: Any = create_scorer("s")
    for name in STEPS:
        answer = not_scorable("nothing here") if name == step else name
        scorer = getattr(scorer, name)(lambda ctx, name=name, answer=answer: (calls.append(name), answer)[1])
    result: ScorerResult = await scorer.run()
    assert calls == list(STEPS[: ran + 1])
    assert result.not_scorable == NotScorable("nothing here", step)
    assert (result.score, result.passed, result.reason) == (None, None, None)
    assert (result.preprocess, result.analyze) == ((*STEPS[:ran], None, None)[:2] if ran < 2 else STEPS[:2])


@pytest.mark.parametrize("error", [ValueError("ana broke"), AssertionError(), RunError("x")])
async def test_whatever_a_step_raises_is_one_error_that_names_it(error: Exception) -> None:
    def analyze(ctx: Any) -> Any:
        raise error

    run = ScorerRun(output="x")
    with pytest.raises(ScorerRunError, match=f"scorer 's': step analyze failed: {type(error).__name__}") as caught:
        await scored().preprocess(lambda ctx: {"a": 1}).analyze(analyze).run(run)
    assert caught.value.__cause__ is error
    assert (caught.value.failed_step, caught.value.completed_steps) == ("analyze", ("preprocess",))
    assert caught.value.result == ScorerResult(run_id=run.run_id, run=run, preprocess={"a": 1})


@pytest.mark.parametrize("error", [UserError("a rubric must be a string"), TripWire("stop")])
@pytest.mark.parametrize("step", ["preprocess", "analyze", "generate_score", "generate_reason"])
async def test_a_user_error_or_trip_wire_of_a_step_comes_out_as_it_is(step: str, error: Exception) -> None:

    async def misuse(ctx: Any) -> Any:
        await anyio.lowlevel.checkpoint()
        raise error

    scorer: Any = create_scorer("s") if step == "generate_score" else scored()
    with pytest.raises(type(error)) as caught:
        await getattr(scorer, step)(misuse).run()
    assert caught.value is error


@pytest.mark.parametrize("step", ["analyze", "generate_reason"])
async def test_cancelling_is_never_taken_for_a_failure(step: str) -> None:
    started = anyio.Event()
    finished: list[object] = []

    async def wait(ctx: Any) -> Any:
        started.set()
        await anyio.sleep_forever()

    async def run() -> None:
        scorer: Any = getattr(scored(), step)(wait)
        finished.append(await scorer.run())

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await started.wait()
            tasks.cancel_scope.cancel()
    assert finished == []


async def test_one_scorer_runs_many_runs_at_once() -> None:
    both_in = anyio.Event()
    waiting: list[str] = []

    async def preprocess(ctx: StepContext) -> str:
        waiting.append(ctx.run.output)
        if len(waiting) == 2:
            both_in.set()
        await both_in.wait()
        return ctx.run.output

    async def run(output: str) -> None:
        results[output] = await scorer.run(output=output)

    scorer = create_scorer("s").preprocess(preprocess).generate_score(lambda ctx: int(ctx.results.preprocess))
    results: dict[str, ScorerResult] = {}
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, "1")
            tasks.start_soon(run, "2")
    assert {output: result.score for output, result in results.items()} == {"1": 1, "2": 2}


# --- type="agent"


def agent_scorer() -> tuple[Any, list[ScorerRun[AgentRunInput, AgentRunOutput]]]:
    seen: list[ScorerRun[AgentRunInput, AgentRunOutput]] = []
    scorer = create_scorer("s", type="agent").preprocess(lambda ctx: seen.append(ctx.run)).generate_score(lambda ctx: 1)
    return scorer, seen


def test_an_agents_scorer_says_so() -> None:
    assert create_scorer("s", type="agent").type == "agent"
    assert create_scorer("s").type is None


@pytest.mark.parametrize(
    ("output", "messages"),
    [
        ("done", (Message("assistant", "done"),)),
        (
            [Message("assistant", "done"), Message("user", "more")],
            (Message("assistant", "done"), Message("user", "more")),
        ),
        ([{"role": "assistant", "content": "done"}], (Message("assistant", [TextPart("done")]),)),
        ((), ()),
        (None, ()),
    ],
)
async def test_an_agents_scorer_sees_the_output_as_messages(output: Any, messages: tuple[Message, ...]) -> None:
    scorer, seen = agent_scorer()
    await scorer.run(output=output)
    await scorer.run(ScorerRun(output=output))
    for run in seen:
        assert isinstance(run.output, AgentRunOutput)
        assert run.output == messages


@pytest.mark.parametrize(
    ("given", "seen_input"),
    [
        ("go", AgentRunInput(input_messages=(Message("user", "go"),), task="go")),
        (
            [Message("user", "go"), Message("assistant", "where?")],
            AgentRunInput(input_messages=(Message("user", "go"), Message("assistant", "where?")), task="go"),
        ),
        (None, AgentRunInput()),
        (AgentRunInput(task="go", agent_id="a"), AgentRunInput(task="go", agent_id="a")),
    ],
)
async def test_an_agents_scorer_sees_the_input_in_the_agents_shape(given: Any, seen_input: AgentRunInput) -> None:
    scorer, seen = agent_scorer()
    await scorer.run(input=given, output="done")
    assert seen[0].input == seen_input


async def test_an_agents_run_passes_as_it_is() -> None:
    scorer, seen = agent_scorer()
    run = ScorerRun(input=AgentRunInput(task="go"), output=AgentRunOutput([Message("assistant", "done")]))
    await scorer.run(run)
    assert seen[0] is run


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"output": 7}, "its output must be an agent's messages or a text, got int"),
        ({"input": {"q": 1}}, "its input must be an agent's messages or a text, got dict"),
        ({"output": [Message("assistant", "a"), 7]}, r"its output: messages\[1\] is a int"),
    ],
)
async def test_an_agents_scorer_refuses_what_is_no_agents_run(fields: dict[str, Any], named: str) -> None:
    scorer, _ = agent_scorer()
    with pytest.raises(UserError, match=f"scorer 's' has type='agent': {named}"):
        await scorer.run(**fields)


async def test_the_agents_shape_survives_prepare_run() -> None:
    def last_only(run: ScorerRun[AgentRunInput, AgentRunOutput]) -> ScorerRun[AgentRunInput, AgentRunOutput]:
        return dataclasses.replace(run, output=run.output[-1:])  # a plain tuple

    scorer = create_scorer("s", type="agent", prepare_run=last_only).generate_score(
        lambda ctx: ctx.run.output.text == "b"
    )
    assert (await scorer.run(output=[Message("assistant", "a"), Message("assistant", "b")])).score == 1


async def test_another_scorer_sees_what_it_is_given() -> None:
    messages = [Message("assistant", "done")]
    result = await scored().run(output=messages)
    assert result.run
    assert result.run.output is messages


def test_the_reason_context_is_a_step_context() -> None:
    assert issubclass(ReasonContext, StepContext)

"""The gate: scorers judge each turn that would end the run, and what follows from their verdict."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from support.streams import read_all, read_failing, types

from mastra_py import (
    Agent,
    FeedbackPart,
    Message,
    Score,
    ScorerError,
    ScorerResult,
    ScorerRun,
    StreamErrorRetryProcessor,
    TaskCompletion,
    UserError,
    Verdict,
    not_scorable,
    tool,
)
from mastra_py._loop.completion import as_gate, as_task_completion
from mastra_py.events import OutputSuperseded, StepFinished, TaskCompletionChecked
from mastra_py.scoring import Scorer, as_scorer
from mastra_py.testing import ScriptedModel, Turn, api_error


def scripted(*scores: Any, id: str = "checker") -> Callable[[ScorerRun], Any]:
    """Return a scorer function that gives these scores in turn, raising those that are exceptions."""
    left = list(scores)

    def scorer(run: ScorerRun) -> Any:
        score = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(score, BaseException):
            raise score
        return score

    scorer.__name__ = id
    return scorer


def drafts(count: int = 10) -> ScriptedModel:
    return ScriptedModel([f"draft {n}" for n in range(1, count + 1)])


def feedback_of(message: Message) -> str:
    part = message.parts[0]
    assert isinstance(part, FeedbackPart)
    return part.text


async def test_an_accepted_first_draft_completes_the_run() -> None:
    model = drafts()
    events, result = await read_all(
        Agent(id="a", model=model), is_task_complete=[scripted(Score(1, "good"))], max_steps=5
    )
    assert (result.text, result.stop_reason, model.calls) == ("draft 1", "complete", 1)
    assert result.completion is not None
    assert (result.completion.passed, result.completion.reason) == (True, "good")
    assert types(events)[4:] == [
        "text-end", "model-finish", "task-completion-started", "is-task-complete", "step-finish", "finish",
    ]  # fmt: skip
    assert result.accepted


async def test_a_rejected_draft_goes_on_with_the_reason_as_a_user_message_until_accepted() -> None:
    model = drafts()
    scorer = scripted(Score(0, "too short"), Score(0.5, "still short"), Score(1, "fine"))
    events, result = await read_all(Agent(id="a", model=model), "do it", is_task_complete=[scorer])
    assert (result.text, result.stop_reason) == ("draft 3", "complete")
    assert [m.role for m in result.messages] == ["user", "assistant", "user", "assistant", "user", "assistant"]
    assert "too short" in feedback_of(result.messages[2])
    assert "still short" in feedback_of(result.messages[4])
    assert all(prompt[-1].role == "user" for prompt in model.prompts)
    assert [(e.step, e.cause) for e in events if isinstance(e, OutputSuperseded)] == [(1, "rejected"), (2, "rejected")]
    assert [(a.attempt, a.step, a.text, a.accepted) for a in result.attempts] == [
        (1, 1, "draft 1", False),
        (2, 2, "draft 2", False),
        (3, 3, "draft 3", True),
    ]
    assert result.best == result.attempts[2]


async def test_running_out_of_steps_is_told_apart_from_success_and_the_last_draft_stays() -> None:
    events, result = await read_all(
        Agent(id="a", model=drafts()), is_task_complete=[scripted(Score(0, "no"))], max_steps=3
    )
    assert (result.text, result.stop_reason, result.finish_reason) == ("draft 3", "max_steps", "stop")
    assert not result.accepted
    assert result.completion is not None
    assert (result.completion.passed, result.completion.reason) == (False, "no")
    checks = [e for e in events if isinstance(e, TaskCompletionChecked)]
    assert [c.max_steps_reached for c in checks] == [False, False, True]
    # Nothing takes the last draft back, and no feedback follows that nobody would read.
    assert [e.step for e in events if isinstance(e, OutputSuperseded)] == [1, 2]
    assert result.messages[-1] == Message("assistant", "draft 3")


async def test_the_default_limit_is_told_to_scorers_too() -> None:
    seen: list[Any] = []

    def scorer(run: ScorerRun) -> float:
        seen.append((run.input.iteration, run.input.max_steps))
        return 0

    _, result = await read_all(Agent(id="a", model=drafts()), is_task_complete=scorer)
    assert seen == [(n, 5) for n in range(1, 6)]
    assert result.stop_reason == "max_steps"


async def test_tool_turns_are_not_scored_and_their_calls_reach_the_scorer() -> None:
    @tool
    def lookup(q: str) -> int:
        return 42

    seen: list[ScorerRun] = []

    def scorer(run: ScorerRun) -> bool:
        seen.append(run)
        return True

    model = ScriptedModel([Turn(tool_calls=[("c1", "lookup", {"q": "x"})]), "it is 42"])
    context = {"lang": "en"}
    await read_all(
        Agent(id="boss", model=model, tools=[lookup], instructions="Help"),
        "the task",
        is_task_complete=scorer,
        max_steps=4,
        request_context=context,
        run_id="r1",
    )
    (run,) = seen
    assert (run.output, run.run_id) == ("it is 42", "r1")
    assert run.request_context is context
    given = run.input
    assert (given.task, given.iteration, given.max_steps, given.agent_id) == ("the task", 2, 4, "boss")
    assert [(c.tool_name, c.args) for c in given.tool_calls] == [("lookup", {"q": "x"})]
    assert [r.result for r in given.tool_results] == [42]
    assert [m.text for m in given.input_messages] == ["the task"]
    assert [m.text for m in given.system_messages] == ["Help"]


async def test_a_scorer_of_type_agent_gets_the_messages_of_the_draft() -> None:
    class AgentScorer:
        id = name = "messages"
        type = "agent"

        def __init__(self) -> None:
            self.outputs: list[Any] = []

        async def run(self, run: ScorerRun, /) -> ScorerResult:
            self.outputs.append(run.output)
            return ScorerResult(run_id=run.run_id, score=float(len(self.outputs) > 1))

    scorer = AgentScorer()
    await read_all(Agent(id="a", model=drafts()), is_task_complete=scorer)
    assert [[m.text for m in output] for output in scorer.outputs] == [["draft 1"], ["draft 2"]]
    assert scorer.outputs[1].text == "draft 2"


async def test_all_needs_every_scorer_and_reports_the_reason_of_one_that_failed() -> None:
    scorers = [scripted(Score(1, "a ok"), id="a"), scripted(Score(0, "b bad"), id="b")]
    _, result = await read_all(Agent(id="a", model=drafts()), is_task_complete=scorers, max_steps=2)
    assert result.completion is not None
    assert (result.completion.passed, result.completion.reason) == (False, "b bad")
    assert [(r.scorer_id, r.score, r.passed, r.status) for r in result.completion.results] == [
        ("a", 1, True, "passed"),
        ("b", 0, False, "failed"),
    ]
    text = feedback_of(result.messages[2])
    assert text.index("b bad") < text.index("a ok")


async def test_any_ends_at_the_first_pass_and_cancels_the_rest() -> None:
    started, cancelled = anyio.Event(), anyio.Event()

    async def slow(run: ScorerRun) -> float:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()
        return 0

    async def fast(run: ScorerRun) -> Score:
        await started.wait()
        return Score(1, "yes")

    with anyio.fail_after(5):
        _, result = await read_all(
            Agent(id="a", model=drafts()), is_task_complete=TaskCompletion([slow, fast], strategy="any")
        )
    assert cancelled.is_set()
    assert result.completion is not None
    assert [(r.status, r.score) for r in result.completion.results] == [("cancelled", None), ("passed", 1)]
    assert (result.completion.reason, result.stop_reason) == ("yes", "complete")


async def test_all_waits_for_every_reason() -> None:
    first_failed = anyio.Event()

    def fails(run: ScorerRun) -> Score:
        first_failed.set()
        return Score(0, "first")

    async def fails_later(run: ScorerRun) -> Score:
        await first_failed.wait()
        await anyio.lowlevel.checkpoint()
        return Score(0, "second")

    with anyio.fail_after(5):
        _, result = await read_all(Agent(id="a", model=drafts()), is_task_complete=[fails_later, fails], max_steps=2)
    text = feedback_of(result.messages[2])
    assert text.index("second") < text.index("first")


@pytest.mark.parametrize(("strategy", "first", "second_runs"), [("all", 0, False), ("all", 1, True), ("any", 1, False)])
async def test_one_after_another_stops_at_the_scorer_that_decides(
    strategy: Any, first: float, second_runs: bool
) -> None:
    ran: list[str] = []

    def one(run: ScorerRun) -> float:
        ran.append("one")
        return first

    def two(run: ScorerRun) -> float:
        ran.append("two")
        return 1

    gate = TaskCompletion([one, two], strategy=strategy, parallel=False)
    _, result = await read_all(Agent(id="a", model=drafts()), is_task_complete=gate, max_steps=1)
    assert ran == ["one", "two"][: 1 + second_runs]
    assert result.completion is not None
    assert [r.scorer_id for r in result.completion.results] == ran


async def test_scorers_run_at_once_by_default() -> None:
    met: list[anyio.Event] = [anyio.Event(), anyio.Event()]

    def meeting(mine: int) -> Any:
        async def scorer(run: ScorerRun) -> float:
            met[mine].set()
            await met[1 - mine].wait()
            return 1

        return scorer

    with anyio.fail_after(5):
        _, result = await read_all(Agent(id="a", model=drafts()), is_task_complete=[meeting(0), meeting(1)])
    assert result.stop_reason == "complete"


async def test_the_timeout_is_one_deadline_and_what_finished_counts() -> None:
    async def slow(run: ScorerRun) -> float:
        await anyio.sleep_forever()
        return 1

    gate = TaskCompletion([slow, scripted(Score(1, "fast ok"), id="fast")], timeout=0.05)
    _, result = await read_all(Agent(id="a", model=drafts()), is_task_complete=gate)
    assert result.completion is not None
    assert result.completion.timed_out
    assert [(r.scorer_id, r.status, r.passed, r.score) for r in result.completion.results] == [
        ("slow", "errored", False, None),
        ("fast", "passed", True, 1),
    ]
    assert "timeout" in (result.completion.results[0].reason or "")
    assert (result.stop_reason, result.text) == ("scorer_error", "draft 1")


async def test_a_timeout_one_after_another_leaves_the_rest_out() -> None:
    async def slow(run: ScorerRun) -> float:
        await anyio.sleep_forever()
        return 1

    gate = TaskCompletion([slow, scripted(1, id="never")], timeout=0.05, parallel=False)
    _, result = await read_all(Agent(id="a", model=drafts()), is_task_complete=gate)
    assert result.completion is not None
    assert [(r.scorer_id, r.status) for r in result.completion.results] == [("slow", "errored")]


async def test_a_crashed_scorer_ends_the_run_keeps_the_answer_and_costs_one_call() -> None:
    model = drafts()
    _, result = await read_all(Agent(id="a", model=model), is_task_complete=[scripted(ValueError("secret"))])
    assert (result.stop_reason, result.text, model.calls) == ("scorer_error", "draft 1", 1)
    assert result.completion is not None
    (entry,) = result.completion.results
    assert (entry.status, entry.passed, entry.score, entry.reason) == ("errored", False, None, "ValueError: secret")
    assert isinstance(entry.error, ValueError)
    assert result.completion.passed is False


async def test_a_crash_beside_a_failure_is_not_told_to_the_agent() -> None:
    model = drafts()
    scorers = [scripted(ValueError("secret"), 1, id="crashes"), scripted(Score(0, "too short"), 1, id="fails")]
    _, result = await read_all(Agent(id="a", model=model), is_task_complete=scorers)
    assert (result.stop_reason, model.calls) == ("complete", 2)
    text = feedback_of(result.messages[2])
    assert "too short" in text
    assert "secret" not in text
    assert "crashes" not in text


async def test_a_pass_under_any_outweighs_a_crash() -> None:
    gate = TaskCompletion([scripted(ValueError("x"), id="crashes"), scripted(1, id="ok")], strategy="any")
    _, result = await read_all(Agent(id="a", model=drafts()), is_task_complete=gate)
    assert result.stop_reason == "complete"


async def test_on_scorer_error_continue_asks_again_in_neutral_words_and_counts_a_step() -> None:
    model = drafts()
    gate = TaskCompletion([scripted(ValueError("secret"), 1)], on_scorer_error="continue")
    _, result = await read_all(Agent(id="a", model=model), is_task_complete=gate)
    assert (result.stop_reason, result.text, model.calls) == ("complete", "draft 2", 2)
    assert "secret" not in feedback_of(result.messages[2])


async def test_on_scorer_error_raise_names_the_scorer() -> None:
    gate = TaskCompletion([scripted(ValueError("boom"), id="strict")], on_scorer_error="raise")
    _, error = await read_failing(Agent(id="a", model=drafts()), is_task_complete=gate)
    assert isinstance(error, ScorerError)
    assert "strict" in str(error)
    assert isinstance(error.__cause__, ValueError)


async def test_a_user_error_in_a_scorer_always_raises_bare() -> None:
    _, error = await read_failing(
        Agent(id="a", model=drafts()), is_task_complete=[scripted(1, id="ok"), scripted(UserError("bad rubric"))]
    )
    assert isinstance(error, UserError)
    assert str(error) == "bad rubric"


@pytest.mark.parametrize("score", [float("nan"), float("inf"), "1", None])
async def test_a_score_that_is_no_finite_number_is_an_error_and_no_verdict(score: Any) -> None:
    _, result = await read_all(Agent(id="a", model=drafts()), is_task_complete=[scripted(score)])
    assert result.stop_reason == "scorer_error"


@pytest.mark.parametrize(("score", "passed"), [(0.9999999, False), (2, True), (True, True), (False, False), (1, True)])
async def test_a_score_passes_from_the_threshold_on(score: Any, passed: bool) -> None:
    _, result = await read_all(Agent(id="a", model=drafts()), is_task_complete=[scripted(score)], max_steps=1)
    assert result.completion is not None
    assert result.completion.passed is passed


async def test_passed_of_its_own_wins_over_the_threshold() -> None:
    _, result = await read_all(Agent(id="a", model=drafts()), is_task_complete=[scripted(Score(0.2, passed=True))])
    assert result.stop_reason == "complete"


async def test_abstentions_alone_leave_the_answer_unjudged() -> None:
    _, result = await read_all(Agent(id="a", model=drafts()), is_task_complete=[scripted(not_scorable("no source"))])
    assert result.completion is not None
    assert (result.stop_reason, result.completion.passed) == ("answered", None)
    (abstained,) = result.completion.results
    assert (abstained.status, abstained.passed, abstained.score) == ("abstained", None, None)
    assert abstained.reason == result.completion.reason == "no source"
    assert abstained.result is not None


async def test_an_abstention_beside_a_pass_does_not_count() -> None:
    scorers = [scripted(not_scorable(), id="abstains"), scripted(1, id="ok")]
    _, result = await read_all(Agent(id="a", model=drafts()), is_task_complete=scorers)
    assert result.stop_reason == "complete"


async def test_an_empty_answer_is_scored_as_empty() -> None:
    seen: list[str] = []

    def scorer(run: ScorerRun) -> bool:
        seen.append(run.output)
        return bool(run.output)

    with ScriptedModel(["", "text"]) as model:
        await read_all(Agent(id="a", model=model), is_task_complete=scorer)
    assert seen == ["", "text"]


@pytest.mark.parametrize(
    "turn",
    [Turn(text="cut", finish_reason=r) for r in ("length", "content_filter", "refusal")],
)
async def test_a_cut_refused_or_filtered_turn_is_never_scored(turn: Turn) -> None:
    def never(run: ScorerRun) -> float:
        raise AssertionError("scored")

    with ScriptedModel([turn]) as model:
        events, result = await read_all(Agent(id="a", model=model), is_task_complete=never)
    assert result.stop_reason == turn.finish_reason
    assert result.completion is None
    assert "task-completion-started" not in types(events)


async def test_a_failed_model_call_is_never_scored() -> None:
    ran: list[str] = []

    def scorer(run: ScorerRun) -> float:
        ran.append(run.output)
        return 0

    with ScriptedModel(["draft", Turn(error=api_error(500))]) as model:
        _, error = await read_failing(Agent(id="a", model=model), is_task_complete=scorer)
    assert ran == ["draft"]
    assert error.status == 500  # type: ignore[attr-defined]


async def test_no_scorers_no_check() -> None:
    events, result = await read_all(Agent(id="a", model=drafts()), is_task_complete=[])
    assert result.stop_reason == "answered"
    assert "is-task-complete" not in types(events)


async def test_only_the_newest_feedback_stands_in_the_prompt_with_its_reasons() -> None:
    model = drafts()
    scorer = scripted(*[Score(0, f"reason {n}") for n in range(1, 5)], Score(1))
    _, result = await read_all(Agent(id="a", model=model), is_task_complete=scorer)
    last = model.prompts[-1]
    told = [feedback_of(m) for m in last if m.is_feedback]
    assert len(told) == 4
    assert len(set(told[:3])) == 1
    assert not any("reason" in t for t in told[:3])
    assert "reason 4" in told[3]
    assert [m.role for m in last] == ["user", "assistant"] * 4 + ["user"]
    # The history keeps what was really said.
    assert [f"reason {n}" in feedback_of(m) for n, m in enumerate((m for m in result.messages if m.is_feedback), 1)]


async def test_keep_feedback_all_keeps_every_reason_in_the_prompt() -> None:
    model = drafts()
    gate = TaskCompletion([scripted(Score(0, "one"), Score(0, "two"), Score(1))], keep_feedback="all")
    await read_all(Agent(id="a", model=model), is_task_complete=gate)
    told = [feedback_of(m) for m in model.prompts[-1] if m.is_feedback]
    assert "one" in told[0]
    assert "two" in told[1]


async def test_suppressed_feedback_guides_the_agent_and_stays_out_of_the_history() -> None:
    @tool
    def lookup() -> int:
        return 42

    model = ScriptedModel(["draft 1", Turn(tool_calls=[("c", "lookup", {})]), "draft 2", "draft 3"])
    gate = TaskCompletion([scripted(Score(0, "too short"), Score(0, "no"), Score(1))], suppress_feedback=True)
    events, result = await read_all(Agent(id="a", model=model, tools=[lookup]), is_task_complete=gate)
    assert "too short" in feedback_of(model.prompts[1][-1])
    assert [(m.role, m.text) for m in result.messages] == [
        ("user", "go"),
        ("assistant", ""),
        ("tool", ""),
        ("assistant", "draft 3"),
    ]
    assert all(c.suppress_feedback for c in events if isinstance(c, TaskCompletionChecked))


async def test_feedback_may_be_a_function_of_the_verdict() -> None:
    async def feedback(verdict: Verdict) -> str:
        return f"Mend: {verdict.reason}"

    model = drafts()
    gate = TaskCompletion([scripted(Score(0, "short"), 1)], feedback=feedback)
    await read_all(Agent(id="a", model=model), is_task_complete=gate)
    assert feedback_of(model.prompts[1][-1]) == "Mend: short"


async def test_feedback_has_no_clock_in_it_and_is_the_same_for_the_same_verdict() -> None:
    async def once() -> str:
        _, result = await read_all(
            Agent(id="a", model=drafts()), is_task_complete=[scripted(Score(0, "multi\nline"))], max_steps=2
        )
        return feedback_of(result.messages[2])

    assert await once() == await once()
    assert "multi\n" in await once()


async def test_max_attempts_ends_the_run_after_that_many_rejected_drafts() -> None:
    model = drafts()
    gate = TaskCompletion([scripted(0)], max_attempts=2)
    _, result = await read_all(Agent(id="a", model=model), is_task_complete=gate, max_steps=9)
    assert (result.stop_reason, model.calls) == ("max_attempts", 2)


async def test_a_run_that_makes_no_progress_stops_as_stalled() -> None:
    model = drafts()
    gate = TaskCompletion([scripted(0.1, 0.2, 0.2, 0.2)], stop_when_stalled=3, max_attempts=4)
    _, result = await read_all(Agent(id="a", model=model), is_task_complete=gate, max_steps=9)
    assert (result.stop_reason, model.calls) == ("stalled", 4)


async def test_best_is_the_draft_that_meets_most_then_scores_most_then_came_last() -> None:
    one = scripted(1, 0, 1, 0, id="one")
    two = scripted(0, 0.5, 0.2, 0.9, id="two")
    _, result = await read_all(Agent(id="a", model=drafts()), is_task_complete=[one, two], max_steps=4)
    assert result.best is not None
    assert result.best.text == "draft 3"


async def test_on_complete_sees_each_verdict_and_a_throwing_one_does_not_end_the_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[bool | None] = []

    async def on_complete(verdict: Verdict) -> None:
        seen.append(verdict.passed)
        raise RuntimeError("callback broke")

    gate = TaskCompletion([scripted(0, 1)], on_complete=on_complete)
    _, result = await read_all(Agent(id="a", model=drafts()), is_task_complete=gate)
    assert (seen, result.stop_reason) == ([False, True], "complete")
    assert "on_complete of agent 'a'" in caplog.text


async def test_stop_when_is_asked_where_a_rejected_draft_would_go_on() -> None:
    _, result = await read_all(
        Agent(id="a", model=drafts()), is_task_complete=[scripted(0)], stop_when=lambda steps: len(steps) == 2
    )
    assert (result.stop_reason, len(result.steps)) == ("stop_when", 2)


async def test_the_step_carries_its_verdict() -> None:
    events, result = await read_all(Agent(id="a", model=drafts()), is_task_complete=[scripted(0, 1)])
    assert [s.completion.passed for s in result.steps if s.completion] == [False, True]
    assert [e.is_continued for e in events if isinstance(e, StepFinished)] == [True, False]


async def test_a_registered_name_needs_a_registry() -> None:
    for named in ("quality", ["quality"]):
        with pytest.raises(UserError, match="'quality' is given by name"):
            Agent(id="a", model=drafts()).stream("go", is_task_complete=named)


@pytest.mark.parametrize(
    "options",
    [
        {"strategy": "most"},
        {"timeout": -1},
        {"timeout": float("nan")},
        {"timeout": float("inf")},
        {"timeout": "10"},
        {"timeout": True},
        {"on_complete": "log"},
        {"feedback": "Try again."},
        {"max_attempts": 0},
        {"max_attempts": 1.5},
        {"max_attempts": True},
        {"stop_when_stalled": -2},
        {"parallel": "no"},
        {"suppress_feedback": 0},
        {"keep_feedback": "some"},
        {"on_scorer_error": "ignore"},
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=f"TaskCompletion {next(iter(options))} must be"):
        TaskCompletion([scripted(1)], **options)


def test_an_option_that_is_none_of_its_words_is_told_them() -> None:
    with pytest.raises(UserError, match="strategy must be one of 'all', 'any'; got 'most'"):
        TaskCompletion([scripted(1)], strategy="most")  # type: ignore[arg-type]


def test_a_check_has_ten_minutes_unless_told_otherwise() -> None:
    assert TaskCompletion([scripted(1)]).timeout == 600.0
    assert TaskCompletion([scripted(1)], timeout=sys.float_info.max).timeout == sys.float_info.max


async def test_a_registered_name_is_looked_up_where_the_run_is_made_and_not_before() -> None:
    class Registry:
        def get_scorer(self, name: str, /) -> Scorer:
            return as_scorer(scripted(1, id=f"the {name}"))

    by_name = as_task_completion(["quality", scripted(1)], "here")
    assert by_name.scorers[0] == "quality"
    gate = as_gate(by_name, Registry())
    assert gate is not None
    assert [scorer.id for scorer in gate.scorers] == ["the quality", "checker"]


async def test_scorers_are_taken_when_they_are_given() -> None:
    scorers = [scripted(0)]
    agent = Agent(id="a", model=drafts(), defaults={"is_task_complete": scorers})
    scorers.clear()
    _, result = await read_all(agent)
    assert result.completion is not None


def test_what_is_no_scorer_is_refused_by_the_call_and_named() -> None:
    for wrong in (3, [scripted(1), None]):
        with pytest.raises(UserError, match=r"is_task_complete.*scorer"):
            Agent(id="a", model=drafts()).stream("go", is_task_complete=wrong)  # type: ignore[arg-type]


def test_one_attempt_and_one_check_are_limits() -> None:
    gate = TaskCompletion([scripted(1)], max_attempts=1, stop_when_stalled=1)
    assert (gate.max_attempts, gate.stop_when_stalled) == (1, 1)


async def test_a_check_may_have_no_time_limit() -> None:
    gate = TaskCompletion([scripted(1)], timeout=None)
    _, result = await read_all(Agent(id="a", model=drafts()), is_task_complete=gate)
    assert result.accepted


async def test_scorers_do_not_change_the_callers_context_variables() -> None:
    from contextvars import ContextVar

    variable: ContextVar[str] = ContextVar("variable", default="outside")

    def scorer(run: ScorerRun) -> float:
        variable.set("inside")
        return 1

    await Agent(id="a", model=drafts()).generate("go", is_task_complete=TaskCompletion([scorer], parallel=False))
    assert variable.get() == "outside"


async def test_after_ten_rounds_the_prompt_holds_one_feedback_and_nothing_that_was_taken_back() -> None:
    rounds = iter(range(1, 11))

    def scorer(run: ScorerRun) -> Score:
        n = next(rounds)
        return Score(n == 10, f"reason of round {n}")

    turns: list[str | Turn] = []
    for n in range(1, 11):
        turns += [Turn(text=f"cut {n}", error=api_error(500), error_at="mid_stream"), f"draft {n}"]
    model = ScriptedModel(turns)
    agent = Agent(id="a", model=model, error_processors=[StreamErrorRetryProcessor()])
    _, result = await read_all(agent, is_task_complete=scorer, max_steps=10)
    assert result.accepted
    last = model.prompts[-1]
    assert [m.text for m in last if m.role == "assistant"] == [f"draft {n}" for n in range(1, 10)]
    told = [feedback_of(m) for m in last if m.is_feedback]
    assert len(told) == 9
    assert [n for n in range(1, 10) if any(f"reason of round {n}" in t for t in told)] == [9]
    assert not any("cut" in str(m.parts) for m in last)

"""Faults of scorers: never a pass, never a verdict, never lost."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from support.streams import read_all, read_failing

from mastra_py import (
    Agent,
    Score,
    ScorerError,
    ScorerResult,
    ScorerRun,
    TaskCompletion,
    TripWire,
    UserError,
    not_scorable,
)
from mastra_py.testing import ScriptedModel


def writer() -> Agent:
    return Agent(id="a", model=ScriptedModel(["draft"]))


class Fixed:
    """A scorer that gives a fixed result, whatever it is."""

    id = name = "fixed"

    def __init__(self, result: Any) -> None:
        self.result = result

    async def run(self, run: ScorerRun, /) -> ScorerResult:
        return self.result


class Unprintable(Exception):  # noqa: N818
    def __str__(self) -> str:
        raise RuntimeError("cannot be printed")


class Fatal(BaseException):
    """Ends the program, like KeyboardInterrupt."""


def never(run: ScorerRun) -> float:
    raise AssertionError("ran")


async def test_the_scorer_after_one_that_used_up_the_time_is_not_passed_over() -> None:
    async def uses_up_the_time(run: ScorerRun) -> float:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(lambda: None)
            while anyio.current_time() < started + 0.05:
                await anyio.lowlevel.checkpoint()
        return 1

    started = anyio.current_time()
    gate = TaskCompletion([uses_up_the_time, lambda run: 0], parallel=False, timeout=0.02)
    _, result = await read_all(writer(), is_task_complete=gate)
    assert result.completion is not None
    assert not result.accepted
    assert len(result.completion.results) == 2


@pytest.mark.parametrize("strategy", ["all", "any"])
async def test_a_check_that_all_scorers_decided_did_not_time_out(strategy: Any) -> None:
    async def finishes_late(run: ScorerRun) -> float:
        with anyio.CancelScope(shield=True):
            started = anyio.current_time()
            while anyio.current_time() < started + 0.03:
                await anyio.lowlevel.checkpoint()
        return 1

    gate = TaskCompletion([finishes_late], strategy=strategy, timeout=0.01)
    _, result = await read_all(writer(), is_task_complete=gate)
    assert result.accepted
    assert result.completion is not None
    assert not result.completion.timed_out


async def test_each_result_and_the_verdict_say_how_long_they_took() -> None:
    def lasting(outcome: Any) -> Any:
        async def scorer(run: ScorerRun) -> Any:
            started = anyio.current_time()
            while anyio.current_time() < started + 0.01:
                await anyio.lowlevel.checkpoint()
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        return scorer

    scorers = [lasting(outcome) for outcome in (1, 0, not_scorable(), ValueError("boom"))]
    started = anyio.current_time()
    _, result = await read_all(writer(), is_task_complete=scorers, max_steps=1)
    run_took = anyio.current_time() - started
    assert result.completion is not None
    assert [r.status for r in result.completion.results] == ["passed", "failed", "abstained", "errored"]
    for one in result.completion.results:
        assert 0.01 <= one.duration <= result.completion.duration <= run_took


async def test_after_misuse_no_further_scorer_runs() -> None:
    ran: list[str] = []

    def misused(run: ScorerRun) -> float:
        raise UserError("misused")

    def late(run: ScorerRun) -> float:
        ran.append("late")
        return 1

    _, raised = await read_failing(writer(), is_task_complete=TaskCompletion([misused, late], parallel=False))
    assert (str(raised), ran) == ("misused", [])


async def test_misuse_ends_the_scorers_beside_it() -> None:
    waiting = anyio.Event()

    async def waits(run: ScorerRun) -> float:
        waiting.set()
        await anyio.sleep_forever()
        return 1

    async def misused(run: ScorerRun) -> float:
        await waiting.wait()
        raise UserError("misused")

    with anyio.fail_after(5):
        _, raised = await read_failing(writer(), is_task_complete=[waits, misused])
    assert str(raised) == "misused"


async def test_a_check_that_times_out_names_who_is_late_beside_one_that_failed() -> None:
    async def slow(run: ScorerRun) -> float:
        await anyio.sleep_forever()
        return 1

    gate = TaskCompletion([lambda run: Score(0, "no"), slow], timeout=0.05)
    _, result = await read_all(writer(), is_task_complete=gate, max_steps=1)
    assert result.completion is not None
    assert result.completion.timed_out
    assert result.completion.reason == "no"
    failed, late = result.completion.results
    assert (failed.status, late.status) == ("failed", "errored")
    assert late.reason == "the scorer did not finish within the check's timeout of 0.05 s"
    assert isinstance(late.error, ScorerError)
    assert late.duration == 0.05


async def test_the_reason_of_a_crash_can_be_sent() -> None:
    def crashes(run: ScorerRun) -> float:
        raise ValueError("half a pair: \ud800")

    _, result = await read_all(writer(), is_task_complete=crashes)
    assert result.completion is not None
    assert "half a pair: \ufffd" in (result.completion.reason or "")


async def test_the_reason_of_a_crash_is_all_that_decides_where_nobody_failed() -> None:
    def crashes(run: ScorerRun) -> float:
        raise ValueError("boom")

    scorers = [lambda run: not_scorable("nothing to see"), crashes]
    _, result = await read_all(writer(), is_task_complete=scorers)
    assert result.completion is not None
    assert "boom" in (result.completion.reason or "")


@pytest.mark.parametrize("error", [Fatal(), UserError("misused")])
async def test_of_what_comes_with_a_cancel_only_what_ends_the_program_comes_out(error: BaseException) -> None:
    waiting = anyio.Event()

    async def waits(run: ScorerRun) -> float:
        waiting.set()
        await anyio.sleep_forever()
        return 1

    async def raises(run: ScorerRun) -> float:
        await waiting.wait()
        outer.cancel()
        raise error

    came: list[BaseException] = []
    with anyio.fail_after(5), anyio.CancelScope() as outer:
        try:
            await writer().generate("go", is_task_complete=[waits, raises])
        except (Fatal, UserError) as exc:
            came.append(exc)
    assert came == ([error] if isinstance(error, Fatal) else [])


async def test_a_timeout_of_zero_lets_nothing_pass() -> None:
    for parallel in (True, False):
        gate = TaskCompletion([lambda run: 1, lambda run: 1], parallel=parallel, timeout=0)
        _, result = await read_all(writer(), is_task_complete=gate)
        assert not result.accepted
        assert result.completion is not None
        assert "timeout of 0 s" in (result.completion.reason or "")


@pytest.mark.asyncio  # trio has no futures that are cancelled from elsewhere
@pytest.mark.parametrize("beside", [[], [lambda run: 1]])
async def test_a_scorer_that_meets_a_cancellation_of_its_own_has_crashed(beside: list[Any]) -> None:
    async def lost(run: ScorerRun) -> float:
        future: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        future.cancel()
        return await future

    _, result = await read_all(writer(), is_task_complete=[lost, *beside])
    assert result.stop_reason == "scorer_error"
    assert result.completion is not None
    assert result.completion.results[0].status == "errored"
    assert isinstance(result.completion.results[0].error, ScorerError)


@pytest.mark.parametrize(
    "result",
    [
        "text",
        None,
        ScorerResult(run_id="r"),
        ScorerResult(run_id="r", score=0, passed="false"),  # type: ignore[arg-type]
        ScorerResult(run_id="r", score=0, reason=5),  # type: ignore[arg-type]
        ScorerResult(run_id="r", not_scorable="n/a"),  # type: ignore[arg-type]
        ScorerResult(run_id="r", score=float("nan")),
    ],
)
async def test_a_result_that_is_none_is_an_error_and_no_verdict(result: Any) -> None:
    _, run = await read_all(writer(), is_task_complete=Fixed(result))
    assert run.stop_reason == "scorer_error"


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ("text", "scorer 'fixed' returned str, not a ScorerResult"),
        (None, "scorer 'fixed' returned NoneType, not a ScorerResult"),
        (ScorerResult(run_id="r"), "scorer 'fixed' gave neither a score nor an abstention"),
    ],
)
async def test_a_result_that_is_none_is_named_with_its_scorer(
    result: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    _, run = await read_all(writer(), is_task_complete=Fixed(result))
    assert run.completion is not None
    assert run.completion.results[0].reason == reason
    (record,) = [r for r in caplog.records if "could not judge" in r.message]
    assert reason in record.message
    assert record.exc_info is None, "the package's own errors say it all"


async def test_a_crash_of_a_scorer_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    error = ValueError("boom")

    def crashes(run: ScorerRun) -> float:
        raise error

    _, result = await read_all(writer(), is_task_complete=crashes)
    assert result.completion is not None
    (record,) = [r for r in caplog.records if "could not judge" in r.message]
    assert record.exc_info is not None
    assert record.message == f"scorer 'crashes' could not judge: {result.completion.reason}"


@pytest.mark.parametrize("score", [Score(0, passed="no"), Score(0, reason=5), Score(10**400), Score("1")])  # type: ignore[arg-type]
async def test_a_score_that_is_none_is_an_error_and_no_verdict(score: Score) -> None:
    _, run = await read_all(writer(), is_task_complete=lambda run: score)
    assert run.stop_reason == "scorer_error"


@pytest.mark.parametrize("error", [Unprintable(), ExceptionGroup("g", [ValueError("x")]), AssertionError()])
async def test_whatever_a_scorer_raises_is_a_crash_with_some_reason(error: Exception) -> None:
    def crashes(run: ScorerRun) -> float:
        raise error

    _, run = await read_all(writer(), is_task_complete=[crashes, lambda run: 1])
    assert run.stop_reason == "scorer_error"
    assert run.completion is not None
    assert run.completion.results[0].reason


@pytest.mark.parametrize("error", [UserError("misused"), TripWire("stop")])
@pytest.mark.parametrize("grouped", [False, True])
async def test_misuse_and_trip_wires_are_found_in_groups_too(error: Exception, grouped: bool) -> None:
    def raises(run: ScorerRun) -> float:
        raise ExceptionGroup("g", [error]) if grouped else error

    if isinstance(error, UserError):
        _, raised = await read_failing(writer(), is_task_complete=[raises, lambda run: 1])
        assert raised is error
    else:
        _, run = await read_all(writer(), is_task_complete=[raises, lambda run: 1])
        assert run.stop_reason == "tripwire"


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("grouped", [False, True])
async def test_what_ends_the_program_leaves_a_scorer_bare(parallel: bool, grouped: bool) -> None:
    def raises(run: ScorerRun) -> float:
        raise BaseExceptionGroup("g", [Fatal()]) if grouped else Fatal

    gate = TaskCompletion([raises, lambda run: 1], parallel=parallel)
    with pytest.raises(Fatal):
        await writer().generate("go", is_task_complete=gate)
    with pytest.raises(Fatal):
        async with writer().stream("go", is_task_complete=gate) as stream:
            async for _ in stream:
                pass


@pytest.mark.parametrize("order", [(UserError("misused"), Fatal()), (Fatal(), UserError("misused"))])
async def test_what_ends_the_program_outweighs_misuse_whichever_came_first(order: tuple[BaseException, ...]) -> None:
    waiting = anyio.Event()

    async def first(run: ScorerRun) -> float:
        await waiting.wait()
        raise order[0]

    async def second(run: ScorerRun) -> float:
        waiting.set()
        try:
            await anyio.sleep_forever()
        finally:
            raise order[1]

    with anyio.fail_after(5), pytest.raises(Fatal):
        await writer().generate("go", is_task_complete=[first, second])


async def test_a_raised_scorer_error_keeps_the_draft_and_readers_of_text_get_it() -> None:
    def crashes(run: ScorerRun) -> float:
        raise ValueError("boom")

    gate = TaskCompletion(crashes, on_scorer_error="raise")  # type: ignore[arg-type]
    seen: list[str] = []
    with pytest.raises(ScorerError) as caught:
        async with writer().stream("go", is_task_complete=gate) as stream:
            async for text in stream.text_deltas():
                seen.append(text)
    assert (seen, caught.value.partial_text) == (["draft"], "draft")


async def test_a_raised_timeout_names_the_scorer_that_was_late() -> None:
    async def slow(run: ScorerRun) -> float:
        await anyio.sleep_forever()
        return 1

    gate = TaskCompletion([slow], timeout=0.01, on_scorer_error="raise")
    _, error = await read_failing(writer(), is_task_complete=gate)
    assert str(error).startswith("scorer 'slow': the scorer did not finish within the check's timeout of 0.01 s")


async def test_one_after_another_a_scorer_that_could_not_judge_ends_the_check_of_all() -> None:
    def crashes(run: ScorerRun) -> float:
        raise ValueError("boom")

    gate = TaskCompletion([crashes, never], parallel=False)
    _, result = await read_all(writer(), is_task_complete=gate)
    assert result.completion is not None
    assert [r.status for r in result.completion.results] == ["errored"]


async def test_a_slow_reader_does_not_use_up_the_time_of_the_check() -> None:
    async with writer().stream("go", is_task_complete=TaskCompletion([lambda run: 1], timeout=0.05)) as stream:
        async for event in stream:
            if event.type == "task-completion-started":
                begin = anyio.current_time()
                while anyio.current_time() < begin + 0.06:
                    await anyio.lowlevel.checkpoint()
        assert (await stream.result()).accepted


@pytest.mark.parametrize("answer", [None, 5, "", " \n"])
async def test_feedback_that_says_nothing_is_named(answer: Any) -> None:
    gate = TaskCompletion([lambda run: 0], feedback=lambda verdict: answer)
    _, error = await read_failing(writer(), is_task_complete=gate)
    assert isinstance(error, UserError)
    assert "feedback of agent 'a'" in str(error)


async def test_a_decision_that_raises_says_whose_it_is() -> None:
    def feedback(verdict: object) -> str:
        raise ZeroDivisionError

    _, error = await read_failing(writer(), is_task_complete=TaskCompletion([lambda run: 0], feedback=feedback))
    assert isinstance(error, ZeroDivisionError)
    assert "feedback of agent 'a'" in error.__notes__[0]


async def test_going_on_from_an_earlier_run_does_not_replay_its_old_reasons() -> None:
    scores = iter([Score(0, "reason one"), Score(0, "reason two"), Score(1)])
    with ScriptedModel(["a", "b", "c", "d"]) as model:
        agent = Agent(id="a", model=model)
        first = await agent.generate("go", is_task_complete=lambda run: next(scores))
        await agent.generate("and now?", messages=first.messages)
    sent = "\n".join(str(m.parts) for m in model.prompts[-1])
    assert "reason one" not in sent
    assert "reason two" in sent

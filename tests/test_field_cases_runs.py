"""Cases from the field: how runs end, what is scored, and what is left when a stream is left."""

from __future__ import annotations

import json
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from support.http_server import HTTPServer, Reply, sse
from support.wire_field import Counting, calls, choice, failing, model_at, read_run, run_on, says

from mastra_py import (
    Agent,
    AgentRunInput,
    Judge,
    Score,
    ServerError,
    StreamErrorRetryProcessor,
    TaskCompletion,
    create_rubric_scorer,
)
from mastra_py.events import TextDelta, ToolCall
from mastra_py.testing import ScriptedModel, Turn

DELTAS = 1000


def slow(pace: list[anyio.Event]) -> Reply:
    """Return a reply of a thousand deltas that stands still after each ten."""
    pieces: list[Any] = []
    for n in range(DELTAS):
        pieces.append(f"data: {json.dumps(choice(content=f'{n} '))}\n\n")
        if n % 10 == 9:
            pace.append(anyio.Event())
            pieces.append(pace[-1])
    return sse(*pieces)


@pytest.mark.parametrize("reader", ["events", "texts"])
@pytest.mark.parametrize("how", ["break", "cancel()"])
async def test_a38_leaving_a_stream_closes_its_connection_soon(how: str, reader: str) -> None:
    for _ in range(2):  # twice in one loop
        async with HTTPServer(slow([])) as server:
            agent = Agent(id="a", model=model_at(server))
            taken = 0
            with anyio.fail_after(10):
                async with agent.stream("go") as stream:
                    texts = stream if reader == "events" else stream.text_deltas()
                    async for item in texts:
                        taken += isinstance(item, TextDelta | str)
                        if taken == 3 and how == "break":
                            break
                        if taken == 3:
                            stream.cancel()
                await server.disconnected.wait()
            assert taken == 3
            assert len(server.requests) == 1


@pytest.mark.parametrize("where", ["tool", "scorer"])
async def test_a38_cancelling_whoever_reads_stops_the_tools_and_the_scorers(where: str) -> None:
    begun, ended = anyio.Event(), anyio.Event()

    async def hang() -> float:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        return 1

    async def scorer(_: Any) -> float:
        return await hang()

    turn = Turn(tool_calls=[("c1", "hang", {})]) if where == "tool" else "an answer"
    agent = Agent(id="a", model=ScriptedModel([turn]), tools=[hang])
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: read_run(agent, is_task_complete=scorer))
            await begun.wait()
            tasks.cancel_scope.cancel()
    assert ended.is_set()


@pytest.mark.parametrize("steps", [1, 3])
async def test_a39_max_steps_is_the_number_of_steps_and_leaves_no_call_open(steps: int) -> None:
    ran = await run_on(calls(("c1", "look", {})), agent={"tools": [look]}, max_steps=steps)
    result = ran.final
    assert (result.stop_reason, len(result.steps), len(ran.requests)) == ("max_steps", steps, steps)
    called = [call.tool_call_id for message in result.messages for call in message.tool_calls]
    answered = [part.tool_call_id for message in result.messages for part in message.tool_results]
    assert called == answered
    assert len(called) == steps


def look() -> str:
    return "seen"


async def test_a39_a_run_that_is_never_accepted_says_so_with_the_last_reason() -> None:
    scorer = Counting(*[Score(0, f"reason {n}") for n in (1, 2, 3)])
    ran = await run_on(says("a draft"), is_task_complete=scorer, max_steps=3)
    assert (ran.final.stop_reason, len(ran.requests), scorer.runs) == ("max_steps", 3, 3)
    assert ran.final.completion is not None
    assert ran.final.completion.reason == "reason 3"
    given = [run.input for run in scorer.seen]
    assert all(isinstance(each, AgentRunInput) for each in given)
    assert [(each.iteration, each.max_steps) for each in given] == [(1, 3), (2, 3), (3, 3)]


async def test_a40_no_turn_that_failed_or_called_tools_is_scored() -> None:
    scorer = Counting(1)
    broken = failing(500, {"error": {"message": "Internal.", "type": "server_error"}})
    ran = await run_on(calls(("c1", "look", {})), broken, agent={"tools": [look]}, is_task_complete=scorer)
    assert isinstance(ran.failure, ServerError)
    assert (scorer.runs, len(ran.requests), ran.types.count("error")) == (0, 2, 1)


async def test_a40_an_empty_answer_is_scored_as_such_and_each_turn_has_one_result_a_scorer() -> None:
    async with HTTPServer(says('{"criteria": []}')) as judge_server:
        judge = Judge(model=model_at(judge_server))
        rubric = create_rubric_scorer(criteria="It names a tea", judge=judge)
        scorer = Counting(0, 1)
        completion = TaskCompletion([scorer, rubric], on_scorer_error="continue")
        ran = await run_on(says(""), says("Sencha."), is_task_complete=completion, max_steps=2)
        asked = [request.json["messages"][-1]["content"] for request in judge_server.requests]
    assert [run.output for run in scorer.seen] == ["", "Sencha."]
    assert "(empty output)" in asked[0], "the judge is told"
    assert [len(attempt.verdict.results) for attempt in ran.final.attempts] == [2, 2]
    assert ran.final.stop_reason != "complete"


async def test_a41_feedback_is_a_message_of_its_own_and_never_the_answer() -> None:
    scorer = Counting(Score(0, "R1"), 1)
    ran = await run_on(says("first"), says("second"), is_task_complete=scorer)
    result = ran.final
    assert (result.text, [step.text for step in result.steps]) == ("second", ["first", "second"])
    (feedback,) = [message for message in result.messages if message.is_feedback]
    assert feedback.role == "user"
    said = [message.text for message in result.messages if message.role == "assistant"]
    assert said == ["first", "second"]
    last = ran.requests[1]["messages"][-1]
    assert last["role"] == "user"
    assert "R1" in last["content"]


async def test_a41_where_no_turn_is_left_the_reason_is_on_the_result() -> None:
    ran = await run_on(says("first"), is_task_complete=Counting(Score(0, "R1")), max_steps=1)
    result = ran.final
    assert (result.text, result.stop_reason) == ("first", "max_steps")
    assert result.completion is not None
    assert result.completion.reason == "R1"
    assert not [message for message in result.messages if message.is_feedback]


async def test_a50_the_whole_path_works_on_this_event_loop() -> None:
    """A stream with tools, a wait for a retry, scorers, a judge that is asked again, and a cancel."""
    limited = failing(429, {"error": {"message": "Slow down.", "code": "rate_limit_exceeded"}})
    no, yes = [
        json.dumps({"criteria": [{"criterion": "It is hot", "reasoning": "So.", "satisfied": met}]})
        for met in (False, True)
    ]
    retry = StreamErrorRetryProcessor(max_retries=2, delay=0.01)
    agent_replies = [limited, calls(("c1", "look", {}), ("c2", "async_look", {})), says("cold tea"), says("hot tea")]
    async with (
        HTTPServer(*agent_replies) as server,
        HTTPServer(says(no), limited, says("well"), says(yes)) as judge_server,
    ):
        judge = Judge(model=model_at(judge_server), error_processors=[retry])
        rubric = create_rubric_scorer(criteria="It is hot", judge=judge)
        agent = Agent(id="a", model=model_at(server), tools=[look, async_look], error_processors=[retry])
        ran = await read_run(agent, is_task_complete=[rubric, is_long_enough])
        assert (ran.final.text, ran.final.stop_reason) == ("hot tea", "complete")
        assert (len(server.requests), len(judge_server.requests)) == (4, 4)
        assert [event.tool_name for event in ran.events if isinstance(event, ToolCall)] == ["look", "async_look"]
        async with agent.stream("once more") as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    stream.cancel()
            assert (await stream.result()).stop_reason == "cancelled"


async def async_look() -> str:
    await anyio.lowlevel.checkpoint()
    return "seen"


async def is_long_enough(run: Any) -> bool:
    await anyio.lowlevel.checkpoint()
    return len(run.output) > 3


def passing(_: Any) -> bool:
    return True


def raising(_: Any) -> float:
    raise ValueError("scorer broke")


async def sleeping(_: Any) -> float:
    await anyio.sleep(60)
    return 1


async def test_a52_any_passing_scorer_is_enough_and_the_others_are_cancelled() -> None:
    completion = TaskCompletion([passing, raising, sleeping], strategy="any", timeout=30)
    begin = anyio.current_time()
    ran = await run_on(says("x"), is_task_complete=completion)
    assert anyio.current_time() - begin < 5
    assert ran.final.stop_reason == "complete"
    assert ran.final.completion is not None
    first, second, third = ran.final.completion.results
    assert (first.status, third.status) == ("passed", "cancelled")
    assert second.status in {"errored", "cancelled"}, "whether it had ended by then is not fixed"


async def test_a52_a_scorer_that_raises_is_named_and_is_no_pass_and_the_others_keep_theirs() -> None:
    ran = await run_on(says("x"), is_task_complete=TaskCompletion([passing, raising]))
    assert (ran.final.stop_reason, ran.final.text, len(ran.requests)) == ("scorer_error", "x", 1)
    assert ran.final.completion is not None
    assert ran.final.completion.passed is False
    good, bad = ran.final.completion.results
    assert (good.status, bad.status, bad.scorer_id) == ("passed", "errored", "raising")
    assert "scorer broke" in (bad.reason or "")
    raised = await run_on(says("x"), is_task_complete=TaskCompletion([passing, raising], on_scorer_error="raise"))
    assert "raising" in str(raised.failure)
    assert isinstance(raised.failure.__cause__, ValueError)


@pytest.mark.parametrize("strategy", ["all", "any"])
async def test_a52_a_scorer_that_hangs_is_ended_by_the_timeout_and_is_no_pass(strategy: Any) -> None:
    scorers = [passing, sleeping] if strategy == "all" else [sleeping, raising]
    begin = anyio.current_time()
    ran = await run_on(says("x"), is_task_complete=TaskCompletion(scorers, strategy=strategy, timeout=0.2))
    assert anyio.current_time() - begin < 5
    assert ran.final.stop_reason == "scorer_error"
    assert ran.final.completion is not None
    assert ran.final.completion.timed_out
    found = {entry.scorer_id: entry.status for entry in ran.final.completion.results}
    assert found == ({"passing": "passed"} if strategy == "all" else {"raising": "errored"}) | {"sleeping": "errored"}

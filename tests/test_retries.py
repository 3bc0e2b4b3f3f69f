"""Retries inside a step: bounded, one layer, nothing but the model call is made again."""

from __future__ import annotations

import re
from typing import Any

import pytest
from support.streams import read_all, read_failing, types

from mastra_py import (
    Agent,
    ApiErrorContext,
    Message,
    ModelConnectionError,
    ModelError,
    QuotaError,
    Retry,
    RetryMatcher,
    ScorerRun,
    StreamErrorRetryProcessor,
    ToolError,
    TripWire,
    UserError,
    tool,
)
from mastra_py._loop.channel import NullOut
from mastra_py._loop.ledger import Ledger
from mastra_py._loop.step import ModelCall, model_step
from mastra_py.events import OutputSuperseded, RetryScheduled
from mastra_py.messages import Usage
from mastra_py.models import ModelRequest
from mastra_py.testing import FunctionModel, ScriptedModel, Turn, api_error

DOWN = Turn(error=api_error(500, message="down"))


class Scripted:
    """An error processor that answers from a script and records what it was asked."""

    def __init__(self, *answers: Retry | BaseException | None, id: str = "scripted") -> None:
        self.id = id
        self.answers = list(answers)
        self.asked: list[ApiErrorContext] = []

    async def process_api_error(self, ctx: ApiErrorContext, /) -> Retry | None:
        self.asked.append(ctx)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer


def agent(model: Any, *processors: Any, **options: Any) -> Agent:
    return Agent(id="a", model=model, error_processors=processors, **options)


@pytest.mark.parametrize("retries", [0, 1, 3])
async def test_a_request_makes_at_most_max_retries_plus_one_attempts(retries: int) -> None:
    model = ScriptedModel([DOWN], repeat_last=True)
    events, error = await read_failing(agent(model, StreamErrorRetryProcessor(max_retries=retries)))
    assert (model.calls, str(error)) == (retries + 1, "test/scripted: down (status 500)")
    assert [e.attempt for e in events if isinstance(e, RetryScheduled)] == list(range(1, retries + 1))


async def test_without_processors_nothing_is_retried() -> None:
    model = ScriptedModel([DOWN], repeat_last=True)
    await read_failing(agent(model))
    assert model.calls == 1


async def test_a_retry_belongs_to_its_step_and_does_not_use_up_steps() -> None:
    model = ScriptedModel([DOWN, DOWN, "fine"])
    events, result = await read_all(agent(model, StreamErrorRetryProcessor(max_retries=2)), max_steps=1)
    assert (result.text, len(result.steps), result.steps[0].attempts, result.usage.requests) == ("fine", 1, 3, 3)
    assert types(events).count("step-start") == 1


async def test_the_cap_holds_for_all_processors_together() -> None:
    model = ScriptedModel([DOWN], repeat_last=True)
    first, second = Scripted(None, id="first"), Scripted(Retry(), id="second")
    await read_failing(agent(model, first, second, max_processor_retries=2))
    assert model.calls == 3
    assert [c.retry_count for c in second.asked] == [0, 1]
    assert len(first.asked) == 2, "past the cap nobody is asked"


async def test_the_cap_is_ten_unless_given() -> None:
    model = ScriptedModel([DOWN], repeat_last=True)
    await read_failing(agent(model, Scripted(Retry())))
    assert model.calls == 11


async def test_a_call_may_set_processors_and_cap_of_its_own() -> None:
    model = ScriptedModel([DOWN], repeat_last=True)
    loose = agent(model, Scripted(Retry()), max_processor_retries=5)
    await read_failing(loose, max_processor_retries=0)
    assert model.calls == 1
    await read_failing(loose, error_processors=[StreamErrorRetryProcessor(max_retries=1)])
    assert model.calls == 3


async def test_no_wait_is_served_for_a_retry_that_the_cap_forbids() -> None:
    model = ScriptedModel([DOWN], repeat_last=True)
    events, _ = await read_failing(agent(model, Scripted(Retry(delay=3600)), max_processor_retries=0))
    assert "retry-scheduled" not in types(events)


async def test_the_count_starts_anew_with_each_model_call() -> None:
    @tool
    def lookup() -> int:
        return 1

    call = Turn(tool_calls=[("c", "lookup", {})])
    model = ScriptedModel([DOWN, call, DOWN, "done"])
    processor = Scripted(Retry())
    await read_all(agent(model, processor, tools=[lookup], max_processor_retries=1))
    assert [(c.step, c.retry_count) for c in processor.asked] == [(1, 0), (2, 0)]


@pytest.mark.parametrize("raised", [RuntimeError("bug"), api_error(500), api_error(401), ToolError("no")])
async def test_a_processor_that_raises_is_logged_and_the_next_is_asked(
    raised: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """D10"""
    model = ScriptedModel([DOWN, "fine"])
    _, result = await read_all(agent(model, Scripted(raised, id="buggy"), Scripted(Retry())))
    assert result.text == "fine"
    assert "buggy" in caplog.text


async def test_a_trip_wire_in_a_processor_ends_the_run_as_tripwire() -> None:
    model = ScriptedModel([DOWN])
    events, result = await read_all(agent(model, Scripted(TripWire("too many failures"), id="guard")))
    assert (result.stop_reason, result.text) == ("tripwire", "")
    assert result.tripwire is not None
    assert (result.tripwire.reason, result.tripwire.processor_id) == ("too many failures", "guard")
    assert types(events)[-2:] == ["tripwire", "finish"]


async def test_a_processor_may_add_to_what_the_retry_sends_but_not_to_the_history() -> None:
    model = ScriptedModel([DOWN, "fine"])
    hint = Message("user", "Keep it short")
    _, result = await read_all(agent(model, Scripted(Retry(append=[hint]))))
    assert model.prompts[1][-1] == hint
    assert hint not in result.messages


async def test_the_context_tells_what_failed_and_whose_it_was() -> None:
    model = ScriptedModel([DOWN, "fine"])
    processor = Scripted(Retry())
    context = {"user": "kim"}
    await read_all(agent(model, processor), request_context=context, run_id="r")
    (ctx,) = processor.asked
    assert (ctx.owner_id, ctx.run_id, ctx.step, [m.text for m in ctx.messages]) == ("agent:a", "r", 1, ["go"])
    assert ctx.request_context is context
    assert isinstance(ctx.error, ModelError)
    assert ctx.received_at.tzinfo is not None


async def test_the_wait_is_the_longer_of_own_delay_and_capped_retry_after() -> None:
    limited = Turn(error=api_error(429, headers={"Retry-After": "3600"}))
    model = ScriptedModel([limited, "fine"])
    events, _ = await read_all(agent(model, StreamErrorRetryProcessor(max_retry_after=0.01)))
    assert [e.delay for e in events if isinstance(e, RetryScheduled)] == [0.01]


async def test_a_delay_that_is_no_delay_counts_as_none() -> None:
    for delay in (-1.0, float("nan"), float("inf")):
        model = ScriptedModel([DOWN, "fine"])
        events, _ = await read_all(agent(model, Scripted(Retry(delay=delay))))
        assert [e.delay for e in events if isinstance(e, RetryScheduled)] == [0.0]


async def test_a_failure_at_the_start_of_the_stream_is_retried_and_takes_nothing_back() -> None:
    model = ScriptedModel([Turn(text="x", error=api_error(500), error_at="stream_start"), "fine"])
    events, result = await read_all(agent(model, StreamErrorRetryProcessor()))
    assert result.text == "fine"
    assert not [e for e in events if isinstance(e, OutputSuperseded)]


async def test_text_of_a_failed_attempt_is_in_neither_the_answer_nor_the_next_prompt() -> None:
    model = ScriptedModel([Turn(text="half a th", error_at="stream_broken"), "fine"])
    events, result = await read_all(agent(model, StreamErrorRetryProcessor()))
    assert result.text == "fine"
    assert all("half" not in m.text for prompt in model.prompts for m in prompt)
    assert all("half" not in m.text for m in result.messages)
    (taken,) = [e for e in events if isinstance(e, OutputSuperseded)]
    assert (taken.step, taken.attempt, taken.cause) == (1, 1, "provider-error")


async def test_a_failed_attempt_that_reports_usage_is_counted_apart() -> None:
    spent = Usage(input_tokens=7, output_tokens=2)
    broken = Turn(text="half", usage=spent, error=api_error(500), error_at="mid_stream")
    _, result = await read_all(agent(ScriptedModel([broken, "fine"]), StreamErrorRetryProcessor()))
    assert dict(result.usage.by) == {"failed:a": spent, "agent:a": Usage(input_tokens=1, output_tokens=1)}
    assert result.usage.total_tokens == 11


async def test_quota_and_bad_requests_fail_at_once_unless_matched() -> None:
    quota = Turn(error=api_error(429, body={"error": {"code": "insufficient_quota", "message": "used up"}}))
    model = ScriptedModel([quota], repeat_last=True)
    _, error = await read_failing(agent(model, StreamErrorRetryProcessor(max_retries=3)))
    assert isinstance(error, QuotaError)
    assert model.calls == 1
    matcher = RetryMatcher(lambda e: isinstance(e, QuotaError), max_retries=1)
    await read_failing(agent(model, StreamErrorRetryProcessor(max_retries=3, matchers=[matcher])))
    assert model.calls == 3


async def test_scorers_tools_and_finished_steps_are_not_run_again_by_a_retry() -> None:
    ran: list[str] = []

    @tool
    def lookup() -> int:
        ran.append("tool")
        return 1

    def scorer(run: ScorerRun) -> float:
        ran.append("scorer")
        return float("second" in run.output)

    call = Turn(tool_calls=[("c", "lookup", {})])
    model = ScriptedModel([call, DOWN, "first", DOWN, "second"])
    _, result = await read_all(agent(model, StreamErrorRetryProcessor(), tools=[lookup]), is_task_complete=scorer)
    assert (ran, result.stop_reason, model.calls) == (["tool", "scorer", "scorer"], "complete", 5)


async def test_an_exception_that_leaves_a_model_becomes_a_model_error_with_its_cause() -> None:
    def fails(request: Any) -> str:
        raise ConnectionResetError("ECONNRESET")

    _, error = await read_failing(agent(FunctionModel(fails)))
    assert isinstance(error, ModelConnectionError)
    assert isinstance(error.__cause__, ConnectionResetError)


async def test_a_reply_that_just_ends_is_a_retryable_stream_error() -> None:
    calls: list[int] = []

    async def cut(request: Any) -> Any:
        from mastra_py.events import ModelFinished, TextDelta, TextEnd, TextStart

        calls.append(1)
        yield TextStart()
        yield TextDelta("whole" if len(calls) > 1 else "cut of")
        if len(calls) > 1:
            yield TextEnd()
            yield ModelFinished(finish_reason="stop")

    _, result = await read_all(agent(FunctionModel(cut), StreamErrorRetryProcessor()))
    assert (result.text, len(calls)) == ("whole", 2)


async def test_a_user_error_of_a_model_is_not_retried() -> None:
    def misused(request: Any) -> str:
        raise UserError("no key")

    model = FunctionModel(misused)
    _, error = await read_failing(agent(model, Scripted(Retry())))
    assert isinstance(error, UserError)
    assert model.calls == 1


async def test_something_that_is_no_processor_is_refused() -> None:
    with pytest.raises(UserError, match="no processor for that"):
        Agent(id="a", model=ScriptedModel([]), error_processors=[StreamErrorRetryProcessor])  # type: ignore[list-item]
    with pytest.raises(UserError, match="no processor for that"):
        Agent(id="a", model=ScriptedModel([])).stream("go", error_processors=[lambda ctx: None])  # type: ignore[list-item]


async def test_an_error_carries_what_the_run_had_come_to() -> None:
    model = ScriptedModel(["first", "second", DOWN])
    _, error = await read_failing(agent(model), is_task_complete=lambda run: 0)
    assert isinstance(error, ModelError)
    assert [a.text for a in error.attempts] == ["first", "second"]
    assert [s.text for s in error.steps] == ["first", "second"]
    assert [m.role for m in error.messages] == ["user", "assistant", "user", "assistant", "user"]
    assert error.usage.requests == 3
    model = ScriptedModel(["third"])
    assert (await agent(model).generate(messages=error.messages)).text == "third"


async def test_what_a_retry_appends_is_part_of_a_re_ask_in_its_step_and_of_no_other_step() -> None:
    @tool
    def lookup() -> int:
        return 1

    note = Message("user", "Be brief.")
    call = Turn(tool_calls=[("c", "lookup", {})])
    model = ScriptedModel([DOWN, call, DOWN, "prose", '{"result": 3}'])
    _, result = await read_all(agent(model, Scripted(Retry(append=[note])), tools=[lookup]), output=int)
    assert [prompt.count(note) for prompt in model.prompts] == [0, 1, 0, 1, 1]
    assert [m.text for m in model.prompts[-1]][-3:-1] == ["Be brief.", "prose"]
    assert (result.output, note in result.messages) == (3, False)


class Unwritable(ScriptedModel):
    """A model that cannot write the request down."""

    def stream(self, request: Any, /) -> Any:
        raise UserError("no place for an image")


async def test_a_request_that_could_not_be_written_is_not_counted_as_sent() -> None:
    """D43"""
    ledger = Ledger()
    call = ModelCall(model=Unwritable([]), request=ModelRequest(messages=[]), owner="agent:a", ledger=ledger)
    with pytest.raises(UserError, match="no place"):
        await model_step(call, NullOut())
    assert ledger.requests == 0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"delay": "1"}, "Retry delay must be a number of seconds, got '1'"),
        ({"append": "x"}, "Retry append must be a sequence of Message objects, got 'x'"),
        ({"append": ["x"]}, "Retry append must be a sequence of Message objects"),
    ],
)
def test_a_retry_that_makes_no_sense_is_refused_where_it_is_made(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=re.escape(complaint)):
        Retry(**options)

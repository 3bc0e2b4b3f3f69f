"""Cases from the field: what is made again, how often, and after how long."""

from __future__ import annotations

import email.utils
import time
from typing import Any

import anyio
import pytest
from support.http_server import HTTPServer, Reply
from support.wire_field import (
    ANTHROPIC,
    CHAT,
    FINAL,
    LIMITED,
    chat,
    choice,
    failing,
    from_field,
    model_at,
    run_on,
    says,
)

from mastra_py import (
    Agent,
    Judge,
    PromptStep,
    QuotaError,
    RateLimitError,
    RetryMatcher,
    StreamErrorRetryProcessor,
    create_scorer,
)
from mastra_py.events import RetryScheduled

DONE = says("All done.")


def http_date(seconds: float) -> str:
    """Return the date that long from now."""
    return email.utils.formatdate(time.time() + seconds, usegmt=True)


async def scheduled_wait(reply: Reply, **options: Any) -> float:
    """Return how long a run waits before it makes the request again that ``reply`` answers, without waiting so long."""
    async with HTTPServer(reply, DONE) as server:
        agent = Agent(id="a", model=model_at(server), error_processors=[StreamErrorRetryProcessor(**options)])
        with anyio.fail_after(5):
            async with agent.stream("go") as stream:
                async for event in stream:
                    if isinstance(event, RetryScheduled):
                        return event.delay
    raise AssertionError("there was no retry")


async def test_a26_a_retry_after_that_is_a_date_counts_from_when_it_came() -> None:
    assert 15 < await scheduled_wait(failing(429, LIMITED, retry_after=http_date(25))) <= 25
    assert await scheduled_wait(failing(429, LIMITED, retry_after=http_date(-60)), delay=0.25) == 0.25
    assert await scheduled_wait(failing(429, LIMITED, retry_after="soon"), delay=0.25) == 0.25


async def test_a26_a_run_waits_until_that_date() -> None:
    retry = {"error_processors": [StreamErrorRetryProcessor(max_retries=1)]}
    came: list[float] = []

    def serve(_: Any) -> Reply:
        came.append(anyio.current_time())
        return failing(429, LIMITED, retry_after=http_date(2)) if len(came) == 1 else DONE

    ran = await run_on(serve, agent=retry)
    assert ran.final.text == "All done."
    assert 0.9 <= came[1] - came[0] <= 4


@pytest.mark.parametrize("kind", [CHAT, ANTHROPIC])
async def test_a27_a_huge_retry_after_is_capped_and_no_client_waits_it_out(kind: str) -> None:
    retry = {"error_processors": [StreamErrorRetryProcessor(max_retries=1, max_retry_after=0.2)]}
    begin = anyio.current_time()
    ran = await run_on(failing(429, LIMITED, retry_after="3600"), from_field(FINAL[kind]), kind=kind, agent=retry)
    assert (ran.final.text, len(ran.requests)) == ("All done.", 2)
    assert 0.2 <= anyio.current_time() - begin < 5


async def test_a27_a_delay_of_our_own_is_not_capped() -> None:
    asked = failing(429, LIMITED, retry_after="3600")
    assert await scheduled_wait(asked, max_retry_after=0.01, delay=0.3) == 0.3
    assert await scheduled_wait(asked) == 30


async def test_a28_requests_are_retries_plus_one_and_one_without_a_processor() -> None:
    always = failing(429, LIMITED, retry_after="0")
    assert len((await run_on(always)).requests) == 1
    ran = await run_on(always, agent={"error_processors": [StreamErrorRetryProcessor(max_retries=2)]})
    assert isinstance(ran.failure, RateLimitError)
    assert len(ran.requests) == 3


async def test_a28_text_that_came_before_a_failure_does_not_start_the_count_anew() -> None:
    broken = chat(choice(content="some text"), done=False)
    ran = await run_on(broken, agent={"error_processors": [StreamErrorRetryProcessor(max_retries=2)]})
    assert ran.failure.kind == "stream"
    assert len(ran.requests) == 3


async def test_a28_a_judge_has_a_budget_of_its_own() -> None:
    async with (
        HTTPServer(failing(429, LIMITED), says("done")) as agent_server,
        HTTPServer(failing(429, LIMITED)) as judge_server,
    ):
        judge = Judge(
            model=model_at(judge_server),
            instructions="You grade.",
            error_processors=[StreamErrorRetryProcessor(max_retries=1)],
        )
        scorer = create_scorer("quality", judge=judge).generate_score(PromptStep(create_prompt=lambda _: "Grade it."))
        agent = Agent(id="a", model=model_at(agent_server), error_processors=[StreamErrorRetryProcessor(max_retries=4)])
        with anyio.fail_after(5):
            result = await agent.generate("go", is_task_complete=scorer)
        assert result.stop_reason == "scorer_error"
        assert (len(agent_server.requests), len(judge_server.requests)) == (2, 2)


QUOTA = failing(
    429, {"error": {"message": "Quota used up.", "type": "insufficient_quota", "code": "insufficient_quota"}}
)


async def test_a29_a_used_up_quota_is_final_unless_a_matcher_says_otherwise() -> None:
    ran = await run_on(QUOTA, agent={"error_processors": [StreamErrorRetryProcessor(max_retries=3)]})
    assert isinstance(ran.failure, QuotaError)
    assert (ran.failure.status, ran.failure.retryable, len(ran.requests)) == (429, False, 1)
    assert "quota" in str(ran.failure).lower()
    stubborn = StreamErrorRetryProcessor(matchers=RetryMatcher(lambda e: isinstance(e, QuotaError), max_retries=2))
    assert len((await run_on(QUOTA, agent={"error_processors": [stubborn]})).requests) == 3


@pytest.mark.parametrize("how", ["a scope around it", "cancel()", "leaving the block"])
async def test_a30_cancelling_a_run_that_waits_for_a_retry_ends_it_at_once_and_sends_nothing(how: str) -> None:
    async with HTTPServer(failing(429, LIMITED, retry_after="20"), DONE) as server:
        agent = Agent(id="a", model=model_at(server), error_processors=[StreamErrorRetryProcessor()])
        begin = anyio.current_time()
        seen: list[str] = []
        with anyio.fail_after(5), anyio.CancelScope() as scope:
            async with agent.stream("go") as stream, anyio.create_task_group() as tasks:
                async for event in stream:
                    seen.append(event.type)
                    if event.type == "retry-scheduled" and how != "leaving the block":
                        tasks.start_soon(once_idle, scope.cancel if how == "a scope around it" else stream.cancel)
                    elif event.type == "retry-scheduled":
                        break
        assert anyio.current_time() - begin < 3
        assert scope.cancelled_caught == (how == "a scope around it")
        assert seen[-1] == ("abort" if how == "cancel()" else "retry-scheduled")
        assert "error" not in seen
        await anyio.wait_all_tasks_blocked()
        assert len(server.requests) == 1


async def once_idle(cancel: Any) -> None:
    """Call ``cancel`` once everything waits."""
    await anyio.wait_all_tasks_blocked()
    cancel()

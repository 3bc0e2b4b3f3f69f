"""After how long the retry processor has a call made again (R25)."""

from __future__ import annotations

import math
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.retries import ask, caused_by, delay_of, is_retried, plain
from tenacity import wait_chain, wait_exception, wait_exponential, wait_fixed, wait_random, wait_random_exponential

from mastra_py.errors import RateLimitError, RequestError, ServerError, UserError
from mastra_py.processors import ApiErrorContext, StreamErrorRetryProcessor


@pytest.mark.parametrize(
    ("delay", "first_three"),
    [
        (0.25, [0.25, 0.25, 0.25]),
        (2, [2.0, 2.0, 2.0]),
        (90.0, [90.0, 90.0, 90.0]),  # what one chooses oneself is not limited by max_retry_after
        (wait_exponential(multiplier=0.5, max=1.5), [0.5, 1.0, 1.5]),
        (wait_chain(wait_fixed(1), wait_fixed(4)), [1.0, 4.0, 4.0]),
        (wait_exception(lambda error: 7.0 if isinstance(error, ServerError) else 0.0), [7.0, 7.0, 7.0]),
        (lambda ctx: 0.1 * 2**ctx.retry_count, [0.1, 0.2, 0.4]),
    ],
    ids=["float", "int", "long", "wait_exponential", "wait_chain", "wait_exception", "function"],
)
async def test_the_delay_is_a_number_a_tenacity_wait_or_a_function(delay: Any, first_three: list[float]) -> None:
    assert [await delay_of(ServerError(), n, delay=delay) for n in range(3)] == first_three


@pytest.mark.parametrize("retry_count", range(4))
async def test_random_tenacity_waits_stay_in_their_bounds(retry_count: int) -> None:
    jitter = await delay_of(ServerError(), retry_count, delay=wait_fixed(3) + wait_random(0, 2))
    backoff = await delay_of(ServerError(), retry_count, delay=wait_random_exponential(multiplier=0.5, max=20))

    assert 3 <= jitter <= 5
    assert 0 <= backoff <= 0.5 * 2**retry_count


async def test_a_tenacity_wait_sees_what_a_retry_loop_would_show_it() -> None:
    states: list[Any] = []

    class Recorded(wait_fixed):
        def __call__(self, retry_state: Any) -> float:
            states.append(retry_state)
            return super().__call__(retry_state)

    error, wait = ServerError("exploded"), Recorded(1)
    await delay_of(error, 2, delay=wait)

    (state,) = states
    assert state.attempt_number == 3
    assert state.outcome.failed
    assert state.outcome.exception() is error
    assert state.outcome.attempt_number == 3
    assert state.seconds_since_start >= 0
    assert state.retry_object.wait is wait


async def test_an_async_function_of_the_context_gives_the_delay() -> None:
    async def delay(ctx: ApiErrorContext) -> float:
        await anyio.lowlevel.checkpoint()
        return 5.0 if ctx.owner_id == "agent:a" else 0.0

    assert await delay_of(ServerError(), delay=delay) == 5.0


@pytest.mark.parametrize("computed", [-5, -math.inf, math.nan, math.inf, 10**400, -(10**400)])
async def test_d37_a_computed_delay_that_cannot_be_waited_counts_as_none(computed: float) -> None:
    assert await delay_of(ServerError(), delay=lambda _: computed) == 0.0
    assert await delay_of(RateLimitError(headers={"retry-after": "2"}), delay=lambda _: computed) == 2.0


@pytest.mark.parametrize("computed", [None, "5", True])
async def test_a_delay_function_that_returns_no_number_is_a_user_error(computed: Any) -> None:
    with pytest.raises(UserError, match=r"delay function of 'mine' returned .*; it must return a number of seconds"):
        await is_retried(ServerError(), delay=lambda _: computed, id="mine")


async def test_d10_a_delay_function_that_throws_throws_out_of_the_processor() -> None:
    def delay(_: ApiErrorContext) -> float:
        raise ZeroDivisionError("delay broke")

    with pytest.raises(ZeroDivisionError, match="delay broke"):
        await is_retried(ServerError(), delay=delay)


async def test_a_delay_is_computed_only_for_a_retry() -> None:
    asked: list[int] = []
    processor = StreamErrorRetryProcessor(delay=lambda ctx: asked.append(ctx.retry_count) or 0.0)

    await ask(processor, RequestError())
    await ask(processor, ServerError(), 1)
    assert asked == []

    await ask(processor, ServerError(), 0)
    assert asked == [0]


@pytest.mark.parametrize(
    ("headers", "options", "delay"),
    [
        ({"retry-after": "2"}, {}, 2.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, {}, 1.5),
        ({"retry-after": "2"}, {"delay": 5.0}, 5.0),
        ({"retry-after": "5"}, {"delay": 2.0}, 5.0),
        ({"retry-after": "120"}, {}, 30.0),
        ({"retry-after": "3600"}, {"max_retry_after": 0.2}, 0.2),
        ({"retry-after": "3600"}, {"max_retry_after": 0}, 0.0),
        ({"retry-after": "3600"}, {"max_retry_after": 0.2, "delay": 90.0}, 90.0),
        ({"retry-after": "9" * 5_000}, {"delay": 1.0}, 1.0),
        ({"retry-after": "9" * 300}, {"delay": 1.0}, 30.0),
        ({"Retry-After": "Thu, 01 Jan 2026 00:00:05 GMT"}, {}, 5.0),
        ({"Retry-After": "Wed, 31 Dec 2025 23:59:00 GMT"}, {"delay": 1.0}, 1.0),
        ({"retry-after": "in a while"}, {"delay": 1.0}, 1.0),
        ({}, {"delay": 1.0}, 1.0),
    ],
    ids=lambda value: repr(value)[:60],
)
async def test_a26_a27_the_wait_is_the_longer_of_the_own_and_the_capped_retry_after(
    headers: dict[str, str], options: dict[str, Any], delay: float
) -> None:
    assert await delay_of(RateLimitError(headers=headers), **options) == delay


@pytest.mark.parametrize(
    ("error", "delay"),
    [
        (caused_by(plain("outer"), RateLimitError(headers={"retry-after": "4"})), 4.0),
        (caused_by(ServerError(headers={"retry-after": "3"}), plain(headers={"retry-after": "4"})), 3.0),
        (caused_by(ServerError(headers={"retry-after": "x"}), plain(headers={"Retry-After": "4"})), 4.0),
        (plain(status=503, headers={"retry-after": "4"}), 4.0),
        (plain(status=503, headers={"retry-after": 4, 5: "6"}), 0.0),
        (plain(status=503, headers="retry-after: 4"), 0.0),
        (ServerError(retry_after=6.0), 6.0),
        (ServerError(retry_after=600.0), 30.0),
        (ServerError(retry_after=math.inf), 30.0),
        (ServerError(retry_after=6.0, headers={"retry-after": "2"}), 2.0),
        (ServerError(retry_after=6.0, headers={"date": "today"}), 6.0),
        (ServerError(retry_after=0.5), 0.5),
        (caused_by(ServerError(retry_after=0.0), plain(headers={"retry-after": "4"})), 0.0),
        (ServerError(retry_after=-1.0), 0.0),
        (ServerError(retry_after=math.nan), 0.0),
        (caused_by(plain("outer"), ServerError(retry_after=6.0)), 6.0),
        (caused_by(ServerError(retry_after=-1.0), plain(headers={"retry-after": "4"})), 4.0),
    ],
    ids=repr,
)
async def test_the_asked_for_wait_is_found_on_the_error_or_its_causes(error: Exception, delay: float) -> None:
    assert await delay_of(error) == delay


_numbers = st.one_of(st.floats(), st.integers(-(2**53), 2**53))
_texts = st.one_of(st.text(max_size=8), st.integers(-5, 10**9).map(str))


@given(
    own=_numbers,
    cap=st.floats(0, 1e6),
    headers=st.dictionaries(st.sampled_from(["retry-after", "Retry-After-Ms"]), _texts),
    asked=st.none() | st.floats(),
)
async def test_a_delay_is_finite_and_never_above_the_own_one_or_the_cap(
    own: float, cap: float, headers: dict[str, str], asked: float | None
) -> None:
    error = RateLimitError(headers=headers, retry_after=asked)

    delay = await delay_of(error, delay=lambda _: own, max_retry_after=cap)

    assert math.isfinite(delay)
    assert 0 <= delay <= max(own if math.isfinite(own) else 0, cap)

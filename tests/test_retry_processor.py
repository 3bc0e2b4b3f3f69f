"""How often the retry processor has a call made again, by whose limits, and whom it tells (R23-R26)."""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Mapping
from dataclasses import FrozenInstanceError
from typing import Any

import anyio
import pytest
from support.retries import ask, caused_by, delay_of, is_retried, plain
from support.vector_notation import load_vectors
from support.vector_retry import UnknownNotationError, expected, play
from tenacity import RetryCallState, wait_fixed
from tenacity.wait import wait_base

from mastra_py.errors import ModelError, RateLimitError, RunError, ServerError, TripWire, UserError
from mastra_py.processors import ApiErrorContext, ErrorProcessor, Retry, RetryMatcher, StreamErrorRetryProcessor

VECTORS = [v for v in load_vectors("retry") if v["given"]["level"] == "processor"]


# --- recorded behaviour


@pytest.mark.parametrize("vector", VECTORS, ids=[v["name"] for v in VECTORS])
async def test_the_processor_answers_as_recorded_or_as_a_rule_says(vector: Mapping[str, Any]) -> None:
    outcome, _ = expected(vector)

    assert await play(vector["given"]) == outcome


def test_the_departures_from_the_record_are_these_and_each_really_departs() -> None:
    recorded = [v["expect"]["retries"] for v in VECTORS]
    departures = {
        vector["name"].removeprefix("retry/processor/"): (rule, outcome.refused or (retries, outcome.retries))
        for vector, retries in zip(VECTORS, recorded, strict=True)
        for outcome, rule in [expected(vector)]
        if rule
    }

    assert departures == {
        "network_error_econnreset": ("D12", (0, 1)),
        "unknown_on_404": ("D12", (1, 0)),
        "unknown_on_status_string_401": ("D12", (1, 0)),
        "max_retries_negative": ("D37", "max_retries"),
        "delay_negative": ("D37", "delay"),
        "delay_nan": ("D37", "delay"),
        "retry_after_cap_nan": ("D37", "max_retry_after"),
    }


@pytest.mark.parametrize(
    "given_",
    [
        {"level": "processor", "now": "2026-01-01T00:00:00Z", "options": {}, "error": {"type": "odd"}},
        {"level": "processor", "now": "2026-01-01T00:00:00Z", "options": {}, "error": {"type": "error", "odd": 1}},
        {"level": "processor", "now": "2026-01-01T00:00:00Z", "options": {"odd": 1}, "error": {"type": "error"}},
        {"level": "processor", "now": "2026-01-01T00:00:00Z", "options": {}, "error": {"type": "null"}, "odd": 1},
    ],
)
async def test_a_vector_with_unknown_notation_fails(given_: Mapping[str, Any]) -> None:
    with pytest.raises(UnknownNotationError, match="odd"):
        await play(given_)


# --- matchers


async def test_matchers_may_be_plain_async_wrapped_or_one_alone() -> None:
    async def is_flaky(error: Exception) -> bool:
        await anyio.lowlevel.checkpoint()
        return "flaky" in str(error)

    def contains(text: str, error: Exception) -> bool:
        return text in str(error)

    for matchers in (
        is_flaky,
        RetryMatcher(is_flaky),
        [is_flaky],
        (RetryMatcher(lambda _: False), is_flaky),
        iter([is_flaky]),
        functools.partial(contains, "flaky"),
    ):
        processor = StreamErrorRetryProcessor(matchers=matchers)
        assert await ask(processor, plain("a flaky thing"))
        assert not await ask(processor, plain("a solid thing"))


async def test_the_first_matcher_that_matches_brings_its_limits_and_the_rest_is_the_processors() -> None:
    processor = StreamErrorRetryProcessor(
        max_retries=2,
        delay=3.0,
        matchers=[
            RetryMatcher(lambda e: "own limit" in str(e), max_retries=4),
            RetryMatcher(lambda e: "own delay" in str(e), delay=0.5),
            RetryMatcher(lambda e: "final" in str(e), max_retries=0),
            RetryMatcher(lambda _: True, max_retries=99),
        ],
    )

    async def delays(message: str) -> list[float]:
        retries = [await ask(processor, plain(message), n) for n in range(6)]
        return [r.delay for r in retries if r is not None]

    assert await delays("own limit") == [3.0] * 4
    assert await delays("own delay") == [0.5] * 2
    assert await delays("final") == []


@pytest.mark.parametrize(
    ("error", "delay"),
    [
        (ModelError(body={"type": "error", "error": {"code": "server_error"}}), 1.0),  # OpenAI before own matchers
        (caused_by(ServerError("outer"), plain("flaky")), 1.0),  # the outer mark before a matcher of the cause
        (ServerError("flaky"), 9.0),  # a matcher before the mark beside it
        (caused_by(plain("flaky"), ServerError()), 9.0),  # an outer matcher before the mark of the cause
    ],
    ids=repr,
)
async def test_each_level_asks_openai_then_the_matchers_then_the_mark(error: Exception, delay: float) -> None:
    matcher = RetryMatcher(lambda e: "flaky" in str(e) or bool(getattr(e, "body", None)), delay=9.0)

    assert await delay_of(error, delay=1.0, matchers=matcher) == delay


@pytest.mark.parametrize("trouble", [ValueError("matcher broke"), TripWire("stop here")], ids=repr)
async def test_d10_a_matcher_that_throws_throws_out_of_the_processor(trouble: Exception) -> None:
    def match(_: Exception) -> bool:
        raise trouble

    with pytest.raises(type(trouble), match=str(trouble)):
        await is_retried(plain(), matchers=match)


# --- how often


async def test_a28_a_call_that_always_fails_is_made_max_retries_plus_one_times() -> None:
    processor = StreamErrorRetryProcessor(max_retries=2)

    answers = [await ask(processor, RateLimitError(status=429), n) for n in range(5)]

    assert [a is not None for a in answers] == [True, True, False, False, False]


async def test_one_retry_at_once_is_the_default() -> None:
    processor = StreamErrorRetryProcessor()

    assert await ask(processor, ServerError(), 0) == Retry(delay=0.0)
    assert await ask(processor, ServerError(), 1) is None
    assert isinstance(processor, ErrorProcessor)
    assert processor.id == "stream-error-retry"


async def test_a_tenacity_wait_may_ask_what_was_called_and_finds_no_arguments() -> None:
    class ByArguments(wait_base):
        def __call__(self, retry_state: RetryCallState) -> float:
            return 2.0 + len(retry_state.args) + len(retry_state.kwargs)

    assert await delay_of(ServerError(), delay=ByArguments()) == 2.0


# --- on_retry


async def test_on_retry_sees_the_context_and_the_final_delay_of_each_retry() -> None:
    calls: list[tuple[int, float]] = []

    async def note(ctx: ApiErrorContext, delay: float) -> None:
        await anyio.lowlevel.checkpoint()
        calls.append((ctx.retry_count, delay))

    error = plain("flaky", headers={"retry-after": "40"})
    processor = StreamErrorRetryProcessor(
        matchers=RetryMatcher(lambda _: True, max_retries=2, delay=1.0, on_retry=note)
    )
    for n in range(4):
        await ask(processor, error, n)

    assert calls == [(0, 30.0), (1, 30.0)]


async def test_d10_a_throwing_on_retry_is_logged_with_its_occasion_and_the_retry_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(_ctx: ApiErrorContext, _delay: float) -> None:
        raise ZeroDivisionError("note broke")

    processor = StreamErrorRetryProcessor(
        max_retries=3, matchers=RetryMatcher(lambda _: True, delay=0.5, on_retry=broken), id="mine"
    )
    with caplog.at_level(logging.ERROR, logger="mastra_py"):
        assert await ask(processor, plain("flaky"), 1) == Retry(delay=0.5)

    (record,) = caplog.records
    assert "on_retry of 'mine' before retry 2 after Exception('flaky')" in record.getMessage()
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ZeroDivisionError)


async def test_without_an_on_retry_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert await is_retried(plain("flaky"), matchers=lambda _: True)
    assert caplog.records == []


async def test_d10_an_on_retry_may_end_the_run_with_an_error_of_this_package() -> None:
    def stop(_ctx: ApiErrorContext, _delay: float) -> None:
        raise TripWire("enough")

    with pytest.raises(RunError, match="enough"):
        await is_retried(plain(), matchers=RetryMatcher(lambda _: True, on_retry=stop))


# --- options


@pytest.mark.parametrize(
    ("kind", "options", "complaint"),
    [
        (StreamErrorRetryProcessor, {"max_retries": -1}, "StreamErrorRetryProcessor max_retries .* got -1"),
        (StreamErrorRetryProcessor, {"max_retries": 1.5}, "max_retries must be a whole number from 0, got 1.5"),
        (StreamErrorRetryProcessor, {"max_retries": True}, "max_retries .* got True"),
        (StreamErrorRetryProcessor, {"max_retries": None}, "max_retries .* got None"),
        (
            StreamErrorRetryProcessor,
            {"max_retry_after": -0.1},
            "StreamErrorRetryProcessor max_retry_after must be a finite .* got -0.1",
        ),
        (StreamErrorRetryProcessor, {"max_retry_after": math.nan}, "max_retry_after .* got nan"),
        (StreamErrorRetryProcessor, {"max_retry_after": math.inf}, "max_retry_after .* got inf"),
        (StreamErrorRetryProcessor, {"max_retry_after": "30"}, "max_retry_after .* got '30'"),
        (StreamErrorRetryProcessor, {"delay": -5.0}, "StreamErrorRetryProcessor delay .* got -5.0"),
        (StreamErrorRetryProcessor, {"delay": math.nan}, "delay must be a finite number of seconds .* got nan"),
        (StreamErrorRetryProcessor, {"delay": math.inf}, "delay .* got inf"),
        (StreamErrorRetryProcessor, {"delay": 10**400}, "delay .* got 1000"),
        (StreamErrorRetryProcessor, {"delay": True}, "delay must be seconds, a tenacity wait object .* got True"),
        (StreamErrorRetryProcessor, {"delay": "5"}, "delay must be seconds, .* got '5'"),
        (StreamErrorRetryProcessor, {"delay": wait_fixed}, "delay must be seconds, .* got <class .*wait_fixed'>"),
        (StreamErrorRetryProcessor, {"retry_unknown_errors": "no"}, "retry_unknown_errors must be .* got 'no'"),
        (StreamErrorRetryProcessor, {"matchers": "flaky"}, "matchers must be .* got 'flaky'"),
        (StreamErrorRetryProcessor, {"matchers": 7}, "matchers must be .* got 7"),
        (StreamErrorRetryProcessor, {"matchers": [print, "flaky"]}, r"matchers\[1\] must be .* got 'flaky'"),
        (StreamErrorRetryProcessor, {"matchers": [ValueError]}, r"matchers\[0\] .* got the class ValueError"),
        (StreamErrorRetryProcessor, {"matchers": ValueError}, "matchers must be .* got the class ValueError"),
        (RetryMatcher, {"match": "flaky"}, "RetryMatcher match must be a function, got 'flaky'"),
        (RetryMatcher, {"match": print, "max_retries": -1}, "RetryMatcher max_retries .* got -1"),
        (RetryMatcher, {"match": print, "max_retries": False}, "RetryMatcher max_retries .* got False"),
        (RetryMatcher, {"match": print, "delay": math.nan}, "RetryMatcher delay .* got nan"),
        (RetryMatcher, {"match": print, "delay": -1}, "RetryMatcher delay .* got -1"),
        (RetryMatcher, {"match": print, "on_retry": 5}, "RetryMatcher on_retry must be a function, got 5"),
    ],
)
def test_d37_a_wrong_option_is_refused_at_construction_with_its_name_and_value(
    kind: type[object], options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(UserError, match=complaint):
        kind(**options)


def test_a_matcher_stays_as_it_was_made() -> None:
    matcher = RetryMatcher(lambda _: True)
    with pytest.raises(FrozenInstanceError):
        matcher.max_retries = 5  # type: ignore[misc]


def test_the_repr_shows_the_settings() -> None:
    processor = StreamErrorRetryProcessor(max_retries=2, max_retry_after=5, retry_unknown_errors=True, id="mine")

    assert repr(processor) == (
        "StreamErrorRetryProcessor(max_retries=2, max_retry_after=5.0, delay=0.0, matchers=(), "
        "retry_unknown_errors=True, id='mine')"
    )

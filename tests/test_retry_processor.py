"""Which failures the retry processor has made again, how often, and after how long (R23-R26)."""

from __future__ import annotations

import errno
import functools
import json
import logging
import math
import socket
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.vector_retry import UnknownNotationError, expected, play
from tenacity import wait_chain, wait_exception, wait_exponential, wait_fixed, wait_random, wait_random_exponential

from mastra_py.errors import (
    AuthError,
    ContentError,
    ContextLengthError,
    ModelConnectionError,
    ModelError,
    ModelTimeoutError,
    OverloadedError,
    QuotaError,
    RateLimitError,
    RequestError,
    RunError,
    ServerError,
    StreamError,
    TripWire,
    UserError,
)
from mastra_py.processors import (
    ApiErrorContext,
    ErrorProcessor,
    Retry,
    RetryMatcher,
    StreamErrorRetryProcessor,
    is_bad_request,
    is_connection_error,
    is_openai_stream_error,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
VECTORS = json.loads((Path(__file__).parent / "conformance" / "retry_processor.json").read_text(encoding="utf-8"))
FAILING_AT_ONCE = [AuthError, RequestError, ContextLengthError, QuotaError, ContentError]
QUOTA_BODY = {"error": {"message": "Quota used up.", "type": "insufficient_quota", "code": "insufficient_quota"}}


def failed(error: Any, retry_count: int = 0) -> ApiErrorContext:
    return ApiErrorContext(error=error, retry_count=retry_count, received_at=NOW, owner_id="agent:a")


async def ask(processor: StreamErrorRetryProcessor, error: Exception, retry_count: int = 0) -> Retry | None:
    return await processor.process_api_error(failed(error, retry_count))


async def is_retried(error: Exception, **options: Any) -> bool:
    return await ask(StreamErrorRetryProcessor(**options), error) is not None


async def delay_of(error: Exception, retry_count: int = 0, **options: Any) -> float:
    retry = await ask(StreamErrorRetryProcessor(**{"max_retries": 99, **options}), error, retry_count)
    assert retry is not None
    return retry.delay


def caused_by(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


def plain(message: str = "who knows", **attributes: Any) -> Exception:
    """Return an error as a client's own class has it, which knows nothing of this package."""
    error = Exception(message)
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


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


# --- what is retried


@pytest.mark.parametrize(
    ("kind", "retried"),
    [
        (ModelConnectionError, True),
        (ModelTimeoutError, True),
        (RateLimitError, True),
        (OverloadedError, True),
        (ServerError, True),
        (StreamError, True),
        (ModelError, False),
        *[(kind, False) for kind in FAILING_AT_ONCE],
    ],
)
async def test_the_kind_of_a_model_error_decides(kind: type[ModelError], retried: bool) -> None:
    assert await is_retried(kind("failed")) is retried


@pytest.mark.parametrize("kind", [ModelError, ServerError, RequestError, AuthError, QuotaError])
@pytest.mark.parametrize("retryable", [True, False])
async def test_what_the_provider_states_outweighs_the_kind(kind: type[ModelError], retryable: bool) -> None:
    assert await is_retried(kind("failed", retryable=retryable)) is retryable


@pytest.mark.parametrize(
    ("status", "retried"),
    [(s, True) for s in (408, 409, 429, 500, 502, 503, 504, 529)]
    + [(s, False) for s in (200, 400, 401, 402, 403, 404, 410, 413, 422)],
)
async def test_without_a_word_of_the_provider_the_status_decides(status: int, retried: bool) -> None:
    assert await is_retried(ModelError("failed", status=status)) is retried
    assert await is_retried(plain(status=status)) is retried
    assert await is_retried(plain(status_code=status)) is retried
    assert await is_retried(plain(status_code=status, is_retryable=not retried)) is not retried


@pytest.mark.parametrize("mark", ["true", 1, None])
async def test_a_mark_that_is_no_bool_says_nothing(mark: object) -> None:
    assert not await is_retried(plain(is_retryable=mark))
    assert await is_retried(plain(is_retryable=mark, status=503))


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (ModelConnectionError("failed"), False),  # says so of itself
        (ConnectionResetError(errno.ECONNRESET, "reset"), True),
        (BrokenPipeError(errno.EPIPE, "broken"), True),
        (TimeoutError("too slow"), True),
        (OSError(errno.ETIMEDOUT, "timed out"), True),
        (OSError(errno.EHOSTUNREACH, "no route"), True),
        (OSError(errno.ENETUNREACH, "no network"), True),
        (socket.gaierror(socket.EAI_AGAIN, "name look-up failed"), True),
        (anyio.ConnectionFailed("all attempts failed"), True),
        (FileNotFoundError(errno.ENOENT, "no such file"), False),
        (PermissionError(errno.EACCES, "denied"), False),
        (OSError("of no kind"), False),
        *[
            (plain(code=c), True)
            for c in ("ECONNRESET", "ECONNREFUSED", "EPIPE", "ETIMEDOUT", "ENOTFOUND", "EAI_AGAIN")
        ],
        *[(plain(code=c), False) for c in ("ECONN_", "XEPIPE", "econnreset", "E", "", 104, None)],
        (plain("read ECONNRESET"), False),
    ],
    ids=repr,
)
async def test_d12_connection_errors_are_retried(error: Exception, is_one: bool) -> None:
    assert is_connection_error(error) is is_one
    assert await is_retried(caused_by(plain("fetch failed"), error)) is (is_one or isinstance(error, ModelError))
    assert await is_retried(caused_by(ModelError("fetch failed"), error)) is (is_one or isinstance(error, ModelError))


# --- OpenAI's failures inside a stream


@pytest.mark.parametrize(
    ("body", "matches"),
    [
        ({"type": "error", "error": {"code": "server_error"}}, True),
        ({"type": "error", "error": {"code": "Rate_Limit_Exceeded"}}, True),
        ({"type": "error", "error": {"type": "overloaded_error"}}, True),
        ({"type": "error", "error": {"code": None, "type": "overloaded_error"}}, True),
        ({"type": "error", "error": {"code": "internal_error"}}, True),
        ({"type": "error", "error": {"code": "gateway_timeout"}}, True),
        ({"type": "error", "error": {"code": "temporarily_unavailable"}}, True),
        ({"type": "error", "error": {"code": "service_unavailable"}}, True),
        ({"type": "error", "error": {"code": "x", "message": "Oops. You can RETRY your request."}}, True),
        ({"type": "response.failed", "response": {"error": {"code": "server_error"}}}, True),
        ({"type": "response.failed", "response": {"error": {"message": "you can retry your request"}}}, True),
        ({"type": "error", "error": {"code": "nope", "type": "server_error"}}, False),
        ({"type": "error", "error": {"code": "invalid_request_error"}}, False),
        ({"type": "error", "error": "server_error"}, False),
        ({"type": "error", "code": "server_error"}, False),
        ({"type": "response.failed", "error": {"code": "server_error"}}, False),
        ({"type": "response.failed", "response": None}, False),
        ({"type": "response.failed", "response": {"error": None}}, False),
        ({"type": "response.incomplete", "response": {"error": {"code": "server_error"}}}, False),
        ({"error": {"code": "server_error"}}, False),
        ("server_error", False),
        (None, False),
    ],
    ids=repr,
)
async def test_a22_passing_failures_that_openai_reports_in_a_stream_are_retried(body: object, matches: bool) -> None:
    for error in (ModelError(body=body), plain(body=body)):
        assert is_openai_stream_error(error) is matches
        assert await is_retried(error) is matches


@pytest.mark.parametrize("kind", FAILING_AT_ONCE)
async def test_the_openai_matcher_leaves_alone_what_fails_for_good(kind: type[ModelError]) -> None:
    error = kind(body={"type": "error", "error": {"code": "server_error"}})

    assert not is_openai_stream_error(error)
    assert not await is_retried(error)


# --- what fails at once


@pytest.mark.parametrize(
    "error",
    [
        QuotaError("used up", status=429, body=QUOTA_BODY),
        RateLimitError("used up", status=429, body=QUOTA_BODY),
        RateLimitError("used up", code="Insufficient_Quota "),
        ModelError("used up", status=429, code="insufficient_quota"),
        ModelError("used up", body={"type": "error", "error": {"code": "insufficient_quota", "message": "rate_limit"}}),
        ModelError(
            "used up",
            body={
                "type": "response.failed",
                "response": {"error": {"code": "insufficient_quota", "message": "You can retry your request"}},
            },
        ),
        plain(status_code=429, body=[QUOTA_BODY]),
        plain(status_code=429, body=json.dumps(QUOTA_BODY)),
        caused_by(QuotaError("used up"), plain(status_code=429)),
    ],
    ids=str,
)
async def test_a29_a_used_up_quota_is_no_rate_limit_and_only_an_own_matcher_retries_it(error: Exception) -> None:
    assert not await is_retried(error)
    assert not await is_retried(error, retry_unknown_errors=True)
    assert await is_retried(error, matchers=lambda _: True)


@pytest.mark.parametrize("kind", FAILING_AT_ONCE)
async def test_r24_what_fails_at_once_is_retried_only_where_a_matcher_says_so(kind: type[ModelError]) -> None:
    assert not await is_retried(kind("failed"))
    assert not await is_retried(kind("failed"), retry_unknown_errors=True)
    assert await is_retried(kind("failed"), matchers=lambda e: isinstance(e, kind))


async def test_a_bad_request_is_retried_with_the_ready_matcher() -> None:
    assert await is_retried(RequestError(status=400), matchers=is_bad_request)
    assert await is_retried(plain(status_code=400), matchers=is_bad_request)
    assert not await is_retried(RequestError(status=404), matchers=is_bad_request)


# --- the causes


async def test_the_error_and_its_causes_are_each_asked_once_from_the_outside_in() -> None:
    seen: list[str] = []
    outer, middle, inner = plain("outer"), plain("middle"), plain("inner")
    caused_by(outer, caused_by(middle, caused_by(inner, outer)))

    await is_retried(outer, matchers=lambda e: bool(seen.append(str(e))))

    assert seen == ["outer", "middle", "inner"]


async def test_without_an_explicit_cause_the_exception_being_handled_is_the_cause() -> None:
    error = plain("wrapped")
    error.__context__ = ServerError()
    assert await is_retried(error)

    error.__suppress_context__ = True
    assert not await is_retried(error)


async def test_a_model_error_has_explicit_causes_only() -> None:
    error = ModelError("the second model failed, too")
    error.__context__ = ServerError("the first model failed")
    assert not await is_retried(error)

    error.__cause__ = error.__context__
    assert await is_retried(error)


async def test_a_cancellation_in_the_chain_is_passed_over() -> None:
    seen: list[BaseException] = []
    error = caused_by(plain("timed out"), caused_by(KeyboardInterrupt(), TimeoutError()))  # type: ignore[arg-type]

    assert await is_retried(error, matchers=lambda e: bool(seen.append(e)))
    assert [type(e) for e in seen] == [Exception, TimeoutError]


@pytest.mark.parametrize("judgement", [AuthError(), RequestError(status=400), ServerError(retryable=False)], ids=repr)
@pytest.mark.parametrize(
    "client_error",
    [
        plain(status_code=429),
        ConnectionResetError(),
        plain(body={"type": "error", "error": {"type": "overloaded_error"}}),
    ],
    ids=repr,
)
async def test_what_a_model_error_made_of_the_clients_error_stands(
    judgement: ModelError, client_error: Exception
) -> None:
    assert await is_retried(caused_by(plain("no judgement"), client_error))
    assert not await is_retried(caused_by(judgement, client_error))


async def test_a_cause_that_states_to_be_passing_counts_under_any_error() -> None:
    assert await is_retried(caused_by(RequestError(status=400), ServerError(status=503)))
    assert await is_retried(caused_by(RequestError(status=400), plain(is_retryable=True)))


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


# --- unknown errors


@pytest.mark.parametrize(
    ("error", "retried"),
    [
        (plain(), True),
        (ModelError(), True),
        (ModelError(status=418), True),
        (RequestError(status=410), True),
        (plain(code="something"), True),
        (ModelError(body="not JSON"), True),
        (ModelError(body={"metadata": {"status": 400}}), True),
        (ModelError(body="[" * 100_000), True),
        *[(ModelError(status=s), False) for s in (400, 401, 403, 404, 422)],
        (RequestError(), False),
        *[(plain(status=s), False) for s in (400, "401", " 403 ", "404", 422)],
        *[(plain(status_code=s), False) for s in (400, "401")],
        (ModelError(body={"status": "401"}), False),
        (ModelError(body={"statusCode": 403}), False),
        (ModelError(body={"error": {"status": 404}}), False),
        (ModelError(body={"data": {"error": {"code": "forbidden"}}}), False),
        (ModelError(body={"response": {"error": {"type": "permission_denied"}}}), False),
        (ModelError(body='{"error": {"code": "access_denied"}}'), False),
        (ModelError(body={"responseBody": '{"error": {"code": "billing_not_active"}}'}), False),
        (ModelError(body=[{"error": {"type": "authentication_error"}}]), False),
        (ModelError(body={"cause": {"status": 401}}), False),
        (plain(code=" Invalid_API_Key "), False),
        (caused_by(plain("wrapped"), ModelError(status=403)), False),
        (caused_by(plain("wrapped"), plain(body={"error": {"code": "insufficient_quota"}})), False),
        (caused_by(plain("wrapped"), ContextLengthError()), False),
    ],
    ids=lambda value: repr(value)[:80],
)
async def test_d12_unknown_errors_are_retried_on_demand_unless_known_to_fail_again(
    error: Exception, retried: bool
) -> None:
    assert not await is_retried(error)
    assert await is_retried(error, retry_unknown_errors=True) is retried


async def test_a_body_that_holds_itself_is_read_to_its_end() -> None:
    body: dict[str, Any] = {"error": {}}
    body["error"]["error"] = body
    with anyio.fail_after(5):
        assert await is_retried(ModelError(body=body), retry_unknown_errors=True)


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


# --- after how long


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
    with pytest.raises(UserError, match="delay function of 'mine' returned .*; it must return a number of seconds"):
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
    waited = await delay_of(RateLimitError(headers=headers), **options)

    assert waited == delay
    assert type(waited) is float


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
        (ServerError(retry_after=-1.0), 0.0),
        (ServerError(retry_after=math.nan), 0.0),
        (caused_by(plain("outer"), ServerError(retry_after=6.0)), 6.0),
    ],
    ids=repr,
)
async def test_the_asked_for_wait_is_found_on_the_error_or_its_causes(error: Exception, delay: float) -> None:
    assert await delay_of(error) == delay


_numbers = st.one_of(st.floats(), st.integers())
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


async def test_d10_an_on_retry_may_end_the_run_with_an_error_of_this_package() -> None:
    def stop(_ctx: ApiErrorContext, _delay: float) -> None:
        raise TripWire("enough")

    with pytest.raises(RunError, match="enough"):
        await is_retried(plain(), matchers=RetryMatcher(lambda _: True, on_retry=stop))


# --- options


@pytest.mark.parametrize(
    ("build", "complaint"),
    [
        (lambda: StreamErrorRetryProcessor(max_retries=-1), "StreamErrorRetryProcessor max_retries .* got -1"),
        (lambda: StreamErrorRetryProcessor(max_retries=1.5), "max_retries must be a whole number .* got 1.5"),  # type: ignore[arg-type]
        (lambda: StreamErrorRetryProcessor(max_retries=True), "max_retries .* got True"),
        (lambda: StreamErrorRetryProcessor(max_retries=None), "max_retries .* got None"),  # type: ignore[arg-type]
        (lambda: StreamErrorRetryProcessor(max_retry_after=-0.1), "max_retry_after must be a finite .* got -0.1"),
        (lambda: StreamErrorRetryProcessor(max_retry_after=math.nan), "max_retry_after .* got nan"),
        (lambda: StreamErrorRetryProcessor(max_retry_after=math.inf), "max_retry_after .* got inf"),
        (lambda: StreamErrorRetryProcessor(max_retry_after="30"), "max_retry_after .* got '30'"),  # type: ignore[arg-type]
        (lambda: StreamErrorRetryProcessor(delay=-5.0), "StreamErrorRetryProcessor delay .* got -5.0"),
        (lambda: StreamErrorRetryProcessor(delay=math.nan), "delay must be a finite number of seconds .* got nan"),
        (lambda: StreamErrorRetryProcessor(delay=math.inf), "delay .* got inf"),
        (lambda: StreamErrorRetryProcessor(delay=10**400), "delay .* got 1000"),
        (lambda: StreamErrorRetryProcessor(delay=True), "delay must be seconds, a tenacity wait object .* got True"),
        (lambda: StreamErrorRetryProcessor(delay="5"), "delay must be seconds, .* got '5'"),  # type: ignore[arg-type]
        (lambda: StreamErrorRetryProcessor(delay=wait_fixed), "delay must be seconds, .* got <class .*wait_fixed'>"),  # type: ignore[arg-type]
        (lambda: StreamErrorRetryProcessor(matchers="flaky"), "matchers must be .* got 'flaky'"),  # type: ignore[arg-type]
        (lambda: StreamErrorRetryProcessor(matchers=7), "matchers must be .* got 7"),  # type: ignore[arg-type]
        (lambda: StreamErrorRetryProcessor(matchers=[print, "flaky"]), r"matchers\[1\] must be .* got 'flaky'"),  # type: ignore[list-item]
        (lambda: StreamErrorRetryProcessor(matchers=[ValueError]), r"matchers\[0\] .* got the class ValueError"),
        (lambda: StreamErrorRetryProcessor(matchers=ValueError), "matchers must be .* got the class ValueError"),
        (lambda: RetryMatcher("flaky"), "RetryMatcher match must be a function, got 'flaky'"),  # type: ignore[arg-type]
        (lambda: RetryMatcher(print, max_retries=-1), "RetryMatcher max_retries .* got -1"),
        (lambda: RetryMatcher(print, max_retries=False), "RetryMatcher max_retries .* got False"),
        (lambda: RetryMatcher(print, delay=math.nan), "RetryMatcher delay .* got nan"),
        (lambda: RetryMatcher(print, delay=-1), "RetryMatcher delay .* got -1"),
        (lambda: RetryMatcher(print, on_retry=5), "RetryMatcher on_retry must be a function, got 5"),  # type: ignore[arg-type]
    ],
)
def test_d37_a_wrong_option_is_refused_at_construction_with_its_name_and_value(
    build: Callable[[], object], complaint: str
) -> None:
    with pytest.raises(UserError, match=complaint):
        build()


def test_the_repr_shows_the_settings() -> None:
    processor = StreamErrorRetryProcessor(max_retries=2, max_retry_after=5, retry_unknown_errors=True, id="mine")

    assert repr(processor) == (
        "StreamErrorRetryProcessor(max_retries=2, max_retry_after=5.0, delay=0.0, matchers=(), "
        "retry_unknown_errors=True, id='mine')"
    )

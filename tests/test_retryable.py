"""Which failures the retry processor has made again (R24)."""

from __future__ import annotations

import errno
import json
import socket
from typing import Any

import anyio
import pytest
from support.retries import caused_by, is_retried, plain

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
    ServerError,
    StreamError,
)
from mastra_py.processors import is_bad_request, is_connection_error, is_openai_stream_error

FAILING_AT_ONCE = [AuthError, RequestError, ContextLengthError, QuotaError, ContentError]
QUOTA_BODY = {"error": {"message": "Quota used up.", "type": "insufficient_quota", "code": "insufficient_quota"}}


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
    assert await is_retried(ModelError("failed", retryable=retryable, code="insufficient_quota")) is retryable


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
        *[
            (OSError(number, "the network"), True)
            for number in (errno.ENETDOWN, errno.ENETRESET, errno.EHOSTDOWN, errno.ENOTCONN)
        ],
        (socket.gaierror(socket.EAI_AGAIN, "name look-up failed"), True),
        (socket.herror(1, "unknown host"), True),
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
        ({"type": "error", "error": {"code": "x", "message": "Your request is wrong."}}, False),
        ({"type": "error", "error": {"code": "x", "message": ["you can retry your request"]}}, False),
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

    assert is_openai_stream_error(error) is False
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
        plain(status_code=429, code="billing_hard_limit_reached"),
        plain(status_code=429, body=json.dumps(QUOTA_BODY)),
        caused_by(QuotaError("used up"), plain(status_code=429)),
    ],
    ids=str,
)
async def test_a29_a_used_up_quota_is_no_rate_limit_and_only_an_own_matcher_retries_it(error: Exception) -> None:
    assert not await is_retried(error)
    assert not await is_retried(error, retry_unknown_errors=True)
    assert await is_retried(error, matchers=lambda _: True)


@pytest.mark.parametrize(
    ("code", "is_quota"),
    [
        *[
            (code, True)
            for code in (
                "quota",
                "exceeded_current_quota_error",
                "billing",
                "billing_not_active",
                "insufficient_credit",
                "insufficient_credits",
                "insufficient_balance",
                "insufficient_funds",
                "error_insufficient_funds",
                "credit_balance",
                "credit_balance_too_low",
            )
        ],
        *[(code, False) for code in ("insufficient", "insufficient_permissions", "credit", "balance", "funds")],
    ],
)
async def test_a_used_up_quota_is_told_by_its_code(code: str, is_quota: bool) -> None:
    assert await is_retried(plain(status_code=429, code=code)) is not is_quota
    assert await is_retried(plain(status_code=429, body={"error": {"type": code}})) is not is_quota


@pytest.mark.parametrize(
    "code",
    [
        "access_denied",
        "authentication_error",
        "forbidden",
        "invalid_api_key",
        "permission_denied",
        "permission_error",
    ],
)
async def test_a_wrong_key_is_told_by_the_whole_code(code: str) -> None:
    assert not await is_retried(plain(code=code), retry_unknown_errors=True)
    assert await is_retried(plain(code=f"no_{code}"), retry_unknown_errors=True)
    assert await is_retried(plain(code=f"{code}_at_times"), retry_unknown_errors=True)


@pytest.mark.parametrize(
    "name", ["error", "errors", "data", "response", "body", "response_body", "responseBody", "cause"]
)
async def test_a_status_is_found_where_bodies_keep_the_error(name: str) -> None:
    assert not await is_retried(ModelError(body={name: {"status_code": 403}}), retry_unknown_errors=True)


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
    for nothing_said in (plain(), plain(status=200), ModelError()):
        assert await is_retried(caused_by(nothing_said, client_error))
        assert not await is_retried(caused_by(judgement, caused_by(nothing_said, client_error)))
    assert not await is_retried(caused_by(judgement, client_error))


@pytest.mark.parametrize(
    "cause",
    [
        ServerError(status=503),
        plain(is_retryable=True),
        ModelError(status=503),
        ModelError(body={"type": "error", "error": {"type": "overloaded_error"}}),
    ],
    ids=repr,
)
async def test_a_model_error_among_the_causes_and_a_stated_mark_count_under_any_error(cause: Exception) -> None:
    assert await is_retried(caused_by(RequestError(status=400), cause))


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
        (ModelError(body={"status": "failed", "statusCode": "4"}), True),
        (ModelError(body={"status": "4001", "statusCode": "04"}), True),
        (plain(status=400, code="ECONNRESET"), False),
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


async def test_what_stands_beside_a_part_of_a_body_that_was_seen_is_read_too() -> None:
    part: dict[str, Any] = {"code": "harmless"}
    body = {"error": {"status": 401}, "data": part, "response": part}
    assert not await is_retried(ModelError(body=body), retry_unknown_errors=True)
    assert not await is_retried(ModelError(body=[{"status": 401}, part, part]), retry_unknown_errors=True)


async def test_each_of_many_json_texts_in_a_body_is_read() -> None:
    body = ['{"status": 401}', *(['{"status": 200}'] * 9)]
    assert not await is_retried(ModelError(body=body), retry_unknown_errors=True)

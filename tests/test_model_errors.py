from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from mastra_py.errors import ModelError, RateLimitError
from mastra_py.models._error_body import read_error_body
from mastra_py.models._errors import model_error, wrap_exception


class PlainError(Exception):
    """An exception of a model that is not ours, with whatever attributes it has."""

    def __init__(self, message: str = "", **attributes: Any) -> None:
        super().__init__(message)
        for name, value in attributes.items():
            setattr(self, name, value)


@pytest.mark.parametrize(
    ("facts", "kind"),
    [
        # The code counts before the type, and both before the status.
        ({"code": "insufficient_quota", "error_type": "rate_limit_error", "status": 429}, "quota"),
        ({"code": "rate_limit_exceeded", "error_type": "insufficient_quota", "status": 429}, "rate_limit"),
        ({"error_type": "overloaded_error", "status": 500}, "overloaded"),
        ({"code": "context_length_exceeded", "error_type": "invalid_request_error", "status": 400}, "context_length"),
        ({"code": "server_error"}, "server"),
        ({"code": "InternalServerError"}, "server"),
        ({"code": "RateLimitReached", "status": 400}, "rate_limit"),
        ({"code": "service-unavailable"}, "server"),
        ({"error_type": "timeout_error"}, "timeout"),
        ({"error_type": "authentication_error"}, "auth"),
        ({"error_type": "permission_error", "status": 403}, "auth"),
        ({"code": "content_filter", "status": 400}, "content"),
        ({"error_type": "exceed_context_size_error", "status": 400}, "context_length"),
        # Types that many failures share count only where there is no status.
        ({"error_type": "invalid_request_error", "status": 401}, "auth"),
        ({"error_type": "invalid_request_error", "status": 429}, "rate_limit"),
        ({"error_type": "invalid_request_error"}, "request"),
        ({"error_type": "not_found_error"}, "request"),
        ({"error_type": "api_error"}, "server"),
        ({"error_type": "api_error", "status": 529}, "overloaded"),
        # A code that is a number is the status where there is none.
        ({"code": 429}, "rate_limit"),
        ({"code": "503"}, "server"),
        ({"code": 400, "status": 503}, "server"),
        ({"code": 12}, "other"),
        # Texts count for bad requests only.
        ({"message": "prompt is too long: 210000 tokens > 200000 maximum", "status": 400}, "context_length"),
        ({"message": "The request exceeds the available context size", "status": 400}, "context_length"),
        ({"message": "Your credit balance is too low", "status": 400}, "quota"),
        ({"message": "prompt is too long", "status": 429}, "rate_limit"),
        ({"message": "Too many words about the context window", "status": 500}, "server"),
        ({"status": 418}, "request"),
        ({"status": 302}, "other"),
        ({"message": "What?"}, "other"),
        ({}, "other"),
    ],
)
def test_a_failure_is_named_by_code_then_type_then_status(facts: dict[str, Any], kind: str) -> None:
    assert model_error(**facts).kind == kind


def test_what_a_failure_says_is_kept() -> None:
    body = {"error": {"message": "slow down", "type": "rate_limit_error"}}
    headers = {"Retry-After": "7", "Request-Id": "req_1"}
    error = model_error(status=429, headers=headers, body=body, provider="p", model="m")
    assert isinstance(error, RateLimitError)
    assert (error.message, error.code, error.retry_after, error.request_id) == (
        "slow down",
        "rate_limit_error",
        7,
        "req_1",
    )
    assert (error.body, error.headers["retry-after"], error.retryable) == (body, "7", True)
    assert str(error) == "p/m: slow down (status 429, rate_limit_error)"


@pytest.mark.parametrize(
    ("status", "said", "retryable"), [(503, "false", False), (503, "true", True), (401, "true", False)]
)
def test_a_provider_may_say_that_a_retry_is_in_vain(status: int, said: str, retryable: bool) -> None:
    assert model_error(status=status, headers={"X-Should-Retry": said}).retryable is retryable


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"error": {"message": "m", "type": "t", "code": 5}}, {"message": "m", "type": "t", "code": "5"}),
        ({"error": {"message": "m", "type": None, "code": True}}, {"message": "m"}),
        ({"error": "m"}, {"message": "m"}),
        ({"message": "m", "code": "c"}, {"message": "m", "code": "c"}),
        ({"detail": "m"}, {"message": "m"}),
        ({"detail": [{"loc": []}]}, {}),
        ("m", {"message": "m"}),
        ("", {}),
        (None, {}),
        ([1], {}),
    ],
)
def test_error_bodies_of_all_shapes_are_read(body: Any, said: dict[str, str]) -> None:
    assert read_error_body(body) == said


@pytest.mark.parametrize(
    ("exc", "kind", "retryable"),
    [
        (PlainError("x", code="ECONNRESET"), "connection", True),
        (PlainError("x", code="ENOTFOUND", is_retryable=False), "connection", False),
        (ConnectionResetError("x"), "connection", True),
        (socket.gaierror("x"), "connection", True),
        (TimeoutError("x"), "timeout", True),
        (PlainError("x", status=503), "other", None),
        (PlainError("x", is_retryable=True), "other", True),
        (PlainError("x", is_retryable="yes"), "other", None),
        (OSError("x"), "other", None),
        (ValueError("x"), "other", None),
    ],
)
def test_a_foreign_exception_is_wrapped(exc: Exception, kind: str, retryable: bool | None) -> None:
    error = wrap_exception(exc, "p", "m")
    assert (error.kind, error.retryable, error.message) == (kind, retryable, "x")
    assert (error.provider, error.model) == ("p", "m")
    assert error.__cause__ is exc


@pytest.mark.parametrize(
    ("attributes", "status", "code", "retry_after"),
    [
        ({"status": 429, "headers": {"Retry-After": 3}}, 429, None, 3),
        ({"status_code": "404", "code": 7}, 404, "7", None),
        ({"status": None, "status_code": 500, "code": "x", "headers": "none"}, 500, "x", None),
        ({"status": True, "code": ""}, None, None, None),
    ],
)
def test_the_attributes_of_a_foreign_exception_are_kept(
    attributes: dict[str, Any], status: int | None, code: str | None, retry_after: float | None
) -> None:
    error = wrap_exception(PlainError(**attributes), "p", "m")
    assert (error.status, error.code, error.retry_after) == (status, code, retry_after)
    assert error.message == "PlainError"


def test_a_code_that_repeats_the_status_makes_way_for_the_type() -> None:
    body = {"error": {"code": 400, "type": "exceed_context_size_error", "message": "too long"}}
    assert str(model_error(status=400, body=body)) == "too long (status 400, exceed_context_size_error)"


def test_a_failure_without_a_message_is_described_by_what_there_is() -> None:
    assert model_error(status=500).message == "the provider answered with status 500"
    assert model_error().message == "the provider reports a failure"
    assert "{'oops': 1}" in model_error(body={"oops": 1}).message


def test_our_own_error_is_not_wrapped_again() -> None:
    error = ModelError("x")
    assert wrap_exception(error, "p", "m") is error


def in_error(message: str, **facts: Any) -> dict[str, Any]:
    return {"error": {"message": message, **facts}}


WRAPPED = json.dumps(in_error("Resource has been exhausted (e.g. check quota).", code=429, status="RESOURCE_EXHAUSTED"))

FROM_THE_FIELD: list[tuple[str, int | None, Any, str]] = [
    tuple(row) for row in json.loads((Path(__file__).parent / "provider_errors.json").read_text(encoding="utf-8"))
]
"""What providers really answer: the provider and the case, the status (none: within a reply), the body, the kind."""

NOT_RETRYABLE = {"groq large"}  # beyond the limit of a minute by itself
PASSING = {"rate_limit", "overloaded", "server", "timeout"}


@pytest.mark.parametrize(("case", "status", "body", "kind"), FROM_THE_FIELD, ids=[row[0] for row in FROM_THE_FIELD])
def test_what_providers_really_answer_is_the_kind_that_it_is(
    case: str, status: int | None, body: Any, kind: str
) -> None:
    error = model_error(status=status, body=body)
    assert error.kind == kind
    assert error.retryable is (kind in PASSING and case not in NOT_RETRYABLE)
    assert error.message


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (
            in_error("Provider returned error", metadata={"raw": "m is rate-limited"}),
            None,
            "Provider returned error: m is rate-limited",
        ),
        (
            {"error": {"message": WRAPPED, "code": 429}},
            "RESOURCE_EXHAUSTED",
            "Resource has been exhausted (e.g. check quota).",
        ),
        (
            [{"error": {"code": 400, "message": "no", "details": [{"reason": "API_KEY_INVALID"}]}}],
            "API_KEY_INVALID",
            "no",
        ),
        ({"detail": [{"loc": ["body", "n"], "msg": "too big"}, {"msg": "wrong"}]}, None, "body.n: too big; wrong"),
        ({"errors": [{"code": 1000, "message": "nothing there"}]}, "1000", "nothing there"),
        ({"error": True, "message": "m"}, None, "m"),
        ({"error_code": "BAD", "message": "m"}, "BAD", "m"),
        (in_error("m", type="None", code="null"), None, "m"),
    ],
)
def test_what_stands_behind_a_message_is_found(body: Any, code: str | None, message: str) -> None:
    error = model_error(status=400 if code != "RESOURCE_EXHAUSTED" else 429, body=body)
    assert (error.code, error.message) == (code, message)


@pytest.mark.parametrize(
    "name",
    [
        *("X-Request-Id", "request-id", "x-amzn-RequestId", "apim-request-id", "x-ms-request-id", "cf-ray"),
        *("mistral-correlation-id", "x-ds-trace-id", "x-litellm-call-id"),
    ],
)
def test_the_id_of_the_request_is_found_under_every_name(name: str) -> None:
    assert model_error(status=500, headers={"cf-ray": "id", name: "id"}).request_id == "id"
    assert model_error(status=500, headers={"CF-Ray": "ray", "x-request-id": "id"}).request_id == "id"


def test_the_id_of_the_request_may_stand_in_the_body() -> None:
    assert model_error(body={"type": "error", "error": {"message": "m"}, "request_id": "req_1"}).request_id == "req_1"
    assert model_error(headers={"request-id": "h"}, body={"message": "m", "request_id": "b"}).request_id == "h"


def test_a_type_in_the_headers_counts() -> None:
    headers = {"x-amzn-ErrorType": "ThrottlingException:http://internal.amazon.com/coral/com.amazon.bedrock/"}
    error = model_error(status=400, headers=headers, body={"message": "slow"})
    assert (error.kind, error.code) == ("rate_limit", "ThrottlingException")


@pytest.mark.parametrize(
    ("delay", "seconds"), [("36s", 36), ("1.5s", 1.5), ("soon", None), (36, None), ("9" * 99 + "s", None)]
)
def test_a_delay_in_the_body_counts_where_no_header_has_one(delay: Any, seconds: float | None) -> None:
    body = [{"error": {"code": 429, "message": "m", "details": [{"reason": "x"}, {"retryDelay": delay}]}}]
    assert model_error(status=429, body=body).retry_after == seconds
    assert model_error(status=429, headers={"retry-after": "7"}, body=body).retry_after == 7


def test_a_body_of_any_depth_or_size_makes_an_error() -> None:
    deep: Any = "x"
    for _ in range(50_000):
        deep = {"error": deep}
    assert model_error(status=500, body=deep).kind == "server"
    assert model_error(status=500, body={"error": {"code": 10**5000}}).kind == "server"
    assert model_error(body={"oops": 10**5000}).message == "the provider reports a failure"

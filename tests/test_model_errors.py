from __future__ import annotations

import socket
from typing import Any

import pytest

from mastra_py.errors import ModelError, RateLimitError
from mastra_py.models._errors import model_error, read_error_body, wrap_exception


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

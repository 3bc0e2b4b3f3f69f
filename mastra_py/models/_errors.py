"""What kind of failure it is: from a provider's words, or from any exception, to a :class:`ModelError`.

A provider names its failures by a code, a type, a status, and a text, and each of them may be missing. They are asked
in this order; codes and types that are shared by many kinds of failure ("invalid_request_error") only after the status.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

from mastra_py._retry_after import parse_retry_after
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
)

_Kinds: TypeAlias = tuple[tuple[re.Pattern[str], type[ModelError]], ...]

_BY_CODE: _Kinds = (
    (re.compile(r"quota|billing|spend_limit|insufficient_(credit|balance|funds)|credit_balance"), QuotaError),
    (re.compile(r"context_length|context_size|context_window"), ContextLengthError),
    (re.compile(r"content_policy|content_filter|policy_violation|moderation|data_inspection"), ContentError),
    (re.compile(r"overloaded|slow_down"), OverloadedError),
    (re.compile(r"rate_limit|too_many_requests"), RateLimitError),
    (re.compile(r"timeout|timed_out|deadline_exceeded"), ModelTimeoutError),
    (re.compile(r"server_error|internal_error|unavailable|bad_gateway"), ServerError),
    (re.compile(r"api_key|authentication|unauthori[sz]ed|permission|access_denied|forbidden"), AuthError),
)
"""Codes and types, in lower case with underscores, that say what failed whatever the status is."""

_BY_MESSAGE: _Kinds = (
    (
        re.compile(
            r"maximum context length|context (length|limit|window)|available context size|prompt is too long"
            r"|input is too long|reduce the length|maximum number of tokens",
        ),
        ContextLengthError,
    ),
    (re.compile(r"credit balance is too low|insufficient (balance|credits?|funds)"), QuotaError),
)
"""Texts, in lower case, of servers without a code for it. Asked only where the status is none or of a bad request."""

_BAD_REQUEST = frozenset({None, 400, 413, 422})

_BY_STATUS: Mapping[int, type[ModelError]] = {
    401: AuthError,
    402: QuotaError,
    403: AuthError,
    408: ModelTimeoutError,
    409: ServerError,  # a conflict inside the provider; it marks it as passing
    429: RateLimitError,
    529: OverloadedError,
}

_BY_GENERAL_CODE: _Kinds = (
    (re.compile(r"invalid|bad_request|not_found|unsupported|too_large"), RequestError),
    (re.compile(r"api_error"), ServerError),
)
"""Codes and types that many failures share: asked last, where there is no status."""

_CONNECTION_CODE = re.compile(r"ECONN\w+|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN")


def model_error(  # noqa: PLR0913 -- one argument a fact, all by keyword
    *,
    status: int | None = None,
    code: str | int | None = None,
    error_type: str | None = None,
    message: str | None = None,
    headers: Mapping[str, str] | None = None,
    body: Any = None,
    provider: str | None = None,
    model: str | None = None,
    request_id: str | None = None,
) -> ModelError:
    """Return the error for a failure that a provider reports, by status or inside a reply.

    Code, type and message are read from ``body`` where they are not given. A code that is a number counts as the
    status where there is none. Whether it is retryable follows from the kind, unless the header ``x-should-retry``
    says that it is not.
    """
    said = read_error_body(body)
    code_text = _text(code) or said.get("code")
    type_text = error_type or said.get("type")
    text = message or said.get("message") or ""
    headers = {name.lower(): value for name, value in headers.items()} if headers else {}
    if code_text == str(status):
        code_text = None  # it says nothing new, and the type may
    as_status = int(code_text) if status is None and code_text and re.fullmatch(r"[1-5]\d\d", code_text) else status
    kind = _kind(as_status, code_text, type_text, text)
    return kind(
        text or _describe(body, status),
        provider=provider,
        model=model,
        status=status,
        code=code_text or type_text,
        request_id=request_id or headers.get("x-request-id") or headers.get("request-id"),
        retryable=False if headers.get("x-should-retry") == "false" else None,
        retry_after=parse_retry_after(headers, datetime.now(UTC)),
        headers=headers,
        body=body,
    )


def read_error_body(body: object) -> dict[str, str]:
    """Return what an error body says, as far as it does: ``code``, ``type`` and ``message``.

    Known are ``{"error": {...}}``, ``{"error": "text"}``, ``{"message": ...}``, ``{"detail": ...}``, plain text; a code
    may stand in the error's ``details``.
    """
    if isinstance(body, str):
        return {"message": body} if body else {}
    if not isinstance(body, Mapping):
        return {}
    fields: dict[str, object] = dict(body)  # pyright: ignore[reportUnknownArgumentType] -- any JSON object
    inner = fields.get("error")
    if isinstance(inner, Mapping):
        fields = dict(inner)  # pyright: ignore[reportUnknownArgumentType] -- any JSON object
    elif isinstance(inner, str):
        fields = {"message": inner, **fields}
    said = {name: _text(fields.get(name)) for name in ("code", "type", "message")}
    said["message"] = said["message"] or _text(fields.get("detail"))
    details = fields.get("details")
    if isinstance(details, Mapping):
        said["code"] = said["code"] or _text(details.get("error_code"))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] -- any JSON object
    return {name: text for name, text in said.items() if text}


def wrap_exception(exc: Exception, provider: str, model: str) -> ModelError:
    """Return ``exc`` as a :class:`ModelError`, with ``exc`` as its cause; a ``ModelError`` comes back as it is.

    For exceptions of a model that are no errors of this package. Read are the attributes ``status``, ``status_code``,
    ``code``, ``headers`` and ``is_retryable``; what does not say that it is retryable is not marked as such, except
    connection errors and timeouts.
    """
    if isinstance(exc, ModelError):
        return exc
    code = _text(getattr(exc, "code", None))
    headers = _headers(getattr(exc, "headers", None))
    retryable = getattr(exc, "is_retryable", None)
    kind: type[ModelError] = ModelError
    if isinstance(exc, TimeoutError):
        kind = ModelTimeoutError
    elif isinstance(exc, ConnectionError | socket.gaierror) or (code and _CONNECTION_CODE.fullmatch(code)):
        kind = ModelConnectionError
    error = kind(
        str(exc) or type(exc).__name__,
        provider=provider,
        model=model,
        status=_status(getattr(exc, "status", None)) or _status(getattr(exc, "status_code", None)),
        code=code,
        retryable=retryable if isinstance(retryable, bool) else None,
        retry_after=parse_retry_after(headers, datetime.now(UTC)),
        headers=headers,
    )
    error.__cause__ = exc
    return error


def _kind(status: int | None, code: str | None, error_type: str | None, message: str) -> type[ModelError]:
    for text in (code, error_type):
        if text and (kind := _look_up(_BY_CODE, _snake_case(text))):
            return kind
    if status in _BAD_REQUEST and (kind := _look_up(_BY_MESSAGE, message.lower())):
        return kind
    if status is None:
        for text in (code, error_type):
            if text and (kind := _look_up(_BY_GENERAL_CODE, _snake_case(text))):
                return kind
        return ModelError
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status >= 500:
        return ServerError
    return RequestError if status >= 400 else ModelError


def _look_up(kinds: _Kinds, text: str) -> type[ModelError] | None:
    return next((kind for pattern, kind in kinds if pattern.search(text)), None)


def _snake_case(code: str) -> str:
    # Codes come as rate_limit_exceeded, RateLimitExceeded and rate-limit-exceeded.
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", code).lower().replace("-", "_").replace(" ", "_")


def _describe(body: object, status: int | None) -> str:
    if body:
        return f"the provider reports a failure without a message: {str(body)[:200]}"
    return f"the provider answered with status {status}" if status is not None else "the provider reports a failure"


def _text(value: object) -> str | None:
    if isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _status(value: object) -> int | None:
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _headers(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        return {}
    items: dict[object, object] = dict(value)  # pyright: ignore[reportUnknownArgumentType] -- any mapping
    return {str(name).lower(): str(text) for name, text in items.items()}

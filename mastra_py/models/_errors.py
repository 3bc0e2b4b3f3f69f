"""What kind of failure it is: from a provider's words, or from any exception, to a :class:`ModelError`.

A provider names its failures by a code, a type, a status, and a text, and each of them may be missing or shared by many
kinds of failure. They are asked in this order: codes and types that mean one thing whatever the status is; texts, where
the status leaves it open; codes and types that name a whole field; the status; and last the most general words.
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
from mastra_py.models._error_body import HTTP_STATUS, read_error_body, retry_delay, text_of
from mastra_py.models._redact import Redactor, clean_exception, secrets_in

_Kinds: TypeAlias = tuple[tuple[re.Pattern[str], type[ModelError]], ...]

_BY_CODE: _Kinds = (
    # Some call the limit of a minute a quota.
    (re.compile(r"throttl|(token|request|rate)_?quota|too_many_tokens|rate_limit_quota"), RateLimitError),
    (
        re.compile(
            r"quota|billing|spend_limit|budget_exceeded|exceeded_?budget|insufficient_(credit|balance|funds)|credit_balance|arrearage|overdue"
            r"|payment_required|usage_limit|blocked_api_access|out_of_credits",
        ),
        QuotaError,
    ),
    (
        re.compile(r"context_length|context_size|context_window|tokens_limit_reached|max_prompt_tokens"),
        ContextLengthError,
    ),
    (
        re.compile(
            r"content_policy|content_filter|content_management|policy_violation|moderation|data_inspection"
            r"|responsible_ai|sensitive_words|prohibited_content|^safety",
        ),
        ContentError,
    ),
    (re.compile(r"overloaded|slow_down|capacity|(system|server)_(is_)?busy"), OverloadedError),
    (
        re.compile(
            r"rate_limit|too_many_requests|^resource_exhausted$|limit_requests|request_limit_exceeded|queue_exceeded"
        ),
        RateLimitError,
    ),
    (re.compile(r"timeout|timed_out|deadline_exceeded"), ModelTimeoutError),
)
"""Codes and types, in lower case with underscores, that say what failed whatever the status is."""

_OPEN = frozenset({None, 200, 400, 413, 422, 500})
"""Statuses that leave it open what failed; 500 is what small servers answer to everything."""

_BY_MESSAGE: tuple[tuple[frozenset[int | None], re.Pattern[str], type[ModelError]], ...] = (
    (
        _OPEN | {402, 403, 429},
        re.compile(
            r"credit balance is too low|insufficient (balance|credits?|funds)|out of credits"
            r"|have any credits|used all available credits|credits? (are|is|has been|have been) (depleted|exhausted)"
            r"|credits? expired|requires more credits|monthly (included credits|spending limit)|api usage limits"
            r"|budget has been exceeded|exceeded ?budget|over budget|call volume quota|余额不足"
            # Google says the same of the limit of a minute, and has a link of its own in it.
            r"|exceeded your current quota(?!.*(ai\.google|resource_exhausted|googleapis|retry in))",
            re.DOTALL,
        ),
        QuotaError,
    ),
    (
        _OPEN,
        # What states that something is too long for the context; not what only mentions one.
        re.compile(
            r"maximum (context|prompt) length (is|of) [\d,]+|longer than the maximum model length"
            r"|(exceed|longer than|larger than|greater than|overflow)[^.\n]{0,80}context[ _](length|limit|window|size)"
            r"|context[ _](length|limit|window|size)( has been| was| is)? exceed|contextwindowexceeded"
            r"|tokens when (the )?context (the )?overflows"
            r"|prompt (is )?too (long|large)|input is too long|too large for model with"
            r"|reduce the length of (the|your) (messages|prompt|input)|exceeded model token limit|token limit exceeded"
            r"|input token count[^.\n]{0,40}exceed|range of input length should be|max_new_tokens`? must be <="
            r"|too many (input |prompt )?tokens(?!.*wait)",
        ),
        ContextLengthError,
    ),
    (
        _OPEN | {403},
        re.compile(
            r"content (management|filtering|filter|usage) policy|violat\w+ [^.\n]{0,60}polic|content exists risk"
            r"|requires moderation|flagged (as|by|for)|was flagged|rejected by [^.\n]{0,20}safety system"
            r"|contentpolicyviolation|blocked by [^.\n]{0,30}(safety|content)",
        ),
        ContentError,
    ),
    (
        _OPEN - {400, 413, 422} | {429, 502, 503},
        re.compile(r"overloaded|too busy|server busy|no capacity|at capacity|capacity exceeded|high (demand|traffic)"),
        OverloadedError,
    ),
    (
        _OPEN - {500},
        re.compile(
            r"(incorrect|invalid|expired|missing) (x-)?api[ -]?key|api key (is )?(not valid|invalid|expired|missing)"
            r"|organization has been (disabled|restricted)|no auth credentials|invalid bearer token",
        ),
        AuthError,
    ),
    (frozenset({None, 200}), re.compile(r"rate[ -]?limit(ed)?|too many requests"), RateLimitError),
    (frozenset({None, 200}), re.compile(r"\btimed? ?out\b"), ModelTimeoutError),
)
"""Texts, in lower case, of servers without a code for it, each with the statuses that it counts for."""

_BY_FIELD: _Kinds = (
    (
        re.compile(
            r"server_error|internal_error|internal_server|^internal$|unavailable|bad_gateway|not_ready|model_error"
            r"|stream_error",
        ),
        ServerError,
    ),
    (
        re.compile(
            r"api_key|authentication|unauthori[sz]ed|unauthenticated|permission|access_denied|forbidden|auth_error"
            r"|(invalid|expired|bearer)_token|token_not_found|unrecognized_client|organization_restricted|deactivated",
        ),
        AuthError,
    ),
)
"""Codes and types that name the field in which it failed."""

_BY_STATUS: Mapping[int, type[ModelError]] = {
    401: AuthError,
    402: QuotaError,
    403: AuthError,
    408: ModelTimeoutError,
    409: ServerError,  # a conflict inside the provider; it marks it as passing
    424: ServerError,  # what it depends on has failed
    425: ServerError,
    429: RateLimitError,
    498: OverloadedError,  # of Groq: no room for requests without a reservation
    504: ModelTimeoutError,
    522: ModelTimeoutError,
    524: ModelTimeoutError,
    529: OverloadedError,
}

_BY_GENERAL_CODE: _Kinds = (
    (re.compile(r"invalid|bad_request|not_found|unsupported|too_large|does_not_exist"), RequestError),
    (re.compile(r"api_error"), ServerError),
)
"""Codes and types that many failures share: asked last, where there is no status."""

_REQUEST_IDS = (
    *("x-request-id", "request-id", "x-amzn-requestid", "x-amzn-request-id", "apim-request-id", "x-ms-request-id"),
    *("x-goog-request-id", "mistral-correlation-id", "x-kong-request-id", "x-ds-trace-id", "msh-request-id"),
    *("x-dashscope-request-id", "nvcf-reqid", "x-litellm-call-id", "x-generation-id", "cf-ray"),
)
"""The headers in which providers send their id of a request; that of the network before them comes last."""

_TOO_LARGE = re.compile(r"request too large|request would exceed .* limit .* by itself")

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
    headers = {name.lower(): value for name, value in headers.items()} if headers else {}
    code_text = text_of(code) or said.get("code")
    type_text = error_type or said.get("type") or headers.get("x-amzn-errortype", "").partition(":")[0] or None
    text = message or said.get("message") or ""
    if code_text == str(status):
        code_text = None  # it says nothing new, and the type may
    as_status = int(code_text) if status is None and code_text and HTTP_STATUS.fullmatch(code_text) else status
    kind = _kind(as_status, code_text, type_text, text)
    # A request that alone is beyond the limit of a minute never gets through.
    in_vain = kind is RateLimitError and (status == 413 or _TOO_LARGE.search(text.lower()) is not None)
    retry_after = parse_retry_after(headers, datetime.now(UTC))
    return kind(
        text or _describe(body, status),
        provider=provider,
        model=model,
        status=status,
        code=code_text or type_text,
        request_id=request_id or request_id_of(headers) or said.get("request_id"),
        retryable=False if in_vain or headers.get("x-should-retry") == "false" else None,
        retry_after=retry_delay(body) if retry_after is None else retry_after,
        headers=headers,
        body=body,
    )


def request_id_of(headers: Mapping[str, str]) -> str | None:
    """Return the provider's id of the request, from the headers of its response; their names in lower case."""
    return next((value for name in _REQUEST_IDS if (value := headers.get(name))), None)


def wrap_exception(exc: Exception, provider: str, model: str) -> ModelError:
    """Return ``exc`` as a :class:`ModelError`, with ``exc`` as its cause; a ``ModelError`` comes back as it is.

    For exceptions of a model that are no errors of this package. Read are the attributes ``status``, ``status_code``,
    ``code``, ``headers`` and ``is_retryable``; what does not say that it is retryable is not marked as such, except
    connection errors and timeouts. What looks like a secret is taken out of it, and out of ``exc`` itself.
    """
    if isinstance(exc, ModelError):
        return exc
    redactor = Redactor(secrets_in(exc))
    clean_exception(exc, redactor)
    code = text_of(getattr(exc, "code", None))
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
        headers=redactor.headers(headers),
    )
    error.__cause__ = exc
    return error


def _kind(status: int | None, code: str | None, error_type: str | None, message: str) -> type[ModelError]:
    words = [_snake_case(text) for text in (code, error_type) if text]
    if kind := _look_up(_BY_CODE, words):
        return kind
    text = message.lower()
    for statuses, pattern, kind in _BY_MESSAGE:
        if status in statuses and pattern.search(text):
            return kind
    if kind := _look_up(_BY_FIELD, words):
        return kind
    if status is None:
        return _look_up(_BY_GENERAL_CODE, words) or ModelError
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status >= 500:
        return ServerError
    return RequestError if status >= 400 else ModelError


def _look_up(kinds: _Kinds, words: list[str]) -> type[ModelError] | None:
    return next((kind for word in words for pattern, kind in kinds if pattern.search(word)), None)


def _snake_case(code: str) -> str:
    # Codes come as rate_limit_exceeded, RateLimitExceeded and rate-limit-exceeded.
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", code).lower().replace("-", "_").replace(" ", "_")


def _describe(body: object, status: int | None) -> str:
    if body:
        try:
            return f"the provider reports a failure without a message: {str(body)[:200]}"
        except (ValueError, RecursionError):  # a number of thousands of digits; nested too deeply
            pass
    return f"the provider answered with status {status}" if status is not None else "the provider reports a failure"


def _status(value: object) -> int | None:
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _headers(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        return {}
    items: dict[object, object] = dict(value)  # pyright: ignore[reportUnknownArgumentType] -- any mapping
    return {str(name).lower(): str(text) for name, text in items.items()}

"""What a failure says about itself: its causes, its status, its codes, and whether it will pass.

Everything here only reads. ``status``, ``status_code``, ``code``, ``headers``, ``body`` and ``is_retryable`` are read
from any exception, so that it does not matter which client raised it.
"""

from __future__ import annotations

import errno
import json
import re
import socket
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, cast

from anyio import ConnectionFailed

from mastra_py._retry_after import parse_retry_after
from mastra_py.errors import AuthError, ContentError, ContextLengthError, ModelError, QuotaError, RequestError

_PASSING_STATUS = frozenset({408, 409, 429})
_HOPELESS_STATUS = frozenset({400, 401, 403, 404, 422})
_HOPELESS_KINDS = (QuotaError, AuthError, ContextLengthError, ContentError)
_QUOTA_CODE = re.compile(".*(quota|billing|insufficient_(credit|balance|funds)|credit_balance).*")
_AUTH_CODE = re.compile(
    "access_denied|authentication_error|forbidden|invalid_api_key|permission_denied|permission_error"
)
_STREAM_CODES = (
    "rate_limit",
    "server_error",
    "internal_error",
    "timeout",
    "temporarily_unavailable",
    "service_unavailable",
    "overloaded",
)
_STREAM_MESSAGE = re.compile("you can retry your request", re.IGNORECASE)
_CONNECTION_CODE = re.compile("ECONN[A-Z]*|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN")
_CONNECTION_CLASSES = (ConnectionError, TimeoutError, ConnectionFailed, socket.gaierror, socket.herror)
_CONNECTION_ERRNOS = frozenset(
    {errno.ENETDOWN, errno.ENETUNREACH, errno.ENETRESET, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENOTCONN}
)
_STATUS_NAMES = ("status", "status_code", "statusCode")
_STATUS_TEXT = re.compile("[0-9]{3}")
# Where bodies keep the error itself. Other keys may echo the request, and what is said there is nobody's verdict.
_NESTED_NAMES = ("error", "errors", "data", "response", "body", "response_body", "responseBody", "cause")


def is_connection_error(error: Exception) -> bool:
    """Whether the provider could not be reached, or the connection broke or timed out.

    True for ``ConnectionError``, ``TimeoutError``, failed name look-ups, the network's other ``OSError``s, and for any
    exception with a ``code`` such as ``"ECONNRESET"``, ``"EPIPE"`` or ``"EAI_AGAIN"``.
    """
    if isinstance(error, _CONNECTION_CLASSES):
        return True
    if isinstance(error, OSError) and error.errno in _CONNECTION_ERRNOS:
        return True
    code = getattr(error, "code", None)
    return isinstance(code, str) and _CONNECTION_CODE.fullmatch(code) is not None


def is_bad_request(error: Exception) -> bool:
    """Whether the provider answered with status 400.

    For a :class:`~mastra_py.processors.RetryMatcher`: some providers answer 400 while they are degraded. Most such
    requests really are bad, so give it ``max_retries=1``.
    """
    return any(status == 400 for status in _statuses(error))


def is_openai_stream_error(error: Exception) -> bool:
    """Whether ``error`` is a passing failure that OpenAI reported inside a stream, where there is no HTTP status.

    Its ``body`` is ``{"type": "error", "error": failure}`` or ``{"type": "response.failed", "response": {"error":
    failure}}``, and the failure's code (or, without one, its type) tells of a rate limit, a server error, a timeout or
    an overload, or its message offers a retry. Never true where the quota is used up or the kind of error rules a retry
    out.
    """
    if isinstance(error, (*_HOPELESS_KINDS, RequestError)) or has_quota_code(error):
        return False
    failure = _stream_failure(getattr(error, "body", None))
    code, message = _read(failure, "code"), _read(failure, "message")
    if not isinstance(code, str):
        code = _read(failure, "type")
    if isinstance(code, str) and any(part in code.lower() for part in _STREAM_CODES):
        return True
    return isinstance(message, str) and _STREAM_MESSAGE.search(message) is not None


def _stream_failure(body: object) -> object:
    kind = _read(body, "type")
    if kind == "response.failed":
        return _read(_read(body, "response"), "error")
    return _read(body, "error") if kind == "error" else None


def cause_chain(error: BaseException) -> Iterator[Exception]:
    """Yield ``error`` and its causes, outermost first, each object once.

    The cause is the explicit one, else the exception that was being handled. A :class:`ModelError` has explicit causes
    only: what was being handled when it was raised may be the failure of another model. A cancellation in the chain is
    passed over, as it says nothing about the provider.
    """
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        if isinstance(current, Exception):
            yield current
        current = _cause(current)


def _cause(error: BaseException) -> BaseException | None:
    if error.__cause__ is not None or error.__suppress_context__ or isinstance(error, ModelError):
        return error.__cause__
    return error.__context__


def stated_mark(error: Exception) -> bool | None:
    """Whether ``error`` says of itself that a retry may help; ``None`` where it says nothing.

    A code that names a used-up quota outweighs what the class of a :class:`ModelError` implies.
    """
    if isinstance(error, ModelError) and error.retryable is not None:
        implied = error.default_retryable is True
        return error.retryable and not (implied and has_quota_code(error))
    mark = getattr(error, "is_retryable", None)
    return mark if isinstance(mark, bool) else None


def implied_mark(error: Exception) -> bool | None:
    """Whether status or kind of ``error`` imply that a retry may help; ``None`` where they imply nothing."""
    status = next((s for s in _statuses(error) if s >= 400), None)
    if status is not None:
        return (status in _PASSING_STATUS or status >= 500) and not has_quota_code(error)
    return True if is_connection_error(error) else None


def has_quota_code(error: Exception) -> bool:
    """Whether a code or type, on ``error`` or in its body, says that the quota is used up."""
    return any(_has_code(record, _QUOTA_CODE) for record in _records(error))


def is_hopeless(error: Exception) -> bool:
    """Whether ``error`` or a cause is known to fail again: a bad request, a missing permission, a used-up quota."""
    return any(_is_hopeless(cause) for cause in cause_chain(error))


def _is_hopeless(error: Exception) -> bool:
    if isinstance(error, _HOPELESS_KINDS):
        return True
    if isinstance(error, RequestError) and error.status is None:  # with a status, that decides
        return True
    return any(
        not _HOPELESS_STATUS.isdisjoint(_statuses(record)) or _has_code(record, _QUOTA_CODE, _AUTH_CODE)
        for record in _records(error)
    )


def requested_wait(error: Exception, received_at: datetime) -> float | None:
    """Return the seconds that the provider asks to wait, as the first of ``error`` and its causes to say so has it."""
    for cause in cause_chain(error):
        wait = parse_retry_after(_headers(cause), received_at)
        if wait is None and isinstance(cause, ModelError):
            wait = cause.retry_after
        if wait is not None and wait >= 0:  # false for NaN, too
            return wait
    return None


def _headers(error: Exception) -> dict[str, str]:
    headers = getattr(error, "headers", None)
    if not isinstance(headers, Mapping):
        return {}
    items = cast("Mapping[object, object]", headers).items()
    return {name: value for name, value in items if isinstance(name, str) and isinstance(value, str)}


def _records(error: Exception) -> Iterator[object]:
    """Yield ``error`` and every mapping in its body that may hold a status or a code; JSON text is decoded."""
    yield error
    seen: dict[int, object] = {}  # keeps what was decoded alive, so that no id is used twice
    stack: list[Any] = [getattr(error, "body", None)]
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            value = _decoded(value)
        if id(value) in seen:
            continue
        seen[id(value)] = value
        if isinstance(value, Mapping):
            record = cast("Mapping[str, Any]", value)
            yield record
            stack.extend([record[name] for name in _NESTED_NAMES if name in record])
        elif isinstance(value, list):
            stack.extend(cast("list[Any]", value))


def _decoded(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # plain text, or nested beyond reason
        return None


def _statuses(record: object) -> Iterator[int]:
    for name in _STATUS_NAMES:
        value = _read(record, name)
        if isinstance(value, int) and not isinstance(value, bool):
            yield value
        elif isinstance(value, str) and _STATUS_TEXT.fullmatch(value.strip()):
            yield int(value)


def _has_code(record: object, *patterns: re.Pattern[str]) -> bool:
    values = (_read(record, "code"), _read(record, "type"))
    codes = [value.strip().lower() for value in values if isinstance(value, str)]
    return any(pattern.fullmatch(code) for pattern in patterns for code in codes)


def _read(record: object, name: str) -> object:
    if isinstance(record, Mapping):
        return cast("Mapping[str, Any]", record).get(name)
    return getattr(record, name, None)

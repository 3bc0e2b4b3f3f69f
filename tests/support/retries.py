"""Asking a retry processor about an error, in one line."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from mastra_py.processors import ApiErrorContext, Retry, StreamErrorRetryProcessor

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def failed(error: Any, retry_count: int = 0) -> ApiErrorContext:
    return ApiErrorContext(error=error, retry_count=retry_count, received_at=NOW, owner_id="agent:a")


async def ask(processor: StreamErrorRetryProcessor, error: Exception, retry_count: int = 0) -> Retry | None:
    return await processor.process_api_error(failed(error, retry_count))


async def is_retried(error: Exception, **options: Any) -> bool:
    return await ask(StreamErrorRetryProcessor(**options), error) is not None


async def delay_of(error: Exception, retry_count: int = 0, **options: Any) -> float:
    retry = await ask(StreamErrorRetryProcessor(**{"max_retries": 99, **options}), error, retry_count)
    assert retry is not None
    assert type(retry.delay) is float
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

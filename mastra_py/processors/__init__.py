"""Error processors: whether a failed model call is made again, and after how long."""

from __future__ import annotations

from mastra_py.processors._failures import is_bad_request, is_connection_error, is_openai_stream_error
from mastra_py.processors.base import ApiErrorContext, ErrorProcessor, Retry
from mastra_py.processors.retry import RetryDelay, RetryMatcher, StreamErrorRetryProcessor

__all__ = [
    "ApiErrorContext",
    "ErrorProcessor",
    "Retry",
    "RetryDelay",
    "RetryMatcher",
    "StreamErrorRetryProcessor",
    "is_bad_request",
    "is_connection_error",
    "is_openai_stream_error",
]

"""Processors: what changes requests and replies, and what makes failed model calls again."""

from __future__ import annotations

from mastra_py.processors._failures import is_bad_request, is_connection_error, is_openai_stream_error
from mastra_py.processors.base import (
    ApiErrorContext,
    ErrorProcessor,
    InputProcessor,
    OutputProcessor,
    ProcessorContext,
    Retry,
)
from mastra_py.processors.retry import RetryDelay, RetryMatcher, StreamErrorRetryProcessor

__all__ = [
    "ApiErrorContext",
    "ErrorProcessor",
    "InputProcessor",
    "OutputProcessor",
    "ProcessorContext",
    "Retry",
    "RetryDelay",
    "RetryMatcher",
    "StreamErrorRetryProcessor",
    "is_bad_request",
    "is_connection_error",
    "is_openai_stream_error",
]

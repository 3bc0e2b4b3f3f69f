"""Calling what the user gave: a throwing callback is logged with what it was called for and does not end the run."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from mastra_py.errors import MastraError

T = TypeVar("T")

logger = logging.getLogger("mastra_py")


async def resolve(value: T | Awaitable[T]) -> T:
    """Return ``value``, awaited where it is awaitable."""
    return await value if inspect.isawaitable(value) else cast("T", value)


async def notify(callback: Callable[..., Any], what: str, *args: Any) -> None:
    """Call ``callback`` with ``args``; an exception is logged under ``what``, a ``MastraError`` goes through."""
    try:
        await resolve(callback(*args))
    except MastraError:
        raise
    except Exception:  # a fault of the user's callback, which only watches the run
        logger.exception("%s raised; the run goes on", what)

"""Calling what the user gave.

A callback only watches: a throwing one is logged with what it was called for and does not end the run. A function that
decides something is asked: what it raises leaves as it is, with a note that says whose it is.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from mastra_py._loop.faults import replaced_cancel
from mastra_py.errors import MastraError, TripWire, UserError

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
    except Exception as exc:
        if replaced_cancel(exc):
            raise
        logger.exception("%s raised; the run goes on", what)


@contextmanager
def passing_over(processor_id: str, method: str) -> Generator[None]:
    """Pass over a processor whose ``method`` raises: it is logged, and what comes next goes on without its answer.

    A ``TripWire`` goes through, with the name of the processor on it, and so does a ``UserError``.
    """
    try:
        yield
    except TripWire as exc:
        exc.processor_id = exc.processor_id or processor_id
        raise
    except UserError:
        raise
    except Exception as exc:
        if replaced_cancel(exc):
            raise
        # A faulty processor must not turn an answer into a failure, nor a failure into another one.
        logger.exception("processor %r raised in %s; it is passed over", processor_id, method)


async def consult(function: Callable[..., Any], what: str, *args: Any, wanted: type | tuple[type, ...]) -> Any:
    """Return what the user's ``function`` answers.

    Raises:
        UserError: the answer is not of the ``wanted`` type.
    """
    try:
        answer: Any = await resolve(function(*args))
    except Exception as exc:
        exc.add_note(f"raised by {what}")
        raise
    if not isinstance(answer, wanted):
        kinds = wanted if isinstance(wanted, tuple) else (wanted,)
        names = " or a ".join("None" if k is type(None) else k.__name__ for k in kinds)
        msg = f"{what} was called and must return a {names}, got {answer!r}"
        raise UserError(msg)
    return answer

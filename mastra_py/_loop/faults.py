"""Telling faults apart: what is a user's bug, what ends the program, and what was a cancellation."""

from __future__ import annotations

from typing import TypeVar, cast

import anyio

ErrorT = TypeVar("ErrorT", bound=BaseException)


def interrupt_in(exc: BaseException) -> BaseException | None:
    """Return the KeyboardInterrupt, SystemExit or the like that ``exc`` is or holds; a cancellation is none."""
    if isinstance(exc, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", exc)
        return next((found for inner in group.exceptions if (found := interrupt_in(inner)) is not None), None)
    return None if isinstance(exc, (Exception, anyio.get_cancelled_exc_class())) else exc


def error_in(exc: BaseException, kinds: tuple[type[ErrorT], ...]) -> ErrorT | None:
    """Return the first error of ``kinds`` that ``exc`` is or holds as a group."""
    if isinstance(exc, kinds):
        return exc
    if isinstance(exc, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", exc)
        return next((found for inner in group.exceptions if (found := error_in(inner, kinds)) is not None), None)
    return None


def replaced_cancel(exc: BaseException) -> bool:
    """Return whether ``exc`` was raised by cleanup while a cancellation was on its way, and has taken its place.

    Such an error must not be retried or logged away: on asyncio a native cancellation is said only once.
    """
    seen: set[int] = set()
    current: BaseException | None = exc
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        if isinstance(current, anyio.get_cancelled_exc_class()):
            return True
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return False


def text_of(exc: BaseException) -> str:
    """Return class and message of an error, of each error of a group, even where it cannot be printed."""
    if isinstance(exc, ExceptionGroup):
        group = cast("ExceptionGroup[Exception]", exc)
        return "; ".join(text_of(inner) for inner in group.exceptions)
    text = message_of(exc)
    return f"{type(exc).__name__}: {text}" if text else type(exc).__name__


def message_of(exc: BaseException) -> str:
    """Return the message of an error; ``""`` where it has none or cannot be printed."""
    try:
        return str(exc)
    except Exception:  # noqa: BLE001 -- an error that cannot even be printed must not end the run
        return ""

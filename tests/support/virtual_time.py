"""Running a program in virtual time: a wait is over at once, in the order in which waits would end."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
import trio.testing

T = TypeVar("T")

BACKENDS = ("asyncio", "trio")


class _Selector(selectors.DefaultSelector):
    """Where nothing is left to do but wait, time goes on by as much. The programs run here have no threads or peers."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        self.now += timeout
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An asyncio loop in virtual time, like trio with its mock clock."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


def run(function: Callable[..., Awaitable[T]], *args: Any, backend: str) -> T:
    """Run ``function`` in virtual time and return what it returns."""
    options: dict[str, Any] = {"loop_factory": VirtualTimeLoop}
    if backend == "trio":
        options = {"clock": trio.testing.MockClock(autojump_threshold=0)}
    return anyio.run(function, *args, backend=backend, backend_options=options)

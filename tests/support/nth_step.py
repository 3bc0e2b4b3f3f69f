"""Doing something at the n-th task step of a program, on both event loops."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
import trio

T = TypeVar("T")


class Steps:
    """Counts the steps that tasks take from :meth:`start` on, and calls ``action`` right before the n-th."""

    def __init__(self, nth: int) -> None:
        self.count = 0
        self._nth = nth
        self._action: Callable[[], None] | None = None

    def start(self, action: Callable[[], None]) -> None:
        self.count = 0
        self._action = action

    def stop(self) -> None:
        self._action = None

    def step(self) -> None:
        if self._action is None:
            return
        self.count += 1
        if self.count == self._nth:
            action, self._action = self._action, None
            action()
            self.happened = True

    happened = False


class _Instrument(trio.abc.Instrument):
    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._steps.step()


class _Loop(asyncio.SelectorEventLoop):
    """Counts whatever is to be called soon, the steps of tasks among it."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        super().__init__()

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        def counted(*given: Any) -> None:
            self._steps.step()
            callback(*given)

        return super().call_soon(counted, *args, context=context)


def run(function: Callable[[Steps], Awaitable[T]], nth: int, backend: str) -> T:
    """Run ``function`` with steps that count up to ``nth``."""
    steps = Steps(nth)
    options: dict[str, Any] = {"loop_factory": lambda: _Loop(steps)}
    if backend == "trio":
        options = {"instruments": [_Instrument(steps)]}
    return anyio.run(function, steps, backend=backend, backend_options=options)


def living_tasks(backend: str) -> int:
    """Return how many tasks there are."""
    return trio.lowlevel.current_statistics().tasks_living if backend == "trio" else len(asyncio.all_tasks())

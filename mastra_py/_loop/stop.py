"""Conditions that end a run between two steps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from mastra_py._loop.callbacks import resolve
from mastra_py.results import StepResult

StopCondition: TypeAlias = Callable[[Sequence[StepResult]], bool | Awaitable[bool]]
"""A (sync or async) function of the steps so far; ``True`` ends the run with ``stop_reason="stop_when"``."""


def has_tool_call(*names: str) -> StopCondition:
    """Return a condition that holds once a step has called one of the tools ``names``.

    Example: ``agent.stream("...", stop_when=has_tool_call("submit"))``
    """

    def condition(steps: Sequence[StepResult]) -> bool:
        return any(call.tool_name in names for call in steps[-1].tool_calls)

    return condition


async def any_holds(conditions: Sequence[StopCondition], steps: Sequence[StepResult]) -> bool:
    """Return whether one of ``conditions`` holds; they are asked in order."""
    for condition in conditions:
        if await resolve(condition(steps)):
            return True
    return False

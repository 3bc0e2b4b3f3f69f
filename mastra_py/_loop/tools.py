"""The tool calls of one step: run together, faults made into error results, everything reported in call order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

import anyio
import anyio.abc
import anyio.lowlevel

from mastra_py._jsonable import clean_text
from mastra_py._loop.faults import interrupt_in, message_of, text_of
from mastra_py._loop.ledger import CURRENT, Account
from mastra_py.errors import ToolError
from mastra_py.events import ToolFailed, ToolResult
from mastra_py.messages import ToolCallPart, ToolResultPart
from mastra_py.tools import Tool, ToolContext

ToolOutcome: TypeAlias = ToolResult | ToolFailed
Emit: TypeAlias = Callable[[ToolOutcome], Awaitable[None]]

_QUOTED_CHARS = 200


async def run_tools(
    calls: Sequence[ToolCallPart],
    *,
    tools: Mapping[str, Tool],
    context: Callable[[ToolCallPart], ToolContext],
    emit: Emit,
    concurrency: int,
    done: dict[int, ToolResultPart] | None = None,
) -> list[ToolResultPart]:
    """Run the tool ``calls`` of a step, at most ``concurrency`` at once, and return their results in call order.

    Each tool runs in a task of its own, so a context variable that it sets stays there. Events come in call order too,
    each as soon as the calls before it are done. Whatever goes wrong with a call becomes a ``ToolFailed`` and an error
    result, and the other calls go on.

    ``done`` receives each result by the index of its call, once it is there. After a cancel it holds those of the calls
    that had finished, so that the caller can leave a valid history.

    Raises:
        BaseException: what ``emit`` raises; and KeyboardInterrupt, SystemExit and their like out of a tool. Raised as
            it is, after all running tools have been cancelled and awaited.
    """
    batch = _Batch(calls, tools, [context(call) for call in calls], {} if done is None else done)
    try:
        async with anyio.create_task_group() as group:
            batch.start(group, concurrency)
            await batch.report(emit)
    finally:
        if batch.fatal is not None and not isinstance(batch.fatal, Exception):
            raise batch.fatal  # the program is to end, even if a cancel came at the same time
    if batch.fatal is not None:
        raise batch.fatal
    return [batch.done[index] for index in range(len(calls))]


class _Batch:
    """The calls of one step while they run. ``fatal`` is what ends them all; it is raised outside of their group."""

    __slots__ = ("_calls", "_contexts", "_finished", "_group", "_outcomes", "_tools", "done", "fatal")

    _group: anyio.abc.TaskGroup

    def __init__(
        self,
        calls: Sequence[ToolCallPart],
        tools: Mapping[str, Tool],
        contexts: Sequence[ToolContext],
        done: dict[int, ToolResultPart],
    ) -> None:
        self._calls = calls
        self._tools = tools
        self._contexts = contexts
        self._outcomes: dict[int, ToolOutcome] = {}
        self._finished = [anyio.Event() for _ in calls]
        self.done = done
        self.fatal: BaseException | None = None

    def start(self, group: anyio.abc.TaskGroup, concurrency: int) -> None:
        """Start as many calls as may run at once, and what starts the others."""
        self._group = group
        slots = anyio.Semaphore(0)  # free slots, apart from those of the first calls
        for index in range(min(concurrency, len(self._calls))):
            group.start_soon(self._run, index, slots)
        if concurrency < len(self._calls):
            group.start_soon(self._start_others, concurrency, slots)

    async def _start_others(self, first: int, slots: anyio.Semaphore) -> None:
        # A task of its own: started by a finishing tool, a call would inherit that tool's context variables.
        for index in range(first, len(self._calls)):
            await slots.acquire()
            self._group.start_soon(self._run, index, slots)

    async def report(self, emit: Emit) -> None:
        """Emit the outcomes in call order."""
        try:
            for index, finished in enumerate(self._finished):
                await finished.wait()
                await emit(self._outcomes.pop(index))
        except (Exception, KeyboardInterrupt, SystemExit) as exc:  # noqa: BLE001 -- run_tools raises it
            self._end(exc)

    async def _run(self, index: int, slots: anyio.Semaphore) -> None:
        await anyio.lowlevel.checkpoint_if_cancelled()  # else a tool would still start in a cancelled run
        call, host = self._calls[index], self._contexts[index].host
        if host is not None:  # in the context of this task alone: agents that the tool runs are paid for by the run
            CURRENT.set(Account(host.ledger, None))
        try:
            result = await self._call(call, self._contexts[index])
        except Exception as exc:  # noqa: BLE001 -- whatever a tool raises is for the model to read
            self._fail(index, exc)
        except BaseException as exc:  # noqa: BLE001 -- sorted below; a cancellation is never swallowed
            if (interrupt := interrupt_in(exc)) is not None:
                self._end(interrupt)
                return
            await anyio.lowlevel.checkpoint_if_cancelled()
            # Nobody cancelled the run: the tool met a cancellation of its own, such as a future that was cancelled.
            self._fail(index, exc)
        else:
            self._succeed(index, result)
        finally:
            slots.release()

    async def _call(self, call: ToolCallPart, ctx: ToolContext) -> object:
        tool = self._tools.get(call.tool_name)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            msg = f"there is no tool {call.tool_name!r}; the tools that exist: {known}"
            raise ToolError(msg)
        blank = call.raw_args is not None and not call.raw_args.strip()
        if call.raw_args is None or (blank and tool.takes_no_args):
            return await tool.invoke(call.args, ctx)
        quoted = call.raw_args[:_QUOTED_CHARS] + ("..." if len(call.raw_args) > _QUOTED_CHARS else "")
        msg = f"tool {call.tool_name!r} did not run, its arguments are not valid JSON of an object: {quoted!r}"
        raise ToolError(msg)

    def _succeed(self, index: int, result: object) -> None:
        call = self._calls[index]
        self.done[index] = ToolResultPart(call.tool_call_id, call.tool_name, result)
        self._finish(
            index,
            ToolResult(
                tool_call_id=call.tool_call_id,
                tool_name=call.tool_name,
                args=call.args,
                result=result,
                step=self._contexts[index].step,
            ),
        )

    def _fail(self, index: int, exc: BaseException) -> None:
        call = self._calls[index]
        own = message_of(exc) if isinstance(exc, ToolError) else ""
        text = clean_text(own or f"tool {call.tool_name!r} failed: {text_of(exc)}")
        self.done[index] = ToolResultPart(call.tool_call_id, call.tool_name, text, is_error=True)
        self._finish(
            index,
            ToolFailed(
                tool_call_id=call.tool_call_id,
                tool_name=call.tool_name,
                args=call.args,
                error=text,
                exception=exc,
                step=self._contexts[index].step,
            ),
        )

    def _finish(self, index: int, outcome: ToolOutcome) -> None:
        self._outcomes[index] = outcome
        self._finished[index].set()

    def _end(self, exc: BaseException) -> None:
        """End all calls by ``exc``: the first one counts, but for an interrupt, which wins over an error."""
        if self.fatal is None or isinstance(self.fatal, Exception):
            self.fatal = exc
        self._group.cancel_scope.cancel()

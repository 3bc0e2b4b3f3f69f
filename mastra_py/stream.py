"""A run that is read while it goes: the stream owns the task group, the run's task and the channel between them."""

from __future__ import annotations

import contextvars
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, Generic, NoReturn, Self

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from mastra_py._loop.channel import Channel
from mastra_py._loop.run import run_loop
from mastra_py._loop.state import RunState
from mastra_py._output import OutputType
from mastra_py.errors import RunError, UserError
from mastra_py.events import (
    AgentEvent,
    OutputSuperseded,
    RunAborted,
    RunFailed,
    RunFinished,
    StepFinished,
    StepStarted,
    TextDelta,
    TextEnd,
)
from mastra_py.results import AgentResult, OutT


class AgentStream(Generic[OutT]):
    """A run to be read: ``async with agent.stream(...) as stream``, then iterate it, or its ``text_deltas()``.

    The first iteration, or ``result()``, starts the run; leaving the block ends whatever is left of it: tasks are
    cancelled and awaited and the connection is closed before the program goes on. A stream has one reader. Tools,
    scorers and retries start only when the reader has asked for the next event, so a loop body must not wait for
    something that its own run has yet to do.

    Where an async generator of your own holds the block open, close it in the task that reads it:
    ``async with contextlib.aclosing(generator()) as texts``.

    Example::

        async with agent.stream("Write a haiku") as stream:
            async for text in stream.text_deltas():
                print(text, end="")
            result = await stream.result()
    """

    def __init__(self, run: RunState) -> None:
        self._run = run
        self._context = contextvars.copy_context()
        self._channel = Channel()
        self._tasks: TaskGroup | None = None
        self._owner: int | None = None
        self._handle: anyio.TaskHandle[None, None] | None = None
        self._reader: str | None = None
        self._waiting = False
        self._started = False
        self._over: anyio.Event | None = None
        self._left = False
        self._error: BaseException | None = None
        self._traceback: TracebackType | None = None
        self._last: RunFailed | RunAborted | None = None

    @property
    def run_id(self) -> str:
        """Id of the run."""
        return self._run.spec.run_id

    async def __aenter__(self) -> Self:
        if self._tasks is not None:
            msg = f"{self} was entered before; call agent.stream() again for another run"
            raise UserError(msg)
        tasks = anyio.create_task_group()
        await tasks.__aenter__()
        self._tasks = tasks
        self._owner = anyio.get_current_task().id
        self._over = anyio.Event()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._left = True
        if self._handle is not None:
            # The run is cancelled and not the group: the group's scope holds the body of the block too.
            self._handle.cancel()
        if anyio.get_current_task().id != self._owner:
            msg = (
                f"{self} is left in another task than it was entered in, most likely because an async generator that "
                "holds it was not closed where it was read; wrap that generator in contextlib.aclosing()"
            )
            raise UserError(msg)
        if self._tasks is not None:
            await self._tasks.__aexit__(None, None, None)
        self._handle = None

    def __repr__(self) -> str:
        return f"<AgentStream of agent {self._run.spec.agent_id!r}>"

    # Reading.

    def __aiter__(self) -> AsyncIterator[AgentEvent]:
        self._claim("async for")
        return _Events(self._next)

    async def __anext__(self) -> AgentEvent:
        if self._reader != "anext()":
            self._claim("anext()")
        return await self._next()

    def text_deltas(self, *, drafts: bool = False) -> TextDeltas:
        """Return an iterator over the answer's text as it comes.

        It yields text that stands: where scorers judge the answer, or ``output=`` gives it a type, a draft is held back
        until it is known to stand, and a rejected one is never yielded unless it is the last. With ``drafts=True`` all
        text comes live; then, as without scorers, a provider failure after visible text is not retried but raised,
        with the partial text on it.

        Raises:
            UserError: the stream has a reader already.
        """
        self._claim("text_deltas()")
        return TextDeltas(self, hold=self._held_back and not drafts)

    def partial_outputs(self) -> PartialOutputs:
        """Return an iterator over the answer of a run with ``output=`` as far as it has come.

        It yields plain JSON values, each a fuller one, not validated; where an answer is taken back, the next one
        starts anew. What comes between two looks of the reader is put into one value. ``result.output`` is the
        validated answer.

        Raises:
            UserError: the run has no ``output=``, or the stream a reader already.
        """
        output = self._run.spec.output
        if output is None:
            msg = f"{self}: partial_outputs() is for runs with output=; read text_deltas() instead"
            raise UserError(msg)
        self._claim("partial_outputs()")
        return PartialOutputs(self._next, self._channel, output)

    @property
    def _held_back(self) -> bool:
        return self._run.spec.gate is not None or self._run.spec.output is not None

    async def result(self) -> AgentResult[OutT]:
        """Run to the end and return the result. Events nobody reads any more are not waited for.

        Raises:
            RunError: the run failed.
            UserError: the block was not entered, or left before the run began.
        """
        over = self._require_entered("result()")
        if not over.is_set():
            self._require_inside()
            self._channel.release(drop=self._reader is None)
            self._reader = self._reader or "result()"
            self._start()
            await over.wait()
        await anyio.lowlevel.checkpoint_if_cancelled()
        if self._error is not None:
            raise self._error.with_traceback(self._traceback)
        return self._run.result()

    def cancel(self) -> None:
        """End the run in good order: its last event is ``abort``, its stop reason ``cancelled``, its history valid."""
        over = self._require_entered("cancel()")
        if over.is_set():
            return
        self._channel.discard()
        if self._handle is not None:
            self._handle.cancel()
            return
        self._started = True
        self._abort()
        self._channel.close(self._last)
        over.set()

    # Inside.

    def _claim(self, reader: str) -> None:
        self._require_entered(reader)
        if self._reader is not None:
            msg = f"{self} is read by {self._reader} already; a stream has one reader"
            raise UserError(msg)
        self._reader = reader

    def _require_entered(self, what: str) -> anyio.Event:
        if self._over is None:
            msg = f"{self}: {what} needs an entered stream; write `async with agent.stream(...) as stream:`"
            raise UserError(msg)
        return self._over

    def _require_inside(self) -> None:
        if self._left:
            msg = f"{self}: the block was left before the run was over"
            raise UserError(msg)

    def _start(self) -> None:
        if self._started:
            return
        self._started = True
        if self._tasks is not None:
            name = f"mastra_py run of {self._run.spec.agent_id}"
            self._handle = self._tasks.create_task(self._drive(), name=name, context=self._context)

    async def _drive(self) -> None:
        """The run's task. However it ends, the channel is told, and nothing is raised but a cancellation."""
        channel = self._channel
        try:
            await run_loop(self._run, channel)
        except GeneratorExit:  # the task is being thrown away
            raise
        except anyio.get_cancelled_exc_class() as exc:
            try:
                await anyio.lowlevel.checkpoint_if_cancelled()
            except anyio.get_cancelled_exc_class():
                self._abort()
                raise
            # Nobody has cancelled the run: something in it has met a cancellation of its own.
            error = RunError(f"{self._run.named('something')} was cancelled, and not by the run's reader")
            error.__cause__ = exc
            self._fail(error)
        except BaseException as exc:  # noqa: BLE001 -- kept as a value: the reader raises it
            self._fail(exc)
        finally:
            channel.close(self._last)
            if self._over is not None:
                self._over.set()

    def _fail(self, exc: BaseException) -> None:
        self._error = exc
        # Without the frame of this task, which holds the stream, the error makes no cycle with it.
        self._traceback = exc.__traceback__.tb_next if exc.__traceback__ else None
        if isinstance(exc, Exception):
            cut = self._channel.unseen is not None
            self._last = RunFailed(error=exc, step=self._channel.last_step if cut else self._run.step)

    def _abort(self) -> None:
        """End the run as cancelled: the reader gets nothing more of it but its end, and has shown what it has shown."""
        run, channel = self._run, self._channel
        run.settle()
        run.stop_reason = "cancelled"
        channel.discard()
        unseen = [e.text for e in channel.unseen or () if type(e) is TextDelta and e.step == run.step]
        if run.partial_text is not None:
            run.partial_text = run.partial_text.removesuffix("".join(unseen)) or None
        self._last = RunAborted(partial_text=run.partial_text, step=channel.last_step)

    async def _next(self) -> AgentEvent:
        event = self._channel.take()
        if event is None:
            event = await self._wait()
        if type(event) is RunAborted:
            # A run that was cancelled from outside had its reader cancelled too: that must not turn into this event.
            await anyio.lowlevel.checkpoint_if_cancelled()
        return event

    async def _wait(self) -> AgentEvent:
        if self._waiting:
            msg = f"{self} is read by two tasks at once; a stream has one reader"
            raise UserError(msg)
        over = self._require_entered("reading")
        if not over.is_set():
            self._require_inside()
            self._start()
        self._waiting = True
        try:
            event = await self._channel.wait()
        finally:
            self._waiting = False
        return event if event is not None else await self._end()

    async def _end(self) -> NoReturn:
        await anyio.lowlevel.checkpoint_if_cancelled()
        if self._error is not None:
            raise self._error.with_traceback(self._traceback)
        raise StopAsyncIteration

    def _mark_shown(self) -> None:
        self._channel.shown_text = True


class _Events:
    """The one reader of a stream's events: it may be iterated on after a break, which the stream itself may not."""

    __slots__ = ("_next",)

    def __init__(self, following: Callable[[], Awaitable[AgentEvent]]) -> None:
        self._next = following

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Awaitable[AgentEvent]:
        return self._next()


class TextDeltas:
    """The answer's text, piece by piece. Returned by :meth:`AgentStream.text_deltas`."""

    def __init__(self, stream: AgentStream[OutT], *, hold: bool) -> None:
        self._stream = stream
        self._hold = hold
        self._held: list[str] = []
        self._ready: deque[str] = deque()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        """Return the next piece of text.

        Raises:
            RunError: the run failed; text that was given out before is on it as ``partial_text``.
        """
        stream = self._stream
        while not self._ready:
            event = await stream._next()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] -- the stream's own reader
            if type(event) is TextDelta:
                if not event.text:
                    continue
                if not self._hold:
                    stream._mark_shown()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] -- likewise
                    return event.text
                self._held.append(event.text)
            elif type(event) is OutputSuperseded:
                self._held.clear()
            elif type(event) is StepFinished or (type(event) is RunAborted and event.partial_text is None):
                self._release()  # the step is in the history: its text stands
            elif type(event) in {RunFinished, RunFailed}:
                self._release()  # so is that of a draft whose check has ended the run
        return self._ready.popleft()

    def _release(self) -> None:
        self._ready.extend(self._held)
        self._held.clear()


class PartialOutputs:
    """The answer of a run with ``output=``, as far as it has come. Returned by :meth:`AgentStream.partial_outputs`."""

    def __init__(
        self, following: Callable[[], Awaitable[AgentEvent]], channel: Channel, output: OutputType[Any]
    ) -> None:
        self._next = following
        self._channel = channel
        self._output = output
        self._text = bytearray()
        self._last: Any = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        """Return the next, fuller value.

        Raises:
            RunError: the run failed.
        """
        while True:
            event = await self._next()
            if type(event) is TextDelta:
                self._text += event.text.encode("utf-8", "replace")
                if self._channel.has_events:  # parse once for all that is there
                    continue
            elif type(event) in {OutputSuperseded, StepStarted}:
                self._text.clear()
                self._last = None
                continue
            elif type(event) is not TextEnd:
                continue
            value = self._output.peek(bytes(self._text))
            if value is not None and value != self._last:
                self._last = value
                return value

"""The way of a run's events to their reader: bounded, one reader, and borders that make reading pace the run.

A border (:meth:`Channel.drained`) holds the run until the reader has *come back for more*: having taken the last event
is not enough, since its loop body may still be at work on it. So nothing with a side effect starts before the
reader has asked for the next event.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Protocol

import anyio

from mastra_py.events import AgentEvent

LIMIT = 128
"""Events that may wait for the reader before the run waits for it."""


class Out(Protocol):
    """Where a run's events go. ``shown_text`` tells whether a reader of live text was given any of this attempt."""

    shown_text: bool

    def begin_attempt(self) -> None:
        """A model call begins: what it shows may have to be taken back."""
        ...

    def retract(self) -> None:
        """Drop what the attempt has shown and no reader has taken yet, where nobody paces the run."""
        ...

    def put(self, event: AgentEvent, /) -> bool:
        """Hand over ``event``; ``True`` asks the caller to ``await room()`` before the next one."""
        ...

    async def room(self) -> None:
        """Wait until the reader has caught up enough."""
        ...

    async def emit(self, event: AgentEvent, /) -> None:
        """Hand over ``event`` and wait for room."""
        ...

    async def drained(self) -> None:
        """Wait until the reader has taken everything and come back for more."""
        ...


class NullOut:
    """Nobody reads: ``generate()`` and judges."""

    __slots__ = ("shown_text",)

    def __init__(self) -> None:
        self.shown_text = False

    def begin_attempt(self) -> None:
        """Do nothing."""

    def retract(self) -> None:
        """Do nothing."""

    def put(self, event: AgentEvent, /) -> bool:
        """Drop the event."""
        return False

    async def room(self) -> None:
        """Return at once."""

    async def emit(self, event: AgentEvent, /) -> None:
        """Drop the event."""

    async def drained(self) -> None:
        """Return at once."""


class Channel:
    """A bounded queue of events between one run and one reader.

    An ``anyio.Event`` is made only where somebody really waits: a burst costs a deque operation an event.
    """

    __slots__ = (
        "_acked",
        "_border",
        "_border_at",
        "_closed",
        "_dropping",
        "_events",
        "_limit",
        "_mark",
        "_reader",
        "_released",
        "_room",
        "_sent",
        "_taken",
        "last_step",
        "shown_text",
        "unseen",
    )

    def __init__(self, limit: int = LIMIT) -> None:
        self.shown_text = False
        self._events: deque[AgentEvent] = deque()
        self._limit: float = limit
        self._released = False
        self._dropping = False
        self._closed = False
        self._mark = 0
        self.last_step = 0
        self.unseen: list[AgentEvent] | None = None
        self._sent = 0
        self._taken = 0
        self._acked = 0
        self._reader: anyio.Event | None = None
        self._room: anyio.Event | None = None
        self._border: anyio.Event | None = None
        self._border_at = 0

    # The run's side.

    def begin_attempt(self) -> None:
        """Remember where the attempt begins."""
        self.shown_text = False
        self._mark = self._sent

    def retract(self) -> None:
        """Drop the attempt's events that wait in a channel without borders; else the reader has taken them all."""
        if self._released:
            for _ in range(min(self._sent - self._mark, len(self._events))):
                self._events.pop()
                self._sent -= 1

    def put(self, event: AgentEvent, /) -> bool:
        """Append ``event`` and wake a waiting reader; ``True`` where the queue is full."""
        if self._dropping:
            return False
        if self.unseen is not None:
            self.unseen.append(event)
            return False
        self._sent += 1
        self._events.append(event)
        if self._reader is not None:
            self._reader.set()
            self._reader = None
        return len(self._events) >= self._limit

    async def room(self) -> None:
        """Wait until the reader has emptied half of a full queue."""
        while len(self._events) >= self._limit:
            if self._room is None:
                self._room = anyio.Event()
            await self._room.wait()

    async def emit(self, event: AgentEvent, /) -> None:
        """Append ``event`` and wait for room where the queue is full."""
        if self.put(event):
            await self.room()

    async def drained(self) -> None:
        """Wait until everything is taken and the reader has come back for more."""
        sent = self._sent  # several wait at once where sub-agents run, and the others go on sending
        while self._acked < sent and not self._released:
            if self._border is None:
                self._border = anyio.Event()
                self._border_at = sent
            self._border_at = min(self._border_at, sent)
            await self._border.wait()

    def close(self, last: AgentEvent | None = None) -> None:
        """No event follows but ``last``, which also a reader gets that wanted no more."""
        self._closed = True
        if last is not None and not self._dropping:
            self._events.append(last)
        if self._reader is not None:
            self._reader.set()
            self._reader = None

    # The reader's side.

    def take(self) -> AgentEvent | None:
        """Come back for more: return the next event where there is one already."""
        self._acked = self._taken
        if self._border is not None and (self._acked >= self._border_at or not self._events):
            self._border.set()
            self._border = None
        if not self._events:
            return None
        self._taken += 1
        event = self._events.popleft()
        self.last_step = event.step
        if self._room is not None and len(self._events) * 2 <= self._limit:
            self._room.set()
            self._room = None
        return event

    @property
    def has_events(self) -> bool:
        """Whether :meth:`take` has something to return."""
        return bool(self._events)

    async def wait(self) -> AgentEvent | None:
        """Wait for the next event; ``None`` where the run is over and everything was taken."""
        while (event := self.take()) is None:
            if self._closed:
                return None
            if self._reader is None:
                self._reader = anyio.Event()
            await self._reader.wait()
        return event

    def discard(self) -> None:
        """The reader wants no more: what waits and what still comes goes into ``unseen``."""
        if self.unseen is None:
            self.unseen = list(self._events)
            self._events.clear()
            self._acked = self._taken = self._sent

    def release(self, *, drop: bool) -> None:
        """Lift the bound and the borders: nobody paces the run any more. With ``drop`` its events go nowhere."""
        self._released = True
        self._limit = math.inf
        if drop:
            self._dropping = True
            self._events.clear()
        for waiting in (self._room, self._border):
            if waiting is not None:
                waiting.set()
        self._room = self._border = None

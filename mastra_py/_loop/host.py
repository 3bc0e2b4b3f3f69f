"""What a run shows to those inside of its tools: who pays for them, where their events go, how deep they are."""

from __future__ import annotations

from dataclasses import dataclass

from mastra_py._loop.channel import NullOut, Out
from mastra_py._loop.ledger import Ledger
from mastra_py.events import AgentEvent, SubAgentEvent


@dataclass(slots=True, kw_only=True)
class Host:
    """A run, for what runs inside of its tools.

    Attributes:
        out: where its events go.
        ledger: what it has spent; those inside of it are paid from here.
        path: ids of the tool calls that lead to it; empty for a run that nobody delegated.
        delegation: how it delegates, a ``Delegation`` or ``None``; the loop hands it on unread.
        stop: set to end the run after the step under way.
        fatal: set to an error that ends the run once the tools of the step are done.
    """

    out: Out
    ledger: Ledger
    path: tuple[str, ...] = ()
    delegation: object = None
    stop: bool = False
    fatal: Exception | None = None


class SubOut:
    """The way of a sub-agent's events into those of the run it works for, wrapped and in order.

    Their reader paces the sub-agent as it paces the run: it is the same bounded channel, and the same borders. What
    the sub-agent says is no text of the run, so none of it counts as shown to a reader of the run's live text.
    """

    __slots__ = ("_agent_id", "_parent", "_path", "_step", "shown_text")

    def __init__(self, parent: Out, *, agent_id: str, path: tuple[str, ...], step: int) -> None:
        self.shown_text = False
        self._parent = parent
        self._agent_id = agent_id
        self._path = path
        self._step = step

    def begin_attempt(self) -> None:
        """Do nothing: the run that waits here has no attempt under way."""

    def retract(self) -> None:
        """Do nothing: what was shown is taken back by an event."""

    def put(self, event: AgentEvent, /) -> bool:
        """Hand over ``event``, wrapped; one of a deeper agent is wrapped already."""
        if type(event) is SubAgentEvent:
            event.step = self._step  # on the way up: in the end that of the outermost run, whose stream it is in
            return self._parent.put(event)
        return self._parent.put(
            SubAgentEvent(
                agent_id=self._agent_id,
                tool_call_id=self._path[-1],
                depth=len(self._path),
                event=event,
                path=self._path,
                step=self._step,
            )
        )

    async def room(self) -> None:
        """Wait until the reader has caught up enough."""
        await self._parent.room()

    async def emit(self, event: AgentEvent, /) -> None:
        """Hand over ``event``, wrapped, and wait for room."""
        if self.put(event):
            await self._parent.room()

    async def drained(self) -> None:
        """Wait until the reader has taken everything and come back for more."""
        await self._parent.drained()


def nested_out(parent: Out, *, agent_id: str, path: tuple[str, ...], step: int) -> Out:
    """Return where the events of a sub-agent go; nowhere, if nobody reads those of the run."""
    return parent if isinstance(parent, NullOut) else SubOut(parent, agent_id=agent_id, path=path, step=step)

"""The ports of processors: what they are asked and what they may answer."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, cast, runtime_checkable

from mastra_py.errors import ModelError, UserError
from mastra_py.messages import Message


@dataclass(slots=True, kw_only=True)
class ApiErrorContext:
    """A model call has failed: what an error processor is asked about.

    Attributes:
        error: what failed; its causes are in the exception chain.
        retry_count: retries made so far for this model call, by all processors together, from 0.
        received_at: when the failure arrived, in UTC; HTTP dates count against it.
        step: the step of the run, from 1.
        run_id: the run.
        owner_id: the agent or scorer whose call it is.
        messages: what was sent.
        request_context: the caller's context.
    """

    error: ModelError
    retry_count: int = 0
    received_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    step: int = 1
    run_id: str = ""
    owner_id: str = ""
    messages: Sequence[Message] = ()
    request_context: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """The answer "make the call again": after ``delay`` seconds, with ``append`` added to what is sent.

    It is data: the loop waits, and only where its cap allows the retry. ``append`` is part of this step's further
    attempts, not of the history. A delay that is negative, NaN or infinite counts as 0.
    """

    delay: float = 0.0
    append: Sequence[Message] = ()

    def __post_init__(self) -> None:
        delay, append = cast("object", self.delay), cast("object", self.append)
        if not isinstance(delay, int | float):
            msg = f"Retry delay must be a number of seconds, got {delay!r}"
            raise UserError(msg)
        if not isinstance(append, Sequence) or not all(isinstance(m, Message) for m in cast("Any", append)):
            msg = f"Retry append must be a sequence of Message objects, got {append!r}"
            raise UserError(msg)


def sane_delay(delay: float) -> float:
    """Return ``delay``, or 0 where it is negative, NaN or infinite."""
    return float(delay) if 0 < delay <= sys.float_info.max else 0.0


@runtime_checkable
class ErrorProcessor(Protocol):
    """Decides whether a failed model call is made again.

    It may raise :class:`~mastra_py.errors.TripWire` to end the run; a :class:`~mastra_py.errors.UserError` ends it too.
    Whatever else it raises is logged, and the next processor is asked.
    """

    @property
    def id(self) -> str:
        """The name that errors and events know it by."""
        ...

    async def process_api_error(self, ctx: ApiErrorContext, /) -> Retry | None:
        """Return a :class:`Retry`, or ``None`` to leave the failure to the next processor."""
        ...


@dataclass(slots=True, kw_only=True)
class ProcessorContext:
    """Where an input or output processor is at work.

    Attributes:
        step: the step of the run, from 1; 0 before the first.
        attempt: the request within the step, from 1: retries and re-asks make further ones; 0 before the first. What
            came of an earlier attempt of the step counts no more.
        run_id: the run.
        owner_id: the agent or scorer whose call it is, e.g. ``agent:supervisor``.
        request_context: the caller's context.
        state: the processor's own notes of this run; empty at its start.
    """

    step: int = 0
    attempt: int = 0
    run_id: str = ""
    owner_id: str = ""
    request_context: Any = None
    state: dict[str, Any] = field(default_factory=dict[str, Any])


class InputProcessor(Protocol):
    """Changes what is sent.

    It has an ``id`` and one or both of these methods, plain or async::

        process_input(messages, ctx)       once at the start of a run: the messages given to it
        process_input_step(request, ctx)   before each model call: the whole request; a retry sends it again

    ``process_input`` returns the messages to go on with, and they are what the history holds; ``process_input_step``
    returns the request to send, and the history does not change. ``None`` leaves things as they are. Raise
    :class:`~mastra_py.errors.TripWire` to end the run; any other exception, and an answer of a wrong type, is logged
    and passed over.
    """

    @property
    def id(self) -> str:
        """The name that logs and trip wires know it by."""
        ...


class OutputProcessor(Protocol):
    """Changes what comes back.

    It has an ``id`` and one or more of these methods, plain or async::

        process_output_stream(event, ctx)  each event of a reply as it comes; return it, another one, or None to drop it
        process_output_step(text, ctx)     the text of each whole reply; return the text to go on with, or None
        process_output_result(text, ctx)   likewise, for replies that are answers: no tool call of theirs is run

    Readers, scorers and the history see the same, the processed text. A processor of whole replies therefore holds back
    a reply's events until it is whole. Failures as for :class:`InputProcessor`.
    """

    @property
    def id(self) -> str:
        """The name that logs and trip wires know it by."""
        ...

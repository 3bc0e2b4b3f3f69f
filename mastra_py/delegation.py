"""How a supervisor delegates: what its sub-agents see, what may be changed on the way, and what it is told.

An agent with ``agents={...}`` has each of them as a tool. ``delegation=Delegation(...)``, of the agent's defaults or of
a call, says how they are run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from mastra_py._checks import whole_number
from mastra_py._output import output_type
from mastra_py.errors import ToolError, UserError
from mastra_py.messages import Message, MessageLike
from mastra_py.results import AgentResult

MAX_DEPTH = 5
"""The greatest depth of a sub-agent, unless ``max_depth`` says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationContext:
    """A delegation that is about to begin.

    Attributes:
        key: the sub-agent's key in ``agents={...}``.
        agent_id: its id.
        prompt: the task that the supervisor has written for it.
        max_steps: the steps it may take.
        depth: 1 for a sub-agent of the run's own agent.
        supervisor_id: the agent that delegates.
        run_id: its run.
        step: the step of that run.
        tool_call_id: the call that asks for it.
        messages: the supervisor's conversation. The sub-agent sees none of it unless a ``message_filter`` says so.
        request_context: the caller's context.
    """

    key: str
    agent_id: str
    prompt: str
    max_steps: int
    depth: int
    supervisor_id: str
    run_id: str
    step: int
    tool_call_id: str
    messages: tuple[Message, ...] = field(repr=False)
    request_context: Any = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proceed:
    """Returned by ``on_start``: delegate, with another prompt or with other steps.

    Attributes:
        prompt: the task in place of the supervisor's.
        max_steps: steps in place of the sub-agent's own limit, from 1.
    """

    prompt: str | None = None
    max_steps: int | None = None

    def __post_init__(self) -> None:
        prompt = cast("object", self.prompt)
        if prompt is not None and (not isinstance(prompt, str) or not prompt.strip()):
            msg = f"Proceed prompt must be a text that is not blank, got {prompt!r}"
            raise UserError(msg)
        if self.max_steps is not None:
            whole_number(self.max_steps, "Proceed max_steps", least=1)


@dataclass(frozen=True, slots=True)
class Reject:
    """Returned by ``on_start``: do not delegate. The supervisor is told ``reason``."""

    reason: str

    def __post_init__(self) -> None:
        reason = cast("object", self.reason)
        if not isinstance(reason, str) or not reason.strip():
            msg = f"Reject reason must be a text that is not blank, got {reason!r}"
            raise UserError(msg)


@dataclass(frozen=True, slots=True)
class Replace:
    """Returned by ``on_complete``: the supervisor gets ``result`` in place of the sub-agent's own."""

    result: Any


@dataclass(frozen=True, slots=True)
class Stop:
    """Returned by ``on_complete``: the supervisor's run ends after this step, with ``stop_reason="stop_when"``."""


DelegationKind: TypeAlias = Literal["rejected", "depth", "unfinished", "failed", "cancelled"]
"""What became of a delegation that gave no result: it was rejected, was too deep, its run ended without an answer that
stands, it failed, or something in it was cancelled."""


class DelegationError(ToolError):
    """A delegation gave no result; its text is what the supervisor reads.

    Attributes:
        agent_id: the sub-agent.
        kind: what became of it.
        detail: of a run that ended without an answer its stop reason, e.g. ``"max_steps"``; of a failure its kind, e.g.
            ``"rate_limit"``.
        result: what the sub-agent's run gave, where it came to an end.

    Of a failure the error is the ``__cause__``.
    """

    def __init__(
        self,
        message: str = "",
        *,
        agent_id: str = "",
        kind: DelegationKind = "failed",
        detail: str | None = None,
        result: AgentResult[Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.agent_id = agent_id
        self.kind: DelegationKind = kind
        self.detail = detail
        self.result = result


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationOutcome:
    """A delegation that is over: either ``result`` has an answer that stands, or ``error`` says why there is none."""

    context: DelegationContext
    result: AgentResult[Any] | None = field(repr=False)
    error: DelegationError | None = None


MessageFilter: TypeAlias = Callable[[DelegationContext], Iterable[MessageLike] | Awaitable[Iterable[MessageLike]]]
OnStart: TypeAlias = Callable[[DelegationContext], Proceed | Reject | Awaitable[Proceed | Reject | None] | None]
OnComplete: TypeAlias = Callable[[DelegationOutcome], Replace | Stop | Awaitable[Replace | Stop | None] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegation:
    """How a supervisor delegates. Each function may be sync or async.

    Attributes:
        message_filter: returns what of ``messages`` the sub-agent sees before its task; nothing unless given. Tool
            calls and system messages are left out of it in any case.
        on_start: asked before each delegation: returns a :class:`Proceed` with changes, a :class:`Reject`, or ``None``.
            If it raises, there is no delegation.
        on_complete: told about each that is over: returns a :class:`Replace`, a :class:`Stop`, or ``None``. If it
            raises, that is logged, and the result stands.
        max_depth: the greatest depth of a sub-agent, from 1: with 1 the supervisor's own agents cannot delegate.
        max_steps: limit of the steps of each sub-agent, in place of its own. A supervisor may ask for fewer.
        output: types of the sub-agents' answers by their key, as ``output=`` of ``agent.generate``; text unless given.

    Example: ``supervisor.generate("...", delegation=Delegation(on_start=lambda ctx: Proceed(max_steps=3)))``
    """

    message_filter: MessageFilter | None = None
    on_start: OnStart | None = None
    on_complete: OnComplete | None = None
    max_depth: int = MAX_DEPTH
    max_steps: int | None = None
    output: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        for name in ("message_filter", "on_start", "on_complete"):
            function: object = getattr(self, name)
            if function is not None and not callable(function):
                msg = f"Delegation {name} must be a function, got {function!r}"
                raise UserError(msg)
        whole_number(self.max_depth, "Delegation max_depth", least=1)
        if self.max_steps is not None:
            whole_number(self.max_steps, "Delegation max_steps", least=1)
        output: Any = self.output
        if not isinstance(output, Mapping):
            msg = f"Delegation output must be a dict of types by the keys of the agents, got {output!r}"
            raise UserError(msg)
        for key, wanted in cast("Mapping[object, Any]", output).items():
            output_type(wanted, f"Delegation output of {key!r}")


def read_delegation(delegation: object, where: str) -> Delegation:
    """Return ``delegation``; anything else than a :class:`Delegation` is a :class:`UserError`."""
    if not isinstance(delegation, Delegation):
        msg = f"{where} must be a Delegation, got {delegation!r}"
        raise UserError(msg)
    return delegation

"""What is happening: the events of a run, in the one vocabulary that models, loop and readers share.

:data:`ModelEvent` is what a model call yields; :data:`AgentEvent` is everything a stream yields. Narrow an event
by ``match`` or by its ``type``, which keeps the names of the TypeScript framework Mastra. ``step`` counts from 1.

The order within a step: ``step-start``, then what the model says (a start, its deltas, its end; tool inputs, then their
``tool-call``), ``model-finish``, then either the tools' results in call order, or a check, then ``step-finish``. Events
of a sub-agent come before the result of the call that started it, each in a ``tool-output``, and keep the same order.
One terminal event ends a stream: ``finish``, ``error`` or ``abort``.
``mastra_py.testing.assert_well_formed`` holds this grammar.

Events are plain slotted dataclasses, not frozen: freezing triples what one costs. Treat them as read-only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

from mastra_py.errors import ModelError, TripWire
from mastra_py.messages import Usage
from mastra_py.scoring import ScorerVerdict
from mastra_py.usage import RunUsage

FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "refusal", "error", "other"]
"""How a model call ended; ``error`` is a call that failed."""

StopReason = Literal[
    "answered",
    "complete",
    "max_steps",
    "max_attempts",
    "stalled",
    "scorer_error",
    "length",
    "content_filter",
    "refusal",
    "budget",
    "stop_when",
    "tripwire",
    "cancelled",
]
"""Why a run ended."""


@dataclass(slots=True)
class TextStart:
    """A block of text begins."""

    step: int = 0
    type: ClassVar[Literal["text-start"]] = "text-start"


@dataclass(slots=True)
class TextDelta:
    """A piece of the answer's text."""

    text: str
    step: int = 0
    type: ClassVar[Literal["text-delta"]] = "text-delta"


@dataclass(slots=True)
class TextEnd:
    """The block of text is whole."""

    step: int = 0
    type: ClassVar[Literal["text-end"]] = "text-end"


@dataclass(slots=True)
class ReasoningStart:
    """The model begins to think aloud."""

    step: int = 0
    type: ClassVar[Literal["reasoning-start"]] = "reasoning-start"


@dataclass(slots=True)
class ReasoningDelta:
    """A piece of the model's thinking."""

    text: str
    step: int = 0
    type: ClassVar[Literal["reasoning-delta"]] = "reasoning-delta"


@dataclass(slots=True)
class ReasoningEnd:
    """The thinking is whole. ``metadata`` is what its ``provider`` needs to accept it back."""

    provider: str | None = None
    metadata: dict[str, Any] | None = None
    step: int = 0
    type: ClassVar[Literal["reasoning-end"]] = "reasoning-end"


@dataclass(slots=True)
class ToolInputStart:
    """The model begins to write the arguments of a tool call."""

    tool_call_id: str
    tool_name: str
    step: int = 0
    type: ClassVar[Literal["tool-call-input-streaming-start"]] = "tool-call-input-streaming-start"


@dataclass(slots=True)
class ToolInputDelta:
    """A piece of the arguments' JSON text."""

    tool_call_id: str
    text: str
    step: int = 0
    type: ClassVar[Literal["tool-call-delta"]] = "tool-call-delta"


@dataclass(slots=True)
class ToolInputEnd:
    """The arguments are whole."""

    tool_call_id: str
    step: int = 0
    type: ClassVar[Literal["tool-call-input-streaming-end"]] = "tool-call-input-streaming-end"


@dataclass(slots=True)
class ToolCall:
    """A whole tool call. ``raw_args`` is set only where the arguments were no JSON object; ``args`` is then ``{}``."""

    tool_call_id: str
    tool_name: str
    args: dict[str, Any]
    raw_args: str | None = None
    metadata: dict[str, Any] | None = None
    step: int = 0
    type: ClassVar[Literal["tool-call"]] = "tool-call"


@dataclass(slots=True, kw_only=True)
class ModelFinished:
    """The model call is over. Text after it would be a fault of the model adapter.

    ``usage`` is the call's own; ``response_id`` and ``model`` are what the provider reported.
    """

    finish_reason: FinishReason
    usage: Usage = field(default_factory=Usage)
    response_id: str | None = None
    model: str | None = None
    step: int = 0
    type: ClassVar[Literal["model-finish"]] = "model-finish"


ModelEvent: TypeAlias = (
    TextStart
    | TextDelta
    | TextEnd
    | ReasoningStart
    | ReasoningDelta
    | ReasoningEnd
    | ToolInputStart
    | ToolInputDelta
    | ToolInputEnd
    | ToolCall
    | ModelFinished
)


@dataclass(slots=True, kw_only=True)
class RunStarted:
    """The run begins."""

    run_id: str
    agent_id: str
    step: int = 0
    type: ClassVar[Literal["start"]] = "start"


@dataclass(slots=True, kw_only=True)
class StepStarted:
    """A step begins: a model call and what follows from it. Retries open no new step."""

    step: int
    type: ClassVar[Literal["step-start"]] = "step-start"


@dataclass(slots=True, kw_only=True)
class RetryScheduled:
    """A failed model call is made again after ``delay`` seconds; ``attempt`` (from 1) is the one that failed.

    ``model`` is set where it is made with another model, the next one of a ``FallbackModel``.
    """

    attempt: int
    delay: float
    error: ModelError
    model: str | None = None
    step: int = 0
    type: ClassVar[Literal["retry-scheduled"]] = "retry-scheduled"


@dataclass(slots=True, kw_only=True)
class ProfileLearned:
    """A provider refused a request for something that ``model`` does not have, and the model object now knows.

    The call is made again at once in another form. No error processor is asked and none of its retries is spent.
    ``lacks`` is the name of a model setting or of a field of :class:`~mastra_py.models.ModelProfile`; ``attempt`` is
    the one that was refused.
    """

    attempt: int
    model: str
    lacks: str
    error: ModelError
    step: int = 0
    type: ClassVar[Literal["model-profile-learned"]] = "model-profile-learned"


@dataclass(slots=True, kw_only=True)
class OutputSuperseded:
    """What ``attempt`` of ``step`` has shown is taken back: it is in neither the answer nor the next prompt.

    ``cause`` is ``"provider-error"`` where the model call failed after it had shown something. It is ``"rejected"``
    where the completion check did not accept the draft and another turn follows, and where the reply does not have the
    form that ``output=`` wants and is asked for once more.
    """

    attempt: int
    cause: Literal["provider-error", "rejected"]
    step: int = 0
    type: ClassVar[Literal["output-superseded"]] = "output-superseded"


@dataclass(slots=True, kw_only=True)
class ToolResult:
    """A tool call gave its result, a JSON value."""

    tool_call_id: str
    tool_name: str
    args: dict[str, Any]
    result: Any
    step: int = 0
    type: ClassVar[Literal["tool-result"]] = "tool-result"


@dataclass(slots=True, kw_only=True)
class ToolFailed:
    """A tool call failed; ``error`` is what the model reads, ``exception`` what was raised, if anything was."""

    tool_call_id: str
    tool_name: str
    args: dict[str, Any]
    error: str
    exception: BaseException | None = None
    step: int = 0
    type: ClassVar[Literal["tool-error"]] = "tool-error"


@dataclass(slots=True, kw_only=True)
class TaskCompletionStarted:
    """The scorers begin to judge a draft; ``attempt`` counts the drafts from 1."""

    attempt: int
    step: int = 0
    type: ClassVar[Literal["task-completion-started"]] = "task-completion-started"


@dataclass(slots=True, kw_only=True)
class TaskCompletionChecked:
    """The scorers have judged a draft.

    ``passed`` is ``None`` where all abstained; ``results`` holds an entry for each scorer that was to run;
    ``max_steps_reached`` says that no step is left for another draft.
    """

    attempt: int
    passed: bool | None
    results: Sequence[ScorerVerdict]
    reason: str | None = None
    timed_out: bool = False
    duration: float = 0.0
    max_steps_reached: bool = False
    suppress_feedback: bool = False
    step: int = 0
    type: ClassVar[Literal["is-task-complete"]] = "is-task-complete"


@dataclass(slots=True, kw_only=True)
class StepFinished:
    """The step is over and in the history; ``is_continued`` says whether another one follows."""

    finish_reason: FinishReason
    text: str
    usage: Usage
    is_continued: bool
    step: int = 0
    type: ClassVar[Literal["step-finish"]] = "step-finish"


@dataclass(slots=True, kw_only=True)
class Tripped:
    """A processor stopped the run."""

    error: TripWire
    step: int = 0
    type: ClassVar[Literal["tripwire"]] = "tripwire"


@dataclass(slots=True, kw_only=True)
class BudgetExceeded:
    """What the run may spend is used up, and so it ends. ``limit`` names the limit, ``usage`` is what was spent."""

    limit: str
    usage: RunUsage
    step: int = 0
    type: ClassVar[Literal["budget-exceeded"]] = "budget-exceeded"


@dataclass(slots=True, kw_only=True)
class SubAgentEvent:
    """An event of a sub-agent's run, between the tool call that started it and that call's result.

    Attributes:
        agent_id: the sub-agent.
        tool_call_id: the call that it answers.
        depth: 1 for a sub-agent of the run's own agent, 2 for one of that, and so on.
        event: the event, of any kind but this one: events of deeper agents are not wrapped twice.
        path: ids of the calls that lead to the agent, from the run's own to ``tool_call_id``.
        step: the step of the run whose events these are; ``event.step`` is the sub-agent's own.
    """

    agent_id: str
    tool_call_id: str
    depth: int
    event: AgentEvent
    path: tuple[str, ...] = ()
    step: int = 0
    type: ClassVar[Literal["tool-output"]] = "tool-output"


@dataclass(slots=True, kw_only=True)
class RunFinished:
    """Terminal: the run ended in good order."""

    stop_reason: StopReason
    finish_reason: FinishReason | None
    text: str
    usage: Usage
    step: int = 0
    type: ClassVar[Literal["finish"]] = "finish"


@dataclass(slots=True, kw_only=True)
class RunFailed:
    """Terminal: the run failed; the stream raises ``error`` next."""

    error: Exception
    step: int = 0
    type: ClassVar[Literal["error"]] = "error"


@dataclass(slots=True, kw_only=True)
class RunAborted:
    """Terminal: the run was cancelled by ``stream.cancel()``; ``partial_text`` is what its last step had shown."""

    partial_text: str | None = None
    step: int = 0
    type: ClassVar[Literal["abort"]] = "abort"


TerminalEvent: TypeAlias = RunFinished | RunFailed | RunAborted

AgentEvent: TypeAlias = (
    ModelEvent
    | RunStarted
    | StepStarted
    | RetryScheduled
    | ProfileLearned
    | OutputSuperseded
    | ToolResult
    | ToolFailed
    | TaskCompletionStarted
    | TaskCompletionChecked
    | StepFinished
    | Tripped
    | BudgetExceeded
    | SubAgentEvent
    | TerminalEvent
)

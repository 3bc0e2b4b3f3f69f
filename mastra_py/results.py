"""What a run gave: its steps, the drafts that were scored, and the result of the whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic

from typing_extensions import TypeVar

from mastra_py.errors import TripWire
from mastra_py.events import FinishReason, StopReason
from mastra_py.messages import Message, ToolCallPart, ToolResultPart, Usage
from mastra_py.scoring import Verdict, gating_criteria
from mastra_py.usage import RunUsage

OutT = TypeVar("OutT", default=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """One step: a model call and what followed from it.

    Attributes:
        step: number of the step, from 1.
        text: what the model said, without its reasoning.
        reasoning: what it thought aloud.
        tool_calls: the calls it made, in order.
        tool_results: what they gave, in the same order.
        finish_reason: how the model call ended.
        usage: tokens of the step's successful model call.
        attempts: model calls made for the step, the failed ones among them.
        messages: what the step added to the conversation.
        completion: the verdict, where the step was scored.
        model: the model's name as the provider reported it.
        response_id: the provider's id of the reply.
    """

    step: int
    text: str
    reasoning: str
    tool_calls: tuple[ToolCallPart, ...]
    tool_results: tuple[ToolResultPart, ...]
    finish_reason: FinishReason
    usage: Usage
    attempts: int
    messages: tuple[Message, ...]
    completion: Verdict | None = None
    model: str | None = None
    response_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A draft that was scored: its text, the verdict on it, the step it came from; ``attempt`` counts from 1."""

    attempt: int
    step: int
    text: str
    verdict: Verdict

    @property
    def accepted(self) -> bool:
        """Whether the scorers accepted it."""
        return self.verdict.passed is True


def best_attempt(attempts: tuple[Attempt, ...]) -> Attempt | None:
    """Return the accepted draft; else the one that meets most, then scores most, then came last."""
    if not attempts:
        return None
    return max(attempts, key=lambda a: (a.accepted, _met(a.verdict), _score_sum(a.verdict), a.attempt))


def _met(verdict: Verdict) -> int:
    """Count what is met: the criteria that gate, and one for a scorer without criteria that passed."""
    met = 0
    for entry in verdict.results:
        gating = gating_criteria(entry.result.criteria) if entry.result else ()
        met += sum(c.satisfied for c in gating) if gating else entry.status == "passed"
    return met


def _score_sum(verdict: Verdict) -> float:
    return sum(r.score for r in verdict.results if r.score is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResult(Generic[OutT]):
    """What a run gave.

    Attributes:
        text: the last committed text of the model; it may be empty. Never text of a failed call.
        output: the answer in the type that ``output=`` asked for, ``None`` where the run ended without one; the text
            where no type was asked for.
        stop_reason: why the run ended.
        finish_reason: how the last model call ended; ``None`` where none finished.
        completion: the last verdict; ``None`` where nothing was scored.
        attempts: every scored draft with its verdict.
        steps: the steps, in order.
        usage: tokens of all model calls of the run.
        messages: the whole conversation, to go on from: ``agent.stream("...", messages=result.messages)``.
        new_messages: the part of it that is new: the prompt and what the run added.
        run_id: id of the run.
        agent_id: which agent ran.
        partial_text: after a cancel, what had been shown of the unfinished step.
        tripwire: the processor's reason where ``stop_reason`` is ``tripwire``.
        limit: the limit of the budget that was reached where ``stop_reason`` is ``budget``.
    """

    text: str
    output: OutT
    stop_reason: StopReason
    finish_reason: FinishReason | None
    completion: Verdict | None
    attempts: tuple[Attempt, ...]
    steps: tuple[StepResult, ...] = field(repr=False)
    usage: RunUsage
    messages: tuple[Message, ...] = field(repr=False)
    new_messages: tuple[Message, ...] = field(repr=False)
    run_id: str
    agent_id: str
    partial_text: str | None = None
    tripwire: TripWire | None = None
    limit: str | None = None

    @property
    def accepted(self) -> bool:
        """Whether the scorers accepted the answer. ``False`` also where there were no scorers."""
        return self.stop_reason == "complete"

    @property
    def best(self) -> Attempt | None:
        """The accepted draft; else the one that meets most, then scores most, then came last."""
        return best_attempt(self.attempts)

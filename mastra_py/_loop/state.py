"""What a run has said and done so far: the transcript grows only when a step is committed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mastra_py._loop.accumulate import Reply
from mastra_py._loop.completion import MakeRun
from mastra_py._loop.feedback import prompt_view
from mastra_py._loop.host import Host
from mastra_py._loop.ledger import Ledger
from mastra_py._loop.processing import Pipeline
from mastra_py._loop.step import ModelCall
from mastra_py._loop.structured import with_output
from mastra_py.errors import TripWire
from mastra_py.events import StopReason
from mastra_py.messages import INTERRUPTED, Message, ToolCallPart, ToolResultPart, last_user_text
from mastra_py.models.base import ModelRequest
from mastra_py.options import RunSpec
from mastra_py.processors.base import ProcessorContext
from mastra_py.results import AgentResult, Attempt, StepResult
from mastra_py.scoring import AgentRunInput, AgentRunOutput, Scorer, ScorerRun, ScorerVerdict, Verdict
from mastra_py.tools import Tool, ToolContext


class RunState:
    """One run: its frozen spec and what has come of it. The loop writes it; the stream reads it, and settles it."""

    def __init__(self, spec: RunSpec, path: tuple[str, ...] = ()) -> None:
        """Begin a run; ``path`` are the ids of the tool calls that lead to it, if others run around it."""
        self.spec = spec
        self.path = path
        self.system: str | None = None
        self.tools: dict[str, Tool] = {}
        self.step = 0
        self.steps: list[StepResult] = []
        self.attempts: list[Attempt] = []
        self.ledger = Ledger(budget=spec.budget)
        self.value: Any = None
        self.open: Reply | None = None
        self.tool_results: dict[int, ToolResultPart] = {}
        self.tripwire: TripWire | None = None
        self.stop_reason: StopReason = "cancelled"
        self.partial_text: str | None = None
        self.pipeline = _pipeline(spec)
        self._call: ModelCall | None = None
        self._asked: Sequence[Message] = ()
        self._rejected: set[int] = set()
        self.begin(spec.messages)

    def begin(self, messages: tuple[Message, ...]) -> None:
        """Start the conversation with ``messages``."""
        self.input_messages = messages
        self.transcript = list(messages)
        self._attempt_start = len(messages)
        self._new_from = _first_new(self.spec, messages)

    def named(self, what: str) -> str:
        """Return ``what`` with whose it is, for logs and errors."""
        return f"{what} of agent {self.spec.agent_id!r} (run {self.spec.run_id}, step {self.step})"

    def next_call(self) -> ModelCall:
        """Return the model call of the step that begins."""
        spec = self.spec
        forced = spec.tool_choice not in {"auto", "none"} and self.step > 1
        keep = spec.gate.config.keep_feedback if spec.gate else "latest"
        self._asked = prompt_view(self.transcript, keep)
        request = ModelRequest(
            messages=self._asked,
            system=self.system,
            tools=tuple(self.tools.values()),
            tool_choice="auto" if forced else spec.tool_choice,
            settings=spec.settings,
        )
        if spec.output is not None:
            request = with_output(request, spec.output.format, spec.model, "auto")
        self.value = None
        self._call = ModelCall(
            model=spec.model,
            request=request,
            pipeline=self.pipeline,
            owner=f"agent:{spec.agent_id}",
            ledger=self.ledger,
            error_processors=spec.error_processors,
            max_retries=spec.max_processor_retries,
            step=self.step,
            run_id=spec.run_id,
            request_context=spec.request_context,
        )
        return self._call

    def commit(self) -> None:
        """Put the open step into the transcript: one assistant message, and one tool message where it called tools."""
        reply = self.open
        if reply is None:
            return
        results = tuple([self.tool_results[i] for i in range(len(reply.tool_calls))])
        added = (reply.message, Message("tool", results)) if results else (reply.message,)
        self.transcript += added
        self.steps.append(
            StepResult(
                step=self.step,
                text=reply.text,
                reasoning=reply.reasoning,
                tool_calls=reply.tool_calls,
                tool_results=results,
                finish_reason=reply.finish_reason,
                usage=reply.usage,
                attempts=reply.attempts,
                messages=added,
                model=reply.model,
                response_id=reply.response_id,
            )
        )
        self.open = self._call = None
        self.tool_results = {}

    def reject(self, feedback: Message) -> None:
        """The last draft is not accepted: ``feedback`` follows it."""
        self._rejected.add(len(self.transcript) - 1)
        self._rejected.add(len(self.transcript))
        self.transcript.append(feedback)
        self._attempt_start = len(self.transcript)

    def settle(self) -> None:
        """Leave a valid history after a cancel or a trip wire: tools that had not finished count as interrupted."""
        if self.open is not None:
            for index, call in enumerate(self.open.tool_calls):
                part = ToolResultPart(call.tool_call_id, call.tool_name, INTERRUPTED, is_error=True)
                self.tool_results.setdefault(index, part)
            self.commit()
        elif self._call is not None:
            self.partial_text = self._call.fold.shown_text

    def tool_context(self, host: Host) -> Callable[[ToolCallPart], ToolContext]:
        """Return what makes the context of a tool call of this step; ``host`` is for what runs inside of it."""
        messages = tuple(self._asked)  # without the words for a type of the answer that a request may hold

        def context(call: ToolCallPart) -> ToolContext:
            return ToolContext(
                tool_call_id=call.tool_call_id,
                tool_name=call.tool_name,
                run_id=self.spec.run_id,
                agent_id=self.spec.agent_id,
                step=self.step,
                request_context=self.spec.request_context,
                messages=messages,
                host=host,
            )

        return context

    def scorer_runs(self) -> MakeRun:
        """Return what makes the run that a scorer is given for the last draft."""
        spec = self.spec
        run_input = AgentRunInput(
            input_messages=self.input_messages,
            system_messages=(Message("system", self.system),) if self.system else (),
            task=last_user_text(spec.messages),
            iteration=self.step,
            max_steps=spec.max_steps,
            tool_calls=tuple([call for step in self.steps for call in step.tool_calls]),
            tool_results=tuple([result for step in self.steps for result in step.tool_results]),
            agent_id=spec.agent_id,
            value=self.value,
        )
        text = self.steps[-1].text
        response = AgentRunOutput(self.transcript[self._attempt_start :])

        def make(scorer: Scorer) -> ScorerRun[Any, Any]:
            wants_messages = getattr(scorer, "type", None) == "agent"
            return ScorerRun(
                input=run_input,
                output=response if wants_messages else text,
                run_id=spec.run_id,
                request_context=spec.request_context,
            )

        return make

    def stalled(self, rounds: int) -> bool:
        """Return whether the last ``rounds`` checks all had the same outcome."""
        recent = self.attempts[-rounds:]
        return len(recent) == rounds and len({_outcome(a.verdict) for a in recent}) == 1

    def history(self) -> tuple[Message, ...]:
        """Return the conversation that is given back: without feedback and rejected drafts where that was asked for."""
        if self.spec.gate is None or not self.spec.gate.config.suppress_feedback:
            return tuple(self.transcript)
        return tuple([m for i, m in enumerate(self.transcript) if i not in self._rejected])

    def result(self) -> AgentResult[Any]:
        """Return what the run has given, as far as it went."""
        last = self.steps[-1] if self.steps else None
        failed = self._call is not None and self._call.failed
        messages = self.history()
        return AgentResult(
            text=last.text if last else "",
            output=self.value if self.spec.output else (last.text if last else ""),
            stop_reason=self.stop_reason,
            finish_reason="error" if failed else last.finish_reason if last else None,
            completion=self.attempts[-1].verdict if self.attempts else None,
            attempts=tuple(self.attempts),
            steps=tuple(self.steps),
            usage=self.ledger.total(),
            messages=messages,
            new_messages=messages[self._new_from :],
            run_id=self.spec.run_id,
            agent_id=self.spec.agent_id,
            partial_text=self.partial_text,
            tripwire=self.tripwire,
            limit=self.ledger.refused if self.stop_reason == "budget" else None,
        )


def _first_new(spec: RunSpec, messages: Sequence[Message]) -> int:
    """Return where the prompt stands in ``messages``, which is what processors have made of those of ``spec``."""
    if not spec.has_prompt:
        return len(messages)
    found = [i for i, message in enumerate(messages) if message == spec.messages[-1]]
    # One that was changed stands where it stood, unless the conversation before it was cut short.
    return found[-1] if found else min(len(messages), len(spec.messages)) - 1


def _pipeline(spec: RunSpec) -> Pipeline | None:
    if not spec.input_processors and not spec.output_processors:
        return None
    owner = f"agent:{spec.agent_id}"
    context = ProcessorContext(run_id=spec.run_id, owner_id=owner, request_context=spec.request_context)
    return Pipeline(spec.input_processors, spec.output_processors, context)


def _outcome(verdict: Verdict) -> tuple[object, ...]:
    return tuple([(r.scorer_id, r.passed, _unmet(r), r.score) for r in verdict.results])


def _unmet(entry: ScorerVerdict) -> tuple[str, ...]:
    criteria = entry.result.criteria if entry.result else ()
    return tuple([c.id for c in criteria if not c.satisfied])

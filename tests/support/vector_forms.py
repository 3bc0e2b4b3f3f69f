"""The forms in which runs are compared, made of our own objects: events, messages, checks and errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mastra_py.events import (
    AgentEvent,
    ReasoningDelta,
    SubAgentEvent,
    TaskCompletionChecked,
    TextDelta,
    ToolCall,
    ToolFailed,
    ToolResult,
)
from mastra_py.messages import FeedbackPart, Message, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from mastra_py.models.base import ModelRequest
from mastra_py.scoring import ScorerVerdict, Verdict
from support.vector_agents import outputs_first
from support.vector_rubric import read_reason

Form = tuple[Any, ...]
"""What an event or an entry of a conversation says."""

OURS_ALONE = {"model-finish", "retry-scheduled", "output-superseded", "task-completion-started"}
FEEDBACK = "<feedback>"
ERRORED = "<errored>"


def event_forms(events: Iterable[AgentEvent], tools: Mapping[str, str]) -> list[Form]:
    """Return events as they are compared, without those that Mastra has not."""
    kept = [e for e in events if (e.event if isinstance(e, SubAgentEvent) else e).type not in OURS_ALONE]
    return outputs_first([_event_form(event, tools) for event in kept])


def _event_form(event: AgentEvent, tools: Mapping[str, str]) -> Form:
    match event:
        case TextDelta() | ReasoningDelta():
            return event.type, event.text
        case ToolCall():
            return event.type, event.tool_call_id, event.tool_name, event.args
        case ToolResult():
            return event.type, event.tool_call_id, event.tool_name, event.args, event.result
        case ToolFailed():
            return (
                event.type,
                event.tool_call_id,
                event.tool_name,
                event.args,
                naming(event.error, event.tool_name, tools),
            )
        case _:
            return (event.type,)


def tool_forms(events: Iterable[Form]) -> list[Form]:
    """Return of events those about tools, cut down to what is recorded of them beside a check."""
    return [(e[0], e[2], e[-1]) for e in events if e[0] in {"tool-call", "tool-result", "tool-error"}]


def naming(text: str, tool: str, tools: Mapping[str, str]) -> str:
    """Return whether the text of a tool error names what it has to: the tool; for an unknown one those that exist.

    ``tools`` are what errors of tools name, by the names of the tools: of a sub-agent its id.
    """
    # In a turn that was cut off, none of its tools is looked for.
    wanted = [tool] if "did not run" in text else [tools[tool]] if tool in tools else [tool, *tools]
    return "named" if all(name in text for name in wanted) else f"does not name {wanted}: {text}"


def message_forms(
    messages: Iterable[Message], verdicts: Sequence[Verdict], tools: Mapping[str, str], *, with_reasoning: bool
) -> list[Form]:
    """Return a conversation as it is compared: (role, what, ...) for a part; ``verdicts`` are of its drafts."""
    forms: list[Form] = []
    judged = iter([v for v in verdicts if v.passed is False])
    for message in messages:
        for part in message.parts:
            match part:
                case TextPart():
                    forms.append((message.role, "text", part.text))
                case ReasoningPart() if with_reasoning:
                    forms.append((message.role, "reasoning"))
                case ToolCallPart():
                    forms.append((message.role, "call", part.tool_name, part.args))
                case ToolResultPart(is_error=True):
                    named = naming(str(part.result), part.tool_name, tools)
                    forms.append((message.role, "error", part.tool_name, named))
                case ToolResultPart():
                    forms.append((message.role, "result", part.tool_name, part.result))
                case FeedbackPart():
                    verdict = next(judged, None)
                    said = [line for line in _lines_of(verdict) if line in part.text]
                    forms.append((message.role, FEEDBACK, said))
                case _:
                    pass
    return forms


def prompt_forms(request: ModelRequest, verdicts: Sequence[Verdict], tools: Mapping[str, str]) -> list[Form]:
    """Return what a model was sent."""
    system = [("system", "text", request.system)] if request.system else []
    return [*system, *message_forms(request.messages, verdicts, tools, with_reasoning=False)]


def without_results(forms: Iterable[Form]) -> list[Form]:
    """Return a conversation with what tools gave cut down to their names: a recorded history holds no more."""
    return [(f[0], "result", f[2]) if f[1] in {"result", "error"} else f for f in forms]


def _lines_of(verdict: Verdict | None) -> list[str]:
    """Return what the feedback on a verdict has to say."""
    lines: list[str] = []
    for result in verdict.with_status("failed") if verdict else ():
        criteria = result.result.criteria if result.result else ()
        if criteria:
            for criterion in criteria:
                lines += [] if criterion.satisfied else reason_lines(f"{criterion.description}\n{criterion.reasoning}")
        else:
            lines += reason_lines(result.reason)
    return lines


def reason_lines(reason: str | None) -> list[str]:
    """Return the lines of a reason."""
    return [line.strip() for line in (reason or "").splitlines() if line.strip()]


def check_form(event: TaskCompletionChecked, rubrics: set[str]) -> dict[str, Any]:
    """Return a check; ``rubrics`` are the ids of the scorers whose reasons we compose."""
    return {
        "iteration": event.step,
        "passed": event.passed,
        "results": [_result_form(r, rubrics) for r in event.results],
        "timed_out": event.timed_out,
        "reason": _overall(event.reason, event.results, rubrics),
        "max_iteration_reached": event.max_steps_reached,
        "suppress_feedback": event.suppress_feedback,
    }


def verdict_form(verdict: Verdict, rubrics: set[str]) -> dict[str, Any]:
    """Return what ``on_complete`` was called with."""
    return {
        "complete": verdict.passed,
        "completion_reason": _overall(verdict.reason, verdict.results, rubrics),
        "timed_out": verdict.timed_out,
        "scorers": [_result_form(r, rubrics) for r in verdict.results],
    }


def _result_form(result: ScorerVerdict, rubrics: set[str]) -> dict[str, Any]:
    form: dict[str, Any] = {"scorer_id": result.scorer_id, "scorer_name": result.scorer_name, "status": result.status}
    if result.status in {"passed", "failed"}:
        form |= {"score": result.score, "reason": _reason(result, rubrics)}
    return form


def _reason(result: ScorerVerdict, rubrics: set[str]) -> Any:
    if result.status == "errored":
        return ERRORED
    return read_reason(result.result) if result.result and result.scorer_id in rubrics else result.reason


def _overall(reason: str | None, results: Iterable[ScorerVerdict], rubrics: set[str]) -> Any:
    return next((_reason(r, rubrics) for r in results if r.reason == reason), reason)


def error_form(error: Exception) -> dict[str, Any]:
    """Return what of an error is compared: its status. Words and classes are not."""
    return {"status": getattr(error, "status", None)}


def usage_form(usage: Any) -> dict[str, int]:
    """Return the tokens of a run's own model calls."""
    own: Mapping[str, Any] = usage.by if usage is not None else {}
    spent = [tokens for owner, tokens in own.items() if owner == "agent:agent-1"]
    return {
        "input_tokens": sum(t.input_tokens for t in spent),
        "output_tokens": sum(t.output_tokens for t in spent),
        "total_tokens": sum(t.total_tokens for t in spent),
    }

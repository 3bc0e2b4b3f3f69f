"""Runs in the agent's shape: what ``type="agent"`` scorers see, also where a run is given by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, cast

from mastra_py.errors import UserError
from mastra_py.messages import Message, MessageLike, last_user_text, load_messages
from mastra_py.scoring import AgentRunInput, AgentRunOutput, ScorerRun


def as_agent_run(scorer_id: str, run: ScorerRun[Any, Any]) -> ScorerRun[AgentRunInput, AgentRunOutput]:
    """Return ``run`` in the agent's shape.

    A plain text stands for one message of the user, or of the assistant; messages stand for themselves; nothing for no
    messages.

    Raises:
        UserError: input or output is something else.
    """
    given, answered = run.input, run.output
    if isinstance(given, AgentRunInput) and isinstance(answered, AgentRunOutput):
        return run
    if not isinstance(given, AgentRunInput):
        messages = _messages(scorer_id, "input", "user", given)
        given = AgentRunInput(input_messages=messages, task=last_user_text(messages))
    if not isinstance(answered, AgentRunOutput):
        answered = AgentRunOutput(_messages(scorer_id, "output", "assistant", answered))
    return replace(run, input=given, output=answered)


def _messages(
    scorer_id: str, field: Literal["input", "output"], role: Literal["user", "assistant"], value: object
) -> tuple[Message, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return (Message(role, value),)
    if not isinstance(value, list | tuple):
        kind = type(value).__name__
        msg = f"scorer {scorer_id!r} has type='agent': its {field} must be an agent's messages or a text, got {kind}"
        raise UserError(msg)
    try:
        return tuple(load_messages(cast("list[MessageLike]", value)))
    except UserError as exc:
        msg = f"scorer {scorer_id!r} has type='agent': its {field}: {exc}"
        raise UserError(msg) from exc

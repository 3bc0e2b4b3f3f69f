"""Supervisors and sub-agents that play scripts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from mastra_py import Agent, AgentResult
from mastra_py.events import AgentEvent, SubAgentEvent
from mastra_py.messages import Message, ToolResultPart, dump_messages, load_messages
from mastra_py.testing import FunctionModel, ScriptedModel, Turn


def scripted(id: str, *turns: Any, **options: Any) -> Agent:
    """Return an agent that plays these turns; its system prompt names it."""
    return Agent(**{"id": id, "model": ScriptedModel(turns, id=id), "instructions": f"You are {id}.", **options})


def asking(*calls: tuple[str, str], call_id: str = "c", **more: Any) -> Turn:
    """Return a turn that delegates ``(key, prompt)`` each; the calls are ``c1``, ``c2``, ..."""
    made = [(f"{call_id}{i}", f"agent-{key}", {"prompt": prompt, **more}) for i, (key, prompt) in enumerate(calls, 1)]
    return Turn(tool_calls=made)


def supervisor(turn: Any, *agents: Agent, then: Iterable[Any] = ("done",), **options: Any) -> Agent:
    """Return a supervisor of ``agents`` by their ids that plays ``turn`` and what follows."""
    return scripted("boss", turn, *then, agents={agent.id: agent for agent in agents}, **options)


def model_of(agent: Agent) -> ScriptedModel | FunctionModel:
    """Return the double that the agent has as its model."""
    return cast("ScriptedModel", agent.model)


def results(result: AgentResult[Any], step: int = 1) -> list[ToolResultPart]:
    """Return the results of the tools of a step."""
    return list(result.steps[step - 1].tool_results)


def told(result: AgentResult[Any], step: int = 1) -> list[tuple[bool, Any]]:
    """Return what the model was told by each tool of a step, and whether that is an error."""
    return [(part.is_error, part.result) for part in results(result, step)]


def nested(events: Iterable[AgentEvent], agent_id: str | None = None) -> list[SubAgentEvent]:
    """Return the events of sub-agents, or of one of them."""
    return [e for e in events if isinstance(e, SubAgentEvent) and agent_id in {None, e.agent_id}]


def is_valid(messages: Iterable[Message]) -> None:
    """Check that a conversation can be stored and sent: it is JSON, and every call has one result right after it."""
    conversation = list(messages)
    assert load_messages(dump_messages(conversation)) == conversation
    for message, following in zip(conversation, [*conversation[1:], None], strict=True):
        calls = [part.tool_call_id for part in message.parts if part.type == "tool-call"]
        if calls:
            assert following is not None
            assert [part.tool_call_id for part in following.parts if part.type == "tool-result"] == calls

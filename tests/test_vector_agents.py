"""How vectors with sub-agents are read: what of them binds, and what a rule says instead."""

from __future__ import annotations

from typing import Any

import pytest
from support.vector_agents import outputs_first
from support.vector_suite import run_vector

Facts = dict[str, Any]

BACKENDS = ("asyncio", "trio")
CALLED = ["tool-call-input-streaming-start", "tool-call-delta", "tool-call-input-streaming-end", "tool-call"]
SPOKEN = ["text-start", "text-delta", "text-end"]


def call(name: str, id: str = "c1", **args: Any) -> Facts:
    return {"id": id, "name": name, "args": args}


def vector(expect: Facts, *calls: Facts, sub_agents: list[Facts], **given: Any) -> Facts:
    """Return a vector of a supervisor that calls and then says ``report``."""
    turns = [{"tool_calls": list(calls)}, {"text": "report"}]
    whole = {"prompt": "do it", "model_turns": turns, "scorers": [], "sub_agents": sub_agents, **given}
    return {"name": "completion/own", "kind": "completion", "given": whole, "expect": expect}


def sub_agent(id: str, *turns: Facts, **more: Any) -> Facts:
    return {"id": id, "description": f"The {id}.", "model_turns": list(turns), **more}


def types(outputs: int, *answers: str, calls: int = 1) -> list[str]:
    step = ["start", "step-start", *CALLED * calls, *["tool-output"] * outputs, *answers, "step-finish"]
    return [*step, "step-start", *SPOKEN, "step-finish", "finish"]


RESULT = {"text": "a fact", "sub_agent_thread_id": "t", "sub_agent_resource_id": "r"}
WRITER = sub_agent("writer", {"text": "a fact"})
DELEGATED: Facts = {
    "final_text": "report",
    "chunk_types": types(7, "tool-result"),
    "tool_chunks": [
        {"type": "tool-call", "tool_name": "agent-writer", "args": {"prompt": "find"}},
        {"type": "tool-result", "tool_name": "agent-writer", "result": RESULT},
    ],
    "sub_agent_calls": {"writer": 1},
    "sub_agent_prompts": {
        "writer": [
            [
                {"role": "system", "text": "You are writer"},
                {"role": "system", "text": "Be helpful"},
                {"role": "user", "text": "do it"},
                {"role": "user", "text": "find"},
            ]
        ]
    },
    "tools_offered": [
        {"name": "agent-writer", "description": "The writer.", "input_properties": ["prompt"], "required": ["prompt"]}
    ],
}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_delegation_departs_by_d15_alone(backend: str) -> None:
    outcome = run_vector(vector(DELEGATED, call("agent-writer", prompt="find"), sub_agents=[WRITER]), backend)
    assert (outcome.ok, outcome.rule, outcome.unread) == (True, "D15", ()), outcome.line()


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("final_text", "another"),
        ("chunk_types", types(6, "tool-result")),
        ("sub_agent_calls", {"writer": 2}),
        ("tool_chunks", DELEGATED["tool_chunks"][:1]),
        ("tools_offered", [{**DELEGATED["tools_offered"][0], "description": "Another."}]),
        ("tools_offered", [{**DELEGATED["tools_offered"][0], "required": []}]),
    ],
)
def test_what_a_delegation_has_to_come_to_binds(name: str, wrong: Any) -> None:
    expect = {**DELEGATED, name: wrong}
    outcome = run_vector(vector(expect, call("agent-writer", prompt="find"), sub_agents=[WRITER]), "asyncio")
    assert outcome.ok is False


@pytest.mark.parametrize("backend", BACKENDS)
def test_keys_other_than_ids_parallel_calls_delays_and_further_turns_are_read(backend: str) -> None:
    slow = sub_agent("id1", {"text": "one", "delay_ms": 100}, {"text_chunks": ["t", "wo"]}, key="slow")
    calls = [
        call("agent-slow", prompt="1"),
        call("agent-quick", "c2", prompt="2"),
        call("agent-slow", "c3", prompt="3"),
    ]
    results = ["tool-result"] * 3
    expect = {
        "final_text": "report",
        "chunk_types": types(7 + 7 + 8, *results, calls=3),
        "sub_agent_calls": {"id1": 2, "id2": 1},
    }
    quick = sub_agent("id2", {"text": "q"}, key="quick")
    outcome = run_vector(vector(expect, *calls, sub_agents=[slow, quick]), backend)
    assert outcome.ok, outcome.line()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("turn", "args", "calls"),
    [
        ({"error": {"type": "api_call_error", "status": 500}}, {"prompt": "p"}, 1),
        ({"text": "and th", "finish_reason": "length"}, {"prompt": "p"}, 1),
        ({"tool_calls": [call("nothing")]}, {"prompt": "p"}, 5),
        ({"tool_calls": [call("nothing")]}, {"prompt": "p", "max_steps": 2}, 2),
        ({"text": "a fact"}, {}, 0),
        ({"text": "a fact"}, {"prompt": "p", "thread_id": "t"}, 0),
    ],
)
def test_a_delegation_without_an_answer_is_an_error_that_names_the_agent(
    turn: Facts, args: Facts, calls: int, backend: str
) -> None:
    last = [
        {"role": "system", "text": "Be helpful"},
        {"role": "user", "text": "do it"},
        {"role": "assistant", "tool_calls": [call("agent-w", **args)]},
        {"role": "tool", "tool_results": [{"name": "agent-w", "output": {"type": "error-text", "value": "failed"}}]},
    ]
    expect = {"final_text": "report", "sub_agent_calls": {"id1": calls}, "last_prompt": last}
    made = vector(expect, call("agent-w", **args), sub_agents=[sub_agent("id1", turn, key="w")])
    outcome = run_vector(made, backend)
    assert outcome.ok, outcome.line()
    assert outcome.rule is None or {"D15", "D20", "D35"} >= set(outcome.rule.split("+"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_abort_ends_the_sub_agents_too(backend: str) -> None:
    hanging = sub_agent("w", {"text": "half", "hang": True})
    expect = {"final_text": "", "sub_agent_calls": {"w": 1}}
    outcome = run_vector(vector(expect, call("agent-w", prompt="p"), sub_agents=[hanging], abort_after_ms=500), backend)
    assert outcome.ok, outcome.line()


def test_a_sub_agent_that_the_notation_does_not_have_fails_the_vector() -> None:
    outcome = run_vector(vector({}, sub_agents=[{**WRITER, "mood": "good"}]), "asyncio")
    assert outcome.ok is False
    assert "unknown" in str(outcome.error)


def test_events_at_once_are_put_in_order() -> None:
    mixed = ["tool-call", "tool-output", "tool-result", "tool-output", "tool-error", "step-finish", "tool-output"]
    assert outputs_first(mixed) == [
        "tool-call",
        "tool-output",
        "tool-output",
        "tool-result",
        "tool-error",
        "step-finish",
        "tool-output",
    ]

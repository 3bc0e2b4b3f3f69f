"""Wrong use fails before anything is sent, naming the thing."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mastra_py import Agent, FeedbackPart, Message, UserError, create_scorer, tool
from mastra_py.testing import ScriptedModel


@tool
def lookup(q: str) -> str:
    """Look it up."""
    return q


def agent(**options: Any) -> Agent:
    return Agent(id="writer", model=ScriptedModel(["never"]), **options)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"max_steps": -1}, "max_steps must be a whole number from 1, got -1"),
        ({"max_steps": 0}, "max_steps"),
        ({"max_steps": 2.5}, "max_steps"),
        ({"max_steps": True}, "max_steps"),
        ({"maxsteps": 3}, "no option 'maxsteps'; did you mean 'max_steps'?"),
        ({"wholly_unknown": 3}, "no option 'wholly_unknown'; known are"),
        ({"tool_concurrency": 0}, "tool_concurrency"),
        ({"max_processor_retries": -1}, "max_processor_retries"),
        ({"active_tools": ["nope"]}, "active_tools names 'nope', which is none of its tools: lookup"),
        ({"active_tools": "lookup"}, "active_tools must be a sequence"),
        ({"tool_choice": "nope"}, "tool_choice names 'nope'"),
        ({"tool_choice": 3}, "tool_choice"),
        ({"tools": [lookup]}, "'lookup'"),
        ({"tools": [3]}, "3"),
        ({"request_context": 3}, "request_context must be a Mapping"),
        ({"model_settings": {"temprature": 1}}, "unknown model setting 'temprature'"),
        ({"model_settings": {"temperature": -1}}, "temperature must be a finite number from 0"),
        ({"is_task_complete": 3}, "3 is no scorer"),
        ({"is_task_complete": create_scorer("bare")}, "'bare' has no generate_score"),
        ({"messages": "hello"}, "messages must be a sequence"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0]"),
        ({"messages": [3]}, "messages[0] is a int"),
        ({"messages": 5}, "messages must be a sequence"),
        ({"tools": 5}, "tools must be a list of tools"),
        ({"tools": lookup}, "write tools=[lookup]"),
        ({"active_tools": 5}, "active_tools must be a sequence"),
        ({"stop_when": 5}, "stop_when must be a function"),
        ({"stop_when": [5]}, "stop_when must be a function"),
        ({"on_step": 5}, "on_step must be a function"),
        ({"instructions": 5}, "instructions must be a text"),
        ({"model_settings": 5}, "model_settings must be ModelSettings"),
        ({"model_settings": {"temperature": "hot"}}, "temperature must be a finite number"),
        ({"run_id": 5}, "run_id must be a text"),
    ],
)
def test_a_wrong_option_is_raised_by_the_call_of_stream(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=re.escape(complaint)):
        agent(tools=[lookup]).stream("go", **options)


async def test_generate_raises_the_same() -> None:
    with pytest.raises(UserError, match="max_steps"):
        await agent().generate("go", max_steps=-1)


@pytest.mark.parametrize(
    ("prompt", "messages", "complaint"),
    [
        (None, (), "nothing to answer"),
        ("", (), "the prompt is empty"),
        ("  \n", (), "the prompt is empty"),
        (3, (), "a text or a Message, got int"),
        (None, [Message("system", "a")], "has system messages only"),
        (None, [Message("user", "a"), Message("assistant", "b"), Message("user", " \n")], "ends with an empty message"),
        (None, [Message("user", [FeedbackPart("")])], "ends with an empty message"),
        (None, [Message("user", [])], "ends with an empty message"),
    ],
)
def test_there_must_be_something_to_answer(prompt: Any, messages: Any, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        agent().stream(prompt, messages=messages)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"id": " "}, "not blank"),
        ({"model": "gpt-5"}, "gpt-5"),
        ({"model": "acme/large"}, "acme"),
        ({"model": 3}, "got int"),
        ({"tools": [lookup, lookup]}, "lookup"),
        ({"defaults": {"max_stps": 3}}, "did you mean 'max_steps'"),
        ({"defaults": {"max_steps": -1}}, "defaults: max_steps must be a whole number"),
        ({"defaults": [1]}, "defaults must be a dict"),
        ({"tools": lookup}, "write tools=[lookup]"),
        ({"max_processor_retries": -1}, "max_processor_retries"),
    ],
)
def test_a_wrong_agent_is_refused_at_construction(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=re.escape(complaint)):
        Agent(**{"id": "writer", "model": ScriptedModel([]), **options})


def test_a_tool_that_depends_on_the_context_is_checked_when_it_is_known() -> None:
    agent(tools=lambda context: [lookup]).stream("go", active_tools=["lookup"])


async def test_a_wrong_name_among_dynamic_tools_fails_the_run_before_a_request() -> None:
    with pytest.raises(UserError, match="active_tools names 'nope'"):
        await agent(tools=lambda context: [lookup]).generate("go", active_tools=["nope"])


async def test_none_stands_for_an_option_that_is_not_given() -> None:
    names = ("tools", "active_tools", "stop_when", "on_step", "instructions", "model_settings", "max_steps")
    with ScriptedModel(["done"]) as model:
        writer = Agent(id="writer", model=model, tools=None, instructions="Write.", max_processor_retries=2)  # type: ignore[arg-type]
        await writer.generate("go", messages=None, **dict.fromkeys(names))  # type: ignore[arg-type]
    assert model.requests[0].system == "Write."


async def test_settings_and_tools_of_the_agent_its_defaults_and_the_call_come_together() -> None:
    def other() -> None:
        """Other."""

    def third() -> None:
        """Third."""

    with ScriptedModel(["done"]) as model:
        writer = Agent(
            id="writer",
            model=model,
            tools=[lookup],
            model_settings={"temperature": 1, "seed": 1},
            defaults={"tools": [other], "model_settings": {"seed": 2, "top_p": 0.5}},
        )
        await writer.generate("go", tools=[third], model_settings={"top_p": 0.9})
    (request,) = model.requests
    assert [t.name for t in request.tools] == ["lookup", "other", "third"]
    assert (request.settings.temperature, request.settings.seed, request.settings.top_p) == (1, 2, 0.9)


@pytest.mark.parametrize("answer", [5, ["a"]])
async def test_instructions_that_come_out_as_no_text_are_named(answer: Any) -> None:
    with pytest.raises(UserError, match="instructions of agent 'writer'"):
        await agent(instructions=lambda context: answer).generate("go")


@pytest.mark.parametrize(
    "settings",
    [
        {"max_output_tokens": 0},
        {"max_output_tokens": 1.5},
        {"top_p": 3},
        {"seed": "x"},
        {"stop": 5},
        {"extra_body": 5},
        {"extra_headers": 3},
        {"temperature": True},
        {"timeout": float("inf")},
    ],
)
def test_a_setting_out_of_its_range_is_named(settings: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=f"model setting {next(iter(settings))} must be"):
        agent(model_settings=settings)


def test_a_message_of_no_known_role_is_refused() -> None:
    with pytest.raises(UserError, match="got 'robot'"):
        Message("robot", "x")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="got 5"):
        Message("user", 5)  # type: ignore[arg-type]


async def test_a_tools_function_that_returns_no_list_is_named() -> None:
    with pytest.raises(UserError, match="the tools function of agent 'writer'"):
        await agent(tools=lambda context: "ok").generate("go")

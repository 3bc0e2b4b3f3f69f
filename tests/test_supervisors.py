"""Supervisors: sub-agents as tools, what a sub-agent is given, and what its supervisor gets."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from pydantic import BaseModel
from support.supervising import asking, model_of, results, scripted, supervisor, told

from mastra_py import (
    Agent,
    Budget,
    Delegation,
    DelegationContext,
    DelegationOutcome,
    FeedbackPart,
    LegacyModel,
    Message,
    Price,
    StreamErrorRetryProcessor,
    Tool,
    ToolContext,
    UserError,
)
from mastra_py.messages import ReasoningPart, ToolCallPart, ToolResultPart
from mastra_py.models.profile import ModelProfile
from mastra_py.scoring import ScorerRun
from mastra_py.testing import FunctionModel, ScriptedModel, Turn, api_error

MARKER = "xyzzy-of-the-supervisor"


def lookup(day: str) -> str:
    return f"sunny on {day}"


# --- tools


async def test_the_text_of_a_sub_agent_is_the_result_of_its_tool() -> None:
    boss = supervisor(asking(("writer", "write")), scripted("writer", "a text"))
    result = await boss.generate("go")
    assert (result.text, told(result)) == ("done", [(False, "a text")])


async def test_a_sub_agent_is_offered_as_a_tool_with_its_description_and_one_required_argument() -> None:
    boss = supervisor("hi", scripted("writer", description="Writes."), scripted("bare", name="Bare One"), then=())
    await boss.generate("go")
    writer, bare = model_of(boss).requests[0].tools
    assert (writer.name, writer.description, writer.parameters["required"]) == ("agent-writer", "Writes.", ["prompt"])
    assert "Bare One" in str(bare.description)


LONG = "a" * 79
KEYS = ["Research: EU law", f"{LONG}b", f"{LONG}c", "日本語", "a b", "a_b", "a.b"]


async def test_keys_that_are_no_names_are_mapped_apart_and_back() -> None:
    keys = KEYS
    agents = {key: scripted(f"id{i}", f"from {key}") for i, key in enumerate(keys)}

    def ask_all(request: Any) -> Any:
        if len(request.messages) > 1:
            return "done"
        return Turn(tool_calls=[(f"c{i}", tool.name, {"prompt": "go"}) for i, tool in enumerate(request.tools)])

    boss = Agent(id="boss", model=FunctionModel(ask_all), agents=agents)
    result = await boss.generate("go")
    names = [tool.name for tool in model_of(boss).requests[0].tools]
    assert len(set(names)) == len(keys)
    assert all(
        len(name) <= 64 and name.replace("-", "").replace("_", "").isalnum() and name.isascii() for name in names
    )
    assert told(result) == [(False, f"from {key}") for key in keys]


@pytest.mark.parametrize("tools_of", ["agent", "defaults"])
def test_a_sub_agent_and_a_tool_of_one_name_are_refused_when_the_agent_is_made(tools_of: str) -> None:
    clash = Tool(name="agent-writer", description="", run=lookup)
    options: Any = {"tools": [clash]} if tools_of == "agent" else {"defaults": {"tools": [clash]}}
    with pytest.raises(UserError, match=r"'boss'.*agent-writer"):
        scripted("boss", agents={"writer": scripted("writer")}, **options)


def test_a_tool_of_the_call_that_has_a_sub_agents_name_is_refused_by_the_call() -> None:
    boss = scripted("boss", agents={"writer": scripted("writer")})
    with pytest.raises(UserError, match="agent-writer"):
        boss.stream("go", tools=[Tool(name="agent-writer", description="", run=lookup)])


@pytest.mark.parametrize(
    "agents", [[scripted("a")], {"": scripted("a")}, {" ": scripted("a")}, {"a": "agent"}, {1: 2}, [], "", 0]
)
def test_agents_that_are_none_are_refused(agents: Any) -> None:
    with pytest.raises(UserError, match="boss"):
        scripted("boss", agents=agents)


async def test_a_supervisor_always_reads_something_about_a_sub_agent() -> None:
    with pytest.raises(UserError, match="'writer': description must be a text, got None"):
        scripted("writer", description=None)
    boss = supervisor("done", scripted("writer", description=" ", name="Writer"))
    await boss.generate("go")
    assert "Writer" in (model_of(boss).requests[0].tools[0].description or "")


async def test_agents_are_looked_through_once_however_many_ways_lead_to_them() -> None:
    class Checked(ScriptedModel):
        checks = 0

        def check(self) -> None:
            self.checks += 1

    model = Checked(["done"])
    agent = Agent(id="bottom", model=model)
    for level in range(40):  # 2 ** 40 ways from the top to the bottom
        agent = scripted(f"level-{level}", "done", agents={"left": agent, "right": agent})
    price = Price(input=1, output=1)
    prices = {f"test/level-{level}": price for level in range(40)} | {"test/scripted": price}
    await agent.generate("go", budget=Budget(max_cost=1.0, prices=prices))
    assert model.checks == 1


def test_what_is_missing_for_an_agent_further_down_is_told_with_its_name_before_anything_is_sent() -> None:
    class Keyless(ScriptedModel):
        def check(self) -> None:
            msg = "no API key"
            raise UserError(msg)

    boss = supervisor("hi", scripted("middle", agents={"low": Agent(id="low", model=Keyless([]))}))
    with pytest.raises(UserError, match="agent 'low': no API key"):
        boss.stream("go")


async def test_an_unknown_agent_is_answered_with_the_tools_that_exist() -> None:
    boss = supervisor(asking(("painter", "paint")), scripted("writer"), tools=[lookup])
    [(is_error, text)] = told(await boss.generate("go"))
    assert is_error
    assert all(name in text for name in ("agent-painter", "agent-writer", "lookup"))


@pytest.mark.parametrize(
    "args", [{}, {"prompt": ""}, {"prompt": " \n"}, {"prompt": 5}, {"prompt": "p", "max_steps": 0}]
)
async def test_arguments_that_do_not_fit_are_for_the_model_to_read(args: dict[str, Any]) -> None:
    writer = scripted("writer")
    boss = supervisor(Turn(tool_calls=[("c1", "agent-writer", args)]), writer)
    result = await boss.generate("go")
    [(is_error, text)] = told(result)
    assert (is_error, result.text, model_of(writer).calls) == (True, "done", 0)
    assert "agent-writer" in text


# --- what a sub-agent sees


async def test_a_sub_agent_sees_its_own_instructions_and_its_task_only() -> None:
    writer = scripted("writer", Turn(tool_calls=[("l", "lookup", {"day": "Monday"})]), "a text", tools=[lookup])
    boss = supervisor(
        Turn(tool_calls=[("t", "lookup", {"day": MARKER}), ("c1", "agent-writer", {"prompt": "write"})]),
        writer,
        instructions=f"Secret {MARKER}.",
        tools=[lookup],
    )
    await boss.generate(f"Do it, {MARKER}")
    assert model_of(writer).prompts[0] == [Message("system", "You are writer."), Message("user", "write")]
    assert all(MARKER not in repr(request) for request in model_of(writer).requests)
    assert [tool.name for tool in model_of(writer).requests[0].tools] == ["lookup"]


async def test_a_message_filter_lets_more_through_but_no_tool_parts_and_no_system_messages() -> None:
    seen: list[DelegationContext] = []

    def everything(ctx: DelegationContext) -> Any:
        seen.append(ctx)
        return [
            Message("system", "secret"),
            *ctx.messages,
            Message("user", [FeedbackPart("do better")]),
            Message("assistant", [ReasoningPart("hm"), ToolCallPart("x", "lookup", {})]),
        ]

    writer = scripted("writer", "a text")
    boss = supervisor(
        Turn(text="first", tool_calls=[("t", "lookup", {"day": "Monday"})]),
        writer,
        then=[asking(("writer", "write")), "done"],
        tools=[lookup],
        instructions=MARKER,
    )
    await boss.generate("the user's words", delegation=Delegation(message_filter=everything))
    said = [(m.role, [type(p).__name__ for p in m.parts], m.text) for m in model_of(writer).prompts[0]]
    assert said == [
        ("system", ["TextPart"], "You are writer."),
        ("user", ["TextPart"], "the user's words"),
        ("assistant", ["TextPart"], "first"),
        ("user", ["FeedbackPart"], model_of(writer).prompts[0][3].text),
        ("user", ["TextPart"], "write"),
    ]
    assert MARKER not in repr(seen[0].messages)
    assert any(isinstance(part, ToolResultPart) for message in seen[0].messages for part in message.parts)


@pytest.mark.parametrize("answer", ["text", None, ["text"], [{"role": "user"}]])
async def test_a_message_filter_that_returns_no_messages_ends_the_run_loudly(answer: Any) -> None:
    writer = scripted("writer")
    boss = supervisor(asking(("writer", "write")), writer)
    with pytest.raises(UserError, match=r"message_filter of .*writer"):
        await boss.generate("go", delegation=Delegation(message_filter=lambda _: answer))
    assert model_of(writer).calls == 0


async def test_an_async_message_filter_is_awaited_and_one_that_raises_prevents_the_delegation(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def some(ctx: DelegationContext) -> Any:
        if ctx.prompt == "bad":
            raise ValueError(MARKER)
        return [Message("user", "before")]

    writer = scripted("writer", "a text")
    boss = supervisor(asking(("writer", "bad"), ("writer", "good")), writer)
    with caplog.at_level(logging.CRITICAL, "mastra_py"):
        result = await boss.generate("go", delegation=Delegation(message_filter=some))
    (bad, text), good = told(result)
    assert (bad, good) == (True, (False, "a text"))
    assert "writer" in text
    assert MARKER not in text
    assert [m.text for m in model_of(writer).prompts[0]] == ["You are writer.", "before", "good"]


async def test_the_request_context_is_copied_without_what_belongs_to_the_supervisors_run() -> None:
    contexts: list[Any] = []

    async def change(ctx: ToolContext) -> str:
        contexts.append(ctx.request_context)
        ctx.request_context["tenant"] = "changed"
        return "ok"

    child = scripted("writer", Turn(tool_calls=[("t", "change", {})]), "text", tools=[change])
    boss = supervisor(asking(("writer", "write")), child)
    context = {"tenant": "acme", "rubric": "must be good", "run_id": "r", "thread": "t", "resource": "u"}
    await boss.generate("go", request_context=context)
    assert contexts == [{"tenant": "changed"}]
    assert context["tenant"] == "acme"


async def test_a_request_context_that_is_no_mapping_is_passed_on() -> None:
    class Context:
        def get(self, key: str) -> str:
            return "acme"

    given, seen = Context(), list[Any]()
    child = scripted("writer", "text", instructions=lambda context: seen.append(context) or "hi")
    await supervisor(asking(("writer", "write")), child).generate("go", request_context=given)
    assert seen == [given]


async def test_without_a_request_context_a_sub_agents_own_default_holds() -> None:
    seen: list[Any] = []
    child = scripted(
        "writer", "text", instructions=lambda c: seen.append(c) or "hi", defaults={"request_context": {"tenant": "own"}}
    )
    await supervisor(asking(("writer", "write")), child).generate("go")
    assert seen == [{"tenant": "own"}]


# --- what a sub-agent is


class Facts(BaseModel):
    facts: list[str]


async def test_a_sub_agent_may_answer_with_an_object() -> None:
    told_of: list[DelegationOutcome] = []
    child = scripted("writer", '{"facts": ["wet"]}')
    boss = supervisor(asking(("writer", "write")), child)
    rules = Delegation(output={"writer": Facts}, on_complete=told_of.append)
    result = await boss.generate("go", delegation=rules)
    assert told(result) == [(False, {"facts": ["wet"]})]
    assert told_of[0].result is not None
    assert told_of[0].result.output == Facts(facts=["wet"])


def test_an_output_for_an_agent_that_does_not_exist_is_refused() -> None:
    boss = supervisor("hi", scripted("writer"))
    rules = Delegation(output={"painter": Facts})
    with pytest.raises(UserError, match=r"'painter'.*writer"):
        boss.stream("go", delegation=rules)
    with pytest.raises(UserError, match=r"'painter'.*writer"):
        supervisor("hi", scripted("writer"), defaults={"delegation": rules})


async def test_the_form_of_the_supervisors_own_answer_is_nothing_for_a_sub_agent() -> None:
    in_words = ScriptedModel([asking(("writer", "write")), '{"facts": []}'], profile=ModelProfile(native_output=False))
    writer = scripted("writer", "a text")
    boss = Agent(id="boss", model=in_words, agents={"writer": writer})
    rules = Delegation(message_filter=lambda ctx: ctx.messages)
    await boss.generate("go", output=Facts, delegation=rules)
    assert "facts" in in_words.prompts[0][-1].text
    assert list(model_of(writer).requests[0].messages) == [Message("user", "go"), Message("user", "write")]


async def test_a_legacy_model_may_be_a_sub_agents() -> None:
    child = Agent(id="old", model=LegacyModel(lambda prompt: f"completed {prompt.strip()[-5:]}"))
    result = await supervisor(asking(("old", "write")), child).generate("go")
    assert told(result) == [(False, "completed write")]


async def test_a_sub_agent_has_its_own_gate_retries_tools_and_sub_agents() -> None:
    grandchild = scripted("helper", "helped")
    child = scripted(
        "writer",
        Turn(error=api_error(500)),
        Turn(tool_calls=[("t", "lookup", {"day": "Monday"}), ("h", "agent-helper", {"prompt": "help"})]),
        "draft",
        "final",
        tools=[lookup],
        agents={"helper": grandchild},
        error_processors=[StreamErrorRetryProcessor()],
        defaults={"is_task_complete": [is_final]},
    )
    result = await supervisor(asking(("writer", "write")), child).generate("go")
    assert told(result) == [(False, "final")]
    assert model_of(child).calls == 4
    assert model_of(grandchild).prompts == [[Message("system", "You are helper."), Message("user", "help")]]


def is_final(run: ScorerRun[Any, Any]) -> bool:
    return run.output == "final"


async def test_the_gate_of_the_supervisor_judges_the_supervisor_alone() -> None:
    judged: list[Any] = []
    child = scripted("writer", "draft")
    boss = supervisor(asking(("writer", "write")), child)
    result = await boss.generate("go", is_task_complete=[lambda run: judged.append(run.output) or True])
    assert (judged, result.stop_reason) == (["done"], "complete")


async def test_one_agent_may_work_for_two_supervisors_and_itself_at_once() -> None:
    shared = Agent(id="writer", model=FunctionModel(lambda request: f"re: {request.messages[-1].text}"))
    boss = Agent(
        id="boss",
        model=ScriptedModel([asking(("one", "a"), ("two", "b"), ("one", "c")), "done"]),
        agents={"one": shared, "two": shared},
    )
    assert [text for _, text in told(await boss.generate("go"))] == ["re: a", "re: b", "re: c"]
    assert (await shared.generate("d")).text == "re: d"


async def test_delegations_are_noted_in_the_history_as_calls_and_results() -> None:
    boss = supervisor(asking(("writer", "write")), scripted("writer", "a text"))
    result = await boss.generate("go")
    assert [m.role for m in result.messages] == ["user", "assistant", "tool", "assistant"]
    assert [r.tool_name for r in results(result)] == ["agent-writer"]

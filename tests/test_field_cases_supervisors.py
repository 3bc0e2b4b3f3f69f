"""Cases from the field: supervisors and their sub-agents."""

from __future__ import annotations

import json
from typing import Any

from support.chat_reply import chat_reply
from support.http_server import HTTPServer, Request
from support.streams import read_all
from support.wire_field import ANTHROPIC, calls, failing, from_field, model_at, says

from mastra_py import Agent, Judge, PromptStep, Usage, create_scorer
from mastra_py.events import ToolFailed
from mastra_py.testing import ScriptedModel, Turn

EIGHTY = "x" * 79


def asking(*agents: str) -> Turn:
    """Return a turn that delegates to the agents of these keys."""
    return Turn(tool_calls=[(str(n), f"agent-{key}", {"prompt": f"Ask {key}"}) for n, key in enumerate(agents)])


async def test_a37_names_of_sub_agents_are_mapped_to_what_providers_allow_and_back() -> None:
    keys = ["Research: EU law", f"{EIGHTY}a", f"{EIGHTY}b"]
    agents = {key: Agent(id=key, model=ScriptedModel([f"by {key[-1]}"])) for key in keys}

    def reply(request: Request) -> Any:
        if len(server.requests) > 1:
            return chat_reply("Done.")
        names = [tool["function"]["name"] for tool in request.json["tools"]]
        return chat_reply(Turn(tool_calls=[(str(n), name, {"prompt": "go"}) for n, name in enumerate(names)]))

    async with HTTPServer(reply) as server:
        supervisor = Agent(id="s", model=model_at(server), agents=agents)
        result = await supervisor.generate("go")
    names = [tool["function"]["name"] for tool in server.requests[0].json["tools"]]
    assert len(set(names)) == 3
    assert all(len(name) <= 64 and name.isascii() and " " not in name and ":" not in name for name in names)
    told = [part.result for part in result.messages[2].tool_results]
    assert told == ["by w", "by a", "by b"]


async def test_a46_a_supervisors_usage_holds_that_of_its_agents_and_its_judge() -> None:
    spent = (10, 4)
    judge_usage = Usage(input_tokens=7, output_tokens=2)
    judge = ScriptedModel([Turn(text='{"score": 0}', usage=judge_usage), Turn(text='{"score": 1}', usage=judge_usage)])
    scorer = create_scorer(id="checked", judge=Judge(model=judge, instructions="Judge.")).generate_score(
        PromptStep(description="Score it", create_prompt=lambda ctx: ctx.run.output)
    )
    async with (
        HTTPServer(from_field("A46-anthropic-cumulative-usage.sse")) as below,
        HTTPServer(
            calls(("1", "agent-sub", {"prompt": "go"}), usage=spent),
            says("A draft.", usage=spent),
            says("Good.", usage=spent),
        ) as above,
    ):
        sub = Agent(id="sub", model=model_at(below, ANTHROPIC))
        supervisor = Agent(id="boss", model=model_at(above), agents={"sub": sub})
        result = await supervisor.generate("go", is_task_complete=scorer)
    by = {key: (usage.input_tokens, usage.output_tokens) for key, usage in result.usage.by.items()}
    # What the sub-agent's reply reports grows with each of its events: the last value counts.
    assert by == {"agent:boss": (30, 12), "agent:sub": (126, 40), "judge:checked": (14, 4)}
    assert (result.usage.input_tokens, result.usage.output_tokens) == (170, 56)
    assert result.usage.requests == len(above.requests) + len(below.requests) + judge.calls == 6


async def test_a47_a_sub_agent_that_fails_costs_its_siblings_nothing() -> None:
    async with HTTPServer(failing(500, {"error": {"message": "Traceback: secret of the provider"}})) as server:
        agents = {
            "bad": Agent(id="bad", model=model_at(server)),
            "good": Agent(id="good", model=ScriptedModel(["fine"])),
        }
        script = ScriptedModel([asking("bad", "good"), "I know."])
        events, result = await read_all(Agent(id="s", model=script, agents=agents))
    bad, good = result.messages[2].tool_results
    assert (bad.is_error, bad.result) == (True, "agent 'bad' failed: server")
    assert (good.is_error, good.result) == (False, "fine")
    assert result.text == "I know."
    assert [e.tool_name for e in events if isinstance(e, ToolFailed)] == ["agent-bad"]


async def test_a48_a_sub_agent_sees_its_task_and_nothing_of_its_supervisor() -> None:
    unknown = calls(("1", "agent-other", {"prompt": "x"}))
    async with HTTPServer(unknown, says("I have no such tool.")) as server:
        sub = Agent(id="sub", instructions="Be brief.", model=model_at(server))
        script = ScriptedModel([asking("sub"), "Done."])
        supervisor = Agent(id="s", instructions="The marker is XYZZY.", model=script, agents={"sub": sub})
        await supervisor.generate("Do XYZZY")
    first, second = server.requests
    assert all("XYZZY" not in request.body.decode() for request in server.requests)
    assert [(m["role"], m["content"]) for m in first.json["messages"]] == [
        ("system", "Be brief."),
        ("user", "Ask sub"),
    ]
    assert "tools that exist: none" in json.dumps(second.json["messages"][-1])

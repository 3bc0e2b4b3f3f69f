"""The loop: steps, tools, options, what comes back."""

from __future__ import annotations

import anyio
import pytest
from support.streams import read_all, types

from mastra_py import (
    Agent,
    Message,
    StepResult,
    TaskCompletion,
    ToolError,
    UserError,
    dump_messages,
    has_tool_call,
    load_messages,
    tool,
)
from mastra_py.events import ToolFailed, ToolResult
from mastra_py.messages import ToolCallPart, ToolResultPart, Usage
from mastra_py.testing import FunctionModel, ScriptedModel, Turn


@tool
def lookup(q: str) -> dict[str, int]:
    """Look something up."""
    return {"answer": 42}


CALL = Turn(tool_calls=[("c1", "lookup", {"q": "x"})])


async def test_a_plain_answer_streams_its_text_and_ends_as_answered() -> None:
    with ScriptedModel([Turn(text_chunks=["hel", "lo"])]) as model:
        events, result = await read_all(Agent(id="a", model=model, instructions="Be helpful"))
    assert types(events) == [
        "start", "step-start", "text-start", "text-delta", "text-end", "model-finish", "step-finish", "finish",
    ]  # fmt: skip
    assert (result.text, result.stop_reason, result.finish_reason) == ("hello", "answered", "stop")
    assert (result.usage.input_tokens, result.usage.output_tokens, result.usage.requests) == (1, 1, 1)
    assert [[(m.role, m.text) for m in prompt] for prompt in model.prompts] == [
        [("system", "Be helpful"), ("user", "go")]
    ]
    assert [(m.role, m.text) for m in result.messages] == [("user", "go"), ("assistant", "hello")]
    assert result.new_messages == result.messages


async def test_tools_run_between_steps_and_their_results_reach_the_model() -> None:
    with ScriptedModel([CALL, "it is 42"]) as model:
        events, result = await read_all(Agent(id="a", model=model, tools=[lookup]))
    assert types(events) == [
        "start", "step-start", "tool-call-input-streaming-start", "tool-call-delta", "tool-call-input-streaming-end",
        "tool-call", "model-finish", "tool-result", "step-finish",
        "step-start", "text-start", "text-delta", "text-end", "model-finish", "step-finish", "finish",
    ]  # fmt: skip
    assert [m.role for m in result.messages] == ["user", "assistant", "tool", "assistant"]
    assert model.prompts[1][-1].tool_results == (ToolResultPart("c1", "lookup", {"answer": 42}),)
    assert [s.step for s in result.steps] == [1, 2]
    assert result.usage.total_tokens == 4


async def test_results_stand_in_call_order_whatever_finishes_first() -> None:
    second_done = anyio.Event()

    async def slow() -> str:
        await second_done.wait()
        return "slow"

    async def fast() -> str:
        second_done.set()
        return "fast"

    with ScriptedModel([Turn(tool_calls=[("1", "slow", {}), ("2", "fast", {})]), "done"]) as model:
        with anyio.fail_after(5):
            events, result = await read_all(Agent(id="a", model=model, tools=[slow, fast]))
    assert [e.result for e in events if isinstance(e, ToolResult)] == ["slow", "fast"]
    assert [r.result for r in result.steps[0].tool_results] == ["slow", "fast"]


async def test_a_tool_fault_is_a_result_for_the_model_and_the_loop_goes_on() -> None:
    def boom(q: str) -> str:
        raise ValueError("no such thing")

    def refuse(q: str) -> str:
        raise ToolError("ask for something else")

    turn = Turn(
        tool_calls=[
            ("1", "boom", {"q": "x"}),
            ("2", "refuse", {"q": "x"}),
            ("3", "nope", {}),
            ("4", "lookup", {"wrong": 1}),
            ("5", "lookup", '{"q": '),
            ("6", "lookup", {"q": "x"}),
        ]
    )
    with ScriptedModel([turn, "done"]) as model:
        events, result = await read_all(Agent(id="a", model=model, tools=[boom, refuse, lookup]))
    answers = [e for e in events if isinstance(e, ToolFailed | ToolResult)]
    assert [e.type for e in answers] == ["tool-error"] * 5 + ["tool-result"]
    texts = [r.result for r in result.steps[0].tool_results[:5]]
    assert "no such thing" in texts[0]
    assert texts[1] == "ask for something else"
    assert all(name in texts[2] for name in ("nope", "boom", "refuse", "lookup"))
    assert "lookup" in texts[3]
    assert "q" in texts[3]
    assert "JSON" in texts[4]
    broken = result.messages[1].tool_calls[4]
    assert (broken.args, broken.raw_args) == ({}, '{"q": ')


async def test_max_steps_ends_the_run_with_the_pending_tools_run() -> None:
    model = ScriptedModel([CALL], repeat_last=True)
    _, result = await read_all(Agent(id="a", model=model, tools=[lookup]), max_steps=2)
    assert (result.stop_reason, result.finish_reason, result.text) == ("max_steps", "tool_calls", "")
    assert model.calls == 2
    assert result.messages[-1].role == "tool"


async def test_the_default_is_five_steps() -> None:
    model = ScriptedModel([CALL], repeat_last=True)
    _, result = await read_all(Agent(id="a", model=model, tools=[lookup]))
    assert (model.calls, result.stop_reason) == (5, "max_steps")


async def test_a_turn_with_tool_calls_goes_on_though_the_provider_says_stop() -> None:
    turn = Turn(tool_calls=[("c1", "lookup", {"q": "x"})], finish_reason="stop")
    with ScriptedModel([turn, "done"]) as model:
        _, result = await read_all(Agent(id="a", model=model, tools=[lookup]))
    assert (result.text, result.steps[0].finish_reason) == ("done", "tool_calls")


async def test_on_length_no_tool_of_the_turn_runs_and_the_run_ends() -> None:
    ran: list[str] = []

    def write(q: str) -> None:
        ran.append(q)

    turn = Turn(text="I will", tool_calls=[("c1", "write", {"q": "x"})], finish_reason="length")
    with ScriptedModel([turn]) as model:
        events, result = await read_all(Agent(id="a", model=model, tools=[write]))
    assert (ran, result.stop_reason, result.finish_reason) == ([], "length", "length")
    assert [e.type for e in events if e.type.startswith("tool-e")] == ["tool-error"]
    assert result.messages[-1].tool_results[0].is_error


@pytest.mark.parametrize("reason", ["content_filter", "refusal"])
async def test_a_filtered_or_refused_turn_ends_the_run_with_that_reason(reason: str) -> None:
    with ScriptedModel([Turn(text="I", finish_reason=reason)]) as model:  # type: ignore[arg-type]
        _, result = await read_all(Agent(id="a", model=model))
    assert (result.stop_reason, result.text) == (reason, "I")


async def test_reasoning_is_kept_beside_the_text() -> None:
    with ScriptedModel([Turn(reasoning="thinking", text="hello")]) as model:
        events, result = await read_all(Agent(id="a", model=model))
    assert types(events)[2:5] == ["reasoning-start", "reasoning-delta", "reasoning-end"]
    assert (result.text, result.steps[0].reasoning) == ("hello", "thinking")
    assert [p.type for p in result.messages[-1].parts] == ["reasoning", "text"]


async def test_a_conversation_goes_on_from_an_earlier_one_through_json() -> None:
    with ScriptedModel([CALL, "42", "43"]) as model:
        agent = Agent(id="a", model=model, tools=[lookup])
        first = await agent.generate("go")
        earlier = load_messages(dump_messages(first.messages))
        second = await agent.generate("and then?", messages=earlier)
    assert earlier == list(first.messages)
    assert [m.role for m in model.prompts[2]] == ["user", "assistant", "tool", "assistant", "user"]
    assert [m.text for m in second.new_messages] == ["and then?", "43"]


async def test_messages_may_be_dicts() -> None:
    with ScriptedModel(["ok"]) as model:
        await Agent(id="a", model=model).generate(messages=[{"role": "user", "content": "hi"}])
    assert model.prompts[0] == [Message("user", "hi")]


async def test_instructions_and_tools_may_be_functions_of_the_request_context() -> None:
    async def instructions(context: dict[str, str]) -> str:
        return f"Speak {context['language']}"

    def tools(context: dict[str, str]) -> list[object]:
        return [lookup] if context["language"] == "Korean" else []

    with ScriptedModel(["ok", "ok"]) as model:
        agent = Agent(id="a", model=model, instructions=instructions, tools=tools)  # type: ignore[arg-type]
        await agent.generate("go", request_context={"language": "Korean"})
        await agent.generate("go", request_context={"language": "Danish"})
    assert [r.system for r in model.requests] == ["Speak Korean", "Speak Danish"]
    assert [[t.name for t in r.tools] for r in model.requests] == [["lookup"], []]


async def test_call_options_change_instructions_tools_and_settings_for_one_call() -> None:
    def other() -> str:
        """Another tool."""
        return "x"

    with ScriptedModel(["a", "b"]) as model:
        agent = Agent(id="a", model=model, instructions="one", tools=[lookup], model_settings={"temperature": 0.5})
        await agent.generate(
            "go", instructions="two", tools=[other], active_tools=["other"], model_settings={"seed": 7}
        )
        await agent.generate("go")
    changed, plain = model.requests
    assert (changed.system, [t.name for t in changed.tools]) == ("two", ["other"])
    assert (changed.settings.temperature, changed.settings.seed) == (0.5, 7)
    assert (plain.system, [t.name for t in plain.tools], plain.settings.seed) == ("one", ["lookup"], None)


async def test_agent_defaults_hold_for_every_call_and_a_call_overrides_them() -> None:
    model = ScriptedModel([CALL], repeat_last=True)
    agent = Agent(id="a", model=model, tools=[lookup], defaults={"max_steps": 2})
    assert len((await agent.generate("go")).steps) == 2
    assert len((await agent.generate("go", max_steps=1)).steps) == 1


async def test_a_forced_tool_choice_is_forced_in_the_first_step_only() -> None:
    with ScriptedModel([CALL, "done"]) as model:
        await Agent(id="a", model=model, tools=[lookup]).generate("go", tool_choice="required")
    assert [r.tool_choice for r in model.requests] == ["required", "auto"]


async def test_stop_when_ends_the_run_between_two_steps() -> None:
    model = ScriptedModel([CALL], repeat_last=True)
    _, result = await read_all(Agent(id="a", model=model, tools=[lookup]), stop_when=has_tool_call("lookup"))
    assert (result.stop_reason, model.calls) == ("stop_when", 1)

    async def after_two(steps: list[StepResult]) -> bool:
        return len(steps) == 2

    _, result = await read_all(Agent(id="a", model=model, tools=[lookup]), stop_when=[after_two])
    assert (result.stop_reason, len(result.steps)) == ("stop_when", 2)


async def test_on_step_sees_each_step_and_a_throwing_one_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[int] = []

    def on_step(step: StepResult) -> None:
        seen.append(step.step)
        raise RuntimeError("broken callback")

    with ScriptedModel([CALL, "done"]) as model:
        _, result = await read_all(Agent(id="a", model=model, tools=[lookup]), on_step=on_step)
    assert (seen, result.text) == ([1, 2], "done")
    assert "on_step of agent 'a'" in caplog.text


async def test_an_on_step_that_raises_a_mastra_error_ends_the_run() -> None:
    def on_step(step: StepResult) -> None:
        raise UserError("enough")

    with ScriptedModel(["done"]) as model, pytest.raises(UserError, match="enough"):
        await Agent(id="a", model=model).generate("go", on_step=on_step)


async def test_tools_receive_the_request_context_and_who_calls() -> None:
    from mastra_py import ToolContext

    seen: list[ToolContext] = []

    def spy(ctx: ToolContext) -> None:
        """Spy."""
        seen.append(ctx)

    with ScriptedModel([Turn(tool_calls=[("c9", "spy", {})]), "done"]) as model:
        context = {"user": "kim"}
        await Agent(id="boss", model=model, tools=[spy]).generate("go", request_context=context, run_id="r1")
    ctx = seen[0]
    assert (ctx.tool_call_id, ctx.tool_name, ctx.agent_id, ctx.run_id, ctx.step) == ("c9", "spy", "boss", "r1", 1)
    assert ctx.request_context is context
    assert [m.text for m in ctx.messages] == ["go"]


async def test_generate_and_stream_give_the_same_result() -> None:
    def agent() -> Agent:
        return Agent(id="a", model=ScriptedModel([CALL, "done"]), tools=[lookup])

    _, streamed = await read_all(agent(), run_id="r")
    assert await agent().generate("go", run_id="r") == streamed


async def test_usage_says_who_spent_it() -> None:
    turns = [Turn(text="x", usage=Usage(input_tokens=10, output_tokens=3, cached_input_tokens=4, reasoning_tokens=1))]
    with ScriptedModel(turns) as model:
        result = await Agent(id="a", model=model).generate("go")
    assert dict(result.usage.by) == {"agent:a": turns[0].usage}
    assert (result.usage.total_tokens, result.usage.cached_input_tokens) == (13, 4)


async def test_a_function_model_may_yield_events_itself() -> None:
    from mastra_py.events import ModelFinished, TextDelta, TextEnd, TextStart

    async def events(request: object):
        yield TextStart()
        yield TextDelta("hi")
        yield TextEnd()
        yield ModelFinished(finish_reason="stop")

    _, result = await read_all(Agent(id="a", model=FunctionModel(events)))
    assert result.text == "hi"


async def test_an_empty_turn_is_an_answer() -> None:
    with ScriptedModel([""]) as model:
        _, result = await read_all(Agent(id="a", model=model))
    assert (result.text, result.stop_reason, len(result.messages)) == ("", "answered", 2)


async def test_a_script_that_runs_out_or_is_left_over_fails() -> None:
    with pytest.raises(AssertionError, match="only 1 turns"):
        await Agent(id="a", model=ScriptedModel([CALL]), tools=[lookup]).generate("go")
    with pytest.raises(AssertionError, match="1 of 2 turns were not played"), ScriptedModel(["a", "b"]) as model:
        await Agent(id="a", model=model).generate("go")


async def test_tool_calls_in_the_history_keep_the_text_that_was_no_json() -> None:
    with ScriptedModel([Turn(tool_calls=[("c", "lookup", "nonsense")]), "done"]) as model:
        result = await Agent(id="a", model=model, tools=[lookup]).generate("go")
    assert result.messages[1].tool_calls == (ToolCallPart("c", "lookup", {}, raw_args="nonsense"),)


async def test_misuse_that_is_known_in_the_run_only_leaves_what_the_run_had_come_to() -> None:
    def feedback(_: object) -> str:
        return ""

    usage = Usage(input_tokens=3, output_tokens=2)
    gate = TaskCompletion([lambda _: False], feedback=feedback)
    with pytest.raises(UserError, match="feedback") as caught:
        await Agent(id="a", model=ScriptedModel([Turn(text="A draft", usage=usage)])).generate(
            "go", is_task_complete=gate
        )
    error = caught.value
    assert [message.text for message in error.messages] == ["go", "A draft"]
    assert (len(error.steps), len(error.attempts), error.usage.total_tokens) == (1, 1, 5)

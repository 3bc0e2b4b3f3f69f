"""Cases from the field: what chat completions servers stream, and what is sent back to them."""

from __future__ import annotations

import pytest
from support.http_server import HTTPServer, sse
from support.wire_field import (
    ANTHROPIC,
    CITY,
    EMPTY,
    FILE,
    FINAL,
    RESPONSES,
    SUM,
    Counting,
    Recorder,
    chat,
    choice,
    fragment,
    from_field,
    model_at,
    read_run,
    run_on,
    said_by,
    says,
)

from mastra_py import Agent, ServerError, StreamError, StreamErrorRetryProcessor

DONE = says("All done.")


async def test_a01_a_call_without_index_is_continued_until_a_new_id_starts_another() -> None:
    tools = Recorder()
    one = await run_on("A01-chat-toolcall-no-index.sse", DONE, agent={"tools": [tools.tool("get_weather", CITY)]})
    assert one.calls == [("call_a1", "get_weather", {"city": "Oslo"})]
    assert tools.executed == [("get_weather", {"city": "Oslo"})]
    assert (one.final.text, len(one.requests)) == ("All done.", 2)
    both = chat(
        fragment('{"ci', id="c1", name="get_weather"),
        fragment('ty": "Oslo"}'),
        fragment('{"city": ', id="c2", name="get_weather"),
        fragment('"Bergen"}'),
        choice("tool_calls"),
    )
    two = await run_on(both, DONE, agent={"tools": [tools.tool("get_weather", CITY)]})
    assert [(call_id, args["city"]) for call_id, _, args in two.calls] == [("c1", "Oslo"), ("c2", "Bergen")]


async def test_a02_an_id_in_every_delta_is_one_call_and_its_type_is_set_once() -> None:
    tools = Recorder()
    ran = await run_on("A02-chat-toolcall-id-every-chunk.sse", DONE, agent={"tools": [tools.tool("add", SUM)]})
    assert ran.calls == [("call_b1", "add", {"a": 2, "b": 3})]
    assert tools.executed == [("add", {"a": 2, "b": 3})]
    (sent,) = said_by("assistant", ran.requests[1])[-1]["tool_calls"]
    assert (sent["id"], sent["type"]) == ("call_b1", "function")


async def test_a03_a_name_in_every_delta_is_that_name() -> None:
    tools = Recorder()
    ran = await run_on("A03-chat-toolname-every-chunk.sse", DONE, agent={"tools": [tools.tool("get_weather", CITY)]})
    assert ran.calls == [("call_c1", "get_weather", {"city": "Bergen"})]
    assert tools.executed == [("get_weather", {"city": "Bergen"})]


async def test_a04_an_empty_id_neither_starts_a_call_nor_overwrites_one() -> None:
    tools = Recorder()
    ran = await run_on("A04-chat-toolcall-empty-id-tail.sse", DONE, agent={"tools": [tools.tool("get_weather", CITY)]})
    assert ran.calls == [("call_d1", "get_weather", {"city": "Lima"})]
    assert tools.executed == [("get_weather", {"city": "Lima"})]
    (sent,) = said_by("assistant", ran.requests[1])[-1]["tool_calls"]
    assert (sent["id"], sent["function"]["name"]) == ("call_d1", "get_weather")


@pytest.mark.parametrize("arguments", ["", "  \n"])
async def test_a05_blank_arguments_of_a_tool_without_parameters_are_none_and_go_back_as_an_object(
    arguments: str,
) -> None:
    tools = Recorder()
    reply = chat(fragment(arguments, index=0, id="c1", name="list_open_orders"), choice("tool_calls"))
    ran = await run_on(reply, DONE, agent={"tools": [tools.tool("list_open_orders", EMPTY)]})
    assert tools.executed == [("list_open_orders", {})]
    (sent,) = said_by("assistant", ran.requests[1])[-1]["tool_calls"]
    assert sent["function"]["arguments"] == "{}"
    assert ran.final.text == "All done."


async def test_a07_chunks_without_choices_are_read_for_their_usage_wherever_they_stand() -> None:
    empty = {"choices": [], "prompt_filter_results": []}
    usage = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}}
    reply = chat(empty, choice(content="Hello"), empty, choice(content=" there"), choice("stop"), usage)
    for script in (reply, "A07-chat-empty-choices.sse"):
        ran = await run_on(script)
        assert (ran.final.text, ran.final.finish_reason) == ("Hello there", "stop")
        assert (ran.final.usage.input_tokens, ran.final.usage.output_tokens) == (9, 2)


async def test_a08_calls_run_whatever_the_finish_reason_is_called() -> None:
    tools = Recorder()
    ran = await run_on("A08-chat-finish-stop-with-tools.sse", DONE, agent={"tools": [tools.tool("add", SUM)]})
    assert tools.executed == [("add", {"a": 1, "b": 1})]
    assert [step.finish_reason for step in ran.final.steps] == ["tool_calls", "stop"]


async def test_a09_a_reply_that_breaks_off_is_an_error_with_its_text_and_is_never_scored() -> None:
    scorer = Counting(1)
    ran = await run_on("A09-chat-eof-no-finish.sse", is_task_complete=scorer)
    assert isinstance(ran.failure, StreamError)
    assert (ran.failure.retryable, ran.failure.partial_text) == (True, "The three steps are: 1. Boil wat")
    assert (scorer.runs, len(ran.requests)) == (0, 1)
    retry = {"error_processors": [StreamErrorRetryProcessor()]}
    again = await run_on("A09-chat-eof-no-finish.sse", DONE, agent=retry, is_task_complete=scorer)
    assert (again.final.text, scorer.runs) == ("All done.", 1)
    assert "The three steps" not in str(again.requests[1])


async def test_a10_done_is_the_end_of_a_reply_without_finish_reason() -> None:
    for script in ("A10-chat-done-without-finish.sse", chat(choice(content="Hi."))):
        ran = await run_on(script)
        assert (ran.final.text, ran.final.stop_reason) == ("Hi.", "answered")
        assert ran.final.finish_reason in {"stop", "other"}


async def test_a11_no_tool_of_a_turn_that_was_cut_off_runs_and_the_run_ends() -> None:
    tools = Recorder()
    file = "A11-chat-length-mid-tool.sse"
    whole = chat(fragment('{"path": "a", "content": "b"}', index=0, id="c1", name="write_file"), choice("length"))
    for script in (file, whole):
        ran = await run_on(
            script,
            agent={"tools": [tools.tool("write_file", FILE)]},
            max_steps=10,
            model_settings={"max_output_tokens": 64},
        )
        assert tools.executed == []
        assert (ran.final.stop_reason, ran.final.finish_reason) == ("length", "length")
        assert len(ran.requests) == 1


async def test_a12_an_error_inside_a_reply_is_the_providers_and_no_end_of_the_turn() -> None:
    scorer = Counting(1)
    ran = await run_on("A12-chat-inband-error-after-text.sse", is_task_complete=scorer)
    assert isinstance(ran.failure, ServerError)
    assert (ran.failure.code, ran.failure.partial_text) == ("502", "Here is the first")
    assert "Upstream provider disconnected" in ran.failure.message
    assert scorer.runs == 0
    retry = {"error_processors": [StreamErrorRetryProcessor()]}
    again = await run_on("A12-chat-inband-error-after-text.sse", DONE, agent=retry)
    assert (again.final.text, len(again.requests)) == ("All done.", 2)


async def test_a13_only_line_ends_split_the_stream_and_odd_separators_reach_the_text() -> None:
    odd = "one\u2028two\u2029three\u0085four"
    lines = [
        f'data: {{"choices": [{{"delta": {{"content": "{odd}"}}, "finish_reason": "stop"}}]}}',
        "data: [DONE]",
    ]
    for end in ("\n", "\r", "\r\n"):
        ran = await run_on(sse("".join([f"{line}{end}{end}" for line in lines])))
        assert ran.final.text == odd
    assert (await run_on("A13-chat-unicode-line-separators.sse")).final.text.count("line") == 2


async def test_a14_reasoning_goes_back_to_the_server_that_sent_it_and_to_no_other() -> None:
    tools = [Recorder().tool("get_weather", CITY)]
    thought = "User wants weather. Call the tool."
    async with (
        HTTPServer(from_field("A14-chat-reasoning-content-replay.sse"), DONE) as thinking,
        HTTPServer(DONE) as other,
    ):
        first = await read_run(Agent(id="a", model=model_at(thinking), tools=tools), seen=thinking.requests)
        await read_run(Agent(id="a", model=model_at(other), tools=tools), messages=first.final.messages)
        strange = other.requests[0].json
    assert (first.reasoning, first.final.steps[0].text) == (thought, "")
    (sent,) = said_by("assistant", first.requests[1])
    assert (sent["reasoning_content"], len(sent["tool_calls"])) == (thought, 1)
    assert "reasoning_content" not in str(strange)
    assert thought not in str(strange)


@pytest.mark.parametrize("kind", [ANTHROPIC, RESPONSES])
async def test_a20_ids_of_another_provider_are_mapped_and_stay_distinct(kind: str) -> None:
    tools = [Recorder().tool("get_weather", CITY)]
    async with (
        HTTPServer(from_field("A20-chat-foreign-tool-ids.sse"), DONE) as server,
        HTTPServer(from_field(FINAL[kind])) as other,
    ):
        first = await read_run(Agent(id="a", model=model_at(server), tools=tools))
        for _ in range(2):
            await read_run(Agent(id="b", model=model_at(other, kind), tools=tools), messages=first.final.messages)
        sent, again = [request.json for request in other.requests]
    assert [call_id for call_id, _, _ in first.calls] == ["functions.get_weather:0", "functions.get_weather:1"]
    assert sent == again, "the mapping is the same each time"
    if kind == ANTHROPIC:
        blocks = [block for m in sent["messages"] if isinstance(m["content"], list) for block in m["content"]]
        called = [block["id"] for block in blocks if block["type"] == "tool_use"]
        answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert all(c.isalnum() or c in "_-" for call_id in called for c in call_id)
    else:
        called = [item["call_id"] for item in sent["input"] if item.get("type") == "function_call"]
        answered = [item["call_id"] for item in sent["input"] if item.get("type") == "function_call_output"]
    assert len(set(called)) == 2
    assert called == answered


async def test_a51_a_reply_that_was_filtered_or_refused_ends_the_run_unscored() -> None:
    scorer = Counting(0)
    cases = [
        ("A51-chat-content-filter.sse", "content_filter", "I can tell you that"),
        (chat(choice("content_filter")), "content_filter", ""),
        (chat(choice(refusal="I cannot."), choice("stop")), "refusal", "I cannot."),
    ]
    for script, reason, text in cases:
        ran = await run_on(script, is_task_complete=scorer, max_steps=5)
        assert (ran.final.stop_reason, ran.final.finish_reason) == (reason, reason)
        assert ran.text == text
        assert (scorer.runs, len(ran.requests)) == (0, 1)

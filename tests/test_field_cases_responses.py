"""Cases from the field: OpenAI's Responses API."""

from __future__ import annotations

import json
from typing import Any

from support.http_server import Reply, sse
from support.wire_field import CITY, FILE, FINAL, RESPONSES, SUM, Recorder, run_on

from mastra_py import ServerError, StreamErrorRetryProcessor

DONE = FINAL[RESPONSES]


def response(*events: dict[str, Any]) -> Reply:
    """Return a reply of these events, each named as the API names it."""
    return sse("".join([f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]))


async def test_a22_a_failure_inside_a_reply_has_its_code_and_is_retried() -> None:
    bare = response({"type": "error", "code": "server_error", "message": "Internal failure.", "param": None})
    for script in ("A22-responses-failed-server-error.sse", bare):
        alone = await run_on(script, DONE, kind=RESPONSES)
        assert isinstance(alone.failure, ServerError)
        assert (alone.failure.code, alone.failure.retryable, len(alone.requests)) == ("server_error", True, 1)
        retry = {"error_processors": [StreamErrorRetryProcessor(max_retries=1)]}
        again = await run_on(script, DONE, kind=RESPONSES, agent=retry)
        assert (again.final.text, len(again.requests)) == ("All done.", 2)


async def test_a23_a_half_call_of_a_cut_off_turn_is_neither_run_nor_sent_back() -> None:
    tools = Recorder()
    name = "A23-responses-incomplete-function-call.sse"
    agent = {"tools": [tools.tool("write_file", FILE)]}
    ran = await run_on(name, kind=RESPONSES, agent=agent, max_steps=5)
    assert tools.executed == []
    assert (ran.final.stop_reason, ran.final.finish_reason, len(ran.requests)) == ("length", "length", 1)
    after = await run_on(DONE, kind=RESPONSES, agent=agent, messages=ran.final.messages)
    sent = after.requests[0]["input"]
    assert "lorem ips" not in str(sent)
    for item in sent:
        if item.get("type") == "function_call":
            assert isinstance(json.loads(item["arguments"]), dict)


async def test_a24_items_of_the_stream_count_where_the_end_has_none_and_else_those_of_the_end() -> None:
    tools = Recorder()
    agent = {"tools": [tools.tool("add", SUM)]}
    ran = await run_on("A24-responses-completed-empty-output.sse", DONE, kind=RESPONSES, agent=agent)
    assert ran.calls == [("call_n1", "add", {"a": 4, "b": 5})]
    assert (ran.final.steps[0].text, tools.executed) == ("Adding.", [("add", {"a": 4, "b": 5})])
    said = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant"}
    whole = {**said, "content": [{"type": "output_text", "text": "Only at the end.", "annotations": []}]}
    late = response(
        {"type": "response.created", "response": {"id": "r1", "status": "in_progress", "output": []}},
        {"type": "response.completed", "response": {"id": "r1", "status": "completed", "output": [whole]}},
    )
    assert (await run_on(late, kind=RESPONSES)).final.text == "Only at the end."


async def test_a25_reasoning_goes_back_before_its_call_with_what_the_server_needs_of_it() -> None:
    ran = await run_on(
        "A25-responses-reasoning-pair-replay.sse",
        DONE,
        kind=RESPONSES,
        agent={"tools": [Recorder().tool("get_weather", CITY)], "model_settings": {"store": False}},
    )
    assert "reasoning.encrypted_content" in ran.requests[0]["include"]
    items = [item for item in ran.requests[1]["input"] if item.get("type") not in {None, "message"}]
    assert [item["type"] for item in items] == ["reasoning", "function_call", "function_call_output"]
    assert items[0]["encrypted_content"] == "ZW5jcnlwdGVkLXJlYXNvbmluZw=="


async def test_a25_empty_reasoning_without_its_encrypted_content_does_not_go_back_statelessly() -> None:
    reasoning = {"id": "rs_1", "type": "reasoning", "summary": []}
    call = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "get_weather"}
    whole = {**call, "status": "completed", "arguments": '{"city": "Lyon"}'}
    reply = response(
        {"type": "response.created", "response": {"id": "r1", "status": "in_progress", "output": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": reasoning},
        {"type": "response.output_item.done", "output_index": 1, "item": whole},
        {"type": "response.completed", "response": {"id": "r1", "status": "completed", "output": [reasoning, whole]}},
    )
    ran = await run_on(
        reply,
        DONE,
        kind=RESPONSES,
        agent={"tools": [Recorder().tool("get_weather", CITY)], "model_settings": {"store": False}},
    )
    types = [item.get("type") for item in ran.requests[1]["input"]]
    assert "reasoning" not in types
    assert types[-2:] == ["function_call", "function_call_output"]

"""Cases from the field: what Anthropic streams, and what it wants back."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from support.http_server import WIRE, Reply, Request, sse
from support.wire_field import (
    ANTHROPIC,
    CHAT,
    CITY,
    EMPTY,
    FINAL,
    Counting,
    Recorder,
    failing,
    from_field,
    run_on,
    said_by,
)

from mastra_py import OverloadedError, StreamErrorRetryProcessor, TaskCompletion, tool

DONE = FINAL[ANTHROPIC]


def message(*events: dict[str, Any]) -> Reply:
    """Return a reply of these events, each named as Anthropic names it."""
    return sse("".join([f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]))


START = {"type": "message_start", "message": {"id": "m1", "model": "m", "usage": {"input_tokens": 3}}}
STOP = {"type": "message_stop"}


def ending(reason: str, output_tokens: int = 2) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": output_tokens}}


def use(index: int, name: str, args: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return the events of a tool call."""
    block = {"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": {}}
    events: list[dict[str, Any]] = [{"type": "content_block_start", "index": index, "content_block": block}]
    if args is not None:
        delta = {"type": "input_json_delta", "partial_json": json.dumps(args)}
        events.append({"type": "content_block_delta", "index": index, "delta": delta})
    return [*events, {"type": "content_block_stop", "index": index}]


async def test_a06_a_call_with_an_empty_delta_or_with_none_has_no_arguments() -> None:
    tools = Recorder()
    ran = await run_on(
        "A06-anthropic-noarg-no-delta.sse",
        DONE,
        kind=ANTHROPIC,
        agent={"tools": [tools.tool("list_open_orders", EMPTY)]},
    )
    assert tools.executed == [("list_open_orders", {})] * 2
    blocks = said_by("assistant", ran.requests[1])[-1]["content"]
    assert [block["input"] for block in blocks if block["type"] == "tool_use"] == [{}, {}]
    assert ran.final.text == "All done."


async def test_a15_an_overload_inside_a_reply_is_retried_like_one_by_status() -> None:
    name = "A15-anthropic-overloaded-before-content.sse"
    alone = await run_on(name, DONE, kind=ANTHROPIC)
    assert isinstance(alone.failure, OverloadedError)
    assert (alone.failure.retryable, len(alone.requests)) == (True, 1)
    retry = {"error_processors": [StreamErrorRetryProcessor(max_retries=1)]}
    again = await run_on(name, DONE, kind=ANTHROPIC, agent=retry)
    assert (again.final.text, len(again.requests)) == ("All done.", 2)


async def test_a16_unknown_events_are_passed_over_and_an_error_among_them_is_not() -> None:
    ran = await run_on("A16-anthropic-ping-unknown-events.sse", kind=ANTHROPIC)
    assert (ran.final.text, ran.final.finish_reason) == ("Hello", "stop")
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    unknown = {"type": "novelty", "of": "today"}
    broken = await run_on(message(START, {"type": "ping"}, unknown, error), kind=ANTHROPIC)
    assert isinstance(broken.failure, OverloadedError)


async def test_a17_thinking_goes_back_first_and_unchanged_and_is_no_answer() -> None:
    scorer = Counting(1)
    ran = await run_on(
        "A17-anthropic-thinking-signature-replay.sse",
        DONE,
        kind=ANTHROPIC,
        agent={"tools": [Recorder().tool("get_weather", CITY)]},
        is_task_complete=scorer,
    )
    thinking, call = said_by("assistant", ran.requests[1])[-1]["content"]
    assert thinking == {
        "type": "thinking",
        "thinking": "Need the weather; call tool.",
        "signature": "RXhhbXBsZVNpZ25hdHVyZT09",
    }
    assert call["type"] == "tool_use"
    assert (ran.reasoning, ran.text) == ("Need the weather; call tool.", "All done.")
    assert [run.output for run in scorer.seen] == ["All done."]


async def test_a18_no_empty_text_goes_out_neither_of_the_model_nor_of_a_tool_nor_of_the_user() -> None:
    @tool
    def get_weather(city: str) -> str:
        return ""

    given = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": " "}, {"role": "user", "content": ""}]
    ran = await run_on(
        "A18-anthropic-empty-text-block.sse", DONE, kind=ANTHROPIC, agent={"tools": [get_weather]}, messages=given
    )
    assert ran.final.text == "All done."
    for body in ran.requests:
        assert all(list(texts_in(message_["content"])) for message_ in body["messages"])
        assert [text for sent in body["messages"] for text in texts_in(sent["content"]) if not text.strip()] == []
    assert [block["type"] for block in said_by("assistant", ran.requests[1])[-1]["content"]] == ["tool_use"]


def texts_in(content: Any) -> list[str]:
    """Return the texts of a message's content, and a stand-in for each block that has none to have."""
    if isinstance(content, str):
        return [content]
    texts: list[str] = []
    for block in content:
        if block["type"] == "tool_result":
            texts += texts_in(block["content"]) if block.get("content") else ["(none)"]
        else:
            texts.append(block["text"] if block["type"] == "text" else "(other)")
    return texts


@pytest.mark.parametrize("kind", [ANTHROPIC, CHAT])
async def test_a19_a_request_after_a_rejected_draft_never_ends_with_the_assistant(kind: str) -> None:
    refusal = json.loads((WIRE / "A19-anthropic-prefill-rejected.body.json").read_text(encoding="utf-8"))

    def serve(request: Request) -> Reply:
        prefilled = request.json["messages"][-1]["role"] == "assistant"
        return failing(400, refusal) if prefilled else from_field(FINAL[kind])

    ways: list[dict[str, Any]] = [{}, {"keep_feedback": "all"}, {"suppress_feedback": True}]
    for options in ways:
        scorer = Counting(0, 0, 1)
        ran = await run_on(serve, kind=kind, is_task_complete=TaskCompletion([scorer], **options))
        assert (ran.final.stop_reason, scorer.runs, len(ran.requests)) == ("complete", 3, 3)
        assert [body["messages"][-1]["role"] for body in ran.requests] == ["user"] * 3


async def test_a21_results_stand_in_one_message_in_call_order_and_a_failed_one_in_its_place() -> None:
    later = anyio.Event()

    @tool
    async def get_weather(city: str) -> str:
        if city == "A":
            await later.wait()  # the first call ends last
        if city == "C":
            raise LookupError("no such city")
        later.set()
        return f"sunny in {city}"

    reply = message(
        START,
        *[event for n, city in enumerate("ACB") for event in use(n, "get_weather", {"city": city})],
        ending("tool_use"),
        STOP,
    )
    ran = await run_on(reply, DONE, kind=ANTHROPIC, agent={"tools": [get_weather]})
    assert [sent["role"] for sent in ran.requests[1]["messages"]] == ["user", "assistant", "user"]
    blocks = ran.requests[1]["messages"][-1]["content"]
    assert [(b["type"], b["tool_use_id"], b.get("is_error", False)) for b in blocks] == [
        ("tool_result", "toolu_0", False),
        ("tool_result", "toolu_1", True),
        ("tool_result", "toolu_2", False),
    ]

"""Models behind the Responses API, over real connections: what is sent, what comes of it, and what goes back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import openai
import pytest
from pydantic import BaseModel
from support.http_server import HTTPServer, Reply, sse
from support.responses_events import call_item, done, message, named, replied, text_item, thought_item
from support.streams import read_all, read_reply, text_of
from support.wire_cases import case_name, check_reply, load_case, reply_of, wire_cases
from support.wire_field import ANTHROPIC, CHAT, RESPONSES, Recorder, from_field, model_at, run_on

from mastra_py import Agent, Message, Tool, dump_messages, load_messages
from mastra_py.errors import StreamError, UserError
from mastra_py.events import ModelFinished, TextDelta, ToolCall
from mastra_py.messages import ReasoningPart, ToolCallPart, ToolResultPart, Usage
from mastra_py.models import Model, ModelProfile, ModelRequest, ModelSettings, OpenAIResponsesModel
from mastra_py.models.resolve import resolve_model

HELLO = ModelRequest(messages=[Message("user", "Hello")])
USAGE = {"input_tokens": 3, "output_tokens": 2}
GOOD = named(*message("Hi", " there"), replied(text_item("Hi there"), usage=USAGE))
WHOLE = ModelFinished(finish_reason="stop", usage=Usage(input_tokens=3, output_tokens=2), response_id="r1", model="m1")

THOUGHT = thought_item("enc", "Hm.")
CALL = call_item("c1", "look", "{}")
CALLING = sse(*named(done(THOUGHT, 0), done(CALL, 1), replied(THOUGHT, CALL)))
SAYING = sse(*named(done(THOUGHT, 0), *message("Hi", index=1), replied(THOUGHT, text_item("Hi"))))


def at(server: HTTPServer, **options: Any) -> OpenAIResponsesModel:
    return OpenAIResponsesModel("m1", base_url=server.base_url, **options)


def kinds(items: Sequence[dict[str, Any]]) -> list[str]:
    """Return what the items of a request are; of messages, whose."""
    return [item.get("role") or item["type"] for item in items]


# --- replies seen in the field


@pytest.mark.parametrize("bytewise", [False, True], ids=["whole", "bytewise"])
@pytest.mark.parametrize("path", wire_cases("openai-responses"), ids=case_name)
async def test_a_reply_from_the_field_is_read_rightly(path: Path, bytewise: bool) -> None:
    case = load_case(path)
    async with HTTPServer(reply_of(case, bytewise=bytewise)) as server:
        events, error = await read_reply(at(server), HELLO)
    assert len(server.requests) == 1
    check_reply(case, events, error)
    assert error is None or (error.provider, error.model) == ("openai", "m1")


# --- what is sent


async def test_a_request_goes_to_responses_with_key_and_headers() -> None:
    settings = ModelSettings(extra_headers={"X-Trace": "t1"}, timeout=4.0)
    request = ModelRequest(messages=HELLO.messages, system="Be brief.", settings=settings)
    async with HTTPServer(sse(*GOOD)) as server:
        events, error = await read_reply(at(server, api_key="sk-1"), request)
    assert error is None
    assert (text_of(events), events[-1]) == ("Hi there", WHOLE)
    (sent,) = server.requests
    assert (sent.method, sent.path) == ("POST", "/v1/responses")
    assert (sent.headers["authorization"], sent.headers["x-trace"]) == ("Bearer sk-1", "t1")
    assert sent.json["instructions"] == "Be brief."


@pytest.mark.parametrize("name", ["stop", "thinking_budget"])
async def test_a_setting_that_cannot_be_left_out_in_silence_is_refused(name: str) -> None:
    given: dict[str, Any] = {"stop": ["x"], "thinking_budget": 9}
    settings = ModelSettings(**{name: given[name]})
    with pytest.raises(UserError, match=rf"OpenAIResponsesModel\('gpt-5'\) does not take the model setting {name}; "):
        OpenAIResponsesModel("gpt-5", api_key="k").stream(ModelRequest(messages=HELLO.messages, settings=settings))


async def test_settings_without_a_place_are_left_out_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    settings = ModelSettings(seed=1, top_k=2, presence_penalty=0.1, frequency_penalty=0.1, cache_prompt=True)
    request = ModelRequest(messages=HELLO.messages, settings=settings)
    async with HTTPServer(sse(*GOOD)) as server:
        model = at(server)
        for _ in range(2):
            assert (await read_reply(model, request))[1] is None
    assert server.requests[0].json.keys() == {"model", "input", "stream", "include"}
    assert len(caplog.records) == 5


async def test_what_openai_is_known_to_refuse_is_not_sent() -> None:
    settings = ModelSettings(temperature=0.5, top_p=0.5, reasoning_effort="low")
    request = ModelRequest(messages=HELLO.messages, settings=settings)
    async with HTTPServer(sse(*GOOD)) as server:
        profile = OpenAIResponsesModel("gpt-5", base_url="https://api.openai.com/v1").profile
        await read_reply(at(server, profile=profile), request)
        profile = OpenAIResponsesModel("gpt-4o", base_url="https://api.openai.com/v1").profile
        await read_reply(at(server, profile=profile), HELLO)
    reasoning, plain = (sent.json for sent in server.requests)
    assert reasoning.keys() == {"model", "input", "stream", "include", "reasoning"}
    assert plain.keys() == {"model", "input", "stream"}


async def test_a_client_of_the_users_own_is_used_without_its_retries_and_left_open() -> None:
    """A28"""
    busy = Reply(b'{"error":{"message":"busy"}}', status=503, headers={"content-type": "application/json"})
    async with (
        HTTPServer(busy) as server,
        openai.AsyncOpenAI(base_url=server.base_url, api_key="sk-own", max_retries=5) as client,
    ):
        _, error = await read_reply(OpenAIResponsesModel("m1", client=client), HELLO)
        assert not client.is_closed()
    assert error is not None
    assert (error.kind, error.status, error.message) == ("server", 503, "busy")
    assert [request.headers["authorization"] for request in server.requests] == ["Bearer sk-own"]


async def test_calls_of_earlier_steps_keep_their_ids_to_themselves() -> None:
    past = [
        HELLO.messages[0],
        Message("assistant", [ToolCallPart("c1", "look", {})]),
        Message("tool", [ToolResultPart("c1", "look", 1)]),
    ]
    async with HTTPServer(CALLING) as server:
        events, _ = await read_reply(at(server), ModelRequest(messages=past))
    assert [e.tool_call_id for e in events if isinstance(e, ToolCall)] == ["c1_1"]


class Place(BaseModel):
    city: str
    country: str | None = None


@pytest.mark.parametrize("strict", [False, True])
async def test_structured_output_is_asked_for_natively(strict: bool) -> None:
    """A36"""
    text = '{"city": "Oslo", "country": null}' if strict else '{"city": "Oslo"}'
    async with HTTPServer(sse(*named(*message(text), replied()))) as server:
        agent = Agent(id="a", model=at(server, profile=ModelProfile(strict=strict)))
        _, result = await read_all(agent, output=Place)
    assert result.output == Place(city="Oslo")
    said = server.requests[0].json["text"]["format"]
    assert (said["type"], said["name"], said["strict"]) == ("json_schema", "Place", strict)
    assert said["schema"]["required"] == (["city", "country"] if strict else ["city"])


# --- reasoning that goes back


async def lookup(*script: Reply, **agent: Any) -> list[Any]:
    """Return the bodies of the requests of a run with a tool ``look``."""
    ran = await run_on(*script, kind=RESPONSES, agent={"tools": [Recorder().tool("look")], **agent})
    assert ran.final.stop_reason == "answered"
    return list(ran.requests)


@pytest.mark.parametrize("store", [None, True, False])
async def test_reasoning_goes_back_with_its_call_whether_it_is_kept_or_not(store: bool | None) -> None:
    """A25"""
    first, second, third = await lookup(CALLING, CALLING, sse(*GOOD), model_settings=ModelSettings(store=store))
    assert first.get("store") == store
    assert first["include"] == ["reasoning.encrypted_content"]
    assert kinds(second["input"]) == ["user", "reasoning", "function_call", "function_call_output"]
    assert kinds(third["input"]) == [*kinds(second["input"]), "reasoning", "function_call", "function_call_output"]
    assert second["input"][1] == {k: THOUGHT[k] for k in ("type", "summary", "encrypted_content")}
    assert second["input"][2] == {k: CALL[k] for k in ("type", "call_id", "name", "arguments")}
    calls, outputs = ([i["call_id"] for i in third["input"] if i["type"] == kind] for kind in PAIR)
    assert calls == outputs == ["c1", "c1_1"]


PAIR = ("function_call", "function_call_output")


async def test_reasoning_goes_back_with_its_message_in_a_later_run() -> None:
    """A25"""
    ran = await run_on(SAYING, kind=RESPONSES)
    stored = load_messages(json.loads(json.dumps(dump_messages(ran.final.messages))))
    async with HTTPServer(SAYING) as server:
        agent = Agent(id="a", model=model_at(server, RESPONSES))
        moved = [_moved(each, server) for each in stored]
        await read_all(agent, "And now?", messages=moved)
        assert kinds(server.requests[0].json["input"]) == ["user", "reasoning", "assistant", "user"]
        await read_all(agent, "And now?", messages=stored)  # that of another server
        assert kinds(server.requests[1].json["input"]) == ["user", "assistant", "user"]


def _moved(said: Message, server: HTTPServer) -> Message:
    """Return a message as if ``server`` had made it."""
    parts = list(said.parts)
    for n, part in enumerate(parts):
        if isinstance(part, ReasoningPart) and part.metadata:
            parts[n] = ReasoningPart(part.text, part.provider, {**part.metadata, "server": server.base_url})
    return Message(said.role, parts)


async def test_a_history_that_was_cut_has_no_reasoning_that_leads_nowhere() -> None:
    """A25, A35"""
    ran = await run_on(CALLING, SAYING, kind=RESPONSES, agent={"tools": [Recorder().tool("look")]})
    asked, thinking, _, answer = ran.final.messages
    without_call = Message("assistant", [p for p in thinking.parts if not isinstance(p, ToolCallPart)])
    without_text = Message("assistant", [p for p in answer.parts if isinstance(p, ReasoningPart)])
    async with HTTPServer(SAYING) as server:
        agent = Agent(id="a", model=model_at(server, RESPONSES))
        for history in ([asked, without_call], [asked, without_call, answer], [asked, without_text]):
            await read_all(agent, "And now?", messages=[_moved(each, server) for each in history])
    assert [kinds(sent.json["input"]) for sent in server.requests] == [
        ["user"],
        ["user", "reasoning", "assistant", "user"],
        ["user"],
    ]


async def test_a_call_that_was_interrupted_goes_back_with_its_reasoning_and_a_result() -> None:
    """A35"""
    ran = await run_on(CALLING, SAYING, kind=RESPONSES, agent={"tools": [Recorder().tool("look")]})
    asked, thinking, *_ = ran.final.messages
    async with HTTPServer(SAYING) as server:
        agent = Agent(id="a", model=model_at(server, RESPONSES))
        await read_all(agent, "And now?", messages=[asked, _moved(thinking, server)])
    sent = server.requests[0].json["input"]
    assert kinds(sent) == ["user", "reasoning", "function_call", "function_call_output", "user"]


CALL_ON: dict[str, Reply] = {
    CHAT: from_field("A14-chat-reasoning-content-replay.sse"),
    ANTHROPIC: from_field("A17-anthropic-thinking-signature-replay.sse"),
    RESPONSES: from_field("A25-responses-reasoning-pair-replay.sse"),
}
FINAL_ON: dict[str, Reply] = {
    CHAT: from_field("_final-openai-chat.sse"),
    ANTHROPIC: from_field("_final-anthropic.sse"),
    RESPONSES: from_field("_final-openai-responses.sse"),
}


@pytest.mark.parametrize("first", CALL_ON)
@pytest.mark.parametrize("second", CALL_ON)
async def test_a_run_moves_from_one_api_to_another_between_a_call_and_its_result(first: str, second: str) -> None:
    """A20, A25"""
    async with HTTPServer(CALL_ON[first]) as one, HTTPServer(CALL_ON[second], FINAL_ON[second]) as other:
        tools = [Recorder().tool("get_weather", {"type": "object", "properties": {"city": {"type": "string"}}})]
        begun = Agent(id="a", model=model_at(one, first), tools=tools)
        _, before = await read_all(begun, max_steps=1)
        ended = Agent(id="b", model=model_at(other, second), tools=tools)
        _, after = await read_all(ended, "go on", messages=before.messages)
    assert after.text == "All done."
    if second == RESPONSES:
        foreign, own = (sent.json["input"] for sent in other.requests)
        assert kinds(foreign) == ["user", "function_call", "function_call_output", "user"]
        assert kinds(own) == [*kinds(foreign), "reasoning", "function_call", "function_call_output"]
    else:
        for sent in other.requests:
            assert "ZW5jcnlwdGVkLXJlYXNvbmluZw" not in sent.body.decode()


# --- failures


async def test_a_refusal_of_the_request_is_told() -> None:
    body = b'{"error":{"message":"no","type":"invalid_request_error","param":"input","code":null}}'
    async with HTTPServer(Reply(body, status=400, headers={"x-request-id": "req_1"})) as server:
        _, error = await read_reply(at(server), HELLO)
    assert error is not None
    assert (error.kind, error.status, error.request_id, error.retryable) == ("request", 400, "req_1", False)


@pytest.mark.parametrize("framing", ["chunked", "close"])
async def test_a_connection_that_breaks_in_mid_reply_is_a_stream_error(framing: Any) -> None:
    async with HTTPServer(sse(*GOOD[:2], framing=framing, breaks_off=True)) as server:
        events, error = await read_reply(at(server), HELLO)
    assert text_of(events) == "Hi"
    assert isinstance(error, StreamError)
    assert error.retryable is True


async def test_a_reply_that_said_how_it_ended_is_whole_however_its_connection_ends() -> None:
    async with HTTPServer(
        sse("".join([*GOOD, *named({"type": "error", "message": "late"})]), breaks_off=True)
    ) as server:
        events, error = await read_reply(at(server), HELLO)
    assert (events[-1], error) == (WHOLE, None)


async def test_a_reply_that_failed_says_what_it_cost_before_the_error() -> None:
    """A22, A46"""
    failed = {"id": "r1", "model": "m1", "status": "failed", "usage": USAGE, "error": {"code": "server_error"}}
    async with HTTPServer(sse(*GOOD[:2], *named({"type": "response.failed", "response": failed}))) as server:
        events, error = await read_reply(at(server), HELLO)
    assert error is not None
    assert (error.kind, error.code) == ("server", "server_error")
    assert events[-1] == ModelFinished(finish_reason="error", usage=WHOLE.usage, response_id="r1", model="m1")


@pytest.mark.parametrize(
    "data",
    [
        *('{"type":', "[]", "null", '"text"', '{"type": "response.output_item.done"}', '{"type": 1}'),
        '{"type": "response.output_text.delta", "delta": 5}',
        '{"type": "response.output_item.done", "item": "x"}',
        '{"type": "response.output_item.done", "item": {"type": "message", "content": 5}}',
        '{"type": "response.completed", "response": "x"}',
        '{"type": "response.completed", "response": {"output": [null]}}',
        '{"type": "response.completed", "response": {"usage": 5}}',
    ],
)
async def test_what_cannot_be_read_is_a_stream_error_or_nothing(data: str) -> None:
    async with HTTPServer(sse(GOOD[0], GOOD[1], f"data: {data}\n\n", *GOOD[2:])) as server:
        events, error = await read_reply(at(server), HELLO)
    assert text_of(events).startswith("Hi")
    assert error is None or ("cannot be read" in error.message and isinstance(error, StreamError))


NO_ENCRYPTED = "Encrypted content is not supported with this model."
NO_REASONING = "Reasoning input items can only be provided to a reasoning or computer use model."


@pytest.mark.parametrize(
    ("message", "lacks"),
    [
        (NO_REASONING, "thinking"),
        *[
            (words, "encrypted_thinking")
            for words in (NO_ENCRYPTED, "Unknown parameter: 'include'.", "include: Extra inputs are not permitted")
        ],
    ],
)
async def test_that_a_model_does_not_reason_or_not_encrypt_is_learned(message: str, lacks: str) -> None:
    body = json.dumps({"error": {"message": message, "type": "invalid_request_error", "param": "include"}}).encode()
    refusal = Reply(body, status=400, headers={"content-type": "application/json"})
    async with HTTPServer(refusal, sse(*GOOD)) as server:
        model = at(server)
        _, error = await read_reply(model, HELLO)
        assert error is not None
        assert error.learned == lacks
        assert not getattr(model.profile, lacks)
        assert (await read_reply(model, HELLO))[1] is None
    assert ["include" in sent.json for sent in server.requests] == [True, False]


async def test_a_value_of_include_that_is_wrong_teaches_nothing() -> None:
    message = "Invalid value: 'x'. Supported values are: 'reasoning.encrypted_content'."
    body = json.dumps({"error": {"message": message, "param": "include[1]", "code": "invalid_value"}}).encode()
    async with HTTPServer(Reply(body, status=400)) as server:
        model = at(server)
        _, error = await read_reply(model, HELLO)
    assert error is not None
    assert (error.learned, model.profile.thinking) == (None, "effort")


# --- connections


async def test_replies_read_to_their_end_share_one_connection() -> None:
    async with HTTPServer(sse(*GOOD)) as server:
        for _ in range(3):
            assert (await read_reply(at(server), HELLO))[1] is None
    assert (len(server.requests), server.connections) == (3, 1)


async def test_leaving_early_closes_the_connection_on_the_server() -> None:
    """A38"""
    async with HTTPServer(sse(*GOOD[:2], anyio.Event())) as server:
        async with at(server).stream(HELLO) as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    break
        with anyio.fail_after(5):
            await server.disconnected.wait()


async def test_a_cancelled_reader_closes_the_connection() -> None:
    """A38"""
    async with HTTPServer(sse(*GOOD[:2], anyio.Event())) as server:
        with anyio.CancelScope() as scope:
            async with at(server).stream(HELLO) as stream:
                async for event in stream:
                    if isinstance(event, TextDelta):
                        scope.cancel()
        assert scope.cancelled_caught
        with anyio.fail_after(5):
            await server.disconnected.wait()


# --- the model itself


def test_a_model_says_what_it_is() -> None:
    model = OpenAIResponsesModel("gpt-5-mini")
    assert isinstance(model, Model)
    assert (model.id, model.provider, repr(model)) == ("gpt-5-mini", "openai", "OpenAIResponsesModel('gpt-5-mini')")
    assert isinstance(resolve_model("openai/gpt-5-mini"), OpenAIResponsesModel)


def test_a_profile_given_counts_instead_of_the_name() -> None:
    profile = ModelProfile(thinking=None)
    assert OpenAIResponsesModel("gpt-5", profile=profile).profile is profile


@pytest.mark.parametrize("name", ["", " ", None])
def test_a_model_without_a_name_is_refused(name: Any) -> None:
    with pytest.raises(UserError, match=r"needs a name, e\.g\. OpenAIResponsesModel\('gpt-5-mini'\)"):
        OpenAIResponsesModel(name)


async def test_a_server_without_this_api_is_told_by_where_it_was_looked_for() -> None:
    async with HTTPServer(Reply(b'{"detail": "Not Found"}', status=404)) as server:
        _, error = await read_reply(at(server), HELLO)
    assert error is not None
    assert f"{server.base_url}/responses" in str(error)
    assert "openai-chat/" in str(error)


async def test_a_server_that_does_not_know_strict_schemas_at_all_gets_none() -> None:
    error = {"message": "Unknown parameter: 'tools[0].strict'.", "param": "tools[0].strict"}
    refusal = Reply(json.dumps({"error": error}).encode(), status=400)
    tool = Tool(name="look", description="Look.", parameters={"type": "object", "properties": {}}, run=lambda: "")
    request = ModelRequest(messages=[Message("user", "Hi")], tools=[tool])
    async with HTTPServer(refusal, sse(*GOOD)) as server:
        model = at(server)
        _, refused = await read_reply(model, request)
        assert refused is not None
        assert refused.learned == "strict_field"
        assert (await read_reply(model, request))[1] is None
    assert ["strict" in sent.json["tools"][0] for sent in server.requests] == [True, False]

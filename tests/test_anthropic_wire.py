from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from mastra_py._output import OutputFormat
from mastra_py.errors import ModelError, StreamError, UserError
from mastra_py.events import (
    ModelEvent,
    ModelFinished,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
)
from mastra_py.messages import (
    DataPart,
    FeedbackPart,
    FilePart,
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Usage,
)
from mastra_py.models import ModelProfile, ModelRequest, ModelSettings
from mastra_py.models._anthropic_wire import MessagesDecoder, encode
from mastra_py.models._reducer import ReplyReducer
from mastra_py.models._wire_names import wire_name
from mastra_py.tools import Tool

WEATHER = Tool(
    name="get_weather",
    description="Tells the weather.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    run=lambda city: city,
)


# --- reading


def read(*events: dict[str, Any], start: dict[str, Any] | None = None, stop: bool = True) -> list[ModelEvent]:
    """Return the events of a reply of these between its start and its stop."""
    decoder = MessagesDecoder(ReplyReducer(provider="anthropic"), server=SERVER)
    head = {"type": "message_start", "message": {"id": "r1", "model": "m1", "usage": start or {}}}
    tail = [{"type": "message_stop"}] if stop else []
    found = [event for each in [head, *events, *tail] for event in decoder.decode(each)]
    if not stop:
        found += decoder.end(marked=False)
    assert decoder.finished
    return found


def begin(index: int, type: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": type, **fields}}


def delta(index: int, type: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": type, **fields}}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def end(reason: str | None = "end_turn", **usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}


def text(index: int, *texts: str) -> list[dict[str, Any]]:
    return [begin(index, "text", text=""), *(delta(index, "text_delta", text=t) for t in texts), stop(index)]


def tool(index: int, call_id: str, *args: str, **fields: Any) -> list[dict[str, Any]]:
    head = {"id": call_id, "name": "f", "input": {}, **fields}
    deltas = [delta(index, "input_json_delta", partial_json=piece) for piece in args]
    return [begin(index, "tool_use", **head), *deltas, stop(index)]


def finished(reason: Any, **usage: int) -> ModelFinished:
    return ModelFinished(finish_reason=reason, usage=Usage(**usage), response_id="r1", model="m1")


def calls(events: list[ModelEvent]) -> list[tuple[str, dict[str, Any]]]:
    return [(e.tool_call_id, e.args) for e in events if isinstance(e, ToolCall)]


def said(events: list[ModelEvent]) -> str:
    return "".join([e.text for e in events if isinstance(e, TextDelta)])


def test_each_block_of_the_reply_is_one_of_ours() -> None:
    events = read(
        begin(0, "thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="Hm. "),
        delta(0, "thinking_delta", thinking="Yes."),
        delta(0, "signature_delta", signature="c2ln"),
        stop(0),
        begin(1, "redacted_thinking", data="ZGF0YQ=="),
        stop(1),
        *text(2, "Look", ":"),
        *tool(3, "c1", '{"a"', ":1}"),
        *text(4, "Done."),
        end("tool_use"),
    )
    assert events == [
        ReasoningStart(),
        ReasoningDelta("Hm. "),
        ReasoningDelta("Yes."),
        ReasoningEnd("anthropic", {"signature": "c2ln", "server": SERVER}),
        ReasoningStart(),
        ReasoningEnd("anthropic", {"redacted": "ZGF0YQ==", "server": SERVER}),
        TextStart(),
        TextDelta("Look"),
        TextDelta(":"),
        TextEnd(),
        ToolInputStart("c1", "f"),
        ToolInputDelta("c1", '{"a"'),
        ToolInputDelta("c1", ":1}"),
        ToolInputEnd("c1"),
        ToolCall("c1", "f", {"a": 1}),
        TextStart(),
        TextDelta("Done."),
        TextEnd(),
        finished("tool_calls"),
    ]


def test_an_empty_block_of_text_is_nothing() -> None:
    """A18"""
    assert [type(e).__name__ for e in read(*text(0), *tool(1, "c1", "{}"), end("tool_use"))] == [
        *("ToolInputStart", "ToolInputDelta", "ToolInputEnd", "ToolCall", "ModelFinished"),
    ]


def test_thinking_that_is_not_shown_keeps_its_signature() -> None:
    events = read(
        begin(0, "thinking", thinking="", signature=""), delta(0, "signature_delta", signature="s"), stop(0), end()
    )
    assert events == [
        ReasoningStart(),
        ReasoningEnd("anthropic", {"signature": "s", "server": SERVER}),
        finished("stop"),
    ]


def test_thinking_without_a_signature_carries_none() -> None:
    events = read(begin(0, "thinking", thinking="Hm.", signature=""), stop(0), end())
    assert events == [ReasoningStart(), ReasoningDelta("Hm."), ReasoningEnd("anthropic", None), finished("stop")]


def test_blocks_that_begin_without_the_end_of_the_one_before_are_told_apart() -> None:
    signed = [begin(n, "thinking", thinking=f"{n}", signature=f"s{n}") for n in (0, 1)]
    ends = [e.metadata for e in read(*signed, end()) if isinstance(e, ReasoningEnd)]
    assert ends == [{"signature": f"s{n}", "server": SERVER} for n in (0, 1)]
    events = read(begin(0, "text", text="a"), begin(1, "text", text="b"), end())
    assert [type(e) for e in events[:-1]] == [TextStart, TextDelta, TextEnd] * 2


def test_a_block_ends_when_its_end_comes() -> None:
    decoder = MessagesDecoder(ReplyReducer(provider="anthropic"), server=SERVER)
    ends = [decoder.decode(event) for block in (text(0, "Hi"), tool(1, "c1", "{}")) for event in block][2::3]
    assert ends == [[TextEnd()], [ToolInputEnd("c1"), ToolCall("c1", "f", {})]]


def test_calls_without_input_take_no_arguments() -> None:
    """A06"""
    events = read(*tool(0, "c1"), *tool(1, "c2", ""), *tool(2, "c3", " ", "\n"), end("tool_use"))
    assert calls(events) == [("c1", {}), ("c2", {}), ("c3", {})]


def test_input_that_comes_whole_at_the_start_counts_once() -> None:
    events = read(*tool(0, "c1", '{"a":1}', input={"a": 1}), *tool(1, "c2", input={"b": "é"}), end("tool_use"))
    assert calls(events) == [("c1", {"a": 1}), ("c2", {"b": "é"})]


def test_input_that_is_no_object_is_kept_as_it_came() -> None:
    """D20"""
    found = [e for e in read(*tool(0, "c1", '{"a": '), end("tool_use")) if isinstance(e, ToolCall)]
    assert found == [ToolCall("c1", "f", {}, raw_args='{"a": ')]


def test_a_call_that_was_cut_off_is_none() -> None:
    """A11"""
    events = read(*tool(0, "c1", "{}"), *tool(1, "c2", '{"a": "b'), end("max_tokens"))
    assert calls(events) == [("c1", {})]
    assert events[-2:] == [ToolInputEnd("c2"), finished("length")]


@pytest.mark.parametrize(
    "strange",
    [
        [{"type": "ping"}],
        [{"type": "vendor_progress", "note": 1}],
        [{}],
        [begin(7, "future_block", payload={"k": 1}), delta(7, "text_delta", text="not the answer"), stop(7)],
        [begin(7, "server_tool_use", id="s1", name="web_search", input={}), *tool(7, "", '{"q":1}')[1:]],
        [delta(0, "future_delta", data="x")],
        [delta(0, "citations_delta", citation={})],
    ],
)
def test_what_is_not_known_is_passed_over(strange: list[dict[str, Any]]) -> None:
    """A16"""
    whole = text(0, "Hel", "lo")
    events = read(*strange, *whole[:2], *strange, *whole[2:], *strange, end())
    assert events == [TextStart(), TextDelta("Hel"), TextDelta("lo"), TextEnd(), finished("stop")]


@pytest.mark.parametrize(
    ("reason", "finish_reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("tool_use", "stop"),  # without any call
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
        ("pause_turn", "other"),
        ("sunset", "other"),
        (None, "stop"),
    ],
)
def test_stop_reasons_are_translated(reason: str | None, finish_reason: str) -> None:
    assert read(*text(0, "Hi."), end(reason))[-1] == finished(finish_reason)


def test_a_call_decides_whatever_the_stop_reason_says() -> None:
    assert read(*tool(0, "c1", "{}"), end("end_turn"))[-1] == finished("tool_calls")


def test_usage_is_cumulative_and_all_input_counts() -> None:
    """A46"""
    start = {
        "input_tokens": 26,
        "cache_creation_input_tokens": 10,
        "cache_read_input_tokens": 100,
        "output_tokens": 3,
        "output_tokens_details": None,
    }
    events = read(
        *text(0, "Hi."),
        end(None, output_tokens=20),
        end(output_tokens=40, input_tokens=27, output_tokens_details={"thinking_tokens": 15}),
        start=start,
    )
    usage = {"input_tokens": 137, "cached_input_tokens": 100, "output_tokens": 40, "reasoning_tokens": 15}
    assert events[-1] == finished("stop", **usage)


def test_a_reply_that_ends_without_a_stop_reason_broke_off() -> None:
    with pytest.raises(StreamError, match="broke off") as caught:
        read(*text(0, "Hi."), end(None), stop=False)
    assert caught.value.retryable is True
    assert read(*text(0, "Hi."), end("max_tokens"), stop=False)[-1] == finished("length")


def test_a_reply_that_failed_tells_what_it_is_known_to_have_cost() -> None:
    decoder = MessagesDecoder(ReplyReducer(provider="anthropic"), server=SERVER)
    decoder.decode({"type": "message_start", "message": {"id": "r1", "model": "m1", "usage": {"input_tokens": 9}}})
    assert decoder.fail() == [finished("error", input_tokens=9)]


@pytest.mark.parametrize(
    ("type", "message", "kind", "retryable"),
    [
        ("overloaded_error", "Overloaded", "overloaded", True),
        ("rate_limit_error", "Too many", "rate_limit", True),
        ("api_error", "Internal server error", "server", True),
        ("timeout_error", "Timed out", "timeout", True),
        ("authentication_error", "invalid x-api-key", "auth", False),
        ("permission_error", "not yours", "auth", False),
        ("billing_error", "Your credit is used up", "quota", False),
        ("invalid_request_error", "Your credit balance is too low to access the API", "quota", False),
        ("invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum", "context_length", False),
        (
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 9 + 1 > 9, decrease either",
            "context_length",
            False,
        ),
        ("invalid_request_error", "messages: text content blocks must be non-empty", "request", False),
        ("not_found_error", "model: claude-x", "request", False),
        ("request_too_large", "Request exceeds the maximum size", "request", False),
        ("sunset_error", "It got dark", "other", None),
    ],
)
def test_an_error_in_a_reply_is_what_its_type_says(type: str, message: str, kind: str, retryable: bool | None) -> None:
    """A15"""
    error = {"type": "error", "error": {"details": None, "type": type, "message": message}, "request_id": "req_1"}
    with pytest.raises(ModelError) as caught:
        read(*text(0, "Hi"), {"type": "ping"}, error)
    found = caught.value
    assert (found.kind, found.code, found.message, found.status) == (kind, type, message, None)
    assert (found.retryable, found.request_id) == (retryable, "req_1")


def test_an_event_named_error_is_one_whatever_its_data_says() -> None:
    decoder = MessagesDecoder(ReplyReducer(provider="anthropic"), server=SERVER)
    with pytest.raises(ModelError, match="too busy") as caught:
        decoder.decode({"error": {"message": "too busy", "code": 503}}, "error")
    assert caught.value.kind == "overloaded"


# --- writing


def body(request: ModelRequest, profile: ModelProfile | None = None) -> dict[str, Any]:
    encoded = encode(request, model="m1", profile=profile or ModelProfile(), server=SERVER)
    json.dumps(encoded)
    return encoded


SERVER = "https://api.anthropic.com"
HI = Message("user", "Hi")


def asked(**options: Any) -> dict[str, Any]:
    return body(ModelRequest(messages=[HI], **options))


def turns(*messages: Message) -> list[dict[str, Any]]:
    return body(ModelRequest(messages=messages))["messages"]


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def use(call_id: str, **args: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "f", "input": args}


def result(call_id: str, **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, **fields}


def called(*call_ids: str) -> Message:
    return Message("assistant", [ToolCallPart(call_id, "f", {}) for call_id in call_ids])


def answered(*call_ids: str, value: Any = "ok") -> Message:
    return Message("tool", [ToolResultPart(call_id, "f", value) for call_id in call_ids])


def test_the_smallest_request_says_no_more_than_it_must() -> None:
    assert asked() == {
        "model": "m1",
        "max_tokens": 4096,
        "messages": [{"role": "user", "content": [words("Hi")]}],
        "stream": True,
    }


def test_a_conversation_is_written_as_turns_of_user_and_assistant() -> None:
    encoded = body(
        ModelRequest(
            system="Help.",
            messages=[
                Message("user", "Weather?"),
                Message("user", [FeedbackPart("In Tromsø.")]),
                Message("assistant", [TextPart("Let me see."), ToolCallPart("c1", "f", {"city": "Tromsø"})]),
                Message("tool", [ToolResultPart("c1", "f", {"sky": "blå"})]),
                Message("user", "And?"),
                Message("assistant", "Blue."),
                Message("assistant", "Really."),
                Message("user", [FeedbackPart("Not accepted.")]),
            ],
        )
    )
    assert encoded["system"] == "Help."
    assert encoded["messages"] == [
        {"role": "user", "content": [words("Weather?"), words("In Tromsø.")]},
        {"role": "assistant", "content": [words("Let me see."), use("c1", city="Tromsø")]},
        {"role": "user", "content": [result("c1", content='{"sky":"blå"}'), words("And?")]},
        {"role": "assistant", "content": [words("Blue."), words("Really.")]},
        {"role": "user", "content": [words("Not accepted.")]},
    ]


def test_system_messages_are_never_lost_whatever_the_profile_says() -> None:
    request = ModelRequest(messages=[HI, Message("system", "Be brief.")], system="Help.")
    assert body(request, ModelProfile(system_anywhere=True))["system"] == "Help.\n\nBe brief."


def test_messages_given_are_not_changed() -> None:
    history = [HI, called("c1"), answered("c1"), HI]
    first = turns(*history)
    assert turns(*history) == first
    assert history == [HI, called("c1"), answered("c1"), HI]


@pytest.mark.parametrize("blank", ["", " ", "\n\t"])
def test_blank_texts_are_left_out_and_what_is_left_is_joined(blank: str) -> None:
    """A18"""
    history = [
        Message("user", [TextPart(blank), TextPart("Hi"), FeedbackPart(blank)]),
        Message("assistant", blank),
        Message("user", blank),
        Message("user", "Again"),
        Message("assistant", [TextPart(blank), *called("c1").parts]),
        answered("c1", value=blank),
    ]
    encoded = body(ModelRequest(messages=history, system=blank))
    assert encoded["messages"] == [
        {"role": "user", "content": [words("Hi"), words("Again")]},
        {"role": "assistant", "content": [use("c1")]},
        {"role": "user", "content": [result("c1")]},
    ]
    assert "system" not in encoded


@pytest.mark.parametrize("messages", [[], [Message("user", " ")], [Message("system", "Be brief.")]])
def test_a_conversation_without_content_is_refused_before_it_is_sent(messages: list[Message]) -> None:
    with pytest.raises(UserError, match="at least one message"):
        turns(*messages)


@pytest.mark.parametrize(
    ("value", "content"),
    [(None, "null"), (True, "true"), ([1, 2.5], "[1,2.5]"), ("é", "é"), (["é"], '["é"]'), ({}, "{}")],
)
def test_results_of_tools_are_text_as_it_is_or_json(value: Any, content: str) -> None:
    assert turns(HI, called("c1"), answered("c1", value=value))[2]["content"] == [result("c1", content=content)]


@pytest.mark.parametrize(("text", "content"), [("no such city", "no such city"), (" ", "The tool failed")])
def test_an_error_result_is_marked_and_never_without_words(text: str, content: str) -> None:
    failed = Message("tool", [ToolResultPart("c1", "f", text, is_error=True)])
    (block,) = turns(HI, called("c1"), failed)[2]["content"]
    assert block["is_error"] is True
    assert block["content"].startswith(content)


def test_a_call_whose_arguments_were_no_object_goes_back_with_none() -> None:
    """D20"""
    history = [HI, Message("assistant", [ToolCallPart("c1", "f", {}, raw_args="{oops")]), answered("c1")]
    assert turns(*history)[1]["content"] == [use("c1")]


def test_ids_of_other_providers_are_mapped_and_stay_apart() -> None:
    """A20"""
    mapped = called("functions.f:0", "")
    lookalikes = [block["id"] for block in turns(HI, mapped)[1]["content"]]
    strange = [
        "functions.f:0",
        "functions.f:1",
        "functions_f_0",
        "a b",
        "a:b",
        "",
        "é",
        "\ud800",
        *lookalikes,
        "toolu_01-X",
    ]
    _, assistant, user = turns(HI, called(*strange), answered(*strange))
    ids = [block["id"] for block in assistant["content"]]
    assert ids == [block["tool_use_id"] for block in user["content"]]
    assert len(set(ids)) == len(strange)
    assert all(call_id and call_id.isascii() and call_id.replace("_", "").replace("-", "").isalnum() for call_id in ids)
    assert (ids[2], ids[-1]) == ("functions_f_0", "toolu_01-X")
    assert [block["id"] for block in turns(HI, called(*strange))[1]["content"]] == ids


def test_a_name_that_a_model_made_up_is_written_as_this_wire_takes_it() -> None:
    (block,) = turns(HI, Message("assistant", [ToolCallPart("c1", "functions.f", {})]))[1]["content"]
    assert block["name"] == wire_name("functions.f")


SIGNED = ReasoningPart("Hm. \n", "anthropic", {"signature": "c2ln"})
REDACTED = ReasoningPart("", "anthropic", {"redacted": "ZGF0YQ=="})
THINKING = {"type": "thinking", "thinking": "Hm. \n", "signature": "c2ln"}


def test_signed_thinking_goes_back_unchanged_and_in_its_place() -> None:
    """A17"""
    parts = [SIGNED, REDACTED, TextPart("Look:"), SIGNED, ToolCallPart("c1", "f", {})]
    redacted = {"type": "redacted_thinking", "data": "ZGF0YQ=="}
    assert turns(HI, Message("assistant", parts))[1]["content"] == [
        *(THINKING, redacted, words("Look:"), THINKING, use("c1")),
    ]


def test_thinking_of_others_and_without_a_signature_stays_here() -> None:
    """A14, A17"""
    others = [
        ReasoningPart("Hm.", "openai", {"signature": "c2ln"}),
        ReasoningPart("", "openai", {"redacted": "ZGF0YQ=="}),
        ReasoningPart("Hm.", "anthropic", None),
        ReasoningPart("Hm.", "anthropic", {}),
        ReasoningPart("Hm."),
    ]
    assert turns(HI, Message("assistant", [*others, TextPart("Yes.")]))[1]["content"] == [words("Yes.")]


def test_thinking_that_led_to_nothing_stays_here() -> None:
    assert turns(HI, Message("assistant", [SIGNED, REDACTED]), HI) == [{"role": "user", "content": [words("Hi")] * 2}]
    # A part of a turn's thinking is refused without the rest.
    assert turns(HI, Message("assistant", [SIGNED, TextPart("Yes."), SIGNED]))[1]["content"] == [words("Yes.")]


def test_words_to_go_on_with_do_not_end_in_white_space() -> None:
    assert turns(HI, Message("assistant", "So \n"))[1]["content"] == [words("So")]


def test_data_of_the_application_is_never_sent() -> None:
    parts = [DataPart("trace", 1), TextPart("Hi")]
    assert turns(Message("user", parts), Message("assistant", parts)) == [
        {"role": "user", "content": [words("Hi")]},
        {"role": "assistant", "content": [words("Hi")]},
    ]


PNG = {"type": "base64", "media_type": "image/png", "data": "QUJD"}
PDF = {"type": "base64", "media_type": "application/pdf", "data": "QUJD"}


def test_images_and_files_are_blocks_of_a_user_turn() -> None:
    note = base64.b64encode("Blå".encode()).decode()
    parts: list[Part] = [
        ImagePart(url="https://x/a.png"),
        ImagePart(data="QUJD", media_type="image/png"),
        ImagePart(url="data:image/png;base64,QUJD"),
        FilePart(data="QUJD", media_type="image/png"),
        FilePart(data="QUJD", media_type="application/pdf", filename="a.pdf"),
        FilePart(url="https://x/a.pdf"),
        FilePart(data=note, media_type="text/markdown"),
    ]
    assert turns(Message("user", parts))[0]["content"] == [
        {"type": "image", "source": {"type": "url", "url": "https://x/a.png"}},
        {"type": "image", "source": PNG},
        {"type": "image", "source": PNG},
        {"type": "image", "source": PNG},
        {"type": "document", "source": PDF, "title": "a.pdf"},
        {"type": "document", "source": {"type": "url", "url": "https://x/a.pdf"}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Blå"}},
    ]


@pytest.mark.parametrize(
    ("part", "complaint"),
    [
        (ImagePart(), "ImagePart needs a url, or data together with its media_type"),
        (ImagePart(data="QUJD"), "ImagePart needs"),
        (FilePart(media_type="application/pdf"), "FilePart needs"),
        (FilePart(data="QUJD", media_type="audio/wav"), "not 'audio/wav'"),
        (FilePart(url="https://x/a.txt", media_type="text/plain"), "text given as data, not 'text/plain'"),
        (FilePart(data="/w==", media_type="text/plain"), "must be UTF-8 in base64"),
        (FilePart(data="?", media_type="text/plain"), "must be UTF-8 in base64"),
    ],
)
def test_an_input_that_has_no_place_on_this_wire_is_refused(part: Part, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        turns(Message("user", [part]))


def test_tools_are_written_with_their_schema() -> None:
    plain = Tool(name="f", parameters={"type": "object", "properties": {}}, run=lambda: None)
    plain.description = ""
    encoded = asked(tools=[WEATHER, plain])
    assert encoded["tools"] == [
        {"name": "get_weather", "description": "Tells the weather.", "input_schema": WEATHER.parameters},
        {"name": "f", "input_schema": plain.parameters},
    ]
    assert "tool_choice" not in encoded


@pytest.mark.parametrize(
    ("choice", "written"),
    [
        ("none", {"type": "none"}),
        ("required", {"type": "any"}),
        ("get_weather", {"type": "tool", "name": "get_weather"}),
    ],
)
def test_tool_choices_are_written(choice: str, written: Any) -> None:
    assert asked(tools=[WEATHER], tool_choice=choice)["tool_choice"] == written
    assert "tool_choice" not in asked(tool_choice="none")


def test_the_choice_of_a_tool_that_is_not_there_is_refused() -> None:
    with pytest.raises(UserError, match="'get_wether' is no tool of this request; there are: get_weather"):
        asked(tools=[WEATHER], tool_choice="get_wether")


def test_settings_are_written_by_their_names_on_the_wire() -> None:
    settings = ModelSettings(temperature=0, top_p=0.5, max_output_tokens=9, stop=("a", "b"), seed=7, timeout=3.0)
    encoded = asked(settings=settings)
    assert {k: v for k, v in encoded.items() if k not in {"model", "messages", "stream"}} == {
        "temperature": 0,
        "top_p": 0.5,
        "max_tokens": 9,
        "stop_sequences": ["a", "b"],
    }


def test_the_limit_of_the_reply_is_the_profiles_where_the_settings_name_none() -> None:
    assert body(ModelRequest(messages=[HI]), ModelProfile(default_max_tokens=77))["max_tokens"] == 77
    assert asked(settings=ModelSettings(max_output_tokens=5))["max_tokens"] == 5


def test_the_extra_body_has_the_last_word() -> None:
    thinking = {"type": "enabled", "budget_tokens": 2048}
    settings = ModelSettings(temperature=0.1, extra_body={"temperature": 1, "thinking": thinking})
    encoded = asked(settings=settings)
    assert (encoded["temperature"], encoded["thinking"]) == (1, thinking)


SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 9}}, "required": ["city"]}


def test_the_form_of_the_reply_is_asked_for_by_a_closed_schema() -> None:
    city = {"type": "string", "description": "(maxLength: 9)"}
    schema = {"type": "object", "properties": {"city": city}, "required": ["city"], "additionalProperties": False}
    encoded = asked(output=OutputFormat("Place", SCHEMA))
    assert encoded["output_config"] == {"format": {"type": "json_schema", "schema": schema}}
    assert "system" not in encoded
    assert "output_config" not in asked()


def test_the_form_and_the_effort_go_together() -> None:
    settings = ModelSettings(extra_body={"output_config": {"effort": "low"}})
    config = asked(output=OutputFormat("Place", SCHEMA), settings=settings)["output_config"]
    assert (config["effort"], config["format"]["type"]) == ("low", "json_schema")


def test_a_form_that_has_no_closed_schema_is_told_in_words() -> None:
    counts = {"type": "object", "additionalProperties": {"type": "integer"}}
    encoded = asked(system="Help.", output=OutputFormat("Counts", counts))
    assert "output_config" not in encoded
    assert encoded["system"].startswith("Help.\n\nAnswer with one JSON object")
    assert json.dumps(counts) in encoded["system"]

from __future__ import annotations

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
from mastra_py.models._openai_chat_wire import ChatDecoder, encode
from mastra_py.models._reducer import ReplyReducer
from mastra_py.tools import Tool

SERVER = "http://server/v1"
WEATHER = Tool(
    name="get_weather",
    description="Tells the weather.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    run=lambda city: city,
)


# --- reading


def read(*chunks: dict[str, Any], done: bool = True, taken_ids: tuple[str, ...] = ()) -> list[ModelEvent]:
    """Return the events of a reply of these chunks."""
    decoder = ChatDecoder(ReplyReducer(provider="openai", taken_ids=taken_ids), server=SERVER)
    events = [event for chunk in chunks for event in decoder.decode(chunk)]
    events += decoder.end(marked=done)
    assert decoder.finished
    return events


def delta(finish_reason: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"id": "r1", "model": "m1", "choices": [{"index": 0, "delta": fields, "finish_reason": finish_reason}]}


def tool(
    args: str | None = None, *, index: int | None = None, id: str | None = None, name: str | None = None
) -> dict[str, Any]:
    """Return one entry of ``tool_calls``, without the fields that are None."""
    function = {key: value for key, value in {"name": name, "arguments": args}.items() if value is not None}
    entry = {key: value for key, value in {"index": index, "id": id}.items() if value is not None}
    return {**entry, "function": function}


def tools(*entries: dict[str, Any]) -> dict[str, Any]:
    return delta(tool_calls=list(entries))


def finished(reason: Any, **usage: int) -> ModelFinished:
    return ModelFinished(finish_reason=reason, usage=Usage(**usage), response_id="r1", model="m1")


def calls(events: list[ModelEvent]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(e.tool_call_id, e.tool_name, e.args) for e in events if isinstance(e, ToolCall)]


def test_text_is_one_block() -> None:
    events = read(delta(role="assistant", content=""), delta(content="Hel"), delta(content="lo"), delta("stop"))
    assert events == [TextStart(), TextDelta("Hel"), TextDelta("lo"), TextEnd(), finished("stop")]


def test_kinds_of_content_are_blocks_one_after_another() -> None:
    events = read(
        delta(reasoning_content="Hm. "),
        delta(reasoning_content="Yes."),
        delta(content="Look:"),
        tools(tool('{"city":', index=0, id="c1", name="get_weather")),
        tools(tool('"Oslo"}', index=0)),
        delta(content="Done."),
        delta("tool_calls"),
    )
    mark = {"field": "reasoning_content", "server": SERVER}
    assert events == [
        ReasoningStart(),
        ReasoningDelta("Hm. "),
        ReasoningDelta("Yes."),
        ReasoningEnd("openai", mark),
        TextStart(),
        TextDelta("Look:"),
        TextEnd(),
        ToolInputStart("c1", "get_weather"),
        ToolInputDelta("c1", '{"city":'),
        ToolInputDelta("c1", '"Oslo"}'),
        ToolInputEnd("c1"),
        ToolCall("c1", "get_weather", {"city": "Oslo"}),
        TextStart(),
        TextDelta("Done."),
        TextEnd(),
        finished("tool_calls"),
    ]


def test_one_chunk_may_hold_several_kinds() -> None:
    entry = tool("{}", index=0, id="c1", name="f")
    events = read(delta("tool_calls", role="assistant", reasoning="Hm.", content="Yes.", tool_calls=[entry]))
    assert [e.type for e in events] == [
        *("reasoning-start", "reasoning-delta", "reasoning-end", "text-start", "text-delta", "text-end"),
        *("tool-call-input-streaming-start", "tool-call-delta", "tool-call-input-streaming-end", "tool-call"),
        "model-finish",
    ]


def test_reasoning_that_comes_under_both_names_counts_once() -> None:
    events = read(delta(reasoning="Hm.", reasoning_content="Hm."), delta("stop", content="Yes."))
    assert [e.text for e in events if isinstance(e, ReasoningDelta)] == ["Hm."]


def test_a_call_is_whole_before_the_next_one_starts() -> None:
    events = read(
        tools(tool("{}", index=0, id="c1", name="f")),
        tools(tool('{"a":1}', index=1, id="c2", name="g")),
        delta("tool_calls"),
    )
    assert [type(e).__name__ for e in events] == [
        *("ToolInputStart", "ToolInputDelta", "ToolInputEnd", "ToolCall"),
        *("ToolInputStart", "ToolInputDelta", "ToolInputEnd", "ToolCall"),
        "ModelFinished",
    ]
    assert calls(events) == [("c1", "f", {}), ("c2", "g", {"a": 1})]


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        pytest.param(
            [tools(tool('{"a":1}', index=0, id="c1", name="f"), tool('{"a":2}', index=1, id="c2", name="f"))],
            [("c1", "f", {"a": 1}), ("c2", "f", {"a": 2})],
            id="whole calls in one chunk",
        ),
        pytest.param(
            [
                tools(tool("", index=0, id="c1", name="f"), tool("", index=1, id="c2", name="g")),
                tools(tool('{"a"', index=0), tool('{"b"', index=1)),
                tools(tool(":2}", index=1), tool(":1}", index=0)),
            ],
            [("c1", "f", {"a": 1}), ("c2", "g", {"b": 2})],
            id="interleaved by index",
        ),
        pytest.param(
            [
                tools(tool("", id="c1", name="f")),
                tools(tool('{"a":')),
                tools(tool("1}")),
                tools(tool("", id="c2", name="f")),
                tools(tool('{"a":2}')),
            ],
            [("c1", "f", {"a": 1}), ("c2", "f", {"a": 2})],
            id="A01: no index, a new id begins a call",
        ),
        pytest.param(
            [tools(tool('{"a":', id="c1", name="f")), tools(tool("1}", id="c1", name="f"))],
            [("c1", "f", {"a": 1})],
            id="A01, A02: no index, the same id goes on",
        ),
        pytest.param(
            [tools(tool('{"a":', index=0, id="c1", name="f")), tools(tool("1}", index=0, id="c1", name="f"))],
            [("c1", "f", {"a": 1})],
            id="A02, A03: id and name again",
        ),
        pytest.param(
            [
                tools(tool('{"a":1', index=0, id="c1", name="f")),
                tools(tool("}", index=0, id="", name="")),
                tools(tool("", index=0, id="")),
                tools(tool("", index=1, id="", name="")),
            ],
            [("c1", "f", {"a": 1})],
            id="A04: empty ids and names",
        ),
        pytest.param(
            [tools(tool('{"a":1}', index=0, id="c1", name="f")), tools(tool('{"a":2}', index=0, id="c2", name="f"))],
            [("c1", "f", {"a": 1}), ("c2", "f", {"a": 2})],
            id="every call counted as the first one",
        ),
        pytest.param(
            [tools(tool('{"a":1}', index=0, name="f")), tools(tool('{"a":2}', index=0, name="f"))],
            [("call_1", "f", {"a": 1}), ("call_2", "f", {"a": 2})],
            id="the same without ids",
        ),
        pytest.param(
            [tools(tool('{"a":1}', name="f"), tool('{"b":2}', name="g"))],
            [("call_1", "f", {"a": 1}), ("call_2", "g", {"b": 2})],
            id="neither index nor id",
        ),
        pytest.param(
            [tools(tool("", name="f")), tools(tool('{"a":1}', name="f"))],
            [("call_1", "f", {"a": 1})],
            id="neither index nor id, the name again",
        ),
        pytest.param(
            [tools(tool(index=0, id="c1")), tools(tool('{"a":', index=0)), tools(tool("1}", index=0, name="f"))],
            [("c1", "f", {"a": 1})],
            id="the name comes late",
        ),
        pytest.param(
            [tools(tool("{}", index=0, id="x", name="f"), tool("{}", index=1, id="x", name="f"))],
            [("x", "f", {}), ("x_1", "f", {})],
            id="one id for two calls",
        ),
        pytest.param(
            [tools({"index": 0, "id": "c1", "function": {"name": "f", "arguments": {"a": 1}}})],
            [("c1", "f", {"a": 1})],
            id="arguments that are an object already",
        ),
        pytest.param(
            [delta(function_call={"name": "f", "arguments": '{"a":'}), delta(function_call={"arguments": "1}"})],
            [("call_1", "f", {"a": 1})],
            id="the old function_call",
        ),
        pytest.param(
            [tools(tool("", index=0, id="c1", name="f"))], [("c1", "f", {})], id="A05: blank arguments are none"
        ),
        pytest.param(
            [tools(tool(' {"a":1} ', index=0, id="c1", name="f")), tools(tool("  ", index=0))],
            [("c1", "f", {"a": 1})],
            id="blanks round the arguments",
        ),
        pytest.param(
            [tools(tool('{"a":"\\ud83d\\ude00 \\ud83d"}', index=0, id="c1", name="f"))],
            [("c1", "f", {"a": "\U0001f600 \ufffd"})],
            id="A34: escapes of surrogates",
        ),
    ],
)
@pytest.mark.parametrize("label", ["tool_calls", "stop", "function_call", None])
def test_calls_are_told_apart(
    chunks: list[dict[str, Any]], expected: list[tuple[str, str, dict[str, Any]]], label: str | None
) -> None:
    events = read(*chunks, delta(label))
    assert calls(events) == expected
    last = events[-1]
    assert isinstance(last, ModelFinished)
    assert last.finish_reason == "tool_calls"  # A08: the calls decide, whatever the label says
    started = [e.tool_call_id for e in events if isinstance(e, ToolInputStart)]
    ended = [e.tool_call_id for e in events if isinstance(e, ToolInputEnd)]
    assert started == ended == [call_id for call_id, _, _ in expected]


def test_ids_of_the_conversation_are_not_given_again() -> None:
    chunks = [tools(tool("{}", name="f"), tool("{}", index=7, id="x", name="f")), delta("tool_calls")]
    assert [call_id for call_id, _, _ in calls(read(*chunks, taken_ids=("call_1", "x")))] == ["call_2", "x_1"]


@pytest.mark.parametrize("args", ['{"city": ', "[1]", "null", '"x"', '{"a":NaN}', "nonsense", "{}{}", "[" * 5000])
def test_arguments_that_are_no_object_are_kept_as_they_came(args: str) -> None:
    """D20"""
    events = read(tools(tool(args, index=0, id="c1", name="f")), delta("tool_calls"))
    assert [e for e in events if isinstance(e, ToolCall)] == [ToolCall("c1", "f", {}, raw_args=args)]


@pytest.mark.parametrize("reason", ["length", "content_filter"])
@pytest.mark.parametrize("args", ['{"path":"a.md","content":"# Q', "", "{}"])
def test_a_reply_that_was_cut_off_gives_no_call_for_what_was_open(reason: str, args: str) -> None:
    """A11"""
    events = read(tools(tool(args, index=0, id="c1", name="write_file")), delta(reason))
    assert calls(events) == []
    assert events[-2:] == [ToolInputEnd("c1"), finished(reason)]


def test_a_reply_without_calls_ends_as_stop_whatever_its_label() -> None:
    assert read(delta(content="Hi."), delta("tool_calls"))[-1] == finished("stop")


@pytest.mark.parametrize(
    ("label", "reason"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content_filter"),
        ("refusal", "refusal"),
        ("surprise", "other"),
    ],
)
def test_finish_reasons_are_translated(label: str, reason: str) -> None:
    assert read(delta(content="Hi."), delta(label))[-1] == finished(reason)


def test_a_refusal_is_text_and_a_reason_of_its_own() -> None:
    events = read(delta(refusal="I can"), delta(refusal="not."), delta("stop"))
    assert [e.text for e in events if isinstance(e, TextDelta)] == ["I can", "not."]
    assert events[-1] == finished("refusal")


def test_usage_is_read_from_any_chunk_and_the_last_one_counts() -> None:
    """A07, A46"""
    events = read(
        {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}},
        {**delta(content="Hi."), "usage": None},
        delta("stop"),
        {
            "choices": [],
            "usage": {
                "prompt_tokens": 9,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 4},
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
        },
    )
    usage = Usage(input_tokens=9, output_tokens=5, cached_input_tokens=4, reasoning_tokens=3)
    assert [e.usage for e in events if isinstance(e, ModelFinished)] == [usage]


def test_what_a_later_report_of_usage_leaves_out_stays() -> None:
    """A46"""
    reducer = ReplyReducer(provider="anthropic")
    reducer.usage(input_tokens=7, cached_input_tokens=2)
    reducer.usage(output_tokens=1)
    reducer.usage(output_tokens=5, reasoning_tokens=3)
    (finished,) = reducer.finish()
    assert isinstance(finished, ModelFinished)
    assert finished.usage == Usage(input_tokens=7, output_tokens=5, cached_input_tokens=2, reasoning_tokens=3)


def test_what_comes_for_a_call_that_is_whole_already_changes_nothing() -> None:
    events = read(
        tools(tool('{"a":1}', index=0, id="c1", name="f")),
        tools(tool("{}", index=1, id="c2", name="g")),
        tools(tool("\n", index=0)),
        delta("tool_calls"),
    )
    assert calls(events) == [("c1", "f", {"a": 1}), ("c2", "g", {})]
    assert [e.tool_call_id for e in events if isinstance(e, ToolInputDelta)] == ["c1", "c2"]


def test_after_the_end_nothing_comes() -> None:
    reducer = ReplyReducer(provider="openai")
    reducer.tool(0, "c1", "f", "{}")
    assert len(reducer.finish()) == 3
    assert [
        *reducer.text("a"),
        *reducer.reasoning("a", {"a": 1}),
        *reducer.tool(1, "c2", "f", "{}"),
        *reducer.tool(0, None, None, "{}"),
        *reducer.end_tool(0),
        *reducer.end_block(),
        *reducer.fail(),
        *reducer.finish(),
    ] == []


def test_a_call_that_is_ended_by_its_provider_waits_only_where_its_arguments_are_no_object() -> None:
    def reply(reason: Any) -> list[str]:
        reducer = ReplyReducer(provider="anthropic")
        events = [*reducer.tool("a", "c1", "f", ""), *reducer.end_tool("a")]  # A06: no delta at all
        events += [*reducer.tool("b", "c2", "f", '{"x": "'), *reducer.end_tool("b"), *reducer.end_tool("b")]
        reducer.reason = reason
        events += reducer.finish()
        return [f"{e.type} {getattr(e, 'tool_call_id', '')}".strip() for e in events]

    starts = [
        *("tool-call-input-streaming-start c1", "tool-call-input-streaming-end c1", "tool-call c1"),
        *("tool-call-input-streaming-start c2", "tool-call-delta c2", "tool-call-input-streaming-end c2"),
    ]
    assert reply("tool_calls") == [*starts, "tool-call c2", "model-finish"]
    assert reply("length") == [*starts, "model-finish"]


def test_blocks_that_a_provider_ends_are_told_apart() -> None:
    reducer = ReplyReducer(provider="anthropic")
    events = [*reducer.reasoning("Hm."), *reducer.reasoning("", {"signature": "s1"}), *reducer.end_block()]
    events += [*reducer.reasoning("", {"data": "d"}), *reducer.end_block()]
    events += [*reducer.text("a"), *reducer.end_block(), *reducer.text("b"), *reducer.end_block(), *reducer.end_block()]
    assert events == [
        *(ReasoningStart(), ReasoningDelta("Hm."), ReasoningEnd("anthropic", {"signature": "s1"})),
        *(ReasoningStart(), ReasoningEnd("anthropic", {"data": "d"})),
        *(TextStart(), TextDelta("a"), TextEnd(), TextStart(), TextDelta("b"), TextEnd()),
    ]


def test_a_reply_that_breaks_off_is_an_error_and_one_marked_as_done_is_whole() -> None:
    """A09, A10"""
    with pytest.raises(StreamError, match="broke off") as caught:
        read(delta(content="Hi"), done=False)
    assert caught.value.retryable is True
    assert read(delta(content="Hi"), done=True)[-1] == finished("stop")
    assert read(delta(content="Hi"), delta("length"), done=False)[-1] == finished("length")


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        ([delta("error")], "with an error"),
        ([tools(tool("{}", index=0, id="c1")), delta("stop")], "without a name"),
    ],
)
def test_an_end_that_makes_no_sense_is_a_stream_error(chunks: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(StreamError, match=message):
        read(*chunks)


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        ({"code": 502, "message": "Upstream is gone"}, "server", "502"),
        ({"code": 429, "message": "Upstream is gone"}, "rate_limit", "429"),
        ({"type": "server_error", "code": None, "message": "Upstream is gone"}, "server", "server_error"),
        (
            {"code": "context_length_exceeded", "message": "Upstream is gone"},
            "context_length",
            "context_length_exceeded",
        ),
        ({"type": "invalid_request_error", "message": "Upstream is gone"}, "request", "invalid_request_error"),
        ("Upstream is gone", "other", None),
    ],
)
def test_an_error_in_a_reply_is_what_its_code_says(error: Any, kind: str, code: str | None) -> None:
    """A12"""
    with pytest.raises(ModelError, match="Upstream is gone") as caught:
        read(delta(content="Hi"), {**delta("error"), "error": error})
    assert (caught.value.kind, caught.value.code, caught.value.status) == (kind, code, None)


def test_an_event_named_error_is_one_without_the_wrapping_too() -> None:
    decoder = ChatDecoder(ReplyReducer(provider="openai"), server=SERVER)
    with pytest.raises(ModelError, match="too busy") as caught:
        decoder.decode({"message": "too busy", "type": "overloaded_error"}, "error")
    assert caught.value.kind == "overloaded"


# --- writing


def body(request: ModelRequest, profile: ModelProfile | None = None) -> dict[str, Any]:
    encoded = encode(request, model="m1", profile=profile or ModelProfile(), server=SERVER)
    json.dumps(encoded)
    return encoded


def messages(*messages: Message, system: str | None = None) -> list[dict[str, Any]]:
    return body(ModelRequest(messages=messages, system=system))["messages"]


def test_the_smallest_request_says_no_more_than_it_must() -> None:
    assert body(ModelRequest(messages=[Message("user", "Hi")])) == {
        "model": "m1",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_a_conversation_is_written_in_order() -> None:
    assert messages(
        Message("user", "Weather?"),
        Message(
            "assistant", [TextPart("Let me see."), ToolCallPart("c1", "get_weather", {"city": "Tromsø"}), TextPart(" ")]
        ),
        Message("tool", [ToolResultPart("c1", "get_weather", {"sky": "blue"}), ToolResultPart("c2", "f", "plain")]),
        Message("assistant", "Blue."),
        Message("system", "Be brief."),
        Message("user", [FeedbackPart("Not accepted.")]),
        system="Help.",
    ) == [
        {"role": "system", "content": "Help."},
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": "Let me see. ",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Tromsø"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": '{"sky":"blue"}'},
        {"role": "tool", "tool_call_id": "c2", "content": "plain"},
        {"role": "assistant", "content": "Blue."},
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Not accepted."},
    ]


def test_texts_of_one_message_are_a_plain_text_with_blank_lines_between() -> None:
    several = Message("user", [TextPart("One."), TextPart("Two."), FeedbackPart("Three.")])
    assert messages(several) == [{"role": "user", "content": "One.\n\nTwo.\n\nThree."}]


@pytest.mark.parametrize(
    ("result", "content"),
    [(None, "null"), ("", ""), (True, "true"), ([1, 2.5], "[1,2.5]"), ("é", "é"), (["é"], '["é"]')],
)
def test_results_of_tools_are_text_as_it_is_or_json(result: Any, content: str) -> None:
    assert messages(Message("tool", [ToolResultPart("c1", "f", result)]))[0]["content"] == content


def test_an_error_result_goes_in_its_own_words() -> None:
    part = ToolResultPart("c1", "f", "no such city", is_error=True)
    assert messages(Message("tool", [part]))[0]["content"] == "no such city"


def test_an_id_that_is_too_long_is_shortened_for_the_call_and_its_result_alike() -> None:
    long, just = "x" * 41, "y" * 40
    calls = Message("assistant", [ToolCallPart(long, "f", {}), ToolCallPart(just, "f", {})])
    said = messages(calls, Message("tool", [ToolResultPart(long, "f", 1), ToolResultPart(just, "f", 2)]))
    ids = [call["id"] for call in said[0]["tool_calls"]]
    assert ids == [message["tool_call_id"] for message in said[1:]]
    assert len(ids[0]) == 40
    assert ids[1] == just


def test_a_call_whose_arguments_were_no_object_goes_back_with_none() -> None:
    """D20"""
    (message,) = messages(Message("assistant", [ToolCallPart("c1", "f", {}, raw_args="{oops")]))
    assert message["content"] == ""
    assert message["tool_calls"][0]["function"]["arguments"] == "{}"


def test_an_answer_without_content_is_written_as_an_empty_one() -> None:
    assert messages(Message("assistant", "")) == [{"role": "assistant", "content": ""}]


def test_images_and_files_are_parts_of_a_user_message() -> None:
    parts: list[Part] = [
        TextPart("Compare"),
        ImagePart(url="https://x/a.png"),
        ImagePart(data="QUJD", media_type="image/png"),
        FilePart(data="QUJD", media_type="application/pdf", filename="a.pdf"),
        FilePart(data="QUJD", media_type="application/pdf"),
    ]
    assert messages(Message("user", parts))[0]["content"] == [
        {"type": "text", "text": "Compare"},
        {"type": "image_url", "image_url": {"url": "https://x/a.png"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QUJD"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,QUJD"}},
    ]


@pytest.mark.parametrize(
    ("part", "complaint"),
    [
        (ImagePart(), "ImagePart needs a url, or data together with its media_type"),
        (ImagePart(data="QUJD"), "ImagePart needs"),
        (FilePart(media_type="application/pdf"), "FilePart needs"),
        (FilePart(url="https://x/a.pdf"), "no file by url"),
    ],
)
def test_an_input_that_has_no_place_on_this_wire_is_refused(part: Part, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        messages(Message("user", [part]))


def test_data_of_the_application_is_never_sent() -> None:
    assert messages(Message("user", [DataPart("trace", 1), TextPart("Hi"), DataPart("trace", 2)])) == [
        {"role": "user", "content": "Hi"}
    ]
    assert messages(Message("user", [DataPart("trace", 1)])) == []


def test_reasoning_goes_back_only_to_the_server_that_wants_it_back() -> None:
    """A14"""
    mark = {"field": "reasoning_content", "server": SERVER}
    call = ToolCallPart("c1", "f", {})

    def sent(provider: str | None, metadata: dict[str, Any] | None) -> str | None:
        (message,) = messages(Message("assistant", [ReasoningPart("Hm.", provider, metadata), call]))
        return message.get("reasoning_content")

    assert sent("openai", mark) == "Hm."
    assert sent("openai", {**mark, "server": "http://elsewhere/v1"}) is None
    assert sent("openai", {**mark, "field": "reasoning"}) is None
    assert sent("anthropic", mark) is None
    assert sent("openai", None) is None
    assert sent(None, None) is None


def test_tools_are_written_with_their_schema() -> None:
    plain = Tool(name="f", parameters={"type": "object", "properties": {}}, run=lambda: None)
    plain.description = ""
    encoded = body(ModelRequest(messages=[], tools=[WEATHER, plain]))
    assert encoded["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "description": "Tells the weather.",
                "parameters": WEATHER.parameters,
            },
        },
        {"type": "function", "function": {"name": "f", "parameters": plain.parameters}},
    ]
    assert "tool_choice" not in encoded


@pytest.mark.parametrize(
    ("choice", "written"),
    [
        ("none", "none"),
        ("required", "required"),
        ("get_weather", {"type": "function", "function": {"name": "get_weather"}}),
    ],
)
def test_tool_choices_are_written(choice: str, written: Any) -> None:
    assert body(ModelRequest(messages=[], tools=[WEATHER], tool_choice=choice))["tool_choice"] == written
    assert "tool_choice" not in body(ModelRequest(messages=[], tool_choice="none"))


def test_the_choice_of_a_tool_that_is_not_there_is_refused() -> None:
    with pytest.raises(UserError, match="'get_wether' is no tool of this request; there are: get_weather"):
        body(ModelRequest(messages=[], tools=[WEATHER], tool_choice="get_wether"))


def test_settings_are_written_by_their_names_on_the_wire() -> None:
    settings = ModelSettings(temperature=0, top_p=0.5, max_output_tokens=9, stop=("a", "b"), seed=7, timeout=3.0)
    encoded = body(ModelRequest(messages=[], settings=settings))
    assert {k: v for k, v in encoded.items() if k not in {"model", "messages", "stream", "stream_options"}} == {
        "temperature": 0,
        "top_p": 0.5,
        "max_tokens": 9,
        "stop": ["a", "b"],
        "seed": 7,
    }
    newer = body(ModelRequest(messages=[], settings=settings), ModelProfile(max_tokens_field="max_completion_tokens"))
    assert newer["max_completion_tokens"] == 9
    assert "max_tokens" not in newer


def test_the_extra_body_has_the_last_word() -> None:
    settings = ModelSettings(temperature=0.1, extra_body={"temperature": 0.9, "min_p": 0.05})
    encoded = body(ModelRequest(messages=[], settings=settings))
    assert (encoded["temperature"], encoded["min_p"]) == (0.9, 0.05)


def test_the_form_of_the_reply_is_asked_for_by_its_schema() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    encoded = body(ModelRequest(messages=[], output=OutputFormat("Place", schema)))
    assert encoded["response_format"] == {"type": "json_schema", "json_schema": {"name": "Place", "schema": schema}}
    assert "response_format" not in body(ModelRequest(messages=[]))

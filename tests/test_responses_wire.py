"""OpenAI's Responses API as data: what is made of the events of a reply, and the bodies of requests."""

from __future__ import annotations

from typing import Any

import pytest
from support.responses_events import (
    added,
    args_delta,
    call_item,
    delta,
    done,
    message,
    replied,
    text_item,
    thought_item,
)

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
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Usage,
)
from mastra_py.models import ModelProfile, ModelRequest, ModelSettings
from mastra_py.models._reducer import ReplyReducer
from mastra_py.models._responses_reply import ResponsesDecoder
from mastra_py.models._responses_wire import encode
from mastra_py.tools import Tool

SERVER = "http://server/v1"
AZURE = "https://ours.openai.azure.com/openai/v1"
END = replied()
CREATED = {"type": "response.created", "response": {"id": "r1", "model": "m1", "status": "in_progress", "output": []}}


# --- reading


def feed(decoder: ResponsesDecoder, *events: dict[str, Any]) -> list[ModelEvent]:
    return [made for event in events for made in decoder.decode(event, event.get("type"))]


def new_decoder(*, taken_ids: tuple[str, ...] = ()) -> ResponsesDecoder:
    return ResponsesDecoder(ReplyReducer(provider="openai", taken_ids=taken_ids), server=SERVER)


def read(*events: dict[str, Any], taken_ids: tuple[str, ...] = ()) -> list[ModelEvent]:
    """Return the events of a reply, which ends with the last of these."""
    decoder = new_decoder(taken_ids=taken_ids)
    made = feed(decoder, *events)
    assert decoder.finished
    return made


def text_of(events: list[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def thinking_of(events: list[ModelEvent]) -> list[str]:
    """Return the thinking, a text a block."""
    blocks: list[str] = []
    for event in events:
        if isinstance(event, ReasoningStart):
            blocks.append("")
        elif isinstance(event, ReasoningDelta):
            blocks[-1] += event.text
    return blocks


def calls_of(events: list[ModelEvent]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(e.tool_call_id, e.tool_name, e.args) for e in events if isinstance(e, ToolCall)]


def reason_of(events: list[ModelEvent]) -> str:
    assert isinstance(events[-1], ModelFinished)
    return events[-1].finish_reason


def without(payload: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in payload.items() if name not in names}


def finished(reason: Any, **usage: int) -> ModelFinished:
    return ModelFinished(finish_reason=reason, usage=Usage(**usage), response_id="r1", model="m1")


def test_a_message_is_one_block_of_text() -> None:
    events = read(CREATED, *message("Hel", "lo"), END)
    assert events == [TextStart(), TextDelta("Hel"), TextDelta("lo"), TextEnd(), finished("stop")]


def test_a_block_ends_with_its_item() -> None:
    decoder = new_decoder()
    assert feed(decoder, *message("Hi"))[-1] == TextEnd()
    assert feed(decoder, done(thought_item(None, "Hm.")))[-1] == ReasoningEnd("openai", None)
    assert feed(decoder, done(F1, 1))[-1] == ToolCall("c1", "f", {"a": 1})


def test_items_are_blocks_one_after_another() -> None:
    """A25"""
    events = read(
        CREATED,
        added(thought_item("part of it"), 0),
        summary_delta("Hm."),
        done(thought_item("enc", "Hm."), 0),
        *message("Look: ", item_id="msg_1", index=1),
        *message("Oslo.", item_id="msg_2", index=2),
        added(call_item("c1", "f", ""), 3),
        args_delta('{"a":', "fc_c1", 3),
        args_delta("1}", "fc_c1", 3),
        done(call_item("c1", "f", '{"a":1}'), 3),
        END,
    )
    item = {"id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}], "encrypted_content": "enc"}
    assert events == [
        *(ReasoningStart(), ReasoningDelta("Hm.")),
        ReasoningEnd("openai", {"server": SERVER, "item": item, "led_to": {"type": "message"}}),
        *(TextStart(), TextDelta("Look: "), TextEnd(), TextStart(), TextDelta("Oslo."), TextEnd()),
        *(ToolInputStart("c1", "f"), ToolInputDelta("c1", '{"a":'), ToolInputDelta("c1", "1}"), ToolInputEnd("c1")),
        ToolCall("c1", "f", {"a": 1}),
        finished("tool_calls"),
    ]


def summary_delta(text: str, part: int = 0, item_id: str = "rs_1", index: int = 0) -> dict[str, Any]:
    place = {"item_id": item_id, "output_index": index, "summary_index": part}
    return {"type": "response.reasoning_summary_text.delta", **place, "delta": text}


def text_done(text: str, item_id: str = "msg_1", part: int = 0) -> dict[str, Any]:
    return {"type": "response.output_text.done", "item_id": item_id, "content_index": part, "text": text}


def part_done(text: str, item_id: str = "msg_1", part: int = 0) -> dict[str, Any]:
    content = {"type": "output_text", "text": text}
    return {"type": "response.content_part.done", "item_id": item_id, "content_index": part, "part": content}


TEXT_TOLD_IN_MANY_WAYS = {
    "only deltas": ([delta("Hello"), END], "Hello"),
    "deltas without an item's name": ([{"type": "response.output_text.delta", "delta": "Hello"}, END], "Hello"),
    "only the end of the text": ([text_done("Hello"), END], "Hello"),
    "only the end of the part": ([part_done("Hello"), END], "Hello"),
    "only the end of the item": ([done(text_item("Hello")), END], "Hello"),
    "only the whole reply": ([replied(text_item("Hello"))], "Hello"),
    "content that is a plain text": ([done({**text_item(), "content": "Hello"}), END], "Hello"),
    "every way at once": (
        [
            *list(message("Hel", "lo"))[:3],
            text_done("Hello"),
            part_done("Hello"),
            done(text_item("Hello")),
            done(text_item("Hello")),
            replied(text_item("Hello")),
        ],
        "Hello",
    ),
    "an end that tells more than the deltas": ([delta("Hel"), text_done("Hello"), END], "Hello"),
    "an item that tells more": ([delta("Hel"), done(text_item("Hello")), END], "Hello"),
    "a whole reply that tells more": ([*message("Hel"), replied(text_item("Hello"))], "Hello"),
    "a whole reply that tells it otherwise": ([*message("Hello"), replied(text_item("Goodbye"))], "Hello"),
    "an end that tells it otherwise, twice": ([delta("A"), text_done("B"), part_done("B"), END], "A"),
    "several parts": (
        [
            delta("A", part=0),
            text_done("A", part=0),
            delta("B", part=1),
            text_done("B", part=1),
            done(text_item("A", "B")),
            replied(text_item("A", "B")),
        ],
        "AB",
    ),
    "several parts, the ends late": (
        [delta("A", part=0), delta("B", part=1), text_done("A", part=0), text_done("B", part=1), END],
        "AB",
    ),
    "parts that are all counted as the first": (
        [text_done("A"), part_done("A"), text_done("B"), part_done("B"), done(text_item("A", "B")), END],
        "AB",
    ),
    "parts that are all counted as the first, in deltas": (
        [delta("A"), text_done("A"), delta("B"), text_done("B"), END],
        "AB",
    ),
    "parts that are all counted as the first, and no item": (
        [text_done("A"), part_done("A"), text_done("B"), END],
        "AB",
    ),
    "a further part only in the item": ([delta("A"), text_done("A"), done(text_item("A", "B")), END], "AB"),
    "several messages, all counted as the first": (
        [
            *message("A", item_id="msg_1"),
            *message("B", item_id="msg_2"),
            replied(text_item("A", item_id="msg_1"), text_item("B", item_id="msg_2")),
        ],
        "AB",
    ),
    "several messages known by their ends only, all counted as the first": (
        [done(text_item("A", item_id="msg_1")), done(text_item("B", item_id="msg_2")), END],
        "AB",
    ),
    "a message that begins, and another one that ends before": (
        [
            added(text_item(item_id="x1"), 0),
            done(text_item("B", item_id="x2"), 1),
            done(text_item("A", item_id="x1"), 0),
            END,
        ],
        "BA",
    ),
    "a message that is not the one that is open": (
        [delta("Hi", "x1", 0), done(text_item("Bye", item_id="x2"), 1), END],
        "HiBye",
    ),
    "a whole reply that tells more of the second message": (
        [
            *message("A", item_id="msg_1"),
            *message("B", item_id="msg_2", index=1),
            replied(text_item("B!", item_id="msg_2")),
        ],
        "AB!",
    ),
    "several messages of one id": (
        [*message("A", index=0), *message("B", index=1), replied(text_item("A"), text_item("B"))],
        "AB",
    ),
    "an id that is another one each time": (
        [
            added(text_item(item_id="x1")),
            delta("Hel", "x2"),
            delta("lo", "x3"),
            done(text_item("Hello", item_id="x4")),
            replied(text_item("Hello", item_id="x5")),
        ],
        "Hello",
    ),
    "another id and place each time": (
        [
            added(text_item(item_id="x1"), 0),
            delta("Hi", "x1", 0),
            done(text_item("Hi", item_id="x2"), 1),
            replied(text_item("Hi", item_id="x3")),
        ],
        "Hi",
    ),
    "no ids or places at all": (
        [without(event, "item_id", "output_index") for event in message("A")]
        + [{**without(done({}), "output_index"), "item": without(text_item("A"), "id")}]
        + [replied(without(text_item("A"), "id"))],
        "A",
    ),
    "a message that only the whole reply has": (
        [*message("A"), replied(text_item("A"), text_item("B", item_id="msg_2"))],
        "AB",
    ),
    "items of the provider's own tools": (
        [
            added({"type": "web_search_call", "id": "ws_1"}),
            {"type": "response.web_search_call.searching"},
            done({"type": "web_search_call", "id": "ws_1", "action": {"query": "x"}}),
            *message("A", index=1),
            replied({"type": "web_search_call", "id": "ws_1"}, text_item("A")),
        ],
        "A",
    ),
    "events that are not known": (
        [
            {"type": "keepalive"},
            {"type": "response.queued", "response": {}},
            {"type": "response.new", "delta": "x"},
            *message("A"),
            {"type": "response.output_text.annotation.added", "annotation": {"text": "x"}},
            END,
        ],
        "A",
    ),
}


@pytest.mark.parametrize("way", TEXT_TOLD_IN_MANY_WAYS)
def test_text_is_shown_once_however_it_is_told(way: str) -> None:
    """A24"""
    told, text = TEXT_TOLD_IN_MANY_WAYS[way]
    assert text_of(read(*told)) == text


F1 = call_item("c1", "f", '{"a":1}')
F2 = call_item("c2", "g", '{"b":2}')
F1_CALLED = ("c1", "f", {"a": 1})
F2_CALLED = ("c2", "g", {"b": 2})


def args_done(args: Any, item_id: str = "fc_c1", **more: Any) -> dict[str, Any]:
    return {"type": "response.function_call_arguments.done", "item_id": item_id, "arguments": args, **more}


def begun(item: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**item, "arguments": "", "status": "in_progress", **changes}


CALLS_TOLD_IN_MANY_WAYS = {
    "only the end of the item": ([done(F1), END], [F1_CALLED]),
    "only the whole reply": ([replied(F1)], [F1_CALLED]),
    "every way at once": (
        [
            added(begun(F1)),
            args_delta('{"a":', "fc_c1"),
            args_delta("1}", "fc_c1"),
            args_done('{"a":1}'),
            done(F1),
            done(F1),
            replied(F1),
        ],
        [F1_CALLED],
    ),
    "a beginning that is told twice": (
        [added(begun(F1)), added(begun(F1)), args_delta('{"a":1}', "fc_c1"), done(F1), END],
        [F1_CALLED],
    ),
    "arguments with the beginning": ([added(F1), END], [F1_CALLED]),
    "arguments at their end only": ([added(begun(F1)), args_done('{"a":1}'), END], [F1_CALLED]),
    "arguments as an object": ([done({**F1, "arguments": {"a": 1}}), END], [F1_CALLED]),
    "no arguments": ([done(call_item("c1", "f", "")), END], [("c1", "f", {})]),
    "null as arguments": ([done({**F1, "arguments": None}), END], [("c1", "f", {})]),
    "arguments before the name": ([args_delta('{"a":1}', "fc_c1"), done(F1), END], [F1_CALLED]),
    "the end of arguments before name and id": (
        [args_delta('{"a":1}', "fc_c1"), args_done('{"a":1}', name="f"), done(F1), END],
        [F1_CALLED],
    ),
    "no end of the item": ([added(begun(F1)), args_delta('{"a":1}', "fc_c1"), END], [F1_CALLED]),
    "a call id that comes late": (
        [added(without(begun(F1), "call_id")), args_delta('{"a":1}', "fc_c1"), done(F1), END],
        [F1_CALLED],
    ),
    "arguments that are written otherwise at the end, under another item id": (
        [
            added(begun(F1, id="x1"), 0),
            args_delta('{"a": 1}', "x1", 0),
            done({**F1, "id": "x2"}, 1),
            replied({**F1, "id": "x3"}),
        ],
        [F1_CALLED],
    ),
    "calls at once without their beginnings": (
        [
            args_delta('{"a":', "fc_c1", 0),
            args_delta('{"b":', "fc_c2", 1),
            args_delta("1}", "fc_c1", 0),
            args_delta("2}", "fc_c2", 1),
            done(F1, 0),
            done(F2, 1),
            END,
        ],
        [F1_CALLED, F2_CALLED],
    ),
    "a call that is another one in the whole reply": (
        [done(F1), replied(call_item("c9", "f", '{"a":2}'))],
        [F1_CALLED, ("c9", "f", {"a": 2})],
    ),
    "a call after another": (
        [
            added(begun(F1), 0),
            args_delta('{"a":1}', "fc_c1", 0),
            done(F1, 0),
            added(begun(F2), 1),
            args_delta('{"b":2}', "fc_c2", 1),
            done(F2, 1),
            replied(F1, F2),
        ],
        [F1_CALLED, F2_CALLED],
    ),
    "calls at once": (
        [
            added(begun(F1), 0),
            added(begun(F2), 1),
            args_delta('{"b":', "fc_c2", 1),
            args_delta('{"a":', "fc_c1", 0),
            args_delta("1}", "fc_c1", 0),
            args_delta("2}", "fc_c2", 1),
            done(F2, 1),
            done(F1, 0),
            replied(F1, F2),
        ],
        [F1_CALLED, F2_CALLED],
    ),
    "calls that are all counted as the first": (
        [
            added(begun(F1)),
            args_delta('{"a":1}', "fc_c1"),
            done(F1),
            added(begun(F2)),
            args_delta('{"b":2}', "fc_c2"),
            done(F2),
            replied(F1, F2),
        ],
        [F1_CALLED, F2_CALLED],
    ),
    "an item id that is another one each time": (
        [
            added(begun(F1, id="x1"), 0),
            args_delta('{"a":', "x2", 0),
            args_delta("1}", "x3", 0),
            done({**F1, "id": "x4"}, 0),
            done({**F2, "id": "x5"}, 1),
            replied({**F1, "id": "x6"}, {**F2, "id": "x7"}),
        ],
        [F1_CALLED, F2_CALLED],
    ),
    "one item id for all": (
        [
            added(begun(F1, id="x"), 0),
            done({**F1, "id": "x"}, 0),
            added(begun(F2, id="x"), 1),
            done({**F2, "id": "x"}, 1),
            replied({**F1, "id": "x"}, {**F2, "id": "x"}),
        ],
        [F1_CALLED, F2_CALLED],
    ),
    "a call that only the whole reply has": ([*message("A"), done(F1, 1), replied(F1, F2)], [F1_CALLED, F2_CALLED]),
    "a call whose id is another one in the whole reply": (
        [done(F1), replied({**F1, "id": "fc_9", "call_id": "c9"})],
        [F1_CALLED],
    ),
    "a call without its beginning while another one is open": (
        [added(begun(F1), 0), done(F2, 1), args_delta('{"a":1}', "fc_c1", 0), done(F1, 0), END],
        [F1_CALLED, F2_CALLED],
    ),
    "the same call twice": (
        [done(F1, 0), done(call_item("c3", "f", '{"a":1}'), 1), replied(F1, call_item("c3", "f", '{"a":1}'))],
        [F1_CALLED, ("c3", "f", {"a": 1})],
    ),
    "calls of one call id": (
        [done(F1, 0), done({**F2, "call_id": "c1"}, 1), replied(F1, {**F2, "call_id": "c1"})],
        [F1_CALLED, ("c1_1", "g", {"b": 2})],
    ),
    "no call id": ([done(without(F1, "call_id")), END], [("call_1", "f", {"a": 1})]),
    "no ids at all": (
        [
            {**added(without(begun(F1), "id")), "output_index": None},
            {"type": "response.function_call_arguments.delta", "delta": '{"a":1}'},
            END,
        ],
        [F1_CALLED],
    ),
}


@pytest.mark.parametrize("way", CALLS_TOLD_IN_MANY_WAYS)
def test_a_call_is_made_once_however_it_is_told(way: str) -> None:
    """A24"""
    told, calls = CALLS_TOLD_IN_MANY_WAYS[way]
    events = read(*told)
    assert sorted(calls_of(events)) == calls
    assert reason_of(events) == "tool_calls"


def test_calls_of_earlier_steps_keep_their_ids_to_themselves() -> None:
    assert calls_of(read(done(F1), END, taken_ids=("c1",))) == [("c1_1", "f", {"a": 1})]


def test_arguments_that_are_no_object_are_kept_as_they_are() -> None:
    """D20"""
    events = read(done(call_item("c1", "f", '{"a":')), END)
    assert [e for e in events if isinstance(e, ToolCall)] == [ToolCall("c1", "f", {}, raw_args='{"a":')]


def test_a_call_without_a_name_breaks_the_reply() -> None:
    with pytest.raises(StreamError, match="a tool call without a name"):
        read(args_delta('{"a":1}', "fc_1"), END)


# --- thinking


def reasoning_delta(text: str, part: int = 0, kind: str = "reasoning_text") -> dict[str, Any]:
    place = {"item_id": "rs_1", "output_index": 0, "content_index": part}
    return {"type": f"response.{kind}.delta", **place, "delta": text}


def open_thought(*texts: str) -> dict[str, Any]:
    content = [{"type": "reasoning_text", "text": text} for text in texts]
    return {"type": "reasoning", "id": "rs_1", "summary": [], "content": content}


THINKING_TOLD_IN_MANY_WAYS = {
    "a summary": ([summary_delta("Hm"), summary_delta("."), done(thought_item(None, "Hm.")), END], ["Hm."]),
    "a summary of parts": (
        [summary_delta("A", 0), summary_delta("B", 1), done(thought_item(None, "A", "B")), END],
        ["A", "B"],
    ),
    "only the item, in parts": ([done(thought_item(None, "A", "B")), END], ["A", "B"]),
    "only the end of a part": (
        [
            {"type": "response.reasoning_summary_text.done", "item_id": "rs_1", "summary_index": 0, "text": "A"},
            {"type": "response.reasoning_summary_part.done", "item_id": "rs_1", "summary_index": 0}
            | {"part": {"type": "summary_text", "text": "A"}},
            done(thought_item(None, "A")),
            END,
        ],
        ["A"],
    ),
    "the thinking itself": ([reasoning_delta("A"), reasoning_delta("B"), done(open_thought("AB")), END], ["AB"]),
    "by its older name": ([reasoning_delta("A", kind="reasoning"), END], ["A"]),
    "both ways": ([reasoning_delta("A"), summary_delta("A"), done(thought_item(None, "A")), END], ["A"]),
    "only the whole reply": ([replied(open_thought("A"))], ["A"]),
    "every way at once": (
        [
            added(thought_item(None)),
            summary_delta("A"),
            done(thought_item(None, "A")),
            done(thought_item(None, "A")),
            *message("B", index=1),
            replied(thought_item(None, "A"), text_item("B")),
        ],
        ["A"],
    ),
    "more of it too late": (
        [done(thought_item(None, "A")), *message("B", index=1), replied(thought_item("enc", "A!"), text_item("B"))],
        ["A"],
    ),
    "nothing": ([added(thought_item(None)), done(thought_item(None)), END], []),
    "a second one": (
        [
            summary_delta("A"),
            done(thought_item(None, "A")),
            summary_delta("B", item_id="rs_2", index=1),
            done(thought_item(None, "B", item_id="rs_2"), 1),
            END,
        ],
        ["A", "B"],
    ),
}


@pytest.mark.parametrize("way", THINKING_TOLD_IN_MANY_WAYS)
def test_thinking_is_shown_once_however_it_is_told(way: str) -> None:
    told, blocks = THINKING_TOLD_IN_MANY_WAYS[way]
    events = read(*told)
    assert thinking_of(events) == blocks
    assert text_of(events) in {"", "B"}


LED_TO = {
    "a call": ([done(F1, 1), END], {"type": "function_call", "call_id": "c1"}),
    "a message": ([*message("A", index=1), END], {"type": "message"}),
    "more thinking": ([done(thought_item("e2", item_id="rs_2"), 1), END], {"type": "reasoning", "id": "rs_2"}),
    "a tool of the provider's own": (
        [added({"type": "web_search_call"}, 1), *message("A"), END],
        {"type": "web_search_call"},
    ),
    "a call that only the whole reply has": ([replied(F1)], {"type": "function_call", "call_id": "c1"}),
}


@pytest.mark.parametrize("what", LED_TO)
def test_thinking_is_kept_with_what_it_led_to(what: str) -> None:
    told, led_to = LED_TO[what]
    ends = [e for e in read(done(thought_item("enc")), *told) if isinstance(e, ReasoningEnd)]
    item = {"id": "rs_1", "encrypted_content": "enc"}
    assert ends[0] == ReasoningEnd("openai", {"server": SERVER, "item": item, "led_to": led_to})


def test_thinking_at_the_end_of_a_reply_led_to_nothing() -> None:
    events = read(done(thought_item("enc")), replied(thought_item("enc"), incomplete="max_output_tokens"))
    metadata = {"server": SERVER, "item": {"id": "rs_1", "encrypted_content": "enc"}}
    assert events == [ReasoningStart(), ReasoningEnd("openai", metadata), finished("length")]


# --- how a reply ends


def refusal_delta(text: str) -> dict[str, Any]:
    return {"type": "response.refusal.delta", "item_id": "msg_1", "content_index": 0, "delta": text}


def completed_with(**fields: Any) -> dict[str, Any]:
    return {"type": "response.completed", "response": {**END["response"], **fields}}


REFUSED = {**text_item(), "content": [{"type": "refusal", "refusal": "I can't."}]}
REFUSALS = {
    "deltas": [refusal_delta("I "), refusal_delta("can't."), done(REFUSED), replied(REFUSED)],
    "the end of the part": [
        {**without(refusal_delta(""), "delta"), "type": "response.refusal.done", "refusal": "I can't."},
        END,
    ],
    "the item": [done(REFUSED), END],
    "the whole reply": [replied(REFUSED)],
    "a part": [{**part_done(""), "part": {"type": "refusal", "refusal": "I can't."}}, END],
}


@pytest.mark.parametrize("way", REFUSALS)
def test_a_refusal_is_text_and_an_end_of_its_own(way: str) -> None:
    """A51"""
    events = read(*REFUSALS[way])
    assert (text_of(events), reason_of(events)) == ("I can't.", "refusal")


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (replied(), "stop"),
        (replied(incomplete="max_output_tokens"), "length"),
        (replied(incomplete="content_filter"), "content_filter"),
        (replied(incomplete="max_messages"), "other"),
        (replied(incomplete="something_new"), "length"),
        ({"type": "response.incomplete", "response": {"status": "incomplete"}}, "length"),
        ({**replied(incomplete="max_output_tokens"), "type": "response.completed"}, "length"),
        (completed_with(incomplete_details={"reason": "content_filter"}), "content_filter"),
        ({**replied(), "type": "response.done"}, "stop"),
    ],
)
def test_a_reply_ends_as_its_provider_says(end: dict[str, Any], reason: str) -> None:
    assert reason_of(read(*message("A"), end)) == reason


def test_a_call_that_is_cut_off_is_none() -> None:
    """A23"""
    half = {**call_item("c2", "g", '{"b":2}'), "status": "incomplete"}
    events = read(done(F1, 0), added(begun(F2), 1), done(half, 1), replied(F1, half, incomplete="max_output_tokens"))
    assert (calls_of(events), reason_of(events)) == ([F1_CALLED], "length")


def test_a_reply_without_an_end_has_broken_off() -> None:
    """A09"""
    decoder = new_decoder()
    feed(decoder, CREATED, *message("A"))
    with pytest.raises(StreamError, match="broke off"):
        decoder.end(marked=False)


def test_a_mark_at_the_end_is_an_end() -> None:
    """A10"""
    decoder = new_decoder()
    feed(decoder, CREATED, *message("A"), done(F1, 1))
    assert decoder.end(marked=True) == [finished("tool_calls")]


@pytest.mark.parametrize("event", ["response.created", "response.in_progress", "response.completed"])
def test_usage_is_read_wherever_it_stands(event: str) -> None:
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens": 6,
        "output_tokens_details": {"reasoning_tokens": 5},
    }
    told = {"type": event, "response": {"id": "r1", "model": "m1", "usage": usage}}
    expected = finished("stop", input_tokens=10, output_tokens=6, cached_input_tokens=4, reasoning_tokens=5)
    assert read(told, *([] if event == "response.completed" else [END]))[-1] == expected
    assert read({**told, "usage": usage, "response": {"id": "r1", "model": "m1"}}, END)[-1] == (
        expected if event != "response.completed" else finished("stop", **vars_of(expected))
    )


def vars_of(event: ModelFinished) -> dict[str, int]:
    usage = event.usage
    names = ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_tokens")
    return {name: getattr(usage, name) for name in names}


FAILED = {"type": "response.failed", "response": {"id": "r1", "status": "failed"}}
ERRORS: list[tuple[dict[str, Any], str, str | None, bool | None]] = [
    ({"type": "error", "code": "server_error", "message": "oops", "param": None}, "server", "server_error", True),
    ({"type": "error", "code": "rate_limit_exceeded", "message": "oops"}, "rate_limit", "rate_limit_exceeded", True),
    (
        {"type": "error", "error": {"type": "server_error", "code": None, "message": "oops"}},
        "server",
        "server_error",
        True,
    ),
    ({"type": "error", "status": 429, "error": {"type": "usage", "message": "oops"}}, "rate_limit", "usage", True),
    ({"type": "error", "error": "oops"}, "other", None, None),
    ({"type": "error", "message": "oops"}, "other", None, None),
    ({"error": {"code": "insufficient_quota", "message": "oops"}}, "quota", "insufficient_quota", False),
    ({"type": "response.error", "error": {"code": "server_error", "message": "oops"}}, "server", "server_error", True),
    (
        {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "oops"}}},
        *("server", "server_error", True),
    ),
    (
        {"type": "response.failed", "response": {"error": {"code": "context_length_exceeded", "message": "oops"}}},
        *("context_length", "context_length_exceeded", False),
    ),
    (
        {
            "type": "response.failed",
            "response": {"status_details": {"error": {"code": "server_error", "message": "oops"}}},
        },
        *("server", "server_error", True),
    ),
    ({"type": "response.failed", "error": {"code": "server_error", "message": "oops"}}, "server", "server_error", True),
    (
        {
            "type": "response.completed",
            "response": {"status": "failed", "error": {"code": "server_error", "message": "oops"}},
        },
        "server",
        "server_error",
        True,
    ),
    ({**FAILED, "response": {"status": "failed", "error": None}}, "stream", None, True),
    (FAILED, "stream", None, True),
    ({"type": "response.cancelled", "response": {"status": "cancelled"}}, "stream", None, True),
    ({"type": "response.completed", "response": {"status": "cancelled"}}, "stream", None, True),
]


@pytest.mark.parametrize(("event", "kind", "code", "retryable"), ERRORS)
def test_an_error_within_a_reply_is_told_as_what_it_is(
    event: dict[str, Any], kind: str, code: str | None, retryable: bool | None
) -> None:
    """A22"""
    decoder = new_decoder()
    feed(decoder, CREATED, delta("half"))
    with pytest.raises(ModelError) as caught:
        decoder.decode(event, event.get("type"))
    error = caught.value
    assert (error.kind, error.code, error.retryable) == (kind, code, retryable)
    assert error.message == ("oops" if kind != "stream" else error.message)


def test_an_error_is_known_by_the_name_of_its_event_too() -> None:
    with pytest.raises(ModelError, match="oops"):
        new_decoder().decode({"code": "server_error", "message": "oops"}, "error")


def test_a_reply_that_failed_is_known_to_have_cost() -> None:
    decoder = new_decoder()
    with pytest.raises(ModelError):
        decoder.decode({**FAILED, "response": {"id": "r1", "model": "m1", "usage": {"input_tokens": 3}}})
    assert decoder.fail() == [finished("error", input_tokens=3)]


# --- writing

WEATHER = Tool(
    name="get_weather",
    description="Tells the weather.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    run=lambda city: city,
)
HI = Message("user", "Hi")


def body_of(
    *messages: Message, profile: ModelProfile | None = None, server: str = SERVER, **request: Any
) -> dict[str, Any]:
    asked = ModelRequest(messages=messages or [HI], **request)
    return encode(asked, model="m1", profile=profile or ModelProfile(), server=server)


def items_of(*messages: Message, **options: Any) -> list[dict[str, Any]]:
    return body_of(*messages, **options)["input"]


def test_a_request_says_what_there_is_to_say_and_no_more() -> None:
    assert body_of() == {
        "model": "m1",
        "input": [{"type": "message", "role": "user", "content": "Hi"}],
        "include": ["reasoning.encrypted_content"],
        "stream": True,
    }


def test_a_conversation_is_a_list_of_items() -> None:
    call, result = ToolCallPart("c1", "f", {"a": "ä"}), ToolResultPart("c1", "f", {"b": 1})
    broken = ToolCallPart("c2", "f", {}, raw_args='{"a":')
    said = [HI, Message("assistant", [TextPart("Look:"), call, broken])]
    results = Message("tool", [result, ToolResultPart("c2", "f", "It broke.", is_error=True)])
    assert items_of(*said, results, Message("user", [FeedbackPart("Better!")])) == [
        {"type": "message", "role": "user", "content": "Hi"},
        {"type": "message", "role": "assistant", "content": "Look:"},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a":"ä"}'},
        {"type": "function_call", "call_id": "c2", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": '{"b":1}'},
        {"type": "function_call_output", "call_id": "c2", "output": "It broke."},
        {"type": "message", "role": "user", "content": "Better!"},
    ]


def test_images_and_files_are_input() -> None:
    parts = [
        TextPart("Look"),
        ImagePart(url="http://x/a.png"),
        ImagePart(data="aGk=", media_type="image/png"),
        FilePart(url="http://x/a.pdf"),
        FilePart(data="aGk=", media_type="application/pdf", filename="a.pdf"),
        FilePart(url="data:application/pdf;base64,aGk="),
        DataPart("note", {"never": "sent"}),
    ]
    (item,) = items_of(Message("user", parts))
    assert item["content"] == [
        {"type": "input_text", "text": "Look"},
        {"type": "input_image", "detail": "auto", "image_url": "http://x/a.png"},
        {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,aGk="},
        {"type": "input_file", "file_url": "http://x/a.pdf"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="},
        {"type": "input_file", "filename": "file", "file_data": "data:application/pdf;base64,aGk="},
    ]


@pytest.mark.parametrize("part", [ImagePart(), ImagePart(data="aGk="), FilePart(media_type="text/plain")])
def test_an_image_or_file_without_a_source_is_refused(part: Any) -> None:
    with pytest.raises(UserError, match="needs a url, or data together with its media_type"):
        items_of(Message("user", [part]))


def test_system_messages_stand_where_they_are() -> None:
    said = [HI, Message("system", "Be brief."), Message("user", "Go on")]
    body = body_of(*said, system="Be kind.")
    assert body["instructions"] == "Be kind."
    assert [item["role"] for item in body["input"]] == ["user", "system", "user"]


def test_a_request_without_anything_to_say_is_refused() -> None:
    with pytest.raises(UserError, match="at least one message"):
        body_of(Message("user", []), Message("assistant", []))
    continued = ModelSettings(extra_body={"previous_response_id": "resp_1"})
    assert body_of(Message("user", []), settings=continued)["previous_response_id"] == "resp_1"


def test_ids_that_are_too_long_and_names_that_are_none_are_mapped_alike() -> None:
    """A20, A37"""
    long = "c" * 65
    call, output = items_of(
        Message("assistant", [ToolCallPart(long, "Say: hi", {})]), Message("tool", [ToolResultPart(long, "Say: hi", 1)])
    )
    assert call["call_id"] == output["call_id"]
    assert len(call["call_id"]) == 64
    assert call["name"].startswith("Say_hi_")
    assert items_of(Message("assistant", [ToolCallPart("functions.x:0", "f", {})]))[0]["call_id"] == "functions.x:0"


SETTINGS = {
    "temperature": (0.5, {"temperature": 0.5}),
    "top_p": (0.5, {"top_p": 0.5}),
    "max_output_tokens": (64, {"max_output_tokens": 64}),
    "service_tier": ("flex", {"service_tier": "flex"}),
    "store": (False, {"store": False}),
    "reasoning_effort": ("low", {"reasoning": {"effort": "low"}}),
    "parallel_tool_calls": (False, {"parallel_tool_calls": False}),
    "extra_body": ({"metadata": {"a": "b"}}, {"metadata": {"a": "b"}}),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_has_its_place(name: str) -> None:
    value, expected = SETTINGS[name]
    plain = body_of(tools=[WEATHER])
    assert body_of(tools=[WEATHER], settings=ModelSettings(**{name: value})) == plain | expected


def test_settings_of_tools_are_left_out_without_tools() -> None:
    body = body_of(settings=ModelSettings(parallel_tool_calls=True), tool_choice="none")
    assert body.keys() == {"model", "input", "include", "stream"}


def test_extra_fields_are_added_within_what_is_there() -> None:
    extra = {"reasoning": {"summary": "auto"}, "text": {"verbosity": "low"}, "include": []}
    form = OutputFormat("place", {"type": "object"})
    body = body_of(output=form, settings=ModelSettings(reasoning_effort="high", extra_body=extra))
    assert body["reasoning"] == {"effort": "high", "summary": "auto"}
    assert body["text"]["verbosity"] == "low"
    assert body["text"]["format"]["name"] == "place"
    assert body["include"] == []


def test_a_model_that_does_not_reason_is_asked_for_no_reasoning() -> None:
    assert "include" not in body_of(profile=ModelProfile(thinking=None))


@pytest.mark.parametrize("strict", [False, True])
def test_schemas_say_whether_they_are_strict(strict: bool) -> None:
    """A36"""
    loose = Tool(name="loose", parameters={"type": "object", "additionalProperties": {}}, run=lambda: 1)
    form = OutputFormat("place", WEATHER.parameters)
    body = body_of(tools=[WEATHER, loose], output=form, profile=ModelProfile(strict=strict))
    first, second = body["tools"]
    assert (first["type"], first["name"], first["description"]) == ("function", "get_weather", "Tells the weather.")
    assert (first["strict"], second["strict"]) == (strict, False)
    assert second["parameters"] == loose.parameters
    said = body["text"]["format"]
    assert (said["type"], said["name"], said["strict"]) == ("json_schema", "place", strict)
    for schema in (first["parameters"], said["schema"]):
        assert ("additionalProperties" in schema) is strict


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", None),
        ("none", "none"),
        ("required", "required"),
        ("get_weather", {"type": "function", "name": "get_weather"}),
    ],
)
def test_a_tool_choice_is_said(choice: str, expected: Any) -> None:
    assert body_of(tools=[WEATHER], tool_choice=choice).get("tool_choice") == expected


def test_a_tool_choice_that_is_no_tool_is_refused() -> None:
    with pytest.raises(UserError, match="'nope' is no tool of this request; there are: get_weather"):
        body_of(tools=[WEATHER], tool_choice="nope")


# --- reasoning that goes back


def thought(led_to: dict[str, Any] | None, *, server: str = SERVER, **item: Any) -> ReasoningPart:
    metadata: dict[str, Any] = {"server": server, "item": item or {"id": "rs_1", "encrypted_content": "enc"}}
    return ReasoningPart("", "openai", metadata | ({"led_to": led_to} if led_to else {}))


TO_C1 = {"type": "function_call", "call_id": "c1"}
TO_TEXT = {"type": "message"}
C1, C2, SAID = ToolCallPart("c1", "f", {}), ToolCallPart("c2", "f", {}), TextPart("Hi")

REPLAYS: dict[str, tuple[list[Any], list[str]]] = {
    "before its call": ([thought(TO_C1), C1], ["reasoning", "function_call"]),
    "before its message": ([thought(TO_TEXT), SAID], ["reasoning", "message"]),
    "before its call, which got another id": (
        [thought(TO_C1), ToolCallPart("c1_2", "f", {})],
        ["reasoning", "function_call"],
    ),
    "twice": (
        [thought(TO_TEXT), SAID, thought(TO_C1), C1],
        ["reasoning", "message", "reasoning", "function_call"],
    ),
    "one after another": (
        [thought({"type": "reasoning"}), thought(TO_C1), C1],
        ["reasoning", "reasoning", "function_call"],
    ),
    "not before other thinking than it led to": (
        [thought({"type": "reasoning", "id": "rs_2"}), thought(TO_C1, id="rs_3", encrypted_content="enc"), C1],
        ["reasoning", "function_call"],
    ),
    "before the very thinking that it led to": (
        [thought({"type": "reasoning", "id": "rs_3"}), thought(TO_C1, id="rs_3", encrypted_content="enc"), C1],
        ["reasoning", "reasoning", "function_call"],
    ),
    "not without its call": ([thought(TO_C1)], []),
    "not before another call": ([thought(TO_C1), C2], ["function_call"]),
    "not before a message, where a call was": ([thought(TO_C1), SAID], ["message"]),
    "not before a call, where a message was": ([thought(TO_TEXT), C1], ["function_call"]),
    "not one after another without the last": (
        [thought({"type": "reasoning"}), thought(TO_C1), C2],
        ["function_call"],
    ),
    "not where a tool of the provider's own is missing": (
        [thought({"type": "web_search_call"}), thought(TO_TEXT), SAID],
        ["reasoning", "message"],
    ),
    "not where it led to nothing": ([thought(None), SAID], ["message"]),
    "not to another server": ([thought(TO_C1, server="http://other/v1"), C1], ["function_call"]),
    "not without its content": ([thought(TO_C1, id="rs_1", summary=[{"type": "summary_text"}]), C1], ["function_call"]),
    "not of chat completions": (
        [ReasoningPart("Hm.", "openai", {"field": "reasoning_content", "server": SERVER}), C1],
        ["function_call"],
    ),
    "not of another provider": ([ReasoningPart("Hm.", "anthropic", {"signature": "x"}), C1], ["function_call"]),
    "not of a part of a summary": (
        [ReasoningPart("Hm.", "openai"), thought(TO_C1), C1],
        ["reasoning", "function_call"],
    ),
    "not of another provider, whatever it is": (
        [ReasoningPart("", "other", thought(TO_C1).metadata), C1],
        ["function_call"],
    ),
    "not where the item is missing": (
        [ReasoningPart("", "openai", {"server": SERVER, "led_to": TO_C1}), C1],
        ["function_call"],
    ),
    "not of data that somebody has changed": (
        [ReasoningPart("", "openai", {"server": SERVER, "led_to": "c1", "item": {"encrypted_content": "x"}}), C1],
        ["function_call"],
    ),
}


@pytest.mark.parametrize("where", REPLAYS)
def test_reasoning_goes_back_where_it_is_valid(where: str) -> None:
    """A25"""
    parts, kinds = REPLAYS[where]
    assert [item["type"] for item in items_of(HI, Message("assistant", parts))[1:]] == kinds


def test_reasoning_goes_back_as_it_came_but_for_its_id() -> None:
    """A25"""
    summary = [{"type": "summary_text", "text": "Hm."}]
    part = thought(TO_C1, id="rs_1", summary=summary, encrypted_content="enc")
    item, _ = items_of(Message("assistant", [part, C1]))
    assert item == {"type": "reasoning", "summary": summary, "encrypted_content": "enc"}
    assert items_of(Message("assistant", [thought(TO_C1), C1]))[0]["summary"] == []


def test_thinking_that_a_server_shows_goes_back_to_it_with_its_id() -> None:
    """A14"""
    content = [{"type": "reasoning_text", "text": "Hm."}]
    item, _ = items_of(Message("assistant", [thought(TO_C1, id="rs_1", content=content), C1]))
    assert item == {"type": "reasoning", "id": "rs_1", "summary": [], "content": content}


def test_azure_has_its_reasoning_back_with_its_id_before_calls() -> None:
    parts = [thought(TO_C1, server=AZURE), C1, thought(TO_TEXT, server=AZURE), SAID]
    items = items_of(Message("assistant", parts), server=AZURE)
    assert [item["type"] for item in items] == ["reasoning", "function_call", "message"]
    assert items[0]["id"] == "rs_1"


def test_a_model_that_does_not_reason_has_no_reasoning_back() -> None:
    items = items_of(Message("assistant", [thought(TO_C1), C1]), profile=ModelProfile(thinking=None))
    assert [item["type"] for item in items] == ["function_call"]

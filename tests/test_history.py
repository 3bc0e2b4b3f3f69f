"""Conversations are repaired before they are sent, and names and ids written as every provider takes them."""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import itertools
import json
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mastra_py._jsonable import clean_text, to_json_value
from mastra_py.errors import UserError
from mastra_py.messages import (
    INTERRUPTED,
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
)
from mastra_py.models import ModelRequest
from mastra_py.models._history import GO_ON, repaired
from mastra_py.models._wire_names import wire_id, wire_name
from mastra_py.tools import Tool

# --- how conversations are written here


def text(words: str) -> TextPart:
    return TextPart(words)


def call(call_id: str, name: str = "f", **args: Any) -> ToolCallPart:
    return ToolCallPart(call_id, name, args)


def gave(call_id: str, value: Any = "ok", name: str = "f") -> ToolResultPart:
    return ToolResultPart(call_id, name, value)


def cut(call_id: str, name: str = "f") -> ToolResultPart:
    return ToolResultPart(call_id, name, INTERRUPTED, is_error=True)


def user(*parts: Part | str) -> Message:
    return Message("user", [text(part) if isinstance(part, str) else part for part in parts])


def bot(*parts: Part | str) -> Message:
    return Message("assistant", [text(part) if isinstance(part, str) else part for part in parts])


def tool(*parts: Part) -> Message:
    return Message("tool", parts)


def system(*parts: Part | str) -> Message:
    return Message("system", [text(part) if isinstance(part, str) else part for part in parts])


def repair(*messages: Message, prefill: bool = False) -> list[Message]:
    return list(repaired(ModelRequest(messages=messages), prefill=prefill).messages)


HI = user("Hi")
IMAGE = ImagePart(url="https://example.com/a.png")
SIGNED = ReasoningPart("Hm.", "anthropic", {"signature": "c2ln"})

Case = tuple[Sequence[Message], Sequence[Message]]


def table(cases: dict[str, Case]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return pytest.mark.parametrize(("given_", "wanted"), cases.values(), ids=cases.keys())


# --- calls and results

PAIRS: dict[str, Case] = {
    "A35 a call without a result was interrupted": (
        [HI, bot(call("a")), user("go on")],
        [HI, bot(call("a")), tool(cut("a")), user("go on")],
    ),
    "A39 so was one at the end": ([HI, bot("Look:", call("a"))], [HI, bot("Look:", call("a")), tool(cut("a"))]),
    "a finished sibling keeps its result": (
        [HI, bot(call("a"), call("b"), call("c")), tool(gave("b", 2))],
        [HI, bot(call("a"), call("b"), call("c")), tool(cut("a"), gave("b", 2), cut("c"))],
    ),
    "a result without a call is left out": ([HI, tool(gave("x")), bot("Hello"), HI], [HI, bot("Hello"), HI]),
    "so is one before its call, it is of a call cut off": (
        [tool(gave("call_0", "old")), HI, bot(call("call_0"))],
        [HI, bot(call("call_0")), tool(cut("call_0"))],
    ),
    "an orphan beside a result": (
        [HI, bot(call("a")), tool(gave("x"), gave("a"))],
        [HI, bot(call("a")), tool(gave("a"))],
    ),
    "results come in the order of the calls": (
        [HI, bot(call("a"), call("b")), tool(gave("b", 2), gave("a", 1))],
        [HI, bot(call("a"), call("b")), tool(gave("a", 1), gave("b", 2))],
    ),
    "and as one message": (
        [HI, bot(call("a"), call("b")), tool(gave("b", 2)), tool(gave("a", 1)), HI],
        [HI, bot(call("a"), call("b")), tool(gave("a", 1), gave("b", 2)), HI],
    ),
    "a late result moves behind its call": (
        [HI, bot(call("a"), call("b")), tool(gave("a", 1)), user("wait"), bot("Yes."), tool(gave("b", 2)), HI],
        [HI, bot(call("a"), call("b")), tool(gave("a", 1), gave("b", 2)), user("wait"), bot("Yes."), HI],
    ),
    "and what it stood between moves together": (
        [HI, bot(call("a")), user("one"), tool(gave("a")), user("two")],
        [HI, bot(call("a")), tool(gave("a")), user("one", "two")],
    ),
    "calls of a run of assistant messages each get theirs": (
        [HI, bot(call("a")), bot(call("b")), tool(gave("a", 1)), tool(gave("b", 2))],
        [HI, bot(call("a")), tool(gave("a", 1)), bot(call("b")), tool(gave("b", 2))],
    ),
    "the first of two results counts": (
        [HI, bot(call("a")), tool(gave("a", 1)), tool(gave("a", 2))],
        [HI, bot(call("a")), tool(gave("a", 1))],
    ),
    "but not before a real one": (
        [HI, bot(call("a"), call("b")), tool(cut("a"), cut("b")), HI, tool(gave("a", 1), cut("b")), tool(gave("a", 2))],
        [HI, bot(call("a"), call("b")), tool(gave("a", 1), cut("b")), HI],
    ),
    "an error result is a real one": (
        [HI, bot(call("a")), tool(ToolResultPart("a", "f", "no", is_error=True)), tool(gave("a"))],
        [HI, bot(call("a")), tool(ToolResultPart("a", "f", "no", is_error=True))],
    ),
    "system messages come between no call and its result": (
        [HI, bot(call("a")), system("Short."), tool(gave("a")), system("Shorter.")],
        [HI, bot(call("a")), tool(gave("a")), system("Short."), system("Shorter.")],
    ),
}

IDS: dict[str, Case] = {
    "ids that each turn counts anew": (
        [
            HI,
            bot(call("c")),
            tool(gave("c", 1)),
            bot(call("c")),
            tool(gave("c", 2)),
            bot(call("c")),
            tool(gave("c", 3)),
        ],
        [
            *(HI, bot(call("c")), tool(gave("c", 1))),
            *(bot(call("c_2")), tool(gave("c_2", 2)), bot(call("c_3")), tool(gave("c_3", 3))),
        ],
    ),
    "an id twice in a turn": (
        [HI, bot(call("c", x=1), call("c", x=2)), tool(gave("c", 1), gave("c", 2))],
        [HI, bot(call("c", x=1), call("c_2", x=2)), tool(gave("c", 1), gave("c_2", 2))],
    ),
    "told apart by the tool": (
        [HI, bot(call("c", "f"), call("c", "g")), tool(gave("c", 2, "g"), gave("c", 1, "f"))],
        [HI, bot(call("c", "f"), call("c_2", "g")), tool(gave("c", 1, "f"), gave("c_2", 2, "g"))],
    ),
    "a result is the latest turn's": (
        [HI, bot(call("c")), user("again"), bot(call("c")), tool(gave("c"))],
        [HI, bot(call("c")), tool(cut("c")), user("again"), bot(call("c_2")), tool(gave("c_2"))],
    ),
    "unless it was another tool": (
        [HI, bot(call("c", "f")), bot(call("c", "g")), tool(gave("c", 1, "f"))],
        [HI, bot(call("c", "f")), tool(gave("c", 1, "f")), bot(call("c_2", "g")), tool(cut("c_2", "g"))],
    ),
    "one that is late is that of the turn that lacks it": (
        [HI, bot(call("c")), bot(call("c")), tool(gave("c", 2)), tool(gave("c", 1))],
        [HI, bot(call("c")), tool(gave("c", 1)), bot(call("c_2")), tool(gave("c_2", 2))],
    ),
    "an id made here is taken": (
        [HI, bot(call("c"), call("c"), call("c_2")), tool(gave("c", 1), gave("c", 2), gave("c_2", 3))],
        [HI, bot(call("c"), call("c_2"), call("c_2_2")), tool(gave("c", 1), gave("c_2", 2), gave("c_2_2", 3))],
    ),
    "an id taken is not made": (
        [HI, bot(call("c_2"), call("c"), call("c")), tool(gave("c", 1), gave("c", 2), gave("c_2", 3))],
        [HI, bot(call("c_2"), call("c"), call("c_3")), tool(gave("c_2", 3), gave("c", 1), gave("c_3", 2))],
    ),
    "no id": (
        [HI, bot(call(""), call(""), call(" ")), tool(gave("", 1), gave("", 2), gave(" ", 3))],
        [
            HI,
            bot(call("call_1"), call("call_2"), call("call_3")),
            tool(*map(gave, ["call_1", "call_2", "call_3"], (1, 2, 3))),
        ],
    ),
    "A34 ids that are the same once they are clean": (
        [HI, bot(call("\0"), call("\ud800")), tool(gave("\ud800", 2), gave("\0", 1))],
        [HI, bot(call("\ufffd"), call("\ufffd_2")), tool(gave("\ufffd", 1), gave("\ufffd_2", 2))],
    ),
    "A20 ids of other providers are the wire's matter": (
        [HI, bot(call("functions.f:0")), tool(gave("functions.f:0"))],
        [HI, bot(call("functions.f:0")), tool(gave("functions.f:0"))],
    ),
}


@table(PAIRS)
def test_every_call_is_followed_by_its_result_and_no_other(given_: list[Message], wanted: list[Message]) -> None:
    assert repair(*given_) == wanted


@table(IDS)
def test_ids_occur_once_and_results_follow_their_own_call(given_: list[Message], wanted: list[Message]) -> None:
    assert repair(*given_) == wanted


def test_thinking_before_a_call_that_goes_by_another_id_has_led_to_nothing() -> None:
    first, thought = (ReasoningPart(t, "openai", {"item": t, "led_to": {"call_id": "a"}}) for t in ("Hm", "So"))
    turn = [bot(first, text("x"), thought, call("a")), tool(gave("a"))]
    once, _, again, _ = repair(user("Go"), *turn, *turn)[1:]
    assert once is turn[0]
    assert again.parts[0] is first
    assert again.parts[2] == ReasoningPart("So", "openai", {"item": "So"})


def test_an_id_does_not_depend_on_what_comes_later() -> None:
    turns = [HI, bot(call("c")), tool(gave("c")), bot(call("c")), tool(gave("c")), bot(call("")), tool(gave(""))]
    later = [bot(call("c_2")), tool(gave("c_2")), bot(call("call_3")), tool(gave("call_3")), bot(call("c"))]
    assert repair(*turns, *later)[: len(turns)] == repair(*turns)


# --- what a message holds

PARTS: dict[str, Case] = {
    "A18 a blank text before a call": (
        [HI, bot("", " \n\u2003", call("a")), tool(gave("a"))],
        [HI, bot(call("a")), tool(gave("a"))],
    ),
    "A18 an empty result stays": ([HI, bot(call("a")), tool(gave("a", ""))], [HI, bot(call("a")), tool(gave("a", ""))]),
    "A18 a message of blanks": ([user(" "), HI, bot(""), user("\n", DataPart("x", 1))], [HI]),
    "blank feedback": ([HI, bot("Hello"), user(FeedbackPart(" "), "so?")], [HI, bot("Hello"), user("so?")]),
    "data of the application": ([user(DataPart("x", object()), "Hi")], [HI]),
    "white space round words": ([user(" Hi\n")], [user(" Hi\n")]),
    "nothing at all": ([Message("user", ()), bot(), tool(), system()], []),
    "system messages": (
        [system("Be brief."), system(" "), HI, system("Now!"), system("\0"), HI],
        [system("Be brief."), HI, system("Now!"), system("\ufffd"), HI],
    ),
    "a blank system message separates nothing": ([HI, system(" "), user("you")], [user("Hi", "you")]),
    "thinking that led to something": ([HI, bot(SIGNED, "Hello"), HI], [HI, bot(SIGNED, "Hello"), HI]),
    "thinking that led to a message of its own": ([HI, bot(SIGNED), bot("Hello"), HI], [HI, bot(SIGNED, "Hello"), HI]),
    "thinking that led nowhere": ([HI, bot(SIGNED, ""), user("so?")], [user("Hi", "so?")]),
    "thinking at the end": ([HI, bot(SIGNED)], [HI]),
    "thinking before a system message": (
        [HI, bot(SIGNED), system("Now!"), bot("Hello"), HI],
        [HI, system("Now!"), bot("Hello"), HI],
    ),
    "thinking without words or mark": ([HI, bot(ReasoningPart("\n", "openai"), "Hello"), HI], [HI, bot("Hello"), HI]),
    "redacted thinking": (
        [HI, bot(ReasoningPart("", "anthropic", {"redacted": "eA=="}), "Hello"), HI],
        [HI, bot(ReasoningPart("", "anthropic", {"redacted": "eA=="}), "Hello"), HI],
    ),
}

RUNS: dict[str, Case] = {
    "user": (
        [HI, user("a", IMAGE), user(FeedbackPart("Shorter."))],
        [user("Hi", "a", IMAGE, FeedbackPart("Shorter."))],
    ),
    "assistant": ([HI, bot("a"), bot("b", "c"), HI], [HI, bot("a", "b", "c"), HI]),
    "text and a call": (
        [HI, bot("a"), bot(call("c")), bot("b"), HI],
        [HI, bot("a", call("c")), tool(cut("c")), bot("b"), HI],
    ),
    "round a message that is dropped": ([HI, bot(" "), user("you")], [user("Hi", "you")]),
    "not across a system message": ([HI, system("s"), user("you")], [HI, system("s"), user("you")]),
    "nor system messages": ([system("s"), system("t"), HI], [system("s"), system("t"), HI]),
}

ENDS: dict[str, Case] = {
    "A19 the assistant's words": ([HI, bot("Hello")], [HI, bot("Hello"), user(GO_ON)]),
    "with a system message after them": ([HI, bot("a"), system("s")], [HI, bot("a"), system("s"), user(GO_ON)]),
    "A19 feedback in the assistant's name": (
        [HI, bot("Hello"), bot(FeedbackPart("Shorter."))],
        [HI, bot("Hello"), user(FeedbackPart("Shorter."))],
    ),
    "only the assistant's": ([bot("Hello")], [bot("Hello"), user(GO_ON)]),
    "a result": ([HI, bot(call("a")), tool(gave("a"))], [HI, bot(call("a")), tool(gave("a"))]),
    "nobody's": ([], []),
    "only the system's": ([system("s")], [system("s")]),
}

PLACES: dict[str, Case] = {
    "results in a user message": (
        [HI, bot(call("a")), user(gave("a"), "so?")],
        [HI, bot(call("a")), tool(gave("a")), user("so?")],
    ),
    "results in an assistant message": (
        [HI, bot("Look:", call("a"), gave("a", 1), call("b"), gave("b", 2), "Done."), HI],
        [HI, bot("Look:", call("a")), tool(gave("a", 1)), bot(call("b")), tool(gave("b", 2)), bot("Done."), HI],
    ),
    "words after a call stay with it": (
        [HI, bot(call("a"), "Wait."), tool(gave("a"))],
        [HI, bot(call("a"), "Wait."), tool(gave("a"))],
    ),
    "results in a system message": (
        [HI, bot(call("a")), system(gave("a"), "s")],
        [HI, bot(call("a")), tool(gave("a")), system("s")],
    ),
    "calls in a message that is not the assistant's": (
        [user(call("a"), "Hi"), tool(call("b")), system(call("c"))],
        [HI],
    ),
    "words in a tool message are the user's": (
        [HI, bot(call("a"), call("b")), tool(text("See:"), gave("b", 2), IMAGE), tool(gave("a", 1))],
        [HI, bot(call("a"), call("b")), tool(gave("a", 1), gave("b", 2)), user("See:", IMAGE)],
    ),
    "feedback is always the user's": (
        [system(FeedbackPart("a")), bot("b", FeedbackPart("c"), "d"), tool(FeedbackPart("e"))],
        [user(FeedbackPart("a")), bot("b"), user(FeedbackPart("c")), bot("d"), user(FeedbackPart("e"))],
    ),
    "thinking of the user": ([user(SIGNED, "Hi")], [HI]),
    "images of the assistant": ([HI, bot(IMAGE, "Hello"), HI], [HI, bot("Hello"), HI]),
}


@table(PARTS)
def test_what_says_nothing_is_left_out(given_: list[Message], wanted: list[Message]) -> None:
    assert repair(*given_) == wanted


@table(RUNS)
def test_messages_of_one_role_in_a_row_become_one(given_: list[Message], wanted: list[Message]) -> None:
    assert repair(*given_) == [*wanted]


@table(ENDS)
def test_a_conversation_ends_with_the_user_or_a_tool(given_: list[Message], wanted: list[Message]) -> None:
    assert repair(*given_) == wanted


@table(PLACES)
def test_parts_in_a_message_of_another_role_go_where_they_belong(given_: list[Message], wanted: list[Message]) -> None:
    assert repair(*given_) == wanted


def test_a_prefilled_reply_stays_the_last_word() -> None:
    assert repair(HI, bot("It is"), prefill=True) == [HI, bot("It is")]
    assert repair(HI, bot(call("a")), prefill=True) == [HI, bot(call("a")), tool(cut("a"))]
    assert repair(HI, bot("It is", SIGNED), bot(" "), prefill=True) == [HI, bot("It is", SIGNED)]


# --- texts

BAD, GOOD = "bad \ud83d tail\0 \ud83d\ude00", "bad \ufffd tail\ufffd \U0001f600"


def test_every_text_is_cleaned() -> None:
    """A34"""
    dirty = [
        system(BAD),
        user(
            BAD,
            FeedbackPart(BAD),
            ImagePart(url=f"https://{BAD}", media_type=BAD),
            FilePart(data=BAD, media_type=BAD, filename=BAD),
        ),
        bot(ReasoningPart(BAD), BAD, ToolCallPart(BAD, BAD, {BAD: [BAD, {"x": BAD}]}, raw_args=BAD)),
        tool(ToolResultPart(BAD, BAD, [{BAD: BAD}, 1, None, 0.5, BAD])),
    ]
    request = repaired(ModelRequest(messages=dirty, system=BAD), prefill=False)
    assert request.system == GOOD
    assert list(request.messages) == [
        system(GOOD),
        user(
            GOOD,
            FeedbackPart(GOOD),
            ImagePart(url=f"https://{GOOD}", media_type=GOOD),
            FilePart(data=GOOD, media_type=GOOD, filename=GOOD),
        ),
        bot(ReasoningPart(GOOD), GOOD, ToolCallPart(GOOD, GOOD, {GOOD: [GOOD, {"x": GOOD}]}, raw_args=GOOD)),
        tool(ToolResultPart(GOOD, GOOD, [{GOOD: GOOD}, 1, None, 0.5, GOOD])),
    ]


@pytest.mark.parametrize(
    ("thought", "sent"),
    [
        (ReasoningPart("a\0 ", "x", {"signature": "s\0"}), ReasoningPart("a\0 ", "x", {"signature": "s\0"})),
        (ReasoningPart("a\ud800", "x", {"signature": "s"}), ReasoningPart("a\ufffd", "x")),
        (ReasoningPart("a\ud800", "x", {"server": "s"}), ReasoningPart("a\ufffd", "x", {"server": "s"})),
        (ReasoningPart("a", "x", {"signature": "\ud800"}), ReasoningPart("a", "x")),
    ],
)
def test_thinking_is_changed_only_where_it_cannot_be_encoded(thought: ReasoningPart, sent: ReasoningPart) -> None:
    """A17"""
    assert repair(HI, bot(thought, "Hello"), HI) == [HI, bot(sent, "Hello"), HI]
    assert repair(HI, bot(ReasoningPart("", "x", {"signature": "\ud800"}), "Hello"), HI) == [HI, bot("Hello"), HI]


def test_marks_of_a_call_that_cannot_be_encoded_are_left_out() -> None:
    marked = [ToolCallPart("a", "f", {}, metadata=mark) for mark in ({"id": "i\0"}, {"id": "\ud800"})]
    one, other = repair(HI, bot(marked[0]))[1].tool_calls + repair(HI, bot(marked[1]))[1].tool_calls
    assert (one.metadata, other.metadata) == ({"id": "i\0"}, None)


def test_values_that_are_no_json_yet_become_it() -> None:
    day = dt.date(2026, 1, 2)
    history = repair(HI, bot(call("a", day=day, n=math.nan)), tool(gave("a", (day, {1: b"x"}, -math.inf))))
    assert history == [
        HI,
        bot(call("a", day="2026-01-02", n="NaN")),
        tool(gave("a", ["2026-01-02", {"1": "eA=="}, "-Infinity"])),
    ]


@pytest.mark.parametrize(
    ("value", "sent"), [(math.nan, "NaN"), (math.inf, "Infinity"), ({"n": -math.inf}, {"n": "-Infinity"})]
)
def test_a_number_that_json_lacks_is_sent_as_text(value: Any, sent: Any) -> None:
    assert repair(HI, bot(call("a", x=value)), tool(gave("a", value))) == [
        HI,
        bot(call("a", x=sent)),
        tool(gave("a", sent)),
    ]


def test_what_is_left_out_is_told_in_the_debug_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "mastra_py")
    repair(user("Hi", call("a", "f")), tool(gave("x", "secret", "g")), user(DataPart("x")))
    assert caplog.messages == [
        "a tool-call part of a user message is not sent",
        "a result of 'g' is not sent: call 'x' waits for none",
        "a data part of a user message is not sent",
    ]


def circle() -> list[Any]:
    values: list[Any] = []
    values.append(values)
    return values


@pytest.mark.parametrize("value", [object(), {"x": [object]}, circle()], ids=["object", "class", "circle"])
def test_a_value_without_a_json_form_is_refused_by_name(value: Any) -> None:
    with pytest.raises(UserError, match="the result of call 'a' of tool 'f' cannot be sent"):
        repair(HI, bot(call("a")), tool(gave("a", value)))
    with pytest.raises(UserError, match="the arguments of call 'a' of tool 'f' cannot be sent"):
        repair(HI, bot(call("a", x=value)))


def test_tools_are_cleaned_where_they_cannot_be_encoded() -> None:
    def made(words: str) -> Tool:
        schema = {"type": "object", "properties": {"a": {"type": "string", "description": words}}, "required": ["a"]}
        return Tool(name="f", description=words, parameters=schema, run=lambda a: a)

    good, bad = made("a\0 and \u00e9"), made("\ud800")
    request = repaired(ModelRequest(messages=[HI], tools=[good, bad], system=" "), prefill=False)
    assert request.system is None
    assert request.tools[0] is good
    assert (request.tools[1].description, request.tools[1].name) == ("\ufffd", "f")
    assert request.tools[1].parameters["properties"]["a"]["description"] == "\ufffd"
    assert (bad.description, bad.parameters["properties"]["a"]["description"]) == ("\ud800", "\ud800")


# --- nothing is changed that need not be


def long_history(turns: int) -> list[Message]:
    history: list[Message] = []
    for n in range(turns):
        history += [
            user("What is the weather in Z\u00fcrich?"),
            bot(SIGNED, "Let me see.", call(f"a{n}", city="Z\u00fcrich"), call(f"b{n}", rows=[1, 2.5, None, True])),
            tool(gave(f"a{n}", {"rows": [{"at": h, "sky": "clear"} for h in range(10)]}), gave(f"b{n}", "ok " * 100)),
            bot("It is fine."),
        ]
    return [*history, user("Thanks")]


def test_a_sound_request_is_returned_itself() -> None:
    request = ModelRequest(
        messages=[system("s"), *long_history(3)],
        system="Be brief.",
        tools=[Tool(name="f", description="d", parameters={"type": "object", "properties": {}}, run=lambda: 1)],
    )
    assert repaired(request, prefill=False) is request
    assert repaired(request, prefill=True) is request


def test_messages_that_are_sound_are_the_same_ones_beside_others_that_are_not() -> None:
    history = long_history(3)
    broken = [*history[:4], user("\0"), *history[5:]]
    sent = repair(*broken)
    assert [a is b for a, b in zip(broken, sent, strict=True)] == [n != 4 for n in range(len(broken))]


def test_the_time_it_takes_grows_with_the_length_of_the_history_and_no_faster() -> None:
    def seconds(turns: int) -> float:
        history = [
            replaced for m in long_history(turns) for replaced in (m, user("\0"), bot(call("c")), tool(gave("c")))
        ]
        request = ModelRequest(messages=history)
        times: list[float] = []
        for _ in range(3):
            start = time.perf_counter()
            repaired(request, prefill=False)
            times.append(time.perf_counter() - start)
        return min(times)

    assert seconds(800) < 10 * seconds(200)  # linear: 4 times, quadratic: 16 times


# --- any conversation

IDS_DRAWN = st.sampled_from(
    ["call_0", "call_0", "call_1", "call_0_2", "call_3", "", " ", "a\0", "a\ud800", "functions.f:0"]
)
NAMES = st.sampled_from(["f", "g", "", "\ud800"])
ANY_TEXT = st.sampled_from(["", " ", "\n\u2003", "\0", "\ud83d", "\ud83d\ude00", "words", "more words"]) | st.text(
    st.characters(exclude_categories=()), max_size=5
)
SCALARS = (
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(width=16) | ANY_TEXT | st.binary(max_size=2) | st.dates()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.tuples(inner) | st.dictionaries(ANY_TEXT, inner, max_size=2),
    max_leaves=4,
)
MARKS = st.none() | st.dictionaries(st.sampled_from(["signature", "server"]), ANY_TEXT, max_size=2)
RESULTS = st.builds(ToolResultPart, IDS_DRAWN, NAMES, VALUES, st.booleans()) | st.builds(cut, IDS_DRAWN, NAMES)
CALLS = st.builds(
    lambda call_id, name, value, raw, mark: ToolCallPart(call_id, name, {"value": value}, raw, mark),
    *(IDS_DRAWN, NAMES, VALUES, st.none() | ANY_TEXT, MARKS),
)
PARTS_DRAWN = st.one_of(
    CALLS,
    RESULTS,
    st.builds(TextPart, ANY_TEXT),
    st.builds(ReasoningPart, ANY_TEXT, st.sampled_from([None, "openai", "anthropic"]), MARKS),
    st.builds(FeedbackPart, ANY_TEXT),
    st.builds(ImagePart, url=ANY_TEXT.map("https://{}".format), media_type=st.none() | ANY_TEXT),
    st.builds(FilePart, data=ANY_TEXT, media_type=ANY_TEXT, filename=st.none() | ANY_TEXT),
    st.builds(DataPart, st.just("x"), VALUES),
)
ROLES = st.sampled_from(["system", "user", "assistant", "tool"])
WILD = st.builds(Message, ROLES, st.lists(PARTS_DRAWN, max_size=4))
TAME = st.one_of(
    st.builds(Message, st.just("assistant"), st.lists(CALLS, min_size=1, max_size=3)),
    st.builds(Message, st.just("tool"), st.lists(RESULTS, min_size=1, max_size=3)),
    st.builds(user, ANY_TEXT),
    st.builds(bot, ANY_TEXT),
)
CONVERSATIONS = st.lists(WILD | TAME, max_size=8)


def parts_of(messages: Sequence[Message]) -> Iterator[tuple[Message, Part]]:
    return ((message, part) for message in messages for part in message.parts)


def texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from texts_in(key)
            yield from texts_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts_in(item)


def check_pairs(messages: list[Message]) -> None:
    ids: list[str] = []
    for message, after in itertools.zip_longest(messages, messages[1:]):
        asked = [part.tool_call_id for part in message.tool_calls]
        ids += asked
        if asked:
            assert message.role == "assistant"
            assert after is not None
            assert after.role == "tool"
            assert [part.tool_call_id for part in after.tool_results] == asked
        elif after is not None:
            assert after.role != "tool"
    assert all(call_id.strip() for call_id in ids)
    assert len(set(ids)) == len(ids)


def check_roles(messages: list[Message], *, prefill: bool) -> None:
    spoken = [message.role for message in messages if message.role != "system"]
    assert not spoken or prefill or spoken[-1] in {"user", "tool"}
    for message, after in itertools.pairwise(messages):
        assert message.role in {"system", "tool"} or after.role != message.role
    for message, part in parts_of(messages):
        wanted = {ToolResultPart: "tool", ToolCallPart: "assistant", ReasoningPart: "assistant", FeedbackPart: "user"}
        wanted |= dict.fromkeys((ImagePart, FilePart), "user")
        assert message.role == wanted.get(type(part), message.role)
        assert not (message.role == "tool" and type(part) is not ToolResultPart)
        assert type(part) is not DataPart


def check_texts(messages: list[Message]) -> None:
    for message in messages:
        assert message.parts
        assert not all(type(part) is ReasoningPart for part in message.parts)
        encoded = [dataclasses.asdict(part) for part in message.parts]
        json.dumps(encoded, ensure_ascii=False, allow_nan=False).encode()
        for part, fields in zip(message.parts, encoded, strict=True):
            if type(part) is TextPart or type(part) is FeedbackPart:
                assert part.text.strip()
            if type(part) is not ReasoningPart:
                fields.pop("metadata", None)
                assert not any("\0" in each for each in texts_in(fields))


def kept_results(messages: Sequence[Message]) -> Counter[str]:
    """Return how many real results find a call, by id: each takes one that waits, or else one that was interrupted."""
    waiting, interrupted, kept = Counter[str](), Counter[str](), Counter[str]()
    for message, part in parts_of(messages):
        if type(part) is ToolCallPart and message.role == "assistant":
            waiting[part.tool_call_id] += 1
        elif type(part) is ToolResultPart:
            unreal = part.is_error and part.result == INTERRUPTED
            own = waiting if unreal or waiting[part.tool_call_id] else interrupted
            if own[part.tool_call_id]:
                own[part.tool_call_id] -= 1
                (interrupted if unreal else kept)[part.tool_call_id] += 1
    return kept


def check_nothing_lost(before: Sequence[Message], after: list[Message]) -> None:
    def said(messages: Sequence[Message], kind: type[Any]) -> Counter[str]:
        found: list[Any] = [part for _, part in parts_of(messages) if type(part) is kind]
        return Counter([clean_text(part.text) for part in found if part.text.strip()])

    for kind in (TextPart, FeedbackPart):
        assert said(after, kind) == said(before, kind)
    raw = [part for message, part in parts_of(before) if type(part) is ToolCallPart and message.role == "assistant"]
    sent = [part for _, part in parts_of(after) if type(part) is ToolCallPart]
    assert [(p.tool_name, p.args) for p in sent] == [(clean_text(p.tool_name), to_json_value(p.args)) for p in raw]
    # Each call keeps results that came with its own id only, and as many as there were.
    origin = {new.tool_call_id: old.tool_call_id for old, new in zip(raw, sent, strict=True)}
    given_ = {
        (p.tool_call_id, json.dumps(to_json_value(p.result))) for _, p in parts_of(before) if type(p) is ToolResultPart
    }
    kept = Counter[str]()
    for _, part in parts_of(after):
        if type(part) is ToolResultPart and not (part.is_error and part.result == INTERRUPTED):
            kept[origin[part.tool_call_id]] += 1
            assert (origin[part.tool_call_id], json.dumps(part.result)) in given_
    assert +kept == +kept_results(before)


@given(CONVERSATIONS, st.booleans(), st.none() | ANY_TEXT)
@example([bot(ReasoningPart("", "x", {"signature": "\ud800"})), HI], False, None)
def test_any_conversation_becomes_one_that_can_be_sent(
    messages: list[Message], prefill: bool, prompt: str | None
) -> None:
    request = ModelRequest(messages=messages, system=prompt)
    before = copy.deepcopy(messages)
    sent = repaired(request, prefill=prefill)
    assert repr(messages) == repr(before)
    after = list(sent.messages)
    check_pairs(after)
    check_roles(after, prefill=prefill)
    check_texts(after)
    (sent.system or "").encode()
    assert repaired(sent, prefill=prefill) is sent
    if not prefill and repaired(request, prefill=True).messages != sent.messages:
        assert after.pop() == user(GO_ON)
    check_nothing_lost(messages, after)


# --- names and ids

TAKEN = re.compile(r"[a-zA-Z0-9_-]{1,64}")
LONG = "x" * 79


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("get_weather", "get_weather"),
        ("a" * 64, "a" * 64),
        ("agent-Research: EU law", "agent-Research_EU_law_"),
        ("functions.get_weather", "functions_get_weather_"),
        (LONG, "x" * 47 + "_"),
        ("", "x_"),
        ("\u7814\u7a76\ud800", "x_"),
        ("get_weather\n", "get_weather_"),
    ],
)
def test_a_name_is_written_as_every_wire_takes_it(name: str, stem: str) -> None:
    """A37"""
    written = wire_name(name)
    assert TAKEN.fullmatch(written)
    assert written.startswith(stem)
    assert (written == name) == (TAKEN.fullmatch(name) is not None)


def test_names_that_are_cut_or_changed_stay_apart() -> None:
    """A37"""
    names = [LONG + "a", LONG + "b", "a b", "a.b", "a  b", "a_b", "", " ", "\u7814", "\u7a76"]
    assert len({wire_name(name) for name in names}) == len(names)
    assert len({wire_name(name, 30) for name in names}) == len(names)


@given(st.text(st.characters(exclude_categories=()), max_size=90), st.integers(18, 64))
def test_any_text_has_a_name_and_naming_it_twice_changes_nothing(name: str, limit: int) -> None:
    written = wire_name(name, limit)
    assert TAKEN.fullmatch(written)
    assert len(written) <= limit
    assert wire_name(written, limit) == written


@given(st.lists(st.text(st.characters(exclude_categories=()) | st.sampled_from("a_:."), max_size=50), unique=True))
def test_distinct_ids_stay_distinct(ids: list[str]) -> None:
    """A20"""
    ids += [wire_id(call_id) for call_id in ids if wire_id(call_id) not in ids]
    for limit in (None, 40):
        written = [wire_id(call_id, limit) for call_id in ids]
        assert len(set(written)) == len(set(ids))
        assert all(re.fullmatch(r"[a-zA-Z0-9_-]+", each) for each in written)
        assert limit is None or all(len(each) <= limit for each in written)


def test_an_id_that_every_wire_takes_stays_as_it_is() -> None:
    """A20"""
    assert [wire_id(each) for each in ("toolu_01-X", "call_0")] == ["toolu_01-X", "call_0"]
    assert wire_id("functions.f:0").startswith("functions_f_0_")
    assert wire_id(wire_id("a.b")) != wire_id("a.b")  # or else it could stand for either


@pytest.mark.parametrize(
    ("part", "complaint"),
    [
        (ImagePart(), "ImagePart needs a url, or data together with its media_type"),
        (FilePart(data="QUJD"), "FilePart needs a url, or data together with its media_type"),
        (ImagePart(url="pictures/cat.png"), "ImagePart url must be a URL such as https"),
    ],
)
def test_an_image_or_a_file_that_no_provider_could_find_is_refused_before_it_is_sent(
    part: ImagePart | FilePart, complaint: str
) -> None:
    with pytest.raises(UserError, match=complaint):
        repaired(ModelRequest(messages=[Message("user", [part])]), prefill=False)

"""Messages: what counts as text, and the JSON form."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mastra_py import UserError
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
    dump_messages,
    last_user_text,
    load_messages,
    total_usage,
)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(), json_values, max_size=3)
parts = st.one_of(
    st.builds(TextPart, st.text()),
    st.builds(ReasoningPart, st.text(), st.none() | st.text(), st.none() | objects),
    st.builds(ToolCallPart, st.text(), st.text(), objects, st.none() | st.text(), st.none() | objects),
    st.builds(ToolResultPart, st.text(), st.text(), json_values, st.booleans()),
    st.builds(ImagePart, st.none() | st.text(), st.none() | st.text(), st.none() | st.text()),
    st.builds(FilePart, st.none() | st.text(), st.none() | st.text(), st.none() | st.text(), st.none() | st.text()),
    st.builds(DataPart, st.text(), json_values),
    st.builds(FeedbackPart, st.text()),
)
messages = st.builds(Message, st.sampled_from(["system", "user", "assistant", "tool"]), st.lists(parts, max_size=4))


@given(st.lists(messages, max_size=4))
def test_a_conversation_survives_json(conversation: list[Message]) -> None:
    assert load_messages(json.loads(json.dumps(dump_messages(conversation)))) == conversation


def test_text_is_the_text_parts_alone() -> None:
    message = Message("assistant", [ReasoningPart("hm"), TextPart("a"), FeedbackPart("no"), TextPart("b")])
    assert message.text == "ab"


def test_feedback_is_not_the_users_own_words() -> None:
    feedback = Message("user", [FeedbackPart("mend it")])
    assert feedback.is_feedback
    assert last_user_text([Message("user", [TextPart("the "), TextPart("task")]), feedback]) == "the task"


def test_content_may_stand_for_parts() -> None:
    assert load_messages([{"role": "user", "content": "hi"}]) == [Message("user", "hi")]


@pytest.mark.parametrize(
    ("given_message", "complaint"),
    [
        ({"role": "user"}, r"messages\[0\].parts"),
        ({"role": "robot", "content": "x"}, r"messages\[0\].role"),
        ({"role": "user", "parts": [{"type": "smell"}]}, "smell"),
        (7, r"messages\[0\] is a int"),
    ],
)
def test_what_is_no_message_is_named(given_message: object, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        load_messages([given_message])  # type: ignore[list-item]


def test_usage_adds_up() -> None:
    one = Usage(input_tokens=1, output_tokens=2, cached_input_tokens=1, reasoning_tokens=1)
    assert total_usage([one, one]) == Usage(input_tokens=2, output_tokens=4, cached_input_tokens=2, reasoning_tokens=2)
    assert one.total_tokens == 3


def test_a_plain_text_in_a_list_of_parts_is_a_text_part() -> None:
    image = ImagePart(url="https://example.com/cat.png")
    assert Message("user", ["Look:", image]).parts == (TextPart("Look:"), image)


def test_data_given_as_bytes_becomes_base64() -> None:
    assert FilePart(data=b"ABC", media_type="text/plain").data == "QUJD"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "args", "complaint"),
    [
        (Message, ("user", [3]), "a message's parts are texts and parts such as TextPart"),
        (TextPart, (3,), "TextPart text must be a str, got 3"),
        (ImagePart, (3,), "ImagePart url must be a text, got 3"),
        (ToolCallPart, ("1", "f", "{}"), "ToolCallPart args must be a dict, got '{}'"),
    ],
)
def test_a_part_of_a_wrong_type_is_refused_where_it_is_made(kind: Any, args: tuple[Any, ...], complaint: str) -> None:
    with pytest.raises(UserError, match=re.escape(complaint)):
        kind(*args)

"""``filter_run``: a scorer is given less to read, and the run it came from stays as it was."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.vector_filter import expected, play
from support.vector_notation import load_vectors

from mastra_py.errors import UserError
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
)
from mastra_py.scorers import create_scorer, filter_run
from mastra_py.scoring import AgentRunInput, AgentRunOutput, ScorerRun

VECTORS = load_vectors("filter_run")


def call(name: str, call_id: str | None = None) -> ToolCallPart:
    return ToolCallPart(call_id or f"id-{name}", name, {})


def answer(name: str, call_id: str | None = None) -> ToolResultPart:
    return ToolResultPart(call_id or f"id-{name}", name, 1)


def output(*messages: Message) -> ScorerRun[Any, AgentRunOutput]:
    return ScorerRun(output=AgentRunOutput(messages))


SEARCH = (Message("assistant", [call("search")]), Message("tool", [answer("search")]))
WRITE = (Message("assistant", [call("write")]), Message("tool", [answer("write")]))
HELLO = Message("assistant", "hello")


@pytest.mark.parametrize("vector", VECTORS, ids=[v["name"] for v in VECTORS])
def test_filters_as_recorded_or_as_a_rule_says(vector: dict[str, Any]) -> None:
    facts, _rules = expected(vector)
    assert play(vector["given"]) == facts


def test_departs_from_the_recordings_by_these_rules_only() -> None:
    departures = {v["name"].removeprefix("filter_run/"): rules for v in VECTORS if (rules := expected(v)[1])}
    assert departures == {
        "max_zero_means_no_limit": {"D26"},
        "tool_names_one_of_two_in_message": {"D26"},
        "tool_names_and_part_types_tool": {"D41"},
        "part_types_tool_invocation": {"D41"},
        "part_types_empty_list": {"D41"},
    }


def test_a_call_and_its_result_count_as_one_message() -> None:
    run = output(HELLO, *SEARCH, *WRITE, HELLO)
    assert filter_run(max_output_messages=2)(run).output == (*WRITE, HELLO)
    assert filter_run(max_output_messages=3)(run).output == (*SEARCH, *WRITE, HELLO)


def test_a_limit_above_the_number_of_messages_keeps_them_all() -> None:
    run = output(HELLO, *SEARCH, HELLO)
    for limit in (3, 4, 5, 100):
        assert filter_run(max_output_messages=limit)(run) == run


def test_several_tool_messages_after_one_call_message_belong_to_it() -> None:
    turn = (
        Message("assistant", [call("a"), call("b")]),
        Message("tool", [answer("a")]),
        Message("tool", [answer("b")]),
    )
    assert filter_run(max_output_messages=1)(output(HELLO, *turn)).output == turn
    assert filter_run(tool_names=["b"])(output(*turn)).output == (
        Message("assistant", [call("b")]),
        Message("tool", [answer("b")]),
    )


def test_a_result_without_its_call_is_a_message_of_its_own() -> None:
    orphan = Message("tool", [answer("search")])
    run = output(orphan, HELLO, orphan)
    assert filter_run(max_output_messages=2)(run).output == (HELLO, orphan)
    assert filter_run(tool_names=["write"])(run).output == (HELLO,)


def test_a_result_goes_by_the_name_of_its_call() -> None:
    turn = (Message("assistant", [call("search", "1"), call("write", "2")]), Message("tool", [answer("write", "1")]))
    assert filter_run(tool_names=["write"])(output(*turn)).output == (Message("assistant", [call("write", "2")]),)


def test_unwanted_tool_calls_are_taken_out_of_a_message_that_is_kept() -> None:
    turn = (
        Message("assistant", [TextPart("looking"), call("search"), call("write")]),
        Message("tool", [answer("search"), answer("write")]),
    )
    assert filter_run(tool_names=["write"])(output(*turn)).output == (
        Message("assistant", [TextPart("looking"), call("write")]),
        Message("tool", [answer("write")]),
    )
    assert filter_run(part_types=["text"])(output(*turn)).output == (Message("assistant", "looking"),)


def test_other_parts_of_a_kept_message_stay() -> None:
    message = Message("assistant", [ReasoningPart("hm"), TextPart("so")])
    assert filter_run(part_types=["text"])(output(message)).output == (message,)


def test_tool_names_leave_messages_without_tool_calls_alone() -> None:
    assert filter_run(tool_names=[])(output(HELLO, *SEARCH)).output == (HELLO,)
    texts_and_other_calls = Message("assistant", [TextPart("looking"), call("search")])
    assert filter_run(tool_names=["write"])(output(HELLO, texts_and_other_calls)).output == (HELLO,)


@pytest.mark.parametrize(
    ("prefix", "part"),
    [
        ("text", TextPart("x")),
        ("te", TextPart("x")),
        ("reasoning", ReasoningPart("x")),
        ("image", ImagePart(url="x")),
        ("file", FilePart(url="x")),
        ("data-", DataPart("status")),
        ("data-status", DataPart("status-of-things")),
        ("tool-", call("search")),
        ("tool-invocation", answer("search")),
        ("text", FeedbackPart("not yet")),
    ],
)
def test_part_types_are_prefixes_of_the_kinds_of_parts(prefix: str, part: Part) -> None:
    others: list[Part] = [DataPart("other")] if prefix.startswith("te") else [TextPart("other")]
    wanted = Message("assistant", [part])
    assert filter_run(part_types=[prefix])(output(Message("assistant", others), wanted)).output == (wanted,)


def test_the_latest_remembered_messages_are_kept_and_the_given_ones_are_not_touched() -> None:
    old, new = Message("user", "old"), Message("user", "new")
    given_messages = (Message("user", [DataPart("x")]), HELLO)
    agent_input = AgentRunInput(input_messages=given_messages, remembered_messages=(old, new), task="t")
    filtered = filter_run(max_remembered_messages=1, part_types=["text"])(ScorerRun(input=agent_input, output="text"))
    assert filtered.input == AgentRunInput(input_messages=given_messages, remembered_messages=(new,), task="t")
    assert filtered.output == "text"


def test_a_limit_counts_what_is_left_after_filtering() -> None:
    filtered = filter_run(max_output_messages=1, part_types=["text"])(output(HELLO, *SEARCH))
    assert filtered.output == (HELLO,)


@pytest.mark.parametrize("value", ["text", {"messages": [HELLO]}, [HELLO, "text"], 7, None])
def test_an_output_that_is_no_messages_passes_as_it_is(value: Any) -> None:
    run = ScorerRun(input=value, output=value)
    assert filter_run(max_output_messages=0, max_remembered_messages=0, part_types=[])(run) == run


@pytest.mark.parametrize("shape", [list, tuple, AgentRunOutput])
def test_messages_keep_the_shape_they_came_in(shape: Any) -> None:
    filtered = filter_run(max_output_messages=1)(ScorerRun(output=shape([*SEARCH, HELLO])))
    assert type(filtered.output) is shape
    assert filtered.output == shape([HELLO])


def test_fields_are_dropped_on_request_only() -> None:
    run = ScorerRun(output="x", request_context={"a": 1}, expected_trajectory=[1], ground_truth="gt", run_id="r")
    assert filter_run()(run) == run
    assert filter_run(drop_request_context=True)(run).request_context is None
    assert filter_run(drop_expected_trajectory=True)(run).expected_trajectory is None
    filtered = filter_run(drop_ground_truth=True)(run)
    assert (filtered.ground_truth, filtered.request_context, filtered.run_id) == (None, {"a": 1}, "r")


async def test_prepares_the_runs_of_a_scorer() -> None:
    scorer = create_scorer("s", type="agent", prepare_run=filter_run(tool_names=["write"], drop_ground_truth=True))
    scorer = scorer.generate_score(lambda ctx: len(ctx.run.output))
    result = await scorer.run(output=[*SEARCH, *WRITE], ground_truth="gt")
    assert (result.score, result.run and result.run.ground_truth) == (2, None)


@pytest.mark.parametrize("name", ["max_remembered_messages", "max_output_messages"])
@pytest.mark.parametrize("value", [-1, 1.5, float("nan"), float("inf"), True, "3"])
def test_a_limit_must_be_a_whole_number_from_0(name: str, value: Any) -> None:
    with pytest.raises(UserError, match=f"filter_run: {name} must be a whole number"):
        filter_run(**{name: value})


@pytest.mark.parametrize("name", ["part_types", "tool_names"])
@pytest.mark.parametrize("value", ["text", 7, ["text", 7]])
def test_prefixes_must_be_a_list_of_strings(name: str, value: Any) -> None:
    with pytest.raises(UserError, match=f"filter_run: {name} must be a list of strings"):
        filter_run(**{name: value})


@pytest.mark.parametrize("name", ["drop_request_context", "drop_expected_trajectory", "drop_ground_truth"])
def test_a_drop_option_must_be_a_bool(name: str) -> None:
    options: dict[str, Any] = {name: "no"}
    with pytest.raises(UserError, match=f"filter_run: {name} must be True or False"):
        filter_run(**options)


NAMES = st.sampled_from(["a", "ab", "b"])
TEXTS = st.builds(Message, st.sampled_from(["user", "assistant"]), st.just("text"))


@st.composite
def tool_turns(draw: st.DrawFn) -> list[Message]:
    names = draw(st.lists(NAMES, min_size=1, max_size=3))
    text: list[Part] = [TextPart("looking")] if draw(st.booleans()) else []
    ids = [f"{draw(st.integers(0, 10**9))}-{i}" for i in range(len(names))]
    calls = [call(name, call_id) for name, call_id in zip(names, ids, strict=True)]
    return [
        Message("assistant", [*text, *calls]),
        Message("tool", [answer(c.tool_name, c.tool_call_id) for c in calls]),
    ]


@settings(max_examples=60, deadline=None)
@given(
    turns=st.lists(st.one_of(TEXTS.map(lambda m: [m]), tool_turns()), max_size=6),
    tool_names=st.none() | st.lists(NAMES, max_size=2),
    part_types=st.none() | st.lists(st.sampled_from(["text", "tool-invocation", "t", "data-"]), max_size=2),
    limit=st.none() | st.integers(0, 4),
)
def test_no_filter_parts_a_call_from_its_result_or_changes_what_it_was_given(
    turns: list[list[Message]], tool_names: Any, part_types: Any, limit: int | None
) -> None:
    run = output(*(message for turn in turns for message in turn))
    before = copy.deepcopy(run)
    kept = filter_run(tool_names=tool_names, part_types=part_types, max_output_messages=limit)(run).output
    assert run == before
    assert [c.tool_call_id for m in kept for c in m.tool_calls] == [
        r.tool_call_id for m in kept for r in m.tool_results
    ]
    assert limit is None or sum(m.role != "tool" for m in kept) <= limit
    assert all(m.parts for m in kept)

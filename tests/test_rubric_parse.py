"""Rubrics: a checklist in one text, or a list of criteria."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.vector_notation import UnknownNotationError, load_vectors
from support.vector_rubric import WHITE, expected_parse, play_parse

from mastra_py import RubricCriterion, UserError, create_rubric_scorer, parse_rubric
from mastra_py.scorers.criteria import with_ids
from mastra_py.testing import ScriptedModel

VECTORS = load_vectors("rubric_parse")


def lines_of(rubric: Any) -> list[str]:
    return [criterion.description for criterion in parse_rubric(rubric)]


# --- recorded behaviour


@pytest.mark.parametrize("vector", VECTORS, ids=[v["name"] for v in VECTORS])
async def test_reads_a_rubric_as_recorded_or_as_a_rule_says(vector: dict[str, Any]) -> None:
    facts, _rules = expected_parse(vector)
    assert await play_parse(vector["given"]) == facts


def test_departs_from_the_recordings_by_these_rules_only() -> None:
    departures = {v["name"].removeprefix("rubric_parse/"): rules for v in VECTORS if (rules := expected_parse(v)[1])}
    assert departures == {
        "minus_number": {"D22"},
        "decimal_number_start": {"D22"},
        "bold_start": {"D22"},
        "double_dash_flag": {"D22"},
        "no_space_after_marker": {"D22"},
        "array_required_variants": {"D24"},
        "array_multiline_and_empty": {"D24"},
        "empty_string": {"D2"},
        "whitespace_only": {"D2"},
        "array_empty": {"D2"},
    }


async def test_a_vector_with_an_unknown_key_is_not_read() -> None:
    with pytest.raises(UnknownNotationError, match="the vector has unknown keys: weights"):
        await play_parse({"rubric": "- a", "weights": [1]})


# --- a checklist in one text


@pytest.mark.parametrize(
    ("line", "description"),
    [
        ("-5 degrees is the lower bound", "-5 degrees is the lower bound"),
        ("3.14 is quoted as pi", "3.14 is quoted as pi"),
        ("**Must** mention the price", "**Must** mention the price"),
        ("--verbose is documented", "--verbose is documented"),
        ("---", "---"),
        ("1.tight", "1.tight"),
        ("12 apostles are named", "12 apostles are named"),
        ("90. ninety", "ninety"),
        ("-  [ ]  wide", "wide"),
        (". no number", ". no number"),
        (") no number", ") no number"),
        ("- 1. both", "1. both"),
        ("- - twice", "- twice"),
        ("12) twelve", "12) twelve".removeprefix("12) ")),
        ("•\u3000wide space", "wide space"),
        ("-\u00a0no break", "no break"),
        ("- [ ] open", "open"),
        ("* [x] done", "done"),
        ("1. [X]  done", "done"),
        ("- [ ] [ ] twice", "[ ] twice"),
        ("[ ] no marker before it", "[ ] no marker before it"),
        ("- [x](http://example.org) is linked", "[x](http://example.org) is linked"),
        ("- [] empty", "[] empty"),
        ("- [optional] bracketed", "[optional] bracketed"),
        ("\ufeff- after a byte order mark\r", "after a byte order mark"),
        ("- next line\u0085", "next line\u0085"),
        ("\u001c- separator", "\u001c- separator"),
        ("\u0661. arabic-indic", "\u0661. arabic-indic"),
        ("a\u2028- b", "a\u2028- b"),
        ("a\r- b", "a\r- b"),
    ],
)
def test_of_a_line_one_marker_and_then_one_checkbox_is_stripped(line: str, description: str) -> None:
    assert parse_rubric(line) == (RubricCriterion(description),)


@pytest.mark.parametrize("blank", ["", "  ", "-", "- ", "*\t", "1.", "- [ ]", "- [x] ", "\r", "\ufeff\u3000"])
def test_a_line_with_nothing_but_a_marker_is_left_out(blank: str) -> None:
    assert lines_of(f"- before\n{blank}\n- after") == ["before", "after"]


def test_white_space_is_what_javascript_takes_for_it() -> None:
    white = {*"\t\v\f\r \xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff", *map(chr, range(0x2000, 0x200B))}
    characters = [chr(n) for n in range(0x10000) if chr(n) != "\n"]
    read = lines_of("\n".join(f"-{c}x" for c in characters))
    assert {c for c, line in zip(characters, read, strict=True) if line == "x"} == white
    for blank in ("\n", *white):
        with pytest.raises(UserError, match="not blank"):
            RubricCriterion(blank)


def test_every_line_is_required() -> None:
    assert parse_rubric("- (optional) nice\n- must") == (RubricCriterion("(optional) nice"), RubricCriterion("must"))


TEXTS = st.text(st.sampled_from([*"ab-*•1.)[]xX# \t\n\r\x85\x1c\xa0\u2028\ufeff\u0661"]) | st.characters(), max_size=40)


@given(TEXTS)
@example("- [ ]")
@example("- [ ] [x] - a")
@example("-[ ] a")
def test_a_checklist_of_what_was_read_reads_the_same(text: str) -> None:
    criteria = parse_rubric(text)
    assert parse_rubric("\n".join(f"- [ ] {c.description}" for c in criteria)) == criteria
    assert parse_rubric([c.description for c in criteria]) == criteria


@given(TEXTS)
def test_nothing_is_lost_but_white_space_markers_and_checkboxes(text: str) -> None:
    nothing = re.compile(rf"[{WHITE}]*(([-*•]|[0-9]+[.)])([{WHITE}]+(\[[ xX]\]([{WHITE}]+|\Z))?|\Z))?")
    lines = [line for line in text.split("\n") if not nothing.fullmatch(line)]
    for line, description in zip(lines, lines_of(text), strict=True):
        kept = re.sub(rf"[{WHITE}]+\Z", "", line)
        assert kept.endswith(description)
        assert nothing.fullmatch(kept.removesuffix(description))


# --- a list of criteria


def test_a_list_holds_criteria_dicts_and_texts() -> None:
    criteria = parse_rubric(
        [
            RubricCriterion("as it is", required=False, id="x"),
            {"description": "  - kept\nas it is ", "required": False},
            {"description": "none means required", "required": None, "id": None},
            "- a text is a description",
        ]
    )
    assert criteria == (
        RubricCriterion("as it is", False, "x"),
        RubricCriterion("  - kept\nas it is ", False),
        RubricCriterion("none means required", True),
        RubricCriterion("- a text is a description"),
    )
    assert parse_rubric(criteria) == criteria
    assert parse_rubric([]) == parse_rubric("") == ()


def test_a_criterion_is_a_value() -> None:
    criterion = RubricCriterion("a")
    assert (criterion.required, criterion.id, criterion) == (True, None, RubricCriterion("a", True, None))
    assert RubricCriterion("a", required=None).required is True  # type: ignore[arg-type]
    with pytest.raises(dataclasses.FrozenInstanceError):
        criterion.required = False  # type: ignore[misc]


@pytest.mark.parametrize(
    ("rubric", "named"),
    [
        (7, "rubric must be a text .* got int: 7"),
        (None, "got NoneType: None"),
        ({"description": "x"}, "got dict: {'description': 'x'}"),
        ({"a", "b"}, "got set"),
        (b"- a", "got bytes: b'- a'"),
        *[(empty, f"rubric must be a text .* got {type(empty).__name__}: ") for empty in (b"", bytearray(), range(0))],
        (memoryview(b""), "rubric must be a text .* got memoryview: "),
        ([RubricCriterion("a", id="cafe\u0301"), RubricCriterion("b", id="caf\u00e9 ")], "two criteria have the id"),
        ([RubricCriterion("a", id="a\0"), RubricCriterion("b", id="a\ud800")], "two criteria have the id"),
        ({"text": "x" * 9999}, "x{150,190}\\.\\.\\.$"),
        (RubricCriterion("x"), "got RubricCriterion"),
        (["ok", 7], r"rubric\[1\] is no criterion: .* got int: 7"),
        ([["nested"]], r"rubric\[0\] is no criterion: .* got list"),
        (
            [{"description": "x", "weight": 2, "Required": True}],
            r"rubric\[0\] has unknown fields: 'weight', 'Required'",
        ),
        ([{"text": "x"}], "'text'; a criterion has description, required, id$"),
        (["ok", " \u3000\ufeff"], r"rubric\[1\]: a criterion needs a description"),
        ([{"required": True}], r"rubric\[0\]: a criterion needs a description, .* got ''"),
        ([{"description": 5}], "got 5"),
        ([{"description": "x", "required": "false"}], "criterion 'x': required must be .* got 'false'"),
        ([{"description": "x", "required": 0}], "required must be True, False or None, got 0"),
        ([{"description": "x", "id": 1}], "id must be a text that is not blank, or None; got 1"),
        ([{"description": "x", "id": " "}], "id must be a text"),
        ([{"description": "x", "id": "a"}, {"description": "y", "id": " a"}], "two criteria have the id ' a'"),
    ],
)
def test_what_is_no_rubric_is_refused_by_name(rubric: Any, named: str) -> None:
    with pytest.raises(UserError, match=named):
        parse_rubric(rubric)
    if rubric is not None:
        with pytest.raises(UserError, match="scorer 'r': criteria"):
            create_rubric_scorer(ScriptedModel([]), rubric, id="r")


@given(
    st.lists(st.none() | st.sampled_from(["1", "2", "3", "4", "x", "y"]), max_size=8, unique_by=lambda i: i or object())
)
def test_criteria_without_an_id_are_named_by_their_position_and_no_two_alike(ids: list[str | None]) -> None:
    named = with_ids([RubricCriterion("same", id=own_id) for own_id in ids])
    assert len({c.id for c in named}) == len(ids)
    assert [c.id for c, own_id in zip(named, ids, strict=True) if own_id is not None] == [
        i for i in ids if i is not None
    ]
    if not any(ids):
        assert [c.id for c in named] == [str(n) for n in range(1, len(ids) + 1)]


def test_a_criterion_that_gets_an_id_keeps_the_rest_and_a_taken_position_is_passed_over() -> None:
    assert with_ids(
        [RubricCriterion("a", required=False), RubricCriterion("b", id="3"), RubricCriterion("c"), RubricCriterion("d")]
    ) == (
        RubricCriterion("a", required=False, id="1"),
        RubricCriterion("b", id="3"),
        RubricCriterion("c", id="4"),
        RubricCriterion("d", id="5"),
    )


@pytest.mark.parametrize("ids", [("a", " a "), (" a ", "a")])
def test_ids_that_differ_in_outer_space_alone_are_the_same(ids: tuple[str, str]) -> None:
    with pytest.raises(UserError, match="two criteria have the id"):
        parse_rubric([RubricCriterion("Alpha", id=ids[0]), RubricCriterion("Beta", id=ids[1])])


def test_of_what_is_no_rubric_a_short_one_is_shown_whole_and_a_long_one_cut() -> None:
    for wrong, shown in (
        (7, "int: 7"),
        (b"x" * 197, f"bytes: b'{'x' * 197}'"),
        (b"x" * 300, f"bytes: b'{'x' * 198}..."),
    ):
        with pytest.raises(UserError) as caught:
            parse_rubric(wrong)  # type: ignore[arg-type]
        assert str(caught.value).endswith(f"got {shown}")

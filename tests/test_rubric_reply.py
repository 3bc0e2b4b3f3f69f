"""What is read in the replies of a rubric's judge, and what is asked for again."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.rubrics import all_of, reply, said

from mastra_py import RubricCriterion
from mastra_py._reply_json import Unusable
from mastra_py.scorers._rubric_reply import RubricReader, rubric_format
from mastra_py.scorers.criteria import RubricVerdict, parse_rubric, with_ids

AB = {"a": True, "b": True}
GOOD = all_of(AB)


def reader(*criteria: Any) -> RubricReader:
    """Return a reader for these criteria, or for two that are known as ``a`` and ``b``."""
    known = [RubricCriterion("Alpha", id="a"), RubricCriterion("Beta", id="b")]
    return RubricReader(with_ids(parse_rubric(criteria or known)))


def read(text: str, *criteria: Any, last: bool = False) -> RubricVerdict:
    return reader(*criteria)(text, last=last)


def met(verdict: RubricVerdict) -> dict[str, bool]:
    return {c.id: c.satisfied for c in verdict.criteria}


def complaint(text: str, *criteria: Any, last: bool = False) -> str:
    with pytest.raises(Unusable) as caught:
        read(text, *criteria, last=last)
    return str(caught.value)


# --- a usable reply


def test_verdicts_stand_in_the_order_of_the_rubric_with_its_own_words() -> None:
    verdict = read(reply(said("b", False, "no beta"), said("a", True, "  alpha is there\n")))
    assert [(c.id, c.description, c.required, c.satisfied, c.reasoning) for c in verdict.criteria] == [
        ("a", "Alpha", True, True, "alpha is there"),
        ("b", "Beta", True, False, "no beta"),
    ]
    assert (verdict.passed, [c.id for c in verdict.unmet], verdict.assessment) == (False, ["b"], "All in all.")


def test_required_criteria_decide_and_where_none_is_all_do() -> None:
    optional = [RubricCriterion("Alpha", id="a"), RubricCriterion("Beta", required=False, id="b")]
    assert read(all_of({"a": True, "b": False}), *optional).passed
    assert not read(all_of({"a": False, "b": True}), *optional).passed
    both = [RubricCriterion("Alpha", required=False, id="a"), RubricCriterion("Beta", required=False, id="b")]
    assert not read(all_of({"a": True, "b": False}), *both).passed
    assert read(GOOD, *both).passed


def test_a_verdict_is_a_value_and_one_on_no_criteria_is_passed() -> None:
    verdict = RubricVerdict()
    assert (verdict, verdict.passed) == (RubricVerdict((), ""), True)
    with pytest.raises(FrozenInstanceError):
        verdict.assessment = "Good."  # type: ignore[misc]


def test_what_the_judge_says_about_required_does_not_count() -> None:
    verdict = read(reply(said("a", True, required=False), said("b", False, required=False)))
    assert [c.required for c in verdict.criteria] == [True, True]
    assert not verdict.passed


@pytest.mark.parametrize("own_id", ["1", " 1 ", 1])
def test_an_id_may_come_as_a_number(own_id: Any) -> None:
    assert met(read(reply(said(own_id, True)), "Alpha")) == {"1": True}


@pytest.mark.parametrize(
    ("given", "echoed"),
    [
        ("cafe\u0301", "caf\u00e9"),
        ("caf\u00e9", "cafe\u0301"),
        ("a\0b", "a\ufffdb"),
        ("a\0b", "a\0b"),
        ("a\ud800", "a\ufffd"),
        ("\ud83d\ude00", "\U0001f600"),
    ],
)
def test_an_id_is_known_again_as_it_was_sent_or_written_another_way(given: str, echoed: str) -> None:
    criterion = RubricCriterion("Alpha", id=given)
    assert met(read(reply(said(echoed, True)), criterion)) == {criterion.id: True}
    (known,) = rubric_format([criterion.id or ""]).schema["properties"]["criteria"]["items"]["properties"]["id"]["enum"]
    assert known.encode().count(b"\0") == 0


@pytest.mark.parametrize("text", ["Alpha", " alpha\n", "ALPHA"])
@pytest.mark.parametrize("absent", [{}, {"id": None}])
def test_without_an_id_the_criterions_own_text_names_it(text: str, absent: Any) -> None:
    named = {"criterion": text, "satisfied": True, "reasoning": "because", **absent}
    assert met(read(reply(named, said("b", True)))) == AB


def test_a_text_that_several_criteria_share_names_them_all() -> None:
    named = {"criterion": "straße", "satisfied": False, "reasoning": "because"}
    verdict = read(reply(named, said("3", True)), "STRASSE", "Straße ", "other")
    assert met(verdict) == {"1": False, "2": False, "3": True}


def test_a_text_names_nothing_where_an_id_is_given() -> None:
    assert '"a"' in complaint(reply(said("z", True, criterion="Alpha"), said("b", True)))


@pytest.mark.parametrize("key", ["overall_assessment", "overallAssessment"])
def test_the_assessment_is_known_by_either_name(key: str) -> None:
    verdict = read(json.dumps({"criteria": [said("a", True), said("b", True)], key: " Good.\n"}))
    assert verdict.assessment == "Good."


def test_a_blank_assessment_does_not_hide_one_by_the_other_name() -> None:
    text = reply(said("a", True), said("b", True), overall_assessment=" \n", overallAssessment="Good.")
    assert read(text).assessment == "Good."


@pytest.mark.parametrize("echoed", ["a", " a ", "a\n"])
def test_space_round_an_id_does_not_matter_and_the_verdict_has_the_callers(echoed: str) -> None:
    assert met(read(reply(said(echoed, True)), RubricCriterion("Alpha", id=" a "))) == {" a ": True}


def test_an_id_is_asked_for_in_its_own_script() -> None:
    assert complaint(reply(), RubricCriterion("Alpha", id="\u00fcber")) == 'verdicts are missing on "\u00fcber"'


@pytest.mark.parametrize("value", [1, 1.0, "1", "true", True, 0, 0.0, "0", "false", False])
def test_a_verdict_is_a_bool_however_it_was_written(value: Any) -> None:
    assert type(read(reply(said("1", value)), "Alpha").criteria[0].satisfied) is bool


@pytest.mark.parametrize("order", [(None, "because"), ("because", None)])
def test_of_verdicts_that_agree_the_one_with_a_reasoning_gives_it(order: tuple[Any, ...]) -> None:
    verdict = read(reply(*[said("1", True, reasoning) for reasoning in order]), "Alpha", last=True)
    assert (verdict.criteria[0].satisfied, verdict.criteria[0].reasoning) == (True, "because")


@pytest.mark.parametrize("assessment", [None, 7, ["x"], ""])
def test_a_reply_without_an_assessment_is_complete(assessment: Any) -> None:
    assert read(reply(said("a", True), said("b", True), overall_assessment=assessment)).assessment == ""


@pytest.mark.parametrize(
    ("before", "after"),
    [("", ""), ("Sure!\n```json\n", "\n```\nDone {so far}."), ('An example: {"criteria": []}\n', "\n")],
)
def test_the_object_is_found_in_a_fence_in_prose_and_after_another_one(before: str, after: str) -> None:
    assert met(read(f"{before}{GOOD}{after}")) == AB


def test_of_two_objects_the_last_counts() -> None:
    assert met(read(f"{GOOD}\nOn second thought:\n{all_of({'a': True, 'b': False})}")) == {"a": True, "b": False}


SECOND = all_of({"a": False, "b": False})


@pytest.mark.parametrize(
    "broken",
    [
        *(SECOND[:length] for length in (1, 2, 20, len(SECOND) // 2, len(SECOND) - 1)),
        "{'criteria': [{'id': 'a', 'satisfied': False}]}",
        "{criteria: [{id: 'a', satisfied: false}]}",
        SECOND.replace('"satisfied": false', '"satisfied": NaN'),
        '{"criteria": [{"id": "a", "reasoning": "uses }} and }',
    ],
)
def test_a_broken_last_object_is_not_replaced_by_an_earlier_one(broken: str) -> None:
    assert "cut off or broken" in complaint(f"{GOOD}\nOn second thought:\n{broken}")


def test_text_that_cannot_be_sent_is_cleaned() -> None:
    verdict = read(
        '{"criteria": [{"id": "a", "reasoning": "bad \\ud83d\\u0000", "satisfied": true}, '
        '{"id": "b", "reasoning": "\\ud83d\\ude00", "satisfied": true}], "overall_assessment": "\\udc00"}'
    )
    assert [c.reasoning for c in verdict.criteria] == ["bad \ufffd\ufffd", "\U0001f600"]
    assert verdict.assessment == "\ufffd"


# --- true and false


@pytest.mark.parametrize("value", [True, "true", "True", " TRUE\n", 1, 1.0, "1", "1.0"])
def test_what_means_true_is_read_so(value: Any) -> None:
    assert met(read(reply(said("1", value)), "Alpha")) == {"1": True}


@pytest.mark.parametrize("value", [False, "false", "FALSE", 0, 0.0, "0", "0.00", -0.0])
def test_what_means_false_is_read_so(value: Any) -> None:
    assert met(read(reply(said("1", value)), "Alpha")) == {"1": False}


UNCLEAR = ["yes", "no", "", "y", "satisfied", "0.8", "1.", "1.0.0", "1_0", "\u0661", "true!"]


@pytest.mark.parametrize("value", [*UNCLEAR, 2, -1, 0.8, 1e-9, None, [], [True], {"a": 1}])
def test_anything_else_is_a_format_error_and_no_verdict(value: Any) -> None:
    text = reply(said("a", value), said("b", True))
    told = complaint(text)
    assert '"a": satisfied has to be true or false, not ' in told
    assert 'verdicts are missing on "a"; the other verdicts are kept' in told
    assert met(read(text, last=True)) == {"a": False, "b": True}


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "1" + "0" * 5000])
def test_a_number_that_json_does_not_have_or_nobody_can_read_is_no_verdict(number: str) -> None:
    text = reply(said("a", "?"), said("b", True)).replace('"?"', number)
    assert "verdicts are missing on" in complaint(text)


# --- what is missing


def test_a_criterion_without_a_verdict_is_asked_for_by_its_id() -> None:
    text = reply(said("b", True))
    assert complaint(text) == 'verdicts are missing on "a"; the other verdicts are kept'
    verdict = read(text, last=True)
    assert [(c.satisfied, c.reasoning) for c in verdict.criteria] == [(False, "no verdict"), (True, "because")]
    assert not verdict.passed


def test_where_every_verdict_is_missing_none_is_said_to_be_kept() -> None:
    assert complaint(reply()) == 'verdicts are missing on "a", "b"'


def test_without_a_satisfied_key_there_is_no_verdict() -> None:
    told = complaint(reply({"id": "a", "reasoning": "x"}, said("b", True)))
    assert '"a": satisfied has to be true or false, and is missing; verdicts are missing on "a"' in told


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "it is empty"),
        ("It is mostly fine.", "there is no JSON object in it"),
        ("[]", "a list under"),
        ("true", "a list under"),
        ('{"criteria": {"a": true}}', "a list under"),
        ('{"overall_assessment": "fine"}', "a list under"),
        ('{"criteria": [], "criteria": [{"id": "a"}]}', "a list under"),
        (reply(), "verdicts are missing"),
        (reply("a", 7, None), "criteria[0] has to be an object"),
        (reply(said("z", True), said(None, True), said(True, True), said(["a"], True)), "verdicts are missing"),
        (GOOD[:-60], "verdicts are missing"),
        ("[" * 5_000, "there is no JSON object in it"),
        ('{"criteria":' * 3_000, "cut off or broken"),
    ],
)
def test_a_reply_with_no_usable_verdict_is_none_the_last_time_either(text: str, found: str) -> None:
    told = complaint(text)
    assert found in told
    assert 'verdicts are missing on "a", "b"' in told
    assert "no clear verdict on any criterion" in complaint(text, last=True)


def test_a_complaint_stays_short() -> None:
    assert len(complaint(reply(*["junk"] * 10_000))) < 1000
    assert len(complaint(reply(said("a", "x" * 10_000)))) < 1000


def test_a_reply_of_another_form_is_told_the_form() -> None:
    told = 'it has to be a JSON object with a list under "criteria"; verdicts are missing on "1"'
    assert complaint("{}", "Alpha") == told


def test_of_many_faults_the_first_ten_are_told_and_of_a_long_value_its_beginning() -> None:
    told = complaint(reply(*["junk"] * 11))
    assert "criteria[9] has to be an object" in told
    assert "criteria[10]" not in told
    assert "criteria[9] has to be an object; it has no clear verdict" in complaint(reply(*["junk"] * 11), last=True)
    told = complaint(reply(said("a", "x" * 100), said("b", True)))
    assert f'not "{"x" * 59}; verdicts' in told


# --- contradictions


@pytest.mark.parametrize("order", [(True, False), (False, True), (True, "false"), (True, True, 0), (True, "perhaps")])
def test_verdicts_that_contradict_each_other_count_as_missing(order: tuple[Any, ...]) -> None:
    text = reply(*[said("a", satisfied) for satisfied in order], said("b", True))
    told = complaint(text)
    assert 'verdicts are missing on "a"' in told
    assert ('"a": its verdicts contradict each other' in told) == ("perhaps" not in order)
    assert met(read(text, last=True)) == {"a": False, "b": True}


def test_verdicts_that_agree_count_once() -> None:
    verdict = read(reply(said("a", True, "first"), said("b", True), said("a", "true", "again")))
    assert [c.reasoning for c in verdict.criteria] == ["first", "because"]


@pytest.mark.parametrize(("first", "second"), [("true", "false"), ("false", "true"), ("true", '"false"')])
def test_a_key_that_a_verdict_has_twice_contradicts_itself(first: str, second: str) -> None:
    doubled = f'{{"id": "a", "reasoning": "x", "satisfied": {first}, "satisfied": {second}}}'
    text = f'{{"criteria": [{doubled}, {json.dumps(said("b", True))}], "overall_assessment": ""}}'
    assert 'true or false, not "two different values"; verdicts are missing on "a"' in complaint(text)
    assert met(read(text, last=True)) == {"a": False, "b": True}


def test_a_key_twice_with_the_same_value_is_just_said_twice() -> None:
    assert met(read('{"criteria": [{"id": "1", "id": "1", "reasoning": "x", "satisfied": 1, "satisfied": true}]}', "A"))


def test_an_id_that_is_two_names_nothing() -> None:
    text = '{"criteria": [{"id": "a", "id": "b", "reasoning": "x", "satisfied": true}]}'
    assert 'missing on "a", "b"' in complaint(text)


@pytest.mark.parametrize("own_id", [True, 1.5, ["x"], {}])
def test_of_ids_that_are_no_text_only_whole_numbers_are_read(own_id: Any) -> None:
    text = reply(said(own_id, True))
    assert "verdicts are missing" in complaint(text, RubricCriterion("Alpha", id=str(own_id)))


def test_criteria_that_the_judge_makes_up_are_ignored() -> None:
    assert met(read(reply(said("a", True), said("b", True), said("c", False), said("gamma", "?")))) == AB


# --- the second reply


def second(first: str, again: str) -> RubricVerdict:
    asked = reader()
    with pytest.raises(Unusable):
        asked(first, last=False)
    return asked(again, last=True)


def test_the_verdicts_of_the_first_reply_are_kept() -> None:
    assert met(second(reply(said("a", True)), reply(said("b", True)))) == AB
    assert met(second(reply(said("a", True), said("b", "yes")), reply(said("b", False)))) == {"a": True, "b": False}
    assert met(second(reply(said("a", True)), "I have said it all.")) == {"a": True, "b": False}
    assert second(reply(said("a", True)), '{"criteria": []}').assessment == "All in all."


def test_a_contradiction_can_be_resolved() -> None:
    torn = reply(said("a", True), said("a", False), said("b", True))
    assert met(second(torn, reply(said("a", True)))) == AB
    assert met(second(torn, reply(said("a", False)))) == {"a": False, "b": True}


@pytest.mark.parametrize(("first", "again"), [(True, False), (False, True), (True, "hm")])
def test_a_kept_verdict_that_the_judge_takes_back_is_none(first: Any, again: Any) -> None:
    verdict = second(reply(said("a", first)), reply(said("a", again), said("b", True)))
    assert (verdict.criteria[0].satisfied, verdict.criteria[0].reasoning) == (False, "no verdict")


@pytest.mark.parametrize("reasoning", [None, 7, ["x"]])
def test_a_verdict_without_reasoning_is_asked_for_again_and_then_taken(reasoning: Any) -> None:
    bare = reply(said("a", True, reasoning), said("b", True))
    assert complaint(bare) == '"a": its reasoning is missing; the other verdicts are kept'
    assert met(second(bare, bare)) == AB
    assert met(second(bare, "no more")) == AB
    verdict = second(bare, reply(said("a", False, "on reflection, it is not there")))
    assert (verdict.criteria[0].satisfied, verdict.criteria[0].reasoning) == (False, "on reflection, it is not there")


def test_a_reader_starts_anew_with_each_first_reply() -> None:
    asked = reader()
    for first, missing in ((said("a", True), '"b"'), (said("b", True), '"a"')):
        with pytest.raises(Unusable, match=f"verdicts are missing on {missing}; the other verdicts are kept"):
            asked(reply(first), last=False)


def test_a_second_reply_helps_where_the_first_was_no_reply_at_all() -> None:
    assert met(second("Let me see.", GOOD)) == AB


# --- any text at all


@given(st.text() | st.builds(lambda a, b, c: f"{a}{GOOD[:b]}{c}", st.text(), st.integers(0, len(GOOD)), st.text()))
def test_any_text_is_a_verdict_or_unusable(text: str) -> None:
    for last in (False, True):
        try:
            verdict = read(text, last=last)
        except Unusable:
            continue
        assert met(verdict) == AB


@pytest.mark.parametrize("depth", range(900, 1100, 20))
@pytest.mark.parametrize("nested", ["[", '{"x":'])
def test_a_reply_that_is_nested_too_deeply_is_unusable(depth: int, nested: str) -> None:
    deep = nested * depth + "1" + ("]" if nested == "[" else "}") * depth
    try:
        verdict = read(f'{GOOD[:-1]}, "more": {deep}}}')
    except Unusable:
        return
    assert met(verdict) == AB


def test_the_form_asks_for_the_reasoning_before_the_decision() -> None:
    schema = rubric_format(["1", "2"]).schema
    entry = schema["properties"]["criteria"]["items"]
    assert list(entry["properties"]) == ["id", "reasoning", "satisfied"]
    assert entry["required"] == list(entry["properties"])
    assert schema["required"] == list(schema["properties"])
    assert entry["properties"]["id"]["enum"] == ["1", "2"]
    assert schema["properties"]["criteria"]["minItems"] == schema["properties"]["criteria"]["maxItems"] == 2


def test_the_form_is_one_that_providers_take_as_strict() -> None:
    form = rubric_format(["1"])
    assert form.name == "rubric_verdicts"
    assert form.schema["properties"]["overall_assessment"] == {"type": "string"}
    assert form.schema["properties"]["criteria"]["type"] == "array"
    entry = form.schema["properties"]["criteria"]["items"]
    for part in (form.schema, entry):
        assert (part["type"], part["additionalProperties"]) == ("object", False)
    types = {name: field["type"] for name, field in entry["properties"].items()}
    assert types == {"id": "string", "reasoning": "string", "satisfied": "boolean"}

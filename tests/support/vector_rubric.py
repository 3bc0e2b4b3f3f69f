"""Reads the vectors of the kinds ``rubric_parse`` and ``rubric_score``.

Recorded words are not compared but what they say: pass or fail, and for every criterion in order its text, whether it
is met and required, and why. For each vector two reckonings are made from ``given`` (``support.vector_rubric_rules``):
what our rules make of it, which has to agree with the recording, or else with a rule of ours; and what the recorded
program makes of it, which has to agree with the recording before anything departs from it.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from mastra_py.errors import ScorerRunError, UserError
from mastra_py.models.base import ModelRequest
from mastra_py.scorers import create_rubric_scorer, parse_rubric
from mastra_py.scoring import ScorerResult, ScorerRun
from mastra_py.testing import FunctionModel
from support.vector_filter import Origins, read_run
from support.vector_notation import read_value, refuse_unknown
from support.vector_replies import all_said_in_order, said, said_lines
from support.vector_retry import UnknownNotationError
from support.vector_rubric_rules import REFUSED, WHITE, Criterion, Ours, Theirs, our_criteria, their_criteria
from support.vector_scorer_given import Context
from support.vector_turns import scripted_model

__all__ = ["WHITE"]

Facts = dict[str, Any]

CRITERION = ("description", "required", "id")


# --- what happens


def _refuse_unknown_criteria(rubric: Any) -> None:
    for item in rubric if isinstance(rubric, list) else ():
        if isinstance(item, dict) and "$js" not in item:
            refuse_unknown("a criterion", item, CRITERION)


async def play_parse(given: dict[str, Any]) -> Facts:
    """Read a vector's rubric, alone and in a scorer whose judge is content with everything."""
    refuse_unknown("the vector", given, ("rubric",))
    _refuse_unknown_criteria(given["rubric"])
    judge = FunctionModel(content)
    try:
        rubric = read_value(given["rubric"])
        criteria = parse_rubric(rubric)
        result = await create_rubric_scorer(judge, rubric).run(output="an output")
    except UserError:
        return REFUSED
    assert [c.description for c in result.criteria] == [c.description for c in criteria]
    sent = criteria_in(judge.requests[0].messages[0].text) if judge.calls else []
    assert sent == [(c.description, c.required) for c in criteria]
    return {"criteria": sent, "judge_asked": judge.calls > 0}


def content(request: ModelRequest) -> str:
    """Judge as one who finds everything satisfied."""
    ids = [
        json.loads(own_id)
        for own_id in re.findall(r"^<criterion id=(.*) \w+>$", request.messages[0].text, re.MULTILINE)
    ]
    verdicts = [{"id": own_id, "reasoning": "fine", "satisfied": True} for own_id in ids]
    return json.dumps({"criteria": verdicts, "overall_assessment": "all fine"})


async def play_score(given: dict[str, Any]) -> Facts:
    """Run the rubric scorer of a vector and return what came of it."""
    refuse_unknown("the vector", given, ("criteria", "scale", "judge_turns", "run"))
    _refuse_unknown_criteria(given.get("criteria"))
    judge = scripted_model(given["judge_turns"])
    try:
        scorer = create_rubric_scorer(
            judge, read_value(given.get("criteria")), scale=read_value(given.get("scale", 1.0))
        )
        result = await scorer.run(build_run(given["run"]))
    except UserError:
        return REFUSED
    except ScorerRunError as exc:
        return {"error": "ScorerRunError", "failed_step": exc.failed_step, **_sent_facts(judge)}
    facts = read_reason(result)
    assert result.passed is facts["passed"]
    return {"score": result.score, **facts, **_sent_facts(judge)}


def _sent_facts(judge: FunctionModel) -> Facts:
    if not judge.calls:
        return {"judge_calls": 0}
    sent = read_prompt(judge.requests[0].messages[0].text)
    sent["criteria_sent"] = [(said(text), required) for text, required in sent["criteria_sent"]]
    return {"judge_calls": judge.calls, **sent}


def read_prompt(prompt: str) -> Facts:
    """Return what a judge was asked."""
    facts: Facts = {"criteria_sent": criteria_in(prompt)}
    for name in ("task", "output"):
        section = re.search(rf"\[{name} (\w+)\]\n(.*)\n\[end of {name} \1\]", prompt, re.DOTALL)
        facts[f"{name}_sent"] = (
            section[2] if section else {"task": "(no task provided)", "output": "(empty output)"}[name]
        )
    return facts


def criteria_in(prompt: str) -> list[Criterion]:
    found = re.findall(
        r"^<criterion id=[^\n]* (required|optional)>\n(.*?)\n</criterion>$", prompt, re.MULTILINE | re.DOTALL
    )
    return [(text, kind == "required") for kind, text in found]


def read_reason(result: ScorerResult) -> Facts:
    """Return what a reason of ours says: of the result's verdicts those that its words hold, in their order."""
    assert result.reason is not None
    if not result.criteria:
        return {"passed": result.reason.startswith("There is no rubric"), "verdicts": [], "assessment": ""}
    verdicts, pieces = [], []
    for c in result.criteria:
        state, kind = "met" if c.satisfied else "unmet", "required" if c.required else "optional"
        verdicts.append((said(c.description), c.satisfied, c.required, said(c.reasoning)))
        pieces.append([*said_lines(f"- [{state}, {kind}] {c.description}"), *said_lines(c.reasoning)])
    assessment = result.analyze.assessment
    pieces.append(said_lines(f"Overall: {assessment}") if assessment else [])
    lines = said_lines(result.reason)
    return {
        "passed": lines[0].startswith("The rubric is satisfied"),
        "verdicts": verdicts if all_said_in_order(lines[1:], pieces) else f"not all in the reason: {result.reason}",
        "assessment": said(assessment),
    }


def build_run(given: dict[str, Any]) -> ScorerRun[Any, Any]:
    known = ("input", "output", "request_context", "additional_context")
    refuse_unknown("the run", given, (*known, "request_context_type"))
    fields = {name: read_value(value) for name, value in given.items() if name in known}
    if isinstance(given.get("input"), dict) and "input_messages" not in given["input"]:
        fields["input"] = None
        run = replace(read_run(fields, Origins()), input=read_value(given["input"]))
    else:
        run = read_run(fields, Origins())
    match given.get("request_context_type"):
        case None:
            return run
        case "instance":
            return replace(run, request_context=Context(run.request_context or {}))
        case other:
            msg = f"unknown request_context_type {other!r}"
            raise UnknownNotationError(msg)


# --- what has to happen


def expected_parse(vector: dict[str, Any]) -> tuple[Facts, set[str]]:
    """Return what has to come of a vector, and the rules by which that differs from what was recorded."""
    rubric, recorded = vector["given"]["rubric"], vector["expect"]
    refuse_unknown("the record", recorded, ("criteria", "told_no_rubric"))
    criteria: list[Criterion] = [(c["text"], c["required"]) for c in recorded["criteria"]]
    assert criteria == their_criteria(rubric), (
        f"the reader's idea does not explain the record: {their_criteria(rubric)}"
    )
    assert recorded["told_no_rubric"] == (not criteria)
    ours, rules = our_criteria(rubric)
    if ours is None:
        return REFUSED, rules
    return {"criteria": ours, "judge_asked": bool(ours)}, rules if ours else rules | {"D2"}


def expected_score(vector: dict[str, Any]) -> tuple[Facts, set[str]]:
    """Return what has to come of a vector, and the rules by which that differs from what was recorded."""
    recorded = _recorded_score(vector["expect"])
    ours = Ours(vector["given"])
    facts = ours.facts()
    if not ours.rules or all(facts.get(name) == value for name, value in recorded.items()):
        return {**facts, **recorded}, set()
    theirs = Theirs(vector["given"]).facts()
    explained = {name: theirs.get(name) for name in recorded}
    assert explained == recorded, f"the reader's idea does not explain the record: {explained}"
    return facts, ours.rules


def reckon_score(given: dict[str, Any]) -> tuple[Facts, set[str]]:
    """Return what our rules make of a rubric scorer's run, and those of them that make a difference."""
    ours = Ours(given)
    return ours.facts(), ours.rules


def _recorded_score(recorded: dict[str, Any]) -> Facts:
    known = ("score", "reason", "error", "judge_calls", "criteria_sent", "told_no_rubric", "task_sent", "output_sent")
    refuse_unknown("the record", recorded, known)
    facts = {key: recorded[key] for key in ("judge_calls", "task_sent", "output_sent") if key in recorded}
    facts["criteria_sent"] = [(said(c["text"]), c["required"]) for c in recorded["criteria_sent"]]
    assert recorded["told_no_rubric"] == (not facts["criteria_sent"])
    if "error" in recorded:
        return {**facts, "error": "ScorerRunError", "failed_step": recorded["error"]["failed_step"]}
    return {**facts, "score": read_value(recorded["score"]), **recorded_reason(recorded["reason"])}


_VERDICT = re.compile(r"^(✅|❌) \[(required|optional)\] ", re.MULTILINE)


def recorded_reason(reason: str) -> Facts:
    """Return what a recorded reason says."""
    if reason.startswith("No rubric was provided"):
        return {"passed": True, "verdicts": [], "assessment": ""}
    header, _, rest = reason.partition("\n\n")
    passed = header.startswith("✅")
    if not passed:
        rest = rest.rpartition("\n\n")[0]
    _, *found = _VERDICT.split(rest)
    verdicts, assessment = [], ""
    for mark, kind, body in zip(found[::3], found[1::3], found[2::3], strict=True):
        text, _, why = body.partition("\n   → ")
        why, _, assessment = why.partition("\n\n")
        verdicts.append((said(text), mark == "✅", kind == "required", said(why)))
    return {"passed": passed, "verdicts": verdicts, "assessment": said(assessment)}

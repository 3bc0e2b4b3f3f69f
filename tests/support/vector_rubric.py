"""Reads the vectors of the kinds ``rubric_parse`` and ``rubric_score``.

Recorded words are not compared but what they say: pass or fail, and for every criterion in order its text, whether it
is met and required, and why. For each vector two reckonings are made from ``given``: what the recorded program makes of
it, which has to agree with the recording, and what our rules make of it, which has to agree with it as well unless a
rule of ours applies.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from mastra_py.errors import ScorerRunError, UserError
from mastra_py.models.base import ModelRequest
from mastra_py.scorers import create_rubric_scorer, parse_rubric
from mastra_py.scoring import ScorerRun
from mastra_py.testing import FunctionModel, ScriptedModel, Turn
from support.vector_filter import Origins, read_run
from support.vector_notation import read_value, refuse_unknown
from support.vector_retry import UnknownNotationError, build_error
from support.vector_scorer import Context

Facts = dict[str, Any]

Criterion: TypeAlias = tuple[str, bool]
"""Its text, and whether it is required."""

WHITE = "\t\n\v\f\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
REFUSED: Facts = {"error": "UserError"}


# --- what happens


async def play_parse(given: dict[str, Any]) -> Facts:
    """Read a vector's rubric, alone and in a scorer whose judge is content with everything."""
    refuse_unknown("the vector", given, ("rubric",))
    judge = FunctionModel(content)
    try:
        criteria = parse_rubric(given["rubric"])
        result = await create_rubric_scorer(judge, given["rubric"]).run(output="an output")
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
    judge = ScriptedModel([build_turn(turn) for turn in given["judge_turns"]], repeat_last=True)
    try:
        scorer = create_rubric_scorer(judge, read_value(given.get("criteria")), scale=given.get("scale", 1.0))
        result = await scorer.run(build_run(given["run"]))
    except UserError:
        return REFUSED
    except ScorerRunError as exc:
        return {"error": "ScorerRunError", "failed_step": exc.failed_step, **_sent_facts(judge)}
    assert result.passed is read_reason(result.reason)["passed"]
    return {"score": result.score, **read_reason(result.reason), **_sent_facts(judge)}


def _sent_facts(judge: ScriptedModel) -> Facts:
    if not judge.calls:
        return {"judge_calls": 0}
    return {"judge_calls": judge.calls, **read_prompt(judge.requests[0].messages[0].text)}


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


def read_reason(reason: str | None) -> Facts:
    """Return what a reason of ours says."""
    assert reason is not None
    if reason.startswith("There is no rubric"):
        return {"passed": True, "verdicts": [], "assessment": ""}
    header, listed, *rest = reason.split("\n\n")
    found = re.findall(r"^- \[(met|unmet), (required|optional)\] (.*)(?:\n  (.*))?$", listed, re.MULTILINE)
    passed = header.startswith("The rubric is satisfied")
    if not passed:
        rest.pop()
    return {
        "passed": passed,
        "verdicts": [(text, state == "met", kind == "required", why) for state, kind, text, why in found],
        "assessment": rest[0].removeprefix("Overall: ") if rest else "",
    }


def build_turn(spec: dict[str, Any]) -> Turn:
    """Return a recorded judge's turn; its reply is sent unchanged, with the keys it had on the way."""
    refuse_unknown("a judge's turn", spec, ("text", "json", "wrap", "error"))
    if "error" in spec:
        return Turn(error=build_error(spec["error"]))
    if "json" not in spec:
        return Turn(text=spec["text"])
    before, after = spec.get("wrap", ("", ""))
    return Turn(text=f"{before}{json.dumps(_camel_case(spec['json']))}{after}")


def _camel_case(value: Any) -> Any:
    if isinstance(value, list):
        return [_camel_case(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {re.sub(r"_([a-z])", lambda m: m[1].upper(), key): _camel_case(item) for key, item in value.items()}


def build_run(given: dict[str, Any]) -> ScorerRun[Any, Any]:
    known = ("input", "output", "request_context", "additional_context")
    refuse_unknown("the run", given, (*known, "request_context_type"))
    fields = {name: value for name, value in given.items() if name in known}
    if isinstance(given.get("input"), dict) and "input_messages" not in given["input"]:
        fields["input"] = None
        run = replace(read_run(fields, Origins()), input=read_value(given["input"]))
    else:
        run = read_run(fields, Origins())
    match given.get("request_context_type"):
        case None:
            return run
        case "instance":
            return replace(run, request_context=Context(run.request_context))
        case other:
            msg = f"unknown request_context_type {other!r}"
            raise UnknownNotationError(msg)


# --- what has to happen: reading a rubric


def expected_parse(vector: dict[str, Any]) -> tuple[Facts, set[str]]:
    """Return what has to come of a vector, and the rules by which that differs from what was recorded."""
    rubric, recorded = vector["given"]["rubric"], vector["expect"]
    refuse_unknown("the record", recorded, ("criteria", "told_no_rubric"))
    criteria = [(c["text"], c["required"]) for c in recorded["criteria"]]
    assert criteria == their_criteria(rubric)
    assert recorded["told_no_rubric"] == (not criteria)
    ours, rules = our_criteria(rubric)
    if ours is None:
        return REFUSED, rules
    return {"criteria": ours, "judge_asked": bool(ours)}, rules if ours else rules | {"D2"}


def their_criteria(rubric: Any) -> list[Criterion]:
    if isinstance(rubric, str):
        lines = [re.sub(rf"^[{WHITE}]*([-*•]|[0-9]+[.)])[{WHITE}]*", "", line) for line in rubric.split("\n")]
        return [(text, True) for line in lines if (text := _trimmed(line))]
    items = [item if isinstance(item, dict) else {"description": "undefined"} for item in rubric]
    return [(item["description"], item.get("required") is not False) for item in items]


def our_criteria(rubric: Any) -> tuple[list[Criterion] | None, set[str]]:
    """Return the criteria as our rules have them, ``None`` where the rubric is refused, and the rules that matter."""
    theirs = their_criteria(rubric)
    if isinstance(rubric, str):
        ours = [(text, True) for line in rubric.split("\n") if (text := _our_line(line))]
        return ours, set() if ours == theirs else {"D22"}
    dicts = [item if isinstance(item, dict) else {"description": item} for item in rubric]
    if not all(_trimmed(item["description"]) and isinstance(item.get("required"), bool | None) for item in dicts):
        return None, {"D24"}
    ours = [(item["description"], item.get("required") is not False) for item in dicts]
    return ours, set() if ours == theirs else {"D24"}


def _our_line(line: str) -> str:
    bare = _trimmed(line)
    for marker in (rf"([-*•]|[0-9]+[.)])([{WHITE}]+|\Z)", rf"\[[ xX]\]([{WHITE}]+|\Z)"):
        rest = re.sub(rf"\A{marker}", "", bare)
        if rest == bare:
            break
        bare = rest
    return bare


def _trimmed(text: str) -> str:
    return re.sub(rf"\A[{WHITE}]+|[{WHITE}]+\Z", "", text)


# --- what has to happen: grading


def expected_score(vector: dict[str, Any]) -> tuple[Facts, set[str]]:
    """Return what has to come of a vector, and the rules by which that differs from what was recorded."""
    recorded = _recorded_score(vector["expect"])
    theirs = _Theirs(vector["given"]).facts()
    assert {key: theirs[key] for key in recorded} == recorded, "the reader's idea does not explain the recording"
    ours = _Ours(vector["given"])
    facts = ours.facts()
    if not ours.rules:
        assert {key: facts[key] for key in recorded} == recorded
    return facts, ours.rules


def reckon_score(given: dict[str, Any]) -> tuple[Facts, set[str]]:
    """Return what our rules make of a rubric scorer's run, and those of them that make a difference."""
    ours = _Ours(given)
    return ours.facts(), ours.rules


def _recorded_score(recorded: dict[str, Any]) -> Facts:
    known = ("score", "reason", "error", "judge_calls", "criteria_sent", "told_no_rubric", "task_sent", "output_sent")
    refuse_unknown("the record", recorded, known)
    facts = {key: recorded[key] for key in ("judge_calls", "task_sent", "output_sent") if key in recorded}
    facts["criteria_sent"] = [(c["text"], c["required"]) for c in recorded["criteria_sent"]]
    assert recorded["told_no_rubric"] == (not facts["criteria_sent"])
    if "error" in recorded:
        return {**facts, "error": "ScorerRunError", "failed_step": recorded["error"]["failed_step"]}
    return {**facts, "score": recorded["score"], **recorded_reason(recorded["reason"])}


def recorded_reason(reason: str) -> Facts:
    """Return what a recorded reason says."""
    if reason.startswith("No rubric was provided"):
        return {"passed": True, "verdicts": [], "assessment": ""}
    header, listed, *rest = reason.split("\n\n")
    found = re.findall(r"^(✅|❌) \[(required|optional)\] (.*)\n {3}→ (.*)$", listed, re.MULTILINE)
    passed = header.startswith("✅")
    if not passed:
        rest.pop()
    return {
        "passed": passed,
        "verdicts": [(text, mark == "✅", kind == "required", why) for mark, kind, text, why in found],
        "assessment": rest[0] if rest else "",
    }


@dataclass
class _Reckoning:
    given: dict[str, Any]
    rules: set[str] = field(default_factory=set)

    @property
    def scale(self) -> float:
        return self.given.get("scale", 1)

    def sources(self) -> list[Any]:
        """Return what stands under ``rubric`` where a run may bring one along."""
        run = self.given["run"]
        places = [run.get(name) for name in ("request_context", "additional_context", "input")]
        return [place["rubric"] if isinstance(place, dict) and "rubric" in place else None for place in places]

    def reply(self, number: int) -> dict[str, Any] | None:
        """Return the object in the judge's reply of that number, ``None`` where there is none."""
        turns = self.given["judge_turns"]
        turn = turns[min(number, len(turns) - 1)]
        if "json" in turn:
            return turn["json"]
        try:
            value = json.loads(turn["text"])
        except ValueError:
            return None
        return value if isinstance(value, dict) else None

    def sent(self) -> Facts:
        run = self.given["run"]
        given, output = run.get("input"), run.get("output")
        task = given.get("original_task") if isinstance(given, dict) else None
        if isinstance(given, dict) and "input_messages" in given:
            task = [m["content"]["content"] for m in given["input_messages"] if m["role"] == "user"][-1]
        if isinstance(output, list):
            output = [m["content"]["content"] for m in output if m["role"] == "assistant"][-1]
        if not output and isinstance(given, dict):
            output = given.get("current_text")
        return {"task_sent": task or "(no task provided)", "output_sent": output or "(empty output)"}


class _Theirs(_Reckoning):
    """What the recorded program makes of a vector's ``given``."""

    def facts(self) -> Facts:
        criteria = their_criteria(self.given["criteria"]) if "criteria" in self.given else []
        if not criteria:
            found = next((s for s in self.sources() if isinstance(s, str | list)), [])
            criteria = their_criteria(found)
        sent = {"criteria_sent": criteria, **self.sent()}
        for number in (0, 1):
            reply = self.reply(number)
            if reply is not None and well_formed(reply):
                return {**sent, "judge_calls": number + 1, **self._graded(reply)}
        return {**sent, "judge_calls": 2, "error": "ScorerRunError", "failed_step": "analyze"}

    def _graded(self, reply: dict[str, Any]) -> Facts:
        verdicts = [(c["criterion"], c["satisfied"], c["required"], c["reasoning"]) for c in reply["criteria"]]
        if not verdicts:
            return {"score": 1, "passed": True, "verdicts": [], "assessment": ""}
        gating = [v for v in verdicts if v[2]] or verdicts
        score = self.scale if all(v[1] for v in gating) else 0
        return {
            "score": score, "passed": score >= 1, "verdicts": verdicts, "assessment": reply["overall_assessment"],
        }  # fmt: skip


def well_formed(reply: Mapping[str, Any]) -> bool:
    """Tell whether a reply has the recorded program's form to the letter."""
    types: Mapping[str, type] = {"criterion": str, "satisfied": bool, "required": bool, "reasoning": str}
    entries = reply.get("criteria")
    return (
        isinstance(reply.get("overall_assessment"), str)
        and isinstance(entries, list)
        and all(isinstance(e, dict) and all(isinstance(e.get(k), t) for k, t in types.items()) for e in entries)
    )


class _Ours(_Reckoning):
    """What our rules make of it."""

    def facts(self) -> Facts:
        if not 0 < self.scale < math.inf:
            self.rules = {"D37"}
            return REFUSED
        criteria = self._criteria()
        if criteria is None:
            return REFUSED
        if not criteria:
            self.rules.add("D2")
            return {"score": 1, "passed": True, "verdicts": [], "assessment": "", "judge_calls": 0}
        found, assessment, calls = self._asked(criteria)
        sent = {"criteria_sent": criteria, "judge_calls": calls, **self.sent()}
        if not any(found):
            return {**sent, "error": "ScorerRunError", "failed_step": "analyze"}
        verdicts = [
            (text, told is not None and told[0], required, "no verdict" if told is None else told[1])
            for (text, required), told in zip(criteria, found, strict=True)
        ]
        gating = [v for v in verdicts if v[2]] or verdicts
        passed = all(v[1] for v in gating)
        score = self.scale if passed else 0
        if passed != (score >= 1):
            self.rules.add("D23")
        return {**sent, "score": score, "passed": passed, "verdicts": verdicts, "assessment": assessment}

    def _criteria(self) -> list[Criterion] | None:
        own = self._read(self.given.get("criteria", ""))
        if own or own is None:
            return own
        return self._read(next((source for source in self.sources() if source is not None), ""))

    def _read(self, rubric: Any) -> list[Criterion] | None:
        criteria, rules = our_criteria(rubric) if isinstance(rubric, str | list) else (None, {"D24"})
        self.rules |= rules
        return criteria

    def _asked(self, criteria: list[Criterion]) -> tuple[list[tuple[bool, str] | None], str, int]:
        """Return what the judge says about each criterion, its assessment, and how often it was asked."""
        found: list[tuple[bool, str] | None] = [None] * len(criteria)
        assessment = ""
        for number in (0, 1):
            reply = self.reply(number)
            if reply is None:
                continue
            assessment = reply.get("overall_assessment", assessment)
            entries = reply["criteria"]
            self._echoes(entries, criteria)
            for index, (text, _) in enumerate(criteria):
                about = [e for e in entries if e["criterion"].strip().casefold() == text.strip().casefold()]
                assert len({e["satisfied"] for e in about}) < 2, "contradictions have tests of their own"
                if about and found[index] is None:
                    found[index] = (about[0]["satisfied"], about[0]["reasoning"])
            if all(found):
                return found, assessment, number + 1
        if any(well_formed(r) for n in (0, 1) if (r := self.reply(n)) is not None):
            self.rules.add("D1")  # what is missing is asked for, and then unmet
        return found, assessment, 2

    def _echoes(self, entries: list[dict[str, Any]], criteria: list[Criterion]) -> None:
        """D1: the judge's own list, and its idea of what is required, do not count."""
        if [(e["criterion"], e["required"]) for e in entries] != criteria:
            self.rules.add("D1")

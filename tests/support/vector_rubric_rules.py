"""What has to come of a rubric and of a judge's replies on it: reckoned from ``given``, by our rules and by theirs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from support.vector_notation import read_value
from support.vector_replies import OneOf, is_whole, our_object, said, their_object
from support.vector_turns import text_of

Facts = dict[str, Any]

Criterion: TypeAlias = tuple[str, bool]
"""Its text, and whether it is required."""

WHITE = "\t\n\v\f\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
REFUSED: Facts = {"error": "UserError"}


# --- reading a rubric


def their_criteria(rubric: Any) -> list[Criterion]:
    if isinstance(rubric, str):
        lines = [re.sub(rf"^[{WHITE}]*([-*•]|[0-9]+[.)])[{WHITE}]*", "", line) for line in rubric.split("\n")]
        return [(text, True) for line in lines if (text := _trimmed(line))]
    if not isinstance(rubric, list):
        return []
    items = [item if isinstance(item, dict) else {} for item in rubric]
    return [(item.get("description", "undefined"), item.get("required") is not False) for item in items]


def our_criteria(rubric: Any) -> tuple[list[Criterion] | None, set[str]]:
    """Return the criteria as our rules have them, ``None`` where the rubric is refused, and the rules that matter."""
    if not isinstance(rubric, str | list):
        return None, {"D24"}
    theirs = their_criteria(rubric)
    if isinstance(rubric, str):
        ours = [(text, True) for line in rubric.split("\n") if (text := _our_line(line))]
        return ours, set() if ours == theirs else {"D22"}
    dicts = [item if isinstance(item, dict) else {"description": item} for item in read_value(rubric)]
    ids = [item["id"] for item in dicts if item.get("id") is not None]
    if len(set(ids)) < len(ids) or not all(map(_is_criterion, dicts)):
        return None, {"D24"}
    ours = [(item["description"], item.get("required") is not False) for item in dicts]
    return ours, set() if ours == theirs else {"D24"}


def _is_criterion(item: Facts) -> bool:
    text, own_id = item.get("description"), item.get("id", "an id")
    return (
        isinstance(text, str)
        and bool(_trimmed(text))
        and isinstance(item.get("required"), bool | None)
        and (own_id is None or (isinstance(own_id, str) and bool(own_id.strip())))
    )


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


# --- grading


@dataclass
class _Reckoning:
    given: Facts
    rules: set[str] = field(default_factory=set)

    @property
    def scale(self) -> float:
        return read_value(self.given.get("scale", 1))

    def sources(self) -> list[Any]:
        """Return what stands under ``rubric`` where a run may bring one along."""
        run = read_value(self.given["run"])
        places = [run.get(name) for name in ("request_context", "additional_context", "input")]
        return [place["rubric"] if isinstance(place, dict) and "rubric" in place else None for place in places]

    def turn(self, number: int) -> Facts:
        """Return the judge's reply of that number."""
        turns = self.given["judge_turns"]
        return turns[min(number, len(turns) - 1)]

    def sent(self) -> Facts:
        run = self.given["run"]
        given, output = run.get("input"), run.get("output")
        task: Any = given.get("original_task") if isinstance(given, dict) else None
        current = given.get("current_text") if isinstance(given, dict) else None
        if not task and isinstance(given, dict):
            task = self._task([*filter(None, map(_text_in, _of_role(given.get("input_messages"), "user")))])
        if isinstance(output, list):
            output = next(filter(None, map(_text_in, _of_role(output, "assistant")[::-1])), None)
        return {"task_sent": task or "(no task provided)", "output_sent": output or current or "(empty output)"}

    def _task(self, user_texts: list[str]) -> Any:
        """D29: that of the last user message; which one theirs takes is not known."""
        raise NotImplementedError


def _of_role(messages: Any, role: str) -> list[Facts]:
    return [m for m in messages or () if m["role"] == role]


def _text_in(message: Facts) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    if "parts" not in content:
        return content.get("content", "")
    return "".join(part.get("text", "") for part in content["parts"] if part["type"] == "text")


class Theirs(_Reckoning):
    """What the recorded program makes of a vector's ``given``."""

    def facts(self) -> Facts:
        criteria = their_criteria(self.given.get("criteria", []))
        if not criteria:
            found = next((s for s in self.sources() if isinstance(s, str | list)), [])
            criteria = their_criteria(found)
        sent = {"criteria_sent": [(said(text), required) for text, required in criteria], **self.sent()}
        for number in (0, 1):
            turn = self.turn(number)
            if "error" in turn:
                return {**sent, "judge_calls": number + 1, "error": "ScorerRunError", "failed_step": "analyze"}
            reply = their_object(text_of(turn))
            if reply is not None and well_formed(reply):
                return {**sent, "judge_calls": number + 1, **self._graded(reply)}
        return {**sent, "judge_calls": 2, "error": "ScorerRunError", "failed_step": "analyze"}

    def _task(self, user_texts: list[str]) -> Any:
        return (
            OneOf(*user_texts, "\n".join(user_texts), " ".join(user_texts)) if user_texts[1:] else "".join(user_texts)
        )

    def _graded(self, reply: Facts) -> Facts:
        verdicts = [
            (said(c["criterion"]), c["satisfied"], c["required"], said(c["reasoning"])) for c in reply["criteria"]
        ]
        if not verdicts:
            return {"score": 1, "passed": True, "verdicts": [], "assessment": ""}
        gating = [v for v in verdicts if v[2]] or verdicts
        score = self.scale if all(v[1] for v in gating) else 0
        return {
            "score": score, "passed": score >= 1, "verdicts": verdicts, "assessment": said(reply["overallAssessment"]),
        }  # fmt: skip


def well_formed(reply: Mapping[str, Any]) -> bool:
    """Tell whether a reply has the recorded program's form to the letter."""
    types: Mapping[str, type] = {"criterion": str, "satisfied": bool, "required": bool, "reasoning": str}
    entries = reply.get("criteria")
    return (
        isinstance(reply.get("overallAssessment"), str)
        and isinstance(entries, list)
        and all(isinstance(e, dict) and all(isinstance(e.get(k), t) for k, t in types.items()) for e in entries)
    )


@dataclass
class _Finding:
    satisfied: bool
    reasoning: str | None


class Ours(_Reckoning):
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
        told = [(said(text), required) for text, required in criteria]
        sent = {"criteria_sent": told, "judge_calls": calls, **self.sent()}
        if not any(found):
            return {**sent, "error": "ScorerRunError", "failed_step": "analyze"}
        verdicts = [
            (text, one is not None and one.satisfied, required, "no verdict" if one is None else said(one.reasoning))
            for (text, required), one in zip(told, found, strict=True)
        ]
        gating = [v for v in verdicts if v[2]] or verdicts
        passed = all(v[1] for v in gating)
        score = self.scale if passed else 0
        if passed != (score >= 1):
            self.rules.add("D23")
        return {**sent, "score": score, "passed": passed, "verdicts": verdicts, "assessment": said(assessment)}

    def _task(self, user_texts: list[str]) -> Any:
        if user_texts[1:]:
            self.rules.add("D29")
        return "".join(user_texts[-1:])

    def _criteria(self) -> list[Criterion] | None:
        own = self._read(read_value(self.given.get("criteria", "")))
        if own or own is None:
            return own
        return self._read(next((source for source in self.sources() if source is not None), ""))

    def _read(self, rubric: Any) -> list[Criterion] | None:
        criteria, rules = our_criteria("" if rubric is None else rubric)
        self.rules |= rules
        return criteria

    def _asked(self, criteria: list[Criterion]) -> tuple[list[_Finding | None], str, int]:
        """Return what the judge says about each criterion, its assessment, and how often it was asked."""
        found: list[_Finding | None] = [None] * len(criteria)
        assessment = ""
        for number in (0, 1):
            turn = self.turn(number)
            if "error" in turn:
                return [], "", number + 1
            reply = self._reply(turn)
            if reply is None:
                continue
            assessment = next(filter(None, map(reply.get, ("overallAssessment", "overall_assessment"))), assessment)
            if (
                not well_formed(reply)
                or [(e["criterion"], e["required"]) for e in reply["criteria"]] != criteria
                or len({text.strip().casefold() for text, _ in criteria}) < len(criteria)
            ):
                self.rules.add("D1")  # the judge's own list, and its idea of what is required, do not count
            is_clear = self._take(reply["criteria"], criteria, found)
            if all(found) and (is_clear or number):
                return found, assessment, number + 1
        return found, assessment, 2

    def _reply(self, turn: Facts) -> Facts | None:
        text = text_of(turn)
        if not is_whole(turn):
            self.rules |= {"D4"} if their_object(text) else set()
            return None
        reply = our_object(text)
        if reply != their_object(text):
            self.rules.add("D38")
        return reply if reply is not None and isinstance(reply.get("criteria"), list) else None

    def _take(self, entries: list[Any], criteria: list[Criterion], found: list[_Finding | None]) -> bool:
        """Take in a reply's verdicts and return whether all of them are clear."""
        is_clear = all(isinstance(entry, dict) for entry in entries)
        for index, (text, _) in enumerate(criteria):
            about = [e for e in entries if isinstance(e, dict) and self._is_about(e, index, text)]
            read = [self._finding(entry) for entry in about]
            if not read:
                continue
            finding = _agreed(read)
            is_clear = is_clear and finding is not None and all(f and f.reasoning is not None for f in read)
            had = found[index]
            if had is None:
                found[index] = finding
            elif had.reasoning is None:
                found[index] = _agreed([had, finding])
        return is_clear

    def _is_about(self, entry: Facts, index: int, text: str) -> bool:
        if entry.get("id") is not None:
            own = read_value(self.given.get("criteria"))
            own_id = own[index].get("id") if isinstance(own, list) and isinstance(own[index], dict) else None
            return str(entry["id"]).strip() == (own_id or str(index + 1))
        named = entry.get("criterion")
        return isinstance(named, str) and named.strip().casefold() == text.strip().casefold()

    def _finding(self, entry: Facts) -> _Finding | None:
        satisfied, reasoning = entry.get("satisfied"), entry.get("reasoning")
        if not isinstance(satisfied, bool):
            satisfied = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}.get(
                str(satisfied).strip().lower()
            )
            self.rules |= {"D38"} if satisfied is not None else set()
        return None if satisfied is None else _Finding(satisfied, reasoning if isinstance(reasoning, str) else None)


def _agreed(findings: list[_Finding | None]) -> _Finding | None:
    """Return what several verdicts on a criterion say; contradictory ones count as missing."""
    clear = [f for f in findings if f is not None]
    if len(clear) < len(findings) or len({f.satisfied for f in clear}) != 1:
        return None
    return next((f for f in clear if f.reasoning is not None), clear[0])


def gate_lines(verdicts: list[tuple[str, bool, bool, str]]) -> Iterator[str]:
    """Yield the lines that feedback has to hold of what is unmet."""
    for text, met, _, why in verdicts:
        yield from [] if met else [line for part in (text, why) for line in said(part).splitlines()]

"""Reckons what a completion check comes to, from the scorers of a vector, the draft and our rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from support.vector_forms import ERRORED, reason_lines
from support.vector_notation import read_value
from support.vector_replies import OneOf
from support.vector_rubric import reckon_score
from support.vector_rubric_rules import gate_lines

Facts = dict[str, Any]


@dataclass(slots=True)
class Answer:
    """What one scorer says about a draft, after ``seconds``; ``lines`` are what feedback has to hold of it."""

    scorer_id: str
    name: str
    status: str
    seconds: float = 0.0
    score: Any = None
    reason: Any = None
    lines: list[str] = field(default_factory=list)

    def form(self) -> Facts:
        form: Facts = {"scorer_id": self.scorer_id, "scorer_name": self.name, "status": self.status}
        return form | {"score": self.score, "reason": self.reason} if self.status in {"passed", "failed"} else form


@dataclass(slots=True)
class Check:
    """What the scorers of a check came to; those of ``tied`` may as well be listed as cancelled."""

    answers: list[Answer]
    seconds: float
    timed_out: bool
    any: bool = False
    tied: list[Answer] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        statuses = {a.status for a in self.answers}
        return "passed" in statuses and (self.any or statuses == {"passed"})

    def with_status(self, status: str) -> list[Answer]:
        return [a for a in self.answers if a.status == status]

    @property
    def reason(self) -> Any:
        if self.passed:
            passed = self.with_status("passed")
            return OneOf(*[a.reason for a in passed]) if any(a in self.tied for a in passed) else passed[0].reason
        failed = self.with_status("failed")
        return failed[0].reason if failed else ERRORED

    @property
    def departs_by_d9(self) -> bool:
        """Whether theirs may give the reason of a scorer that did not fail."""
        others = self.with_status("failed")[:1] not in ([], self.answers[:1])
        return not self.passed and (bool(self.with_status("passed")) or others)

    def results(self) -> list[Any]:
        return [self._result(a) for a in self.answers]

    def _result(self, answer: Answer) -> Any:
        if answer not in self.tied:
            return answer.form()
        return OneOf(answer.form(), Answer(answer.scorer_id, answer.name, "cancelled").form())


class Scorers:
    """The scorers of a vector, each at its place in its script. ``claim(rules, fields)`` notes what departs."""

    def __init__(self, given: Facts, claim: Callable[..., None]) -> None:
        self.given = given
        self.claim = claim
        self.specs = given.get("scorers", [])
        self._counts = [0] * len(self.specs)
        self._maybe: dict[int, int] = {}
        self._contexts: dict[str, list[Facts]] = {s["id"]: [] for s in self.specs if "script" in s}
        self._sent: dict[str, list[Facts]] = {s["id"]: [] for s in self.specs if "judge_turns" in s}

    def facts(self) -> Facts:
        """Return what the scorers were called with so far."""
        counts = [OneOf(*range(self._maybe.get(i, n), n + 1)) for i, n in enumerate(self._counts)]
        least = {self.specs[i]["id"]: self._counts[i] - before for i, before in self._maybe.items()}
        return {
            "scorer_calls": {spec["id"]: count for spec, count in zip(self.specs, counts, strict=True)},
            "scorer_contexts": {id: _less(seen, least.get(id, 0)) for id, seen in self._contexts.items()},
            "sent_to_judge": {id: _less(sent, least.get(id, 0)) for id, sent in self._sent.items()},
        }

    def check(self, context: Facts, until: float) -> Check:
        """Run the scorers on a draft, as many of them as run; the run is cancelled after ``until`` seconds."""
        timeout = self.given.get("timeout_ms", 600_000) / 1000
        if not self.given.get("parallel", True):
            return self._one_after_another(context, timeout, until)
        before = list(self._counts)
        answers = [self._ask(index, context, min(timeout, until)) for index in range(len(self.specs))]
        within = [a.seconds for a in answers if a.status == "passed" and a.seconds <= timeout]
        if self._any and within:
            return self._first_pass(answers, min(within), before)
        timed_out = [a for a in answers if a.seconds > timeout]
        for answer in timed_out:
            answer.status = "errored"
        longest = max(a.seconds for a in answers)
        return Check(answers, min(longest, timeout), bool(timed_out), any=self._any)

    @property
    def _any(self) -> bool:
        return self.given.get("strategy") == "any"

    def _first_pass(self, answers: list[Answer], at: float, before: list[int]) -> Check:
        """D34: the first pass ends the check; what had come of the others by then is not fixed."""
        self.claim("D34", "checks", "on_complete", "scorer_calls", "scorer_contexts", "sent_to_judge")
        tied = [answer for answer in answers if answer.seconds == at]
        passed = [answer for answer in tied if answer.status == "passed"]
        if len(passed) == 1:
            tied.remove(passed[0])
        for index, answer in enumerate(answers):
            if answer.seconds > at:
                answer.status = "cancelled"
            if answer.seconds > at or answer in tied:
                self._maybe[index] = before[index]
        return Check(answers, at, timed_out=False, any=True, tied=tied)

    def _one_after_another(self, context: Facts, timeout: float, until: float) -> Check:
        answers: list[Answer] = []
        at = 0.0
        for index in range(len(self.specs)):
            answer = self._ask(index, context, min(timeout, until) - at)
            answers.append(answer)
            at += answer.seconds
            if at > timeout:
                answer.status = "errored"
                return Check(answers, timeout, timed_out=True, any=self._any)
            if (answer.status == "passed") == self._any or at > until:
                break
        return Check(answers, at, timed_out=False, any=self._any)

    def _ask(self, index: int, context: Facts, left: float) -> Answer:
        """Ask a scorer that is cancelled after ``left`` seconds."""
        spec = self.specs[index]
        if "judge_turns" in spec:
            return self._ask_judge(index, spec, context, left)
        entry = spec["script"][min(self._counts[index], len(spec["script"]) - 1)]
        self._counts[index] += 1
        if context["tool_calls"]:
            self.claim("D25", "scorer_contexts")
        self._contexts[spec["id"]].append(context)
        answer = Answer(spec["id"], spec.get("name", spec["id"]), "errored", entry.get("delay_ms", 0) / 1000)
        if "throws" in entry:
            return answer
        score = read_value(entry.get("score"))
        if not isinstance(score, int | float) or not math.isfinite(score):
            self.claim("D17")
            return answer
        if isinstance(score, bool):
            self.claim("D17")
        reason = entry.get("reason")
        answer.score, answer.reason = score, reason if isinstance(reason, str) else None
        answer.status = "passed" if score >= 1 else "failed"
        answer.lines = reason_lines(answer.reason)
        if score > 1:
            self.claim("D30")
        return answer

    def _ask_judge(self, index: int, spec: Facts, context: Facts, left: float) -> Answer:
        turns = spec["judge_turns"][self._counts[index] :] or spec["judge_turns"][-1:]
        answer = Answer(spec["id"], spec.get("name", "Rubric (LLM)"), "errored")
        seen = _until_error(turns)
        given: Facts = {"judge_turns": seen or [{"text": ""}]}
        given["run"] = {"input": {"original_task": context["task"]}, "output": context["output"]}
        given["run"]["request_context"] = self.given.get("request_context")
        if "rubric" in spec:
            given["criteria"] = spec["rubric"]
        facts, rules = reckon_score(given)
        calls = facts.get("judge_calls", 0)
        if calls > len(seen) and len(turns) > len(seen):  # the next one is the request that fails
            rules, facts, calls = set(), {**facts, "error": "ScorerRunError"}, len(seen) + 1
        if rules:
            self.claim("+".join(sorted(rules)))
        answer.seconds = _seconds(turns, calls)
        begun = sum(_seconds(turns, number) < left for number in range(calls))
        self._counts[index] += begun
        if calls:
            asked = {name: facts[name] for name in ("criteria_sent", "task_sent", "output_sent")}
            self._sent[spec["id"]] += [asked] * begun
        if "error" in facts:
            return answer
        answer.score = facts["score"]
        answer.reason = {name: facts[name] for name in ("passed", "verdicts", "assessment")}
        answer.status = "passed" if facts["passed"] else "failed"
        answer.lines = [*gate_lines(facts["verdicts"])]
        return answer


def _until_error(turns: Iterable[Facts]) -> list[Facts]:
    before: list[Facts] = []
    for turn in turns:
        if "error" in turn:
            break
        before.append(turn)
    return before


def _less(items: list[Facts], at_most: int) -> Any:
    return OneOf(*[items[: len(items) - n] for n in range(at_most + 1)]) if at_most else items


def _seconds(turns: list[Facts], count: int) -> float:
    """Return how long so many replies take."""
    return sum(turns[min(i, len(turns) - 1)].get("delay_ms", 0) for i in range(count)) / 1000

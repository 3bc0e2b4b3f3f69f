"""Reads the vectors of the kind ``retry`` and the level ``judge``: what two prompt steps make of failures.

:func:`play` runs a vector and :func:`expected` says what has to come of it. Where no rule of ours applies, that is what
was recorded, and the reckoning of :func:`expected` has to agree with the recording.
"""

from __future__ import annotations

from typing import Any

import anyio

from mastra_py import Judge, PromptStep, ScorerRunError, create_scorer
from mastra_py.models.base import ModelProfile
from mastra_py.scoring import JudgeRecord, ScorerResult
from mastra_py.testing import ScriptedModel
from support.vector_notation import refuse_unknown
from support.vector_turns import read_processor, read_turn, text_of

Facts = dict[str, Any]

VECTOR = ("level", "judge", "reason_step_judge", "judge_turns")
JUDGE = ("error_processors", "max_processor_retries", "model_settings_max_retries")
PROMPTS = {"generate_score": "SCORE PROMPT", "generate_reason": "REASON PROMPT for {score}"}
STATUS = {"ok": "success", "failed": "failed"}


async def play(given: Facts) -> Facts:
    """Run the scorer of a vector and return what came of it."""
    refuse_unknown("the vector", given, VECTOR)
    asked: list[tuple[str, int]] = []
    written: list[str] = []
    # Native, so that what is sent is the prompt and nothing else.
    model = ScriptedModel(
        [read_turn(turn) for turn in given["judge_turns"]], repeat_last=True, profile=ModelProfile(native_output=True)
    )

    def score_prompt(ctx: Any) -> str:
        written.append("generate_score")
        return PROMPTS["generate_score"]

    def reason_prompt(ctx: Any) -> str:
        written.append("generate_reason")
        return PROMPTS["generate_reason"].format(score=ctx.score)

    own = given.get("reason_step_judge")
    scorer = (
        create_scorer("s", judge=_judge(given.get("judge", {}), asked, model=model, instructions="You judge."))
        .generate_score(PromptStep(create_prompt=score_prompt))
        .generate_reason(PromptStep(create_prompt=reason_prompt, judge=None if own is None else _judge(own, asked)))
    )
    with anyio.fail_after(5):
        try:
            result = await scorer.run(output="the output")
            failure = result.error
        except ScorerRunError as exc:
            result, failure = exc.result, exc
    return {
        "outcome": _outcome(result, failure),
        "records": {step: _record(record) for step, record in result.judge.items()},
        "model_calls": model.calls,
        "prompts": [request.messages[0].text for request in model.requests],
        "written": written,
        "asked": asked,
    }


def _judge(spec: Facts, asked: list[tuple[str, int]], **fields: Any) -> Judge:
    refuse_unknown("the judge", spec, JUDGE)  # model_settings_max_retries is not played: one layer retries (D31)
    if "error_processors" in spec:
        fields["error_processors"] = [read_processor(each, asked) for each in spec["error_processors"]]
    return Judge(max_processor_retries=spec.get("max_processor_retries"), **fields)


def _outcome(result: ScorerResult, failure: Exception | None) -> Facts:
    facts: Facts = {"score": result.score, "reason": result.reason, "failed_step": None, "completed_steps": ()}
    if isinstance(failure, ScorerRunError):
        facts |= {"failed_step": failure.failed_step, "completed_steps": failure.completed_steps}
    return facts


def _record(record: JudgeRecord) -> tuple[str, int, int]:
    return STATUS[record.status], record.attempts, record.model_calls


# --- what has to happen


def expected(vector: Facts) -> tuple[Facts, set[str]]:
    """Return what has to come of a vector, and the rules by which that differs from what was recorded."""
    reckoned, rules = _Reckoning(vector["given"]).reckon()
    recorded = _recorded(vector["expect"])
    if rules:
        assert reckoned != recorded, "the rules make no difference"
        return reckoned, rules
    assert reckoned == recorded, "the reader's idea of the retries does not explain the recording"
    return recorded, rules


def _recorded(recorded: Facts) -> Facts:
    error = recorded.get("error", {})
    score = recorded.get("score", recorded.get("partial_score"))
    telemetry: Facts = recorded.get("judge_telemetry") or recorded["partial_judge"]
    return {
        "outcome": {
            "score": None if isinstance(score, dict) else score,
            "reason": recorded.get("reason"),
            "failed_step": error.get("failed_step"),
            "completed_steps": tuple(error.get("completed_steps", ())),
        },
        "records": {
            step: (entry["status"], entry["attempt_count"], entry["model_call_count"])
            for step, (entry,) in telemetry.items()
        },
        "model_calls": recorded["model_calls"],
        "prompts": recorded["prompts_sent"],
        "written": recorded["create_prompt_calls"],
        "asked": [(call["processor"], call["retry_count"]) for call in recorded["processor_calls"]],
    }


class _Reckoning:
    """What our rules make of a vector's ``given``."""

    def __init__(self, given: Facts) -> None:
        self.given = given
        self.rules: set[str] = set()
        self.facts: Facts = {"records": {}, "model_calls": 0, "prompts": [], "written": [], "asked": []}

    def reckon(self) -> tuple[Facts, set[str]]:
        score = self._step("generate_score", self.given.get("judge", {}), PROMPTS["generate_score"])
        if score is None:
            self._ends(None, None, "generate_score", ())
            return self.facts, self.rules
        judge = {**self.given.get("judge", {}), **self.given.get("reason_step_judge", {})}
        reason = self._step("generate_reason", judge, PROMPTS["generate_reason"].format(score=score))
        if reason is None:
            self.rules.add("D18")
            self._ends(score, None, "generate_reason", ("generate_score",))
        else:
            self._ends(score, reason, None, ())
        return self.facts, self.rules

    def _ends(self, score: float | None, reason: str | None, failed: str | None, completed: tuple[str, ...]) -> None:
        self.facts["outcome"] = {
            "score": score,
            "reason": reason,
            "failed_step": failed,
            "completed_steps": completed,
        }

    def _step(self, name: str, judge: Facts, prompt: str) -> Any:
        """Return what the judge answers in a step, ``None`` where it does not."""
        facts = self.facts
        facts["written"].append(name)
        before = facts["model_calls"]
        value, attempts = None, 0
        while value is None and attempts < 2:
            attempts += 1
            text = self._request(judge, prompt)
            if text is None:
                break
            value = _score(text) if name == "generate_score" else text
            if value is None and judge.get("error_processors"):
                self.rules.add("D33")  # they ask the processors about a reply, too
        status = "failed" if value is None else "success"
        facts["records"][name] = (status, attempts, facts["model_calls"] - before)
        return value

    def _request(self, judge: Facts, prompt: str) -> str | None:
        """Return the text of a reply; ``None`` where the request fails for good."""
        facts, turns = self.facts, self.given["judge_turns"]
        processors = judge.get("error_processors", [])
        cap = judge.get("max_processor_retries", 10) if processors else 0
        retries = 0
        while True:
            turn = turns[min(facts["model_calls"], len(turns) - 1)]
            facts["model_calls"] += 1
            facts["prompts"].append(prompt)
            if "error" not in turn:
                return text_of(turn)
            if not processors:
                self.rules.add("D43")  # the failed request counts
            if retries >= cap:
                if processors:
                    self.rules.add("D32")
                if processors and "max_processor_retries" not in judge:
                    self.rules.add("D13")  # their cap is 3 where none is given
                return None
            if not self._retried(processors, retries):
                return None
            retries += 1

    def _retried(self, processors: list[Facts], retries: int) -> bool:
        for processor in processors:
            self.facts["asked"].append((processor["id"], retries))
            if processor["script"][-1]["retry"]:
                return True
        return False


def _score(text: str) -> float | None:
    return float(text.removeprefix('{"score":').removesuffix("}")) if text.startswith('{"score":') else None

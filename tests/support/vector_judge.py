"""Reads the vectors of the kind ``retry`` and the level ``judge``: what two prompt steps make of failures.

:func:`play` runs a vector and :func:`expected` says what has to come of it: what was recorded, unless a rule of ours
makes something else of ``given``. The recorded program's own reckoning has to explain what is departed from.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import anyio

from mastra_py import Judge, PromptStep, ScorerRunError, TripWire, create_scorer
from mastra_py.errors import UserError
from mastra_py.scoring import JudgeRecord, ScorerResult
from support.vector_notation import refuse_unknown
from support.vector_replies import is_whole, our_score, their_score
from support.vector_retry_rules import decide, refused_option
from support.vector_turns import read_processor, scripted_model, text_of

Facts = dict[str, Any]

VECTOR = ("level", "judge", "reason_step_judge", "judge_turns")
JUDGE = ("error_processors", "max_processor_retries", "model_settings_max_retries")
PROMPTS = {"generate_score": "SCORE PROMPT", "generate_reason": "REASON PROMPT for {score}"}
STATUS = {"ok": "success", "failed": "failed"}
CAPS = {"ours": 10, "theirs": 3}
RECORD = (
    *("score", "reason", "error", "partial_score", "judge_telemetry", "partial_judge", "model_calls"),
    *("prompts_sent", "create_prompt_calls", "processor_calls", "waits_over_400_ms"),
)
LONG = 100_000.0
"""Seconds after which a run is taken to hang."""


async def play(given: Facts) -> Facts:
    """Run the scorer of a vector and return what came of it."""
    refuse_unknown("the vector", given, VECTOR)
    asked: list[tuple[str, int]] = []
    processors: list[Any] = []
    written: list[str] = []
    # Native, so that what is sent is the prompt and nothing else.
    model = scripted_model(given["judge_turns"], native=True)

    def score_prompt(ctx: Any) -> str:
        written.append("generate_score")
        return PROMPTS["generate_score"]

    def reason_prompt(ctx: Any) -> str:
        written.append("generate_reason")
        return PROMPTS["generate_reason"].format(score=ctx.score)

    def judge(spec: Facts, **fields: Any) -> Judge:
        refuse_unknown("the judge", spec, JUDGE)  # model_settings_max_retries is not played: one layer retries (D31)
        if "error_processors" in spec:
            fields["error_processors"] = [read_processor(each, asked) for each in spec["error_processors"]]
            processors.extend(fields["error_processors"])
        return Judge(max_processor_retries=spec.get("max_processor_retries"), **fields)

    own = given.get("reason_step_judge")
    begin = anyio.current_time()
    try:
        scorer = (
            create_scorer("s", judge=judge(given.get("judge", {}), model=model, instructions="You judge."))
            .generate_score(PromptStep(create_prompt=score_prompt))
            .generate_reason(PromptStep(create_prompt=reason_prompt, judge=None if own is None else judge(own)))
        )
        with anyio.fail_after(LONG):
            result = await scorer.run(output="the output")
        outcome = _outcome(result, result.error)
    except UserError:
        return {"outcome": "UserError"}
    except ScorerRunError as exc:
        result, outcome = exc.result, _outcome(exc.result, exc)
    except TripWire:
        result, outcome = None, "tripwire"
    waits = [wait for processor in processors for wait in getattr(processor, "waits", ())]
    assert anyio.current_time() - begin >= sum(waits) - 1e-6, "a wait was not served"
    return {
        "outcome": outcome,
        "records": {step: _record(record) for step, record in result.judge.items()} if result else {},
        "model_calls": model.calls,
        "prompts": [request.messages[0].text for request in model.requests],
        "written": written,
        "asked": asked,
        "waits": [round(wait * 1000) for wait in waits if wait > 0.4],
    }


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
    ours, theirs = _Reckoning(vector["given"], ours=True), _Reckoning(vector["given"], ours=False)
    facts, explained = ours.reckon(), theirs.reckon()
    recorded = _recorded(vector["expect"])
    if not ours.rules or facts == recorded:
        return recorded, set()
    odd = [name for name in recorded if explained[name] != recorded[name]]
    # Not reckoned: their second layer of retries, and how a processor that aborts ends a judge's run.
    assert not odd or ours.rules & {"D31", "D42"}, f"the reader's idea does not explain {odd}: {explained}"
    return facts, ours.rules


def _recorded(recorded: Facts) -> Facts:
    refuse_unknown("the record", recorded, RECORD)
    error = recorded.get("error", {})
    score = recorded.get("score", recorded.get("partial_score"))
    telemetry: Facts = recorded.get("judge_telemetry") or recorded.get("partial_judge", {})
    return {
        "outcome": {
            "score": None if isinstance(score, dict) else score,
            "reason": recorded.get("reason"),
            "failed_step": error.get("failed_step"),
            "completed_steps": tuple(error.get("completed_steps", ())),
        },
        "records": {
            step: (entries[-1]["status"], entries[-1]["attempt_count"], entries[-1]["model_call_count"])
            for step, entries in telemetry.items()
        },
        "model_calls": recorded["model_calls"],
        "prompts": recorded["prompts_sent"],
        "written": recorded["create_prompt_calls"],
        "asked": [(call["processor"], call["retry_count"]) for call in recorded["processor_calls"]],
        "waits": recorded["waits_over_400_ms"],
    }


class _Ends(Exception):  # noqa: N818 -- no error: the run is over
    """The run is over."""


class _Reckoning:
    """What our rules, or theirs, make of a vector's ``given``; of ours ``rules`` are those that make a difference."""

    def __init__(self, given: Facts, *, ours: bool) -> None:
        self.given = given
        self.ours = ours
        self.rules: set[str] = set()
        self.facts: Facts = {"records": {}, "model_calls": 0, "prompts": [], "written": [], "asked": [], "waits": []}
        self._scripts: dict[int, int] = {}

    def reckon(self) -> Facts:
        score = reason = failed = None
        completed: tuple[str, ...] = ()
        judge = self.given.get("judge", {})
        own = {**judge, **self.given.get("reason_step_judge", {})}
        specs = [*judge.get("error_processors", ()), *own.get("error_processors", ())]
        if self.ours and any(refused_option(spec.get("options", {})) for spec in specs):
            self.rules.add("D37")
            return {"outcome": "UserError"}
        try:
            score = self._step("generate_score", judge, PROMPTS["generate_score"])
            if score is None:
                failed = "generate_score"
            else:
                completed = ("generate_score",)
                reason = self._step("generate_reason", own, PROMPTS["generate_reason"].format(score=score))
                failed = "generate_reason" if reason is None else None
        except _Ends:
            return {**self.facts, "outcome": "tripwire", "records": {}}
        if failed == "generate_reason":
            self.rules.add("D18")
        self.facts["outcome"] = {
            "score": score,
            "reason": reason,
            "failed_step": failed,
            "completed_steps": completed if failed else (),
        }
        return self.facts

    def _step(self, name: str, judge: Facts, prompt: str) -> Any:
        """Return what the judge answers in a step, ``None`` where it does not."""
        facts = self.facts
        facts["written"].append(name)
        before, value, attempts, uncounted = facts["model_calls"], None, 0, 0
        while value is None and attempts < 2:
            attempts += 1
            is_answered, value = self._request(name, judge, prompt)
            if not is_answered:
                uncounted = 0 if judge.get("error_processors") or self.ours else 1
                self.rules |= set() if judge.get("error_processors") else {"D43"}  # the failed request counts
                break
        status = "failed" if value is None else "success"
        facts["records"][name] = (status, attempts, facts["model_calls"] - before - uncounted)
        return value

    def _read(self, name: str, turn: Facts) -> Any:
        text = text_of(turn)
        theirs = their_score(text) if name == "generate_score" else text
        if not self.ours:
            return theirs
        ours = our_score(text) if name == "generate_score" else text.strip() or None
        if not is_whole(turn):
            self.rules.add("D4")
            return None
        if ours != theirs:
            self.rules.add("D38" if name == "generate_score" else "D18")
        return ours

    def _request(self, name: str, judge: Facts, prompt: str) -> tuple[bool, Any]:
        """Return whether a request is answered, and what its reply is read as."""
        facts, turns = self.facts, self.given["judge_turns"]
        processors = judge.get("error_processors", [])
        cap = judge.get("max_processor_retries", CAPS["ours" if self.ours else "theirs"]) if processors else 0
        retries = 0
        while True:
            turn = turns[min(facts["model_calls"], len(turns) - 1)]
            facts["model_calls"] += 1
            facts["prompts"].append(prompt)
            error = turn.get("error", {"type": "error"} if turn.get("error_at") == "stream_broken" else None)
            is_answered = "error" not in turn and error is None
            value = self._read(name, turn) if is_answered else None
            if is_answered and (value is not None or self.ours or name == "generate_reason"):
                self.rules |= {"D33"} if value is None and processors else set()  # theirs are asked about it
                return True, value
            if not is_answered and judge.get("model_settings_max_retries"):
                self.rules.add("D31")
            if self.ours and retries >= cap:
                self.rules |= {"D32"} if processors else set()
                return is_answered, None
            if self.ours and retries >= CAPS["theirs"] and "max_processor_retries" not in judge:
                self.rules.add("D13")
            delay = self._retried(processors, turn, error or {"type": "error"}, retries)
            facts["waits"] += [round(delay * 1000)] if delay and delay > 0.4 else []
            if delay is None or retries >= cap:
                return is_answered, None
            retries += 1

    def _retried(self, processors: list[Facts], turn: Facts, error: Any, retries: int) -> float | None:
        """Ask the processors; return the wait before the next request, ``None`` where there is none."""
        is_broken = self.ours and turn.get("error_at") == "stream_broken"
        for spec in processors:
            self.facts["asked"].append((spec.get("id", "stream_error_retry"), retries))
            if spec["type"] == "scripted":
                at = self._scripts[id(spec)] = self._scripts.get(id(spec), -1) + 1
                entry = spec["script"][min(at, len(spec["script"]) - 1)]
                if "abort" in entry:
                    self.rules.add("D42")
                    raise _Ends
                if entry.get("retry"):
                    return 0.0
                continue
            options = spec.get("options", {})
            seen = {"type": "stream", "cause": error} if is_broken else error
            delay = decide(seen, options, datetime.now(UTC), retries, ours=self.ours)
            if self.ours and delay != decide(error, options, datetime.now(UTC), retries, ours=False):
                self.rules.add("D12")
            if delay is not None:
                return delay
        return None

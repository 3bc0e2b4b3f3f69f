"""Reads the vectors of the kind ``scorer_run`` whose steps are functions.

:func:`play` runs a vector and :func:`expected` says what has to come of it. Where no rule of ours applies, that is what
was recorded. Where one does, it is what the rules make of ``given``; the same reckoning has to agree with the recording
wherever no rule applies.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from typing import Any

import anyio.lowlevel

from mastra_py.errors import ScorerRunError, UserError
from mastra_py.scorers import StepScorer, create_scorer
from mastra_py.scoring import NotScorable, ScorerResult, ScorerRun
from support.vector_notation import read_value, refuse_unknown
from support.vector_retry import UnknownNotationError, build_error

Facts = dict[str, Any]

PIPELINE = ("preprocess", "analyze", "generate_score", "generate_reason")
RUN_FIELDS = tuple(inspect.signature(ScorerRun).parameters)
RESULTS = {"preprocess_step_result": "preprocess", "analyze_step_result": "analyze"}
CLASSES = {"ScorerRunError": "ScorerRunError", "MastraError": "UserError", "TypeError": "UserError"}
GENERATED = "<generated>"
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Context:
    """A request context that is no Mapping: it has ``get``, and that is all."""

    def __init__(self, entries: dict[str, Any]) -> None:
        self.entries = entries

    def get(self, name: str, default: Any = None) -> Any:
        return self.entries.get(name, default)


def in_function_mode(vector: dict[str, Any]) -> bool:
    return all(step["mode"] == "function" for step in vector["given"]["steps"])


# --- what happens


async def play(given: dict[str, Any]) -> Facts:
    """Run the scorer of a vector and return what came of it."""
    played = _Player(given)
    try:
        scorer = played.build()
        result = await scorer.run(**_run_fields(given["run"]))
    except ScorerRunError as exc:
        failure = _failure("ScorerRunError", exc.failed_step, exc.completed_steps, exc.result.score)
    except UserError:
        failure = _failure("UserError")
    except TypeError:
        failure = _failure("TypeError")
    except Exception as exc:
        if exc not in played.thrown:
            raise
        failure = _failure("raw")
    else:
        return {"contexts": played.contexts, **_result_facts(result)}
    return {"contexts": played.contexts, **failure}


class _Player:
    def __init__(self, given: dict[str, Any]) -> None:
        refuse_unknown("the vector", given, ("scorer", "run", "steps", "prepare_run"))
        refuse_unknown("the scorer", given["scorer"], ("id", "name"))
        self.given = given
        self.contexts: list[Facts] = []
        self.thrown: list[Exception] = []

    def build(self) -> StepScorer[Any, Any, Any, Any]:
        prepare_run = self._prepare_run() if "prepare_run" in self.given else None
        scorer: Any = create_scorer(**self.given["scorer"], prepare_run=prepare_run)
        for step in self.given["steps"]:
            scorer = getattr(scorer, step["step"])(self._function(step))
        return scorer

    def _prepare_run(self) -> Callable[[ScorerRun[Any, Any]], Any]:
        spec = self.given["prepare_run"]
        refuse_unknown("prepare_run", spec, ("set", "async", "throws", "returns_undefined"))

        def prepare(run: ScorerRun[Any, Any]) -> ScorerRun[Any, Any] | None:
            self._throw(spec)
            if spec.get("returns_undefined"):
                return None
            fields = {name: getattr(run, name) for name in RUN_FIELDS}
            return ScorerRun(**{**fields, **read_value(spec.get("set", {}))})

        return _asynchronous(prepare) if spec.get("async") else prepare

    def _function(self, step: dict[str, Any]) -> Callable[[Any], Any]:
        _refuse_unknown_step(step)

        def function(ctx: Any) -> Any:
            self.contexts.append(_context_facts(step["step"], ctx))
            if "mutates_results" in step:
                setattr(ctx.results, step["mutates_results"], "mutated")
            if "mutates_run_output" in step:
                ctx.run.output = read_value(step["mutates_run_output"])
            self._throw(step)
            if "returns_from_results" in step:
                name, *keys = step["returns_from_results"].split(".")
                return _dig(getattr(ctx.results, RESULTS[name]), keys)
            return read_value(step.get("returns"))

        return _asynchronous(function) if step.get("async") else function

    def _throw(self, spec: dict[str, Any]) -> None:
        if "throws" in spec:
            self.thrown.append(build_error(spec["throws"]))
            raise self.thrown[-1]


def _asynchronous(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    async def later(argument: Any) -> Any:
        await anyio.lowlevel.checkpoint()
        return function(argument)

    return later


def _context_facts(step: str, ctx: Any) -> Facts:
    facts = {
        "step": step,
        "run": _run_facts(ctx.run),
        "preprocess": ctx.results.preprocess,
        "analyze": ctx.results.analyze,
    }
    return facts if step != "generate_reason" else {**facts, "score": ctx.score}


def _run_facts(run: ScorerRun[Any, Any]) -> Facts:
    facts = {name: getattr(run, name) for name in RUN_FIELDS}
    if UUID.fullmatch(run.run_id):
        facts["run_id"] = GENERATED
    if isinstance(run.request_context, Context):
        facts["request_context"] = run.request_context.entries
    return facts


def _result_facts(result: ScorerResult) -> Facts:
    assert result.run is not None
    assert result.run_id == result.run.run_id
    facts: Facts = {
        "score": result.score,
        "reason": result.reason,
        "not_scorable": result.not_scorable and (result.not_scorable.step, result.not_scorable.reason),
        "preprocess": result.preprocess,
        "analyze": result.analyze,
        "run": _run_facts(result.run),
    }
    if result.error is not None:
        assert isinstance(result.error, ScorerRunError)
        facts["reason_failed_after"] = result.error.completed_steps
    return facts


def _failure(
    error: str, failed_step: str | None = None, completed: tuple[str, ...] = (), partial_score: float | None = None
) -> Facts:
    return {
        "error": error,
        "failed_step": failed_step,
        "completed_steps": completed,
        "partial_score": partial_score,
    }


# --- what has to happen


def expected(vector: dict[str, Any]) -> tuple[Facts, set[str]]:
    """Return what has to come of a vector, and the rules by which that differs from what was recorded."""
    reckoned, rules = _Reckoning(vector["given"]).reckon()
    if rules:
        return reckoned, rules
    recorded = _recorded_facts(vector)
    assert reckoned == recorded, "the reader's idea of the steps does not explain the recording"
    return recorded, rules


def _recorded_facts(vector: dict[str, Any]) -> Facts:
    given, recorded = vector["given"], vector["expect"]
    if "create_error" in recorded:
        return {"contexts": [], **_failure("TypeError")}
    assert recorded["judge_calls"] == []
    given_id = given.get("prepare_run", {}).get("set", {}).get("run_id") or given["run"].get("run_id") or GENERATED
    run_id = recorded.get("run_id", given_id)
    contexts = [
        _recorded_context(ctx, GENERATED if run_id == "<generated uuid>" else run_id)
        for ctx in recorded["step_contexts"]
    ]
    if "error" in recorded:
        error = recorded["error"]
        name = CLASSES.get(error["class"], "raw")
        completed = tuple(error["completed_steps"] or ())
        return {
            "contexts": contexts,
            **_failure(name, error["failed_step"], completed, error.get("partial_score")),
        }
    refuse_unknown("the recorded result", recorded, _RECORDED_KEYS)
    abstained = recorded.get("not_scorable")
    return {
        "contexts": contexts,
        "score": read_value(recorded.get("score")),
        "reason": recorded.get("reason"),
        "not_scorable": abstained and (abstained["step"], abstained.get("reason")),
        "preprocess": read_value(recorded.get("preprocess_step_result")),
        "analyze": read_value(recorded.get("analyze_step_result")),
        # The result repeats only these of the run's fields; the others stand in the contexts.
        "run": {
            **contexts[-1]["run"],
            **{name: read_value(recorded[name]) for name in ("output", "ground_truth") if name in recorded},
        },
    }


_RECORDED_KEYS = (
    "result_keys",
    "undefined_keys",
    "score",
    "reason",
    "not_scorable",
    *RESULTS,
    "output",
    "ground_truth",
    "run_id",
    "step_contexts",
    "judge_calls",
)


def _recorded_context(recorded: dict[str, Any], run_id: str) -> Facts:
    run = {name: read_value(value) for name, value in recorded["run"].items() if name != "run_id"}
    if isinstance(run.get("request_context"), dict) and "entries" in run["request_context"]:
        run["request_context"] = run["request_context"]["entries"]
    facts = {
        "step": recorded["step"],
        "run": {**dict.fromkeys(RUN_FIELDS), **run, "run_id": run_id},
        **{ours: read_value(recorded["results"].get(theirs)) for theirs, ours in RESULTS.items()},
    }
    return facts if recorded["step"] != "generate_reason" else {**facts, "score": read_value(recorded["score"])}


class _Reckoning:
    """What our rules make of a vector's ``given``."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given
        self.rules: set[str] = set()
        self.contexts: list[Facts] = []
        self.completed: tuple[str, ...] = ()
        self.run: Facts = {}
        self.values: Facts = dict.fromkeys(("preprocess", "analyze", "generate_score", "generate_reason"))

    def reckon(self) -> tuple[Facts, set[str]]:
        facts = self._refusal() or self._steps()
        return {"contexts": self.contexts, **facts}, self.rules

    def _refusal(self) -> Facts | None:
        """Return the error that comes before any step."""
        names = [step["step"] for step in self.given["steps"]]
        if "id" not in self.given["scorer"]:
            return _failure("TypeError")
        if len(set(names)) < len(names):
            self.rules.add("D27")
            return _failure("UserError")
        if "generate_score" not in names:
            return _failure("UserError")
        fields = _run_fields(self.given["run"])
        if set(fields) - set(RUN_FIELDS):
            self.rules.add("D40")
            return _failure("TypeError")
        prepare = self.given.get("prepare_run", {})
        if "throws" in prepare:
            return _failure("raw")
        if prepare.get("returns_undefined"):
            return _failure("UserError")
        self.run = {**dict.fromkeys(RUN_FIELDS), **fields, **read_value(prepare.get("set", {}))}
        self.run["run_id"] = self.run["run_id"] or GENERATED
        if isinstance(self.run["request_context"], Context):
            self.run["request_context"] = self.run["request_context"].entries
        if names != sorted(names, key=PIPELINE.index):
            self.rules.add("D27")
        return None

    def _steps(self) -> Facts:
        for step in sorted(self.given["steps"], key=lambda step: PIPELINE.index(step["step"])):
            if (end := self._step(step)) is not None:
                return end
            self.completed = (*self.completed, step["step"])
        return self._result()

    def _step(self, step: dict[str, Any]) -> Facts | None:
        name = step["step"]
        context = {"step": name, "run": self.run, **{key: self.values[key] for key in ("preprocess", "analyze")}}
        self.contexts.append(
            context if name != "generate_reason" else {**context, "score": self.values["generate_score"]}
        )
        mutates = "mutates_results" in step or "mutates_run_output" in step
        if mutates:
            self.rules.add("D16")
        if mutates or "throws" in step:
            return self._fails(name)
        value = read_value(step.get("returns"))
        if "returns_from_results" in step:
            first, *keys = step["returns_from_results"].split(".")
            value = _dig(self.values[RESULTS[first]], keys)
        if isinstance(value, NotScorable):
            return self._abstains(name, value)
        if name == "generate_score" and not _is_finite_number(value):
            self.rules.add("D17")
            return self._fails(name)
        self.values[name] = value
        return None

    def _fails(self, name: str) -> Facts:
        if name != "generate_reason":
            return _failure("ScorerRunError", name, self.completed)
        self.rules.add("D18")
        return {**self._result(), "reason_failed_after": self.completed}

    def _abstains(self, name: str, value: NotScorable) -> Facts:
        if name != "generate_reason":
            return {**self._result(), "not_scorable": (name, value.reason)}
        self.rules.add("D18")
        return self._result()

    def _result(self) -> Facts:
        return {
            "score": self.values["generate_score"],
            "reason": self.values["generate_reason"],
            "not_scorable": None,
            "preprocess": self.values["preprocess"],
            "analyze": self.values["analyze"],
            "run": self.run,
        }


# --- both


def _run_fields(run: dict[str, Any]) -> Facts:
    known = {*RUN_FIELDS, "extra", "request_context_type"}
    refuse_unknown("the run", run, known)
    fields = {name: read_value(value) for name, value in {**run, **run.get("extra", {})}.items()}
    fields.pop("extra", None)
    match fields.pop("request_context_type", None):
        case None:
            pass
        case "instance":
            fields["request_context"] = Context(fields["request_context"])
        case other:
            msg = f"unknown request_context_type {other!r}"
            raise UnknownNotationError(msg)
    return fields


def _refuse_unknown_step(step: dict[str, Any]) -> None:
    known = (
        "step",
        "mode",
        "async",
        "returns",
        "returns_from_results",
        "throws",
        "mutates_results",
        "mutates_run_output",
    )
    refuse_unknown(f"the step {step['step']}", step, known)
    if step["mode"] != "function":
        msg = f"the step {step['step']} is of mode {step['mode']!r}; only functions are read here"
        raise UnknownNotationError(msg)


def _dig(value: Any, keys: list[str]) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _is_finite_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)

"""Reads the vectors of the kind ``scorer_run``.

:func:`play` runs a vector and :func:`expected` says what has to come of it: what was recorded, unless a rule of ours
makes something else of ``given``. The recorded program's own reckoning has to explain what is departed from.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import anyio.lowlevel

from mastra_py.errors import ScorerRunError, UserError
from mastra_py.models.base import ModelRequest
from mastra_py.scorers import Judge, PromptStep, StepScorer, create_scorer
from mastra_py.scoring import ScorerResult, ScorerRun
from mastra_py.testing import FunctionModel
from support.vector_notation import read_value, refuse_unknown
from support.vector_retry import build_error
from support.vector_scorer_given import (
    FORM_ALONE,
    GENERATED,
    PIPELINE,
    RESULTS,
    RUN_FIELDS,
    Context,
    Facts,
    dig,
    failure,
    filled,
    in_function_mode,
    is_native,
    models_of,
    refuse_unknown_step,
    run_fields,
    schema_of,
)
from support.vector_scorer_rules import Ours, Theirs
from support.vector_turns import scripted_model

__all__ = ["Context", "in_function_mode"]

PROMPTS = {f"{step}_prompt": step for step in PIPELINE}
JUDGE_FIELDS = ("model", "instructions", "json_prompt_injection", "model_settings")
STATUS = {"ok": "success", "failed": "failed"}
CLASSES = {"ScorerRunError": "ScorerRunError", "MastraError": "UserError", "TypeError": "UserError"}
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


# --- what happens


async def play(given: dict[str, Any]) -> Facts:
    """Run the scorer of a vector and return what came of it."""
    played = _Player(given)
    try:
        scorer = played.build()
        result = await scorer.run(**run_fields(given["run"]))
    except ScorerRunError as exc:
        came = failure("ScorerRunError", exc.failed_step, exc.completed_steps, exc.result.score)
    except UserError:
        came = failure("UserError")
    except TypeError:
        came = failure("TypeError")
    except Exception as exc:
        if exc not in played.thrown:
            raise
        came = failure("raw")
    else:
        return {"contexts": played.contexts, "asked": played.asked(), **_result_facts(result)}
    return {"contexts": played.contexts, "asked": played.asked(), **came}


class _Player:
    def __init__(self, given: dict[str, Any]) -> None:
        refuse_unknown("the vector", given, ("scorer", "run", "steps", "prepare_run", "models", "judge_turns"))
        refuse_unknown("the scorer", given["scorer"], ("id", "name", "judge"))
        self.given = given
        self.models = {key: _model(spec) for key, spec in models_of(given).items()}
        self.contexts: list[Facts] = []
        self.thrown: list[Exception] = []

    def build(self) -> StepScorer[Any, Any, Any, Any]:
        prepare_run = self._prepare_run() if "prepare_run" in self.given else None
        options = {**self.given["scorer"], "judge": self._judge(self.given["scorer"].get("judge"))}
        scorer: Any = create_scorer(**options, prepare_run=prepare_run)
        for step in self.given["steps"]:
            refuse_unknown_step(step)
            self._build_errors(step, "throws", "prompt_throws")
            made = self._prompt_step(step) if step["mode"] == "prompt" else self._function(step)
            scorer = getattr(scorer, step["step"])(made)
        return scorer

    def asked(self) -> dict[str, list[Any]]:
        """Return what each model was asked."""
        return {key: [_call_facts(r) for r in model.requests] for key, model in self.models.items() if model.calls}

    def _judge(self, spec: dict[str, Any] | None) -> Judge | None:
        if spec is None:
            return None
        refuse_unknown("the judge", spec, JUDGE_FIELDS)
        return Judge(**{**spec, "model": self.models[spec["model"]] if "model" in spec else None})

    def _prompt_step(self, step: dict[str, Any]) -> PromptStep[Any, Any]:
        def create_prompt(ctx: Any) -> str:
            self._throw({"throws": step["prompt_throws"]} if "prompt_throws" in step else {})
            results = {theirs: getattr(ctx.results, ours) for theirs, ours in RESULTS.items()}
            return filled(step["prompt"], ctx.run.output, results, getattr(ctx, "score", None))

        def calculate_score(ctx: Any, value: Any) -> Any:
            return read_value(step["calculate_score"])

        return PromptStep(
            create_prompt=_asynchronous(create_prompt) if step.get("async") else create_prompt,
            output=schema_of(step["output_schema"]) if "output_schema" in step else None,
            calculate_score=calculate_score if "calculate_score" in step else None,
            judge=self._judge(step.get("judge")),
        )

    def _prepare_run(self) -> Callable[[ScorerRun[Any, Any]], Any]:
        spec = self.given["prepare_run"]
        refuse_unknown("prepare_run", spec, ("set", "async", "throws", "returns_undefined"))
        self._build_errors(spec, "throws")

        def prepare(run: ScorerRun[Any, Any]) -> ScorerRun[Any, Any] | None:
            self._throw(spec)
            if spec.get("returns_undefined"):
                return None
            fields = {name: getattr(run, name) for name in RUN_FIELDS}
            return ScorerRun(**{**fields, **read_value(spec.get("set", {}))})

        return _asynchronous(prepare) if spec.get("async") else prepare

    def _function(self, step: dict[str, Any]) -> Callable[[Any], Any]:
        def function(ctx: Any) -> Any:
            self.contexts.append(_context_facts(step["step"], ctx))
            if "mutates_results" in step:
                setattr(ctx.results, step["mutates_results"], "mutated")
            if "mutates_run_output" in step:
                ctx.run.output = read_value(step["mutates_run_output"])
            self._throw(step)
            if "returns_from_results" in step:
                name, *keys = step["returns_from_results"].split(".")
                return dig(getattr(ctx.results, RESULTS[name]), keys)
            return read_value(step.get("returns"))

        return _asynchronous(function) if step.get("async") else function

    def _build_errors(self, spec: dict[str, Any], *names: str) -> None:
        """Find out about unknown notation here, not in a step whose failure is what is expected."""
        for name in names:
            build_error(spec.get(name))

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
        "reason": result.reason and result.reason.strip(),
        "not_scorable": result.not_scorable and (result.not_scorable.step, result.not_scorable.reason),
        "preprocess": result.preprocess,
        "analyze": result.analyze,
        "run": _run_facts(result.run),
        "prompts": dict(result.prompts),
        "judge": {
            step: (STATUS[r.status], r.model, r.provider, r.attempts, r.model_calls, r.usage.total_tokens)
            for step, r in result.judge.items()
        },
    }
    if result.error is not None:
        assert isinstance(result.error, ScorerRunError)
        facts["reason_failed_after"] = result.error.completed_steps
    return facts


def _call_facts(request: ModelRequest) -> Facts | str:
    """Return what a judge is asked, and of a re-ask that it is one: ours shows the reply, theirs begins anew."""
    if len(request.messages) > 1:
        return "again"
    (message,) = request.messages
    texts = [getattr(part, "text", "") for part in message.parts]
    told = {
        "response_format": request.output is not None,
        "user": "JSON Schema" in texts[-1],
        "system": "JSON Schema" in (request.system or ""),
    }
    return {
        "system": (request.system or "").partition("\n")[0],
        "parts": len(texts),
        "prompt": FORM_ALONE if told["user"] and len(texts) == 1 else texts[0],
        "schema_in": [place for place, there in told.items() if there],
        "temperature": request.settings.temperature,
    }


def _model(spec: Facts) -> FunctionModel:
    model = scripted_model(spec["turns"], id=spec["model_id"], native=is_native(spec))
    model.provider = spec.get("provider", "scripted")
    return model


# --- what has to happen


def expected(vector: Facts) -> tuple[Facts, set[str]]:
    """Return what has to come of a vector, and the rules by which that differs from what was recorded."""
    ours, theirs = Ours(vector["given"]), Theirs(vector["given"])
    facts, explained = ours.reckon(), theirs.reckon()
    recorded = _recorded_facts(vector, theirs.again)
    if not ours.rules or facts == recorded:
        return recorded, set()
    odd = [name for name in {**explained, **recorded} if [explained.get(name)] != [recorded.get(name)]]
    assert not odd, f"the reader's idea does not explain the record: {[explained.get(name) for name in odd]}"
    return facts, ours.rules


def _recorded_facts(vector: Facts, again: list[bool]) -> Facts:
    given, recorded = vector["given"], vector["expect"]
    if "create_error" in recorded:
        return {"contexts": [], "asked": {}, **failure("TypeError")}
    asked = _recorded_calls(recorded["judge_calls"], again)
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
            "asked": asked,
            **failure(name, error["failed_step"], completed, read_value(error.get("partial_score"))),
        }
    refuse_unknown("the recorded result", recorded, _RECORDED_KEYS)
    abstained = recorded.get("not_scorable")
    run = contexts[-1]["run"] if contexts else {**dict.fromkeys(RUN_FIELDS), **run_fields(given["run"])}
    return {
        "contexts": contexts,
        "asked": asked,
        "prompts": {step: recorded[key] for key, step in PROMPTS.items() if key in recorded},
        "judge": {step: _recorded_record(entries[-1]) for step, entries in recorded.get("judge", {}).items()},
        "score": read_value(recorded.get("score")),
        "reason": _stripped(read_value(recorded.get("reason"))),
        "not_scorable": abstained and (abstained["step"], abstained.get("reason")),
        "preprocess": read_value(recorded.get("preprocess_step_result")),
        "analyze": read_value(recorded.get("analyze_step_result")),
        # The result repeats only these of the run's fields; the others stand in the contexts.
        "run": {
            **run,
            "run_id": GENERATED if run_id == "<generated uuid>" else run_id,
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
    "judge",
    *PROMPTS,
)


def _recorded_calls(calls: list[Facts], again: list[bool]) -> dict[str, list[Any]]:
    """Return recorded calls; of one that asks ``again`` no more is compared than that it is one."""
    asked: dict[str, list[Any]] = {}
    for call, is_again in zip(calls, [*again, *[False] * len(calls)], strict=False):
        facts = {
            "system": call["system_first_line"],
            "parts": call["user_part_count"],
            "prompt": call["prompt"],
            "schema_in": call["schema_in"],
            "temperature": call.get("temperature"),
        }
        asked.setdefault(call["model"], []).append("again" if is_again else facts)
    return asked


def _recorded_record(entry: dict[str, Any]) -> tuple[Any, ...]:
    names = ("status", "judge_model_id", "judge_provider", "attempt_count", "model_call_count")
    return (*[entry[name] for name in names], entry["usage"]["total_tokens"])


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


def _stripped(reason: Any) -> Any:
    return reason.strip() if isinstance(reason, str) else reason

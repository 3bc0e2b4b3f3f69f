"""Reads the vectors of the kind ``scorer_run``.

:func:`play` runs a vector and :func:`expected` says what has to come of it. Where no rule of ours applies, that is what
was recorded. Where one does, it is what the rules make of ``given``; the same reckoning has to agree with the recording
wherever no rule applies.
"""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Callable
from typing import Any

import anyio.lowlevel

from mastra_py.errors import ScorerRunError, UserError
from mastra_py.models.base import ModelRequest
from mastra_py.scorers import Judge, PromptStep, StepScorer, create_scorer
from mastra_py.scoring import NotScorable, ScorerResult, ScorerRun
from mastra_py.testing import FunctionModel
from support.vector_notation import read_value, refuse_unknown
from support.vector_retry import UnknownNotationError, build_error
from support.vector_turns import scripted_model, text_of

Facts = dict[str, Any]

PIPELINE = ("preprocess", "analyze", "generate_score", "generate_reason")
RUN_FIELDS = tuple(inspect.signature(ScorerRun).parameters)
RESULTS = {"preprocess_step_result": "preprocess", "analyze_step_result": "analyze"}
PROMPTS = {f"{step}_prompt": step for step in PIPELINE}
JUDGE_FIELDS = ("model", "instructions", "json_prompt_injection", "model_settings")
TYPES: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "string[]": {"type": "array", "items": {"type": "string"}},
}
FORM_ALONE = "<schema instruction only>"
STATUS = {"ok": "success", "failed": "failed"}
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
        return {"contexts": played.contexts, "asked": played.asked(), **_result_facts(result)}
    return {"contexts": played.contexts, "asked": played.asked(), **failure}


class _Player:
    def __init__(self, given: dict[str, Any]) -> None:
        refuse_unknown("the vector", given, ("scorer", "run", "steps", "prepare_run", "models", "judge_turns"))
        refuse_unknown("the scorer", given["scorer"], ("id", "name", "judge"))
        self.given = given
        self.models = {key: _model(spec) for key, spec in _models(given).items()}
        self.contexts: list[Facts] = []
        self.thrown: list[Exception] = []

    def build(self) -> StepScorer[Any, Any, Any, Any]:
        prepare_run = self._prepare_run() if "prepare_run" in self.given else None
        options = {**self.given["scorer"], "judge": self._judge(self.given["scorer"].get("judge"))}
        scorer: Any = create_scorer(**options, prepare_run=prepare_run)
        for step in self.given["steps"]:
            _refuse_unknown_step(step)
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
            return _filled(step["prompt"], ctx.run.output, results, getattr(ctx, "score", None))

        def calculate_score(ctx: Any, value: Any) -> Any:
            return read_value(step["calculate_score"])

        return PromptStep(
            create_prompt=_asynchronous(create_prompt) if step.get("async") else create_prompt,
            output=_schema(step["output_schema"]) if "output_schema" in step else None,
            calculate_score=calculate_score if "calculate_score" in step else None,
            judge=self._judge(step.get("judge")),
        )

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
        return {"contexts": [], "asked": {}, **_failure("TypeError")}
    asked = _recorded_calls(recorded["judge_calls"])
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
            **_failure(name, error["failed_step"], completed, error.get("partial_score")),
        }
    refuse_unknown("the recorded result", recorded, _RECORDED_KEYS)
    abstained = recorded.get("not_scorable")
    run = contexts[-1]["run"] if contexts else {**dict.fromkeys(RUN_FIELDS), **_run_fields(given["run"])}
    return {
        "contexts": contexts,
        "asked": asked,
        "prompts": {step: recorded[key] for key, step in PROMPTS.items() if key in recorded},
        "judge": {step: _recorded_record(entry) for step, (entry,) in recorded.get("judge", {}).items()},
        "score": read_value(recorded.get("score")),
        "reason": recorded.get("reason"),
        "not_scorable": abstained and (abstained["step"], abstained.get("reason")),
        "preprocess": read_value(recorded.get("preprocess_step_result")),
        "analyze": read_value(recorded.get("analyze_step_result")),
        # The result repeats only these of the run's fields; the others stand in the contexts.
        "run": {
            **run,
            "run_id": run["run_id"] or GENERATED,
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


def _recorded_calls(calls: list[dict[str, Any]]) -> dict[str, list[Any]]:
    asked: dict[str, list[Any]] = {}
    for call, before in zip(calls, [None, *calls], strict=False):
        facts = {
            "system": call["system_first_line"],
            "parts": call["user_part_count"],
            "prompt": call["prompt"],
            "schema_in": call["schema_in"],
            "temperature": call.get("temperature"),
        }
        again = before is not None and before["prompt"] == call["prompt"]  # no vector has two steps with one prompt
        asked.setdefault(call["model"], []).append("again" if again else facts)
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


class _Reckoning:
    """What our rules make of a vector's ``given``."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given
        self.rules: set[str] = set()
        self.contexts: list[Facts] = []
        self.completed: tuple[str, ...] = ()
        self.run: Facts = {}
        self.models = _models(given)
        self.asked: dict[str, list[Any]] = {}
        self.prompts: Facts = {}
        self.records: Facts = {}
        self.values: Facts = dict.fromkeys(("preprocess", "analyze", "generate_score", "generate_reason"))

    def reckon(self) -> tuple[Facts, set[str]]:
        facts = self._refusal() or self._steps()
        return {"contexts": self.contexts, "asked": self.asked, **facts}, self.rules

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
        if not all(map(self._can_be_asked, self.given["steps"])):
            self.rules.add("D39")
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

    def _can_be_asked(self, step: dict[str, Any]) -> bool:
        needs_form = step["step"] in {"preprocess", "analyze"}
        judge = self._judge_of(step)
        ready = judge.get("model") and judge.get("instructions") and ("output_schema" in step or not needs_form)
        return step["mode"] == "function" or bool(ready)

    def _judge_of(self, step: dict[str, Any]) -> dict[str, Any]:
        return {**self.given["scorer"].get("judge", {}), **step.get("judge", {})}

    def _steps(self) -> Facts:
        for step in sorted(self.given["steps"], key=lambda step: PIPELINE.index(step["step"])):
            if (end := self._step(step)) is not None:
                return end
            self.completed = (*self.completed, step["step"])
        return self._result()

    def _step(self, step: dict[str, Any]) -> Facts | None:
        if step["mode"] == "prompt":
            return self._prompt_step(step)
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

    def _prompt_step(self, step: dict[str, Any]) -> Facts | None:
        name = step["step"]
        if "prompt_throws" in step:
            return self._fails(name)
        judge = self._judge_of(step)
        model = self.models[judge["model"]]
        results = {theirs: self.values[ours] for theirs, ours in RESULTS.items()}
        prompt = _filled(step["prompt"], self.run["output"], results, self.values["generate_score"])
        calls = self.asked.setdefault(judge["model"], [])
        before, value = len(calls), None
        while value is None and len(calls) < before + 2:
            again = len(calls) > before
            turn = model["turns"][min(len(calls), len(model["turns"]) - 1)]
            calls.append("again" if again else _reckoned_call(step, judge, prompt, native=_is_native(model)))
            value = self._read(step, text_of(turn))
        count = len(calls) - before
        about = (model.get("model_id", judge["model"]), model.get("provider", "scripted"))
        self.prompts[name] = prompt
        self.records[name] = ("failed" if value is None else "success", *about, count, count, 2 * count)
        if value is None:
            return self._fails(name)
        if "calculate_score" in step:
            self.rules.add("D19")
            value = read_value(step["calculate_score"])
        self.values[name] = value
        return None

    def _read(self, step: dict[str, Any], text: str) -> Any:
        """Return what a reply says, ``None`` where it cannot be used."""
        if step["step"] == "generate_reason":
            return text.strip() or None
        found = re.search(r"\{.*\}", text, re.DOTALL)  # no vector has more than one object in a reply
        value = json.loads(found[0]) if found else None
        if value is None:
            return None
        if "output_schema" in step:
            fits = all(_fits(value.get(name), kind) for name, kind in step["output_schema"].items())
            if step["step"] == "generate_score":
                self.rules.add("D19")
            return value if fits else None
        score = value.get("score")
        if isinstance(score, str):
            self.rules.add("D38")
            return float(score)
        return score if _is_finite_number(score) and not isinstance(score, bool) else None

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
            "prompts": self.prompts,
            "judge": self.records,
        }


def _reckoned_call(step: dict[str, Any], judge: dict[str, Any], prompt: str, *, native: bool) -> Facts:
    how = judge.get("json_prompt_injection", "auto")
    if step["step"] == "generate_reason":
        place = None
    elif how is False or (how == "auto" and native):
        place = "response_format"
    else:
        place = "system" if how in {True, "system"} else "user"
    in_user_prompt = place == "user"
    return {
        "system": judge["instructions"].partition("\n")[0],
        "parts": 2 if in_user_prompt and prompt else 1,
        "prompt": FORM_ALONE if in_user_prompt and not prompt else prompt,
        "schema_in": [place] if place else [],
        "temperature": judge.get("model_settings", {}).get("temperature"),
    }


def _fits(value: Any, kind: str) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "number":
            return _is_finite_number(value) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case "string[]":
            return isinstance(value, list) and all(isinstance(item, str) for item in value)
        case other:
            msg = f"unknown type {other!r} in an output_schema"
            raise UnknownNotationError(msg)


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


STEP_FIELDS = {
    "function": ("returns", "returns_from_results", "throws", "mutates_results", "mutates_run_output"),
    "prompt": ("prompt", "prompt_throws", "output_schema", "calculate_score", "judge"),
}


def _refuse_unknown_step(step: dict[str, Any]) -> None:
    if step["mode"] not in STEP_FIELDS:
        msg = f"the step {step['step']} is of unknown mode {step['mode']!r}"
        raise UnknownNotationError(msg)
    refuse_unknown(f"the step {step['step']}", step, ("step", "mode", "async", *STEP_FIELDS[step["mode"]]))


def _models(given: dict[str, Any]) -> dict[str, Facts]:
    models: dict[str, Facts] = dict(given.get("models", {}))
    if "judge_turns" in given:
        models["judge"] = {"turns": given["judge_turns"]}
    for key, spec in models.items():
        refuse_unknown(f"the model {key}", spec, ("turns", "provider", "model_id", "spec"))
        models[key] = {**spec, "model_id": spec.get("model_id", key)}
    return models


def _model(spec: Facts) -> FunctionModel:
    model = scripted_model(spec["turns"], id=spec["model_id"], native=_is_native(spec))
    model.provider = spec.get("provider", "scripted")
    return model


def _is_native(spec: Facts) -> bool:
    """Whether the recorded framework knows of the model that it takes a schema natively."""
    return spec.get("provider", "").startswith("openai") and spec["model_id"].startswith("gpt-4o")


def _schema(fields: dict[str, str]) -> dict[str, Any]:
    properties = {name: TYPES[kind] for name, kind in fields.items()}
    return {"type": "object", "properties": properties, "required": list(fields)}


def _filled(prompt: str, output: Any, results: Facts, score: Any) -> str:
    for name, value in (("output", output), ("results", results), ("score", score)):
        prompt = prompt.replace(f"{{{name}}}", value if isinstance(value, str) else json.dumps(value))
    return prompt


def _dig(value: Any, keys: list[str]) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _is_finite_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)

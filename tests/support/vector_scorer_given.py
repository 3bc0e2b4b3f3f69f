"""What the vectors of the kind ``scorer_run`` give, as both the run of it and the reckoning read it."""

from __future__ import annotations

import inspect
import json
from typing import Any

from mastra_py.scoring import ScorerRun
from support.vector_notation import read_value, refuse_unknown
from support.vector_retry import UnknownNotationError

Facts = dict[str, Any]

PIPELINE = ("preprocess", "analyze", "generate_score", "generate_reason")
RUN_FIELDS = tuple(inspect.signature(ScorerRun).parameters)
RESULTS = {"preprocess_step_result": "preprocess", "analyze_step_result": "analyze"}
TYPES: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "string[]": {"type": "array", "items": {"type": "string"}},
}
FORM_ALONE = "<schema instruction only>"
GENERATED = "<generated>"
STEP_FIELDS = {
    "function": ("returns", "returns_from_results", "throws", "mutates_results", "mutates_run_output"),
    "prompt": ("prompt", "prompt_throws", "output_schema", "calculate_score", "judge"),
}


class Context:
    """A request context that is no Mapping: it has ``get``, and that is all."""

    def __init__(self, entries: Facts) -> None:
        self.entries = entries

    def get(self, name: str, default: Any = None) -> Any:
        return self.entries.get(name, default)


def in_function_mode(vector: Facts) -> bool:
    return all(step["mode"] == "function" for step in vector["given"]["steps"])


def failure(
    error: str, failed_step: str | None = None, completed: tuple[str, ...] = (), partial_score: Any = None
) -> Facts:
    return {
        "error": error,
        "failed_step": failed_step,
        "completed_steps": completed,
        "partial_score": partial_score,
    }


def run_fields(run: Facts) -> Facts:
    refuse_unknown("the run", run, {*RUN_FIELDS, "extra", "request_context_type"})
    fields = {name: read_value(value) for name, value in {**run, **run.get("extra", {})}.items()}
    fields.pop("extra", None)
    match fields.pop("request_context_type", None):
        case None:
            pass
        case "instance":
            fields["request_context"] = Context(fields.get("request_context") or {})
        case other:
            msg = f"unknown request_context_type {other!r}"
            raise UnknownNotationError(msg)
    return fields


def refuse_unknown_step(step: Facts) -> None:
    if step["step"] not in PIPELINE or step["mode"] not in STEP_FIELDS:
        msg = f"the step {step['step']!r} of mode {step['mode']!r} is unknown"
        raise UnknownNotationError(msg)
    refuse_unknown(f"the step {step['step']}", step, ("step", "mode", "async", *STEP_FIELDS[step["mode"]]))


def models_of(given: Facts) -> dict[str, Facts]:
    models: dict[str, Facts] = dict(given.get("models", {}))
    if "judge_turns" in given:
        models["judge"] = {"turns": given["judge_turns"]}
    for key, spec in models.items():
        refuse_unknown(f"the model {key}", spec, ("turns", "provider", "model_id", "spec"))
        models[key] = {**spec, "model_id": spec.get("model_id", key)}
    return models


def is_native(spec: Facts) -> bool:
    """Whether the recorded framework knows of the model that it takes a schema natively."""
    return spec.get("provider", "").startswith("openai") and spec["model_id"].startswith("gpt-4o")


def schema_of(fields: dict[str, str]) -> Facts:
    if unknown := set(fields.values()) - set(TYPES):
        msg = f"unknown type {min(unknown)!r} in an output_schema"
        raise UnknownNotationError(msg)
    properties = {name: TYPES[kind] for name, kind in fields.items()}
    return {"type": "object", "properties": properties, "required": list(fields)}


def filled(prompt: str, output: Any, results: Facts, score: Any) -> str:
    for name, value in (("output", output), ("results", results), ("score", score)):
        prompt = prompt.replace(f"{{{name}}}", value if isinstance(value, str) else json.dumps(value))
    return prompt


def dig(value: Any, keys: list[str]) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value

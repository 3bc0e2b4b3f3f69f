"""What has to come of the vectors of the kind ``scorer_run``: reckoned from ``given``, by our rules and by theirs."""

from __future__ import annotations

import re
from typing import Any

from mastra_py.scoring import NotScorable
from support.vector_notation import read_value
from support.vector_replies import is_finite_number, is_whole, our_object, our_score, their_object, their_score
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
    is_native,
    models_of,
    run_fields,
)
from support.vector_turns import text_of


class Theirs:
    """What the recorded program makes of a vector's ``given``; what its rules do otherwise, :class:`Ours` overrides."""

    def __init__(self, given: Facts) -> None:
        self.given = given
        self.contexts: list[Facts] = []
        self.completed: tuple[str, ...] = ()
        self.run: Facts = {}
        self.models = models_of(given)
        self.asked: dict[str, list[Any]] = {}
        self.again: list[bool] = []
        self.prompts: Facts = {}
        self.records: Facts = {}
        self.values: Facts = dict.fromkeys(PIPELINE)

    def reckon(self) -> Facts:
        facts = self.refusal() or self.prepare() or self._steps()
        return {"contexts": self.contexts, "asked": self.asked, **facts}

    def refusal(self) -> Facts | None:
        """Return the error that comes before any step."""
        if "id" not in self.given["scorer"]:
            return failure("TypeError")
        if not any(step["step"] == "generate_score" for step in self.given["steps"]):
            return failure("UserError")
        return None

    def prepare(self) -> Facts | None:
        """Work out the run that the steps see; return what is wrong with it."""
        prepare = self.given.get("prepare_run", {})
        if "throws" in prepare:
            return failure("raw")
        if prepare.get("returns_undefined"):
            return failure("UserError")
        fields = run_fields(self.given["run"])
        self.run = {**dict.fromkeys(RUN_FIELDS), **fields, **read_value(prepare.get("set", {}))}
        self.run["run_id"] = self.run["run_id"] or GENERATED
        if isinstance(self.run["request_context"], Context):
            self.run["request_context"] = self.run["request_context"].entries
        return None

    def in_order(self) -> list[Facts]:
        return self.given["steps"]

    def _steps(self) -> Facts:
        for step in self.in_order():
            if (end := self._step(step)) is not None:
                return end
            self.completed = (*self.completed, step["step"])
        return self.result()

    def _step(self, step: Facts) -> Facts | None:
        name = step["step"]
        if step["mode"] == "prompt":
            return self._prompt_step(step)
        context = {"step": name, "run": self.run, **{key: self.values[key] for key in ("preprocess", "analyze")}}
        self.contexts.append(
            context if name != "generate_reason" else {**context, "score": self.values["generate_score"]}
        )
        if self.mutates(step) or "throws" in step:
            return self.fails(name)
        value = read_value(step.get("returns"))
        if "returns_from_results" in step:
            first, *keys = step["returns_from_results"].split(".")
            value = dig(self.values[RESULTS[first]], keys)
        if isinstance(value, NotScorable):
            return self.abstains(name, value)
        return self.take(name, value)

    def mutates(self, step: Facts) -> bool:
        """Play what a step does to what it is given; return whether that fails it."""
        if step.get("mutates_results") in RESULTS:
            self.values[RESULTS[step["mutates_results"]]] = "mutated"
        if "mutates_run_output" in step:
            self.run = {**self.run, "output": read_value(step["mutates_run_output"])}
        return False

    def take(self, name: str, value: Any) -> Facts | None:
        """Take the result of a step; return the failure where it cannot be one."""
        self.values[name] = value
        return None

    # Prompts.

    def judge_of(self, step: Facts) -> Facts:
        return {**self.given["scorer"].get("judge", {}), **step.get("judge", {})}

    def _prompt_step(self, step: Facts) -> Facts | None:
        name, judge = step["step"], self.judge_of(step)
        if "prompt_throws" in step:
            return self.fails(name)
        needs_form = name in {"preprocess", "analyze"}
        if not judge.get("model") or not judge.get("instructions") or (needs_form and "output_schema" not in step):
            return self.fails(name)
        model = self.models[judge["model"]]
        results = {theirs: self.values[ours] for theirs, ours in RESULTS.items()}
        prompt = filled(step["prompt"], self.run["output"], results, self.values["generate_score"])
        self.prompts[name] = prompt
        status, value = self._ask(step, judge, prompt)
        about = (model["model_id"], model.get("provider", "scripted"))
        asks, calls, tokens = status
        self.records[name] = ("failed" if value is None else "success", *about, asks, calls, tokens)
        return self.fails(name) if value is None else self.judged(step, value)

    def _ask(self, step: Facts, judge: Facts, prompt: str) -> tuple[tuple[int, int, int], Any]:
        """Return how often the judge was asked, in how many calls, for how many tokens, and what it answers."""
        model = self.models[judge["model"]]
        calls = self.asked.setdefault(judge["model"], [])
        tokens = 0
        for number in (1, 2):
            turn = model["turns"][min(len(calls), len(model["turns"]) - 1)]
            calls.append("again" if number > 1 else _call(step, judge, prompt, native=is_native(model)))
            self.again.append(number > 1)
            if "error" in turn or turn.get("error_at") == "stream_broken":
                return (number, number, tokens), None
            tokens += 2
            value = self.read(step, turn)
            if value is not None:
                return (number, number, tokens), value
        return (2, 2, tokens), None

    def read(self, step: Facts, turn: Facts) -> Any:
        """Return what a reply says, ``None`` where it cannot be used."""
        if step["step"] == "generate_reason":
            return text_of(turn)
        if step["step"] == "generate_score":
            return their_score(text_of(turn))
        value = their_object(text_of(turn)) or {}
        return value if all(_fits(value.get(key), kind) for key, kind in step["output_schema"].items()) else None

    def judged(self, step: Facts, value: Any) -> Facts | None:
        """Take what a judge answered."""
        return self.take(step["step"], value)

    # Ends.

    def fails(self, name: str) -> Facts:
        return failure("ScorerRunError", name, self.completed, self.values["generate_score"])

    def abstains(self, name: str, value: NotScorable) -> Facts:
        return {**self.result(), "score": None, "not_scorable": (name, value.reason)}

    def result(self) -> Facts:
        reason = self.values["generate_reason"]
        return {
            "score": self.values["generate_score"],
            "reason": reason.strip() if isinstance(reason, str) else reason,
            "not_scorable": None,
            "preprocess": self.values["preprocess"],
            "analyze": self.values["analyze"],
            "run": self.run,
            "prompts": self.prompts,
            "judge": self.records,
        }


class Ours(Theirs):
    """What our rules make of it; ``rules`` are those that may make a difference."""

    def __init__(self, given: Facts) -> None:
        super().__init__(given)
        self.rules: set[str] = set()

    def refusal(self) -> Facts | None:
        steps = self.given["steps"]
        names = [step["step"] for step in steps]
        if "id" not in self.given["scorer"]:
            return failure("TypeError")
        if len(set(names)) < len(names):
            return self._refused("D27", "UserError")
        for step in steps:
            if rule := self._refuses(step):
                return self._refused(rule, "UserError")
        if "generate_score" not in names:
            return failure("UserError")
        if not all(map(self._can_be_asked, steps)):
            return self._refused("D39", "UserError")
        if set(run_fields(self.given["run"])) - set(RUN_FIELDS):
            return self._refused("D40", "TypeError")
        return None

    def _refused(self, rule: str, error: str) -> Facts:
        self.rules.add(rule)
        return failure(error)

    def _refuses(self, step: Facts) -> str | None:
        """Return the rule by which a step is refused where it is added."""
        if step["mode"] == "function":
            return None
        name, schema = step["step"], step.get("output_schema")
        if name in {"preprocess", "analyze"} and schema is None:
            return "D39"
        unused = (name == "generate_reason" and schema is not None) or (
            name != "generate_score" and "calculate_score" in step
        )
        scoreless = name == "generate_score" and schema is not None and "score" not in schema
        return "D19" if unused or (scoreless and "calculate_score" not in step) else None

    def _can_be_asked(self, step: Facts) -> bool:
        judge = self.judge_of(step)
        return step["mode"] == "function" or bool(judge.get("model") and judge.get("instructions"))

    def prepare(self) -> Facts | None:
        prepare = self.given.get("prepare_run", {})
        if "throws" not in prepare and not prepare.get("returns_undefined"):
            if set(prepare.get("set", {})) - set(RUN_FIELDS):
                return self._refused("D40", "TypeError")
            if self.in_order() != self.given["steps"]:
                self.rules.add("D27")
        return super().prepare()

    def in_order(self) -> list[Facts]:
        return sorted(self.given["steps"], key=lambda step: PIPELINE.index(step["step"]))

    def mutates(self, step: Facts) -> bool:
        if "mutates_results" not in step and "mutates_run_output" not in step:
            return False
        self.rules.add("D16")
        return True

    def take(self, name: str, value: Any) -> Facts | None:
        if name == "generate_score" and not is_finite_number(value):
            self.rules.add("D17")
            return self.fails(name)
        if name == "generate_reason" and not isinstance(value, str | None):
            return self.fails(name)
        return super().take(name, value)

    def read(self, step: Facts, turn: Facts) -> Any:
        text = text_of(turn)
        if not is_whole(turn):
            self.rules |= set() if super().read(step, turn) is None else {"D4"}
            return None
        if step["step"] == "generate_reason":
            return text.strip() or None
        value = our_object(text)
        if value != their_object(text):
            self.rules.add("D38")
        if "output_schema" not in step or value is None:
            self.rules |= {"D38"} if our_score(text) != their_score(text) else set()
            return our_score(text)
        if step["step"] == "generate_score":
            self.rules.add("D19")
        read = {key: _coerced(item, step["output_schema"].get(key)) for key, item in value.items()}
        if read != value:
            self.rules.add("D38")
        return read if all(_fits(read.get(key), kind) for key, kind in step["output_schema"].items()) else None

    def judged(self, step: Facts, value: Any) -> Facts | None:
        if step["step"] == "generate_score" and "calculate_score" in step:
            self.rules.add("D19")
            value = read_value(step["calculate_score"])
        elif isinstance(value, dict) and step["step"] == "generate_score":
            value = value.get("score")
        return self.take(step["step"], value)

    def fails(self, name: str) -> Facts:
        if name != "generate_reason":
            return super().fails(name)
        self.rules.add("D18")
        return {**self.result(), "reason_failed_after": self.completed}

    def abstains(self, name: str, value: NotScorable) -> Facts:
        if name != "generate_reason":
            return super().abstains(name, value)
        self.rules.add("D18")
        return self.result()


def _call(step: Facts, judge: Facts, prompt: str, *, native: bool) -> Facts:
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


def _coerced(value: Any, kind: str | None) -> Any:
    """D38: what can be read without a doubt is read."""
    if kind == "boolean":
        if isinstance(value, str) and value.strip().lower() in {"true", "false"}:
            return value.strip().lower() == "true"
        return value == 1 if type(value) in {int, float} and value in {0, 1} else value
    if kind == "number" and isinstance(value, str) and re.fullmatch(r"[+-]?\d+(\.\d+)?", value.strip(), re.ASCII):
        return float(value)
    return value


def _fits(value: Any, kind: str) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "number":
            return is_finite_number(value) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case _:
            return isinstance(value, list) and all(isinstance(item, str) for item in value)

"""Reckons what becomes of a scripted tool call, from the tools of a vector and our rules."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from support.vector_forms import Form
from support.vector_notation import read_value

Facts = dict[str, Any]


class Call:
    """A scripted tool call and what becomes of it."""

    def __init__(self, spec: Facts, tools: dict[str, Facts]) -> None:
        self.id, self.name = spec["id"], spec["name"]
        self.tool = tools.get(self.name)
        self.args, self.not_json = spec.get("args", {}), False
        if "raw_args" in spec:
            self.args, self.not_json = _read_args(spec["raw_args"], self.tool)
        self.seconds = self.tool.get("delay_ms", 0) / 1000 if self.tool and not self.is_unfit else 0.0

    @property
    def is_unfit(self) -> bool:
        """Whether the tool exists and its arguments do not fit it."""
        if self.tool is None:
            return False
        return self.not_json or not all(_fits(self.args.get(k), kind) for k, kind in self.tool["input"].items())

    @property
    def gives_nothing(self) -> bool:
        return self.tool is not None and self.tool.get("result", {"$js": "undefined"}) == {"$js": "undefined"}

    def outcome(self) -> tuple[str, Any]:
        if self.tool is None or self.is_unfit or "throws" in self.tool:
            return "error", "named"
        return "result", read_value(self.tool.get("result"))


def refuse(calls: Sequence[Call]) -> tuple[list[Form], list[Form]]:
    """Return the events and the entries of calls in a turn that was cut off: none of them is made."""
    events: list[Form] = [("tool-error", call.id, call.name, call.args, "named") for call in calls]
    made: list[Form] = [("assistant", "call", call.name, call.args) for call in calls]
    return events, [*made, *[("tool", "error", call.name, "named") for call in calls]]


def _read_args(raw: str, tool: Facts | None) -> tuple[Facts, bool]:
    if not raw.strip():
        return {}, tool is not None and bool(tool["input"])
    try:
        args = json.loads(raw)
    except ValueError:
        return {}, True
    return (args, False) if isinstance(args, dict) else ({}, True)


def _fits(value: Any, kind: str) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case _:
            return isinstance(value, list) and all(isinstance(item, str) for item in value)

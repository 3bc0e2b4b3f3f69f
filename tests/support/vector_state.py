"""What is known of an agent's run while it is reckoned, and from where on the record may tell of another run."""

from __future__ import annotations

import copy
import math
from typing import Any

from support.vector_agents import ReckonedAgents
from support.vector_check import Scorers
from support.vector_forms import Form, error_form, tool_forms, without_results
from support.vector_models import ReckonedModels
from support.vector_notation import read_value
from support.vector_turns import read_processor

Facts = dict[str, Any]
Claims = dict[str, set[str]]

FIELDS = (
    "types", "events", "tool_chunks", "checks", "on_complete", "final_text", "finish_reason", "steps", "step_texts",
    "messages", "prompts", "last_prompt", "model_calls", "usage", "on_finish", "error", "stop_reason", "scorer_calls",
    "sent_to_judge", "scorer_contexts", "processor_calls", "waits", "sub_agent_calls", "sub_agent_prompts",
)  # fmt: skip
GROWING = (
    "types", "events", "tool_chunks", "checks", "on_complete", "steps", "step_texts", "messages", "prompts",
    "model_calls", "sent_to_judge", "scorer_contexts", "processor_calls", "waits",
)  # fmt: skip
"""Those of which a run only has more as it goes on."""
DEFAULT_STEPS = 5


class Ended(Exception):  # noqa: N818 -- no error: the run is over
    """The run is over, for ``stop_reason`` or by ``error``."""

    def __init__(self, stop_reason: str | None, error: Exception | None = None) -> None:
        super().__init__(stop_reason)
        self.stop_reason = stop_reason
        self.error = error


class State:
    """A run so far. By ``claims``, rules, its facts may differ from the record; ``forks`` is what they were before."""

    def __init__(self, given: Facts) -> None:
        self.given = given
        self.claims: Claims = {}
        self.forks: Facts = {}
        self.is_another_run = False
        self.models = ReckonedModels(given)
        self.sub_agents = ReckonedAgents(given)
        self.tools = {**{tool["name"]: tool for tool in given.get("tools", ())}, **self.sub_agents.tools}
        self.asked: list[tuple[str, int]] = []
        self.processors = [(spec, read_processor(spec, self.asked)) for spec in given.get("error_processors", ())]
        self.scorers = Scorers(given, self.claim)
        self.clock = 0.0
        self.abort_at = given["abort_after_ms"] / 1000 if "abort_after_ms" in given else math.inf
        self.deltas = 0
        self.step = 0
        self.events: list[Form] = [("start",)]
        self.history: list[Form] = [("user", "text", given["prompt"])]
        self.hidden: set[int] = set()
        self.draft_start = 0
        self.prompts: list[list[Form]] = []
        self.texts: list[str] = []
        self.used: list[tuple[str, Any]] = []
        self.call_ids: set[str] = set()
        self.checks: list[Facts] = []
        self.told: list[Facts] = []
        self.waits: list[float] = []
        self.partial = ""
        self.finish: str | None = None
        self.stop_reason: str | None = None
        self.error: Exception | None = None
        self.usage = 0

    @property
    def max_steps(self) -> int:
        return read_value(self.given.get("max_steps", DEFAULT_STEPS))

    def claim(self, rules: str, *fields: str) -> None:
        """Note the rules by which these facts, or all of them, may differ from the record from here on."""
        named = fields or FIELDS
        self.is_another_run = self.is_another_run or not fields
        if new := [name for name in named if name in GROWING and name not in self.claims]:
            facts = self.facts()
            self.forks |= {name: copy.deepcopy(facts[name]) for name in new}
        for name in named:
            self.claims.setdefault(name, set()).update(rules.split("+"))

    def facts(self) -> Facts:
        last = self.texts[-1] if self.texts else ""
        ended = self.error is None and self.stop_reason not in {"cancelled", "tripwire"}
        whole = [entry for i, entry in enumerate(self.history) if i not in self.hidden]
        return {
            "types": [event[0] for event in self.events],
            "events": self.events,
            "tool_chunks": tool_forms(self.events),
            "checks": self.checks,
            "on_complete": self.told,
            "final_text": self.partial or ("" if self.error is not None else last),
            "finish_reason": self.finish,
            "steps": len(self.texts),
            "step_texts": self.texts,
            "messages": without_results(whole),
            "prompts": self.prompts,
            "last_prompt": self.prompts[-1] if self.prompts else None,
            "model_calls": self.models.calls(),
            "usage": {"input_tokens": self.usage, "output_tokens": self.usage, "total_tokens": 2 * self.usage},
            "on_finish": {"text": last, "finish_reason": self.finish} if ended else None,
            "error": error_form(self.error) if self.error is not None else None,
            "stop_reason": self.stop_reason,
            **self.scorers.facts(),
            **self.sub_agents.facts(),
            "processor_calls": self.asked,
            "waits": [round(wait * 1000) for wait in self.waits if wait > 0.4],
        }


def begins_alike(recorded: Any, fork: Any) -> bool:
    """Return whether a recorded fact is what it was before any rule made a difference, or more than that."""
    if isinstance(fork, list):
        return recorded[: len(fork)] == fork
    if isinstance(fork, dict):
        return all(begins_alike(recorded.get(name), known) for name, known in fork.items())
    return not isinstance(fork, int) or recorded >= fork

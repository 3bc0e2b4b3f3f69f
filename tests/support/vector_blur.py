"""What of a departing fact has to be as recorded all the same: all but what the rules it departs by are about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.vector_forms import FEEDBACK

Facts = dict[str, Any]

_FRAME = {"error", "step-start", "step-finish", "finish"}
_ANSWERS = {"tool-result", "tool-error"}


def _kind(event: Any) -> str:
    return event if isinstance(event, str) else event[0]


def _without_events(kinds: set[str]) -> Callable[[list[Any]], list[Any]]:
    return lambda events: [event for event in events if _kind(event) not in kinds]


def _without_keys(*names: str) -> Callable[[list[Facts]], list[Facts]]:
    return lambda items: [{key: value for key, value in item.items() if key not in names} for item in items]


def _in_each(blur: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda items: (
        {name: blur(item) for name, item in items.items()}
        if isinstance(items, dict)
        else [blur(item) for item in items]
    )


def _without_feedback(prompt: list[Any]) -> list[Any]:
    return [(FEEDBACK,) if entry[1] == FEEDBACK else entry for entry in prompt]


def _without_answers(prompt: list[Any]) -> list[Any]:
    return [entry for entry in prompt if entry[0] != "tool"]


def _first_and_last(prompt: list[Any]) -> list[Any]:
    return [prompt[0], prompt[-1]]


_STREAM = ("types", "events")
_BLURS: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("D3", "prompts"): _in_each(_without_feedback),
    ("D3", "last_prompt"): _without_feedback,
    ("D6", "checks"): _without_keys("max_iteration_reached"),
    ("D6", "scorer_contexts"): _in_each(_without_keys("max_steps")),
    ("D9", "checks"): _without_keys("reason"),
    ("D9", "on_complete"): _without_keys("completion_reason"),
    ("D15", "sub_agent_prompts"): _in_each(_in_each(_first_and_last)),
    ("D25", "scorer_contexts"): _in_each(_without_keys("tool_calls")),
    ("D34", "checks"): _without_keys("results", "timed_out", "reason"),
    ("D34", "on_complete"): _without_keys("scorers", "timed_out", "completion_reason"),
    **{("D28", name): _without_events({"finish"}) for name in _STREAM},
    **{("D36", name): _without_events(_FRAME) for name in _STREAM},
    **{(rule, name): _without_events(_ANSWERS) for rule in ("D20", "D35") for name in (*_STREAM, "tool_chunks")},
    **{(rule, "prompts"): _in_each(_without_answers) for rule in ("D20", "D35")},
    **{(rule, "last_prompt"): _without_answers for rule in ("D20", "D35")},
}


def agree(name: str, rules: set[str], recorded: Any, reckoned: Any) -> bool:
    """Return whether what the rules do not touch is alike; where a rule has another run come of it, nothing is."""
    if rules == {"D7"} and name == "final_text":
        return recorded.endswith(reckoned)  # theirs has the rejected drafts before it
    blurs = [_BLURS.get((rule, name)) for rule in sorted(rules)]
    if None in blurs:
        return True
    for blur in filter(None, blurs):
        recorded, reckoned = blur(recorded), blur(reckoned)
    return recorded == reckoned

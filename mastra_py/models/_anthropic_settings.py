"""Settings as Anthropic's Messages API wants them: how much a model thinks, its limit, and marks for the cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from mastra_py.errors import UserError
from mastra_py.models._anthropic_profiles import SAMPLING
from mastra_py.models.profile import ModelProfile
from mastra_py.models.settings import ModelSettings

LEAST_BUDGET = 1024
"""Fewer tokens of thinking the API does not take."""

_BUDGETS: Mapping[str, int] = {
    "minimal": LEAST_BUDGET,
    "low": 2048,
    "medium": 8192,
    "high": 16_384,
    "xhigh": 24_576,
    "max": 32_000,
}
"""Efforts as budgets, for models that count tokens of thinking."""


def lacking(settings: ModelSettings, profile: ModelProfile) -> frozenset[str]:
    """Return the settings that do not go together with thinking, where it is on: those of the sampling."""
    thinks = settings.reasoning_effort not in {None, "none"} if profile.thinking == "effort" else _budget(settings)
    return SAMPLING if thinks and profile.thinking is not None else frozenset()


def max_tokens(settings: ModelSettings, profile: ModelProfile) -> int:
    """Return the limit of the reply: on this wire the thinking counts, too.

    Raises:
        UserError: the thinking would leave nothing for the answer.
    """
    budget = _budget(settings) if profile.thinking == "budget" else 0
    limit = settings.max_output_tokens
    if limit is None:
        return profile.default_max_tokens + budget
    if budget and budget >= limit:
        msg = (
            f"max_output_tokens={limit} leaves no room beside {budget} tokens of thinking, which count: "
            "raise it, or set a smaller thinking_budget or reasoning_effort"
        )
        raise UserError(msg)
    return limit


def thinking(
    settings: ModelSettings, profile: ModelProfile, turns: Sequence[Mapping[str, Any]], *, forced: bool
) -> dict[str, Any]:
    """Return the fields of the body that say how much the model thinks.

    It does not think in a request that forces a tool, which the API refuses, nor, where it counts tokens, in the midst
    of tool calls that it made without thinking: those of another model.

    Raises:
        UserError: there is a ``thinking_budget`` for a model that takes an effort only.
    """
    if profile.thinking is None:
        return {}
    effort = settings.reasoning_effort
    if effort == "none" or settings.thinking_budget == 0:
        return {"thinking": {"type": "disabled"}}
    if profile.thinking == "effort":
        if settings.thinking_budget is not None:
            msg = (
                "this model takes no thinking_budget: set reasoning_effort, or give it a profile with thinking='budget'"
            )
            raise UserError(msg)
        if effort is None:
            return {}
        on = {} if forced else {"thinking": {"type": "adaptive"}}
        return {**on, "output_config": {"effort": "low" if effort == "minimal" else effort}}
    budget = _budget(settings)
    if not budget or forced or _called_without_thinking(turns):
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def mark_for_cache(body: dict[str, Any], ttl: Literal["5m", "1h"]) -> None:
    """Mark what comes first and stays, tools and system prompt, and the conversation so far, for the cache."""
    mark = {"type": "ephemeral"} if ttl == "5m" else {"type": "ephemeral", "ttl": ttl}
    if "system" in body:
        body["system"] = [{"type": "text", "text": body["system"], "cache_control": mark}]
    elif body.get("tools"):
        body["tools"][-1] = {**body["tools"][-1], "cache_control": mark}
    body["messages"][-1]["content"][-1]["cache_control"] = mark


def _budget(settings: ModelSettings) -> int:
    """Return the tokens that a model may think, 0 for none.

    Raises:
        UserError: they are fewer than the API takes, or the effort has no meaning here.
    """
    if settings.thinking_budget is not None:
        if 0 < settings.thinking_budget < LEAST_BUDGET:
            msg = f"thinking_budget must be 0 or at least {LEAST_BUDGET} tokens, got {settings.thinking_budget}"
            raise UserError(msg)
        return settings.thinking_budget
    effort = settings.reasoning_effort
    if effort is None or effort == "none":
        return 0
    if effort not in _BUDGETS:
        msg = f"reasoning_effort {effort!r} is not known for this model; known are none, {', '.join(_BUDGETS)}"
        raise UserError(msg)
    return _BUDGETS[effort]


def _called_without_thinking(turns: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the conversation ends with results of calls whose turn does not begin with thinking."""
    if len(turns) < 2 or turns[-1]["content"][0]["type"] != "tool_result":
        return False
    return not turns[-2]["content"][0]["type"].endswith("thinking")

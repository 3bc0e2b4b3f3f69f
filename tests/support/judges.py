"""Scorers whose steps a scripted judge answers."""

from __future__ import annotations

from typing import Any

from mastra_py import Judge, PromptStep, create_scorer
from mastra_py.models.profile import ModelProfile
from mastra_py.scorers import StepScorer
from mastra_py.testing import ScriptedModel

Scorer = StepScorer[Any, Any, Any, Any]


def prompt(text: str = "Grade it.", **options: Any) -> PromptStep[Any, Any]:
    """Return a prompt step that always asks ``text``."""
    return PromptStep(create_prompt=lambda _: text, **options)


def graded(
    *turns: Any, native: bool = True, step: dict[str, Any] | None = None, **judge: Any
) -> tuple[Scorer, ScriptedModel]:
    """Return a scorer whose ``generate_score`` a judge answers, and the judge's model."""
    model = ScriptedModel(turns, id="judge-1", profile=ModelProfile(native_output=native))
    ours = Judge(**{"model": model, "instructions": "You grade.", **judge})
    return create_scorer("quality", judge=ours).generate_score(prompt(**(step or {}))), model

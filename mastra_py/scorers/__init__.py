"""Scorers: judge what an agent, or anything else, has answered."""

from __future__ import annotations

from mastra_py.scorers.builder import PrepareRun, StepScorer, create_scorer
from mastra_py.scorers.context import ReasonContext, StepContext, StepResults
from mastra_py.scorers.criteria import RubricCriterion, RubricVerdict, parse_rubric
from mastra_py.scorers.filter_run import RunFilter, filter_run
from mastra_py.scorers.judge import Judge
from mastra_py.scorers.prompt_step import PromptStep
from mastra_py.scorers.rubric import create_rubric_scorer

__all__ = [
    "Judge",
    "PrepareRun",
    "PromptStep",
    "ReasonContext",
    "RubricCriterion",
    "RubricVerdict",
    "RunFilter",
    "StepContext",
    "StepResults",
    "StepScorer",
    "create_rubric_scorer",
    "create_scorer",
    "filter_run",
    "parse_rubric",
]

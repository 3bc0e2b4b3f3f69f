"""Scorers: judge what an agent, or anything else, has answered."""

from __future__ import annotations

from mastra_py.scorers.builder import PrepareRun, StepScorer, create_scorer
from mastra_py.scorers.context import ReasonContext, StepContext, StepResults
from mastra_py.scorers.filter_run import RunFilter, filter_run

__all__ = [
    "PrepareRun",
    "ReasonContext",
    "RunFilter",
    "StepContext",
    "StepResults",
    "StepScorer",
    "create_scorer",
    "filter_run",
]

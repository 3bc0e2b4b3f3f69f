"""What the step functions of a scorer receive: one read-only context.

The contexts carry the types of what came before, so that a type checker knows ``ctx.results.preprocess`` in a later
step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic

from typing_extensions import TypeVar

from mastra_py.scoring import InputT, OutputT, ScorerRun

PreprocessT_co = TypeVar("PreprocessT_co", default=Any, covariant=True)
AnalyzeT_co = TypeVar("AnalyzeT_co", default=Any, covariant=True)

# The contexts are frozen but not slotted: in a frozen slotted dataclass, writing an unknown name fails with a TypeError
# about super() instead of naming the field.


@dataclass(frozen=True)
class StepResults(Generic[PreprocessT_co, AnalyzeT_co]):
    """The results of the steps before; ``None`` where a step has not run, is not there, or returned nothing."""

    preprocess: PreprocessT_co
    analyze: AnalyzeT_co


@dataclass(frozen=True)
class StepContext(Generic[InputT, OutputT, PreprocessT_co, AnalyzeT_co]):
    """What ``preprocess``, ``analyze`` and ``generate_score`` receive.

    Its fields are read-only, and so are those of what it holds: a step that writes one fails. The values themselves,
    say a list in ``run.input``, are not copied.

    Attributes:
        run: what is scored.
        results: the results of the steps before.
    """

    run: ScorerRun[InputT, OutputT]
    results: StepResults[PreprocessT_co, AnalyzeT_co]


@dataclass(frozen=True)
class ReasonContext(StepContext[InputT, OutputT, PreprocessT_co, AnalyzeT_co]):
    """What ``generate_reason`` receives: a :class:`StepContext` and the ``score`` that stands."""

    score: float

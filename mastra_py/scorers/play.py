"""The steps of a scorer, played in their order on one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias, cast, runtime_checkable

from mastra_py._loop.callbacks import resolve
from mastra_py._loop.faults import replaced_cancel
from mastra_py.errors import ScorerRunError, TripWire, UserError
from mastra_py.scorers.context import ReasonContext, StepContext, StepResults
from mastra_py.scorers.judge import Bench
from mastra_py.scoring import NotScorable, ScorerResult, ScorerRun, passes, read_score

StepName = Literal["preprocess", "analyze", "generate_score", "generate_reason"]


@runtime_checkable
class JudgedStep(Protocol):
    """The port of a step that a judge answers."""

    def require_ready(self) -> None:
        """Raise a ``UserError`` where its judge cannot be asked."""
        ...

    async def __call__(self, ctx: StepContext[Any, Any, Any, Any], bench: Bench, /) -> Any:
        """Ask the judge on ``bench`` and return the step's result."""
        ...


BoundStep: TypeAlias = Callable[[Any], object] | JudgedStep
"""A function of the context, or a step that a judge answers."""

_SCORING_STEPS: tuple[StepName, ...] = ("preprocess", "analyze", "generate_score")


@dataclass(slots=True, kw_only=True)
class Play:
    """One run of a scorer's steps."""

    scorer_id: str
    steps: Mapping[StepName, BoundStep]
    threshold: float
    run: ScorerRun[Any, Any]
    bench: Bench = field(default_factory=Bench)
    completed: tuple[StepName, ...] = ()

    async def result(self) -> ScorerResult:
        """Play all steps.

        Raises:
            ScorerRunError: a step before the reason failed.
            UserError: a step misused the API.
            TripWire: a processor of a judge stopped the run.
        """
        result = ScorerResult(run_id=self.run.run_id, run=self.run)
        for name in _SCORING_STEPS:
            if name not in self.steps:
                continue
            try:
                result = await self._take_step(name, result)
            except (UserError, TripWire):
                raise
            except Exception as exc:  # whatever a step raises, the scorer could not judge: one error names the step
                raise self._failure(name, result, exc) from exc
            if result.not_scorable is not None:
                return self._with_evidence(result)
            self.completed = (*self.completed, name)
        return self._with_evidence(await self._explain(result))

    async def _answer(self, name: StepName, ctx: StepContext[Any, Any, Any, Any]) -> object:
        step = self.steps[name]
        if isinstance(step, JudgedStep):
            return await step(ctx, self.bench)
        return await resolve(step(ctx))

    async def _take_step(self, name: StepName, result: ScorerResult) -> ScorerResult:
        """Return ``result`` with what the step ``name`` adds to it."""
        value = await self._answer(name, StepContext(self.run, StepResults(result.preprocess, result.analyze)))
        if isinstance(value, NotScorable):
            return replace(result, not_scorable=NotScorable(value.reason, name))
        if name != "generate_score":
            return replace(result, **{name: value})
        score = read_score(value)
        passed = passes(score, self.threshold)
        return replace(result, score=score.value, passed=passed, reason=score.reason, criteria=score.criteria)

    async def _explain(self, result: ScorerResult) -> ScorerResult:
        """Run ``generate_reason``. Whatever becomes of it, the score that exists is kept."""
        if "generate_reason" not in self.steps:
            return result
        results = StepResults(result.preprocess, result.analyze)
        try:
            reason = await self._answer(
                "generate_reason", ReasonContext(self.run, results, cast("float", result.score))
            )
            if reason is None or isinstance(reason, NotScorable):
                return result
            if not isinstance(reason, str):
                msg = f"generate_reason must return a str or None, got {reason!r}"
                raise TypeError(msg)  # noqa: TRY301 -- handled like any other fault of the step
        except (UserError, TripWire):
            raise
        except Exception as exc:
            if replaced_cancel(exc):
                raise
            # A crash is a value here: the score it should explain stands.
            error = self._failure("generate_reason", result, exc)
            error.__cause__ = exc
            return replace(result, error=error)
        return replace(result, reason=reason)

    def _with_evidence(self, result: ScorerResult) -> ScorerResult:
        records = self.bench.records
        return replace(result, prompts={step: r.prompt for step, r in records.items()}, judge=dict(records))

    def _failure(self, name: StepName, result: ScorerResult, exc: Exception) -> ScorerRunError:
        what = f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__
        return ScorerRunError(
            f"scorer {self.scorer_id!r}: step {name} failed: {what}",
            scorer_id=self.scorer_id,
            failed_step=name,
            completed_steps=self.completed,
            result=self._with_evidence(result),
        )

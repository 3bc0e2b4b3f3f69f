"""``create_rubric_scorer``: a judge grades an output against a rubric, and the required criteria decide.

The judge is asked for a verdict on each criterion and for nothing else: score, pass and reason are worked out from the
verdicts, and which criteria there are and which of them are required is never taken from its reply.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from mastra_py._checks import is_number
from mastra_py.errors import UserError
from mastra_py.models.base import Model
from mastra_py.scorers._rubric_prompt import RUBRIC_INSTRUCTIONS, rubric_prompt
from mastra_py.scorers._rubric_reply import RubricReader, rubric_format
from mastra_py.scorers.builder import StepScorer
from mastra_py.scorers.context import StepContext
from mastra_py.scorers.criteria import RubricCriterion, RubricLike, RubricVerdict, read_rubric, with_ids
from mastra_py.scorers.judge import Bench, Judge, JudgeLike, Question, check_judge, require_ready
from mastra_py.scoring import CriterionVerdict, Score, ScorerRun

NO_RUBRIC = "There is no rubric, so there was nothing to grade."


def create_rubric_scorer(
    model: Model | str | None = None,
    criteria: RubricLike | None = None,
    scale: float = 1.0,
    id: str = "rubric-scorer",
    name: str = "Rubric (LLM)",
    judge: JudgeLike | None = None,
) -> StepScorer[Any, Any, None, RubricVerdict]:
    r"""Return a scorer whose judge grades an output against a rubric.

    Its score is ``scale`` where every required criterion is met (every criterion, where none is required), else 0.
    Its reason lists each criterion with its verdict and why, in words that work as feedback.

    The scorer has the steps ``analyze``, whose result is a :class:`~mastra_py.scorers.RubricVerdict`, and
    ``generate_score``; ``.preprocess`` and a ``.generate_reason`` of your own may be added.

    Example::

        rubric = create_rubric_scorer("openai/gpt-5-mini", "- It has an analysis\n- It names its sources")
        result = await agent.generate("Research AI in education", is_task_complete=rubric)

    Args:
        model: the judge's model or model string; a smaller and cheaper one usually does.
        criteria: the rubric, see :func:`parse_rubric`. Without one, or with a blank one, each run brings its own: the
            first ``rubric`` in its request context, its additional context or its input. Where there is none either,
            the score is 1 and no judge is asked.
        scale: the score of an output that passes, above 0. It does not change what passes.
        id: identifies the scorer, in results and in feedback.
        name: for people to read.
        judge: more about the judge: a ``Judge`` with its processors, settings and instructions; those take the place of
            the built-in system prompt, while rubric, output and the form of the reply stay in the user prompt.
            ``model`` overrides its model. Or an ``Agent``, with a model and instructions of its own.

    Raises:
        UserError: no model is given, ``scale`` is not a finite number above 0, or ``criteria`` is no rubric.
    """
    where = f"scorer {id!r}"
    effective = _judge(model, judge, where)
    own = () if criteria is None else read_rubric(criteria, f"{where}: criteria")
    if not is_number(scale) or scale <= 0:
        found = "one too big for a float" if isinstance(scale, int) and abs(scale) > 1e300 else repr(scale)
        msg = f"{where}: scale must be a finite number above 0, got {found}"
        raise UserError(msg)
    analyze = _Grading(scorer_id=id, judge=effective, criteria=own)
    return StepScorer(
        id=id,
        name=name,
        steps=MappingProxyType({"analyze": analyze, "generate_score": _Scoring(scale)}),
        judge=effective,
        description="Grades an output against a rubric.",
    )


def _judge(model: Model | str | None, judge: JudgeLike | None, where: str) -> JudgeLike:
    judge = check_judge(judge, where)
    if judge is None or isinstance(judge, Judge):
        effective = (judge or Judge()).over(Judge(instructions=RUBRIC_INSTRUCTIONS))
        if model is not None:
            effective = Judge(model=model).over(effective)
        if effective.model is None:
            msg = f"{where} needs a judge: give model=, or judge= with a model"
            raise UserError(msg)
        return effective
    if model is not None:
        msg = f"{where}: the agent given as judge has a model already; leave out model="
        raise UserError(msg)
    return judge


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grading:
    """The step that has the judge grade an output; ``criteria`` is the scorer's own rubric."""

    scorer_id: str
    judge: JudgeLike
    criteria: tuple[RubricCriterion, ...]

    def require_ready(self) -> None:
        if self.criteria:  # without, it may well be that no run has a rubric and the judge is never asked
            self._ready_judge()

    async def __call__(self, ctx: StepContext[Any, Any, Any, Any], bench: Bench) -> RubricVerdict:
        criteria = with_ids(self.criteria or _rubric_of(ctx.run, f"scorer {self.scorer_id!r}"))
        if not criteria:
            return RubricVerdict()
        question = Question(
            scorer_id=self.scorer_id,
            step="analyze",
            prompt=rubric_prompt(criteria, ctx.run),
            read=RubricReader(criteria),
            run=ctx.run,
            format=rubric_format([criterion.id or "" for criterion in criteria]),
        )
        return await bench.ask(self._ready_judge(), question)

    def _ready_judge(self) -> JudgeLike:
        return require_ready(self.judge, f"scorer {self.scorer_id!r}: step analyze")


def _rubric_of(run: ScorerRun[Any, Any], where: str) -> tuple[RubricCriterion, ...]:
    """Return the rubric that a run brings along: the first there is, also where that one is empty."""
    for name in ("request_context", "additional_context", "input"):
        get: object = getattr(getattr(run, name), "get", None)
        rubric = get("rubric") if callable(get) else None
        if rubric is not None:
            return read_rubric(rubric, f"{where}: the rubric in the run's {name}")
    return ()


@dataclass(frozen=True, slots=True)
class _Scoring:
    """The step that makes a score of the verdicts."""

    scale: float

    def __call__(self, ctx: StepContext[Any, Any, Any, RubricVerdict]) -> Score:
        verdict = ctx.results.analyze
        if not verdict.criteria:
            return Score(1.0, NO_RUBRIC, passed=True)
        value = self.scale if verdict.passed else 0.0
        return Score(value, _reason(verdict), verdict.passed, verdict.criteria)


def _reason(verdict: RubricVerdict) -> str:
    gated = "every required criterion" if any(c.required for c in verdict.criteria) else "every criterion"
    met = f"The rubric is satisfied: {gated} is met."
    lines = [met if verdict.passed else f"The rubric is not satisfied yet: not {gated} is met.", ""]
    for criterion in verdict.criteria:
        lines += _lines_of(criterion)
    if verdict.assessment:
        lines += ["", f"Overall: {verdict.assessment}"]
    if not verdict.passed:
        lines += ["", "Still to be met: " + "; ".join([_one_line(c.description) for c in verdict.unmet])]
    return "\n".join(lines)


def _lines_of(criterion: CriterionVerdict) -> Iterator[str]:
    state = "met" if criterion.satisfied else "unmet"
    kind = "required" if criterion.required else "optional"
    yield f"- [{state}, {kind}] {_indented(criterion.description)}"
    if criterion.reasoning:
        yield f"  {_indented(criterion.reasoning)}"


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")


def _one_line(text: str) -> str:
    return " ".join(text.split())

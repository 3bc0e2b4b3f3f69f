"""``create_scorer``: a scorer made of up to four steps.

The steps run in this order, whatever the order they were added in::

    prepare_run → preprocess → analyze → generate_score → generate_reason

Only ``generate_score`` is required. A step is a plain or an async function of one context, or a ``PromptStep`` that a
judge answers. A plain function runs inline: what blocks belongs into an async one.
"""

from __future__ import annotations

import dataclasses
import math
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Generic, Literal, Self, TypeAlias, TypedDict, cast, overload

from typing_extensions import TypeVar, Unpack

from mastra_py._loop.callbacks import resolve
from mastra_py.errors import UserError
from mastra_py.messages import MessageLike
from mastra_py.scorers.agent_run import as_agent_run
from mastra_py.scorers.context import AnalyzeT_co, PreprocessT_co, ReasonContext, StepContext
from mastra_py.scorers.judge import JudgeLike, check_judge
from mastra_py.scorers.play import BoundStep, JudgedStep, Play, StepName
from mastra_py.scorers.prompt_step import PromptStep, bind_prompt_step
from mastra_py.scoring import (
    AgentRunInput,
    AgentRunOutput,
    FunctionScore,
    InputT,
    NotScorable,
    OutputT,
    ScorerResult,
    ScorerRun,
)

T = TypeVar("T")

PrepareRun: TypeAlias = Callable[
    [ScorerRun[InputT, OutputT]], ScorerRun[InputT, OutputT] | Awaitable[ScorerRun[InputT, OutputT]]
]
"""Transforms a run before the steps see it; plain or async."""

ReasonAnswer: TypeAlias = str | NotScorable | None


class RunFields(TypedDict, Generic[InputT, OutputT], total=False):
    """The fields of a :class:`~mastra_py.scoring.ScorerRun` as keywords of :meth:`StepScorer.run`."""

    input: InputT
    output: OutputT
    run_id: str | None
    request_context: Any
    additional_context: Any
    ground_truth: Any
    expected_trajectory: Any


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class StepScorer(Generic[InputT, OutputT, PreprocessT_co, AnalyzeT_co]):
    """A scorer made of steps; :func:`create_scorer` makes one. It never changes: adding a step gives a new scorer.

    Add the steps in the order they run, then a type checker knows the results of the earlier ones in the later ones.

    Attributes:
        id: identifies the scorer.
        name: for people to read.
        steps: the steps added so far.
        description: what it judges.
        type: ``"agent"`` where it judges an agent's messages.
        threshold: the score that passes.
        prepare_run: transforms a run before the steps see it.
        judge: answers the prompt steps.
    """

    id: str
    name: str
    steps: Mapping[StepName, BoundStep]
    judge: JudgeLike | None = None
    description: str | None = None
    type: Literal["agent"] | None = None
    threshold: float = 1.0
    prepare_run: PrepareRun[InputT, OutputT] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id.strip():  # pyright: ignore[reportUnnecessaryIsInstance] -- not every caller has a type checker
            msg = f"the id of a scorer must be a text that is not blank, got {self.id!r}"
            raise UserError(msg)
        if self.type not in (None, "agent"):
            msg = f"scorer {self.id!r}: type must be 'agent' or None, got {self.type!r}"
            raise UserError(msg)
        if not isinstance(self.threshold, int | float) or not 0 <= self.threshold < math.inf:  # pyright: ignore[reportUnnecessaryIsInstance] -- as above
            msg = (
                f"scorer {self.id!r}: threshold must be a finite number from 0, got {self.threshold!r}; "
                "for a verdict of another kind return Score(value, passed=...)"
            )
            raise UserError(msg)
        if self.prepare_run is not None and not callable(self.prepare_run):
            msg = f"scorer {self.id!r}: prepare_run must be a function of the run, got {self.prepare_run!r}"
            raise UserError(msg)

    def __deepcopy__(self, memo: object) -> Self:
        return self  # it never changes

    def __repr__(self) -> str:
        return f"StepScorer({self.id!r}, steps=[{', '.join(self.steps)}])"

    @overload
    def preprocess(
        self, step: PromptStep[T, StepContext[InputT, OutputT, None, None]], /
    ) -> StepScorer[InputT, OutputT, T, AnalyzeT_co]: ...
    @overload
    def preprocess(
        self, step: Callable[[StepContext[InputT, OutputT, None, None]], Awaitable[T | NotScorable]], /
    ) -> StepScorer[InputT, OutputT, T, AnalyzeT_co]: ...
    @overload
    def preprocess(
        self, step: Callable[[StepContext[InputT, OutputT, None, None]], T | NotScorable], /
    ) -> StepScorer[InputT, OutputT, T, AnalyzeT_co]: ...
    def preprocess(self, step: object, /) -> StepScorer[InputT, OutputT, Any, AnalyzeT_co]:
        """Add the step that extracts or transforms what the others need; its result is ``ctx.results.preprocess``."""
        return self._with_step("preprocess", step)

    @overload
    def analyze(
        self, step: PromptStep[T, StepContext[InputT, OutputT, PreprocessT_co, None]], /
    ) -> StepScorer[InputT, OutputT, PreprocessT_co, T]: ...
    @overload
    def analyze(
        self, step: Callable[[StepContext[InputT, OutputT, PreprocessT_co, None]], Awaitable[T | NotScorable]], /
    ) -> StepScorer[InputT, OutputT, PreprocessT_co, T]: ...
    @overload
    def analyze(
        self, step: Callable[[StepContext[InputT, OutputT, PreprocessT_co, None]], T | NotScorable], /
    ) -> StepScorer[InputT, OutputT, PreprocessT_co, T]: ...
    def analyze(self, step: object, /) -> StepScorer[InputT, OutputT, PreprocessT_co, Any]:
        """Add the step that looks closely; its result is ``ctx.results.analyze``."""
        return self._with_step("analyze", step)

    def generate_score(
        self,
        step: Callable[
            [StepContext[InputT, OutputT, PreprocessT_co, AnalyzeT_co]], FunctionScore | Awaitable[FunctionScore]
        ]
        | PromptStep[Any, StepContext[InputT, OutputT, PreprocessT_co, AnalyzeT_co]],
        /,
    ) -> StepScorer[InputT, OutputT, PreprocessT_co, AnalyzeT_co]:
        """Add the step that gives the score: a finite number, a bool, or a ``Score`` with a reason or a verdict."""
        return self._with_step("generate_score", step)

    def generate_reason(
        self,
        step: Callable[
            [ReasonContext[InputT, OutputT, PreprocessT_co, AnalyzeT_co]], ReasonAnswer | Awaitable[ReasonAnswer]
        ]
        | PromptStep[Any, ReasonContext[InputT, OutputT, PreprocessT_co, AnalyzeT_co]],
        /,
    ) -> StepScorer[InputT, OutputT, PreprocessT_co, AnalyzeT_co]:
        """Add the step that says why, in words that work as feedback; ``None`` leaves the reason of the ``Score``."""
        return self._with_step("generate_reason", step)

    def _with_step(self, name: StepName, step: object) -> StepScorer[InputT, OutputT, Any, Any]:
        if name in self.steps:
            msg = f"scorer {self.id!r} has a step {name} already; put both into one function"
            raise UserError(msg)
        if isinstance(step, PromptStep):
            step = bind_prompt_step(self.id, name, cast("PromptStep[Any, Any]", step), self.judge)
        elif not callable(step):
            msg = f"scorer {self.id!r}: the step {name} must be a function of the context or a PromptStep, got {step!r}"
            raise UserError(msg)
        return replace(self, steps=MappingProxyType({**self.steps, name: step}))

    def require_complete(self) -> None:
        """Check that the scorer can give a score.

        Raises:
            UserError: it has no ``generate_score`` step, or a prompt step that no judge can answer.
        """
        if "generate_score" not in self.steps:
            msg = f"scorer {self.id!r} has no generate_score step; add one with .generate_score(fn)"
            raise UserError(msg)
        for step in self.steps.values():
            if isinstance(step, JudgedStep):
                step.require_ready()

    @overload
    async def run(self, run: ScorerRun[InputT, OutputT], /) -> ScorerResult: ...
    @overload
    async def run(
        self: StepScorer[AgentRunInput, AgentRunOutput, Any, Any],
        /,
        **fields: Unpack[RunFields[AgentRunInput | Sequence[MessageLike] | str, Sequence[MessageLike] | str]],
    ) -> ScorerResult: ...
    @overload
    async def run(self, /, **fields: Unpack[RunFields[InputT, OutputT]]) -> ScorerResult: ...
    async def run(self, run: ScorerRun[Any, Any] | None = None, /, **fields: Any) -> ScorerResult:
        """Judge a run, given whole or by its fields: ``await scorer.run(output="...", ground_truth="...")``.

        An empty or missing ``run_id`` is replaced by a new one. With ``type="agent"``, a plain text or a list of
        messages may stand for the agent's input and for its output.

        Raises:
            UserError: the scorer has no ``generate_score`` step, ``prepare_run`` returned no run, or a step misused
                the API.
            ScorerRunError: a step failed, or the score is no finite number. A failure of ``generate_reason`` is not
                raised: the score stands and the error is on the result.
            TypeError: both a run and fields are given, or a field that a run does not have.
        """
        self.require_complete()
        run = self._read_run(run, fields)
        if self.prepare_run is not None:
            run = self._finish_run(await resolve(self.prepare_run(run)))
        return await Play(scorer_id=self.id, steps=self.steps, threshold=self.threshold, run=run).result()

    def _read_run(self, run: object, fields: dict[str, Any]) -> ScorerRun[Any, Any]:
        known = [f.name for f in dataclasses.fields(ScorerRun)]
        if unknown := [name for name in fields if name not in known]:
            msg = f"scorer {self.id!r}: a run has no field {unknown[0]!r}; its fields are {', '.join(known)}"
            raise TypeError(msg)
        if run is None:
            return self._finish_run(ScorerRun(**fields))
        if fields:
            msg = f"scorer {self.id!r}: give a ScorerRun or its fields as keywords, not both"
            raise TypeError(msg)
        if not isinstance(run, ScorerRun):
            msg = f"scorer {self.id!r}: run() takes a ScorerRun or its fields as keywords, got {run!r}"
            raise TypeError(msg)
        return self._finish_run(cast("ScorerRun[Any, Any]", run))

    def _finish_run(self, run: object) -> ScorerRun[Any, Any]:
        """Return the run with an id and, for an agent's scorer, in the agent's shape."""
        if not isinstance(run, ScorerRun):
            msg = f"scorer {self.id!r}: prepare_run must return a ScorerRun, got {run!r}"
            raise UserError(msg)
        run = cast("ScorerRun[Any, Any]", run)
        if not run.run_id:
            run = replace(run, run_id=str(uuid.uuid4()))
        return as_agent_run(self.id, run) if self.type == "agent" else run


@overload
def create_scorer(
    id: str,
    *,
    type: Literal["agent"],
    name: str | None = None,
    description: str | None = None,
    judge: JudgeLike | None = None,
    prepare_run: PrepareRun[AgentRunInput, AgentRunOutput] | None = None,
    threshold: float = 1.0,
) -> StepScorer[AgentRunInput, AgentRunOutput, None, None]: ...
@overload
def create_scorer(
    id: str,
    *,
    input: type[InputT] | None = None,
    output: type[OutputT] | None = None,
    type: None = None,
    name: str | None = None,
    description: str | None = None,
    judge: JudgeLike | None = None,
    prepare_run: PrepareRun[InputT, OutputT] | None = None,
    threshold: float = 1.0,
) -> StepScorer[InputT, OutputT, None, None]: ...
def create_scorer(  # noqa: PLR0913 -- a facade: keyword-only options
    id: str,
    *,
    name: str | None = None,
    description: str | None = None,
    type: Literal["agent"] | None = None,
    input: type[Any] | None = None,
    output: type[Any] | None = None,
    judge: JudgeLike | None = None,
    prepare_run: PrepareRun[Any, Any] | None = None,
    threshold: float = 1.0,
) -> StepScorer[Any, Any, None, None]:
    """Begin a scorer; add its steps with ``.preprocess``, ``.analyze``, ``.generate_score`` and ``.generate_reason``.

    Example::

        scorer = (
            create_scorer("brevity", input=str, output=str)
            .preprocess(lambda ctx: ctx.run.output.split())
            .generate_score(lambda ctx: len(ctx.results.preprocess) <= 50)
            .generate_reason(lambda ctx: f"{len(ctx.results.preprocess)} words; at most 50 are wanted.")
        )
        result = await scorer.run(output="...")

    Args:
        id: identifies the scorer, in results and in feedback.
        name: for people to read; the id where it is not given.
        description: what the scorer judges.
        type: ``"agent"`` for a scorer of an agent's messages: its runs hold an ``AgentRunInput`` and an
            ``AgentRunOutput``. Every other scorer gets an agent's output as text.
        input: the type of ``ctx.run.input``. It tells the type checker; the run is not validated.
        output: the same for ``ctx.run.output``.
        judge: answers the prompt steps: a ``Judge``, or an ``Agent`` with its own instructions and tools. A step may
            override it.
        prepare_run: plain or async function that transforms each run before the steps see it;
            :func:`~mastra_py.scorers.filter_run` makes one. What it raises comes out as it is.
        threshold: the score that passes, from 0.

    Raises:
        UserError: the id is blank, ``threshold`` is negative or not finite, or the options contradict each other.
    """
    if type == "agent" and (input is not None or output is not None):
        msg = f"scorer {id!r}: type='agent' already says what input and output are; leave them out"
        raise UserError(msg)
    return StepScorer(
        id=id,
        name=name or id,
        steps=MappingProxyType({}),
        description=description,
        type=type,
        threshold=threshold,
        prepare_run=prepare_run,
        judge=check_judge(judge, f"scorer {id!r}"),
    )

"""The scorer contract: what a scorer is given, what it answers, and what a check makes of the answers.

A scorer is anything with ``id``, ``name`` and ``async run(run) -> ScorerResult``; ``create_scorer`` builds one from
steps, and :func:`as_scorer` makes one of a plain function.
"""

from __future__ import annotations

import inspect
import sys
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeAlias, cast, runtime_checkable

from typing_extensions import TypeVar

from mastra_py.errors import ScorerRunError, UserError
from mastra_py.messages import Message, ToolCallPart, ToolResultPart
from mastra_py.usage import RunUsage

InputT = TypeVar("InputT", default=Any)
OutputT = TypeVar("OutputT", default=Any)


class AgentRunOutput(tuple[Message, ...]):
    """The response messages of an agent's turn: what ``type="agent"`` scorers see as output."""

    __slots__ = ()

    @property
    def text(self) -> str:
        """The text of the last assistant message; ``""`` where there is none."""
        for message in reversed(self):
            if message.role == "assistant":
                return message.text
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRunInput:
    """What an agent was given, as scorers see it: in the completion check, on live traffic and on traces alike.

    Attributes:
        input_messages: the messages given to the call, as ``process_input`` has left them.
        remembered_messages: earlier messages that a store brought in.
        system_messages: the agent's instructions.
        tagged_system_messages: further system messages by tag.
        task: the whole text of the last user message given to the call.
        iteration: the step that is scored, from 1 (completion check only).
        max_steps: the limit of steps in force (completion check only).
        tool_calls: the run's tool calls so far, in order.
        tool_results: their results, in order.
        agent_id: which agent answered.
        value: the validated object where the call has ``output=``.
    """

    input_messages: tuple[Message, ...] = ()
    remembered_messages: tuple[Message, ...] = ()
    system_messages: tuple[Message, ...] = ()
    tagged_system_messages: Mapping[str, tuple[Message, ...]] = field(default_factory=dict[str, tuple[Message, ...]])
    task: str = ""
    iteration: int | None = None
    max_steps: int | None = None
    tool_calls: tuple[ToolCallPart, ...] = ()
    tool_results: tuple[ToolResultPart, ...] = ()
    agent_id: str | None = None
    value: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerRun(Generic[InputT, OutputT]):
    """What a scorer is given. Its fields are read-only; the values in them are not copied.

    Attributes:
        input: what the scored thing was given; for an agent an :class:`AgentRunInput`.
        output: what it answered; for an agent its text, with ``type="agent"`` an :class:`AgentRunOutput`.
        run_id: id of this scoring run.
        request_context: the caller's context of the scored run: a Mapping, or anything with ``.get``.
        additional_context: more for the scorer alone.
        ground_truth: the right answer, where there is one.
        expected_trajectory: the steps it should have taken, where known.
    """

    input: InputT = cast("Any", None)
    output: OutputT = cast("Any", None)
    run_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    request_context: Any = None
    additional_context: Any = None
    ground_truth: Any = None
    expected_trajectory: Any = None


@dataclass(frozen=True, slots=True)
class Score:
    """A score with its reason; ``passed`` of its own wins over the threshold.

    ``criteria`` are the verdicts it was made of, where it was made of any.
    """

    value: float
    reason: str | None = None
    passed: bool | None = None
    criteria: tuple[CriterionVerdict, ...] = ()


@dataclass(frozen=True, slots=True)
class NotScorable:
    """Nothing here to score: an abstention, not a failure."""

    reason: str | None = None
    step: str | None = None


def not_scorable(reason: str | None = None) -> NotScorable:
    """Return it from a scorer function to end the run without a score."""
    return NotScorable(reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeRecord:
    """What a judge did in one step of a scorer: the evidence.

    Attributes:
        status: whether it gave a usable reply.
        prompt: what it was asked.
        output: what it answered last, as text.
        model: the model's name.
        provider: the model's provider.
        attempts: how often it was asked: 2 where its first reply was unusable.
        model_calls: requests sent, retries among them.
        usage: tokens spent.
        duration: seconds.
        error: why there is no usable reply.
    """

    status: Literal["ok", "failed"]
    prompt: str
    output: str | None
    model: str | None
    provider: str | None
    attempts: int
    model_calls: int
    usage: RunUsage
    duration: float
    error: Exception | None = None

    @property
    def cost(self) -> float | None:
        """USD, where the price of every model that was asked is known."""
        cost = self.usage.cost()
        return None if cost.unknown or not self.usage.calls else cost.usd


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionVerdict:
    """The verdict on one criterion of a rubric. ``required`` ones gate; where none is, all do."""

    id: str
    description: str
    required: bool
    satisfied: bool
    reasoning: str | None = None


def gating_criteria(criteria: tuple[CriterionVerdict, ...]) -> tuple[CriterionVerdict, ...]:
    """Return the criteria that decide: the required ones, or all where none is required."""
    return tuple([c for c in criteria if c.required]) or criteria


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerResult:
    """What a scorer run gave.

    Attributes:
        run_id: id of the scoring run.
        score: the finite score; ``None`` where there is none.
        passed: whether it reaches the scorer's threshold; ``None`` without a score.
        reason: why, in words that work as feedback.
        not_scorable: set where the scorer abstained.
        preprocess: result of that step.
        analyze: result of that step.
        prompts: what judges were asked, by step.
        judge: what judges did, by step; empty where only functions ran.
        criteria: the verdicts that the score was made of, say a rubric scorer's, in the order of its criteria.
        error: what went wrong in a step after the score stood.
        run: the run that was scored, as the steps saw it.
    """

    run_id: str
    score: float | None = None
    passed: bool | None = None
    reason: str | None = None
    not_scorable: NotScorable | None = None
    preprocess: Any = None
    analyze: Any = None
    prompts: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    judge: Mapping[str, JudgeRecord] = field(default_factory=dict[str, JudgeRecord], repr=False)
    criteria: tuple[CriterionVerdict, ...] = ()
    error: Exception | None = None
    run: ScorerRun[Any, Any] | None = field(default=None, repr=False)


@runtime_checkable
class Scorer(Protocol):
    """The port of a scorer. One with ``type = "agent"`` gets messages as output, every other one text."""

    @property
    def id(self) -> str:
        """The name that errors and events know it by."""
        ...

    @property
    def name(self) -> str:
        """What people call it."""
        ...

    async def run(self, run: ScorerRun[Any, Any], /) -> ScorerResult:
        """Judge ``run``. Whatever it raises counts as "could not judge", never as a verdict."""
        ...


@runtime_checkable
class JudgeAgent(Protocol):
    """The port of an agent that judges: an ``Agent`` is one."""

    @property
    def generate(self) -> Callable[..., Awaitable[Any]]:
        """Async function of a prompt and options that answers it; with ``output=`` in that form."""
        ...


FunctionScore: TypeAlias = float | bool | Score | NotScorable
ScorerFunction: TypeAlias = Callable[[ScorerRun[Any, Any]], FunctionScore | Awaitable[FunctionScore]]
ScorerLike: TypeAlias = Scorer | ScorerFunction | str
"""A scorer, a function of the run, or the name of a registered scorer."""


def read_score(value: object) -> Score:
    """Read what a scoring function returned: a finite number (a bool counts as 0 or 1) or a :class:`Score`.

    Raises:
        ValueError: it is neither, or not finite.
    """
    score = value if isinstance(value, Score) else Score(cast("Any", value))
    number = cast("object", score.value)
    if not isinstance(number, int | float) or not abs(number) <= sys.float_info.max:
        msg = f"a score must be a finite number, got {number!r}"
        raise ValueError(msg)
    if score.passed is not None and type(score.passed) is not bool:
        msg = f"passed must be True, False or None, got {score.passed!r}"
        raise ValueError(msg)
    if score.reason is not None and not isinstance(score.reason, str):  # pyright: ignore[reportUnnecessaryIsInstance] -- users write scorers
        msg = f"a reason must be a text or None, got {score.reason!r}"
        raise ValueError(msg)
    value = number if type(number) is int else float(number)
    return Score(value, score.reason, score.passed, tuple(score.criteria))


def passes(score: Score, threshold: float) -> bool:
    """Return whether ``score`` passes: its own ``passed`` wins, else it has to reach ``threshold``."""
    return score.value >= threshold if score.passed is None else score.passed


class FunctionScorer:
    """A plain function as scorer: its name is the id, 1.0 its threshold."""

    __slots__ = ("_function", "id", "name")

    def __init__(self, function: ScorerFunction) -> None:
        self._function = function
        inner: Any = function
        while not hasattr(inner, "__name__") and hasattr(inner, "func"):  # functools.partial
            inner = inner.func
        self.id: str = getattr(inner, "__name__", type(inner).__name__)
        self.name = self.id

    def __repr__(self) -> str:
        return f"FunctionScorer({self.id!r})"

    async def run(self, run: ScorerRun[Any, Any], /) -> ScorerResult:
        """Call the function with ``run`` and read its answer."""
        answer = self._function(run)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, NotScorable):
            return ScorerResult(run_id=run.run_id, not_scorable=answer, run=run)
        try:
            score = read_score(answer)
        except ValueError as exc:
            msg = f"scorer {self.id!r}: {exc}"
            raise ScorerRunError(msg, scorer_id=self.id, failed_step="generate_score") from exc
        return ScorerResult(
            run_id=run.run_id,
            score=score.value,
            passed=passes(score, 1.0),
            reason=score.reason,
            criteria=score.criteria,
            run=run,
        )


class ScorerLookup(Protocol):
    """Finds a registered scorer by name."""

    def get_scorer(self, name: str, /) -> Scorer:
        """Return the scorer registered as ``name``; a :class:`UserError` where there is none."""
        ...


def as_scorer(scorer: ScorerLike, lookup: ScorerLookup | None = None) -> Scorer:
    """Make a scorer of what a user may give as one.

    Raises:
        UserError: it is no scorer, or a name and nothing is registered under it.
    """
    if isinstance(scorer, str):
        if lookup is None:
            msg = f"scorer {scorer!r} is given by name, but the agent is on no Mastra instance that knows it"
            raise UserError(msg)
        return lookup.get_scorer(scorer)
    if isinstance(scorer, type):
        msg = f"scorer {scorer.__name__} is a class; give an instance of it"
        raise UserError(msg)
    check: object = getattr(scorer, "require_complete", None)
    if callable(check):
        check()
    if isinstance(scorer, Scorer):
        return scorer
    if callable(scorer):
        return FunctionScorer(scorer)
    msg = f"{scorer!r} is no scorer: give a scorer, a function of the run, or a registered name"
    raise UserError(msg)


ScorerStatus = Literal["passed", "failed", "errored", "abstained", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerVerdict:
    """One scorer's part of a verdict. ``reason`` of an errored one says what went wrong; the agent never reads it."""

    scorer_id: str
    scorer_name: str
    status: ScorerStatus
    score: float | None = None
    passed: bool | None = None
    reason: str | None = None
    duration: float = 0.0
    error: Exception | None = None
    result: ScorerResult | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one completion check decided.

    Attributes:
        passed: ``True`` complete, ``False`` not, ``None`` where every scorer abstained.
        reason: of the first failed scorer where it failed, of the first passed one where it passed.
        results: an entry for each scorer that was to run, in the order given.
        timed_out: the check's timeout was reached.
        duration: seconds the check took.
    """

    passed: bool | None
    reason: str | None
    results: tuple[ScorerVerdict, ...]
    timed_out: bool = False
    duration: float = 0.0

    def with_status(self, *status: ScorerStatus) -> Sequence[ScorerVerdict]:
        """Return the entries that have one of ``status``, in order."""
        return [r for r in self.results if r.status in status]

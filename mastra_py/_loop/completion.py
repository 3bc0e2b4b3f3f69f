"""The completion check: scorers judge a draft, and their answers make one verdict."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, cast

import anyio
import anyio.abc
import anyio.lowlevel

from mastra_py._checks import is_number
from mastra_py._jsonable import clean_text
from mastra_py._loop.callbacks import logger
from mastra_py._loop.faults import error_in, interrupt_in, message_of, text_of
from mastra_py._loop.feedback import KeepFeedback
from mastra_py._loop.ledger import CURRENT, Account, Ledger
from mastra_py.errors import MastraError, ScorerError, TripWire, UserError
from mastra_py.scoring import (
    NotScorable,
    Score,
    Scorer,
    ScorerLike,
    ScorerLookup,
    ScorerResult,
    ScorerRun,
    ScorerStatus,
    ScorerVerdict,
    Verdict,
    as_scorer,
    passes,
    read_score,
)

Strategy = Literal["all", "any"]
OnScorerError = Literal["stop", "continue", "raise"]
FeedbackFunction: TypeAlias = Callable[[Verdict], str | Awaitable[str]]


@dataclass(frozen=True, slots=True)
class TaskCompletion:
    """When an agent's answer is accepted: the scorers that judge it, and what follows from their verdict.

    Attributes:
        scorers: scorers, functions of the run, or names of registered scorers.
        strategy: ``"all"`` scorers have to pass, or ``"any"`` of them.
        parallel: run them at once; otherwise one after another, up to the one that decides.
        timeout: seconds for one whole check; ``None`` for no limit.
        on_complete: (async) function called with each verdict.
        suppress_feedback: keep feedback and rejected drafts out of the returned and stored history.
        feedback: (async) function of the verdict that writes the feedback instead of the built-in text.
        keep_feedback: ``"latest"`` shows the model only the newest feedback in full, ``"all"`` every one.
        max_attempts: end the run after that many drafts that were not accepted.
        stop_when_stalled: end it after that many checks in a row with the same outcome.
        on_scorer_error: where a scorer could not judge and none rejected: ``"stop"`` ends the run and keeps the answer,
            ``"continue"`` asks the agent again in neutral words, ``"raise"`` raises the scorer's error.

    Raises:
        UserError: an option is out of its range.
    """

    scorers: Sequence[ScorerLike]
    strategy: Strategy = "all"
    parallel: bool = True
    timeout: float | None = 600.0
    on_complete: Callable[[Verdict], Any] | None = None
    suppress_feedback: bool = False
    feedback: FeedbackFunction | None = None
    keep_feedback: KeepFeedback = "latest"
    max_attempts: int | None = None
    stop_when_stalled: int | None = None
    on_scorer_error: OnScorerError = "stop"

    def __post_init__(self) -> None:
        scorers = cast("object", self.scorers)
        if isinstance(scorers, str) or not isinstance(scorers, Sequence):  # one scorer alone
            object.__setattr__(self, "scorers", (scorers,))
        _one_of("strategy", self.strategy, ("all", "any"))
        _one_of("keep_feedback", self.keep_feedback, ("latest", "all"))
        _one_of("on_scorer_error", self.on_scorer_error, ("stop", "continue", "raise"))
        if self.timeout is not None and not (is_number(self.timeout) and self.timeout >= 0):
            msg = f"TaskCompletion timeout must be a finite number of seconds from 0, or None; got {self.timeout!r}"
            raise UserError(msg)
        for name in ("parallel", "suppress_feedback"):
            switch: object = getattr(self, name)
            if not isinstance(switch, bool):
                msg = f"TaskCompletion {name} must be True or False, got {switch!r}"
                raise UserError(msg)
        for name in ("on_complete", "feedback"):
            function: object = getattr(self, name)
            if function is not None and not callable(function):
                msg = f"TaskCompletion {name} must be a function of the verdict, got {function!r}"
                raise UserError(msg)
        for name in ("max_attempts", "stop_when_stalled"):
            value: object = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                msg = f"TaskCompletion {name} must be a whole number from 1, or None; got {value!r}"
                raise UserError(msg)


def _one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        msg = f"TaskCompletion {name} must be one of {', '.join(map(repr, allowed))}; got {value!r}"
        raise UserError(msg)


TaskCompletionLike: TypeAlias = TaskCompletion | ScorerLike | Sequence[ScorerLike]
"""A :class:`TaskCompletion`, or just its scorers: one of them, or a sequence."""


@dataclass(frozen=True, slots=True)
class Gate:
    """A :class:`TaskCompletion` whose scorers have been looked up."""

    config: TaskCompletion
    scorers: tuple[Scorer, ...]


def as_task_completion(value: TaskCompletionLike, where: str) -> TaskCompletion:
    """Return what a user may give as ``is_task_complete``, with its scorers made. Names are looked up later.

    Raises:
        UserError: something in it is no scorer; the error names it.
    """
    config = value if isinstance(value, TaskCompletion) else TaskCompletion(cast("Sequence[ScorerLike]", value))
    try:
        scorers = [s if isinstance(s, str) else as_scorer(s) for s in config.scorers]
    except UserError as exc:
        msg = f"{where}: {exc}"
        raise UserError(msg) from exc
    return replace(config, scorers=tuple(scorers))


def as_gate(config: TaskCompletion | None, lookup: ScorerLookup | None) -> Gate | None:
    """Return the gate with its registered scorers found; ``None`` where there is nothing to check.

    Raises:
        UserError: nothing is registered under a name.
    """
    if config is None or not config.scorers:
        return None
    return Gate(config, tuple([as_scorer(s, lookup) for s in config.scorers]))


MakeRun: TypeAlias = Callable[[Scorer], ScorerRun[Any, Any]]


async def check(gate: Gate, make_run: MakeRun, ledger: Ledger) -> Verdict:
    """Run the gate's scorers on the run that ``make_run`` gives each, and decide. ``ledger`` counts what judges spend.

    Raises:
        UserError: a scorer was misused; that is never taken for an outage.
        TripWire: a processor of a judge stopped the run.
    """
    return await _Check(gate, make_run, ledger).verdict()


class _Check:
    """One check under way: a slot a scorer, filled as they finish. ``fatal`` ends it, raised outside of its tasks."""

    def __init__(self, gate: Gate, make_run: MakeRun, ledger: Ledger) -> None:
        self._gate = gate
        self._ledger = ledger
        self._make_run = make_run
        self._slots: list[ScorerVerdict | None] = [None] * len(gate.scorers)
        self._fatal: BaseException | None = None

    async def verdict(self) -> Verdict:
        begin = anyio.current_time()
        config = self._gate.config
        try:
            with anyio.move_on_after(config.timeout) as deadline:
                everyone = range(len(self._slots))
                # One after another is the same in groups of one: every scorer runs in a task, and context, of its own.
                for group in [everyone] if config.parallel else [(i,) for i in everyone]:
                    await self._run_group(group)
                    if self._decided():
                        break
        finally:
            if self._fatal is not None and not isinstance(self._fatal, Exception):
                raise self._fatal  # the program is to end, even if a cancel came at the same time
        if self._fatal is not None:
            raise self._fatal
        timed_out = deadline.cancelled_caught and not self._decided()
        results = tuple(self._results(timed_out=timed_out))
        passed = _decide(results, config.strategy)
        return Verdict(
            passed=passed,
            reason=_reason(results, passed=passed),
            results=results,
            timed_out=timed_out,
            duration=anyio.current_time() - begin,
        )

    async def _run_group(self, group: Sequence[int]) -> None:
        async with anyio.create_task_group() as tasks:
            for index in group:
                tasks.start_soon(self._run_one, index, tasks)

    async def _run_one(self, index: int, tasks: anyio.abc.TaskGroup) -> None:
        await anyio.lowlevel.checkpoint_if_cancelled()  # else a scorer would still start in a cancelled run
        scorer = self._gate.scorers[index]
        CURRENT.set(Account(self._ledger, f"judge:{scorer.id}"))  # in the context of this task alone
        begin = anyio.current_time()
        try:
            verdict = await _judge(scorer, self._make_run)
        except GeneratorExit:  # the task is being thrown away; nothing may be awaited any more
            raise
        except BaseException as exc:  # noqa: BLE001 -- sorted here; a cancellation is never swallowed
            fatal = interrupt_in(exc) or error_in(exc, (UserError, TripWire))
            if fatal is not None:
                if self._fatal is None or isinstance(self._fatal, Exception):
                    self._fatal = fatal
                tasks.cancel_scope.cancel()
                return
            await anyio.lowlevel.checkpoint_if_cancelled()
            # Nobody has cancelled the check: it is a crash of the scorer, and what follows is on_scorer_error's to say.
            duration = anyio.current_time() - begin
            own = message_of(exc) if isinstance(exc, MastraError) else ""
            reason = clean_text(own or text_of(exc))
            if self._ledger.refused is None:  # else it was not allowed to: that is no fault of its own
                logger.warning("scorer %r could not judge: %s", scorer.id, reason, exc_info=None if own else exc)
            verdict = _errored(scorer, reason, duration, exc)
        self._slots[index] = verdict
        if self._gate.config.strategy == "any" and verdict.status == "passed":
            tasks.cancel_scope.cancel()

    def _decided(self) -> bool:
        """Whether what is known decides the check, so that the scorers still to come need not run."""
        done = [s for s in self._slots if s is not None]
        if self._fatal is not None or len(done) == len(self._slots):
            return True
        if self._gate.config.strategy == "any":
            return any(s.status == "passed" for s in done)
        return not self._gate.config.parallel and any(s.status in {"failed", "errored"} for s in done)

    def _results(self, *, timed_out: bool) -> list[ScorerVerdict]:
        """Return an entry for each scorer that was to run: parallel all of them, else up to the one that decided."""
        config = self._gate.config
        results: list[ScorerVerdict] = []
        for scorer, slot in zip(self._gate.scorers, self._slots, strict=True):
            if slot is not None:
                results.append(slot)
            elif timed_out:
                timeout = config.timeout or 0.0
                reason = f"the scorer did not finish within the check's timeout of {timeout:g} s"
                results.append(_errored(scorer, reason, timeout, None))
            elif config.parallel:
                results.append(_entry(scorer, "cancelled"))
            if slot is None and not config.parallel:
                break
        return results


def _entry(scorer: Scorer, status: ScorerStatus, **facts: Any) -> ScorerVerdict:
    return ScorerVerdict(scorer_id=scorer.id, scorer_name=scorer.name, status=status, **facts)


def _errored(scorer: Scorer, reason: str, duration: float, exc: BaseException | None) -> ScorerVerdict:
    error = exc if isinstance(exc, Exception) else ScorerError(f"scorer {scorer.id!r}: {reason}")
    return _entry(scorer, "errored", passed=False, reason=reason, duration=duration, error=error)


async def _judge(scorer: Scorer, make_run: MakeRun) -> ScorerVerdict:
    begin = anyio.current_time()
    result = await scorer.run(make_run(scorer))
    if not isinstance(result, ScorerResult):  # pyright: ignore[reportUnnecessaryIsInstance] -- users write scorers
        msg = f"scorer {scorer.id!r} returned {type(result).__name__}, not a ScorerResult"
        raise ScorerError(msg)
    duration = anyio.current_time() - begin
    if isinstance(result.not_scorable, NotScorable):
        reason = result.not_scorable.reason
        return _entry(scorer, "abstained", reason=reason, duration=duration, result=result)
    if result.score is None:
        msg = f"scorer {scorer.id!r} gave neither a score nor an abstention"
        raise ScorerError(msg)
    score = read_score(Score(result.score, result.reason, result.passed))
    passed = passes(score, 1.0)
    return _entry(
        scorer,
        "passed" if passed else "failed",
        score=score.value,
        passed=passed,
        reason=score.reason,
        duration=duration,
        result=result,
    )


def _decide(results: Sequence[ScorerVerdict], strategy: Strategy) -> bool | None:
    statuses = {r.status for r in results}
    against = statuses & {"failed", "errored"}
    if "passed" in statuses and (strategy == "any" or not against):
        return True
    return False if against else None


def _reason(results: Sequence[ScorerVerdict], *, passed: bool | None) -> str | None:
    order: tuple[ScorerStatus, ...] = ("passed",) if passed else ("failed", "errored", "abstained")
    for status in order:
        for result in results:
            if result.status == status:
                return result.reason
    return None

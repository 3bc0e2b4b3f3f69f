"""The scorer contract: reading scores, plain functions as scorers, and what counts as a scorer."""

from __future__ import annotations

import functools
from typing import Any

import anyio.lowlevel
import pytest

from mastra_py.errors import ScorerRunError, UserError
from mastra_py.messages import Message, ReasoningPart, TextPart, ToolResultPart
from mastra_py.scoring import (
    AgentRunOutput,
    FunctionScorer,
    NotScorable,
    Score,
    Scorer,
    ScorerResult,
    ScorerRun,
    ScorerVerdict,
    Verdict,
    as_scorer,
    not_scorable,
    passes,
    read_score,
)

RUN = ScorerRun(output="text", run_id="r")


def brief(run: ScorerRun) -> bool:
    return len(run.output) < 10


class Own:
    """A scorer of the user's own."""

    id = "own"
    name = "Own"

    async def run(self, run: ScorerRun[Any, Any], /) -> ScorerResult:
        return ScorerResult(run_id=run.run_id, score=1)


class Registry:
    def __init__(self, **scorers: Scorer) -> None:
        self.scorers = scorers

    def get_scorer(self, name: str, /) -> Scorer:
        if name not in self.scorers:
            msg = f"no scorer {name!r}"
            raise UserError(msg)
        return self.scorers[name]


# --- read_score and passes


@pytest.mark.parametrize(
    ("value", "number", "kind"),
    [(1, 1, int), (0.25, 0.25, float), (-3.5, -3.5, float), (True, 1.0, float), (False, 0.0, float)],
)
def test_a_number_or_a_bool_is_a_score(value: Any, number: float, kind: type) -> None:
    score = read_score(value)
    assert score == Score(number)
    assert type(score.value) is kind


def test_a_score_keeps_its_reason_and_its_verdict() -> None:
    given = Score(True, "because", passed=False)
    assert read_score(given) == Score(1.0, "because", passed=False)


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), None, "1", [1], {"score": 1}, 1j, Score(float("inf"))])
def test_what_is_no_finite_number_is_no_score(value: Any) -> None:
    with pytest.raises(ValueError, match="a score must be a finite number, got"):
        read_score(value)


def test_a_whole_number_beyond_every_float_is_no_score() -> None:
    with pytest.raises(ValueError, match="a score must be a finite number, got"):
        read_score(10**400)


@pytest.mark.parametrize(
    ("score", "threshold", "passed"),
    [
        (Score(1), 1.0, True),
        (Score(0.999), 1.0, False),
        (Score(2), 1.0, True),
        (Score(0.7), 0.7, True),
        (Score(0, passed=True), 1.0, True),
        (Score(5, passed=False), 1.0, False),
    ],
)
def test_a_score_passes_at_its_threshold_and_a_verdict_of_its_own_wins(
    score: Score, threshold: float, passed: bool
) -> None:
    assert passes(score, threshold) is passed


# --- plain functions


async def test_a_function_is_a_scorer_named_after_it() -> None:
    scorer = as_scorer(brief)
    assert (scorer.id, scorer.name) == ("brief", "brief")
    assert await scorer.run(RUN) == ScorerResult(run_id="r", score=1.0, passed=True, run=RUN)


async def test_an_async_function_is_awaited() -> None:
    async def half(run: ScorerRun) -> Score:
        await anyio.lowlevel.checkpoint()
        return Score(0.5, "half of it")

    result = await as_scorer(half).run(RUN)
    assert (result.score, result.passed, result.reason) == (0.5, False, "half of it")


async def test_a_verdict_of_the_functions_own_wins() -> None:
    assert (await as_scorer(lambda run: Score(0.2, passed=True)).run(RUN)).passed is True


def test_a_partial_is_named_after_its_function_and_an_object_after_its_class() -> None:
    class Checker:
        def __call__(self, run: ScorerRun) -> float:
            return 1.0

    assert as_scorer(functools.partial(functools.partial(brief))).id == "brief"
    assert as_scorer(Checker()).id == "Checker"
    assert repr(FunctionScorer(brief)) == "FunctionScorer('brief')"


async def test_a_function_may_abstain() -> None:
    result = await as_scorer(lambda run: not_scorable("no text")).run(RUN)
    assert result == ScorerResult(run_id="r", not_scorable=NotScorable("no text"), run=RUN)


@pytest.mark.parametrize("answer", [None, "1", float("nan")])
async def test_a_function_that_gives_no_score_fails(answer: Any) -> None:
    with pytest.raises(ScorerRunError, match="scorer '<lambda>': a score must be a finite number") as caught:
        await as_scorer(lambda run: answer).run(RUN)
    assert (caught.value.scorer_id, caught.value.failed_step) == ("<lambda>", "generate_score")
    assert isinstance(caught.value.__cause__, ValueError)


async def test_what_a_function_raises_comes_out_as_it_is() -> None:
    error = ValueError("broke")

    def crash(run: ScorerRun) -> float:
        raise error

    with pytest.raises(ValueError, match="broke") as caught:
        await as_scorer(crash).run(RUN)
    assert caught.value is error


# --- what counts as a scorer


def test_a_scorer_stays_what_it_is() -> None:
    own = Own()
    assert as_scorer(own) is own


def test_a_name_is_looked_up() -> None:
    own = Own()
    assert as_scorer("own", Registry(own=own)) is own
    with pytest.raises(UserError, match="no scorer 'other'"):
        as_scorer("other", Registry(own=own))


def test_a_name_without_a_registry_is_refused() -> None:
    with pytest.raises(UserError, match="scorer 'own' is given by name"):
        as_scorer("own")


def test_a_class_is_refused() -> None:
    with pytest.raises(UserError, match="scorer Own is a class; give an instance of it"):
        as_scorer(Own)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("value", [None, 7, {"id": "x"}])
def test_anything_else_is_refused(value: Any) -> None:
    with pytest.raises(UserError, match="is no scorer: give a scorer, a function of the run, or a registered name"):
        as_scorer(value)


def test_a_scorer_that_says_it_is_not_complete_is_refused() -> None:
    class Half(Own):
        def require_complete(self) -> None:
            raise UserError("a step is missing")

    with pytest.raises(UserError, match="a step is missing"):
        as_scorer(Half())


# --- values


def test_the_text_of_an_agents_output_is_that_of_its_last_assistant_message() -> None:
    looking = Message("assistant", "looking")
    found = Message("tool", [ToolResultPart("1", "search", "found")])
    done = Message("assistant", [ReasoningPart("hm"), TextPart("do"), TextPart("ne")])
    assert AgentRunOutput([looking, found, done]).text == "done"
    assert AgentRunOutput([looking, found]).text == "looking"
    assert AgentRunOutput().text == ""


def test_runs_get_ids_of_their_own() -> None:
    assert ScorerRun().run_id != ScorerRun().run_id


def test_a_verdict_gives_its_entries_by_status_in_order() -> None:
    results = tuple(
        ScorerVerdict(scorer_id=str(i), scorer_name=str(i), status=status)
        for i, status in enumerate(("failed", "passed", "errored", "failed"))
    )
    verdict = Verdict(passed=False, reason=None, results=results)
    assert [r.scorer_id for r in verdict.with_status("failed")] == ["0", "3"]
    assert [r.scorer_id for r in verdict.with_status("passed", "errored")] == ["1", "2"]

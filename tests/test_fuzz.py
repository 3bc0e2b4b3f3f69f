"""A short run of ``tests/fuzz/decoders.py``, always of the same cases; ``make fuzz`` runs new ones for longer."""

from __future__ import annotations

import pytest
from fuzz import decoders

from mastra_py import events as e
from mastra_py.messages import Usage

END = e.ModelFinished(finish_reason="stop", usage=Usage())


def test_damaged_replies_end_in_model_errors_and_nothing_else() -> None:
    report = decoders.fuzz(seed=1, seconds=2)
    assert report.failures == [], report
    assert set(report.cases) == {*decoders.DECODERS, "error"}
    assert report.outcomes["whole"] > 0
    assert report.outcomes["stream"] > 0


def test_the_same_seed_makes_the_same_cases() -> None:
    bodies = decoders.corpus()
    assert decoders.make_case(5, 17, bodies) == decoders.make_case(5, 17, bodies)
    assert decoders.make_case(5, 17, bodies) != decoders.make_case(6, 17, bodies)


@pytest.mark.parametrize("name", decoders.DECODERS)
def test_a_body_that_is_left_alone_is_read(name: str) -> None:
    bodies = decoders.corpus()[name]
    outcomes = [decoders.run_case(decoders.Case(name, [body]))[1] for body in bodies]
    assert "whole" in outcomes


@pytest.mark.parametrize(
    "found",
    [
        [],
        [e.TextDelta("x")],
        [e.TextStart(), e.ReasoningStart()],
        [e.TextStart(), e.TextDelta("x"), END],
        [e.ToolInputStart("c", "f"), END],
        [e.ToolInputStart("c", "f"), e.ToolCall("c", "f", {})],
        [END, e.TextStart()],
    ],
)
def test_events_that_are_not_well_formed_are_found(found: list[e.ModelEvent]) -> None:
    with pytest.raises(AssertionError):
        decoders.check_events(found, failed=False)


class Faulty:
    """A decoder with a fault."""

    finished = False

    def decode(self, _chunk: dict[str, object], _name: str | None, /) -> list[e.ModelEvent]:
        raise OSError("a fault")

    def end(self, *, marked: bool) -> list[e.ModelEvent]:
        raise OSError("a fault")

    def fail(self) -> list[e.ModelEvent]:
        return []


class Hanging(Faulty):
    """A decoder that never comes back."""

    def decode(self, _chunk: dict[str, object], _name: str | None, /) -> list[e.ModelEvent]:
        while True:
            pass

    def end(self, *, marked: bool) -> list[e.ModelEvent]:
        return self.decode({}, None)


@pytest.mark.parametrize(("decoder", "words"), [(Faulty, "a fault"), (Hanging, "more than 0.2 seconds of CPU")])
def test_a_fault_is_reported_with_the_way_to_repeat_it(decoder: type[Faulty], words: str) -> None:
    makers = {"chat": lambda _reducer: decoder()}
    report = decoders.fuzz(seed=3, seconds=5, count=4, most_failures=1, makers=makers, case_seconds=0.2)
    assert len(report.failures) == 1
    assert words in report.failures[0]
    assert "again: python tests/fuzz/decoders.py --seed 3 --case" in report.failures[0]

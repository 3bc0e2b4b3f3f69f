"""Fallback models: tried after the processors gave up, never after visible output."""

from __future__ import annotations

from typing import Any

import pytest
from support.streams import read_all, read_failing

from mastra_py import Agent, ModelError, StreamErrorRetryProcessor, UserError
from mastra_py.events import RetryScheduled
from mastra_py.models import FallbackModel
from mastra_py.models.base import ModelProfile
from mastra_py.testing import ScriptedModel, Turn, api_error

DOWN = Turn(error=api_error(500, message="down"))
REFUSED = Turn(error=api_error(401, message="wrong key"))


def models(*scripts: Any) -> list[ScriptedModel]:
    return [ScriptedModel(script, id=f"m{n}", repeat_last=True) for n, script in enumerate(scripts, 1)]


async def test_the_next_model_answers_where_one_has_failed_and_an_event_says_so() -> None:
    first, second = models([DOWN], ["fine"])
    events, result = await read_all(Agent(id="a", model=FallbackModel(first, second)))
    assert (result.text, first.calls, second.calls, result.steps[0].attempts) == ("fine", 1, 1, 2)
    (switch,) = [e for e in events if isinstance(e, RetryScheduled)]
    assert (switch.attempt, switch.delay, switch.model) == (1, 0.0, "m2")


async def test_the_processors_are_asked_first_and_anew_for_each_model() -> None:
    first, second = models([DOWN], [DOWN, "fine"])
    agent = Agent(id="a", model=FallbackModel(first, second), error_processors=[StreamErrorRetryProcessor()])
    events, result = await read_all(agent)
    assert (result.text, first.calls, second.calls) == ("fine", 2, 2)
    assert [e.model for e in events if isinstance(e, RetryScheduled)] == [None, "m2", None]


async def test_what_cannot_be_retried_may_be_fallen_back_from() -> None:
    first, second = models([REFUSED], ["fine"])
    agent = Agent(id="a", model=FallbackModel(first, second), error_processors=[StreamErrorRetryProcessor()])
    assert (await agent.generate("go")).text == "fine"
    assert first.calls == 1


async def test_the_last_models_error_is_the_runs() -> None:
    first, second = models([DOWN], [Turn(error=api_error(401))])
    _, error = await read_failing(Agent(id="a", model=FallbackModel(first, second)))
    assert isinstance(error, ModelError)
    assert (error.status, error.model) == (401, "m2")


async def test_visible_output_forbids_the_fallback() -> None:
    half = Turn(text="half", error=api_error(500), error_at="mid_stream")
    first, second = models([half], ["never"])
    _, error = await read_failing(Agent(id="a", model=FallbackModel(first, second)))
    assert isinstance(error, ModelError)
    assert (error.partial_text, second.calls) == ("half", 0)


async def test_each_step_begins_with_the_first_model() -> None:
    first, second = models([DOWN, "second step"], ["first step"])
    agent = Agent(id="a", model=FallbackModel(first, second))
    _, result = await read_all(agent, is_task_complete=lambda run: run.output == "second step")
    assert [s.text for s in result.steps] == ["first step", "second step"]


def test_it_can_do_what_all_of_them_can() -> None:
    plain = ScriptedModel(["x"], profile=ModelProfile(native_output=False))
    assert not FallbackModel(ScriptedModel(["x"]), plain).profile.native_output
    assert FallbackModel(*models(["x"], ["y"])).id == "m1 | m2"


@pytest.mark.parametrize(
    ("given", "complaint"), [((), "got 0"), (("openai/x",), "got 1"), (("openai/x", "nope"), "'nope'")]
)
def test_it_needs_two_plain_models(given: Any, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        FallbackModel(*given)
    two = FallbackModel(*models(["x"], ["y"]))
    with pytest.raises(UserError, match="one flat list"):
        FallbackModel(two, *models(["z"]))


def test_a_missing_key_of_any_of_them_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    agent = Agent(id="a", model=FallbackModel(ScriptedModel(["x"]), "openai/gpt-5-mini"))
    with pytest.raises(UserError, match="OPENAI_API_KEY"):
        agent.stream("go")

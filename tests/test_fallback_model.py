"""Fallback models: tried after the processors gave up, never after visible output."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from support.streams import read_all, read_failing

from mastra_py import (
    Agent,
    Judge,
    ModelError,
    PromptStep,
    Retry,
    StreamErrorRetryProcessor,
    TripWire,
    UserError,
    create_scorer,
)
from mastra_py.events import RetryScheduled
from mastra_py.models import FallbackModel
from mastra_py.models.legacy import LegacyModel
from mastra_py.models.profile import ModelProfile
from mastra_py.processors import ApiErrorContext
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


async def test_the_last_models_error_says_how_those_before_it_have_failed() -> None:
    first, second, third = models(
        *(
            [Turn(error=api_error(status, message=said))]
            for status, said in ((500, "down"), (429, "slow down"), (401, "no"))
        )
    )
    _, error = await read_failing(Agent(id="a", model=FallbackModel(first, second, third)))
    assert error.__notes__ == [
        "fallen back on after: test/m1: down (status 500)",
        "fallen back on after: test/m2: slow down (status 429)",
    ]


async def test_visible_output_forbids_the_fallback() -> None:
    half = Turn(text="half", error=api_error(500), error_at="mid_stream")
    first, second = models([half], ["never"])
    _, error = await read_failing(Agent(id="a", model=FallbackModel(first, second)))
    assert isinstance(error, ModelError)
    assert (error.partial_text, second.calls) == ("half", 0)


async def test_output_that_nobody_reads_is_not_visible() -> None:
    half = Turn(text="half", error=api_error(500), error_at="mid_stream")
    first, second = models([half], ["whole"])
    assert (await Agent(id="a", model=FallbackModel(first, second)).generate("go")).text == "whole"


async def test_a_reply_that_is_asked_for_again_has_the_models_to_fall_back_on_that_are_left() -> None:
    first, second, third = models([DOWN], ["no number", DOWN], ["3"])
    agent = Agent(id="a", model=FallbackModel(first, second, third))
    result = await agent.generate("go", output=int)
    assert (result.output, first.calls, second.calls, third.calls) == (3, 1, 2, 1)


async def test_each_step_begins_with_the_first_model() -> None:
    first, second = models([DOWN, "second step"], ["first step"])
    agent = Agent(id="a", model=FallbackModel(first, second))
    _, result = await read_all(agent, is_task_complete=lambda run: run.output == "second step")
    assert [s.text for s in result.steps] == ["first step", "second step"]


def test_it_can_do_what_all_of_them_can() -> None:
    plain = ScriptedModel(["x"], profile=ModelProfile(native_output=False))
    assert not FallbackModel(ScriptedModel(["x"]), plain).profile.native_output
    both = FallbackModel(*models(["x"], ["y"]))
    assert (both.id, both.provider) == ("m1 | m2", "test")
    able = ModelProfile(
        strict=True, prefill=True, thinking="budget", default_max_tokens=9, unsupported=frozenset({"seed"})
    )
    bare = ModelProfile(output_with_tools=False, stream_usage=False, unsupported=frozenset({"top_p"}))
    profile = FallbackModel(ScriptedModel(["x"], profile=able), ScriptedModel(["x"], profile=bare)).profile
    assert not any([profile.output_with_tools, profile.stream_usage, profile.strict, profile.prefill, profile.thinking])
    assert (profile.default_max_tokens, profile.unsupported) == (9, {"seed", "top_p"})
    assert FallbackModel(ScriptedModel(["x"], profile=able), ScriptedModel(["y"], profile=able)).profile == able


async def test_each_model_is_told_the_form_of_the_reply_in_its_place() -> None:
    native = ScriptedModel([DOWN], profile=ModelProfile(native_output=True))
    plain = ScriptedModel(['{"n": 1}'], profile=ModelProfile(native_output=False))
    result = await Agent(id="a", model=FallbackModel(native, plain)).generate("go", output=dict[str, int])
    assert result.output == {"n": 1}
    assert [model.requests[0].output for model in (native, plain)] == [None, None]  # in words, which both understand


@pytest.mark.parametrize(
    "error", [TimeoutError(), ConnectionError("refused"), ValueError("odd"), api_error(400), api_error(429)]
)
@pytest.mark.parametrize("where", ["before_first_chunk", "stream_start", "stream_broken"])
async def test_any_failure_of_a_model_is_made_up_for_by_the_next_one(error: Exception, where: Any) -> None:
    first, second = models([Turn(error=error, error_at=where)], ["fine"])
    _, result = await read_all(Agent(id="a", model=FallbackModel(first, second)))
    assert (result.text, first.calls, second.calls, result.usage.requests) == ("fine", 1, 1, 2)


async def test_what_no_model_can_make_up_for_is_not_tried_again() -> None:
    for error in (UserError("misused"), AssertionError("a test's own")):
        first, second = models([Turn(error=error)], ["never"])
        with pytest.raises(type(error)):
            await Agent(id="a", model=FallbackModel(first, second)).generate("go")
        assert second.calls == 0


@pytest.mark.parametrize(
    "turn", [Turn(text="no", finish_reason="refusal"), Turn(text="cut", finish_reason="length"), ""]
)
async def test_a_reply_that_nobody_likes_is_a_reply(turn: Any) -> None:
    first, second = models([turn], ["never"])
    await Agent(id="a", model=FallbackModel(first, second)).generate("go")
    assert second.calls == 0


async def test_the_cap_counts_for_each_model_by_itself() -> None:
    first, second, third = models([DOWN], [DOWN], ["fine"])
    retry = StreamErrorRetryProcessor(max_retries=5)
    agent = Agent(id="a", model=FallbackModel(first, second, third), error_processors=[retry], max_processor_retries=2)
    result = await agent.generate("go")
    assert (first.calls, second.calls, third.calls, result.steps[0].attempts) == (3, 3, 1, 7)


async def test_a_processor_that_stops_the_run_stops_it_before_the_next_model() -> None:
    class Stops:
        id = "stops"

        async def process_api_error(self, ctx: ApiErrorContext, /) -> Retry | None:
            raise TripWire("enough")

    first, second = models([DOWN], ["never"])
    result = await Agent(id="a", model=FallbackModel(first, second), error_processors=[Stops()]).generate("go")
    assert (result.stop_reason, second.calls) == ("tripwire", 0)


async def test_who_leaves_at_the_switch_or_cancels_there_has_the_next_model_not_asked() -> None:
    for cancels in (False, True):
        first, second = models([DOWN], ["never"])
        with anyio.fail_after(5):
            async with Agent(id="a", model=FallbackModel(first, second)).stream("go") as stream:
                async for event in stream:
                    if isinstance(event, RetryScheduled) and cancels:
                        stream.cancel()
                    elif isinstance(event, RetryScheduled):
                        break
                if cancels:
                    assert (await stream.result()).stop_reason == "cancelled"
        assert second.calls == 0


async def test_a_judge_falls_back_too() -> None:
    first, second = models([DOWN], ['{"score": 1}'])
    judge = Judge(model=FallbackModel(first, second), instructions="Judge.")
    scorer = create_scorer("s", judge=judge).generate_score(PromptStep(create_prompt=lambda ctx: "How good is it?"))
    result = await scorer.run(output="x")
    record = result.judge["generate_score"]
    assert (result.score, record.model, record.model_calls) == (1, "m1 | m2", 2)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ((), "got 0"),
        (("openai/x",), "got 1"),
        (("openai/x", "nope"), "'nope'"),
        (("openai/x", None), "got NoneType"),
        ((["openai/x", "openai/y"],), "got list"),
        (("openai/x", "openai/y", "openai/x"), "twice"),
    ],
)
def test_it_needs_two_plain_models(given: Any, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        FallbackModel(*given)
    two = FallbackModel(*models(["x"], ["y"]))
    for odd in (two, LegacyModel(lambda prompt: "x")):
        with pytest.raises(UserError, match="one flat list"):
            FallbackModel(odd, *models(["z"]))
    one = ScriptedModel(["x"])
    with pytest.raises(UserError, match="twice"):
        FallbackModel(one, one)


def test_a_missing_key_of_any_of_them_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    agent = Agent(id="a", model=FallbackModel(ScriptedModel(["x"]), "openai/gpt-5-mini"))
    with pytest.raises(UserError, match="OPENAI_API_KEY"):
        agent.stream("go")


def test_its_profile_has_what_each_of_its_models_has() -> None:
    plain = ScriptedModel(["x"], id="plain", profile=ModelProfile(strict=True, assistant_first=True))
    less = ScriptedModel(
        ["x"], id="less", profile=ModelProfile(strict=True, replay_thinking=False, user_after_tool=False)
    )
    found = FallbackModel(plain, less).profile
    assert found == ModelProfile(strict=True, replay_thinking=False, user_after_tool=False)

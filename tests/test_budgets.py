"""A budget ends a run exactly where a limit is reached, wherever in the run that is."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from pydantic import BaseModel
from support.counting_server import CountingServer
from support.judges import graded
from support.streams import read_all, read_failing, types
from support.supervising import asking, is_valid, model_of, nested, scripted, supervisor, told

from mastra_py import (
    Agent,
    AgentResult,
    Budget,
    Price,
    StreamErrorRetryProcessor,
    TaskCompletion,
    UserError,
)
from mastra_py.events import BudgetExceeded, RunFinished
from mastra_py.messages import Usage
from mastra_py.models import FallbackModel
from mastra_py.testing import ScriptedModel, Turn, api_error

PRICES = {f"test/{name}": Price(input=1_000_000, output=0) for name in ("boss", "kid", "judge-1")}
"""A dollar a token of input."""


async def work() -> str:
    return "worked"


def busy(input: int = 10, output: int = 10, text: str = "") -> Turn:
    usage = Usage(input_tokens=input, output_tokens=output)
    return Turn(text=text, tool_calls=[("w", "work", {})], usage=usage)


def endless(id: str = "boss", turn: Turn | None = None, **options: Any) -> Agent:
    """Return an agent that calls tools for ever, ten tokens in and ten out a step."""
    model = ScriptedModel([turn or busy(text="more ")], repeat_last=True, id=id)
    return Agent(**{"id": id, "model": model, "tools": [work], "defaults": {"max_steps": 50}, **options})


def ended(result: AgentResult[Any], limit: str) -> None:
    assert (result.stop_reason, result.limit) == ("budget", limit)
    is_valid(result.messages)


LIMITS: dict[str, tuple[Any, int]] = {
    # limit, and how many steps of ten tokens each way are made: what is under way when it is reached still counts
    "max_requests": (4, 4),
    "max_input_tokens": (30, 3),
    "max_output_tokens": (31, 4),
    "max_cost": (50.0, 5),
}


def budget(limit: str, value: Any = None) -> Budget:
    return Budget(**{limit: LIMITS[limit][0] if value is None else value, "prices": PRICES})


# --- each limit, in the run's own steps


@pytest.mark.parametrize("limit", LIMITS)
async def test_a_run_stops_exactly_at_each_limit(limit: str) -> None:
    boss = endless()
    events, result = await read_all(boss, budget=budget(limit))
    ended(result, limit)
    assert model_of(boss).calls == len(result.steps) == LIMITS[limit][1]
    assert (result.text, result.steps[-1].text) == ("more ", "more ")
    *_, exceeded, last = events
    assert isinstance(exceeded, BudgetExceeded)
    assert (exceeded.limit, exceeded.usage, exceeded.step) == (limit, result.usage, len(result.steps))
    assert isinstance(last, RunFinished)
    assert (last.stop_reason, last.text) == ("budget", "more ")


@pytest.mark.parametrize("limit", LIMITS)
async def test_an_answer_that_reaches_a_limit_is_an_answer(limit: str) -> None:
    steps = LIMITS[limit][1]
    answer = Turn(text="answer", usage=Usage(input_tokens=10, output_tokens=10))
    boss = scripted("boss", *[busy()] * (steps - 1), answer, tools=[work], defaults={"max_steps": 50})
    events, result = await read_all(boss, budget=budget(limit))
    assert (result.stop_reason, result.limit, result.text) == ("answered", None, "answer")
    assert "budget-exceeded" not in types(events)


async def test_requests_are_what_a_server_sees() -> None:
    turns = [500, *[Turn(tool_calls=[("w", "work", {})])] * 9]
    with anyio.fail_after(10):
        async with CountingServer({"boss": turns}) as server:
            boss = server.agent("boss", tools=[work], error_processors=[StreamErrorRetryProcessor()])
            result = await boss.generate("go", budget=Budget(max_requests=4), max_steps=50)
    ended(result, "max_requests")
    assert (len(server.requests), result.usage.requests, len(result.steps)) == (4, 4, 3)


# --- in whatever works for the run


@pytest.mark.parametrize("limit", LIMITS)
async def test_what_a_sub_agent_spends_ends_both(limit: str) -> None:
    kid = endless("kid")
    boss = supervisor(
        Turn(tool_calls=asking(("kid", "1")).tool_calls, usage=Usage(input_tokens=10, output_tokens=10)), kid, then=()
    )
    events, result = await read_all(boss, budget=budget(limit))
    ended(result, limit)
    assert (model_of(boss).calls, model_of(kid).calls) == (1, LIMITS[limit][1] - 1)
    [(is_error, text)] = told(result)
    assert is_error
    assert text.startswith("agent 'kid' did not finish: budget")
    assert [e.event.limit for e in nested(events) if isinstance(e.event, BudgetExceeded)] == [limit]
    assert types(events)[-3:] == ["step-finish", "budget-exceeded", "finish"]


@pytest.mark.parametrize("limit", LIMITS)
async def test_a_sub_agents_smaller_budget_ends_it_alone(limit: str) -> None:
    kid = endless("kid", defaults={"budget": budget(limit), "max_steps": 50})
    boss = supervisor(asking(("kid", "1")), kid)
    events, result = await read_all(boss, budget=Budget(max_requests=50, max_input_tokens=5000))
    assert (result.stop_reason, result.limit, result.text) == ("answered", None, "done")
    assert model_of(kid).calls == LIMITS[limit][1]
    assert [e.event.limit for e in nested(events) if isinstance(e.event, BudgetExceeded)] == [limit]
    assert "budget-exceeded" not in types(events)


async def test_a_sub_agents_larger_budget_gives_it_no_more_than_what_is_left() -> None:
    kid = endless("kid", defaults={"budget": Budget(max_requests=40), "max_steps": 50})
    result = await supervisor(asking(("kid", "1")), kid, then=()).generate("go", budget=Budget(max_requests=5))
    ended(result, "max_requests")
    assert result.usage.requests == 5


async def test_parallel_sub_agents_together_send_no_more_than_allowed() -> None:
    kids = [endless(name) for name in ("a", "b", "c")]
    boss = supervisor(asking(("a", "1"), ("b", "2"), ("c", "3")), *kids, then=())
    result = await boss.generate("go", budget=Budget(max_requests=8))
    ended(result, "max_requests")
    assert result.usage.requests == 8 == 1 + sum(model_of(kid).calls for kid in kids)
    assert all(is_error for is_error, _ in told(result))


async def test_a_budget_holds_several_levels_down_and_a_smaller_one_between_ends_its_level() -> None:
    deep = endless("deep")
    middle = scripted(
        "middle", asking(("deep", "1")), "so far", agents={"deep": deep}, defaults={"budget": Budget(max_requests=3)}
    )
    result = await supervisor(asking(("middle", "1")), middle).generate("go", budget=Budget(max_requests=9))
    assert (result.stop_reason, model_of(deep).calls, model_of(middle).calls) == ("answered", 2, 1)
    result = await supervisor(
        asking(("middle", "1")), scripted("middle", asking(("deep", "1")), agents={"deep": endless("deep")}), then=()
    ).generate("go", budget=Budget(max_requests=4))
    ended(result, "max_requests")


async def test_an_agent_inside_of_a_plain_tool_spends_from_the_budget_too() -> None:
    inner = endless("inner")

    async def ask() -> str:
        return (await inner.generate("go")).stop_reason

    boss = scripted("boss", Turn(tool_calls=[("a", "ask", {})]), tools=[ask])
    result = await boss.generate("go", budget=Budget(max_requests=3))
    ended(result, "max_requests")
    assert (told(result), model_of(inner).calls) == ([(False, "budget")], 2)


@pytest.mark.parametrize("limit", LIMITS)
async def test_a_judge_that_may_not_be_asked_any_more_ends_the_run_and_the_draft_is_kept(limit: str) -> None:
    reply = Turn(text='{"score": 0}', usage=Usage(input_tokens=10, output_tokens=10))
    draft = Turn(text="draft", usage=Usage(input_tokens=10, output_tokens=10))
    judge, model = graded(*[reply] * 9)
    boss = scripted("boss", *[draft] * 9, defaults={"max_steps": 50})
    events, result = await read_all(boss, is_task_complete=[judge], budget=budget(limit))
    ended(result, limit)
    assert model.calls + model_of(boss).calls == LIMITS[limit][1]
    assert result.text == "draft"
    assert types(events)[-2:] == ["budget-exceeded", "finish"]


@pytest.mark.parametrize("on_scorer_error", ["stop", "continue", "raise"])
async def test_a_judge_that_was_refused_is_no_scorers_outage(on_scorer_error: Any) -> None:
    judge, model = graded('{"score": 1}')
    gate = TaskCompletion([judge], on_scorer_error=on_scorer_error)
    result = await scripted("boss", "draft").generate("go", is_task_complete=gate, budget=Budget(max_requests=1))
    ended(result, "max_requests")
    assert (model.calls, result.text) == (0, "draft")


async def test_a_budget_goes_before_a_pass_of_another_scorer_and_before_the_last_step() -> None:
    judge, _ = graded('{"score": 1}')
    gate = TaskCompletion([judge, lambda _: True], strategy="any", parallel=False)
    result = await scripted("boss", "draft").generate("go", is_task_complete=gate, budget=Budget(max_requests=1))
    ended(result, "max_requests")
    result = await endless().generate("go", max_steps=2, budget=Budget(max_requests=2), stop_when=lambda _: True)
    assert result.stop_reason == "stop_when"
    result = await endless().generate("go", max_steps=2, budget=Budget(max_requests=2))
    ended(result, "max_requests")


async def test_a_retry_that_the_budget_forbids_is_neither_waited_for_nor_announced() -> None:
    boss = scripted(
        "boss",
        Turn(text="half", error=api_error(500), error_at="mid_stream"),
        error_processors=[StreamErrorRetryProcessor(delay=1000.0)],
    )
    with anyio.fail_after(5):
        events, result = await read_all(boss, budget=Budget(max_requests=1))
    ended(result, "max_requests")
    assert "retry-scheduled" not in types(events)
    assert (result.finish_reason, result.text) == ("error", "")


async def test_a_fallback_model_and_a_reask_are_requests_like_any_other() -> None:
    first, second = ScriptedModel([Turn(error=api_error(500))]), ScriptedModel(["x"])
    result = await Agent(id="a", model=FallbackModel(first, second)).generate("go", budget=Budget(max_requests=1))
    ended(result, "max_requests")
    assert (first.calls, second.calls) == (1, 0)
    asked = scripted("a", "no JSON", "none")
    result = await asked.generate("go", output=Answer, budget=Budget(max_requests=1))
    ended(result, "max_requests")
    assert model_of(asked).calls == 1


class Answer(BaseModel):
    value: int


async def test_a_reask_of_a_judge_is_a_request_like_any_other() -> None:
    judge, model = graded("no JSON", '{"score": 1}')
    result = await scripted("boss", "draft").generate("go", is_task_complete=[judge], budget=Budget(max_requests=2))
    ended(result, "max_requests")
    assert model.calls == 1


async def test_ten_times_a_tenth_reach_a_limit_of_cost_of_one() -> None:
    agent = endless(turn=busy(1))
    limited = Budget(max_cost=1.0, prices={"test/boss": Price(input=100_000, output=0)})
    ended(result := await agent.generate("go", budget=limited), "max_cost")
    assert result.usage.requests == 10


# --- a price that is not known


async def test_a_limit_of_cost_that_cannot_be_kept_is_refused_before_anything_is_sent() -> None:
    kid = scripted("kid")
    boss = supervisor(asking(("kid", "1")), kid)
    limited = Budget(max_cost=1.0, prices={"test/boss": Price(input=1, output=1)})
    with pytest.raises(UserError, match=r"'boss'.*test/kid"):
        boss.stream("go", budget=limited)
    own = scripted("own", defaults={"budget": Budget(max_cost=1.0)})
    with pytest.raises(UserError, match=r"'own'.*test/own"):
        supervisor(asking(("own", "1")), own).stream("go")
    spare = Agent(id="a", model=FallbackModel(ScriptedModel([], id="boss"), ScriptedModel([], id="spare")))
    with pytest.raises(UserError, match="test/spare"):
        spare.stream("go", budget=limited)
    assert model_of(boss).calls == 0


async def test_a_judge_whose_price_is_not_known_ends_the_run_loudly_before_it_is_asked() -> None:
    judge, model = graded('{"score": 1}')
    limited = Budget(max_cost=1.0, prices={"test/boss": Price(input=1, output=1)})
    _, error = await read_failing(scripted("boss", "draft"), is_task_complete=[judge], budget=limited)
    assert isinstance(error, UserError)
    assert "test/judge-1" in str(error)
    assert model.calls == 0


async def test_an_agent_in_a_tool_whose_price_is_not_known_is_not_asked() -> None:
    inner = scripted("inner")

    async def ask() -> str:
        return (await inner.generate("go")).text

    boss = scripted("boss", Turn(tool_calls=[("a", "ask", {})]), "done", tools=[ask])
    result = await boss.generate("go", budget=Budget(max_cost=1.0, prices=PRICES))
    [(is_error, text)] = told(result)
    assert is_error
    assert "test/inner" in text
    assert model_of(inner).calls == 0


async def test_prices_that_the_library_knows_keep_a_limit_of_cost() -> None:
    model = ScriptedModel([busy(1_000_000)], repeat_last=True, id="gpt-4o-mini")
    model.provider = "openai"
    boss = Agent(id="boss", model=model, tools=[work])
    result = await boss.generate("go", budget=Budget(max_cost=0.000001))
    ended(result, "max_cost")
    assert model.calls == 1


# --- what is refused at once


@pytest.mark.parametrize("value", [0, -1, "1", True, 1.5])
@pytest.mark.parametrize("limit", ["max_requests", "max_input_tokens", "max_output_tokens"])
def test_a_whole_limit_that_makes_no_sense_is_refused(limit: str, value: Any) -> None:
    with pytest.raises(UserError, match=limit):
        Budget(**{limit: value})


@pytest.mark.parametrize("value", [0, -1.0, "1", True, float("nan"), float("inf"), pytest.param(10**400, id="huge")])
@pytest.mark.parametrize("limit", ["max_cost", "deadline"])
def test_a_limit_that_makes_no_sense_is_refused(limit: str, value: Any) -> None:
    with pytest.raises(UserError, match=limit):
        Budget(**{limit: value})


@pytest.mark.parametrize(
    "prices", [{"a/b": 1}, [("a/b", 1)], {"b": Price(input=1, output=1)}, {("a", "b"): Price(input=1, output=1)}]
)
def test_prices_that_are_none_are_refused(prices: Any) -> None:
    with pytest.raises(UserError, match="prices"):
        Budget(prices=prices)


def test_what_is_no_budget_is_refused_by_the_call() -> None:
    with pytest.raises(UserError, match="budget"):
        scripted("boss").stream("go", budget={"max_requests": 1})  # type: ignore[arg-type]

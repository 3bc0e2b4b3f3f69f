"""What a run costs: by prices that are given, by those that a library knows, and unknown where neither has any."""

from __future__ import annotations

import math
from typing import Any

import pytest
from support.judges import prompt
from support.supervising import asking, scripted, supervisor

from mastra_py import Agent, Cost, Judge, Price, UserError, create_scorer
from mastra_py.messages import Usage
from mastra_py.testing import ScriptedModel, Turn
from mastra_py.usage import RunUsage

MILLION = 1_000_000


def priced(provider: str, name: str, *turns: Any) -> ScriptedModel:
    """Return a scripted model that counts as another one."""
    model = ScriptedModel(turns, id=name)
    model.provider = provider
    return model


def says(text: str, tokens: int = MILLION, cached: int = 0) -> Turn:
    return Turn(text=text, usage=Usage(input_tokens=tokens, output_tokens=tokens, cached_input_tokens=cached))


def usage_of(provider: str, name: str, *usages: Usage) -> RunUsage:
    return RunUsage(by={}, calls={(provider, name): usages})


async def test_given_prices_count_for_all_models_of_a_run() -> None:
    kid = scripted("kid", says("x"))
    result = await supervisor(asking(("kid", "1")), kid, then=[says("done")]).generate("go")
    prices = {"test/boss": Price(input=1, output=10), "test/kid": Price(input=100, output=1000)}
    cost = result.usage.cost(prices)
    assert cost == Cost(usd=pytest.approx(11 * (1 + 1 / MILLION) + 1100), unknown=())  # type: ignore[arg-type]


async def test_a_model_without_a_price_is_unknown_and_never_free() -> None:
    kid = scripted("kid", says("x"))
    result = await supervisor(asking(("kid", "1")), kid).generate("go")
    assert result.usage.cost() == Cost(usd=0.0, unknown=("test/boss", "test/kid"))
    some = result.usage.cost({"test/kid": Price(input=1, output=1)})
    assert (some.usd, some.unknown) == (pytest.approx(2), ("test/boss",))


async def test_what_a_request_costs_that_reports_nothing_is_not_known_to_be_nothing() -> None:
    result = await scripted("boss", Turn(text="x", usage=Usage())).generate("go")
    assert result.usage.cost() == Cost(usd=0.0, uncounted=1)


def test_a_model_in_this_process_costs_nothing() -> None:
    spent = Usage(input_tokens=1000, output_tokens=1000)
    usage = RunUsage(by={}, requests=1, calls={("local", "smollm2"): [spent]})
    assert usage.cost() == Cost(usd=0.0)


async def test_prices_that_the_library_knows_need_not_be_given() -> None:
    model = priced("openai", "gpt-4o-mini", says("x", 1000))
    known = (await Agent(id="a", model=model).generate("go")).usage
    assert known.cost().usd > 0
    assert known.cost().unknown == ()
    assert known.cost({"openai/gpt-4o-mini": Price(input=0, output=0)}).usd == 0, "given ones go first"


def test_cached_tokens_have_their_own_price() -> None:
    usage = usage_of("test", "m", Usage(input_tokens=MILLION, cached_input_tokens=MILLION // 2, output_tokens=0))
    assert usage.cost({"test/m": Price(input=10, output=1, cached_input=2)}).usd == pytest.approx(6)
    assert usage.cost({"test/m": Price(input=10, output=1)}).usd == pytest.approx(10)


@pytest.mark.parametrize("provider", ["test", "openai"])
def test_more_cached_tokens_than_input_tokens_are_no_more_than_all_of_them(provider: str) -> None:
    prices = {"test/gpt-4o-mini": Price(input=10, output=1, cached_input=2)}
    odd = usage_of(provider, "gpt-4o-mini", Usage(input_tokens=10, cached_input_tokens=50, output_tokens=0))
    even = usage_of(provider, "gpt-4o-mini", Usage(input_tokens=10, cached_input_tokens=10, output_tokens=0))
    assert odd.cost(prices) == even.cost(prices)
    assert odd.cost(prices).usd > 0


def test_each_call_is_priced_by_itself_as_long_prompts_may_cost_more() -> None:
    half = Usage(input_tokens=150_000, output_tokens=0)
    whole = half + half
    name = ("google", "gemini-2.5-pro")
    together, apart = usage_of(*name, whole).cost().usd, usage_of(*name, half, half).cost().usd
    assert 0 < apart < together


async def test_the_record_of_a_judge_says_what_it_cost_where_that_is_known() -> None:
    async def record(model: ScriptedModel) -> Any:
        scorer = create_scorer("quality", judge=Judge(model=model, instructions="You grade."))
        result = await scorer.generate_score(prompt()).run(input="q", output="a")
        return result.judge["generate_score"]

    known = await record(priced("openai", "gpt-4o-mini", says('{"score": 1}', 1000)))
    assert known.cost == known.usage.cost().usd > 0
    assert (known.usage.requests, known.model_calls) == (1, 1)
    assert (await record(priced("test", "nobody", says('{"score": 1}')))).cost is None
    assert (await record(priced("openai", "gpt-4o-mini", Turn(text='{"score": 1}', usage=Usage())))).cost is None


@pytest.mark.parametrize("prices", [[], 1, {"a/b": 1}, {"b": Price(input=1, output=1)}])
def test_prices_that_are_none_are_refused(prices: Any) -> None:
    with pytest.raises(UserError, match="prices must be"):
        usage_of("a", "b", Usage(input_tokens=1)).cost(prices)


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, "1", True, None, pytest.param(10**400, id="huge")])
@pytest.mark.parametrize("name", ["input", "output"])
def test_a_price_that_is_none_is_refused(name: str, value: Any) -> None:
    with pytest.raises(UserError, match=name):
        Price(**{"input": 1, "output": 1, name: value})


async def test_the_record_of_an_agent_that_judges_has_what_its_whole_run_has_spent() -> None:
    helper = Agent(id="helper", model=priced("openai", "gpt-4o-mini", says("fine", 1000)))
    model = priced("openai", "gpt-4o-mini", asking(("helper", "1")), says('{"score": 1}', 1000))
    scorer = create_scorer("quality", judge=Agent(id="judge", model=model, agents={"helper": helper}))
    record = (await scorer.generate_score(prompt()).run(input="q", output="a")).judge["generate_score"]
    assert (record.usage.input_tokens, record.model_calls) == (2001, 3)
    assert record.cost == record.usage.cost().usd > 0

"""The gate where its judge lies: small versions of what benchmarks/ measures."""

from __future__ import annotations

import pytest
from gate_simulation import simulate


@pytest.mark.parametrize("lies", [0.05, 0.2, 1.0])
async def test_a_lying_judge_never_gets_an_unfinished_task_accepted(lies: float) -> None:
    counts = await simulate(60, seed=7, lies=lies)
    assert counts.false_accepts == 0
    if lies < 1:
        assert counts.accepted > 30
        assert counts.false_rejects <= 1


async def test_an_outage_of_the_judge_costs_one_call_of_the_agent() -> None:
    counts = await simulate(20, seed=7, lies=0, down=lambda call: call > 0)
    assert (counts.agent_calls, counts.ends) == (20, {"scorer_error": 20})


async def test_the_prompt_hardly_grows_with_the_rounds() -> None:
    counts = await simulate(60, seed=7, lies=0.2)
    assert counts.growth
    assert sum(counts.growth) / len(counts.growth) <= 1.5

"""Have a model judge: it gives the score and says why, and only a request that failed is made again.

Run it:

    python examples/judge_scorer.py
    MASTRA_EXAMPLE_MODEL=openai/gpt-5-mini python examples/judge_scorer.py

No provider fails on demand, so the failures are scripted; a real model only fails if it does.
"""

import os
import re

import anyio
from pydantic import BaseModel

from mastra_py import (
    Agent,
    ApiErrorContext,
    Judge,
    PromptStep,
    ScorerRunError,
    StreamErrorRetryProcessor,
    create_scorer,
    tool,
)
from mastra_py.scorers import StepContext
from mastra_py.testing import ScriptedModel, Turn, api_error

REAL_MODEL = os.environ.get("MASTRA_EXAMPLE_MODEL")


def is_transient_network_error(error: Exception) -> bool:
    """Match what proxies say in words only."""
    return re.search("ECONNRESET|ETIMEDOUT|socket hang up", str(error)) is not None


def longer_each_time(ctx: ApiErrorContext) -> float:
    """Wait 0.01 s, 0.02 s, ...; with a real provider rather a second, two seconds, ..."""
    return min(0.01 * 2**ctx.retry_count, 30.0)


retry = StreamErrorRetryProcessor(
    max_retries=2,
    max_retry_after=30.0,
    delay=longer_each_time,
    matchers=[is_transient_network_error],
)


async def response_quality() -> None:
    """A score and its reason, each answered by the judge. The outage before the reason does not repeat the score."""
    turns = [
        Turn(error=api_error(502, message="socket hang up")),
        '{"score": 0.6}',
        Turn(error=api_error(503)),
        "It names no price.",
    ]
    judge = Judge(
        model=REAL_MODEL or ScriptedModel(turns),
        instructions="Return a score from 0 to 1, and a concise reason.",
        error_processors=[retry],
        max_processor_retries=2,
    )
    scorer = (
        create_scorer("response-quality", description="Scores response quality", judge=judge)
        .generate_score(
            PromptStep(
                description="Score the response quality.",
                create_prompt=lambda ctx: f"Score: {ctx.run.output}",
            )
        )
        .generate_reason(
            PromptStep(
                description="Explain the score.",
                create_prompt=lambda ctx: f"Explain the score {ctx.score} of: {ctx.run.output}",
            )
        )
    )
    try:
        result = await scorer.run(output="Our mountain tea is picked by hand.")
    except ScorerRunError as error:  # a judge that gives no verdict is an error, never a score
        print(error)
        assert REAL_MODEL
        return
    print(f"{result.score}: {result.reason}")
    for step, record in result.judge.items():
        print(f"   {step}: {record.model_calls} requests, {record.usage.total_tokens} tokens")
    assert REAL_MODEL or [record.model_calls for record in result.judge.values()] == [2, 2]


class Claims(BaseModel):
    """What the judge answers in the first step."""

    claims: list[str]
    supported: list[bool]


def share_supported(ctx: StepContext[str, str, None, Claims]) -> float:
    """Work out the score in code: what a model need not do, it cannot get wrong."""
    found = ctx.results.analyze
    return sum(found.supported) / max(1, len(found.claims))


async def faithfulness() -> None:
    """A judge that reads and code that counts: the reply is validated into a type before the next step sees it."""
    reply = '{"claims": ["picked by hand", "grown in Norway"], "supported": [true, false]}'
    judge = Judge(model=REAL_MODEL or ScriptedModel([f"Here you are:\n{reply}"]), instructions="You check facts.")
    scorer = (
        create_scorer("faithfulness", input=str, output=str, judge=judge)
        .analyze(
            PromptStep(
                output=Claims,
                create_prompt=lambda ctx: (
                    "Which claims of the answer does the source support?\n\n"
                    f"Source: {ctx.run.input}\n\nAnswer: {ctx.run.output}"
                ),
            )
        )
        .generate_score(share_supported)
    )
    try:
        result = await scorer.run(input="Tea picked by hand.", output="Tea from Norway, picked by hand.")
    except ScorerRunError as error:
        print(error)
        assert REAL_MODEL
        return
    print(f"{result.score}: {result.analyze}")
    assert REAL_MODEL or result.score == 0.5


@tool
def price_of(article: str) -> float:
    """Tell the price of an article."""
    return {"mountain tea": 4.5}.get(article, 0.0)


async def an_agent_judges() -> None:
    """An agent as judge may look things up; in the gate its reason is what the writer reads."""
    checking = [Turn(tool_calls=[("1", "price_of", {"article": "mountain tea"})]), '{"score": 0}', "It costs 4.50."]
    passing = [Turn(tool_calls=[("2", "price_of", {"article": "mountain tea"})]), '{"score": 1}', "The price is right."]
    checker = Agent(
        id="price-checker",
        instructions="You check prices. A wrong or missing price scores 0, a right one 1.",
        model=REAL_MODEL or ScriptedModel([*checking, *passing]),
        tools=[price_of],
    )
    right_price = (
        create_scorer("right-price", judge=checker)
        .generate_score(PromptStep(create_prompt=lambda ctx: f"Is the price right? {ctx.run.output}"))
        .generate_reason(PromptStep(create_prompt=lambda ctx: f"Say what to mend, if anything: {ctx.run.output}"))
    )
    drafts = ["Mountain tea: 5 euros.", "Mountain tea: 4.50 euros."]
    writer = Agent(id="copywriter", instructions="Write one line.", model=REAL_MODEL or ScriptedModel(drafts))
    result = await writer.generate("Advertise our mountain tea", is_task_complete=right_price, max_steps=3)
    print(f"{result.stop_reason}: {result.text}")
    for who, usage in result.usage.by.items():
        print(f"   {who}: {usage.total_tokens} tokens")
    if REAL_MODEL is None:
        assert (result.text, result.stop_reason) == (drafts[1], "complete")
        assert result.usage.by["judge:right-price"].total_tokens == 12


async def main() -> None:
    """Let a model, and an agent, judge."""
    await response_quality()
    await faithfulness()
    await an_agent_judges()


if __name__ == "__main__":
    anyio.run(main)

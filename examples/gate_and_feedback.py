"""Let scorers decide when an answer is good: the reason they give is what the agent reads before its next try.

Run it:

    python examples/gate_and_feedback.py
    MASTRA_EXAMPLE_MODEL=openai/gpt-5-mini python examples/gate_and_feedback.py
"""

import os

import anyio

from mastra_py import Agent, AgentRunInput, Score, ScorerRun, TaskCompletion, Verdict, create_scorer
from mastra_py.testing import ScriptedModel

REAL_MODEL = os.environ.get("MASTRA_EXAMPLE_MODEL")
DRAFTS = [
    "Our tea is picked by hand high up in the mountains and then carried down to the sea on the backs of mules.",
    "Mountain tea, picked by hand.",
    "Mountain tea, picked by hand: 4.50 euros a box.",
]


def names_the_price(run: ScorerRun[AgentRunInput, str]) -> Score:
    """Judge as a plain function: a number, a bool or a Score. Its reason is what the agent reads."""
    return Score(1) if "4.50" in run.output else Score(0, "The price is missing: 4.50 euros a box.")


brevity = (
    create_scorer("brevity", input=AgentRunInput, output=str)
    .preprocess(lambda ctx: len(ctx.run.output.split()))
    .generate_score(lambda ctx: min(1.0, 15 / max(1, ctx.results.preprocess)))
    .generate_reason(lambda ctx: f"{ctx.results.preprocess} words; at most 15 are wanted.")
)


def copywriter() -> Agent:
    """Return an agent; without a real model its drafts get better one by one."""
    return Agent(id="copywriter", instructions="Write one line.", model=REAL_MODEL or ScriptedModel(DRAFTS))


async def until_it_is_accepted() -> None:
    """Go on until both scorers pass, and look at each draft on the way."""
    verdicts: list[Verdict] = []
    gate = TaskCompletion(
        scorers=[names_the_price, brevity],
        strategy="all",
        timeout=10.0,
        stop_when_stalled=3,
        on_complete=verdicts.append,
    )
    result = await copywriter().generate("Advertise our mountain tea", is_task_complete=gate, max_steps=6)
    for attempt in result.attempts:
        print(f"{attempt.attempt}. {attempt.text}\n   {'accepted' if attempt.accepted else attempt.verdict.reason}")
    assert [attempt.verdict for attempt in result.attempts] == verdicts
    assert result.accepted == (result.stop_reason == "complete")
    if REAL_MODEL is None:
        assert [attempt.text for attempt in result.attempts] == DRAFTS
        told = [message.parts[0] for message in result.messages if message.is_feedback]
        assert "The price is missing" in str(told[0])
        assert "20 words" not in str(told[1])  # only the reasons that still hold


async def the_best_of_two() -> None:
    """Where no draft is accepted in time the run says so, and the best one is at hand."""
    gate = TaskCompletion([names_the_price, brevity], max_attempts=2)
    result = await copywriter().generate("Advertise our mountain tea", is_task_complete=gate)
    assert result.best is not None
    print(f"{result.stop_reason}, the best of {len(result.attempts)}: {result.best.text}")
    assert result.accepted or result.stop_reason == "max_attempts"
    if REAL_MODEL is None:
        assert result.stop_reason == "max_attempts"
        assert result.best.text == DRAFTS[1]
        assert [r.status for r in result.best.verdict.results] == ["failed", "passed"]


async def main() -> None:
    """Run the gate to its good end, and to an end that comes too early."""
    await until_it_is_accepted()
    await the_best_of_two()


if __name__ == "__main__":
    anyio.run(main)

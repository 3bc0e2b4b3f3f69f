"""An agent that corrects itself, on a real model in this process: no key, no server, no network.

    make demo                              the local model
    make demo SEEDS=10                     ten runs, and how many of them were accepted
    make demo MODEL=openai/gpt-5-mini      another model; so does a key in OPENAI_API_KEY

The agent writes; functions check facts about what it wrote; their reasons go back, and it writes again, until all of
them accept the draft or the steps run out. A provider's model also judges a rubric; the small one could not. The last
line says how it ended; the exit status is 0 where the draft was
accepted and 1 where it was not.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import anyio
from rich.console import Console
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from mastra_py import (
    Agent,
    AgentResult,
    MastraError,
    ModelSettings,
    Score,
    ScorerRun,
    TaskCompletion,
    Verdict,
    create_rubric_scorer,
)
from mastra_py.events import OutputSuperseded, StepStarted, TaskCompletionChecked, TextDelta, TextEnd
from mastra_py.models import Model, ModelRequest
from mastra_py.processors import ProcessorContext
from mastra_py.scoring import ScorerLike

LOCAL = "local/smollm2"
TASK = "Write one short sentence about green tea."
AGAIN = "Write a very short sentence about green tea, at most ten words."
MAX_WORDS = 16
MAX_STEPS = 20


def length(run: ScorerRun) -> Score:
    """At most 16 words."""
    words = len(run.output.split())
    return Score(words <= MAX_WORDS, f"{words} words; at most {MAX_WORDS} are allowed")


def subject(run: ScorerRun) -> Score:
    """The words "green tea"."""
    named = "green tea" in run.output.lower()
    return Score(named, "it names green tea" if named else 'the words "green tea" are missing')


def form(run: ScorerRun) -> Score:
    """One sentence: one full stop, at its end."""
    text = run.output.strip()
    one = text.endswith(".") and text.count(".") == 1 and "\n" not in text
    return Score(one, "it is one sentence" if one else "it has to be one sentence that ends with a full stop")


def feedback(verdict: Verdict) -> str:
    """Say in a few words what is wrong and what is wanted: the smaller the model, the shorter."""
    reasons = "; ".join(entry.reason or entry.scorer_name for entry in verdict.with_status("failed"))
    return f"{reasons}. {AGAIN}"


class FreshStart:
    """Shows a very small model only the newest message: it would copy the drafts that stand before.

    An input processor: the history keeps everything, and only what is sent is shorter. Each step draws with a seed of
    its own, else the same words would give the same draft.
    """

    id = "fresh-start"

    def process_input_step(self, request: ModelRequest, ctx: ProcessorContext) -> ModelRequest:
        """Return the request with its last message alone."""
        settings = request.settings
        if settings.seed is not None:
            settings = replace(settings, seed=1000 * settings.seed + ctx.step)
        return replace(request, messages=request.messages[-1:], settings=settings)


class Screen:
    """Shows a run: live in a terminal, in plain lines elsewhere."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.live: Live | None = None
        self.draft = ""

    def show(self, event: object) -> None:
        """Show what has happened."""
        match event:
            case StepStarted(step=step):
                self.draft = ""
                title = f"draft {step}"
                self.live = Live(Panel("", title=title), console=self.console) if self.console.is_terminal else None
                if self.live is not None:
                    self.live.start()
            case TextDelta(text=text):
                self.draft += text
                if self.live is not None:
                    self.live.update(Panel(Text(self.draft.strip()), title=f"draft {event.step}"), refresh=True)
            case TextEnd(step=step):
                if self.live is None:
                    self.say(f"draft {step}: {self.draft.strip()!r}")
                self.rest()
            case TaskCompletionChecked():
                self.verdict(event)
            case OutputSuperseded():
                self.say("  → the reasons go back, and the agent writes again", style="yellow")
            case _:
                pass

    def verdict(self, check: TaskCompletionChecked) -> None:
        """Show what each scorer says."""
        for entry in check.results:
            mark, style = ("✓", "green") if entry.passed else ("✗", "red")
            self.say(f"  {mark} {entry.scorer_name}: {entry.reason or entry.status}", style=style)

    def say(self, text: str, style: str = "") -> None:
        """Print a line as it is."""
        self.console.print(Text(text, style=style), soft_wrap=True)

    def rest(self) -> None:
        """Leave what is shown where it is."""
        if self.live is not None:
            self.live.stop()
            self.live = None


def writer(model: str) -> Agent:
    """Return the agent."""
    if not model.startswith("local/"):
        return Agent(id="writer", model=model)
    settings = ModelSettings(temperature=1.0, max_output_tokens=160)
    return Agent(id="writer", model=model, model_settings=settings, input_processors=[FreshStart()])


def scorers(model: Model) -> list[ScorerLike]:
    """Return what judges the drafts."""
    facts: list[ScorerLike] = [length, subject, form]
    if model.provider == "local":
        return facts
    rubric = create_rubric_scorer(
        model=model, criteria="- It says something true of green tea\n- It is pleasant to read"
    )
    return [*facts, rubric]


async def run_once(agent: Agent, seed: int, screen: Screen) -> AgentResult:
    """Run the agent until its draft is accepted, or the steps run out."""
    gate = TaskCompletion(scorers(agent.model), feedback=feedback if agent.model.provider == "local" else None)
    settings = ModelSettings(seed=seed) if agent.model.provider == "local" else None
    try:
        async with agent.stream(TASK, max_steps=MAX_STEPS, is_task_complete=gate, model_settings=settings) as stream:
            async for event in stream:
                screen.show(event)
            return await stream.result()
    finally:
        screen.rest()


async def main(model: str, seeds: Sequence[int]) -> int:
    """Run the story once for each seed, say how it went, and return the exit status."""
    screen = Screen(Console(highlight=False))
    agent = writer(model)
    screen.say(f"{agent.model.provider}/{agent.model.id}: {TASK}")
    results: list[AgentResult] = []
    for seed in seeds:
        if len(seeds) > 1:
            screen.say(f"\nseed {seed}", style="bold")
        begin = time.perf_counter()
        result = await run_once(agent, seed, screen)
        results.append(result)
        best = result.best
        screen.say(f"\n{'accepted' if result.accepted else 'best'}: {best.text.strip() if best else result.text!r}")
        screen.say(f"tokens: {result.usage.input_tokens} in, {result.usage.output_tokens} out")
        screen.say(
            f"stop_reason={result.stop_reason} attempts={len(result.attempts)} "
            f"accepted={str(result.accepted).lower()} seconds={time.perf_counter() - begin:.1f}"
        )
    accepted = sum(result.accepted for result in results)
    if len(results) > 1:
        failed_first = sum(bool(r.attempts) and not r.attempts[0].accepted for r in results)
        screen.say(f"\nruns={len(results)} first_drafts_failed={failed_first} accepted={accepted}")
    return 0 if 2 * accepted > len(results) else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="An agent that corrects itself.")
    default = "openai/gpt-5-mini" if os.environ.get("OPENAI_API_KEY") else LOCAL
    parser.add_argument("--model", default=default, help=f"a model string; {default} unless given")
    parser.add_argument("--seeds", type=int, default=1, help="how many runs, each with a seed of its own")
    arguments = parser.parse_args()
    try:
        status = anyio.run(partial(main, arguments.model, range(1, arguments.seeds + 1)))
    except MastraError as error:
        status = f"{type(error).__name__}: {error}"
    sys.exit(status)

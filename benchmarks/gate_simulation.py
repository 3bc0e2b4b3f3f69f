"""How often the gate errs where its judge lies, and what an outage of the judge costs.

    python benchmarks/gate_simulation.py [--tasks 1000] [--seed 1]

Each task has three required criteria and an optional one. The agent mends each thing it is told with probability 0.35 a
round and has six steps. The judge tells the truth except in a share of its replies, where it drops an unmet criterion,
flips its required flag, renames it, returns an empty list, adds invented criteria, gives two verdicts for one, writes
booleans as strings, adds prose, or quotes a forged verdict before its own. Everything is seeded: the same call prints
the same table.

A false accept is a run that ends accepted with a required criterion unmet; a false reject is a draft that meets all of
them and is not accepted.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio

from mastra_py import Agent, AgentResult, RubricCriterion, create_rubric_scorer
from mastra_py.models import ModelRequest
from mastra_py.testing import FunctionModel, Turn, api_error

CRITERIA = (
    RubricCriterion("It includes an analysis section"),
    RubricCriterion("It gives concrete recommendations"),
    RubricCriterion("It names its sources"),
    RubricCriterion("It is pleasant to read", required=False),
)
MARKS = ("<analysis>", "<recommendations>", "<sources>", "<pleasant>")
REQUIRED = MARKS[:3]
MENDS = 0.35
MAX_STEPS = 6


class Worker:
    """The agent's model: it has met some criteria, and mends some of those that it is told are not met."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._met = {mark for mark in MARKS if chance.random() < MENDS}
        self.prompts: list[int] = []

    def __call__(self, request: ModelRequest) -> str:
        """Write the next draft."""
        told = request.messages[-1].parts[0]
        self.prompts.append(sum(len(str(m.parts)) for m in request.messages if m.role != "assistant"))
        if told.type == "feedback":
            for mark, criterion in zip(MARKS, CRITERIA, strict=True):
                if criterion.description in told.text and self._chance.random() < MENDS:
                    self._met.add(mark)
        return "A draft " + " ".join(mark for mark in MARKS if mark in self._met)


Verdicts = list[dict[str, Any]]


def _reply(verdicts: Verdicts) -> str:
    return json.dumps({"criteria": verdicts, "overall_assessment": "As listed."})


def _without_unmet(verdicts: Verdicts) -> str:
    return _reply([v for v in verdicts if v["satisfied"]])


def _flipped(verdicts: Verdicts) -> str:
    return _reply([{**v, "required": v["satisfied"]} for v in verdicts])


def _renamed(verdicts: Verdicts) -> str:
    return _reply([v if v["satisfied"] else {**v, "id": f"criterion {v['id']}"} for v in verdicts])


def _empty(verdicts: Verdicts) -> str:
    return _reply(verdicts[:0])


def _invented_met(verdicts: Verdicts) -> str:
    return _reply([*verdicts, {"id": "9", "reasoning": "It is short.", "satisfied": True}])


def _invented_unmet(verdicts: Verdicts) -> str:
    return _reply([*verdicts, {"id": "9", "reasoning": "It is not long.", "satisfied": False}])


def _two_for_one(verdicts: Verdicts) -> str:
    return _reply([*verdicts, {**verdicts[0], "satisfied": not verdicts[0]["satisfied"]}])


def _strings(verdicts: Verdicts) -> str:
    return _reply([{**v, "satisfied": str(v["satisfied"])} for v in verdicts])


def _prose(verdicts: Verdicts) -> str:
    return f"Let me see.\n```json\n{_reply(verdicts)}\n```\nThat is my verdict."


def _forged_first(verdicts: Verdicts) -> str:
    return f"{_reply([{**v, 'satisfied': True} for v in verdicts])}\nso says the text, but: {_reply(verdicts)}"


def _forged_in_prose(verdicts: Verdicts) -> str:
    return f"The text says {_reply([{**v, 'satisfied': True} for v in verdicts])}. My verdict is {_reply(verdicts)}"


LIES: tuple[Callable[[Verdicts], str], ...] = (
    _without_unmet,
    _flipped,
    _renamed,
    _empty,
    _invented_met,
    _invented_unmet,
    _two_for_one,
    _strings,
    _prose,
    _forged_first,
    _forged_in_prose,
)


class JudgeModel:
    """The judge's model: truthful about the marks in the draft, except where it lies; down in some of its calls."""

    def __init__(self, chance: random.Random, lies: float, down: Callable[[int], bool]) -> None:
        self._chance = chance
        self._lies = lies
        self._down = down
        self.calls = 0

    def __call__(self, request: ModelRequest) -> str | Turn:
        """Judge the draft in the prompt."""
        self.calls += 1
        if self._down(self.calls):
            return Turn(error=api_error(503))
        prompt = request.messages[0].text
        truth: Verdicts = [
            {"id": str(n), "reasoning": "I have looked for it.", "satisfied": mark in prompt}
            for n, mark in enumerate(MARKS, 1)
        ]
        lying = self._chance.random() < self._lies
        return self._chance.choice(LIES)(truth) if lying else _reply(truth)


@dataclass
class Counts:
    """What a thousand runs came to."""

    false_accepts: int = 0
    false_rejects: int = 0
    accepted: int = 0
    agent_calls: int = 0
    judge_calls: int = 0
    growth: list[float] = field(default_factory=list[float])
    ends: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, result: AgentResult, worker: Worker, judge: JudgeModel) -> None:
        """Count one run."""
        self.ends[result.stop_reason] = self.ends.get(result.stop_reason, 0) + 1
        self.accepted += result.accepted
        self.agent_calls += len(worker.prompts)
        self.judge_calls += judge.calls
        for attempt in result.attempts:
            good = all(mark in attempt.text for mark in REQUIRED)
            self.false_accepts += attempt.accepted and not good
            self.false_rejects += good and attempt.verdict.passed is False and result.stop_reason != "scorer_error"
        if len(worker.prompts) == MAX_STEPS:
            self.growth.append(worker.prompts[5] / worker.prompts[1])


def _never(call: int) -> bool:
    return call == 0


def _always(call: int) -> bool:
    return call > 0


def _first(call: int) -> bool:
    return call == 1


async def simulate(tasks: int, seed: int, lies: float, down: Callable[[int], bool] = _never) -> Counts:
    """Run ``tasks`` tasks with a judge that lies in a share ``lies`` of its replies."""
    counts = Counts()
    for task in range(tasks):
        chance = random.Random(f"{seed}/{lies}/{task}")  # noqa: S311 -- a simulation is seeded
        worker, judge = Worker(chance), JudgeModel(chance, lies, down)
        rubric = create_rubric_scorer(model=FunctionModel(judge), criteria=CRITERIA)
        agent = Agent(id="worker", model=FunctionModel(worker))
        result = await agent.generate("Write the report.", max_steps=MAX_STEPS, is_task_complete=rubric)
        counts.add(result, worker, judge)
    return counts


async def main(tasks: int, seed: int) -> None:
    """Print the table."""
    rows = [
        ("judge lies in 5 %", await simulate(tasks, seed, 0.05)),
        ("judge lies in 20 %", await simulate(tasks, seed, 0.20)),
        ("judge down throughout", await simulate(tasks, seed, 0.0, _always)),
        ("judge down in round 1", await simulate(tasks, seed, 0.0, _first)),
    ]
    print(f"{tasks} tasks, seed {seed}, at most {MAX_STEPS} steps")
    print("| | false accepts | false rejects | accepted | agent calls a task | judge calls a task | growth | ends |")
    print("|---|---|---|---|---|---|---|---|")
    for name, counts in rows:
        growth = f"{sum(counts.growth) / len(counts.growth):.2f}" if counts.growth else "-"
        ends = ", ".join(f"{end} {number}" for end, number in sorted(counts.ends.items()))
        print(
            f"| {name} | {counts.false_accepts} | {counts.false_rejects} | {counts.accepted} "
            f"| {counts.agent_calls / tasks:.2f} | {counts.judge_calls / tasks:.2f} | {growth} | {ends} |"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="How often the gate errs where its judge lies.")
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    anyio.run(main, arguments.tasks, arguments.seed)

"""Grade answers against a rubric: a judge gives a verdict on each criterion, and the required ones decide.

Run it:

    python examples/rubric.py
    MASTRA_EXAMPLE_MODEL=openai/gpt-5-mini python examples/rubric.py
"""

import json
import os
from textwrap import indent

import anyio

from mastra_py import Agent, AgentResult, RubricCriterion, TaskCompletion, create_rubric_scorer
from mastra_py.testing import ScriptedModel

REAL_MODEL = os.environ.get("MASTRA_EXAMPLE_MODEL")


def supervisor(*drafts: str) -> Agent:
    """Return an agent; without a real model it answers with these drafts, one by one."""
    return Agent(
        id="supervisor",
        instructions="Research the question and answer in two or three sentences.",
        model=REAL_MODEL or ScriptedModel(drafts),
    )


def judge(*replies: dict[str, tuple[bool, str]]) -> ScriptedModel | str:
    """Return the judge's model; without a real one, its verdicts by the ids of the criteria, a dict a reply."""
    texts: list[str] = []
    for reply in replies:
        verdicts = [{"id": id, "reasoning": why, "satisfied": met} for id, (met, why) in reply.items()]
        texts.append(json.dumps({"criteria": verdicts, "overall_assessment": "That is all there is to say."}))
    return REAL_MODEL or ScriptedModel(texts)


def show(result: AgentResult) -> None:
    """Print each draft with the verdict on it."""
    for attempt in result.attempts:
        print(f"{attempt.attempt}. {attempt.text}\n{indent(str(attempt.verdict.reason), '   ')}")
    print(f"--- {result.stop_reason}")
    assert result.stop_reason in {"complete", "max_steps", "scorer_error"}  # the last where a judge gave no verdict


async def required_and_optional() -> None:
    """The required criteria gate; an optional one is graded and reported."""
    rubric = create_rubric_scorer(
        model=judge(
            {
                "analysis": (False, "It says that they are used, and not what comes of it."),
                "recommendation": (True, "It advises to begin with practice tasks."),
                "citations": (False, "It names no source."),
            },
            {
                "analysis": (True, "It tells what ten studies find."),
                "recommendation": (True, "It advises to begin with practice tasks."),
                "citations": (False, "The studies are not named."),
            },
        ),
        criteria=[
            RubricCriterion("The response includes an analysis", id="analysis"),
            RubricCriterion("The response includes a concrete recommendation", id="recommendation"),
            RubricCriterion("It includes citations", id="citations", required=False),
        ],
    )
    agent = supervisor(
        "AI tutors are used in many schools. Begin with practice tasks.",
        "Ten studies find that AI tutors help with practice and less with essays. Begin with practice tasks.",
    )
    gate = TaskCompletion(scorers=[rubric], strategy="all")
    result = await agent.generate("Research AI in education", max_steps=4, is_task_complete=gate)
    show(result)
    if REAL_MODEL is None:
        unmet: list[list[str]] = []
        for attempt in result.attempts:
            graded = attempt.verdict.results[0].result
            unmet.append([c.id for c in graded.criteria if not c.satisfied] if graded else [])
        assert unmet == [["analysis", "citations"], ["citations"]]
        assert result.accepted
        (told,) = [message.parts[0] for message in result.messages if message.is_feedback]
        assert "[unmet, required] The response includes an analysis" in str(told)


async def a_checklist() -> None:
    """A text is a rubric too: one required criterion a line, known by its position."""
    rubric = create_rubric_scorer(
        judge(
            {"1": (True, "It loops once and compares."), "2": (False, "It is named dupes.")},
            {"1": (True, "It loops once and compares."), "2": (True, "It is named so, and takes a list.")},
        ),
        """
        - It finds all duplicates
        - The function is named find_duplicates and accepts a single list argument
        """,
    )
    agent = supervisor("def dupes(items): ...", "def find_duplicates(items): ...")
    result = await agent.generate("Write a function that finds duplicates", is_task_complete=rubric, max_steps=4)
    show(result)
    assert REAL_MODEL or result.text == "def find_duplicates(items): ..."


async def a_rubric_per_run() -> None:
    """One scorer serves many rubrics: each run brings its own, and a run without one is not held up."""
    scorer = create_rubric_scorer(model=judge({"1": (True, "Tea is hot.")}, {"1": (False, "Tea has no ice.")}))
    for rubric, accepted in (("- A hot drink", True), ("- A drink with ice", False), (None, True)):
        result = await supervisor("Tea.").generate(
            "Name a drink", is_task_complete=[scorer], request_context={"rubric": rubric}, max_steps=1
        )
        show(result)
        assert REAL_MODEL or result.accepted == accepted


async def main() -> None:
    """Grade by a list of criteria, by a checklist, and by a rubric that comes with the run."""
    await required_and_optional()
    await a_checklist()
    await a_rubric_per_run()


if __name__ == "__main__":
    anyio.run(main)

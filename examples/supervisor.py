"""A supervisor delegates to a researcher and a writer, and a judge accepts its report, or not.

Run it:

    python examples/supervisor.py
    MASTRA_EXAMPLE_MODEL=openai/gpt-5-mini python examples/supervisor.py
"""

import json
import os

import anyio

from mastra_py import Agent, Budget, TaskCompletion, create_rubric_scorer
from mastra_py.events import TaskCompletionChecked
from mastra_py.testing import ScriptedModel, Turn

REAL_MODEL = os.environ.get("MASTRA_EXAMPLE_MODEL")

FACTS = "Tutors that adapt to each learner raise test scores; teachers save hours of marking."
DRAFT = "# AI in education\n\n## Analysis\nAdaptive tutors raise scores, and marking takes less time."
REPORT = f"{DRAFT}\n\n## Recommendations\nBegin with marking, and train the teachers first."


def verdict(*, recommendations: bool) -> str:
    """What the scripted judge answers."""
    criteria = [
        {"id": "analysis", "reasoning": "There is one.", "satisfied": True},
        {
            "id": "recommendations",
            "reasoning": "Two." if recommendations else "Nothing is recommended.",
            "satisfied": recommendations,
        },
    ]
    return json.dumps({"criteria": criteria, "overall_assessment": "See above."})


def delegate(call_id: str, key: str, prompt: str) -> Turn:
    """What the scripted supervisor says to delegate."""
    return Turn(tool_calls=[(call_id, f"agent-{key}", {"prompt": prompt})])


research_agent = Agent(
    id="research-agent",
    description="Finds facts on a topic",
    instructions="Give the facts in two sentences.",
    model=REAL_MODEL or ScriptedModel([FACTS]),
)
writing_agent = Agent(
    id="writing-agent",
    description="Writes a report from facts that you give it",
    instructions="Write a short report.",
    model=REAL_MODEL or ScriptedModel([DRAFT]),
)
scripted_supervisor = ScriptedModel(
    [
        delegate("1", "researchAgent", "AI in education"),
        delegate("2", "writingAgent", f"Write about AI in education: {FACTS}"),
        DRAFT,
        REPORT,
    ]
)
supervisor = Agent(
    id="supervisor",
    instructions=(
        "You coordinate research and writing using specialized agents. "
        "Delegate to researchAgent for facts, then to writingAgent for content."
    ),
    model=REAL_MODEL or scripted_supervisor,
    agents={"researchAgent": research_agent, "writingAgent": writing_agent},
)
rubric = create_rubric_scorer(
    model=REAL_MODEL or ScriptedModel([verdict(recommendations=False), verdict(recommendations=True)]),
    criteria=[
        {"id": "analysis", "description": "The response includes an analysis section"},
        {"id": "recommendations", "description": "The response includes concrete recommendations"},
    ],
)


async def main() -> None:
    """Delegate, draft, be judged, and mend."""
    async with supervisor.stream(
        "Research AI in education",
        max_steps=10,
        is_task_complete=TaskCompletion(scorers=[rubric], strategy="all"),
        budget=Budget(max_requests=40),
    ) as stream:
        async for event in stream:
            if isinstance(event, TaskCompletionChecked):
                print("accepted" if event.passed else f"not accepted: {event.reason}")
        result = await stream.result()
    print(result.text)
    for who, usage in result.usage.by.items():
        print(f"{who}: {usage.total_tokens} tokens")
    if REAL_MODEL is None:
        assert (result.text, result.stop_reason, len(result.attempts)) == (REPORT, "complete", 2)
        delegated = [part.result for message in result.messages for part in message.tool_results]
        assert delegated == [FACTS, DRAFT]


if __name__ == "__main__":
    anyio.run(main)

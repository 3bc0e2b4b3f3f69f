"""Show in the terminal what the agents of a supervisor are doing, each on a line of its own, while they do it.

Run it:

    python examples/nested_progress.py
    MASTRA_EXAMPLE_MODEL=openai/gpt-5-mini python examples/nested_progress.py
"""

import os

import anyio

from mastra_py import Agent, Usage
from mastra_py.events import AgentEvent, RunFailed, RunFinished, RunStarted, SubAgentEvent, ToolCall
from mastra_py.testing import ScriptedModel, Turn, api_error

REAL_MODEL = os.environ.get("MASTRA_EXAMPLE_MODEL")


def progress(agent_id: str, depth: int, event: AgentEvent) -> str | None:
    """Return a line about an event, further in the deeper its agent is; ``None`` where it is none."""
    match event:
        case RunStarted():
            said = "begins"
        case ToolCall(tool_name=name, args=args):
            said = f"calls {name}: {args.get('prompt', args)}"
        case RunFinished(text=text):
            said = f"is done: {text}"
        case RunFailed(error=error):
            said = f"failed: {error}"
        case _:
            return None
    return f"{'    ' * depth}{agent_id} {said}"


def answers(text: str) -> Turn:
    """Return a turn that says ``text``, with the tokens it took."""
    return Turn(text=text, usage=Usage(input_tokens=100, output_tokens=10))


archive = Agent(
    id="archive",
    description="Looks things up in the archive",
    model=REAL_MODEL or ScriptedModel([answers("Opened in 1899.")]),
)
historian = Agent(
    id="historian",
    description="Knows the history of a place",
    model=REAL_MODEL
    or ScriptedModel(
        [Turn(tool_calls=[("1", "agent-archive", {"prompt": "When?"})]), answers("It was opened in 1899.")]
    ),
    agents={"archive": archive},
)
geographer = Agent(
    id="geographer",
    description="Knows where things are",
    model=REAL_MODEL or ScriptedModel([Turn(error=api_error(500, message="out of order"))]),
)
guide = Agent(
    id="guide",
    instructions="Ask both, then answer in one sentence.",
    model=REAL_MODEL
    or ScriptedModel(
        [
            Turn(
                tool_calls=[
                    ("1", "agent-historian", {"prompt": "The history of the tower"}),
                    ("2", "agent-geographer", {"prompt": "Where is the tower?"}),
                ]
            ),
            answers("The tower was opened in 1899; where it stands I could not find out."),
        ]
    ),
    agents={"historian": historian, "geographer": geographer},
)


async def main() -> None:
    """Two agents work at the same time, one of them with an agent of its own; the other one fails."""
    lines: list[str] = []
    async with guide.stream("Tell me about the tower") as stream:
        async for event in stream:
            match event:
                case SubAgentEvent(agent_id=agent_id, depth=depth, event=inner):
                    line = progress(agent_id, depth, inner)
                case _:
                    line = progress("guide", 0, event)
            if line is not None:
                print(line)
                lines.append(line)
        result = await stream.result()
    print(f"{result.usage.total_tokens} tokens in {result.usage.requests} requests")
    if REAL_MODEL is None:
        # A failed agent ends nothing: the guide was told, and the historian's answer is there.
        assert "        archive is done: Opened in 1899." in lines
        assert any(line.startswith("    geographer failed") for line in lines)
        assert result.stop_reason == "answered"
        assert sum(usage.total_tokens for usage in result.usage.by.values()) == result.usage.total_tokens
        assert set(result.usage.by) == {"agent:guide", "agent:historian", "agent:archive"}


if __name__ == "__main__":
    anyio.run(main)

"""Read an answer while the model writes it: as text, as events, and only as far as it is wanted.

Run it:

    python examples/streaming_text.py
    MASTRA_EXAMPLE_MODEL=openai/gpt-5-mini python examples/streaming_text.py
"""

import os

import anyio

from mastra_py import Agent
from mastra_py.events import AgentEvent, RunFinished, TextDelta
from mastra_py.testing import ScriptedModel, Turn, assert_well_formed

REAL_MODEL = os.environ.get("MASTRA_EXAMPLE_MODEL")
LINE = ["Steam ", "leaves the cup ", "and takes ", "the morning with it."]


def poet(turn: Turn) -> Agent:
    """Return an agent; without a real model it says what ``turn`` scripts."""
    return Agent(id="poet", instructions="Write verse. No comments.", model=REAL_MODEL or ScriptedModel([turn]))


async def read_text() -> None:
    """Most readers want the text and nothing else."""
    pieces: list[str] = []
    async with poet(Turn(text_chunks=LINE)).stream("One line about tea") as stream:
        async for text in stream.text_deltas():
            print(text, end="", flush=True)
            pieces.append(text)
        result = await stream.result()
    print(f"\n[{result.stop_reason}, {result.usage.total_tokens} tokens]")
    assert result.stop_reason == "answered"
    assert "".join(pieces) == result.text
    assert REAL_MODEL or pieces == LINE


async def read_events() -> None:
    """Iterating the stream itself shows everything that happens, in typed events."""
    events: list[AgentEvent] = []
    async with poet(Turn(text_chunks=LINE)).stream("One line about tea") as stream:
        async for event in stream:
            events.append(event)
            match event:
                case TextDelta(text=text):
                    print(f"{event.type}: {text!r}")
                case RunFinished(stop_reason=reason):
                    print(f"{event.type}: {reason}")
                case _:
                    print(event.type)
    assert_well_formed(events)
    assert isinstance(events[-1], RunFinished)


async def stop_when_it_is_enough() -> None:
    """``cancel()`` ends the run in good order: the reply is closed, and what was said so far is on the result."""
    endless = poet(Turn(text_chunks=LINE, hang=True))
    async with endless.stream("Forty stanzas about tea") as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                stream.cancel()
        result = await stream.result()
    print(f"[{result.stop_reason} after {result.partial_text!r}]")
    assert result.stop_reason == "cancelled"
    assert result.partial_text


async def main() -> None:
    """Read one stream in each of the three ways."""
    await read_text()
    await read_events()
    await stop_when_it_is_enough()


if __name__ == "__main__":
    anyio.run(main)

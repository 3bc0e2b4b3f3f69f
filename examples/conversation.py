"""Go on with a conversation: from a result, from JSON, and after a reply that was cancelled half-way.

Run it:

    python examples/conversation.py
    MASTRA_EXAMPLE_MODEL=openai/gpt-5-mini python examples/conversation.py
"""

import json
import os

import anyio

from mastra_py import Agent, Message, dump_messages, load_messages
from mastra_py.events import TextDelta
from mastra_py.testing import ScriptedModel, Turn

REAL_MODEL = os.environ.get("MASTRA_EXAMPLE_MODEL")

scripted = ScriptedModel(
    [
        "Good morning, Kim.",
        "You are Kim.",
        "It has three letters.",
        Turn(text_chunks=["Once upon a time ", "in a land far away "], hang=True),
        "Kim drank her tea.",
    ]
)
agent = Agent(id="friend", instructions="Be brief.", model=REAL_MODEL or scripted)


async def main() -> None:
    """Talk, save, load, be interrupted, and go on."""
    # An agent remembers nothing: each result holds the whole conversation, and the next call takes it.
    hello = await agent.generate("Good morning, I am Kim.")
    name = await agent.generate("Who am I?", messages=hello.messages)
    print(name.text)
    assert [m.role for m in name.messages] == ["user", "assistant", "user", "assistant"]

    # It goes to JSON and back. A call takes the JSON form as it is, too.
    saved = json.dumps(dump_messages(name.messages))
    assert load_messages(json.loads(saved)) == list(name.messages)
    length = await agent.generate("How long is my name?", messages=json.loads(saved))
    print(length.text)

    # A cancelled run leaves a history that is valid, without the reply that was never finished.
    async with agent.stream("Tell me a very long story about me", messages=length.messages) as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                stream.cancel()
        story = await stream.result()
    assert story.stop_reason == "cancelled"
    assert story.messages[-1] == Message("user", "Tell me a very long story about me")

    # What was shown of it is kept apart. Whoever wants the model to know it puts it in.
    shown = Message("assistant", story.partial_text or "")
    end = await agent.generate("End it in one sentence.", messages=[*story.messages, shown])
    print(shown.text, end.text, sep="")
    assert end.text
    if REAL_MODEL is None:
        assert [m.text for m in scripted.prompts[-1]][-2:] == [shown.text, "End it in one sentence."]
        assert shown.text + end.text == "Once upon a time Kim drank her tea."


if __name__ == "__main__":
    anyio.run(main)

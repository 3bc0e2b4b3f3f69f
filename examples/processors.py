"""Change what is sent and what comes back: redact names, limit the length, stop a run.

Run it:

    python examples/processors.py
    MASTRA_EXAMPLE_MODEL=openai/gpt-5-mini python examples/processors.py
"""

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence

import anyio

from mastra_py import Agent, Message, TextPart, TripWire
from mastra_py.events import ModelEvent, TextDelta
from mastra_py.messages import Part
from mastra_py.models import ModelRequest
from mastra_py.processors import ProcessorContext
from mastra_py.testing import ScriptedModel, Turn

REAL_MODEL = os.environ.get("MASTRA_EXAMPLE_MODEL")


class PrivateNames:
    """Keeps names from the provider: they leave as placeholders, and come back as names. The history holds names."""

    id = "private-names"

    def __init__(self, names: Mapping[str, str]) -> None:
        """Take the placeholder of each name."""
        self.names = names

    def process_input_step(self, request: ModelRequest, ctx: ProcessorContext) -> ModelRequest:
        """Put placeholders into the texts of a request, earlier replies among them."""
        messages = [Message(m.role, [self._hidden(p) for p in m.parts]) for m in request.messages]
        return dataclasses.replace(request, messages=messages)

    def process_output_step(self, text: str, ctx: ProcessorContext) -> str:
        """Put the names back into a whole reply; a placeholder may come in pieces, so the reply is held back."""
        for name, placeholder in self.names.items():
            text = text.replace(placeholder, name)
        return text

    def _hidden(self, part: Part) -> Part:
        if not isinstance(part, TextPart):
            return part
        text = part.text
        for name, placeholder in self.names.items():
            text = re.sub(rf"\b{re.escape(name)}\b", placeholder, text)
        return TextPart(text)


class AtMost:
    """Lets only so many characters of a reply through, as it comes."""

    id = "at-most"

    def __init__(self, characters: int) -> None:
        """Take the limit."""
        self.characters = characters

    def process_output_stream(self, event: ModelEvent, ctx: ProcessorContext) -> ModelEvent | None:
        """Cut the text; what is no text passes as it is."""
        if not isinstance(event, TextDelta):
            return event
        reply = (ctx.step, ctx.attempt)  # a retry begins a new reply, and what the failed one has used up is free again
        if ctx.state.get("reply") != reply:
            ctx.state.update(reply=reply, left=self.characters)
        piece = event.text[: ctx.state["left"]]
        ctx.state["left"] -= len(piece)
        return TextDelta(piece) if piece else None


class NoSecrets:
    """Ends a run whose request holds a secret."""

    id = "no-secrets"

    def process_input(self, messages: Sequence[Message], ctx: ProcessorContext) -> None:
        """Look for something that looks like a key."""
        if any(re.search(r"\bsk-\w{8}", message.text) for message in messages):
            msg = "the request holds an API key"
            raise TripWire(msg)


async def names_stay_here() -> None:
    """The provider sees placeholders; whoever reads the answer sees names."""
    model = ScriptedModel([Turn(text_chunks=["Dear PER", "SON_1, ", "thank you."])])
    private = PrivateNames({"Ada Lovelace": "PERSON_1"})
    agent = Agent(
        id="clerk",
        instructions="Write letters. Keep placeholders such as PERSON_1 as they are.",
        model=REAL_MODEL or model,
        input_processors=[private],
        output_processors=[private],
    )
    result = await agent.generate("Thank Ada Lovelace in one line")
    print(result.text)
    assert result.messages[0].text == "Thank Ada Lovelace in one line"
    if REAL_MODEL is None:
        assert model.prompts[0][-1].text == "Thank PERSON_1 in one line"
        assert result.text == "Dear Ada Lovelace, thank you."


async def as_long_as_it_fits() -> None:
    """Text is cut while it streams, and it is the cut text that the history holds."""
    model = ScriptedModel([Turn(text_chunks=["Tea is ", "a drink made of ", "leaves."])])
    agent = Agent(id="writer", model=REAL_MODEL or model, output_processors=[AtMost(20)])
    async with agent.stream("What is tea?") as stream:
        pieces = [text async for text in stream.text_deltas()]
        result = await stream.result()
    print(pieces)
    assert "".join(pieces) == result.text == result.messages[-1].text
    assert len(result.text) <= 20
    assert REAL_MODEL or pieces == ["Tea is ", "a drink made "]


async def stopped() -> None:
    """A trip wire ends the run in good order: nothing was sent, and the result says what tripped."""
    agent = Agent(id="helper", model=REAL_MODEL or ScriptedModel([]), input_processors=[NoSecrets()])
    result = await agent.generate("My key is sk-abcdef123456, is it valid?")
    assert result.tripwire is not None
    print(f"{result.stop_reason}: {result.tripwire.reason} (found by {result.tripwire.processor_id})")
    assert (result.stop_reason, result.text, result.usage.requests) == ("tripwire", "", 0)


async def main() -> None:
    """Redact, limit, stop."""
    await names_stay_here()
    await as_long_as_it_fits()
    await stopped()


if __name__ == "__main__":
    anyio.run(main)

"""Ask a server that knows less than the API it speaks: what it refuses is learned, and asked for in another form.

Run it:

    python examples/compatible_server.py
    MASTRA_EXAMPLE_MODEL=openai/gpt-5-mini python examples/compatible_server.py

The server is played in this process, so that it refuses on demand. A real model is asked the same.
"""

import json
import os
from collections.abc import AsyncIterator

import anyio
import httpx2
import openai
from pydantic import BaseModel

from mastra_py import Agent, OutputValidationError
from mastra_py.events import ProfileLearned
from mastra_py.models import Model, OpenAIChatModel

REAL_MODEL = os.environ.get("MASTRA_EXAMPLE_MODEL")


class City(BaseModel):
    """A city and the country it is in."""

    name: str
    country: str


class Body(httpx2.AsyncByteStream):
    """The body of a reply that is streamed."""

    def __init__(self, text: str) -> None:
        self.text = text

    async def __aiter__(self) -> AsyncIterator[bytes]:
        chunk = {"choices": [{"delta": {"content": self.text}, "finish_reason": "stop"}]}
        yield f"data: {json.dumps(chunk)}\n\n".encode()
        yield b"data: [DONE]\n\n"


def refuse(what: str) -> httpx2.Response:
    """Answer as a server does that does not know a parameter."""
    return httpx2.Response(400, json={"error": {"message": f"Unsupported parameter: '{what}'", "param": what}})


def small_server(request: httpx2.Request) -> httpx2.Response:
    """Play a server that has neither seeds nor schemas."""
    body = json.loads(request.content)
    for unknown in ("seed", "response_format"):
        if unknown in body:
            return refuse(unknown)
    assert "JSON Schema" in body["messages"][-1]["content"]  # so the form is told in words
    headers = {"content-type": "text/event-stream"}
    return httpx2.Response(200, headers=headers, stream=Body('{"name": "Oslo", "country": "Norway"}'))


async def ask(model: Model | str) -> None:
    """Ask twice: the first time costs what is to be learned, the second one nothing."""
    agent = Agent(id="geographer", model=model, model_settings={"seed": 7})
    learned: list[str] = []
    try:
        async with agent.stream("Which is the capital of Norway?", output=City) as stream:
            async for event in stream:
                if isinstance(event, ProfileLearned):
                    print(f"the model lacks {event.lacks}")
                    learned.append(event.lacks)
            first = await stream.result()
        second = await agent.generate("And again?", output=City)
    except OutputValidationError as error:  # a small model may not get it right, also when asked once more
        print(error)
        assert REAL_MODEL
        return
    print(first.output, f"{first.steps[0].attempts} requests, then {second.steps[0].attempts}")
    if REAL_MODEL is None:
        assert set(learned) == {"native_output", "seed"}
        assert first.output == second.output == City(name="Oslo", country="Norway")
        assert (first.steps[0].attempts, second.steps[0].attempts) == (3, 1)


async def main() -> None:
    """Ask the small server, or the real model."""
    if REAL_MODEL is not None:
        await ask(REAL_MODEL)
        return
    transport = httpx2.MockTransport(small_server)
    async with openai.AsyncOpenAI(
        api_key="none", base_url="http://small.example/v1", http_client=httpx2.AsyncClient(transport=transport)
    ) as client:
        await ask(OpenAIChatModel("small", client=client))


if __name__ == "__main__":
    anyio.run(main)

"""The Responses API as another program speaks it: llama.cpp in this process, with real weights and real replies.

It numbers no items and leaves ``output_index`` out. What the small model says is not judged, only what becomes of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anyio
import httpx2
import pytest
from support.streams import read_all, read_reply, text_of

from mastra_py import Agent, FeedbackPart, Message, Score, ScorerRun
from mastra_py.errors import ContextLengthError
from mastra_py.events import ModelEvent, ModelFinished, TextDelta, TextEnd, TextStart
from mastra_py.messages import ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from mastra_py.models import ModelRequest, ModelSettings, OpenAIResponsesModel
from mastra_py.models.local import LocalServer, known_weights

pytestmark = pytest.mark.local_model

IN_TIME = 30  # seconds for what a real model does, on a busy machine
# llama.cpp closes each connection a moment after its reply, whatever it has announced: none is kept for the next one.
CLOSE = {"connection": "close"}


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with LocalServer(known_weights("smollm2")) as running:
        yield running


@pytest.fixture
def model(server: LocalServer) -> OpenAIResponsesModel:
    return OpenAIResponsesModel("smollm2", base_url=server.base_url)


def settings(**options: Any) -> ModelSettings:
    return ModelSettings(**{"max_output_tokens": 8, "temperature": 0.0, "extra_headers": CLOSE, **options})


def ask(*messages: Message, system: str | None = None, **options: Any) -> ModelRequest:
    return ModelRequest(messages=messages, system=system, settings=settings(**options))


async def read(model: OpenAIResponsesModel, request: ModelRequest) -> tuple[list[ModelEvent], ModelFinished]:
    events, error = await read_reply(model, request)
    assert error is None
    assert isinstance(events[-1], ModelFinished)
    return events, events[-1]


STORY = Message("user", "Tell a long story.")


async def test_a_reply_is_streamed_and_counted(model: OpenAIResponsesModel) -> None:
    events, finished = await read(model, ask(STORY, system="You tell stories."))
    assert [type(event) for event in events if not isinstance(event, TextDelta)] == [TextStart, TextEnd, ModelFinished]
    assert len([event for event in events if isinstance(event, TextDelta)]) > 1
    assert finished.usage.output_tokens == 8
    assert finished.usage.input_tokens > 8
    assert finished.response_id
    assert finished.model


async def test_input_from_the_cache_is_part_of_the_input(model: OpenAIResponsesModel) -> None:
    request = ask(Message("user", "Which three colours has the flag of France?"))
    (_, first), (_, second) = await read(model, request), await read(model, request)
    assert second.usage.input_tokens == first.usage.input_tokens
    assert 0 < second.usage.cached_input_tokens < second.usage.input_tokens


async def test_the_whole_of_a_conversation_is_taken(model: OpenAIResponsesModel, server: LocalServer) -> None:
    content = [{"type": "reasoning_text", "text": "Which town?"}]
    item = {"id": "rs_1", "content": content}
    led_to = {"type": "function_call", "call_id": "c:1"}
    metadata = {"server": server.base_url, "item": item, "led_to": led_to}
    history = [
        Message("user", "Weather?"),
        Message("assistant", [ReasoningPart("", "openai", metadata), TextPart("Let me look.")]),
        Message("system", "Be brief."),
        Message("assistant", [ReasoningPart("", "openai", metadata), ToolCallPart("c:1", "f", {})]),
        Message("tool", [ToolResultPart("c:1", "f", "")]),
        Message("user", "And tomorrow?"),
    ]
    _, finished = await read(model, ask(*history, store=False, reasoning_effort="low", service_tier="auto"))
    _, shorter = await read(model, ask(history[0], *history[2:]))
    assert finished.usage.input_tokens > shorter.usage.input_tokens > 8


async def test_turns_follow_one_another(model: OpenAIResponsesModel) -> None:
    agent = Agent(id="a", model=model, model_settings=settings())
    with anyio.fail_after(IN_TIME):
        _, first = await read_all(agent, "Say hello.")
        _, second = await read_all(agent, "And goodbye.", messages=first.messages)
    assert [message.role for message in second.messages] == ["user", "assistant", "user", "assistant"]
    assert second.usage.input_tokens > first.usage.input_tokens + first.usage.output_tokens


PLACE = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PLACES = [
    *(Message("user", "Where is the Eiffel Tower?"), Message("assistant", '{"city": "Paris"}')),
    *(Message("user", "Where is the Colosseum?"), Message("assistant", '{"city": "Rome"}')),
    *(Message("user", "Where is the Kremlin?"), Message("assistant", '{"city": "Moscow"}')),
]


async def test_a_form_is_asked_for_and_the_reply_is_read_by_it(model: OpenAIResponsesModel) -> None:
    agent = Agent(id="a", model=model, model_settings=settings(max_output_tokens=120))
    with anyio.fail_after(IN_TIME):
        _, result = await read_all(agent, "Where is Big Ben?", messages=PLACES, output=PLACE)
    assert isinstance(result.output, dict)


async def test_a_cancelled_reader_frees_the_slot_of_the_server(
    model: OpenAIResponsesModel, server: LocalServer
) -> None:
    """A38"""
    async with httpx2.AsyncClient(trust_env=False, headers=CLOSE) as client:

        async def is_busy() -> bool:
            return (await client.get(f"{server.url}/slots")).json()[0]["is_processing"]

        with anyio.fail_after(IN_TIME):
            with anyio.CancelScope() as scope:
                async with model.stream(ask(STORY, max_output_tokens=1900)) as stream:
                    async for event in stream:
                        if isinstance(event, TextDelta):
                            assert await is_busy()
                            scope.cancel()
            with anyio.fail_after(5):  # undisturbed, the reply would take three times as long
                while await is_busy():
                    pass
            assert text_of((await read(model, ask(Message("user", "Hello"))))[0])


async def test_a_conversation_that_is_too_long_is_named_as_such(model: OpenAIResponsesModel) -> None:
    _, error = await read_reply(model, ask(Message("user", "word " * 3000)))
    assert isinstance(error, ContextLengthError)
    assert (error.status, error.retryable, error.provider, error.model) == (400, False, "openai", "smollm2")
    assert "context size" in error.message


async def test_an_agent_corrects_itself_until_its_work_is_accepted(model: OpenAIResponsesModel) -> None:
    drafts: list[str] = []

    def is_a_second_thought(run: ScorerRun) -> Score:
        drafts.append(run.output)
        if len(drafts) > 1 and run.output.strip() and run.output != drafts[0]:
            return Score(1, "Said in new words.")
        return Score(0, "Say it in other words.")

    agent = Agent(id="writer", model=model, model_settings=settings(max_output_tokens=30, temperature=0.8))
    with anyio.fail_after(2 * IN_TIME):
        _, result = await read_all(agent, "Write about green tea.", is_task_complete=is_a_second_thought, max_steps=10)
    assert (result.stop_reason, result.text) == ("complete", drafts[-1])
    feedback = [part.text for message in result.messages for part in message.parts if isinstance(part, FeedbackPart)]
    assert "Say it in other words." in feedback[-1]
    assert result.usage.requests == len(drafts)

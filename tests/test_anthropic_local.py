"""Anthropic's wire as another program speaks it: llama.cpp in this process, with real weights and real replies.

Its Messages endpoint streams, counts and cancels, but knows no tools without a template for them and no
structured output. What the small model says is not judged, only what becomes of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anyio
import httpx2
import pytest
from support.streams import read_all, read_failing

from mastra_py import Agent, FeedbackPart, Message, Score, ScorerRun
from mastra_py.errors import ContextLengthError, OutputValidationError
from mastra_py.events import ModelEvent, ModelFinished, OutputSuperseded, TextDelta
from mastra_py.models import AnthropicModel, ModelProfile, ModelRequest, ModelSettings
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
def model(server: LocalServer) -> AnthropicModel:
    return AnthropicModel("smollm2", base_url=server.url)


def settings(**options: Any) -> ModelSettings:
    return ModelSettings(**{"max_output_tokens": 8, "temperature": 0.0, "extra_headers": CLOSE, **options})


def one_sentence(**options: Any) -> ModelSettings:
    """Let a reply end with its first sentence: one that is cut off would end the run."""
    return settings(max_output_tokens=200, stop=[".", "!", "?", "\n"], **options)


def ask(text: str, *, system: str | None = None, **options: Any) -> ModelRequest:
    return ModelRequest(messages=[Message("user", text)], system=system, settings=settings(**options))


async def read(model: AnthropicModel, request: ModelRequest) -> tuple[list[ModelEvent], ModelFinished]:
    with anyio.fail_after(IN_TIME):
        async with model.stream(request) as stream:
            events = [event async for event in stream]
    assert isinstance(events[-1], ModelFinished)
    return events, events[-1]


def text_of(events: list[ModelEvent]) -> str:
    return "".join([event.text for event in events if isinstance(event, TextDelta)])


async def test_a_reply_is_streamed_and_counted(model: AnthropicModel) -> None:
    events, finished = await read(model, ask("Tell a long story.", system="You tell stories."))
    deltas = [event for event in events if isinstance(event, TextDelta)]
    assert len(deltas) > 1
    assert (finished.finish_reason, finished.usage.output_tokens) == ("length", 8)
    assert finished.usage.input_tokens > 8
    assert finished.response_id


async def test_input_from_the_cache_is_part_of_the_input(model: AnthropicModel) -> None:
    request = ask("Which three colours has the flag of France?")
    (_, first), (_, second) = await read(model, request), await read(model, request)
    assert second.usage.input_tokens == first.usage.input_tokens
    assert 0 < second.usage.cached_input_tokens < second.usage.input_tokens


async def test_a_text_that_ends_the_reply_ends_it(model: AnthropicModel) -> None:
    whole, _ = await read(model, ask("Tell a long story."))
    word = text_of(whole).split()[2]
    events, finished = await read(model, ask("Tell a long story.", stop=[word]))
    assert finished.finish_reason == "stop"
    assert text_of(whole).startswith(text_of(events))
    assert word not in text_of(events)


async def test_a_conversation_with_results_of_tools_is_taken(model: AnthropicModel) -> None:
    """A18, A21: also where a result is empty"""
    history: list[Any] = [
        {"role": "user", "parts": [{"type": "text", "text": "Weather?"}]},
        {"role": "assistant", "parts": [{"type": "tool-call", "tool_call_id": "c:1", "tool_name": "f", "args": {}}]},
        {"role": "tool", "parts": [{"type": "tool-result", "tool_call_id": "c:1", "tool_name": "f", "result": ""}]},
    ]
    agent = Agent(id="a", model=model, model_settings=one_sentence())
    _, result = await read_all(agent, "And tomorrow?", messages=history)
    assert result.stop_reason == "answered"
    assert result.usage.output_tokens > 0


async def test_a_cancelled_reader_frees_the_slot_of_the_server(model: AnthropicModel, server: LocalServer) -> None:
    """A38"""
    async with httpx2.AsyncClient(trust_env=False, headers=CLOSE) as client:

        async def is_busy() -> bool:
            return (await client.get(f"{server.url}/slots")).json()[0]["is_processing"]

        with anyio.fail_after(IN_TIME):
            with anyio.CancelScope() as scope:
                async with model.stream(ask("Tell a long story.", max_output_tokens=1900)) as stream:
                    async for event in stream:
                        if isinstance(event, TextDelta):
                            assert await is_busy()
                            scope.cancel()
            with anyio.fail_after(5):  # undisturbed, the reply would take three times as long
                while await is_busy():
                    pass
            assert (await read(model, ask("Hello")))[1].usage.output_tokens > 0


async def test_a_conversation_that_is_too_long_is_named_as_such(model: AnthropicModel) -> None:
    with pytest.raises(ContextLengthError) as caught:
        await read(model, ask("word " * 3000))
    assert (caught.value.status, caught.value.retryable) == (400, False)
    assert "context size" in caught.value.message


PLACE = {"type": "object", "properties": {"city": {"type": "string"}}}
PLACES = [
    *(Message("user", "Where is the Eiffel Tower?"), Message("assistant", '{"city": "Paris"}')),
    *(Message("user", "Where is the Colosseum?"), Message("assistant", '{"city": "Rome"}')),
    *(Message("user", "Where is the Kremlin?"), Message("assistant", '{"city": "Moscow"}')),
]


async def test_a_form_is_told_in_words_and_the_reply_is_read_by_it(model: AnthropicModel) -> None:
    agent = Agent(id="a", model=model, model_settings=settings(max_output_tokens=120))
    _, result = await read_all(agent, "Where is Big Ben?", messages=PLACES, output=PLACE)
    assert isinstance(result.output, dict)


async def test_a_server_that_does_not_keep_to_the_form_is_not_believed(server: LocalServer) -> None:
    model = AnthropicModel("smollm2", base_url=server.url, profile=ModelProfile(native_output=True))
    agent = Agent(id="a", model=model, model_settings=one_sentence())
    _, error = await read_failing(agent, "Say hello.", output=PLACE)
    assert isinstance(error, OutputValidationError)


async def test_an_agent_corrects_itself_until_its_work_is_accepted(model: AnthropicModel) -> None:
    drafts: list[str] = []

    def is_a_second_thought(run: ScorerRun) -> Score:
        drafts.append(run.output)
        if len(drafts) > 1 and run.output.strip() and run.output != drafts[0]:
            return Score(1, "Said in new words.")
        return Score(0, "Say it in other words.")

    agent = Agent(
        id="writer",
        model=model,
        instructions="You write one short sentence.",
        model_settings=one_sentence(temperature=0.8),
    )
    with anyio.fail_after(2 * IN_TIME):
        events, result = await read_all(
            agent, "Write about green tea.", is_task_complete=is_a_second_thought, max_steps=10
        )
    assert (result.stop_reason, result.text) == ("complete", drafts[-1])
    assert [attempt.accepted for attempt in result.attempts] == [*[False] * (len(drafts) - 1), True]
    assert [e.cause for e in events if isinstance(e, OutputSuperseded)] == ["rejected"] * (len(drafts) - 1)
    feedback = [part.text for message in result.messages for part in message.parts if isinstance(part, FeedbackPart)]
    assert "Say it in other words." in feedback[-1]
    assert result.usage.requests == len(drafts)
    assert result.usage.by["agent:writer"].output_tokens > 0

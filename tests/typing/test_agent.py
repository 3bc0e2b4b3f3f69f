# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""What type checkers know of runs. Never run: an ignore marks a line that has to be found wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, assert_type

from pydantic import BaseModel, TypeAdapter

from mastra_py import (
    Agent,
    AgentResult,
    AgentStream,
    LegacyModel,
    Message,
    RunOptions,
    ScorerRun,
    StreamErrorRetryProcessor,
    TaskCompletion,
    create_scorer,
)
from mastra_py.models import ModelRequest
from mastra_py.processors import ErrorProcessor, InputProcessor, OutputProcessor, ProcessorContext


class City(BaseModel):
    name: str


@dataclass
class Point:
    x: int


def is_short(run: ScorerRun) -> bool:
    return len(run.output) < 100


class Redact:
    id = "redact"

    def process_input(self, messages: Sequence[Message], ctx: ProcessorContext) -> Sequence[Message]:
        return messages

    async def process_input_step(self, request: ModelRequest, ctx: ProcessorContext) -> ModelRequest | None:
        return None

    def process_output_step(self, text: str, ctx: ProcessorContext) -> str:
        return text


class NoId:
    def process_output_step(self, text: str, ctx: ProcessorContext) -> str:
        return text


redact_input: InputProcessor = Redact()
redact_output: OutputProcessor = Redact()
retry: ErrorProcessor = StreamErrorRetryProcessor()
no_processor: ErrorProcessor = Redact()  # type: ignore[assignment]

agent = Agent(
    id="a",
    model="openai/gpt-5-mini",
    input_processors=[Redact()],
    output_processors=[Redact()],
    error_processors=[retry],
    defaults={"max_steps": 3, "is_task_complete": is_short},
)
Agent(id="a", model="m", output_processors=[NoId()])  # type: ignore[list-item]
Agent(id="a", model="m", defaults={"max_step": 3})  # type: ignore[arg-type]
Agent(id="a", model=3)  # type: ignore[arg-type]
Agent("a", model="m")  # type: ignore[call-arg]

# The output type is the result's.
assert_type(agent.stream("go"), AgentStream[str])
assert_type(agent.stream("go", output=str), AgentStream[str])
assert_type(agent.stream("go", output=City), AgentStream[City])
assert_type(agent.stream("go", output=Point), AgentStream[Point])
assert_type(agent.stream("go", output=list[City]), AgentStream[list[City]])
assert_type(agent.stream("go", output=TypeAdapter(list[int])), AgentStream[list[int]])
assert_type(agent.stream("go", output={"type": "object"}), AgentStream[Any])
agent.stream("go", output="City")  # type: ignore[call-overload]


async def run_it() -> None:
    assert_type(await agent.generate("go"), AgentResult[str])
    assert_type((await agent.generate("go")).output, str)
    assert_type((await agent.generate("go", output=City)).output, City)
    assert_type((await agent.generate("go", output=City)).text, str)
    assert_type((await agent.generate("go", output=TypeAdapter(dict[str, int]))).output, dict[str, int])
    assert_type((await agent.generate("go", output={"type": "integer"})).output, Any)
    async with agent.stream("go", output=City) as stream:
        assert_type(stream, AgentStream[City])
        async for text in stream.text_deltas(drafts=True):
            assert_type(text, str)
        assert_type((await stream.result()).output, City)
    (await agent.generate("go", output=City)).output.nmae  # type: ignore[attr-defined]


# Options are checked by name and by type.
options: RunOptions = {"max_steps": 3, "tool_choice": "none", "error_processors": [retry]}
agent.stream("go", **options)
agent.stream("go", is_task_complete=TaskCompletion([is_short, create_scorer("s")], strategy="any"), max_steps=2)
agent.stream("go", is_task_complete=[is_short], output=City)
agent.stream(messages=[Message("user", "x"), {"role": "user", "content": "y"}])
agent.stream("go", max_step=3)  # type: ignore[call-overload]
agent.stream("go", max_steps="3")  # type: ignore[call-overload]
agent.stream("go", output=City, max_step=3)  # type: ignore[call-overload]
agent.stream(3)  # type: ignore[call-overload]
TaskCompletion([is_short], strategy="most")  # type: ignore[arg-type]
TaskCompletion([is_short], max_attempt=3)  # type: ignore[call-arg]


# Legacy models.
async def run_legacy() -> None:
    async def complete(prompt: str) -> str:
        return prompt

    old = Agent(id="old", model=LegacyModel(complete, max_retries=1, wait=0.5))
    LegacyModel(str.upper)
    assert_type(await old.generate_legacy("go", max_steps=2, is_task_complete=is_short), AgentResult[str])
    await old.generate_legacy("go", max_step=2)  # type: ignore[call-arg]
    await old.generate_legacy("go", output=City)  # type: ignore[call-arg]
    LegacyModel(len)  # type: ignore[arg-type]

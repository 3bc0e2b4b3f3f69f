"""Whole runs on the real local model: the agent, the gate, the stream, and the example that shows them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.lowlevel
import httpx2
import pytest
from support.streams import read_all, read_failing

from mastra_py import Agent, ContextLengthError, Score, ScorerRun
from mastra_py.events import OutputSuperseded, SubAgentEvent, TextDelta
from mastra_py.models import OpenAIChatModel
from mastra_py.models.local import LocalServer, known_weights
from mastra_py.testing import ScriptedModel, Turn

pytestmark = pytest.mark.local_model
ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with LocalServer(known_weights("smollm2")) as running:
        yield running


def writer(server: LocalServer, **options: object) -> Agent:
    model = OpenAIChatModel("smollm2", base_url=server.base_url, api_key="local")
    settings = {"max_output_tokens": 40, "seed": 1, "extra_headers": {"connection": "close"}}
    return Agent(id="writer", model=model, model_settings=settings, **options)  # type: ignore[arg-type]


async def busy_slots(server: LocalServer) -> int:
    async with httpx2.AsyncClient(trust_env=False) as client:
        slots = (await client.get(f"{server.url}/slots")).json()
    return sum(slot["is_processing"] for slot in slots)


async def test_a_supervisor_delegates_to_real_agents_and_counts_what_they_spend(server: LocalServer) -> None:
    """R11"""
    tasks = [("1", "agent-poet", {"prompt": "Say hello."}), ("2", "agent-poet", {"prompt": "Say good night."})]
    script = ScriptedModel([Turn(tool_calls=tasks), "They said it."])
    supervisor = Agent(id="supervisor", model=script, agents={"poet": writer(server)})
    events, result = await read_all(supervisor, "Have it said.")
    said = [part.result for message in result.messages for part in message.tool_results]
    assert all(isinstance(text, str) and text.strip() for text in said)
    nested = [e for e in events if isinstance(e, SubAgentEvent)]
    texts = [
        "".join([e.event.text for e in nested if e.tool_call_id == call and isinstance(e.event, TextDelta)])
        for call in ("1", "2")
    ]
    assert texts == said
    assert result.usage.by["agent:writer"].input_tokens > 0
    assert sum(usage.total_tokens for usage in result.usage.by.values()) == result.usage.total_tokens


async def test_text_comes_in_deltas_and_usage_is_the_servers(server: LocalServer) -> None:
    events, result = await read_all(writer(server), "Say hello.")
    deltas = [e.text for e in events if isinstance(e, TextDelta)]
    assert len(deltas) > 1
    assert "".join(deltas) == result.text != ""
    assert result.usage.input_tokens > 0
    assert 0 < result.usage.output_tokens <= 40


@pytest.mark.parametrize("how", ["cancel", "break"])
async def test_a_run_that_is_left_in_mid_stream_frees_the_servers_slot(server: LocalServer, how: str) -> None:
    endless = {"max_output_tokens": 1500, "extra_body": {"ignore_eos": True}}
    with anyio.fail_after(20):
        async with writer(server).stream("Tell a long story.", model_settings=endless) as stream:
            seen = 0
            async for event in stream:
                seen += isinstance(event, TextDelta)
                if isinstance(event, TextDelta) and seen == 3:
                    assert await busy_slots(server) == 1
                    if how == "break":
                        break
                    stream.cancel()
        assert (await stream.result()).stop_reason == "cancelled"
        while await busy_slots(server):
            await anyio.lowlevel.checkpoint()


async def test_a_conversation_that_does_not_fit_is_a_clear_error(server: LocalServer) -> None:
    _, error = await read_failing(writer(server), "word " * 5000)
    assert isinstance(error, ContextLengthError)
    assert error.status == 400


async def test_an_agent_corrects_itself_until_its_work_is_accepted(server: LocalServer) -> None:
    drafts: list[str] = []

    def third_draft(run: ScorerRun) -> Score:
        drafts.append(run.output)
        return Score(len(drafts) >= 3, f"This was draft {len(drafts)}; write it again.")

    events, result = await read_all(
        writer(server),
        "Write one short sentence about tea.",
        is_task_complete=third_draft,
        model_settings={"max_output_tokens": 300},
        max_steps=6,
    )
    assert result.stop_reason == "complete"
    assert [a.text for a in result.attempts] == drafts
    assert result.text == drafts[2]
    assert len([e for e in events if isinstance(e, OutputSuperseded)]) == 2
    assert [m.role for m in result.messages] == ["user", "assistant", "user", "assistant", "user", "assistant"]


def run_example(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "OPENAI_API_KEY"}
    return subprocess.run(
        [sys.executable, "-W", "error", "examples/self_correcting.py", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def test_the_example_reports_how_it_ended_and_exits_accordingly() -> None:
    ended = run_example()
    assert ended.stderr == ""
    lines = ended.stdout.splitlines()
    last = re.fullmatch(r"stop_reason=(\w+) attempts=(\d+) accepted=(true|false) seconds=[\d.]+", lines[-1])
    assert last is not None, ended.stdout
    assert ended.returncode == (0 if last[3] == "true" else 1)
    assert (last[1] == "complete") == (last[3] == "true")
    shown = [line for line in lines if line.startswith("draft ")]
    assert len(shown) >= int(last[2]) >= 0


def test_the_example_names_a_model_that_it_does_not_know() -> None:
    ended = run_example("--model", "acme/large")
    assert ended.returncode == 1
    assert "acme/large" in ended.stderr
    assert "Traceback" not in ended.stderr

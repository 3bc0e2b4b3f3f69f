"""The examples check themselves; here they are run, offline and as if with a real model, on both event loops."""

from __future__ import annotations

import ast
import importlib.util
import socket
from pathlib import Path
from types import ModuleType

import anyio
import anyio.lowlevel
import pytest
import uvicorn
from support.chat_reply import chat_reply
from support.http_server import HTTPServer

from mastra_py.testing import Turn

EXAMPLES = Path(__file__).parent.parent / "examples"
TESTED_ELSEWHERE = {"self_correcting.py"}  # it has a test of its own
STORIES = sorted(path.name for path in EXAMPLES.glob("*.py") if path.name not in TESTED_ELSEWHERE)


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the real model that whoever runs the tests may have chosen for the examples."""
    monkeypatch.delenv("MASTRA_EXAMPLE_MODEL", raising=False)


def load(name: str) -> ModuleType:
    """Import an example afresh: the models that it scripts are played once."""
    spec = importlib.util.spec_from_file_location(f"example_{Path(name).stem}", EXAMPLES / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_examples_are_there() -> None:
    assert STORIES == [
        "compatible_server.py",
        "conversation.py",
        "gate_and_feedback.py",
        "judge_scorer.py",
        "nested_progress.py",
        "processors.py",
        "retry_processor.py",
        "rubric.py",
        "starlette_endpoint.py",
        "streaming_text.py",
        "structured_output.py",
        "supervisor.py",
        "tools.py",
    ]


@pytest.mark.parametrize("name", STORIES)
async def test_an_example_does_what_it_says(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with anyio.fail_after(5):
        await load(name).main()
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("name", STORIES)
async def test_an_example_runs_with_a_real_model_too(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # More pieces than a stream holds for its reader, so that leaving early is leaving early.
    async with HTTPServer(chat_reply(Turn(text_chunks=["blah "] * 300))) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("MASTRA_EXAMPLE_MODEL", "openai-chat/stand-in")
        with anyio.fail_after(5):
            await load(name).main()
    assert server.requests


@pytest.mark.parametrize("name", STORIES)
def test_an_example_says_how_to_run_it_and_runs_so(name: str) -> None:
    tree = ast.parse((EXAMPLES / name).read_text(encoding="utf-8"))
    assert f"python examples/{name}" in (ast.get_docstring(tree) or "")
    assert "MASTRA_EXAMPLE_MODEL=openai/" in (ast.get_docstring(tree) or "")
    assert ast.unparse(tree.body[-1]) == "if __name__ == '__main__':\n    anyio.run(main)"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # uvicorn knows no other
async def test_under_a_real_server_a_client_that_leaves_ends_the_run() -> None:
    example = load("starlette_endpoint.py")
    server = uvicorn.Server(uvicorn.Config(example.app, lifespan="off", log_level="error", ws="none"))
    seen = b""
    with socket.create_server(("127.0.0.1", 0)) as listening, anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listening])
            async with await anyio.connect_tcp(*listening.getsockname()) as client:
                await client.send(b"GET /ask?prompt=Count+to+10000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
                while b"1 " not in seen:
                    seen += await client.receive()
            while not example.COUNTED:
                await anyio.lowlevel.checkpoint()
            server.should_exit = True
    assert seen.startswith(b"HTTP/1.1 200 OK\r\n")
    assert example.COUNTED[0] < 1000

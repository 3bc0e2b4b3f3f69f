"""OpenAI's chat completions API, which most other servers speak too."""

from __future__ import annotations

import re
from functools import partial

from mastra_py.errors import UserError
from mastra_py.models._clients import SDKClient, openai_sdk
from mastra_py.models._openai_api import OpenAIAPI
from mastra_py.models._openai_chat_wire import PROVIDER, ChatDecoder, encode
from mastra_py.models._reducer import ReplyReducer
from mastra_py.models._wire_stream import WireStream
from mastra_py.models.base import ModelProfile, ModelRequest

_REASONS = re.compile(r"o\d|gpt-[5-9]")
"""OpenAI's reasoning models, which refuse the old name of the limit of the reply."""


class OpenAIChatModel:
    """A model behind the chat completions API of OpenAI or of a server that is compatible with it.

    Example: ``OpenAIChatModel("gpt-5-mini")``, ``OpenAIChatModel("qwen3", base_url="http://localhost:8000/v1")``

    It makes one attempt a request: retries are the error processors' business. Reasoning of servers that send
    ``reasoning_content`` goes back to them in later requests, and to no other server.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        client: SDKClient | None = None,
        profile: ModelProfile | None = None,
    ) -> None:
        """Name a model and where it is; nothing is connected or read from the environment yet.

        Args:
            name: the model's name on the server.
            base_url: where the API is, with its version, e.g. ``"http://localhost:8000/v1"``. Default: the environment
                variable ``OPENAI_BASE_URL``, else OpenAI itself.
            api_key: Default: the environment variable ``OPENAI_API_KEY``. Other servers than OpenAI's need none.
            client: an ``openai.AsyncOpenAI`` to use instead of a client of the package's own. It belongs to one event
                loop and is not closed.
            profile: what the model can do, where the name does not tell.

        Raises:
            UserError: the name is empty, the URL is none, or ``client`` does not fit.
        """
        if not isinstance(name, str) or not name.strip():  # pyright: ignore[reportUnnecessaryIsInstance] -- users err
            msg = f"a model needs a name, e.g. OpenAIChatModel('gpt-5-mini'), got {name!r}"
            raise UserError(msg)
        self._name = name
        self._api = OpenAIAPI(base_url=base_url, api_key=api_key, client=client)
        self._profile = profile

    @property
    def id(self) -> str:
        """The model's name."""
        return self._name

    @property
    def provider(self) -> str:
        """``"openai"``, whichever server it is."""
        return PROVIDER

    @property
    def profile(self) -> ModelProfile:
        """What the model can do."""
        if self._profile is not None:
            return self._profile
        new = self._api.is_official and _REASONS.match(self._name) is not None
        return ModelProfile(max_tokens_field="max_completion_tokens" if new else "max_tokens")

    def check(self) -> None:
        """Check that requests can be sent.

        Raises:
            UserError: the API key is missing.
        """
        self._api.check()

    def stream(self, request: ModelRequest, /) -> WireStream:
        """Return the reply to ``request``: an async context manager round its events. Entering it sends the request.

        Raises:
            UserError: the API key is missing, or something in the request has no place on this wire.
        """
        self.check()
        server = self._api.base_url
        body = encode(request, model=self._name, profile=self.profile, server=server)
        taken_ids = (call.tool_call_id for message in request.messages for call in message.tool_calls)
        decoder = ChatDecoder(ReplyReducer(provider=PROVIDER, taken_ids=taken_ids), server=server)
        post = partial(self._api.post, "/chat/completions", body, request.settings)
        return WireStream(post, decoder, sdk=openai_sdk(), provider=PROVIDER, model=self._name)

    def __repr__(self) -> str:
        return f"OpenAIChatModel({self._name!r})"

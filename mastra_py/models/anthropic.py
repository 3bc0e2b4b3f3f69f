"""Anthropic's Messages API, which some other servers speak too."""

from __future__ import annotations

import re
from functools import partial

from mastra_py.errors import UserError
from mastra_py.models._anthropic_api import AnthropicAPI
from mastra_py.models._anthropic_wire import PROVIDER, MessagesDecoder, encode
from mastra_py.models._clients import SDKClient, anthropic_sdk
from mastra_py.models._reducer import ReplyReducer
from mastra_py.models._wire_stream import WireStream
from mastra_py.models.base import ModelProfile, ModelRequest

_RECENT = re.compile(r"claude-[a-z]+-(?:4[-.][5-9]|[5-9]|[1-9]\d)(?!\d)")
"""Names of the models that have structured output, whichever host or date is in the name too: from 4.5 on."""

_RECENT_MAX_TOKENS = 16_384


class AnthropicModel:
    """A model behind the Messages API of Anthropic or of a server that is compatible with it.

    Example: ``AnthropicModel("claude-sonnet-5")``, ``AnthropicModel("qwen3", base_url="http://localhost:8000")``

    It makes one attempt a request: retries are the error processors' business. Thinking that Anthropic has signed goes
    back to it in later requests, unchanged, and to no other provider.

    The API wants a limit of the reply. Where the settings have no ``max_output_tokens`` it is the profile's
    ``default_max_tokens``: 16,384 tokens for Claude 4.5 and later, 4,096 for any other model.
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
            base_url: where the API is, e.g. ``"http://localhost:8000"``. Default: the environment variable
                ``ANTHROPIC_BASE_URL``, else Anthropic itself.
            api_key: Default: the environment variable ``ANTHROPIC_API_KEY``. Other servers than Anthropic's need none.
            client: an ``anthropic.AsyncAnthropic`` to use instead of a client of the package's own. It belongs to one
                event loop and is not closed.
            profile: what the model can do, where the name does not tell.

        Raises:
            UserError: the name is empty, the URL is none, or ``client`` does not fit.
        """
        if not isinstance(name, str) or not name.strip():  # pyright: ignore[reportUnnecessaryIsInstance] -- users err
            msg = f"a model needs a name, e.g. AnthropicModel('claude-sonnet-5'), got {name!r}"
            raise UserError(msg)
        self._name = name
        self._api = AnthropicAPI(base_url=base_url, api_key=api_key, client=client)
        self._profile = profile

    @property
    def id(self) -> str:
        """The model's name."""
        return self._name

    @property
    def provider(self) -> str:
        """``"anthropic"``, whichever server it is."""
        return PROVIDER

    @property
    def profile(self) -> ModelProfile:
        """What the model can do."""
        if self._profile is not None:
            return self._profile
        if _RECENT.search(self._name):
            return ModelProfile(default_max_tokens=_RECENT_MAX_TOKENS)
        return ModelProfile(native_output=False)

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
        body = encode(request, model=self._name, profile=self.profile)
        taken_ids = (call.tool_call_id for message in request.messages for call in message.tool_calls)
        decoder = MessagesDecoder(ReplyReducer(provider=PROVIDER, taken_ids=taken_ids))
        post = partial(self._api.post, "/v1/messages", body, request.settings)
        return WireStream(post, decoder, sdk=anthropic_sdk(), provider=PROVIDER, model=self._name)

    def __repr__(self) -> str:
        return f"AnthropicModel({self._name!r})"

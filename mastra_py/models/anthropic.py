"""Anthropic's Messages API, which some other servers speak too."""

from __future__ import annotations

from mastra_py.models._anthropic_api import AnthropicAPI
from mastra_py.models._anthropic_profiles import known_profile
from mastra_py.models._anthropic_settings import lacking
from mastra_py.models._anthropic_wire import PROVIDER, SETTINGS, MessagesDecoder, encode
from mastra_py.models._clients import SDKClient, anthropic_sdk
from mastra_py.models._provider_model import ProviderModel, Wire
from mastra_py.models.profile import ModelProfile


class AnthropicModel(ProviderModel):
    """A model behind the Messages API of Anthropic or of a server that is compatible with it.

    Example: ``AnthropicModel("claude-sonnet-5")``, ``AnthropicModel("qwen3", base_url="http://localhost:8000")``

    It makes one attempt a request: retries are the error processors' business. Thinking that Anthropic has signed goes
    back to it in later requests, unchanged, and to no other provider.

    The API wants a limit of the reply. Where the settings have no ``max_output_tokens`` it is the profile's
    ``default_max_tokens``: 16,384 tokens for Claude models that think, 4,096 for any other model.
    """

    _wire = Wire(
        provider=PROVIDER,
        path="/v1/messages",
        example="claude-sonnet-5",
        settings=SETTINGS,
        lacking=lacking,
        sdk=anthropic_sdk,
        encode=encode,
        decoder=MessagesDecoder,
        known=known_profile,
    )

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
        super().__init__(name, AnthropicAPI(base_url=base_url, api_key=api_key, client=client), profile)

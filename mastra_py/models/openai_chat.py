"""OpenAI's chat completions API, which most other servers speak too."""

from __future__ import annotations

from mastra_py.models._clients import SDKClient, openai_sdk
from mastra_py.models._openai_api import OpenAIAPI
from mastra_py.models._openai_chat_wire import PROVIDER, REFUSED, SETTINGS, ChatDecoder, encode
from mastra_py.models._openai_profiles import known_profile
from mastra_py.models._provider_model import ProviderModel, Wire
from mastra_py.models.profile import ModelProfile

CHAT = Wire(
    provider=PROVIDER,
    path="/chat/completions",
    example="gpt-5-mini",
    settings=SETTINGS,
    refused=REFUSED,
    sdk=openai_sdk,
    encode=encode,
    decoder=ChatDecoder,
    known=known_profile,
)
"""The wire of chat completions."""


class OpenAIChatModel(ProviderModel):
    """A model behind the chat completions API of OpenAI or of a server that is compatible with it.

    Example: ``OpenAIChatModel("gpt-5-mini")``, ``OpenAIChatModel("qwen3", base_url="http://localhost:8000/v1")``

    It makes one attempt a request: retries are the error processors' business. Reasoning of servers that send
    ``reasoning_content`` goes back to them in later requests, and to no other server.
    """

    _wire = CHAT

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
        super().__init__(name, OpenAIAPI(base_url=base_url, api_key=api_key, client=client), profile)

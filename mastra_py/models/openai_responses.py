"""OpenAI's Responses API, which some other servers speak too."""

from __future__ import annotations

from mastra_py.models._clients import SDKClient, openai_sdk
from mastra_py.models._openai_api import OpenAIAPI
from mastra_py.models._openai_profiles import known_profile
from mastra_py.models._provider_model import ProviderModel, Wire
from mastra_py.models._responses_items import PROVIDER
from mastra_py.models._responses_reply import ResponsesDecoder
from mastra_py.models._responses_wire import REFUSED, SETTINGS, encode
from mastra_py.models.profile import ModelProfile

RESPONSES = Wire(
    provider=PROVIDER,
    path="/responses",
    example="gpt-5-mini",
    settings=SETTINGS,
    refused=REFUSED,
    elsewhere="; a server without the Responses API may have chat completions: OpenAIChatModel, 'openai-chat/...'",
    sdk=openai_sdk,
    encode=encode,
    decoder=ResponsesDecoder,
    known=known_profile,
)
"""The wire of the Responses API."""


class OpenAIResponsesModel(ProviderModel):
    """A model behind the Responses API of OpenAI or of a server that is compatible with it.

    Example: ``OpenAIResponsesModel("gpt-5-mini")``

    It makes one attempt a request: retries are the error processors' business. The whole conversation is sent each
    time, and the model's reasoning with it in encrypted form, so that it can think on from where it was; no other
    server gets to see it. With the setting ``store=False`` OpenAI keeps nothing, and that works all the same.
    """

    _wire = RESPONSES

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

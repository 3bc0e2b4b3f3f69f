"""What models behind OpenAI's APIs have in common, whichever of the wires they speak: where they are."""

from __future__ import annotations

from mastra_py.models._clients import SDKClient
from mastra_py.models._openai_api import OpenAIAPI
from mastra_py.models._provider_model import ProviderModel
from mastra_py.models.profile import ModelProfile


class OpenAIModel(ProviderModel):
    """A model of OpenAI, or of a server that is compatible with it."""

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

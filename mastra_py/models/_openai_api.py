"""OpenAI's HTTP API, and that of the many servers that are compatible with it."""

from __future__ import annotations

from mastra_py.models._clients import SDKClient, openai_client, openai_sdk
from mastra_py.models._provider_api import ProviderAPI, ProviderFacts

_OPENAI = ProviderFacts(
    key_variable="OPENAI_API_KEY",
    url_variable="OPENAI_BASE_URL",
    official_url="https://api.openai.com/v1",
    official_hosts=("api.openai.com", ".api.openai.com", ".openai.azure.com"),  # Azure's hosts have its models too
    client_type="openai.AsyncOpenAI",
    sdk=openai_sdk,
    own_client=openai_client,
)


class OpenAIAPI(ProviderAPI):
    """Where requests to OpenAI, or to a server that is compatible with it, go."""

    def __init__(self, *, base_url: str | None, api_key: str | None, client: SDKClient | None) -> None:
        """Take a base URL and a key, or else an ``openai.AsyncOpenAI`` that has both; as :class:`ProviderAPI`."""
        super().__init__(_OPENAI, base_url=base_url, api_key=api_key, client=client)

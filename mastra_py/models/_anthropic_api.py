"""Anthropic's HTTP API, and that of the servers that are compatible with it."""

from __future__ import annotations

from mastra_py.models._clients import SDKClient, anthropic_client, anthropic_sdk
from mastra_py.models._provider_api import ProviderAPI, ProviderFacts

_ANTHROPIC = ProviderFacts(
    key_variable="ANTHROPIC_API_KEY",
    url_variable="ANTHROPIC_BASE_URL",
    official_url="https://api.anthropic.com",
    official_hosts=("api.anthropic.com",),
    client_type="anthropic.AsyncAnthropic",
    sdk=anthropic_sdk,
    own_client=anthropic_client,
)


class AnthropicAPI(ProviderAPI):
    """Where requests to Anthropic, or to a server that is compatible with it, go."""

    def __init__(self, *, base_url: str | None, api_key: str | None, client: SDKClient | None) -> None:
        """Take a base URL and a key, or else an ``anthropic.AsyncAnthropic``; as :class:`ProviderAPI`."""
        super().__init__(_ANTHROPIC, base_url=base_url, api_key=api_key, client=client)

    @property
    def base_url(self) -> str:
        """The URL that requests go to, without the version: on this API that is part of each path.

        With other providers it belongs to the base URL, so that many write it there.
        """
        return super().base_url.removesuffix("/v1")

"""A server that speaks a provider's HTTP API: where it is, with which key, and how a request is sent to it.

What the models of one provider share, whichever of its wires they speak, and what the providers have in common whose
SDK stands on ``httpx2``.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from mastra_py.errors import UserError
from mastra_py.models._clients import SDKClient, http_library
from mastra_py.models.base import ModelSettings

_NO_KEY = "no-key"  # local servers want none, and the SDKs do not go without


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderFacts:
    """What sets a provider's API apart from another's.

    Attributes:
        key_variable: the environment variable of the API key.
        url_variable: the environment variable of the base URL.
        official_url: where the provider itself is.
        official_hosts: where its own models answer; a name that begins with a dot stands for all hosts under it.
        client_type: what a client of the user's own has to be.
        sdk: returns the SDK, and imports it on first use.
        own_client: returns this event loop's client for a base URL and a key.
    """

    key_variable: str
    url_variable: str
    official_url: str
    official_hosts: tuple[str, ...]
    client_type: str
    sdk: Callable[[], Any]
    own_client: Callable[[str, str], SDKClient]


class ProviderAPI:
    """Where requests go. Nothing is read from the environment before it is needed."""

    def __init__(
        self, facts: ProviderFacts, *, base_url: str | None, api_key: str | None, client: SDKClient | None
    ) -> None:
        """Take a base URL and a key, or else a client of the SDK that has both.

        Raises:
            UserError: the URL is none, the client is not an async one, or both are given.
        """
        if client is not None and (base_url is not None or api_key is not None):
            msg = "give either client, or base_url and api_key: a client has its own"
            raise UserError(msg)
        if client is not None and not inspect.iscoroutinefunction(getattr(client, "post", None)):
            msg = f"client must be an {facts.client_type}, got {type(client).__name__}"
            raise UserError(msg)
        if base_url is not None:
            _check_url(base_url, facts.official_url)
        self._facts = facts
        self._base_url = base_url
        self._api_key = api_key
        self._client = client

    @property
    def base_url(self) -> str:
        """The URL that requests go to, without a slash at its end."""
        if self._client is not None:
            return str(self._client.base_url).rstrip("/")
        return (self._base_url or os.environ.get(self._facts.url_variable) or self._facts.official_url).rstrip("/")

    @property
    def is_official(self) -> bool:
        """Whether the provider's own models answer there."""
        host = urlsplit(self.base_url).hostname or ""
        return any(host.endswith(known) if known[0] == "." else host == known for known in self._facts.official_hosts)

    def check(self) -> None:
        """Check that requests can be sent.

        Raises:
            UserError: the API key is missing.
        """
        if self._client is None and not self._key():
            variable = self._facts.key_variable
            msg = f"no API key for {self.base_url}: set the environment variable {variable}, or give api_key"
            raise UserError(msg)

    async def post(self, path: str, body: dict[str, Any], settings: ModelSettings) -> Any:
        """Send a request, once, and return the ``httpx2.Response`` with its body unread."""
        client = self._client or self._facts.own_client(self.base_url, self._key())
        options: dict[str, Any] = {"max_retries": 0}
        if settings.extra_headers:
            options["headers"] = dict(settings.extra_headers)
        if settings.timeout is not None:
            options["timeout"] = settings.timeout
        return await client.post(
            path,
            body=body,
            cast_to=http_library().Response,
            options=options,
            stream=True,
            stream_cls=self._facts.sdk().AsyncStream[object],
        )

    def _key(self) -> str:
        return self._api_key or os.environ.get(self._facts.key_variable) or ("" if self.is_official else _NO_KEY)


def _check_url(base_url: str, example: str) -> None:
    try:
        url = urlsplit(base_url)
        sound = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        sound = False
    if not sound:
        msg = f"base_url must be an http or https URL such as {example!r}, got {base_url!r}"
        raise UserError(msg)

"""A server that speaks a provider's HTTP API: where it is, with which key, and how a request is sent to it.

What the models of one provider share, whichever of its wires they speak, and what the providers have in common whose
SDK stands on ``httpx2``.
"""

from __future__ import annotations

import base64
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from mastra_py.errors import UserError
from mastra_py.models._clients import SDKClient, http_library
from mastra_py.models._redact import REDACTED, is_secret_name, redact_url
from mastra_py.models.settings import ModelSettings

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
        for name, given in (("base_url", base_url), ("api_key", api_key)):
            if given is not None and not isinstance(given, str):  # pyright: ignore[reportUnnecessaryIsInstance] -- users err
                msg = f"{name} must be a text, got {type(given).__name__}"
                raise UserError(msg)
        if base_url is not None:
            _check_url(base_url, facts.official_url)
        self._facts = facts
        self._base_url = base_url
        self._api_key = api_key
        self._client = client

    @property
    def base_url(self) -> str:
        """The URL that requests go to, without a slash at its end, and without what may be a secret."""
        return redact_url(self._url()).rstrip("/")

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
        if self._client is not None:
            return
        named = os.environ.get(self._facts.url_variable)
        if self._base_url is None and named:
            _check_url(named, self._facts.official_url, f"the environment variable {self._facts.url_variable}")
        key = self._key()
        variable = self._facts.key_variable
        if not key:
            msg = f"no API key for {self.base_url}: set the environment variable {variable}, or give api_key"
            raise UserError(msg)
        if not (key.isascii() and key.isprintable()):
            source = "api_key" if self._api_key else f"the environment variable {variable}"
            msg = f"the API key for {self.base_url} holds a character that no key has, e.g. a line break: see {source}"
            raise UserError(msg)

    async def post(self, path: str, body: dict[str, Any], settings: ModelSettings) -> Any:
        """Send a request, once, and return the ``httpx2.Response`` with its body unread."""
        client = self._client or self._facts.own_client(self.base_url, self._key())
        options: dict[str, Any] = {"max_retries": 0}
        if headers := self._headers(settings):
            options["headers"] = headers
        if (timeout := _timeout(client, settings)) is not None:
            options["timeout"] = timeout
        return await client.post(
            path,
            body=body,
            cast_to=http_library().Response,
            options=options,
            stream=True,
            stream_cls=self._facts.sdk().AsyncStream[object],
        )

    def _url(self) -> str:
        if self._client is not None:
            return str(self._client.base_url)
        return self._base_url or os.environ.get(self._facts.url_variable) or self._facts.official_url

    def _key(self) -> str:
        key = (self._api_key or os.environ.get(self._facts.key_variable) or "").strip()  # files end in a line break
        return key or ("" if self.is_official else _NO_KEY)

    def _headers(self, settings: ModelSettings) -> dict[str, str]:
        headers: dict[str, str] = {}
        userinfo = "" if self._client is not None else urlsplit(self._url()).netloc.rpartition("@")[0]
        if userinfo:  # as a header: URLs are logged
            basic = base64.b64encode(unquote(userinfo).encode()).decode()
            headers["Authorization"] = _Hidden(f"Basic {basic}")
        for name, value in (settings.extra_headers or {}).items():
            headers[name] = _Hidden(value) if is_secret_name(name) else value
        return headers


class _Hidden(str):
    """A text that ``repr`` does not show: SDKs write their options into debug logs."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(REDACTED)


def _timeout(client: SDKClient, settings: ModelSettings) -> Any:
    """Return the time limits of the HTTP library, ``None`` to keep those of the client.

    Reading, and waiting for a connection, is bounded by the settings themselves: what the client allows for it must not
    pass before.
    """
    ours = (settings.timeout, settings.first_timeout, settings.total_timeout)
    if ours == (None, None, None):
        return None
    http = http_library()
    usual = http.Timeout(getattr(client, "timeout", None))
    if settings.timeout is not None or settings.total_timeout is not None:
        read = None
    else:  # after the first piece the client's own limit is the only one
        read = None if usual.read is None else max(usual.read, settings.first_timeout or 0.0)
    return http.Timeout(None, connect=usual.connect, read=read)


def _check_url(base_url: str, example: str, name: str = "base_url") -> None:
    try:
        url = urlsplit(base_url)
        sound = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
        sound = sound and not any(character.isspace() for character in base_url)
        bare = not url.query and not url.fragment
    except ValueError:
        sound = bare = False
    if not sound:
        msg = f"{name} must be an http or https URL such as {example!r}, got {redact_url(base_url)!r}"
        raise UserError(msg)
    if not bare:
        msg = f"{name} {redact_url(base_url)!r} must end with its path; give a client with default_query instead"
        raise UserError(msg)

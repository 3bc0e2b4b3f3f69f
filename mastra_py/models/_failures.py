"""What goes wrong on the way to a provider and back, as errors that hold no secrets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import anyio

from mastra_py.errors import ModelConnectionError, ModelError, ModelTimeoutError
from mastra_py.models._clients import MAX_ERROR_BYTES, http_library
from mastra_py.models._errors import model_error, request_id_of
from mastra_py.models._json import read_json
from mastra_py.models._redact import Redactor, chain_of, clean_exception, redact_url, secrets_in, secrets_of
from mastra_py.models.settings import ModelSettings

_LONGEST_MESSAGE = 2_000  # characters; a whole web page is no message
_LONGEST_NOTE = 100  # and of the note behind one that has been cut already


class TimeLimitError(TimeoutError):
    """One of the time limits that a user has set has passed."""


class Failures:
    """Makes the errors of one call.

    Attributes:
        transport: the exceptions of the connection.
        opening: the exceptions of opening a reply.
    """

    def __init__(
        self,
        *,
        sdk: Any,
        provider: str,
        model: str,
        settings: ModelSettings,
        on_error: Callable[[ModelError], None] | None,
    ) -> None:
        self._sdk = sdk
        self._provider = provider
        self._model = model
        self._settings = settings
        self._on_error = on_error
        self._http = http = http_library()
        # The last two come out of TLS connections as they are.
        self.transport: tuple[type[Exception], ...] = (
            *(http.HTTPError, http.StreamError, OSError),
            *(anyio.EndOfStream, anyio.BrokenResourceError),
        )
        self.opening: tuple[type[Exception], ...] = (sdk.APIError, *self.transport)

    def is_timeout(self, exc: BaseException) -> bool:
        """Whether ``exc`` means that the provider took too long."""
        return isinstance(exc, (self._sdk.APITimeoutError, self._http.TimeoutException, TimeoutError))

    def opening_error(self, exc: Exception) -> ModelError:
        """Return the error for what opening a reply raised."""
        cause = exc.__cause__ or exc
        for found in (exc, cause):  # one SDK wraps whatever a hook of the user's client raises, the other does not
            if isinstance(found, (self._sdk.APIStatusError, self._http.HTTPStatusError)):
                return self.completed(self._status_error(cast("Any", found).response), None, exc)
        detail = f"{str(cause) or type(cause).__name__}{_where(exc)}"
        if isinstance(exc, TimeLimitError):
            return self.completed(ModelTimeoutError(detail), None, exc)
        if self.is_timeout(exc):
            return self.completed(ModelTimeoutError(f"the provider did not answer in time: {detail}"), None, exc)
        return self.completed(ModelConnectionError(f"the provider could not be reached: {detail}"), None, exc)

    def completed(self, error: ModelError, response: Any, cause: BaseException | None) -> ModelError:
        """Return ``error`` with all that is known about it, and without secrets.

        ``response`` is the one that it came in, ``cause`` what it came from: that is cleaned as well.
        """
        error.provider = error.provider or self._provider
        error.model = error.model or self._model
        if response is not None:
            error.request_id = error.request_id or request_id_of(response.headers)
        secrets = secrets_of(self._settings.extra_headers or {})
        request = getattr(response, "_request", None)  # the property of that name raises where there is none
        if request is not None:
            secrets |= secrets_of(request.headers, str(request.url))
        if cause is not None:
            error.__cause__ = cause
        for each in chain_of(error):
            secrets |= secrets_in(each)
        _clean(error, Redactor(secrets))
        if self._on_error is not None:
            self._on_error(error)
        return error

    def _status_error(self, response: Any) -> ModelError:
        # The whole body: the SDK keeps only what is inside of its "error".
        try:
            content: bytes = response.content[:MAX_ERROR_BYTES]  # unpacked it may be very much
        except self._http.ResponseNotRead:  # a hook of the user's client has closed it
            content = b""
        body: Any
        try:
            body = read_json(content) if content else None
        except ValueError:
            body = content.decode("utf-8", "replace") or None
        error = model_error(status=response.status_code, headers=response.headers, body=body)
        if len(content) >= MAX_ERROR_BYTES:
            error.message = (
                f"{error.message[:_LONGEST_MESSAGE]} (cut off: the body is larger than {MAX_ERROR_BYTES} bytes)"
            )
        return error


def _where(exc: Exception) -> str:
    """Return which server a request went to, as far as ``exc`` knows, without what may be a secret."""
    request = getattr(exc, "_request", None) or getattr(exc, "request", None)
    return f" ({redact_url(str(request.url))})" if request is not None else ""


def _clean(error: ModelError, redactor: Redactor) -> None:
    body, headers = error.body, error.headers  # as they came: a header is known for a secret by its name alone
    clean_exception(error, redactor)  # its message, code, request id, and all that led to it
    error.body = redactor.value(body)
    error.headers = redactor.headers(headers)
    if len(error.message) > _LONGEST_MESSAGE + _LONGEST_NOTE:
        error.message = f"{error.message[:_LONGEST_MESSAGE]}... ({len(error.message)} characters)"
    error.args = (error.message,)

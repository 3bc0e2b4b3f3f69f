"""Legacy models: a function from a prompt to a text."""

from __future__ import annotations

import inspect
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from types import TracebackType
from typing import TypeAlias, cast

import anyio
import anyio.to_thread
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, wait_exponential
from tenacity.wait import wait_base

from mastra_py._loop.callbacks import resolve
from mastra_py._loop.faults import replaced_cancel
from mastra_py.errors import MastraError, ModelError, UserError
from mastra_py.events import ModelEvent, ModelFinished, TextDelta, TextEnd, TextStart
from mastra_py.messages import DataPart, FeedbackPart, Message, ReasoningPart, TextPart
from mastra_py.models._errors import wrap_exception
from mastra_py.models.base import ModelRequest
from mastra_py.models.profile import ModelProfile
from mastra_py.models.settings import ModelSettings
from mastra_py.processors._failures import cause_chain, implied_mark, requested_wait, stated_mark

PromptFunction: TypeAlias = Callable[[str], str | Awaitable[str]]
"""From a prompt to a text; plain or async."""

MAX_RETRY_AFTER = 30.0
"""Limit of a wait that the provider asks for, in seconds."""


class LegacyModel:
    """A model that is a function of a prompt: text in, text out.

    It adapts what is no chat model to a :class:`~mastra_py.Judge`, or to an agent's ``generate_legacy()``. It has no
    tools, takes no settings and reports no usage. A failed call is made again by the model itself, not by error
    processors: where the provider marks the failure as passing or could not be reached.

    Example::

        def complete(prompt: str) -> str:
            return client.completions.create(model="davinci", prompt=prompt).text

        judge = Judge(model=LegacyModel(complete), instructions="You grade answers.")

    Args:
        function: from a prompt to a text. A plain function runs in a worker thread, and leaving a run waits for it.
        id: the model's name.
        provider: the name of the provider.
        max_retries: how often a failed call is made again.
        wait: seconds before a retry, or a tenacity ``wait_*`` object. The provider's ``Retry-After`` counts where it is
            longer, up to 30 seconds.

    Raises:
        UserError: an option is of a wrong type or out of range.
    """

    def __init__(
        self,
        function: PromptFunction,
        *,
        id: str = "legacy",
        provider: str = "legacy",
        max_retries: int = 2,
        wait: float | wait_base | None = None,
    ) -> None:
        if not callable(function):
            msg = f"LegacyModel needs a function from a prompt to a text, got {function!r}"
            raise UserError(msg)
        if type(max_retries) is not int or max_retries < 0:
            msg = f"LegacyModel max_retries must be a whole number from 0, got {max_retries!r}"
            raise UserError(msg)
        self.id = id
        self.provider = provider
        self.profile = ModelProfile(native_output=False, legacy=True)
        self.function = function
        self.max_retries = max_retries
        self.wait = _Wait(_read_wait(wait))

    def __repr__(self) -> str:
        return f"LegacyModel({self.id!r})"

    def stream(self, request: ModelRequest, /) -> LegacyReply:
        """Return the reply to ``request``: an async context manager round its events. Entering it calls the function.

        Raises:
            UserError: the request has something that a text has no place for.
        """
        return LegacyReply(self, as_prompt(request, f"legacy model {self.id!r}"))


class _Wait(wait_base):
    """The own wait, or what the provider asks for where that is longer, up to a limit."""

    def __init__(self, own: Callable[[RetryCallState], float]) -> None:
        self._own = own

    def __call__(self, retry_state: RetryCallState) -> float:
        error = retry_state.outcome.exception() if retry_state.outcome else None
        asked = requested_wait(error, datetime.now(UTC)) if isinstance(error, Exception) else None
        return max(self._own(retry_state), min(asked or 0.0, MAX_RETRY_AFTER))


class LegacyReply:
    """A reply of a :class:`LegacyModel`. ``requests`` counts the calls that were made for it."""

    def __init__(self, model: LegacyModel, prompt: str) -> None:
        self._model = model
        self._prompt = prompt
        self.requests = 0

    async def __aenter__(self) -> AsyncIterator[ModelEvent]:
        model = self._model
        retrying = AsyncRetrying(
            retry=retry_if_exception(is_passing),
            stop=stop_after_attempt(model.max_retries + 1),
            wait=model.wait,
            sleep=anyio.sleep,
            reraise=True,
        )
        return _Events(_events(await retrying(self._call)))

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Do nothing: the text is there whole, and no connection is open."""

    async def _call(self) -> str:
        model = self._model
        self.requests += 1
        try:
            text = await _answer(model.function, self._prompt)
        except (MastraError, AssertionError):
            raise
        except Exception as exc:
            if replaced_cancel(exc):
                raise
            raise wrap_exception(exc, provider=model.provider, model=model.id) from exc
        if not isinstance(text, str):
            msg = f"the function of legacy model {model.id!r} must return a text, got {text!r}"
            raise UserError(msg)
        return text


async def _answer(function: PromptFunction, prompt: str) -> object:
    if inspect.iscoroutinefunction(function):
        return await cast("Awaitable[object]", function(prompt))
    # In a tuple: a plain function may return what is to be awaited, and that may not leave a thread bare.
    (answer,) = await anyio.to_thread.run_sync(lambda: (cast("object", function(prompt)),))
    return await resolve(answer)


class _Events:
    """The events of a text that is there already."""

    def __init__(self, events: Iterator[ModelEvent]) -> None:
        self._events = events

    def __aiter__(self) -> AsyncIterator[ModelEvent]:
        return self

    async def __anext__(self) -> ModelEvent:
        for event in self._events:
            return event
        raise StopAsyncIteration


def _events(text: str) -> Iterator[ModelEvent]:
    if text:
        yield TextStart()
        yield TextDelta(text)
        yield TextEnd()
    yield ModelFinished(finish_reason="stop")


def is_passing(error: BaseException) -> bool:
    """Whether a retry may help: the first thing that the error, or else a cause, says about it counts."""
    if not isinstance(error, ModelError):
        return False
    for cause in cause_chain(error):
        for mark in (stated_mark(cause), implied_mark(cause)):
            if mark is not None:
                return mark
    return False


def as_prompt(request: ModelRequest, where: str) -> str:
    """Return a request as one text: the system prompt, then what was said, with who said it where it is a conversation.

    Raises:
        UserError: there is something in it that a text has no place for; ``where`` says whose it is.
    """
    if request.tools:
        msg = f"{where} cannot call tools"
        raise UserError(msg)
    if request.output is not None:
        msg = f"{where} cannot be told natively what form its reply has; leave json_prompt_injection at 'auto'"
        raise UserError(msg)
    if request.settings != ModelSettings():
        msg = f"{where} takes no model_settings; set them in its function"
        raise UserError(msg)
    said = [(message.role, _text(message, where)) for message in request.messages]
    if len(said) == 1:
        body = said[0][1]
    else:
        body = "\n\n".join([f"{role.capitalize()}: {text}" for role, text in said] + ["Assistant:"])
    return f"{request.system}\n\n{body}" if request.system else body


def _text(message: Message, where: str) -> str:
    texts: list[str] = []
    for part in message.parts:
        if isinstance(part, TextPart | FeedbackPart):
            texts.append(part.text)
        elif not isinstance(part, ReasoningPart | DataPart):
            msg = f"{where} takes text only, and there is a {part.type} in the conversation"
            raise UserError(msg)
    return "\n\n".join([text for text in texts if text])


def _read_wait(wait: object) -> Callable[[RetryCallState], float]:
    if wait is None:
        return wait_exponential(max=MAX_RETRY_AFTER)
    if isinstance(wait, wait_base):
        return wait
    if isinstance(wait, int | float) and not isinstance(wait, bool) and 0 <= wait <= sys.float_info.max:
        return lambda _: float(wait)
    msg = f"LegacyModel wait must be a finite number of seconds from 0 or a tenacity wait, got {wait!r}"
    raise UserError(msg)

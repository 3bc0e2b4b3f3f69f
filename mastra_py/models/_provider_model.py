"""What the models of all providers have in common: from a request to the reply of a server, on one of the wires.

A :class:`Wire` is what sets the wires apart, as data. The rest is the same for each: what a model can do is known by
its name, given by the user, and learned from what its provider refuses; a conversation is repaired before it is sent;
and settings that nobody there takes are left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from logging import getLogger
from typing import Any, ClassVar, Protocol

from mastra_py.errors import ModelError, UserError
from mastra_py.messages import Message, ReasoningPart
from mastra_py.models._history import in_turns, repaired
from mastra_py.models._lessons import lesson_of
from mastra_py.models._output_words import in_prompt
from mastra_py.models._reducer import ReplyReducer
from mastra_py.models._reply import Decoder
from mastra_py.models._wire_stream import WireStream
from mastra_py.models.base import ModelRequest
from mastra_py.models.profile import ModelProfile
from mastra_py.models.settings import ModelSettings

logger = getLogger("mastra_py")

_MEANT = frozenset({"stop", "thinking_budget"})
"""Settings that are never left out in silence: what the reply means depends on them."""

_ABOUT_FORM = frozenset({"native_output", "output_with_tools"})
"""Lessons that are of no use where the form of a reply is wanted natively in any case."""


class Encode(Protocol):
    """Returns the body of a request to ``server``; a ``UserError`` where something in it has no place on the wire."""

    def __call__(self, request: ModelRequest, *, model: str, profile: ModelProfile, server: str) -> dict[str, Any]: ...


class MakeDecoder(Protocol):
    """Returns what reads one reply of ``server``, and tells the reducer what is in it."""

    def __call__(self, reducer: ReplyReducer, /, *, server: str) -> Decoder: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """A wire, as data.

    Attributes:
        provider: the name of the provider whose wire it is.
        path: where requests go, below the base URL.
        example: a model of it, for error messages.
        settings: the settings that it has a place for.
        lacking: returns settings that a model of that profile does not take beside the others.
        refused: settings without a place that cannot be left out in silence, each with the way out.
        elsewhere: what to try where a server does not have it.
        sdk: returns the SDK, and imports it on first use.
        encode: writes a request.
        decoder: returns what reads a reply of a server.
        known: returns what is known of a model by its name, and by whether it is the provider's own.
    """

    provider: str
    path: str
    example: str
    settings: frozenset[str]
    lacking: Callable[[ModelSettings, ModelProfile], frozenset[str]] = lambda _settings, _profile: frozenset()
    refused: Mapping[str, str] = field(default_factory=dict[str, str])
    elsewhere: str = ""
    sdk: Callable[[], Any]
    encode: Encode
    decoder: MakeDecoder
    known: Callable[[str, bool], ModelProfile]


class ServerAPI(Protocol):
    """Where requests go, see :class:`~mastra_py.models._provider_api.ProviderAPI`."""

    @property
    def base_url(self) -> str: ...

    @property
    def is_official(self) -> bool: ...

    def check(self) -> None: ...

    async def post(self, path: str, body: dict[str, Any], settings: ModelSettings) -> Any: ...


class ProviderModel:
    """A model of a server that speaks a :class:`Wire`. It makes one attempt a request, and learns from refusals."""

    _wire: ClassVar[Wire]

    def __init__(self, name: str, api: ServerAPI, profile: ModelProfile | None) -> None:
        """Name a model and where it is.

        Raises:
            UserError: the name is empty, or ``profile`` is no :class:`ModelProfile`.
        """
        if not isinstance(name, str) or not name.strip():  # pyright: ignore[reportUnnecessaryIsInstance] -- users err
            msg = f"a model needs a name, e.g. {type(self).__name__}({self._wire.example!r}), got {name!r}"
            raise UserError(msg)
        if profile is not None and not isinstance(profile, ModelProfile):  # pyright: ignore[reportUnnecessaryIsInstance] -- users err
            msg = f"profile of {type(self).__name__}({name!r}) must be a ModelProfile, got {profile!r}"
            raise UserError(msg)
        self._name = name
        self._api = api
        self._given = profile
        self._learned: ModelProfile | None = None
        self._warned: set[str] = set()

    @property
    def id(self) -> str:
        """The model's name."""
        return self._name

    @property
    def provider(self) -> str:
        """The name of the provider whose API it is, whichever server speaks it."""
        return self._wire.provider

    @property
    def profile(self) -> ModelProfile:
        """What the model can do: what its provider has refused so far, else what was given, else what is known."""
        return self._learned or self._given or self._wire.known(self._name, self._api.is_official)

    def check(self) -> None:
        """Check that requests can be sent.

        Raises:
            UserError: the API key is missing.
        """
        self._api.check()

    def stream(self, request: ModelRequest, /) -> WireStream:
        """Return the reply to ``request``: an async context manager round its events. Entering it sends the request.

        Raises:
            UserError: the API key is missing, or something in the request has no place on this wire.
        """
        self.check()
        wire, profile, server = self._wire, self.profile, self._api.base_url
        request = self._sendable(request, profile)
        body = wire.encode(request, model=self._name, profile=profile, server=server)
        taken_ids = (call.tool_call_id for message in request.messages for call in message.tool_calls)
        return WireStream(
            partial(self._api.post, wire.path, body, request.settings),
            wire.decoder(ReplyReducer(provider=wire.provider, taken_ids=taken_ids), server=server),
            sdk=wire.sdk(),
            provider=wire.provider,
            model=self._name,
            settings=request.settings,
            on_error=partial(self._on_error, profile=profile, body=body, forced=request.native_output),
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"

    def _sendable(self, request: ModelRequest, profile: ModelProfile) -> ModelRequest:
        """Return the request as a model of ``profile`` takes it, with its conversation repaired.

        Raises:
            UserError: nothing is left of the conversation, or something in it cannot be sent.
        """
        request = repaired(self._fitted(request, profile), prefill=profile.prefill)
        messages = in_turns(
            request.messages, assistant_first=profile.assistant_first, user_after_tool=profile.user_after_tool
        )
        if not messages:
            msg = f"{self!r} was given nothing to answer: no message has anything in it that can be sent"
            raise UserError(msg)
        return request if messages is request.messages else dataclasses.replace(request, messages=messages)

    def _fitted(self, request: ModelRequest, profile: ModelProfile) -> ModelRequest:
        """Return the request without what a model of ``profile`` has no place for, or with it in another place."""
        native = profile.native_output and (profile.output_with_tools or not request.tools)
        if request.output is not None and not (native or request.native_output):
            request = in_prompt(request, request.output)
        if not profile.system_anywhere:
            request = _with_system_first(request)
        if not profile.replay_thinking:
            request = _without_thinking(request)
        left_out = self._left_out(request.settings, profile)
        if left_out:
            request = dataclasses.replace(request, settings=request.settings.without(left_out))
        return request

    def _left_out(self, settings: ModelSettings, profile: ModelProfile) -> frozenset[str]:
        """Return the settings that are not sent, with one warning for each."""
        wire, names = self._wire, settings.set_names()
        self._check_meant(names, profile)
        lacking = (names - wire.settings) | (names & profile.unsupported)
        if profile.thinking is None:
            lacking |= names & {"reasoning_effort", "thinking_budget"}
        lacking |= names & wire.lacking(settings.without(lacking), profile)
        for name in sorted(lacking - self._warned):
            self._warned.add(name)
            logger.warning("%r does not take the model setting %s: it is left out", self, name)
        return lacking

    def _check_meant(self, names: frozenset[str], profile: ModelProfile) -> None:
        """Refuse settings that have no place here and cannot be left out in silence."""
        refused = dict.fromkeys(names & profile.unsupported & _MEANT, "it is not one of this model's")
        refused |= {name: way_out for name, way_out in self._wire.refused.items() if name in names}
        if refused:
            name = min(refused)
            msg = f"{self!r} does not take the model setting {name}; {refused[name]}"
            raise UserError(msg)

    def _on_error(self, error: ModelError, *, profile: ModelProfile, body: Mapping[str, Any], forced: bool) -> None:
        """Add what is known here: which place may not be there, and what a refusal of ``body`` says the model lacks.

        ``profile`` is the one that ``body`` was written for. ``forced``: the form of the reply is wanted natively in
        any case, so that lacking it is the error it is.
        """
        if error.status == 404 and error.code is None and not self._api.is_official:  # there may be no such place
            error.message = f"{error.message} ({self._api.base_url}{self._wire.path}{self._wire.elsewhere})"
            error.args = (error.message,)
        lesson = lesson_of(error, profile, body)
        if lesson is None or (forced and lesson.lacks in _ABOUT_FORM):
            return
        self._learned = lesson.applied(self.profile)  # which may know more by now: there are calls at once
        error.learned = lesson.lacks


def _with_system_first(request: ModelRequest) -> ModelRequest:
    """Return the request with its system messages in its system prompt."""
    said = [message for message in request.messages if message.role == "system"]
    if not said:
        return request
    texts = [request.system or "", *(message.text for message in said)]
    system = "\n\n".join([text for text in texts if text.strip()])
    messages = [message for message in request.messages if message.role != "system"]
    return dataclasses.replace(request, system=system or None, messages=messages)


def _without_thinking(request: ModelRequest) -> ModelRequest:
    """Return the request without the thinking that came with earlier replies."""
    if not any(type(part) is ReasoningPart for message in request.messages for part in message.parts):
        return request
    messages = [
        Message(message.role, [part for part in message.parts if type(part) is not ReasoningPart])
        for message in request.messages
    ]
    return dataclasses.replace(request, messages=messages)

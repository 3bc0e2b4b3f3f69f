"""The provider port: what a model is asked, what it can do, and the one method that asks it."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, cast, runtime_checkable

from mastra_py._output import OutputFormat
from mastra_py.errors import UserError
from mastra_py.events import ModelEvent
from mastra_py.messages import Message
from mastra_py.tools import Tool

ToolChoice: TypeAlias = Literal["auto", "none", "required"] | str
"""Whether the model may call tools: as it likes, not at all, at least one, or the tool of that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """Settings of a model call; what is ``None`` is left to the provider.

    Attributes:
        temperature: randomness, from 0.
        top_p: nucleus sampling, from 0 to 1.
        max_output_tokens: limit of the reply, in tokens.
        stop: texts that end the reply.
        seed: for replies that can be repeated, where the provider has it.
        timeout: seconds the provider may take between two pieces of the reply.
        extra_body: merged into the request body as it is.
        extra_headers: further HTTP headers.
    """

    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    stop: Sequence[str] | None = None
    seed: int | None = None
    timeout: float | None = None
    extra_body: Mapping[str, Any] | None = None
    extra_headers: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        for name in ("temperature", "top_p", "max_output_tokens", "timeout"):
            value: object = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not (number and 0 <= cast("float", value) <= sys.float_info.max):
                msg = f"model setting {name} must be a finite number from 0, got {value!r}"
                raise UserError(msg)
        if self.top_p is not None and self.top_p > 1:
            msg = f"model setting top_p must be a number from 0 to 1, got {self.top_p!r}"
            raise UserError(msg)
        for name, least in (("max_output_tokens", 1), ("seed", None)):
            whole: object = getattr(self, name)
            if whole is not None and (type(whole) is not int or (least is not None and whole < least)):
                msg = f"model setting {name} must be a whole number{' from 1' if least else ''}, got {whole!r}"
                raise UserError(msg)
        if isinstance(self.stop, str):
            object.__setattr__(self, "stop", (self.stop,))
        for name, kind in (("stop", Sequence), ("extra_body", Mapping), ("extra_headers", Mapping)):
            given: object = getattr(self, name)
            if given is not None and not isinstance(given, kind):
                msg = f"model setting {name} must be a {'list of texts' if kind is Sequence else 'dict'}, got {given!r}"
                raise UserError(msg)

    def merged(self, other: ModelSettings | None) -> ModelSettings:
        """Return these settings with whatever ``other`` sets in their place."""
        if other is None:
            return self
        changes = {f.name: v for f in dataclasses.fields(other) if (v := getattr(other, f.name)) is not None}
        return dataclasses.replace(self, **changes)


def read_settings(settings: object, where: str = "model_settings") -> ModelSettings:
    """Return :class:`ModelSettings` from settings, a mapping of their names, or nothing.

    Raises:
        UserError: a name is unknown, or a value out of range.
    """
    if settings is None:
        return ModelSettings()
    if isinstance(settings, ModelSettings):
        return settings
    if not isinstance(settings, Mapping):
        msg = f"{where} must be ModelSettings or a dict of them, got {settings!r}"
        raise UserError(msg)
    given = cast("Mapping[str, Any]", settings)
    known = {f.name for f in dataclasses.fields(ModelSettings)}
    if unknown := sorted(set(given) - known):
        msg = f"{where}: unknown model setting {unknown[0]!r}; known are {', '.join(sorted(known))}"
        raise UserError(msg)
    return ModelSettings(**given)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One model call: what is said so far, and what the model may do. ``messages`` holds no system prompt.

    ``output`` asks for a reply of that form natively; where a model cannot, the form is told in words before.
    """

    messages: Sequence[Message]
    system: str | None = None
    tools: Sequence[Tool] = ()
    tool_choice: ToolChoice = "auto"
    output: OutputFormat | None = None
    settings: ModelSettings = field(default_factory=ModelSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProfile:
    """What a model can do, as data.

    Attributes:
        native_output: takes a JSON Schema that its reply has to fit.
        max_tokens_field: what the wire calls the limit of the reply (OpenAI's newer models refuse the old name).
        default_max_tokens: limit of the reply where the settings name none, in tokens; only for wires that want one.
        legacy: takes text and gives text, no tools, and makes failed requests again by itself, so that error processors
            are not asked. A reply may take several requests; the context manager that ``stream`` returns counts them as
            ``requests``.
    """

    native_output: bool = True
    max_tokens_field: str = "max_tokens"
    default_max_tokens: int = 4096
    legacy: bool = False


@runtime_checkable
class Model(Protocol):
    """The port of a model provider.

    ``stream`` returns an async context manager round the events of one reply, the last of them a ``ModelFinished``. It
    makes exactly one attempt, raises :class:`~mastra_py.errors.ModelError` for whatever goes wrong, and leaving the
    block closes the connection.
    """

    @property
    def id(self) -> str:
        """The model's name."""
        ...

    @property
    def provider(self) -> str:
        """The name of the provider."""
        ...

    @property
    def profile(self) -> ModelProfile:
        """What the model can do."""
        ...

    def stream(self, request: ModelRequest, /) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Open one reply."""
        ...


def alternatives_of(model: Model) -> tuple[Model, ...]:
    """Return the models that are tried for ``model``, in order: those of a ``FallbackModel``, or the model itself."""
    return getattr(model, "alternatives", (model,))

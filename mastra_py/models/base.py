"""The provider port: what a model is asked, what it can do, and the one method that asks it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from mastra_py._output import OutputFormat
from mastra_py.events import ModelEvent
from mastra_py.messages import Message
from mastra_py.models.profile import ModelProfile
from mastra_py.models.settings import ModelSettings
from mastra_py.tools import Tool

ToolChoice: TypeAlias = Literal["auto", "none", "required"] | str
"""Whether the model may call tools: as it likes, not at all, at least one, or the tool of that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One model call: what is said so far, and what the model may do. ``messages`` holds no system prompt.

    ``output`` asks for a reply of that form: natively where the model's profile says that it can, else in words; with
    ``native_output`` natively in any case.
    """

    messages: Sequence[Message]
    system: str | None = None
    tools: Sequence[Tool] = ()
    tool_choice: ToolChoice = "auto"
    output: OutputFormat | None = None
    native_output: bool = False
    settings: ModelSettings = field(default_factory=ModelSettings)


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

"""Models to fall back on where one fails for good."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

from mastra_py.errors import UserError
from mastra_py.events import ModelEvent
from mastra_py.models.base import Model, ModelRequest
from mastra_py.models.profile import ModelProfile
from mastra_py.models.resolve import resolve_model


class FallbackModel:
    """Several models in the order they are tried: the next one where one has failed and the processors gave up.

    Each model's call is retried as the error processors say before the next one is tried, with their count begun anew.
    A failure after visible output is not made up for: the reader has seen it. The switch is a
    :class:`~mastra_py.events.RetryScheduled` event with the next model's name.

    Example: ``Agent(id="writer", model=FallbackModel("openai/gpt-5", "anthropic/claude-sonnet-4-5"))``
    """

    def __init__(self, *models: Model | str) -> None:
        """Take two models or more, or model strings.

        Raises:
            UserError: there are fewer than two, one is there twice, or is no model that can be fallen back on.
        """
        alternatives = tuple([resolve_model(model) for model in models])
        if len(alternatives) < 2:
            msg = f"a FallbackModel needs two models or more, got {len(alternatives)}"
            raise UserError(msg)
        for position, model in enumerate(alternatives):
            if any(model is before for before in alternatives[:position]) or models[position] in models[:position]:
                msg = (
                    f"{model!r} is in a FallbackModel twice: how often a model is asked is for error processors to say"
                )
                raise UserError(msg)
            if model.profile.legacy or hasattr(model, "alternatives"):
                msg = f"{model!r} cannot be part of a FallbackModel: give plain models, in one flat list"
                raise UserError(msg)
        self.alternatives = alternatives

    @property
    def id(self) -> str:
        """The models' names."""
        return " | ".join([model.id for model in self.alternatives])

    @property
    def provider(self) -> str:
        """The providers' names, each once."""
        return " | ".join(dict.fromkeys([model.provider for model in self.alternatives]))

    @property
    def profile(self) -> ModelProfile:
        """What all of them can do. Each is still sent what its own profile says."""
        profiles = [model.profile for model in self.alternatives]
        first = profiles[0]
        abilities = [f.name for f in dataclasses.fields(ModelProfile) if isinstance(f.default, bool)]
        return dataclasses.replace(
            first,
            **{name: all(getattr(p, name) for p in profiles) for name in abilities},
            thinking=first.thinking if all(p.thinking == first.thinking for p in profiles) else None,
            default_max_tokens=min(p.default_max_tokens for p in profiles),
            unsupported=frozenset[str]().union(*[p.unsupported for p in profiles]),
        )

    def check(self) -> None:
        """Check that requests can be sent to each of them.

        Raises:
            UserError: something is missing, like an API key.
        """
        for model in self.alternatives:
            check = getattr(model, "check", None)
            if check is not None:
                check()

    def stream(self, request: ModelRequest, /) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Open a reply of the first model: which one comes next is for the model step to say."""
        return self.alternatives[0].stream(request)

    def __repr__(self) -> str:
        return f"FallbackModel({', '.join(map(repr, self.alternatives))})"

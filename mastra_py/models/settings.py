"""What can be set for a model call, and how settings of several places come together."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, TypeAlias, cast

from mastra_py.errors import UserError

ReasoningEffort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | str
"""How hard a model thinks, in the provider's words."""

_TIMEOUTS = ("timeout", "first_timeout", "total_timeout")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_WHOLE = {"max_output_tokens": 1, "top_k": 1, "thinking_budget": 0, "seed": None}
"""Whole numbers, each with the least that it may be."""
_SWITCHES = ("parallel_tool_calls", "store")
_PENALTIES = ("presence_penalty", "frequency_penalty")
_CACHES = (True, False, "5m", "1h")

OURS = frozenset({*_TIMEOUTS, "extra_body", "extra_headers"})
"""Settings that are kept here, whatever the provider is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """Settings of a model call; what is ``None`` is left to the provider.

    A setting that a provider or a model does not take is left out, with one warning in the log for each model object;
    where leaving it out would change what the reply means, the call is a ``UserError`` instead: ``stop`` on OpenAI's
    Responses API, ``thinking_budget`` on both of OpenAI's.

    Attributes:
        temperature: randomness, from 0.
        top_p: nucleus sampling, from 0 to 1.
        top_k: sample from so many of the likeliest tokens, from 1. Not on OpenAI's own models.
        max_output_tokens: limit of the reply, in tokens.
        stop: texts that end the reply.
        seed: for replies that can be repeated, where the provider has it.
        presence_penalty: from -2 to 2, against topics that were there already.
        frequency_penalty: from -2 to 2, against words that were there already.
        parallel_tool_calls: whether the model may call several tools in one turn.
        reasoning_effort: how hard the model thinks, e.g. ``"low"``.
        thinking_budget: limit of the thinking, in tokens; 0 is none. Where it is counted: Anthropic, and servers
            that speak its API.
        service_tier: the provider's name of how fast, and at which price, it answers.
        store: whether the provider keeps the reply. On OpenAI's Responses API ``False`` brings the encrypted
            reasoning along, so that conversations go on all the same.
        cache_prompt: mark the prompt for Anthropic's cache: ``True`` or ``"5m"`` for five minutes, ``"1h"`` for an
            hour. Other providers cache by themselves.
        timeout: seconds between two pieces of the reply. What only keeps the connection alive is no piece.
        first_timeout: seconds until the first piece of the reply; default ``timeout``.
        total_timeout: seconds for the whole reply.
        extra_body: merged into the request body as it is.
        extra_headers: further HTTP headers. They are not shown by ``repr``: keys stand in them.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_output_tokens: int | None = None
    stop: Sequence[str] | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: ReasoningEffort | None = None
    thinking_budget: int | None = None
    service_tier: str | None = None
    store: bool | None = None
    cache_prompt: bool | Literal["5m", "1h"] | None = None
    timeout: float | None = None
    first_timeout: float | None = None
    total_timeout: float | None = None
    extra_body: Mapping[str, Any] | None = None
    extra_headers: Mapping[str, str] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._check_number("temperature", 0, sys.float_info.max, "a finite number from 0")
        for name in _TIMEOUTS:
            self._check_number(name, sys.float_info.min, sys.float_info.max, "a finite number of seconds above 0")
        self._check_number("top_p", 0, 1, "a number from 0 to 1")
        for name in _PENALTIES:
            self._check_number(name, -2, 2, "a number from -2 to 2")
        for name, least in _WHOLE.items():
            whole: object = getattr(self, name)
            if whole is not None and (type(whole) is not int or (least is not None and whole < least)):
                _refuse(name, f"a whole number{f' from {least}' if least is not None else ''}", whole)
        for name in _SWITCHES:
            switch: object = getattr(self, name)
            if switch is not None and not isinstance(switch, bool):
                _refuse(name, "True or False", switch)
        for name in ("reasoning_effort", "service_tier"):
            text: object = getattr(self, name)
            if text is not None and (not isinstance(text, str) or not text.strip()):
                _refuse(name, "a text that is not empty", text)
        if self.cache_prompt is not None and self.cache_prompt not in _CACHES:
            _refuse("cache_prompt", "True, False, '5m' or '1h'", self.cache_prompt)
        self._check_collections()

    def _check_number(self, name: str, least: float, most: float, wanted: str) -> None:
        value: object = getattr(self, name)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (number and least <= cast("float", value) <= most):
            _refuse(name, wanted, value)

    def _check_collections(self) -> None:
        if isinstance(self.stop, str):
            object.__setattr__(self, "stop", (self.stop,))
        for name, kind in (("stop", Sequence), ("extra_body", Mapping), ("extra_headers", Mapping)):
            given: object = getattr(self, name)
            if given is not None and not isinstance(given, kind):
                _refuse(name, "a list of texts" if kind is Sequence else "a dict", given)
        for text in cast("Sequence[object]", self.stop or ()):
            if not isinstance(text, str) or not text:
                _refuse("stop", "texts that are not empty", text)
        self._check_extras()

    def _check_extras(self) -> None:
        for header, value in cast("Mapping[object, object]", self.extra_headers or {}).items():
            if not isinstance(header, str) or not _HEADER.fullmatch(header):
                _refuse("extra_headers", "headers by names that HTTP allows", header)
            if not isinstance(value, str) or not (value.isascii() and value.isprintable()) or value != value.strip():
                msg = f"model setting extra_headers: the value of {header!r} must be a printable ASCII text, not padded"
                raise UserError(msg)  # which is not shown: keys stand there
        try:
            json.dumps(self.extra_body, allow_nan=False, default=dict)  # a Mapping of any kind is an object
        except (TypeError, ValueError) as exc:
            msg = f"model setting extra_body must hold JSON values only: {exc}"
            raise UserError(msg) from exc

    def merged(self, other: ModelSettings | None) -> ModelSettings:
        """Return these settings with whatever ``other`` sets in their place."""
        if other is None:
            return self
        changes = {f.name: v for f in dataclasses.fields(other) if (v := getattr(other, f.name)) is not None}
        return dataclasses.replace(self, **changes)

    def without(self, names: frozenset[str] | set[str]) -> ModelSettings:
        """Return these settings with those of ``names`` left to the provider."""
        changes: dict[str, Any] = {name: None for name in names if getattr(self, name) is not None}
        return dataclasses.replace(self, **changes) if changes else self

    def set_names(self) -> frozenset[str]:
        """Return the names of what is set for the provider."""
        names = (f.name for f in dataclasses.fields(self))
        return frozenset(name for name in names if name not in OURS and getattr(self, name) is not None)


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


def _refuse(name: str, wanted: str, got: object) -> NoReturn:
    msg = f"model setting {name} must be {wanted}, got {got!r}"
    raise UserError(msg)

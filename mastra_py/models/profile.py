"""What a model can do, as data: the one place where models differ."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, cast

from mastra_py.errors import UserError
from mastra_py.models.settings import OURS, ModelSettings

_THINKING = ("effort", "budget", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProfile:
    """What a model can do, as data.

    A provider's model class knows the profiles of the models it has names of; ``profile=`` overrides it. Where a
    provider's answer to a request says that the model lacks something, the model object remembers that, see
    ``learned`` of :class:`~mastra_py.errors.ModelError`.

    Attributes:
        native_output: takes a JSON Schema that its reply has to fit.
        output_with_tools: takes such a schema in a request that has tools, too.
        strict: takes schemas marked as strict, which the reply or the arguments are then sure to fit.
        strict_field: knows the mark at all, also where it says no: the Responses API takes its absence for a yes.
        thinking: how its thinking is set: by an ``"effort"``, by a ``"budget"`` of tokens, or not at all.
        prefill: goes on with a last message of its own role. Where it does not, a fixed line of the user follows it.
        assistant_first: takes a conversation that begins with the assistant's words. Where it does not, a fixed line of
            the user comes before them.
        user_after_tool: takes the user's words right after the result of a tool. Where it does not, a fixed line of the
            assistant comes between them.
        encrypted_thinking: gives its thinking in an encrypted form, to be sent back, where it is asked for.
        replay_thinking: takes its own thinking back in later requests.
        system_anywhere: takes system messages in the midst of a conversation. Where it does not, they come first.
        stream_usage: takes the option that asks for the usage of a streamed reply.
        max_tokens_field: what the wire calls the limit of the reply (OpenAI's newer models refuse the old name).
        default_max_tokens: limit of the reply where the settings name none, in tokens; only for wires that want one.
        unsupported: names of :class:`~mastra_py.ModelSettings` that the model does not take: they are left out, with
            one warning.
        legacy: takes text and gives text, no tools, and makes failed requests again by itself, so that error processors
            are not asked. A reply may take several requests; the context manager that ``stream`` returns counts them as
            ``requests``.
    """

    native_output: bool = True
    output_with_tools: bool = True
    strict: bool = False
    strict_field: bool = True
    thinking: Literal["effort", "budget"] | None = "effort"
    prefill: bool = False
    assistant_first: bool = False
    user_after_tool: bool = True
    encrypted_thinking: bool = True
    replay_thinking: bool = True
    system_anywhere: bool = False
    stream_usage: bool = True
    max_tokens_field: str = "max_tokens"
    default_max_tokens: int = 4096
    unsupported: frozenset[str] = frozenset()
    legacy: bool = False

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value: object = getattr(self, field.name)
            if isinstance(field.default, bool) and not isinstance(value, bool):
                _refuse(field.name, "True or False", value)
        if self.thinking not in _THINKING:
            _refuse("thinking", "'effort', 'budget' or None", self.thinking)
        limit: object = self.default_max_tokens
        if type(limit) is not int or limit < 1:
            _refuse("default_max_tokens", "a whole number from 1", limit)
        if not isinstance(cast("object", self.max_tokens_field), str) or not self.max_tokens_field:
            _refuse("max_tokens_field", "the name of a field", self.max_tokens_field)
        self._check_unsupported()

    def _check_unsupported(self) -> None:
        given: Any = self.unsupported
        if isinstance(given, str) or not isinstance(given, Iterable):
            _refuse("unsupported", "a set of names of model settings", cast("object", given))
        names = frozenset(cast("Iterable[Any]", given))
        known = {field.name for field in dataclasses.fields(ModelSettings)} - OURS
        for unknown in sorted(names - known, key=str):
            _refuse("unsupported", f"names of model settings ({', '.join(sorted(known))})", unknown)
        object.__setattr__(self, "unsupported", names)


def _refuse(name: str, wanted: str, got: object) -> NoReturn:
    msg = f"ModelProfile {name} must be {wanted}, got {got!r}"
    raise UserError(msg)

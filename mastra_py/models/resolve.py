"""From a model string to a model: ``"openai/gpt-5-mini"``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mastra_py.errors import UserError
from mastra_py.models.base import Model


def resolve_model(model: Model | str) -> Model:
    """Return ``model``, or the model that the string ``"<provider>/<name>"`` stands for.

    Everything after the first slash is the name, further slashes too. Nothing is connected.

    Raises:
        UserError: it is neither a model nor a string that names a known provider and a model of it.
    """
    if isinstance(model, Model) and not isinstance(model, type):  # a class has all that its objects have
        return model
    if not isinstance(model, str):
        msg = f"a model is a string such as 'openai/gpt-5-mini' or a Model object, got {type(model).__name__}"
        raise UserError(msg)
    prefix, _, name = model.partition("/")
    make = _PREFIXES.get(prefix)
    if make is None or not name.strip():
        known = ", ".join(f"'{known}/NAME'" for known in _PREFIXES)
        msg = f"model string {model!r} is not understood; a model string is one of {known}"
        raise UserError(msg)
    return make(name.strip())


def _openai_responses(name: str) -> Model:
    from mastra_py.models.openai_responses import OpenAIResponsesModel

    return OpenAIResponsesModel(name)


def _openai_chat(name: str) -> Model:
    from mastra_py.models.openai_chat import OpenAIChatModel

    return OpenAIChatModel(name)


def _anthropic(name: str) -> Model:
    from mastra_py.models.anthropic import AnthropicModel

    return AnthropicModel(name)


def _local(name: str) -> Model:
    from mastra_py.models.local import local_model

    return local_model(name)


_PREFIXES: Mapping[str, Callable[[str], Model]] = {
    "openai": _openai_responses,
    "openai-chat": _openai_chat,
    "anthropic": _anthropic,
    "local": _local,
}

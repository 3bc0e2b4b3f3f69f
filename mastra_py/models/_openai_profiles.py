"""What is known of models behind OpenAI's APIs, by their names."""

from __future__ import annotations

import re

from mastra_py.models.profile import ModelProfile

_FAMILY = re.compile(r"(?:chat)?gpt-|o\d")
"""Names that tell what a model can do. Others are those of Azure's deployments, which users give, for instance."""

_NEW_LIMIT = re.compile(r"o\d|gpt-[5-9]")
"""Models that refuse the old name of the limit of the reply."""

_REASONS = re.compile(r"o\d|gpt-[5-9](?!.*chat)")
_ALWAYS_REASONS = re.compile(r"o\d|gpt-5(?!\.\d)(?!.*chat)")
"""Models that refuse what sets the sampling.

Later ones take it where their effort is "none"; what they refuse is learned.
"""

_NO_NATIVE_OUTPUT = re.compile(r"gpt-3\.?5|gpt-4(?!o|\.[1-9])|gpt-4o-2024-05-13|o1-mini|o1-preview")
"""Models from before structured output."""

_NOT_WHILE_REASONING = frozenset({"temperature", "top_p", "presence_penalty", "frequency_penalty", "stop"})
_NOT_AT_OPENAI = frozenset({"top_k"})


def known_profile(name: str, official: bool) -> ModelProfile:  # noqa: FBT001 -- bound as a function of two facts
    """Return the profile of a model of that name; ``official`` says that it is at OpenAI itself.

    Of the models of other servers nothing is known: they are asked for all that the wire has, and what they refuse is
    learned. A name may say that the model is fine-tuned, before what it is made of.
    """
    if not official:
        return ModelProfile()
    name = name.lower().removeprefix("ft:")
    known = _FAMILY.match(name) is not None
    old = _NO_NATIVE_OUTPUT.match(name) is not None
    return ModelProfile(
        native_output=not old,
        strict=not old,
        thinking="effort" if _REASONS.match(name) or not known else None,
        assistant_first=True,
        system_anywhere=True,
        max_tokens_field="max_completion_tokens" if _NEW_LIMIT.match(name) else "max_tokens",
        unsupported=_NOT_AT_OPENAI | _NOT_WHILE_REASONING if _ALWAYS_REASONS.match(name) else _NOT_AT_OPENAI,
    )

"""What is known of Anthropic's models, by their names."""

from __future__ import annotations

import re

from mastra_py.models.profile import ModelProfile

_RECENT = re.compile(r"claude-(?:(?:[a-z]+-)?(?:4[-.][5-9]|[5-9])|[a-z]+-[1-9]\d)(?!\d)")
"""Names of the models that have structured output, whichever host or date is in the name too: from 4.5 on.

Some hosts put the number first: ``claude-4.5-sonnet``.
"""

_ADAPTIVE = re.compile(r"claude-(?:(?:[a-z]+-)?(?:4[-.][6-9]|[5-9])|[a-z]+-(?:[1-9]\d|preview))(?!\d)")
"""Models that choose by an effort how much they think: from 4.6 on. Those before count tokens of thinking."""

_THINKS = re.compile(r"claude-(?:3[-.]7|(?:[a-z]+-)?4(?!\d))")

_NO_SAMPLING = re.compile(
    r"claude-(?:opus-4[-.][78]|4[-.][78]-opus|(?:opus|sonnet|fable|mythos)-[5-9]|[5-9](?:[-.]\d)?-(?:opus|sonnet))(?!\d)"
)
"""Models that refuse what sets the sampling."""

SAMPLING = frozenset({"temperature", "top_p", "top_k"})
"""Settings of the sampling that Anthropic's API has."""

_MAX_TOKENS = 16_384
"""The limit of models that think, which can write far more; those before them not even this much."""

_MAX_TOKENS_OF_OTHERS = 4096


def known_profile(name: str, _official: bool) -> ModelProfile:  # noqa: FBT001 -- bound as a function of two facts
    """Return the profile of a model of that name: hosts such as Vertex and Bedrock have the same models."""
    recent = _RECENT.search(name) is not None
    claude = "claude" in name
    thinks = not claude or recent or _THINKS.search(name)
    return ModelProfile(
        native_output=recent,
        thinking="effort" if _ADAPTIVE.search(name) else "budget" if thinks else None,
        default_max_tokens=_MAX_TOKENS if claude and thinks else _MAX_TOKENS_OF_OTHERS,
        unsupported=SAMPLING if _NO_SAMPLING.search(name) else frozenset(),
    )

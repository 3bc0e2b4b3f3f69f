"""Models: the port, and the providers behind it."""

from __future__ import annotations

from mastra_py.models.anthropic import AnthropicModel
from mastra_py.models.base import Model, ModelRequest
from mastra_py.models.fallback import FallbackModel
from mastra_py.models.openai_chat import OpenAIChatModel
from mastra_py.models.openai_responses import OpenAIResponsesModel
from mastra_py.models.profile import ModelProfile
from mastra_py.models.settings import ModelSettings

__all__ = [
    "AnthropicModel",
    "FallbackModel",
    "Model",
    "ModelProfile",
    "ModelRequest",
    "ModelSettings",
    "OpenAIChatModel",
    "OpenAIResponsesModel",
]

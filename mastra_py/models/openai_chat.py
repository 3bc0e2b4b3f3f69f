"""OpenAI's chat completions API, which most other servers speak too."""

from __future__ import annotations

from mastra_py.models._clients import openai_sdk
from mastra_py.models._openai_chat_wire import PROVIDER, REFUSED, SETTINGS, ChatDecoder, encode
from mastra_py.models._openai_model import OpenAIModel
from mastra_py.models._openai_profiles import known_profile
from mastra_py.models._provider_model import Wire

CHAT = Wire(
    provider=PROVIDER,
    path="/chat/completions",
    example="gpt-5-mini",
    settings=SETTINGS,
    refused=REFUSED,
    sdk=openai_sdk,
    encode=encode,
    decoder=ChatDecoder,
    known=known_profile,
)
"""The wire of chat completions."""


class OpenAIChatModel(OpenAIModel):
    """A model behind the chat completions API of OpenAI or of a server that is compatible with it.

    Example: ``OpenAIChatModel("gpt-5-mini")``, ``OpenAIChatModel("qwen3", base_url="http://localhost:8000/v1")``

    It makes one attempt a request: retries are the error processors' business. Reasoning of servers that send
    ``reasoning_content`` goes back to them in later requests, and to no other server.
    """

    _wire = CHAT

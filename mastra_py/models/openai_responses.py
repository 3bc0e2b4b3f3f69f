"""OpenAI's Responses API, which some other servers speak too."""

from __future__ import annotations

from mastra_py.models._clients import openai_sdk
from mastra_py.models._openai_model import OpenAIModel
from mastra_py.models._openai_profiles import known_profile
from mastra_py.models._provider_model import Wire
from mastra_py.models._responses_items import PROVIDER
from mastra_py.models._responses_reply import ResponsesDecoder
from mastra_py.models._responses_wire import REFUSED, SETTINGS, encode

RESPONSES = Wire(
    provider=PROVIDER,
    path="/responses",
    example="gpt-5-mini",
    settings=SETTINGS,
    refused=REFUSED,
    elsewhere="; a server without the Responses API may have chat completions: OpenAIChatModel, 'openai-chat/...'",
    sdk=openai_sdk,
    encode=encode,
    decoder=ResponsesDecoder,
    known=known_profile,
)
"""The wire of the Responses API."""


class OpenAIResponsesModel(OpenAIModel):
    """A model behind the Responses API of OpenAI or of a server that is compatible with it.

    Example: ``OpenAIResponsesModel("gpt-5-mini")``

    It makes one attempt a request: retries are the error processors' business. The whole conversation is sent each
    time, and the model's reasoning with it in encrypted form, so that it can think on from where it was; no other
    server gets to see it. With the setting ``store=False`` OpenAI keeps nothing, and that works all the same.
    """

    _wire = RESPONSES

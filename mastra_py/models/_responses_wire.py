"""A request to OpenAI's Responses API as its JSON body. No I/O; what reads a reply is ``_responses_reply``.

Other servers and proxies speak this wire too, each a little differently: what is written is what all of them take.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from mastra_py.errors import UserError
from mastra_py.models._openai_schema import schema_under
from mastra_py.models._responses_items import items_of
from mastra_py.models._wire_values import chosen_tool
from mastra_py.models.base import ModelRequest, ToolChoice
from mastra_py.models.profile import ModelProfile
from mastra_py.tools import Tool

_SAME_NAME = ("temperature", "top_p", "max_output_tokens", "service_tier", "store")
"""Settings that this wire calls what they are called here."""

SETTINGS = frozenset({*_SAME_NAME, "reasoning_effort", "parallel_tool_calls"})
"""Settings that this wire has a place for."""

REFUSED: Mapping[str, str] = {
    "stop": "the Responses API has no such thing; OpenAIChatModel ('openai-chat/...') does",
    "thinking_budget": "set reasoning_effort, or what the server calls it in extra_body",
}
"""Settings without a place that cannot be left out in silence, each with the way out."""

_ENCRYPTED = "reasoning.encrypted_content"

_CONTINUED = ("previous_response_id", "conversation", "prompt", "input")
"""Fields of ``extra_body`` that stand for messages."""


def encode(request: ModelRequest, *, model: str, profile: ModelProfile, server: str) -> dict[str, Any]:
    """Return the body of the request.

    ``server`` is the base URL that it goes to: reasoning goes back only to the server it came from.

    Raises:
        UserError: something in the request has no place on this wire.
    """
    settings = request.settings
    extra = settings.extra_body or {}
    reasons = profile.thinking is not None
    items = [item for message in request.messages for item in items_of(message, server=server, reasons=reasons)]
    if not items and not any(name in extra for name in _CONTINUED):
        msg = "the Responses API wants at least one message with something in it, and there is none"
        raise UserError(msg)
    body: dict[str, Any] = {"model": model, "input": items, "stream": True}
    if request.system:
        body["instructions"] = request.system
    # Whether the reply is kept or not, see _responses_items. Models that do not reason refuse it.
    if reasons and profile.encrypted_thinking:
        body["include"] = [_ENCRYPTED]
    if request.tools:
        body["tools"] = [_tool(tool, profile) for tool in request.tools]
        if request.tool_choice != "auto":
            body["tool_choice"] = _tool_choice(request.tool_choice, request.tools)
        if settings.parallel_tool_calls is not None:
            body["parallel_tool_calls"] = settings.parallel_tool_calls
    if request.output is not None:
        form = _schema("schema", request.output.schema, profile)
        body["text"] = {"format": {"type": "json_schema", "name": request.output.name, **form}}
    if settings.reasoning_effort is not None:
        body["reasoning"] = {"effort": settings.reasoning_effort}
    wanted = {name: getattr(settings, name) for name in _SAME_NAME}
    body.update({name: value for name, value in wanted.items() if value is not None})
    return _merged(body, extra)


def _merged(body: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``body`` with ``extra`` in it. ``reasoning`` and ``text`` hold several settings each: none is lost."""
    merged = dict(body)
    for name, value in extra.items():
        own: object = merged.get(name)
        if isinstance(own, dict) and isinstance(value, Mapping):
            value = _merged(cast("dict[str, Any]", own), cast("Mapping[str, Any]", value))  # noqa: PLW2901 -- the same, merged
        merged[name] = value
    return merged


def _tool(tool: Tool, profile: ModelProfile) -> dict[str, Any]:
    encoded: dict[str, Any] = {"type": "function", "name": tool.name}
    if tool.description:
        encoded["description"] = tool.description
    return encoded | _schema("parameters", tool.parameters, profile)


def _schema(key: str, schema: Mapping[str, Any], profile: ModelProfile) -> dict[str, Any]:
    """Return a schema under ``key`` with the mark of strictness: left out, it would mean yes for tools."""
    form = schema_under(key, schema, strict=profile.strict)
    return form if "strict" in form or not profile.strict_field else {**form, "strict": False}


def _tool_choice(choice: ToolChoice, tools: Sequence[Tool]) -> Any:
    if choice in ("none", "required"):
        return choice
    return {"type": "function", "name": chosen_tool(choice, tools)}

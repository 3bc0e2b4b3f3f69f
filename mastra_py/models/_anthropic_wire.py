"""Anthropic's Messages API as data: a request as its JSON body, a reply's events as model events. No I/O.

Other servers speak this wire too. Reading is forgiving where the meaning is clear; writing keeps to what Anthropic
itself takes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mastra_py.errors import StreamError
from mastra_py.events import FinishReason, ModelEvent
from mastra_py.models._anthropic_schema import closed_schema
from mastra_py.models._anthropic_settings import mark_for_cache, max_tokens, thinking
from mastra_py.models._anthropic_turns import turns_of
from mastra_py.models._error_body import is_error
from mastra_py.models._errors import model_error
from mastra_py.models._output_words import output_words
from mastra_py.models._reducer import ReplyReducer
from mastra_py.models._wire_values import chosen_tool
from mastra_py.models.base import ModelRequest, ToolChoice
from mastra_py.models.profile import ModelProfile
from mastra_py.tools import Tool

PROVIDER = "anthropic"

SETTINGS = frozenset(
    {
        *("temperature", "top_p", "top_k", "max_output_tokens", "stop", "parallel_tool_calls"),
        *("reasoning_effort", "thinking_budget", "service_tier", "cache_prompt"),
    }
)
"""Settings that this wire has a place for."""

_STOP_REASONS: Mapping[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "refusal",
}

_INPUT_TOKENS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
"""Each is counted apart on this wire; together they are the input."""


def encode(request: ModelRequest, *, model: str, profile: ModelProfile, server: str) -> dict[str, Any]:
    """Return the body of the request.

    ``server`` is the base URL that it goes to: thinking goes back only to the server that has signed it.

    Raises:
        UserError: something in the request has no place on this wire.
    """
    settings = request.settings
    turns = turns_of(request.messages, server)
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": max_tokens(settings, profile),
        "messages": turns,
        "stream": True,
        **thinking(settings, profile, turns, forced=request.tool_choice not in {"auto", "none"}),
    }
    # There is no other place for system messages, whatever the profile says.
    system = [request.system or "", *(message.text for message in request.messages if message.role == "system")]
    if request.output is not None:
        schema = closed_schema(request.output.schema)
        if schema is None:
            system.append(output_words(request.output))
        else:
            body.setdefault("output_config", {})["format"] = {"type": "json_schema", "schema": schema}
    if told := "\n\n".join(text for text in system if text.strip()):
        body["system"] = told
    if request.tools:
        body["tools"] = [_tool(tool, strict=profile.strict) for tool in request.tools]
        if choice := _tool_choice(request.tool_choice, request.tools, settings.parallel_tool_calls):
            body["tool_choice"] = choice
    wanted: dict[str, Any] = {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "top_k": settings.top_k,
        "service_tier": settings.service_tier,
        "stop_sequences": list(settings.stop) if settings.stop is not None else None,
    }
    body.update({name: value for name, value in wanted.items() if value is not None})
    if settings.cache_prompt:
        mark_for_cache(body, "1h" if settings.cache_prompt == "1h" else "5m")
    for name, value in (settings.extra_body or {}).items():
        own = body.get(name)
        # "output_config" holds the effort beside the format: one must not take the other's place.
        body[name] = {**own, **value} if isinstance(own, dict) and isinstance(value, Mapping) else value
    return body


def _tool(tool: Tool, *, strict: bool) -> dict[str, Any]:
    encoded: dict[str, Any] = {"name": tool.name, "input_schema": tool.parameters}
    if strict and (closed := closed_schema(tool.parameters)) is not None:
        encoded |= {"input_schema": closed, "strict": True}
    if tool.description:
        encoded["description"] = tool.description
    return encoded


def _tool_choice(choice: ToolChoice, tools: Sequence[Tool], parallel: bool | None) -> dict[str, Any] | None:  # noqa: FBT001 -- a setting
    if choice == "none":
        return {"type": "none"}
    one_at_a_time = {} if parallel is None else {"disable_parallel_tool_use": not parallel}
    if choice == "auto":
        return {"type": "auto", **one_at_a_time} if one_at_a_time else None
    if choice == "required":
        return {"type": "any", **one_at_a_time}
    return {"type": "tool", "name": chosen_tool(choice, tools), **one_at_a_time}


class MessagesDecoder:
    """Reads the events of one reply."""

    __slots__ = ("_ignored", "_input", "_reducer", "_server")

    def __init__(self, reducer: ReplyReducer, *, server: str) -> None:
        """Decode for ``reducer``; thinking is marked as that of ``server``."""
        self._reducer = reducer
        self._server = server
        self._ignored: set[Any] = set()  # indexes of blocks whose deltas are not read
        self._input: dict[str, int] = {}  # what the input has cost so far, by the names of the counts

    @property
    def finished(self) -> bool:
        """Whether the reply is whole."""
        return self._reducer.finished

    def decode(self, chunk: dict[str, Any], name: str | None = None) -> list[ModelEvent]:
        """Return the events of one event of the wire; of one that is unknown, none.

        Raises:
            ModelError: it is an error that the provider reports within the reply.
        """
        kind = chunk.get("type") or name
        if kind == "content_block_delta":  # nearly every event
            return self._read_delta(chunk.get("index"), chunk["delta"])
        if kind == "error" or name == "error":
            raise model_error(body=chunk, request_id=chunk.get("request_id"))
        match kind:
            case "message_start":
                message: dict[str, Any] = chunk["message"]
                self._reducer.response_id = message.get("id")
                self._reducer.model = message.get("model")
                self._read_usage(message.get("usage") or {})
            case "content_block_start":
                return self._begin_block(chunk.get("index"), chunk["content_block"])
            case "content_block_stop":
                return self._end_block(chunk.get("index"))
            case "message_delta":
                self._read_usage(chunk.get("usage") or {})
                if reason := chunk["delta"].get("stop_reason"):
                    self._reducer.reason = _STOP_REASONS.get(reason, "other")
            case "message_stop":
                return self._reducer.finish()
            case _:  # pings, and what is still to be invented
                if is_error(chunk):
                    raise model_error(body=chunk)
        return []

    def end(self, *, marked: bool) -> list[ModelEvent]:
        """End the reply: at a ``[DONE]``, which servers add that know it from OpenAI, or else at the end of its body.

        Raises:
            StreamError: it broke off.
        """
        if self._reducer.reason is None and not marked:
            msg = "the reply broke off: it ended without a stop reason"
            raise StreamError(msg)
        return self._reducer.finish()

    def fail(self) -> list[ModelEvent]:
        """End the reply because it failed."""
        return self._reducer.fail()

    def _begin_block(self, index: Any, block: dict[str, Any]) -> list[ModelEvent]:
        reducer = self._reducer
        self._ignored.discard(index)  # some servers count every block as the same one
        match block["type"]:
            case "text":
                return [*reducer.end_block(), *reducer.text(block.get("text") or "")]
            case "thinking":
                return [*reducer.end_block(), *reducer.reasoning(block.get("thinking") or "", self._signed(block))]
            case "redacted_thinking":
                return [
                    *reducer.end_block(),
                    *reducer.reasoning("", {"redacted": block["data"], "server": self._server}),
                ]
            case "tool_use":
                # Anthropic itself sends an empty input here and the real one in deltas.
                whole = json.dumps(block["input"]) if block.get("input") else None
                if whole is not None:
                    self._ignored.add(index)
                return reducer.tool(index, block.get("id"), block.get("name"), whole)
            case _:
                self._ignored.add(index)
                return []

    def _end_block(self, index: Any) -> list[ModelEvent]:
        events = self._reducer.end_tool(index)
        return events if index in self._ignored else [*events, *self._reducer.end_block()]

    def _read_delta(self, index: Any, delta: dict[str, Any]) -> list[ModelEvent]:
        if self._ignored and index in self._ignored:
            return []
        match delta["type"]:
            case "text_delta":
                return self._reducer.text(delta["text"])
            case "input_json_delta":
                return self._reducer.tool(index, None, None, delta["partial_json"])
            case "thinking_delta":
                return self._reducer.reasoning(delta["thinking"])
            case "signature_delta":
                return self._reducer.reasoning("", self._signed(delta))
            case _:
                return []

    def _read_usage(self, usage: dict[str, Any]) -> None:
        self._input.update({name: usage[name] for name in _INPUT_TOKENS if usage.get(name) is not None})
        details: dict[str, Any] = usage.get("output_tokens_details") or {}
        self._reducer.usage(
            input_tokens=sum(self._input.values()) if self._input else None,
            output_tokens=usage.get("output_tokens"),
            cached_input_tokens=self._input.get("cache_read_input_tokens"),
            reasoning_tokens=details.get("thinking_tokens"),
        )

    def _signed(self, block: dict[str, Any]) -> dict[str, Any] | None:
        return {"signature": block["signature"], "server": self._server} if block.get("signature") else None

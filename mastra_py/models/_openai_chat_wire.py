"""OpenAI's chat completions as data: a request as its JSON body, a reply's chunks as model events. No I/O.

Many servers speak this wire, and each a little differently. Reading is forgiving where the meaning is clear; writing
keeps to what all of them take.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from mastra_py.errors import StreamError, UserError
from mastra_py.events import FinishReason, ModelEvent
from mastra_py.messages import (
    FeedbackPart,
    FilePart,
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from mastra_py.models._error_body import is_error
from mastra_py.models._errors import model_error
from mastra_py.models._openai_schema import schema_under
from mastra_py.models._reducer import ReplyReducer
from mastra_py.models._wire_names import wire_id, wire_name
from mastra_py.models._wire_values import chosen_tool, data_url, json_text, result_text
from mastra_py.models.base import ModelRequest, ToolChoice
from mastra_py.models.profile import ModelProfile
from mastra_py.tools import Tool

PROVIDER = "openai"

_SAME_NAME = (
    *("temperature", "top_p", "top_k", "seed", "presence_penalty", "frequency_penalty"),
    *("reasoning_effort", "service_tier", "store"),
)
"""Settings that this wire calls what they are called here."""

SETTINGS = frozenset({*_SAME_NAME, "max_output_tokens", "stop", "parallel_tool_calls"})
"""Settings that this wire has a place for. OpenAI itself knows no ``top_k``; most other servers do."""

REFUSED: Mapping[str, str] = {"thinking_budget": "set reasoning_effort, or what the server calls it in extra_body"}
"""Settings without a place that cannot be left out in silence, each with the way out."""

_ID_LIMIT = 40
"""Characters that the id of a call may have at OpenAI."""

_FINISH_REASONS: Mapping[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "refusal": "refusal",
    "error": "error",
    # What other servers say, with the words of the providers behind them.
    "end_turn": "stop",
    "eos": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "safety": "content_filter",
    "sensitive": "content_filter",
    "function_call_filter": "error",
    "insufficient_system_resource": "error",
    "network_error": "error",
}
"""Reasons by their names in lower case; what some add after a colon says more of the same."""

_REASONING_FIELDS = ("reasoning_content", "reasoning")
"""What servers call the reasoning of a reply. They want it back by the first name only."""


def encode(request: ModelRequest, *, model: str, profile: ModelProfile, server: str) -> dict[str, Any]:
    """Return the body of the request.

    ``server`` is the base URL that it goes to: reasoning goes back only to the server it came from.

    Raises:
        UserError: something in the request has no place on this wire.
    """
    body: dict[str, Any] = {
        "model": model,
        "messages": _messages(request, server),
        "stream": True,
    }
    if profile.stream_usage:
        body["stream_options"] = {"include_usage": True}
    settings = request.settings
    if request.tools:
        body["tools"] = [_tool(tool, strict=profile.strict) for tool in request.tools]
        if request.tool_choice != "auto":
            body["tool_choice"] = _tool_choice(request.tool_choice, request.tools)
        if settings.parallel_tool_calls is not None:
            body["parallel_tool_calls"] = settings.parallel_tool_calls
    if request.output is not None:
        form = schema_under("schema", request.output.schema, strict=profile.strict)
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": request.output.name, **form}}
    wanted: dict[str, Any] = {
        **{name: getattr(settings, name) for name in _SAME_NAME},
        profile.max_tokens_field: settings.max_output_tokens,
        "stop": list(settings.stop) if settings.stop is not None else None,
    }
    body.update({name: value for name, value in wanted.items() if value is not None})
    body.update(settings.extra_body or {})
    return body


def _messages(request: ModelRequest, server: str) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": request.system}] if request.system else []
    for message in request.messages:
        messages += _encoded(message, server)
    return messages


def _encoded(message: Message, server: str) -> list[dict[str, Any]]:
    match message.role:
        case "system":
            return [{"role": "system", "content": message.text}]
        case "user":
            return _user(message)
        case "assistant":
            return [_assistant(message, server)]
        case "tool":
            return [_tool_result(result) for result in message.tool_results]


def _user(message: Message) -> list[dict[str, Any]]:
    content = [part for part in map(_user_part, message.parts) if part]
    if not content:
        return []
    if all("text" in part for part in content):  # a plain text is the only form that every server takes
        return [{"role": "user", "content": "\n\n".join([part["text"] for part in content])}]
    return [{"role": "user", "content": content}]


def _user_part(part: Part) -> dict[str, Any] | None:
    match part:
        case TextPart(text=text) | FeedbackPart(text=text):
            return {"type": "text", "text": text}
        case ImagePart(url=url):
            return {"type": "image_url", "image_url": {"url": url or data_url(part)}}
        case FilePart(url=None, filename=filename):
            file = {"file_data": data_url(part)}
            return {"type": "file", "file": {"filename": filename, **file} if filename else file}
        case FilePart():
            msg = "chat completions take no file by url; give the FilePart its data and media_type"
            raise UserError(msg)
        case _:
            return None


def _assistant(message: Message, server: str) -> dict[str, Any]:
    encoded: dict[str, Any] = {"role": "assistant", "content": message.text}  # beside calls too: some take no null
    reasoning = "".join([p.text for p in message.parts if type(p) is ReasoningPart and _belongs_to(p, server)])
    if reasoning:
        encoded["reasoning_content"] = reasoning
    if calls := message.tool_calls:
        encoded["tool_calls"] = [_tool_call(call) for call in calls]
    return encoded


def _belongs_to(part: ReasoningPart, server: str) -> bool:
    """Whether this very server sent the reasoning, under the name that servers want it back by."""
    metadata = part.metadata or {}
    return (part.provider, metadata.get("server"), metadata.get("field")) == (PROVIDER, server, "reasoning_content")


def _tool_call(call: ToolCallPart) -> dict[str, Any]:
    # Arguments that were no JSON object go back as the `{}` that `args` then is: servers parse them.
    function = {"name": wire_name(call.tool_name), "arguments": json_text(call.args)}
    return {"id": _call_id(call.tool_call_id), "type": "function", "function": function}


def _tool_result(part: ToolResultPart) -> dict[str, Any]:
    # The wire has no mark for errors. Their text says what went wrong and goes as it is: a ToolError chose its words.
    return {"role": "tool", "tool_call_id": _call_id(part.tool_call_id), "content": result_text(part)}


def _call_id(call_id: str) -> str:
    """Return a call's id: as it is, since some servers want theirs back so, unless it is longer than OpenAI takes."""
    return call_id if len(call_id) <= _ID_LIMIT else wire_id(call_id, _ID_LIMIT)


def _tool(tool: Tool, *, strict: bool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name, **schema_under("parameters", tool.parameters, strict=strict)}
    if tool.description:
        function["description"] = tool.description
    return {"type": "function", "function": function}


def _tool_choice(choice: ToolChoice, tools: Sequence[Tool]) -> Any:
    if choice in ("none", "required"):
        return choice
    return {"type": "function", "function": {"name": chosen_tool(choice, tools)}}


class ChatDecoder:
    """Reads the chunks of one reply."""

    __slots__ = ("_marks", "_reducer", "_refused")

    def __init__(self, reducer: ReplyReducer, *, server: str) -> None:
        """Decode for ``reducer``; reasoning is marked as that of ``server``."""
        self._reducer = reducer
        self._marks = [(field, {"field": field, "server": server}) for field in _REASONING_FIELDS]
        self._refused = False

    @property
    def finished(self) -> bool:
        """Whether the reply is whole."""
        return self._reducer.finished

    def decode(self, chunk: dict[str, Any], name: str | None = None) -> list[ModelEvent]:
        """Return the events of one chunk.

        Raises:
            ModelError: the chunk is an error that the provider reports within the reply.
        """
        if chunk.get("error") or name == "error":
            raise model_error(body=chunk)
        reducer = self._reducer
        if not reducer.response_id or not reducer.model:
            reducer.response_id = reducer.response_id or chunk.get("id") or None
            reducer.model = reducer.model or chunk.get("model") or None
        if usage := chunk.get("usage"):
            self._read_usage(usage)
        choices = chunk.get("choices")
        if not choices:
            if is_error(chunk):
                raise model_error(body=chunk)
            return []
        choice = choices[0]
        delta = choice.get("delta")
        if delta is None and reducer.is_empty:  # a server that does not stream, and sends all as one event
            delta = choice.get("message")
        events = self._read_delta(delta) if delta else []
        if reason := choice.get("finish_reason"):
            if error := choice.get("error"):
                raise model_error(body={"error": error})
            if not self._refused:
                reducer.reason = _FINISH_REASONS.get(reason.partition(":")[0].lower(), "other")
        return events

    def end(self, *, marked: bool) -> list[ModelEvent]:
        """End the reply: at its ``[DONE]``, or else at the end of its body.

        Raises:
            StreamError: it broke off, or ended in an error that has no further words.
        """
        reason = self._reducer.reason
        if reason is None and not marked:
            msg = "the reply broke off: it ended without a finish reason"
            raise StreamError(msg)
        if reason == "error":
            msg = "the provider ended the reply with an error"
            raise StreamError(msg)
        return self._reducer.finish()

    def fail(self) -> list[ModelEvent]:
        """End the reply because it failed."""
        return self._reducer.fail()

    def _read_delta(self, delta: dict[str, Any]) -> list[ModelEvent]:
        reducer = self._reducer
        text = delta.get("content")
        if type(text) is str and text and len(delta) == 1:  # nearly every chunk
            return reducer.text(text)
        events: list[ModelEvent] = []
        for field, mark in self._marks:
            if thought := delta.get(field):
                events += reducer.reasoning(thought, mark)
                break  # some servers send the same text under both names, for old and new clients
        if type(text) is list:
            events += self._read_parts(cast("list[Any]", text))
        elif text:
            events += reducer.text(text)
        if refusal := delta.get("refusal"):
            self._refused = True
            reducer.reason = "refusal"
            events += reducer.text(refusal)
        for call in delta.get("tool_calls") or ():
            function: dict[str, Any] = call.get("function") or {}
            events += reducer.tool(call.get("index"), call.get("id"), function.get("name"), _args_text(function))
        legacy: dict[str, Any] | None = delta.get("function_call")
        if legacy:
            events += reducer.tool("function_call", None, legacy.get("name"), _args_text(legacy))
        return events

    def _read_parts(self, parts: list[Any]) -> list[ModelEvent]:
        """Read a text that is a list of parts, as Mistral's models send it that think."""
        events: list[ModelEvent] = []
        for part in parts:
            if isinstance(part, str):
                events += self._reducer.text(part)
            elif part.get("type") == "text":
                events += self._reducer.text(part.get("text") or "")
            elif part.get("type") == "thinking":
                thought: Any = part.get("thinking") or ""
                texts = [thought] if isinstance(thought, str) else [inner.get("text") or "" for inner in thought]
                events += self._reducer.reasoning("".join(texts))
        return events

    def _read_usage(self, usage: dict[str, Any]) -> None:
        input_details: dict[str, Any] = usage.get("prompt_tokens_details") or {}
        output_details: dict[str, Any] = usage.get("completion_tokens_details") or {}
        self._reducer.usage(
            input_tokens=usage.get("prompt_tokens"),
            output_tokens=usage.get("completion_tokens"),
            cached_input_tokens=input_details.get("cached_tokens"),
            reasoning_tokens=output_details.get("reasoning_tokens"),
        )


def _args_text(function: dict[str, Any]) -> str | None:
    args = function.get("arguments")
    return args if args is None or isinstance(args, str) else json_text(args)

"""Anthropic's Messages API as data: a request as its JSON body, a reply's events as model events. No I/O.

Other servers speak this wire too. Reading is forgiving where the meaning is clear; writing keeps to what Anthropic
itself takes, which refuses empty texts, strange ids, and results of tools that do not follow their calls at once.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

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
from mastra_py.models._anthropic_schema import closed_schema
from mastra_py.models._errors import model_error
from mastra_py.models._reducer import ReplyReducer
from mastra_py.models.base import ModelProfile, ModelRequest, ToolChoice
from mastra_py.tools import Tool

PROVIDER = "anthropic"

_Block: TypeAlias = dict[str, Any]

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

_OPENING = "(The conversation begins here.)"
"""What stands before an assistant's greeting: on this wire the user speaks first."""

_NOTHING_SAID = "The tool failed and gave no reason."
"""Content of an error result without text, which this wire refuses."""


def encode(request: ModelRequest, *, model: str, profile: ModelProfile) -> dict[str, Any]:
    """Return the body of the request.

    Raises:
        UserError: something in the request has no place on this wire.
    """
    settings = request.settings
    limit = settings.max_output_tokens
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": profile.default_max_tokens if limit is None else limit,
        "messages": _conversation(request.messages),
        "stream": True,
    }
    system = [request.system or "", *(message.text for message in request.messages if message.role == "system")]
    if request.output is not None:
        schema = closed_schema(request.output.schema)
        if schema is None:
            words = json.dumps(request.output.schema, ensure_ascii=False)
            system.append(f"Answer with one JSON object that fits this JSON Schema, and with nothing else:\n{words}")
        else:
            body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    if told := "\n\n".join(text for text in system if text.strip()):
        body["system"] = told
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        if request.tool_choice != "auto":
            body["tool_choice"] = _tool_choice(request.tool_choice, request.tools)
    wanted: dict[str, Any] = {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "stop_sequences": list(settings.stop) if settings.stop is not None else None,
    }
    body.update({name: value for name, value in wanted.items() if value is not None})
    for name, value in (settings.extra_body or {}).items():
        own = body.get(name)
        # "output_config" holds the effort beside the format: one must not take the other's place.
        body[name] = {**own, **value} if isinstance(own, dict) and isinstance(value, Mapping) else value
    return body


class MessagesDecoder:
    """Reads the events of one reply."""

    __slots__ = ("_ignored", "_input", "_reducer")

    def __init__(self, reducer: ReplyReducer) -> None:
        self._reducer = reducer
        self._ignored: set[Any] = set()  # indexes of blocks whose deltas are not read
        self._input: dict[str, int] = {}

    @property
    def finished(self) -> bool:
        """Whether the reply is whole."""
        return self._reducer.finished

    def decode(self, chunk: dict[str, Any], name: str | None = None) -> list[ModelEvent]:
        """Return the events of one event of the wire; of one that is unknown, none.

        Raises:
            ModelError: it is an error that the provider reports within the reply.
        """
        kind = chunk.get("type")
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
                return [*self._reducer.end_tool(chunk.get("index")), *self._reducer.end_block()]
            case "message_delta":
                self._read_usage(chunk.get("usage") or {})
                if reason := chunk["delta"].get("stop_reason"):
                    self._reducer.reason = _STOP_REASONS.get(reason, "other")
            case "message_stop":
                return self._reducer.finish()
            case _:
                pass  # pings, and what is still to be invented
        return []

    def end(self, *, marked: bool) -> list[ModelEvent]:
        """End the reply at the end of its body.

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

    def _begin_block(self, index: Any, block: _Block) -> list[ModelEvent]:
        reducer = self._reducer
        events = reducer.end_block()
        match block["type"]:
            case "text":
                events += reducer.text(block.get("text") or "")
            case "thinking":
                events += reducer.reasoning(block.get("thinking") or "", _signed(block))
            case "redacted_thinking":
                events += reducer.reasoning("", {"redacted": block["data"]})
            case "tool_use":
                # Anthropic itself sends an empty input here and the real one in deltas.
                whole = block.get("input") or None
                if whole is not None:
                    self._ignored.add(index)
                events += reducer.tool(index, block.get("id"), block.get("name"), whole and _json(whole))
            case _:
                self._ignored.add(index)
        return events

    def _read_delta(self, index: Any, delta: _Block) -> list[ModelEvent]:
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
                return self._reducer.reasoning("", _signed(delta))
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


def _signed(block: _Block) -> dict[str, Any] | None:
    return {"signature": block["signature"]} if block.get("signature") else None


# --- writing


def _conversation(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the turns of user and assistant: they alternate, and none is empty."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        blocks = _BLOCKS[message.role](message)
        if not blocks:
            continue
        role = "assistant" if message.role == "assistant" else "user"
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    if not turns:
        msg = "Anthropic wants at least one message with something in it, and there is none"
        raise UserError(msg)
    if turns[0]["role"] == "assistant":
        turns.insert(0, {"role": "user", "content": [{"type": "text", "text": _OPENING}]})
    calls: list[str] = []
    for turn in turns:
        if turn["role"] == "assistant":
            calls = [block["id"] for block in turn["content"] if block["type"] == "tool_use"]
        else:
            turn["content"] = _results_first(turn["content"], calls)
    return turns


def _results_first(blocks: list[_Block], calls: list[str]) -> list[_Block]:
    """Return the blocks of a user turn with the results of the calls before it in front, in the order of the calls."""
    place = {call_id: n for n, call_id in enumerate(calls)}
    results = [block for block in blocks if block["type"] == "tool_result"]
    results.sort(key=lambda block: place.get(block["tool_use_id"], len(place)))
    return [*results, *(block for block in blocks if block["type"] != "tool_result")]


def _nothing(_message: Message) -> list[_Block]:
    return []


def _user(message: Message) -> list[_Block]:
    return [block for block in map(_user_block, message.parts) if block]


def _user_block(part: Part) -> _Block | None:
    match part:
        case TextPart(text=text) | FeedbackPart(text=text):
            return _text(text)
        case ImagePart():
            return {"type": "image", "source": _source(part)}
        case FilePart():
            return _file(part)
        case _:
            return None


def _text(text: str) -> _Block | None:
    return {"type": "text", "text": text} if text.strip() else None


def _source(part: ImagePart | FilePart) -> dict[str, Any]:
    if part.url is None:
        if part.data is None or part.media_type is None:
            msg = f"{type(part).__name__} needs a url, or data together with its media_type"
            raise UserError(msg)
        return {"type": "base64", "media_type": part.media_type, "data": part.data}
    if inline := _DATA_URL.fullmatch(part.url):
        return {"type": "base64", "media_type": inline["media_type"], "data": inline["data"]}
    return {"type": "url", "url": part.url}


_DATA_URL = re.compile(r"data:(?P<media_type>[^;,]+);base64,(?P<data>.*)", re.DOTALL)


def _file(part: FilePart) -> _Block:
    source = _source(part)
    media_type = str(source.get("media_type") or part.media_type or "application/pdf")
    if media_type.startswith("image/"):
        return {"type": "image", "source": source}
    if media_type.startswith("text/") and source["type"] == "base64":
        source = {"type": "text", "media_type": "text/plain", "data": _decoded(source["data"])}
    elif media_type != "application/pdf":
        msg = f"Anthropic takes files that are images, PDFs, or text given as data, not {media_type!r}"
        raise UserError(msg)
    document = {"type": "document", "source": source}
    return {**document, "title": part.filename} if part.filename else document


def _decoded(data: str) -> str:
    try:
        return base64.b64decode(data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as exc:
        msg = f"the data of a FilePart of text must be UTF-8 in base64: {exc}"
        raise UserError(msg) from exc


def _assistant(message: Message) -> list[_Block]:
    blocks = [block for block in map(_assistant_block, message.parts) if block]
    # Thinking that nothing follows is refused, and of no use: what it led to is not there.
    while blocks and blocks[-1]["type"].endswith("thinking"):
        blocks.pop()
    return blocks


def _assistant_block(part: Part) -> _Block | None:
    match part:
        case TextPart(text=text):
            return _text(text)
        case ReasoningPart(provider="anthropic", metadata={"redacted": data}):
            return {"type": "redacted_thinking", "data": data}
        case ReasoningPart(provider="anthropic", metadata={"signature": signature}):
            return {"type": "thinking", "thinking": part.text, "signature": signature}
        case ToolCallPart():
            # Arguments that were no JSON object go back as the `{}` that `args` then is.
            name = _UNFIT.sub("_", part.tool_name)  # one that a model of another provider made up
            return {"type": "tool_use", "id": _wire_id(part.tool_call_id), "name": name, "input": part.args}
        case _:
            return None


def _tool_results(message: Message) -> list[_Block]:
    return [_tool_result(result) for result in message.tool_results]


def _tool_result(part: ToolResultPart) -> _Block:
    block: _Block = {"type": "tool_result", "tool_use_id": _wire_id(part.tool_call_id)}
    content = part.result if isinstance(part.result, str) else _json(part.result)
    if content.strip():
        block["content"] = content
    elif part.is_error:
        block["content"] = _NOTHING_SAID
    if part.is_error:
        block["is_error"] = True
    return block


_BLOCKS: Mapping[str, Callable[[Message], list[_Block]]] = {
    "system": _nothing,  # it belongs to the system prompt: older models know no other place for it
    "user": _user,
    "assistant": _assistant,
    "tool": _tool_results,
}

_UNFIT = re.compile(r"[^a-zA-Z0-9_-]")


def _wire_id(call_id: str) -> str:
    """Return a call's id as this wire takes it; what is no such id is told apart by a digest of it."""
    clean = _UNFIT.sub("_", call_id)
    if clean == call_id and clean:
        return clean
    return f"{clean}_{hashlib.sha256(call_id.encode()).hexdigest()[:16]}"


def _tool(tool: Tool) -> dict[str, Any]:
    encoded: dict[str, Any] = {"name": tool.name, "input_schema": tool.parameters}
    if tool.description:
        encoded["description"] = tool.description
    return encoded


def _tool_choice(choice: ToolChoice, tools: Sequence[Tool]) -> dict[str, Any]:
    if choice == "none":
        return {"type": "none"}
    if choice == "required":
        return {"type": "any"}
    names = [tool.name for tool in tools]
    if choice not in names:
        msg = f"tool_choice {choice!r} is no tool of this request; there are: {', '.join(names)}"
        raise UserError(msg)
    return {"type": "tool", "name": choice}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)

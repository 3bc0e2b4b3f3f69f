"""OpenAI's Responses API, strictly: the server, what it remembers, and what it streams.

The rules for the items stand in ``responses_items``. What is checked here, with where it is told:

- names of parameters: unknown ones are refused, ``stop`` and ``max_tokens`` among them: the API reference has none
- ``include`` takes the API reference's values; encrypted reasoning only of models that reason
- reasoning models take no ``temperature`` or ``top_p``, other models no ``reasoning``: the reasoning guide
- ``max_output_tokens`` from 16: the API reference
- tools are flat (``tools[0].name``), formats have a name and a schema: the API reference
- ``previous_response_id`` is one that was kept: the guide on conversation state
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from support.http_server import Request

from strict_servers.answers import Answer, Call, Say, Think, cut, event
from strict_servers.openai_fields import (
    check_choice,
    check_function,
    check_name,
    check_numbers,
    check_schema,
    is_reasoning_model,
    require_keys,
    require_list,
)
from strict_servers.problem import Problem, openai_problem, problem_of, refuse_openai, unfit_text
from strict_servers.responses_items import Memory, check_items
from strict_servers.server import StrictServer

PARAMETERS = frozenset(
    [
        "background",
        "context_management",
        "conversation",
        "include",
        "input",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "model",
        "moderation",
        "parallel_tool_calls",
        "previous_response_id",
        "prompt",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning",
        "safety_identifier",
        "service_tier",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "truncation",
        "user",
    ]
)
INCLUDABLE = (
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
)
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


class StrictResponses(StrictServer):
    """OpenAI's Responses API. ``memory`` holds the items that it has given out."""

    path = "/v1/responses"
    tail = 1

    def __init__(self, name: str, script: Iterable[Answer] = ()) -> None:
        super().__init__(name, script)
        self.memory = Memory()

    def check(self, body: Any) -> Problem | None:
        return check(body, self.memory)

    def refuse_headers(self, request: Request) -> Problem | None:
        if request.headers.get("authorization", "").startswith("Bearer "):
            return None
        return openai_problem("You didn't provide an API key.", code="invalid_api_key", status=401)

    def unreadable(self, why: str) -> Problem:
        return openai_problem(f"We could not parse the JSON body of your request. (HINT: {why})")

    def error_body(self, status: int) -> dict[str, Any]:
        if status == 429:
            return {"error": {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}}
        return {"error": {"message": "The server had an error", "type": "server_error", "code": "server_error"}}

    def in_band_error(self) -> str:
        error = {"code": "server_error", "message": "Internal failure. You can retry your request."}
        response = {"id": f"resp_{self.count()}", "status": "failed", "output": [], "error": error}
        return event({"type": "response.failed", "sequence_number": 99, "response": response})

    def events(self, answer: Answer, body: dict[str, Any]) -> list[str]:
        writer = _Writer(self.count(), body, answer)
        for piece in answer.pieces:
            match piece:
                case Think(text=text, redacted=redacted):
                    if is_reasoning_model(body["model"]):
                        writer.think(f"rs_{self.name}{self.count()}", "" if redacted else text)
                case Say(text=text, cuts=cuts):
                    writer.say(f"msg_{self.name}{self.count()}", text, cuts)
                case Call(call_id=call_id):
                    own = call_id if call_id is not None else f"call_{self.name}{self.count()}"
                    writer.call(f"fc_{self.name}{self.count()}", own, piece)
        self.issue(answer, [item["call_id"] for item in writer.items if item["type"] == "function_call"])
        if answer.is_whole:
            self.memory.remember(writer.items, response_id=writer.response_id, kept=body.get("store") is not False)
        return writer.finished()


@dataclass
class _Writer:
    """Writes the events of one response."""

    number: int
    body: dict[str, Any]
    answer: Answer
    items: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    written: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self._emit("response.created", response=self._response("in_progress"))

    @property
    def response_id(self) -> str:
        return f"resp_{self.number}"

    def think(self, item_id: str, text: str) -> None:
        item: dict[str, Any] = {"id": item_id, "type": "reasoning", "summary": []}
        index = self._add({**item, "encrypted_content": None})
        if text:
            self._emit("response.reasoning_summary_part.added", item_id=item_id, output_index=index, summary_index=0)
            for part in cut(text, 2):
                place = {"item_id": item_id, "output_index": index, "summary_index": 0}
                self._emit("response.reasoning_summary_text.delta", **place, delta=part)
            item["summary"] = [{"type": "summary_text", "text": text}]
        if "reasoning.encrypted_content" in (self.body.get("include") or ()):
            item["encrypted_content"] = base64.b64encode(f"{item_id}: thought".encode()).decode()
        self._done(index, item)

    def say(self, item_id: str, text: str, cuts: int) -> None:
        refusal = self.answer.finish == "refusal"
        head = {"id": item_id, "type": "message", "role": "assistant"}
        index = self._add({**head, "status": "in_progress", "content": []})
        kind = "response.refusal.delta" if refusal else "response.output_text.delta"
        for part in cut(text, cuts):
            self._emit(kind, item_id=item_id, output_index=index, content_index=0, delta=part)
        spoken = {"type": "output_text", "text": text, "annotations": []}
        content = {"type": "refusal", "refusal": text} if refusal else spoken
        self._done(index, {**head, "status": "completed", "content": [content]})

    def call(self, item_id: str, call_id: str, call: Call) -> None:
        head = {"id": item_id, "type": "function_call", "call_id": call_id, "name": call.name}
        index = self._add({**head, "status": "in_progress", "arguments": ""})
        for part in cut(call.arguments, 2):
            self._emit("response.function_call_arguments.delta", item_id=item_id, output_index=index, delta=part)
        self._emit(
            "response.function_call_arguments.done", item_id=item_id, output_index=index, arguments=call.arguments
        )
        self._done(index, {**head, "status": "completed", "arguments": call.arguments})

    def finished(self) -> list[str]:
        reasons = {"length": "max_output_tokens", "content_filter": "content_filter"}
        if (reason := reasons.get(self.answer.finish)) is not None:
            details = {"incomplete_details": {"reason": reason}}
            self._emit("response.incomplete", response=self._response("incomplete") | details)
        else:
            self._emit("response.completed", response=self._response("completed"))
        return self.written

    def _add(self, item: dict[str, Any]) -> int:
        self.items.append(item)
        self._emit("response.output_item.added", output_index=len(self.items) - 1, item=item)
        return len(self.items) - 1

    def _done(self, index: int, item: dict[str, Any]) -> None:
        self.items[index] = item
        self._emit("response.output_item.done", output_index=index, item=item)

    def _response(self, status: str) -> dict[str, Any]:
        usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
        whole = status != "in_progress"
        output = list(self.items) if whole else []
        facts = {"id": self.response_id, "object": "response", "model": self.body["model"], "error": None}
        return {**facts, "status": status, "output": output, "usage": usage if whole else None}

    def _emit(self, kind: str, **fields: Any) -> None:
        self.written.append(event({"type": kind, "sequence_number": len(self.written), **fields}))


def check(body: Any, memory: Memory | None = None) -> Problem | None:
    """Return what OpenAI refuses about the body of a request, given the items that it remembers."""
    return problem_of(lambda: _check(body, memory or Memory()))


def _check(body: dict[str, Any], memory: Memory) -> None:
    if (why := unfit_text(body)) is not None:
        refuse_openai(f"We could not parse the JSON body of your request. (HINT: {why})")
    for name in body:
        if name not in PARAMETERS:
            refuse_openai(f"Unknown parameter: '{name}'.", param=name, code="unknown_parameter")
    require_keys(body, "model")
    check_numbers(body, max_temperature=2)
    limit = body.get("max_output_tokens")
    if limit is not None and limit < 16:
        message = f"integer below minimum value. Expected a value >= 16, but got {limit} instead."
        text = f"Invalid 'max_output_tokens': {message}"
        refuse_openai(text, param="max_output_tokens", code="integer_below_min_value")
    _check_include(body)
    _check_reasoning(body)
    names: list[str] = []
    for index, tool in enumerate(require_list(body, "tools") or ()):
        require_keys(tool, "type", path=f"tools[{index}]")
        check_function(tool, f"tools[{index}]")
        names.append(tool["name"])
    check_choice(body, names, None)
    _check_format(body)
    previous = body.get("previous_response_id")
    if previous is not None and previous not in memory.responses:
        message = f"Previous response with id '{previous}' not found."
        refuse_openai(message, param="previous_response_id", code="previous_response_not_found")
    check_items(body, memory, continues=previous is not None, reasons=is_reasoning_model(body["model"]))


def _check_include(body: dict[str, Any]) -> None:
    for index, value in enumerate(body.get("include") or ()):
        if value not in INCLUDABLE:
            known = ", ".join(f"'{v}'" for v in INCLUDABLE[:-1])
            message = f"Invalid value: '{value}'. Supported values are: {known}, and '{INCLUDABLE[-1]}'."
            refuse_openai(message, param=f"include[{index}]", code="invalid_value")
        if value == "reasoning.encrypted_content" and not is_reasoning_model(body["model"]):
            refuse_openai("Encrypted content is not supported with this model.", param="include")


def _check_reasoning(body: dict[str, Any]) -> None:
    reasoning = body.get("reasoning") or {}
    if is_reasoning_model(body["model"]):
        for name in ("temperature", "top_p", "top_logprobs"):
            if body.get(name) is not None:
                message = f"Unsupported parameter: '{name}' is not supported with this model."
                refuse_openai(message, param=name, code="unsupported_parameter")
        if reasoning.get("effort") not in (None, *EFFORTS):
            message = f"Invalid value: '{reasoning['effort']}'. Supported values are: {', '.join(EFFORTS)}."
            refuse_openai(message, param="reasoning.effort", code="invalid_value")
        return
    for name in reasoning:
        message = f"Unsupported parameter: 'reasoning.{name}' is not supported with this model."
        refuse_openai(message, param=f"reasoning.{name}", code="unsupported_parameter")


def _check_format(body: dict[str, Any]) -> None:
    form = (body.get("text") or {}).get("format")
    if form is None or form.get("type") != "json_schema":
        return
    require_keys(form, "name", "schema", path="text.format")
    check_name(form["name"], "text.format.name")
    check_schema(form, "schema", "response_format", "text.format.schema")

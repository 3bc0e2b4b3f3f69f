"""OpenAI's chat completions, strictly: what OpenAI itself refuses.

The rules, each with where it is told; the words are those that the server really answers, as those reports quote them:

- pairing of ``tool_calls`` and tool messages: dataline #172, sdcb/chats #132; results twice: agno #5116
- ``content`` null only beside ``tool_calls``: the API reference, dify #12881
- names ``^[a-zA-Z0-9_-]+$`` of 64 characters at most: the API reference, brekkylab/ailoy #109; in the history too:
  mcp-use #90
- call ids of 40 characters at most: vercel/ai #8132
- arguments that are a JSON object: OpenAI itself takes any text, many servers of this API do not: kagent #2851
- ``max_tokens`` of reasoning models: ComfyUI-Griptape #312, and their sampling settings: the reasoning guide
- ``reasoning_effort`` of others: langchain_dart #712; other names that are unknown: llm_wiki #336
- ``parallel_tool_calls`` and ``tool_choice`` without tools: Upsonic #323, the API reference
- ``stream_options`` without ``stream``: litellm #5803; an empty list: CopilotKit #529
- descriptions of functions of 1024 characters at most: nanbingxyz/5ire #33
- strict schemas: see ``openai_schema_rules``
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from support.http_server import Request

from strict_servers.answers import Answer, Call, Say, Think, cut
from strict_servers.openai_fields import (
    check_choice,
    check_function,
    check_name,
    check_numbers,
    check_schema,
    is_reasoning_model,
    require_keys,
    require_list,
    require_text,
)
from strict_servers.problem import Problem, openai_problem, problem_of, refuse_openai, unfit_text
from strict_servers.server import StrictServer

PARAMETERS = frozenset(
    [
        "audio",
        "frequency_penalty",
        "function_call",
        "functions",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "metadata",
        "modalities",
        "model",
        "moderation",
        "n",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning_effort",
        "response_format",
        "safety_identifier",
        "seed",
        "service_tier",
        "stop",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "user",
        "verbosity",
        "web_search_options",
    ]
)
ROLES = ("system", "assistant", "user", "function", "tool", "developer")
PARTS = ("text", "image_url", "input_audio", "refusal", "audio", "file")
KEYS = frozenset({"role", "content", "name", "refusal", "audio", "function_call", "tool_calls", "tool_call_id"})

_MAX_ID = 40
_FORBIDDEN = ("top_p", "presence_penalty", "frequency_penalty", "logprobs", "logit_bias", "stop")
"""What reasoning models do not take."""


class StrictChat(StrictServer):
    """OpenAI's chat completions. Every refusal is a 400 of type ``invalid_request_error``."""

    path = "/v1/chat/completions"
    tail = 3

    def check(self, body: Any) -> Problem | None:
        return check(body)

    def refuse_headers(self, request: Request) -> Problem | None:
        if request.headers.get("authorization", "").startswith("Bearer "):
            return None
        return openai_problem("You didn't provide an API key.", code="invalid_api_key", status=401)

    def unreadable(self, why: str) -> Problem:
        return openai_problem(f"We could not parse the JSON body of your request. (HINT: {why})")

    def error_body(self, status: int) -> dict[str, Any]:
        if status == 429:
            return {"error": {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}}
        return {"error": {"message": "The server had an error", "type": "server_error", "code": None}}

    def in_band_error(self) -> str:
        return _data({"error": {"message": "Upstream failed", "type": "server_error", "code": "server_error"}})

    def events(self, answer: Answer, body: dict[str, Any]) -> list[str]:
        ids = [call.call_id if call.call_id is not None else f"call_{self.name}{self.count()}" for call in answer.calls]
        self.issue(answer, ids)
        head = {"id": f"chatcmpl-{self.count()}", "object": "chat.completion.chunk", "model": body["model"]}
        payloads = list(chunks(answer, ids, thinks=self.thinks))
        whole = [{**head, "choices": [{"index": 0, "delta": d, "finish_reason": f}]} for d, f in payloads]
        usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
        return [*map(_data, whole), _data({**head, "choices": [], "usage": usage}), "data: [DONE]\n\n"]

    thinks = False
    """Whether thinking is streamed: OpenAI keeps it to itself."""


def chunks(answer: Answer, ids: Iterable[str], *, thinks: bool) -> Iterable[tuple[dict[str, Any], str | None]]:
    """Yield the deltas of an answer and the finish reason after them."""
    yield {"role": "assistant", "content": ""}, None
    remaining = list(ids)
    field = "refusal" if answer.finish == "refusal" else "content"
    for piece in answer.pieces:
        match piece:
            case Say(text=text, cuts=cuts):
                for part in cut(text, cuts):
                    yield {field: part}, None
            case Think(text=text):
                if thinks:
                    for part in cut(text, 2):
                        yield {"reasoning_content": part}, None
            case Call():
                index = len(answer.calls) - len(remaining)
                yield from _call_deltas(piece, index, remaining.pop(0))
    reasons = {"refusal": "stop", "stop": "tool_calls" if answer.calls else "stop"}
    yield {}, reasons.get(answer.finish, answer.finish)


def _call_deltas(call: Call, index: int, call_id: str) -> Iterable[tuple[dict[str, Any], None]]:
    start = {"index": index, "id": call_id, "type": "function", "function": {"name": call.name, "arguments": ""}}
    yield {"tool_calls": [start]}, None
    for part in cut(call.arguments, 2):
        if part:
            yield {"tool_calls": [{"index": index, "function": {"arguments": part}}]}, None


def _data(payload: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(payload)}\n\n"


def check(body: Any) -> Problem | None:
    """Return what OpenAI refuses about the body of a request."""
    return problem_of(lambda: _check(body))


def _check(body: dict[str, Any]) -> None:
    if (why := unfit_text(body)) is not None:
        refuse_openai(f"We could not parse the JSON body of your request. (HINT: {why})")
    require_keys(body, "model", "messages")
    for name in body:
        if name not in PARAMETERS:
            refuse_openai(f"Unrecognized request argument supplied: {name}")
    check_parameters(body)
    check_messages(body["messages"])


def check_parameters(body: dict[str, Any]) -> None:
    """Check everything beside the messages."""
    check_numbers(body, max_temperature=2)
    stop = body.get("stop")
    if isinstance(stop, list) and len(stop) > 4:
        message = "array too long. Expected an array with maximum length 4, but got an array with length"
        refuse_openai(f"Invalid 'stop': {message} {len(stop)} instead.", param="stop", code="array_above_max_length")
    if "stream_options" in body and not body.get("stream"):
        refuse_openai(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.", param="stream_options"
        )
    if is_reasoning_model(body["model"]):
        _check_reasoning(body)
    elif body.get("reasoning_effort") is not None:
        refuse_openai("Unrecognized request argument supplied: reasoning_effort")
    names = _check_tools(body)
    check_choice(body, names, "function")
    if (form := body.get("response_format")) is not None and form.get("type") == "json_schema":
        path = "response_format.json_schema"
        require_keys(form, "json_schema", path="response_format")
        require_keys(form["json_schema"], "name", path=path)
        check_name(form["json_schema"]["name"], f"{path}.name")
        check_schema(form["json_schema"], "schema", "response_format", "response_format")


def _check_reasoning(body: dict[str, Any]) -> None:
    if body.get("max_tokens") is not None:
        use = "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        refuse_openai(f"Unsupported parameter: {use}", param="max_tokens", code="unsupported_parameter")
    if body.get("temperature") not in (None, 1):
        message = f"'temperature' does not support {body['temperature']} with this model. Only the default (1) value"
        refuse_openai(f"Unsupported value: {message} is supported.", param="temperature", code="unsupported_value")
    for name in _FORBIDDEN:
        if body.get(name) is not None:
            message = f"Unsupported parameter: '{name}' is not supported with this model."
            refuse_openai(message, param=name, code="unsupported_parameter")


def _check_tools(body: dict[str, Any]) -> list[str]:
    names: list[str] = []
    for index, tool in enumerate(require_list(body, "tools", least=1) or ()):
        path = f"tools[{index}]"
        require_keys(tool, "type", path=path)
        require_keys(tool, "function", path=path)
        check_function(tool["function"], f"{path}.function")
        names.append(tool["function"]["name"])
    return names


def check_messages(messages: Any, *, max_id: int = _MAX_ID, keys: frozenset[str] = KEYS) -> None:
    """Check the messages, one by one and then each call with its results."""
    require_list({"messages": messages}, "messages", least=1)
    for index, message in enumerate(messages):
        path = f"messages[{index}]"
        require_keys(message, "role", path=path)
        role = message["role"]
        if role not in ROLES:
            known = ", ".join(f"'{r}'" for r in ROLES[:-1])
            text = f"Invalid value: '{role}'. Supported values are: {known}, and '{ROLES[-1]}'."
            refuse_openai(text, param=f"{path}.role", code="invalid_value")
        for key in message.keys() - keys:
            refuse_openai(f"Unknown parameter: '{path}.{key}'.", param=f"{path}.{key}", code="unknown_parameter")
        _check_content(message, index)
        for n, call in enumerate(require_list(message, "tool_calls", path, least=1) or ()):
            _check_call(call, f"{path}.tool_calls[{n}]", max_id)
        if role == "tool":
            require_keys(message, "tool_call_id", path=path)
    check_pairs(messages)


def _check_content(message: dict[str, Any], index: int) -> None:
    content, where = message.get("content"), f"messages.[{index}].content"
    if content is None:
        if message["role"] == "assistant" and (message.get("tool_calls") or message.get("refusal")):
            return
        refuse_openai("Invalid value for 'content': expected a string, got null.", param=where)
    if isinstance(content, str):
        return
    require_list(message, "content", f"messages[{index}]", least=1)
    allowed = (
        PARTS if message["role"] == "user" else ("text", "refusal") if message["role"] == "assistant" else ("text",)
    )
    for n, part in enumerate(content):
        if part.get("type") not in allowed:
            known = " and ".join(f"'{p}'" for p in allowed)
            text = f"Invalid value: '{part.get('type')}'. Supported values are: {known}."
            refuse_openai(text, param=f"messages[{index}].content[{n}]", code="invalid_value")


def _check_call(call: dict[str, Any], path: str, max_id: int) -> None:
    require_keys(call, "id", "type", "function", path=path)
    require_text(call, "id", path, most=max_id)
    function = call["function"]
    require_keys(function, "name", "arguments", path=f"{path}.function")
    check_name(function["name"], f"{path}.function.name")
    arguments = require_text(function, "arguments", f"{path}.function", least=0)
    try:
        value = json.loads(arguments)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        where = f"{path}.function.arguments"
        refuse_openai(f"Invalid '{where}': it is not the JSON text of an object.", param=where, code="invalid_value")


def check_pairs(messages: list[dict[str, Any]]) -> None:
    """Check that each call is answered at once, and that nothing else is."""
    open_calls: dict[str, int] = {}
    answered: dict[str, int] = {}
    end: dict[str, Any] = {"role": "end"}
    for index, message in enumerate([*messages, end]):
        if message["role"] == "tool":
            _check_result(message["tool_call_id"], index, open_calls, answered)
            continue
        _require_answers(open_calls, index)
        open_calls, answered = {call["id"]: index for call in message.get("tool_calls") or ()}, {}
        if len(open_calls) != len(message.get("tool_calls") or ()):
            ids = [call["id"] for call in message["tool_calls"]]
            twice = next(i for i in ids if ids.count(i) > 1)
            text = f"Invalid parameter: Duplicate value for 'tool_call_id' of '{twice}', in messages[{index}]."
            refuse_openai(text, param=f"messages.[{index}].tool_calls")


def _check_result(call_id: str, index: int, open_calls: dict[str, int], answered: dict[str, int]) -> None:
    param = f"messages.[{index}].tool_call_id"
    if call_id in answered:
        where = f"messages[{answered[call_id]}] and messages[{index}]"
        text = f"Invalid parameter: Duplicate value for 'tool_call_id' of '{call_id}', in {where}."
        refuse_openai(text, param=param)
    if not open_calls and not answered:
        text = "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
        refuse_openai(f"Invalid parameter: {text}", param=f"messages.[{index}].role")
    if call_id not in open_calls:
        text = f"'tool_call_id' of '{call_id}' not found in 'tool_calls' of previous message."
        refuse_openai(f"Invalid parameter: {text}", param=param)
    del open_calls[call_id]
    answered[call_id] = index


def _require_answers(open_calls: Mapping[str, int], index: int) -> None:
    if open_calls:
        text = (
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(open_calls)}"
        )
        refuse_openai(text, param=f"messages.[{index}].role")

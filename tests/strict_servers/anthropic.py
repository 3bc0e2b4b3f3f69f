"""Anthropic's Messages API, strictly: the server, what it remembers, and what it streams.

The rules for turns and blocks stand in ``anthropic_turns``. What is checked here, with where it is told:

- ``model``, ``max_tokens`` and ``messages`` are required, unknown fields are refused: the API reference
- names of tools ``^[a-zA-Z0-9_-]{1,128}$``, each once, with a schema of an object: the API reference
- ``budget_tokens`` from 1024 and below ``max_tokens``; beside thinking no ``temperature`` but 1, no ``top_k``,
  ``top_p`` from 0.95, no forced tools: the guides on extended thinking, one-hub #529
- thinking with a budget is of models up to 4.6, adaptive thinking of models from 4.6 on: the page on errors
- not both ``temperature`` and ``top_p`` on models from 4.5 on: their migration guide; none of them, nor ``top_k``,
  from 4.7 on: models.dev #1468, auto_ai_router #181
- ``cache_control`` on four blocks at most: continue #6937, and on no thinking
- formats are closed objects without limits on values: the guide on structured outputs
- a key, as ``x-api-key`` or a bearer's, and ``anthropic-version`` are required headers
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from support.http_server import Request

from strict_servers.answers import Answer, Call, Say, Think, cut, event
from strict_servers.anthropic_turns import Memory, check_turns, thinking_is_on
from strict_servers.problem import Problem, anthropic_problem, problem_of, refuse_anthropic, unfit_text
from strict_servers.server import StrictServer

PARAMETERS = frozenset(
    [
        "cache_control",
        "container",
        "diagnostics",
        "inference_geo",
        "max_tokens",
        "messages",
        "metadata",
        "model",
        "output_config",
        "service_tier",
        "speed",
        "stop_sequences",
        "stream",
        "system",
        "temperature",
        "thinking",
        "tool_choice",
        "tools",
        "top_k",
        "top_p",
    ]
)

_GUIDE = "Please consult our documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking"
_NAME = "^[a-zA-Z0-9_-]{1,128}$"
_LIMITS = ("minimum", "maximum", "minLength", "maxLength", "multipleOf", "minItems", "maxItems", "pattern")


class StrictAnthropic(StrictServer):
    """Anthropic's Messages API. ``memory`` holds the thinking that it has signed.

    With ``bound`` a signature holds only behind the prefix that it was made behind, as on Claude 5.1 and later.
    """

    path = "/v1/messages"
    tail = 2

    def __init__(self, name: str, script: Iterable[Answer] = (), *, bound: bool = False) -> None:
        super().__init__(name, script)
        self.memory = Memory(bound=bound)
        self._beta = ""

    def check(self, body: Any) -> Problem | None:
        return check(body, self.memory, beta=self._beta)

    def refuse_headers(self, request: Request) -> Problem | None:
        self._beta = request.headers.get("anthropic-beta", "")
        if not request.headers.keys() & {"x-api-key", "authorization"}:
            return anthropic_problem("x-api-key header is required", kind="authentication_error", status=401)
        if not request.headers.get("anthropic-version"):
            return anthropic_problem("anthropic-version: header is required")
        return None

    def unreadable(self, why: str) -> Problem:
        return anthropic_problem(f"The request body is not valid JSON: {why}")

    def error_body(self, status: int) -> dict[str, Any]:
        kinds = {429: "rate_limit_error", 529: "overloaded_error"}
        return {"type": "error", "error": {"type": kinds.get(status, "api_error"), "message": "No answer"}}

    def in_band_error(self) -> str:
        return event({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})

    def events(self, answer: Answer, body: dict[str, Any]) -> list[str]:
        blocks: list[dict[str, Any]] = []
        for piece in answer.pieces:
            match piece:
                case Say(text=text):
                    blocks.append({"type": "text", "text": text})
                case Think(text=text, redacted=redacted):
                    if thinking_is_on(body):
                        blocks.append(self._thought(text, redacted=redacted))
                case Call(call_id=call_id):
                    own = call_id if call_id is not None else f"toolu_{self.name}{self.count()}"
                    blocks.append({"type": "tool_use", "id": own, "name": piece.name, "arguments": piece.arguments})
        if blocks and blocks[-1]["type"] == "redacted_thinking":
            blocks.pop()  # it was cut off
        if blocks and blocks[-1]["type"] == "thinking":
            blocks[-1]["signature"] = ""  # likewise
        self.issue(answer, [block["id"] for block in blocks if block["type"] == "tool_use"])
        if answer.is_whole:
            self.memory.remember(blocks, body)
        return [event(payload) for payload in _payloads(answer, blocks, body, f"msg_{self.name}{self.count()}")]

    def _thought(self, text: str, *, redacted: bool) -> dict[str, Any]:
        signature = f"c2lnbmVk/{self.name}+{self.count()}=="
        if redacted:
            return {"type": "redacted_thinking", "data": signature}
        return {"type": "thinking", "thinking": text, "signature": signature}


def _payloads(
    answer: Answer, blocks: list[dict[str, Any]], body: dict[str, Any], message_id: str
) -> Iterator[dict[str, Any]]:
    head = {"id": message_id, "type": "message", "role": "assistant", "model": body["model"], "content": []}
    usage = {"input_tokens": 3, "output_tokens": 1}
    yield {"type": "message_start", "message": {**head, "stop_reason": None, "stop_sequence": None, "usage": usage}}
    yield {"type": "ping"}
    for index, block in enumerate(blocks):
        yield from _block(index, block)
    calls = "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"
    reason = {"stop": calls, "length": "max_tokens"}.get(answer.finish, "refusal")
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": None},
        "usage": {"output_tokens": 5},
    }
    yield {"type": "message_stop"}


def _block(index: int, block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    starts = {
        "text": {"type": "text", "text": ""},
        "thinking": {"type": "thinking", "thinking": "", "signature": ""},
        "redacted_thinking": block,
        "tool_use": {"type": "tool_use", "id": block.get("id"), "name": block.get("name"), "input": {}},
    }
    yield {"type": "content_block_start", "index": index, "content_block": starts[block["type"]]}
    deltas: list[dict[str, Any]] = []
    match block["type"]:
        case "text":
            deltas += [{"type": "text_delta", "text": part} for part in cut(block["text"], 2)]
        case "thinking":
            deltas += [{"type": "thinking_delta", "thinking": part} for part in cut(block["thinking"], 2)]
            if block["signature"]:
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
        case "tool_use":
            parts = cut(block["arguments"], 2)
            deltas += [{"type": "input_json_delta", "partial_json": part} for part in parts]
        case _:
            pass
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def version_of(model: str) -> tuple[int, int]:
    """Return the version in the name of a Claude model."""
    found = re.search(r"claude-[a-z]+-(\d)(?:[-.](\d)(?!\d))?", model)
    return (int(found[1]), int(found[2] or 0)) if found else (3, 0)


def check(body: Any, memory: Memory | None = None, *, beta: str = "") -> Problem | None:
    """Return what Anthropic refuses about the body of a request, given the thinking that it has signed."""
    return problem_of(lambda: _check(body, memory or Memory(), beta))


def _check(body: dict[str, Any], memory: Memory, beta: str) -> None:
    if (why := unfit_text(body)) is not None:
        refuse_anthropic(f"The request body is not valid JSON: {why}: line 1 column 1 (char 0)")
    for name in ("model", "max_tokens", "messages"):
        if body.get(name) is None:
            refuse_anthropic(f"{name}: Field required")
    for name in body:
        if name not in PARAMETERS:
            refuse_anthropic(f"{name}: Extra inputs are not permitted")
    if body["max_tokens"] < 1:
        refuse_anthropic("max_tokens: Input should be greater than or equal to 1")
    version = version_of(body["model"])
    _check_sampling(body, version)
    _check_thinking(body, version)
    _check_tools(body)
    _check_system(body)
    _check_caching(body)
    if (form := (body.get("output_config") or {}).get("format")) is not None:
        _check_schema(form.get("schema"))
    check_turns(body, memory, prefill=version < (4, 6), beta=beta)


def _check_sampling(body: dict[str, Any], version: tuple[int, int]) -> None:
    temperature = body.get("temperature")
    if temperature is not None and not 0 <= temperature <= 1:
        refuse_anthropic("temperature: Input should be less than or equal to 1")
    if temperature is not None and body.get("top_p") is not None and version >= (4, 5):
        message = "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
        refuse_anthropic(message)
    for name in ("temperature", "top_p", "top_k"):
        if body.get(name) is not None and version >= (4, 7):
            refuse_anthropic(f"`{name}` is deprecated for this model.")
    for stop in body.get("stop_sequences") or ():
        if not stop.strip():
            refuse_anthropic("stop_sequences: each stop sequence must contain non-whitespace")


def _check_thinking(body: dict[str, Any], version: tuple[int, int]) -> None:
    thinking = body.get("thinking") or {"type": "disabled"}
    if thinking["type"] == "enabled":
        _check_budget(thinking, body["max_tokens"], version)
    if thinking["type"] == "adaptive" and version < (4, 6):
        refuse_anthropic("adaptive thinking is not supported on this model")
    if not thinking_is_on(body):
        return
    if body.get("temperature") not in (None, 1):
        refuse_anthropic(f"`temperature` may only be set to 1 when thinking is enabled. {_GUIDE}")
    if body.get("top_k") is not None:
        refuse_anthropic(f"`top_k` must be unset when thinking is enabled. {_GUIDE}")
    if body.get("top_p") is not None and body["top_p"] < 0.95:
        message = "`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled."
        refuse_anthropic(f"{message} {_GUIDE}")
    if (body.get("tool_choice") or {}).get("type") in {"any", "tool"}:
        refuse_anthropic("Thinking may not be enabled when tool_choice forces tool use.")


def _check_budget(thinking: dict[str, Any], limit: int, version: tuple[int, int]) -> None:
    budget = thinking.get("budget_tokens")
    if version >= (4, 7):
        use = 'Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'
        refuse_anthropic(f'"thinking.type.enabled" is not supported for this model. {use}')
    if budget is None:
        refuse_anthropic("thinking.enabled.budget_tokens: Field required")
    if budget < 1024:
        refuse_anthropic("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
    if budget >= limit:
        refuse_anthropic(f"`max_tokens` must be greater than `thinking.budget_tokens`. {_GUIDE}")


def _check_tools(body: dict[str, Any]) -> None:
    names: list[str] = []
    for index, tool in enumerate(body.get("tools") or ()):
        where = f"tools.{index}.custom"
        for key in ("name", "input_schema"):
            if key not in tool:
                refuse_anthropic(f"{where}.{key}: Field required")
        if not re.fullmatch(_NAME[1:-1], tool["name"]):
            refuse_anthropic(f"{where}.name: String should match pattern '{_NAME}'")
        schema = tool["input_schema"]
        if schema.get("type") != "object":
            refuse_anthropic(f"{where}.input_schema.type: Input should be 'object'")
        if schema.keys() & {"oneOf", "allOf", "anyOf"}:
            refuse_anthropic(
                f"{where}.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"
            )
        if tool.get("strict"):
            _check_schema(schema)
        names.append(tool["name"])
    if len(set(names)) < len(names):
        refuse_anthropic("tools: Tool names must be unique.")
    if (choice := body.get("tool_choice")) is not None:
        _check_choice(choice, names)


def _check_choice(choice: dict[str, Any], names: list[str]) -> None:
    if choice.get("type") not in {"auto", "any", "tool", "none"}:
        known = "'auto', 'any', 'tool', 'none'"
        refuse_anthropic(f"tool_choice: Input tag does not match any of the expected tags: {known}")
    if not names:
        refuse_anthropic("tool_choice: `tool_choice` may only be specified while providing `tools`.")
    if choice["type"] == "tool" and choice.get("name") not in names:
        refuse_anthropic(f"Tool '{choice.get('name')}' not found in provided tools")


def _check_system(body: dict[str, Any]) -> None:
    system = body.get("system")
    blocks = system if isinstance(system, list) else []
    if any(not block["text"].strip() for block in blocks):
        refuse_anthropic("system: text content blocks must contain non-whitespace text")


def _check_caching(body: dict[str, Any]) -> None:
    marks = json.dumps([body.get(name) for name in ("system", "tools", "messages")]).count('"cache_control": {')
    marks += body.get("cache_control") is not None
    if marks > 4:
        refuse_anthropic(f"A maximum of 4 blocks with cache_control may be provided. Found {marks}.")


def _check_schema(schema: Any) -> None:
    if isinstance(schema, list):
        for item in schema:
            _check_schema(item)
    if not isinstance(schema, dict):
        return
    kind = schema.get("type")
    if kind == "object" and schema.get("additionalProperties") is not False:
        message = "For 'object' type, 'additionalProperties' must be explicitly set to false"
        refuse_anthropic(f"output_config.format.schema: {message}")
    limits = [name for name in _LIMITS if isinstance(kind, str) and name in schema]
    if limits:
        message = f"For '{kind}' type, properties {', '.join(limits)} are not supported"
        refuse_anthropic(f"output_config.format.schema: {message}")
    for name, item in schema.items():
        if name in {"properties", "$defs", "definitions"}:
            for value in item.values():
                _check_schema(value)
        elif name not in {"enum", "const", "default", "examples"}:
            _check_schema(item)

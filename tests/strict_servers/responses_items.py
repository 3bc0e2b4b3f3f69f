"""The rules for the items of a Responses request, and what the server remembers of the items that it gave out.

Each with where it is told; the words are the real ones, as those reports quote them:

- each ``function_call`` has its output after it ("No tool output found for function call"): openai-client #124;
  each output its call ("No tool call found for function call output with call_id"): continue #10092
- a reasoning item is followed by the item that it led to: continue #8933, OpenHands/software-agent-sdk #1754
- an item with an id that reasoning led to has that reasoning before it: mastra #8738, laravel/ai #1052
- what was not kept is not found (404): oh-my-pi #41, hermes-agent #10217; encrypted content stands for itself, unless
  the server did not make it: openai/codex #8145
- no id twice: earendil-works/pi #5147; ids begin with ``msg``, ``fc``, ``rs``: nodetool #4252, and have 64 characters
  at most of the usual kinds: pi #1022; so have call ids: Aether #829
- reasoning goes to models that reason only: openai-agents-python #569
- roles and the parts that each may have: kelivo #281, the API reference
- ``summary`` is required of reasoning, also where it is empty: Agora #141
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from strict_servers.openai_fields import check_name, require_keys, require_list, require_text
from strict_servers.problem import refuse_openai

ROLES = ("assistant", "system", "developer", "user")
INPUT_PARTS = ("input_text", "input_image", "input_file")
OUTPUT_PARTS = ("output_text", "refusal")

_MAX_ID = 64
_PREFIX = {"message": "msg", "function_call": "fc", "reasoning": "rs", "function_call_output": "fc"}
_KEYS = {
    "message": {"type", "id", "role", "content", "status", "phase"},
    "function_call": {"type", "id", "call_id", "name", "arguments", "status", "namespace", "caller"},
    "function_call_output": {"type", "id", "call_id", "output", "status", "name", "namespace", "caller"},
    "reasoning": {"type", "id", "summary", "content", "encrypted_content", "status"},
    "item_reference": {"type", "id"},
}


@dataclass
class Memory:
    """What the server has given out: each item by its id, with its response and its place in it."""

    items: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    outputs: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])
    encrypted: dict[str, str] = field(default_factory=dict[str, str])
    kept: set[str] = field(default_factory=set[str])
    responses: set[str] = field(default_factory=set[str])

    def remember(self, items: Sequence[dict[str, Any]], *, response_id: str, kept: bool) -> None:
        """Remember the output of a response, and whether it is kept."""
        self.outputs[response_id] = list(items)
        for place, item in enumerate(items):
            self.items[item["id"]] = (response_id, place)
            if item.get("encrypted_content"):
                self.encrypted[item["encrypted_content"]] = item["id"]
            if kept:
                self.kept.add(item["id"])
        if kept:
            self.responses.add(response_id)

    def reasoning_of(self, item_id: str) -> str | None:
        """Return the id of the reasoning that led to an item, ``None`` where there was none."""
        response_id, place = self.items.get(item_id, ("", 0))
        before = [item for item in self.outputs.get(response_id, [])[:place] if item["type"] == "reasoning"]
        return before[-1]["id"] if before else None

    def following(self, reasoning_id: str) -> dict[str, Any] | None:
        """Return the item that came after a reasoning item, ``None`` where none did or it is not known."""
        response_id, place = self.items.get(reasoning_id, ("", 0))
        after = self.outputs.get(response_id, [])[place + 1 :]
        return after[0] if after else None


def check_items(body: dict[str, Any], memory: Memory, *, continues: bool, reasons: bool) -> None:
    """Check ``input``.

    ``continues``: it goes on from a response that is kept, so that calls may stand there. ``reasons``: the model does.
    """
    given = body.get("input")
    if not given and not continues:
        names = '"input" or "previous_response_id" or "prompt" or "conversation_id"'
        refuse_openai(f"One of {names} must be provided.", code="missing_required_parameter")
    if given is None or isinstance(given, str):
        return
    items = require_list(body, "input") or []
    seen: set[str] = set()
    for index, item in enumerate(items):
        path = f"input[{index}]"
        require_keys(item, path=path)
        kind = item.get("type", "message")
        _check_keys(item, kind, path)
        _check_id(item, kind, path, seen)
        _CHECKS[kind](item, path)
    if not reasons and any(item.get("type") == "reasoning" for item in items):
        text = "Reasoning input items can only be provided to a reasoning or computer use model."
        refuse_openai(f"{text} Remove reasoning items from your input and try again.", param="input")
    for item in items:
        _check_known(item, memory, kept=body.get("store") is not False)
    _check_calls(items, continues=continues)
    _check_reasoning(items, memory)


def _check_keys(item: dict[str, Any], kind: Any, path: str) -> None:
    if kind not in _KEYS:
        known = ", ".join(f"'{k}'" for k in _KEYS)
        message = f"Invalid value: '{kind}'. Supported values are: {known}."
        refuse_openai(message, param=path, code="invalid_value")
    for key in item.keys() - _KEYS[kind]:
        refuse_openai(f"Unknown parameter: '{path}.{key}'.", param=f"{path}.{key}", code="unknown_parameter")


def _check_id(item: dict[str, Any], kind: str, path: str, seen: set[str]) -> None:
    if item.get("id") is None:
        return
    item_id = require_text(item, "id", path, most=_MAX_ID)
    prefix = _PREFIX.get(kind, "")
    if not item_id.startswith(prefix):
        message = f"Invalid '{path}.id': '{item_id}'. Expected an ID that begins with '{prefix}'."
        refuse_openai(message, param=f"{path}.id", code="invalid_value")
    if not re.fullmatch("[a-zA-Z0-9_-]+", item_id):
        message = "Expected an ID that contains letters, numbers, underscores, or dashes, but this value contained"
        text = f"Invalid '{path}.id': '{item_id}'. {message} additional characters."
        refuse_openai(text, param=f"{path}.id", code="invalid_value")
    if item_id in seen:
        message = f"Duplicate item found with id {item_id}. Remove duplicate items from your input and try again."
        refuse_openai(message, param="input")
    seen.add(item_id)


def _check_message(item: dict[str, Any], path: str) -> None:
    require_keys(item, "role", "content", path=path)
    role, content = item["role"], item["content"]
    if role not in ROLES:
        known = ", ".join(f"'{r}'" for r in ROLES[:-1])
        message = f"Invalid value: '{role}'. Supported values are: {known}, and '{ROLES[-1]}'."
        refuse_openai(message, param=f"{path}.role", code="invalid_value")
    if isinstance(content, str):
        return
    allowed = OUTPUT_PARTS if role == "assistant" else INPUT_PARTS
    for index, part in enumerate(require_list(item, "content", path) or ()):
        if part.get("type") not in allowed:
            known = " and ".join(f"'{p}'" for p in allowed)
            message = f"Invalid value: '{part.get('type')}'. Supported values are: {known}."
            refuse_openai(message, param=f"{path}.content[{index}]", code="invalid_value")
        key = {"refusal": "refusal", "input_text": "text", "output_text": "text"}.get(part["type"])
        if key is not None:
            require_keys(part, key, path=f"{path}.content[{index}]")
    if content is None:
        refuse_openai(f"Invalid type for '{path}.content': expected one of a string or array, but got null instead.")


def _check_call(item: dict[str, Any], path: str) -> None:
    require_keys(item, "call_id", "name", "arguments", path=path)
    require_text(item, "call_id", path, most=_MAX_ID)
    check_name(item["name"], f"{path}.name")
    require_text(item, "arguments", path, least=0)


def _check_output(item: dict[str, Any], path: str) -> None:
    require_keys(item, "call_id", "output", path=path)
    require_text(item, "call_id", path, most=_MAX_ID)
    if not isinstance(item["output"], list):
        require_text(item, "output", path, least=0)


def _check_thought(item: dict[str, Any], path: str) -> None:
    require_keys(item, "summary", path=path)
    for index, part in enumerate(require_list(item, "summary", path) or ()):
        require_keys(part, "type", "text", path=f"{path}.summary[{index}]")


def _check_reference(item: dict[str, Any], path: str) -> None:
    require_keys(item, "id", path=path)


_CHECKS = {
    "message": _check_message,
    "function_call": _check_call,
    "function_call_output": _check_output,
    "reasoning": _check_thought,
    "item_reference": _check_reference,
}


def _check_known(item: dict[str, Any], memory: Memory, *, kept: bool) -> None:
    encrypted = item.get("encrypted_content")
    if encrypted is not None and memory.encrypted.get(encrypted) != item.get("id", memory.encrypted.get(encrypted)):
        encrypted = f"{encrypted[:4]}...{encrypted[-4:]}"
    elif encrypted in memory.encrypted or item.get("type") not in ("reasoning", "item_reference"):
        return
    if encrypted is not None:
        message = f"The encrypted content {encrypted} could not be verified."
        refuse_openai(message, code="invalid_encrypted_content")
    item_id = item.get("id")
    if item_id not in memory.kept:
        advice = (
            ""
            if kept and item_id not in memory.items
            else (
                " Items are not persisted when `store` is set to false."
                " Try again with `store` set to true, or remove this item from your input."
            )
        )
        refuse_openai(f"Item with id '{item_id}' not found.{advice}", param="input", status=404)


def _check_calls(items: list[dict[str, Any]], *, continues: bool) -> None:
    waiting: dict[str, int] = {}
    for item in items:
        call_id = item.get("call_id", "")
        match item.get("type"):
            case "function_call":
                if call_id in waiting:
                    refuse_openai(f"Duplicate function call found with call_id {call_id}.", param="input")
                waiting[call_id] = 1
            case "function_call_output":
                if not waiting.pop(call_id, 0) and not continues:
                    message = f"No tool call found for function call output with call_id {call_id}."
                    refuse_openai(message, param="input")
            case _:
                pass
    for call_id in waiting:
        refuse_openai(f"No tool output found for function call {call_id}.", param="input")


def _check_reasoning(items: list[dict[str, Any]], memory: Memory) -> None:
    for index, item in enumerate(items):
        kind = item.get("type", "message")
        if kind == "reasoning":
            following = items[index + 1] if index + 1 < len(items) else {}
            if not _leads_to(item, following, memory):
                name = item.get("id") or memory.encrypted[item["encrypted_content"]]
                message = f"Item '{name}' of type 'reasoning' was provided without its required following item."
                refuse_openai(message, param="input")
        elif (item_id := item.get("id")) is not None and (thought := memory.reasoning_of(item_id)) is not None:
            given = [_thought_id(other, memory) for other in items[:index]]
            if thought not in given:
                message = f"Item '{item_id}' of type '{kind}' was provided without its required 'reasoning' item"
                refuse_openai(f"{message}: '{thought}'.", param="input")


def _thought_id(item: dict[str, Any], memory: Memory) -> str | None:
    if item.get("type") != "reasoning":
        return None
    return item.get("id") or memory.encrypted.get(item.get("encrypted_content") or "")


def _leads_to(thought: dict[str, Any], item: dict[str, Any], memory: Memory) -> bool:
    """Return whether ``item`` is what the thought led to. Messages are told by their ids, calls by their call ids."""
    thought_id = _thought_id(thought, memory)
    wanted = memory.following(thought_id) if thought_id else None
    if wanted is None or item.get("type", "message") != wanted["type"]:
        return False
    match wanted["type"]:
        case "function_call":
            return item["call_id"] == wanted["call_id"]
        case "message":
            return item.get("role") == "assistant" and (thought.get("id") is None or item.get("id") == wanted["id"])
        case _:
            return _thought_id(item, memory) == wanted["id"]

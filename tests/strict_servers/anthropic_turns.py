"""The rules for the turns of a Messages request, and what the server remembers of the thinking that it has signed.

Each with where it is told; the words are the real ones, as those reports quote them:

- the user speaks first; turns of one role in a row are one turn: the API reference
- a system message within the conversation is refused by models before Opus 4.8: claude-code #61412
- texts with something in them: bolt.new #7426, kibitz #78, claude-code #23440; so have messages; the last one of the
  assistant does not end in white space: forgecode #1872
- ids of calls ``^[a-zA-Z0-9_-]+$`` and each once: opencode #1279, claude-code #20901; inputs are objects
- calls are answered in the next message, the results first: claude-code #5060, anthropic-sdk-typescript #653, the page
  on handling tool calls; no result without its call: CLIProxyAPI #497; each once
- an error result has something in it: the API's validation
- thinking comes back as it was: claude-code-hub #518, anthropic-sdk-python #1598; in the last turn of the assistant
  all of it: claude-code #19539; it does not end a turn
- thinking with a budget: a turn of tool calls that is still open begins with thinking: opencode #3077
- no last turn of the assistant for models from 4.6 on: the API reference on prefill, field case A19
- a signature is bound to what stood before it, on Claude 5.1 and later: opencode #46653, #48637
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from strict_servers.problem import refuse_anthropic

Block: TypeAlias = dict[str, Any]

BINDING_BETA = "thinking-binding-controls-2026-08-01"

_ID = "^[a-zA-Z0-9_-]+$"
_NAME = "^[a-zA-Z0-9_-]{1,128}$"
_KEYS = {
    "text": {"type", "text", "cache_control", "citations"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
    "tool_use": {"type", "id", "name", "input", "cache_control", "caller"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control"},
    "image": {"type", "source", "cache_control"},
    "document": {"type", "source", "cache_control", "title", "context", "citations"},
}
_ROLES = {
    "user": {"text", "image", "document", "tool_result"},
    "assistant": {"text", "thinking", "redacted_thinking", "tool_use"},
}
_CONSULT = (
    "We recommend you include thinking blocks from previous turns. To avoid this requirement, disable `thinking`. "
    "Please consult our documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking"
)


@dataclass(frozen=True, slots=True)
class Turn:
    """Messages of one role in a row: where the first of them stands, and the blocks of all."""

    role: str
    index: int
    blocks: list[Block]


@dataclass
class Memory:
    """The thinking that the server has signed, by signature: what it said, its whole reply's, and its prefix."""

    bound: bool = False
    said: dict[str, str | None] = field(default_factory=dict[str, str | None])
    replies: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    prefixes: dict[str, str] = field(default_factory=dict[str, str])

    def remember(self, blocks: Sequence[Block], body: dict[str, Any]) -> None:
        """Remember the thinking of a reply to ``body``."""
        signed = [_signature(block) for block in blocks if _is_thinking(block) and _signature(block)]
        for block in blocks:
            if _is_thinking(block) and _signature(block):
                signature = _signature(block)
                self.said[signature] = block.get("thinking")
                self.replies[signature] = signed
                self.prefixes[signature] = _prefix(body, turns_of(body["messages"]))


def thinking_is_on(body: dict[str, Any]) -> bool:
    return (body.get("thinking") or {}).get("type") in {"enabled", "adaptive"}


def turns_of(messages: Sequence[dict[str, Any]]) -> list[Turn]:
    """Return the turns that the messages make."""
    turns: list[Turn] = []
    for index, message in enumerate(messages):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        if turns and turns[-1].role == message["role"]:
            turns[-1].blocks.extend(blocks)
        else:
            turns.append(Turn(message["role"], index, blocks))
    return turns


def check_turns(body: dict[str, Any], memory: Memory, *, prefill: bool, beta: str) -> None:
    """Check the messages. ``prefill``: the model goes on with a last turn of its own."""
    messages = body["messages"]
    if not messages:
        refuse_anthropic("messages: at least one message is required")
    for index, message in enumerate(messages):
        _check_message(message, index, is_last=index == len(messages) - 1)
    turns = turns_of(messages)
    if turns[0].role != "user":
        refuse_anthropic('messages: first message must use the "user" role')
    _check_ids(turns)
    _check_pairs(turns)
    _check_thinking(body, turns, memory)
    _check_last(turns, body, prefill=prefill)
    _check_binding(body, turns, memory, beta)


def _check_message(message: dict[str, Any], index: int, *, is_last: bool) -> None:
    role, content, where = message.get("role"), message.get("content"), f"messages.{index}"
    if role == "system":
        refuse_anthropic("role 'system' is not supported on this model")
    if role not in _ROLES:
        refuse_anthropic(f"{where}.role: Input should be 'user' or 'assistant'")
    if content is None:
        refuse_anthropic(f"{where}.content: Field required")
    if not content and not (is_last and role == "assistant"):
        text = "all messages must have non-empty content except for the optional final assistant message"
        refuse_anthropic(f"{where}: {text}")
    if isinstance(content, str):
        if content or not is_last:
            _check_text(content)
        return
    for n, block in enumerate(content):
        _check_block(block, f"{where}.content.{n}", role)


def _check_text(text: str, where: str = "messages") -> None:
    if not text:
        refuse_anthropic(f"{where}: text content blocks must be non-empty")
    if not text.strip():
        refuse_anthropic(f"{where}: text content blocks must contain non-whitespace text")


def _check_block(block: Block, where: str, role: str) -> None:
    kind = block.get("type")
    if kind not in _ROLES[role]:
        known = ", ".join(f"'{k}'" for k in sorted(_ROLES[role]))
        refuse_anthropic(
            f"{where}: Input tag '{kind}' found using 'type' does not match any of the expected tags: {known}"
        )
    for key in block.keys() - _KEYS[kind]:
        refuse_anthropic(f"{where}.{kind}.{key}: Extra inputs are not permitted")
    match kind:
        case "text":
            _check_text(block.get("text", ""))
        case "tool_use":
            _check_pattern(block, "id", _ID, f"{where}.tool_use")
            _check_pattern(block, "name", _NAME, f"{where}.tool_use")
            if not isinstance(block.get("input"), dict):
                refuse_anthropic(f"{where}.tool_use.input: Input should be a valid dictionary")
        case "tool_result":
            _check_result(block, where)
        case "thinking":
            for key in ("thinking", "signature"):
                if not isinstance(block.get(key), str):
                    refuse_anthropic(f"{where}.thinking.{key}: Field required")
        case _:
            pass


def _check_pattern(block: Block, key: str, pattern: str, where: str) -> None:
    value = block.get(key)
    if not isinstance(value, str):
        refuse_anthropic(f"{where}.{key}: Field required")
    if not re.fullmatch(pattern[1:-1], value):
        refuse_anthropic(f"{where}.{key}: String should match pattern '{pattern}'")


def _check_result(block: Block, where: str) -> None:
    _check_pattern(block, "tool_use_id", _ID, f"{where}.tool_result")
    content = block.get("content")
    if block.get("is_error") and not content:
        refuse_anthropic(f"{where}.tool_result: content cannot be empty if `is_error` is true")
    if content is not None and not isinstance(content, str | list):
        refuse_anthropic(f"{where}.tool_result.content: Input should be a valid string or list")
    for part in content if isinstance(content, list) else ():
        if part.get("type") == "text":
            _check_text(part.get("text", ""))


def _check_ids(turns: Sequence[Turn]) -> None:
    seen: set[str] = set()
    for turn in turns:
        for n, block in enumerate(turn.blocks):
            if block["type"] != "tool_use":
                continue
            if block["id"] in seen:
                refuse_anthropic(f"messages.{turn.index}.content.{n}: `tool_use` ids must be unique")
            seen.add(block["id"])


def _check_pairs(turns: Sequence[Turn]) -> None:
    calls: list[str] = []
    before = 0
    for turn in [*turns, Turn("user", 0, [])]:
        results = [block["tool_use_id"] for block in turn.blocks if block["type"] == "tool_result"]
        first = [block["tool_use_id"] for block in turn.blocks[: len(results)] if block["type"] == "tool_result"]
        missing = [call for call in calls if call not in first]
        if missing:
            text = f"`tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(missing)}."
            rule = "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
            refuse_anthropic(f"messages.{before}: {text} {rule}")
        for n, block in enumerate(turn.blocks):
            if block["type"] == "tool_result":
                _check_answers(block["tool_use_id"], calls, results, f"messages.{turn.index}.content.{n}")
        calls = [block["id"] for block in turn.blocks if block["type"] == "tool_use"]
        before = turn.index


def _check_answers(call_id: str, calls: Sequence[str], results: Sequence[str], where: str) -> None:
    if call_id not in calls:
        text = f"unexpected `tool_use_id` found in `tool_result` blocks: {call_id}."
        rule = "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
        refuse_anthropic(f"{where}: {text} {rule}")
    if results.count(call_id) > 1:
        text = "each tool_use must have a single result. Found multiple `tool_result` blocks with id:"
        refuse_anthropic(f"{where}: {text} {call_id}")


def _is_thinking(block: Block) -> bool:
    return block["type"] in {"thinking", "redacted_thinking"}


def _signature(block: Block) -> str:
    return block["signature"] if block["type"] == "thinking" else block["data"]


def _check_thinking(body: dict[str, Any], turns: Sequence[Turn], memory: Memory) -> None:
    for turn in turns:
        for n, block in enumerate(turn.blocks):
            if _is_thinking(block) and memory.said.get(_signature(block), block) != block.get("thinking"):
                key = "signature" if block["type"] == "thinking" else "data"
                refuse_anthropic(f"messages.{turn.index}.content.{n}: Invalid `{key}` in `{block['type']}` block")
        if turn.role == "assistant" and _is_thinking(turn.blocks[-1]):
            refuse_anthropic(f"messages.{turn.index}: The final block in an assistant message cannot be `thinking`.")
    last = next((turn for turn in reversed(turns) if turn.role == "assistant"), None)
    if last is None:
        return
    given = [_signature(block) for block in last.blocks if _is_thinking(block)]
    wanted = [s for reply in dict.fromkeys(tuple(memory.replies[s]) for s in given) for s in reply]
    if given != wanted:
        text = "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified."
        rule = "These blocks must remain as they were in the original response."
        refuse_anthropic(f"messages.{last.index}.content.0: {text} {rule}")
    kind = last.blocks[0]["type"]
    is_open = any(block["type"] == "tool_result" for block in turns[-1].blocks)
    if is_open and (body.get("thinking") or {}).get("type") == "enabled" and not _is_thinking(last.blocks[0]):
        text = f"Expected `thinking` or `redacted_thinking`, but found `{kind}`. When `thinking` is enabled, a final"
        rule = "`assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and"
        refuse_anthropic(f"messages.{last.index}.content.0.type: {text} {rule} `tool_result` blocks). {_CONSULT}")


def _check_last(turns: Sequence[Turn], body: dict[str, Any], *, prefill: bool) -> None:
    last = turns[-1]
    if last.role != "assistant":
        return
    if not prefill or thinking_is_on(body):
        text = "This model does not support assistant message prefill. The conversation must end with a user message."
        refuse_anthropic(text)
    if last.blocks and last.blocks[-1].get("text", "x")[-1:].isspace():
        refuse_anthropic("messages: final assistant content cannot end with trailing whitespace")


def _check_binding(body: dict[str, Any], turns: Sequence[Turn], memory: Memory, beta: str) -> None:
    binding = (body.get("thinking") or {}).get("block_binding") or {}
    if binding and BINDING_BETA not in beta:
        refuse_anthropic("thinking.block_binding: Extra inputs are not permitted")
    if not memory.bound or binding.get("prefix_mismatch_behavior") == "drop_block":
        return
    for place, turn in enumerate(turns):
        for n, block in enumerate(turn.blocks):
            if _is_thinking(block) and memory.prefixes[_signature(block)] != _prefix(body, turns[:place]):
                text = "Invalid `signature` in `thinking` block. The block is bound to a different conversation."
                rule = 'Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
                refuse_anthropic(f"messages.{turn.index}.content.{n}: {text} {rule}")


def _prefix(body: dict[str, Any], turns: Sequence[Turn]) -> str:
    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items() if key != "cache_control"}
        return [plain(item) for item in value] if isinstance(value, list) else value

    system = body.get("system")
    system = [{"type": "text", "text": system}] if isinstance(system, str) else system
    said = [[turn.role, turn.blocks] for turn in turns]
    return json.dumps(plain([system, body.get("tools"), said]), sort_keys=True)

"""The strict servers refuse what the real ones refuse, in their words, and take what is right.

Each rule is a pair: a body that is right, and what is done to it that makes it wrong.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from strict_servers import anthropic, chat, compatible, responses
from strict_servers.answers import Answer, Call, Say, Think
from strict_servers.problem import Problem, parsed
from support.http_server import Reply, Request

Change = Callable[[dict[str, Any]], Any]


def refused(check: Callable[[Any], Problem | None], body: dict[str, Any], change: Change) -> Problem:
    """Return the refusal of the changed body, once the body itself was taken."""
    assert check(copy.deepcopy(body)) is None
    changed = copy.deepcopy(body)
    change(changed)
    problem = check(changed)
    assert problem is not None, "it was taken"
    return problem


def put(**fields: Any) -> Change:
    return lambda body: body.update(fields)


def at(*path: Any, value: Any) -> Change:
    """Return the change that puts ``value`` at a path; ``...`` takes away what is there."""

    def change(body: Any) -> None:
        for step in path[:-1]:
            body = body[step]
        if value is ...:
            del body[path[-1]]
        elif path[-1] == "+":
            body.append(value)
        else:
            body[path[-1]] = value

    return change


def both(*changes: Change) -> Change:
    def change(body: Any) -> None:
        for each in changes:
            each(body)

    return change


CLOSED = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
OPEN = {"type": "object", "properties": {"a": {"type": "string"}}}

# --- OpenAI's chat completions


def function(name: str, schema: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": schema or OPEN, **fields}}


def called(*ids: str, arguments: str = "{}") -> dict[str, Any]:
    calls = [{"id": i, "type": "function", "function": {"name": "look", "arguments": arguments}} for i in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "found"}


USER = {"role": "user", "content": "go"}
CHAT: dict[str, Any] = {
    "model": "gpt-4o",
    "messages": [
        {"role": "system", "content": "Be brief."},
        USER,
        called("call_1", "call_2"),
        result("call_2"),
        result("call_1"),
        {"role": "assistant", "content": "done"},
        {"role": "user", "content": [{"type": "text", "text": "and?"}]},
    ],
    "stream": True,
    "stream_options": {"include_usage": True},
    "tools": [function("look"), function("strict-one", CLOSED, strict=True)],
    "tool_choice": {"type": "function", "function": {"name": "look"}},
    "parallel_tool_calls": False,
    "response_format": {"type": "json_schema", "json_schema": {"name": "form", "schema": CLOSED, "strict": True}},
    "max_tokens": 100,
    "temperature": 0.5,
    "stop": ["."],
}
LONG = "x" * 65

CHAT_RULES: list[tuple[Change, str]] = [
    (at("messages", value=[]), "Invalid 'messages': empty array. Expected an array with minimum length 1"),
    (at("messages", value=...), "Missing required parameter: 'messages'."),
    (at("model", value=...), "Missing required parameter: 'model'."),
    (put(top_k=3), "Unrecognized request argument supplied: top_k"),
    (at("messages", 1, "role", value="human"), "Invalid value: 'human'. Supported values are: 'system', 'assistant'"),
    (at("messages", 1, "content", value=None), "Invalid value for 'content': expected a string, got null."),
    (at("messages", 5, "content", value=None), "Invalid value for 'content': expected a string, got null."),
    (at("messages", 5, "content", value=[]), "Invalid 'messages[5].content': empty array."),
    (at("messages", 6, "content", 0, "type", value="input_text"), "Invalid value: 'input_text'. Supported values"),
    (at("messages", 5, "reasoning_content", value="x"), "Unknown parameter: 'messages[5].reasoning_content'."),
    (at("messages", 3, value=...), "The following tool_call_ids did not have response messages: call_2"),
    (at("messages", 3, value=USER), "must be followed by tool messages responding to each 'tool_call_id'."),
    (at("messages", value=[USER, called("call_1")]), "did not have response messages: call_1"),
    (at("messages", 2, value=USER), "messages with role 'tool' must be a response to a preceeding message with"),
    (at("messages", 3, "tool_call_id", value="call_9"), "'tool_call_id' of 'call_9' not found in 'tool_calls' of"),
    (
        at("messages", 4, "tool_call_id", value="call_2"),
        "Duplicate value for 'tool_call_id' of 'call_2', in messages[3]",
    ),
    (at("messages", 2, value=called("call_1", "call_1")), "Duplicate value for 'tool_call_id' of 'call_1'"),
    (at("messages", 2, value={**USER, "tool_calls": []}), "Invalid 'messages[2].tool_calls': empty array."),
    (
        at("messages", 2, "tool_calls", 0, "id", value="x" * 41),
        "string too long. Expected a string with maximum length 40",
    ),
    (at("messages", 2, "tool_calls", 0, "id", value=""), "Invalid 'messages[2].tool_calls[0].id': empty string."),
    (
        at("messages", 2, "tool_calls", 0, "function", "name", value="a.b"),
        "Invalid 'messages[2].tool_calls[0].function.name': string does not match pattern. Expected a string that",
    ),
    (
        at("messages", 2, "tool_calls", 0, "function", "arguments", value={}),
        "Invalid type for 'messages[2].tool_calls[0].function.arguments': expected a string, but got an object",
    ),
    *[
        (at("messages", 2, "tool_calls", 0, "function", "arguments", value=text), "is not the JSON text of an object")
        for text in ("", "{", "null", "[1]")
    ],
    (
        at("tools", 0, "function", "name", value="a b"),
        "Invalid 'tools[0].function.name': string does not match pattern.",
    ),
    (at("tools", 0, "function", "name", value=LONG), "Invalid 'tools[0].function.name': string too long."),
    (at("tools", 0, "function", "description", value="x" * 1025), "Expected a string with maximum length 1024"),
    (at("tools", 0, "function", "parameters", value={}), "Invalid schema for function 'look': schema must be a JSON"),
    (at("tools", 1, "function", "parameters", value=OPEN), "Invalid schema for function 'strict-one': In context=()"),
    (at("tools", value=[]), "Invalid 'tools': empty array."),
    (at("tool_choice", "function", "name", value="other"), "Tool choice 'other' not found in 'tools' parameter."),
    (at("tool_choice", value="any"), "Invalid value: 'any'. Supported values are: 'none', 'auto', and 'required'."),
    (both(at("tools", value=...), at("tool_choice", value=...)), "'parallel_tool_calls' is only allowed when 'tools'"),
    (both(at("tools", value=...), at("parallel_tool_calls", value=...)), "'tool_choice' is only allowed when 'tools'"),
    (at("response_format", "json_schema", "name", value=...), "parameter: 'response_format.json_schema.name'."),
    (
        at("response_format", "json_schema", "name", value="a b"),
        "Invalid 'response_format.json_schema.name': string does",
    ),
    (
        at("response_format", "json_schema", "schema", value=OPEN),
        "Invalid schema for response_format 'form': In context=",
    ),
    (put(stream=False), "The 'stream_options' parameter is only allowed when 'stream' is enabled."),
    (put(stop=list("abcde")), "Invalid 'stop': array too long. Expected an array with maximum length 4"),
    (put(temperature=2.5), "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 2.5"),
    (put(reasoning_effort="low"), "Unrecognized request argument supplied: reasoning_effort"),
    (put(model="gpt-5"), "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."),
    (both(put(model="o3"), at("max_tokens", value=...)), "'temperature' does not support 0.5 with this model."),
    (
        both(put(model="gpt-5", temperature=1), at("max_tokens", value=...)),
        "Unsupported parameter: 'stop' is not supported with this model.",
    ),
    (at("messages", 1, "content", value="\ud83d"), "We could not parse the JSON body of your request."),
    (at("messages", 1, "content", value="a\0b"), "We could not parse the JSON body of your request."),
]


@pytest.mark.parametrize(("change", "words"), CHAT_RULES)
def test_chat_completions_refuse(change: Change, words: str) -> None:
    problem = refused(chat.check, CHAT, change)
    assert words in problem.message
    assert (problem.status, problem.body["error"]["type"]) == (400, "invalid_request_error")


def test_reasoning_models_take_the_new_name_of_the_limit_and_an_effort() -> None:
    body = {"model": "gpt-5", "messages": [USER], "max_completion_tokens": 9, "reasoning_effort": "low"}
    assert chat.check(body) is None


# --- servers of open models

PLAIN: dict[str, Any] = {
    "model": "qwen3",
    "messages": [
        {"role": "system", "content": "Be brief."},
        USER,
        called("functions.look:0"),
        result("functions.look:0"),
        {"role": "assistant", "content": "done", "reasoning_content": "hm"},
        {"role": "user", "content": "and?"},
    ],
    "top_k": 3,
    "reasoning_effort": "low",
}

PLAIN_RULES: list[tuple[Change, str]] = [
    (at("messages", "+", value={"role": "user", "content": "again"}), "conversation roles must alternate"),
    (at("messages", 1, value=...), "conversation roles must alternate"),
    (at("messages", "+", value={"role": "assistant", "content": "so"}), "Expected last role User or Tool"),
    (at("messages", 1, value={"role": "system", "content": "x"}), "System message must be at the beginning."),
    (at("messages", 1, "content", value=" "), "the message at position 1 with role 'user' must not be empty"),
    (at("messages", 4, "content", value=""), "the message at position 4 with role 'assistant' must not be empty"),
    (at("messages", 5, "content", value=[]), "Invalid 'messages[5].content': empty array."),
    (at("messages", 3, value=...), "did not have response messages: functions.look:0"),
    (at("messages", 2, "tool_calls", 0, "function", "arguments", value=""), "is not the JSON text of an object"),
    (at("messages", 1, "content", value="\0"), "parse error"),
]


@pytest.mark.parametrize(("change", "words"), PLAIN_RULES)
def test_strict_compatible_servers_refuse(change: Change, words: str) -> None:
    assert words in refused(compatible.check, PLAIN, change).message


def test_some_let_no_user_speak_after_a_tool_and_some_take_no_null() -> None:
    bridged = {"model": "m", "messages": [USER, called("c"), result("c"), USER]}
    assert compatible.check(bridged) is None
    problem = compatible.check(bridged, tool_then_user=False)
    assert problem is not None
    assert problem.message == "Unexpected role 'user' after role 'tool'"
    problem = compatible.check(bridged, null_content=False)
    assert problem is not None
    assert problem.message == "invalid message content type: <nil>"


# --- OpenAI's Responses API


def thought(name: str, *, encrypted: bool = True) -> dict[str, Any]:
    return {"type": "reasoning", "id": name, "summary": [], **({"encrypted_content": f"E-{name}"} if encrypted else {})}


def item_call(call_id: str, item_id: str | None = None) -> dict[str, Any]:
    item = {"type": "function_call", "call_id": call_id, "name": "look", "arguments": "{}"}
    return {**item, "id": item_id} if item_id else item


def output(call_id: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": "found"}


def said(item_id: str | None, text: str = "done") -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    item = {"type": "message", "role": "assistant", "status": "completed", "content": content}
    return {**item, "id": item_id} if item_id else item


def memory() -> responses.Memory:
    known = responses.Memory()
    known.remember([thought("rs_1"), item_call("call_1", "fc_1")], response_id="resp_1", kept=False)
    known.remember([thought("rs_2"), said("msg_2")], response_id="resp_2", kept=True)
    return known


def check_responses(body: Any) -> Problem | None:
    return responses.check(body, memory())


RESPONSES: dict[str, Any] = {
    "model": "gpt-5",
    "input": [
        {"role": "user", "content": "go"},
        thought("rs_1"),
        item_call("call_1", "fc_1"),
        output("call_1"),
        thought("rs_2", encrypted=False),
        said("msg_2"),
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "and?"}]},
    ],
    "stream": True,
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "instructions": "Be brief.",
    "tools": [
        {"type": "function", "name": "look", "parameters": OPEN, "strict": False},
        {"type": "function", "name": "close", "parameters": CLOSED, "strict": True},
    ],
    "tool_choice": {"type": "function", "name": "look"},
    "parallel_tool_calls": True,
    "text": {"format": {"type": "json_schema", "name": "form", "schema": CLOSED, "strict": True}},
    "max_output_tokens": 100,
    "reasoning": {"effort": "low", "summary": "auto"},
}

RESPONSES_RULES: list[tuple[Change, str]] = [
    (put(stop=["."]), "Unknown parameter: 'stop'."),
    (put(messages=[]), "Unknown parameter: 'messages'."),
    (at("model", value=...), "Missing required parameter: 'model'."),
    (at("input", value=[]), 'One of "input" or "previous_response_id"'),
    (at("input", 3, value=...), "No tool output found for function call call_1."),
    (at("input", "+", value=output("call_9")), "No tool call found for function call output with call_id call_9."),
    (at("input", "+", value=output("call_1")), "No tool call found for function call output with call_id call_1."),
    (both(at("input", 1, value=...), at("input", 0, value=output("call_1"))), "No tool call found for function call"),
    (
        both(at("input", 3, value=...), at("input", 2, value=...)),
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
    ),
    (at("input", 5, "id", value=...), "Item 'rs_2' of type 'reasoning' was provided without its required following"),
    (
        at("input", 1, value=...),
        "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'",
    ),
    (at("input", 4, value=...), "Item 'msg_2' of type 'message' was provided without its required 'reasoning' item"),
    (
        at("input", 1, "encrypted_content", value="forged-by-me"),
        "The encrypted content forg...y-me could not be verified.",
    ),
    (
        at("input", "+", value=said("msg_2")),
        "Duplicate item found with id msg_2. Remove duplicate items from your input",
    ),
    (at("input", 2, "id", value="call_1"), "Invalid 'input[2].id': 'call_1'. Expected an ID that begins with 'fc'."),
    (at("input", 5, "id", value="rs_7"), "Expected an ID that begins with 'msg'."),
    (at("input", 2, "id", value="fc_a.b"), "Expected an ID that contains letters, numbers, underscores, or dashes"),
    (at("input", 2, "call_id", value="x" * 65), "Invalid 'input[2].call_id': string too long. Expected a string with"),
    (at("input", 2, "call_id", value=""), "Invalid 'input[2].call_id': empty string."),
    (at("input", 2, "name", value="a.b"), "Invalid 'input[2].name': string does not match pattern."),
    (
        at("input", 2, "arguments", value={}),
        "Invalid type for 'input[2].arguments': expected a string, but got an object",
    ),
    (at("input", 3, "output", value={}), "Invalid type for 'input[3].output': expected a string, but got an object"),
    (at("input", 1, "summary", value=...), "Missing required parameter: 'input[1].summary'."),
    (
        at("input", 0, "role", value="tool"),
        "Invalid value: 'tool'. Supported values are: 'assistant', 'system', 'developer', and",
    ),
    (at("input", 6, "content", 0, "type", value="output_text"), "Invalid value: 'output_text'. Supported values are"),
    (at("input", 5, "content", 0, "type", value="input_text"), "Supported values are: 'output_text' and 'refusal'."),
    (at("input", 0, "name", value="me"), "Unknown parameter: 'input[0].name'."),
    (at("input", 0, "type", value="tool"), "Invalid value: 'tool'. Supported values are"),
    (put(include=["reasoning"]), "Invalid value: 'reasoning'. Supported values are: 'file_search_call.results'"),
    (put(temperature=0.5), "Unsupported parameter: 'temperature' is not supported with this model."),
    (put(model="gpt-4o"), "Encrypted content is not supported with this model."),
    (
        both(put(model="gpt-4o"), at("include", value=...), at("reasoning", value=...)),
        "Reasoning input items can only be provided to a reasoning or computer use model.",
    ),
    (both(put(model="gpt-4o"), at("include", value=...)), "'reasoning.effort' is not supported with this model."),
    (at("reasoning", "effort", value="a lot"), "Invalid value: 'a lot'. Supported values are"),
    (put(max_output_tokens=5), "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16"),
    (at("text", "format", "name", value=...), "Missing required parameter: 'text.format.name'."),
    (at("text", "format", "schema", value=OPEN), "Invalid schema for response_format 'form': In context=()"),
    (at("tools", 0, value=function("look")), "Missing required parameter: 'tools[0].name'."),
    (at("tools", 1, "parameters", value=OPEN), "Invalid schema for function 'close': In context=()"),
    (at("tool_choice", "name", value="other"), "Tool choice 'other' not found in 'tools' parameter."),
    (put(previous_response_id="resp_9"), "Previous response with id 'resp_9' not found."),
    (at("input", 0, "content", value="\udc00"), "We could not parse the JSON body of your request."),
]


@pytest.mark.parametrize(("change", "words"), RESPONSES_RULES)
def test_responses_refuse(change: Change, words: str) -> None:
    problem = refused(check_responses, RESPONSES, change)
    assert words in problem.message
    assert problem.status == 400


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (thought("rs_1", encrypted=False), "Items are not persisted when `store` is set to false."),
        (thought("rs_9", encrypted=False), "Item with id 'rs_9' not found."),
        ({"type": "item_reference", "id": "fc_7"}, "Item with id 'fc_7' not found."),
    ],
)
def test_what_was_not_kept_is_not_found(item: dict[str, Any], words: str) -> None:
    problem = refused(check_responses, RESPONSES, at("input", 1, value=item))
    assert words in problem.message
    assert problem.status == 404


def test_items_may_come_without_ids_and_encrypted_thoughts_too() -> None:
    body = copy.deepcopy(RESPONSES)
    for item in body["input"][1:3]:
        del item["id"]
    assert check_responses(body) is None
    del body["input"][1]
    assert check_responses(body) is None


def test_a_response_that_was_kept_can_be_gone_on_from() -> None:
    body = {"model": "gpt-5", "previous_response_id": "resp_2", "input": [output("call_7")]}
    assert check_responses(body) is None


# --- Anthropic's Messages API

SIGNED = {"type": "thinking", "thinking": "hm", "signature": "S1"}
HIDDEN = {"type": "redacted_thinking", "data": "D1"}
USE = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}


def found(call_id: str = "toolu_1", **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "found", **fields}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


ANTHROPIC: dict[str, Any] = {
    "model": "claude-sonnet-4-5",
    "max_tokens": 4096,
    "system": [text("Be brief.")],
    "messages": [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [text("one"), {**USE, "id": "toolu_0"}]},
        {"role": "user", "content": [found("toolu_0"), text("now")]},
        {"role": "user", "content": [text("go on")]},
        {"role": "assistant", "content": [SIGNED, HIDDEN, text("so"), USE, {**USE, "id": "toolu_2"}]},
        {"role": "user", "content": [found("toolu_2"), found(), text("well?")]},
    ],
    "thinking": {"type": "enabled", "budget_tokens": 2048},
    "tools": [{"name": "look", "input_schema": OPEN}],
    "tool_choice": {"type": "auto"},
    "stop_sequences": ["."],
    "output_config": {"format": {"type": "json_schema", "schema": CLOSED}},
}


def check_anthropic(body: Any, *, bound: bool = False, beta: str = "") -> Problem | None:
    known = anthropic.Memory(bound=bound)
    made_by = {**ANTHROPIC, "messages": ANTHROPIC["messages"][:4]}
    known.remember([SIGNED, HIDDEN, text("so"), USE], made_by)
    return anthropic.check(body, known, beta=beta)


def mark(*path: Any) -> Change:
    return at(*path, "cache_control", value={"type": "ephemeral"})


FIVE_MARKS = both(
    mark("system", 0), mark("tools", 0), mark("messages", 2, "content", 1), mark("messages", 3, "content", 0),
    mark("messages", 5, "content", 2),
)  # fmt: skip
LAST = ("messages", "+")
SCHEMA = ("output_config", "format", "schema")

ANTHROPIC_RULES: list[tuple[Change, str]] = [
    (at("max_tokens", value=...), "max_tokens: Field required"),
    (at("messages", value=...), "messages: Field required"),
    (at("messages", value=[]), "messages: at least one message is required"),
    (put(seed=1), "seed: Extra inputs are not permitted"),
    (at("messages", 0, "role", value="system"), "role 'system' is not supported on this model"),
    (at("messages", 0, "role", value="tool"), "messages.0.role: Input should be 'user' or 'assistant'"),
    (at("messages", 0, value=...), 'messages: first message must use the "user" role'),
    (at("messages", 0, "content", value=""), "messages.0: all messages must have non-empty content except for"),
    (at("messages", 0, "content", value=[]), "messages.0: all messages must have non-empty content except for"),
    (at("messages", 2, "content", 1, "text", value=""), "messages: text content blocks must be non-empty"),
    (at("messages", 2, "content", 1, "text", value=" \n"), "messages: text content blocks must contain non-whitespa"),
    (at("messages", 0, "content", value=" "), "messages: text content blocks must contain non-whitespace text"),
    (at("messages", 2, "content", 0, "content", value=[text("")]), "messages: text content blocks must be non-empty"),
    (at("system", 0, "text", value=""), "system: text content blocks must contain non-whitespace text"),
    (at("messages", 4, "content", 3, "id", value="a.b:0"), "messages.4.content.3.tool_use.id: String should match p"),
    (at("messages", 4, "content", 3, "id", value="toolu_2"), "messages.4.content.4: `tool_use` ids must be unique"),
    (at("messages", 4, "content", 3, "id", value="toolu_0"), "`tool_use` ids must be unique"),
    (at("messages", 4, "content", 3, "name", value="a.b"), "tool_use.name: String should match pattern '^[a-zA-Z0-9"),
    (at("messages", 4, "content", 3, "input", value="{}"), "tool_use.input: Input should be a valid dictionary"),
    (at("messages", 5, "content", 1, value=...), "messages.4: `tool_use` ids were found without `tool_result` blocks"),
    (at("messages", 5, "content", 0, value=text("first")), "without `tool_result` blocks immediately after: toolu_1"),
    (at("messages", value=ANTHROPIC["messages"][:2]), "without `tool_result` blocks immediately after: toolu_0."),
    (at("messages", 5, "content", "+", value=found("toolu_9")), "messages.5.content.3: unexpected `tool_use_id` fou"),
    (at("messages", 5, "content", "+", value=found()), "each tool_use must have a single result. Found multiple"),
    (
        at("messages", 5, "content", 1, value=found(content="", is_error=True)),
        "content cannot be empty if `is_error` is",
    ),
    (at("messages", 5, "content", 2, value=USE), "messages.5.content.2: Input tag 'tool_use' found using 'type'"),
    (at("messages", 4, "content", 0, "signature", value="S9"), "messages.4.content.0: Invalid `signature` in `think"),
    (at("messages", 4, "content", 0, "thinking", value="hm."), "messages.4.content.0: Invalid `signature` in `think"),
    (at("messages", 4, "content", 0, "signature", value=...), "messages.4.content.0.thinking.signature: Field requi"),
    (at("messages", 4, "content", 1, "data", value="D9"), "Invalid `data` in `redacted_thinking` block"),
    (at("messages", 4, "content", 1, value=...), "blocks in the latest assistant message cannot be modified."),
    (at("messages", 4, "content", value=[USE, {**USE, "id": "toolu_2"}]), "Expected `thinking` or `redacted_thinkin"),
    (
        at("messages", 1, "content", 0, value={**SIGNED, "cache_control": {}}),
        "thinking.cache_control: Extra inputs are not",
    ),
    (
        both(
            at("messages", 1, value={"role": "assistant", "content": [text("x"), SIGNED]}),
            at("messages", 2, "content", 0, value=...),
        ),
        "The final block in an assistant message cannot be `thinking`.",
    ),
    (at(*LAST, value={"role": "assistant", "content": "So"}), "This model does not support assistant message prefill."),
    (put(temperature=0.5), "`temperature` may only be set to 1 when thinking is enabled."),
    (put(top_k=5), "`top_k` must be unset when thinking is enabled."),
    (put(top_p=0.5), "`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled."),
    (put(temperature=1, top_p=0.96), "`temperature` and `top_p` cannot both be specified for this model."),
    (
        both(put(model="claude-opus-5", temperature=1), at("thinking", value=...)),
        "`temperature` is deprecated for this model.",
    ),
    (put(temperature=1.5), "temperature: Input should be less than or equal to 1"),
    (at("thinking", "budget_tokens", value=1000), "budget_tokens: Input should be greater than or equal to 1024"),
    (at("thinking", "budget_tokens", value=4096), "`max_tokens` must be greater than `thinking.budget_tokens`."),
    (put(model="claude-opus-4-8"), '"thinking.type.enabled" is not supported for this model.'),
    (put(thinking={"type": "adaptive"}), "adaptive thinking is not supported on this model"),
    (put(tool_choice={"type": "any"}), "Thinking may not be enabled when tool_choice forces tool use."),
    (
        both(put(tool_choice={"type": "tool", "name": "other"}), at("thinking", value=...)),
        "Tool 'other' not found in provided",
    ),
    (at("tools", value=...), "`tool_choice` may only be specified while providing `tools`."),
    (at("tools", 0, "name", value="a b"), "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"),
    (at("tools", "+", value=ANTHROPIC["tools"][0]), "tools: Tool names must be unique."),
    (at("tools", 0, "input_schema", value={}), "tools.0.custom.input_schema.type: Input should be 'object'"),
    (at("tools", 0, "input_schema", "anyOf", value=[{}]), "does not support oneOf, allOf, or anyOf at the top level"),
    (put(stop_sequences=[" "]), "stop_sequences: each stop sequence must contain non-whitespace"),
    (FIVE_MARKS, "A maximum of 4 blocks with cache_control may be provided. Found 5."),
    (at(*SCHEMA, value=OPEN), "'additionalProperties' must be explicitly set to false"),
    (at(*SCHEMA, "properties", "a", value={"type": "integer", "minimum": 1}), "For 'integer' type, properties minimum"),
    (at("messages", 0, "content", value="\ud83d"), "The request body is not valid JSON: no low surrogate in string"),
    (at("messages", 0, "content", value="\0"), "The request body is not valid JSON: unexpected end of data"),
    (at("thinking", "block_binding", value={"prefix_mismatch_behavior": "drop_block"}), "block_binding: Extra inputs"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "words"), ANTHROPIC_RULES)
def test_anthropic_refuses(change: Change, words: str) -> None:
    problem = refused(check_anthropic, ANTHROPIC, change)
    assert words in problem.message
    assert problem.body["error"]["type"] == "invalid_request_error"


def test_older_models_go_on_with_the_assistants_words_unless_they_end_in_white_space() -> None:
    body = {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": [USER, {"role": "assistant", "content": "So"}]}
    problem = refused(check_anthropic, body, at("messages", 1, "content", value="So "))
    assert problem.message == "messages: final assistant content cannot end with trailing whitespace"
    problem = refused(check_anthropic, body, put(model="claude-opus-4-6"))
    assert problem.message.startswith("This model does not support assistant message prefill.")


@pytest.mark.parametrize("change", [at("system", 0, "text", value="x"), at("messages", 0, "content", value="x")])
def test_newer_models_bind_thinking_to_what_stood_before_it(change: Change) -> None:
    problem = refused(lambda body: check_anthropic(body, bound=True), ANTHROPIC, change)
    assert "The block is bound to a different conversation." in problem.message
    body = copy.deepcopy(ANTHROPIC)
    body["thinking"]["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
    change(body)
    assert check_anthropic(body, bound=True, beta="thinking-binding-controls-2026-08-01") is None


def test_effort_leaves_turns_of_other_models_as_they_are() -> None:
    body = copy.deepcopy(ANTHROPIC)
    body |= {"model": "claude-opus-4-6", "thinking": {"type": "adaptive"}}
    del body["messages"][4]["content"][:2]
    assert check_anthropic(body) is None


# --- what the servers do with a request

ANSWER = Answer((Think("hm"), Say("Look: "), Call("look", '{"a": 1}'), Call("look", "{", "own")))
TOOLS = CHAT["tools"][:1]
SERVERS = {
    "chat": (chat.StrictChat, {"model": "m", "messages": [USER], "stream": True, "tools": TOOLS}),
    "compatible": (compatible.StrictCompatible, {"model": "m", "messages": [USER], "stream": True, "tools": TOOLS}),
    "responses": (
        responses.StrictResponses,
        {"model": "gpt-5", "input": "go", "stream": True, "tools": RESPONSES["tools"]},
    ),
    "anthropic": (
        anthropic.StrictAnthropic,
        {"model": "m", "max_tokens": 9, "messages": [USER], "stream": True, "tools": ANTHROPIC["tools"]},
    ),
}
HEADERS = {"authorization": "Bearer key", "x-api-key": "key", "anthropic-version": "2023-06-01"}


def ask(server: Any, body: Any, headers: dict[str, str] = HEADERS) -> Reply:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return server(Request("POST", server.path, headers, data))


def streamed(reply: Reply) -> str:
    return "".join(piece.decode() for piece in reply.body if isinstance(piece, bytes))


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_streams_its_script_and_remembers_the_calls_of_whole_replies(name: str) -> None:
    make, body = SERVERS[name]
    server = make(name, [ANSWER, Answer(ANSWER.pieces, fault="broken", fault_at=3), Answer(ANSWER.pieces, "length")])
    for _ in range(3):
        ask(server, body)
    assert [(i.call.arguments, i.runs) for i in server.issued] == [
        ('{"a": 1}', True), ("{", True), ('{"a": 1}', False), ("{", False)
    ]  # fmt: skip
    assert server.issued[1].call_id == "own"
    assert "All done." in streamed(ask(server, body)).replace('"', "") or "All d" in streamed(ask(server, body))
    assert server.problems == []


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_refuses_what_is_no_json(name: str) -> None:
    make, _ = SERVERS[name]
    server = make(name)
    for body in (b"{", b"[]", b'{"a": NaN}', b"\xff", b'{"model": "\\ud83d"}'):
        assert ask(server, body).status == 400
    assert len(server.problems) == 5


@pytest.mark.parametrize("name", ["chat", "responses", "anthropic"])
def test_a_server_wants_a_key(name: str) -> None:
    make, body = SERVERS[name]
    assert ask(make(name), body, {}).status == 401


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_fails_as_its_script_says(name: str) -> None:
    make, body = SERVERS[name]
    pieces = ANSWER.pieces
    server = make(
        name, [Answer(fault=429), Answer(pieces, fault="in-band"), Answer(pieces, fault="broken", fault_at=99)]
    )
    limited, in_band, broken = (ask(server, body) for _ in range(3))
    assert (limited.status, limited.headers["retry-after"]) == (429, "0")
    assert '"error"' in streamed(in_band)
    assert broken.breaks_off
    assert not any(end in streamed(broken) for end in ('"usage": {"prompt', "message_delta", "response.completed"))
    assert (server.issued, server.problems, len(server.requests)) == ([], [], 3)


def test_bodies_are_read_as_the_json_that_they_are() -> None:
    assert parsed(b'{"a": [1, "\xc3\xa4"]}') == {"a": [1, "ä"]}

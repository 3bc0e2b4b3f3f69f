"""Reads the vectors of the kind ``filter_run``."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from mastra_py.errors import UserError
from mastra_py.messages import (
    DataPart,
    FilePart,
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from mastra_py.scorers import filter_run
from mastra_py.scoring import AgentRunInput, AgentRunOutput, ScorerRun
from support.vector_notation import read_value, refuse_unknown
from support.vector_retry import UnknownNotationError

OPTIONS = (
    "part_types",
    "tool_names",
    "max_remembered_messages",
    "max_output_messages",
    "drop_request_context",
    "drop_expected_trajectory",
    "drop_ground_truth",
)
PLAIN_FIELDS = ("request_context", "additional_context", "ground_truth", "expected_trajectory")
RUN_FIELDS = ("run_id", "input", "output", *PLAIN_FIELDS)
INPUT_FIELDS = ("input_messages", "remembered_messages", "system_messages", "tagged_system_messages")

PARTS = {"text": ("text",), "reasoning": ("text", "reasoning", "details"), "tool-invocation": ("tool_invocation",)}

Stored = dict[str, Any]
"""A message in the recorded shape."""


class Origins:
    """Remembers which recorded message each of our messages, and each of its parts, comes from."""

    def __init__(self) -> None:
        self._ids: dict[int, str] = {}
        self._kept_alive: list[Message | Part] = []

    def note(self, stored_id: str, messages: Sequence[Message]) -> None:
        for thing in [*messages, *(part for message in messages for part in message.parts)]:
            self._ids[id(thing)] = stored_id
            self._kept_alive.append(thing)

    def of(self, message: Message) -> str:
        return next(self._ids[id(thing)] for thing in (message, *message.parts) if id(thing) in self._ids)

    def ids(self, messages: Sequence[Message]) -> list[str]:
        return list(dict.fromkeys(self.of(message) for message in messages))

    def tools(self, messages: Sequence[Message]) -> dict[str, list[str]]:
        """Return the tools called and answered in each recorded message."""
        found: dict[str, list[str]] = {}
        for message in messages:
            for part in (*message.tool_calls, *message.tool_results):
                found.setdefault(self.of(message), []).append(f"{part.type} {part.tool_name}")
        return found


def read_stored(stored: Stored, origins: Origins) -> list[Message]:
    """Turn a recorded message into ours: one message, and a tool message after it where tools gave results."""
    refuse_unknown("a message", stored, ("id", "role", "created_at", "content"))
    content = stored["content"]
    parts: list[Part] = []
    results: list[Part] = []
    for part in _stored_parts(content):
        if part["type"] in PARTS:
            refuse_unknown("a part", part, ("type", *PARTS[part["type"]]))
        if part["type"] == "tool-invocation":
            _read_tool(part["tool_invocation"], parts, results)
        elif part["type"] != "step-start":
            parts.append(_read_part(part))
    messages = [Message(stored["role"], parts)]
    if results:
        messages.append(Message("tool", results))
    origins.note(stored["id"], messages)
    return messages


def _stored_parts(content: str | dict[str, Any]) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    refuse_unknown("a message's content", content, ("format", "content", "parts"))
    if "parts" in content:
        return content["parts"]
    return [{"type": "text", "text": content["content"]}] if "content" in content else []


def _read_tool(call: dict[str, Any], parts: list[Part], results: list[Part]) -> None:
    refuse_unknown("a tool invocation", call, ("state", "tool_call_id", "tool_name", "args", "result"))
    if call["state"] not in {"call", "partial-call", "result"}:
        msg = f"unknown state of a tool invocation: {call['state']!r}"
        raise UnknownNotationError(msg)
    parts.append(ToolCallPart(call["tool_call_id"], call["tool_name"], call.get("args", {})))
    if call["state"] == "result":
        results.append(ToolResultPart(call["tool_call_id"], call["tool_name"], read_value(call.get("result"))))


def _read_part(part: Stored) -> Part:
    match part["type"]:
        case "text":
            return TextPart(part.get("text", ""))
        case "reasoning":
            return ReasoningPart(part.get("text", part.get("reasoning", "")))
        case "image":
            return ImagePart(data=part.get("data"), url=part.get("image"))
        case "file":
            return FilePart(data=part.get("data"), url=part.get("url"))
        case str(kind) if kind.startswith("data-"):
            return DataPart(kind.removeprefix("data-"), part.get("data"))
        case other:
            msg = f"unknown part type {other!r}"
            raise UnknownNotationError(msg)


def read_run(given: dict[str, Any], origins: Origins) -> ScorerRun[Any, Any]:
    refuse_unknown("the run", given, RUN_FIELDS)
    fields = {name: read_value(value) for name, value in given.items()}

    def messages(stored: list[Stored]) -> tuple[Message, ...]:
        return tuple(message for item in stored for message in read_stored(item, origins))

    if isinstance(given.get("input"), dict):
        refuse_unknown("the input", given["input"], INPUT_FIELDS)
        lists: dict[str, Any] = {name: messages(given["input"].get(name, [])) for name in INPUT_FIELDS[:3]}
        tagged = {tag: messages(m) for tag, m in given["input"].get("tagged_system_messages", {}).items()}
        fields["input"] = AgentRunInput(**lists, tagged_system_messages=tagged)
    if isinstance(given.get("output"), list):
        fields["output"] = AgentRunOutput(messages(given["output"]))
    return ScorerRun(**fields)


def play(given: dict[str, Any]) -> dict[str, Any]:
    """Return what our ``filter_run`` makes of a vector."""
    refuse_unknown("the vector", given, ("options", "run"))
    refuse_unknown("the options", given["options"], OPTIONS)
    origins = Origins()
    run = read_run(given["run"], origins)
    before = copy.deepcopy(run)
    try:
        filtered = filter_run(**read_value(given["options"]))(run)
    except UserError:
        return {"error": "UserError"}
    facts: dict[str, Any] = {name: getattr(filtered, name) for name in ("run_id", *PLAIN_FIELDS)}
    facts["mutated"] = run != before
    if isinstance(filtered.input, AgentRunInput):
        facts["input_messages"] = origins.ids(filtered.input.input_messages)
        facts["remembered"] = origins.ids(filtered.input.remembered_messages)
        facts["remembered_tools"] = origins.tools(filtered.input.remembered_messages)
    else:
        facts["input"] = filtered.input
    if isinstance(filtered.output, AgentRunOutput):
        facts["output_messages"] = origins.ids(filtered.output)
        facts["output_tools"] = origins.tools(filtered.output)
    else:
        facts["output"] = filtered.output
    return facts


def expected(vector: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """Return what has to come out of a vector, and the rules by which that differs from what was recorded."""
    given, recorded = vector["given"], vector["expect"]
    options, run = given["options"], given["run"]
    rules: set[str] = set()
    limits = [options.get(name) for name in ("max_remembered_messages", "max_output_messages")]
    _refuse_unexplained(run, recorded)
    facts: dict[str, Any] = {"run_id": run.get("run_id"), "mutated": recorded["given_run_mutated"]}
    for name in PLAIN_FIELDS:
        facts[name] = None if name in recorded["undefined_keys"] else read_value(run.get(name))
    if isinstance(run.get("input"), dict):
        facts["input_messages"] = recorded["input_message_ids"] or []
        stored = run["input"].get("remembered_messages", [])
        facts["remembered"] = _kept(stored, options, limits[0], recorded["remembered_ids"], rules)
        facts["remembered_tools"] = _tools(stored, facts["remembered"], options, rules)
    else:
        facts["input"] = run.get("input")
    if isinstance(run.get("output"), list):
        facts["output_messages"] = _kept(run["output"], options, limits[1], recorded["output_ids"], rules)
        facts["output_tools"] = _tools(run["output"], facts["output_messages"], options, rules)
    else:
        facts["output"] = recorded.get("output", run.get("output"))
    if any(limit is not None and limit < 0 for limit in limits):
        return {"error": "UserError"}, {"D26", "D37"}
    return facts, rules


def _refuse_unexplained(run: dict[str, Any], recorded: dict[str, Any]) -> None:
    """Fail where the record has messages that were not given, or lacks those that were."""
    has_messages = isinstance(run.get("input"), dict)
    given = [m["id"] for m in run["input"].get("input_messages", [])] if has_messages else None
    assert (recorded["input_message_ids"] or None) == (given or None), "the input messages are not those given"
    assert has_messages or recorded["remembered_ids"] is None
    assert isinstance(run.get("output"), list) or recorded["output_ids"] is None
    unknown = set(recorded["undefined_keys"]) - {*RUN_FIELDS, *recorded["keys"]}
    assert not unknown, f"the record has unknown keys: {unknown}"


def _kept(
    stored: list[Stored], options: dict[str, Any], limit: int | None, recorded: list[str], rules: set[str]
) -> list[str]:
    """Return the ids to be kept: those recorded, unless a rule reads a message, or the limit, in another way."""
    theirs = [m["id"] for m in stored if _keeps(m, options, _their_types(m))]
    ours = [m["id"] for m in stored if _keeps(m, options, _our_types(m))]
    # Their rule, as this reader understands it, has to explain the recording before it is departed from.
    assert (recorded or []) == (theirs[-limit:] if limit else theirs), "the reader's idea does not explain the record"
    if limit == 0:
        rules.add("D26")  # 0 keeps none
        return []
    if theirs == ours:
        return recorded or []
    for message in stored:
        if (message["id"] in theirs) != (message["id"] in ours):
            rules.add("D26" if _has_step_start(message) else "D41")
    return ours[-limit:] if limit else ours


def _keeps(message: Stored, options: dict[str, Any], types: list[str] | None) -> bool:
    if types is None:
        return True
    tools = _tool_names(message)
    names, wanted = options.get("tool_names"), options.get("part_types")
    if tools and names is not None and not any(tool.startswith(tuple(names)) for tool in tools):
        return False
    return wanted is None or any(kind.startswith(tuple(wanted)) for kind in types)


def _their_types(message: Stored) -> list[str] | None:
    content = message["content"]
    if isinstance(content, str) or "parts" not in content:
        return None
    return [part["type"] for part in content["parts"]]


def _our_types(message: Stored) -> list[str]:
    types = _their_types(message)
    return ["text"] if types is None else [kind for kind in types if kind != "step-start"]


def _has_step_start(message: Stored) -> bool:
    return "step-start" in (_their_types(message) or [])


def _tool_names(message: Stored) -> list[str]:
    content = message["content"]
    parts = [] if isinstance(content, str) else content.get("parts", [])
    return [part["tool_invocation"]["tool_name"] for part in parts if part["type"] == "tool-invocation"]


def _tools(stored: list[Stored], kept: list[str], options: dict[str, Any], rules: set[str]) -> dict[str, list[str]]:
    """Return the calls and results that the kept messages hold; D26 takes the unwanted ones out."""
    tools: dict[str, list[str]] = {}
    for message in stored:
        if message["id"] not in kept:
            continue
        whole = _called_and_answered(message, {})
        tools[message["id"]] = _called_and_answered(message, options)
        if whole != tools[message["id"]]:
            rules.add("D26")
    return {key: found for key, found in tools.items() if found}


def _called_and_answered(message: Stored, options: dict[str, Any]) -> list[str]:
    content = message["content"]
    parts = [] if isinstance(content, str) else content.get("parts", [])
    calls = [part["tool_invocation"] for part in parts if part["type"] == "tool-invocation"]
    if options.get("part_types") is not None and not "tool-invocation".startswith(tuple(options["part_types"])):
        calls = []
    if options.get("tool_names") is not None:
        calls = [call for call in calls if call["tool_name"].startswith(tuple(options["tool_names"]))]
    answered = [call for call in calls if call["state"] == "result"]
    return [f"tool-call {c['tool_name']}" for c in calls] + [f"tool-result {c['tool_name']}" for c in answered]

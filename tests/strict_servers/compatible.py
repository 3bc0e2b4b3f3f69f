"""A server that speaks OpenAI's chat completions for an open model, and applies its chat template strictly.

What each of these refuses is real, though hardly one server refuses it all:

- roles that do not alternate after the optional system message, tool messages and the assistant's calls apart: the
  templates of Mistral's and Gemma's models on llama.cpp and vLLM, mini-swe-agent #759, eclipse-peon-ai #75
- a user's turn right after a tool's result: Mistral, avante.nvim #2695; only with ``tool_then_user=False``
- a last message of the assistant: Mistral, smolagents #757; two of them: llama.cpp
- a system message that is not the first: templates of Qwen's models, llama.cpp #14246
- empty messages: Moonshot's API names their position and role
- arguments that are no JSON object: Ollama, kagent #2851
- ``content`` null: Ollama, cheetahclaws #72 and mistral-common #324; only with ``null_content=False``
- results without calls and calls without results, as OpenAI does

It takes parameters and keys of messages that it does not know, and sends its thinking as ``reasoning_content``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from support.http_server import Request

from strict_servers.answers import Answer
from strict_servers.chat import KEYS, StrictChat, check_messages, check_parameters
from strict_servers.openai_fields import require_keys
from strict_servers.problem import Problem, problem_of, refuse_openai, unfit_text

_KEYS = KEYS | {"reasoning_content", "reasoning", "prefix"}
_ALTERNATE = "After the optional system message, conversation roles must alternate user/assistant/user/assistant/..."


class StrictCompatible(StrictChat):
    """A strict server for open models."""

    thinks = True

    def __init__(
        self, name: str, script: Iterable[Answer] = (), *, tool_then_user: bool = True, null_content: bool = True
    ) -> None:
        super().__init__(name, script)
        self._tool_then_user = tool_then_user
        self._null_content = null_content

    def check(self, body: Any) -> Problem | None:
        return check(body, tool_then_user=self._tool_then_user, null_content=self._null_content)

    def refuse_headers(self, request: Request) -> Problem | None:
        return None


def check(body: Any, *, tool_then_user: bool = True, null_content: bool = True) -> Problem | None:
    """Return what a strict server refuses about the body of a request."""
    return problem_of(lambda: _check(body, tool_then_user=tool_then_user, null_content=null_content))


def _check(body: dict[str, Any], *, tool_then_user: bool, null_content: bool) -> None:
    if (why := unfit_text(body)) is not None:
        refuse_openai(f"parse error: {why}")
    require_keys(body, "model", "messages")
    check_parameters({**body, "model": ""} | {"reasoning_effort": None})
    messages = body["messages"]
    check_messages(messages, max_id=1000, keys=_KEYS)
    for index, message in enumerate(messages):
        if message["role"] in {"system", "developer"} and index:
            refuse_openai("System message must be at the beginning.")
        if not null_content and message.get("content") is None:
            refuse_openai("invalid message content type: <nil>")
        if _is_empty(message):
            text = f"the message at position {index} with role '{message['role']}' must not be empty"
            refuse_openai(f"Invalid request: {text}")
    if messages[-1]["role"] not in {"user", "tool"}:
        role = messages[-1]["role"]
        refuse_openai(f"Expected last role User or Tool (or Assistant with prefix True) for serving but got {role}")
    _check_turns(messages, tool_then_user=tool_then_user)


def _is_empty(message: dict[str, Any]) -> bool:
    content = message.get("content")
    if message.get("tool_calls") or message["role"] == "tool":
        return False
    if isinstance(content, list):
        return not any(part["type"] != "text" or part["text"].strip() for part in content)
    return not (content or "").strip()


def _check_turns(messages: list[dict[str, Any]], *, tool_then_user: bool) -> None:
    last = "assistant"
    after_tool = False
    for message in messages[messages[0]["role"] in {"system", "developer"} :]:
        role = message["role"]
        if role == "user" and after_tool and not tool_then_user:
            refuse_openai("Unexpected role 'user' after role 'tool'", code="3230")
        # A template that lets the user speak after a tool counts the calls as the assistant's turn.
        counts = role == "user" or (role == "assistant" and (tool_then_user or not message.get("tool_calls")))
        if counts and role == last == "user":
            refuse_openai(_ALTERNATE)
        if counts and role == last == "assistant" and not after_tool:
            refuse_openai(_ALTERNATE)
        if counts:
            last = role
        after_tool = role == "tool"

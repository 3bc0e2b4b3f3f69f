"""The form of a reply told in words, for models that take no schema for it."""

from __future__ import annotations

import dataclasses
import json

from mastra_py._output import OutputFormat
from mastra_py.messages import Message, TextPart
from mastra_py.models.base import ModelRequest


def output_words(output: OutputFormat) -> str:
    """Return the words that tell a model the form of its reply."""
    schema = json.dumps(output.schema, ensure_ascii=False)
    return f"Answer with one JSON object that fits this JSON Schema, and with nothing else:\n{schema}"


def in_system(request: ModelRequest, output: OutputFormat) -> ModelRequest:
    """Return the request with the form of its reply told in the system prompt."""
    words = output_words(output)
    return dataclasses.replace(request, output=None, system=f"{request.system}\n\n{words}" if request.system else words)


def in_prompt(request: ModelRequest, output: OutputFormat) -> ModelRequest:
    """Return the request with the form of its reply told in the last message of the user."""
    words = output_words(output)
    for index in range(len(request.messages) - 1, -1, -1):
        message = request.messages[index]
        if message.role == "user":
            said = [part for part in message.parts if type(part) is not TextPart or part.text]
            told = Message("user", (*said, TextPart(words)))
            messages = (*request.messages[:index], told, *request.messages[index + 1 :])
            return dataclasses.replace(request, output=None, messages=messages)
    return dataclasses.replace(request, output=None, messages=(*request.messages, Message("user", words)))

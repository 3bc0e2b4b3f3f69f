"""A model step whose reply has to have a form: what agents with ``output=`` and judges share.

A reply that does not have it is answered once with what is wrong. That is no API error: it never reaches the error
processors, and it belongs to its step.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeAlias

from typing_extensions import TypeVar

from mastra_py._loop.accumulate import Reply
from mastra_py._loop.channel import Out
from mastra_py._loop.step import ModelCall, model_step, take_back
from mastra_py._output import OutputFormat, OutputType, Unusable
from mastra_py.messages import Message, TextPart
from mastra_py.models.base import Model, ModelRequest

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

JsonPromptInjection: TypeAlias = Literal["auto", "system", "inline"] | bool
"""How a model learns the form of its reply: ``"auto"`` natively where it can, else in the user prompt; ``"system"``, or
``True``, in the system prompt; ``"inline"`` in the user prompt; ``False`` natively, whatever its profile says."""


class Reader(Protocol[T_co]):
    """Reads a reply. ``last`` says that it is not asked again."""

    def __call__(self, text: str, *, last: bool) -> T_co:
        """Return the value in the reply; raise :class:`~mastra_py._output.Unusable` where it has none."""
        ...


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """A reply and the value read from it."""

    value: T
    reply: Reply


def typed_reader(output: OutputType[T]) -> Reader[T]:
    """Return the reader of a plain output type."""

    def read(text: str, *, last: bool) -> T:  # noqa: ARG001 -- the second reading is like the first
        return output.read(text)

    return read


async def ask(call: ModelCall, read: Reader[T], out: Out) -> Answer[T]:
    """Make the call and read its reply; where that fails, say so and make it once more.

    Raises:
        Unusable: the second reply is unusable too. The call's ``fold`` holds it.
        ModelError: the model call failed for good.
    """
    reply = await model_step(call, out)
    return await read_or_ask_again(call, reply, read, out)


async def read_or_ask_again(call: ModelCall, reply: Reply, read: Reader[T], out: Out) -> Answer[T]:
    """Read a reply that is there already; as :func:`ask`."""
    try:
        return Answer(read(reply.text, last=False), reply)
    except Unusable as exc:
        complaint = str(exc)
    call.ledger.re_asks += 1
    await take_back(call, out, "rejected")
    said = (reply.message,) if reply.text.strip() else ()
    again = Message("user", f"Your reply cannot be used: {complaint}\nAnswer again, in the form that was asked for.")
    messages = (*call.request.messages, *said, again)
    call.request = dataclasses.replace(call.request, messages=messages, tool_choice="none")
    reply = await model_step(call, out)
    return Answer(read(reply.text, last=True), reply)


def output_words(output: OutputFormat) -> str:
    """Return the words that tell a model the form of its reply."""
    schema = json.dumps(output.schema, ensure_ascii=False)
    return f"Answer with one JSON object that fits this JSON Schema, and with nothing else:\n{schema}"


def with_output(request: ModelRequest, output: OutputFormat, model: Model, how: JsonPromptInjection) -> ModelRequest:
    """Return the request with the form of the reply in it, natively or in words."""
    if how is False or (how == "auto" and model.profile.native_output):
        return dataclasses.replace(request, output=output)
    words = output_words(output)
    if how in {True, "system"}:
        return dataclasses.replace(request, system=f"{request.system}\n\n{words}" if request.system else words)
    for index in range(len(request.messages) - 1, -1, -1):
        message = request.messages[index]
        if message.role == "user":
            said = [part for part in message.parts if type(part) is not TextPart or part.text]
            told = Message("user", (*said, TextPart(words)))
            messages = (*request.messages[:index], told, *request.messages[index + 1 :])
            return dataclasses.replace(request, messages=messages)
    return dataclasses.replace(request, messages=(*request.messages, Message("user", words)))

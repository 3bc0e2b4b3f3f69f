"""A model step whose reply has to have a form: what agents with ``output=`` and judges share.

A reply that does not have it is answered once with what is wrong. That is no API error: it never reaches the error
processors, and it belongs to its step.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias

from typing_extensions import TypeVar

from mastra_py._loop.accumulate import Reply
from mastra_py._loop.channel import Out
from mastra_py._loop.step import CUT_OFF, ModelCall, model_step, take_back
from mastra_py._output import OutputFormat, OutputType, Reader
from mastra_py._reply_json import Unusable
from mastra_py.messages import Message
from mastra_py.models._output_words import in_prompt, in_system, output_words
from mastra_py.models.base import Model, ModelRequest

T = TypeVar("T")

JsonPromptInjection: TypeAlias = Literal["auto", "system", "inline"] | bool
"""How a model learns the form of its reply: ``"auto"`` natively where it can, else in the user prompt; ``"system"``, or
``True``, in the system prompt; ``"inline"`` in the user prompt; ``False`` natively, whatever its profile says."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """A reply and the value read from it; ``None`` where it was not whole."""

    value: T | None
    reply: Reply


async def ask(call: ModelCall, read: Reader[T], out: Out) -> T:
    """Make the call and return what its reply is read as; where that fails, say so and make it once more.

    A reply that was cut off, refused or filtered is not read, whatever stands in it.

    Raises:
        Unusable: the second reply is unusable too. The call's ``fold`` holds it.
        ModelError: the model call failed for good.
    """

    def read_whole(reply: Reply, *, last: bool) -> T:
        if reply.finish_reason in CUT_OFF:
            msg = f"it is not whole ({reply.finish_reason})"
            raise Unusable(msg)
        return read(reply.text, last=last)

    reply = await model_step(call, out)
    try:
        return read_whole(reply, last=False)
    except Unusable as exc:
        complaint = str(exc)
    return read_whole(await ask_again(call, reply, complaint, out), last=True)


async def read_or_ask_again(call: ModelCall, reply: Reply, output: OutputType[T], out: Out) -> Answer[T]:
    """Read an agent's answer that is there already; where it does not fit, say so and make the call once more.

    A second reply that was cut off, refused or filtered is returned unread: it ends the run as what it is.

    Raises:
        Unusable: the second reply does not fit either.
        ModelError: the model call failed for good.
    """
    try:
        return Answer(output.read(reply.text), reply)
    except Unusable as exc:
        complaint = str(exc)
    reply = await ask_again(call, reply, complaint, out)
    if reply.finish_reason in CUT_OFF:
        return Answer(None, reply)
    return Answer(output.read(reply.text, last=True), reply)


async def ask_again(call: ModelCall, reply: Reply, complaint: str, out: Out) -> Reply:
    """Take the reply back, say what is wrong with it, and return the next one."""
    call.asks += 1
    await take_back(call, out, "rejected")
    said = (reply.message,) if reply.text.strip() else ()
    words = f"Your reply cannot be used: {complaint}\nAnswer again, in the form that was asked for."
    if call.request.output is not None:  # a server may take a schema and pay no heed to it
        words = f"{words} {output_words(call.request.output)}"
    again = Message("user", words)
    messages = (*call.request.messages, *said, again)
    call.request = dataclasses.replace(call.request, messages=messages, tool_choice="none")
    return await model_step(call, out)


def with_output(request: ModelRequest, output: OutputFormat, model: Model, how: JsonPromptInjection) -> ModelRequest:
    """Return the request with the form of the reply in it, natively or in words."""
    if how is False or (how == "auto" and model.profile.native_output):
        return dataclasses.replace(request, output=output, native_output=how is False)
    return in_system(request, output) if how in {True, "system"} else in_prompt(request, output)

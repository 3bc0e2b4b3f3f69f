"""What a provider's refusal teaches about a model: from an error and the body it refused to what the model lacks. Pure.

Servers refuse what they do not know in many words. Only what was really in the request, and can be left out or said
otherwise without changing what is asked for, is learned; anything else stays the error that it is.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from mastra_py.errors import ModelError, RequestError
from mastra_py.models.profile import ModelProfile

_REFUSED = re.compile(
    r"unsupported|not (?:\w+ )?support|n't support|unknown|unrecognized|unexpected|not permitted|not allowed"
    r"|not available|extra inputs|extra fields|no longer|deprecated|only the default|incompatible|not compatible"
    r"|cannot (?:both )?be (?:used|combined|specified|set|both)|cannot combine|removed|not enabled"
    r"|no such (?:field|parameter)|invalid (?:schema|parameter)|schema|must be (?:omitted|unset)"
)

_ABOUT_A_VALUE = re.compile(
    r"supported values|must be (?:one of|between|less|greater|at (?:least|most))|allowed values"
)

_DROPPED: Mapping[str, str] = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "parallel_tool_calls": "parallel_tool_calls",
    "disable_parallel_tool_use": "parallel_tool_calls",
    "service_tier": "service_tier",
    "store": "store",
    "cache_control": "cache_prompt",
    "reasoning_effort": "reasoning_effort",
    "reasoning.effort": "reasoning_effort",
    "reasoning": "reasoning_effort",
    "effort": "reasoning_effort",
    "thinking": "reasoning_effort",
    "thinking.type": "reasoning_effort",
}
"""What the wires call settings that a reply can do without."""

_SAMPLING = frozenset({"temperature", "top_p", "top_k", "presence_penalty", "frequency_penalty"})
"""Settings of which some models take one value only: they are left out, whatever the value was."""

_MAX_CHARS = 8_000
"""How much of a provider's words is read."""

_REPEATED = re.compile(r"[\"']input[\"']\s*:.*", re.DOTALL)
"""What a validation has found fault with, at the end of its words; it may be the whole request."""

_A_TOOLS_NAME = re.compile(r"\b((?:function|tool)s? )(?:name |named |called )?([\"'`])[^\"'`]*\2")
_SENTENCE_END = re.compile(r"[.!?;]\s+|\n")
_ALTERNATIVES = re.compile(
    r"\b(?:one of|(?<!not )(?:allowed|valid|permitted|supported|known|available|accepted) "
    r"(?:fields|parameters|params|keys|arguments|properties|options)|did you mean)\b"
)
"""What comes before the names of what would have been fine."""

_NAMES = re.compile(
    r"[\"'`\[(]([a-z][a-z_.]*)[\"'`\])]"  # quoted
    r"|\b([a-z]+[_.][a-z_.]*[a-z])\b"  # no plain word
    r"|(?:\b(?:parameters?|params?|arguments?|fields?|options?|inputs?|property|properties|keys?|settings?|supplied"
    r"|supports?|permitted|allowed|unknown|unsupported|unrecognized|unexpected|custom)\b\W{0,3})([a-z]+)\b"
    r"|\b([a-z]+)\b(?=\s*:|\s(?:is|are|does|cannot|can't|may|must|not|and|or|parameter|param|field|setting)\b)"
)
"""Names of settings, as far as they are not words like any other: prompts and tools speak of temperatures too."""

_BOTH = re.compile(r"\b(?:both|only one of|either|together)\b")
"""Of two settings that exclude each other the one named last is left out."""

_FORM = re.compile(
    r"response_format|json_schema|text\.format|output_config|output_format|structured output|json mode|grammar"
)
_TOOLS = re.compile(r"\btools?\b|function call|tool_choice")
_STRICT = re.compile(r"\bstrict\b|invalid schema for (?:function|response_format)")
_SYSTEM = re.compile(r"system (?:message|role|prompt)s?.*(?:beginning|first|start)|(?:only|multiple) .*system message")
_PREFILL = re.compile(
    r"prefill|must end with a user message|last message .*(?:user|assistant)|assistant message.* at the end"
)

_USER_AFTER_TOOL = re.compile(r"unexpected role '?user'? after role '?tool")
_ASSISTANT_FIRST = re.compile(r"first message must|must start with a user|roles must alternate")
_NOT_KNOWN_AGAIN = re.compile(
    r"bound to a different|invalid `?signature|signature.{0,40}(?:invalid|mismatch)|invalid_encrypted_content"
    r"|encrypted content .{0,80}could not be (?:verified|decrypted)"
)
_ENCRYPTED = re.compile(r"encrypted[ _]content is not supported|\breasoning input items can only|\binclude\b")

_FIELDS = frozenset(field.name for field in dataclasses.fields(ModelProfile))


@dataclass(frozen=True, slots=True)
class Lesson:
    """What a model lacks: the name of a setting, or of a field of its profile, and what that field then is."""

    lacks: str
    value: Any = False

    def applied(self, profile: ModelProfile) -> ModelProfile:
        """Return ``profile`` with the lesson learned."""
        if self.lacks in _FIELDS:
            return dataclasses.replace(profile, **{self.lacks: self.value})
        return dataclasses.replace(profile, unsupported=profile.unsupported | {self.lacks})


def lesson_of(error: ModelError, profile: ModelProfile, body: Mapping[str, Any]) -> Lesson | None:
    """Return what ``error``, the answer to a request with ``body``, teaches about a model of ``profile``."""
    if type(error) not in (RequestError, ModelError) or error.status not in (None, 200, 400, 404, 422):
        return None
    text = _words(error)
    if not text:
        return None
    found = next((lesson for find in _FINDERS if (lesson := find(text, profile, body)) is not None), None)
    return found or _setting(text, error, profile, body)  # these last: their names are common words


def _limit_name(text: str, profile: ModelProfile, body: Mapping[str, Any]) -> Lesson | None:
    names = ("max_tokens", "max_completion_tokens")
    used = profile.max_tokens_field
    if used not in names or used not in body or not _REFUSED.search(text) or not re.search(rf"\b{used}\b", text):
        return None
    if _ABOUT_A_VALUE.search(text) or "too large" in text or "exceed" in text:
        return None
    return Lesson("max_tokens_field", names[1] if used == names[0] else names[0])


def _form(text: str, profile: ModelProfile, body: Mapping[str, Any]) -> Lesson | None:
    asks = "response_format" in body or any(_has(body.get(name), "format") for name in ("output_config", "text"))
    if not asks or not _FORM.search(text) or not _REFUSED.search(text):
        return None
    if body.get("tools") and profile.output_with_tools and _TOOLS.search(text):
        return Lesson("output_with_tools")
    if profile.native_output:
        return Lesson("native_output")
    return None


def _strict(text: str, profile: ModelProfile, body: Mapping[str, Any]) -> Lesson | None:
    if not (_STRICT.search(text) and _REFUSED.search(text) and _has(body, "strict")):
        return None
    if profile.strict:
        return Lesson("strict")
    return Lesson("strict_field") if profile.strict_field and re.search(r"\bstrict\b", text) else None


def _system(text: str, profile: ModelProfile, _body: Mapping[str, Any]) -> Lesson | None:
    if profile.system_anywhere and _SYSTEM.search(text):
        return Lesson("system_anywhere")
    return None


def _prefill(text: str, profile: ModelProfile, _body: Mapping[str, Any]) -> Lesson | None:
    if profile.prefill and _PREFILL.search(text):
        return Lesson("prefill")
    return None


def _encrypted(text: str, profile: ModelProfile, body: Mapping[str, Any]) -> Lesson | None:
    """A server may not know how to encrypt; a model that does not reason has no reasoning."""
    if profile.thinking is None or "include" not in body or not _ENCRYPTED.search(text):
        return None
    if "can only" in text:
        return Lesson("thinking", None)
    return Lesson("encrypted_thinking") if profile.encrypted_thinking and _REFUSED.search(text) else None


def _turns(text: str, profile: ModelProfile, _body: Mapping[str, Any]) -> Lesson | None:
    if profile.user_after_tool and _USER_AFTER_TOOL.search(text):
        return Lesson("user_after_tool")
    if profile.assistant_first and _ASSISTANT_FIRST.search(text):
        return Lesson("assistant_first")
    return None


def _thinking(text: str, profile: ModelProfile, body: Mapping[str, Any]) -> Lesson | None:
    """Thinking may be bound to what was said before it, or to an account: the same model may not know it again."""
    said = [body.get("messages"), body.get("input")]
    sent = any(_has(messages, key) for messages in said for key in ("signature", "encrypted_content"))
    if profile.replay_thinking and sent and _NOT_KNOWN_AGAIN.search(text):
        return Lesson("replay_thinking")
    return None


def _stream_usage(text: str, profile: ModelProfile, body: Mapping[str, Any]) -> Lesson | None:
    if profile.stream_usage and "stream_options" in body and "stream_options" in text and _REFUSED.search(text):
        return Lesson("stream_usage")
    return None


_FINDERS: tuple[Callable[[str, ModelProfile, Mapping[str, Any]], Lesson | None], ...] = (
    _stream_usage,
    _limit_name,
    _thinking,
    _encrypted,
    _strict,
    _form,
    _system,
    _prefill,
    _turns,
)
"""Asked in this order."""


def _setting(text: str, error: ModelError, profile: ModelProfile, body: Mapping[str, Any]) -> Lesson | None:
    for name in _named(text, error):
        known = next((start for start in _starts(name.removeprefix("body.")) if start in _DROPPED), "")
        setting = _DROPPED.get(known)
        if setting is None or setting in profile.unsupported or not _has(body, known.rpartition(".")[2]):
            continue
        if _ABOUT_A_VALUE.search(text) and setting not in _SAMPLING:
            continue  # the value is wrong, which the user has to know
        return Lesson(setting)
    return None


def _words(error: ModelError) -> str:
    """Return what the provider says, in lower case; some servers put all of it into nested details.

    What it only repeats of the request is left out: users and their tools speak of anything.
    """
    said = [error.message]
    body: Any = error.body
    if isinstance(body, Mapping):
        said.append(" ".join(_strings(body)))
    own = [_A_TOOLS_NAME.sub(r"\1", _REPEATED.sub("", text.lower()[:_MAX_CHARS])) for text in said]
    return "\n".join(own)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, inner in cast("Mapping[str, Any]", value).items():
            if name not in {"input", "ctx"}:  # what a validation has found fault with
                yield from _strings(inner)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from _strings(inner)


def _named(text: str, error: ModelError) -> list[str]:
    """Return the names that the refusal may be about: the one it names itself, else those in its words."""
    body: Any = error.body
    inner: Any = cast("Mapping[str, Any]", body).get("error") if isinstance(body, Mapping) else None
    param: Any = cast("Mapping[str, Any]", inner).get("param") if isinstance(inner, Mapping) else None
    if isinstance(param, str) and param:
        return [param.lower()] if _REFUSED.search(text) else []
    names: list[str] = []
    for sentence in _SENTENCE_END.split(text):
        refused = _ALTERNATIVES.split(sentence, maxsplit=1)[0]
        if _REFUSED.search(refused):
            found = [name[name.lastindex or 0] for name in _NAMES.finditer(refused)]
            names += reversed(found) if _BOTH.search(refused) else found
    return names


def _starts(name: str) -> Iterator[str]:
    """Yield a dotted name, and what is left of it without its last parts."""
    while name:
        yield name
        name = name.rpartition(".")[0]


def _has(value: Any, key: str) -> bool:
    """Return whether ``key`` stands anywhere in a body, the schemas and messages in it left out."""
    if isinstance(value, Mapping):
        body = cast("Mapping[str, Any]", value)
        return key in body or any(
            _has(v, key) for k, v in body.items() if k not in {"parameters", "schema", "input_schema", "arguments"}
        )
    return isinstance(value, list) and any(_has(v, key) for v in cast("list[Any]", value))

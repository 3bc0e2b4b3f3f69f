"""What was said: messages made of parts, token usage, and their JSON form.

A conversation is a sequence of :class:`Message`. Within a run each step adds one assistant message and,
where it called tools, one tool message after it. The system prompt is not part of it: it belongs to the agent.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, cast, get_args

from pydantic import Field, TypeAdapter, ValidationError

from mastra_py.errors import UserError

Role = Literal["system", "user", "assistant", "tool"]
_ROLES = get_args(Role)
_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")

INTERRUPTED = "interrupted: the run ended before this tool did"
"""The error result of a call whose tool had not finished: no conversation may hold a call without a result."""


@dataclass(slots=True)
class TextPart:
    """Plain text."""

    text: str
    type: Literal["text"] = "text"

    def __post_init__(self) -> None:
        _require(self, "text", str)


@dataclass(slots=True)
class ReasoningPart:
    """Thinking of the model: never part of the answer, never shown to scorers as text.

    ``metadata`` is what the provider needs to accept it back (a signature, an item id), ``provider`` whose it is.
    """

    text: str
    provider: str | None = None
    metadata: dict[str, Any] | None = None
    type: Literal["reasoning"] = "reasoning"


@dataclass(slots=True)
class ToolCallPart:
    """A tool call by the model.

    ``raw_args`` is set only where the arguments were no JSON object: ``args`` is ``{}`` then, and the tool did not run.
    """

    tool_call_id: str
    tool_name: str
    args: dict[str, Any]
    raw_args: str | None = None
    metadata: dict[str, Any] | None = None
    type: Literal["tool-call"] = "tool-call"

    def __post_init__(self) -> None:
        _require(self, "tool_call_id", str)
        _require(self, "tool_name", str)
        _require(self, "args", dict)


@dataclass(slots=True)
class ToolResultPart:
    """What a tool call gave: any JSON value, or with ``is_error`` the text of what went wrong."""

    tool_call_id: str
    tool_name: str
    result: Any
    is_error: bool = False
    type: Literal["tool-result"] = "tool-result"


@dataclass(slots=True)
class ImagePart:
    """An image as input: a ``url``, or ``data`` with its ``media_type``. Data given as bytes becomes base64."""

    url: str | None = None
    data: str | None = None
    media_type: str | None = None
    type: Literal["image"] = "image"

    def __post_init__(self) -> None:
        _check_source(self)


@dataclass(slots=True)
class FilePart:
    """A file as input: a ``url``, or ``data`` with its ``media_type``. Data given as bytes becomes base64."""

    url: str | None = None
    data: str | None = None
    media_type: str | None = None
    filename: str | None = None
    type: Literal["file"] = "file"

    def __post_init__(self) -> None:
        _check_source(self)


@dataclass(slots=True)
class DataPart:
    """Data of the application's own beside the conversation; it never reaches a model.

    ``name`` is its kind: filters know it as ``data-<name>``.
    """

    name: str
    data: Any = None
    type: Literal["data"] = "data"


@dataclass(slots=True)
class FeedbackPart:
    """Feedback of the completion check, in a user-role message; never the user's own words."""

    text: str
    type: Literal["feedback"] = "feedback"


def _require(part: object, name: str, kind: type) -> None:
    value: object = getattr(part, name)
    if not isinstance(value, kind):
        msg = f"{type(part).__name__} {name} must be a {kind.__name__}, got {value!r}"
        raise UserError(msg)


def _check_source(part: ImagePart | FilePart) -> None:
    """Make data given as bytes base64, and check that all else that says where the data is are texts."""
    name = type(part).__name__
    data: object = part.data
    if isinstance(data, bytes | bytearray):
        part.data = base64.b64encode(data).decode()
    for field in ("url", "data", "media_type", "filename"):
        value: object = getattr(part, field, None)
        if value is not None and not isinstance(value, str):
            msg = f"{name} {field} must be a text, got {value!r}"
            raise UserError(msg)


def require_source(part: ImagePart | FilePart) -> None:
    """Check that a provider can find the data of ``part``.

    Raises:
        UserError: there is neither a URL nor data with its type, or the URL is none.
    """
    name = type(part).__name__
    if part.url is None and (part.data is None or part.media_type is None):
        msg = f"{name} needs a url, or data together with its media_type"
        raise UserError(msg)
    if part.url is not None and not _URL.match(part.url):
        msg = f"{name} url must be a URL such as https://..., got {part.url[:80]!r}; of a file give data and media_type"
        raise UserError(msg)


Part: TypeAlias = (
    TextPart | ReasoningPart | ToolCallPart | ToolResultPart | ImagePart | FilePart | DataPart | FeedbackPart
)


@dataclass(slots=True, init=False)
class Message:
    """One message: a role and its parts; a plain string is one text part, also in a list of parts.

    Example: ``Message("user", "Hello")``
    """

    role: Role
    parts: tuple[Annotated[Part, Field(discriminator="type")], ...]

    def __init__(self, role: Role, parts: str | Iterable[Part | str]) -> None:
        if role not in _ROLES:
            msg = f"a message's role is one of {', '.join(_ROLES)}; got {role!r}"
            raise UserError(msg)
        if not isinstance(parts, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] -- not every caller has a type checker
            msg = f"a message's parts are a text or a sequence of parts, got {parts!r}"
            raise UserError(msg)
        self.role = role
        given: tuple[Any, ...] = (TextPart(parts),) if isinstance(parts, str) else tuple(parts)
        if any(type(part) not in _PARTS for part in given):
            given = tuple([_as_part(part) for part in given])
        self.parts = given

    @property
    def text(self) -> str:
        """The text parts, joined. Reasoning and feedback are not text: a feedback message's words are in its part."""
        return "".join([p.text for p in self.parts if type(p) is TextPart])

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        """The tool calls, in order."""
        return tuple([p for p in self.parts if type(p) is ToolCallPart])

    @property
    def tool_results(self) -> tuple[ToolResultPart, ...]:
        """The tool results, in order."""
        return tuple([p for p in self.parts if type(p) is ToolResultPart])

    @property
    def is_feedback(self) -> bool:
        """Whether this is feedback of a completion check and not somebody's words."""
        return any(type(p) is FeedbackPart for p in self.parts)


_PARTS = frozenset(get_args(Part))


def _as_part(part: object) -> Part:
    """Return ``part``; a plain text in a list of parts is a text part."""
    if isinstance(part, str):
        return TextPart(part)
    if not isinstance(part, tuple(_PARTS)):
        msg = f"a message's parts are texts and parts such as TextPart and ImagePart, got {part!r}"
        raise UserError(msg)
    return cast("Part", part)


MessageLike: TypeAlias = Message | Mapping[str, Any]
"""A :class:`Message`, or a dict ``{"role": ..., "parts": [...]}`` or ``{"role": ..., "content": "text"}``."""


@cache
def _adapter() -> TypeAdapter[list[Message]]:
    return TypeAdapter(list[Message])


def dump_messages(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Return the conversation as JSON-ready dicts; :func:`load_messages` reads them back."""
    return _adapter().dump_python(list(messages), mode="json")


def load_messages(messages: Iterable[MessageLike]) -> list[Message]:
    """Read a conversation from messages or dicts.

    Raises:
        UserError: something in it is no message; the error names its position.
    """
    loaded: list[Message] = []
    for i, item in enumerate(messages):
        if isinstance(item, Message):
            loaded.append(item)
            continue
        loaded.append(_load_message(i, item))
    return loaded


def _load_message(position: int, item: object) -> Message:
    if not isinstance(item, Mapping):
        msg = f"messages[{position}] is a {type(item).__name__}; give a Message or a dict with role and content"
        raise UserError(msg)
    data: dict[str, Any] = dict(item)  # pyright: ignore[reportUnknownArgumentType] -- checked by pydantic below
    if "parts" not in data and "content" in data:
        content = data.pop("content")
        data["parts"] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    try:
        return _adapter().validate_python([data])[0]
    except ValidationError as exc:
        first = exc.errors()[0]
        where = ".".join(str(p) for p in first["loc"][1:])
        msg = f"messages[{position}]{'.' + where if where else ''} is not valid: {first['msg']}"
        raise UserError(msg) from exc


@dataclass(slots=True, kw_only=True)
class Usage:
    """Tokens spent. Cached input tokens are part of the input tokens, reasoning tokens of the output tokens."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_input_tokens=self.cached_input_tokens + other.cached_input_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
        )


def total_usage(usages: Iterable[Usage]) -> Usage:
    """Return the sum of ``usages``."""
    total = Usage()
    for usage in usages:
        total = total + usage
    return total


def last_user_text(messages: Sequence[Message]) -> str:
    """Return the whole text of the last user message, without feedback; ``""`` where there is none."""
    for message in reversed(messages):
        if message.role == "user" and not message.is_feedback:
            return message.text
    return ""

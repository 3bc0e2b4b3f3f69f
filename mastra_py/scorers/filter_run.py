"""``filter_run``: make a ``prepare_run`` that gives a scorer less to read."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, cast

from typing_extensions import TypeIs

from mastra_py.errors import UserError
from mastra_py.messages import DataPart, FeedbackPart, Message, Part, ToolCallPart, ToolResultPart
from mastra_py.scoring import AgentRunInput, AgentRunOutput, ScorerRun

RunT = TypeVar("RunT", bound=ScorerRun[Any, Any])

_Turn: TypeAlias = list[Message]
"""What is kept or dropped as one: a message, or an assistant message with the results of its tool calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """A ``prepare_run`` function; see :func:`filter_run` for its options."""

    part_types: tuple[str, ...] | None = None
    tool_names: tuple[str, ...] | None = None
    max_remembered_messages: int | None = None
    max_output_messages: int | None = None
    drop_request_context: bool = False
    drop_expected_trajectory: bool = False
    drop_ground_truth: bool = False

    def __call__(self, run: RunT, /) -> RunT:
        """Return a filtered copy of ``run``."""
        changes: dict[str, Any] = {}
        if isinstance(run.input, AgentRunInput):
            remembered = self._filter(run.input.remembered_messages, self.max_remembered_messages)
            changes["input"] = dataclasses.replace(run.input, remembered_messages=remembered)
        if _is_messages(run.output):
            changes["output"] = type(run.output)(self._filter(run.output, self.max_output_messages))
        for name in ("request_context", "expected_trajectory", "ground_truth"):
            if getattr(self, f"drop_{name}"):
                changes[name] = None
        return dataclasses.replace(run, **changes)

    def _filter(self, messages: Sequence[Message], limit: int | None) -> tuple[Message, ...]:
        turns = [kept for turn in _turns(messages) if (kept := self._filter_turn(turn))]
        if limit is not None:
            turns = turns[max(len(turns) - limit, 0) :]
        return tuple([message for turn in turns for message in turn])

    def _filter_turn(self, turn: _Turn) -> _Turn:
        """Return the turn without its unwanted tool parts, empty where it is dropped."""
        parts = [p for message in turn for p in message.parts]
        tools = [_tool_name(p, parts) for p in parts if _is_tool_part(p)]
        if tools and not any(_matches(name, self.tool_names) for name in tools):
            return []
        if self.part_types is not None and not any(_matches(_kind(p), self.part_types) for p in parts):
            return []
        if not tools:
            return turn
        unwanted = {id(p) for p in parts if _is_tool_part(p) and not self._wants_tool_part(p, parts)}
        if not unwanted:
            return turn
        rest = [Message(m.role, [p for p in m.parts if id(p) not in unwanted]) for m in turn]
        return [m for m in rest if m.parts]

    def _wants_tool_part(self, part: Part, parts: Sequence[Part]) -> bool:
        return _matches(_kind(part), self.part_types) and _matches(_tool_name(part, parts), self.tool_names)


def filter_run(
    *,
    part_types: Iterable[str] | None = None,
    tool_names: Iterable[str] | None = None,
    max_remembered_messages: int | None = None,
    max_output_messages: int | None = None,
    drop_request_context: bool = False,
    drop_expected_trajectory: bool = False,
    drop_ground_truth: bool = False,
) -> RunFilter:
    """Return a ``prepare_run`` for :func:`~mastra_py.scorers.create_scorer` that keeps only what a scorer needs.

    It filters the remembered messages of an agent's input, and the output where that is messages; the messages given to
    the call, and texts, pass as they are. The run it is given stays as it was.

    An assistant message with tool calls and the results after it are one message here: they stay or go together and
    count once. Feedback of a completion check counts as text.

    Args:
        part_types: keep messages that have a part of one of these types, given as prefixes of ``text``, ``reasoning``,
            ``tool-invocation`` (a call and its result), ``image``, ``file`` or ``data-<name>``. Tool calls that are not
            wanted are taken out of a message that is kept; its other parts stay.
        tool_names: of the messages with tool calls, keep those that call a tool with one of these prefixes, and of
            their calls only these. Messages without tool calls are not concerned.
        max_remembered_messages: how many remembered messages to keep, the latest, after filtering; 0 keeps none.
        max_output_messages: the same for the output.
        drop_request_context: leave the caller's context out.
        drop_expected_trajectory: leave the expected trajectory out.
        drop_ground_truth: leave the right answer out.

    Raises:
        UserError: an option is of a wrong type, or a limit below 0.
    """
    return RunFilter(
        part_types=_prefixes("part_types", part_types),
        tool_names=_prefixes("tool_names", tool_names),
        max_remembered_messages=_limit("max_remembered_messages", max_remembered_messages),
        max_output_messages=_limit("max_output_messages", max_output_messages),
        drop_request_context=_flag("drop_request_context", drop_request_context),
        drop_expected_trajectory=_flag("drop_expected_trajectory", drop_expected_trajectory),
        drop_ground_truth=_flag("drop_ground_truth", drop_ground_truth),
    )


def _prefixes(name: str, value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    # A lone string would be read letter by letter, and nearly everything starts with some letter of it.
    if isinstance(value, Iterable) and not isinstance(value, str):
        prefixes = tuple(cast("Iterable[object]", value))
        if all(isinstance(prefix, str) for prefix in prefixes):
            return cast("tuple[str, ...]", prefixes)
    msg = f"filter_run: {name} must be a list of strings or None, got {value!r}"
    raise UserError(msg)


def _limit(name: str, value: object) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    msg = f"filter_run: {name} must be a whole number from 0, or None for no limit; got {value!r}"
    raise UserError(msg)


def _flag(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    msg = f"filter_run: {name} must be True or False, got {value!r}"
    raise UserError(msg)


def _is_messages(value: object) -> TypeIs[AgentRunOutput | list[Message] | tuple[Message, ...]]:
    if type(value) not in {AgentRunOutput, list, tuple}:
        return False
    return all(isinstance(item, Message) for item in cast("Iterable[object]", value))


def _turns(messages: Iterable[Message]) -> list[_Turn]:
    """Put each assistant message with tool calls together with the tool messages right after it."""
    turns: list[_Turn] = []
    for message in messages:
        if message.role == "tool" and turns and turns[-1][0].tool_calls:
            turns[-1].append(message)
        else:
            turns.append([message])
    return turns


def _is_tool_part(part: Part) -> bool:
    return isinstance(part, ToolCallPart | ToolResultPart)


def _tool_name(part: Part, parts: Sequence[Part]) -> str:
    """Return the tool's name of a tool part; a result goes by the name of its call, so that the two stay together."""
    if isinstance(part, ToolResultPart):
        calls = (p for p in parts if isinstance(p, ToolCallPart) and p.tool_call_id == part.tool_call_id)
        part = next(calls, part)
    return cast("ToolCallPart | ToolResultPart", part).tool_name


def _kind(part: Part) -> str:
    """Return the name that ``part_types`` knows a part by."""
    if _is_tool_part(part):
        return "tool-invocation"
    if isinstance(part, DataPart):
        return f"data-{part.name}"
    return "text" if isinstance(part, FeedbackPart) else part.type


def _matches(name: str, prefixes: tuple[str, ...] | None) -> bool:
    return prefixes is None or name.startswith(prefixes)

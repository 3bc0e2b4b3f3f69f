"""Random plans, answers and edits of histories. What they draw stays small, so that a failure is read at a glance."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from hypothesis import strategies as st

from mastra_py.messages import (
    Message,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    dump_messages,
    load_messages,
)
from strict_servers.answers import Answer, Call, Finish, Say, Think
from strict_servers.tools import MOODS, arguments
from strict_servers.world import SERVER_OF, Cancel, Plan

Edit: TypeAlias = Callable[[list[Message]], None]

MODELS = tuple(SERVER_OF)
OPEN = ("qwen3", "kimi-k2")
"""Models that make up ids and names of calls as they like."""

FOREIGN_IDS = ("dup", "functions.work:0", "x" * 70, "call ü|1", "toolu_A", " ")
BAD_ARGUMENTS = ("", "{", "[1]", "null", '"text"', '{"n": "one", "mood": 2}', '{"n": 1e400}', '{"n": "\\ud83d"}', "{}")
FINISHES: tuple[Finish, ...] = ("stop", "stop", "stop", "stop", "stop", "length", "refusal", "content_filter")
TEXTS = ("Hi.", "", " \n", "one two three", '{"ok": true, "note": null}', "\u2028x", "trailing ")


@dataclasses.dataclass
class Verdict:
    """An output type."""

    ok: bool
    note: str | None = None


says = st.builds(Say, st.sampled_from(TEXTS), st.integers(1, 3))
thoughts = st.builds(Think, st.sampled_from(["hm", "", "first, then"]), redacted=st.booleans())


def calls(*, foreign: bool) -> st.SearchStrategy[Call]:
    """Return tool calls: most of them good, some of unknown tools or with arguments that are none."""
    ids = st.none() | st.sampled_from(FOREIGN_IDS) if foreign else st.none()
    moods = st.sampled_from(MOODS).map(arguments)
    names = st.sampled_from(["work", "work_sync"])
    missing = st.sampled_from(["missing", "functions.work", "with space", "n" * 70] if foreign else ["missing"])
    return st.one_of(
        st.builds(Call, names, moods, ids),
        st.builds(Call, st.just("work"), moods, ids),
        st.builds(Call, st.just("with_defaults"), st.just('{"n": "NUMBER"}'), ids),
        st.builds(Call, st.just("noop"), st.sampled_from(["{}", ""]), ids),
        st.builds(Call, st.sampled_from(["work", "with_defaults"]), st.sampled_from(BAD_ARGUMENTS), ids),
        st.builds(Call, missing, moods, ids),
    )


@st.composite
def whole_answers(draw: st.DrawFn, *, foreign: bool) -> Answer:
    """Return an answer of an order that servers have: thinking comes before something else."""
    pieces: list[Any] = []
    if draw(st.booleans()):
        pieces += draw(st.lists(thoughts, min_size=1, max_size=2))
    pieces += draw(st.lists(says, max_size=2))
    pieces += draw(st.lists(calls(foreign=foreign), max_size=3))
    if pieces and draw(st.booleans()):
        pieces = [*pieces[:-1], draw(thoughts), pieces[-1]]
    finish = draw(st.sampled_from(FINISHES))
    if finish == "refusal":
        pieces = [Say("I cannot."), *(piece for piece in pieces if isinstance(piece, Call))]
    while pieces and isinstance(pieces[-1], Think) and finish != "length":
        pieces.pop()
    return Answer(tuple(pieces), finish)


faulty = st.sampled_from([429, 500, "in-band", "broken"])


@st.composite
def answers(draw: st.DrawFn, *, foreign: bool, failing: bool) -> tuple[Answer, ...]:
    """Return the answers to the requests of a run, some of which fail."""
    drawn: list[Answer] = draw(st.lists(whole_answers(foreign=foreign), min_size=1, max_size=3))
    for _ in range(draw(st.integers(1, 3)) if failing else 0):
        place = draw(st.integers(0, len(drawn)))
        broken = dataclasses.replace(drawn[place - 1], fault=draw(faulty), fault_at=draw(st.integers(0, 6)))
        drawn.insert(place, broken)
    return tuple(drawn)


def _settings(model: str) -> st.SearchStrategy[dict[str, Any]]:
    choices: dict[str, Any] = {
        "max_output_tokens": [40_000],
        "parallel_tool_calls": [True, False],
        "temperature": [0.5],
        "store": [True, False],
        "cache_prompt": [True],
        "reasoning_effort": ["low", "none", "high"],
    }
    if SERVER_OF[model] != "responses" and model != "gpt-5":
        choices["stop"] = [["##"]]
    return st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in choices.items()})


@st.composite
def plans(draw: st.DrawFn, *, failing: bool = False) -> Plan:
    """Return a run; ``failing``: the provider fails in it."""
    model = draw(st.sampled_from(MODELS))
    models = (model,)
    if draw(st.integers(0, 1 if failing else 5)) == 0:
        models = (model, draw(st.sampled_from([other for other in MODELS if other != model])))
    script = draw(answers(foreign=model in OPEN, failing=failing))
    cancel = None if failing else draw(st.none() | cancels)
    if cancel is not None and cancel.at == "idle":
        script = (*script, dataclasses.replace(script[-1], fault="hangs", fault_at=draw(st.integers(0, 5))))
    if cancel is not None and cancel.at == "tool":
        script = (Answer((Call("work", arguments("waits")), Call("work", arguments()))), *script)
    prompts = st.sampled_from(["go", "on with it", "a\0b", "\ud83d tail", " x "])
    settings = draw(_settings(model)) if len(models) == 1 else {}
    return Plan(
        models=models,
        answers=script,
        prompt=draw(prompts if draw(st.integers(0, 9)) else st.none()),
        reading=draw(st.sampled_from(["generate", "events", "texts", "result"])),
        cancel=cancel,
        settings=settings,
        retries=draw(st.sampled_from([0, 1, 2])),
        rejected=draw(st.sampled_from([0, 0, 0, 1, 2])),
        feedback=draw(st.sampled_from(["latest", "all"])),
        output=draw(st.sampled_from([None, None, None, Verdict])),
        tool_choice=draw(st.sampled_from(["auto", "auto", "auto", "required", "none", "work"])),
        instructions=draw(st.sampled_from(["Be brief.", None, "\ud83d\0"])),
    )


cancels = st.one_of(
    st.builds(Cancel, st.sampled_from(["cancel", "scope"]), st.sampled_from(["tool", "idle"])),
    st.builds(Cancel, st.sampled_from(["cancel", "scope", "leave"]), st.integers(1, 20)),
)


# --- what users do to their histories


def _drop(index: int, messages: list[Message]) -> None:
    del messages[index]


def _swap(index: int, messages: list[Message]) -> None:
    messages[index], messages[index - 1] = messages[index - 1], messages[index]


def _double(index: int, messages: list[Message]) -> None:
    messages.insert(index, messages[index])


def _drop_part(index: int, messages: list[Message]) -> None:
    messages[index] = dataclasses.replace(messages[index], parts=tuple(messages[index].parts[1:]))


def _turn_parts(index: int, messages: list[Message]) -> None:
    messages[index] = dataclasses.replace(messages[index], parts=tuple(reversed(messages[index].parts)))


def _blank(index: int, messages: list[Message]) -> None:
    messages[index] = Message(messages[index].role, (TextPart(" "), *messages[index].parts))


def _cut(index: int, messages: list[Message]) -> None:
    del messages[:index]


def _merge(index: int, messages: list[Message]) -> None:
    first, second = messages[index - 1], messages[index]
    messages[index - 1] = dataclasses.replace(first, parts=(*first.parts, *second.parts))
    if index:
        del messages[index]


def _store(_index: int, messages: list[Message]) -> None:
    messages[:] = load_messages(json.loads(json.dumps(dump_messages(messages))))


def _insert(message: Message) -> Callable[[int, list[Message]], None]:
    return lambda index, messages: messages.insert(index, message)


INSERTED: Sequence[Message] = (
    Message("assistant", "said by hand"),
    Message("assistant", ""),
    Message("system", "By hand: be kind."),
    Message("user", "by hand"),
    Message("user", " "),
    Message("tool", (ToolResultPart("orphan", "work", "found"),)),
    Message("assistant", (ToolCallPart("by.hand:0", "work", {"n": -1, "mood": "x"}),)),
    Message("assistant", (ToolCallPart("", "no such tool", {}, raw_args="{"), ToolCallPart("", "work", {}))),
    Message("assistant", (ReasoningPart("by hand"), TextPart("so"))),
    Message("assistant", (ReasoningPart("by hand"),)),
    Message("assistant", (TextPart("lone \ud83d"), ToolCallPart("a" * 80, "w\0rk", {"a": "\ud83d\0"}))),
)
EDITS: dict[str, Callable[[int, list[Message]], None]] = {
    "drop": _drop,
    "swap": _swap,
    "double": _double,
    "drop part": _drop_part,
    "turn parts": _turn_parts,
    "blank": _blank,
    "cut": _cut,
    "merge": _merge,
    "store and load": _store,
    **{f"insert {n}": _insert(message) for n, message in enumerate(INSERTED)},
}


def edited(messages: Sequence[Message], name: str, where: int) -> tuple[Message, ...]:
    """Return a history as a user has changed it by hand, at about ``where``."""
    changed = list(messages)
    if changed or name.startswith("insert"):
        EDITS[name](where % (len(changed) or 1), changed)
    return tuple(changed)

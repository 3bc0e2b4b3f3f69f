"""Tools that count how often each call of theirs ran, and do what the call's ``mood`` says."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import anyio
import anyio.lowlevel

from mastra_py import Tool, ToolError, tool
from strict_servers.answers import Answer, Call

MOODS = ("fine", "raises", "tells", "surrogate", "nul", "empty", "nothing", "huge", "nested", "waits", "odd keys")
"""What a tool may do; ``waits`` only where the plan says that it is cancelled."""

_NUMBER = '"NUMBER"'
"""Where a call's own number goes, which tells it from all others."""


def arguments(mood: str = "fine") -> str:
    """Return arguments of ``work`` and ``work_sync`` whose number is filled in when they are sent."""
    return f'{{"n": {_NUMBER}, "mood": {json.dumps(mood)}}}'


class Bench:
    """The tools and what they have done.

    Attributes:
        executed: a key for each run of a tool.
        waiting: set when a tool waits to be cancelled.
    """

    def __init__(self) -> None:
        self.executed: list[str] = []
        self._waits = False
        self._number = 0
        self.tools: list[Tool] = [
            Tool(name="work", description="Do it.", run=self._work),
            Tool(name="work_sync", description="Do it in a thread.", run=self._work_sync),
            Tool(name="noop", description="Do nothing.", run=self._noop),
            tool(name="with_defaults")(self._with_defaults),
        ]

    def begin(self, *, waits: bool) -> None:
        """Begin a run; a tool that waits does so for ever if ``waits``."""
        self.waiting = anyio.Event()
        self._waits = waits

    def numbered(self, answer: Answer) -> Answer:
        """Return ``answer`` with a number of its own for each call."""
        pieces: list[Any] = []
        for piece in answer.pieces:
            if isinstance(piece, Call) and _NUMBER in piece.arguments:
                self._number += 1
                filled = piece.arguments.replace(_NUMBER, str(self._number))
                pieces.append(dataclasses.replace(piece, arguments=filled))
            else:
                pieces.append(piece)
        return dataclasses.replace(answer, pieces=tuple(pieces))

    async def _work(self, n: int, mood: str) -> Any:
        self.executed.append(f"work {n}")
        await anyio.lowlevel.checkpoint()
        if mood == "waits" and self._waits:
            self.waiting.set()
            await anyio.sleep_forever()
        return _outcome(mood)

    def _work_sync(self, n: int, mood: str) -> Any:
        self.executed.append(f"work_sync {n}")
        return _outcome(mood)

    async def _noop(self) -> None:
        self.executed.append("noop")

    async def _with_defaults(self, n: int, note: str | None = None, limit: int = 3) -> str:
        self.executed.append(f"with_defaults {n}")
        return f"{note} {limit}"


def _outcome(mood: str) -> Any:
    match mood:
        case "raises":
            raise ValueError("the tool broke: \ud83d\0")
        case "tells":
            raise ToolError("")
        case "surrogate":
            return "bad \ud83d tail"
        case "nul":
            return "a\0b"
        case "empty":
            return ""
        case "nothing":
            return None
        case "huge":
            return "x" * 20_000
        case "nested":
            return {"list": [1, None, "\ud83d", {"deep": "\0"}]}
        case "odd keys":
            return {"\ud83d": 1, "": 2}
        case _:
            return mood


def run_key(call: Call) -> str | None:
    """Return the key of the run that a call asks for, ``None`` where its tool does not run."""
    if call.name == "noop":
        return "noop" if call.arguments in {"", "{}"} else None
    try:
        args = json.loads(call.arguments)
    except ValueError:
        return None
    if not isinstance(args, dict) or type(args.get("n")) is not int:
        return None
    takes_mood = call.name in {"work", "work_sync"}
    if not takes_mood and call.name != "with_defaults":
        return None
    if takes_mood and not isinstance(args.get("mood"), str):
        return None
    return f"{call.name} {args['n']}"

"""What a strict server is told to answer, in the words that all three APIs have in common."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Finish = Literal["stop", "length", "refusal", "content_filter"]


@dataclass(frozen=True, slots=True)
class Say:
    """Text; ``cuts`` are where its deltas are cut."""

    text: str
    cuts: int = 2


@dataclass(frozen=True, slots=True)
class Think:
    """Thinking, signed or encrypted where the API has that. ``redacted`` shows none of it."""

    text: str
    redacted: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call; ``arguments`` is JSON text that may be none, ``call_id`` one that the server would not make."""

    name: str
    arguments: str = "{}"
    call_id: str | None = None


Piece: TypeAlias = Say | Think | Call


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply of the model.

    ``fault`` ends it otherwise: a status in place of the reply; ``"in-band"`` an error within it; ``"broken"`` the
    connection ends, ``"hangs"`` nothing more comes, both before the reply is whole. ``fault_at`` is after how many of
    its events.
    """

    pieces: Sequence[Piece] = ()
    finish: Finish = "stop"
    fault: int | Literal["in-band", "broken", "hangs"] | None = None
    fault_at: int = 1

    @property
    def calls(self) -> tuple[Call, ...]:
        return tuple([piece for piece in self.pieces if isinstance(piece, Call)])

    @property
    def is_whole(self) -> bool:
        return self.fault is None


@dataclass(frozen=True, slots=True)
class Issued:
    """A tool call that a server has sent in a whole reply; ``runs`` says whether a client runs it."""

    server: str
    call_id: str
    call: Call
    runs: bool


def cut(text: str, pieces: int) -> Iterator[str]:
    """Yield ``text`` in about so many pieces; none of them is empty unless it is."""
    size = max(1, -(-len(text) // max(1, pieces)))
    if not text:
        yield ""
    for start in range(0, len(text), size):
        yield text[start : start + size]


def event(payload: dict[str, object], *, named: bool = True) -> str:
    """Return a server-sent event, with its type as its name where the API writes it so."""
    name = f"event: {payload['type']}\n" if named else ""
    return f"{name}data: {json.dumps(payload)}\n\n"

"""The replies of a case as its servers play them, and what the servers have seen."""

from __future__ import annotations

import email.utils
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import anyio

from mastra_py.messages import Message
from support.http_server import Reply, Request, one_byte_at_a_time
from support.wire_paths import holds
from support.wire_sidecar import DATE, Facts, Sidecar, file_of, find_sidecars

Cutting = Literal["whole", "cut", "bytes"]

STREAM = {"content-type": "text/event-stream"}
_SECONDS = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """One way to play a case.

    Attributes:
        cutting: how the bytes come: ``whole``, the ``body`` cut where the case says, or all one byte at a time.
        processors: whether the case's error processors are there.
        conditional: whether ``serve_if`` holds; without it the body answers the first request.
        provider: whose API the server plays, where it is not the case's own.
        headers: values of the first response's headers, in place of the case's; ``None`` leaves one out.
        turns: how often the set-up is used.
        history: a conversation to go on from; then the server answers with a plain good reply.
    """

    cutting: Cutting = "whole"
    processors: bool = True
    conditional: bool = True
    provider: str | None = None
    headers: Mapping[str, str | None] = field(default_factory=dict)
    turns: int = 1
    history: tuple[Message, ...] | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """A response to play: ``cuts`` are the offsets between its pieces, ``None`` for one byte at a time."""

    data: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: STREAM)
    cuts: Sequence[int] | None = ()

    def reply(self) -> Reply:
        """Return it as it goes out now: dates count from here."""
        headers = {name: DATE.sub(_date, text) for name, text in self.headers.items()}
        return Reply(self._pieces(), status=self.status, headers=headers)

    def _pieces(self) -> bytes | list[bytes]:
        if self.cuts is None:
            return one_byte_at_a_time(self.data)
        if not self.cuts:
            return self.data
        bounds = sorted({0, len(self.data), *self.cuts})
        return [self.data[begin:end] for begin, end in pairwise(bounds)]


def _date(found: Any) -> str:
    return email.utils.formatdate(time.time() + float(found["amount"]) * _SECONDS[found["unit"]], usegmt=True)


@dataclass(frozen=True, slots=True)
class Seen:
    """A request: when it came, its JSON body, the response's status, and whether the response was the case's body."""

    at: float
    json: Any
    status: int
    by_body: bool


class Script:
    """What a server answers; it is called with each request.

    The first page answers the first request, or with ``serve_if`` those for which that holds; the others come in order,
    and the last one again and again.
    """

    def __init__(self, first: Page, others: Sequence[Page] = (), serve_if: Facts | None = None) -> None:
        self._first = first
        self._others = list(others)
        self._serve_if = serve_if
        self._used = 0
        self.seen: list[Seen] = []

    def __call__(self, request: Request) -> Reply:
        at = anyio.current_time()
        try:
            body = request.json
        except ValueError:
            body = None
        page = self._page(body)
        self.seen.append(Seen(at, body, page.status, page is self._first))
        return page.reply()

    def _page(self, body: Any) -> Page:
        first = holds(body, self._serve_if) if self._serve_if is not None else not self.seen
        if first or not self._others:
            return self._first
        page = self._others[min(self._used, len(self._others) - 1)]
        self._used += 1
        return page


def script_of(case: Sidecar, play: Play) -> Script:
    """Return what the server of the case's replies answers in that play."""
    provider = play.provider or case.provider
    final = f"_final-{provider}.sse"
    bytewise = play.cutting == "bytes"
    if play.history is not None:
        return Script(_page(case, final, bytewise=bytewise))
    headers = {name: text for name, text in {**case.headers, **play.headers}.items() if text is not None}
    data = file_of(case, case.body).read_bytes()
    cuts = None if bytewise else case.cut if play.cutting == "cut" else ()
    first = Page(data, case.status, headers or STREAM, cuts)
    conditional = case.serve_if is not None
    # Of another provider's server the plain replies are its own.
    names = [final if name == f"_final-{case.provider}.sse" else name for name in case.next]
    others = [_page(case, name, bytewise=bytewise) for name in names or ([final] if conditional else [])]
    return Script(first, others, case.serve_if if play.conditional else None)


def final_script(case: Sidecar, play: Play) -> Script:
    """Return the script of a server that answers each request with the plain good reply."""
    name = f"_final-{play.provider or case.provider}.sse"
    return Script(_page(case, name, bytewise=play.cutting == "bytes"))


def said_script(text: str) -> Script:
    """Return the script of a chat completions server that says ``text``."""
    delta = {"id": "said", "model": "judge", "choices": [{"delta": {"content": text}, "finish_reason": "stop"}]}
    return Script(Page(f"data: {json.dumps(delta)}\n\ndata: [DONE]\n\n".encode()))


def _page(case: Sidecar, name: str, *, bytewise: bool) -> Page:
    """Return a later reply: with the status and headers of the sidecar whose body it is, else a plain stream."""
    cuts = None if bytewise else ()
    path = file_of(case, name)
    if name == case.body:
        return Page(path.read_bytes(), case.status, case.headers or STREAM, cuts)
    status, headers = _responses(path.parent).get(name, (200, STREAM))
    return Page(path.read_bytes(), status, headers, cuts)


@cache
def _responses(folder: Path) -> dict[str, tuple[int, Mapping[str, str]]]:
    """Return status and headers by the bodies of a folder's sidecars."""
    found: dict[str, tuple[int, Mapping[str, str]]] = {}
    for path in find_sidecars(folder):
        facts: Any = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(facts, dict) and "body" in facts:
            found.setdefault(facts["body"], (facts.get("status", 200), facts.get("headers") or STREAM))
    return found

"""What the strict servers have in common: from a request to a refusal, or to the next scripted answer."""

from __future__ import annotations

import dataclasses
import json
from collections import deque
from collections.abc import Iterable
from typing import Any

import anyio
from support.http_server import Reply, Request, sse

from strict_servers.answers import Answer, Call, Issued, Say, Think
from strict_servers.problem import Problem, parsed

DONE = Answer((Say("All done."),))
"""What a server answers when its script has run out."""


class StrictServer:
    """A script for ``HTTPServer``: ``async with HTTPServer(strict) as http``.

    Attributes:
        name: what tests call it.
        path: the path that requests come to.
        tail: how many events at the end of a reply make it a whole one.
        script: the answers to come; after them :data:`DONE`.
        requests: the bodies that were accepted.
        problems: every refusal with the body that was refused.
        issued: the tool calls of whole replies.
        faults: the scripted failures that were answered.
        hangs: whether a reply has begun that never goes on.
    """

    path: str
    tail: int

    def __init__(self, name: str, script: Iterable[Answer] = ()) -> None:
        self.name = name
        self.script = deque(script)
        self.requests: list[dict[str, Any]] = []
        self.problems: list[tuple[Problem, Any]] = []
        self.issued: list[Issued] = []
        self.faults: list[Answer] = []
        self.hangs = False
        self._counted = 0

    def __call__(self, request: Request) -> Reply:
        """Answer a request."""
        problem, body = self._read(request)
        if problem is None:
            problem = self.check(body)
        if problem is not None:
            self.problems.append((problem, body))
            return _json_reply(problem.status, problem.body)
        self.requests.append(body)
        answer = self.script.popleft() if self.script else DONE
        if not body.get("tools") or body.get("tool_choice") in ("none", {"type": "none"}):
            # What a server is told not to call it does not call.
            pieces = [piece for piece in answer.pieces if not isinstance(piece, Call)]
            while pieces and isinstance(pieces[-1], Think) and answer.finish != "length":
                pieces.pop()
            answer = dataclasses.replace(answer, pieces=pieces)
        if not answer.is_whole:
            self.faults.append(answer)
        if isinstance(answer.fault, int):
            return _json_reply(answer.fault, self.error_body(answer.fault))
        if not body.get("stream"):
            msg = f"{self.name} only streams, and the request does not ask for that"
            raise AssertionError(msg)
        return self._streamed(answer, self.events(answer, body))

    # What each API does in its own way.

    def check(self, body: Any) -> Problem | None:
        """Return what is wrong with a request body, by the rules of the API."""
        raise NotImplementedError

    def events(self, answer: Answer, body: dict[str, Any]) -> list[str]:
        """Return the server-sent events of an answer to ``body``, and remember what was issued in it."""
        raise NotImplementedError

    def in_band_error(self) -> str:
        """Return the event of an error within a reply."""
        raise NotImplementedError

    def error_body(self, status: int) -> dict[str, Any]:
        """Return the body of an error that is no fault of the request."""
        raise NotImplementedError

    def unreadable(self, why: str) -> Problem:
        """Return the refusal of a body that is no JSON."""
        raise NotImplementedError

    def refuse_headers(self, request: Request) -> Problem | None:
        """Return what is wrong with the headers."""
        raise NotImplementedError

    # What helps them.

    def count(self) -> int:
        """Return a number that this server has not used yet."""
        self._counted += 1
        return self._counted

    def issue(self, answer: Answer, call_ids: Iterable[str]) -> None:
        """Remember the calls of a reply that arrives whole."""
        if answer.is_whole:
            runs = answer.finish == "stop"
            self.issued += [Issued(self.name, i, c, runs) for i, c in zip(call_ids, answer.calls, strict=True)]

    def _read(self, request: Request) -> tuple[Problem | None, Any]:
        if request.method != "POST" or request.path.partition("?")[0] != self.path:
            msg = f"{self.name} serves POST {self.path}, got {request.method} {request.path}"
            raise AssertionError(msg)
        if (problem := self.refuse_headers(request)) is not None:
            return problem, None
        try:
            body = parsed(request.body)
        except ValueError as exc:
            return self.unreadable(str(exc)), request.body
        return (None, body) if isinstance(body, dict) else (self.unreadable("it is no object"), body)

    def _streamed(self, answer: Answer, events: list[str]) -> Reply:
        if answer.is_whole:
            return sse(*events)
        events = events[: min(answer.fault_at, len(events) - self.tail)]
        if answer.fault == "in-band":
            return sse(*events, self.in_band_error())
        if answer.fault == "broken":
            return sse(*events, breaks_off=True)
        self.hangs = True
        return sse(*events, anyio.Event())


def _json_reply(status: int, body: object) -> Reply:
    headers = {"content-type": "application/json", "x-request-id": "req_strict"}
    if status == 429:
        headers["retry-after"] = "0"
    return Reply(json.dumps(body).encode(), status=status, headers=headers)

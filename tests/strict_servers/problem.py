"""A refusal, and what all three servers refuse alike: bodies that are no JSON, and texts that are no text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

NAME = r"^[a-zA-Z0-9_-]+$"
"""What OpenAI's servers say that names of functions and formats have to match."""

Path: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """A refusal: its status and its JSON body."""

    status: int
    body: Mapping[str, Any]

    @property
    def message(self) -> str:
        return str(self.body["error"]["message"])


class Refused(Exception):  # noqa: N818 -- it is no error of the server's
    """Raised by a rule; ``check`` returns its problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def openai_problem(message: str, *, param: str | None = None, code: str | None = None, status: int = 400) -> Problem:
    """Return a refusal in OpenAI's form."""
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return Problem(status, {"error": error})


def anthropic_problem(message: str, *, kind: str = "invalid_request_error", status: int = 400) -> Problem:
    """Return a refusal in Anthropic's form."""
    return Problem(status, {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_strict"})


def refuse_openai(message: str, *, param: str | None = None, code: str | None = None, status: int = 400) -> NoReturn:
    raise Refused(openai_problem(message, param=param, code=code, status=status))


def refuse_anthropic(message: str, *, kind: str = "invalid_request_error", status: int = 400) -> NoReturn:
    raise Refused(anthropic_problem(message, kind=kind, status=status))


def problem_of(check: Callable[[], None]) -> Problem | None:
    """Run the rules and return what one of them refuses."""
    try:
        check()
    except Refused as refused:
        return refused.problem
    return None


def parsed(body: bytes) -> Any:
    """Return the JSON value that a body holds.

    Raises:
        ValueError: it is none, in the words of the parser.
    """

    def no_constant(name: str) -> NoReturn:
        msg = f"unexpected character: {name}"
        raise ValueError(msg)

    return json.loads(body.decode("utf-8"), parse_constant=no_constant)


def texts(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield every text of a JSON value with where it stands, keys included."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key), key
            yield from texts(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from texts(item, (*path, index))


_LONE = re.compile("[\ud800-\udfff]")


def unfit_text(body: Any) -> str | None:
    """Return what is wrong with a text of the body: a lone surrogate, or a NUL.

    Sources: the parser of the Messages API refuses a lone ``\\ud83d`` (anthropics/claude-code #1709, #3277, opencode
    #13985); a NUL in a tool's output kills a conversation for good (anthropics/claude-code #94055).
    """
    for _, text in texts(body):
        if _LONE.search(text):
            return "no low surrogate in string"
        if "\0" in text:
            return "unexpected end of data"
    return None


def dotted(path: Path) -> str:
    """Return a path as Anthropic writes it: ``messages.0.content``."""
    return ".".join(map(str, path))


def bracketed(path: Path) -> str:
    """Return a path as OpenAI writes it: ``messages[0].content``."""
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path).removeprefix(".")

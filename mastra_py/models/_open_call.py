"""A tool call while its pieces arrive, and when its arguments are whole. Pure."""

from __future__ import annotations

import re
from typing import Any

from mastra_py.errors import StreamError
from mastra_py.models._json import read_object

MAX_ARGS_CHARS = 4 * 1024 * 1024
"""How much the arguments of one tool call may be."""

_OUTSIDE = re.compile(r'["{}\[\]]')
"""What counts outside of the texts of an object: where one begins, and how deep the object is."""

_IN_TEXT = re.compile(r'\\.|["\\]', re.DOTALL)
"""What counts within a text: its end, which an escaped quote is not. A backslash alone is the last of a piece."""

_ANYTHING = re.compile(r"\S")
"""What counts behind the end of the object: it is then none."""


class OpenCall:
    """A tool call while its deltas arrive."""

    __slots__ = (
        *("args", "ended", "given_id", "id", "is_blank", "metadata", "name"),
        *("_depth", "_escaped", "_in_text", "_is_over", "_read", "_scanned", "_size"),
    )

    def __init__(self, given_id: str | None, metadata: dict[str, Any] | None) -> None:
        self.given_id = given_id
        self.metadata = metadata
        self.id = ""  # chosen when the call is announced, which takes a name
        self.name = ""
        self.args: list[str] = []
        self.is_blank = True  # nothing but space has come of its arguments
        self.ended = False  # its input is over
        self._size = 0
        self._scanned = 0  # how many pieces have been looked at for the end of the object
        self._depth = 0
        self._in_text = False
        self._escaped = False  # a piece has ended between a backslash and what it escapes
        self._is_over = False
        self._read: dict[str, Any] | None = None

    def add(self, args: str) -> None:
        """Add a piece of the arguments.

        Raises:
            StreamError: they are too long.
        """
        self.args.append(args)
        self.is_blank = self.is_blank and not args.strip()
        self._size += len(args)
        if self._size > MAX_ARGS_CHARS:
            msg = f"the arguments of tool call {self.name!r} are longer than {MAX_ARGS_CHARS} characters"
            raise StreamError(msg, retryable=False)

    def read_args(self) -> dict[str, Any] | None:
        """Return the arguments where they are a whole JSON object.

        They are parsed once: some servers make it a question with every piece, and arguments may be long.
        """
        while self._scanned < len(self.args):
            piece = self.args[self._scanned]
            self._scanned += 1
            if self._scan(piece):
                self._read = read_object("".join(self.args[: self._scanned]))
        return self._read

    def _scan(self, piece: str) -> bool:
        """Look for the end of the object; return whether it is in this piece, with nothing but space behind it."""
        was_over = self._is_over
        at = 1 if self._escaped and piece else 0
        self._escaped = self._escaped and not piece
        while True:
            pattern = _ANYTHING if self._is_over else _IN_TEXT if self._in_text else _OUTSIDE
            found = pattern.search(piece, at)
            if found is None:
                return self._is_over and not was_over
            if self._is_over:  # what goes on is no object
                self._read = None
                return False
            at = found.end()
            mark = found[0]
            if mark == '"':
                self._in_text = not self._in_text
            elif mark in ("{", "["):
                self._depth += 1
            elif mark in ("}", "]"):
                self._depth -= 1
                self._is_over = self._depth <= 0
            else:
                self._escaped = mark == "\\"

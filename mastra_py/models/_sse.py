"""Server-sent events, cut out of bytes as they arrive. Pure: no I/O and no JSON.

Lines end at CR, LF or CRLF and nowhere else: a U+2028 inside a JSON string is no line end.
"""

from __future__ import annotations

from io import BytesIO
from typing import TypeAlias

from mastra_py.errors import StreamError

SSEEvent: TypeAlias = tuple[str | None, bytes]
"""The name of an event, ``None`` where it has none, and its data. A plain tuple, as there is one a delta."""

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""How large an event may be."""

BOM = b"\xef\xbb\xbf"
"""What some servers write before the first event: the mark of UTF-8."""

_LF = 0x0A
_LARGE = 64 * 1024  # bytes of an event from which on its lines are read one after another


class SSESplitter:
    """Cuts a stream of bytes into events, wherever the network has cut it.

    ``max_event_bytes`` bounds what is held of an event that has not ended yet.
    """

    __slots__ = ("_after_cr", "_at_start", "_held", "_max")

    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max = max_event_bytes
        self._held = bytearray()  # of the event that has not ended yet; a list of small pieces would be many times that
        self._after_cr = False
        self._at_start = True

    def feed(self, data: bytes) -> list[SSEEvent]:
        """Return the events that ``data`` completes.

        Raises:
            StreamError: an event is larger than the limit.
        """
        if self._after_cr or b"\r" in data:
            data = self._with_lf_only(data)
        if b"\n\n" not in data and not (self._held and data[:1] == b"\n" and self._held[-1] == _LF):
            if data:
                self._hold(data)
            return []
        blocks = self._take(data).split(b"\n\n")
        if rest := blocks.pop():
            self._hold(rest)
        return _parse_all(blocks)

    def close(self) -> list[SSEEvent]:
        """Return the last event where the stream ended without a blank line after it."""
        return _parse_all([self._take(b"")])

    def _with_lf_only(self, data: bytes) -> bytes:
        # A CR at the end of a piece ends its line at once; an LF that the next piece begins with belongs to it.
        if self._after_cr and data:
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if data:
            self._after_cr = data[-1:] == b"\r"
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _hold(self, data: bytes) -> None:
        self._held += data
        if len(self._held) > self._max:
            msg = f"an event of the reply is larger than {self._max} bytes"
            raise StreamError(msg, retryable=False)

    def _take(self, data: bytes) -> bytes:
        if self._held:
            self._held += data
            data = bytes(self._held)
            self._held = bytearray()
        if self._at_start:
            self._at_start = False
            data = data.removeprefix(BOM)
        return data


def _parse_all(blocks: list[bytes]) -> list[SSEEvent]:
    events: list[SSEEvent] = []
    for block in blocks:
        if block[:6] == b"data: " and b"\n" not in block:  # nearly every event of a chat completion
            events.append((None, block[6:]))
        elif (event := _parse(block)) is not None:
            events.append(event)
    return events


def _parse(block: bytes) -> SSEEvent | None:
    name: str | None = None
    data: list[bytes] = []
    # Millions of lines are a list many times the size of the event.
    lines = block.split(b"\n") if len(block) < _LARGE else (line.removesuffix(b"\n") for line in BytesIO(block))
    for line in lines:
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ").decode("utf-8", "replace") or None
    return (name, b"\n".join(data)) if data else None

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mastra_py.errors import StreamError
from mastra_py.models._sse import SSEEvent, SSESplitter


def split(*pieces: bytes) -> list[SSEEvent]:
    """Return the events of a stream that arrives in these pieces and then ends."""
    splitter = SSESplitter()
    return [*(event for piece in pieces for event in splitter.feed(piece)), *splitter.close()]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        pytest.param(b'data: {"a":1}\n\ndata: [DONE]\n\n', [(None, b'{"a":1}'), (None, b"[DONE]")], id="plain"),
        pytest.param(b"data: a\r\n\r\ndata: b\r\n\r\n", [(None, b"a"), (None, b"b")], id="CRLF"),
        pytest.param(b"event: e\r\ndata: a\r\ndata: b\r\n\r\n", [("e", b"a\nb")], id="CRLF within an event"),
        pytest.param(b"data: a\r\rdata: b\r\r", [(None, b"a"), (None, b"b")], id="CR"),
        pytest.param(b"data: a\r\n\ndata: b\n\r\n", [(None, b"a"), (None, b"b")], id="mixed line ends"),
        pytest.param(b"data:a\n\ndata:  b\n\n", [(None, b"a"), (None, b" b")], id="only one space is left out"),
        pytest.param(b"data: a\ndata: b\n\n", [(None, b"a\nb")], id="several lines of data"),
        pytest.param(b"event: ping\ndata: {}\n\n", [("ping", b"{}")], id="a name before the data"),
        pytest.param(b"data: {}\nevent: ping\n\ndata: x\n\n", [("ping", b"{}"), (None, b"x")], id="a name after it"),
        pytest.param(b"event:\ndata: a\n\n", [(None, b"a")], id="an empty name is none"),
        pytest.param(b": hello\n\n:\ndata: a\n: x\n\n", [(None, b"a")], id="comments"),
        pytest.param(b"id: 7\nretry: 10\nfoo: bar\ndata: a\n\n", [(None, b"a")], id="fields of no use"),
        pytest.param(b"event: ping\n\nid: 1\n\n", [], id="no data, no event"),
        pytest.param(b"data\n\ndata:\n\n", [(None, b""), (None, b"")], id="empty data"),
        pytest.param(b"\xef\xbb\xbfdata: a\n\n", [(None, b"a")], id="byte order mark"),
        pytest.param(b"data: \xef\xbb\xbfa\n\n", [(None, b"\xef\xbb\xbfa")], id="no byte order mark inside"),
        pytest.param(b"\n\n\n\ndata: a\n\n\n\n\ndata: b\n\n", [(None, b"a"), (None, b"b")], id="more blank lines"),
        pytest.param(b"data: a\n\ndata: b\n", [(None, b"a"), (None, b"b")], id="no blank line at the end"),
        pytest.param(b"data: a\n\ndata: b", [(None, b"a"), (None, b"b")], id="no line end at the end"),
        pytest.param(b"", [], id="nothing"),
        pytest.param(
            "data: a\u2028b\u2029c\u0085d\x0be\x0cf\n\n".encode(),
            [(None, "a\u2028b\u2029c\u0085d\x0be\x0cf".encode())],
            id="A13: no other line ends",
        ),
    ],
)
def test_a_stream_is_split_the_same_wherever_it_is_cut(stream: bytes, events: list[SSEEvent]) -> None:
    assert split(stream) == events
    assert split(*(stream[i : i + 1] for i in range(len(stream)))) == events
    for cut in range(len(stream)):
        assert split(stream[:cut], stream[cut:]) == events


LINES = st.sampled_from(
    [b"data: a", b"data:b", b"event: e", b": c", b"", b"\xef\xbb\xbfdata: d", b"data: \xe2\x80\xa8"]
)
ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])


@given(lines=st.lists(st.tuples(LINES, ENDS), max_size=12), cuts=st.lists(st.integers(0, 99), max_size=4))
def test_cuts_never_matter(lines: list[tuple[bytes, bytes]], cuts: list[int]) -> None:
    stream = b"".join(line + end for line, end in lines)
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[start:end] for start, end in pairwise(places)]
    assert split(*pieces) == split(stream)


def test_an_event_comes_as_soon_as_it_is_whole() -> None:
    splitter = SSESplitter()
    assert splitter.feed(b"data: a\n") == []
    assert splitter.feed(b"\n") == [(None, b"a")]
    assert splitter.feed(b"data: b\r\n\r") == [(None, b"b")]
    assert splitter.feed(b"\ndata: c\n\n") == [(None, b"c")]


def test_an_event_beyond_the_limit_is_an_error_that_names_it() -> None:
    splitter = SSESplitter(max_event_bytes=20)
    assert splitter.feed(b"data: 0123456789\n\ndata: 012345") == [(None, b"0123456789")]
    assert splitter.feed(b"67890\n\n") == [(None, b"01234567890")]
    with pytest.raises(StreamError, match="larger than 20 bytes") as caught:
        for _ in range(4):
            splitter.feed(b"data: ")
    assert caught.value.retryable is False


def test_an_event_of_very_many_lines_is_read_without_a_list_of_them() -> None:
    lines = 500_000
    stream = b": c\nevent: e\n" + b"data: a\n" * 3 + b"x\n" * lines + b"data: b\n\n"
    tracemalloc.start()
    assert split(stream) == [("e", b"a\na\na\nb")]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * len(stream)


def test_an_event_in_very_many_pieces_takes_no_more_room_than_its_bytes() -> None:
    splitter = SSESplitter()
    tracemalloc.start()
    for _ in range(200_000):
        assert splitter.feed(b"xy") == []
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * 400_000

"""How long a provider asks to wait, read from its response headers."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mastra_py._retry_after import parse_retry_after

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"content-type": "text/plain"}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "007"}, 7.0),
        ({"Retry-After": " 3 "}, 3.0),
        ({"RETRY-AFTER": "\t3\r\n"}, 3.0),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"Retry-After-Ms": " 250 "}, 0.25),
        ({"retry-after-ms": "0", "retry-after": "9"}, 0.0),
        ({"retry-after": "9", "retry-after-ms": "20"}, 0.02),
    ],
)
def test_seconds_and_milliseconds_are_read_in_any_case_and_milliseconds_win(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert parse_retry_after(headers, NOW) == seconds


@pytest.mark.parametrize(
    "text",
    ["", " ", "-2", "+2", "1.5", ".5", "1e3", "1,5", "1 2", "0x10", "soon", "NaN", "Infinity", "٣", "²", "7s", "7\n8"],
)
def test_a_value_that_is_no_whole_number_counts_as_absent(text: str) -> None:
    assert parse_retry_after({"retry-after": text}, NOW) is None
    assert parse_retry_after({"retry-after-ms": text}, NOW) is None
    assert parse_retry_after({"retry-after-ms": text, "retry-after": "9"}, NOW) == 9.0


@pytest.mark.parametrize(
    ("date", "seconds"),
    [
        ("Thu, 01 Jan 2026 12:00:05 GMT", 5.0),
        ("Thursday, 01-Jan-26 12:00:05 GMT", 5.0),
        ("Thu Jan  1 12:00:05 2026", 5.0),
        ("  Thu, 01 Jan 2026 12:00:05 GMT  ", 5.0),
        ("Thu, 01 Jan 2026 13:00:05 +0100", 5.0),
        ("Fri, 02 Jan 2026 12:00:00 GMT", 86_400.0),
        ("Thu, 01 Jan 2026 12:00:00 GMT", None),
        ("Thu, 01 Jan 2026 11:59:59 GMT", None),
        ("Sun, 06 Nov 1994 08:49:37 GMT", None),
        ("Thu, 41 Jan 2026 12:00:05 GMT", None),
        ("Thu, 01 Jan 2026 99:00:05 GMT", None),
        ("Thu, 01 Jan 2026", None),
        ("Thu, 01 Jan 2026 12:00:05 +" + "9" * 40, None),
    ],
)
def test_a26_an_http_date_counts_against_the_moment_of_receipt_and_a_past_one_not_at_all(
    date: str, seconds: float | None
) -> None:
    assert parse_retry_after({"retry-after": date}, NOW) == seconds


@pytest.mark.parametrize(
    "received_at",
    [NOW, NOW.replace(tzinfo=None), NOW.astimezone(timezone(timedelta(hours=9)))],
    ids=["utc", "without a zone", "another zone"],
)
def test_the_moment_of_receipt_may_be_in_any_zone(received_at: datetime) -> None:
    assert parse_retry_after({"retry-after": "Thu, 01 Jan 2026 12:00:05 GMT"}, received_at) == 5.0


@pytest.mark.parametrize("name", ["retry-after", "retry-after-ms"])
@pytest.mark.parametrize(("digits", "is_read"), [(18, True), (300, True), (400, False), (5_000, False)])
def test_a_huge_number_is_finite_or_counts_as_absent(name: str, digits: int, is_read: bool) -> None:
    wait = parse_retry_after({name: "9" * digits}, NOW)

    assert (wait is not None and math.isfinite(wait)) == is_read


_FRAGMENTS = st.sampled_from(
    ["Thu", "Jan", ",", ":", "-", "+", " ", "1", "99", "2026", "00:00:05", "GMT", "+9999", "PM", ".", "٣", "\x00"]
)


@given(text=st.one_of(st.text(), st.lists(_FRAGMENTS, max_size=9).map("".join)), name=st.sampled_from(["", "-ms"]))
def test_no_value_raises_or_gives_a_wait_that_cannot_be_waited(text: str, name: str) -> None:
    wait = parse_retry_after({f"retry-after{name}": text}, NOW)

    assert wait is None or (math.isfinite(wait) and wait >= 0)

"""How long a provider asks to wait: the ``Retry-After`` and ``retry-after-ms`` response headers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_DIGITS = re.compile("[0-9]+")


def parse_retry_after(headers: Mapping[str, str], received_at: datetime) -> float | None:
    """Return the seconds that ``headers`` ask to wait, or ``None`` where they do not say.

    ``retry-after-ms``, a whole number of milliseconds, goes before ``retry-after``, which is a whole number of seconds
    or an HTTP date later than ``received_at`` (taken as UTC where it names no time zone). Anything else, such as a
    sign, a fraction, a date that has passed or a number beyond all bounds, counts as absent. The names match in any
    case; the answer is finite and not negative.
    """
    values = {name.lower(): value.strip() for name, value in headers.items()}
    millis = _whole_number(values.get("retry-after-ms", ""))
    if millis is not None:
        return millis / 1000
    text = values.get("retry-after", "")
    seconds = _whole_number(text)
    return _seconds_until(text, received_at) if seconds is None else seconds


def _whole_number(text: str) -> float | None:
    if _DIGITS.fullmatch(text) is None:
        return None
    number = float(text)  # int() refuses more than 4,300 digits, float() makes them infinite
    return number if math.isfinite(number) else None


def _seconds_until(text: str, received_at: datetime) -> float | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    seconds = (_aware(date) - _aware(received_at)).total_seconds()
    return seconds if seconds > 0 else None


def _aware(date: datetime) -> datetime:
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)

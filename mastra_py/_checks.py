"""Numbers that users give, checked in one way, with one wording."""

from __future__ import annotations

import sys
from typing import TypeGuard

from mastra_py.errors import UserError


def whole_number(value: object, where: str, *, least: int) -> int:
    """Return ``value``, a whole number from ``least``; anything else is a :class:`UserError`."""
    if type(value) is not int or value < least:
        msg = f"{where} must be a whole number from {least}, got {value!r}"
        raise UserError(msg)
    return value


def is_number(value: object) -> TypeGuard[float]:
    """Return whether ``value`` is a finite number; a bool is none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max

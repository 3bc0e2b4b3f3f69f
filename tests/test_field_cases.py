"""That each case from the field has a test which is named after it."""

from __future__ import annotations

import re
from pathlib import Path

CASES = {f"a{number:02}" for number in range(1, 53)}

WAITING = {"a47", "a48"}
"""They are about supervisors, which the package does not have yet."""


def test_each_case_has_a_test_that_is_named_after_it() -> None:
    found: set[str] = set()
    for file in Path(__file__).parent.glob("test_field_cases_*.py"):
        found |= set(re.findall(r"^(?:async )?def test_(a\d\d)_\w+\(", file.read_text(encoding="utf-8"), re.MULTILINE))
    assert found == CASES - WAITING

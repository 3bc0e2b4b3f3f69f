"""That each case from the field has a test which is named after it."""

from __future__ import annotations

import re
from pathlib import Path

CASES = {f"a{number:02}" for number in range(1, 53)}

SUPERVISORS = {"a37", "a46", "a47", "a48"}
"""They are about supervisors, the first two of them among others."""


def test_each_case_has_a_test_that_is_named_after_it() -> None:
    found: set[str] = set()
    for file in Path(__file__).parent.glob("test_field_cases_*.py"):
        found |= set(re.findall(r"^(?:async )?def test_(a\d\d)_\w+\(", file.read_text(encoding="utf-8"), re.MULTILINE))
    assert found == CASES


def test_each_case_about_supervisors_has_one_with_a_supervisor() -> None:
    text = Path(__file__).with_name("test_field_cases_supervisors.py").read_text(encoding="utf-8")
    assert set(re.findall(r"^async def test_(a\d\d)_", text, re.MULTILINE)) == SUPERVISORS

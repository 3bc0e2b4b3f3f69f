"""A rubric: the criteria that an output is graded against, and the verdict on it."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from mastra_py._jsonable import clean_text
from mastra_py.errors import UserError
from mastra_py.scoring import CriterionVerdict, gating_criteria


@dataclass(frozen=True, slots=True)
class RubricCriterion:
    """One criterion of a rubric.

    Attributes:
        description: what the output has to do or have.
        required: whether the output is only accepted if it meets it (``None`` counts as ``True``). Optional ones are
            graded and reported; where no criterion of a rubric is required, all of them decide.
        id: identifies it in verdicts; its position in the rubric (``"1"``, ``"2"``, ...) unless given. What
            cannot be sent in it is replaced, and its accents are composed (NFC).

    Raises:
        UserError: the description is blank, or a field is of a wrong type.
    """

    description: str
    required: bool = True
    id: str | None = None

    def __post_init__(self) -> None:
        description, required, own_id = cast("tuple[object, ...]", (self.description, self.required, self.id))
        if not isinstance(description, str) or not description.strip(WHITE_SPACE):
            msg = f"a criterion needs a description, a text that is not blank; got {description!r}"
            raise UserError(msg)
        if required is None:
            object.__setattr__(self, "required", True)
        elif not isinstance(required, bool):
            msg = f"criterion {description!r}: required must be True, False or None, got {required!r}"
            raise UserError(msg)
        if own_id is not None and not (isinstance(own_id, str) and own_id.strip()):
            msg = f"criterion {description!r}: id must be a text that is not blank, or None; got {own_id!r}"
            raise UserError(msg)
        if own_id is not None:
            object.__setattr__(self, "id", plain(own_id))


def plain(text: str) -> str:
    """Return ``text`` as a judge can be told it and is sure to repeat it: fit to be sent, accents composed (NFC)."""
    return unicodedata.normalize("NFC", clean_text(text))


RubricLike: TypeAlias = str | Sequence[RubricCriterion | Mapping[str, Any] | str]
"""A checklist in one text, one criterion a line; or a list of criteria, each a :class:`RubricCriterion`, a dict of its
fields, or its description."""


@dataclass(frozen=True, slots=True)
class RubricVerdict:
    """The verdict on an output: on each criterion, in the order of the rubric, and on the whole.

    It is the result of a rubric scorer's ``analyze`` step. Without criteria there was no rubric, and it is passed.
    """

    criteria: tuple[CriterionVerdict, ...] = ()
    assessment: str = ""

    @property
    def passed(self) -> bool:
        """Whether every criterion that decides is met."""
        return not self.unmet

    @property
    def unmet(self) -> tuple[CriterionVerdict, ...]:
        """The criteria that decide and are not met: required ones, or any where none is required."""
        return tuple([c for c in gating_criteria(self.criteria) if not c.satisfied])


WHITE_SPACE = "\t\n\v\f\r \xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(map(chr, range(0x2000, 0x200B)))
"""White space as JavaScript has it, so that a rubric means the same there and here. ``str.strip()`` leaves the byte
order mark and takes U+0085 and U+001C to U+001F away."""

_MARKER = re.compile(rf"(?:[-*•]|[0-9]+[.)])(?:[{WHITE_SPACE}]+|\Z)")
_CHECKBOX = re.compile(rf"\[[ xX]\](?:[{WHITE_SPACE}]+|\Z)")
_SHOWN_CHARS = 200
_FIELDS = ("description", "required", "id")


def parse_rubric(rubric: RubricLike) -> tuple[RubricCriterion, ...]:
    r"""Read a rubric.

    A text is a checklist with one required criterion a line. Of a line one list marker (``-``, ``*``, ``•``, ``1.``,
    ``1)``) is stripped, and after a marker one checkbox (``[ ]``, ``[x]``); each only where white space follows, so
    that ``-5 degrees``, ``3.14`` and ``**Must**`` stay whole. Blank lines are left out.

    In a list, descriptions are taken as they are.

    Example::

        parse_rubric("- All tests pass\n- [ ] The function is named find_duplicates")
        parse_rubric(["Has an analysis", {"description": "Cites its sources", "required": False}])

    Raises:
        UserError: it is neither a text nor a list, something in it is no criterion, or two have the same ``id``.
    """
    return read_rubric(rubric, "rubric")


def read_rubric(rubric: object, where: str) -> tuple[RubricCriterion, ...]:
    """Read a rubric that comes from ``where``; as :func:`parse_rubric`."""
    if isinstance(rubric, str):
        lines = [_without_marker(line) for line in rubric.split("\n")]
        return tuple([RubricCriterion(line) for line in lines if line])
    found = _shown(rubric)
    if not isinstance(rubric, Sequence) or isinstance(rubric, bytes | bytearray | memoryview | range):
        msg = f"{where} must be a text with one criterion a line, or a list of criteria; got {found}"
        raise UserError(msg)
    items = cast("Sequence[object]", rubric)
    criteria = tuple([_read_criterion(item, f"{where}[{i}]") for i, item in enumerate(items)])
    seen: set[str] = set()
    for criterion in criteria:
        if criterion.id is not None:
            if criterion.id.strip() in seen:
                msg = f"{where}: two criteria have the id {criterion.id!r}; give each its own, or none"
                raise UserError(msg)
            seen.add(criterion.id.strip())
    return criteria


def with_ids(criteria: Sequence[RubricCriterion]) -> tuple[RubricCriterion, ...]:
    """Return the criteria, each with an id: its own, or its position, or where another one has that, the next free."""
    taken = {c.id.strip() for c in criteria if c.id is not None}
    named: list[RubricCriterion] = []
    for position, criterion in enumerate(criteria, 1):
        if criterion.id is None:
            free = next(n for n in map(str, itertools.count(position)) if n not in taken)
            taken.add(free)
            criterion = RubricCriterion(criterion.description, criterion.required, free)  # noqa: PLW2901 -- now named
        named.append(criterion)
    return tuple(named)


def _without_marker(line: str) -> str:
    line = line.strip(WHITE_SPACE)
    marker = _MARKER.match(line)
    if marker is None:
        return line
    line = line[marker.end() :]
    checkbox = _CHECKBOX.match(line)
    return line if checkbox is None else line[checkbox.end() :]


def _shown(value: object) -> str:
    text = repr(value)
    return f"{type(value).__name__}: {text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + '...'}"


def _read_criterion(item: object, where: str) -> RubricCriterion:
    if isinstance(item, RubricCriterion):
        return item
    if isinstance(item, str):
        fields: Mapping[str, Any] = {"description": item}
    elif isinstance(item, Mapping):
        fields = cast("Mapping[str, Any]", item)
    else:
        found = _shown(item)
        msg = f"{where} is no criterion: give a RubricCriterion, a dict of its fields, or a text; got {found}"
        raise UserError(msg)
    if unknown := [repr(name) for name in fields if name not in _FIELDS]:
        msg = f"{where} has unknown fields: {', '.join(unknown)}; a criterion has {', '.join(_FIELDS)}"
        raise UserError(msg)
    try:
        return RubricCriterion(fields.get("description", ""), fields.get("required", True), fields.get("id"))
    except UserError as exc:
        msg = f"{where}: {exc}"
        raise UserError(msg) from exc

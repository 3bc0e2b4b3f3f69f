"""Reading what a judge replies about a rubric: no model is asked here.

The list of criteria, and which of them are required, are the caller's. Of a reply only verdicts count: on a criterion
that the rubric has, clear ones, and not two that contradict each other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from mastra_py._jsonable import clean_text
from mastra_py._output import OutputFormat
from mastra_py._reply_json import Unusable, read_json_reply
from mastra_py.scorers.criteria import RubricCriterion, RubricVerdict, plain
from mastra_py.scoring import CriterionVerdict

NO_VERDICT = "no verdict"
"""The reasoning of a criterion that the judge gave no clear verdict on: it counts as unmet."""


def rubric_format(ids: Iterable[str]) -> OutputFormat:
    """Return the form of a judge's reply on the criteria ``ids``.

    Providers compile a schema when they first see it; with numbers as ids, as criteria without an id of their own have,
    all rubrics of a length share one.
    """
    known = list(ids)
    verdict = {
        "type": "object",
        # In this order: a model that reasons before it decides decides better.
        "properties": {
            "id": {"type": "string", "enum": known},
            "reasoning": {"type": "string"},
            "satisfied": {"type": "boolean"},
        },
        "required": ["id", "reasoning", "satisfied"],
        "additionalProperties": False,
    }
    reply = {
        "type": "object",
        "properties": {
            "criteria": {"type": "array", "items": verdict, "minItems": len(known), "maxItems": len(known)},
            "overall_assessment": {"type": "string"},
        },
        "required": ["criteria", "overall_assessment"],
        "additionalProperties": False,
    }
    return OutputFormat("rubric_verdicts", reply)


_ONE_OR_ZERO = re.compile(r"([01])(?:\.0+)?")
_SHOWN_CHARS = 60
_SHOWN_PROBLEMS = 10


@dataclass(frozen=True, slots=True)
class _Finding:
    """What a reply says about a criterion; without a reasoning it is only taken if no better one comes."""

    satisfied: bool
    reasoning: str | None


class RubricReader:
    """Reads the reply about one rubric and, where that leaves something open, the one to a re-ask.

    The verdicts of the first reply are kept. What the judge says twice has to agree, unless it gave its reasoning only
    the second time.
    """

    def __init__(self, criteria: Sequence[RubricCriterion]) -> None:
        """Read verdicts on these criteria; each has an id."""
        self._criteria = {cast("str", c.id).strip(): c for c in criteria}
        self._ids_by_text: dict[str, list[str]] = {}
        for own_id, criterion in self._criteria.items():
            self._ids_by_text.setdefault(_folded(criterion.description), []).append(own_id)
        # None: there was no clear verdict, because it was malformed or contradicted another one.
        self._findings: dict[str, _Finding | None] = {}
        self._assessment = ""

    def __call__(self, text: str, *, last: bool) -> RubricVerdict:
        """Return the verdict. What is missing in the ``last`` reply is unmet.

        Raises:
            Unusable: a verdict is missing or malformed; in the last reply only if not one is there.
        """
        if not last:
            self._findings.clear()
        try:
            problems = self._take(text)
        except Unusable as exc:
            problems = [str(exc)]
        open_ids = [own_id for own_id in self._criteria if self._findings.get(own_id) is None]
        if last:
            if len(open_ids) == len(self._criteria):
                msg = "; ".join([*problems[:_SHOWN_PROBLEMS], "it has no clear verdict on any criterion"])
                raise Unusable(msg)
        elif problems or open_ids:
            raise Unusable("; ".join([*problems[:_SHOWN_PROBLEMS], *self._asked_for(open_ids)]))
        return RubricVerdict(tuple([self._verdict(own_id) for own_id in self._criteria]), self._assessment)

    def _asked_for(self, open_ids: Sequence[str]) -> Iterator[str]:
        if open_ids:
            yield f"verdicts are missing on {_listed(open_ids)}"
        if len(open_ids) < len(self._criteria):
            yield "the other verdicts are kept"

    def _take(self, text: str) -> list[str]:
        """Take in what a reply says, and return what is wrong with it."""
        reply = _read_reply(text)
        self._assessment = _assessment(reply) or self._assessment
        problems: list[str] = []
        told: dict[str, list[_Finding | None]] = {}
        for index, entry in enumerate(reply["criteria"]):
            if not isinstance(entry, dict):
                problems.append(f"criteria[{index}] has to be an object")
                continue
            fields = cast("dict[str, Any]", entry)
            if ids := self._named_by(fields):
                finding, complaints = _read_finding(fields)
                problems += [f"{_listed(ids)}: {complaint}" for complaint in complaints]
                for own_id in ids:
                    told.setdefault(own_id, []).append(finding)
        for own_id, findings in told.items():
            finding = _agreed(findings)
            if finding is None and None not in findings:
                problems.append(f"{_listed([own_id])}: its verdicts contradict each other")
            had = self._findings.get(own_id)
            self._findings[own_id] = finding if had is None or had.reasoning is None else _agreed([had, finding])
        return problems

    def _named_by(self, entry: Mapping[str, Any]) -> Sequence[str]:
        """Return the ids of the criteria that an entry of the reply is about: none where it made one up."""
        own_id: object = entry.get("id")
        if own_id is None:
            text: object = entry.get("criterion")
            return self._ids_by_text.get(_folded(text), ()) if isinstance(text, str) else ()
        if isinstance(own_id, int) and not isinstance(own_id, bool):
            own_id = str(own_id)
        own_id = plain(own_id).strip() if isinstance(own_id, str) else None
        return (own_id,) if own_id in self._criteria else ()

    def _verdict(self, own_id: str) -> CriterionVerdict:
        criterion, finding = self._criteria[own_id], self._findings.get(own_id)
        return CriterionVerdict(
            id=cast("str", criterion.id),
            description=criterion.description,
            required=criterion.required,
            satisfied=finding is not None and finding.satisfied,
            reasoning=NO_VERDICT if finding is None else finding.reasoning,
        )


def _read_reply(text: str) -> dict[str, Any]:
    _, source = read_json_reply(text)
    try:
        value = _DECODER.decode(source)
    except RecursionError:
        value = None
    if not isinstance(value, dict) or not isinstance(cast("dict[str, Any]", value).get("criteria"), list):
        msg = 'it has to be a JSON object with a list under "criteria"'
        raise Unusable(msg)
    return cast("dict[str, Any]", value)


def _assessment(reply: Mapping[str, Any]) -> str:
    for key in ("overall_assessment", "overallAssessment"):
        value = reply.get(key)
        if isinstance(value, str) and value.strip():
            return clean_text(value).strip()
    return ""


def _read_finding(entry: Mapping[str, Any]) -> tuple[_Finding | None, list[str]]:
    """Return what an entry says, ``None`` where its verdict is unclear, and what is wrong with it."""
    satisfied, reasoning = _read_satisfied(entry.get("satisfied")), entry.get("reasoning")
    if satisfied is None:
        return None, [f"satisfied has to be true or false{_instead(entry)}"]
    if not isinstance(reasoning, str):
        return _Finding(satisfied, None), ["its reasoning is missing"]
    return _Finding(satisfied, clean_text(reasoning).strip()), []


def _read_satisfied(value: object) -> bool | None:
    """Read what means true or false without a doubt; ``None`` for anything else."""
    if isinstance(value, str):
        value = value.strip().lower()
        if value in {"true", "false"}:
            return value == "true"
        number = _ONE_OR_ZERO.fullmatch(value)
        return None if number is None else number[1] == "1"
    return bool(value) if isinstance(value, bool | int | float) and value in {0, 1} else None


def _instead(entry: Mapping[str, Any]) -> str:
    if "satisfied" not in entry:
        return ", and is missing"
    value = entry["satisfied"]
    return f", not {json.dumps(value, default=repr)[:_SHOWN_CHARS]}"


def _agreed(findings: Sequence[_Finding | None]) -> _Finding | None:
    """Return what several verdicts on a criterion say, if all are clear and say the same."""
    clear = [f for f in findings if f is not None]
    if len(clear) < len(findings) or len({f.satisfied for f in clear}) != 1:
        return None
    return next((f for f in clear if f.reasoning is not None), clear[0])


def _folded(text: str) -> str:
    return plain(text).strip().casefold()


def _listed(ids: Iterable[str]) -> str:
    return ", ".join([json.dumps(own_id, ensure_ascii=False) for own_id in ids])


class _Contradiction:
    """Stands for the value of a key that an object has twice, with different values."""

    def __repr__(self) -> str:
        return "two different values"


_CONTRADICTION: Any = _Contradiction()


def _read_object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for key, item in pairs:
        value[key] = item if key not in value or value[key] == item else _CONTRADICTION
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_read_object)

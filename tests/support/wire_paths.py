"""What a sidecar says about the JSON bodies of requests: where it looks, ``path``, and what must hold there, ``op``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal


class SidecarError(Exception):
    """A sidecar has something that the runner does not know, or lacks what it needs; the message says what."""


class _Missing:
    def __repr__(self) -> str:
        return "(missing)"


MISSING: Any = _Missing()
"""What is at a path that leads nowhere."""


def same(one: Any, other: Any) -> bool:
    """Tell whether two JSON values are equal; unlike in Python, ``true`` is not ``1``."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


# --- paths


@dataclass(frozen=True, slots=True)
class _Step:
    """One step of a path; ``key`` and ``index`` lead to one value, ``all`` and ``filter`` to several."""

    kind: Literal["key", "role", "index", "all", "filter"]
    name: str = ""
    index: int = 0
    value: str = ""


_STEP = re.compile(
    r"""\[(?P<index>-?\d+)\]
      | \[(?P<all>\*)\]
      | \[\?(?P<field>[^=\[\]]+)=(?P<value>[^\[\]]*)\]
      | @(?P<role>\w+)
      | (?P<key>[^.\[\]@]+)""",
    re.VERBOSE,
)


@cache
def read_path(path: str) -> tuple[_Step, ...]:
    """Read a path; one that is not understood is a :class:`SidecarError`."""
    steps: list[_Step] = []
    end = 0
    while end < len(path):
        dotted = bool(steps) and path[end] == "."
        step = _STEP.match(path, end + dotted)
        # A key follows a dot, a bracket does not, and a role is where a path begins.
        if step is None or (steps and (step["role"] or dotted != (step["key"] is not None))):
            break
        end = step.end()
        steps.append(_step(step))
    if not steps or end < len(path):
        msg = f"path {path!r} is not understood"
        raise SidecarError(msg)
    return tuple(steps)


def _step(found: re.Match[str]) -> _Step:
    if found["index"]:
        return _Step("index", index=int(found["index"]))
    if found["all"]:
        return _Step("all")
    if found["field"]:
        return _Step("filter", name=found["field"], value=found["value"].strip("\"'"))
    return _Step("role", name=found["role"]) if found["role"] else _Step("key", name=found["key"])


def find(body: Any, path: str, *, gaps: bool = False) -> Any:
    """Return what is at ``path``: a value, :data:`MISSING`, or a list where the path has ``[*]`` or ``[?key=value]``.

    Elements of such a list that lack a key are left out. With ``gaps`` those that a filter has chosen count as ``None``
    instead: it says which elements are meant.
    """
    steps = read_path(path)
    found = [body]
    for before, step in zip((None, *steps), steps, strict=False):
        keep = gaps and before is not None and before.kind == "filter" and step.kind == "key"
        found = [value for item in found for value in _follow(item, step) or ([None] if keep else [])]
    if is_plural(path):
        return found
    return found[0] if found else MISSING


def is_plural(path: str) -> bool:
    """Tell whether a path leads to a list of values."""
    return any(step.kind in {"all", "filter"} for step in read_path(path))


def _follow(item: Any, step: _Step) -> list[Any]:
    """Return what one step leads to from ``item``."""
    match step.kind:
        case "role":
            return [[message for message in _conversation(item) if _field(message, "role") == step.name]]
        case "key" if step.name == "messages" and _field(item, "messages") is MISSING:
            there = _field(item, "input")  # the same on OpenAI's Responses API
        case "key":
            there = _field(item, step.name)
        case "index":
            inside = isinstance(item, list) and -len(item) <= step.index < len(item)
            there = item[step.index] if inside else MISSING
        case "all":
            return item if isinstance(item, list) else []
        case "filter":
            return [e for e in item if _says(e, step.name, step.value)] if isinstance(item, list) else []
    return [] if there is MISSING else [there]


def _conversation(body: Any) -> list[Any]:
    for name in ("messages", "input"):
        messages = _field(body, name)
        if isinstance(messages, list):
            return messages
    return []


def _field(item: Any, name: str) -> Any:
    """Return the value of a key, which may be a dotted one."""
    for part in name.split("."):
        item = item.get(part, MISSING) if isinstance(item, dict) else MISSING
    return item


def _says(element: Any, name: str, wanted: str) -> bool:
    value = _field(element, name)
    return value == wanted if isinstance(value, str) else value is not MISSING and json.dumps(value) == wanted


# --- operations


def check_claim(claim: Any, where: str, keys: Sequence[str] = ("path", "op", "value")) -> None:
    """Check that ``{"path": ..., "op": ..., "value": ...}`` can be read; else it is a :class:`SidecarError`."""
    if not isinstance(claim, dict) or not {"path", "op"} <= claim.keys() <= set(keys):
        msg = f"{where} must have the keys {', '.join(keys)} and no others, got {claim!r}"
        raise SidecarError(msg)
    if not isinstance(claim["path"], str) or claim["op"] not in _OPS:
        msg = f"{where}: operation {claim['op']!r} at path {claim['path']!r} is not known"
        raise SidecarError(msg)
    read_path(claim["path"])
    if claim["op"] in _NEED_VALUE and "value" not in claim:
        msg = f"{where}: operation {claim['op']!r} needs a value"
        raise SidecarError(msg)
    if claim["op"] == "same_as":
        read_path(claim["value"])
    if claim["op"] in {"matches", "each_matches"}:
        _pattern(claim["value"], where)


def _pattern(value: Any, where: str) -> None:
    try:
        re.compile(value)
    except (re.error, TypeError) as exc:
        msg = f"{where}: {value!r} is no regular expression: {exc}"
        raise SidecarError(msg) from exc


@dataclass(frozen=True, slots=True)
class _Case:
    """A claim about a body, and what is at its path."""

    claim: dict[str, Any]
    body: Any
    found: Any

    @property
    def value(self) -> Any:
        return self.claim.get("value")

    @property
    def items(self) -> list[Any]:
        """What was found as a list."""
        if isinstance(self.found, list):
            return self.found
        return [] if self.found is MISSING else [self.found]


def holds(body: Any, claim: dict[str, Any]) -> bool:
    """Tell whether ``{"path": ..., "op": ..., "value": ...}`` holds for a request's body."""
    op = claim["op"]
    return _OPS[op](_Case(claim, body, find(body, claim["path"], gaps=op in {"all_truthy", "each_matches"})))


def _eq(case: _Case) -> bool:
    found, value = case.found, case.value
    if same(found, value) or (found is MISSING and value is None):
        return True
    if isinstance(value, list) and not isinstance(found, list):  # any of them
        return any(same(found, one) for one in value)
    alone = is_plural(case.claim["path"]) and len(case.items) == 1
    return alone and not isinstance(value, list) and same(found[0], value)


def _exists(case: _Case) -> bool:
    there = bool(case.found) if is_plural(case.claim["path"]) else case.found is not MISSING
    return there is (case.value is not False)


def _json(case: _Case) -> bool:
    try:
        values = [json.loads(item) for item in case.items]
    except (TypeError, ValueError):
        return False
    says_so = "value" not in case.claim or case.value is True
    return bool(values) and (says_so or all(same(value, case.value) for value in values))


def _matches(case: _Case) -> bool:
    items = case.items if is_plural(case.claim["path"]) else [case.found]
    texts = [
        item if isinstance(item, str) else json.dumps(item, ensure_ascii=False) for item in items if item is not MISSING
    ]
    return bool(texts) and all(re.search(case.value, text) for text in texts)


def _holds_element(case: _Case, value: Any) -> bool:
    if isinstance(case.found, str):
        return isinstance(value, str) and value in case.found
    return any(same(item, value) for item in case.items)


def _includes(case: _Case) -> bool:
    wanted = case.value if isinstance(case.value, list) else [case.value]
    return _holds_element(case, case.value) or (bool(wanted) and all(_holds_element(case, value) for value in wanted))


def _excludes(case: _Case) -> bool:
    unwanted = case.value if isinstance(case.value, list) else []
    return not any(_holds_element(case, value) for value in (case.value, *unwanted))


def _each_matches(case: _Case) -> bool:
    return bool(case.items) and all(isinstance(item, str) and re.search(case.value, item) for item in case.items)


def _distinct(case: _Case) -> bool:
    items = case.items
    distinct = not any(same(one, other) for n, one in enumerate(items) for other in items[:n])
    return bool(items) and distinct is (case.value is not False)


def _all_truthy(case: _Case) -> bool:
    return bool(case.items) and all(case.items) is (case.value is not False)


def _has_run(case: _Case) -> bool:
    items, run = case.items, case.value if isinstance(case.value, list) else [case.value]
    return any(same(items[n : n + len(run)], run) for n in range(len(items) - len(run) + 1))


def _same_as(case: _Case) -> bool:
    other = find(case.body, case.value)
    return case.found is not MISSING and case.found != [] and same(case.found, other)


_OPS: dict[str, Callable[[_Case], bool]] = {
    "eq": _eq,
    "exists": _exists,
    "json": _json,
    "matches": _matches,
    "excludes": _excludes,
    "includes": _includes,
    "each_matches": _each_matches,
    "distinct": _distinct,
    "all_truthy": _all_truthy,
    "has_run": _has_run,
    "same_as": _same_as,
}
_NEED_VALUE = frozenset({"eq", "matches", "excludes", "includes", "each_matches", "has_run", "same_as"})

OPS = tuple(_OPS)
"""The operations there are."""

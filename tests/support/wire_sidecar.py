"""Reading the sidecars of replies seen in the field, strictly: what is not known in one fails it before any play."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from support.wire_paths import SidecarError, check_claim

Facts = dict[str, Any]

PROVIDERS = ("openai-chat", "openai-responses", "anthropic")

DATE = re.compile(r"\{\{http_date:(?P<amount>[+-]?\d+(?:\.\d+)?)(?P<unit>[smh])\}\}")
"""A date that long from the moment at which the reply goes out, in a header."""

ABOUT_THE_REPLY = ("text", "reasoning", "refusal", "tool_calls", "finish_reason", "usage")
"""Keys of ``expect`` about the reply in ``body`` alone."""

FURTHER_PLAYS = (
    *("without_processor", "one_of", "variants", "also_for", "if_served", "replay"),
    *("judge_requests_over_two_turns", "total_400_over_two_turns"),
)
"""Keys of ``expect`` about the case played again in another way, or of several outcomes."""

ABOUT_THE_RUN = (
    *("final_text", "stop_reason", "text_partial", "executed", "executed_count", "error"),
    *("requests", "max_requests", "agent_requests", "judge_requests", "max_judge_requests", "preprocess_calls"),
    *("scorers_run", "delay_between_requests_s", "score", "passed", "unmet_required", "scorer_error"),
    *("events_include", "assert"),
)

RETRY_HEADERS = ("retry-after", "retry-after-ms", "x-should-retry")
"""Headers that a variant may name although the case itself has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """A case: the replies to play, the set-up, and what is to come of it. ``folder`` is where its files are."""

    path: Path
    provider: str
    body: str
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    next: tuple[str, ...] = ()
    cut: tuple[int, ...] = ()
    tools: tuple[Facts, ...] = ()
    max_steps: int | None = None
    max_tokens: int | None = None
    store: bool | None = None
    rubric: Any = None
    judge_text: str | None = None
    role: str | None = None
    serve_if: Facts | None = None
    scorers: tuple[tuple[float, ...], ...] = ()
    processors: tuple[Facts, ...] = ()
    expect: Facts

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self.path.parent

    @property
    def is_judge(self) -> bool:
        """Whether the replies are those of a judge model."""
        return self.role == "judge"


def find_sidecars(folder: Path) -> Iterator[Path]:
    """Return the sidecars directly in a folder."""
    return (path for path in sorted(folder.glob("*.json")) if not path.name.endswith(".body.json"))


def read_sidecar(path: Path) -> Sidecar:
    """Read a sidecar.

    Raises:
        SidecarError: something in it is not known or not what it has to be.
    """
    try:
        facts: Any = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as exc:
        msg = f"it is no JSON: {exc}"
        raise SidecarError(msg) from exc
    _known("the sidecar", facts, ("id", *_READERS))
    if missing := [name for name in ("provider", "body", "expect") if name not in facts]:
        _refuse(f"the sidecar lacks {', '.join(missing)}")
    sidecar = Sidecar(path=path, **{name: _READERS[name](value) for name, value in facts.items() if name != "id"})
    for name in (sidecar.body, *sidecar.next):
        file_of(sidecar, name)
    if sidecar.is_judge and sidecar.rubric is None:
        _refuse("a judge needs a rubric")
    if not sidecar.is_judge and sidecar.rubric is not None and sidecar.judge_text is None:
        _refuse("a rubric needs a judge: role judge, or judge_text")
    return sidecar


def file_of(sidecar: Sidecar, name: str) -> Path:
    """Return where a file is that the sidecar names: beside it, or one folder up.

    Raises:
        SidecarError: it is in neither.
    """
    places = [folder / name for folder in (sidecar.folder, sidecar.folder.parent)]
    found = next((path for path in places if path.is_file()), None)
    if found is None:
        _refuse(f"there is no file {name!r}")
    return found


# --- the set-up


def _provider(value: Any) -> str:
    if value not in PROVIDERS:
        _refuse(f"provider {value!r} is not known")
    return value


def _of(kind: type | tuple[type, ...], what: str) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        return _is(value, kind, what)

    return read


def _headers(value: Any) -> Mapping[str, str]:
    for name, text in _is(value, dict, "headers").items():
        for odd in re.findall(r"\{\{.*?\}\}", str(_is(text, (str, int, float), f"header {name}"))):
            if not DATE.fullmatch(odd):
                _refuse(f"header {name}: {odd} is not known")
    return {name.lower(): str(text) for name, text in value.items()}


def _list_of(kind: type, what: str) -> Callable[[Any], tuple[Any, ...]]:
    def read(value: Any) -> tuple[Any, ...]:
        return tuple([_is(item, kind, f"{what}: an entry") for item in _is(value, list, what)])

    return read


def _tools(value: Any) -> tuple[Facts, ...]:
    for tool in _is(value, list, "tools"):
        _known("a tool", tool, ("name", "description", "parameters"))
        _is(tool.get("name"), str, "a tool's name")
    return tuple(value)


def _rubric(value: Any) -> Any:
    for criterion in _is(value, list, "rubric"):
        if not isinstance(criterion, str):
            _known("a criterion of the rubric", criterion, ("description", "required", "id"))
    return value


def _role(value: Any) -> str:
    if value not in {"judge", "agent"}:
        _refuse(f"role {value!r} is not known")
    return value


def _serve_if(value: Any) -> Facts:
    check_claim(value, "serve_if")
    return value


def _scorers(value: Any) -> tuple[tuple[float, ...], ...]:
    for scores in _is(value, list, "scorers"):
        if not _is(scores, list, "the scores of a scorer"):
            _refuse("a scorer has no scores")
        for score in scores:
            _is(score, (int, float, bool), "a score")
    return tuple(map(tuple, value))


def _processors(value: Any) -> tuple[Facts, ...]:
    for processor in _is(value, list, "processors"):
        _known("a processor", processor, ("type", "on", "max_retries", "max_retry_after"))
        if processor.get("type") != "StreamErrorRetryProcessor":
            _refuse(f"processor {processor.get('type')!r} is not known")
        if processor.get("on", "agent") not in {"judge", "agent"}:
            _refuse(f"a processor on {processor['on']!r} is not known")
    return tuple(value)


# --- what is to come of it


def check_expect(expect: Any, where: str = "expect") -> Facts:
    """Check that everything in ``expect`` is known, also in what it holds about further plays."""
    _known(where, expect, (*ABOUT_THE_REPLY, *ABOUT_THE_RUN, *FURTHER_PLAYS))
    for key, value in expect.items():
        if key in _CHECKS:
            _CHECKS[key](value, f"{where}.{key}")
    return expect


def _check_usage(value: Any, where: str) -> None:
    _known(where, value, ("input", "input_uncached", "cache_read", "output", "reasoning"))


def _check_calls(*keys: str) -> Callable[[Any, str], None]:
    def check(value: Any, where: str) -> None:
        for call in _is(value, list, where):
            _known(f"{where}: a call", call, keys)

    return check


def _check_error(value: Any, where: str) -> None:
    for one in value if isinstance(value, list) else [value]:
        if one is not None:
            _known(where, one, ("kind", "retryable", "status", "code", "message_contains"))


def _check_range(value: Any, where: str) -> None:
    _known(where, value, ("min", "max"))


def _check_further(value: Any, where: str) -> None:
    check_expect(value, where)


def _check_outcomes(value: Any, where: str) -> None:
    if not _is(value, list, where):
        _refuse(f"{where} has no outcomes")
    for n, outcome in enumerate(value):
        check_expect(outcome, f"{where}[{n}]")


def _check_variants(value: Any, where: str) -> None:
    for variant in _is(value, list, where):
        _known(
            f"{where}: a variant", variant, ("headers", "delay_s", *RETRY_HEADERS, *map(_underscored, RETRY_HEADERS))
        )
        read_variant(variant)
        if isinstance(delay := variant.get("delay_s"), dict):
            _check_range(delay, f"{where}: delay_s")


def _underscored(name: str) -> str:
    return name.replace("-", "_")


def read_variant(variant: Facts) -> dict[str, str | None]:
    """Return the header values of a variant, given as ``headers`` or each by its name; ``None`` leaves one out."""
    named = {key.replace("_", "-"): value for key, value in variant.items() if key not in {"headers", "delay_s"}}
    given: dict[str, Any] = {**named, **_is(variant.get("headers", {}), dict, "the headers of a variant")}
    left_out = {name.lower(): None for name, value in given.items() if value is None}
    return {**_headers({name: value for name, value in given.items() if value is not None}), **left_out}


def _check_providers(value: Any, where: str) -> None:
    for provider in _is(value, list, where):
        _provider(provider)


def _check_replay(value: Any, where: str) -> None:
    _is(value, dict, where)
    _provider(value.get("provider"))
    check_expect({key: one for key, one in value.items() if key != "provider"}, where)


def _check_asserts(value: Any, where: str) -> None:
    for claim in _is(value, list, where):
        check_claim(claim, where, keys=("request", "path", "op", "value"))
        number = claim.get("request")
        if number != "*" and (type(number) is not int or number < 1):
            _refuse(f"{where}: request must be a number from 1 or '*', got {number!r}")


_CHECKS: dict[str, Callable[[Any, str], None]] = {
    "usage": _check_usage,
    "tool_calls": _check_calls("id", "name", "args"),
    "executed": _check_calls("name", "args"),
    "error": _check_error,
    "delay_between_requests_s": _check_range,
    "without_processor": _check_further,
    "if_served": _check_further,
    "one_of": _check_outcomes,
    "variants": _check_variants,
    "also_for": _check_providers,
    "replay": _check_replay,
    "assert": _check_asserts,
}

_READERS: dict[str, Callable[[Any], Any]] = {
    "provider": _provider,
    "status": _of(int, "status"),
    "headers": _headers,
    "body": _of(str, "body"),
    "next": _list_of(str, "next"),
    "cut": _list_of(int, "cut"),
    "tools": _tools,
    "max_steps": _of(int, "max_steps"),
    "max_tokens": _of(int, "max_tokens"),
    "store": _of(bool, "store"),
    "rubric": _rubric,
    "judge_text": _of(str, "judge_text"),
    "role": _role,
    "serve_if": _serve_if,
    "scorers": _scorers,
    "processors": _processors,
    "expect": check_expect,
}


SET_UP = tuple(_READERS)
"""Keys of a sidecar, without its ``id``."""


def _known(where: str, given: Any, known: Iterable[str]) -> None:
    """Refuse, naming them, keys of ``given`` that the reader does not know."""
    if unknown := sorted(_is(given, dict, where).keys() - set(known)):
        _refuse(f"{where} has unknown keys: {', '.join(unknown)}")


def _is(value: Any, kind: type | tuple[type, ...], what: str) -> Any:
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        _refuse(f"{what} must be {' or '.join(k.__name__ for k in kinds)}, got {value!r}")
    return value


def _refuse(msg: str) -> NoReturn:
    raise SidecarError(msg)

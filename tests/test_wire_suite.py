"""Replies seen in the field, played through the public API; ``wire.py`` does it by hand."""

from __future__ import annotations

import filecmp
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
import wire
from support import wire_checks, wire_paths, wire_sidecar
from support.wire_paths import MISSING, SidecarError, find, holds, same
from support.wire_sidecar import find_sidecars, read_sidecar
from support.wire_suite import Outcome, cuttings, run_case, run_files

COPY = Path(__file__).parent / "wire"
EXTRA = COPY / "extra"
SHARED = Path(__file__).parents[2] / "shared" / "wire"

Facts = dict[str, Any]


def is_copied(path: Path) -> bool:
    return (COPY / path.name).is_file() and filecmp.cmp(path, COPY / path.name, shallow=False)


def collected() -> list[Any]:
    """Return the cases of the copy and its extra ones, and those beside the checkout unless they are the same."""
    folders = [COPY, EXTRA]
    if SHARED.is_dir() and not all(map(is_copied, SHARED.iterdir())):
        folders.append(SHARED)
    return [pytest.param(path, id=f"{folder.name}-{path.stem}") for folder in folders for path in find_sidecars(folder)]


@pytest.mark.parametrize("path", collected())
async def test_a_case_from_the_field_comes_out_as_it_should(path: Path, anyio_backend: str) -> None:
    outcomes = await run_files([path], anyio_backend)
    assert [outcome.cut for outcome in outcomes] == list(cuttings(read_sidecar(path)))
    assert [outcome.line() for outcome in outcomes if not outcome.ok] == []


@pytest.mark.skipif(not SHARED.is_dir(), reason="there is nothing beside the checkout to compare it with")
def test_the_copy_has_every_file_byte_for_byte() -> None:
    assert [path.name for path in sorted(SHARED.iterdir()) if not is_copied(path)] == []


def test_no_key_and_no_operation_is_without_a_case() -> None:
    cases = [json.loads(path.read_text(encoding="utf-8")) for path in map_sidecars()]
    known = {*wire_sidecar.ABOUT_THE_REPLY, *wire_sidecar.ABOUT_THE_RUN, *wire_sidecar.FURTHER_PLAYS}
    assert known - {key for case in cases for key in keys_in(case["expect"])} == set()
    assert set(wire_paths.OPS) - {claim["op"] for case in cases for claim in claims_in(case)} == set()
    assert set(wire_sidecar.SET_UP) - {key for case in cases for key in case} == set()


def map_sidecars() -> list[Path]:
    return [*find_sidecars(COPY), *find_sidecars(EXTRA)]


def keys_in(expect: Any) -> Iterator[str]:
    if isinstance(expect, dict):
        for key, value in expect.items():
            yield key
            if key in wire_sidecar.FURTHER_PLAYS:
                yield from keys_in(value)
    elif isinstance(expect, list):
        for item in expect:
            yield from keys_in(item)


def claims_in(facts: Any) -> Iterator[Facts]:
    if isinstance(facts, dict):
        if {"path", "op"} <= facts.keys():
            yield facts
        for value in facts.values():
            yield from claims_in(value)
    elif isinstance(facts, list):
        for item in facts:
            yield from claims_in(item)


# --- what is expected wrongly is found out


def falsified(key: str, value: Any) -> Iterator[Any]:
    """Yield values of a key of ``expect`` that are wrong where ``value`` is right, each in one place."""
    if key in FALSIFIED:
        yield from FALSIFIED[key](value)
    elif key in {"usage", "error"} and value is not None:
        yield from ({name: other_than(one)} for name, one in value.items())
    else:
        yield other_than(value)


def falsified_play(value: Facts) -> Iterator[Facts]:
    kept = {name: value[name] for name in value if name == "provider"}
    for name in value.keys() - {"provider"}:
        yield from ({**kept, name: wrong} for wrong in falsified(name, value[name]))


def falsified_calls(value: list[Facts]) -> Iterator[list[Facts]]:
    yield [*value, {"name": "no_such_tool"}]
    yield from ([*value[:n], {**call, "args": {"x": 1}}, *value[n + 1 :]] for n, call in enumerate(value))


FALSIFIED: dict[str, Callable[[Any], Iterable[Any]]] = {
    **dict.fromkeys(("without_processor", "if_served", "replay"), falsified_play),
    **dict.fromkeys(("tool_calls", "executed"), falsified_calls),
    **dict.fromkeys(("max_requests", "max_judge_requests"), lambda _: [-1]),
    "also_for": lambda _: [],  # whom it is expected of: see below
    "one_of": lambda value: [[{name: bad} for one in value for name in one for bad in falsified(name, one[name])]],
    "variants": lambda value: [[{**variant, "delay_s": {"min": 50}}] for variant in value],
    "assert": lambda value: [[false_claim(claim)] for claim in value],
    "delay_between_requests_s": lambda _: [{"min": 50, "max": 60}],
    "events_include": lambda value: [[*value, "tripwire"]],
}


def other_than(value: Any) -> Any:
    """Return a value that is unlike ``value``, and unlike what may come in its place."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 7
        case None:
            return {"kind": "auth"}
        case _:
            return "something else"


def false_claim(claim: Facts) -> Facts:
    """Return a claim that does not hold where ``claim`` does: about nothing, or that says the contrary."""
    if claim["op"] == "exists":
        return {**claim, "value": claim.get("value") is False}
    if claim["op"] == "excludes":
        return {"request": claim["request"], "path": "messages[*].role", "op": "excludes", "value": "user"}
    return {**claim, "path": "no.such[*].thing"}


def quick_cases() -> list[Any]:
    cases = [read_sidecar(path) for path in map_sidecars()]
    quick = [case for case in cases if not any("{{" in text for text in case.headers.values())]
    return [pytest.param(case, id=case.path.stem) for case in quick]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("case", quick_cases())
async def test_each_expectation_that_is_wrong_fails_its_run(case: wire_sidecar.Sidecar) -> None:
    for key, value in case.expect.items():
        for wrong in falsified(key, value):
            expect = wire_sidecar.check_expect({key: wrong})
            outcome = await run_case(case, "whole", "asyncio", expect)
            assert outcome.error is None
            assert not outcome.ok, f"{key}: {wrong} was taken for right"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_is_expected_of_another_provider_too_is_checked_there() -> None:
    case = read_sidecar(COPY / "A19-anthropic-prefill-rejected.json")
    outcome = await run_case(case, "whole", "asyncio", {"requests": 3, "also_for": ["openai-chat"]})
    assert [(fact.name, fact.ok) for fact in outcome.facts] == [
        ("requests", False),
        ("also_for[openai-chat].requests", False),
    ]


# --- what is not known is refused

A01: Facts = json.loads((COPY / "A01-chat-toolcall-no-index.json").read_text(encoding="utf-8"))


def write(folder: Path, **changes: Any) -> Path:
    """Write A01 with something changed into a folder, with its bodies."""
    for name in (A01["body"], *A01["next"]):
        (folder / name).write_bytes((COPY / name).read_bytes())
    path = folder / "case.json"
    path.write_text(json.dumps({**A01, **changes}), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"colour": "red"}, "colour"),
        ({"provider": "nobody"}, "nobody"),
        ({"role": "jury"}, "jury"),
        ({"body": "gone.sse"}, "gone.sse"),
        ({"cut": [1.5]}, "cut"),
        ({"headers": {"retry-after": "{{moon:+1}}"}}, "moon"),
        ({"tools": [{"name": "t", "speed": 1}]}, "speed"),
        ({"processors": [{"type": "Sieve"}]}, "Sieve"),
        ({"processors": [{"type": "StreamErrorRetryProcessor", "delay": 1}]}, "delay"),
        ({"rubric": ["It is good"]}, "judge"),
        ({"serve_if": {"path": "model", "op": "rhymes", "value": 1}}, "rhymes"),
        ({"expect": {"mood": 1}}, "mood"),
        ({"expect": {"error": {"colour": 1}}}, "colour"),
        ({"expect": {"usage": {"dollars": 1}}}, "dollars"),
        ({"expect": {"tool_calls": [{"nick": 1}]}}, "nick"),
        ({"expect": {"delay_between_requests_s": {"about": 1}}}, "about"),
        ({"expect": {"without_processor": {"mood": 1}}}, "mood"),
        ({"expect": {"if_served": {"mood": 1}}}, "mood"),
        ({"expect": {"one_of": [{"mood": 1}]}}, "mood"),
        ({"expect": {"replay": {"provider": "anthropic", "mood": 1}}}, "mood"),
        ({"expect": {"replay": {"assert": []}}}, "provider"),
        ({"expect": {"variants": [{"mood": 1}]}}, "mood"),
        ({"expect": {"also_for": ["nobody"]}}, "nobody"),
        ({"expect": {"assert": [{"request": 0, "path": "model", "op": "exists"}]}}, "request"),
        ({"expect": {"assert": [{"request": 1, "path": "model", "op": "eq"}]}}, "value"),
        ({"expect": {"assert": [{"request": 1, "path": "a..b", "op": "exists"}]}}, "a..b"),
        ({"expect": {"assert": [{"request": 1, "path": "a", "op": "matches", "value": "("}]}}, "regular"),
        ({"expect": {"assert": [{"request": 1, "path": "a", "op": "eq", "value": 1, "why": 1}]}}, "why"),
    ],
)
def test_what_is_not_known_fails_the_file_and_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: Facts, named: str
) -> None:
    write(tmp_path, **changes)
    assert wire.main([str(tmp_path), "--backend", "asyncio"]) == 1
    line, counts = capsys.readouterr().out.splitlines()
    read = json.loads(line)
    assert (read["file"], read["ok"]) == ("case.json", False)
    assert named in read["error"]
    assert counts == "0 passed, 1 failed"


def test_prints_a_line_for_each_run_and_counts_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, cut=[10, 20])
    assert wire.main([str(tmp_path)]) == 0
    *lines, counts = capsys.readouterr().out.splitlines()
    read = [json.loads(line) for line in lines]
    assert [(run["backend"], run["cut"]) for run in read] == [
        (backend, cut) for backend in ("asyncio", "trio") for cut in ("whole", "cut", "bytes")
    ]
    assert all(run["ok"] and run["expected"]["requests"] == run["got"]["requests"] == 2 for run in read)
    assert counts == "6 passed, 0 failed"


def test_of_a_run_that_fails_the_line_shows_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, expect={"requests": 3, "error": None})
    assert wire.main([str(tmp_path), "--backend", "trio"]) == 1
    *lines, counts = capsys.readouterr().out.splitlines()
    read = [json.loads(line) for line in lines]
    assert [(run["expected"], run["got"]) for run in read] == [({"requests": 3}, {"requests": 2})] * 2
    assert counts == "0 passed, 2 failed"


async def test_cases_are_played_at_the_same_time(anyio_backend: str) -> None:
    slow = COPY / "A26-retry-after-http-date.json"
    begin = anyio.current_time()
    outcomes = await run_files([slow] * 3, anyio_backend)
    assert all(outcome.ok for outcome in outcomes)
    assert anyio.current_time() - begin < 2.5 * 3, "six runs of one to two seconds each"


def test_a_date_that_long_from_now_is_one_when_the_reply_goes_out() -> None:
    shown = wire_sidecar.DATE.fullmatch("{{http_date:-1.5m}}")
    assert shown is not None
    assert (shown["amount"], shown["unit"]) == ("-1.5", "m")


# --- paths and operations

BODY: Facts = {
    "model": "m",
    "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "text", "text": ""}, {"type": "call", "id": "a", "ok": True}]},
        {"role": "user", "content": [{"type": "result", "of": "a"}, {"type": "result"}]},
    ],
    "$defs": {"x-y": [[1, 2], [3]]},
    "nothing": None,
    "args": '{"a": 1}',
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("model", "m"),
        ("$defs.x-y[0][-1]", 2),
        ("$defs.x-y[*][*]", [1, 2, 3]),
        ("messages[-1].role", "user"),
        ("messages[7].role", MISSING),
        ("messages.role", MISSING),
        ("model.name", MISSING),
        ("nothing", None),
        ("messages[*].content[?type=call].id", ["a"]),
        ("messages[*].content[?ok=true].id", ["a"]),
        ("messages[*].content[?type='call'].id", ["a"]),
        ("messages[?role=nobody]", []),
        ("@user[-1].content[*].of", ["a"]),
        ("@user[*].role", ["user", "user"]),
        ("@assistant[0].content[0].text", ""),
        ("@system[0]", MISSING),
    ],
)
def test_a_path_leads_to_a_value_to_a_list_or_nowhere(path: str, found: Any) -> None:
    assert find(BODY, path) == found


def test_messages_are_the_input_of_a_server_that_calls_them_so() -> None:
    body = {"input": [{"role": "user", "content": "hi"}, {"type": "function_call"}]}
    assert find(body, "@user[-1].content") == find(body, "messages[0].content") == "hi"


@pytest.mark.parametrize(
    ("path", "op", "value", "expected"),
    [
        ("model", "eq", "m", True),
        ("model", "eq", ["x", "m"], True),
        ("model", "eq", "n", False),
        ("messages[?role=assistant].role", "eq", "assistant", True),
        ("messages[?role=user].role", "eq", "user", False),
        ("@assistant[0].content[1].ok", "eq", 1, False),
        ("model", "exists", None, True),
        ("nothing", "exists", None, True),
        ("no.thing", "exists", None, False),
        ("no.thing", "exists", False, True),
        ("messages[?role=tool]", "exists", None, False),
        ("model", "json", None, False),
        ("model", "json", True, False),
        ("args", "json", True, True),
        ("args", "json", {"a": 1}, True),
        ("args", "json", {"a": 2}, False),
        ("model", "matches", "^m$", True),
        ("model", "matches", "x", False),
        ("messages[0]", "matches", '"role": "user"', True),
        ("no.thing", "matches", "", False),
        ("messages[*].role", "includes", "user", True),
        ("messages[*].role", "includes", ["user", "tool"], False),
        ("messages[*].role", "excludes", "tool", True),
        ("messages[*].role", "excludes", ["tool", "user"], False),
        ("model", "includes", "m", True),
        ("no.thing", "includes", "m", False),
        ("messages[*].role", "each_matches", "user|assistant", True),
        ("messages[*].role", "each_matches", "user", False),
        ("messages[?role=tool].role", "each_matches", "", False),
        ("messages[*].content[?type=result].of", "all_truthy", None, False),
        ("messages[*].content[?type=call].id", "all_truthy", None, True),
        ("messages[*].role", "distinct", None, False),
        ("messages[*].content[*].type", "distinct", None, False),
        ("messages[?role=assistant]", "distinct", None, True),
        ("messages[?role=assistant]", "distinct", False, False),
        ("messages[*].role", "distinct", False, True),
        ("messages[*].content[?type=call].id", "all_truthy", False, False),
        ("messages[*].role", "has_run", ["assistant", "user"], True),
        ("messages[*].role", "has_run", ["user", "user"], False),
        ("messages[*].content[?type=call].id", "same_as", "@user[-1].content[*].of", True),
        ("model", "same_as", "nothing", False),
        ("no.thing", "same_as", "no.other", False),
    ],
)
def test_an_operation_holds_or_does_not(path: str, op: str, value: Any, expected: bool) -> None:
    claim = {"path": path, "op": op, "value": value}
    wire_paths.check_claim(claim, "a claim")
    assert holds(BODY, claim) is expected


@pytest.mark.parametrize("path", ["", "a..b", "a[", "a[x]", "a[?b]", ".a", "a.@user", "a b]", "[0]a"])
def test_a_path_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(SidecarError, match="not understood"):
        find({}, path)


def test_values_are_equal_as_json_has_them() -> None:
    assert same({"a": [1, True]}, {"a": [1.0, True]})
    assert not same({"a": 1}, {"a": True})
    assert not same([1], [1, 2])
    assert not same({"a": 1}, {"b": 1})


def test_an_empty_list_of_facts_is_a_run_in_which_nothing_was_expected() -> None:
    assert Outcome(file="f", backend="trio", cut="whole").ok
    assert not Outcome(file="f", backend="trio", cut="whole", facts=(wire_checks.Fact("a", 1, 2, ok=False),)).ok

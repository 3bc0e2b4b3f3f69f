"""Recorded behaviour of the TypeScript framework Mastra, run through the public API; ``vectors.py`` does it by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
import vectors
from support import virtual_time
from support.vector_loop import reckon
from support.vector_record import recorded_facts, unread
from support.vector_suite import NEEDS, find_vectors, run_vector

COPY = Path(__file__).parent / "conformance"
SHARED = Path(__file__).parents[2] / "shared" / "conformance"

Facts = dict[str, Any]


def collected() -> list[Any]:
    """Return the vectors of the copy, and those beside the checkout that are not in it."""
    found = list(find_vectors(COPY))
    if SHARED.is_dir():
        found += [vector for vector in find_vectors(SHARED) if vector not in found]
    return [pytest.param(vector, id=vector["name"]) for vector in found]


def runs_an_agent(vector: Facts) -> bool:
    given = vector["given"]
    is_agent = vector["kind"] in {"completion", "stream"} or given.get("level") == "agent"
    return is_agent and not any(need in given for need in NEEDS)


@pytest.mark.parametrize("backend", virtual_time.BACKENDS)
@pytest.mark.parametrize("vector", collected())
def test_behaves_as_recorded_or_as_a_rule_says(vector: Facts, backend: str) -> None:
    outcome = run_vector(vector, backend)
    if outcome.needs:
        assert outcome.needs in NEEDS, "a vector waits for what the package does not have yet, and for nothing else"
        return
    assert outcome.ok, outcome.line()


@pytest.mark.parametrize("vector", [p for p in collected() if runs_an_agent(p.values[0])])
def test_the_reckoning_explains_whatever_no_rule_departs_from(vector: Facts) -> None:
    recorded = recorded_facts(vector)
    run = virtual_time.run(reckon, vector["given"], backend="asyncio")
    free = [name for name in recorded if name not in run.claims]
    assert {name: run.facts[name] for name in free} == {name: recorded[name] for name in free}
    assert unread(vector) == []


# --- the runner itself

ANSWER: Facts = {
    "name": "stream/own",
    "kind": "stream",
    "given": {"prompt": "go", "model_turns": [{"text": "hello"}]},
    "expect": {"chunk_types": ["start", "step-start", "text-start", "text-delta", "text-end", "step-finish", "finish"]},
}


def changed(given: Facts, **expect: Any) -> Facts:
    return {**ANSWER, "given": {**ANSWER["given"], **given}, "expect": {**ANSWER["expect"], **expect}}


def write(folder: Path, *found: Facts) -> list[str]:
    (folder / "deep").mkdir()
    (folder / "deep" / "some.json").write_text(json.dumps(found), encoding="utf-8")
    return [str(folder)]


def test_prints_a_line_for_each_vector_and_counts_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failing = {"model_turns": [{"error": {"type": "api_call_error", "status": 400}}]}
    types = ["start", "step-start", "error", "step-finish", "finish"]
    waiting = {**ANSWER, "kind": "completion", "given": {**ANSWER["given"], "scorers": [], "memory": {}}}
    folder = write(tmp_path, ANSWER, changed(failing, chunk_types=types, error={"status": 400}), waiting)
    assert vectors.main(folder) == 0
    *lines, counts = capsys.readouterr().out.splitlines()
    read = [json.loads(line) for line in lines]
    assert [(r["ok"], r["rule"], r.get("needs")) for r in read] == [
        (True, None, None),
        (True, "D36", None),
        (None, None, "memory"),
    ]
    assert counts == "1 passed, 1 departed, 1 waiting, 0 failed"


def test_a_difference_that_no_rule_covers_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert vectors.main(write(tmp_path, changed({}, final_text="bye"))) == 1
    line, counts = capsys.readouterr().out.splitlines()
    read = json.loads(line)
    assert (read["expected"], read["got"]) == ({"final_text": "bye"}, {"final_text": "hello"})
    assert counts == "0 passed, 0 departed, 0 waiting, 1 failed"


@pytest.mark.parametrize(
    "given",
    [
        {"patience": 1},
        {"model_turns": [{"text": "a", "mood": "good"}]},
        {"tools": [{"name": "t", "input": {}, "colour": "red"}]},
        {"tools": [{"name": "t", "input": {"day": "date"}}]},
    ],
)
def test_what_the_notation_does_not_have_fails_the_vector_and_is_named(given: Facts) -> None:
    outcome = run_vector(changed(given), "asyncio")
    assert outcome.ok is False
    assert "unknown" in str(outcome.error)


def test_an_option_that_a_rule_refuses_is_a_departure() -> None:
    options = {"max_retries": 1, "delay_ms": -5}
    given = {
        **ANSWER["given"],
        "level": "agent",
        "error_processors": [{"type": "stream_error_retry", "options": options}],
    }
    outcome = run_vector({**ANSWER, "kind": "retry", "given": given}, "asyncio")
    assert (outcome.ok, outcome.rule) == (True, "D37")


def test_a_wait_takes_no_time_and_is_as_long_as_given() -> None:
    async def read_clock() -> float:
        begin = anyio.current_time()
        await anyio.sleep(86_400)
        return anyio.current_time() - begin

    for backend in virtual_time.BACKENDS:
        assert virtual_time.run(read_clock, backend=backend) == pytest.approx(86_400)


FAILING: Facts = {
    "name": "stream/own",
    "kind": "stream",
    "given": {"prompt": "go", "model_turns": [{"text": "half"}, {"error": {"type": "api_call_error", "status": 400}}]},
    "expect": {"chunk_types": ["start", "step-start", "error", "step-finish", "finish"], "error": {"status": 400}},
}


def test_a_record_that_no_rule_explains_fails_also_where_a_rule_departs_from_it() -> None:
    given = {**FAILING["given"], "model_turns": FAILING["given"]["model_turns"][1:]}
    vector = {**FAILING, "given": given}
    assert (run_vector(vector, "asyncio").ok, run_vector(vector, "asyncio").rule) == (True, "D36")
    types = ["start", "step-start", "abort", "error", "step-finish", "finish"]
    odd = {**vector, "expect": {**vector["expect"], "chunk_types": types}}
    outcome = run_vector(odd, "asyncio")
    assert outcome.ok is False
    assert "no rule explains" in str(outcome.error)


def test_unknown_notation_fails_also_where_a_failure_is_expected() -> None:
    step = {"step": "generate_score", "mode": "function", "throws": {"type": "error", "mood": "bad"}}
    given = {"scorer": {"id": "s"}, "run": {"output": "x"}, "steps": [step]}
    outcome = run_vector({"name": "scorer_run/own", "kind": "scorer_run", "given": given, "expect": {}}, "asyncio")
    assert outcome.ok is False
    assert "unknown key 'mood'" in str(outcome.error)

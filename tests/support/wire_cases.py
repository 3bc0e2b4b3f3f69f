"""Replies seen in the field as a model alone reads them: ``wire_suite`` plays whole cases."""

from __future__ import annotations

import email.utils
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mastra_py.errors import ModelError
from mastra_py.events import ModelEvent, ModelFinished, ReasoningDelta, TextDelta, ToolCall
from support.http_server import WIRE, Reply, Request, Script, one_byte_at_a_time
from support.wire_paths import find, holds
from support.wire_sidecar import find_sidecars, read_sidecar


def wire_cases(provider: str) -> list[Path]:
    """Return the sidecars of the cases in which the server plays ``provider``; those of judges are apart."""
    cases = [read_sidecar(path) for path in find_sidecars(WIRE)]
    return [case.path for case in cases if case.provider == provider and not case.is_judge]


def case_name(path: Path) -> str:
    return path.stem


def load_case(path: Path) -> dict[str, Any]:
    """Return a sidecar as it stands, once it has been read strictly."""
    read_sidecar(path)
    return json.loads(path.read_text(encoding="utf-8"))


def reply_of(case: dict[str, Any], *, bytewise: bool = False) -> Reply:
    """Return the first reply of a case, whole or one byte at a time."""
    later = email.utils.formatdate(time.time() + 2, usegmt=True)
    headers = {name: value.replace("{{http_date:+2s}}", later) for name, value in case["headers"].items()}
    data = (WIRE / case["body"]).read_bytes()
    return Reply(one_byte_at_a_time(data) if bytewise else data, status=case["status"], headers=headers)


def replies_of(case: dict[str, Any], *, bytewise: bool = False) -> list[Script]:
    """Return all replies of a case: the first one, and those to the requests after it."""
    first = reply_of(case, bytewise=bytewise)
    streams = {"content-type": "text/event-stream"}
    rest = [Reply((WIRE / name).read_bytes(), headers=streams) for name in case.get("next", ())]
    if "serve_if" not in case:
        return [first, *rest]

    def served(request: Request) -> Reply:
        return first if holds(request.json, case["serve_if"]) else rest[0]

    return [served]


def check_reply(case: dict[str, Any], events: Sequence[ModelEvent], error: ModelError | None) -> None:
    """Check what a model alone has made of the first reply."""
    expected: dict[str, Any] = case.get("expect", {})
    if "serve_if" in case:  # what comes of the reply where it is served, which it never should be
        expected = expected["if_served"]
    for key, kind in (("text", TextDelta), ("text_partial", TextDelta), ("reasoning", ReasoningDelta)):
        if key in expected:
            assert "".join([event.text for event in events if isinstance(event, kind)]) == expected[key]
    calls = [{"id": e.tool_call_id, "name": e.tool_name, "args": e.args} for e in events if isinstance(e, ToolCall)]
    if "tool_calls" in expected:
        assert calls == expected["tool_calls"]
    if "executed" in expected:
        assert [{"name": call["name"], "args": call["args"]} for call in calls] == expected["executed"]
    wanted = expected.get("error") or expected.get("without_processor", {}).get("error")
    if wanted is None and case["status"] == 429:  # the run goes on after a retry; a model alone does not retry
        wanted = {"kind": "rate_limit", "retryable": True}
    if wanted is None:
        _check_end(expected, error, events)
    else:
        _check_error(wanted, error)


def _check_end(expected: dict[str, Any], error: ModelError | None, events: Sequence[ModelEvent]) -> None:
    assert error is None
    finished = events[-1]
    assert isinstance(finished, ModelFinished)
    if "finish_reason" in expected:
        assert finished.finish_reason in any_of(expected["finish_reason"])
    usage = finished.usage
    spent = {
        "input": usage.input_tokens,
        "input_uncached": usage.input_tokens - usage.cached_input_tokens,
        "cache_read": usage.cached_input_tokens,
        "output": usage.output_tokens,
        "reasoning": usage.reasoning_tokens,
    }
    assert {key: spent[key] for key in expected.get("usage", {})} == expected.get("usage", {})


def _check_error(wanted: dict[str, Any], error: ModelError | None) -> None:
    assert error is not None
    assert error.kind in any_of(wanted["kind"])
    assert error.retryable is wanted["retryable"]
    assert error.status == wanted.get("status", error.status)
    assert error.code == (str(wanted["code"]) if "code" in wanted else error.code)
    assert wanted.get("message_contains", "") in error.message
    assert error.provider
    assert error.model


def any_of(expected: Any) -> list[Any]:
    return expected if isinstance(expected, list) else [expected]


def check_requests(asserts: Sequence[dict[str, Any]], requests: Sequence[Request]) -> None:
    """Check what a case asserts about requests; ``request`` counts from 1, ``"*"`` is each of them."""
    for claim in asserts:
        chosen = requests if claim["request"] == "*" else [requests[claim["request"] - 1]]
        assert chosen
        for request in chosen:
            found = find(request.json, claim["path"])
            assert holds(request.json, claim), f"{claim} does not hold: there is {found}"

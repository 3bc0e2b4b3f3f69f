"""Replies seen in the field, in ``tests/wire``: a body to play, and a sidecar of its name with what is to come of it.

An unknown key in a sidecar, or an unknown path or operation in what it says about requests, fails the test.
"""

from __future__ import annotations

import email.utils
import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mastra_py.errors import ModelError
from mastra_py.events import ModelEvent, ModelFinished, ReasoningDelta, TextDelta, ToolCall
from support.http_server import WIRE, Reply, Request, Script, one_byte_at_a_time

ABOUT_THE_REPLY = {"text", "text_partial", "reasoning", "tool_calls", "finish_reason", "usage", "error", "executed"}
ABOUT_THE_RUN = {
    *("requests", "max_requests", "executed_count", "scorers_run", "stop_reason", "final_text"),
    *("assert", "replay", "without_processor", "delay_between_requests_s", "if_served", "also_for"),
}


def wire_cases(provider: str) -> list[Path]:
    """Return the sidecars of the cases in which the server plays ``provider``; those of judges are apart."""
    sidecars = [path for path in sorted(WIRE.glob("A*.json")) if not path.name.endswith(".body.json")]
    cases = [(path, json.loads(path.read_text())) for path in sidecars]
    return [path for path, case in cases if case["provider"] == provider and case.get("role") != "judge"]


def case_name(path: Path) -> str:
    return path.stem


def load_case(path: Path) -> dict[str, Any]:
    case = json.loads(path.read_text())
    assert set(case["expect"]) <= ABOUT_THE_REPLY | ABOUT_THE_RUN
    return case


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


# --- what is said about the bodies of requests


def check_requests(asserts: Sequence[dict[str, Any]], requests: Sequence[Request]) -> None:
    """Check what a case asserts about requests; ``request`` counts from 1, ``"*"`` is each of them."""
    for check in asserts:
        chosen = requests if check["request"] == "*" else [requests[check["request"] - 1]]
        assert chosen
        for request in chosen:
            found = find(request.json, check["path"])
            assert holds(request.json, check), f"{check} does not hold: there is {found}"


def holds(body: Any, check: dict[str, Any]) -> bool:
    """Tell whether ``{"path": ..., "op": ..., "value": ...}`` holds for a request's body."""
    found = find(body, check["path"])
    value: Any = check.get("value")
    match check["op"]:
        case "eq":
            return found == value
        case "excludes":
            return value not in found
        case "each_matches":
            return bool(found) and all(re.search(value, item) for item in found)
        case "distinct":
            return bool(found) and len(set(found)) == len(found)
        case "same_as":
            return found == find(body, value)
        case op:
            raise AssertionError(f"operation {op!r} is not known")


STEP = re.compile(
    r"\.?(?:(?P<key>\w+)|@(?P<role>\w+)|\[(?P<index>-?\d+)\]|\[(?P<all>\*)\]|\[\?(?P<field>\w+)=(?P<value>\w+)\])"
)


def find(body: Any, path: str) -> Any:
    """Return what is at ``path``: one value, or a list of them where the path has a ``[*]`` or ``[?key=value]``."""
    found: list[Any] = [body]
    many, end = False, 0
    while end < len(path):
        step = STEP.match(path, end)
        assert step, f"path {path!r} is not understood"
        end = step.end()
        if step["key"]:
            found = [item[key] for item in found if (key := step["key"]) in item]
        elif step["role"]:
            found = [[message for message in body["messages"] if message["role"] == step["role"]]]
        elif step["index"]:
            found = [item[int(step["index"])] for item in found]
        else:
            many = True
            found = [e for item in found for e in item if step["all"] or e.get(step["field"]) == step["value"]]
    return found if many else found[0]

"""What a retry processor makes of an error, reckoned from the notation: by our rules and by theirs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

JsonObject = Mapping[str, Any]

CONNECTION_CODES = ("ECONN", "EPIPE", "ETIMEDOUT", "ENOTFOUND", "EAI_AGAIN")
STREAM_CODES = (
    *("rate_limit", "server_error", "internal_error", "timeout"),
    *("temporarily_unavailable", "service_unavailable", "overloaded"),
)
AUTH_CODES = {"access_denied", "authentication_error", "forbidden", "invalid_api_key", "permission_denied"}
QUOTA_CODE = re.compile(r"quota|billing|insufficient_(credit|balance|funds)|credit_balance")
NEVER_UNKNOWN = {"400", "401", "403", "404", "422"}
ENDLESS = 50
OURS = {"max_retries": "max_retries", "max_retry_after_ms": "max_retry_after", "delay_ms": "delay"}


@dataclass(frozen=True, slots=True)
class Reckoned:
    """What asking a processor until it declines comes to; delays in seconds."""

    retries: int = 0
    delays: tuple[float, ...] = ()
    on_retry: tuple[tuple[int, float], ...] = ()
    raised: str | None = None


def refused_option(options: JsonObject) -> str | None:
    """D37: the first option, in the order of construction, that is negative, NaN or infinite."""
    for source in (*options.get("matchers", ()), options):
        for key, name in OURS.items():
            value = source.get(key)
            if isinstance(value, (int, float, str)) and not 0 <= float(value) < math.inf:
                return name
    return None


def departs_by_d12(options: JsonObject | None, turn: JsonObject) -> bool:
    """Return whether D12 reads the error of a turn in another way than the recorded program."""
    if options is None or refused_option(options):
        return False
    error = turn.get("error")
    if turn.get("error_at") == "stream_broken":
        error = {"type": "stream", "cause": error}
    elif error is None:
        return False
    ours, theirs = (_policy(error, options, reader) for reader in (_our_mark, _their_mark))
    return ours != theirs


def reckon_ours(error: Any, options: JsonObject, now: datetime) -> Reckoned:
    return _ask(error, options, now, _our_mark)


def reckon_theirs(error: Any, options: JsonObject, now: datetime) -> Reckoned:
    return _ask(error, options, now, _their_mark)


def decide(error: Any, options: JsonObject, now: datetime, count: int, *, ours: bool) -> float | None:
    """Return after how many seconds a processor retries, ``None`` where it does not; what throws is passed over."""
    reckoned = (reckon_ours if ours else reckon_theirs)(error, options, now)
    return reckoned.delays[count] if count < reckoned.retries else None


def rule_of(error: Any) -> str:
    """Return the rule by which the two differ: a string, or nothing at all, is an exception of ours like any other."""
    return "V6" if _object(error) is None and _no_code(error) else "D12"


def _no_code(error: Any) -> bool:
    return error is None or isinstance(error, str) or error["type"] in {"string", "null", "undefined"}


# --- asking

Mark = Callable[[JsonObject], bool]


def _ask(error: Any, options: JsonObject, now: datetime, mark: Mark) -> Reckoned:
    policy = _policy(error, options, mark)
    if policy is None:
        return Reckoned()
    if policy.get("throws"):
        return Reckoned(raised="matcher broke")
    most, delays = policy.get("max_retries", options.get("max_retries", 1)), []
    cap = float(options.get("max_retry_after_ms", 30_000)) / 1000
    asked = min(_asked(error, now), cap if cap > 0 else 0.0)
    spec = policy.get("delay_ms", options.get("delay_ms", 0))
    while len(delays) < min(float(most), ENDLESS):
        if isinstance(spec, Mapping) and spec["fn"] == "throws":
            return Reckoned(raised="delay function broke")
        delays.append(max(_own(spec, len(delays)), asked))
    called = tuple(enumerate(delays)) if "match" in policy and not policy.get("plain") else ()
    return Reckoned(len(delays), tuple(delays), called)


def _policy(error: Any, options: JsonObject, mark: Mark) -> JsonObject | None:
    """Return the matcher that has the error retried, an empty one where its own mark does; ``None`` where nothing."""
    judged = False
    for level in _levels(error, with_strings=mark is _our_mark):
        if _is_openai_error(level) and not (mark is _our_mark and _has_quota_code(level)):
            return {}
        for matcher in options.get("matchers", ()):
            if matcher["match"].get("throws"):
                return {"throws": True}
            if _matches(matcher["match"], level):
                return matcher
        stated = _stated(level)
        if mark(level) and (stated or not judged):
            return {}
        judged = judged or stated is not None
    hopeless = _is_hopeless_for_us(error) if mark is _our_mark else _is_hopeless_for_them(error)
    return {} if options.get("retry_unknown_errors") and not hopeless else None


def _own(spec: Any, count: int) -> float:
    if isinstance(spec, Mapping):
        spec = spec["base"] * (count + 1) if spec["fn"] == "linear" else spec["value"]
    seconds = float(spec) / 1000
    return seconds if 0 <= seconds < math.inf else 0.0


def _asked(error: Any, now: datetime) -> float:
    for level in _levels(error, with_strings=False):
        headers = {name.lower(): str(value).strip() for name, value in (level.get("headers") or {}).items()}
        exact, wanted = headers.get("retry-after-ms", ""), headers.get("retry-after", "")
        if re.fullmatch("[0-9]+", exact):
            return int(exact) / 1000
        if re.fullmatch("[0-9]+", wanted):
            return float(wanted)
        try:
            ahead = (parsedate_to_datetime(wanted) - now).total_seconds()
        except (ValueError, TypeError):
            continue
        if ahead > 0:
            return ahead
    return 0.0


# --- reading


def _object(error: Any) -> JsonObject | None:
    """Return what an error of a vector holds, ``None`` where it is no object."""
    if not isinstance(error, Mapping) or error["type"] in {"string", "null", "undefined"}:
        return None
    if not error["type"].startswith("plain_object"):
        return error
    return (
        {**error["value"], "type": error["type"], "value": error["value"]} if isinstance(error["value"], dict) else None
    )


def _levels(error: Any, *, with_strings: bool) -> Iterator[JsonObject]:
    """Yield what the error and its causes hold; ours are exceptions where theirs are strings, or nothing."""
    level = _object(error)
    if level is None:
        if with_strings:
            text = error if isinstance(error, str) else error.get("value", "") if error else ""
            yield {"type": "none", "message": text if isinstance(text, str) else ""}
        return
    yield level
    if level.get("circular_pair"):
        yield {"type": "error", "message": "the other one"}
    cause = error.get("cause")
    if cause is not None:
        yield from _levels(cause, with_strings=with_strings)


def _matches(match: JsonObject, level: JsonObject) -> bool:
    if "message_contains" in match:
        return match["message_contains"] in str(level.get("message", ""))
    return match.get("always", False) or level.get("status", level.get("status_code")) == 400


def _is_openai_error(level: JsonObject) -> bool:
    value = level.get("value")
    if not isinstance(value, dict):
        return False
    holder = value.get("response", {}) if value.get("type") == "response.failed" else value
    failure = holder.get("error") if value.get("type") in {"error", "response.failed"} else None
    if not isinstance(failure, dict):
        return False
    code, message = failure.get("code"), failure.get("message")
    code = code if isinstance(code, str) else failure.get("type")
    offers = isinstance(message, str) and "you can retry your request" in message.lower()
    return offers or (isinstance(code, str) and any(part in code.lower() for part in STREAM_CODES))


def _stated(level: JsonObject) -> bool | None:
    """Return what an error says of itself, by a flag or, of a response, by its status."""
    if isinstance(level.get("is_retryable"), bool):
        return level["is_retryable"]
    if level["type"] != "api_call_error" or "status" not in level:
        return None
    return level["status"] in {408, 409, 429} or level["status"] >= 500


def is_marked(error: Any) -> bool:
    """Return whether an error says of itself that it passes."""
    level = _object(error)
    return level is not None and _stated(level) is True


def _their_mark(level: JsonObject) -> bool:
    return _stated(level) is True


def _our_mark(level: JsonObject) -> bool:
    """D12: errors of the connection count as retryable; a used-up quota does not. V6: a status says as much."""
    if _has_quota_code(level) and not isinstance(level.get("is_retryable"), bool):
        return False
    if level["type"] == "stream":
        return True
    stated = _stated(level)
    if stated is not None or level["type"] != "error":
        return stated is True
    if str(level.get("code", "")).startswith(CONNECTION_CODES):
        return True
    status = level.get("status", level.get("status_code"))
    return str(status).isdigit() and (int(status) in {408, 409, 429} or int(status) >= 500)


# --- what is known to fail again


def _records(error: Any) -> Iterator[JsonObject]:
    """Yield everything in an error and its causes that may hold a status or a code."""
    for level in _levels(error, with_strings=False):
        yield from _nested(level["value"] if level["type"].startswith("plain_object") else level)


def _nested(record: Any) -> Iterator[JsonObject]:
    if isinstance(record, str):
        try:
            record = json.loads(record)
        except ValueError:
            return
    if isinstance(record, dict):
        own_type = {} if record.get("type") in {"error", "api_call_error"} else {"type": record.get("type")}
        yield {**{name: value for name, value in record.items() if name != "type"}, **own_type}
        for name in ("error", "data", "response", "body", "response_body", "responseBody"):
            yield from _nested(record.get(name))


def _codes(record: JsonObject) -> list[str]:
    return [value.strip().lower() for name in ("code", "type") if isinstance(value := record.get(name), str)]


def _has_quota_code(level: JsonObject) -> bool:
    value = level["value"] if level["type"].startswith("plain_object") else level
    return any(QUOTA_CODE.search(code) for record in _nested(value) for code in _codes(record))


def _is_hopeless_for_them(error: Any) -> bool:
    return any(
        record.get(name) in (401, 403) for record in _records(error) for name in ("status", "status_code", "statusCode")
    ) or any(code in AUTH_CODES for record in _records(error) for code in _codes(record))


def _is_hopeless_for_us(error: Any) -> bool:
    return (
        _is_hopeless_for_them(error)
        or any(
            str(record.get(name)).strip() in NEVER_UNKNOWN
            for record in _records(error)
            for name in ("status", "status_code", "statusCode")
        )
        or any(QUOTA_CODE.search(code) for record in _records(error) for code in _codes(record))
    )

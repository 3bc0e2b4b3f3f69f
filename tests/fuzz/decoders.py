"""Feeds damaged replies to the decoders: ``python tests/fuzz/decoders.py --minutes 10 [--seed 1]``.

The replies recorded in ``tests/wire`` are mutated, as bytes and as JSON, and read in pieces of random sizes, without a
network. Whatever comes, only a ``ModelError`` may come out of it, the events before it are well formed, and time and
memory stay in proportion to what was read. The same seed makes the same cases; a failure prints how to repeat it.
"""

from __future__ import annotations

import argparse
import json
import random
import secrets
import signal
import sys
import time
import traceback
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mastra_py import events as e
from mastra_py.errors import ModelError
from mastra_py.models._anthropic_wire import MessagesDecoder
from mastra_py.models._errors import model_error
from mastra_py.models._json import read_json
from mastra_py.models._openai_chat_wire import ChatDecoder
from mastra_py.models._redact import Redactor
from mastra_py.models._reducer import ReplyReducer
from mastra_py.models._reply import Decoder, ReplyReader
from mastra_py.models._responses_reply import ResponsesDecoder

WIRE = Path(__file__).parent.parent / "wire"
SECRET = "sk-fuzz-0123456789abcdef"

SECONDS_A_CASE = 10.0  # of CPU; the slowest that is sound takes a tenth of a second
MEMORY_A_CASE = 32 * 1024 * 1024
MEMORY_A_BYTE = 100  # beside that, for each byte of the reply: objects of small texts are large

Make = Callable[[ReplyReducer], Decoder]

DECODERS: dict[str, Make] = {
    "chat": lambda reducer: ChatDecoder(reducer, server="http://server"),
    "messages": lambda reducer: MessagesDecoder(reducer, server="http://server"),
    "responses": lambda reducer: ResponsesDecoder(reducer, server="http://server"),
}
_OF_FILES = {"chat": "chat", "anthropic": "messages", "responses": "responses", "judge": "chat"}


class HungError(BaseException):
    """A case took too long. Not an ``Exception``, so that nothing on the way takes it for one of its own."""


@dataclass
class Case:
    """A reply, and how it is read."""

    target: str
    pieces: list[bytes]
    history: list[str] = field(default_factory=list)  # what was done to it

    @property
    def size(self) -> int:
        return sum(map(len, self.pieces))


@dataclass
class Report:
    """What came of a run."""

    seed: int
    cases: Counter[str] = field(default_factory=Counter)
    mutations: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    events: int = 0
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"seed {self.seed}: {self.cases.total()} cases, {self.events} events, {len(self.failures)} failures"]
        for title, counts in (("targets", self.cases), ("outcomes", self.outcomes), ("mutations", self.mutations)):
            lines.append(f"  {title}: " + ", ".join(f"{name} {count}" for name, count in counts.most_common()))
        return "\n".join(lines + self.failures)


# --- making cases


def corpus() -> dict[str, list[bytes]]:
    """Return the recorded bodies by what reads them."""
    found: dict[str, list[bytes]] = {name: [] for name in (*DECODERS, "error")}
    for path in sorted(WIRE.rglob("*.sse")):
        words = path.stem.replace("_final-openai-", "-").split("-")
        kind = next((_OF_FILES[word] for word in words if word in _OF_FILES), "chat")
        found[kind].append(path.read_bytes())
    found["error"] = [path.read_bytes() for path in sorted(WIRE.rglob("*.body.json"))]
    return found


def make_case(seed: int, number: int, bodies: dict[str, list[bytes]]) -> Case:
    """Return the case of that number."""
    rng = random.Random(f"{seed}:{number}")  # noqa: S311 -- to be repeated
    target = rng.choice([name for name, known in bodies.items() if known])
    body = rng.choice(bodies[target])
    history: list[str] = []
    for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3, 5, 8))):
        name, mutate = rng.choice(MUTATIONS)
        history.append(name)
        body = mutate(body, rng, bodies[target])
    return Case(target, list(cut(body, rng)), history)


def cut(body: bytes, rng: random.Random) -> Iterator[bytes]:
    """Yield ``body`` in pieces."""
    small = len(body) < 5_000 and rng.random() < 0.3
    size = rng.choice((1, 2, 7) if small else (100, 1000, 20_000, len(body) + 1))
    at = 0
    while at < len(body):
        step = rng.randint(1, 2 * size)
        yield body[at : at + step]
        at += step


def _slice(body: bytes, rng: random.Random) -> tuple[int, int]:
    start = rng.randint(0, len(body))
    return start, min(len(body), start + rng.choice((1, 2, 10, 100, 1000)))


def flip(body: bytes, rng: random.Random, _others: list[bytes]) -> bytes:
    changed = bytearray(body)
    for _ in range(rng.choice((1, 1, 3, 10)) if body else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def drop(body: bytes, rng: random.Random, _others: list[bytes]) -> bytes:
    start, end = _slice(body, rng)
    return body[:start] + body[end:]


def double(body: bytes, rng: random.Random, _others: list[bytes]) -> bytes:
    start, end = _slice(body, rng)
    return body[:end] + body[start:end] * rng.choice((1, 2, 50)) + body[end:]


def truncate(body: bytes, rng: random.Random, _others: list[bytes]) -> bytes:
    return body[: rng.randint(0, len(body))]


ODD_BYTES = (
    *(b"\r", b"\n", b"\r\n", b"\n\n", b"\r\r", b"\xef\xbb\xbf", b"\x00", b"\xff", b"\xe2\x80\xa8", b'"', b"\\", b"{"),
    *(b"data: [DONE]\n\n", b"data:\n\n", b": ping\n\n", b"event: error\n", b"data: null\n\n", b"data: []\n\n", b"}}"),
    *(b"data: 1\n\n", b'data: "x"\n\n', b"\\ud800", b"data: " + b"[" * 2000, b"x" * 70_000, b": c\n" * 5000),
)


def insert(body: bytes, rng: random.Random, _others: list[bytes]) -> bytes:
    at = rng.randint(0, len(body))
    odd = rng.choice(ODD_BYTES) if rng.random() < 0.8 else rng.randbytes(rng.randint(1, 40))
    return body[:at] + odd + body[at:]


def splice(body: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    other = rng.choice(others)
    return body[: rng.randint(0, len(body))] + other[rng.randint(0, len(other)) :]


def line_ends(body: bytes, rng: random.Random, _others: list[bytes]) -> bytes:
    return body.replace(b"\n", rng.choice((b"\r", b"\r\n")))


def reorder(body: bytes, rng: random.Random, _others: list[bytes]) -> bytes:
    events = body.split(b"\n\n")
    match rng.randrange(4):
        case 0:
            rng.shuffle(events)
        case 1:
            del events[rng.randrange(len(events))]
        case 2:
            at = rng.randrange(len(events))
            events[at:at] = [events[at]] * rng.choice((1, 3, 200))
        case _:
            i, j = rng.randrange(len(events)), rng.randrange(len(events))
            events[i], events[j] = events[j], events[i]
    return b"\n\n".join(events)


def json_aware(body: bytes, rng: random.Random, _others: list[bytes]) -> bytes:
    """Change a value within one of the payloads, or in each of them the one of the same name."""
    lines = body.split(b"\n")
    places = [i for i, line in enumerate(lines) if line.startswith(b"data:") and line[5:].strip() != b"[DONE]"]
    if not places:
        places = [0]
        lines = [body]
    everywhere = rng.random() < 0.2
    spoil = rng.choice(SPOILS)
    name: object = None
    for i in places if everywhere else [rng.choice(places)]:
        prefix = b"data: " if lines[i].startswith(b"data:") else b""
        try:
            payload = json.loads(lines[i][5 if prefix else 0 :])
        except (ValueError, RecursionError):
            continue
        spots = [spot for spot in _spots(payload) if name is None or spot[1] == name]
        if not spots:
            continue
        holder, key = rng.choice(spots)
        name = key if everywhere else None
        spoil(holder, key, rng, payload)
        lines[i] = prefix + _dump(payload)
    return b"\n".join(lines)


def _dump(payload: Any) -> bytes:
    try:
        return json.dumps(payload).encode()
    except (ValueError, RecursionError):  # a value within itself
        return b"{}"


def _spots(value: Any) -> list[tuple[Any, Any]]:
    """Return every place of a JSON value: what holds it, and its key or index there."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting and len(found) < 5000:
        each = waiting.pop()
        items = each.items() if isinstance(each, dict) else enumerate(each) if isinstance(each, list) else ()
        for key, inner in items:
            found.append((each, key))
            waiting.append(inner)
    return found


def _nested(rng: random.Random) -> Any:
    value: Any = "x"
    for _ in range(rng.choice((20, 150, 400))):
        value = [value] if rng.random() < 0.5 else {"error": value}
    return value


ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 3.7, 10**30, 10**4000, float("inf"), "", " ", "x", "\u2028", "\ud800", "\x00"),
    *("error", "stop", "tool_calls", "429", "x" * 100_000, '{"a": 1}', '{"a":', "}", '{"a": 1}}'),
    *(SECRET, f"Bearer {SECRET}"),
    # What can be changed in turn is made anew.
    *(list, dict, lambda: [None], lambda: [[]], lambda: [{}], lambda: {"x": None}, lambda: {"message": 1}),
    *(lambda: [1, "x", None], lambda: {"role": "assistant"}, lambda: list(range(1000)), _nested),
    lambda: {str(n): n for n in range(100)},
)


def _odd_value(rng: random.Random) -> Any:
    value = rng.choice(ODD_VALUES)
    return _nested(rng) if value is _nested else value() if callable(value) else value


def _replace(holder: Any, key: Any, rng: random.Random, _payload: Any) -> None:
    holder[key] = _odd_value(rng)


def _null(holder: Any, key: Any, _rng: random.Random, _payload: Any) -> None:
    holder[key] = None


def _remove(holder: Any, key: Any, _rng: random.Random, _payload: Any) -> None:
    del holder[key]


def _swap(holder: Any, key: Any, rng: random.Random, payload: Any) -> None:
    other, place = rng.choice(_spots(payload))
    holder[key], other[place] = other[place], holder[key]


def _add(holder: Any, key: Any, rng: random.Random, _payload: Any) -> None:
    if isinstance(holder, list):
        holder.extend([holder[key]] * rng.choice((1, 5, 1500)))
    else:
        names = ("error", "type", "index", "id", "delta", "choices", "usage", "content", "tool_calls", "item", "code")
        holder[rng.choice(names)] = _odd_value(rng)


def _retype(holder: Any, key: Any, _rng: random.Random, _payload: Any) -> None:
    value = holder[key]
    holder[key] = [value] if isinstance(value, dict) else str(value) if not isinstance(value, str) else {"text": value}


SPOILS = (_replace, _replace, _null, _remove, _swap, _add, _retype)

MUTATIONS: tuple[tuple[str, Callable[[bytes, random.Random, list[bytes]], bytes]], ...] = (
    *(("json", json_aware),) * 6,
    ("flip", flip),
    ("drop", drop),
    ("double", double),
    ("truncate", truncate),
    ("insert", insert),
    ("splice", splice),
    ("line ends", line_ends),
    ("reorder", reorder),
)


# --- judging what comes of them


def run_case(case: Case, makers: Mapping[str, Make] = DECODERS) -> tuple[int, str]:
    """Read a case; return the number of events and the outcome.

    Raises:
        AssertionError: something came of it that must not.
    """
    if case.target == "error":
        return 0, _read_error(b"".join(case.pieces))
    reader = ReplyReader(makers[case.target](ReplyReducer(provider="fuzz", taken_ids=("call_1",))))
    for piece in case.pieces:
        reader.feed(piece)
        if reader.failure is not None or reader.finished:
            break
    else:
        reader.feed(None)
    error = reader.failure
    assert (error is None) == reader.finished or error is not None, "neither whole nor failed"
    found = list(reader.events)
    check_events(found, failed=error is not None)
    if error is None:
        return len(found), "whole"
    assert isinstance(error, ModelError)
    assert isinstance(str(error), str)
    return len(found), error.kind


def _read_error(content: bytes) -> str:
    body: Any
    try:
        body = read_json(content)
    except ValueError:
        body = content.decode("utf-8", "replace") or None
    error = model_error(status=None if len(content) % 3 == 0 else 400 + len(content) % 130, body=body)
    redactor = Redactor([SECRET])
    told = f"{redactor.text(str(error))} {redactor.value(error.body)!r:.100000}"
    assert SECRET not in told, "a secret got out"
    return error.kind


def check_events(found: list[e.ModelEvent], *, failed: bool) -> None:  # noqa: C901 -- one case an event
    """Check that the events are those of one reply; of one that failed, that they are the beginning of one."""
    block: str | None = None
    inputs: dict[str, str] = {}  # of the calls: open, ended, called
    for number, event in enumerate(found):
        match event:
            case e.TextStart() | e.ReasoningStart():
                assert block is None, f"{event} within {block}"
                block = "text" if isinstance(event, e.TextStart) else "reasoning"
            case e.TextDelta(text) | e.ReasoningDelta(text):
                assert block == ("text" if isinstance(event, e.TextDelta) else "reasoning"), f"{event} within {block}"
                assert isinstance(text, str)
                assert text
            case e.TextEnd() | e.ReasoningEnd():
                assert block == ("text" if isinstance(event, e.TextEnd) else "reasoning"), f"{event} within {block}"
                block = None
            case e.ToolInputStart(call_id, name):
                assert call_id not in inputs, f"{call_id!r} begins twice"
                assert isinstance(name, str)
                assert name
                inputs[call_id] = "open"
            case e.ToolInputDelta(call_id, args):
                assert inputs.get(call_id) == "open", f"a delta of {call_id!r}, which is {inputs.get(call_id)}"
                assert isinstance(args, str)
            case e.ToolInputEnd(call_id):
                assert inputs.get(call_id) == "open", f"{call_id!r} ends, which is {inputs.get(call_id)}"
                inputs[call_id] = "ended"
            case e.ToolCall(call_id, _name, args):
                assert inputs.get(call_id) == "ended", f"a call of {call_id!r}, which is {inputs.get(call_id)}"
                assert isinstance(args, dict)
                inputs[call_id] = "called"
            case e.ModelFinished():
                assert number == len(found) - 1, "something follows the end"
                _check_end(event, failed=failed)
            case _:
                raise AssertionError(f"an event of no reply: {event!r:.200}")
    if not failed:
        assert found, "a whole reply without an end"
        assert isinstance(found[-1], e.ModelFinished), "a whole reply without an end"
        assert block is None, f"{block} is left open"
        assert "open" not in inputs.values(), "the input of a call is left open"


def _check_end(event: e.ModelFinished, *, failed: bool) -> None:
    assert not failed or event.finish_reason == "error"
    usage = event.usage
    for tokens in (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens, usage.reasoning_tokens):
        assert type(tokens) is int
        assert tokens >= 0
    for text in (event.response_id, event.model):
        assert text is None or isinstance(text, str)


# --- running


def fuzz(
    *,
    seed: int,
    seconds: float,
    first: int = 0,
    count: int | None = None,
    most_failures: int = 5,
    makers: Mapping[str, Make] = DECODERS,
    case_seconds: float = SECONDS_A_CASE,
) -> Report:
    """Run cases for so many seconds, or so many cases."""
    report = Report(seed)
    bodies = corpus() if makers is DECODERS else {name: known for name, known in corpus().items() if name in makers}
    end = time.monotonic() + seconds
    number = first
    tracing = tracemalloc.is_tracing()
    tracemalloc.start()
    usual = signal.signal(signal.SIGVTALRM, _hung)
    try:
        while time.monotonic() < end and (count is None or number < first + count):
            case = make_case(seed, number, bodies)
            report.cases[case.target] += 1
            report.mutations.update(case.history)
            events, outcome, fault = _run(case, makers, case_seconds)
            report.events += events
            report.outcomes[outcome] += 1
            if fault:
                report.failures.append(_describe(seed, number, case, fault))
            number += 1
            if len(report.failures) >= most_failures:
                break
    finally:
        signal.signal(signal.SIGVTALRM, usual)
        if not tracing:
            tracemalloc.stop()
    return report


def _run(case: Case, makers: Mapping[str, Make], case_seconds: float) -> tuple[int, str, str]:
    """Run a case; return the number of events, the outcome, and where it failed how it did."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    signal.setitimer(signal.ITIMER_VIRTUAL, case_seconds)
    try:
        count, outcome = run_case(case, makers)
        used = tracemalloc.get_traced_memory()[1] - before
        allowed = MEMORY_A_CASE + MEMORY_A_BYTE * case.size
        assert used <= allowed, f"{used} bytes of memory for a reply of {case.size} bytes"
    except HungError:
        return 0, "FAILURE", f"{traceback.format_exc()}more than {case_seconds:g} seconds of CPU"
    except Exception:  # noqa: BLE001 -- whatever it is, it is what is looked for
        return 0, "FAILURE", traceback.format_exc().rstrip()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return count, outcome, ""


def _hung(_signal: int, _frame: object) -> None:
    raise HungError


def _describe(seed: int, number: int, case: Case, fault: str) -> str:
    return "\n".join(
        (
            f"FAILURE in case {number} ({case.target}, {case.size} bytes, {' + '.join(case.history) or 'untouched'})",
            fault,
            f"again: python tests/fuzz/decoders.py --seed {seed} --case {number}",
            f"pieces: {case.pieces!r:.3000}",
        )
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long (default: 1)")
    parser.add_argument("--seed", type=int, help="of the cases (default: a new one)")
    parser.add_argument("--case", type=int, help="run this case only")
    args = parser.parse_args()
    seed = secrets.randbelow(10**9) if args.seed is None else args.seed
    one = args.case is not None
    report = fuzz(seed=seed, seconds=args.minutes * 60, first=args.case or 0, count=1 if one else None)
    sys.stdout.write(f"{report}\n")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())

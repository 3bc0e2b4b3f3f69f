"""The grammar of a stream of events, as a table, and what checks a stream against it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from mastra_py.events import AgentEvent, SubAgentEvent, TextDelta

_SPEAKING = dict.fromkeys(
    (
        "text-start",
        "text-delta",
        "text-end",
        "reasoning-start",
        "reasoning-delta",
        "reasoning-end",
        "tool-call-input-streaming-start",
        "tool-call-delta",
        "tool-call-input-streaming-end",
        "tool-call",
    ),
    "speaking",
)
_ANSWERED = {"tool-result": "tools", "tool-error": "tools", "tool-output": "tools"}
_RETRY = {
    "output-superseded": "taken back",
    "retry-scheduled": "speaking",
    "model-profile-learned": "speaking",
}

GRAMMAR: dict[str, dict[str, str]] = {
    "new": {"start": "between steps", "abort": "over"},
    "between steps": {"step-start": "speaking", "finish": "over"},
    "speaking": {**_SPEAKING, **_RETRY, "model-finish": "spoken"},
    "taken back": {"retry-scheduled": "speaking"},
    "spoken": {**_ANSWERED, **_RETRY, "task-completion-started": "scoring", "step-finish": "between steps"},
    "tools": {**_ANSWERED, "step-finish": "between steps"},
    "scoring": {"is-task-complete": "scored"},
    "scored": {"output-superseded": "rejected", "step-finish": "between steps"},
    "rejected": {"step-finish": "between steps"},
    "tripped": {"finish": "over"},
    "over": {},
}
"""What may follow in each state of a stream, and the state it leads to."""

_ANYWHERE = {"error": "over", "abort": "over", "tripwire": "tripped", "budget-exceeded": "tripped"}


def assert_well_formed(events: Iterable[AgentEvent]) -> None:
    """Check the events of a whole stream against its grammar; an ``AssertionError`` names the first that breaks it.

    One terminal event, last; each step closed once; deltas only between their start and end; the deltas of a step add
    up to its text; one result or error for each tool call. The same holds for the events of each sub-agent, which come
    between the tool call that started it and that call's result.
    """
    _Grammar().check(list(events))


class _Grammar:
    """Where the events of one run are; those of its sub-agents, of all depths, in ``nested`` of the ``root``."""

    def __init__(self, path: tuple[str, ...] = (), root: _Grammar | None = None) -> None:
        self.state = "new"
        self.step = 0
        self.open: set[str] = set()
        self.text: list[str] = []
        self.calls: list[str] = []
        self.nested: dict[tuple[str, ...], _Grammar] = {}
        self.path = path
        self.root = self if root is None else root

    def check(self, events: list[AgentEvent]) -> None:
        for index, event in enumerate(events):
            try:
                self._take(event)
            except AssertionError as exc:
                before = ", ".join(e.type for e in events[max(0, index - 5) : index])
                msg = f"event {index}, {event!r}: {exc} (after {before or 'nothing'})"
                raise AssertionError(msg) from None
        if self.state != "over":
            msg = f"the stream ends without a terminal event, {self.state}"
            raise AssertionError(msg)

    def _sub_agent(self, event: SubAgentEvent) -> None:
        """Check an event of a sub-agent, of any depth, against the events of that sub-agent before it."""
        _require(event.depth == len(event.path), f"its depth is {event.depth}, its path {event.path}")
        _require(event.path[-1:] == (event.tool_call_id,), "its path ends at another call")
        _require(type(event.event) is not SubAgentEvent, "it is wrapped twice")
        above = self if event.depth == 1 else self.nested.get(event.path[:-1])
        _require(above is not None and event.tool_call_id in above.calls, "there is no open call that it answers")
        if event.path not in self.nested:
            self.nested[event.path] = _Grammar(event.path, self)
        self.nested[event.path]._take(event.event)  # noqa: SLF001 -- its own kind

    def _take(self, event: AgentEvent) -> None:
        allowed = GRAMMAR[self.state]
        following = allowed.get(event.type) or (
            _ANYWHERE.get(event.type) if self.state not in {"new", "over"} else None
        )
        again = self.state == following == "tripped"  # a run is stopped by one thing
        _require(following is not None and not again, f"not allowed while {self.state}")
        if event.type == "step-start":
            self.step += 1
            self.text.clear()
        _require(event.step == self.step, f"its step is {event.step} in step {self.step}")
        if self.state == "scored" and event.type == "output-superseded":
            _require(event.cause == "rejected", "a draft is taken back because it was rejected")
        elif event.type == "output-superseded":
            if event.cause == "rejected":  # the reply did not have the wanted form, and is asked for once more
                following = "speaking"
            self.open.clear()
            self.text.clear()
            self.calls.clear()
        if type(event) is SubAgentEvent:
            self._sub_agent(event)
        self._blocks(event)
        self._tools(event)
        if event.type == "step-finish":
            _require(event.text == "".join(self.text), f"the deltas add up to {''.join(self.text)!r}")
            _require(not self.calls, f"tool calls without a result: {', '.join(self.calls)}")
            kept = self.state == "scored" and event.is_continued
            _require(not kept, "the run goes on, but the draft was not taken back")
        self.state = cast("str", following)

    def _blocks(self, event: AgentEvent) -> None:
        kind, _, edge = event.type.rpartition("-")
        key = kind if kind in {"text", "reasoning"} else f"tool {getattr(event, 'tool_call_id', '')}"
        if edge == "start" and event.type in _SPEAKING:
            _require(key not in self.open, f"{key} is open already")
            self.open.add(key)
        elif edge == "delta":
            _require(key in self.open, f"{key} was not started")
        elif edge == "end" and event.type in _SPEAKING:
            _require(key in self.open, f"{key} was not started")
            self.open.discard(key)
        elif event.type == "model-finish" and event.finish_reason != "error":
            _require(not self.open, f"still open: {', '.join(sorted(self.open))}")
        if type(event) is TextDelta:
            self.text.append(event.text)

    def _tools(self, event: AgentEvent) -> None:
        if event.type == "tool-call":
            _require(f"tool {event.tool_call_id}" not in self.open, "its input has not ended")
            self.calls.append(event.tool_call_id)
        elif event.type in {"tool-result", "tool-error"}:
            call_id = cast("Any", event).tool_call_id
            _require(call_id in self.calls, f"there is no open call {call_id!r}")
            _require(call_id == self.calls.pop(0), "results come in call order")
            self._end_nested((*self.path, call_id), event.type)

    def _end_nested(self, path: tuple[str, ...], by: str) -> None:
        """The call at ``path`` has its result: the sub-agent that it started has ended, and all below it."""
        nested = self.root.nested
        sub_agent = nested.get(path)
        if sub_agent is not None and sub_agent.state != "over":
            # Only what was cut off, by a timeout or a cancellation of its own, has no end.
            _require(by == "tool-error", f"its sub-agent has not ended, {sub_agent.state}")
        for ended in [p for p in nested if p[: len(path)] == path]:
            del nested[ended]


def _require(condition: bool, complaint: str) -> None:  # noqa: FBT001 -- reads like an assert
    if not condition:
        raise AssertionError(complaint)

"""Reckons what a run of an agent comes to, from a vector's ``given`` and our rules.

:func:`reckon` returns the facts of such a run and, for each of them, the rules by which it may differ from what was
recorded. Where no rule does, the record decides and not this reckoning.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from mastra_py.errors import MastraError, TripWire, UserError
from mastra_py.processors import ApiErrorContext
from support.vector_calls import Call, refuse
from support.vector_check import Check
from support.vector_forms import FEEDBACK, Form
from support.vector_notation import read_value
from support.vector_retry import build_error, departs_by_d12
from support.vector_state import Claims, Ended, State
from support.vector_turns import text_of, turn_error

Facts = dict[str, Any]

STREAMED = ("types", "events", "tool_chunks")
SENT = ("prompts", "last_prompt")
CUT_OFF = {"length", "content_filter", "refusal"}
DEFAULT_CAP = 10
THEIR_CAP = 3


@dataclass(slots=True)
class Reckoned:
    """What a run comes to, and the rules by which each fact of it may differ from the record.

    ``forks`` are the facts as they were before any of their rules made a difference. A rule may touch some facts of the
    run, or have ``another_run`` come of it.
    """

    facts: Facts
    claims: Claims
    forks: Facts = field(default_factory=dict)
    another_run: bool = False


async def reckon(given: Facts) -> Reckoned:
    """Return what the run comes to by our rules."""
    try:
        loop = _Loop(given)
        await loop.run()
    except UserError:
        return Reckoned({"refused": "UserError"}, {"refused": {"D37"}})
    return Reckoned(loop.facts(), loop.claims, loop.forks, loop.is_another_run)


class _Loop(State):
    # The end.

    async def run(self) -> None:
        try:
            while True:
                await self._step()
        except Ended as end:
            self.stop_reason, self.error = end.stop_reason, end.error
        if self.error is not None:
            self.finish = "error"
            self.claim("D36", *STREAMED)
            self.events.append(("error",))
        elif self.stop_reason == "cancelled":
            self.finish = "aborted"
            self.claim("D28", *STREAMED, "stop_reason")
            self.events.append(("abort",))
        else:
            self.events.append(("finish",))

    def _wait(self, seconds: float) -> None:
        if self.clock + seconds > self.abort_at:
            raise Ended("cancelled")
        self.clock += seconds

    # A step.

    async def _step(self) -> None:
        self.step += 1
        self.events.append(("step-start",))
        turn = await self._reply()
        text, calls = text_of(turn), [Call(call, self.tools) for call in turn.get("tool_calls", ())]
        reason = turn.get("finish_reason", "tool-calls" if calls else "stop").replace("-", "_")
        self.finish = "tool_calls" if calls and reason in {"stop", "other"} else reason
        self.partial = ""
        if self.finish in CUT_OFF:
            if calls:
                self.claim("D4")
            failures, entries = refuse(calls)
            self.events += failures
            self._commit(turn, text, entries)
            if self.scorers.specs:
                self.claim("D4")
            self._finish_step(self.finish)
        if calls:
            await self.sub_agents.delegate(calls, self)
            self._run_tools(turn, text, calls)
            self._finish_step("max_steps" if self.step >= self.max_steps else None)
        else:
            self._commit(turn, text, [])
            self._finish_step(self._judge(text) if self.scorers.specs else "answered")

    def _finish_step(self, stop_reason: str | None) -> None:
        self.events.append(("step-finish",))
        if stop_reason is not None:
            raise Ended(stop_reason)

    def _commit(self, turn: Facts, text: str, outcomes: Iterable[Form]) -> None:
        self.texts.append(text)
        self.draft_start = len(self.history)
        if len(self.texts) > 1 and not self.used:
            self.claim("D7", "final_text")
        if any(entry[1] == FEEDBACK for entry in self.history):
            self.claim("D44", "messages")
        if turn.get("reasoning"):
            self.history.append(("assistant", "reasoning"))
        if text:
            self.history.append(("assistant", "text", text))
        self.history += outcomes

    def _prompt(self) -> list[Form]:
        return [("system", "text", "Be helpful"), *[entry for entry in self.history if entry[1] != "reasoning"]]

    # The model.

    async def _reply(self) -> Facts:
        retries = 0
        self.models.begin()
        while True:
            turn = self.models.ask()
            self.prompts.append(self._prompt())
            if self.models.total == self.given.get("abort_after_call"):
                self.abort_at = self.clock + self.given.get("abort_delay_ms", 0) / 1000
            self._wait(turn.get("delay_ms", 0) / 1000)
            error = turn_error(turn)
            at = turn.get("error_at", "before_first_chunk")
            self.partial = ""
            if error is None or at in {"mid_stream", "stream_broken"}:
                before = len(self.events)
                self._say(turn, whole=error is None)
                self.models.shown = self.models.shown or len(self.events) > before
            if error is None:
                self.usage += 1
                return turn
            retries = retries + 1 if await self._is_retried(turn, error, retries) else 0

    def _say(self, turn: Facts, *, whole: bool) -> None:
        if turn.get("reasoning"):
            self.events += [("reasoning-start",), ("reasoning-delta", turn["reasoning"]), ("reasoning-end",)]
        chunks = turn.get("text_chunks") or ([text_of(turn)] if text_of(turn) else [])
        if chunks:
            self.events.append(("text-start",))
        for chunk in chunks:
            self.events.append(("text-delta", chunk))
            self.partial += chunk
            self.deltas += 1
            if self.deltas == self.given.get("abort_on_text_delta"):
                raise Ended("cancelled")
        if chunks and whole and not turn.get("hang"):
            self.events.append(("text-end",))
        for spec in turn.get("tool_calls", ()):
            call = Call(spec, self.tools)
            self.events += [("tool-call-input-streaming-start",), ("tool-call-delta",)]
            self.events += [("tool-call-input-streaming-end",), ("tool-call", call.id, call.name, call.args)]
            if self.given.get("abort_on_tool_call"):
                raise Ended("cancelled")
        if turn.get("hang"):
            self._wait(math.inf)

    async def _is_retried(self, turn: Facts, error: Exception, retries: int) -> bool:
        """Return whether the same model is called again, or the next one; raise where the failure is final."""
        self._claim_theirs(turn)
        given = self.given
        cap = given.get("stream_max_processor_retries", given.get("max_processor_retries"))
        if cap is None and self.processors and retries >= THEIR_CAP:
            self.claim("D13")
        if self.processors and retries >= (DEFAULT_CAP if cap is None else cap):
            self.claim("D32", "processor_calls")
            self.claim("D13", "waits")
            return self._fall_back(turn, error)
        delay = await self._ask(turn, error, retries)
        if delay is None:
            return self._fall_back(turn, error)
        self.claim("D36", *STREAMED)
        if self.models.total - self.models.switches >= self.max_steps:
            self.claim("D13")  # theirs takes the retries for steps
        if self.clock + delay > self.abort_at:
            self.claim("D28", "waits")  # whether one that is cut short counts as a wait
        self.waits.append(delay)
        self.partial = ""
        self._wait(delay)
        self.models.again = True
        return True

    def _fall_back(self, turn: Facts, error: Exception) -> bool:
        if self.models.departs_by_d31(turn):
            self.claim("D31")
        if not self.models.fall_back():
            raise Ended(None, error)
        return False

    def _claim_theirs(self, turn: Facts) -> None:
        """Note what theirs does with a failed turn and ours does not."""
        again = self.given.get("model_settings_max_retries", self.given.get("agent_max_retries", 0))
        if again and turn.get("error_at", "before_first_chunk") == "before_first_chunk":
            self.claim("D31")
        if self.processors and self.models.counts_anew:
            self.claim("D31")
        if len(self.texts) and not self.used:
            self.claim("D7", "final_text")
        if self.partial:
            self.claim("D14", "final_text", "messages", *SENT)
        if self.scorers.specs:
            self.claim("D4")

    async def _ask(self, turn: Facts, error: Exception, retries: int) -> float | None:
        for spec, processor in self.processors:
            if departs_by_d12(spec.get("options"), turn):
                self.claim("D12")
            try:
                retry = await processor.process_api_error(ApiErrorContext(error=error, retry_count=retries))  # type: ignore[arg-type]
            except TripWire:
                self.claim("D42")
                self.events.append(("tripwire",))
                self.finish, self.partial = "tripwire", ""
                raise Ended("tripwire") from None
            except Exception:  # noqa: BLE001, S112 -- D10: it is passed over
                continue
            if retry is not None:
                return retry.delay
        return None

    # Tools.

    def _run_tools(self, turn: Facts, text: str, calls: list[Call]) -> None:
        if {call.id for call in calls} & self.call_ids:
            self.claim("D44", "messages", *SENT)  # theirs shows a call whose id it knows only once
        self.call_ids |= {call.id for call in calls}
        self.used += [(call.name, call.args) for call in calls]
        entries: list[Form] = [("assistant", "call", call.name, call.args) for call in calls]
        try:
            self._wait(max(call.seconds for call in calls))
        except Ended:
            self.claim("D28")
            for call in itertools.takewhile(lambda call: self.clock + call.seconds <= self.abort_at, calls):
                kind, said = call.outcome()
                self.events.append((f"tool-{kind}", call.id, call.name, call.args, said))
            self._commit(turn, text, [*entries, *[("tool", "error", call.name, "named") for call in calls]])
            raise
        self._claim_tools(calls)
        for call in calls:
            kind, said = call.outcome()
            self.events.append((f"tool-{kind}", call.id, call.name, call.args, said))
            entries.append(("tool", kind, call.name, said))
        self._commit(turn, text, entries)

    def _claim_tools(self, calls: list[Call]) -> None:
        for call in calls:
            if call.is_unfit:
                self.claim("D20" if call.not_json else "D35", *STREAMED, *SENT)
            if not call.tool and len(calls) > 1:
                self.claim("D35", *STREAMED)
            if call.outcome()[0] == "result" and call.gives_nothing:
                self.claim("D21")

    # The check.

    def _judge(self, text: str) -> str | None:
        context: Facts = {
            "iteration": self.step,
            "max_steps": self.max_steps,
            "task": self.given["prompt"],
            "output": text,
            "request_context": read_value(self.given.get("request_context", {})),
            "tool_calls": list(self.used),
        }
        if "max_steps" not in self.given:
            self.claim("D6", "scorer_contexts")
        check = self.scorers.check(context, self.abort_at - self.clock)
        try:
            self._wait(check.seconds)
        except Ended:
            self.claim("D11+D28")
            raise
        if check.departs_by_d9:
            self.claim("D9", "checks", "on_complete")
        results, at_end = check.results(), self.step >= self.max_steps
        self.told.append(
            {
                "complete": check.passed,
                "completion_reason": check.reason,
                "timed_out": check.timed_out,
                "scorers": results,
            }
        )
        self._call_back()
        if at_end and "max_steps" not in self.given:
            self.claim("D6", "checks")
        self.checks.append(
            {
                "iteration": self.step,
                "passed": check.passed,
                "results": results,
                "timed_out": check.timed_out,
                "reason": check.reason,
                "max_iteration_reached": at_end,
                "suppress_feedback": self.given.get("suppress_feedback", False),
            }
        )
        self.events.append(("is-task-complete",))
        return self._stop_on(check, at_end=at_end)

    def _call_back(self) -> None:
        if "on_complete_throws" not in self.given:
            return
        error = build_error(self.given["on_complete_throws"])
        if isinstance(error, MastraError):
            raise Ended(None, error)
        self.claim("D10")

    def _stop_on(self, check: Check, *, at_end: bool) -> str | None:
        if check.passed:
            return "complete"
        failed = check.with_status("failed")
        if not failed:
            self.claim("D5")
            return "scorer_error"
        self.claim("D3", "messages", *SENT)
        if check.with_status("errored"):
            self.claim("D5", "messages", *SENT)
        if at_end:
            self.claim("D6", "stop_reason")
            return "max_steps"
        if self.given.get("suppress_feedback"):
            self.claim("D8", "messages")
            self.hidden |= set(range(self.draft_start, len(self.history) + 1))
        self.history.append(("user", FEEDBACK, [line for answer in failed for line in answer.lines]))
        return None

"""The loop: model call, tools, completion check, and on, until there is a reason to stop.

::

    step ──► model call (retries) ──► tool calls? ── yes ──► run them ─────────────────────┐
     ▲                                     │ no                                            │
     │                                cut off, refused? ── yes ──► stop: length, refusal…  │
     │                                     │ no                                            │
     │                                a gate? ── no ──► stop: answered                     │
     │                                     │ yes                                           │
     │                                scorers ── accepted ──► stop: complete               │
     │                                     │ not accepted                                  │
     └──── feedback ◄── go on? ◄───────────┴───────────────────────────────────────────────┘
                           └── no ──► stop: stalled, max_attempts, stop_when, max_steps
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

import anyio
import anyio.lowlevel

from mastra_py._loop.accumulate import Reply
from mastra_py._loop.callbacks import consult, logger, notify
from mastra_py._loop.channel import Out
from mastra_py._loop.completion import Gate, TaskCompletion, check
from mastra_py._loop.faults import replaced_cancel
from mastra_py._loop.feedback import NEUTRAL, feedback_message, feedback_text
from mastra_py._loop.host import Host
from mastra_py._loop.state import RunState
from mastra_py._loop.step import CUT_OFF, model_step
from mastra_py._loop.stop import any_holds
from mastra_py._loop.structured import read_or_ask_again
from mastra_py._loop.tools import run_tools
from mastra_py._reply_json import Unusable
from mastra_py.errors import BudgetError, MastraError, OutputValidationError, ScorerError, TripWire, UserError
from mastra_py.events import (
    BudgetExceeded,
    OutputSuperseded,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
    StopReason,
    TaskCompletionChecked,
    TaskCompletionStarted,
    ToolFailed,
    Tripped,
)
from mastra_py.messages import ToolResultPart
from mastra_py.options import ToolLike, require_answerable, select_tools
from mastra_py.results import Attempt
from mastra_py.scoring import ScorerVerdict, Verdict


async def run_loop(run: RunState, out: Out) -> None:
    """Run until there is a reason to stop; ``run`` then holds what was said and why it ended.

    Raises:
        RunError: the run could not go on.
        UserError: something given to it was misused.
    """
    await out.emit(RunStarted(run_id=run.spec.run_id, agent_id=run.spec.agent_id))
    run.ledger.start()
    try:
        run.stop_reason = await _in_time(run, out)
    except BudgetError:
        run.stop_reason = "budget"
    except TripWire as trip:
        run.tripwire = trip
        run.stop_reason = "tripwire"
        run.settle()
        await out.emit(Tripped(error=trip, step=run.step))
    except MastraError as error:
        run.settle()
        error.messages, error.steps = run.history(), tuple(run.steps)
        error.attempts, error.usage = tuple(run.attempts), run.ledger.total()
        raise
    if run.stop_reason == "budget":
        run.settle()
        limit = run.ledger.refused or ""
        await out.emit(BudgetExceeded(limit=limit, usage=run.ledger.total(), step=run.step))
    # The end too comes only when the reader has asked for more: until then a cancel still ends the run as cancelled.
    await out.drained()
    await anyio.lowlevel.checkpoint_if_cancelled()
    result = run.result()
    out.put(
        RunFinished(
            stop_reason=result.stop_reason,
            finish_reason=result.finish_reason,
            text=result.text,
            usage=result.usage,
            step=run.step,
        )
    )


async def _in_time(run: RunState, out: Out) -> StopReason:
    """Run the steps; at the deadline of the run's budget they end, wherever they are."""
    scope = anyio.CancelScope(deadline=math.inf if run.ledger.deadline is None else run.ledger.deadline)
    try:
        with scope:
            await _prepare(run)
            return await _steps(run, out)
    except Exception as exc:
        if not (scope.cancel_called and replaced_cancel(exc)):
            raise
        await anyio.lowlevel.checkpoint_if_cancelled()
        logger.exception("%s raised when it was ended at the deadline", run.named("something"))
    run.ledger.refuse("deadline")
    return "budget"


async def _prepare(run: RunState) -> None:
    """Resolve what depends on the request context."""
    spec = run.spec
    context = spec.request_context
    run.system = spec.instructions if not callable(spec.instructions) else None
    if callable(spec.instructions):
        run.system = await consult(spec.instructions, run.named("instructions"), context, wanted=(str, type(None)))
    sources: list[Iterable[ToolLike]] = [
        await consult(s, run.named("the tools function"), context, wanted=(list, tuple)) if callable(s) else s
        for s in spec.tools
    ]
    if run.pipeline is not None:
        messages = await run.pipeline.input(spec.messages)
        what = f"agent {spec.agent_id!r}: the conversation that its input processors return"
        require_answerable(messages, what, "process_input has to leave something to answer")
        run.begin(messages)
    run.tools = select_tools(sources, spec.active_tools, spec.tool_choice, spec.agent_id)


async def _steps(run: RunState, out: Out) -> StopReason:
    host = Host(out=out, ledger=run.ledger, path=run.path, delegation=run.spec.delegation)
    while True:
        run.step += 1
        await out.emit(StepStarted(step=run.step))
        reply = await _reply(run, out)
        stop = await _after_reply(run, reply, host)
        if run.ledger.refused or (stop is None and run.ledger.limit()):
            stop = "budget"  # it goes before all but a trip wire
        if stop is None and (host.stop or await any_holds(run.spec.stop_when, tuple(run.steps))):
            stop = "stop_when"
        if stop is None and run.step >= run.spec.max_steps:
            stop = "max_steps"
        result = run.steps[-1]
        if stop is None and run.spec.gate is not None and result.completion is not None:
            await _feed_back(run, run.spec.gate.config, reply.attempts, out)
        await out.emit(
            StepFinished(
                finish_reason=result.finish_reason,
                text=result.text,
                usage=result.usage,
                is_continued=stop is None,
                step=run.step,
            )
        )
        if run.spec.on_step is not None:
            await notify(run.spec.on_step, run.named("on_step"), result)
        if stop is not None:
            return stop


async def _reply(run: RunState, out: Out) -> Reply:
    """Return the model's reply; with ``output=`` an answer is read into its type, asked for once more if need be."""
    call = run.next_call()
    reply = await model_step(call, out)
    output = run.spec.output
    if output is None or reply.tool_calls or reply.finish_reason in CUT_OFF:
        return reply
    try:
        answer = await read_or_ask_again(call, reply, output, out)
    except Unusable as exc:
        text = call.fold.text
        msg = f"agent {run.spec.agent_id!r}: the reply does not fit the output type, also after a re-ask: {exc}"
        error = OutputValidationError(msg, text=text)
        error.partial_text = text or None
        raise error from exc
    run.value = answer.value
    return answer.reply


async def _after_reply(run: RunState, reply: Reply, host: Host) -> StopReason | None:
    """Do what the reply asks for; ``None`` where nothing speaks against another step."""
    run.open = reply
    if (cut := CUT_OFF.get(reply.finish_reason)) is not None:
        await _refuse_tools(run, reply, host.out)
        run.commit()
        return cut
    if reply.tool_calls:
        await _run_tools(run, reply, host)
        run.commit()
        return None
    run.commit()
    if run.spec.gate is None:
        return "answered"
    verdict = await _check(run, run.spec.gate, host.out)
    if run.ledger.refused:
        return "budget"  # a judge could not be asked: that is no outage of its scorer
    return _stop_on(verdict, run, run.spec.gate.config)


async def _run_tools(run: RunState, reply: Reply, host: Host) -> None:
    await host.out.drained()
    await run_tools(
        reply.tool_calls,
        tools=run.tools,
        context=run.tool_context(host),
        emit=host.out.emit,
        concurrency=run.spec.tool_concurrency,
        done=run.tool_results,
    )
    if host.fatal is not None:
        raise host.fatal


async def _refuse_tools(run: RunState, reply: Reply, out: Out) -> None:
    """Answer the calls of a turn that was cut off: none of them runs, and none is left without a result."""
    for index, call in enumerate(reply.tool_calls):
        text = f"tool {call.tool_name!r} did not run: the reply ended early ({reply.finish_reason})"
        run.tool_results[index] = ToolResultPart(call.tool_call_id, call.tool_name, text, is_error=True)
        await out.emit(
            ToolFailed(
                tool_call_id=call.tool_call_id,
                tool_name=call.tool_name,
                args=call.args,
                error=text,
                step=run.step,
            )
        )


async def _check(run: RunState, gate: Gate, out: Out) -> Verdict:
    attempt = len(run.attempts) + 1
    await out.emit(TaskCompletionStarted(attempt=attempt, step=run.step))
    await out.drained()
    verdict = await check(gate, run.scorer_runs(), run.ledger)
    await anyio.lowlevel.checkpoint_if_cancelled()  # a verdict that comes after a cancel counts no more
    draft = run.steps[-1] = dataclasses.replace(run.steps[-1], completion=verdict)
    run.attempts.append(Attempt(attempt=attempt, step=run.step, text=draft.text, verdict=verdict))
    if gate.config.on_complete is not None:
        await notify(gate.config.on_complete, run.named("on_complete"), verdict)
    await out.emit(
        TaskCompletionChecked(
            attempt=attempt,
            passed=verdict.passed,
            results=verdict.results,
            reason=verdict.reason,
            timed_out=verdict.timed_out,
            duration=verdict.duration,
            max_steps_reached=run.step >= run.spec.max_steps,
            suppress_feedback=gate.config.suppress_feedback,
            step=run.step,
        )
    )
    return verdict


def _stop_on(verdict: Verdict, run: RunState, config: TaskCompletion) -> StopReason | None:
    """Return why the verdict ends the run; ``None`` where another draft may follow."""
    if verdict.passed is None:
        return "answered"
    if verdict.passed:
        return "complete"
    if not verdict.with_status("failed"):
        errored = verdict.with_status("errored")[0]
        if config.on_scorer_error == "stop":
            return "scorer_error"
        if config.on_scorer_error == "raise":
            raise _scorer_error(errored, run.steps[-1].text)
    if config.stop_when_stalled is not None and run.stalled(config.stop_when_stalled):
        return "stalled"
    if config.max_attempts is not None and len(run.attempts) >= config.max_attempts:
        return "max_attempts"
    return None


def _scorer_error(errored: ScorerVerdict, draft: str) -> ScorerError:
    """Return the error of a scorer that could not judge, with the draft that it leaves behind."""
    error = errored.error
    if not isinstance(error, ScorerError):
        error = ScorerError(f"scorer {errored.scorer_id!r} could not judge: {errored.reason}")
        error.__cause__ = errored.error
    error.partial_text = draft
    return error


async def _feed_back(run: RunState, config: TaskCompletion, attempt: int, out: Out) -> None:
    """The draft is rejected and another turn follows: take it back, and say what is to be mended."""
    verdict = run.attempts[-1].verdict
    if not verdict.with_status("failed"):
        text = NEUTRAL
    elif config.feedback is not None:
        text = await consult(config.feedback, run.named("feedback"), verdict, wanted=str)
        if not text.strip():
            msg = f"{run.named('feedback')} must return what is to be mended, got {text!r}"
            raise UserError(msg)
    else:
        text = feedback_text(verdict)
    run.reject(feedback_message(text))
    await out.emit(OutputSuperseded(attempt=attempt, cause="rejected", step=run.step))

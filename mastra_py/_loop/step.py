"""One model call with its error processors: what agents and judges share.

This is the only place where anything is retried. The processors say whether and after how long; the waiting, the cap
and the taking back of what was shown are decided here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from mastra_py._loop.accumulate import Reply, ReplyFold
from mastra_py._loop.callbacks import logger
from mastra_py._loop.channel import Out
from mastra_py._loop.ledger import Ledger
from mastra_py._loop.processing import Pipeline, with_text
from mastra_py.errors import MastraError, ModelError, StreamError, TripWire
from mastra_py.events import ModelEvent, ModelFinished, OutputSuperseded, RetryScheduled, StopReason
from mastra_py.models._errors import wrap_exception
from mastra_py.models.base import Model, ModelRequest
from mastra_py.processors.base import ApiErrorContext, ErrorProcessor, Retry, sane_delay

CUT_OFF: dict[str, StopReason] = {"length": "length", "content_filter": "content_filter", "refusal": "refusal"}
"""Finish reasons of a turn that is never scored and whose tools never run."""


@dataclass(slots=True, kw_only=True)
class ModelCall:
    """A model call to be made: ``owner`` is the key of who makes it, e.g. ``agent:supervisor``.

    ``max_retries`` caps the retries of all processors together. ``attempts`` counts the requests sent for it, ``fold``
    is the attempt under way.
    """

    model: Model
    request: ModelRequest
    owner: str
    ledger: Ledger
    error_processors: Sequence[ErrorProcessor] = ()
    max_retries: int = 0
    step: int = 1
    run_id: str = ""
    request_context: Any = None
    pipeline: Pipeline | None = None
    attempts: int = 0
    fold: ReplyFold = dataclasses.field(default_factory=ReplyFold)


async def model_step(call: ModelCall, out: Out) -> Reply:
    """Make the call, again where the processors say so, and return the reply.

    Raises:
        ModelError: the call failed for good; it carries the partial text.
        TripWire: a processor stopped the run.
    """
    retries = 0
    request = call.request if call.pipeline is None else await call.pipeline.request(call.request, call.step)
    while True:
        try:
            return await _attempt(call, request, out)
        except ModelError as exc:
            error = exc
        ctx = ApiErrorContext(
            error=error,
            retry_count=retries,
            step=call.step,
            run_id=call.run_id,
            owner_id=call.owner,
            messages=request.messages,
            request_context=call.request_context,
        )
        await _take_back(call, out)
        # Text that a reader of live text has seen cannot be taken back: a retry would say it twice.
        retry = None if out.shown_text else await _ask(call, ctx)
        if retry is None:
            raise error
        delay = sane_delay(retry.delay)
        await out.emit(RetryScheduled(attempt=call.attempts, delay=delay, error=error, step=call.step))
        await out.drained()
        await anyio.sleep(delay)
        retries += 1
        if retry.append:
            request = dataclasses.replace(request, messages=(*request.messages, *retry.append))


async def _attempt(call: ModelCall, request: ModelRequest, out: Out) -> Reply:
    fold = call.fold = ReplyFold()
    out.shown_text = False
    model, pipeline = call.model, call.pipeline
    call.attempts += 1
    call.ledger.requests += 1
    held: list[ModelEvent] | None = None
    try:
        async with model.stream(request) as events:
            if pipeline is None or not (pipeline.streams or pipeline.holds):
                await _relay(call, events, out)
            else:
                held = await _relay_processed(call, pipeline, events, out)
        if fold.finished is None:
            msg = "the reply ended before it was finished"
            raise StreamError(msg)  # noqa: TRY301 -- handled like the model's own errors
    except ModelError as exc:
        _complete(exc, call)
        raise
    except (MastraError, AssertionError):
        raise
    except Exception as exc:  # the port promises ModelErrors; whatever else leaves a model is made one
        error = wrap_exception(exc, provider=model.provider, model=model.id)
        _complete(error, call)
        raise error from exc
    call.ledger.add(call.owner, fold.finished.usage)
    reply = fold.reply(call.attempts)
    if pipeline is not None and held is not None:
        answer = not reply.tool_calls and reply.finish_reason not in CUT_OFF
        text = await pipeline.text(reply.text, call.step, answer=answer)
        for event in with_text(held, reply, text):
            await out.emit(event)
        fold.shown = True
        reply = reply.with_text(text)
    return reply


async def _relay(call: ModelCall, events: AsyncIterator[ModelEvent], out: Out) -> None:
    fold, step = call.fold, call.step
    async for event in events:
        event.step = step
        fold.add(event)
        if out.put(event):
            await out.room()


async def _relay_processed(
    call: ModelCall, pipeline: Pipeline, events: AsyncIterator[ModelEvent], out: Out
) -> list[ModelEvent] | None:
    """Relay what the output processors make of the events; where one wants the whole reply, hold them back."""
    held: list[ModelEvent] | None = [] if pipeline.holds else None
    async for incoming in events:
        incoming.step = call.step
        event = incoming if type(incoming) is ModelFinished else await pipeline.event(incoming, call.step)
        if event is None:
            continue
        call.fold.add(event)
        if held is None:
            await out.emit(event)
        else:
            call.fold.shown = False
            held.append(event)
    return held


def _complete(error: ModelError, call: ModelCall) -> None:
    """Put on the error what only the loop knows, and book what the failed attempt cost."""
    fold = call.fold
    error.provider = error.provider or call.model.provider
    error.model = error.model or call.model.id
    error.partial_text = fold.text or error.partial_text
    if fold.finished is not None:
        call.ledger.add(f"failed:{call.owner.partition(':')[2]}", fold.finished.usage)


async def _take_back(call: ModelCall, out: Out) -> None:
    if call.fold.shown:
        await out.emit(OutputSuperseded(attempt=call.attempts, cause="provider-error", step=call.step))
        await out.drained()  # only then is it known whether a reader of live text has seen any


async def _ask(call: ModelCall, ctx: ApiErrorContext) -> Retry | None:
    if ctx.retry_count >= call.max_retries:
        return None
    for processor in call.error_processors:
        try:
            retry = await processor.process_api_error(ctx)
        except MastraError as exc:
            if isinstance(exc, TripWire) and exc.processor_id is None:
                exc.processor_id = processor.id
            raise
        except Exception:  # noqa: BLE001 -- a faulty processor must not turn a provider's failure into another one
            logger.exception("error processor %r raised on %r; the next one is asked", processor.id, ctx.error)
            continue
        if retry is not None:
            return retry
    return None

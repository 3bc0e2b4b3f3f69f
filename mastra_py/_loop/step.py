"""One model call with its error processors: what agents and judges share.

This is the only place where a call is made again, but for a legacy model's own retries: after an outage, where the
processors say so and after how long; at once, where a refusal taught what the model lacks; and with the next model to
fall back on. The waiting, the cap and the taking back of what was shown are decided here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import anyio

from mastra_py._loop.accumulate import Reply, ReplyFold
from mastra_py._loop.callbacks import logger, passing_over, resolve
from mastra_py._loop.channel import NullOut, Out
from mastra_py._loop.faults import replaced_cancel
from mastra_py._loop.ledger import Ledger
from mastra_py._loop.processing import Pipeline, with_text
from mastra_py.errors import MastraError, ModelError, StreamError
from mastra_py.events import ModelEvent, ModelFinished, OutputSuperseded, ProfileLearned, RetryScheduled, StopReason
from mastra_py.messages import Message
from mastra_py.models._errors import wrap_exception
from mastra_py.models.base import Model, ModelRequest, alternatives_of
from mastra_py.processors.base import ApiErrorContext, ErrorProcessor, Retry, sane_delay
from mastra_py.usage import ModelKey

CUT_OFF: dict[str, StopReason] = {"length": "length", "content_filter": "content_filter", "refusal": "refusal"}
"""Finish reasons of a turn that is never scored and whose tools never run."""


@dataclass(slots=True, kw_only=True)
class ModelCall:
    """A model call to be made: ``owner`` is the key of who makes it, e.g. ``agent:supervisor``.

    ``model`` is the one of ``models``, those to be tried in order, that is asked now; the call begins with it.
    ``max_retries`` caps the retries of all processors together. ``attempts`` counts the requests sent for it, ``asks``
    how often a reply was asked for: twice, where the first had the wrong form. ``fold`` is what the attempt under way
    has said, as the output processors leave it, and ``failed`` whether it failed. ``shown`` says whether anything was
    shown and taken back because an attempt failed.
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
    models: tuple[Model, ...] = ()
    attempts: int = 0
    asks: int = 1
    shown: bool = False
    failed: bool = False
    fold: ReplyFold = dataclasses.field(default_factory=ReplyFold)

    @property
    def model_key(self) -> ModelKey:
        """What the usage of the model that is asked now is entered under."""
        return self.model.provider, self.model.id


async def model_step(call: ModelCall, out: Out) -> Reply:
    """Make the call, again where the processors say so, then with the models to fall back on, and return the reply.

    Raises:
        ModelError: the call failed for good; it carries the partial text.
        TripWire: a processor stopped the run.
    """
    request = call.request
    if call.pipeline is not None:
        call.pipeline.at(call.step, call.attempts + 1)
        request = await call.pipeline.request(request)
    call.shown = False
    if not call.models:
        call.models = alternatives_of(call.model)
        call.model = call.models[0]
    earlier: list[ModelError] = []
    for following in call.models[call.models.index(call.model) + 1 :]:
        try:
            return await _with_retries(call, request, out)
        except ModelError as exc:
            _note(exc, earlier)
            if call.shown or replaced_cancel(exc):
                raise
            scheduled = RetryScheduled(attempt=call.attempts, delay=0.0, error=exc, model=following.id, step=call.step)
            earlier.append(exc)
        await out.emit(scheduled)
        await out.drained()
        call.model = following
    try:
        return await _with_retries(call, request, out)
    except ModelError as exc:
        _note(exc, earlier)
        raise


def _note(error: ModelError, earlier: Sequence[ModelError]) -> None:
    """Say on the error of a model that was fallen back on how those before it have failed."""
    for failure in earlier:
        error.add_note(f"fallen back on after: {failure}")


async def _with_retries(call: ModelCall, request: ModelRequest, out: Out) -> Reply:
    retries = 0
    learned: set[str] = set()
    while True:
        try:
            return await _attempt(call, request, out)
        except ModelError as exc:
            if replaced_cancel(exc):
                raise
            # What a model lacks is learned once. A refusal comes before any output: there is nothing to take back.
            if exc.learned is not None and exc.learned not in learned and not call.fold.shown:
                learned.add(exc.learned)
                await _tell_learned(call, exc, exc.learned, out)
                continue
            retry = await _after_failure(call, request, exc, retries, out)
            if retry is None:
                raise
        await anyio.sleep(sane_delay(retry.delay))
        retries += 1
        if retry.append:
            request = _with_messages(request, retry.append)
            call.request = _with_messages(call.request, retry.append)  # a re-ask belongs to the same step


async def _tell_learned(call: ModelCall, error: ModelError, lacks: str, out: Out) -> None:
    event = ProfileLearned(attempt=call.attempts, model=call.model.id, lacks=lacks, error=error, step=call.step)
    await out.emit(event)
    await out.drained()


def _with_messages(request: ModelRequest, messages: Sequence[Message]) -> ModelRequest:
    return dataclasses.replace(request, messages=(*request.messages, *messages))


async def _after_failure(
    call: ModelCall, request: ModelRequest, error: ModelError, retries: int, out: Out
) -> Retry | None:
    """Take back what the failed attempt has shown, and ask whether the call is made again."""
    ctx = ApiErrorContext(
        error=error,
        retry_count=retries,
        step=call.step,
        run_id=call.run_id,
        owner_id=call.owner,
        messages=request.messages,
        request_context=call.request_context,
    )
    await take_back(call, out, "provider-error")
    # Text that a reader of live text has seen cannot be taken back: a retry would say it twice.
    retry = None if out.shown_text else await _ask(call, ctx)
    if retry is not None:
        call.ledger.ask(call.model_key)  # no wait is served for what the budget forbids
        delay = sane_delay(retry.delay)
        await out.emit(RetryScheduled(attempt=call.attempts, delay=delay, error=error, step=call.step))
        await out.drained()
    return retry


async def take_back(call: ModelCall, out: Out, cause: Literal["provider-error", "rejected"]) -> None:
    """Say that what the call has shown counts no more, once the reader has seen all of it."""
    shown = call.fold.shown
    call.fold = ReplyFold()
    if shown:
        call.shown = call.shown or (cause == "provider-error" and not isinstance(out, NullOut))
        out.retract()
        await out.emit(OutputSuperseded(attempt=call.attempts, cause=cause, step=call.step))
        await out.drained()  # only then is it known whether a reader of live text has seen any


async def _attempt(call: ModelCall, request: ModelRequest, out: Out) -> Reply:
    fold = call.fold = ReplyFold()
    out.begin_attempt()
    call.attempts += 1
    call.failed = False
    held: list[ModelEvent] | None = None
    pipeline = call.pipeline
    if pipeline is not None:
        pipeline.at(call.step, call.attempts)
    opened: object = None
    try:
        call.ledger.ask(call.model_key)
        opened = stream = call.model.stream(request)
        call.ledger.sent()  # not before: a request that a model cannot even write is never sent
        async with stream as events:
            if pipeline is None or not (pipeline.streams or pipeline.holds):
                await _relay(call, events, out)
            else:
                held = await _relay_processed(call, pipeline, events, out)
        _require_whole(fold)
    except (MastraError, AssertionError) as exc:
        if isinstance(exc, ModelError):
            _complete(exc, call)
        raise
    except Exception as exc:
        if replaced_cancel(exc):
            raise
        if _is_whole(fold):
            logger.exception("closing the reply of %s/%s raised; it is whole", call.model.provider, call.model.id)
        else:  # the port promises ModelErrors; whatever else leaves a model is made one
            raise _complete(wrap_exception(exc, provider=call.model.provider, model=call.model.id), call) from exc
    finally:
        _count_further(call, getattr(opened, "requests", 1) - 1)
        if fold.finished is not None:
            owner = f"failed:{call.owner.partition(':')[2]}" if call.failed else call.owner
            call.ledger.add(owner, fold.finished.usage, call.model_key)
    reply = fold.reply(call.attempts)
    return reply if pipeline is None or held is None else await _release(call, pipeline, reply, held, out)


def _count_further(call: ModelCall, further: int) -> None:
    """Count the further requests of a model that makes failed ones again by itself."""
    if further > 0:
        call.attempts += further
        call.ledger.sent(further)


def _is_whole(fold: ReplyFold) -> bool:
    return fold.finished is not None and fold.finished.finish_reason != "error"


def _require_whole(fold: ReplyFold) -> None:
    if not _is_whole(fold):
        msg = (
            "the reply ended before it was finished"
            if fold.finished is None
            else "the model says that its reply failed"
        )
        raise StreamError(msg)


def _complete(error: ModelError, call: ModelCall) -> ModelError:
    """Mark the attempt as failed, and put on the error what only the loop knows."""
    call.failed = True
    error.provider = error.provider or call.model.provider
    error.model = error.model or call.model.id
    error.partial_text = call.fold.shown_text
    return error


async def _release(call: ModelCall, pipeline: Pipeline, reply: Reply, held: list[ModelEvent], out: Out) -> Reply:
    """Let the output processors have the whole reply, and show what they make of it."""
    answer = not reply.tool_calls or reply.finish_reason in CUT_OFF
    text = await pipeline.text(reply.text, answer=answer)
    fold = call.fold = ReplyFold()
    for event in with_text(held, reply, text):
        fold.add(event)
        await out.emit(event)
    return fold.reply(call.attempts)


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
        event = incoming if type(incoming) is ModelFinished else await pipeline.event(incoming)
        if event is None:
            continue
        call.fold.add(event)
        if held is None:
            await out.emit(event)
        else:
            call.fold.shown = False
            held.append(event)
    return held


async def _ask(call: ModelCall, ctx: ApiErrorContext) -> Retry | None:
    if ctx.retry_count >= call.max_retries:
        return None
    for processor in call.error_processors:
        retry: Retry | None = None
        with passing_over(processor.id, "process_api_error"):
            retry = _read_retry(await resolve(processor.process_api_error(ctx)))
        if retry is not None:
            return retry
    return None


def _read_retry(answer: object) -> Retry | None:
    if answer is None or isinstance(answer, Retry):
        return answer
    msg = f"process_api_error must return a Retry or None, got {answer!r}"
    raise TypeError(msg)

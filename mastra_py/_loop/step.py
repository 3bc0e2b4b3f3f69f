"""One model call with its error processors: what agents and judges share.

This is the only place where anything is retried. The processors say whether and after how long; the waiting, the cap and
the taking back of what was shown are decided here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from mastra_py._loop.accumulate import Reply, ReplyFold
from mastra_py._loop.callbacks import logger
from mastra_py._loop.channel import Out
from mastra_py._loop.ledger import Ledger
from mastra_py.errors import MastraError, ModelError, StreamError, TripWire
from mastra_py.events import OutputSuperseded, RetryScheduled
from mastra_py.models._errors import wrap_exception
from mastra_py.models.base import Model, ModelRequest
from mastra_py.processors.base import ApiErrorContext, ErrorProcessor, Retry, sane_delay


@dataclass(slots=True, kw_only=True)
class ModelCall:
    """A model call to be made: ``owner`` is the key of who makes it, e.g. ``agent:supervisor``.

    ``max_retries`` caps the retries of all processors together. ``fold`` is the attempt under way.
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
    fold: ReplyFold = dataclasses.field(default_factory=ReplyFold)


async def model_step(call: ModelCall, out: Out) -> Reply:
    """Make the call, again where the processors say so, and return the reply.

    Raises:
        ModelError: the call failed for good; it carries the partial text.
        TripWire: a processor stopped the run.
    """
    retries = 0
    while True:
        try:
            await _attempt(call, out)
            return call.fold.reply(retries + 1)
        except ModelError as exc:
            error = exc
        ctx = ApiErrorContext(
            error=error,
            retry_count=retries,
            step=call.step,
            run_id=call.run_id,
            owner_id=call.owner,
            messages=call.request.messages,
            request_context=call.request_context,
        )
        await _take_back(call, out, retries + 1)
        # Text that a reader of live text has seen cannot be taken back: a retry would say it twice.
        retry = None if out.shown_text else await _ask(call, ctx)
        if retry is None:
            raise error
        delay = sane_delay(retry.delay)
        await out.emit(RetryScheduled(attempt=retries + 1, delay=delay, error=error, step=call.step))
        await out.drained()
        await anyio.sleep(delay)
        retries += 1
        if retry.append:
            call.request = dataclasses.replace(call.request, messages=(*call.request.messages, *retry.append))


async def _attempt(call: ModelCall, out: Out) -> None:
    fold = call.fold = ReplyFold()
    out.shown_text = False
    model, step = call.model, call.step
    call.ledger.requests += 1
    try:
        async with model.stream(call.request) as events:
            async for event in events:
                event.step = step
                fold.add(event)
                if out.put(event):
                    await out.room()
        if fold.finished is None:
            raise StreamError("the reply ended before it was finished", provider=model.provider, model=model.id)  # noqa: TRY301, EM101 -- handled like the model's own errors
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


def _complete(error: ModelError, call: ModelCall) -> None:
    """Put on the error what only the loop knows, and book what the failed attempt cost."""
    fold = call.fold
    error.provider = error.provider or call.model.provider
    error.model = error.model or call.model.id
    error.partial_text = fold.text or error.partial_text
    if fold.finished is not None:
        call.ledger.add(f"failed:{call.owner.partition(':')[2]}", fold.finished.usage)


async def _take_back(call: ModelCall, out: Out, attempt: int) -> None:
    if call.fold.shown:
        await out.emit(OutputSuperseded(attempt=attempt, cause="provider-error", step=call.step))
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
        except Exception:  # a faulty processor must not turn a provider's failure into another one
            logger.exception("error processor %r raised on %r; the next one is asked", processor.id, ctx.error)
            continue
        if retry is not None:
            return retry
    return None

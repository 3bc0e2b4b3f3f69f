"""The error processor that makes failed model calls again: which failures, how often, and after how long."""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from tenacity import AsyncRetrying, RetryCallState
from tenacity.wait import wait_base

from mastra_py._loop.callbacks import notify, resolve
from mastra_py.errors import ModelError, UserError
from mastra_py.processors._failures import (
    cause_chain,
    implied_mark,
    is_hopeless,
    is_openai_stream_error,
    requested_wait,
    stated_mark,
)
from mastra_py.processors.base import ApiErrorContext, Retry, sane_delay

RetryDelay: TypeAlias = float | wait_base | Callable[[ApiErrorContext], float | Awaitable[float]]
"""How long to wait: seconds, a tenacity ``wait_*`` object, or a plain or async function that returns seconds."""

Match: TypeAlias = Callable[[Exception], bool | Awaitable[bool]]
"""Whether an exception is one to retry; a plain or async function."""


@dataclass(frozen=True, slots=True)
class RetryMatcher:
    """A kind of failure to retry, with limits of its own.

    ``match`` sees the failed call's exception and then each of its causes. The first matcher that matches decides: what
    it leaves ``None`` is taken from the processor.

    Example::

        RetryMatcher(lambda error: "socket hang up" in str(error), max_retries=3, delay=0.5)

    Attributes:
        match: a plain or async function of an exception.
        max_retries: retries of a model call; 0 says that such a failure is final.
        delay: how long to wait; see :data:`RetryDelay`.
        on_retry: called with the :class:`ApiErrorContext` and the delay in seconds before the wait; may be async. If it
            raises, that is logged and the retry goes on, except for a :class:`~mastra_py.errors.MastraError`.

    Raises:
        UserError: an option is of a wrong type or out of range.
    """

    match: Match
    max_retries: int | None = None
    delay: RetryDelay | None = None
    on_retry: Callable[[ApiErrorContext, float], Any] | None = None

    def __post_init__(self) -> None:
        _check_function("RetryMatcher match", self.match)
        if self.max_retries is not None:
            _check_count("RetryMatcher max_retries", self.max_retries)
        if self.delay is not None:
            _check_delay("RetryMatcher delay", self.delay)
        if self.on_retry is not None:
            _check_function("RetryMatcher on_retry", self.on_retry)


class StreamErrorRetryProcessor:
    """Makes a failed model call again where that may help.

    Retried is what the provider marks as passing (by its own word, or by status 408, 409, 429 or 500 and above),
    failures to reach it, passing failures that OpenAI reports inside a stream, and whatever ``matchers`` match. All of
    these are looked for in the exception and its causes. A wrong key, an invalid request, a conversation that is too
    long and a used-up quota are not retried unless a matcher matches them.

    The wait is the longer one of ``delay`` and what the provider asks for in ``Retry-After``, the latter up to
    ``max_retry_after``. It is the loop that waits.

    Example::

        from tenacity import wait_random_exponential

        StreamErrorRetryProcessor(
            max_retries=3,
            delay=wait_random_exponential(multiplier=0.5, max=20),
            matchers=[RetryMatcher(is_bad_request, max_retries=1)],
        )

    Args:
        max_retries: retries of a model call. The retries of all processors count, as ``ctx.retry_count`` has them.
        max_retry_after: limit of a wait that the provider asks for, in seconds. It does not limit ``delay``.
        delay: the least wait; see :data:`RetryDelay`. A tenacity wait sees the number of the attempt that failed, from
            1, and the error as its outcome. A computed number that is negative, NaN or infinite counts as 0.
        matchers: further failures to retry: :class:`RetryMatcher` objects, plain or async functions of an exception,
            or one of these alone.
        retry_unknown_errors: retry everything else too, except what is known to fail again: the statuses 400, 401, 403,
            404 and 422, a wrong key, a used-up quota, a conversation that is too long, content that was refused.
        id: name of the processor in logs and errors.

    Raises:
        UserError: an option is of a wrong type or out of range.
    """

    __slots__ = ("_built_in", "delay", "id", "matchers", "max_retries", "max_retry_after", "retry_unknown_errors")

    def __init__(
        self,
        max_retries: int = 1,
        max_retry_after: float = 30.0,
        delay: RetryDelay = 0.0,
        matchers: RetryMatcher | Match | Iterable[RetryMatcher | Match] = (),
        retry_unknown_errors: bool = False,  # noqa: FBT001, FBT002 -- the options keep their order for positional use
        *,
        id: str = "stream-error-retry",
    ) -> None:
        _check_count("StreamErrorRetryProcessor max_retries", max_retries)
        _check_seconds("StreamErrorRetryProcessor max_retry_after", max_retry_after)
        _check_delay("StreamErrorRetryProcessor delay", delay)
        self.id = id
        self.max_retries = max_retries
        self.max_retry_after = float(max_retry_after)
        self.delay = delay
        self.matchers = _read_matchers(matchers)
        if not isinstance(retry_unknown_errors, bool):  # pyright: ignore[reportUnnecessaryIsInstance] -- users err
            msg = f"StreamErrorRetryProcessor retry_unknown_errors must be True or False, got {retry_unknown_errors!r}"
            raise UserError(msg)
        self.retry_unknown_errors = retry_unknown_errors
        self._built_in = RetryMatcher(is_openai_stream_error)  # it sets nothing: the processor's own limits hold

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(max_retries={self.max_retries!r}, max_retry_after={self.max_retry_after!r}, "
            f"delay={self.delay!r}, matchers={self.matchers!r}, retry_unknown_errors={self.retry_unknown_errors!r}, "
            f"id={self.id!r})"
        )

    async def process_api_error(self, ctx: ApiErrorContext, /) -> Retry | None:
        """Return a :class:`Retry` with the delay, or ``None`` where the failure is not for this processor.

        What a matcher or a delay function raises comes out.
        """
        policy = await self._policy(ctx.error)
        if policy is None:
            return None
        max_retries = self.max_retries if policy.max_retries is None else policy.max_retries
        if ctx.retry_count >= max_retries:
            return None
        own = await self._own_delay(self.delay if policy.delay is None else policy.delay, ctx)
        asked = requested_wait(ctx.error, ctx.received_at) or 0.0
        delay = max(own, min(asked, self.max_retry_after))
        if policy.on_retry is not None:
            what = f"on_retry of {self.id!r} before retry {ctx.retry_count + 1} after {ctx.error!r}"
            await notify(policy.on_retry, what, ctx, delay)
        return Retry(delay=delay)

    async def _policy(self, error: Exception) -> RetryMatcher | None:
        judged = False
        for cause in cause_chain(error):
            # A ModelError that has judged the client's error beneath it knew more than that error's status tells.
            is_evidence = isinstance(cause, ModelError) or not judged
            if is_evidence and is_openai_stream_error(cause):
                return self._built_in
            for matcher in self.matchers:
                if await resolve(matcher.match(cause)):
                    return matcher
            mark = stated_mark(cause)
            if mark is None and is_evidence:
                mark = implied_mark(cause)
            if mark:
                return self._built_in
            judged = judged or mark is not None
        return self._built_in if self.retry_unknown_errors and not is_hopeless(error) else None

    async def _own_delay(self, delay: RetryDelay, ctx: ApiErrorContext) -> float:
        if isinstance(delay, (int, float)):
            return float(delay)
        called = delay(_call_state(delay, ctx)) if isinstance(delay, wait_base) else delay(ctx)
        answer = await resolve(called)
        seconds = _seconds(answer)
        if seconds is None:
            msg = f"the delay function of {self.id!r} returned {answer!r}; it must return a number of seconds"
            raise UserError(msg)
        return sane_delay(seconds)


def _call_state(wait: wait_base, ctx: ApiErrorContext) -> RetryCallState:
    """Return what a tenacity wait is called with in a retry loop, at the point where the call has just failed."""
    state = RetryCallState(AsyncRetrying(wait=wait), fn=None, args=(), kwargs={})
    state.attempt_number = ctx.retry_count + 1
    state.set_exception((type(ctx.error), ctx.error, ctx.error.__traceback__))
    return state


def _read_matchers(matchers: object) -> tuple[RetryMatcher, ...]:
    if isinstance(matchers, RetryMatcher) or callable(matchers):
        return (_read_matcher("matchers", matchers),)
    if not isinstance(matchers, Iterable) or isinstance(matchers, (str, bytes)):
        msg = f"StreamErrorRetryProcessor matchers must be RetryMatcher objects or functions, got {matchers!r}"
        raise UserError(msg)
    items = cast("Iterable[object]", matchers)
    return tuple([_read_matcher(f"matchers[{i}]", item) for i, item in enumerate(items)])


def _read_matcher(name: str, item: object) -> RetryMatcher:
    if isinstance(item, RetryMatcher):
        return item
    _check_function(f"StreamErrorRetryProcessor {name}", item)
    return RetryMatcher(cast("Match", item))


def _check_function(name: str, value: object) -> None:
    if inspect.isclass(value):
        # An exception class is callable, too, and would match everything.
        msg = f"{name} must be a function, got the class {value.__name__}; give a function that tells such objects"
        raise UserError(msg)
    if not callable(value):
        msg = f"{name} must be a function, got {value!r}"
        raise UserError(msg)


def _check_count(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        msg = f"{name} must be a whole number from 0, got {value!r}"
        raise UserError(msg)


def _check_seconds(name: str, value: object) -> None:
    seconds = _seconds(value)
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        msg = f"{name} must be a finite number of seconds from 0, got {value!r}"
        raise UserError(msg)


def _check_delay(name: str, value: object) -> None:
    if isinstance(value, wait_base) or (callable(value) and not inspect.isclass(value)):
        return
    if _seconds(value) is None:
        msg = f"{name} must be seconds, a tenacity wait object or a function of the ApiErrorContext, got {value!r}"
        raise UserError(msg)
    _check_seconds(name, value)


def _seconds(value: object) -> float | None:
    """Return ``value`` as seconds, infinite where it is out of a float's range; ``None`` where it is no number."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf

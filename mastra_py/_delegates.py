"""A supervisor's sub-agents as its tools: how one is run inside of another's tool call."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import anyio
import anyio.lowlevel

from mastra_py._loop.callbacks import logger, resolve
from mastra_py._loop.faults import replaced_cancel
from mastra_py._loop.host import Host, nested_out
from mastra_py._loop.run import run_loop
from mastra_py._loop.state import RunState
from mastra_py.delegation import (
    Delegation,
    DelegationContext,
    DelegationError,
    DelegationKind,
    DelegationOutcome,
    Proceed,
    Reject,
    Replace,
    Stop,
)
from mastra_py.errors import (
    JudgeError,
    MastraError,
    ModelError,
    OutputValidationError,
    RunError,
    ScorerError,
    ToolError,
    UserError,
)
from mastra_py.events import RunFailed
from mastra_py.messages import FeedbackPart, FilePart, ImagePart, Message, MessageLike, TextPart, load_messages
from mastra_py.models._wire_names import wire_name
from mastra_py.options import DEFAULT_MAX_STEPS, AgentConfig, build_spec
from mastra_py.results import AgentResult
from mastra_py.tools import Tool, ToolContext

_RUN_SCOPED = frozenset({"rubric", "run_id", "thread", "resource"})
"""Keys of a request context that belong to the supervisor's own run: a sub-agent's copy is without them."""

_LOUD = (UserError, AssertionError)
"""Mistakes of the program, or of a test, which no model can mend."""

_ANSWERED = frozenset({"answered", "complete", "stop_when"})
_PASSED_ON = (TextPart, ImagePart, FilePart, FeedbackPart)


@dataclass(frozen=True, slots=True)
class Delegate:
    """A sub-agent: its key, what it is, and what a supervisor reads about it."""

    key: str
    config: AgentConfig
    description: str

    @property
    def tool_name(self) -> str:
        """What the supervisor's model calls it by."""
        return wire_name(f"agent-{self.key}")

    def as_tool(self) -> Tool:
        """Return the tool that runs it."""

        async def delegate(ctx: ToolContext, prompt: str, max_steps: float | None = None) -> Any:
            if not prompt.strip():  # the model's mistake, and so for it to read
                msg = f"tool {ctx.tool_name!r} did not run: its prompt is blank"
                raise ToolError(msg)
            # JSON Schema takes 2.0 for an integer.
            return await _Run(self, ctx, prompt, None if max_steps is None else int(max_steps)).result()

        properties = {
            "prompt": {"type": "string", "description": "The task, with all that is needed to do it."},
            "max_steps": {"type": "integer", "minimum": 1, "description": "Fewer steps than it may take by itself."},
        }
        parameters = {"type": "object", "properties": properties, "required": ["prompt"], "additionalProperties": False}
        return Tool(name=self.tool_name, description=self.description, parameters=parameters, run=delegate)


class _Run:
    """One delegation: what is asked before it, the sub-agent's run, what is told after it."""

    def __init__(self, delegate: Delegate, ctx: ToolContext, prompt: str, max_steps: int | None) -> None:
        if ctx.host is None:
            msg = f"tool {ctx.tool_name!r} delegates to an agent and works inside of a run only"
            raise UserError(msg)
        self._delegate = delegate
        self._ctx = ctx
        self._host: Host = ctx.host
        self._rules = cast("Delegation", self._host.delegation or Delegation())
        own: int = delegate.config.option("max_steps") or DEFAULT_MAX_STEPS
        limit = own if self._rules.max_steps is None else self._rules.max_steps
        self._context = DelegationContext(
            key=delegate.key,
            agent_id=delegate.config.id,
            prompt=prompt,
            max_steps=limit if max_steps is None else min(limit, max_steps),
            depth=len(self._host.path) + 1,
            supervisor_id=ctx.agent_id,
            run_id=ctx.run_id,
            step=ctx.step,
            tool_call_id=ctx.tool_call_id,
            messages=ctx.messages,
            request_context=ctx.request_context,
        )

    async def result(self) -> Any:
        """Run the sub-agent and return what its supervisor gets.

        Raises:
            DelegationError: there is no answer that stands.
        """
        try:
            return await self._answer()
        except DelegationError:
            raise
        except (MastraError, AssertionError) as exc:  # of a hook, or misuse: it ends the supervisor's run
            self._host.fatal = self._host.fatal or exc
            raise

    async def _answer(self) -> Any:
        result: AgentResult[Any] | None = None
        error: DelegationError | None = None
        try:
            result = await self._run()  # an answer that stands
        except DelegationError as exc:
            error, result = exc, exc.result
        outcome = DelegationOutcome(context=self._context, result=result, error=error)
        replaced = await self._completed(outcome)
        if replaced is not None:
            return replaced.result
        if error is not None:
            raise error
        return result.output if result is not None else None

    async def _run(self) -> AgentResult[Any]:
        self._check_depth()
        await self._start()
        run = await self._prepared()
        out = nested_out(self._host.out, agent_id=self._context.agent_id, path=run.path, step=self._ctx.step)
        try:
            await run_loop(run, out)
        except anyio.get_cancelled_exc_class():
            await anyio.lowlevel.checkpoint_if_cancelled()
            # Nobody has cancelled the supervisor's run: something in this one has met a cancellation of its own.
            error = RunError("something in the run was cancelled, and not by its reader")
            await out.emit(RunFailed(error=error, step=run.step))
            text = "failed: cancelled"
            raise self._error(text, "cancelled") from None
        except Exception as exc:
            if replaced_cancel(exc):  # by a scope of its own, such as its deadline, or by one that says so again
                await anyio.lowlevel.checkpoint_if_cancelled()
            await out.emit(RunFailed(error=exc, step=run.step))
            if isinstance(exc, _LOUD):
                raise
            raise self._failed(exc) from exc
        result = run.result()
        # A condition may have stopped it among its tools: then it has no answer of the type that was asked for.
        untyped = result.stop_reason == "stop_when" and result.output is None
        if untyped or result.stop_reason not in _ANSWERED:
            raise self._unfinished(result)
        return result

    def _check_depth(self) -> None:
        if self._context.depth > self._rules.max_depth:
            text = f"was not asked: agents may delegate {self._rules.max_depth} deep, and this would be deeper"
            raise self._error(text, "depth")

    async def _start(self) -> None:
        """Ask whether to begin, and take over what is to be changed."""
        if self._rules.on_start is None:
            return
        with self._asked_before("on_start", "the check before it failed"):
            answer: Any = await resolve(self._rules.on_start(self._context))
        if isinstance(answer, Reject):
            text = f"was not asked: {answer.reason}"
            raise self._error(text, "rejected")
        if isinstance(answer, Proceed):
            changes = {f.name: v for f in dataclasses.fields(answer) if (v := getattr(answer, f.name)) is not None}
            self._context = dataclasses.replace(self._context, **changes)
        elif answer is not None:
            msg = f"on_start of {self._named} must return Proceed, Reject or None, got {answer!r}"
            raise UserError(msg)

    async def _prepared(self) -> RunState:
        context = self._context
        config = self._delegate.config
        spec = build_spec(
            config,
            context.prompt,
            await self._passed_on(),
            self._rules.output.get(context.key, str),
            {
                "max_steps": context.max_steps,
                "request_context": _for_sub_agent(context.request_context),
                "delegation": self._rules_below(),
            },
            legacy=config.model.profile.legacy,
        )
        return RunState(spec, path=(*self._host.path, self._ctx.tool_call_id))

    async def _passed_on(self) -> list[Message]:
        """Return what the sub-agent sees of its supervisor's conversation."""
        message_filter = self._rules.message_filter
        if message_filter is None:
            return []
        with self._asked_before("message_filter", "the filter of what it may see failed"):
            return _readable(await resolve(message_filter(self._context)), self._named)  # it may be a generator

    @contextmanager
    def _asked_before(self, hook: str, refusal: str) -> Generator[None]:
        """Ask a hook that has to answer before the sub-agent runs: where it raises, there is no delegation."""
        try:
            yield
        except MastraError:
            raise
        except Exception as exc:
            if replaced_cancel(exc):
                raise
            logger.exception("%s of %s raised; it is not asked", hook, self._named)
            text = f"was not asked: {refusal}"
            raise self._error(text, "rejected") from exc

    def _rules_below(self) -> Delegation:
        """Return how the sub-agent delegates: by its own rules, where it has none by these, never deeper than these.

        Depths are counted from the run that nobody delegated; a sub-agent's own limit is counted from it.
        """
        rules = self._rules
        own: Delegation | None = self._delegate.config.option("delegation")
        if own is None:
            return dataclasses.replace(rules, output={}, max_steps=None)
        return dataclasses.replace(
            own,
            max_depth=min(self._context.depth + own.max_depth, rules.max_depth),
            message_filter=own.message_filter or rules.message_filter,
            on_start=own.on_start or rules.on_start,
            on_complete=own.on_complete or rules.on_complete,
        )

    async def _completed(self, outcome: DelegationOutcome) -> Replace | None:
        if self._rules.on_complete is None:
            return None
        try:
            answer: Any = await resolve(self._rules.on_complete(outcome))
        except MastraError:
            raise
        except Exception as exc:
            if replaced_cancel(exc):
                raise
            logger.exception("on_complete of %s raised; its result stands", self._named)
            return None
        if isinstance(answer, Stop):
            self._host.stop = True
        elif answer is not None and not isinstance(answer, Replace):
            msg = f"on_complete of {self._named} must return Replace, Stop or None, got {answer!r}"
            raise UserError(msg)
        return answer if isinstance(answer, Replace) else None

    @property
    def _named(self) -> str:
        return f"the delegation to agent {self._context.agent_id!r} (run {self._ctx.run_id}, step {self._ctx.step})"

    def _error(
        self, text: str, kind: DelegationKind, detail: str | None = None, result: AgentResult[Any] | None = None
    ) -> DelegationError:
        agent_id = self._context.agent_id
        return DelegationError(f"agent {agent_id!r} {text}", agent_id=agent_id, kind=kind, detail=detail, result=result)

    def _failed(self, exc: Exception) -> DelegationError:
        kind = _failure_kind(exc)
        if kind == "error":
            logger.error("%s failed", self._named, exc_info=exc)
        return self._error(f"failed: {kind}", "failed", detail=kind)

    def _unfinished(self, result: AgentResult[Any]) -> DelegationError:
        text = f"did not finish: {result.stop_reason}"
        if result.limit is not None:
            text = f"{text} ({result.limit})"
        if result.text.strip():
            text = f"{text}. Its last words, which do not stand:\n{result.text}"
        return self._error(text, "unfinished", detail=result.stop_reason, result=result)


def _failure_kind(exc: Exception) -> str:
    """Return the kind of a failure, as a supervisor may read it: no provider's words, no traceback."""
    if isinstance(exc, ModelError):
        return exc.kind if exc.kind != "other" else "model_error"
    kinds: Mapping[type[Exception], str] = {
        OutputValidationError: "invalid_output",
        JudgeError: "judge_error",
        ScorerError: "scorer_error",
        TimeoutError: "timeout",
    }
    return next((kind for known, kind in kinds.items() if isinstance(exc, known)), "error")


def _for_sub_agent(request_context: Any) -> Any:
    """Return a copy of the caller's context for a sub-agent; what is no Mapping is passed on as it is.

    Where nothing is left of it, there is none, and what the sub-agent has by default holds.
    """
    if not isinstance(request_context, Mapping):
        return request_context
    given = cast("Mapping[Any, Any]", request_context)
    return {key: value for key, value in given.items() if key not in _RUN_SCOPED} or None


def _readable(messages: object, whose: str) -> list[Message]:
    """Return what a filter lets through, without tool parts, thinking and system messages."""
    if isinstance(messages, str) or not isinstance(messages, Iterable):
        msg = f"message_filter of {whose} must return messages, got {messages!r}"
        raise UserError(msg)
    try:
        loaded = load_messages(cast("Iterable[MessageLike]", messages))
    except UserError as exc:
        msg = f"message_filter of {whose}: {exc}"
        raise UserError(msg) from exc
    passed: list[Message] = []
    for message in loaded:
        parts = [part for part in message.parts if isinstance(part, _PASSED_ON)]
        if parts and message.role in {"user", "assistant"}:
            passed.append(Message(message.role, parts))
    return passed

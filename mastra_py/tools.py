"""Tools: what a model may call.

A tool is made of a function, ``@tool`` or ``Tool(run=function)``: its name, description and parameters come from the
function, its docstring and its annotations. Or its parameters are a JSON Schema,
``Tool(name=, description=, parameters=<JSON Schema>, run=function)``.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast, overload

import anyio
import anyio.to_thread

from mastra_py._jsonable import to_json_value
from mastra_py._loop.host import Host
from mastra_py._schema import Arguments, InvalidArguments, arguments_from, arguments_of
from mastra_py._signature import innermost
from mastra_py.errors import ToolError, UserError
from mastra_py.messages import Message

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class ToolArgumentsError(ToolError):
    """The model's arguments do not fit the tool's parameters; the tool did not run."""


class ToolTimeoutError(ToolError):
    """The tool took longer than its timeout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What a tool may know about its call. A parameter annotated with it receives it, and the model never sees it.

    Attributes:
        tool_call_id: the model's id of this call.
        tool_name: the tool's name.
        run_id: the run that the call belongs to.
        agent_id: the agent whose model made the call.
        step: the step of the run, from 1.
        request_context: the caller's context, as given.
        messages: the conversation that this step goes on from.
        host: the run itself, for tools of the package that run agents inside of it.
    """

    tool_call_id: str
    tool_name: str
    run_id: str = ""
    agent_id: str = ""
    step: int = 1
    request_context: Any = None
    messages: tuple[Message, ...] = ()
    host: Host | None = field(default=None, repr=False, compare=False)


class Tool:
    """A function that a model may call.

    Async functions run on the event loop. Sync ones run in a worker thread, with the caller's context variables; a
    cancelled run waits for the thread, unless ``abandon`` is set. If a sync function returns an awaitable, it is
    awaited on the event loop. A tool called directly is its function.

    With ``parameters`` given, the arguments are checked against that JSON Schema and passed as keywords, as they are; a
    function whose single parameter is none of the schema's properties gets all of them in it, as a dict. Else they
    are validated and passed as what the function's annotations say.

    Attributes:
        name: what the model calls it by.
        description: what the model reads about it.
        parameters: the JSON Schema of its arguments, an object's.
        run: the function.
        timeout: seconds it may take, ``None`` for no limit.
        abandon: whether a sync function's thread is left behind on a timeout or a cancel.
        takes_no_args: whether it has no parameters.

    Raises:
        UserError: the tool could not work; the error names it and says why.
    """

    def __init__(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        run: Callable[..., Any],
        timeout: float | None = None,
        abandon: bool = False,
    ) -> None:
        _check_function(run)
        self.name = _function_name(run) if name is None else name
        if not _NAME.fullmatch(self.name):
            msg = f"tool name {self.name!r} must be 1 to 64 letters, digits, '_' or '-'; give one by name="
            raise UserError(msg)
        owner = f"tool {self.name!r}"
        self._is_async = _is_async(run)
        if timeout is not None:
            _check_timeout(timeout, owner, leavable=self._is_async or abandon)
        self._arguments: Arguments = (
            arguments_of(run, owner=owner, inject=ToolContext)
            if parameters is None
            else arguments_from(parameters, run, owner=owner, inject=ToolContext)
        )
        self.description = self._arguments.description if description is None else description
        self.parameters: dict[str, Any] = self._arguments.schema
        self.takes_no_args = not self.parameters["properties"]
        self.run = run
        self.timeout = timeout
        self.abandon = abandon
        functools.update_wrapper(cast("Callable[..., Any]", self), run, updated=())

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, without validation, thread or timeout."""
        return self.run(*args, **kwargs)

    async def invoke(self, args: dict[str, Any], ctx: ToolContext) -> Any:
        """Run the tool as a model calls it, with JSON arguments, and return its result as a JSON value.

        Raises:
            ToolArgumentsError: the arguments do not fit; each bad field is named.
            ToolTimeoutError: it took longer than its timeout.
            ToolError: what it returned is no JSON value.
            Exception: whatever the function raises.
        """
        try:
            kwargs = self._arguments.read(args)
        except InvalidArguments as exc:
            problems = "\n".join(f"- {problem}" for problem in exc.problems)
            msg = f"tool {self.name!r} did not run, its arguments are not valid:\n{problems}"
            raise ToolArgumentsError(msg) from exc
        for name in self._arguments.injected:
            kwargs[name] = ctx
        if self.timeout is None:
            return await self._run(kwargs)
        # The block is left without a result only by this timeout: a TimeoutError of the tool's own passes through it.
        with anyio.move_on_after(self.timeout):
            return await self._run(kwargs)
        msg = f"tool {self.name!r} timed out after {self.timeout:g} s"
        raise ToolTimeoutError(msg)

    async def _run(self, kwargs: dict[str, Any]) -> Any:
        if self._is_async:
            value = await self.run(**kwargs)
        else:
            call = functools.partial(self._call_in_thread, kwargs)
            value, is_json = await anyio.to_thread.run_sync(call, abandon_on_cancel=self.abandon)
            if is_json:
                return value
            value = await value
        return self._as_json(value)

    def _call_in_thread(self, kwargs: dict[str, Any]) -> tuple[Any, bool]:
        """Return the result as JSON, made in the thread too as it may be long or a generator; or an awaitable."""
        value = self.run(**kwargs)
        return (value, False) if inspect.isawaitable(value) else (self._as_json(value), True)

    def _as_json(self, value: object) -> Any:
        return to_json_value(value, owner=f"tool {self.name!r}")


@overload
def tool(run: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None, timeout: float | None = None, abandon: bool = False
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    run: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    abandon: bool = False,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a :class:`Tool` of a function, as a decorator with or without options.

    ``timeout`` is in seconds. A sync function runs in a thread, which can only be left behind, not stopped: a timeout
    on it needs ``abandon=True``.

    Raises:
        UserError: the function cannot be a tool; the error names it and says why.
    """

    def make(function: Callable[..., Any]) -> Tool:
        return Tool(name=name, description=description, run=function, timeout=timeout, abandon=abandon)

    return make if run is None else make(run)


def as_tool(obj: Tool | Callable[..., Any]) -> Tool:
    """Return ``obj`` if it is a tool, else the tool that is made of the function it is.

    Raises:
        UserError: it is neither, or the function cannot be a tool.
    """
    return obj if isinstance(obj, Tool) else Tool(run=obj)


def collect_tools(objs: Iterable[Tool | Callable[..., Any]]) -> dict[str, Tool]:
    """Return the tools by name, in order.

    Raises:
        UserError: something in it is no tool, or two have the same name.
    """
    tools: dict[str, Tool] = {}
    for obj in objs:
        made = as_tool(obj)
        if made.name in tools:
            msg = f"two tools are called {made.name!r}; give one of them another name by name="
            raise UserError(msg)
        tools[made.name] = made
    return tools


def _check_function(run: object) -> None:
    if isinstance(run, Tool):
        msg = f"{run!r} is a tool already; make the other tool of its function, Tool(run={run.name}.run, ...)"
    elif isinstance(run, type):
        msg = f"{run.__name__} is a class and no tool; give a function, a method or an object that can be called"
    elif not callable(run):
        msg = f"{run!r} is no tool: give a Tool or a function"
    elif inspect.isasyncgenfunction(run):
        msg = f"{_function_name(run)!r} yields results, and a tool has one; return a list"
    else:
        return
    raise UserError(msg)


def _check_timeout(timeout: Any, owner: str, *, leavable: bool) -> None:
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not (is_number and 0 < timeout < math.inf):
        msg = f"{owner}: timeout must be a finite number of seconds above 0, got {timeout!r}"
        raise UserError(msg)
    if not leavable:
        msg = (
            f"{owner}: a timeout cannot stop a sync function in its thread; make the function async, or set "
            "abandon=True to leave the thread behind"
        )
        raise UserError(msg)


def _function_name(run: Callable[..., Any]) -> str:
    name: str = getattr(innermost(run), "__name__", "")
    return type(run).__name__ if name == "__call__" else name


def _is_async(run: Callable[..., Any]) -> bool:
    while isinstance(run, functools.partial):
        run = cast("functools.partial[Any]", run).func
    return inspect.iscoroutinefunction(run) or inspect.iscoroutinefunction(type(run).__call__)

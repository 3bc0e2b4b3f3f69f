"""Reading what a user gives as options: checked at once, named in the error, made into what a run needs."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from mastra_py._checks import whole_number
from mastra_py._loop.budget import read_budget
from mastra_py._loop.completion import as_task_completion
from mastra_py._loop.processing import ERROR_METHODS, INPUT_METHODS, OUTPUT_METHODS, check_processors
from mastra_py.delegation import read_delegation
from mastra_py.errors import UserError
from mastra_py.models.settings import ModelSettings, read_settings
from mastra_py.tools import Tool, collect_tools


def read_tools(tools: object, where: str) -> Any:
    """Return a function of the request context as it is, and anything else as made tools.

    Raises:
        UserError: something in it is no tool, or a name is doubled.
    """
    if isinstance(tools, Tool):
        msg = f"{where} must be a list of tools, got the tool {tools.name!r} alone; write tools=[{tools.name}]"
        raise UserError(msg)
    if callable(tools):
        return tools
    if isinstance(tools, str) or not isinstance(tools, Iterable):
        msg = f"{where} must be a list of tools, or a function of the request context, got {tools!r}"
        raise UserError(msg)
    try:
        return tuple(collect_tools(cast("Iterable[Any]", tools)).values())
    except UserError as exc:
        msg = f"{where}: {exc}"
        raise UserError(msg) from exc


def _instructions(value: object, where: str) -> object:
    if isinstance(value, str) or callable(value):
        return value
    msg = f"{where} must be a text, or a function of the request context that returns one, got {value!r}"
    raise UserError(msg)


def _names(value: object, where: str) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        msg = f"{where} must be a sequence of names, got {value!r}"
        raise UserError(msg)
    return tuple(cast("Iterable[str]", value))


def _tool_choice(value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        msg = f"{where} must be 'auto', 'none', 'required' or a tool's name, got {value!r}"
        raise UserError(msg)
    return value


def _request_context(value: object, where: str) -> object:
    if not isinstance(value, Mapping) and not callable(getattr(value, "get", None)):
        msg = f"{where} must be a Mapping or have a get method, got {type(value).__name__}"
        raise UserError(msg)
    return cast("object", value)


def _function(value: object, where: str) -> Callable[..., Any]:
    if not callable(value):
        msg = f"{where} must be a function, got {value!r}"
        raise UserError(msg)
    return value


def _functions(value: object, where: str) -> tuple[Callable[..., Any], ...]:
    items = cast("Sequence[object]", value if isinstance(value, list | tuple) else (value,))
    return tuple([_function(item, where) for item in items])


def _run_id(value: object, where: str) -> str:
    if not isinstance(value, str):
        msg = f"{where} must be a text, got {value!r}"
        raise UserError(msg)
    return value


READERS: Mapping[str, Callable[[Any, str], Any]] = {
    "max_steps": partial(whole_number, least=1),
    "is_task_complete": as_task_completion,
    "instructions": _instructions,
    "tools": read_tools,
    "active_tools": _names,
    "tool_choice": _tool_choice,
    "tool_concurrency": partial(whole_number, least=1),
    "model_settings": read_settings,
    "request_context": _request_context,
    "input_processors": partial(check_processors, methods=INPUT_METHODS),
    "output_processors": partial(check_processors, methods=OUTPUT_METHODS),
    "error_processors": partial(check_processors, methods=ERROR_METHODS),
    "max_processor_retries": partial(whole_number, least=0),
    "stop_when": _functions,
    "on_step": _function,
    "run_id": _run_id,
    "budget": read_budget,
    "delegation": read_delegation,
}
"""What reads each option: from what a user may give to what a run needs."""


def read_options(options: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the options that are given, read. ``None`` stands for one that is not.

    Raises:
        UserError: an option does not exist, or is not what it has to be.
    """
    if not isinstance(options, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] -- not every caller has a type checker
        msg = f"{where} must be a dict of options, got {options!r}"
        raise UserError(msg)
    read: dict[str, Any] = {}
    for name, value in options.items():
        reader = READERS.get(name)
        if reader is None:
            near = difflib.get_close_matches(name, READERS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(READERS))}"
            msg = f"{where} has no option {name!r}; {hint}"
            raise UserError(msg)
        if value is not None:
            read[name] = reader(value, f"{where}: {name}")
    return read


def merge_options(layers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what holds where later layers lie over earlier ones.

    Settings of the model lie over each other field by field, and tools come together; of everything else the last
    counts. ``tools`` of the result is a tuple of what each layer gave.
    """
    merged: dict[str, Any] = {}
    settings, tools = ModelSettings(), list[Any]()
    for layer in layers:
        merged.update(layer)
        settings = settings.merged(layer.get("model_settings"))
        if "tools" in layer:
            tools.append(layer["tools"])
    return {**merged, "model_settings": settings, "tools": tuple(tools)}

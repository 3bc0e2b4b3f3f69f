"""What a call may change, declared once for ``stream``, ``generate`` and ``Agent(defaults=)``, and the frozen run."""

from __future__ import annotations

import difflib
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypedDict, cast

from mastra_py._loop.completion import Gate, TaskCompletionLike, as_gate
from mastra_py._loop.processing import ERROR_METHODS, INPUT_METHODS, OUTPUT_METHODS, check_processors
from mastra_py._loop.stop import StopCondition
from mastra_py._output import OutputType, output_type
from mastra_py.errors import UserError
from mastra_py.messages import Message, MessageLike, load_messages
from mastra_py.models.base import Model, ModelSettings, ToolChoice, read_settings
from mastra_py.processors.base import ErrorProcessor, InputProcessor, OutputProcessor
from mastra_py.results import StepResult
from mastra_py.scoring import ScorerLookup
from mastra_py.tools import Tool, collect_tools

DEFAULT_MAX_STEPS = 5
DEFAULT_TOOL_CONCURRENCY = 10
DEFAULT_PROCESSOR_RETRIES = 10

RequestContext: TypeAlias = Any
"""The caller's own context of a call: a Mapping, or anything with ``.get``."""

ToolLike: TypeAlias = Tool | Callable[..., Any]
Instructions: TypeAlias = str | Callable[[RequestContext], str | Awaitable[str | None] | None]
"""The system prompt, or a (sync or async) function of the request context that gives it."""

Tools: TypeAlias = Iterable[ToolLike] | Callable[[RequestContext], Iterable[ToolLike] | Awaitable[Iterable[ToolLike]]]
"""Tools and plain functions, or a (sync or async) function of the request context that gives them."""


class RunOptions(TypedDict, total=False):
    """Options of a call; the same for ``agent.stream``, ``agent.generate`` and ``Agent(defaults=)``.

    Attributes:
        max_steps: at most that many model calls, retries not counted; 5 unless given.
        is_task_complete: scorers that have to accept the answer.
        instructions: in place of the agent's.
        tools: beside the agent's.
        active_tools: names of the tools that are offered; all unless given.
        tool_choice: ``"auto"``, ``"none"``, ``"required"`` or a tool's name; forced in the first step only.
        tool_concurrency: tools that may run at once; 10 unless given.
        model_settings: field by field over the agent's.
        request_context: the caller's context, a Mapping or anything with ``.get``; tools and scorers receive it.
        input_processors: in place of the agent's.
        output_processors: in place of the agent's.
        error_processors: in place of the agent's.
        max_processor_retries: cap of the retries of one model call; 10 unless given, 0 without processors.
        stop_when: conditions that end the run between two steps.
        on_step: (async) function called with each finished step.
        run_id: id of the run; generated unless given.
    """

    max_steps: int
    is_task_complete: TaskCompletionLike | None
    instructions: Instructions | None
    tools: Tools
    active_tools: Sequence[str] | None
    tool_choice: ToolChoice
    tool_concurrency: int
    model_settings: ModelSettings | Mapping[str, Any] | None
    request_context: RequestContext
    input_processors: Sequence[InputProcessor]
    output_processors: Sequence[OutputProcessor]
    error_processors: Sequence[ErrorProcessor]
    max_processor_retries: int | None
    stop_when: StopCondition | Sequence[StopCondition]
    on_step: Callable[[StepResult], Any] | None
    run_id: str


OPTION_NAMES = frozenset(RunOptions.__annotations__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """Everything a run needs, checked and frozen before it starts."""

    agent_id: str
    model: Model
    messages: tuple[Message, ...]
    instructions: Instructions | None = None
    tools: tuple[Tools, ...] = ()
    active_tools: tuple[str, ...] | None = None
    tool_choice: ToolChoice = "auto"
    tool_concurrency: int = DEFAULT_TOOL_CONCURRENCY
    max_steps: int = DEFAULT_MAX_STEPS
    gate: Gate | None = None
    settings: ModelSettings = field(default_factory=ModelSettings)
    request_context: RequestContext = None
    output: OutputType[Any] | None = None
    input_processors: tuple[InputProcessor, ...] = ()
    output_processors: tuple[OutputProcessor, ...] = ()
    error_processors: tuple[ErrorProcessor, ...] = ()
    max_processor_retries: int = 0
    stop_when: tuple[StopCondition, ...] = ()
    on_step: Callable[[StepResult], Any] | None = None
    run_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """What an agent is, as far as a run needs it."""

    id: str
    model: Model
    instructions: Instructions | None
    tools: Tools
    input_processors: tuple[InputProcessor, ...]
    output_processors: tuple[OutputProcessor, ...]
    error_processors: tuple[ErrorProcessor, ...]
    max_processor_retries: int | None
    settings: ModelSettings
    defaults: RunOptions
    lookup: ScorerLookup | None = None


def check_option_names(options: Mapping[str, Any], where: str) -> None:
    """Raise a :class:`UserError` for an option that does not exist, with the likely one."""
    for name in options:
        if name not in OPTION_NAMES:
            near = difflib.get_close_matches(name, OPTION_NAMES, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(OPTION_NAMES))}"
            msg = f"{where} has no option {name!r}; {hint}"
            raise UserError(msg)


def whole_number(value: object, where: str, *, least: int) -> int:
    """Return ``value``, a whole number from ``least``; anything else is a :class:`UserError`."""
    if type(value) is not int or value < least:
        msg = f"{where} must be a whole number from {least}, got {value!r}"
        raise UserError(msg)
    return value


def build_spec(
    config: AgentConfig,
    prompt: str | Message | None,
    messages: Iterable[MessageLike],
    output: Any,
    options: RunOptions,
) -> RunSpec:
    """Check the options of a call against the agent's configuration and freeze them.

    Raises:
        UserError: an option is unknown or out of its range, or there is nothing to answer.
    """
    where = f"agent {config.id!r}"
    check_option_names(options, where)
    merged: RunOptions = {**config.defaults, **options}
    inputs, outputs, processors = config.input_processors, config.output_processors, config.error_processors
    if "input_processors" in merged:
        inputs = check_processors(merged["input_processors"], f"{where}: input_processors", INPUT_METHODS)
    if "output_processors" in merged:
        outputs = check_processors(merged["output_processors"], f"{where}: output_processors", OUTPUT_METHODS)
    if "error_processors" in merged:
        processors = check_processors(merged["error_processors"], f"{where}: error_processors", ERROR_METHODS)
    stop_when = merged.get("stop_when", ())
    check_model = getattr(config.model, "check", None)
    if check_model is not None:
        check_model()
    return RunSpec(
        agent_id=config.id,
        model=config.model,
        messages=_conversation(prompt, messages, where),
        instructions=config.instructions if (own := merged.get("instructions")) is None else own,
        tools=_tools(config, merged),
        active_tools=_active_tools(config, merged),
        tool_choice=_tool_choice(config, merged),
        tool_concurrency=whole_number(
            merged.get("tool_concurrency", DEFAULT_TOOL_CONCURRENCY), f"{where}: tool_concurrency", least=1
        ),
        max_steps=whole_number(merged.get("max_steps", DEFAULT_MAX_STEPS), f"{where}: max_steps", least=1),
        gate=as_gate(merged.get("is_task_complete"), config.lookup),
        settings=config.settings.merged(read_settings(merged.get("model_settings"))),
        request_context=_request_context(merged.get("request_context"), where),
        output=None if output is str else output_type(output, where),
        input_processors=inputs,
        output_processors=outputs,
        error_processors=processors,
        max_processor_retries=_retry_cap(
            merged.get("max_processor_retries", config.max_processor_retries), processors, where
        ),
        stop_when=(stop_when,) if callable(stop_when) else tuple(stop_when),
        on_step=merged.get("on_step"),
        run_id=merged.get("run_id") or str(uuid.uuid4()),
    )


def _conversation(prompt: str | Message | None, messages: Iterable[MessageLike], where: str) -> tuple[Message, ...]:
    if isinstance(messages, str):
        msg = f"{where}: messages must be a sequence of messages; give a plain text as the prompt"
        raise UserError(msg)
    conversation = load_messages(messages)
    if prompt is not None:
        message = Message("user", prompt) if isinstance(prompt, str) else prompt
        if not isinstance(message, Message):  # pyright: ignore[reportUnnecessaryIsInstance] -- not every caller has a type checker
            msg = f"{where}: the prompt must be a text or a Message, got {type(prompt).__name__}"
            raise UserError(msg)
        if not message.text.strip() and all(p.type == "text" for p in message.parts):
            msg = f"{where}: the prompt is empty"
            raise UserError(msg)
        conversation.append(message)
    if not conversation:
        msg = f"{where}: there is nothing to answer; give a prompt or messages"
        raise UserError(msg)
    if conversation[-1].role not in {"user", "tool"}:
        msg = f"{where}: the conversation ends with a message of role {conversation[-1].role!r}; give a prompt to go on"
        raise UserError(msg)
    return tuple(conversation)


def freeze_tools(tools: Tools, where: str) -> Tools:
    """Return a function of the request context as it is, and anything else as made tools.

    Raises:
        UserError: something in it is no tool, or a name is doubled.
    """
    if isinstance(tools, Tool):
        msg = f"{where}: tools must be a list of tools, got the tool {tools.name!r} alone; write tools=[{tools.name}]"
        raise UserError(msg)
    return tools if callable(tools) else tuple(collect_tools(tools).values())


def _tools(config: AgentConfig, options: RunOptions) -> tuple[Tools, ...]:
    """Freeze where the tools come from, and check at once whatever does not depend on the request context."""
    sources: list[Tools] = [config.tools]
    if "tools" in options:
        sources.append(freeze_tools(options["tools"], f"agent {config.id!r}"))
    fixed = [source for source in sources if not callable(source)]
    active, choice = _active_tools(config, options), _tool_choice(config, options)
    if len(fixed) == len(sources):
        select_tools(fixed, active, choice, config.id)
    else:
        select_tools(fixed, None, "auto", config.id)
    return tuple(sources)


def _active_tools(config: AgentConfig, options: RunOptions) -> tuple[str, ...] | None:
    active = options.get("active_tools")
    if active is None:
        return None
    if isinstance(active, str):
        msg = f"agent {config.id!r}: active_tools must be a sequence of names, got the text {active!r}"
        raise UserError(msg)
    return tuple(active)


def _tool_choice(config: AgentConfig, options: RunOptions) -> ToolChoice:
    choice: object = options.get("tool_choice", "auto")
    if not isinstance(choice, str) or not choice:
        msg = f"agent {config.id!r}: tool_choice must be 'auto', 'none', 'required' or a tool's name, got {choice!r}"
        raise UserError(msg)
    return choice


def _request_context(context: object, where: str) -> RequestContext:
    if context is None:
        return {}
    if not isinstance(context, Mapping) and not callable(getattr(context, "get", None)):
        msg = f"{where}: request_context must be a Mapping or have a get method, got {type(context).__name__}"
        raise UserError(msg)
    return cast("RequestContext", context)


def _retry_cap(cap: object, processors: Sequence[ErrorProcessor], where: str) -> int:
    if cap is None:
        return DEFAULT_PROCESSOR_RETRIES if processors else 0
    return whole_number(cap, f"{where}: max_processor_retries", least=0)


def select_tools(
    sources: Iterable[Iterable[ToolLike]], active: Sequence[str] | None, choice: ToolChoice, agent_id: str
) -> dict[str, Tool]:
    """Return the tools a run may use, by name.

    Raises:
        UserError: a name is doubled, or one in ``active_tools`` or ``tool_choice`` does not exist.
    """
    tools = collect_tools([t for source in sources for t in source])
    for name in active or ():
        if name not in tools:
            msg = f"agent {agent_id!r}: active_tools names {name!r}, which is none of its tools: {_names(tools)}"
            raise UserError(msg)
    if active is not None:
        tools = {name: tool for name, tool in tools.items() if name in active}
    if choice == "required" and not tools:
        msg = f"agent {agent_id!r}: tool_choice is 'required', but there are no tools"
        raise UserError(msg)
    if choice not in {"auto", "none", "required"} and choice not in tools:
        msg = f"agent {agent_id!r}: tool_choice names {choice!r}, which is none of its tools: {_names(tools)}"
        raise UserError(msg)
    return tools


def _names(tools: Mapping[str, Tool]) -> str:
    return ", ".join(tools) or "(none)"

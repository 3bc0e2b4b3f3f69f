"""What a call may change, declared once for ``stream``, ``generate`` and ``Agent(defaults=)``, and the frozen run."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypedDict, cast

from mastra_py._loop.budget import Budget
from mastra_py._loop.completion import Gate, TaskCompletion, TaskCompletionLike, as_gate
from mastra_py._loop.stop import StopCondition
from mastra_py._output import OutputType, output_type
from mastra_py._read_options import merge_options, read_options
from mastra_py.delegation import Delegation
from mastra_py.errors import UserError
from mastra_py.messages import FeedbackPart, Message, MessageLike, TextPart, load_messages
from mastra_py.models.base import Model, ToolChoice, alternatives_of
from mastra_py.models.settings import ModelSettings
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
        max_steps: at most that many steps; retries and re-asks belong to theirs. 5 unless given.
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
        budget: what the whole run may spend, its judges and sub-agents included.
        delegation: how a supervisor delegates to its ``agents``.
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
    budget: Budget | None
    delegation: Delegation | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """Everything a run needs, checked and frozen. ``has_prompt`` says whether a prompt ends the messages."""

    agent_id: str
    model: Model
    messages: tuple[Message, ...]
    has_prompt: bool = False
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
    budget: Budget | None = None
    delegation: Delegation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """What an agent is, as far as a run needs it.

    ``layers`` are its own options and its defaults, read; ``sub_agents`` those that it may delegate to, by their keys.
    """

    id: str
    model: Model
    layers: tuple[Mapping[str, Any], ...]
    lookup: ScorerLookup | None = None
    sub_agents: Mapping[str, AgentConfig] = field(default_factory=dict[str, "AgentConfig"])

    def option(self, name: str) -> Any:
        """Return what the agent sets for an option of which the last layer counts; ``None`` where it does not."""
        return next((layer[name] for layer in reversed(self.layers) if name in layer), None)

    def check(self) -> None:
        """Check that requests can be sent to its model, and to those of its sub-agents.

        Raises:
            UserError: something is missing, like an API key.
        """
        for config in self.family():
            check_model = getattr(config.model, "check", None)
            if check_model is not None:
                with _named(config):
                    check_model()

    def family(self) -> list[AgentConfig]:
        """Return it and all agents below it, each once however many ways lead to it."""
        found: list[AgentConfig] = [self]
        seen = {id(self)}
        for config in found:  # which grows meanwhile
            new = {id(below): below for below in config.sub_agents.values() if id(below) not in seen}
            seen |= new.keys()
            found += new.values()
        return found


def build_spec(
    config: AgentConfig,
    prompt: str | Message | None,
    messages: Iterable[MessageLike] | None,
    output: Any,
    options: RunOptions,
    *,
    legacy: bool = False,
) -> RunSpec:
    """Check the options of a call, put them over the agent's, and freeze the run.

    ``legacy`` says that the run is one of ``generate_legacy``, for models that take text and give text.

    Raises:
        UserError: an option is unknown or out of its range, the model is not for this, or there is nothing to answer.
    """
    where = f"agent {config.id!r}"
    merged = merge_options((*config.layers, read_options(options, where)))
    completion: TaskCompletion | None = merged.pop("is_task_complete", None)
    settings: ModelSettings = merged.pop("model_settings")
    merged["max_processor_retries"] = retry_cap(
        merged.get("max_processor_retries"), merged.get("error_processors", ()), config.model
    )
    merged.setdefault("request_context", {})
    _check_tools(merged, config.id)
    _check_kind(config, merged, legacy=legacy)
    config.check()
    _check_prices(config, merged.get("budget"))
    check_delegation(config, merged.get("delegation"))
    return RunSpec(
        agent_id=config.id,
        model=config.model,
        messages=_conversation(prompt, messages, where),
        has_prompt=prompt is not None,
        gate=as_gate(completion, config.lookup),
        settings=settings,
        output=None if output is str or output is None else output_type(output, where),
        run_id=merged.pop("run_id", None) or str(uuid.uuid4()),
        **merged,
    )


@contextmanager
def _named(config: AgentConfig) -> Generator[None]:
    """Say of which agent a :class:`UserError` is: there may be many in one run."""
    try:
        yield
    except UserError as exc:
        msg = f"agent {config.id!r}: {exc}"
        raise UserError(msg) from exc


def retry_cap(cap: int | None, processors: Sequence[ErrorProcessor], model: Model) -> int:
    """Return how often the error processors may have a call of ``model`` made again."""
    if not processors or model.profile.legacy:  # a legacy model does that itself
        return 0
    return DEFAULT_PROCESSOR_RETRIES if cap is None else cap


def _check_kind(config: AgentConfig, merged: Mapping[str, Any], *, legacy: bool) -> None:
    if config.model.profile.legacy != legacy:
        hint = "its model is a legacy one; use generate_legacy()"
        if legacy:
            hint = "generate_legacy() is for a LegacyModel; use generate() or stream()"
        msg = f"agent {config.id!r}: {hint}"
        raise UserError(msg)
    if legacy and any(merged["tools"]):
        msg = f"agent {config.id!r}: a legacy model cannot call tools; leave out tools="
        raise UserError(msg)


def check_delegation(config: AgentConfig, delegation: Delegation | None) -> None:
    """Check that what ``delegation`` says is of sub-agents that exist.

    Raises:
        UserError: it names another one.
    """
    for key in delegation.output if delegation is not None else ():
        if key not in config.sub_agents:
            known = ", ".join(config.sub_agents) or "(none)"
            msg = f"agent {config.id!r}: Delegation output names {key!r}, which is none of its agents: {known}"
            raise UserError(msg)


def _check_prices(config: AgentConfig, budget: Budget | None) -> None:
    """Check that limits of cost can be kept: the prices of all models of an agent and those below it are known."""
    for above in config.family():
        limits: Budget | None = budget if above is config else above.option("budget")
        if limits is not None and limits.max_cost is not None:
            for model in [model for below in above.family() for model in alternatives_of(below.model)]:
                with _named(above):
                    limits.require_price((model.provider, model.id))


def _conversation(prompt: object, messages: object, where: str) -> tuple[Message, ...]:
    if isinstance(messages, str | Message) or not isinstance(messages, Iterable | None):
        msg = f"{where}: messages must be a sequence of messages; give a plain text as the prompt"
        raise UserError(msg)
    conversation = load_messages(cast("Iterable[MessageLike]", messages or ()))
    if prompt is not None:
        message = Message("user", prompt) if isinstance(prompt, str) else prompt
        if not isinstance(message, Message):
            msg = f"{where}: the prompt must be a text or a Message, got {type(prompt).__name__}"
            raise UserError(msg)
        if _is_blank(message):
            msg = f"{where}: the prompt is empty"
            raise UserError(msg)
        conversation.append(message)
    if not conversation:
        msg = f"{where}: there is nothing to answer; give a prompt or messages"
        raise UserError(msg)
    require_answerable(conversation, f"{where}: the conversation", "give a prompt to go on")
    return tuple(conversation)


def require_answerable(conversation: Sequence[Message], what: str, way_out: str) -> None:
    """Check that ``conversation``, which is not empty, is something that a model can answer, or go on with.

    Raises:
        UserError: it has system messages only, or its last message is blank; ``what`` names it.
    """
    last = conversation[-1]
    if all(message.role == "system" for message in conversation):
        msg = f"{what} has system messages only; {way_out}"
        raise UserError(msg)
    if _is_blank(last):
        msg = f"{what} ends with an empty message of role {last.role!r}; {way_out}"
        raise UserError(msg)


def _is_blank(message: Message) -> bool:
    return all(isinstance(p, TextPart | FeedbackPart) and not p.text.strip() for p in message.parts)


def _check_tools(merged: Mapping[str, Any], agent_id: str) -> None:
    """Check at once whatever does not depend on the request context."""
    sources = merged["tools"]
    fixed = [source for source in sources if not callable(source)]
    if len(fixed) == len(sources):
        select_tools(fixed, merged.get("active_tools"), merged.get("tool_choice", "auto"), agent_id)
    else:
        select_tools(fixed, None, "auto", agent_id)


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

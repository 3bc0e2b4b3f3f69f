"""An agent: what it is, and the ways to run it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast, overload

from pydantic import TypeAdapter
from typing_extensions import Unpack

from mastra_py._delegates import Delegate
from mastra_py._loop.channel import NullOut
from mastra_py._loop.run import run_loop
from mastra_py._loop.state import RunState
from mastra_py._read_options import read_options, read_tools
from mastra_py.errors import UserError
from mastra_py.messages import Message, MessageLike
from mastra_py.models.base import Model
from mastra_py.models.resolve import resolve_model
from mastra_py.models.settings import ModelSettings
from mastra_py.options import AgentConfig, Instructions, RunOptions, Tools, build_spec, check_delegation
from mastra_py.processors.base import ErrorProcessor, InputProcessor, OutputProcessor
from mastra_py.results import AgentResult, OutT
from mastra_py.stream import AgentStream


class Agent:
    """A model with instructions and tools that answers until it is done, or until its scorers accept the answer.

    Args:
        id: the agent's id; it names the agent in events, usage and errors.
        name: what people call it; the id unless given.
        description: what it is for; a supervisor reads it.
        instructions: its system prompt, or a (sync or async) function of the request context that gives it.
        model: a model, or a string such as ``"openai/gpt-5-mini"`` or ``"local/smollm2"``.
        tools: its tools: ``Tool`` objects and plain functions, or a function of the request context that gives them.
        agents: sub-agents by a key of yours, each of which it may call as a tool ``agent-<key>``.
        input_processors: change what is sent, in order.
        output_processors: change what comes back, in order.
        error_processors: asked in order whether a failed model call is made again.
        max_processor_retries: cap of the retries of one model call, all processors together; 10 unless given.
        model_settings: settings of its model calls.
        defaults: options for every call, see :class:`~mastra_py.options.RunOptions`.

    Raises:
        UserError: something given is not what it has to be; nothing is sent.

    Example::

        agent = Agent(id="poet", instructions="Answer in one line.", model="openai/gpt-5-mini")
        result = await agent.generate("A line about tea")
    """

    def __init__(  # noqa: PLR0913 -- a facade: keyword-only, each with a default but two
        self,
        *,
        id: str,
        model: Model | str,
        name: str | None = None,
        description: str = "",
        instructions: Instructions | None = None,
        tools: Tools = (),
        agents: Mapping[str, Agent] | None = None,
        input_processors: Sequence[InputProcessor] = (),
        output_processors: Sequence[OutputProcessor] = (),
        error_processors: Sequence[ErrorProcessor] = (),
        max_processor_retries: int | None = None,
        model_settings: ModelSettings | Mapping[str, Any] | None = None,
        defaults: RunOptions | None = None,
    ) -> None:
        if not isinstance(id, str) or not id.strip():  # pyright: ignore[reportUnnecessaryIsInstance] -- not every caller has a type checker
            msg = f"an agent needs an id that is not blank, got {id!r}"
            raise UserError(msg)
        where = f"agent {id!r}"
        if not isinstance(description, str):  # pyright: ignore[reportUnnecessaryIsInstance] -- likewise
            msg = f"{where}: description must be a text, got {description!r}"
            raise UserError(msg)
        self.id = id
        self.name = name or id
        self.description = description
        own = {
            "instructions": instructions,
            "tools": tools,
            "input_processors": input_processors,
            "output_processors": output_processors,
            "error_processors": error_processors,
            "max_processor_retries": max_processor_retries,
            "model_settings": model_settings,
        }
        delegates = self._read_agents({} if agents is None else agents, where)
        layers = (
            read_options(own, where),
            read_options({"tools": [delegate.as_tool() for delegate in delegates]}, f"{where}: agents"),
            read_options(defaults or {}, f"{where}: defaults"),
        )
        tools_of = [layer["tools"] for layer in layers if "tools" in layer and not callable(layer["tools"])]
        read_tools([tool for tools in tools_of for tool in tools], where)
        sub_agents = {delegate.key: delegate.config for delegate in delegates}
        self._config = AgentConfig(id=id, model=resolve_model(model), layers=layers, sub_agents=sub_agents)
        check_delegation(self._config, self._config.option("delegation"))

    @staticmethod
    def _read_agents(agents: Mapping[str, Agent], where: str) -> list[Delegate]:
        """Return the sub-agents as what can be delegated to."""
        given: Any = agents
        if not isinstance(given, Mapping):
            msg = f"{where}: agents must be a dict of agents by a key, got {agents!r}"
            raise UserError(msg)
        for key, agent in cast("Mapping[object, object]", given).items():
            if not isinstance(key, str) or not key.strip():
                msg = f"{where}: agents: a key must be a text that is not blank, got {key!r}"
                raise UserError(msg)
            if not isinstance(agent, Agent):
                msg = f"{where}: agents[{key!r}] must be an Agent, got {agent!r}"
                raise UserError(msg)
        return [
            Delegate(key, agent._config, agent.description.strip() or f"Delegate a task to {agent.name}.")  # noqa: SLF001 -- its own kind
            for key, agent in agents.items()
        ]

    def __repr__(self) -> str:
        return f"Agent({self.id!r}, model={self.model.provider}/{self.model.id})"

    @property
    def model(self) -> Model:
        """The agent's model."""
        return self._config.model

    @overload
    def stream(
        self,
        prompt: str | Message | None = None,
        *,
        messages: Iterable[MessageLike] | None = None,
        **options: Unpack[RunOptions],
    ) -> AgentStream[str]: ...
    @overload
    def stream(
        self,
        prompt: str | Message | None = None,
        *,
        messages: Iterable[MessageLike] | None = None,
        output: type[OutT] | TypeAdapter[OutT],
        **options: Unpack[RunOptions],
    ) -> AgentStream[OutT]: ...
    @overload
    def stream(
        self,
        prompt: str | Message | None = None,
        *,
        messages: Iterable[MessageLike] | None = None,
        output: Mapping[str, Any],
        **options: Unpack[RunOptions],
    ) -> AgentStream[Any]: ...
    def stream(
        self,
        prompt: str | Message | None = None,
        *,
        messages: Iterable[MessageLike] | None = None,
        output: Any = str,
        **options: Unpack[RunOptions],
    ) -> AgentStream[Any]:
        """Return a run to be read while it goes; nothing runs before its first iteration.

        Args:
            prompt: what the user says; it comes after ``messages``.
            messages: an earlier conversation to go on from.
            output: the type of the answer: a type, a ``TypeAdapter``, or a JSON Schema as a dict; text unless given.
            **options: see :class:`~mastra_py.options.RunOptions`.

        Raises:
            UserError: an option is unknown or out of its range; nothing is sent.
        """
        return AgentStream(RunState(build_spec(self._config, prompt, messages, output, options)))

    @overload
    async def generate(
        self,
        prompt: str | Message | None = None,
        *,
        messages: Iterable[MessageLike] | None = None,
        **options: Unpack[RunOptions],
    ) -> AgentResult[str]: ...
    @overload
    async def generate(
        self,
        prompt: str | Message | None = None,
        *,
        messages: Iterable[MessageLike] | None = None,
        output: type[OutT] | TypeAdapter[OutT],
        **options: Unpack[RunOptions],
    ) -> AgentResult[OutT]: ...
    @overload
    async def generate(
        self,
        prompt: str | Message | None = None,
        *,
        messages: Iterable[MessageLike] | None = None,
        output: Mapping[str, Any],
        **options: Unpack[RunOptions],
    ) -> AgentResult[Any]: ...
    async def generate(
        self,
        prompt: str | Message | None = None,
        *,
        messages: Iterable[MessageLike] | None = None,
        output: Any = str,
        **options: Unpack[RunOptions],
    ) -> AgentResult[Any]:
        """Run to the end and return the result; arguments as for :meth:`stream`.

        Raises:
            UserError: an option is unknown or out of its range; nothing is sent.
            RunError: the run failed; an :class:`~mastra_py.errors.OutputValidationError` where the answer does not fit
                ``output``, also after a re-ask.
        """
        return await _to_the_end(RunState(build_spec(self._config, prompt, messages, output, options)))

    async def generate_legacy(
        self,
        prompt: str | Message | None = None,
        *,
        messages: Iterable[MessageLike] | None = None,
        **options: Unpack[RunOptions],
    ) -> AgentResult[str]:
        """Run an agent whose model is a :class:`~mastra_py.LegacyModel`: text in, text out, no tools.

        Arguments as for :meth:`stream`. The model makes failed requests again by itself; error processors are not
        asked.

        Raises:
            UserError: the model is another one, there are tools, or an option is unknown or out of its range.
            RunError: the run failed.
        """
        return await _to_the_end(RunState(build_spec(self._config, prompt, messages, str, options, legacy=True)))


async def _to_the_end(run: RunState) -> AgentResult[Any]:
    await run_loop(run, NullOut())
    return run.result()

"""Judges: a model, or an agent, that answers one question of a scorer.

A judge is a model call with error processors and no hidden defaults. Only the failed request is made again; what a
scorer had finished is not redone.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, cast

import anyio
from typing_extensions import TypeVar

from mastra_py._loop.channel import NullOut
from mastra_py._loop.ledger import CURRENT, Ledger
from mastra_py._loop.processing import ERROR_METHODS, INPUT_METHODS, OUTPUT_METHODS, Pipeline, check_processors
from mastra_py._loop.step import ModelCall
from mastra_py._loop.structured import JsonPromptInjection, Reader, ask, with_output
from mastra_py._output import OutputFormat, Unusable
from mastra_py._read_options import whole_number
from mastra_py.errors import JudgeError, OutputValidationError, UserError
from mastra_py.messages import Message
from mastra_py.models.base import Model, ModelRequest, ModelSettings, read_settings
from mastra_py.models.resolve import resolve_model
from mastra_py.options import DEFAULT_PROCESSOR_RETRIES
from mastra_py.processors.base import ErrorProcessor, InputProcessor, OutputProcessor, ProcessorContext
from mastra_py.scoring import JudgeAgent, JudgeRecord, ScorerRun

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """A model that judges, and how it is asked.

    A field left out is inherited where a step's judge overrides a scorer's.

    Attributes:
        model: a model or a model string; smaller and cheaper ones usually do.
        instructions: its system prompt.
        json_prompt_injection: how it learns the form of its reply: ``"auto"`` natively where the model can, else in the
            user prompt; ``"system"``, or ``True``, in the system prompt; ``"inline"`` in the user prompt; ``False``
            natively, whatever the model's profile says.
        input_processors: change what it is sent.
        output_processors: change what it answers.
        error_processors: say whether a failed request is made again.
        max_processor_retries: cap of the retries of one request; 10 unless given, 0 without error processors.
        model_settings: settings of its calls.

    Raises:
        UserError: a field is not what it has to be.
    """

    model: Model | str | None = None
    instructions: str | None = None
    json_prompt_injection: JsonPromptInjection | None = None
    input_processors: Sequence[InputProcessor] | None = None
    output_processors: Sequence[OutputProcessor] | None = None
    error_processors: Sequence[ErrorProcessor] | None = None
    max_processor_retries: int | None = None
    model_settings: ModelSettings | Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.model is not None:
            object.__setattr__(self, "model", resolve_model(self.model))
        how = self.json_prompt_injection
        if how not in {None, "auto", "system", "inline", True, False}:
            msg = f"Judge json_prompt_injection must be 'auto', 'system', 'inline' or a bool, got {how!r}"
            raise UserError(msg)
        for name, methods in (
            ("input_processors", INPUT_METHODS),
            ("output_processors", OUTPUT_METHODS),
            ("error_processors", ERROR_METHODS),
        ):
            value: object = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, check_processors(value, f"Judge {name}", methods))
        if self.max_processor_retries is not None:
            whole_number(self.max_processor_retries, "Judge max_processor_retries", least=0)
        if self.model_settings is not None:
            object.__setattr__(self, "model_settings", read_settings(self.model_settings))

    def over(self, base: Judge) -> Judge:
        """Return ``base`` with the fields that this judge sets in their place."""
        own = {f.name: v for f in dataclasses.fields(self) if (v := getattr(self, f.name)) is not None}
        return dataclasses.replace(base, **own)


JudgeLike: TypeAlias = Judge | JudgeAgent


def effective_judge(step: JudgeLike | None, scorer: JudgeLike | None) -> JudgeLike | None:
    """Return the judge of a step: its own, field by field over the scorer's; an agent stands for itself."""
    if step is None:
        return scorer
    if isinstance(step, Judge) and isinstance(scorer, Judge):
        return step.over(scorer)
    return step


def check_judge(judge: object, where: str) -> JudgeLike | None:
    """Return ``judge`` where it may be one.

    Raises:
        UserError: it is neither a :class:`Judge` nor an agent.
    """
    if judge is None or isinstance(judge, Judge | JudgeAgent):
        return judge
    msg = f"{where}: judge must be a Judge or an Agent, got {type(judge).__name__}"
    raise UserError(msg)


def require_ready(judge: JudgeLike | None, where: str) -> JudgeLike:
    """Return the judge of a prompt step where it can be asked.

    Raises:
        UserError: there is none, or it lacks a model, instructions or an API key.
    """
    if judge is None:
        msg = f"{where} is a prompt and needs a judge: give the scorer or the step judge=Judge(model=, instructions=)"
        raise UserError(msg)
    if not isinstance(judge, Judge):
        return judge
    missing = [name for name in ("model", "instructions") if not getattr(judge, name)]
    if missing:
        msg = f"{where} is a prompt, and its judge has no {' and no '.join(missing)}"
        raise UserError(msg)
    check = getattr(judge.model, "check", None)
    if check is not None:
        check()
    return judge


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(Generic[T]):
    """What a judge is asked in one step of a scorer; ``format`` is the form of the reply, ``None`` for plain text."""

    scorer_id: str
    step: str
    prompt: str
    read: Reader[T]
    run: ScorerRun[Any, Any]
    format: OutputFormat | None = None


@dataclass(slots=True)
class Bench:
    """Where the judges of one scorer run leave their evidence, by step."""

    records: dict[str, JudgeRecord] = field(default_factory=dict[str, JudgeRecord])

    async def ask(self, judge: JudgeLike, question: Question[T]) -> T:
        """Ask ``judge`` and return what its reply was read as.

        Raises:
            JudgeError: it gave no usable reply, also after a re-ask.
            RunError: it could not be asked, after its own retries.
        """
        asking = _AskedModel(judge, question) if isinstance(judge, Judge) else _AskedAgent(judge, question)
        begin = anyio.current_time()
        error: BaseException | None = None
        try:
            return await asking.answer()
        except BaseException as exc:
            error = exc
            raise
        finally:
            record = asking.record(anyio.current_time() - begin, error)
            self.records[question.step] = record
            ledger = CURRENT.get()
            if ledger is not None:
                ledger.absorb(asking.ledger, f"judge:{question.scorer_id}")


class _Asked(Generic[T]):
    """A question under way, and what is known of it."""

    def __init__(self, question: Question[T], model: Model | None) -> None:
        self.question = question
        self.model = model
        self.ledger = Ledger()
        self.asks = 1
        self.output: str | None = None

    async def answer(self) -> T:
        raise NotImplementedError  # pragma: no cover -- both kinds have their own

    def record(self, duration: float, error: BaseException | None) -> JudgeRecord:
        usage = self.ledger.total()
        return JudgeRecord(
            status="ok" if error is None else "failed",
            prompt=self.question.prompt,
            output=self.output,
            model=self.model.id if self.model else None,
            provider=self.model.provider if self.model else None,
            attempts=self.asks,
            model_calls=usage.requests,
            usage=usage,
            duration=duration,
            error=error if isinstance(error, Exception) else None,
        )


class _AskedModel(_Asked[T]):
    def __init__(self, judge: Judge, question: Question[T]) -> None:
        super().__init__(question, cast("Model", judge.model))
        self._judge = judge

    async def answer(self) -> T:
        question, judge, model = self.question, self._judge, cast("Model", self.model)
        pipeline = self._pipeline()
        messages: tuple[Message, ...] = (Message("user", question.prompt),)
        if pipeline is not None:
            messages = await pipeline.input(messages)
        request = ModelRequest(
            messages=messages, system=judge.instructions, settings=read_settings(judge.model_settings)
        )
        if question.format is not None:
            how = "auto" if judge.json_prompt_injection is None else judge.json_prompt_injection
            request = with_output(request, question.format, model, how)
        processors = tuple(judge.error_processors or ())
        cap = DEFAULT_PROCESSOR_RETRIES if judge.max_processor_retries is None else judge.max_processor_retries
        call = ModelCall(
            model=model,
            request=request,
            owner=f"judge:{question.scorer_id}",
            ledger=self.ledger,
            error_processors=processors,
            max_retries=cap if processors else 0,
            run_id=question.run.run_id,
            request_context=question.run.request_context,
            pipeline=pipeline,
        )
        try:
            answer = await ask(call, question.read, NullOut())
        except Unusable as exc:
            self.asks, self.output = 2, call.fold.text
            raise _no_verdict(question, exc, self.output) from exc
        self.asks, self.output = answer.asks, answer.reply.text
        return answer.value

    def _pipeline(self) -> Pipeline | None:
        judge, question = self._judge, self.question
        if not judge.input_processors and not judge.output_processors:
            return None
        context = ProcessorContext(
            run_id=question.run.run_id,
            owner_id=f"judge:{question.scorer_id}",
            request_context=question.run.request_context,
        )
        return Pipeline(tuple(judge.input_processors or ()), tuple(judge.output_processors or ()), context)


class _AskedAgent(_Asked[T]):
    """An agent as judge: its own instructions, tools, error processors and cap are its own business."""

    def __init__(self, agent: JudgeAgent, question: Question[T]) -> None:
        super().__init__(question, getattr(agent, "model", None))
        self._agent = agent

    async def answer(self) -> T:
        try:
            return self.question.read(await self._generate(self.question.prompt), last=False)
        except Unusable as exc:
            complaint = str(exc)
        self.asks = 2
        prompt = f"{self.question.prompt}\n\nYour last reply cannot be used: {complaint}"
        try:
            return self.question.read(await self._generate(prompt), last=True)
        except Unusable as exc:
            raise _no_verdict(self.question, exc, self.output or "") from exc

    async def _generate(self, prompt: str) -> str:
        form = self.question.format
        options: dict[str, Any] = {} if form is None else {"output": form.schema}
        try:
            result = await self._agent.generate(prompt, request_context=self.question.run.request_context, **options)
        except OutputValidationError as exc:  # the agent has asked its model again itself
            self.asks, self.output = 2, exc.text
            raise _no_verdict(self.question, exc, exc.text) from exc
        self.ledger.requests += result.usage.requests
        self.ledger.add("agent", result.usage)
        output: str = result.text if form is None else json.dumps(result.output)
        self.output = output
        return output


def _no_verdict(question: Question[Any], cause: Exception, text: str) -> JudgeError:
    where = f"scorer {question.scorer_id!r}, step {question.step}"
    msg = f"{where}: the judge gave no usable reply, also after a re-ask: {cause}"
    return JudgeError(msg, raw_text=text)

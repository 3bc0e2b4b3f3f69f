"""Judges: a model, or an agent, that answers one question of a scorer.

A judge is a model call with error processors and no hidden defaults. Only the failed request is made again; what a
scorer had finished is not redone.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, cast

from typing_extensions import TypeVar

from mastra_py._checks import whole_number
from mastra_py._loop.channel import NullOut
from mastra_py._loop.ledger import CURRENT, Account, Ledger
from mastra_py._loop.processing import ERROR_METHODS, INPUT_METHODS, OUTPUT_METHODS, Pipeline, check_processors
from mastra_py._loop.step import ModelCall
from mastra_py._loop.structured import JsonPromptInjection, ask, with_output
from mastra_py._output import OutputFormat, Reader, ReadSchema
from mastra_py._reply_json import Unusable
from mastra_py.errors import JudgeError, OutputValidationError, TripWire, UserError
from mastra_py.messages import Message
from mastra_py.models.base import Model, ModelRequest
from mastra_py.models.resolve import resolve_model
from mastra_py.models.settings import ModelSettings, read_settings
from mastra_py.options import retry_cap
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
        how = cast("object", self.json_prompt_injection)
        if how is not None and not isinstance(how, bool) and how not in ("auto", "system", "inline"):
            msg = f"Judge json_prompt_injection must be 'auto', 'system', 'inline' or a bool, got {how!r}"
            raise UserError(msg)
        instructions = cast("object", self.instructions)
        if instructions is not None and not isinstance(instructions, str):
            msg = f"Judge instructions must be a text, got {instructions!r}"
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
            settings = read_settings(self.model_settings, "Judge model_settings")
            object.__setattr__(self, "model_settings", settings)

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
    if judge is None or (isinstance(judge, Judge | JudgeAgent) and not isinstance(judge, type)):
        return judge
    msg = f"{where}: judge must be a Judge or an Agent, got {judge!r}"
    raise UserError(msg)


def require_ready(judge: JudgeLike | None, where: str) -> JudgeLike:
    """Return the judge of a prompt step where it can be asked.

    Raises:
        UserError: there is none, or it lacks a model, instructions or an API key.
    """
    if judge is None:
        msg = f"{where} is a prompt and needs a judge: give the scorer or the step judge=Judge(model=, instructions=)"
        raise UserError(msg)
    missing = [name for name in ("model", "instructions") if isinstance(judge, Judge) and not getattr(judge, name)]
    if missing:
        msg = f"{where} is a prompt, and its judge has no {' and no '.join(missing)}"
        raise UserError(msg)
    model = getattr(judge, "model", None)
    if not isinstance(judge, Judge) and isinstance(model, Model) and model.profile.legacy:
        msg = f"{where}: an agent with a legacy model cannot judge; give judge=Judge(model=the legacy model, ...)"
        raise UserError(msg)
    check = getattr(model, "check", None)
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

    @property
    def owner(self) -> str:
        """The key under which the judge's usage is counted."""
        return f"judge:{self.scorer_id}"


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
        asking: _AskedModel[T] | _AskedAgent[T]
        asking = _AskedModel(judge, question) if isinstance(judge, Judge) else _AskedAgent(judge, question)
        begin = time.monotonic()
        error: BaseException | None = None
        try:
            return await asking.answer()
        except BaseException as exc:
            error = exc
            raise
        finally:  # a judge that failed, or was cancelled, has spent all the same
            self.records[question.step] = asking.record(time.monotonic() - begin, error)


class _Asked(Generic[T]):
    """A question under way, and what is known of it: ``asks`` is 2 once the first reply was unusable."""

    def __init__(self, question: Question[T], model: Model | None) -> None:
        self.question = question
        self.model = model
        self.ledger = Ledger()
        self.asks = 1
        self.output: str | None = None

    def read(self, text: str, *, last: bool) -> T:
        """Read a reply; it is the judge's last word until there is another one."""
        self.output = text
        self.asks = 2 if last else 1
        return self.question.read(text, last=last)

    def no_verdict(self, cause: Exception) -> JudgeError:
        where = f"scorer {self.question.scorer_id!r}, step {self.question.step}"
        msg = f"{where}: the judge gave no usable reply, also after a re-ask: {cause}"
        return JudgeError(msg, raw_text=self.output)

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
        call = await self._call(cast("Model", self.model))
        try:
            return await ask(call, self.read, NullOut())
        except Unusable as exc:
            self.output = call.fold.text
            raise self.no_verdict(exc) from exc
        finally:
            self.asks = call.asks

    async def _call(self, model: Model) -> ModelCall:
        judge, question = self._judge, self.question
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
        return ModelCall(
            model=model,
            request=request,
            owner=question.owner,
            ledger=self.ledger,
            error_processors=processors,
            max_retries=retry_cap(judge.max_processor_retries, processors, model),
            run_id=question.run.run_id,
            request_context=question.run.request_context,
            pipeline=pipeline,
        )

    def _pipeline(self) -> Pipeline | None:
        inputs, outputs = tuple(self._judge.input_processors or ()), tuple(self._judge.output_processors or ())
        if not inputs and not outputs:
            return None
        run = self.question.run
        context = ProcessorContext(run_id=run.run_id, owner_id=self.question.owner, request_context=run.request_context)
        return Pipeline(inputs, outputs, context)


class _AskedAgent(_Asked[T]):
    """An agent as judge: its own instructions, tools, error processors and cap are its own business.

    An ``Agent`` reads its reply with the reader that the schema brings, and asks once more itself where it has to. What
    else generates gets a plain JSON Schema, and is asked once more from here.
    """

    def __init__(self, agent: JudgeAgent, question: Question[T]) -> None:
        model = getattr(agent, "model", None)
        super().__init__(question, model if isinstance(model, Model) else None)
        self._agent = agent
        self._values: list[T] = []

    async def answer(self) -> T:
        prompt = self.question.prompt
        text = await self._generate(prompt)
        if self._values:  # it has read its reply itself
            return self._values[-1]
        try:
            return self.read(text, last=False)
        except Unusable as exc:
            complaint = str(exc)
        text = await self._generate(f"{prompt}\n\nYour last reply cannot be used: {complaint}")
        try:
            return self._values[-1] if self._values else self.read(text, last=True)
        except Unusable as exc:
            raise self.no_verdict(exc) from exc

    def _read_and_keep(self, text: str, *, last: bool) -> T:
        self._values.clear()  # of drafts that the judge's own scorers have rejected
        value = self.read(text, last=last)
        self._values.append(value)
        return value

    async def _generate(self, prompt: str) -> str:
        options: dict[str, Any] = {}
        if self.question.format is not None:
            options["output"] = schema = ReadSchema(self.question.format.schema)
            schema.reader = self._read_and_keep
        ours = CURRENT.set(Account(self.ledger, self.question.owner))
        try:
            result = await self._agent.generate(prompt, request_context=self.question.run.request_context, **options)
        except OutputValidationError as exc:
            self.asks = 2
            raise self.no_verdict(exc) from exc
        finally:
            CURRENT.reset(ours)
        tripped: TripWire | None = getattr(result, "tripwire", None)
        if tripped is not None:
            raise tripped
        ended = getattr(result, "stop_reason", "answered")
        if ended not in {"answered", "complete"}:
            self.output = result.text
            msg = f"the judge {self._agent!r} gave no answer that stands: its run ended as {ended}"
            raise JudgeError(msg, raw_text=result.text)
        text = result.text
        if not isinstance(text, str) or (not text and self.question.format is not None):
            text = json.dumps(result.output, ensure_ascii=False)
        return text

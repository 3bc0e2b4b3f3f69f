"""Prompt steps: a step of a scorer that a judge answers."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, cast

from pydantic import TypeAdapter
from typing_extensions import TypeVar

from mastra_py._checks import is_number
from mastra_py._loop.callbacks import resolve
from mastra_py._output import OutputFormat, OutputType, Reader, output_type
from mastra_py._reply_json import Unusable, read_json_reply, refuse_contradictions
from mastra_py.errors import UserError
from mastra_py.scorers.context import StepContext
from mastra_py.scorers.judge import Bench, JudgeLike, Question, check_judge, effective_judge, require_ready

T = TypeVar("T", default=Any)
ContextT = TypeVar("ContextT", default=Any)

SCORE_FORMAT = OutputFormat(
    "score",
    {
        "type": "object",
        "properties": {"score": {"type": "number"}},
        "required": ["score"],
        "additionalProperties": False,
    },
)
"""What the judge of a ``generate_score`` step without ``output`` answers."""

_DECIMAL = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptStep(Generic[T, ContextT]):
    """A step that a judge answers.

    Attributes:
        description: what the step does.
        create_prompt: (async) function of the step's context that returns the prompt.
        output: the type of the reply: a type, a ``TypeAdapter`` or a JSON Schema; the validated value is the step's
            result. Needed for ``preprocess`` and ``analyze``; a ``generate_score`` step without it is answered
            ``{"score": number}``, and ``generate_reason`` is answered in text.
        calculate_score: (async) function of context and reply that gives the score, for ``generate_score``. Without it
            the reply is the score, or has it as ``score``.
        judge: overrides the scorer's judge, field by field.

    Example::

        PromptStep(
            description="Find what the answer claims.",
            output=Claims,
            create_prompt=lambda ctx: f"List the claims in: {ctx.run.output}",
        )
    """

    create_prompt: Callable[[ContextT], str | Awaitable[str]]
    description: str = ""
    output: type[T] | TypeAdapter[T] | Mapping[str, Any] | None = None
    calculate_score: Callable[[ContextT, T], Any] | None = None
    judge: JudgeLike | None = None

    def __post_init__(self) -> None:
        for name in ("create_prompt", "calculate_score"):
            value: object = getattr(self, name)
            if not callable(value) and (value is not None or name == "create_prompt"):
                msg = f"PromptStep {name} must be a function, got {value!r}"
                raise UserError(msg)
        check_judge(self.judge, "PromptStep")


@dataclass(frozen=True, slots=True)
class BoundPromptStep:
    """A prompt step in its place in a scorer: with its effective judge and the type of its reply."""

    scorer_id: str
    name: str
    step: PromptStep[Any, Any]
    judge: JudgeLike | None
    output: OutputType[Any] | None

    def require_ready(self) -> None:
        """Raise a ``UserError`` where the judge cannot be asked."""
        require_ready(self.judge, f"scorer {self.scorer_id!r}: step {self.name}")

    async def __call__(self, ctx: StepContext[Any, Any, Any, Any], bench: Bench) -> Any:
        """Ask the judge and return the step's result."""
        prompt = cast("object", await resolve(self.step.create_prompt(ctx)))
        if not isinstance(prompt, str):
            msg = f"create_prompt must return a text, got {prompt!r}"
            raise TypeError(msg)
        judge = require_ready(self.judge, f"scorer {self.scorer_id!r}: step {self.name}")
        question = Question(
            scorer_id=self.scorer_id,
            step=self.name,
            prompt=prompt,
            read=self._reader(),
            run=ctx.run,
            format=self._format(),
        )
        value = await bench.ask(judge, question)
        if self.step.calculate_score is not None:
            return await resolve(self.step.calculate_score(ctx, value))
        return _score_in(value) if self.name == "generate_score" else value

    def _format(self) -> OutputFormat | None:
        if self.output is not None:
            return self.output.format
        return SCORE_FORMAT if self.name == "generate_score" else None

    def _reader(self) -> Reader[Any]:
        if self.output is not None:
            return self.output.read
        return _read_score if self.name == "generate_score" else _read_text


def bind_prompt_step(
    scorer_id: str, name: str, step: PromptStep[Any, Any], scorer_judge: JudgeLike | None
) -> BoundPromptStep:
    """Put a prompt step into its place.

    Raises:
        UserError: it has no ``output`` where it needs one, or a field that its place has no use for.
    """
    where = f"scorer {scorer_id!r}: step {name}"
    if name in {"preprocess", "analyze"} and step.output is None:
        msg = f"{where} is a prompt and needs output=, the type of the judge's reply"
        raise UserError(msg)
    if name == "generate_reason" and step.output is not None:
        msg = f"{where} is answered in text; leave out output="
        raise UserError(msg)
    if name != "generate_score" and step.calculate_score is not None:
        msg = f"{where} gives no score; calculate_score belongs to generate_score"
        raise UserError(msg)
    output = None if step.output is None else output_type(step.output, where)
    if name == "generate_score" and output and step.calculate_score is None and not output.may_have("score"):
        msg = f"{where}: there is no score in output=; give calculate_score=, a function of the context and the reply"
        raise UserError(msg)
    return BoundPromptStep(scorer_id, name, step, effective_judge(step.judge, scorer_judge), output)


def _score_in(value: Any) -> Any:
    """Return the score that a reply has, or the reply where it is one."""
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value).get("score")
    return getattr(value, "score", value)


def _read_score(text: str, *, last: bool) -> float:  # noqa: ARG001 -- read the same way both times
    value, source = read_json_reply(text)
    refuse_contradictions(source)
    score: object = cast("dict[str, Any]", value).get("score") if isinstance(value, dict) else None
    if isinstance(score, str) and _DECIMAL.fullmatch(score.strip()):
        score = float(score)
    if not is_number(score):
        msg = 'it has to be {"score": number}, with a finite number'
        raise Unusable(msg)
    return score


def _read_text(text: str, *, last: bool) -> str:  # noqa: ARG001 -- read the same way both times
    if not text.strip():
        msg = "it is empty"
        raise Unusable(msg)
    return text.strip()

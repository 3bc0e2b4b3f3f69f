"""Judges: what they are asked, how their replies are read, what is asked again, and what they leave as evidence."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated, Any

import anyio
import pytest
from pydantic import AfterValidator, BaseModel, Field, TypeAdapter
from support.chat_reply import chat_reply
from support.http_server import HTTPServer
from support.judges import graded, prompt
from support.streams import read_all

from mastra_py import (
    Agent,
    AuthError,
    Judge,
    JudgeError,
    Message,
    ModelSettings,
    OverloadedError,
    PromptStep,
    Retry,
    ScorerRun,
    ScorerRunError,
    ServerError,
    StreamErrorRetryProcessor,
    TaskCompletion,
    TripWire,
    Usage,
    UserError,
    create_scorer,
    tool,
)
from mastra_py._reply_json import Unusable
from mastra_py.models import ModelRequest, OpenAIChatModel
from mastra_py.models.profile import ModelProfile
from mastra_py.processors import ProcessorContext
from mastra_py.scorers.judge import Bench, Question, effective_judge
from mastra_py.testing import FunctionModel, ScriptedModel, Turn, api_error

SCORE = '{"score": 0.8}'
GOOD = '{"score": 1}'
DOWN = Turn(error=api_error(503, message="overloaded"))
SPENT = Turn(error=api_error(503), error_at="mid_stream", text='{"sco', usage=Usage(input_tokens=3, output_tokens=2))


class Greedy:
    """An error processor that never gives up."""

    def __init__(self, id: str = "greedy") -> None:
        self.id = id
        self.asked: list[str] = []

    async def process_api_error(self, ctx: Any, /) -> Retry:
        self.asked.append(ctx.owner_id)
        return Retry()


def failure_of(caught: pytest.ExceptionInfo[ScorerRunError]) -> tuple[str | None, tuple[str, ...]]:
    return caught.value.failed_step, caught.value.completed_steps


# --- what it is asked


async def test_a_judge_is_asked_with_its_instructions_and_the_prompt_and_gives_the_score() -> None:
    scorer, model = graded(SCORE, model_settings={"temperature": 0.0})
    result = await scorer.run(output="text")
    assert (result.score, result.passed) == (0.8, False)
    (request,) = model.requests
    assert (request.system, [m.text for m in request.messages]) == ("You grade.", ["Grade it."])
    assert request.settings == ModelSettings(temperature=0.0)
    assert (request.tools, request.tool_choice) == ((), "auto")


PLACES: list[tuple[Any, bool, str]] = [
    # json_prompt_injection, whether the model has native output, where the form of the reply is told
    (None, True, "native"),
    (None, False, "user"),
    ("auto", True, "native"),
    ("auto", False, "user"),
    ("inline", True, "user"),
    ("inline", False, "user"),
    ("system", True, "system"),
    ("system", False, "system"),
    (True, True, "system"),
    (True, False, "system"),
    (False, True, "native"),
    (False, False, "native"),
]


@pytest.mark.parametrize(("how", "native", "place"), PLACES)
async def test_the_form_of_the_reply_is_told_where_the_judge_says(how: Any, native: bool, place: str) -> None:
    scorer, model = graded(GOOD, native=native, json_prompt_injection=how)
    await scorer.run()
    (request,) = model.requests
    (message,) = request.messages
    told = {
        "native": request.output is not None and "score" in request.output.schema["properties"],
        "user": '"score"' in message.text,
        "system": '"score"' in (request.system or ""),
    }
    assert [where for where, there in told.items() if there] == [place]
    assert (request.system or "").startswith("You grade.")
    assert [part.type for part in message.parts] == ["text", "text"][: 2 if place == "user" else 1]
    assert message.text.startswith("Grade it.")


@pytest.mark.parametrize(
    ("roles", "place"),
    [(["user", "assistant"], 0), (["user", "assistant", "user", "assistant"], 2), (["assistant"], 1)],
)
async def test_in_the_user_prompt_means_in_the_last_one_there_is(roles: list[Any], place: int) -> None:
    class Rewrite:
        id = "rewrite"

        def process_input(self, messages: tuple[Message, ...], ctx: ProcessorContext) -> list[Message]:
            return [Message(role, "x") for role in roles]

    scorer, model = graded(GOOD, json_prompt_injection="inline", input_processors=[Rewrite()])
    await scorer.run()
    sent = model.requests[0].messages
    assert [i for i, m in enumerate(sent) if '"score"' in m.text] == [place]
    assert sent[place].role == "user"


@pytest.mark.parametrize("how", ["auto", "system", "inline", True, False])
async def test_a_step_answered_in_text_is_told_no_form(how: Any) -> None:
    scorer, model = graded(GOOD, "because", native=False, json_prompt_injection=how)
    result = await scorer.generate_reason(prompt("Why?")).run()
    assert result.reason == "because"
    asked = model.requests[1]
    assert (asked.system, [m.text for m in asked.messages], asked.output) == ("You grade.", ["Why?"], None)


async def test_an_empty_prompt_leaves_no_empty_part_beside_the_form() -> None:
    scorer, model = graded(GOOD, native=False)
    empty = create_scorer("quality", judge=scorer.judge).generate_score(prompt(""))
    await empty.run()
    assert [part.type for part in model.requests[0].messages[0].parts] == ["text"]


# --- what it may be


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("model", 3, "a model is a string such as"),
        ("model", "gpt-5", "is not understood"),
        ("instructions", ["be", "strict"], "Judge instructions must be a text"),
        ("json_prompt_injection", "native", "json_prompt_injection must be"),
        ("json_prompt_injection", 1, "json_prompt_injection must be"),
        ("json_prompt_injection", [], "json_prompt_injection must be"),
        ("input_processors", [Greedy()], "Judge input_processors holds"),
        ("output_processors", [Greedy], "Judge output_processors holds the class Greedy"),
        ("error_processors", ["retry"], "Judge error_processors holds"),
        ("max_processor_retries", -1, "Judge max_processor_retries must be a whole number from 0"),
        ("max_processor_retries", True, "Judge max_processor_retries must be a whole number from 0"),
        ("model_settings", {"temprature": 1}, "Judge model_settings: unknown model setting 'temprature'"),
        ("model_settings", 0.5, "Judge model_settings must be"),
    ],
)
def test_a_field_that_is_not_what_it_has_to_be_is_refused(field: str, value: Any, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        Judge(**{field: value})


@pytest.mark.parametrize("value", ["openai/gpt-5-mini", 3, Agent, {"model": "m"}])
def test_what_is_neither_a_judge_nor_an_agent_is_refused(value: Any) -> None:
    with pytest.raises(UserError, match="scorer 's': judge must be a Judge or an Agent"):
        create_scorer("s", judge=value)
    with pytest.raises(UserError, match="PromptStep: judge must be a Judge or an Agent"):
        prompt(judge=value)


def test_a_model_string_becomes_a_model_and_one_processor_a_list() -> None:
    processor = Greedy()
    judge = Judge(model="openai-chat/m", error_processors=processor)  # type: ignore[arg-type]
    assert isinstance(judge.model, OpenAIChatModel)
    assert judge.error_processors == (processor,)


# --- a step's judge over the scorer's


def test_a_steps_judge_overrides_field_by_field() -> None:
    retry, other = Greedy(), Greedy("other")
    base = Judge(
        model=ScriptedModel([], id="base"),
        instructions="base",
        json_prompt_injection="inline",
        error_processors=[retry],
        max_processor_retries=3,
        model_settings={"temperature": 0.1, "seed": 1},
    )
    model = ScriptedModel([], id="own")
    own = {
        "model": model,
        "instructions": "own",
        "json_prompt_injection": False,
        "error_processors": [other],
        "max_processor_retries": 0,
        "model_settings": ModelSettings(temperature=0.9),
    }
    for name, value in own.items():
        judge = effective_judge(Judge(**{name: value}), base)
        assert isinstance(judge, Judge)
        changed = {f.name for f in dataclasses.fields(Judge) if getattr(judge, f.name) != getattr(base, f.name)}
        assert changed == {name}
    emptied = effective_judge(Judge(error_processors=[]), base)
    assert isinstance(emptied, Judge)
    assert (emptied.error_processors, emptied.max_processor_retries) == ((), 3), "a list replaces, the cap is inherited"
    assert effective_judge(None, base) is base
    agent = Agent(id="a", model=model)
    assert effective_judge(agent, base) is agent
    assert effective_judge(own_judge := Judge(model=model), agent) is own_judge


async def test_a_step_with_no_processors_of_its_own_retries_as_the_scorer_says_and_with_an_empty_list_never() -> None:
    scorer, model = graded(DOWN, GOOD, DOWN, error_processors=[Greedy()], max_processor_retries=1)
    result = await scorer.generate_reason(prompt("Why?", judge=Judge(error_processors=[]))).run()
    assert isinstance(result.error, ScorerRunError)
    assert (result.score, result.judge["generate_score"].model_calls) == (1, 2)
    assert (result.judge["generate_reason"].model_calls, model.calls) == (1, 3)


# --- how its replies are read


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ('{"score": 0.8}', 0.8),
        ('{"score": 1}', 1),
        ('{"score": 57}', 57),
        ('{"score": -0.5}', -0.5),
        ('{"score": "0.8"}', 0.8),
        ('{"score": " 1 "}', 1.0),
        ('{"score": 0.6, "why": "short"}', 0.6),
        ('Well.\n```json\n{"score": 0.6}\n```\nDone.', 0.6),
        ('{"score": 0.1} - no, rather {"score": 0.7}.', 0.7),
    ],
)
async def test_a_score_is_read_from_json_wherever_it_stands(reply: str, score: float) -> None:
    scorer, model = graded(reply)
    assert (await scorer.run()).score == score
    assert model.calls == 1


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "It is good.",
        "0.8",
        "[0.8]",
        '{"score": true}',
        '{"score": null}',
        '{"score": "high"}',
        '{"score": "1_0"}',
        '{"score": "nan"}',
        '{"score": NaN}',
        '{"score": 1e999}',
        f'{{"score": {10**400}}}',
        '{"scores": 1}',
        '{"score": 0.',
    ],
)
async def test_a_reply_without_a_usable_score_is_re_asked_once_and_then_a_judge_error(reply: str) -> None:
    scorer, model = graded(reply, SCORE)
    assert (await scorer.run()).score == 0.8
    scorer, model = graded(reply, f"again: {reply}")
    with pytest.raises(ScorerRunError) as caught:
        await scorer.run()
    error = caught.value.__cause__
    assert isinstance(error, JudgeError)
    assert error.raw_text == f"again: {reply}"
    assert "scorer 'quality', step generate_score" in str(error)
    assert (failure_of(caught), model.calls) == (("generate_score", ()), 2)


async def test_the_re_ask_shows_the_reply_and_says_what_is_wrong_with_it() -> None:
    scorer, model = graded("It is good.", SCORE, native=False)
    await scorer.run()
    first, again = model.requests
    assert [m.role for m in again.messages] == ["user", "assistant", "user"]
    assert again.messages[0] == first.messages[0], "the form of the reply is still told where it was"
    assert again.messages[1].text == "It is good."
    assert "there is no JSON object in it" in again.messages[2].text
    assert again.system == first.system


async def test_a_reader_knows_whether_the_judge_is_asked_again() -> None:
    told: list[tuple[str, bool]] = []

    def read(text: str, *, last: bool) -> str:
        told.append((text, last))
        if not last:
            raise Unusable("not yet")
        return text

    judge = Judge(model=ScriptedModel(["one", "two"]), instructions="i")
    question = Question(scorer_id="s", step="analyze", prompt="Grade it.", read=read, run=ScorerRun())
    assert await Bench().ask(judge, question) == "two"
    assert told == [("one", False), ("two", True)]


class Grade(BaseModel):
    score: float = Field(ge=0, le=1)
    flaws: list[str] = []


@pytest.mark.parametrize("reply", ['{"score": 8}', '{"score": NaN}', '{"score": -0.1}', '{"score": "high"}'])
async def test_a_range_that_output_states_is_checked_and_never_clamped(reply: str) -> None:
    scorer, model = graded(reply, '{"score": "0.8"}', step={"output": Grade})
    assert (await scorer.run()).score == 0.8
    assert model.calls == 2


async def test_a_judge_that_only_talks_is_no_verdict_and_no_feedback() -> None:
    scorer, judge = graded("It reads well.", "As I said: it reads well.")
    writer = ScriptedModel(["a draft"])
    _, result = await read_all(Agent(id="a", model=writer), is_task_complete=scorer)
    assert (result.stop_reason, result.text, judge.calls, writer.calls) == ("scorer_error", "a draft", 2, 1)
    assert result.completion
    (entry,) = result.completion.results
    assert (entry.status, entry.score) == ("errored", None)
    assert isinstance(entry.error, ScorerRunError)
    assert isinstance(entry.error.__cause__, JudgeError)
    assert entry.error.__cause__.raw_text == "As I said: it reads well."


# --- what is asked again


@pytest.mark.parametrize("max_retries", [0, 1, 3])
async def test_a_failed_request_makes_max_retries_and_one_attempts(max_retries: int) -> None:
    model = ScriptedModel([DOWN], repeat_last=True)
    judge = Judge(
        model=model,
        instructions="You grade.",
        error_processors=[StreamErrorRetryProcessor(max_retries=max_retries)],
        max_processor_retries=max_retries,
    )
    with pytest.raises(ScorerRunError) as caught:
        await create_scorer("s", judge=judge).generate_score(prompt()).run()
    assert model.calls == max_retries + 1
    assert caught.value.result.judge["generate_score"].model_calls == max_retries + 1
    assert "scorer 's': step generate_score failed" in str(caught.value)


@pytest.mark.parametrize(
    ("judge", "calls"),
    [
        ({}, 1),
        ({"max_processor_retries": 5}, 1),
        ({"error_processors": [Greedy()]}, 11),
        ({"error_processors": [Greedy()], "max_processor_retries": 0}, 1),
        ({"error_processors": [Greedy(), Greedy()], "max_processor_retries": 2}, 3),
    ],
)
async def test_the_cap_is_10_with_processors_and_0_without(judge: dict[str, Any], calls: int) -> None:
    model = ScriptedModel([DOWN], repeat_last=True)
    ours = Judge(model=model, instructions="You grade.", **judge)
    with pytest.raises(ScorerRunError):
        await create_scorer("s", judge=ours).generate_score(prompt()).run()
    assert model.calls == calls


async def test_what_is_not_retryable_fails_at_once() -> None:
    wrong_key = Turn(error=api_error(401))
    scorer, model = graded(wrong_key, GOOD, error_processors=[StreamErrorRetryProcessor(max_retries=3)])
    with pytest.raises(ScorerRunError) as caught:
        await scorer.run()
    assert isinstance(caught.value.__cause__, AuthError)
    assert model.calls == 1


async def test_a_reply_without_a_verdict_never_reaches_the_error_processors() -> None:
    greedy = Greedy()
    scorer, model = graded("nope", "nope", error_processors=[greedy])
    with pytest.raises(ScorerRunError):
        await scorer.run()
    assert (greedy.asked, model.calls) == ([], 2)


async def test_the_re_ask_is_retried_like_any_request() -> None:
    scorer, model = graded(DOWN, "nope", DOWN, SCORE, error_processors=[StreamErrorRetryProcessor()])
    result = await scorer.run()
    record = result.judge["generate_score"]
    assert (result.score, record.attempts, record.model_calls, model.calls) == (0.8, 2, 4, 4)


async def test_an_outage_of_the_judge_repeats_neither_finished_steps_nor_the_agents_turn() -> None:
    counted: list[Any] = []
    judge = ScriptedModel([DOWN, '{"facts": 3}'])
    scorer = (
        create_scorer("s", judge=Judge(model=judge, instructions="j", error_processors=[StreamErrorRetryProcessor()]))
        .preprocess(lambda ctx: counted.append(ctx.run.output))
        .analyze(prompt(output={"type": "object"}))
        .generate_score(lambda ctx: ctx.results.analyze["facts"] == 3)
    )
    with ScriptedModel(["draft"]) as writer:
        _, result = await read_all(Agent(id="a", model=writer), is_task_complete=scorer)
    assert (result.stop_reason, counted, judge.calls, writer.calls) == ("complete", ["draft"], 2, 1)


async def test_when_only_the_reason_fails_only_the_reason_is_asked_again() -> None:
    prompts: list[str] = []

    def ask_why(ctx: Any) -> str:
        prompts.append("why")
        return f"Why {ctx.score}?"

    scorer, model = graded(SCORE, DOWN, "because", error_processors=[StreamErrorRetryProcessor()])
    result = await scorer.generate_reason(PromptStep(create_prompt=ask_why)).run()
    assert (result.score, result.reason, prompts) == (0.8, "because", ["why"])
    assert [r.messages[0].text for r in model.requests] == ["Grade it.", "Why 0.8?", "Why 0.8?"]
    assert [(r.attempts, r.model_calls) for r in result.judge.values()] == [(1, 1), (1, 2)]


async def test_over_http_the_form_is_the_response_format_and_only_the_failed_request_is_sent_again() -> None:
    busy = Turn(error=api_error(503, headers={"retry-after": "0"}, message="Engine overloaded."))
    async with HTTPServer(chat_reply(busy), chat_reply(SCORE), chat_reply("because")) as server:
        judge = Judge(
            model=OpenAIChatModel("grader", base_url=server.base_url),
            instructions="You grade.",
            error_processors=[StreamErrorRetryProcessor()],
        )
        scorer = create_scorer("s", judge=judge).generate_score(prompt()).generate_reason(prompt("Why?"))
        result = await scorer.run()
    assert (result.score, result.reason) == (0.8, "because")
    sent = [request.json for request in server.requests]
    assert [body["messages"][-1]["content"] for body in sent] == ["Grade it.", "Grade it.", "Why?"]
    assert [body.get("response_format", {}).get("type") for body in sent] == ["json_schema", "json_schema", None]
    assert [record.model_calls for record in result.judge.values()] == [2, 1]


# --- the evidence


async def test_each_prompt_step_leaves_its_prompt_and_a_record() -> None:
    usage = Usage(input_tokens=7, output_tokens=2)
    scorer, _ = graded(Turn(text=f"So: {SCORE}", usage=usage), "because")
    result = await scorer.preprocess(lambda ctx: 1).generate_reason(prompt("Why?")).run()
    assert result.prompts == {"generate_score": "Grade it.", "generate_reason": "Why?"}
    assert list(result.judge) == ["generate_score", "generate_reason"]
    record = result.judge["generate_score"]
    assert (record.status, record.prompt, record.output) == ("ok", "Grade it.", f"So: {SCORE}")
    assert (record.model, record.provider) == ("judge-1", "test")
    assert (record.attempts, record.model_calls, record.error, record.cost) == (1, 1, None, None)
    assert (record.usage.input_tokens, record.usage.output_tokens) == (7, 2)
    assert record.duration >= 0
    assert result.judge["generate_reason"].output == "because"


async def test_a_failed_step_leaves_its_evidence_on_the_partial_result() -> None:
    scorer, _ = graded(SPENT, error_processors=[])
    with pytest.raises(ScorerRunError) as caught:
        await scorer.run()
    partial = caught.value.result
    assert partial.prompts == {"generate_score": "Grade it."}
    record = partial.judge["generate_score"]
    assert (record.status, record.output, record.attempts, record.model_calls) == ("failed", None, 1, 1)
    assert record.error is caught.value.__cause__
    assert isinstance(record.error, OverloadedError | ServerError)
    assert (record.usage.total_tokens, list(record.usage.by)) == (5, ["failed:quality"])


async def test_an_outage_in_the_re_ask_keeps_the_reply_before_it_as_evidence() -> None:
    scorer, _ = graded("nope", DOWN)
    with pytest.raises(ScorerRunError) as caught:
        await scorer.run()
    record = caught.value.result.judge["generate_score"]
    assert (record.status, record.output, record.attempts, record.model_calls) == ("failed", "nope", 2, 2)


async def test_functions_alone_ask_no_judge_and_leave_no_evidence() -> None:
    model = ScriptedModel([])
    judge = Judge(model=model, instructions="You grade.")
    result = await create_scorer("s", judge=judge).generate_score(lambda ctx: 1).generate_reason(lambda ctx: "r").run()
    assert (model.calls, dict(result.judge), dict(result.prompts)) == (0, {}, {})


# --- what it spends


async def test_what_judges_spend_is_counted_in_the_run_under_their_scorer() -> None:
    judge_usage = Usage(input_tokens=10, output_tokens=3)
    scorer, _ = graded("nope", Turn(text=GOOD, usage=judge_usage))
    writer = Agent(id="writer", model=ScriptedModel([Turn(text="t", usage=Usage(input_tokens=5, output_tokens=5))]))
    events, result = await read_all(writer, is_task_complete=scorer)
    assert {key: (u.input_tokens, u.output_tokens) for key, u in result.usage.by.items()} == {
        "agent:writer": (5, 5),
        "judge:quality": (11, 4),
    }
    assert (result.usage.input_tokens, result.usage.output_tokens, result.usage.requests) == (16, 9, 3)
    assert sum(event.type == "model-finish" for event in events) == 1, "a judge's events are not in the stream"


async def test_a_judge_that_fails_has_spent_all_the_same() -> None:
    scorer, _ = graded(SPENT, "nope", "nope", error_processors=[StreamErrorRetryProcessor()])
    _, result = await read_all(Agent(id="a", model=ScriptedModel(["draft"])), is_task_complete=scorer)
    assert result.stop_reason == "scorer_error"
    assert {key: (u.input_tokens, u.output_tokens) for key, u in result.usage.by.items()} == {
        "agent:a": (1, 1),
        "failed:quality": (3, 2),
        "judge:quality": (2, 2),
    }
    assert result.usage.requests == 4


async def test_a_cancelled_judge_has_spent_what_it_had_spent() -> None:
    asked = anyio.Event()
    left = anyio.Event()

    async def judge(request: ModelRequest) -> Turn | str:
        if len(request.messages) == 1:
            return "nope"
        asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            left.set()
        raise AssertionError

    async def passes(run: ScorerRun) -> bool:
        await asked.wait()
        return True

    slow = create_scorer("slow", judge=Judge(model=FunctionModel(judge), instructions="j")).generate_score(prompt())
    gate = TaskCompletion([slow, passes], strategy="any")
    with anyio.fail_after(5):
        _, result = await read_all(Agent(id="a", model=ScriptedModel(["draft"])), is_task_complete=gate)
    assert result.completion
    assert [r.status for r in result.completion.results] == ["cancelled", "passed"]
    assert left.is_set()
    assert (result.usage.by["judge:slow"].total_tokens, result.usage.requests) == (2, 3)


async def test_leaving_the_stream_ends_a_judge_under_way() -> None:
    asked, left = anyio.Event(), anyio.Event()

    async def judge(_: ModelRequest) -> str:
        asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            left.set()
        raise AssertionError

    scorer = create_scorer("s", judge=Judge(model=FunctionModel(judge), instructions="j")).generate_score(prompt())
    stream = Agent(id="a", model=ScriptedModel(["draft"])).stream("go", is_task_complete=scorer)

    async def cancel() -> None:
        await asked.wait()
        stream.cancel()

    with anyio.fail_after(5):
        async with stream, anyio.create_task_group() as tasks:
            tasks.start_soon(cancel)
            result = await stream.result()
            assert (result.stop_reason, result.text, left.is_set()) == ("cancelled", "draft", True)


# --- processors


class Redact:
    """Takes a name out of what is sent and what comes back."""

    id = "redact"

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, int, int]] = []

    def process_input(self, messages: tuple[Message, ...], ctx: ProcessorContext) -> list[Message]:
        self.seen.append(("input", ctx.owner_id, ctx.step, ctx.attempt))
        return [Message(m.role, m.text.replace("Ana", "somebody")) for m in messages]

    async def process_input_step(self, request: ModelRequest, ctx: ProcessorContext) -> ModelRequest:
        self.seen.append(("step", ctx.owner_id, ctx.step, ctx.attempt))
        return dataclasses.replace(request, system=f"{request.system} Name nobody.")

    def process_output_result(self, text: str, ctx: ProcessorContext) -> str:
        self.seen.append(("output", ctx.owner_id, ctx.step, ctx.attempt))
        return text.replace("Ana", "somebody")


async def test_a_judges_processors_change_what_it_is_sent_and_what_it_answers() -> None:
    redact = Redact()
    scorer, model = graded(GOOD, "Ana did it.", input_processors=[redact], output_processors=[redact], native=False)
    result = await scorer.generate_reason(prompt("What did Ana do?")).run()
    assert result.reason == "somebody did it."
    assert result.judge["generate_reason"].output == "somebody did it."
    request = model.requests[1]
    assert (request.system, [m.text for m in request.messages]) == (
        "You grade. Name nobody.",
        ["What did somebody do?"],
    )
    assert '"score"' in model.requests[0].messages[0].text, "the form is told after the processors of the input"
    assert redact.seen[:3] == [
        ("input", "judge:quality", 0, 0),
        ("step", "judge:quality", 1, 1),
        ("output", "judge:quality", 1, 1),
    ]
    assert result.prompts["generate_reason"] == "What did Ana do?"


async def test_an_output_processor_may_mend_a_reply() -> None:
    class Mend:
        id = "mend"

        def process_output_step(self, text: str, ctx: ProcessorContext) -> str:
            return text.replace("'", '"')

    scorer, model = graded("{'score': 0.5}", output_processors=[Mend()])
    assert ((await scorer.run()).score, model.calls) == (0.5, 1)


async def test_a_trip_wire_of_a_judges_processor_ends_the_run_as_tripwire() -> None:
    class Guard:
        id = "guard"

        def process_input(self, messages: tuple[Message, ...], ctx: ProcessorContext) -> None:
            raise TripWire("it is about Ana")

    scorer, judge = graded(GOOD, input_processors=[Guard()])
    with pytest.raises(TripWire, match="it is about Ana"):
        await scorer.run()
    _, result = await read_all(Agent(id="a", model=ScriptedModel(["draft"])), is_task_complete=scorer)
    assert (result.stop_reason, result.text, judge.calls) == ("tripwire", "draft", 0)
    assert result.tripwire
    assert (result.tripwire.processor_id, result.tripwire.reason) == ("guard", "it is about Ana")


async def test_a_trip_wire_of_a_judges_error_processor_ends_the_run_as_tripwire() -> None:
    class Stop:
        id = "stop"

        async def process_api_error(self, ctx: Any, /) -> None:
            raise TripWire("enough")

    scorer, _ = graded(DOWN, error_processors=[Stop()])
    _, result = await read_all(Agent(id="a", model=ScriptedModel(["draft"])), is_task_complete=scorer)
    assert result.stop_reason == "tripwire"
    assert result.tripwire
    assert result.tripwire.processor_id == "stop"


# --- an agent as judge


def panel(*turns: Any, native: bool = True, **options: Any) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(turns, id="panel-1", profile=ModelProfile(native_output=native))
    return Agent(**{"id": "panel", "instructions": "You are a panel.", "model": model, **options}), model


def judged_by(agent: Any, **step: Any) -> Any:
    return create_scorer("quality", judge=agent).generate_score(prompt(**step))


async def test_an_agent_judges_with_its_own_instructions_and_tools() -> None:
    @tool
    def look_up(title: str) -> str:
        return f"{title} is out of print"

    agent, model = panel(Turn(tool_calls=[("c", "look_up", {"title": "Emma"})]), SCORE, tools=[look_up])
    result = await judged_by(agent).run()
    assert result.score == 0.8
    assert model.requests[0].system == "You are a panel."
    assert model.requests[0].output is not None
    assert [m.text for m in model.requests[0].messages] == ["Grade it."]
    assert "out of print" in str(model.requests[1].messages[-1].tool_results)
    record = result.judge["generate_score"]
    assert (record.model, record.provider, record.attempts, record.model_calls) == ("panel-1", "test", 1, 2)
    assert (record.status, json.loads(record.output or "")) == ("ok", {"score": 0.8})


async def test_an_agent_explains_in_text() -> None:
    agent, model = panel(GOOD, "because")
    result = await judged_by(agent).generate_reason(prompt("Why?")).run()
    assert result.reason == "because"
    assert model.requests[1].output is None


async def test_the_callers_context_reaches_the_tools_of_an_agent_that_judges() -> None:
    seen: list[Any] = []
    agent, _ = panel(GOOD, instructions=lambda context: seen.append(context) or "You judge.")
    await judged_by(agent).run(request_context={"tenant": 1})
    assert seen == [{"tenant": 1}]


async def test_an_agent_that_judges_retries_as_it_says_itself() -> None:
    greedy = Greedy()
    agent, model = panel(DOWN, DOWN, GOOD, error_processors=[greedy], max_processor_retries=2)
    result = await judged_by(agent).run()
    assert (result.score, model.calls, greedy.asked) == (1, 3, ["agent:panel"] * 2)
    assert result.judge["generate_score"].model_calls == 3


async def test_what_an_agent_spends_as_judge_is_the_judges_and_its_events_stay_out_of_the_stream() -> None:
    agent, _ = panel(SPENT, GOOD, error_processors=[StreamErrorRetryProcessor()])
    events, result = await read_all(Agent(id="a", model=ScriptedModel(["draft"])), is_task_complete=judged_by(agent))
    assert {key: u.total_tokens for key, u in result.usage.by.items()} == {
        "agent:a": 2,
        "judge:quality": 2,
        "failed:panel": 5,
    }
    assert result.usage.requests == 3
    assert [e.type for e in events].count("step-start") == 1


@pytest.mark.parametrize("turns", [["nope", "nope"], [SPENT]])
async def test_what_an_agent_has_spent_counts_where_it_fails_as_judge(turns: list[Any]) -> None:
    agent, _ = panel(*turns)
    _, result = await read_all(Agent(id="a", model=ScriptedModel(["draft"])), is_task_complete=judged_by(agent))
    assert result.stop_reason == "scorer_error"
    assert result.usage.requests == 1 + len(turns)
    assert result.usage.total_tokens == 2 + (4 if len(turns) == 2 else 5)
    assert result.completion
    error = result.completion.results[0].error
    assert isinstance(error, ScorerRunError)
    assert error.result.judge["generate_score"].model_calls == len(turns)


async def test_an_agents_reply_without_a_verdict_is_re_asked_once_in_all() -> None:
    agent, model = panel("It is good.", "Very good.")
    with pytest.raises(ScorerRunError) as caught:
        await judged_by(agent).run()
    error = caught.value.__cause__
    assert isinstance(error, JudgeError)
    assert (error.raw_text, model.calls) == ("Very good.", 2)
    assert caught.value.result.judge["generate_score"].attempts == 2


async def test_an_agents_reply_is_read_as_leniently_as_a_judges() -> None:
    agent, model = panel('{"score": "0.8"}')
    assert ((await judged_by(agent).run()).score, model.calls) == (0.8, 1)


def at_most(limit: float) -> TypeAdapter[float]:
    """Return a type that checks more than its JSON Schema tells."""

    def check(value: float) -> float:
        if value > limit:
            raise ValueError(f"more than {limit}")
        return value

    return TypeAdapter(Annotated[float, AfterValidator(check)])


async def test_an_agents_reply_that_fits_the_schema_and_not_the_type_is_re_asked() -> None:
    agent, model = panel('{"result": 8}', "```json\n" + '{"result": 0.8}' + "\n```")
    result = await judged_by(agent, output=at_most(1)).run()
    assert (result.score, model.calls, result.judge["generate_score"].attempts) == (0.8, 2, 2)
    assert "more than 1" in model.requests[1].messages[-1].text


async def test_an_agent_that_has_asked_twice_is_not_asked_a_third_time() -> None:
    agent, model = panel("prose", '{"result": 8}')
    with pytest.raises(ScorerRunError) as caught:
        await judged_by(agent, output=at_most(1)).run()
    assert isinstance(caught.value.__cause__, JudgeError)
    assert model.calls == 2
    agent, model = panel('{"result": 8}', "prose")
    with pytest.raises(ScorerRunError):
        await judged_by(agent, output=at_most(1)).run()
    assert model.calls == 2


async def test_an_agent_that_ends_without_an_answer_gives_no_verdict() -> None:
    agent, model = panel(Turn(text='{"score": 1}', finish_reason="length"))
    with pytest.raises(ScorerRunError) as caught:
        await judged_by(agent).run()
    assert isinstance(caught.value.__cause__, JudgeError)
    assert model.calls == 1


async def test_a_trip_wire_inside_an_agent_that_judges_ends_the_run_as_tripwire() -> None:
    class Guard:
        id = "guard"

        def process_output_step(self, text: str, ctx: ProcessorContext) -> None:
            raise TripWire("no")

    agent, model = panel(GOOD, output_processors=[Guard()])
    _, result = await read_all(Agent(id="a", model=ScriptedModel(["draft"])), is_task_complete=judged_by(agent))
    assert (result.stop_reason, model.calls) == ("tripwire", 1)


async def test_anything_that_generates_may_judge() -> None:
    asked: list[Any] = []

    @dataclasses.dataclass
    class Answer:
        text: str = ""
        output: Any = None

    class Oracle:
        model = "inner voice"

        async def generate(self, prompt: Any = None, /, **options: Any) -> Answer:
            asked.append((prompt, options))
            return Answer(output={"score": 1})

    result = await judged_by(Oracle()).run()
    assert (result.score, result.judge["generate_score"].model) == (1, None)
    ((text, options),) = asked
    assert (text, options["output"]["properties"]) == ("Grade it.", {"score": {"type": "number"}})


async def test_agents_that_a_function_scorer_asks_count_as_its_judges() -> None:
    agent, _ = panel("yes")

    async def asks(run: ScorerRun) -> bool:
        return (await agent.generate("Is it good?")).text == "yes"

    _, result = await read_all(Agent(id="a", model=ScriptedModel(["draft"])), is_task_complete=asks)
    assert {key: u.total_tokens for key, u in result.usage.by.items()} == {"agent:a": 2, "judge:asks": 2}


# --- misuse is found before anything is sent


NO_KEY = OpenAIChatModel("m", base_url="https://api.openai.com/v1")


@pytest.mark.parametrize(
    ("judge", "complaint"),
    [
        (None, "step generate_score is a prompt and needs a judge"),
        (Judge(instructions="i"), "its judge has no model"),
        (Judge(model=ScriptedModel([])), "its judge has no instructions"),
        (Judge(model=ScriptedModel([]), instructions=""), "its judge has no instructions"),
        (Judge(), "no model and no instructions"),
        (Judge(model=NO_KEY, instructions="i"), "OPENAI_API_KEY"),
        (Agent(id="panel", model=NO_KEY), "OPENAI_API_KEY"),
    ],
)
async def test_a_judge_that_cannot_be_asked_is_found_before_any_step_and_by_the_call_of_stream(
    judge: Any, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    ran: list[Any] = []
    scorer = create_scorer("s", judge=judge).preprocess(ran.append).generate_score(prompt())
    with pytest.raises(UserError, match=complaint):
        await scorer.run()
    writer = ScriptedModel([])
    agent = Agent(id="a", model=writer)
    with pytest.raises(UserError, match=complaint):
        agent.stream("go", is_task_complete=TaskCompletion([lambda run: True, scorer]))
    assert (ran, writer.calls) == ([], 0)

"""Input and output processors: each method, their order, their notes, and what readers, scorers and history see."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from pydantic import BaseModel
from support.cancelling import Stubborn, is_not_swallowed
from support.streams import read_all, read_failing, types

from mastra_py import (
    Agent,
    DataPart,
    Message,
    OutputValidationError,
    ReasoningPart,
    ScorerRun,
    ServerError,
    StreamErrorRetryProcessor,
    TextPart,
    ToolCallPart,
    TripWire,
    Usage,
    UserError,
    tool,
)
from mastra_py.events import (
    ModelEvent,
    ModelFinished,
    OutputSuperseded,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
)
from mastra_py.models import ModelRequest
from mastra_py.processors import ProcessorContext
from mastra_py.testing import FunctionModel, ScriptedModel, Turn, api_error

Log = list[tuple[Any, ...]]
INPUT_METHODS = ("process_input", "process_input_step")
OUTPUT_METHODS = ("process_output_stream", "process_output_step", "process_output_result")
BROKEN = Turn(text="half a th", error_at="mid_stream", error=api_error(500), usage=Usage(output_tokens=1))


def processor(id: str = "p", **methods: Callable[[Any, ProcessorContext], Any]) -> Any:
    """Return a processor with these methods, each a function of value and context."""
    return type("Processor", (), {"id": id, **{name: staticmethod(function) for name, function in methods.items()}})()


def agent(*turns: Any, **options: Any) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(turns)
    return Agent(**{"id": "a", "model": model, **options}), model


def replaced(old: str, new: str) -> Callable[[str, ProcessorContext], str]:
    return lambda text, ctx: text.replace(old, new)


def raises(error: Exception) -> Callable[[Any, ProcessorContext], Any]:
    def function(value: Any, ctx: ProcessorContext) -> Any:
        raise error

    return function


@tool
def look_up(name: str) -> str:
    """Look a name up."""
    return f"{name} is a city"


CALL = Turn(text="I look.", tool_calls=[("c", "look_up", {"name": "Oslo"})])


# --- process_input


async def test_process_input_changes_the_history_and_every_prompt_and_not_the_task() -> None:
    """D29"""
    seen: list[str] = []

    def scorer(run: ScorerRun) -> bool:
        seen.append(run.input.task)
        return len(seen) > 1

    hide = processor(process_input=lambda messages, ctx: [Message(m.role, m.text.upper()) for m in messages])
    writer, model = agent("one", "two", input_processors=[hide])
    earlier = [Message("user", "hi"), Message("assistant", "hello")]
    _, result = await read_all(writer, "go on", messages=earlier, is_task_complete=scorer)
    for request in model.requests:
        assert [m.text for m in request.messages][:3] == ["HI", "HELLO", "GO ON"]
    assert [m.text for m in result.messages[:3]] == ["HI", "HELLO", "GO ON"]
    assert [m.text for m in result.new_messages[:2]] == ["GO ON", "one"]
    assert seen == ["go on", "go on"]
    assert earlier[0].text == "hi", "what the caller gave is not touched"


@pytest.mark.parametrize(
    ("process", "history", "new"),
    [
        (lambda ms: [*ms, Message("user", "Be kind.")], "hi hello go Be kind. x", "go Be kind. x"),
        (lambda ms: [Message("system", "s"), *ms], "s hi hello go x", "go x"),
        (lambda ms: ms[-1:], "go x", "go x"),
        (lambda ms: [Message("user", "GO")], "GO x", "GO x"),
        (
            lambda ms: [*ms[:-1], Message("user", "GO"), Message("user", "Be kind.")],
            "hi hello GO Be kind. x",
            "GO Be kind. x",
        ),
    ],
)
async def test_what_is_new_begins_with_the_prompt_whatever_process_input_adds_or_drops(
    process: Callable[[Any], Any], history: str, new: str
) -> None:
    tasks: list[str] = []
    writer, _ = agent("x", input_processors=[processor(process_input=lambda messages, ctx: process(messages))])
    earlier = [Message("user", "hi"), Message("assistant", "hello")]
    _, result = await read_all(
        writer, messages=earlier, is_task_complete=lambda run: tasks.append(run.input.task) or True
    )
    assert (" ".join(m.text for m in result.messages), " ".join(m.text for m in result.new_messages)) == (history, new)
    assert tasks == ["go"]


@pytest.mark.parametrize(
    ("last", "complaint"),
    [
        (Message("user", " "), "an empty message of role 'user'"),
    ],
)
async def test_process_input_has_to_leave_something_to_answer(last: Message, complaint: str) -> None:
    writer, model = agent(input_processors=[processor(process_input=lambda messages, ctx: [*messages, last])])
    _, error = await read_failing(writer)
    assert isinstance(error, UserError)
    assert "agent 'a': the conversation that its input processors return ends with " + complaint in str(error)
    assert model.calls == 0


async def test_process_input_runs_once_in_order_before_the_first_step() -> None:
    log: Log = []

    def note(name: str) -> Callable[[Any, ProcessorContext], Any]:
        async def method(messages: Any, ctx: ProcessorContext) -> Any:
            await anyio.lowlevel.checkpoint()
            log.append((name, messages[0].text, ctx.step, ctx.attempt, ctx.owner_id, ctx.request_context))
            return (Message("user", f"{messages[0].text} {name}"),)

        return method

    both = [processor(id, process_input=note(id)) for id in ("first", "second")]
    writer, model = agent(CALL, "done", input_processors=both, tools=[look_up])
    context = {"k": 1}
    await read_all(writer, "go", request_context=context)
    assert log == [
        ("first", "go", 0, 0, "agent:a", context),
        ("second", "go first", 0, 0, "agent:a", context),
    ]
    assert model.requests[0].messages[0].text == "go first second"


async def test_none_leaves_things_as_they_are() -> None:
    nothing = processor(**dict.fromkeys((*INPUT_METHODS, *OUTPUT_METHODS[1:]), lambda value, ctx: None))
    writer, model = agent("text", input_processors=[nothing], output_processors=[nothing])
    events, result = await read_all(writer, "go")
    assert (model.requests[0].messages[0].text, result.text) == ("go", "text")
    assert types(events)[2:6] == ["text-start", "text-delta", "text-end", "model-finish"]


# --- process_input_step


async def test_process_input_step_changes_each_request_and_not_the_history() -> None:
    def brief(request: ModelRequest, ctx: ProcessorContext) -> ModelRequest:
        note = Message("user", f"(step {ctx.step}, attempt {ctx.attempt})")
        return dataclasses.replace(request, system="Be brief.", messages=(*request.messages, note))

    writer, model = agent(
        CALL, "done", instructions="Talk.", tools=[look_up], input_processors=[processor(process_input_step=brief)]
    )
    _, result = await read_all(writer, "go")
    assert [r.system for r in model.requests] == ["Be brief.", "Be brief."]
    assert [r.messages[-1].text for r in model.requests] == ["(step 1, attempt 1)", "(step 2, attempt 1)"]
    assert [m.role for m in result.messages] == ["user", "assistant", "tool", "assistant"]
    assert not any("(step" in m.text for m in result.messages)


async def test_a_retry_sends_the_processed_request_again() -> None:
    asked: list[int] = []

    def brief(request: ModelRequest, ctx: ProcessorContext) -> ModelRequest:
        asked.append(ctx.attempt)
        return dataclasses.replace(request, system=f"asked {len(asked)}")

    writer, model = agent(
        Turn(error=api_error(503)),
        "done",
        input_processors=[processor(process_input_step=brief)],
        error_processors=[StreamErrorRetryProcessor()],
    )
    await read_all(writer)
    assert ([r.system for r in model.requests], asked) == (["asked 1", "asked 1"], [1])


# --- process_output_stream


async def test_process_output_stream_changes_events_as_they_come_and_what_follows_from_them() -> None:
    def shout(event: ModelEvent, ctx: ProcessorContext) -> ModelEvent:
        return TextDelta(event.text.upper()) if isinstance(event, TextDelta) else event

    seen: list[str] = []

    def scorer(run: ScorerRun) -> bool:
        seen.append(run.output)
        return len(seen) == 2

    writer, model = agent(
        Turn(text_chunks=["a ", "draft"]), "final", output_processors=[processor(process_output_stream=shout)]
    )
    events, result = await read_all(writer, is_task_complete=scorer)
    assert [e.text for e in events if isinstance(e, TextDelta)] == ["A ", "DRAFT", "FINAL"]
    assert (result.text, seen) == ("FINAL", ["A DRAFT", "FINAL"])
    assert [m.text for m in result.messages if m.role == "assistant"] == ["A DRAFT", "FINAL"]
    assert model.requests[1].messages[1].text == "A DRAFT"
    assert [s.text for s in result.steps] == ["A DRAFT", "FINAL"]


async def test_events_are_not_held_back_by_a_stream_processor() -> None:
    seen_first, went_on = anyio.Event(), anyio.Event()

    async def keep(event: ModelEvent, ctx: ProcessorContext) -> ModelEvent:
        if isinstance(event, TextDelta) and event.text == "second":
            await seen_first.wait()
            went_on.set()
        return event

    writer, _ = agent(Turn(text_chunks=["first", "second"]), output_processors=[processor(process_output_stream=keep)])
    texts: list[str] = []
    with anyio.fail_after(5):
        async with writer.stream("go") as stream:
            async for text in stream.text_deltas():
                texts.append(text)
                seen_first.set()
    assert (texts, went_on.is_set()) == (["first", "second"], True)


async def test_process_output_stream_sees_every_event_of_a_reply_but_its_finish() -> None:
    seen: list[str] = []

    def note(event: ModelEvent, ctx: ProcessorContext) -> ModelEvent:
        seen.append(event.type)
        return event

    turn = Turn(reasoning="hm", text="x", tool_calls=[("c", "look_up", {"name": "Oslo"})])
    writer, _ = agent(turn, "done", tools=[look_up], output_processors=[processor(process_output_stream=note)])
    await read_all(writer)
    assert seen == [
        "reasoning-start",
        "reasoning-delta",
        "reasoning-end",
        "text-start",
        "text-delta",
        "text-end",
        "tool-call-input-streaming-start",
        "tool-call-delta",
        "tool-call-input-streaming-end",
        "tool-call",
        "text-start",
        "text-delta",
        "text-end",
    ]


async def test_dropped_events_are_seen_by_nobody() -> None:
    def no_reasoning(event: ModelEvent, ctx: ProcessorContext) -> ModelEvent | None:
        return None if event.type.startswith("reasoning") else event

    seen_later: list[str] = []

    def note(event: ModelEvent, ctx: ProcessorContext) -> ModelEvent:
        seen_later.append(event.type)
        return event

    writer, _ = agent(
        Turn(reasoning="secret", text="open"),
        output_processors=[processor(process_output_stream=no_reasoning), processor(process_output_stream=note)],
    )
    events, result = await read_all(writer)
    assert not any(isinstance(e, ReasoningDelta) for e in events)
    assert (result.steps[0].reasoning, result.messages[-1].parts) == ("", (TextPart("open"),))
    assert seen_later == ["text-start", "text-delta", "text-end"]


async def test_a_dropped_tool_call_does_not_run() -> None:
    def no_tools(event: ModelEvent, ctx: ProcessorContext) -> ModelEvent | None:
        return None if isinstance(event, ToolCall | ToolInputStart | ToolInputDelta | ToolInputEnd) else event

    writer, model = agent(CALL, tools=[look_up], output_processors=[processor(process_output_stream=no_tools)])
    events, result = await read_all(writer)
    assert (result.text, result.stop_reason, model.calls) == ("I look.", "answered", 1)
    assert "tool-result" not in types(events)


# --- process_output_step and process_output_result


async def test_whole_replies_are_held_back_and_shown_as_processed_everywhere() -> None:
    seen: list[Any] = []

    def scorer(run: ScorerRun) -> bool:
        seen.append(run.output)
        return "final" in run.output

    redact = processor(process_output_step=replaced("Ana", "[name]"))
    writer, model = agent(Turn(text_chunks=["A", "na wrote"]), "Ana: final", output_processors=[redact])
    events, result = await read_all(writer, is_task_complete=scorer)
    assert [e.text for e in events if isinstance(e, TextDelta)] == ["[name] wrote", "[name]: final"]
    assert seen == ["[name] wrote", "[name]: final"]
    assert (result.text, result.output) == ("[name]: final", "[name]: final")
    assert [a.text for a in result.attempts] == seen
    assert model.requests[1].messages[1].text == "[name] wrote"
    assert not any("Ana" in m.text for m in result.messages)
    assert types(events)[2:7] == ["text-start", "text-delta", "text-end", "model-finish", "task-completion-started"]


async def test_text_that_no_processor_changes_keeps_its_pieces() -> None:
    keep = processor(process_output_step=lambda text, ctx: text)
    writer, _ = agent(Turn(text_chunks=["a", "b", "c"]), output_processors=[keep])
    events, result = await read_all(writer)
    assert ([e.text for e in events if isinstance(e, TextDelta)], result.text) == (["a", "b", "c"], "abc")


async def test_steps_come_before_results_and_processors_in_order() -> None:
    log: list[str] = []

    def adds(name: str) -> Callable[[str, ProcessorContext], str]:
        def method(text: str, ctx: ProcessorContext) -> str:
            log.append(name)
            return f"{text} {name}"

        return method

    both = [
        processor(id, process_output_result=adds(f"{id}-result"), process_output_step=adds(f"{id}-step"))
        for id in ("first", "second")
    ]
    writer, _ = agent("text", output_processors=both)
    _, result = await read_all(writer)
    assert log == ["first-step", "second-step", "first-result", "second-result"]
    assert result.text == "text first-step second-step first-result second-result"


async def test_a_reply_that_calls_tools_is_a_step_and_no_result() -> None:
    both = processor(
        process_output_step=lambda t, ctx: f"{t} (step {ctx.step})", process_output_result=lambda t, ctx: f"{t}!"
    )
    writer, model = agent(CALL, "done", tools=[look_up], output_processors=[both])
    events, result = await read_all(writer)
    assert [s.text for s in result.steps] == ["I look. (step 1)", "done (step 2)!"]
    assert model.requests[1].messages[1].text == "I look. (step 1)"
    assert [type(p) for p in result.messages[1].parts] == [TextPart, ToolCallPart]
    assert "tool-result" in types(events)


@pytest.mark.parametrize("reason", ["length", "content_filter", "refusal"])
async def test_a_reply_that_was_cut_off_is_an_answer_too(reason: Any) -> None:
    redact = processor(process_output_result=replaced("Ana", "[name]"))
    writer, _ = agent(Turn(text="Ana wr", finish_reason=reason), output_processors=[redact])
    _, result = await read_all(writer)
    assert (result.stop_reason, result.text) == (reason, "[name] wr")


async def test_a_cut_off_reply_is_an_answer_though_it_calls_tools() -> None:
    redact = processor(process_output_result=replaced("Ana", "[name]"))
    turn = Turn(text="Ana", tool_calls=[("c", "look_up", {"name": "Oslo"})], finish_reason="length")
    writer, _ = agent(turn, tools=[look_up], output_processors=[redact])
    _, result = await read_all(writer)
    assert (result.stop_reason, result.text) == ("length", "[name]")


async def test_changed_text_stays_where_it_was() -> None:
    async def speak(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        for event in (TextStart(), TextDelta("a"), TextEnd(), ReasoningStart(), ReasoningDelta("hm"), ReasoningEnd()):
            yield event
        yield ModelFinished(finish_reason="stop")

    shout = processor(process_output_step=lambda text, ctx: text.upper())
    writer = Agent(id="a", model=FunctionModel(speak), output_processors=[shout])
    _, result = await read_all(writer)
    assert [type(p) for p in result.messages[1].parts] == [TextPart, ReasoningPart]
    assert result.text == "A"


async def test_text_put_where_a_reply_had_none_comes_before_its_tool_calls_and_after_its_thoughts() -> None:
    say = processor(process_output_step=lambda text, ctx: text or "Wait.")
    turn = Turn(reasoning="hm", tool_calls=[("c", "look_up", {"name": "Oslo"})])
    writer, _ = agent(turn, "done", tools=[look_up], output_processors=[say])
    events, result = await read_all(writer)
    assert [type(p) for p in result.messages[1].parts] == [ReasoningPart, TextPart, ToolCallPart]
    assert [s.text for s in result.steps] == ["Wait.", "done"]
    assert types(events).index("text-delta") < types(events).index("tool-call")


async def test_text_put_into_an_empty_answer_stands() -> None:
    say = processor(process_output_result=lambda text, ctx: text or "(nothing)")
    writer, _ = agent("", output_processors=[say])
    _, result = await read_all(writer)
    assert (result.text, result.messages[-1].text) == ("(nothing)", "(nothing)")


async def test_text_may_be_taken_out_altogether() -> None:
    mute = processor(process_output_step=lambda text, ctx: "")
    writer, _ = agent(Turn(reasoning="hm", text="words"), output_processors=[mute])
    events, result = await read_all(writer)
    assert (result.text, types(events)[2:6]) == (
        "",
        ["reasoning-start", "reasoning-delta", "reasoning-end", "model-finish"],
    )


async def test_several_text_parts_become_one_in_the_place_of_the_first() -> None:
    async def speak(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        for event in (TextStart(), TextDelta("a"), TextEnd()):
            yield event
        for event in (ToolInputStart("c", "look_up"), ToolInputEnd("c"), ToolCall("c", "look_up", {"name": "x"})):
            yield event
        for event in (TextStart(), TextDelta("b"), TextEnd()):
            yield event
        yield ModelFinished(finish_reason="tool_calls")

    writer = Agent(
        id="a",
        model=FunctionModel(lambda r: speak(r) if len(r.messages) == 1 else "done"),
        tools=[look_up],
        output_processors=[processor(process_output_step=lambda text, ctx: text.upper())],
    )
    events, result = await read_all(writer)
    assert [type(p) for p in result.messages[1].parts] == [TextPart, ToolCallPart]
    assert (result.steps[0].text, result.steps[1].text) == ("AB", "DONE")
    assert types(events).count("text-start") == 2


async def test_stream_and_whole_reply_processors_work_together() -> None:
    def shout(event: ModelEvent, ctx: ProcessorContext) -> ModelEvent:
        return TextDelta(event.text.upper()) if isinstance(event, TextDelta) else event

    writer, _ = agent(
        "Ana wrote",
        output_processors=[processor(process_output_step=replaced("ANA", "X")), processor(process_output_stream=shout)],
    )
    events, result = await read_all(writer)
    assert (result.text, [e.text for e in events if isinstance(e, TextDelta)]) == ("X WROTE", ["X WROTE"])


async def test_text_deltas_give_processed_text() -> None:
    redact = processor(process_output_result=replaced("Ana", "[name]"))
    writer, _ = agent(Turn(text_chunks=["A", "na"]), output_processors=[redact])
    async with writer.stream("go") as stream:
        assert [text async for text in stream.text_deltas()] == ["[name]"]


# --- retries, re-asks, output types, drafts


async def test_an_attempt_that_failed_is_not_shown_where_replies_are_held_back() -> None:
    seen: list[tuple[int, int, str]] = []

    def note(text: str, ctx: ProcessorContext) -> str:
        seen.append((ctx.step, ctx.attempt, text))
        return text.upper()

    writer, _ = agent(
        BROKEN,
        "whole",
        output_processors=[processor(process_output_step=note)],
        error_processors=[StreamErrorRetryProcessor()],
    )
    events, result = await read_all(writer)
    assert (result.text, seen, result.steps[0].attempts) == ("WHOLE", [(1, 2, "whole")], 2)
    assert types(events)[1:4] == ["step-start", "retry-scheduled", "text-start"]


async def test_held_back_text_is_not_partial_text_of_an_error() -> None:
    keep = processor(process_output_step=lambda text, ctx: text)
    writer, _ = agent(BROKEN, output_processors=[keep])
    _, error = await read_failing(writer)
    assert isinstance(error, ServerError)
    assert error.partial_text is None


async def test_a_stream_processor_can_tell_attempts_apart() -> None:
    class Limit:
        """Lets 6 characters of a reply through."""

        id = "limit"

        def process_output_stream(self, event: ModelEvent, ctx: ProcessorContext) -> ModelEvent | None:
            if not isinstance(event, TextDelta):
                return event
            if ctx.state.get("at") != (ctx.step, ctx.attempt):
                ctx.state.update(at=(ctx.step, ctx.attempt), left=6)
            piece = event.text[: ctx.state["left"]]
            ctx.state["left"] -= len(piece)
            return TextDelta(piece) if piece else None

    writer, _ = agent(BROKEN, "complete", output_processors=[Limit()], error_processors=[StreamErrorRetryProcessor()])
    events, result = await read_all(writer)
    assert result.text == "comple"
    assert [e.text for e in events if isinstance(e, TextDelta)] == ["half a", "comple"]
    (taken,) = [e for e in events if isinstance(e, OutputSuperseded)]
    assert taken.cause == "provider-error"
    writer, _ = agent(BROKEN, output_processors=[Limit()])
    _, error = await read_failing(writer)
    assert isinstance(error, ServerError)
    assert error.partial_text == "half a"


class City(BaseModel):
    name: str


async def test_the_processed_text_is_what_is_read_into_the_output_type() -> None:
    mend = processor(process_output_step=replaced("'", '"'))
    writer, model = agent("{'name': 'Oslo'}", output_processors=[mend])
    _, result = await read_all(writer, output=City)
    assert (result.output, result.text, model.calls) == (City(name="Oslo"), '{"name": "Oslo"}', 1)


async def test_a_re_ask_shows_the_processed_reply_and_is_processed_too() -> None:
    attempts: list[int] = []

    def redact(text: str, ctx: ProcessorContext) -> str:
        attempts.append(ctx.attempt)
        return text.replace("Ana", "X")

    writer, model = agent("Ana: no json", '{"name": "Ana"}', output_processors=[processor(process_output_step=redact)])
    events, result = await read_all(writer, output=City)
    assert (result.output, attempts) == (City(name="X"), [1, 2])
    assert model.requests[1].messages[1].text == "X: no json"
    assert [e.text for e in events if isinstance(e, TextDelta)] == ["X: no json", '{"name": "X"}']


async def test_an_output_that_does_not_fit_is_reported_as_processed() -> None:
    redact = processor(process_output_step=replaced("Ana", "X"))
    writer, _ = agent("Ana", "Ana again", output_processors=[redact])
    _, error = await read_failing(writer, output=City)
    assert isinstance(error, OutputValidationError)
    assert (error.text, error.partial_text) == ("X again", "X again")


async def test_a_rejected_draft_is_taken_back_like_any() -> None:
    redact = processor(process_output_result=replaced("Ana", "X"))
    writer, _ = agent("Ana 1", "Ana 2", output_processors=[redact])
    events, result = await read_all(writer, is_task_complete=lambda run: run.output == "X 2")
    (taken,) = [e for e in events if isinstance(e, OutputSuperseded)]
    assert (taken.cause, result.text, result.stop_reason) == ("rejected", "X 2", "complete")


# --- notes


async def test_notes_belong_to_a_processor_and_a_run() -> None:
    class Counts:
        def __init__(self, id: str) -> None:
            self.id = id
            self.counts: list[int] = []

        def count(self, ctx: ProcessorContext) -> None:
            ctx.state["n"] = ctx.state.get("n", 0) + 1
            self.counts.append(ctx.state["n"])

        def process_input_step(self, request: ModelRequest, ctx: ProcessorContext) -> None:
            self.count(ctx)

        def process_output_step(self, text: str, ctx: ProcessorContext) -> None:
            self.count(ctx)

    one, other = Counts("one"), Counts("other")
    writer, _ = agent(CALL, "done", "again", tools=[look_up], input_processors=[one], output_processors=[one, other])
    await read_all(writer)
    assert (one.counts, other.counts) == ([1, 2, 3, 4], [1, 2])
    await read_all(writer)
    assert (one.counts[4:], other.counts[2:]) == ([1, 2], [1])


async def test_runs_at_the_same_time_keep_their_notes_apart() -> None:
    seen: dict[str, list[str]] = {}
    both = anyio.Event()

    async def note(text: str, ctx: ProcessorContext) -> None:
        ctx.state["run"] = ctx.run_id
        if len(seen) == 1:
            both.set()
        seen.setdefault(ctx.run_id, [])
        await both.wait()
        seen[ctx.run_id].append(ctx.state["run"])

    shared = processor(process_output_step=note)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for run_id in ("r1", "r2"):
                writer, _ = agent("x", output_processors=[shared])
                tasks.start_soon(lambda w=writer, r=run_id: read_all(w, run_id=r))
    assert seen == {"r1": ["r1"], "r2": ["r2"]}


# --- trip wires and faults


@pytest.mark.parametrize("method", [*INPUT_METHODS, *OUTPUT_METHODS])
async def test_a_trip_wire_ends_the_run_and_names_its_processor(method: str) -> None:
    guard = processor("guard", **{method: raises(TripWire("not that"))})
    kind = "input_processors" if method in INPUT_METHODS else "output_processors"
    writer, model = agent("text", **{kind: [processor("other", **{method: lambda value, ctx: value}), guard]})
    events, result = await read_all(writer, is_task_complete=raises(AssertionError("nothing is scored")))
    assert (result.stop_reason, result.text, result.completion) == ("tripwire", "", None)
    assert result.tripwire
    assert (result.tripwire.reason, result.tripwire.processor_id) == ("not that", "guard")
    assert model.calls == (method in OUTPUT_METHODS)
    assert result.usage.requests == model.calls
    assert types(events)[-2:] == ["tripwire", "finish"]
    assert [m.role for m in result.messages] == ["user"]


async def test_a_trip_wire_keeps_the_id_that_it_was_given() -> None:
    guard = processor("guard", process_input=raises(TripWire("no", processor_id="rule 7")))
    writer, _ = agent(input_processors=[guard])
    _, result = await read_all(writer)
    assert result.tripwire
    assert result.tripwire.processor_id == "rule 7"


async def test_text_that_trips_a_wire_while_held_back_is_shown_nowhere() -> None:
    guard = processor(process_output_step=raises(TripWire("no")))
    writer, _ = agent("something vile", output_processors=[guard])
    events, result = await read_all(writer)
    assert "vile" not in repr(events)
    assert "vile" not in repr(result)
    assert result.usage.output_tokens == 1, "it was spent all the same"


async def test_a_trip_wire_in_the_second_step_keeps_the_first() -> None:
    def trip(text: str, ctx: ProcessorContext) -> str:
        if ctx.step == 2:
            raise TripWire("enough")
        return text

    writer, _ = agent(CALL, "done", tools=[look_up], output_processors=[processor(process_output_step=trip)])
    _, result = await read_all(writer)
    assert (result.stop_reason, result.text) == ("tripwire", "I look.")
    assert [m.role for m in result.messages] == ["user", "assistant", "tool"]


@pytest.mark.parametrize("kind_of", [ValueError, ServerError])
@pytest.mark.parametrize("method", [*INPUT_METHODS, *OUTPUT_METHODS])
async def test_a_processor_that_raises_is_logged_and_passed_over(
    method: str, kind_of: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    """D10"""
    faulty = processor("faulty", **{method: raises(kind_of("broke"))})
    kind = "input_processors" if method in INPUT_METHODS else "output_processors"
    writer, _ = agent("text", **{kind: [faulty]})
    with caplog.at_level(logging.ERROR, "mastra_py"):
        _, result = await read_all(writer)
    assert (result.text, result.stop_reason) == ("text", "answered")
    assert f"processor 'faulty' raised in {method}; it is passed over" in caplog.text
    assert f"{kind_of.__name__}: broke" in caplog.text


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("process_input", "go on"),
        ("process_input", []),
        ("process_input", [{"role": "user", "content": "x"}]),
        ("process_input", 3),
        ("process_input_step", {"messages": []}),
        ("process_output_stream", "text"),
        ("process_output_stream", ModelFinished(finish_reason="stop")),
        ("process_output_step", b"text"),
        ("process_output_result", ["text"]),
    ],
)
async def test_an_answer_of_a_wrong_type_is_a_fault_too(
    method: str, answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    kind = "input_processors" if method in INPUT_METHODS else "output_processors"
    writer, model = agent("text", **{kind: [processor("faulty", **{method: lambda value, ctx: answer})]})
    with caplog.at_level(logging.ERROR, "mastra_py"):
        _, result = await read_all(writer, "go")
    assert (result.text, model.requests[0].messages[0].text) == ("text", "go")
    assert f"processor 'faulty' raised in {method}" in caplog.text


async def test_an_error_of_the_package_raised_by_a_processor_fails_the_run() -> None:
    writer, _ = agent("text", output_processors=[processor(process_output_step=raises(UserError("no key")))])
    _, error = await read_failing(writer)
    assert isinstance(error, UserError)


async def test_leaving_the_stream_ends_a_processor_at_work() -> None:
    started, ended = anyio.Event(), anyio.Event()

    async def wait(text: str, ctx: ProcessorContext) -> str:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        raise AssertionError

    writer, _ = agent("text", output_processors=[processor(process_output_step=wait)])
    with anyio.fail_after(5):
        async with writer.stream("go") as stream, anyio.create_task_group() as tasks:

            async def cancel() -> None:
                await started.wait()
                stream.cancel()

            tasks.start_soon(cancel)
            result = await stream.result()
            assert (result.stop_reason, result.partial_text) == ("cancelled", None)
    assert ended.is_set()


@pytest.mark.asyncio
@pytest.mark.parametrize("method", [*INPUT_METHODS, *OUTPUT_METHODS])
async def test_an_error_in_the_place_of_a_cancel_is_no_fault_of_a_processor(method: str) -> None:
    stubborn = Stubborn()
    kind = "input_processors" if method in INPUT_METHODS else "output_processors"
    writer, _ = agent("text", **{kind: [processor("p", **{method: stubborn.wait})]})
    await is_not_swallowed(writer.generate("go"), stubborn)


# --- whose processors


async def test_a_calls_processors_replace_the_agents() -> None:
    def mark(name: str) -> Any:
        return processor(
            name,
            process_input=lambda messages, ctx: [Message("user", f"{messages[-1].text} {name}")],
            process_output_step=lambda text, ctx: f"{text} {name}",
        )

    own, other = mark("own"), mark("other")
    writer, model = agent("x", "x", "x", input_processors=[own], output_processors=[own])
    texts = [
        (await writer.generate("go", **options)).text  # type: ignore[arg-type]
        for options in (
            {},
            {"input_processors": [other], "output_processors": [other]},
            {"input_processors": [], "output_processors": []},
        )
    ]
    assert texts == ["x own", "x other", "x"]
    assert [r.messages[0].text for r in model.requests] == ["go own", "go other", "go"]


async def test_defaults_name_processors_too() -> None:
    shout = processor(process_output_step=lambda text, ctx: text.upper())
    writer, _ = agent("x", defaults={"output_processors": [shout]})
    assert (await writer.generate("go")).text == "X"


@pytest.mark.parametrize(
    ("option", "given", "needed"),
    [
        ("input_processors", processor(process_output_step=replaced("a", "b")), "process_input, process_input_step"),
        (
            "output_processors",
            processor(process_input=replaced("a", "b")),
            "process_output_stream, process_output_step",
        ),
        ("input_processors", "redact", "process_input, process_input_step"),
        ("output_processors", type("NoId", (), {"process_output_step": len})(), "it needs an id"),
        ("output_processors", type("Class", (), {"id": "c", "process_output_step": len}), "holds the class Class"),
    ],
)
def test_what_is_no_processor_is_refused(option: str, given: Any, needed: str) -> None:
    with pytest.raises(UserError, match=needed):
        agent(**{option: [given]})
    writer, _ = agent()
    with pytest.raises(UserError, match=needed):
        writer.stream("go", **{option: [given]})  # type: ignore[arg-type]


async def test_one_processor_may_stand_without_a_list() -> None:
    shout = processor(process_output_step=lambda text, ctx: text.upper())
    writer, _ = agent("x", output_processors=shout)
    assert (await writer.generate("go")).text == "X"


async def test_application_data_reaches_processors_and_no_model() -> None:
    seen: list[Any] = []

    def note(messages: tuple[Message, ...], ctx: ProcessorContext) -> None:
        seen.extend(p for m in messages for p in m.parts if isinstance(p, DataPart))

    writer, _ = agent("x", input_processors=[processor(process_input=note)])
    await read_all(writer, Message("user", [TextPart("go"), DataPart("cart", [1])]))  # type: ignore[arg-type]
    assert seen == [DataPart("cart", [1])]


async def test_an_event_that_a_processor_returns_time_and_again_has_the_step_it_stands_in() -> None:
    hidden = TextDelta("[hidden]")
    hide = processor(process_output_stream=lambda event, ctx: hidden if isinstance(event, TextDelta) else event)
    writer, _ = agent(CALL, "done", output_processors=[hide], tools=[look_up])
    events, _ = await read_all(writer)
    assert [(e.text, e.step) for e in events if isinstance(e, TextDelta)] == [("[hidden]", 1), ("[hidden]", 2)]
    assert hidden == TextDelta("[hidden]"), "the processor's own event is not touched"

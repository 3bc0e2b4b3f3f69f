"""The rules of a delegation: hooks before and after it, how many steps it may take, and how deep it may go."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest
from support.streams import read_all
from support.supervising import asking, is_valid, model_of, scripted, supervisor, told

from mastra_py import (
    Agent,
    Delegation,
    DelegationContext,
    DelegationError,
    DelegationOutcome,
    ModelError,
    Proceed,
    Reject,
    Replace,
    Stop,
    TripWire,
    UserError,
)
from mastra_py.messages import Message
from mastra_py.testing import FunctionModel, ScriptedModel, Turn

SECRET = "secret of the hook"


async def again() -> str:
    return "again"


def endless(id: str = "writer", **options: Any) -> Agent:
    """Return an agent that never answers: every turn calls a tool."""
    model = ScriptedModel([Turn(tool_calls=[("t", "again", {})])], repeat_last=True, id=id)
    return Agent(id=id, model=model, tools=[again], **options)


# --- before


async def test_on_start_is_told_what_is_about_to_begin() -> None:
    seen: list[DelegationContext] = []
    boss = supervisor(asking(("writer", "write"), max_steps=2), scripted("writer", "a text"))
    await boss.generate("go", run_id="run-1", request_context={"a": 1}, delegation=Delegation(on_start=seen.append))
    [ctx] = seen
    assert (ctx.key, ctx.agent_id, ctx.prompt, ctx.max_steps, ctx.depth) == ("writer", "writer", "write", 2, 1)
    assert (ctx.supervisor_id, ctx.run_id, ctx.step, ctx.tool_call_id) == ("boss", "run-1", 1, "c1")
    assert (ctx.messages, ctx.request_context) == ((Message("user", "go"),), {"a": 1})


async def test_on_start_may_change_the_task_and_the_steps() -> None:
    async def change(ctx: DelegationContext) -> Proceed:
        return Proceed(prompt=f"{ctx.prompt}, please", max_steps=7)

    told_of: list[DelegationOutcome] = []
    child = endless()
    rules = Delegation(on_start=change, on_complete=told_of.append, max_steps=3)
    await supervisor(asking(("writer", "write")), child).generate("go", delegation=rules)
    assert model_of(child).requests[0].messages[0].text == "write, please"
    assert model_of(child).calls == 7
    assert (told_of[0].context.prompt, told_of[0].context.max_steps) == ("write, please", 7)


async def test_on_start_may_reject_one_of_several_with_a_reason() -> None:
    def refuse(ctx: DelegationContext) -> Reject | None:
        return Reject("too dear") if ctx.key == "painter" else None

    painter = scripted("painter")
    boss = supervisor(asking(("painter", "paint"), ("writer", "write")), painter, scripted("writer", "a text"))
    events, result = await read_all(boss, delegation=Delegation(on_start=refuse))
    assert told(result) == [(True, "agent 'painter' was not asked: too dear"), (False, "a text")]
    assert model_of(painter).calls == 0
    assert [e.exception.kind for e in events if e.type == "tool-error"] == ["rejected"]  # type: ignore[union-attr]


async def test_an_on_start_that_raises_prevents_the_delegation(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: object) -> None:
        raise ValueError(SECRET)

    writer = scripted("writer")
    with caplog.at_level(logging.ERROR, "mastra_py"):
        result = await supervisor(asking(("writer", "write")), writer).generate(
            "go", delegation=Delegation(on_start=fail)
        )
    assert told(result) == [(True, "agent 'writer' was not asked: the check before it failed")]
    assert (model_of(writer).calls, result.text) == (0, "done")
    assert "'writer'" in caplog.text
    assert SECRET in caplog.text


async def test_a_message_filter_that_raises_midway_prevents_the_delegation_like_any_other() -> None:
    def some(ctx: DelegationContext) -> Any:
        yield from ctx.messages
        raise ValueError(SECRET)

    outcomes: list[DelegationOutcome] = []
    writer = scripted("writer")
    rules = Delegation(message_filter=some, on_complete=outcomes.append)
    result = await supervisor(asking(("writer", "write")), writer).generate("go", delegation=rules)
    assert told(result) == [(True, "agent 'writer' was not asked: the filter of what it may see failed")]
    assert [outcome.error.kind for outcome in outcomes if outcome.error] == ["rejected"]
    assert model_of(writer).calls == 0


@pytest.mark.parametrize("hook", ["on_start", "on_complete", "message_filter"])
@pytest.mark.parametrize("error", [UserError("misused"), ModelError("no"), TripWire("stop")])
async def test_a_mastra_error_out_of_a_hook_ends_the_run(hook: str, error: Exception) -> None:
    def fail(_: object) -> Any:
        raise error

    boss = supervisor(asking(("writer", "write"), ("other", "o")), scripted("writer", "w"), scripted("other", "o"))
    given: dict[str, Any] = {hook: fail}
    rules = Delegation(**given)
    if isinstance(error, TripWire):
        result = await boss.generate("go", delegation=rules)
        assert (result.stop_reason, result.tripwire) == ("tripwire", error)
        is_valid(result.messages)
        return
    with pytest.raises(type(error)) as caught:
        await boss.generate("go", delegation=rules)
    assert caught.value is error
    if isinstance(error, ModelError):
        assert len(error.messages) == 3
        is_valid(error.messages)


@pytest.mark.parametrize("hook", ["on_start", "on_complete"])
async def test_a_hook_that_answers_something_else_ends_the_run_loudly(hook: str) -> None:
    given: dict[str, Any] = {hook: lambda _: "yes"}
    rules = Delegation(**given)
    with pytest.raises(UserError, match=f"{hook} of .*'writer'.*'yes'"):
        await supervisor(asking(("writer", "write")), scripted("writer", "a")).generate("go", delegation=rules)


# --- after


async def test_on_complete_may_replace_a_result_and_a_failure() -> None:
    async def replace(outcome: DelegationOutcome) -> Replace:
        said = outcome.error.kind if outcome.error is not None else outcome.result.text  # type: ignore[union-attr]
        return Replace({"was": said})

    boss = supervisor(asking(("writer", "write"), ("stuck", "s")), scripted("writer", "a text"), endless("stuck"))
    result = await boss.generate("go", delegation=Delegation(on_complete=replace, max_steps=1))
    assert told(result) == [(False, {"was": "a text"}), (False, {"was": "unfinished"})]


async def test_on_complete_may_stop_the_supervisor_after_the_step_and_siblings_end_first() -> None:
    slow_may_go = anyio.Event()

    def stop(outcome: DelegationOutcome) -> Stop | None:
        if outcome.context.key != "quick":
            return None
        slow_may_go.set()
        return Stop()

    async def wait(_: object) -> str:
        await slow_may_go.wait()
        return "slow"

    slow = Agent(id="slow", model=FunctionModel(wait))
    boss = supervisor(asking(("quick", "q"), ("slow", "s")), scripted("quick", "quick"), slow, then=())
    with anyio.fail_after(5):
        result = await boss.generate("go", delegation=Delegation(on_complete=stop))
    assert (result.stop_reason, len(result.steps)) == ("stop_when", 1)
    assert told(result) == [(False, "quick"), (False, "slow")]


@pytest.mark.parametrize("said", ["", "12"])
async def test_a_sub_agent_that_is_stopped_among_its_tools_has_a_text_but_nothing_of_a_type(said: str) -> None:
    async def told_with(output: Any) -> Any:
        turn = Turn(text=said, tool_calls=[("t", "again", {})])
        writer = scripted("writer", turn, tools=[again], defaults={"stop_when": lambda _: True})
        boss = supervisor(asking(("writer", "write")), writer)
        return told(await boss.generate("go", delegation=Delegation(output={"writer": output})))

    assert await told_with(str) == [(False, said)]
    [(is_error, text)] = await told_with(int)
    assert is_error
    assert text.startswith("agent 'writer' did not finish: stop_when")


async def test_a_stop_further_down_ends_the_agent_that_delegated_and_its_supervisor_is_told() -> None:
    def stop(outcome: DelegationOutcome) -> Stop | None:
        return Stop() if outcome.context.key == "helper" else None

    writer = scripted("writer", asking(("helper", "help")), agents={"helper": scripted("helper", "helped")})
    result = await supervisor(asking(("writer", "write")), writer).generate(
        "go", delegation=Delegation(on_complete=stop)
    )
    assert told(result) == [(False, "")]
    assert result.stop_reason == "answered"


async def test_an_on_complete_that_raises_is_logged_and_the_result_stands(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: object) -> None:
        raise ValueError(SECRET)

    with caplog.at_level(logging.ERROR, "mastra_py"):
        result = await supervisor(asking(("writer", "w")), scripted("writer", "a text")).generate(
            "go", delegation=Delegation(on_complete=fail)
        )
    assert told(result) == [(False, "a text")]
    assert SECRET in caplog.text


async def test_on_complete_is_told_of_what_was_rejected_and_of_what_failed() -> None:
    told_of: list[DelegationOutcome] = []
    rules = Delegation(
        on_start=lambda ctx: Reject("no") if ctx.prompt == "no" else None, on_complete=told_of.append, max_steps=1
    )
    await supervisor(asking(("writer", "no"), ("writer", "go on")), endless()).generate("go", delegation=rules)
    errors = [outcome.error for outcome in told_of]
    assert all(isinstance(error, DelegationError) for error in errors)
    assert {(e.kind, e.detail, e.agent_id) for e in errors if e} == {
        ("rejected", None, "writer"),
        ("unfinished", "max_steps", "writer"),
    }
    assert [o.result.stop_reason for o in told_of if o.result] == ["max_steps"]


# --- steps


@pytest.mark.parametrize(
    ("own", "rule", "asked", "steps"),
    [
        (None, None, None, 5),
        (None, None, 2, 2),
        (None, None, 99, 5),
        (3, None, None, 3),
        (3, None, 4, 3),
        (3, 2, None, 2),
        (3, 4, None, 4),
        (3, 4, 9, 4),
        (3, 4, 1, 1),
        (3, 4, 2.0, 2),
    ],
)
async def test_a_model_may_ask_for_fewer_steps_than_the_limit_and_never_for_more(
    own: int | None, rule: int | None, asked: Any, steps: int
) -> None:
    child = endless(defaults={"max_steps": own} if own else {})
    more = {"max_steps": asked} if asked else {}
    result = await supervisor(asking(("writer", "w"), **more), child).generate(
        "go", delegation=Delegation(max_steps=rule)
    )
    assert model_of(child).calls == steps
    [(is_error, text)] = told(result)
    assert is_error
    assert "max_steps" in text


# --- depth


def tower(height: int, **options: dict[str, Any]) -> list[Agent]:
    """Return agents of which each delegates to the next one, the supervisor first; options by their index."""
    agents: list[Agent] = []
    for index in reversed(range(height + 1)):
        below = {"next": agents[0]} if agents else {}
        turns = [asking(("next", f"from {index}")), f"done {index}"] if agents else ["bottom"]
        agents.insert(0, scripted(f"a{index}", *turns, agents=below, **options.get(f"a{index}", {})))
    return agents


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
async def test_agents_delegate_as_deep_as_allowed_and_no_deeper(limit: int) -> None:
    agents = tower(limit + 1)
    result = await agents[0].generate("go", delegation=Delegation(max_depth=limit))
    assert result.text == "done 0"
    assert [model_of(agent).calls for agent in agents] == [*[2] * (limit + 1), 0]
    last = model_of(agents[limit]).requests[-1].messages[-1].parts[0]
    assert last.is_error  # type: ignore[union-attr]
    assert last.result.startswith(f"agent 'a{limit + 1}' was not asked")  # type: ignore[union-attr]


async def test_agents_delegate_five_deep_unless_told_otherwise() -> None:
    agents = tower(6)
    await agents[0].generate("go")
    assert [model_of(agent).calls for agent in agents] == [2, 2, 2, 2, 2, 2, 0]


@pytest.mark.parametrize(("own", "outer", "reached"), [(1, 5, 2), (2, 5, 3), (3, 2, 2), (1, 1, 1)])
async def test_a_sub_agents_own_depth_counts_from_it_and_never_beyond_its_supervisors(
    own: int, outer: int, reached: int
) -> None:
    agents = tower(4, a1={"defaults": {"delegation": Delegation(max_depth=own)}})
    await agents[0].generate("go", delegation=Delegation(max_depth=outer))
    assert [model_of(agent).calls > 0 for agent in agents] == [index <= reached for index in range(5)]


async def test_hooks_hold_for_deeper_agents_that_have_none_of_their_own() -> None:
    seen: list[tuple[str, str, int]] = []
    own: list[str] = []

    def note(ctx: DelegationContext) -> None:
        seen.append((ctx.supervisor_id, ctx.agent_id, ctx.depth))

    agents = tower(3, a2={"defaults": {"delegation": Delegation(on_start=lambda ctx: own.append(ctx.agent_id))}})
    await agents[0].generate("go", delegation=Delegation(on_start=note))
    assert (seen, own) == ([("a0", "a1", 1), ("a1", "a2", 2)], ["a3"])


# --- what is refused at once


@pytest.mark.parametrize(
    "options",
    [
        {"max_depth": 0},
        {"max_depth": None},
        {"max_depth": True},
        {"max_steps": 0},
        {"max_steps": 1.5},
        {"on_start": "f"},
        {"on_complete": 1},
        {"message_filter": []},
        {"output": ["writer"]},
        {"output": {"writer": 5}},
    ],
)
def test_rules_that_make_no_sense_are_refused(options: Any) -> None:
    with pytest.raises(UserError, match=next(iter(options))):
        Delegation(**options)


@pytest.mark.parametrize("options", [{"prompt": " "}, {"prompt": 1}, {"max_steps": 0}, {"max_steps": True}])
def test_changes_that_make_no_sense_are_refused(options: Any) -> None:
    with pytest.raises(UserError, match=next(iter(options))):
        Proceed(**options)


@pytest.mark.parametrize("reason", ["", " ", None, 5])
def test_a_rejection_needs_a_reason(reason: Any) -> None:
    with pytest.raises(UserError, match="reason"):
        Reject(reason)


def test_what_is_no_delegation_is_refused_by_the_call() -> None:
    with pytest.raises(UserError, match="delegation"):
        scripted("boss").stream("go", delegation={"max_depth": 1})  # type: ignore[arg-type]


async def test_a_check_before_delegations_holds_below_an_agent_with_rules_of_its_own_too() -> None:
    low = scripted("low", "never")
    rules = {"delegation": Delegation(max_steps=2)}
    middle = scripted("middle", asking(("low", "p")), "I may not", agents={"low": low}, defaults=rules)
    asked: list[str] = []

    def check(ctx: DelegationContext) -> Reject | None:
        asked.append(ctx.agent_id)
        return Reject("no") if ctx.agent_id == "low" else None

    boss = supervisor(asking(("middle", "p")), middle)
    result = await boss.generate("go", delegation=Delegation(on_start=check))
    assert asked == ["middle", "low"]
    assert told(result) == [(False, "I may not")]


async def test_a_filter_may_return_messages_as_dicts() -> None:
    child = scripted("child", "x")
    boss = supervisor(asking(("child", "p")), child)
    rules = Delegation(message_filter=lambda _: [{"role": "user", "content": "Before"}])
    await boss.generate("go", delegation=rules)
    assert [m.text for m in model_of(child).requests[0].messages] == ["Before", "p"]

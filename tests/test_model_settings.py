"""Settings of a model call: what is checked, how they come together, and where each wire puts them."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest
from support.chat_reply import chat_reply
from support.http_server import HTTPServer, Reply

from mastra_py import Agent, ModelSettings, UserError
from mastra_py.messages import Message, TextPart, ToolCallPart, ToolResultPart
from mastra_py.models import AnthropicModel, ModelProfile, ModelRequest, OpenAIChatModel
from mastra_py.models._anthropic_wire import encode as encode_anthropic
from mastra_py.models._openai_chat_wire import encode as encode_chat
from mastra_py.models.settings import read_settings
from mastra_py.tools import Tool

HI = Message("user", "Hi")
TOOL = Tool(name="look", description="Look.", parameters={"type": "object", "properties": {}}, run=lambda: "seen")


# --- what is checked


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *[(name, -0.1) for name in ("temperature", "top_p", "timeout", "first_timeout", "total_timeout")],
        *[(name, value) for name in ("temperature", "timeout") for value in (float("nan"), float("inf"), "1", True)],
        ("top_p", 1.1),
        ("top_k", 0),
        ("top_k", 1.5),
        ("max_output_tokens", 0),
        ("thinking_budget", -1),
        ("seed", 1.0),
        ("presence_penalty", 2.1),
        ("frequency_penalty", -2.1),
        ("parallel_tool_calls", "no"),
        ("store", 0),
        ("reasoning_effort", " "),
        ("reasoning_effort", 3),
        ("service_tier", ""),
        ("cache_prompt", "2h"),
        ("stop", 3),
        ("stop", [""]),
        ("stop", [3]),
        ("extra_body", [1]),
        *[("extra_headers", {name: "a"}) for name in ("", "x y", "x:", "\u00e9")],
    ],
)
def test_a_setting_out_of_its_range_is_refused_by_name(name: str, wrong: object) -> None:
    with pytest.raises(UserError, match=f"model setting {name} must be"):
        read_settings({name: wrong})


def test_headers_as_http_has_them_are_taken() -> None:
    headers = {"X-Empty": "", "x_y.z": "a b; d='e'", "1": "-"}
    assert ModelSettings(extra_headers=headers).extra_headers == headers


@pytest.mark.parametrize("value", ["s3cret\nb: c", "s3cret\u00e9", "s3cret ", "s3cret\0", 3])
def test_headers_that_cannot_be_sent_are_refused_and_not_shown(value: Any) -> None:
    with pytest.raises(UserError, match="the value of 'x' must be a printable ASCII text") as caught:
        ModelSettings(extra_headers={"x": value})
    assert "s3cret" not in str(caught.value)


def test_credentials_in_headers_are_not_shown() -> None:
    settings = ModelSettings(extra_headers={"authorization": "Bearer s3cret"})
    assert "s3cret" not in repr(settings)
    with pytest.raises(UserError) as caught:
        ModelSettings(extra_headers={"authorization": 3})  # type: ignore[dict-item]
    assert "3" not in str(caught.value).replace("headers", "")


# --- where each wire puts them


def chat(settings: ModelSettings, profile: ModelProfile | None = None, **request: Any) -> dict[str, Any]:
    asked = ModelRequest(**{"messages": [HI], "settings": settings, **request})
    return encode_chat(asked, model="m1", profile=profile or ModelProfile(), server="http://localhost")


def anthropic(settings: ModelSettings, profile: ModelProfile | None = None, **request: Any) -> dict[str, Any]:
    asked = ModelRequest(**{"messages": [HI], "settings": settings, **request})
    return encode_anthropic(asked, model="m1", profile=profile or ModelProfile(), server="http://localhost")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 0.5),
        ("top_p", 0.9),
        ("top_k", 5),
        ("seed", 7),
        ("presence_penalty", -1.0),
        ("frequency_penalty", 1.5),
        ("reasoning_effort", "low"),
        ("service_tier", "flex"),
        ("store", False),
    ],
)
def test_chat_completions_calls_these_by_the_same_name(name: str, value: object) -> None:
    assert chat(read_settings({name: value}))[name] == value
    assert name not in chat(ModelSettings())


def test_chat_completions_says_only_with_tools_whether_they_may_be_called_together() -> None:
    settings = ModelSettings(parallel_tool_calls=False)
    assert chat(settings, tools=[TOOL])["parallel_tool_calls"] is False
    assert "parallel_tool_calls" not in chat(settings)


def test_usage_is_not_asked_for_where_a_server_does_not_know_how() -> None:
    assert "stream_options" not in chat(ModelSettings(), ModelProfile(stream_usage=False))


def test_anthropic_has_its_own_names_for_these() -> None:
    settings = ModelSettings(
        temperature=0.5, top_p=0.9, top_k=5, stop="END", max_output_tokens=9, service_tier="standard_only"
    )
    body = anthropic(settings)
    wanted = {"temperature": 0.5, "top_p": 0.9, "top_k": 5, "stop_sequences": ["END"], "max_tokens": 9}
    assert {name: body[name] for name in wanted} == wanted
    assert body["service_tier"] == "standard_only"


@pytest.mark.parametrize(
    ("choice", "wanted"),
    [
        ("auto", {"type": "auto", "disable_parallel_tool_use": True}),
        ("required", {"type": "any", "disable_parallel_tool_use": True}),
        ("look", {"type": "tool", "name": "look", "disable_parallel_tool_use": True}),
        ("none", {"type": "none"}),
    ],
)
def test_anthropic_says_with_the_choice_that_tools_are_called_one_at_a_time(choice: str, wanted: object) -> None:
    settings = ModelSettings(parallel_tool_calls=False)
    assert anthropic(settings, tools=[TOOL], tool_choice=choice)["tool_choice"] == wanted


# --- thinking on Anthropic's wire

EFFORT = ModelProfile(thinking="effort")
BUDGET = ModelProfile(thinking="budget", default_max_tokens=4096)


def test_an_effort_lets_a_model_that_knows_efforts_think_as_it_likes() -> None:
    body = anthropic(ModelSettings(reasoning_effort="high"), EFFORT)
    assert (body["thinking"], body["output_config"]) == ({"type": "adaptive"}, {"effort": "high"})


def test_an_effort_is_a_budget_for_a_model_that_counts_tokens_and_leaves_room_for_the_answer() -> None:
    body = anthropic(ModelSettings(reasoning_effort="low"), BUDGET)
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 2048}
    assert body["max_tokens"] == 4096 + 2048


@pytest.mark.parametrize("profile", [EFFORT, BUDGET])
@pytest.mark.parametrize("off", [{"reasoning_effort": "none"}, {"thinking_budget": 0}])
def test_thinking_can_be_switched_off(profile: ModelProfile, off: dict[str, Any]) -> None:
    assert anthropic(read_settings(off), profile)["thinking"] == {"type": "disabled"}


@pytest.mark.parametrize(
    ("settings", "profile", "complaint"),
    [
        ({"thinking_budget": 2000}, EFFORT, "set reasoning_effort"),
        ({"thinking_budget": 1023}, BUDGET, "at least 1024"),
        ({"thinking_budget": 2000, "max_output_tokens": 2000}, BUDGET, "leaves no room"),
        ({"reasoning_effort": "vast"}, BUDGET, "'vast' is not known"),
    ],
)
def test_thinking_that_cannot_be_is_refused_with_the_way_out(
    settings: dict[str, Any], profile: ModelProfile, complaint: str
) -> None:
    with pytest.raises(UserError, match=re.escape(complaint)):
        anthropic(read_settings(settings), profile)


@pytest.mark.parametrize("settings", [{"reasoning_effort": "low"}, {"thinking_budget": 2000}])
def test_a_request_that_forces_a_tool_is_sent_without_thinking(settings: dict[str, Any]) -> None:
    profile = EFFORT if "reasoning_effort" in settings else BUDGET
    body = anthropic(read_settings(settings), profile, tools=[TOOL], tool_choice="required")
    assert "thinking" not in body


def test_a_model_that_counts_tokens_does_not_think_amid_calls_made_without_thinking() -> None:
    call = Message("assistant", [TextPart("Let me look."), ToolCallPart("c1", "look", {})])
    result = Message("tool", [ToolResultPart("c1", "look", "seen")])
    settings = ModelSettings(thinking_budget=2000)
    assert "thinking" not in anthropic(settings, BUDGET, messages=[HI, call, result], tools=[TOOL])
    following = [HI, call, result, Message("assistant", "Seen."), Message("user", "Again")]
    assert "thinking" in anthropic(settings, BUDGET, messages=following, tools=[TOOL])


# --- marks for Anthropic's cache


@pytest.mark.parametrize(
    ("setting", "mark"),
    [(True, {"type": "ephemeral"}), ("5m", {"type": "ephemeral"}), ("1h", {"type": "ephemeral", "ttl": "1h"})],
)
def test_what_stays_and_the_conversation_so_far_are_marked_for_the_cache(setting: Any, mark: object) -> None:
    body = anthropic(ModelSettings(cache_prompt=setting), system="Help.", tools=[TOOL])
    assert body["system"] == [{"type": "text", "text": "Help.", "cache_control": mark}]
    assert body["messages"][-1]["content"][-1]["cache_control"] == mark
    assert "cache_control" not in body["tools"][-1]
    alone = anthropic(ModelSettings(cache_prompt=setting), tools=[TOOL])
    assert alone["tools"][-1]["cache_control"] == mark


@pytest.mark.parametrize("setting", [None, False])
def test_nothing_is_marked_unless_it_is_wanted(setting: Any) -> None:
    assert "cache_control" not in str(anthropic(ModelSettings(cache_prompt=setting), system="Help."))


# --- what a provider or a model does not take


async def test_a_setting_that_a_wire_lacks_is_left_out_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with HTTPServer(Reply(b"{}", status=500)) as server:
        model = AnthropicModel("claude-sonnet-5", base_url=server.base_url)
        agent = Agent(id="a", model=model, model_settings={"seed": 1, "presence_penalty": 1})
        with caplog.at_level(logging.WARNING, "mastra_py"):
            for _ in range(2):
                with pytest.raises(Exception, match="500"):
                    await agent.generate("Hi")
    warnings = [record.getMessage() for record in caplog.records if "model setting" in record.getMessage()]
    assert warnings == [
        f"AnthropicModel('claude-sonnet-5') does not take the model setting {name}: it is left out"
        for name in ("presence_penalty", "seed")
    ]
    assert not {"seed", "presence_penalty"} & server.requests[0].json.keys()


async def test_a_setting_that_the_profile_lacks_is_left_out_too(caplog: pytest.LogCaptureFixture) -> None:
    profile = ModelProfile(unsupported=frozenset({"temperature"}), thinking=None)
    async with HTTPServer(chat_reply("Hello.")) as server:
        model = OpenAIChatModel("m1", base_url=server.base_url, profile=profile)
        settings = {"temperature": 0.2, "reasoning_effort": "low", "top_p": 0.9}
        await Agent(id="a", model=model, model_settings=settings).generate("Hi")
    (request,) = server.requests
    assert request.json["top_p"] == 0.9
    assert not {"temperature", "reasoning_effort"} & request.json.keys()
    assert caplog.text.count("is left out") == 2


async def test_sampling_is_left_out_where_anthropic_thinks() -> None:
    async with HTTPServer(Reply(b"{}", status=500)) as server:
        model = AnthropicModel("claude-sonnet-4-5", base_url=server.base_url)
        agent = Agent(id="a", model=model, model_settings={"temperature": 0.2, "thinking_budget": 2000})
        with pytest.raises(Exception, match="500"):
            await agent.generate("Hi")
        with pytest.raises(Exception, match="500"):
            await agent.generate("Hi", model_settings={"thinking_budget": 0})
    first, second = (request.json for request in server.requests)
    assert "temperature" not in first
    assert first["thinking"]["budget_tokens"] == 2000
    assert second["temperature"] == 0.2


async def test_a_setting_that_changes_what_is_meant_is_an_error_before_anything_is_sent() -> None:
    async with HTTPServer(chat_reply("Hello.")) as server:
        model = OpenAIChatModel("m1", base_url=server.base_url)
        with pytest.raises(UserError, match="does not take the model setting thinking_budget; set reasoning_effort"):
            await Agent(id="a", model=model, model_settings={"thinking_budget": 2000}).generate("Hi")
    assert server.requests == []


async def test_a_text_that_ends_the_reply_is_never_left_out_in_silence() -> None:
    async with HTTPServer(chat_reply("Hello.")) as server:
        model = OpenAIChatModel("m1", base_url=server.base_url, profile=ModelProfile(unsupported=frozenset({"stop"})))
        with pytest.raises(UserError, match="does not take the model setting stop"):
            await Agent(id="a", model=model, model_settings={"stop": "END"}).generate("Hi")
    assert server.requests == []

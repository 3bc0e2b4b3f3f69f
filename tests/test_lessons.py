"""What a model object learns from a refusal: once, with one further request, in the open, and at no retry's cost."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import anyio
import pytest
from pydantic import BaseModel
from support.chat_reply import chat_reply
from support.http_server import HTTPServer, Reply, Request, sse
from support.streams import read_all

from mastra_py import Agent, Judge, PromptStep, RequestError, StreamErrorRetryProcessor, create_scorer
from mastra_py.errors import ModelError, UserError
from mastra_py.events import ProfileLearned, RetryScheduled
from mastra_py.messages import Message, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from mastra_py.models import AnthropicModel, FallbackModel, ModelProfile, OpenAIChatModel
from mastra_py.models._errors import model_error
from mastra_py.models._lessons import lesson_of
from mastra_py.testing import assert_well_formed
from mastra_py.tools import Tool

ALL = ModelProfile(strict=True, prefill=True, system_anywhere=True, assistant_first=True)
FORM = {"type": "json_schema", "json_schema": {"name": "f", "schema": {}, "strict": True}}
LOOK = Tool(name="look", description="Look.", parameters={"type": "object", "properties": {}}, run=lambda: "seen")


MESSAGE = sse(
    'data: {"type": "message_start", "message": {"id": "m", "model": "m1"}}\n\n',
    'data: {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "on."}}\n\n',
    'data: {"type": "content_block_stop", "index": 0}\n\n',
    'data: {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}\n\n',
    'data: {"type": "message_stop"}\n\n',
)


class City(BaseModel):
    name: str


def refusal(message: str, *, param: str | None = None, code: str | None = None, status: int = 400) -> ModelError:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return model_error(status=status, body={"error": error})


@pytest.mark.parametrize(
    ("message", "body", "lacks"),
    [
        (
            (
                "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) "
                "value is supported."
            ),
            {"temperature": 0.2},
            "temperature",
        ),
        ("Unsupported parameter: 'top_p' is not supported with this model.", {"top_p": 0.2}, "top_p"),
        ("`temperature` is deprecated for this model.", {"temperature": 1}, "temperature"),
        ("temperature and top_p cannot both be specified for this model", {"top_p": 0.2}, "top_p"),
        (
            "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
            {"temperature": 0, "top_p": 0.2},
            "top_p",
        ),
        (
            "Malformed input request: #: extraneous key [temperature] is not permitted, please try again.",
            {"temperature": 1},
            "temperature",
        ),
        (
            "litellm.UnsupportedParamsError: o3 does not support parameters: ['temperature'], for model=o3. To drop",
            {"temperature": 1},
            "temperature",
        ),
        ('Invalid JSON payload received. Unknown name "seed": Cannot find field.', {"seed": 1}, "seed"),
        ("body.store: Extra inputs are not permitted", {"store": False}, "store"),
        ("adaptive thinking is not supported on this model", {"thinking": {"type": "adaptive"}}, "reasoning_effort"),
        ("This model does not support the effort parameter.", {"output_config": {"effort": "low"}}, "reasoning_effort"),
        ("Unrecognized request argument supplied: top_k", {"top_k": 3}, "top_k"),
        ("property 'seed' is unsupported", {"seed": 3}, "seed"),
        ("Extra inputs are not permitted: parallel_tool_calls", {"parallel_tool_calls": True}, "parallel_tool_calls"),
        ("Unknown parameter: 'service_tier'.", {"service_tier": "flex"}, "service_tier"),
        (
            "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
            {"reasoning": {"effort": "low"}},
            "reasoning_effort",
        ),
        (
            (
                "Unsupported parameter: 'max_tokens' is not supported with this model. "
                "Use 'max_completion_tokens' instead."
            ),
            {"max_tokens": 3},
            "max_tokens_field",
        ),
        ("stream_options: Extra inputs are not permitted", {"stream_options": {}}, "stream_usage"),
        (
            "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
            {"response_format": FORM},
            "native_output",
        ),
        (
            "response_format and tools cannot be used together",
            {"response_format": FORM, "tools": [{}]},
            "output_with_tools",
        ),
        ("output_config.format: Extra inputs are not permitted", {"output_config": {"format": {}}}, "native_output"),
        ("Invalid schema for response_format 'f': ...", {"response_format": FORM}, "strict"),
        ("Unknown parameter: 'tools[0].function.strict'.", {"tools": [{"function": {"strict": True}}]}, "strict"),
        ("System message must be at the beginning.", {"messages": []}, "system_anywhere"),
        ("Unexpected role 'user' after role 'tool'", {"messages": []}, "user_after_tool"),
        ("Conversation roles must alternate user/assistant/user/assistant/...", {"messages": []}, "assistant_first"),
        (
            "messages.3.content.0: The block is bound to a different conversation",
            {"messages": [{"content": [{"signature": "s"}]}]},
            "replay_thinking",
        ),
        (
            "The encrypted content gAAA... could not be verified.",
            {"input": [{"type": "reasoning", "encrypted_content": "e"}]},
            "replay_thinking",
        ),
        (
            "thinking.type.disabled is not supported for this model",
            {"thinking": {"type": "disabled"}},
            "reasoning_effort",
        ),
        (
            "This model does not support assistant message prefill. The conversation must end with a user message.",
            {"messages": []},
            "prefill",
        ),
    ],
)
def test_what_a_model_lacks_is_read_from_what_its_provider_refuses(
    message: str, body: dict[str, Any], lacks: str
) -> None:
    lesson = lesson_of(refusal(message), ALL, body)
    assert lesson is not None
    assert lesson.lacks == lacks
    assert lesson_of(refusal(message), lesson.applied(ALL), {}) is None  # without it there is nothing to be refused


def test_a_server_that_does_not_know_the_mark_of_strictness_is_sent_none() -> None:
    plain = ModelProfile()
    body = {"tools": [{"strict": False}]}
    lesson = lesson_of(refusal("Unknown parameter: 'tools[0].strict'."), plain, body)
    assert lesson is not None
    assert lesson.lacks == "strict_field"
    assert lesson_of(refusal("Unknown parameter: 'tools[0].strict'."), lesson.applied(plain), body) is None
    assert lesson_of(refusal("Invalid schema for function 'f': missing type"), plain, body) is None


def test_the_parameter_that_a_provider_names_counts_more_than_its_words() -> None:
    error = refusal("Unsupported parameter: not supported with temperature", param="top_p")
    lesson = lesson_of(error, ALL, {"top_p": 0.1, "temperature": 0.1})
    assert lesson is not None
    assert lesson.lacks == "top_p"


@pytest.mark.parametrize(
    ("error", "body"),
    [
        (refusal("temperature must be between 0 and 2", param="temperature"), {"temperature": 5}),
        (refusal("Unsupported parameter: 'temperature'"), {"messages": []}),
        (refusal("Unsupported parameter: 'stop' is not supported with this model."), {"stop": ["x"]}),
        (
            refusal(
                "Unsupported value: 'vast' is not supported. Supported values are: 'low'.", param="reasoning_effort"
            ),
            {"reasoning_effort": "vast"},
        ),
        (refusal("max_tokens is too large: 99999. This model supports at most 4096."), {"max_tokens": 99999}),
        (refusal("The model `gpt-9` does not exist", status=404), {"temperature": 1}),
        (refusal("Unsupported parameter: 'temperature'", status=401), {"temperature": 1}),
        (refusal("Unsupported parameter: 'temperature'", status=500), {"temperature": 1}),
        (refusal(""), {"temperature": 1}),
        (refusal("output_config.effort: unknown value"), {"output_config": {"effort": "vast"}}),
        (refusal("Invalid schema for function 'temperature': its type is missing"), {"temperature": 1}),
        (refusal("Invalid tool name 'strict': unknown"), {"tools": [{"function": {"strict": True}}]}),
        (refusal("Unknown field 'foo'. Allowed fields: model, temperature, top_p"), {"temperature": 1, "top_p": 1}),
        (refusal("unknown field foo, expected one of model, temperature"), {"temperature": 1}),
        (refusal("Unknown image type. The prompt was: what temperature is it?"), {"temperature": 1}),
        (refusal("File type not supported: look into your vector store"), {"store": False}),
        (refusal("A prompt about 'temperature' is not allowed", code="content_filter"), {"temperature": 1}),
        (
            model_error(
                status=422,
                body={
                    "detail": [
                        {
                            "type": "extra_forbidden",
                            "loc": ["body", "messages", 0, "name"],
                            "msg": "Extra inputs are not permitted",
                            "input": "temperature: unknown",
                        }
                    ]
                },
            ),
            {"temperature": 1},
        ),
        (
            refusal(
                "[{'type': 'value_error', 'loc': ('body',), 'msg': 'Value error, unsupported image', "
                "'input': {'model': 'x', 'temperature': 0.2, 'messages': [{'content': 'unknown'}]}}]"
            ),
            {"temperature": 0.2},
        ),
    ],
)
def test_any_other_refusal_stays_the_error_that_it_is(error: ModelError, body: dict[str, Any]) -> None:
    assert lesson_of(error, ALL, body) is None


# --- over HTTP


def refuse(message: str, *, param: str | None = None) -> Reply:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": "unsupported_parameter"}
    return Reply(json.dumps({"error": error}).encode(), status=400, headers={"content-type": "application/json"})


def without(field: str, *, answer: str = "Hello.") -> Any:
    """Return a server that refuses ``field`` and else answers."""

    def reply(request: Request) -> Reply:
        if field in request.json:
            return refuse(f"Unsupported parameter: '{field}' is not supported with this model.", param=field)
        return chat_reply(answer)

    return reply


async def test_a_lesson_costs_one_request_and_no_retry_and_an_event_tells_it() -> None:
    async with HTTPServer(without("temperature")) as server:
        model = OpenAIChatModel("m1", base_url=server.base_url)
        agent = Agent(id="a", model=model, model_settings={"temperature": 0.2})  # no error processors
        events, result = await read_all(agent, "Hi")
        again = await agent.generate("Hi")
    assert_well_formed(events)
    (learned,) = [e for e in events if isinstance(e, ProfileLearned)]
    assert (learned.lacks, learned.model, learned.attempt, learned.step) == ("temperature", "m1", 1, 1)
    assert isinstance(learned.error, RequestError)
    assert (result.text, result.steps[0].attempts, result.usage.requests) == ("Hello.", 2, 2)
    assert (again.steps[0].attempts, len(server.requests)) == (1, 3)
    assert model.profile.unsupported == {"temperature"}


async def test_it_is_learned_on_the_model_object_and_on_no_other() -> None:
    async with HTTPServer(without("temperature")) as server:
        models = [OpenAIChatModel("m1", base_url=server.base_url) for _ in range(2)]
        agents = [Agent(id="a", model=model, model_settings={"temperature": 0.2}) for model in (*models, models[0])]
        attempts = [(await agent.generate("Hi")).steps[0].attempts for agent in agents]
    assert attempts == [2, 2, 1]


async def test_it_is_learned_over_a_profile_that_was_given() -> None:
    async with HTTPServer(without("seed")) as server:
        given = ModelProfile(native_output=False)
        model = OpenAIChatModel("m1", base_url=server.base_url, profile=given)
        await Agent(id="a", model=model, model_settings={"seed": 1}).generate("Hi")
    assert model.profile == ModelProfile(native_output=False, unsupported=frozenset({"seed"}))


async def test_several_lessons_of_one_call_are_learned_one_after_another() -> None:
    def reply(request: Request) -> Reply:
        refused = next((f for f in ("temperature", "seed", "max_tokens") if f in request.json), None)
        return refuse(f"Unsupported parameter: '{refused}'", param=refused) if refused else chat_reply("Hello.")

    async with HTTPServer(reply) as server:
        model = OpenAIChatModel("m1", base_url=server.base_url)
        settings = {"temperature": 1, "seed": 1, "max_output_tokens": 9}
        result = await Agent(id="a", model=model, model_settings=settings).generate("Hi")
    assert result.steps[0].attempts == 4
    assert server.requests[-1].json["max_completion_tokens"] == 9


async def test_calls_at_once_each_go_on_and_their_lessons_add_up() -> None:
    waiting = [anyio.Event(), anyio.Event()]

    def reply(request: Request) -> Reply:
        field = "temperature" if "temperature" in request.json else "seed" if "seed" in request.json else None
        if field is None:
            return chat_reply("Hello.")
        index = 0 if field == "temperature" else 1
        waiting[index].set()
        refused = refuse(f"Unsupported parameter: '{field}'", param=field)
        return Reply(refused.body, status=400, headers=refused.headers, after=waiting[1 - index])

    async with HTTPServer(reply) as server:
        model = OpenAIChatModel("m1", base_url=server.base_url)

        async def ask(**settings: Any) -> None:
            result = await Agent(id="a", model=model, model_settings=settings).generate("Hi")
            assert result.steps[0].attempts == 2

        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: ask(temperature=1))
                tasks.start_soon(lambda: ask(seed=1))
    assert model.profile.unsupported == {"temperature", "seed"}


async def test_a_server_that_goes_on_refusing_is_not_asked_for_ever() -> None:
    async with HTTPServer(refuse("Unsupported parameter: 'temperature'")) as server:
        model = OpenAIChatModel("m1", base_url=server.base_url)
        with pytest.raises(RequestError, match="temperature"):
            await Agent(id="a", model=model, model_settings={"temperature": 1}).generate("Hi")
    assert len(server.requests) == 2


async def test_structured_output_is_asked_for_in_words_once_the_server_refuses_schemas() -> None:
    def reply(request: Request) -> Reply:
        if "response_format" in request.json:
            return refuse("This response_format type is unavailable: json_schema is not supported")
        assert "JSON Schema" in request.json["messages"][-1]["content"]
        return chat_reply('{"name": "Oslo"}')

    async with HTTPServer(reply) as server:
        agent = Agent(id="a", model=OpenAIChatModel("m1", base_url=server.base_url))
        results = [await agent.generate("Which?", output=City) for _ in range(2)]
    assert [r.output for r in results] == [City(name="Oslo")] * 2
    assert [r.steps[0].attempts for r in results] == [2, 1]


async def test_schemas_stay_native_without_tools_where_only_both_together_are_refused() -> None:
    def reply(request: Request) -> Reply:
        if "response_format" in request.json and "tools" in request.json:
            return refuse("json_schema response_format is not supported together with tool use")
        return chat_reply('{"name": "Oslo"}')

    async with HTTPServer(reply) as server:
        model = OpenAIChatModel("m1", base_url=server.base_url)
        await Agent(id="a", model=model, tools=[LOOK]).generate("Which?", output=City)
        await Agent(id="a", model=model).generate("Which?", output=City)
    assert ["response_format" in r.json for r in server.requests] == [True, False, True]


async def test_a_judge_that_wants_the_native_form_in_any_case_gets_the_refusal() -> None:
    async with HTTPServer(refuse("response_format is not supported")) as server:
        model = OpenAIChatModel("m1", base_url=server.base_url)
        judge = Judge(model=model, instructions="Score it.", json_prompt_injection=False)
        scorer = create_scorer(id="s", judge=judge).generate_score(
            PromptStep(description="Score it", create_prompt=lambda _ctx: "How good?")
        )
        with pytest.raises(Exception, match="response_format"):
            await scorer.run(output="x")
    assert len(server.requests) == 1


async def test_a_retry_of_the_processors_is_still_there_after_a_lesson() -> None:
    replies = [refuse("Unsupported parameter: 'seed'"), Reply(b"{}", status=500), chat_reply("Hello.")]
    async with HTTPServer(*replies) as server:
        agent = Agent(
            id="a",
            model=OpenAIChatModel("m1", base_url=server.base_url),
            model_settings={"seed": 1},
            error_processors=[StreamErrorRetryProcessor(max_retries=1)],
        )
        events, result = await read_all(agent, "Hi")
    assert [type(e) for e in events if isinstance(e, ProfileLearned | RetryScheduled)] == [
        ProfileLearned,
        RetryScheduled,
    ]
    assert result.text == "Hello."


async def test_a_model_to_fall_back_on_learns_for_itself() -> None:
    async with HTTPServer(Reply(b"{}", status=500)) as broken, HTTPServer(without("seed")) as server:
        second = OpenAIChatModel("m2", base_url=server.base_url)
        model = FallbackModel(OpenAIChatModel("m1", base_url=broken.base_url), second)
        events, result = await read_all(Agent(id="a", model=model, model_settings={"seed": 1}), "Hi")
    (learned,) = [e for e in events if isinstance(e, ProfileLearned)]
    assert (learned.model, result.text, second.profile.unsupported) == ("m2", "Hello.", {"seed"})


async def test_thinking_that_is_not_known_again_is_left_out_from_then_on() -> None:
    def reply(request: Request) -> Reply:
        thought = "signature" in json.dumps(request.json["messages"])
        return refuse("Invalid `signature` in `thinking` block") if thought else MESSAGE

    async with HTTPServer(reply) as server:
        model = AnthropicModel("m1", base_url=server.base_url)
        thinking = ReasoningPart("Hm.", "anthropic", {"signature": "s"})
        history = [Message("user", "Go"), Message("assistant", [thinking, TextPart("So")])]
        result = await Agent(id="a", model=model).generate("on", messages=history)
    assert (result.text, len(server.requests), model.profile.replay_thinking) == ("on.", 2, False)


async def test_the_users_words_are_kept_apart_from_a_tools_result_where_a_server_wants_it() -> None:
    def reply(request: Request) -> Reply:
        roles = [message["role"] for message in request.json["messages"]]
        if ("tool", "user") in pairwise(roles):
            return refuse("Unexpected role 'user' after role 'tool'")
        return chat_reply("Hello.")

    async with HTTPServer(reply) as server:
        model = OpenAIChatModel("m1", base_url=server.base_url)
        called = Message("assistant", [ToolCallPart("c1", "look", {})])
        result = Message("tool", [ToolResultPart("c1", "look", "seen")])
        await Agent(id="a", model=model, tools=[LOOK]).generate(
            "Go on", messages=[Message("user", "Go"), called, result]
        )
    assert [m["role"] for m in server.requests[1].json["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]


@pytest.mark.parametrize("first", [True, False])
async def test_a_conversation_that_the_assistant_begins_has_an_opening_where_a_server_may_want_one(first: bool) -> None:
    async with HTTPServer(chat_reply("Hello.")) as server:
        model = OpenAIChatModel("m1", base_url=server.base_url, profile=ModelProfile(assistant_first=first))
        await Agent(id="a", model=model).generate("Hi", messages=[Message("assistant", "Welcome.")])
    roles = [m["role"] for m in server.requests[0].json["messages"]]
    assert roles == (["assistant", "user"] if first else ["user", "assistant", "user"])


async def test_a_trailing_assistant_message_is_followed_by_the_user_once_prefill_is_refused() -> None:
    def reply(request: Request) -> Reply:
        prefilled = request.json["messages"][-1]["role"] == "assistant"
        return refuse("This model does not support assistant message prefill.") if prefilled else MESSAGE

    async with HTTPServer(reply) as server:
        model = AnthropicModel("m1", base_url=server.base_url, profile=ModelProfile(prefill=True))
        history = [Message("user", "Go"), Message("assistant", "So")]
        result = await Agent(id="a", model=model).generate(messages=history)
    assert (result.text, len(server.requests)) == ("on.", 2)
    assert server.requests[1].json["messages"][-1]["role"] == "user"


@pytest.mark.parametrize("anywhere", [True, False])
async def test_system_messages_come_first_and_as_one_where_a_server_may_know_no_other_place(anywhere: bool) -> None:
    said = [Message("user", "Hi"), Message("system", "Be brief."), Message("user", "!")]
    async with HTTPServer(chat_reply("Hello.")) as server:
        model = OpenAIChatModel("m1", base_url=server.base_url, profile=ModelProfile(system_anywhere=anywhere))
        await Agent(id="a", model=model, instructions="Help.").generate(messages=said)
    sent = [(m["role"], m["content"]) for m in server.requests[0].json["messages"]]
    if anywhere:
        assert sent == [("system", "Help."), ("user", "Hi"), ("system", "Be brief."), ("user", "!")]
    else:
        assert sent == [("system", "Help.\n\nBe brief."), ("user", "Hi\n\n!")]


@pytest.mark.parametrize(
    "wrong",
    [
        {"native_output": "no"},
        {"thinking": "high"},
        {"unsupported": "seed"},
        {"unsupported": {"sed"}},
        {"unsupported": {"timeout"}},
        {"unsupported": 3},
        {"default_max_tokens": -5},
        {"default_max_tokens": True},
        {"max_tokens_field": ""},
    ],
)
def test_a_profile_that_says_nonsense_is_refused_by_the_name_of_the_field(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=f"ModelProfile {next(iter(wrong))} must be"):
        ModelProfile(**wrong)


def test_a_profile_takes_names_of_settings_in_any_collection() -> None:
    assert ModelProfile(unsupported=["seed"]).unsupported == {"seed"}  # type: ignore[arg-type]

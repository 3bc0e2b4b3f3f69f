"""No key gets out: not in an error, what it came from, its traceback, an event, a log record, or a repr."""

from __future__ import annotations

import base64
import json
import logging
import traceback
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import anthropic
import anyio
import httpx2
import openai
import pytest
from support.http_server import HTTPServer, Reply, Request

from mastra_py import Agent
from mastra_py.errors import ModelError, UserError
from mastra_py.messages import Message
from mastra_py.models import (
    AnthropicModel,
    Model,
    ModelRequest,
    ModelSettings,
    OpenAIChatModel,
    OpenAIResponsesModel,
)
from mastra_py.models._errors import wrap_exception
from mastra_py.models._redact import Redactor, chain_of, is_secret_name, redact_url, secrets_of

KEY = "my-Own&Key/0123456789"  # of no provider's form, and written differently in JSON, URLs and HTML
SHORT_KEY = "abc7"
TOKEN = 'tok"en-98765432'
COOKIE = "c00kie-4711-4711"
PASSWORD = "pa55-w0rd!x"
SECRETS = (KEY, TOKEN, COOKIE, PASSWORD)

HELLO = [Message("user", "Hello")]
HEADERS = {"X-Custom-Token": TOKEN, "Cookie": f"a=1; session={COOKIE}"}

WIRES: dict[str, Callable[..., Model]] = {
    "chat": OpenAIChatModel,
    "responses": OpenAIResponsesModel,
    "messages": AnthropicModel,
}
CLIENTS: dict[str, Callable[..., Any]] = {
    "chat": openai.AsyncOpenAI,
    "responses": openai.AsyncOpenAI,
    "messages": anthropic.AsyncAnthropic,
}


def echo(status: int, form: str, *, in_headers: bool = True) -> Callable[[Request], Reply]:
    """Return a server that answers with the request, in every way that a body has for it."""

    def answer(request: Request) -> Reply:
        said = "; ".join(f"{name}: {value}" for name, value in request.headers.items())
        error = {
            "message": f"Incorrect API key provided. Request: {said} {quote(said)} {request.body!r}",
            "type": "server_error",
            "code": request.headers.get("authorization") or request.headers.get("x-api-key"),
            "metadata": {"raw": json.dumps({"headers": dict(request.headers)}), request.headers["x-custom-token"]: 1},
            "request": {"headers": dict(request.headers), "body": request.body.decode()},
        }
        headers: dict[str, str] = {}
        if in_headers:
            key = request.headers.get("x-api-key") or request.headers["authorization"].split()[-1]
            headers = {"set-cookie": f"session={COOKIE}", "x-echo": said, "x-request-id": f"id-{key}"}
        payload = json.dumps({"type": "error", "error": error})
        match form:
            case "in-band":
                return Reply(
                    f"event: error\ndata: {payload}\n\n".encode(), 200, {**headers, "content-type": "text/event-stream"}
                )
            case "text":
                return Reply(f"<html>{said}</html>".encode(), status, headers)
            case "unreadable":
                return Reply(f"data: {said}\n\n".encode(), 200, {**headers, "content-type": "text/event-stream"})
            case _:
                return Reply(payload.encode(), status, {**headers, "content-type": "application/json"})

    return answer


async def failing(model: Model, settings: ModelSettings) -> ModelError:
    with anyio.fail_after(5):
        with pytest.raises(ModelError) as caught:
            async with model.stream(ModelRequest(messages=HELLO, settings=settings)) as stream:
                async for _ in stream:
                    pass
    return caught.value


def shown(error: BaseException) -> str:
    """Return all that is to be seen of an error and of what it came from."""
    words = ["".join(traceback.format_exception(error))]
    for each in chain_of(error):
        words += [str(each), repr(each), repr(each.args), repr(vars(each))]
        for message in (getattr(each, "response", None), getattr(each, "_request", None)):
            if message is not None:
                words += (
                    [repr(dict(message.headers)), message.content.decode() if message.is_closed else ""]
                    if hasattr(message, "status_code")
                    else [repr(dict(message.headers)), str(message.url)]
                )
        if (response := getattr(each, "response", None)) is not None:
            words += [repr(dict(response.request.headers)), str(response.request.url)]
    return "\n".join(words)


def assert_clean(text: str, *more: str) -> None:
    for secret in (*SECRETS, *more):
        for form in {secret, quote(secret, safe=""), json.dumps(secret)[1:-1], repr(secret)[1:-1]}:
            assert form not in text, f"{form!r} is shown"
    assert base64.b64encode(f"user:{PASSWORD}".encode()).decode() not in text


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("status", "form"),
    [(401, "json"), (400, "json"), (500, "json"), (429, "text"), (200, "json"), (200, "in-band"), (200, "unreadable")],
)
async def test_a_server_that_sends_the_request_back_betrays_nothing(
    wire: str, status: int, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    # The HTTP library's own debug log shows the headers of a response as they came.
    async with HTTPServer(echo(status, form, in_headers=False)) as server:
        model = WIRES[wire]("m", base_url=server.base_url, api_key=KEY)
        error = await failing(model, ModelSettings(extra_headers=HEADERS))
    sent = server.requests[0].headers
    assert KEY in (sent.get("authorization", "") + sent.get("x-api-key", ""))
    assert (sent["x-custom-token"], COOKIE in sent["cookie"]) == (TOKEN, True)
    assert_clean(shown(error))
    assert "[redacted]" in f"{error.message} {error.body}" or form == "unreadable"
    assert_clean(caplog.text)
    logging.getLogger().error("it failed", exc_info=error)
    assert_clean(caplog.text)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("form", ["json", "in-band"])
async def test_the_key_of_a_users_own_client_is_kept_as_well(wire: str, form: str) -> None:
    async with HTTPServer(echo(401, form)) as server:
        url = server.base_url.replace("//", f"//user:{quote(PASSWORD)}@")
        client = CLIENTS[wire](api_key=KEY, base_url=url, default_headers=HEADERS, default_query={"key": TOKEN})
        async with client:
            error = await failing(WIRES[wire]("m", client=client), ModelSettings())
    assert_clean(shown(error), "user:pa55")


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(("status", "form"), [(401, "json"), (200, "json"), (200, "in-band")])
async def test_headers_of_the_response_betray_nothing(wire: str, status: int, form: str) -> None:
    async with HTTPServer(echo(status, form)) as server:
        model = WIRES[wire]("m", base_url=server.base_url, api_key=KEY)
        error = await failing(model, ModelSettings(extra_headers=HEADERS))
    assert error.request_id == "id-[redacted]"
    assert error.headers.get("set-cookie", "[redacted]") == "[redacted]"
    assert_clean(shown(error))


@pytest.mark.parametrize("wire", WIRES)
async def test_a_password_in_the_url_is_sent_and_nowhere_shown(wire: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with HTTPServer(echo(401, "json", in_headers=False)) as server:
        url = server.base_url.replace("//", f"//user:{quote(PASSWORD)}@")
        model = WIRES[wire]("m", base_url=url, api_key=KEY)
        error = await failing(model, ModelSettings(extra_headers=HEADERS))
    basic = base64.b64encode(f"user:{PASSWORD}".encode()).decode()
    assert server.requests[0].headers["authorization"] == f"Basic {basic}"
    assert_clean(shown(error) + caplog.text + repr(model), "user:pa55")


@pytest.mark.parametrize("wire", WIRES)
async def test_a_connection_that_fails_betrays_nothing(wire: str) -> None:
    url = f"http://user:{quote(PASSWORD)}@127.0.0.1:1/v1"
    model = WIRES[wire]("m", base_url=url, api_key=KEY)
    error = await failing(model, ModelSettings(extra_headers=HEADERS))
    assert error.kind == "connection"
    assert_clean(shown(error), "user:pa55")


def test_a_header_that_http_refuses_is_not_shown() -> None:
    with pytest.raises(UserError, match="extra_headers") as caught:
        ModelSettings(extra_headers={"X-Api-Key": f"{TOKEN}\n"})
    assert_clean(repr(caught.value))


@pytest.mark.parametrize("wire", WIRES)
async def test_a_redirect_to_another_server_takes_no_credentials_along(wire: str) -> None:
    async with HTTPServer(Reply(b"no", status=401)) as other:
        async with HTTPServer(Reply(b"", status=307, headers={"location": f"{other.base_url}/x"})) as server:
            model = WIRES[wire]("m", base_url=server.base_url, api_key=KEY)
            error = await failing(model, ModelSettings(extra_headers=HEADERS))
    assert error.status == 401
    (request,) = other.requests
    assert_clean(repr(request.headers))
    assert KEY in repr(server.requests[0].headers)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_redirect_within_the_server_keeps_the_credentials(wire: str) -> None:
    async with HTTPServer(Reply(b"", status=307, headers={"location": "/v1/x"}), Reply(b"no", status=401)) as server:
        await failing(WIRES[wire]("m", base_url=server.base_url, api_key=KEY), ModelSettings(extra_headers=HEADERS))
    assert [KEY in repr(request.headers) for request in server.requests] == [True, True]


async def test_the_error_event_of_a_run_and_its_error_are_clean() -> None:
    async with HTTPServer(echo(401, "json")) as server:
        agent = Agent(id="a", model=OpenAIChatModel("m", base_url=server.base_url, api_key=KEY), error_processors=[])
        events: list[Any] = []
        with anyio.fail_after(5):
            with pytest.raises(ModelError) as caught:
                async with agent.stream("Hello", model_settings={"extra_headers": HEADERS}) as stream:
                    async for event in stream:
                        events.append(event)
    assert_clean(shown(caught.value) + repr(events) + repr(agent) + repr(vars(agent)))


def test_reprs_hold_no_keys() -> None:
    settings = ModelSettings(extra_headers=HEADERS)
    models = [make("m", base_url=f"http://user:{quote(PASSWORD)}@h/v1", api_key=KEY) for make in WIRES.values()]
    agent = Agent(id="a", model=models[0], model_settings=settings)
    assert_clean(repr([settings, models, agent]) + str(settings), "user:pa55")


@pytest.mark.parametrize("url", ["ftp://user:pa55-w0rd!x@h", f"http://user:{PASSWORD}@h/v1?key=1"])
def test_a_url_that_is_refused_is_shown_without_its_secrets(url: str) -> None:
    with pytest.raises(UserError) as caught:
        OpenAIChatModel("m", base_url=url, api_key=KEY)
    assert_clean(str(caught.value), "user", "key=1")


@pytest.mark.parametrize("key", [f"{KEY}\n", f" {KEY}\r\n"])
async def test_a_key_that_was_read_from_a_file_is_sent_without_its_line_break(key: str) -> None:
    async with HTTPServer(echo(401, "json")) as server:
        await failing(OpenAIChatModel("m", base_url=server.base_url, api_key=key), ModelSettings(extra_headers=HEADERS))
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("key", [f"{KEY}\n{KEY}", "sch\u00fcssel-0123456789"])
def test_a_key_that_http_cannot_send_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(UserError, match="holds a character that no key has") as caught:
        OpenAIChatModel("m", base_url="http://h/v1", api_key=key).check()
    assert_clean(str(caught.value), key)


async def test_an_exception_of_a_users_own_model_is_cleaned_where_it_holds_a_request() -> None:
    request = httpx2.Request("POST", "http://h/v1", headers={"authorization": f"Bearer {KEY}"})
    exc = httpx2.HTTPStatusError(
        f"refused {KEY}", request=request, response=httpx2.Response(401, text=f"no {KEY}", request=request)
    )
    error = wrap_exception(exc, "p", "m")
    assert error.__cause__ is exc
    assert isinstance(exc.response, httpx2.Response)
    assert_clean(shown(error))
    assert exc.response.text == "no [redacted]"


# --- what counts as a secret


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Bearer abcdefgh12345678", "Bearer [redacted]"),
        ("authorization: basic dXNlcjpwYXNzd29yZA==", "authorization: basic [redacted]"),
        ("key sk-proj-abcDEF_123-456 refused", "key [redacted] refused"),
        ("Incorrect API key provided: sk-abc***********wxyz.", "Incorrect API key provided: [redacted]"),
        ("token gsk_abc123def456", "token [redacted]"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "[redacted]"),
        ("https://user:password@host/x", "https://[redacted]@host/x"),
        ("https://h/x?a=1&api_key=abcd1234efgh&b=2", "https://h/x?a=1&api_key=[redacted]&b=2"),
        ("https://h/x?key=abcd1234efgh", "https://h/x?key=[redacted]"),
        ('{"api_key": "abcd1234efgh", "a": 1}', '{"api_key": "[redacted]", "a": 1}'),
        (r"{\"x-api-key\": \"abcd1234efgh\"}", r"{\"x-api-key\": \"[redacted]\"}"),
        ("Cookie: a=1; session=2", "Cookie: [redacted]"),
        ("password=hunter2hunter2", "password=[redacted]"),
    ],
)
def test_what_looks_like_a_secret_is_replaced(text: str, clean: str) -> None:
    assert Redactor().text(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        "Bearer authentication is required",
        "Basic authorization failed: use Bearer tokens",
        "You exceeded 30000 tokens: the token limit is 20000 per minute",
        "Missing required parameter: 'api_key' must be a string",
        "This model's maximum context length is 4096 tokens",
        "max_tokens: 4096 exceeds the limit; token: 17",
        "See https://platform.openai.com/account/api-keys",
        "cookie-cutter tasks: none",
        "task sk-learn is fine",
    ],
)
def test_plain_words_stay(text: str) -> None:
    assert Redactor().text(text) == text


def test_a_known_secret_is_found_however_it_is_written() -> None:
    redactor = Redactor([KEY, TOKEN])
    for form in (
        KEY,
        TOKEN,
        quote(KEY, safe=""),
        json.dumps(TOKEN),
        json.dumps(json.dumps(TOKEN)),
        KEY.replace("&", "&amp;"),
    ):
        assert "[redacted]" in redactor.text(f"a {form} b")
        assert_clean(redactor.text(f"a {form} b"))


def test_a_secret_that_was_cut_off_at_the_end_of_a_text_is_found() -> None:
    assert Redactor([KEY]).text(f"it was {KEY[:12]}") == "it was [redacted]"


def test_a_short_secret_is_replaced_where_it_stands_alone() -> None:
    assert Redactor([SHORT_KEY]).text("abc7 xabc7 abc77 (abc7)") == "[redacted] xabc7 abc77 ([redacted])"
    assert Redactor(["a", ""]).text("a b") == "a b"


def test_a_body_is_cleaned_at_every_level_and_never_too_deep() -> None:
    body = {"a": [{"Authorization": "x", "password": "p", "signature": "s", KEY: [KEY, 1, None]}], "max_tokens": 3}
    clean = {
        "Authorization": "[redacted]",
        "password": "[redacted]",
        "signature": "s",
        "[redacted]": ["[redacted]", 1, None],
    }
    assert Redactor([KEY]).value(body) == {"a": [clean], "max_tokens": 3}
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    assert "nested too deeply" in repr(Redactor().value(deep))


@pytest.mark.parametrize(
    "name", ["Authorization", "x-api-key", "API-Key", "Set-Cookie", "x-goog-api-key", "X-Auth-Token"]
)
def test_headers_of_credentials_are_known_by_their_names(name: str) -> None:
    assert is_secret_name(name)
    assert Redactor().headers({name: "x"}) == {name: "[redacted]"}


@pytest.mark.parametrize(
    "name", ["x-request-id", "x-ratelimit-remaining-tokens", "retry-after", "content-type", "x-author"]
)
def test_other_headers_are_kept(name: str) -> None:
    assert Redactor().headers({name: "x 1"}) == {name: "x 1"}


def test_the_secrets_of_a_request_are_its_credentials_and_their_parts() -> None:
    basic = base64.b64encode(b"user:password").decode()
    headers = {"authorization": f"Basic {basic}", "x-api-key": KEY, "cookie": f"id=1; s={COOKIE}", "accept": "x"}
    found = secrets_of(headers, f"https://u:p%40ss@h/?key={TOKEN}&a=1")
    assert {basic, "password", KEY, COOKIE, "p@ss", TOKEN} <= found
    assert "x" not in found
    assert secrets_of({}, "http://[") == set()


def test_a_url_is_shown_without_what_may_be_a_secret() -> None:
    assert redact_url("https://u:p@h:1/v1?key=k#f") == "https://h:1/v1"
    assert redact_url("http://[u:p@h") == "http://[redacted]@h"


@pytest.mark.parametrize("key", ["local", "no-key", "model-one"])
async def test_the_names_of_provider_and_model_stay_and_a_stand_in_for_a_key_is_no_secret(key: str) -> None:
    body = json.dumps({"error": {"message": "this is local, no-key needed"}}).encode()
    async with HTTPServer(Reply(body, status=400, headers={"content-type": "application/json"})) as server:
        model = OpenAIChatModel("model-one", base_url=server.base_url, api_key=key)
        with pytest.raises(ModelError) as caught:
            await Agent(id="a", model=model).generate("Hi")
    assert (caught.value.provider, caught.value.model) == ("openai", "model-one")
    assert caught.value.message == "this is local, no-key needed"

from __future__ import annotations

from typing import Any

import pytest

from mastra_py.errors import UserError
from mastra_py.models import OpenAIChatModel, OpenAIResponsesModel
from mastra_py.models.resolve import resolve_model


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("openai/gpt-5.6", OpenAIResponsesModel, "gpt-5.6"),
        ("openai-chat/gpt-5-mini", OpenAIChatModel, "gpt-5-mini"),
        ("openai-chat/org/llama:free", OpenAIChatModel, "org/llama:free"),
    ],
)
def test_a_model_string_names_provider_and_model(text: str, kind: type[Any], name: str) -> None:
    model = resolve_model(text)
    assert type(model) is kind
    assert model.id == name


def test_a_model_stays_what_it_is() -> None:
    model = OpenAIChatModel("m1")
    assert resolve_model(model) is model


@pytest.mark.parametrize(
    "text", ["", "gpt-5", "openai", "openai/", "openai/ ", "/gpt-5", "opnai/gpt-5", "OPENAI/gpt-5"]
)
def test_a_string_that_names_no_model_is_refused_with_those_that_would(text: str) -> None:
    with pytest.raises(UserError) as caught:
        resolve_model(text)
    assert repr(text) in str(caught.value)
    assert "'openai/NAME', 'openai-chat/NAME'" in str(caught.value)


@pytest.mark.parametrize("value", [None, 5, b"openai/gpt-5", OpenAIChatModel])
def test_what_is_no_model_at_all_is_refused_by_its_type(value: Any) -> None:
    with pytest.raises(UserError, match=f"got {type(value).__name__}"):
        resolve_model(value)

"""Rules that both of OpenAI's APIs have: fields that are missing, of a wrong type, too long or out of range.

The forms of the words are OpenAI's: "Missing required parameter", "Invalid '...': string too long. Expected ...",
"Invalid value: '...'. Supported values are: ...", as in ailoy #109, earendil-works/pi #1022 and CopilotKit #529.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from strict_servers.openai_schema_rules import strict_problems
from strict_servers.problem import NAME, refuse_openai

_MAX_NAME = 64
_MAX_DESCRIPTION = 1024
_MAX_TOOLS = 128


def is_reasoning_model(model: str) -> bool:
    """Return whether OpenAI's model of that name is one of the reasoning models."""
    return re.match(r"o\d|gpt-[5-9]", model) is not None


def joined(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def require_keys(value: Any, *keys: str, path: str = "") -> None:
    """Check that ``value`` is an object with these keys."""
    if not isinstance(value, dict):
        refuse_openai(f"Invalid type for '{path}': expected an object.", param=path, code="invalid_type")
    for key in keys:
        if key not in value:
            where = joined(path, key)
            refuse_openai(f"Missing required parameter: '{where}'.", param=where, code="missing_required_parameter")


def require_text(value: Mapping[str, Any], key: str, path: str, *, least: int = 1, most: int | None = None) -> str:
    """Return the text at ``key``, which is from ``least`` to ``most`` characters long."""
    text, where = value[key], joined(path, key)
    if not isinstance(text, str):
        message = f"Invalid type for '{where}': expected a string, but got {_kind(text)} instead."
        refuse_openai(message, param=where, code="invalid_type")
    if len(text) < least:
        message = "empty string. Expected a string with minimum length 1, but got an empty string instead."
        refuse_openai(f"Invalid '{where}': {message}", param=where, code="empty_string")
    if most is not None and len(text) > most:
        message = (
            f"string too long. Expected a string with maximum length {most}, but got a string with length {len(text)}"
        )
        refuse_openai(f"Invalid '{where}': {message} instead.", param=where, code="string_above_max_length")
    return text


def require_list(value: Mapping[str, Any], key: str, path: str = "", *, least: int = 0) -> list[Any] | None:
    """Return the list at ``key`` with its least length, ``None`` where there is none."""
    items, where = value.get(key), joined(path, key)
    if items is None:
        return None
    if not isinstance(items, list):
        message = f"Invalid type for '{where}': expected an array, but got {_kind(items)} instead."
        refuse_openai(message, param=where, code="invalid_type")
    if len(items) < least:
        message = f"empty array. Expected an array with minimum length {least}, but got an empty array instead."
        refuse_openai(f"Invalid '{where}': {message}", param=where, code="empty_array")
    return items


def check_name(name: Any, path: str) -> None:
    """Check the name of a function or a format."""
    require_text({"name": name}, "name", path.removesuffix(".name"), most=_MAX_NAME)
    if not re.fullmatch(NAME[1:-1], name):
        message = f"string does not match pattern. Expected a string that matches the pattern '{NAME}'."
        refuse_openai(f"Invalid '{path}': {message}", param=path, code="invalid_value")


def check_function(function: Any, path: str) -> None:
    """Check a function that the model may call."""
    require_keys(function, "name", path=path)
    check_name(function["name"], f"{path}.name")
    if function.get("description") is not None:
        require_text(function, "description", path, least=0, most=_MAX_DESCRIPTION)
    parameters = function.get("parameters")
    if parameters is not None and parameters.get("type") != "object":
        message = f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{parameters.get('type')}\"'."
        text = f"Invalid schema for function '{function['name']}': {message}"
        refuse_openai(text, param=f"{path}.parameters", code="invalid_function_parameters")
    check_schema(function, "parameters", f"function '{function['name']}'", f"{path}.parameters")


def check_schema(holder: Mapping[str, Any], key: str, what: str, param: str) -> None:
    """Check a schema that is to be followed strictly."""
    if holder.get("strict") is not True:
        return
    name = what if what.startswith("function") else f"{what} '{holder['name']}'"
    for problem in strict_problems(holder.get(key) or {}):
        code = "invalid_function_parameters" if what.startswith("function") else None
        refuse_openai(f"Invalid schema for {name}: {problem}", param=param, code=code)


def check_choice(body: Mapping[str, Any], names: Collection[str], nested: str | None) -> None:
    """Check what says whether and which tools are called. ``nested`` is the key that a tool's name stands under."""
    if len(names) > _MAX_TOOLS:
        message = f"array too long. Expected an array with maximum length {_MAX_TOOLS}"
        refuse_openai(f"Invalid 'tools': {message}", param="tools", code="array_above_max_length")
    choice = body.get("tool_choice")
    for parameter in ("parallel_tool_calls", "tool_choice"):
        if not names and body.get(parameter) is not None and (parameter, choice) != ("tool_choice", "none"):
            message = f"'{parameter}' is only allowed when 'tools' are specified."
            refuse_openai(f"Invalid value for '{parameter}': {message}", param=parameter)
    if choice is None or choice in ("none", "auto", "required"):
        return
    if not isinstance(choice, dict):
        message = f"Invalid value: '{choice}'. Supported values are: 'none', 'auto', and 'required'."
        refuse_openai(message, param="tool_choice", code="invalid_value")
    require_keys(choice, "type", path="tool_choice")
    named = choice.get(nested, {}) if nested else choice
    require_keys(named, "name", path=f"tool_choice.{nested}" if nested else "tool_choice")
    if named["name"] not in names:
        refuse_openai(f"Tool choice '{named['name']}' not found in 'tools' parameter.", param="tool_choice")


def check_numbers(body: Mapping[str, Any], *, max_temperature: float) -> None:
    """Check the ranges of the numbers."""
    ranges = {"temperature": max_temperature, "top_p": 1, "presence_penalty": 2, "frequency_penalty": 2}
    for name, most in ranges.items():
        value = body.get(name)
        if value is not None and value > most:
            message = f"decimal above maximum value. Expected a value <= {most}, but got {value} instead."
            refuse_openai(f"Invalid '{name}': {message}", param=name, code="decimal_above_max_value")


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    kinds = {dict: "an object", list: "an array", bool: "a boolean", int: "an integer", str: "a string"}
    return kinds.get(type(value), "a decimal")

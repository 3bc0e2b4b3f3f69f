"""Reads what was recorded of a run of an agent into the forms of ``support.vector_forms``.

Only what is recorded of a vector is among its facts. Words that the recorded program composes are not, see V2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from support.vector_agents import outputs_first, read_offered, read_result
from support.vector_forms import ERRORED, FEEDBACK, Form, reason_lines
from support.vector_notation import read_value
from support.vector_rubric import recorded_reason

Facts = dict[str, Any]

NOT_COMPARED = {
    "run_outlived_the_scorer",
    "on_abort_keys",
    "on_error",  # the error that is raised
    "text_error",
    "finish_reason_error",
}
"""What is recorded and has nothing of ours to be compared with."""


def recorded_facts(vector: Facts) -> Facts:
    """Return what was recorded, as it is compared."""
    given, expect = vector["given"], vector["expect"]
    reader = _Reader(given)
    facts: Facts = {"error": None}
    for key, value in expect.items():
        if key in _READERS:
            facts |= _READERS[key](reader, value)
    return facts


def unread(vector: Facts) -> list[str]:
    """Return what is recorded of a vector and not compared."""
    return sorted(set(vector["expect"]) - set(_READERS) - NOT_COMPARED)


class _Reader:
    def __init__(self, given: Facts) -> None:
        self.tools = [tool["name"] for tool in given.get("tools", ())]
        self.functions = [s["id"] for s in given.get("scorers", ()) if "script" in s]
        self.rubrics = {s["id"] for s in given.get("scorers", ()) if "judge_turns" in s}

    def events(self, chunks: list[Facts]) -> Facts:
        events = outputs_first([_event(chunk) for chunk in chunks])
        return {"types": [event[0] for event in events], "events": events}

    def types(self, types: list[str]) -> Facts:
        return {"types": outputs_first(types)}

    def tool_chunks(self, chunks: list[Facts]) -> Facts:
        return {"tool_chunks": [_tool_chunk(chunk) for chunk in chunks]}

    def checks(self, checks: list[Facts]) -> Facts:
        return {"checks": [self._check(check) for check in checks]}

    def _check(self, check: Facts) -> Facts:
        plain = ("iteration", "passed", "timed_out", "max_iteration_reached", "suppress_feedback")
        return {
            **{name: check[name] for name in plain},
            "results": [self._result(r) for r in check["results"]],
            "reason": self._overall(check.get("reason"), check["results"]),
        }

    def on_complete(self, calls: list[Facts]) -> Facts:
        return {
            "on_complete": [
                {
                    "complete": call["complete"],
                    "completion_reason": self._overall(call.get("completion_reason"), call["scorers"]),
                    "timed_out": call["timed_out"],
                    "scorers": [self._result(r) for r in call["scorers"]],
                }
                for call in calls
            ]
        }

    def _result(self, result: Facts) -> Facts:
        form = {name: result[name] for name in ("scorer_id", "scorer_name")}
        if result.get("errored"):
            return {**form, "status": "errored"}
        status = "passed" if result["passed"] else "failed"
        return {**form, "status": status, "score": read_value(result["score"]), "reason": self._reason(result)}

    def _reason(self, result: Facts) -> Any:
        if result.get("errored"):
            return ERRORED
        reason = read_value(result.get("reason"))
        return recorded_reason(reason) if reason and result["scorer_id"] in self.rubrics else reason

    def _overall(self, reason: Any, results: list[Facts]) -> Any:
        return next((self._reason(r) for r in results if r.get("reason") == reason), read_value(reason))

    def messages(self, messages: list[Facts]) -> Facts:
        return {"messages": [form for message in messages for form in _message(message)]}

    def prompts(self, prompts: list[list[Facts]]) -> Facts:
        return {"prompts": [self._prompt(prompt) for prompt in prompts]}

    def last_prompt(self, prompt: list[Facts]) -> Facts:
        return {"last_prompt": self._prompt(prompt)}

    def _prompt(self, prompt: list[Facts]) -> list[Form]:
        forms: list[Form] = []
        for message in prompt:
            if message.get("text"):
                forms.append(_text(message["role"], message["text"]))
            forms += [("assistant", "call", call["name"], call["args"]) for call in message.get("tool_calls", ())]
            for result in message.get("tool_results", ()):
                output = result["output"]
                is_error = output["type"].startswith("error")
                said = "named" if is_error else read_value(output.get("value"))
                forms.append(("tool", "error" if is_error else "result", result["name"], said))
        return forms

    def sub_agent_prompts(self, prompts: dict[str, list[list[Facts]]]) -> Facts:
        return {"sub_agent_prompts": {id: self.prompts(sent)["prompts"] for id, sent in prompts.items()}}

    def tools_offered(self, tools: list[Facts]) -> Facts:
        return {"tools_offered": read_offered(tools)}

    def scorer_contexts(self, contexts: list[Facts]) -> Facts:
        added = ("tool_calls", "tool_results", "agent_id", "agent_name")
        by_scorer: dict[str, list[Facts]] = {id: [] for id in self.functions}
        for context in contexts:
            by_scorer[context["scorer"]].append(
                {
                    "iteration": context["iteration"],
                    "max_steps": read_value(context["max_iterations"]),
                    "task": context["original_task"],
                    "output": context["output"],
                    "request_context": {k: v for k, v in context["request_context"].items() if k not in added},
                    "tool_calls": context["request_context"]["tool_calls"],
                }
            )
        return {"scorer_contexts": by_scorer}

    def sent_to_judge(self, sent: dict[str, list[Facts]]) -> Facts:
        return {"sent_to_judge": {id: [_asked(each) for each in asked] for id, asked in sent.items()}}

    def processor_calls(self, calls: list[Facts]) -> Facts:
        return {"processor_calls": [(call["processor"], call["retry_count"]) for call in calls]}

    def finish_reason(self, reason: str) -> Facts:
        return {"finish_reason": reason.replace("-", "_")}

    def on_finish(self, call: Facts | None) -> Facts:
        return {"on_finish": call and {"text": call["text"], **self.finish_reason(call["finish_reason"])}}

    def usage(self, usage: Facts) -> Facts:
        names = ("input_tokens", "output_tokens", "total_tokens")
        return {"usage": {name: usage.get(name, 0) for name in names}}

    def error(self, error: Facts | None) -> Facts:
        return {"error": error and {"status": error.get("status")}}


def _event(chunk: Facts) -> Form:
    match chunk:
        case {"type": "text-delta" | "reasoning-delta" as kind}:
            return kind, chunk["text"]
        case {"type": "tool-call" as kind}:
            return kind, chunk["tool_call_id"], chunk["tool_name"], chunk["args"]
        case {"type": "tool-result" as kind}:
            result = read_result(read_value(chunk.get("result")))
            return kind, chunk["tool_call_id"], chunk["tool_name"], chunk["args"], result
        case {"type": "tool-error" as kind}:
            return kind, chunk["tool_call_id"], chunk["tool_name"], chunk["args"], "named"
        case _:
            return (chunk["type"],)


def _tool_chunk(chunk: Facts) -> Form:
    result = read_result(read_value(chunk.get("result")))
    said = {"tool-call": chunk.get("args"), "tool-result": result, "tool-error": "named"}
    return chunk["type"], chunk["tool_name"], said[chunk["type"]]


def _message(message: Facts) -> Iterable[Form]:
    """Return what a recorded message holds; the results of its calls stand after them, as in a prompt."""
    results: list[Form] = []
    for part in message["parts"]:
        if part["type"] == "tool-invocation":
            yield (message["role"], "call", part["name"], part["args"])
            results += [] if part["state"] == "call" else [("tool", "result", part["name"])]
            continue
        yield from results
        results = []
        if part["type"] == "text":
            yield _text(message["role"], part["text"])
        elif part["type"] != "step-start":
            yield (message["role"], part["type"])
    yield from results


def _text(role: str, text: str) -> Form:
    if not text.startswith("#### Completion Check Results"):
        return role, "text", text
    reasons = text.rpartition("\n\n")[0].partition("Reason: ")[2]
    return role, FEEDBACK, reason_lines(reasons)


def _asked(sent: Facts) -> Facts:
    criteria = [(criterion["text"], criterion["required"]) for criterion in sent["criteria"]]
    return {"criteria_sent": criteria, "task_sent": sent["task"], "output_sent": sent["output"]}


def _plain(name: str) -> Callable[[_Reader, Any], Facts]:
    return lambda _, value: {name: value}


_READERS: dict[str, Callable[[_Reader, Any], Facts]] = {
    "chunks": _Reader.events,
    "chunk_types": _Reader.types,
    "tool_chunks": _Reader.tool_chunks,
    "checks": _Reader.checks,
    "on_complete": _Reader.on_complete,
    "messages": _Reader.messages,
    "prompts": _Reader.prompts,
    "last_prompt": _Reader.last_prompt,
    "sub_agent_prompts": _Reader.sub_agent_prompts,
    "tools_offered": _Reader.tools_offered,
    "scorer_contexts": _Reader.scorer_contexts,
    "sent_to_judge": _Reader.sent_to_judge,
    "processor_calls": _Reader.processor_calls,
    "finish_reason": _Reader.finish_reason,
    "on_finish": _Reader.on_finish,
    "total_usage": _Reader.usage,
    "error": _Reader.error,
    "full_output_error": _Reader.error,
    "waits_over_400_ms": _plain("waits"),
    "sub_agent_calls": _plain("sub_agent_calls"),
    **{name: _plain(name) for name in ("final_text", "steps", "step_texts", "model_calls", "scorer_calls")},
}

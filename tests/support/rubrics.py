"""Replies of a rubric's judge, and judges from the field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mastra_py import Agent, Judge, RubricCriterion, StreamErrorRetryProcessor, create_rubric_scorer
from mastra_py.models.openai_chat import OpenAIChatModel
from mastra_py.testing import FunctionModel, ScriptedModel
from support.http_server import WIRE, HTTPServer, Reply, Script
from support.vector_notation import refuse_unknown

Facts = dict[str, Any]


def said(own_id: Any, satisfied: Any, reasoning: Any = "because", **more: Any) -> Facts:
    """Return one verdict in a judge's reply."""
    return {"id": own_id, "reasoning": reasoning, "satisfied": satisfied, **more}


def reply(*verdicts: Any, **more: Any) -> str:
    """Return a judge's reply with these verdicts."""
    return json.dumps({"criteria": list(verdicts), "overall_assessment": "All in all.", **more})


def all_of(verdicts: Mapping[str, bool]) -> str:
    """Return a judge's reply that gives each criterion its verdict."""
    return reply(*[said(own_id, satisfied, f"why {own_id}") for own_id, satisfied in verdicts.items()])


RUBRIC = [RubricCriterion("Has an analysis", id="analysis"), RubricCriterion("Cites", required=False, id="cites")]
GOOD = all_of({"analysis": True, "cites": True})
BAD = all_of({"analysis": False, "cites": True})


def prompt_of(judge: ScriptedModel | FunctionModel, call: int = 0) -> str:
    """Return the prompt that the judge was given."""
    return judge.requests[call].messages[0].text


ABOUT_THE_JUDGE = (
    *("score", "passed", "unmet_required", "scorer_error"),
    *("judge_requests", "max_judge_requests", "agent_requests", "preprocess_calls"),
)


async def play_wire_case(name: str) -> tuple[Facts, Facts]:
    """Play a judge's replies of the folder ``wire``; return what is expected and what came of them."""
    case = json.loads((WIRE / f"{name}.json").read_text(encoding="utf-8"))
    refuse_unknown("expect", case["expect"], ABOUT_THE_JUDGE)
    counted: list[object] = []
    async with (
        HTTPServer(*_replies(case)) as judge_server,
        HTTPServer(_stream(WIRE / "_final-openai-chat.sse")) as agent_server,
    ):
        judge = Judge(
            model=OpenAIChatModel("judge", base_url=judge_server.base_url),
            error_processors=[_processor(spec) for spec in case.get("processors", ())],
        )
        scorer = create_rubric_scorer(criteria=[RubricCriterion(**c) for c in case["rubric"]], judge=judge)
        agent = Agent(id="writer", model=OpenAIChatModel("writer", base_url=agent_server.base_url))
        checked = scorer.preprocess(counted.append)
        result = await agent.generate("Write it", is_task_complete=checked, max_steps=1)
    assert result.completion is not None
    (entry,) = result.completion.results
    criteria = entry.result.criteria if entry.result else ()
    came = {
        "score": entry.score,
        "passed": entry.passed,
        "unmet_required": [c.description for c in criteria if c.required and not c.satisfied],
        "scorer_error": result.stop_reason == "scorer_error",
        "judge_requests": len(judge_server.requests),
        "max_judge_requests": max(len(judge_server.requests), case["expect"].get("max_judge_requests", 0)),
        "agent_requests": len(agent_server.requests),
        "preprocess_calls": len(counted),
    }
    return case["expect"], {key: came[key] for key in case["expect"]}


def _replies(case: Facts) -> list[Script]:
    first = Reply((WIRE / case["body"]).read_bytes(), status=case["status"], headers=case["headers"])
    return [first, *[_stream(WIRE / name) for name in case.get("next", ())]]


def _stream(path: Path) -> Reply:
    return Reply(path.read_bytes(), headers={"content-type": "text/event-stream"})


def _processor(spec: Facts) -> StreamErrorRetryProcessor:
    refuse_unknown("a processor", spec, ("type", "on", "max_retries", "max_retry_after"))
    assert (spec["type"], spec["on"]) == ("StreamErrorRetryProcessor", "judge")
    return StreamErrorRetryProcessor(**{key: spec[key] for key in spec if key not in {"type", "on"}})

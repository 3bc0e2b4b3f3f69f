# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""What type checkers know of rubrics. Never run: an ignore marks a line that pyright and mypy must find wrong."""

from __future__ import annotations

from typing import Any, assert_type

from mastra_py import Agent, CriterionVerdict, Judge, RubricCriterion, create_rubric_scorer, parse_rubric
from mastra_py.scorers import RubricVerdict, StepScorer

scorer = create_rubric_scorer("openai/gpt-5-mini", [RubricCriterion("a"), {"description": "b", "required": False}, "c"])
assert_type(scorer, StepScorer[Any, Any, None, RubricVerdict])
assert_type(parse_rubric("- a"), tuple[RubricCriterion, ...])

create_rubric_scorer("openai/gpt-5-mini", (RubricCriterion("a", required=False, id="x"),), scale=10)
create_rubric_scorer(criteria="- a\n- b", judge=Judge(model="openai/gpt-5-mini", instructions="Be strict."))
create_rubric_scorer(judge=Agent(id="critic", model="openai/gpt-5-mini"))
create_rubric_scorer("openai/gpt-5-mini", 7)  # type: ignore[arg-type]
create_rubric_scorer("openai/gpt-5-mini", scale="1")  # type: ignore[arg-type]
create_rubric_scorer("openai/gpt-5-mini", strict=True)  # type: ignore[call-arg]

with_words = scorer.preprocess(lambda ctx: 3).generate_reason(lambda ctx: ctx.results.analyze.assessment)
assert_type(with_words, StepScorer[Any, Any, int, RubricVerdict])


async def unmet(agent: Agent) -> tuple[CriterionVerdict, ...]:
    await agent.generate("go", is_task_complete=scorer)
    result = await scorer.run(input="a task", output="an answer", request_context={"rubric": "- a"})
    return tuple(c for c in result.criteria if not c.satisfied)

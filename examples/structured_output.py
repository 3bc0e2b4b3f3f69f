"""Get the answer in a type: validated, asked for once more if need be, and read while it comes.

Run it:

    python examples/structured_output.py
    MASTRA_EXAMPLE_MODEL=openai/gpt-5-mini python examples/structured_output.py
"""

import os
from typing import Any

import anyio
from pydantic import BaseModel, Field, TypeAdapter

from mastra_py import Agent, OutputValidationError, ScorerRun
from mastra_py.testing import ScriptedModel, Turn

REAL_MODEL = os.environ.get("MASTRA_EXAMPLE_MODEL")


class Recipe(BaseModel):
    """A dish, as the rest of the program wants it."""

    name: str
    minutes: int = Field(ge=1, le=240)
    ingredients: list[str]


SOUP = '{"name": "Barley soup", "minutes": 40, "ingredients": ["barley", "carrots", "leek"]}'


def cook(*turns: str | Turn) -> Agent:
    """Return an agent; without a real model it answers by script."""
    return Agent(id="cook", instructions="You know simple dishes.", model=REAL_MODEL or ScriptedModel(turns))


async def a_validated_answer() -> None:
    """``result.output`` is of the type asked for. A reply that does not fit is asked for once more, in its step."""
    hasty = '{"name": "Barley soup", "minutes": 0, "ingredients": []}'  # no dish takes 0 minutes
    try:
        result = await cook(hasty, f"Sorry:\n```json\n{SOUP}\n```").generate("A soup", output=Recipe)
    except OutputValidationError as error:  # the second reply did not fit either; no half-right value comes back
        print(f"{error}\n   it was: {error.text[:40]}")
        assert REAL_MODEL
        return
    recipe = result.output
    print(f"{recipe.name}, {recipe.minutes} minutes: {', '.join(recipe.ingredients)}")
    assert REAL_MODEL or (recipe.minutes == 40 and result.steps[0].attempts == 2)


async def while_it_comes() -> None:
    """``partial_outputs()`` yields plain values that grow, not yet validated: enough to fill a page while it comes."""
    seen: list[Any] = []
    async with cook(Turn(text_chunks=[SOUP[:30], SOUP[30:50], SOUP[50:]])).stream("A soup", output=Recipe) as stream:
        try:
            async for value in stream.partial_outputs():
                seen.append(value)
                print(f"   {value}")
            result = await stream.result()
        except OutputValidationError:
            assert REAL_MODEL
            return
    assert REAL_MODEL or (seen[0] == {"name": "Barley soup"} and seen[-1] == result.output.model_dump())


async def other_types() -> None:
    """Lists, numbers, dataclasses and JSON Schemas do, too; for the model a list stands under a key of an object."""
    dishes = TypeAdapter(list[str])
    schema = {"type": "object", "properties": {"minutes": {"type": "integer"}}, "required": ["minutes"]}
    try:
        names = (await cook('{"result": ["Barley soup", "Leek pie"]}').generate("Two dishes", output=dishes)).output
        taken = (await cook('{"minutes": 40}').generate("How long does barley soup take?", output=schema)).output
    except OutputValidationError:
        assert REAL_MODEL
        return
    print(names, taken)
    assert REAL_MODEL or (names, taken) == (["Barley soup", "Leek pie"], {"minutes": 40})


def is_quick(run: ScorerRun) -> bool:
    """Judge the validated value; it is never an answer that did not fit."""
    recipe: Recipe = run.input.value
    return recipe.minutes <= 30


async def judged() -> None:
    """In the gate, scorers find the value in ``run.input.value``."""
    salad = '{"name": "Leek salad", "minutes": 15, "ingredients": ["leek", "oil"]}'
    try:
        result = await cook(SOUP, salad).generate("Something quick", output=Recipe, is_task_complete=is_quick)
    except OutputValidationError:
        assert REAL_MODEL
        return
    print(f"{result.stop_reason}: {result.output.name}")
    assert REAL_MODEL or (result.stop_reason, result.output.name) == ("complete", "Leek salad")


async def main() -> None:
    """Ask for types."""
    await a_validated_answer()
    await while_it_comes()
    await other_types()
    await judged()


if __name__ == "__main__":
    anyio.run(main)

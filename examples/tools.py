"""Give an agent tools: an async and a plain function, the caller's own context, and a fault that the model mends.

Run it:

    python examples/tools.py
    MASTRA_EXAMPLE_MODEL=openai/gpt-5-mini python examples/tools.py
"""

import os

import anyio

from mastra_py import Agent, ToolContext, ToolError, tool
from mastra_py.events import ToolFailed, ToolResult
from mastra_py.models import ModelRequest
from mastra_py.testing import FunctionModel, Turn

REAL_MODEL = os.environ.get("MASTRA_EXAMPLE_MODEL")
PRICES = {"TEA-10": 4.5, "TEA-50": 17.0}
STOCK = {"Oslo": {"TEA-10": 3}, "Rome": {"TEA-10": 0}}


def price(sku: str) -> float:
    """Tell the price of an article in euros.

    Args:
        sku: the article's number, such as "ABC-12".
    """
    if sku not in PRICES:
        msg = f"there is no article {sku!r}; there are {', '.join(PRICES)}"
        raise ToolError(msg)  # these words are what the model reads
    return PRICES[sku]


@tool(name="stock", timeout=5)
async def count_stock(sku: str, ctx: ToolContext) -> dict[str, int | str]:
    """Tell how many pieces of an article are in the customer's shop."""
    city = ctx.request_context["city"]  # from the caller; the model neither sees nor chooses it
    return {"city": city, "pieces": STOCK[city].get(sku, 0)}


def shopkeeper(request: ModelRequest) -> Turn | str:
    """Stand in for a model: guess the number, read the error, ask again with the right one."""
    last = request.messages[-1].tool_results
    if not last:
        return Turn(tool_calls=[("1", "price", {"sku": "tea10"})])
    if last[0].is_error:
        sku = last[0].result.rpartition("there are ")[2].split(", ")[0]
        return Turn(tool_calls=[("2", "price", {"sku": sku}), ("3", "stock", {"sku": sku})])
    return f"It is {last[0].result:.2f} euros, and {last[1].result['city']} has {last[1].result['pieces']} of it."


async def main() -> None:
    """Ask for a price and a stock, and watch the tools at work."""
    agent = Agent(
        id="shopkeeper",
        instructions="Answer from the tools. Articles are named like TEA-10, for ten bags of tea.",
        model=REAL_MODEL or FunctionModel(shopkeeper),
        tools=[price, count_stock],  # plain functions are tools too
    )
    async with agent.stream("What are ten bags of tea, and are there any?", request_context={"city": "Oslo"}) as stream:
        async for event in stream:
            match event:
                case ToolResult(tool_name=name, args=args, result=value):
                    print(f"{name}({args}) = {value}")
                case ToolFailed(tool_name=name, args=args, error=error):
                    print(f"{name}({args}) failed: {error}")
                case _:
                    pass
        result = await stream.result()
    print(result.text)
    assert result.stop_reason == "answered"
    if REAL_MODEL is None:
        outcomes = [(r.tool_name, r.is_error) for step in result.steps for r in step.tool_results]
        assert outcomes == [("price", True), ("price", False), ("stock", False)]
        assert result.text == "It is 4.50 euros, and Oslo has 3 of it."


if __name__ == "__main__":
    anyio.run(main)

"""Make failed model calls again: which failures, how often, and after how long.

Run it:

    python examples/retry_processor.py
    MASTRA_EXAMPLE_MODEL=openai/gpt-5-mini python examples/retry_processor.py

No provider fails on demand, so the failures are scripted: a real model is asked in the first story only, and shows a
retry only if it needs one.
"""

import os

import anyio
from tenacity import wait_random_exponential

from mastra_py import Agent, ApiErrorContext, AuthError, RetryMatcher, ServerError, StreamErrorRetryProcessor
from mastra_py.events import RetryScheduled
from mastra_py.testing import ScriptedModel, Turn, api_error

REAL_MODEL = os.environ.get("MASTRA_EXAMPLE_MODEL")


async def busy_provider() -> None:
    """A rate limit passes. The wait is the longer one of our delay and what the provider asks for, up to a limit."""
    wait = wait_random_exponential(multiplier=0.01, max=0.02)  # any wait of tenacity's
    processor = StreamErrorRetryProcessor(max_retries=3, delay=wait, max_retry_after=30.0)
    busy = Turn(error=api_error(429, headers={"retry-after-ms": "50"}, message="too many requests"))
    agent = Agent(id="patient", model=REAL_MODEL or ScriptedModel([busy, "Hello."]), error_processors=[processor])
    delays: list[float] = []
    async with agent.stream("Say hello") as stream:
        async for event in stream:
            if isinstance(event, RetryScheduled):
                print(f"attempt {event.attempt} failed, {event.error}; the next one in {event.delay} s")
                delays.append(event.delay)
        result = await stream.result()
    assert result.stop_reason == "answered"
    assert REAL_MODEL or (delays == [0.05] and result.steps[0].attempts == 2)


async def warming_up() -> None:
    """A matcher names a failure that would be final otherwise, with a limit and a delay of its own."""
    waited: list[float] = []

    def longer_each_time(ctx: ApiErrorContext) -> float:
        return 0.01 * 2**ctx.retry_count

    loads = RetryMatcher(
        lambda error: "still loading" in str(error),
        max_retries=5,
        delay=longer_each_time,
        on_retry=lambda _ctx, delay: waited.append(delay),
    )
    cold = Turn(error=api_error(400, message="the model is still loading"))
    with ScriptedModel([cold, cold, "Hello."]) as model:
        agent = Agent(id="patient", model=model, error_processors=[StreamErrorRetryProcessor(matchers=[loads])])
        assert (await agent.generate("Say hello")).text == "Hello."
    assert waited == [0.01, 0.02]


async def fails_for_good(status: int, *, calls: int) -> None:
    """Some failures do not pass; then a run makes no attempt more than it has to, and raises the last one's error."""
    model = ScriptedModel([Turn(error=api_error(status, message="sorry"))], repeat_last=True)
    processors = [StreamErrorRetryProcessor(max_retries=5)]
    agent = Agent(id="patient", model=model, error_processors=processors, max_processor_retries=1)
    try:
        await agent.generate("Say hello")
    except (AuthError, ServerError) as error:
        print(f"given up after attempt {model.calls}: {error}")
    assert model.calls == calls


async def main() -> None:
    """Show what is retried, and what is not."""
    await busy_provider()
    await warming_up()
    await fails_for_good(401, calls=1)  # a wrong key stays wrong
    await fails_for_good(503, calls=2)  # max_processor_retries=1 caps what all processors together may add


if __name__ == "__main__":
    anyio.run(main)

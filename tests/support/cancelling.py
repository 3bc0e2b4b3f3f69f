"""A native cancellation of asyncio, and something that loses it while it cleans up."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, NoReturn

import anyio
import pytest


class Stubborn:
    """Waits for ever, and raises an error of its own when it is cancelled."""

    def __init__(self) -> None:
        self.started = anyio.Event()

    async def wait(self, *_: object) -> NoReturn:
        self.started.set()
        try:
            await anyio.sleep_forever()
        finally:
            raise ConnectionResetError("cleanup")


async def is_not_swallowed(running: Coroutine[Any, Any, object], stubborn: Stubborn) -> None:
    """Cancel ``running`` where it waits. That is said only once, so what has taken its place has to come out."""
    task = asyncio.create_task(running)
    with anyio.fail_after(5):
        await stubborn.started.wait()
        task.cancel()
        with pytest.raises(ConnectionResetError):
            await task

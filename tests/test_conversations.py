"""Random conversations with strict servers: no request is ever refused, and no tool call is lost or runs twice.

They go through the public API over real connections: random replies of all three APIs, tools that fail and return what
cannot be sent, failures of providers, cancels, histories changed by hand, and other models in between. A failure prints
the steps that lead to it.

``MASTRA_PY_CONVERSATIONS`` in the environment sets how many conversations are tried. A failure is then also made as
short as it gets, which takes minutes: give pytest ``-o faulthandler_timeout=0``.
"""

from __future__ import annotations

import os
from typing import ClassVar

import anyio.from_thread
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from strict_servers.strategies import EDITS, edited, plans
from strict_servers.world import Plan, World

WANTED = os.environ.get("MASTRA_PY_CONVERSATIONS")
CONVERSATIONS = int(WANTED or 15)
PHASES = tuple(phase for phase in Phase if WANTED or phase not in {Phase.shrink, Phase.explain})
STEPS = 10


class Conversation(RuleBasedStateMachine):
    """One conversation. The event loop runs in a thread beside, from the first step to the last."""

    backend: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self._portal_context = anyio.from_thread.start_blocking_portal(self.backend)
        self._portal = self._portal_context.__enter__()
        self._world = World()
        self._world_context = self._portal.wrap_async_context_manager(self._world)
        self._world_context.__enter__()

    def teardown(self) -> None:
        try:
            self._world_context.__exit__(None, None, None)
        finally:
            self._portal_context.__exit__(None, None, None)

    @rule(plan=plans())
    def talk(self, plan: Plan) -> None:
        self._portal.call(self._world.run, plan)

    @rule(plan=plans(failing=True))
    def talk_through_failures(self, plan: Plan) -> None:
        self._portal.call(self._world.run, plan)

    @precondition(lambda self: self._world.messages)
    @rule(edit=st.sampled_from(sorted(EDITS)), where=st.integers(0, 9))
    def edit(self, edit: str, where: int) -> None:
        self._world.messages = edited(self._world.messages, edit, where)


class OnAsyncio(Conversation):
    backend = "asyncio"


class OnTrio(Conversation):
    backend = "trio"


@pytest.mark.parametrize("conversation", [OnAsyncio, OnTrio])
def test_no_request_is_refused_and_no_call_is_lost_or_runs_twice(conversation: type[Conversation]) -> None:
    run_state_machine_as_test(
        conversation,
        settings=settings(
            max_examples=CONVERSATIONS,
            stateful_step_count=STEPS,
            deadline=None,
            phases=PHASES,
            derandomize=bool(os.environ.get("CI")),
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
        ),
    )

"""What a run has spent, and by whom; and whether it may spend more.

Runs are nested: a judge works for a run, and so does a sub-agent. Whatever one of them spends is entered at once in
its own ledger and in that of whoever pays for it, so that sums are right at any time, however a run ends. A budget
holds for all that is entered in its ledger.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

import anyio

from mastra_py._loop.budget import Budget
from mastra_py.errors import BudgetError
from mastra_py.messages import Usage, total_usage
from mastra_py.usage import ModelKey, RunUsage, call_price


class Ledger:
    """Adds up the usage of a run's model calls under the key of who made them; ``requests`` counts what was sent.

    Attributes:
        requests: model calls sent.
        refused: the limit that was found to be reached, of its own budget or of one that pays for it; ``None`` as
            long as none was.
    """

    __slots__ = ("_budget", "_by", "_calls", "_cost", "_deadline", "_payer", "refused", "requests")

    def __init__(self, budget: Budget | None = None) -> None:
        """Begin a ledger; whoever this context works for pays for what is entered."""
        self._by: dict[str, Usage] = {}
        self._calls: dict[ModelKey, list[Usage]] = {}
        self._payer = CURRENT.get()
        self._budget = budget
        self._cost = 0.0  # kept only where a budget limits it
        self._deadline: float | None = None
        self.requests = 0
        self.refused: str | None = None

    def start(self) -> None:
        """The run begins: the time of its budget is running."""
        if self._budget is not None and self._budget.deadline is not None:
            self._deadline = anyio.current_time() + self._budget.deadline

    @property
    def deadline(self) -> float | None:
        """When the run has to be over, on the event loop's clock; that of its own budget alone."""
        return self._deadline

    def ask(self, model: ModelKey) -> None:
        """Ask whether a request to ``model`` may be sent.

        Raises:
            BudgetError: a budget of this run, or of one that it works for, is used up.
            UserError: a budget limits the cost, and what the model costs is not known.
        """
        self.require_price(model)
        limit = self.limit()
        if limit is not None:
            msg = f"the budget is used up: {limit}"
            raise BudgetError(msg, limit=limit)

    def require_price(self, model: ModelKey) -> None:
        """Check that what ``model`` costs is known, where a budget limits the cost.

        Raises:
            UserError: it is not.
        """
        if self._budget is not None:
            self._budget.require_price(model)
        if self._payer is not None:
            self._payer.ledger.require_price(model)

    def sent(self, requests: int = 1) -> None:
        """Count requests that were sent."""
        self.requests += requests
        if self._payer is not None:
            self._payer.ledger.sent(requests)

    def limit(self) -> str | None:
        """Return the limit that leaves nothing for another request, if there is one; ``refused`` remembers it.

        A limit of who pays ends both runs, and so both remember it.
        """
        limit = self._own_limit()
        if limit is None and self._payer is not None:
            limit = self._payer.ledger.limit()
        if limit is not None:
            self.refused = limit
        return limit

    def refuse(self, limit: str) -> None:
        """Remember that the run has ended for ``limit``, whether or not a request was asked for."""
        self.refused = limit

    def add(self, key: str, usage: Usage, model: ModelKey) -> None:
        """Add what one model call reported."""
        if not (usage.input_tokens or usage.output_tokens):
            return
        self._by[key] = self._by.get(key, Usage()) + usage
        self._calls.setdefault(model, []).append(usage)
        if self._budget is not None and self._budget.max_cost is not None:
            # The price is known: ask() has required it before the request was sent.
            self._cost += call_price(model, usage, self._budget.prices) or 0.0
        if self._payer is not None:
            self._payer.ledger.add(self._payer.key_of(key), usage, model)

    def total(self) -> RunUsage:
        """Return the sum so far."""
        total = total_usage(self._by.values())
        return RunUsage(
            input_tokens=total.input_tokens,
            output_tokens=total.output_tokens,
            cached_input_tokens=total.cached_input_tokens,
            reasoning_tokens=total.reasoning_tokens,
            by=dict(self._by),
            requests=self.requests,
            calls={model: tuple(usages) for model, usages in self._calls.items()},
        )

    def _own_limit(self) -> str | None:
        budget = self._budget
        if budget is None:
            return None
        if self._deadline is not None and anyio.current_time() >= self._deadline:
            return "deadline"
        return budget.reached(requests=self.requests, usage=total_usage(self._by.values()), cost=self._cost)


@dataclass(frozen=True, slots=True)
class Account:
    """Whom something pays that spends for somebody else: a ledger, and the key that it is entered under.

    Failed attempts keep their own keys, and so does all where ``key`` is ``None``: sub-agents are told apart.
    """

    ledger: Ledger
    key: str | None

    def key_of(self, key: str) -> str:
        """Return the key for what was entered under ``key``."""
        return key if self.key is None or key.startswith("failed:") else self.key


CURRENT: ContextVar[Account | None] = ContextVar("mastra_py_account", default=None)
"""Set while tools, scorers and judges are at work, so that what they spend is counted in the run they work for."""

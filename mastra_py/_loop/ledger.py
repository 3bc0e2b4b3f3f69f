"""What a run has spent, and by whom."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from mastra_py.messages import RunUsage, Usage, total_usage


class Ledger:
    """Adds up the usage of a run's model calls under the key of who made them; ``requests`` counts what was sent."""

    __slots__ = ("_by", "requests")

    def __init__(self) -> None:
        self._by: dict[str, Usage] = {}
        self.requests = 0

    def add(self, key: str, usage: Usage) -> None:
        """Add what one model call reported."""
        if usage.input_tokens or usage.output_tokens:
            spent = Usage() + usage
            seen = self._by.get(key)
            self._by[key] = spent if seen is None else seen + spent

    def absorb(self, other: Ledger, key: str) -> None:
        """Add all that ``other`` holds: failed attempts under their own keys, the rest under ``key``."""
        self.requests += other.requests
        for owner, usage in other._by.items():
            self.add(owner if owner.startswith("failed:") else key, usage)

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
        )


@dataclass(frozen=True, slots=True)
class Account:
    """Whom something pays that spends for somebody else: a ledger, and the key that it is entered under."""

    ledger: Ledger
    key: str


CURRENT: ContextVar[Account | None] = ContextVar("mastra_py_account", default=None)
"""Set while scorers and judges are at work, so that what they spend is counted in the run that they judge."""


def charge(spent: Ledger) -> None:
    """Enter what was spent in the account of whoever it was spent for, if anybody."""
    account = CURRENT.get()
    if account is not None:
        account.ledger.absorb(spent, account.key)

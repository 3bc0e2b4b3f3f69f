"""What a run has spent, and by whom."""

from __future__ import annotations

from mastra_py.messages import RunUsage, Usage, total_usage


class Ledger:
    """Adds up the usage of a run's model calls under the key of who made them."""

    __slots__ = ("_by", "requests")

    def __init__(self) -> None:
        self._by: dict[str, Usage] = {}
        self.requests = 0

    def add(self, key: str, usage: Usage) -> None:
        """Add what one model call reported."""
        if usage.input_tokens or usage.output_tokens:
            seen = self._by.get(key)
            self._by[key] = usage if seen is None else seen + usage

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

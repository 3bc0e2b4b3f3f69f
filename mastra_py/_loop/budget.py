"""What a run may spend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mastra_py._checks import is_number, whole_number
from mastra_py.errors import UserError
from mastra_py.messages import Usage
from mastra_py.usage import ModelKey, Price, check_prices, known_price

_ROUNDED_UP = 1 + 1e-9
"""Ten times 0.1 USD make 1 USD, though not quite so as floats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits of a whole run: its steps, retries and re-asks, its judges, and its sub-agents.

    They are checked before each request, so that what is under way when a limit of tokens or cost is reached still
    counts; requests are counted exactly. At the ``deadline`` the run is ended wherever it is. A run that reaches a
    limit ends with ``stop_reason="budget"`` and keeps its answer so far. A sub-agent works from what is left, and may
    have a smaller budget of its own, which ends it alone.

    Attributes:
        max_requests: model calls, failed ones among them.
        max_input_tokens: tokens sent, cached ones among them.
        max_output_tokens: tokens received.
        max_cost: USD. What every model costs has to be known, from the extra ``mastra_py[prices]`` or ``prices``.
        deadline: seconds from the begin of the run. What the reader of a stream takes counts.
        prices: by ``"provider/model"``, over the known ones.

    Example: ``agent.generate("...", budget=Budget(max_requests=20, deadline=60.0))``
    """

    max_requests: int | None = None
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    max_cost: float | None = None
    deadline: float | None = None
    prices: Mapping[str, Price] = field(default_factory=dict[str, Price])

    def __post_init__(self) -> None:
        for name in ("max_requests", "max_input_tokens", "max_output_tokens"):
            value: object = getattr(self, name)
            if value is not None:
                whole_number(value, f"Budget {name}", least=1)
        for name in ("max_cost", "deadline"):
            value = getattr(self, name)
            if value is not None and not (is_number(value) and value > 0):
                msg = f"Budget {name} must be a finite number above 0, got {value!r}"
                raise UserError(msg)
        check_prices(self.prices, "Budget prices")

    def reached(self, *, requests: int, usage: Usage, cost: float) -> str | None:
        """Return the name of a limit that is reached by what was spent."""
        spent = {
            "max_requests": requests,
            "max_input_tokens": usage.input_tokens,
            "max_output_tokens": usage.output_tokens,
            "max_cost": cost * _ROUNDED_UP,
        }
        for name, value in spent.items():
            limit: float | None = getattr(self, name)
            if limit is not None and value >= limit:
                return name
        return None

    def require_price(self, model: ModelKey) -> None:
        """Check that what ``model`` costs is known, where the cost is limited.

        Raises:
            UserError: it is not.
        """
        if self.max_cost is None or known_price(model, self.prices):
            return
        name = "/".join(model)
        msg = (
            f"max_cost cannot be kept: what {name} costs is not known. Install mastra_py[prices], give it in "
            f"Budget(prices={{{name!r}: Price(input=..., output=...)}}), or limit tokens or requests instead"
        )
        raise UserError(msg)


def read_budget(budget: object, where: str) -> Budget:
    """Return ``budget``; anything else than a :class:`Budget` is a :class:`UserError`."""
    if not isinstance(budget, Budget):
        msg = f"{where} must be a Budget, got {budget!r}"
        raise UserError(msg)
    return budget

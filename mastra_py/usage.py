"""What a run has spent, by whom and on which models, and what that costs.

Prices are those given, else those of ``genai-prices``, the extra ``mastra_py[prices]``. What is in neither is unknown,
and said to be: it never counts as zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias, cast

from mastra_py._checks import is_number
from mastra_py.errors import UserError
from mastra_py.messages import Usage

ModelKey: TypeAlias = tuple[str, str]
"""Provider and name of a model."""

_MILLION = 1_000_000

_IN_PROCESS = "local"
"""Provider of models in this process: nobody is paid for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a model costs, in USD for a million tokens.

    Attributes:
        input: of input.
        output: of output, reasoning among it.
        cached_input: of input from the provider's cache; as ``input`` unless given.
    """

    input: float
    output: float
    cached_input: float | None = None

    def __post_init__(self) -> None:
        for name in ("input", "output", "cached_input"):
            value: object = getattr(self, name)
            if value is None and name == "cached_input":
                continue
            if not is_number(value) or value < 0:
                msg = f"Price {name} must be a finite number from 0, USD for a million tokens, got {value!r}"
                raise UserError(msg)

    def of(self, usage: Usage) -> float:
        """Return what ``usage`` costs, in USD."""
        cached = self.input if self.cached_input is None else self.cached_input
        hit = _cached(usage)
        spent = (usage.input_tokens - hit) * self.input + hit * cached + usage.output_tokens * self.output
        return spent / _MILLION


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a run has cost, as far as it is known.

    Attributes:
        usd: USD for the models whose price is known.
        unknown: the models, as ``"provider/model"``, whose price is not: what they cost comes on top.
        uncounted: requests that reported no tokens, as those that failed or were cut off: so does what they cost.
    """

    usd: float
    unknown: tuple[str, ...] = ()
    uncounted: int = 0


@dataclass(slots=True, kw_only=True)
class RunUsage(Usage):
    """Tokens of a whole run.

    Attributes:
        by: who spent them; its values add up to the total. Keys: ``agent:<id>``, sub-agents among them,
            ``judge:<scorer id>``, and ``failed:<id>`` for attempts that failed and still reported usage.
        requests: every model call sent.
        calls: the tokens of each model call that reported any, by provider and model.
    """

    by: Mapping[str, Usage]
    requests: int = 0
    calls: Mapping[ModelKey, Sequence[Usage]] = field(default_factory=dict[ModelKey, Sequence[Usage]], repr=False)

    def cost(self, prices: Mapping[str, Price] | None = None) -> Cost:
        """Return what it costs; ``prices``, by ``"provider/model"``, go before the known ones.

        Raises:
            UserError: ``prices`` is no dict of prices by ``"provider/model"``.
        """
        given: Mapping[str, Price] = {} if prices is None else prices
        check_prices(given, "prices")
        usd = 0.0
        unknown: list[str] = []
        for model, usages in self.calls.items():
            costs = [call_price(model, usage, given) for usage in usages]
            known = [cost for cost in costs if cost is not None]
            usd += sum(known)
            if len(known) < len(costs):
                unknown.append("/".join(model))
        counted = sum(len(usages) for usages in self.calls.values())
        return Cost(usd=usd, unknown=tuple(unknown), uncounted=self.requests - counted)


def check_prices(prices: object, where: str) -> None:
    """Check that ``prices`` are a dict of prices by ``"provider/model"``; anything else is a :class:`UserError`."""
    if not isinstance(prices, Mapping) or not all(
        isinstance(model, str) and "/" in model and isinstance(price, Price)
        for model, price in cast("Mapping[object, object]", prices).items()
    ):
        msg = f"{where} must be a dict of Price objects by 'provider/model', got {prices!r}"
        raise UserError(msg)


def known_price(model: ModelKey, prices: Mapping[str, Price]) -> bool:
    """Return whether it is known what ``model`` costs."""
    return call_price(model, Usage(input_tokens=1, output_tokens=1), prices) is not None


def call_price(model: ModelKey, usage: Usage, prices: Mapping[str, Price]) -> float | None:
    """Return what one model call costs, in USD, ``None`` where it is not known.

    Of one call, as some prices go up with the length of the prompt.
    """
    price = prices.get("/".join(model))
    if price is not None:
        return price.of(usage)
    if model[0] == _IN_PROCESS:
        return 0.0
    library = _library()
    if library is None:
        return None
    provider, name = model
    spent = library.Usage(
        input_tokens=usage.input_tokens,
        cache_read_tokens=_cached(usage),
        output_tokens=usage.output_tokens,
    )
    try:
        return float(library.calc_price(spent, model_ref=name, provider_id=provider).total_price)
    except LookupError:
        return None


def _cached(usage: Usage) -> int:
    """Return the cached input tokens; some servers say that there are more of them than input tokens."""
    return min(usage.cached_input_tokens, usage.input_tokens)


@cache
def _library() -> Any:
    """Return the module ``genai_prices``, ``None`` where the extra is not installed. It takes 0.3 s to import."""
    try:
        import genai_prices
    except ModuleNotFoundError:
        return None
    return genai_prices

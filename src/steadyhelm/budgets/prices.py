"""What a model call costs, by the public price list of the genai-prices package; we keep none of our own."""

from datetime import UTC, datetime
from typing import Any, Final

from steadyhelm.budgets.amounts import units
from steadyhelm.errors import MissingExtraError

_LONGEST_NAME: Final = 200
_MOST_TOKENS: Final = 10**12
_BETWEEN: Final = ("/", ":")


def cost_usd(
    model: str,
    input_tokens: int,
    output_tokens: int,
    *,
    at: float,
    provider: str | None = None,
    cache_read_tokens: int = 0,
    cache_write_tokens: int = 0,
) -> float | None:
    """What a model call cost, None when the list does not know the model or a number makes no sense.

    Nothing is fetched: the list comes with the package, unless the host itself has asked it for a newer one.
    The first call loads the list, which takes some tenths of a second; a further one takes about a
    tenth of a millisecond.

    Args:
        model: The model's name, also with its provider in front: `gpt-4o`, `openai/gpt-4o`, `openai:gpt-4o`.
        input_tokens: All tokens sent, those read from or written to a cache among them.
        output_tokens: All tokens that came back.
        at: When the call was made, in epoch seconds: prices change.
        provider: Whose model it is, where the name alone does not say.
        cache_read_tokens: Those of the input that came from a cache.
        cache_write_tokens: Those of the input that were written to one.
    """
    try:
        import genai_prices  # noqa: PLC0415 - it belongs to an extra
    except ImportError as exc:
        raise MissingExtraError("price of a model call", extra="prices") from exc
    counts = {
        "input_tokens": units(input_tokens, 1),
        "output_tokens": units(output_tokens, 1),
        "cache_read_tokens": units(cache_read_tokens, 1),
        "cache_write_tokens": units(cache_write_tokens, 1),
    }
    moment = _moment(at)
    if moment is None or any(count is None or count > _MOST_TOKENS for count in counts.values()):
        return None
    # A count of 0 is left out: not every model has a price for a cache.
    usage = genai_prices.Usage(**{name: count for name, count in counts.items() if count})
    for named_by, name in _names(model, provider):
        try:
            found = genai_prices.calc_price(usage, name, provider_id=named_by, genai_request_timestamp=moment)
        except (LookupError, ValueError, ArithmeticError):
            continue
        return float(found.total_price)
    return None


def _moment(at: Any) -> datetime | None:
    try:
        return datetime.fromtimestamp(at, UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def _names(model: Any, provider: Any) -> list[tuple[str | None, str]]:
    """Provider and name to look for, in this order."""
    if not isinstance(model, str) or not 0 < len(model) <= _LONGEST_NAME:
        return []
    pairs: list[tuple[str | None, str]] = [(provider if isinstance(provider, str) else None, model)]
    for mark in _BETWEEN:
        before, found, after = model.partition(mark)
        if found and before and after:
            pairs.append((before, after))
    return pairs

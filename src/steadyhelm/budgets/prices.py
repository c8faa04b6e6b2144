"""The cost of a model call, by the public price list of the genai-prices package."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from steadyhelm.budgets.meters import to_units
from steadyhelm.errors import MissingExtraError

_MAX_NAME_CHARS: Final = 200
_MAX_TOKENS: Final = 10**12
_PROVIDER_SEPARATORS: Final = ("/", ":")


def look_up_cost_usd(
    model: str,
    input_tokens: int,
    output_tokens: int,
    *,
    at: float,
    provider: str | None = None,
    cache_read_tokens: int = 0,
    cache_write_tokens: int = 0,
) -> float | None:
    """Return the cost of a model call, None when the model is not in the list or a number is not usable.

    Nothing is fetched: the list comes with the package, unless the host itself has loaded a newer one.
    The first call loads the list, which takes some tenths of a second; a further one takes about a
    tenth of a millisecond.

    Args:
        model: The model's name, also with its provider in front: `gpt-4o`, `openai/gpt-4o`, `openai:gpt-4o`.
        input_tokens: All tokens sent, those read from or written to a cache among them.
        output_tokens: All tokens received.
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
        "input_tokens": to_units(input_tokens, 1),
        "output_tokens": to_units(output_tokens, 1),
        "cache_read_tokens": to_units(cache_read_tokens, 1),
        "cache_write_tokens": to_units(cache_write_tokens, 1),
    }
    moment = _to_datetime(at)
    if moment is None or any(count is None or count > _MAX_TOKENS for count in counts.values()):
        return None
    # A count of 0 is left out: not every model has a price for a cache.
    usage = genai_prices.Usage(**{name: count for name, count in counts.items() if count})
    for provider_id, name in _list_candidate_names(model, provider):
        try:
            found = genai_prices.calc_price(
                usage, name, provider_id=provider_id, genai_request_timestamp=moment
            )
        except (LookupError, ValueError, ArithmeticError):
            continue
        return float(found.total_price)
    return None


def _to_datetime(at: Any) -> datetime | None:
    try:
        return datetime.fromtimestamp(at, UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def _list_candidate_names(model: Any, provider: Any) -> list[tuple[str | None, str]]:
    """Return the pairs of provider and name to look for, in order."""
    if not isinstance(model, str) or not 0 < len(model) <= _MAX_NAME_CHARS:
        return []
    pairs: list[tuple[str | None, str]] = [(provider if isinstance(provider, str) else None, model)]
    for separator in _PROVIDER_SEPARATORS:
        before, found, after = model.partition(separator)
        if found and before and after:
            pairs.append((before, after))
    return pairs


def look_up_price(metadata: Mapping[str, Any], at: float) -> float | None:
    """Return what a model call cost, by the model and tokens in its metadata; None without them."""
    if "model" not in metadata:
        return None
    counts = [metadata.get(name) or 0 for name in ("input_tokens", "output_tokens")]
    return look_up_cost_usd(metadata["model"], *counts, at=at) if any(counts) else None

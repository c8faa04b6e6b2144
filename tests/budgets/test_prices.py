import math
import socket
import sys

import pytest

from steadyhelm.budgets.prices import look_up_cost_usd
from steadyhelm.errors import MissingExtraError

AT = 1_735_689_600.0  # the first of January 2025


@pytest.fixture
def price_list():
    """The package that brings the prices, where it is installed."""
    return pytest.importorskip("genai_prices")


class TestWithoutThePackage:
    def test_the_extra_is_named(self, monkeypatch):
        """
        Asked for a price without the package, we say what to install.
        """
        monkeypatch.setitem(sys.modules, "genai_prices", None)

        with pytest.raises(MissingExtraError, match=r"price of a model call needs .* 'steadyhelm\[prices\]'"):
            look_up_cost_usd("gpt-4o", 1000, 100, at=AT)


@pytest.mark.usefixtures("price_list")
class TestPrices:
    def test_a_known_model_has_a_price(self):
        """
        A thousand tokens in and a hundred out of a known model cost a fraction of a cent.
        """
        price = look_up_cost_usd("gpt-4o", 1000, 100, at=AT)

        assert isinstance(price, float)
        assert 0 < price < 0.05

    def test_more_tokens_cost_more(self):
        """
        The price grows with what goes in and with what comes out.
        """
        base = look_up_cost_usd("gpt-4o", 1000, 100, at=AT)

        assert base < look_up_cost_usd("gpt-4o", 2000, 100, at=AT)
        assert base < look_up_cost_usd("gpt-4o", 1000, 200, at=AT)

    def test_what_came_from_a_cache_costs_less(self):
        """
        Tokens read from a cache are part of the input, at a lower price.
        """
        price = look_up_cost_usd("claude-sonnet-4-5", 1000, 100, at=AT, cache_read_tokens=900)

        assert price < look_up_cost_usd("claude-sonnet-4-5", 1000, 100, at=AT)

    @pytest.mark.parametrize("name", ["openai/gpt-4o", "openai:gpt-4o"])
    def test_the_provider_may_stand_in_front(self, name):
        """
        Names with the provider in front are understood as hosts write them.
        """
        assert look_up_cost_usd("gpt-4o", 1000, 100, at=AT) == look_up_cost_usd(name, 1000, 100, at=AT)

    def test_the_provider_may_be_told(self):
        """
        The provider can be given beside the name.
        """
        assert look_up_cost_usd("gpt-4o", 1000, 100, at=AT, provider="openai") > 0

    @pytest.mark.parametrize(
        "name", ["", "no-such-model", "/", "a/b:c", "\ud83d", "x" * 100_000, None, 7, b"gpt-4o"]
    )
    def test_an_unknown_model_has_none(self, name):
        """
        A model nobody knows has no price: None, never a guess.
        """
        assert look_up_cost_usd(name, 1000, 100, at=AT) is None

    @pytest.mark.parametrize("odd", [-1, math.nan, math.inf, True, "5", None, 10**400])
    def test_a_number_that_makes_no_sense_has_none(self, odd):
        """
        Tokens that are no number have no price.
        """
        assert look_up_cost_usd("gpt-4o", odd, 100, at=AT) is None
        assert look_up_cost_usd("gpt-4o", 100, odd, at=AT) is None

    @pytest.mark.parametrize("odd", [math.nan, math.inf, 1e300, "today", None])
    def test_a_time_that_makes_no_sense_has_none(self, odd):
        """
        Without a time that can be one there is no price: which one would it be?
        """
        assert look_up_cost_usd("gpt-4o", 1000, 100, at=odd) is None

    def test_no_tokens_cost_nothing(self):
        """
        Nothing in and nothing out costs nothing.
        """
        assert 0.0 == look_up_cost_usd("gpt-4o", 0, 0, at=AT)

    def test_nothing_is_fetched(self, monkeypatch):
        """
        A price is looked up without touching the network.
        """

        def refuse(*_arguments, **_keywords):
            raise AssertionError("the network was touched")

        monkeypatch.setattr(socket, "socket", refuse)
        monkeypatch.setattr(socket, "getaddrinfo", refuse)

        assert look_up_cost_usd("gpt-4o", 1000, 100, at=AT) > 0

"""One search whose words are only put in another order."""

import pytest
from agent_steps import call, reported, run

from steadyhelm.detectors.stagnation import StagnationMemory

ORDERS = (
    "apple cider vinegar marble",
    "vinegar apple cider marble",
    "cider vinegars apple marble",
    "marble apples cider vinegar",
    "vinegar marble cider apples",
    "marble vinegar apple cider",
)
PAGES = (
    "Apple cider vinegar takes the gloss off marble.\nUse water.",
    "How vinegar is made from apples.\nA barrel will do.",
    "Marble is a soft stone.\nKeep acids away from it.",
)
SHAPES = {
    "plain": lambda words: {"query": words},
    "nested": lambda words: {"q": {"text": words, "lang": "en"}},
    "further in": lambda words: {"params": {"query": words, "limit": 5}},
    "sole": lambda words: words,
}


def rotated(place):
    return "\n---\n".join(PAGES[place % 3 :] + PAGES[: place % 3])


def search(words, result, shape="plain"):
    return call("search_web", SHAPES[shape](words), result)


class TestOtherOrder:
    @pytest.mark.parametrize("shape", SHAPES)
    def test_the_same_pages(self, shape):
        """
        The same words in another order that find the same pages, in whatever order, are a loop.
        """
        steps = [search(words, rotated(n), shape) for n, words in enumerate(ORDERS)]
        assert 3 == min(reported(StagnationMemory(), run(*steps)), default=None)

    def test_two_words_that_change_places(self):
        """
        Two neighbours that change places are no value that is replaced.
        """
        orders = ("red lamp oslo", "lamp red oslo", "lamp oslo red", "oslo lamp red", "oslo red lamp")
        steps = [search(words, rotated(n)) for n, words in enumerate(orders)]
        assert [] != reported(StagnationMemory(), run(*steps))

    @pytest.mark.parametrize("shape", SHAPES)
    def test_other_pages(self, shape):
        """
        Searches that find other pages each time are no loop.
        """
        steps = [
            search(words, f"What page {n} says of marble.\nIt is about part {n * 7} of it.", shape)
            for n, words in enumerate(ORDERS)
        ]
        assert [] == reported(StagnationMemory(), run(*steps))

    @pytest.mark.parametrize("shape", SHAPES)
    def test_other_values(self, shape):
        """
        One question about another value each time is a batch.
        """
        cities = ("Bergen", "Oslo", "Graz", "Turin", "Lyon", "Gent")
        steps = [search(f"ferry timetable {it} winter", rotated(0), shape) for it in cities]
        assert [] == reported(StagnationMemory(), run(*steps))

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
    "list": lambda words: {"terms": [words], "limit": 5},
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


FOUND = (
    "The mill burned down in 1871 and was built anew.",
    "A ferry crossed here until the bridge was opened.",
    "The miller kept eleven cats and a raven.",
    "Flour was sold at the gate on Fridays.",
    "The weir was raised by two feet in spring.",
)


class TestTheVerySameSearch:
    @pytest.mark.parametrize("places", [(0, 1, 2), (0, 1), (0, 2)])
    def test_results_that_rotate(self, places):
        """
        The very same search whose results only rotate among known ones is a loop, at the fourth that finds
        nothing new at the latest.
        """
        picks = [[FOUND[(n + it) % 5] for it in places] for n in range(10)]
        steps = [search("repair of the mill", "\n".join(it)) for it in picks]

        assert 8 >= min(reported(StagnationMemory(), run(*steps)), default=10)

    def test_next_pages(self):
        """
        The very same search that finds other things each time turns the page.
        """
        steps = [search("repair of the mill", f"Page {n} of the mill.\nIt has part {n}.") for n in range(8)]

        assert [] == reported(StagnationMemory(), run(*steps))

    def test_news_on_top(self):
        """
        What is watched has one new line each time, above those that are known.
        """
        lines = [f"Report {n}: the weir was measured again." for n in range(12)]
        steps = [search("weir reports", "\n".join(lines[n : n + 5])) for n in range(7)]

        assert [] == reported(StagnationMemory(), run(*steps))


class TestRankedResults:
    def test_places_that_change(self):
        """
        What was found before is known, whatever its place in the list.
        """
        asked = (
            "deaths bridge collapse mill",
            "how many died when the mill bridge collapsed",
            "mill bridge collapse victims",
            "number of victims of the mill bridge",
            "mill bridge disaster deaths",
            "death toll of the bridge at the mill",
        )
        found = [[{"rank": k + 1, "snippet": FOUND[(2 * n + 3 * k) % 5]} for k in range(3)] for n in range(6)]
        steps = [search(words, result) for words, result in zip(asked, found, strict=True)]

        assert [] != reported(StagnationMemory(), run(*steps))

    def test_one_question_for_each_place(self):
        """
        One question for each of several places, with the same general results, is a batch.
        """
        places = ("Oslo", "Bergen", "Turku", "Graz", "Vigo", "Porto")
        steps = [search(f"opening hours museum {it}", "\n".join(FOUND)) for it in places]

        assert [] == reported(StagnationMemory(), run(*steps))

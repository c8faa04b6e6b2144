import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.goals.tokens import (
    WEIGHT_BY_LENGTH,
    find_work_words,
    map_spellings,
    stem_word,
    to_text,
    tokenize,
)


class TestFold:
    @pytest.mark.parametrize(
        "forms",
        [
            ("user", "users"),
            ("query", "queries"),
            ("migrate", "migrates", "migrated", "migrating", "migration", "migrations"),
            ("manage", "manager", "management", "managing"),
            ("plan", "plans", "planned", "planning"),
            ("class", "classes"),
            ("box", "boxes"),
        ],
    )
    def test_forms_of_one_word_are_one(self, forms):
        """
        Plurals, -ing, -ed and the like do not make another word.
        """
        assert 1 == len({stem_word(form) for form in forms})

    @pytest.mark.parametrize(
        ("one", "other"),
        [("status", "state"), ("king", "kin"), ("bus", "bu"), ("shed", "she"), ("test", "text")],
    )
    def test_other_words_stay_apart(self, one, other):
        """
        What only looks like an ending is left alone.
        """
        assert stem_word(one) != stem_word(other)

    @given(st.text(max_size=30))
    def test_folding_never_makes_longer(self, word):
        """
        A folded word is never longer than the word, and never empty when the word was not.
        """
        assert len(stem_word(word)) <= len(word)
        assert bool(stem_word(word)) == bool(word)


class TestContent:
    @pytest.mark.parametrize(
        ("text", "content"),
        [
            ("getUserName", ["user"]),
            ("user_name_table", ["user", "tabl"]),
            ("src/billing/invoiceLedger.py", ["src", "bill", "invoic", "ledg"]),
            ("HTTPServer XMLParser", ["serv", "xml", "pars"]),
            ("Überprüfung", ["überprüfung"]),
        ],
    )
    def test_identifiers_are_split(self, text, content):
        """
        Identifiers and paths are read as the words they are made of.
        """
        assert content == tokenize(text).content

    def test_words_about_work_carry_nothing(self):
        """
        To run, to test, to read, to list and to fix says nothing about what is worked on.
        """
        assert [] == tokenize("Run the tests, read the file, list all issues and fix them").content

    def test_small_words_are_counted(self):
        """
        How many plain words there were is told: that is how a language is recognised.
        """
        assert (["oslo"], 3) == tokenize("how to reach Oslo xy")

    def test_scripts_without_spaces_are_read_in_pairs(self):
        """
        Chinese is read by pairs of characters, so that a word is found again inside a sentence.
        """
        assert set(tokenize("用户").content) < set(tokenize("管理用户的接口").content)

    def test_each_word_once_in_order(self):
        """
        A word said twice counts once, where it was said first.
        """
        assert ["flight", "oslo"] == tokenize("flights, flight, Oslo, flights").content

    def test_only_the_beginning_is_looked_at(self):
        """
        At most so many characters are read as asked for.
        """
        assert ["oslo"] == tokenize("Oslo Rome", 4).content

    @given(st.text(), st.integers(0, 600))
    def test_any_text_is_read(self, text, looked_at):
        """
        Any text gives words with a weight, the same each time, and one spelling for each.
        """
        words = tokenize(text, looked_at)

        assert words == tokenize(text, looked_at)
        assert all(WEIGHT_BY_LENGTH[len(word)] > 0 for word in words.content)
        assert set(map_spellings(text.encode("ascii", "ignore").decode())) == set(
            tokenize(text.encode("ascii", "ignore").decode()).content
        )

    def test_letters_longer_in_small(self):
        """
        A letter that is two characters in small does not make a word longer than any has a weight for.
        """
        (word,) = tokenize("\u0130" * 40).content

        assert len(word) < len(WEIGHT_BY_LENGTH)


class TestSpelling:
    def test_words_for_people(self):
        """
        A folded word is shown as it was written.
        """
        assert {"migrat": "migrations", "user": "user"} == map_spellings("the migrations of getUserName")

    def test_work_words(self):
        """
        The kind of work is told apart from what it is done on.
        """
        assert {"fix", "test"} == find_work_words("Fixing the tests of the billing page")


class TestTextOf:
    @pytest.mark.parametrize("odd", [None, "", 5, True, float("nan"), {"a": object()}, ["x", None], b"\xff"])
    def test_anything_is_text(self, odd):
        """
        Whatever an agent hands over can be read.
        """
        assert isinstance(to_text(odd), str)

    def test_half_a_character_can_be_stored(self):
        """
        Half a surrogate pair is replaced.
        """
        assert "a?b" == to_text("a\ud800b")

    def test_a_huge_text_is_cut(self):
        """
        At most 8 KiB are looked at.
        """
        assert 8192 == len(to_text("x" * 100_000))

from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.beyond_ascii import has_letters_beyond_ascii, list_beyond_ascii

TEXTS = st.text(st.one_of(st.characters(), st.sampled_from("ab →“”é²_\ud800")), max_size=30)


class TestBeyondAscii:
    @given(TEXTS)
    def test_what_is_not_ascii(self, text):
        """
        The characters beyond ASCII are listed in order, halves of a pair as well.
        """
        assert list_beyond_ascii(text) == "".join(char for char in text if ord(char) > 127)

    @given(TEXTS)
    def test_letters(self, text):
        """
        A letter is what a pattern takes for one, no digit and no underscore.
        """
        letters = [char for char in text if ord(char) > 127 and char.isalnum() and not char.isdecimal()]

        assert has_letters_beyond_ascii(text) == bool(letters)

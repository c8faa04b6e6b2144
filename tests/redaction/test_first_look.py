"""The first look at a text is fast, and finds what a plain one finds."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.fingerprints import encode_canonical
from steadyhelm.lexicons import load_lexicon
from steadyhelm.redaction import forms, hint_index, hints, redactor, tokens
from steadyhelm.redaction.assignments import _BASIC, find_basic_credentials
from steadyhelm.redaction.commands import load_command_hints, load_command_names
from steadyhelm.redaction.hint_index import HintIndex, search_hint
from steadyhelm.redaction.names import words_of
from steadyhelm.redaction.redactor import Redactor, _load_shape_literals
from steadyhelm.redaction.values import holds_base64_pair

RANDOM = "0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0u"
WORDS = words_of("stems") | load_command_hints()
WRITTEN = sorted({word.rstrip("|,") for word in WORDS} | load_command_names())
HINTS = hints.drop_longer(WORDS | {"basic ", "contrase\u00f1"}) | _load_shape_literals()
INDEX = HintIndex(HINTS)
HINT_PIECES = st.sampled_from(
    [
        *sorted({hint.rstrip("|,") for hint in HINTS}),
        *" _-.\"'\\(,=",
        "age",
        "or",
        "it",
        "s",
        "7",
        "\u00f1",
        "x y",
    ]
)
TOKENS = (f"ghp_{RANDOM}", f"sk-proj-{RANDOM}", f"xoxb-123456789012-{RANDOM}", "AKIAIOSFODNN7EXAMPLE", RANDOM)
ESCAPES = ("\\n", "\\u0041", "\\x41", "%20", "%", "\\")
PIECES = st.sampled_from([*TOKENS, *ESCAPES, *"_-./ Ax", "path_to", "pat", "sk"])
CREDENTIALS = st.sampled_from(
    ["Basic ", "basic\t", "BASIC  ", "asic ", "a", "YW5uOmh1bnRlcjI=", "YWJj", " ", "\n", "Basics "]
)


def find_tokens_plainly(text):
    """Try every prefix in every run, without a first look at the run."""
    shapes, at = tokens._load_shapes(), 0
    for begin, end in tokens._find_runs(tokens.to_bytes(text), tokens._WORDS, 20):
        for head in (
            shapes.heads.finditer(text, begin, end) if tokens._VARIED.search(text, begin, end) else ()
        ):
            start = head.start()
            if start < at or not tokens._begins_token(text, start):
                continue
            for rule, regex in shapes.by_head[text[start : start + 2]]:
                match = regex.match(text, start)
                if match and tokens._has_random_part(match[0]):
                    yield (start, match.end(), rule)
                    at = match.end()
                    break


@given(st.lists(PIECES, max_size=12).map("".join))
def test_no_token_is_passed_over(text):
    """
    A run is passed over only where no token is found in it, with or without an escape in front of it.
    """
    assert list(find_tokens_plainly(text)) == list(tokens.find_tokens(text))
    assert list(find_tokens_plainly(text)) == list(tokens.find_tokens(text)), "asked again"


@given(st.lists(st.sampled_from([*WRITTEN, "age", "or", "it", " ", "_", "s", "',"]), max_size=8).map("".join))
def test_every_word_is_found(text):
    """
    The search that starts at rare letters finds a word where a plain alternation does.
    """
    harmless = hints._HARMLESS_ENDINGS
    plain = "|".join(
        re.escape(word.rstrip("|,")) + end + (f"(?!{harmless[word]})" if word in harmless else last)
        for word in hints.drop_longer(WORDS)
        for end, last in hints._ENDINGS.get(word[-1], hints._ANY_ENDING)
    )
    text = text.lower()

    assert bool(re.search(plain, text)) == bool(hints.compile_search(WORDS).search(text.encode()))


@given(st.lists(CREDENTIALS, max_size=10).map("".join))
def test_basic_credentials_are_found(text):
    """
    Looking for the word first finds the same credentials as the whole pattern at every character.
    """
    is_likely = "asic " in text or "ASIC " in text
    plain = [it.span(1) for it in _BASIC.finditer(text) if holds_base64_pair(it[1])] if is_likely else []

    assert plain == [(start, end) for start, end, _ in find_basic_credentials(text)]


RANDOM_PIECES = st.sampled_from(
    [
        RANDOM,
        RANDOM[:31],
        "+/" + RANDOM,
        "\n",
        "\t+",
        "\u00e9",
        "caf\u00e9_",
        "=",
        "MY_LONG_VARIABLE_OF_THE_ENVIRONMENT=",
        "name-of-a-file/",
        "/ptr_" + RANDOM,
        "ABSK" + RANDOM,
        "fm2_" + RANDOM,
        "TestThatASessionHasNewContent",
        " ",
        '"',
    ]
)


@given(st.lists(RANDOM_PIECES, max_size=6).map("".join))
def test_no_random_text_is_passed_over(text):
    """
    The first look passes over encoded text only where the text has no run that looks random.
    """
    if any(tokens.find_random_text(text)):
        assert tokens.may_have_random_text(encode_canonical(text))


@pytest.mark.parametrize(
    "name",
    [
        "sessionHasNewContentFromLiveTranscript",
        "ShouldSkipOnDefaultBranchForStrategy",
        "TestSetup_LocalDevModeOfHooks",
    ],
)
def test_long_names_are_no_random_text(name):
    """
    The long name of a function or a test does not have its text read closely.
    """
    assert not tokens.may_have_random_text(encode_canonical(f"\nfunc {name}(t *testing.T)"))


@pytest.mark.parametrize("text", ["run pwd && ls -la 2>/dev/null", "call keys-and-pass && git status --x1"])
def test_the_next_command_of_a_line_is_no_value(text):
    """
    A word that is followed by another command of the same line does not have its text read closely.
    """
    assert not Redactor().may_contain_secret(encode_canonical(text))


@given(
    st.lists(
        st.sampled_from(
            ["value", "Val", ": ", "=", '"', '\\"', "'", ",", " ", "x1y2z3", "name", "key", "\n", "id"]
        ),
        max_size=12,
    ).map("".join)
)
def test_no_pair_in_the_other_order_is_passed_over(before):
    """
    What is in front of a name is passed over only where it is no value with the field of its name.
    """
    assert forms._may_end_pair(before) or not forms._VALUE_BEFORE.search(before)


def find_words_plainly(data, lowered, search):
    """Yield the words around what a pattern finds, one search after the other."""
    marks, hit = data.translate(hints._WORD_CHARACTERS), search.search(lowered)
    while hit:
        start = marks.rfind(b" ", 0, hit.start() + 1) + 1
        end = marks.find(b" ", hit.start())
        end = len(data) if end < 0 else end
        if start and data[start - 1] in b"\\%":
            start = min(start + hints._measure_escape(data, start), end)
        if start < end:
            yield hints.Word(start, end, data[start:end].decode("latin-1"))
        hit = search.search(lowered, max(end, hit.end()))


@given(st.lists(HINT_PIECES, max_size=10).map("".join))
def test_the_words_of_a_text_tell_its_hints(text):
    """
    Looking at each word once finds the hints that a search of the whole text for each hint finds.
    """
    lowered = text.lower().encode()

    expected = {hint for hint in HINTS if search_hint(hint).search(lowered)}

    assert expected == INDEX.find(lowered)
    assert expected == INDEX.find(lowered), "asked again"


@given(st.lists(st.one_of(HINT_PIECES, st.sampled_from([*ESCAPES, "KEY", "My"])), max_size=10).map("".join))
def test_words_are_found_hint_by_hint(text):
    """
    Searching for the hints that are there, each by itself, leads to the same words as one search for all.
    """
    data = text.encode()
    lowered = data.lower()
    there = [search_hint(hint) for hint in INDEX.find(lowered) & hints.drop_longer(WORDS)]

    expected = list(find_words_plainly(data, lowered, hints.compile_search(WORDS)))

    assert expected == list(hints.find_words(data, lowered, *there))
    assert expected == list(hints.find_words(data, lowered, hints.compile_search(WORDS)))


def test_every_shape_is_searched_for():
    """
    Each shape has a text that every match contains: without one it would pass the first look.
    """
    shapes = load_lexicon("steadyhelm.redaction", "plain_shapes").entries.values()

    assert [] == [entry.name for entry in shapes if not entry.literals]


def test_few_words_are_kept(monkeypatch):
    """
    The words that were looked at are bounded in number and length, and forgetting them changes no answer.
    """
    monkeypatch.setattr(hint_index, "_WORDS_KEPT", 20)
    index = HintIndex(HINTS)
    for number in range(500):
        word = "".join("abcdefghij"[int(digit)] for digit in str(number))
        assert {"token"} == index.find(f"a{word}. token {'x' * 300}{word}".encode())

    assert len(index._harmless) + len(index._telling) <= 23
    assert max(map(len, index._harmless)) <= 24


@pytest.mark.parametrize(
    "password", ["Hunter2xx9!", "Hunter2,xx9", "Hunter2/xx9", "a:Hunter2x9", "Hunter2<x9>"]
)
def test_arguments_are_redacted_whatever_is_beside_them(password):
    """
    Where the first look passes over the argument behind a well-known user, so do the rules that follow.
    """
    look = Redactor()
    encoded = encode_canonical(given := ["root", password])

    assert look.may_contain_secret(encoded) == (look.redact_suspicious(given, encoded)[1] != encoded)


def test_two_statements_beside_parameters():
    """
    A statement beside another one does not hide whose parameters hold a password.
    """
    data = {
        "query": "SELECT 1",
        "sql": "INSERT INTO u (name, password) VALUES (?, ?)",
        "params": ["ann", "hunter2Xq9"],
    }

    assert b"hunter2Xq9" not in Redactor().redact(data, encode_canonical(data))[1]


def test_payloads_seen_before(monkeypatch):
    """
    What was found harmless is known when it comes again, within bounds; what may hold a secret is not kept.
    """
    monkeypatch.setattr(redactor, "_HARMLESS_KEPT", 20)
    look = Redactor()
    for _ in range(2):
        for number in range(50):
            assert not look.may_contain_secret(f'{{"page":{number}}}'.encode())
            assert look.may_contain_secret(f'{{"page":{number},"password":"hunter{number}"}}'.encode())
        assert not look.may_contain_secret(f'"{"long " * 1000}"'.encode())

    assert len(look._harmless) <= 20
    assert not any(b"hunter" in payload or b"long" in payload for payload in look._harmless)


def test_long_payloads_seen_before(monkeypatch):
    """
    Of a long payload that was found harmless its hash is kept, so that it is known when it comes again.
    """
    look, encoded = Redactor(), f'"{"A system prompt. " * 500}"'.encode()
    assert not look.may_contain_secret(encoded)
    monkeypatch.setattr(look, "_is_suspicious", lambda encoded: pytest.fail("searched again"))

    assert not look.may_contain_secret(encoded)
    assert 100 > max(map(len, look._harmless))


def test_texts_inside_payloads_seen_before(monkeypatch):
    """
    A text that was read closely and holds no secret is known in other payloads; no other one is kept.
    """
    monkeypatch.setattr(redactor, "_HARMLESS_KEPT", 20)
    look = Redactor()
    for number in range(50):
        data = {"first": "pass = compute()", "second": f"page {number}", "third": f"PASSWORD=hunter{number}"}
        clean, _ = look.redact_suspicious(data, encode_canonical(data))
        assert {**data, "third": "PASSWORD=[redacted: assigned secret]"} == clean

    assert len(look._plain_texts) <= 20
    assert not any("hunter" in text for text in look._plain_texts)


@pytest.mark.parametrize("first", ["id", "note"])
def test_an_id_seen_before_is_no_harmless_text(first):
    """
    What may stay in an id is redacted in another field, whichever of the two comes first.
    """
    look = Redactor()
    for name in (first, "note", "id"):
        clean, _ = look.redact_suspicious({name: RANDOM}, encode_canonical({name: RANDOM}))
        assert (clean[name] == RANDOM) == (name == "id")

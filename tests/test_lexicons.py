from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import steadyhelm
from steadyhelm.lexicons import LEXICON_PACKAGES, Lexicon, LexiconEntry, load_lexicon
from steadyhelm.regex_literals import Prefixes, find_literals, find_prefixes, find_starts, is_anchored

ROOT = Path(steadyhelm.__file__).parent


def find_entries():
    """Yield every entry of every lexicon file in the package, with an id that names file and entry."""
    for path in sorted(ROOT.rglob("patterns/*.toml")):
        folder = path.parent.parent.relative_to(ROOT.parent).as_posix().replace("/", ".")
        for entry in load_lexicon(folder, path.stem).entries.values():
            yield pytest.param(entry, id=f"{folder.removeprefix('steadyhelm.')}.{path.stem}: {entry.name}")


ENTRIES = list(find_entries())


def entry(**fields):
    return LexiconEntry(**{"name": "it", "why": "a test", "example": "", "counter_example": ""} | fields)


class TestTheShippedFiles:
    @pytest.mark.parametrize("entry", ENTRIES)
    def test_its_example(self, entry):
        """
        Every entry of every file matches its example.
        """
        assert entry.search(entry.example)

    @pytest.mark.parametrize("entry", ENTRIES)
    def test_its_counter_example(self, entry):
        """
        No entry matches its counter-example.
        """
        assert not entry.search(entry.counter_example)

    @pytest.mark.parametrize("entry", ENTRIES)
    def test_it_is_explained(self, entry):
        """
        Every entry says why it is there and what it must not match.
        """
        assert entry.why.strip()
        assert entry.counter_example.strip()
        assert bool(entry.pattern) != bool(entry.words)

    @pytest.mark.parametrize("entry", ENTRIES)
    def test_its_literals_are_needed(self, entry):
        """
        Whatever an entry matches has one of its literals, so no match is missed for want of one.
        """

        @settings(max_examples=15, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(st.from_regex(entry.regex))
        def check(text):
            assert entry.can_match(text) or not entry.regex.search(text)

        check()

    @pytest.mark.parametrize(
        "entry", [it for it in ENTRIES if it.values[0].starts or it.values[0].prefixes is not None]
    )
    def test_the_index_finds_what_a_search_finds(self, entry):
        """
        Looking an entry up by the words of a text finds the same match as searching for its pattern.
        """
        lexicon = Lexicon([entry])

        @settings(max_examples=15, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(
            st.sampled_from(["", "so ", "it's ", "- ", "x", "\n"]),
            st.from_regex(entry.regex),
            st.text("ab' .", max_size=3),
        )
        def check(before, text, after):
            searched = entry.regex.search(before + text + after)
            found = lexicon.search_all(before + text + after).get(entry.name)

            assert (searched and searched.span()) == (found and found.span())

        check()

    def test_names_are_used_once(self):
        """
        No two entries of a file share a name, so none hides another.
        """
        import tomllib

        for path in ROOT.rglob("patterns/*.toml"):
            names = [
                entry["name"] for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("entry", [])
            ]

            assert sorted(set(names)) == sorted(names)


class TestAnEntry:
    def test_alternatives(self):
        """
        A list of patterns matches where one of them does.
        """
        found = entry(pattern=("colou?r", "hue"))

        assert found.search("the color")
        assert found.search("a hue")
        assert not found.search("a shade")

    def test_whole_words(self):
        """
        With the place "words" a part of a word is no match.
        """
        found = entry(pattern="fails?", place="words")

        assert found.search("it fails")
        assert not found.search("a failsafe")

    def test_the_start(self):
        """
        With the place "start" only the first words match, after what may come before them.
        """
        found = entry(pattern=("stop", "wait"), place="start", after="(?:ok,? )?")

        assert found.search("ok, wait")
        assert not found.search("no wait")

    def test_words_are_plain(self):
        """
        A word list takes its words as they are, the longer first.
        """
        found = entry(words=("c", "c++", "e.g."))

        assert found.search("in c++ now").group() == "c++"
        assert not found.search("eggs")
        assert {"c", "c++", "e.g."} == found.word_set

    @pytest.mark.parametrize("text", ["OK THEN", "ok then", "Ok Then", "O\u212a THEN"])
    def test_case_can_be_ignored(self, text):
        """
        With `ignore_case` every form of a letter is the same letter.
        """
        assert entry(pattern="ok then", ignore_case=True).search(text)
        assert not entry(pattern="ok then", ignore_case=True).search("okay")

    def test_matches_are_counted(self):
        """
        All matches are counted, and none in a text without its literals.
        """
        assert [2, 0] == [entry(pattern=r"\bno\b").count(text) for text in ("no, no", "now yes")]

    def test_no_literal_no_pattern(self):
        """
        A text without a literal never runs the pattern, nor compiles it.
        """
        found = entry(pattern="(?:brok(?:e|en)|crash)")

        assert not found.search("all is well")
        assert "regex" not in vars(found)
        assert found.search("it broke")


class TestLiterals:
    @pytest.mark.parametrize(
        ("source", "literals"),
        [
            ("fails?", {"fail"}),
            ("(?:un)?expect(?:ed|s)?", {"expect"}),
            ("(?:yes|yeah|ok(?:ay)?)", {"yes", "yeah", "ok"}),
            ("(?:go|bring) (?:it )?back", {"back"}),
            (r"\bnot \w+ but\b", {"not "}),
            ("a+bc", {"bc"}),
            ("ab{2,3}c", {"ab"}),
            ("ab{0,3}c", {"a"}),
            (r"\u276f go", {" go"}),
            (r"\.\.\.", {"..."}),
            (r"stop\)", {"stop)"}),
            ("(?:stop|wait)?now", {"now"}),
            ("(?:stop|)now", {"now"}),
            ("(?<![a-z])stop(?!watch)", {"stop"}),
            (r"one|\d", set()),
            ("[abc]", {"a", "b", "c"}),
            (r"[,\-;]", {",", "-", ";"}),
            ("[a-c]", set()),
            ("[^abc]", set()),
            (r"[ab\d]", set()),
            ("(?:a|b)*", set()),
            ("(?i)stop", set()),
            ("(?P<word>stop)", set()),
            ("", set()),
        ],
    )
    def test_what_every_match_needs(self, source, literals):
        """
        The literals of a pattern are those that no match can be without.
        """
        assert literals == find_literals(source)


class TestStarts:
    @pytest.mark.parametrize(
        ("source", "starts"),
        [
            (r"\bfails?", {"fail"}),
            (r"\b(?:un)?expect(?:ed|s)?", {"unexpect", "expect"}),
            (r"\bi(?:'m| am) (?:not|never)\b", {"i'm not", "i'm never", "i am not", "i am never"}),
            (r"\bdo(?:es)? not", {"does not", "do not"}),
            (r"\bno+w", {"no"}),
            (r"\bgo(?: go)* on", {"go go", "go on"}),
            (r"\bstop|\bwait", {"stop", "wait"}),
            (r"\bstop|wait", set()),
            (r"\b[ab]c", {"ac", "bc"}),
            (r"\b[a-c]c", set()),
            (r"\b(?:very )?\w+", set()),
            (r"\b…no", set()),
            (r"(?i)\bstop", set()),
            ("stop", set()),
            ("", set()),
        ],
    )
    def test_what_every_match_starts_with(self, source, starts):
        """
        The starts of a pattern are strings of which every match starts with one, at the start of a word.
        """
        assert starts == find_starts(source)

    @pytest.mark.parametrize(
        ("source", "prefixes"),
        [
            (r"\b(?:not|never)\b", Prefixes(at_words=frozenset({"not", "never"}))),
            (r"(?:\bnot|n't)\b", Prefixes(at_words=frozenset({"not"}), elsewhere=frozenset({"n't"}))),
            (r"stop|\bwait", Prefixes(at_words=frozenset({"wait"}), elsewhere=frozenset({"stop"}))),
            (r"[,;] (?:no|yes)", Prefixes(elsewhere=frozenset({", no", ", ye", "; no", "; ye"}))),
            (r"\bstop|^\W*no", Prefixes(at_words=frozenset({"stop"}), or_start=True)),
            (r"^no", Prefixes(or_start=True)),
            (r"\b\u2026no", None),
            (r"\w+ no", None),
            ("(?i)stop", None),
            ("", None),
        ],
    )
    def test_what_a_match_starts_with_wherever_it_is(self, source, prefixes):
        """
        The prefixes say what matches start with at a word, elsewhere, and at the start of the text.
        """
        assert prefixes == find_prefixes(source)

    @pytest.mark.parametrize(
        ("source", "anchored"),
        [("^yes", True), (r"^\W*yes|^no", True), ("^yes|no", False), ("(?m)^yes", False), ("", False)],
    )
    def test_only_at_the_start(self, source, anchored):
        """
        A pattern is anchored when each of its alternatives can match at the start of a text alone.
        """
        assert anchored == is_anchored(source)


class TestALexicon:
    LEXICON = Lexicon(
        [
            entry(name="broken", pattern="brok(?:e|en)", place="words"),
            entry(name="no", pattern="no", place="words"),
            entry(name="any", pattern="[xyz]"),
            entry(name="both", pattern=r"(?:\bno|n't)\b"),
            entry(name="opens", pattern=r"\bstop|^\W{0,4}so"),
            entry(name="loud", pattern="stop", ignore_case=True),
        ]
    )

    @pytest.mark.parametrize(
        ("text", "names"),
        [
            ("", []),
            ("no, it broke", ["broken", "no", "both"]),
            ("STOP, no", ["no", "both", "loud"]),
            ("an axe", ["any"]),
            ("it isn't so", ["both"]),
            ("- so stop", ["opens", "loud"]),
            ("a broker", []),
        ],
    )
    def test_all_that_match(self, text, names):
        """
        A text is searched for all entries at once; what is found is in the order of the file.
        """
        assert names == list(self.LEXICON.search_all(text))

    @given(st.text("bnosxTtrkeOSPp' ", max_size=30))
    def test_the_index_misses_nothing(self, text):
        """
        The index finds exactly what trying every pattern finds.
        """
        entries = self.LEXICON.entries.items()
        searched = {name: match.span() for name, entry in entries if (match := entry.regex.search(text))}

        assert searched == {name: match.span() for name, match in self.LEXICON.search_all(text).items()}

    def test_parts_and_lines_are_joined(self, tmp_path, monkeypatch):
        """
        A pattern may use parts of another file and go over several lines; neither is in the result.
        """
        (tmp_path / "lexicon_sample" / "patterns").mkdir(parents=True)
        (tmp_path / "lexicon_sample" / "__init__.py").touch()
        folder = tmp_path / "lexicon_sample" / "patterns"
        (folder / "pieces.toml").write_text("about = 'pieces'\nparts.no = '''\n    (?:no\n    |not)'''\n")
        (folder / "uses.toml").write_text(
            "about = 'a test'\nparts_from = 'pieces'\n[[entry]]\nname = 'it'\nwhy = 'a test'\n"
            "pattern = '''\n    {no} (?:way\n    |luck){1,2}'''\nexample = 'no way'\n"
            "counter_example = 'a way'\n"
        )
        monkeypatch.syspath_prepend(tmp_path)

        assert "(?:no|not) (?:way|luck){1,2}" == load_lexicon("lexicon_sample", "uses")["it"].source

    def test_parts_of_another_package(self):
        """
        Parts can come from a file of another package, named before a colon.
        """
        assert "|yep|sure|" in load_lexicon("steadyhelm.goals", "messages")["go on"].source
        assert "|yep|sure|" in load_lexicon("steadyhelm", "answers")["allows"].source

    def test_every_folder_is_known(self):
        """
        Every file of the package can be read beforehand, so that none is opened while an agent works.
        """
        stored = {path.parent.parent.name for path in ROOT.rglob("patterns/*.toml")}

        assert stored == {package.rpartition(".")[2] for package in LEXICON_PACKAGES}

    def test_a_missing_file(self):
        """
        A file that is not there is an error that names it.
        """
        with pytest.raises(FileNotFoundError, match="nowhere"):
            load_lexicon("steadyhelm", "nowhere")

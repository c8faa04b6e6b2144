"""Profiles: documents in, precise errors out, yours before the bundled ones."""

import json

import pytest

from steadyhelm.errors import FormatError, NotFoundError, SettingsError
from steadyhelm.style.markers import MarkerTerms
from steadyhelm.style.profile import RANGES, HardRules, Profile
from steadyhelm.style.profile_files import (
    BUNDLED_PROFILES,
    build_profile,
    decode_document,
    find_profile,
    format_document,
    get_user_folder,
    list_profiles,
    load_bundled,
    read_profile,
)
from steadyhelm.style.scoring import score_reply


@pytest.fixture
def folder():
    get_user_folder().mkdir(parents=True)
    return get_user_folder()


def made(text, name="mine"):
    return build_profile(
        decode_document(text.encode(), where="mine.toml"), name=name, where="mine.toml", lookup=load_bundled
    )


class TestBundled:
    def test_five(self):
        """
        Five profiles come with the package, and each of them can be used.
        """
        assert 5 == len(BUNDLED_PROFILES)
        assert list(BUNDLED_PROFILES) == [load_bundled(name).name for name in BUNDLED_PROFILES]

    def test_standard_is_what_a_profile_says_by_itself(self):
        """
        The standard profile is the one that is built without arguments.
        """
        assert Profile().threshold == load_bundled("standard").threshold
        assert Profile().weights == load_bundled("standard").weights

    @pytest.mark.parametrize(("looser", "stricter"), [("relaxed", "standard"), ("standard", "strict")])
    def test_in_order(self, looser, stricter):
        """
        From relaxed to strict every number tightens.
        """
        lax, tight = load_bundled(looser), load_bundled(stricter)

        assert lax.threshold > tight.threshold
        assert lax.sensitivity <= tight.sensitivity
        for name in ("target_wps", "max_wps", "target_words", "max_words", "velocity_threshold"):
            assert getattr(lax, name) > getattr(tight, name)
        assert all(lax.weights[name] <= weight for name, weight in tight.weights.items())

    def test_machine(self):
        """
        For a program that reads the replies, anything but JSON is wrong, whatever it scores.
        """
        assert ["valid_json"] == [it.rule for it in score_reply("Done.", "machine").broken]
        assert not score_reply('{"done": true}', "machine").flagged


class TestDocuments:
    def test_toml_and_json(self):
        """
        The same profile can be written in TOML or JSON.
        """
        document = {"extends": "terse", "threshold": 42, "weights": {"hype": 0.1}, "rules": {"max_lines": 3}}

        assert made(format_document(document)).threshold == made(json.dumps(document)).threshold == 42
        assert (
            made(format_document(document)).rules
            == made(json.dumps(document)).rules
            == HardRules(max_lines=3)
        )

    def test_extends(self):
        """
        What is not said comes from the profile it extends.
        """
        profile = made('extends = "terse"\n[weights]\nhype = 0.1')

        assert load_bundled("terse").max_words == profile.max_words
        assert {**load_bundled("terse").weights, "hype": 0.1} == profile.weights

    def test_lexicon_extended(self):
        """
        A lexicon can be extended, and words taken out of it.
        """
        filler = made('[lexicons.filler]\nextend = ["synergy"]\nremove = ["Basically"]').lexicons["filler"]

        assert "synergy" in filler.words
        assert "basically" not in filler.words
        assert "essentially" in filler.words

    def test_lexicon_replaced(self):
        """
        A lexicon can be replaced altogether.
        """
        assert (
            MarkerTerms(words=("synergy",))
            == made('[lexicons.filler]\nreplace = ["synergy"]').lexicons["filler"]
        )

    def test_lexicon_made_ambiguous(self):
        """
        A word that turns out to have two meanings can be made to wait for company.
        """
        filler = made('[lexicons.filler]\nambiguous = ["basically"]').lexicons["filler"]

        assert "basically" in filler.ambiguous
        assert "basically" not in filler.words

    def test_a_class_of_your_own(self):
        """
        A class of your own is scored beside ours, by its own weight.
        """
        profile = made(
            '[weights]\ncorporate = 0.9\n[lexicons.corporate]\nextend = ["circle back", "synergy"]'
        )
        score = score_reply("Let us circle back on synergy.", profile)

        assert "corporate (circle back, synergy)" == str(score.offenders[0])

    def test_comments_in_json(self):
        """
        In JSON a key that begins with _comment is one.
        """
        assert 42 == made('{"_comment": "why", "threshold": 42}').threshold

    def test_round_trip(self):
        """
        What is written can be read.
        """
        document = {
            "description": 'a "b" \\ \x7f é',
            "threshold": 42.5,
            "lexicons": {"hype": {"extend": ["ünï"]}},
        }

        assert document["description"] == made(format_document(document, heading="one\ntwo")).description


class TestErrors:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("threshold = 'high'", "threshold must be a number from 1 to 100, got 'high'."),
            ("threshold = 0", "threshold must be a number from 1 to 100, got 0."),
            ("threshold = true", "threshold must be a number from 1 to 100, got True."),
            ("threshold = nan", "threshold must be a number from 1 to 100, got nan."),
            ("sensitivity = 9", "sensitivity must be a number from 0.1 to 3, got 9."),
            ("long_word_len = 8.5", "long_word_len must be a whole number from 4 to 40, got 8.5."),
            ("target_wps = 60", "target_wps must not be above max_wps, got 60 and 45."),
            ("thresold = 5", "there is no 'thresold' in a profile; there are name, description, extends,"),
            ("description = 5", "description must be text, got 5."),
            ("language = 'xx'", "language must be one of ar, de, el, en,"),
            ("weights = 3", "weights must be a table, got 3."),
            ("[weights]\nhype = 2", "weights.hype must be a number from 0 to 1, got 2."),
            (
                "[weights]\nfun = 1",
                "weights.fun belongs to no component; there are hedges, filler, hype, meta,",
            ),
            (
                "[lexicons]\nfiller = ['x']",
                "lexicons.filler must be a table with extend, replace, remove, ambiguous",
            ),
            (
                "[lexicons.filler]\nadd = ['x']",
                "lexicons.filler knows extend, replace, remove, ambiguous, got 'add'.",
            ),
            ("[lexicons.filler]\nextend = 'x'", "lexicons.filler.extend must be a list of texts, got 'x'."),
            (
                "[lexicons.filler]\nextend = ['-']",
                "lexicons.filler.extend holds '-', in which there is no word.",
            ),
            ("[lexicons.filler]\nextend = []\nreplace = []", "lexicons.filler must either extend or replace"),
            (
                "[lexicons.fun]\nextend = ['x']",
                "lexicons.fun needs a weight: add weights.fun, a number from 0 to 1.",
            ),
            (
                "[weights]\n[lexicons.length]\nextend = ['x']",
                "lexicons.length must be named in small letters, and not",
            ),
            ("[rules]\nmax_lines = 0", "rules.max_lines must be a whole number from 1 to 100000, got 0."),
            ("[rules]\nno_emoji = 1", "rules.no_emoji must be true or false, got 1."),
            ("[rules]\nlanguage = 'xx'", "rules.language must be one of ar, de,"),
            (
                "[rules]\nno_fun = true",
                "there is no rule 'no_fun'; there are max_lines, no_emoji, valid_json,",
            ),
            ("name = 'other'", "name must be 'mine', as the file is called, or be left out, got 'other'."),
            ("name = 5", "name must be text, got 5."),
        ],
    )
    def test_precise(self, text, message):
        """
        An error names the file, the field, what it may be and what it is.
        """
        with pytest.raises(SettingsError) as caught:
            made(text)

        assert str(caught.value).startswith("mine.toml: ")
        assert message in str(caught.value)

    def test_all_at_once(self):
        """
        Everything that is wrong with a document is told together, a line each.
        """
        with pytest.raises(SettingsError) as caught:
            made("thresold = 5\nweights = 3\ndescription = 5")

        assert 3 == len(str(caught.value).splitlines())

    def test_all_values_at_once(self):
        """
        Neither a wrong number nor a wrong field hides what else is wrong.
        """
        with pytest.raises(SettingsError) as caught:
            made(
                "thresold = 5\nthreshold = 0\nmax_wps = 'x'\ntarget_words = 900\nlanguage = 'xx'\n"
                "[weights]\nhype = 2\nfun = 1\n[lexicons.filler]\nadd = []\n[rules]\nno_fun = 1\nno_emoji = 1"
            )

        assert [
            "there is no 'thresold' in a profile",
            "there is no rule 'no_fun'",
            "lexicons.filler knows extend",
            "threshold must be a number from 1 to 100",
            "max_wps must be a number from 1 to 200",
            "language must be one of ar",
            "rules.no_emoji must be true or false",
            "target_words must not be above max_words",
            "weights.hype must be a number from 0 to 1",
            "weights.fun belongs to no component",
        ] == [
            line.removeprefix("mine.toml: ").split(";")[0].split(",")[0]
            for line in str(caught.value).splitlines()
        ]

    def test_all_at_once_in_python(self):
        """
        A profile that is built in Python tells all its faults, too.
        """
        with pytest.raises(SettingsError) as caught:
            Profile(threshold=0, sensitivity=9, weights=3, rules=None)

        assert 4 == len(str(caught.value).splitlines())

    @pytest.mark.parametrize("lexicons", [None, {"filler": ["x"]}, {5: MarkerTerms()}])
    def test_odd_lexicons_in_python(self, lexicons):
        """
        Lexicons that are none are refused in words.
        """
        with pytest.raises(SettingsError, match="lexicons"):
            Profile(lexicons=lexicons)

    def test_a_list(self):
        """
        A list in a JSON file is JSON, and no profile.
        """
        with pytest.raises(FormatError, match=r"mine\.json must hold a table of settings, got list\."):
            decode_document(b"[1, 2]", where="mine.json")

    def test_broken_json(self):
        """
        A file that is called JSON is read as JSON.
        """
        with pytest.raises(FormatError, match=r"mine\.json is not JSON"):
            decode_document(b"threshold = 3", where="mine.json")

    @pytest.mark.parametrize("content", ["threshold = 42", '{"threshold": 42}', '\n {"threshold": 42}'])
    def test_byte_order_mark(self, content):
        """
        A mark that some editors put first is no part of the document.
        """
        assert {"threshold": 42} == decode_document(content.encode("utf-8-sig"), where="mine")

    @pytest.mark.parametrize("content", [b"= 3", b"{", b"\xff\xfe", b"{" * 100_000, b"a = 1\n" * 400_000])
    def test_unreadable(self, content):
        """
        What is no TOML and no JSON is refused in words.
        """
        with pytest.raises(FormatError, match="mine"):
            decode_document(content, where="mine")

    def test_in_python(self):
        """
        A profile that is built in Python is checked in the same way.
        """
        with pytest.raises(SettingsError, match="threshold must be a number from 1 to 100, got inf"):
            Profile(threshold=float("inf"))

    @pytest.mark.parametrize("name", RANGES)
    def test_every_number_is_checked(self, name):
        """
        No number of a profile may be anything but a number.
        """
        for value in ("3", None, True, float("nan"), -1, 10**400):
            with pytest.raises(SettingsError, match=name):
                Profile(**{name: value})


class TestShelf:
    def test_yours_stands_before(self, folder):
        """
        A profile in your folder stands before the bundled one of that name, and may extend it.
        """
        (folder / "terse.toml").write_text('extends = "terse"\nthreshold = 33')

        assert 33 == find_profile("terse").threshold
        assert load_bundled("terse").max_words == find_profile("terse").max_words
        assert 50 == load_bundled("terse").threshold

    def test_bundled_ones_mean_what_they_say(self, folder):
        """
        A standard of your own does not change the other bundled profiles.
        """
        (folder / "standard.toml").write_text("max_long_ratio = 0.9")

        assert 0.9 == find_profile("standard").max_long_ratio
        assert load_bundled("standard").max_long_ratio == find_profile("relaxed").max_long_ratio

    def test_names(self, folder):
        """
        All are listed, with the file of each that is yours; other files are left aside.
        """
        for name in ("mine.json", "notes.md", "Bad Name.toml"):
            (folder / name).write_text("{}")

        assert {**dict.fromkeys(BUNDLED_PROFILES), "mine": folder / "mine.json"} == list_profiles()

    def test_extending_in_a_circle(self, folder):
        """
        Profiles that extend each other in a circle are refused, and the circle is shown.
        """
        (folder / "one.toml").write_text('extends = "two"')
        (folder / "two.toml").write_text('extends = "one"')

        with pytest.raises(SettingsError, match="one -> two -> one"):
            find_profile("one")

    def test_extending_too_deep(self, folder):
        """
        There is an end to how deep profiles may extend each other.
        """
        for number in range(12):
            (folder / f"p{number}.toml").write_text(f'extends = "p{number + 1}"')

        with pytest.raises(SettingsError, match="8 deep"):
            find_profile("p0")

    def test_extending_nobody(self, folder):
        """
        A profile that extends one nobody has is named, and its other faults with it.
        """
        (folder / "mine.toml").write_text('extends = "pirate"\nthreshold = 0\n[weights]\nparrots = 1')

        with pytest.raises(SettingsError) as caught:
            find_profile("mine")

        threshold, extends = str(caught.value).splitlines()
        assert f"{folder / 'mine.toml'}: threshold must be a number from 1 to 100, got 0." == threshold
        assert f"{folder / 'mine.toml'}: extends must be the name of a profile, got 'pirate'." in extends

    def test_extending_a_broken_one(self, folder):
        """
        The faults of a profile and of the one it extends are told together, each with its file.
        """
        (folder / "one.toml").write_text('extends = "two"\nthreshold = 0')
        (folder / "two.toml").write_text("sensitivity = 0")

        with pytest.raises(SettingsError) as caught:
            find_profile("one")

        lines = str(caught.value).splitlines()
        assert ["one.toml", "two.toml"] == [line.split(": ")[0].rsplit("/")[-1] for line in lines]

    def test_named_like_its_file(self, folder):
        """
        A profile is found under the name it is listed under, and that is its own.
        """
        (folder / "mine.toml").write_text('name = "mine"')
        (folder / "other.toml").write_text('name = "mine"')

        assert "mine" == find_profile("mine").name
        with pytest.raises(SettingsError, match="name must be 'other', as the file is called"):
            find_profile("other")

    def test_a_file_with_no_name_for_a_profile(self, tmp_path):
        """
        A file that is called like no profile can be is refused.
        """
        (tmp_path / "my profile.toml").write_text("threshold = 42")

        with pytest.raises(SettingsError, match="got 'my profile'; a file is called like its profile"):
            read_profile(tmp_path / "my profile.toml")

    @pytest.mark.parametrize("name", ["../standard", "", "a/b", "A", "x" * 65, None, 5])
    def test_names_are_no_paths(self, name):
        """
        A name cannot reach outside the folder.
        """
        with pytest.raises(NotFoundError, match="no profile"):
            find_profile(name)

    def test_a_missing_file(self, tmp_path):
        """
        A file that is not there is named.
        """
        with pytest.raises(FormatError, match=r"nothing\.toml cannot be read"):
            read_profile(tmp_path / "nothing.toml")

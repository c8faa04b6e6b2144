"""What a reply scores, and why."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.errors import NotFoundError
from steadyhelm.style.profile import Profile
from steadyhelm.style.profile_files import BUNDLED_PROFILES, load_bundled
from steadyhelm.style.scoring import score_reply

SCORED = tuple(name for name in BUNDLED_PROFILES if name != "machine")
PLAIN = "The parser dropped the last line of each file. That is fixed, and all 40 tests pass."
PADDED = (
    "Great question! I'd be happy to help. Basically, let me explain. Perhaps, in a sense, it is worth "
    "noting that, I think, essentially, it seems amazing. In summary, I hope this helps!"
)
HANDED_BACK = "I understand, and I can help with that. Please let me know how you would like to proceed."
DENSE = (
    "The coroutine scheduler serialises backpressure acknowledgements through a lock-free multi-producer "
    "queue whose consumer batches deserialised continuation frames before synchronising the checkpointed "
    "offsets with the replicated coordinator."
)
GERMAN = (
    "Das ist eine wirklich gute Frage, und ich werde sie jetzt ganz ausführlich beantworten, weil es dabei "
    "auf viele Einzelheiten ankommt, die man nicht sofort sieht, wenn man nur auf das Ergebnis der letzten "
    "Ausführung schaut und nicht auf die Einstellungen, mit denen der Dienst gestartet wurde."
)


def ordered():
    """The replies of the file beside this one, by tier, in its order."""
    tiers = {}
    text = (Path(__file__).parent / "ordered_replies.txt").read_text(encoding="utf-8")
    for block in text.split("\n%% ")[1:]:
        tier, _, reply = block.partition("\n")
        tiers.setdefault(tier, []).append(reply.strip())
    return tiers


TIERS = ordered()
REPLIES = [reply for replies in TIERS.values() for reply in replies]


class TestOrder:
    def test_there_are_enough(self):
        """
        The table holds at least forty replies.
        """
        assert len(set(REPLIES)) >= 40

    @pytest.mark.parametrize(("better", "worse"), list(pairwise(TIERS)))
    def test_tiers(self, better, worse):
        """
        Every reply of a tier scores below every reply of the next.
        """
        highest = max(score_reply(reply).score for reply in TIERS[better])
        lowest = min(score_reply(reply).score for reply in TIERS[worse])

        assert highest < lowest

    @pytest.mark.parametrize(("tier", "drifting"), [("plain", False), ("chatty", False), ("saturated", True)])
    def test_threshold(self, tier, drifting):
        """
        The standard threshold lies between a chatty reply and one that is nothing but padding.
        """
        assert {drifting} == {score_reply(reply).drifting for reply in TIERS[tier]}


class TestFairness:
    @pytest.mark.parametrize("profile", SCORED)
    @pytest.mark.parametrize(
        "reply", ["Please run it.", "Just run pytest.", "Done. Thanks.", "Maybe.", "Of course!"]
    )
    def test_one_marker_in_a_short_reply(self, reply, profile):
        """
        One marker in a reply of three words is not drift, by whichever profile.
        """
        score = score_reply(reply, profile)

        assert not score.drifting
        assert score.score < 20

    def test_words_inside_words(self):
        """
        `I see` in `I seek` and `let me` in `let mexico` are no markers.
        """
        profile = _with_filler("i see", "let me")

        assert 0.0 == score_reply("I seek the file and let mexico know.", profile).score
        assert 0.0 < score_reply("I see. Let me know the file.", profile).score

    @pytest.mark.parametrize("profile", SCORED)
    def test_dense_technical_prose(self, profile):
        """
        A correct, dense technical sentence is not drift.
        """
        assert not score_reply(DENSE, profile).drifting
        assert not score_reply(DENSE + " " + PLAIN, profile).drifting

    @pytest.mark.parametrize("profile", SCORED)
    def test_other_languages(self, profile):
        """
        Verbose German is judged by its structure only, says so, and is not drift.
        """
        score = score_reply(GERMAN, profile)

        assert "de" == score.language
        assert (
            "the reply is in 'de' and the lexicons are in 'en': judged by structure only" == score.not_checked
        )
        assert {"verbosity", "length"} >= {part.name for part in score.offenders}
        assert not score.drifting

    def test_a_profile_for_another_language(self):
        """
        Lexicons in German read German, and leave English alone.
        """
        profile = Profile(
            language="de", lexicons={**_with_filler("gute frage").lexicons}, weights=Profile().weights
        )

        assert ["gute frage"] == _terms(score_reply(GERMAN, profile))
        assert "judged by structure only" in score_reply(PADDED, profile).not_checked

    def test_two_meanings(self):
        """
        A word with two meanings counts beside a plain marker, and only once for each of them.
        """
        alone = "A robust estimator and a powerful test are a good pair of tools for this comparison."
        beside = f"Great question! {alone}"

        assert [] == _terms(score_reply(alone))
        assert ["great question", "robust"] == _terms(score_reply(beside))

    def test_two_meanings_piled_up(self):
        """
        Three different words of one class leave no doubt about each other.
        """
        piled = "The solution is robust, scalable and elegant."

        assert ["robust", "scalable", "elegant"] == _terms(score_reply(piled))

    @pytest.mark.parametrize(
        "reply",
        [
            "A robust loss, a robust scale and a robust estimator were compared.",
            "The robust one will probably just need another pass over the rows.",
        ],
    )
    def test_two_meanings_not_piled_up(self, reply):
        """
        One word three times, or a word each of three classes, is no pile.
        """
        assert [] == _terms(score_reply(reply))

    def test_self_praise(self):
        """
        A reply made of praise for itself is drift, though most of its words have a plain meaning too.
        """
        praise = (
            "I've successfully implemented the comprehensive, production-ready solution! Everything works "
            "perfectly now. The design is robust, scalable, and elegant, a real game changer."
        )

        assert score_reply(praise).drifting
        assert not score_reply(praise, "relaxed").drifting

    def test_two_meanings_in_a_long_reply(self):
        """
        In a reply that is too long anyway they all count.
        """
        filling = "The rows are read and then they are format_document again. " * 50

        assert ["robust", "elegant"] == _terms(score_reply(f"A robust and elegant importer. {filling}"))

    def test_names_in_code_are_not_words(self):
        """
        A file or function that is called like a marker is none.
        """
        assert [] == _terms(
            score_reply("Change to summarize.go, perhaps_run and maybe() as asked, in basically-1.")
        )

    def test_only_prose_counts(self):
        """
        Code, quotes, tables and addresses are not the agent's words.
        """
        reply = (
            "```\nbasically perhaps\n```\n`i think` http://x.org/basically/maybe\n> perhaps maybe\n"
            "| basically | i think |\n~~~\nmaybe\n~~~\n"
            'The user wrote "I think maybe", in src/perhaps/basically.py.'
        )

        assert [] == _terms(score_reply(reply))

    def test_data_is_not_prose(self):
        """
        A reply that is a JSON object has no words to judge.
        """
        assert 0 == score_reply('{"note": "basically, perhaps, I think, maybe, of course"}').words

    def test_accents_are_folded(self):
        """
        An accent, composed or not, does not hide a marker, and the position is the one in the reply.
        """
        profile = _with_filler("voila")
        for reply in ("Et Voilà the result.", "Et Voila\u0300 the result."):
            (marker,) = next(it for it in score_reply(reply, profile).components if it.markers).markers

            assert ("voila", 3) == (marker.term, marker.start)

    def test_structure_alone_is_damped(self):
        """
        Without any marker, structure counts four fifths.
        """
        profile = Profile(weights={**Profile().weights, "length": 1.0}, target_words=1, max_words=10)
        plain, marked = ("The row is read. " * 20, "The row is read. " * 19 + "Basically it is.")
        value = {reply: _part(score_reply(reply, profile), "length").value for reply in (plain, marked)}

        assert (0.8, 1.0) == (value[plain], value[marked])


class TestEvidence:
    @given(st.sampled_from(REPLIES), st.sampled_from(SCORED))
    def test_points_sum_to_the_score(self, reply, profile):
        """
        The points of the components sum to the score.
        """
        score = score_reply(reply, profile)

        assert score.score == pytest.approx(sum(score.points().values()))
        assert 0 <= score.score <= 100

    @given(st.sampled_from(REPLIES))
    def test_positions(self, reply):
        """
        Every marker stands where it says.
        """
        for part in score_reply(reply).components:
            for marker in part.markers:
                there = reply[marker.start : marker.end].lower().replace("\u2019", "'")
                assert marker.term.split() == there.replace(",", " ").replace("-", " ").split()

    def test_seven_components(self):
        """
        A score has the seven components, each with its weight.
        """
        names = ["hedges", "filler", "hype", "meta", "verbosity", "length", "complexity"]

        assert names == [part.name for part in score_reply(PLAIN).components]
        assert Profile().weights == {part.name: part.weight for part in score_reply(PLAIN).components}

    def test_curve(self):
        """
        A density of markers saturates as 1 - e^(-18 rate), the first marker counting half.
        """
        reply = "Basically " + "the row is read again and again. " * 20 + "basically."

        assert 1 - 2.718281828 ** (-18 * 1.5 / 142) == pytest.approx(
            _part(score_reply(reply), "filler").value
        )

    def test_noisy_or(self):
        """
        One strong signal carries, and several weak ones accumulate.
        """
        one = score_reply("Basically, the row is read.").score
        both = score_reply("Basically, perhaps, the row is read.").score

        assert one < both < 100

    def test_as_data(self):
        """
        A score can be written down, with its offenders in words.
        """
        plain = score_reply("Basically fine. " + PLAIN).to_dict()

        assert ["filler (basically)"] == plain["offenders"]
        assert plain["drifting"] is False
        assert plain["flagged"] is False

    def test_a_broken_rule_as_data(self):
        """
        A reply that breaks a rule is flagged without drifting.
        """
        plain = score_reply("Done.", "machine").to_dict()

        assert (False, True) == (plain["drifting"], plain["flagged"])


class TestHostileInput:
    @given(st.text(max_size=400))
    def test_any_text(self, text):
        """
        Any text has a score between 0 and 100.
        """
        assert 0 <= score_reply(text).score <= 100

    @pytest.mark.parametrize("text", ["", " ", "\n\n", "\ud800 basically \udfff", "\x00", None, 5, b"bytes"])
    def test_odd_text(self, text):
        """
        Nothing to read is nothing to object to.
        """
        assert score_reply(text).score < 20

    def test_a_long_reply_is_read_in_part(self):
        """
        Of a very long reply 8 KiB are read, and the rest is taken to be like them.
        """
        sentence = "The row is read again. "
        score = score_reply(sentence * 100_000)

        assert score.words == pytest.approx(500_000, rel=0.01)
        assert 100_000 < score.words

    def test_unknown_profile(self):
        """
        A profile nobody has is named, with those there are.
        """
        with pytest.raises(NotFoundError, match=r"no profile 'pirate'.*standard"):
            score_reply("Arr.", "pirate")


class TestEngagement:
    @pytest.mark.parametrize(
        ("reply", "quadrant"),
        [
            (PLAIN, "on_course"),
            ("Done.", "on_course"),
            (PADDED, "lost"),
            (HANDED_BACK, "inert"),
            (f"{PADDED} I changed `load` in src/app.py because it failed on line 12.", "drifted"),
        ],
    )
    def test_quadrants(self, reply, quadrant):
        """
        Two axes: padded or not, and does it do anything.
        """
        assert quadrant == score_reply(reply).quadrant

    def test_too_short_to_tell(self):
        """
        A short acknowledgement is not called inert.
        """
        assert score_reply("Sure, happy to help.").engagement is None

    def test_relaxed_asks_for_less(self):
        """
        A laxer profile never finds a reply drifted that the standard finds on course.
        """
        for reply in REPLIES:
            if score_reply(reply).quadrant == "on_course":
                assert "on_course" == score_reply(reply, "relaxed").quadrant


def _with_filler(*terms):
    from steadyhelm.style.markers import MarkerTerms

    base = load_bundled("standard")
    lexicons = {**{name: MarkerTerms() for name in base.lexicons}, "filler": MarkerTerms(words=terms)}
    return Profile(lexicons=lexicons)


def _part(score, name):
    return next(part for part in score.components if part.name == name)


def _terms(score):
    markers = [marker for part in score.components for marker in part.markers]
    return [marker.term for marker in sorted(markers, key=lambda marker: marker.start)]

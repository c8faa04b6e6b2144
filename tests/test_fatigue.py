import math
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.errors import SettingsError
from steadyhelm.fatigue import MAX_PATTERNS, MAX_SUBJECTS, Fatigue, Trust, TrustBand

PICTURES = st.lists(st.booleans(), max_size=60)
SHARES = st.floats(min_value=0.01, max_value=1.0)


def told_at(fatigue, picture):
    """The events, from 1, at which a pattern was told; x fires, . does not."""
    told = []
    for event, mark in enumerate(picture, start=1):
        told += [event for reading in fatigue.observe(["p"] if mark == "x" else []) if reading.due]
    return told


class TestTheEma:
    def test_follows_the_formula(self):
        """
        The EMA is alpha times what happened plus the rest of what it was.
        """
        fatigue, expected = Fatigue(alpha=0.3), 0.0
        for fires in (True, True, False, False, True, False):
            fatigue.observe(["p"] if fires else [])
            expected = 0.3 * fires + 0.7 * expected

            assert pytest.approx(expected) == fatigue.ema("p")

    def test_half_life(self):
        """
        With alpha .3 an EMA is halved in about two events.
        """
        fatigue = Fatigue()
        fatigue.observe(["p"])
        start = fatigue.ema("p")
        fatigue.observe()
        fatigue.observe()

        assert pytest.approx(1.94, abs=0.01) == math.log(0.5) / math.log(0.7)
        assert pytest.approx(0.49) == fatigue.ema("p") / start

    def test_patterns_do_not_touch_each_other(self):
        """
        Each pattern has an EMA of its own; one never seen has 0.
        """
        fatigue = Fatigue()
        fatigue.observe(["a"])
        fatigue.observe(["b"])

        assert [0.21, 0.3, 0.0] == [round(fatigue.ema(name), 2) for name in "abc"]

    def test_a_pattern_named_twice_counts_once(self):
        """
        A pattern fires at an event or it does not.
        """
        fatigue = Fatigue()

        assert 1 == len(fatigue.observe(["p", "p"]))

    @given(SHARES, PICTURES)
    def test_stays_between_0_and_1(self, alpha, picture):
        """
        Whatever fires, the EMA stays from 0 to 1.
        """
        fatigue = Fatigue(alpha=alpha)
        for fires in picture:
            fatigue.observe(["p"] if fires else [])

            assert 0.0 <= fatigue.ema("p") <= 1.0


class TestTheCooldown:
    def test_a_rare_pattern_waits_for_its_base(self):
        """
        Two firings far apart are both told; one within the cooldown is not.
        """
        assert [1] == told_at(Fatigue(), "x....x")
        assert [1, 12] == told_at(Fatigue(), "x..........x")

    def test_a_chronic_pattern_waits_longer(self):
        """
        A pattern that fires at every event is told again after four times its cooldown.
        """
        assert [1, 21, 41] == told_at(Fatigue(cooldown_events=5), "x" * 45)

    def test_without_cooldown_every_firing_is_told(self):
        """
        A cooldown of no events never holds back.
        """
        assert [1, 2, 3] == told_at(Fatigue(cooldown_events=0), "xxx")

    def test_is_per_pattern(self):
        """
        Telling one pattern does not silence another.
        """
        fatigue = Fatigue()
        fatigue.observe(["a"])

        assert [("a", False), ("b", True)] == [(r.pattern, r.due) for r in fatigue.observe(["a", "b"])]

    @given(SHARES, st.integers(min_value=0, max_value=20), PICTURES)
    def test_is_never_shorter_than_its_base(self, alpha, base, picture):
        """
        A cooldown is its base when the pattern is rare, up to four times as long when it is not.
        """
        fatigue = Fatigue(alpha=alpha, cooldown_events=base)
        for fires in picture:
            fatigue.observe(["p"] if fires else [])

            assert base <= fatigue.cooldown("p") <= 4 * base

    @given(st.integers(min_value=0, max_value=10), st.text(alphabet="x.", max_size=80))
    def test_alerts_are_further_apart_than_the_base(self, base, picture):
        """
        Two alerts of one pattern are always more than the base apart.
        """
        told = told_at(Fatigue(cooldown_events=base), picture)

        assert all(later - earlier > base for earlier, later in pairwise(told))


class TestEscalation:
    def test_soft_becomes_hard_above_saturation(self):
        """
        The second firing in a row is above .5: from then on the pattern is hard.
        """
        fatigue = Fatigue()
        readings = [fatigue.observe(["p"])[0] for _ in range(3)]

        assert [False, True, True] == [reading.hard for reading in readings]
        assert [False, True, False] == [reading.escalated for reading in readings]

    def test_saturation_is_a_setting(self):
        """
        A higher saturation asks for a longer streak.
        """
        fatigue = Fatigue(saturation=0.9)

        assert [False] * 6 + [True] == [fatigue.observe(["p"])[0].hard for _ in range(7)]

    def test_calm_takes_it_back(self):
        """
        A pattern that stops firing is no longer hard.
        """
        fatigue = Fatigue()
        told_at(fatigue, "xxx...")

        assert not fatigue.is_hard("p")


class TestStartingAfresh:
    def test_after_an_intervention_counting_starts_afresh(self):
        """
        A pattern that comes back after an intervention is news: soft again, and told at once.
        """
        fatigue = Fatigue()
        told_at(fatigue, "xxxx")
        fatigue.reset("p")
        back = fatigue.observe(["p"])[0]

        assert (True, False, 0.3) == (back.due, back.hard, back.ema)

    def test_one_or_all(self):
        """
        One pattern can be forgotten, or all of them.
        """
        fatigue = Fatigue()
        fatigue.observe(["a", "b"])
        fatigue.reset("a")
        assert [None, 1] == [fatigue.last_alert("a"), fatigue.last_alert("b")]
        fatigue.reset()

        assert fatigue.last_alert("b") is None


class TestItsState:
    def test_survives_being_saved(self):
        """
        A fatigue that was saved and read back goes on as if nothing had happened.
        """
        fatigue = Fatigue()
        told_at(fatigue, "xx..x")
        again = msgspec.msgpack.decode(msgspec.msgpack.encode(fatigue), type=Fatigue)

        assert fatigue == again
        assert told_at(fatigue, "x" * 30) == told_at(again, "x" * 30)

    def test_is_bounded(self):
        """
        Of too many patterns the one silent for longest is forgotten.
        """
        fatigue = Fatigue()
        for number in range(MAX_PATTERNS + 5):
            fatigue.observe([f"p{number}"])

        assert MAX_PATTERNS == len(fatigue.patterns)
        assert 0.0 == fatigue.ema("p0")

    @pytest.mark.parametrize(
        "bad",
        [
            {"alpha": 0},
            {"alpha": 1.1},
            {"alpha": float("nan")},
            {"alpha": True},
            {"saturation": 0.0},
            {"saturation": "high"},
            {"cooldown_events": -1},
            {"cooldown_events": 2.5},
            {"stretch": -1.0},
        ],
    )
    def test_bad_settings_are_named(self, bad):
        """
        A setting out of range is refused with its name and its value.
        """
        with pytest.raises(SettingsError, match=f"{next(iter(bad))} must be"):
            Fatigue(**bad)


class TestTrust:
    def test_starts_in_the_middle(self):
        """
        Nobody knows a subject never seen: half trusted, widely uncertain, ordinary.
        """
        assert (0.5, pytest.approx(0.2236, abs=1e-4), TrustBand.ORDINARY) == Trust().of("tool", "bash")

    def test_a_finding_lowers_and_clean_use_raises(self):
        """
        One observation moves Beta(2,2) to 2/5 or 3/5.
        """
        trust = Trust()
        trust.lower("file", "a.py")
        trust.raise_("file", "b.py")

        assert [0.4, 0.6] == [trust.of("file", name).mean for name in ("a.py", "b.py")]

    def test_evidence_makes_certain(self):
        """
        The more was seen, the smaller the uncertainty.
        """
        trust = Trust()
        for _ in range(20):
            trust.raise_("tool", "bash")

        assert trust.of("tool", "bash").uncertainty < trust.of("tool", "new").uncertainty

    def test_tools_and_files_are_apart(self):
        """
        A file may have a tool's name.
        """
        trust = Trust()
        trust.lower("file", "make")

        assert 0.5 == trust.of("tool", "make").mean

    @pytest.mark.parametrize(
        ("mean", "band"),
        [
            (0.0, "distrusted"),
            (0.19, "distrusted"),
            (0.2, "doubtful"),
            (0.4, "ordinary"),
            (0.79, "ordinary"),
            (0.8, "trusted"),
            (1.0, "trusted"),
        ],
    )
    def test_bands(self, mean, band):
        """
        Below .2, .4 and .8 lie distrusted, doubtful and ordinary; above, trusted.
        """
        assert band == TrustBand.from_mean(mean)

    def test_long_earned_trust_can_be_lost(self):
        """
        After a thousand clean uses a few dozen findings still make a tool doubtful.
        """
        trust = Trust()
        for _ in range(1000):
            trust.raise_("tool", "bash")
        assert TrustBand.TRUSTED == trust.of("tool", "bash").band
        for _ in range(64):
            trust.lower("tool", "bash")

        assert TrustBand.DOUBTFUL == trust.of("tool", "bash").band

    def test_standings_show_the_worst_first(self):
        """
        A report begins with what is trusted least.
        """
        trust = Trust()
        trust.raise_("tool", "good")
        trust.lower("tool", "bad")

        assert ["bad", "good"] == list(trust.scores("tool"))

    def test_a_weight_is_a_score(self):
        """
        A weight counts from 0 to 1; anything else is cut to that, and no number counts nothing.
        """
        trust = Trust()
        for weight in (float("nan"), -3.0, 0.0):
            trust.lower("file", "a.py", weight)
        assert 0.5 == trust.of("file", "a.py").mean
        trust.lower("file", "a.py", 99.0)

        assert 0.4 == trust.of("file", "a.py").mean

    def test_is_bounded_and_keeps_the_doubtful(self):
        """
        Of too many files the ones untouched for longest go, those in bad standing last.
        """
        trust = Trust()
        for _ in range(3):
            trust.lower("file", "bad.py")
        for number in range(MAX_SUBJECTS + 50):
            trust.raise_("file", f"{number}.py")

        assert MAX_SUBJECTS == len(trust.files)
        assert TrustBand.DOUBTFUL == trust.of("file", "bad.py").band
        assert 0.5 == trust.of("file", "0.py").mean

    def test_survives_being_saved(self):
        """
        Trust that was saved and read back is the same trust.
        """
        trust = Trust()
        trust.lower("tool", "bash", 0.7)

        assert trust == msgspec.json.decode(msgspec.json.encode(trust), type=Trust)

    @pytest.mark.parametrize(
        "bad", [{"prior_clean": 0}, {"prior_findings": -1.0}, {"memory": 0.5}, {"memory": "all"}]
    )
    def test_bad_settings_are_named(self, bad):
        """
        A prior without weight and a memory without room are refused.
        """
        with pytest.raises(SettingsError, match=f"{next(iter(bad))} must be"):
            Trust(**bad)

    @given(
        st.lists(st.tuples(st.booleans(), st.floats(min_value=0.0, max_value=1.0)), max_size=150),
        st.sampled_from([1.0, 5.0, 64.0]),
    )
    def test_stays_inside_and_moves_with_the_evidence(self, seen, memory):
        """
        The mean stays above 0 and below 1, never rises by a finding and never falls by clean use.
        """
        trust = Trust(memory=memory)
        for clean, weight in seen:
            before = trust.of("file", "f").mean
            (trust.raise_ if clean else trust.lower)("file", "f", weight)
            after = trust.of("file", "f").mean

            assert 0.0 < after < 1.0
            assert after >= before - 1e-12 if clean else after <= before + 1e-12

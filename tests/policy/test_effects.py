import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.decisions import RESPONSE_LEVELS
from steadyhelm.policy.outcomes import FACETS, MIN_JUDGED, build_share, compare_shares, measure_effects
from steadyhelm.store_rows import StoredIntervention
from steadyhelm.testing.store_records import an_intervention


def kept(outcome="worked", *, agent_id="agent", kind="loop", review="", **fields):
    """One answer as a store gives it."""
    return StoredIntervention(
        incident_id="incident",
        agent_id=agent_id,
        run_id="run",
        kind=kind,
        detector="action_loop",
        intervention=an_intervention(outcome=outcome, **fields),
        review=review,
    )


def unsaid(outcome):
    """An answer in mode `observe`: kept, and nobody was told."""
    return kept(outcome, verdict="proceed")


def together(*answers):
    return measure_effects(answers).together


class TestCounting:
    def test_each_outcome_is_counted(self):
        """
        Answers are counted by what came of them; those not judged yet are no part of the share.
        """
        effect = together(*map(kept, ["worked", "worked", "ignored", "worse", "unknown"]))

        assert (5, 2, 1, 1, 1) == (effect.said, effect.worked, effect.ignored, effect.worse, effect.unknown)
        assert (2, 4) == (effect.helped.hits, effect.helped.of)

    def test_what_was_not_said_stands_apart(self):
        """
        Where nothing was said, drift that stops has stopped by itself.
        """
        effect = together(kept("ignored"), unsaid("worked"), unsaid("ignored"), unsaid("unknown"))

        assert (1, 0, 3) == (effect.said, effect.worked, effect.unsaid)
        assert (1, 2) == (effect.by_itself.hits, effect.by_itself.of)

    def test_what_could_not_be_carried_out_is_no_try(self):
        """
        An answer the caller could not carry out is neither said nor left unsaid.
        """
        effect = together(kept("ignored", not_carried_out="no way to speak"))

        assert (0, 0, 0, 1) == (effect.said, effect.unsaid, effect.helped.of, effect.not_carried_out)

    def test_a_false_alarm_proves_nothing(self):
        """
        Answers to what people called a false alarm are left out, and counted.
        """
        report = measure_effects([kept(review="false_alarm"), kept("ignored", review="confirmed")])

        assert (1, 1, 0) == (report.false_alarms, report.together.said, report.together.worked)

    def test_tokens(self):
        """
        What answers that worked saved adds up; what an incident had cost before is the median.
        """
        effect = together(
            kept(tokens_saved=100, tokens_before=10, cost_before_usd=0.25),
            kept(tokens_saved=None, tokens_before=20, cost_before_usd=0.5),
            kept("ignored", tokens_saved=7, tokens_before=900, cost_before_usd=9.0),
        )

        assert (100, 20.0, 0.5) == (effect.tokens_saved, effect.tokens_before, effect.cost_before_usd)

    def test_what_was_not_said_saved_nothing(self):
        """
        Drift that stopped by itself was not stopped by us.
        """
        assert 0 == together(kept(verdict="proceed", tokens_saved=100)).tokens_saved

    def test_nothing(self):
        """
        Without answers there are no rows, and nothing is known.
        """
        report = measure_effects([])

        assert ((), None, None) == (report.rows, report.together.helped.value, report.together.gain)


class TestGroups:
    def test_agent_and_wording(self):
        """
        By default there is a row for each agent and wording, the most said first.
        """
        report = measure_effects([kept(agent_id="b"), kept(), kept(wording="replan.loop"), kept()])

        assert [
            ({"agent": "agent", "wording": "remind.loop"}, 2),
            ({"agent": "agent", "wording": "replan.loop"}, 1),
            ({"agent": "b", "wording": "remind.loop"}, 1),
        ] == [(row.group, row.said) for row in report.rows]

    @pytest.mark.parametrize(
        ("facet", "names"),
        [
            ("agent", ["agent"]),
            ("kind", ["goal", "loop"]),
            ("action", ["ASK_USER", "INJECT_REMINDER"]),
            ("wording", ["", "remind.loop"]),
        ],
    )
    def test_one_facet(self, facet, names):
        """
        Any one facet may make the groups; a wording from before wordings had names is a group too.
        """
        report = measure_effects([kept(), kept(kind="goal", action=RESPONSE_LEVELS[-1], wording="")], [facet])

        assert names == [row.group[facet] for row in report.rows]

    @given(
        st.lists(
            st.builds(
                kept,
                st.sampled_from(["worked", "ignored", "worse", "unknown"]),
                agent_id=st.sampled_from("ab"),
                kind=st.sampled_from(["loop", "goal"]),
                wording=st.sampled_from(["", "x"]),
                verdict=st.sampled_from(["proceed", "guide", "stop"]),
                not_carried_out=st.sampled_from(["", "cannot"]),
                review=st.sampled_from(["", "false_alarm"]),
                action=st.sampled_from(RESPONSE_LEVELS),
                tokens_saved=st.none() | st.integers(0, 99),
            ),
            max_size=30,
        ),
        st.lists(st.sampled_from(FACETS), unique=True),
    )
    def test_every_answer_is_in_one_row(self, answers, by):
        """
        However they are grouped, the rows add up to all answers, and the order they came in does not matter.
        """
        report = measure_effects(answers, by)
        counts = (
            "said",
            "worked",
            "ignored",
            "worse",
            "unknown",
            "unsaid",
            "not_carried_out",
            "tokens_saved",
        )

        assert [getattr(report.together, name) for name in counts] == [
            sum(getattr(row, name) for row in report.rows) for name in counts
        ]
        every = report.together.said + report.together.unsaid + report.together.not_carried_out
        assert len(answers) == every + report.false_alarms
        assert report == measure_effects(answers[::-1], by)


class TestShare:
    def test_small_samples_say_so(self):
        """
        Below ten judged answers a share is not enough to go by.
        """
        assert [False, True] == [
            build_share(MIN_JUDGED - 1, MIN_JUDGED - 1).is_enough,
            build_share(0, MIN_JUDGED).is_enough,
        ]

    @given(st.integers(1, 500).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of))))
    def test_the_interval_holds_the_share(self, counts):
        """
        An interval lies between 0 and 1, holds its share, and is never a point.
        """
        found = build_share(*counts)

        assert 0 <= found.low <= found.value <= found.high <= 1
        assert found.low < found.high


class TestGain:
    def test_too_few(self):
        """
        With too few on either side nothing is said about the difference.
        """
        assert [None, None] == [
            compare_shares(build_share(9, 9), build_share(9, 20)),
            compare_shares(build_share(9, 20), build_share(9, 9)),
        ]

    def test_a_clear_difference(self):
        """
        Where answers help far more often than drift stops by itself, the interval is above 0.
        """
        found = compare_shares(build_share(45, 50), build_share(10, 50))

        assert 0.7 == pytest.approx(found.value)
        assert 0.5 < found.low < found.value < found.high < 0.9

    def test_no_difference(self):
        """
        Equal shares give an interval around 0.
        """
        found = compare_shares(build_share(10, 20), build_share(10, 20))

        assert found.low < 0.0 == found.value < found.high

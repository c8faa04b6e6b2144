import math

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.baselines import BaselineStats
from steadyhelm.calibration import calibrate, count_unusual_run, find_frequent_sequences
from steadyhelm.embedders.idf import BUCKETS, count_words, mark_words
from steadyhelm.events import RunSummary


def run(tokens=1000, **fields):
    return RunSummary(**{"agent_id": "a", "run_id": "r", "tokens": tokens} | fields)


def learnt(*runs, **fields):
    """The baseline after these runs, each learnt in turn."""
    baseline = BaselineStats(agent_id="a", **fields)
    for place in range(len(runs)):
        baseline = calibrate(baseline, runs[place], runs[max(0, place - 99) : place + 1])
    return baseline


def spoken(text):
    bitmap = bytearray(BUCKETS // 8)
    mark_words(bitmap, count_words(text))
    return bytes(bitmap)


class TestStates:
    def test_calibrated_after_the_required_runs(self):
        """
        An agent learns until it has the runs it needs, and is calibrated from then on.
        """
        states = [learnt(*[run()] * count, required_runs=3).progress for count in range(5)]

        assert [
            "learning 0/3",
            "learning 1/3",
            "learning 2/3",
            "calibrated on 3 runs",
            "calibrated on 4 runs",
        ] == states

    def test_frozen_stays_as_it_is(self):
        """
        A frozen baseline learns nothing.
        """
        frozen = msgspec.structs.replace(learnt(run(), run()), is_frozen=True)

        assert frozen is calibrate(frozen, run(10**9), [run(10**9)])

    def test_a_run_with_an_incident_is_left_out(self):
        """
        A run in which something went wrong does not become what is normal.
        """
        before = learnt(run(), run())

        assert before is calibrate(before, run(10**9, had_incident=True), [run()])

    def test_whose_it_is_stays(self):
        """
        Learning changes neither agent nor version nor type of task.
        """
        after = learnt(run(), version="2", task_type="refund")

        assert ("a", "2", "refund") == (after.agent_id, after.version, after.task_type)


class TestUnusualRuns:
    def after_unusual(self, count, before=None):
        baseline = before or learnt(run(), run())
        for _ in range(count):
            baseline = count_unusual_run(baseline)
        return baseline

    def test_four_in_a_row_are_a_sign(self):
        """
        After four unusual runs in a row the agent may have changed for good; further ones add nothing.
        """
        states = [self.after_unusual(count) for count in range(7)]

        assert [0, 1, 2, 3, 4, 4, 4] == [it.unusual_runs for it in states]
        assert [False] * 4 + [True] * 3 == [it.may_be_outdated for it in states]

    @given(st.integers(0, 1000))
    def test_they_never_become_usual(self, count):
        """
        However many unusual runs follow each other, what is normal stays as it was.
        """
        before = learnt(run(900, tool_calls=3), run(1100, tool_calls=5))
        after = self.after_unusual(count, before)

        assert before == msgspec.structs.replace(after, unusual_runs=0)

    def test_a_clean_run_ends_the_row(self):
        """
        A run like the others says that the agent is as it was.
        """
        after = calibrate(self.after_unusual(5), run(), [run()] * 3)

        assert (0, False) == (after.unusual_runs, after.may_be_outdated)

    def test_a_frozen_baseline_counts_none(self):
        """
        A frozen baseline is meant to show every change, and asks for no reset.
        """
        frozen = msgspec.structs.replace(learnt(run()), is_frozen=True)

        assert frozen is count_unusual_run(frozen)
        assert not msgspec.structs.replace(self.after_unusual(4), is_frozen=True).may_be_outdated


class TestNumbers:
    def test_means_and_spreads(self):
        """
        Mean and standard deviation of tokens, tools and duration are those of the recent runs.
        """
        after = learnt(
            run(100, tool_calls=2, duration_ms=10.0),
            run(300, tool_calls=4, duration_ms=30.0),
        )

        assert (200.0, 100.0) == (after.mean_tokens_per_run, after.std_tokens_per_run)
        assert (3.0, 1.0) == (after.mean_tools_per_run, after.std_tools_per_run)
        assert (20.0, 10.0) == (after.mean_duration_ms, after.std_duration_ms)

    def test_quantiles_are_taken_of_logs(self):
        """
        Between a run of 1,000 and one of 100,000 tokens lies 10,000: an order of magnitude each way.
        """
        assert math.isclose(10_000, learnt(run(1_000), run(100_000)).spreads["tokens"].p50)

    def test_two_kinds_of_task_are_both_usual(self):
        """
        An agent with small and large tasks has a high quantile among the large ones.
        """
        spread = learnt(*[run(1_000)] * 30, *[run(50_000)] * 10).spreads["tokens"]

        assert (1_000, 50_000) == (round(spread.p50), round(spread.p95))

    @given(st.lists(st.integers(0, 10**9), min_size=1, max_size=40))
    def test_quantiles_stay_within_what_was_seen(self, sizes):
        """
        No quantile lies outside the runs it was learnt from, and nothing is ever other than a number.
        """
        after = learnt(*map(run, sizes))
        spread = after.spreads["tokens"]

        assert max(1, min(sizes)) * 0.999 <= spread.p50 <= spread.p95 * 1.001
        assert spread.p95 <= max(1, *sizes) * 1.001
        assert math.isfinite(after.std_tokens_per_run)

    @given(st.integers(1, 10**6), st.integers(2, 50))
    def test_an_order_of_magnitude_shows(self, size, times):
        """
        Runs that are so many times as large give quantiles that many times as large.
        """
        small = learnt(*[run(size)] * 3).spreads["tokens"].p95
        large = learnt(*[run(size * times)] * 3).spreads["tokens"].p95

        assert math.isclose(times, large / small, rel_tol=1e-6)

    def test_trends_run_on(self):
        """
        Every run goes into the sums over runs, one sum a measure.
        """
        after = learnt(*[run()] * 7)

        assert {"tokens": 7, "tools": 7, "duration_ms": 7} == {
            measure: trend.learning.count for measure, trend in after.trends.items()
        }


class TestGoals:
    def test_similarities_are_learnt_in_order(self):
        """
        The similarities of all clean runs are kept, sorted, and their mean is the usual similarity.
        """
        after = learnt(run(similarities=[0.5, 0.1], embedder="idf"), run(similarities=[0.3], embedder="idf"))

        assert [0.1, 0.3, 0.5] == after.similarities
        assert math.isclose(0.3, after.mean_goal_similarity)

    def test_another_embedder_starts_anew(self):
        """
        Similarities on the scale of another embedder are not mixed in.
        """
        after = learnt(
            run(similarities=[0.1], embedder="idf"),
            run(similarities=[0.8], embedder="minilm"),
            run(),
        )

        assert ([0.8], "minilm") == (after.similarities, after.embedder)

    def test_the_reference_is_bounded(self):
        """
        However many runs there were, some hundred similarities are kept, over the whole range.
        """
        after = learnt(*[run(similarities=[n / 100 for n in range(10)], embedder="idf")] * 200)

        assert 100 < len(after.similarities) <= 400
        assert (0.0, 0.09) == (after.similarities[0], after.similarities[-1])

    def test_words_are_counted_by_run(self):
        """
        A word counts once a run, however often it was said.
        """
        after = learnt(run(words=spoken("flight flight flight")), run(words=spoken("flight hotel")))
        (flight,) = count_words("flight")
        (hotel,) = count_words("hotel")

        assert (2, 2, 1) == (
            after.word_runs,
            after.word_counts[flight % BUCKETS],
            after.word_counts[hotel % BUCKETS],
        )

    def test_a_silent_run_counts_no_words(self):
        """
        A run without outputs says nothing about words.
        """
        assert 1 == learnt(run(words=spoken("flight")), run(), run(words=bytes(BUCKETS // 8))).word_runs

    def test_old_words_fade(self):
        """
        After some hundred runs the past counts half, so that counts never overflow.
        """
        after = learnt(*[run(words=spoken("flight"))] * 450)
        (flight,) = count_words("flight")

        assert after.word_runs < 200
        assert after.word_counts[flight % BUCKETS] == after.word_runs


class TestSequences:
    def test_the_most_frequent_first(self):
        """
        A run's sequences of two to four actions, the most frequent first, the shorter before the longer.
        """
        assert [["a", "b"], ["b", "a"], ["a", "b", "a"]] == find_frequent_sequences("ababa")[:3]

    def test_lengths_are_two_to_four(self):
        """
        No sequence is shorter than two or longer than four.
        """
        assert {2, 3, 4} == {len(sequence) for sequence in find_frequent_sequences("abcdefg")}

    def test_a_single_action_is_no_sequence(self):
        """
        One action alone, or none, has no sequences.
        """
        assert [] == find_frequent_sequences(["a"]) == find_frequent_sequences([])

    @given(st.lists(st.sampled_from("abcdefgh"), max_size=60))
    def test_a_run_keeps_at_most_twenty(self, names):
        """
        A run keeps at most twenty sequences, each of which occurred in it.
        """
        kept = find_frequent_sequences(names)

        assert 20 >= len(kept)
        assert all(
            any(names[place : place + len(sequence)] == sequence for place in range(len(names)))
            for sequence in kept
        )

    def test_five_common_ones_over_runs(self):
        """
        The baseline keeps the five sequences that most runs share, the longer first.
        """
        usual = run(sequences=find_frequent_sequences(["read", "edit", "test", "commit"]))
        odd = run(sequences=find_frequent_sequences(["dance", "sing"]))
        common = learnt(usual, usual, odd).common_sequences

        assert 5 == len(common)
        assert ["read", "edit", "test", "commit"] == common[0]
        assert ["dance", "sing"] not in common

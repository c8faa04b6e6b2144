import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from steadyhelm.baselines import BaselineStats, Cusum, Spread, Trend
from steadyhelm.decisions import DriftAction
from steadyhelm.detectors.resource_spike import ResourceSpike
from steadyhelm.errors import SettingsError
from steadyhelm.events import RunInfo
from steadyhelm.findings import Severity
from steadyhelm.policy.guidance import write_guidance
from steadyhelm.testing.traces import AGENT, RUN, events, fired_at

NEW = BaselineStats(agent_id=AGENT)


def findings(detector, picture, baseline=NEW, **run):
    trace = events(picture) if isinstance(picture, str) else picture
    detector.begin(RunInfo(agent_id=AGENT, run_id=RUN, **run))
    return [finding for event in trace if (finding := detector.check(event, baseline))]


def slow(picture, seconds):
    """The picture's events, this far apart."""
    return [structs.replace(event, timestamp=1000.0 + event.seq * seconds) for event in events(picture)]


def usual(**fields):
    return BaselineStats(agent_id=AGENT, is_calibrated=True, calibration_runs=30, **fields)


class TestTokenLimit:
    def test_the_seeds_limit_is_the_default(self):
        """
        A run may spend 50,000 tokens; the one after is too many.
        """
        assert [50, 51] == fired_at(ResourceSpike(), "r" * 52)

    @pytest.mark.parametrize(
        ("replies", "score", "severity"),
        [(11, 0.7, "HIGH"), (18, 0.8, "HIGH"), (19, 0.9, "CRITICAL"), (40, 1.0, "CRITICAL")],
    )
    def test_the_score_is_at_least_high(self, replies, score, severity):
        """
        Passing the limit is HIGH at once, and CRITICAL towards twice the limit.
        """
        last = findings(ResourceSpike(absolute_token_limit=10_000), "r" * replies)[-1]

        assert (pytest.approx(score), severity) == (last.score, last.severity)
        assert last.context["hard_limit"]

    def test_no_limit(self):
        """
        None means no limit.
        """
        assert [] == fired_at(ResourceSpike(absolute_token_limit=None), "r" * 200)

    def test_it_says_what_was_spent(self):
        """
        The finding names what was spent, the limit, and all counters of the run.
        """
        last = findings(ResourceSpike(absolute_token_limit=2_000), "arrr")[-1]

        assert "3,000 tokens spent in this run, the limit is 2,000" == last.message
        assert (3000, 2000) == (last.context["spent"], last.context["limit"])
        assert {
            "tokens": 3000,
            "tools": 1,
            "llm_calls": 3,
            "duration_ms": pytest.approx(300),
        } == last.context["totals"]


class TestALimitThatStaysPassed:
    def test_it_is_listed_at_each_quarter(self):
        """
        A passed limit is listed at once and at 1.25, 1.5, 1.75 ... times the limit, and goes on in between.
        """
        found = findings(ResourceSpike(absolute_token_limit=10_000), "r" * 25)

        assert [11, 13, 15, 18, 20, 23, 25] == [
            it.context["spent"] // 1000 for it in found if not it.is_ongoing
        ]
        assert list(range(11, 26)) == [it.context["spent"] // 1000 for it in found]

    def test_so_is_more_than_usual(self):
        """
        A run that takes more than is usual for its agent is listed in the same steps.
        """
        baseline = usual(mean_tools_per_run=8.0, spreads={"tools": Spread(p50=8, p95=12)})
        found = findings(ResourceSpike(), "." * 24, baseline)

        assert [19, 20, 21, 22, 23, 24] == [it.context["spent"] for it in found]
        assert [19, 23] == [it.context["spent"] for it in found if not it.is_ongoing]

    def test_put_aside_it_is_not_listed_again(self):
        """
        A run that is resumed past its limit lists it at the next quarter, not at once.
        """
        first, second = (ResourceSpike(absolute_token_limit=10_000) for _ in range(2))
        trace = events("r" * 14)
        for event in trace[:11]:
            first.check(event, usual())
        second.restore(first.state())

        assert [True, False] == [second.check(event, usual()).is_ongoing for event in trace[11:13]]


class TestDurationLimit:
    def test_five_minutes_is_the_default(self):
        """
        A run may take five minutes, counted in event time from its first event.
        """
        assert [6] == fired_at(ResourceSpike(), slow(".......", 51.0))

    def test_it_is_high(self):
        """
        A run that takes too long always scores .8.
        """
        assert [0.8] == [finding.score for finding in findings(ResourceSpike(), slow("..", 301.0))]

    def test_time_counts_from_the_runs_start(self):
        """
        Where the start of the run is known, time counts from there.
        """
        assert 1 == len(findings(ResourceSpike(), slow(".", 0.0), started_at=600.0))

    def test_the_first_events_own_duration_counts(self):
        """
        Else it counts from the start of the first event, not from its end.
        """
        (event,) = slow(".", 0.0)

        assert [0] == fired_at(ResourceSpike(), [structs.replace(event, duration_ms=300_001.0)])

    def test_no_limit(self):
        """
        None means no limit.
        """
        assert [] == fired_at(ResourceSpike(absolute_duration_limit_ms=None), slow("...", 9999.0))

    def test_an_event_from_the_past_takes_no_time_back(self):
        """
        A clock that goes backwards does not make the run shorter.
        """
        trace = slow("..", 299.0)
        back = [*trace, structs.replace(trace[0], seq=2), structs.replace(trace[1], seq=3, timestamp=1302.0)]

        assert [3] == fired_at(ResourceSpike(), back)


class TestSoftLimits:
    def test_a_soft_limit_is_only_noticed(self):
        """
        With soft limits passing one is LOW: noticed, not reported.
        """
        found = findings(ResourceSpike(absolute_token_limit=2_000, soft_limits=True), "r" * 9)

        assert {Severity.LOW} == {finding.severity for finding in found}
        assert not any(finding.context["hard_limit"] for finding in found)

    def test_a_soft_limit_does_not_go_on(self):
        """
        It is noticed when it is passed and at each doubling; in between there is nothing to decide.
        """
        found = findings(ResourceSpike(absolute_token_limit=2_000, soft_limits=True), "r" * 16)

        assert [3, 4, 8, 16] == [it.context["spent"] // 1000 for it in found]
        assert not any(it.is_ongoing for it in found)

    def test_a_soft_limit_does_not_hide_what_is_unusual(self):
        """
        A run past a soft limit is still compared with the agent's own runs.
        """
        baseline = usual(mean_tokens_per_run=2000.0, spreads={"tokens": Spread(p50=1000.0, p95=3000.0)})
        found = findings(ResourceSpike(absolute_token_limit=2_000, soft_limits=True), "r" * 20, baseline)

        assert {"the limit is", "seldom more than"} == {
            words for it in found for words in ("the limit is", "seldom more than") if words in it.message
        }
        assert found[-1].severity is not Severity.LOW


class TestAgainstTheBaseline:
    def test_an_agent_that_still_learns_is_not_compared(self):
        """
        Before calibration only hard limits count.
        """
        learning = BaselineStats(
            agent_id=AGENT, mean_tokens_per_run=100.0, spreads={"tokens": Spread(p50=100.0, p95=100.0)}
        )

        assert [] == fired_at(ResourceSpike(), "r" * 40, learning)

    def test_quantiles(self):
        """
        A run is a spike when it lies twice as far above the median, in logs, as nineteen in twenty do.
        """
        baseline = usual(mean_tokens_per_run=2000.0, spreads={"tokens": Spread(p50=1000.0, p95=3000.0)})

        assert 9 == fired_at(ResourceSpike(), "r" * 12, baseline)[0]

    def test_a_narrow_spread_leaves_some_room(self):
        """
        Runs that were all alike still leave half as much again.
        """
        baseline = usual(mean_tokens_per_run=4000.0, spreads={"tokens": Spread(p50=4000.0, p95=4000.0)})

        assert 6 == fired_at(ResourceSpike(), "r" * 8, baseline)[0]

    @pytest.mark.parametrize(
        ("times", "severity"), [(1.9, "LOW"), (2, "MED"), (3.4, "HIGH"), (9.9, "HIGH"), (10, "CRITICAL")]
    )
    def test_severity_follows_from_how_many_times_the_limit_it_is(self, times, severity):
        """
        Twice what the agent's runs seldom pass is worth a report, and ten times is critical.
        """
        baseline = usual(mean_tokens_per_run=4000.0, spreads={"tokens": Spread(p50=4000.0, p95=4000.0)})
        spent = structs.replace(events("r")[0], token_count=int(6000 * times))
        (found,) = findings(ResourceSpike(soft_limits=True), [spent], baseline)

        assert severity == found.severity

    @pytest.mark.parametrize(
        ("picture", "fields"),
        [
            ("r" * 2, {"mean_tokens_per_run": 100.0, "spreads": {"tokens": Spread(p50=100, p95=100)}}),
            ("." * 10, {"mean_tools_per_run": 2.0, "spreads": {"tools": Spread(p50=2, p95=2)}}),
            (slow("." * 7, 5.0), {"mean_duration_ms": 6.0, "spreads": {"duration_ms": Spread(p50=6, p95=7)}}),
        ],
    )
    def test_little_is_not_unusual(self, picture, fields):
        """
        Where all runs were short and alike, a few calls, seconds or tokens more are nothing to report.
        """
        assert [] == fired_at(ResourceSpike(), picture, usual(**fields))

    def test_time_is_given_in_seconds(self):
        """
        People read seconds, not milliseconds.
        """
        fields = {"mean_duration_ms": 4000.0, "spreads": {"duration_ms": Spread(p50=4000, p95=5000)}}
        last = findings(ResourceSpike(), slow("." * 9, 15.0), usual(**fields))[-1]

        assert last.message.startswith("120 seconds in this run; this agent's runs take 4.0 on average")

    def test_the_agent_is_told_what_it_can_do(self):
        """
        The suggestion is for people; guidance tells the agent to sum up and finish.
        """
        baseline = usual(mean_tokens_per_run=2000.0, spreads={"tokens": Spread(p50=1000.0, p95=3000.0)})
        last = findings(ResourceSpike(), "r" * 30, baseline)[-1]
        guidance = write_guidance(DriftAction.INJECT_REMINDER, [last], "list the ferries").text

        assert "Ask the agent" in last.suggested_action
        assert "Ask the agent" not in guidance
        assert "Sum up what is done and what is left" in guidance

    def test_the_seeds_rule_with_a_multiplier(self):
        """
        With a multiplier the limit is mean plus so many deviations, and at least half as much again.
        """
        wide = usual(mean_tokens_per_run=2000.0, std_tokens_per_run=800.0)
        narrow = usual(mean_tokens_per_run=2000.0, std_tokens_per_run=0.0)

        assert 4 == fired_at(ResourceSpike(spike_multiplier=2.5), "r" * 8, wide)[0]
        assert 3 == fired_at(ResourceSpike(spike_multiplier=2.5), "r" * 8, narrow)[0]

    def test_the_score_is_the_excess(self):
        """
        The score is how far above the limit it is, as a share of the limit.
        """
        baseline = usual(mean_tokens_per_run=2000.0, std_tokens_per_run=800.0)
        scores = [
            finding.score for finding in findings(ResourceSpike(spike_multiplier=2.5), "r" * 8, baseline)
        ]

        assert [0.25, 0.5, 0.75, 1.0] == scores

    @pytest.mark.parametrize(
        ("picture", "fields", "measure"),
        [
            ("r" * 9, {"mean_tokens_per_run": 1000.0}, "tokens"),
            ("." * 9, {"mean_tools_per_run": 2.0}, "tools"),
            (slow("." * 9, 1.0), {"mean_duration_ms": 2000.0}, "duration_ms"),
        ],
    )
    def test_tokens_tools_and_time_are_compared(self, picture, fields, measure):
        """
        Tokens, tool calls and time are each compared with what is usual.
        """
        last = findings(ResourceSpike(spike_multiplier=2.5), picture, usual(**fields))[-1]

        assert measure == last.context["measure"]

    def test_a_few_calls_more_than_two(self):
        """
        Where every run takes two calls, eight more are no spike; many more are.
        """
        baseline = usual(mean_tools_per_run=2.0, spreads={"tools": Spread(p50=2.0, p95=2.0)})

        assert [] == fired_at(ResourceSpike(), "." * 10, baseline)
        assert 10 == fired_at(ResourceSpike(), "." * 30, baseline)[0]

    @pytest.mark.parametrize(("answer", "is_spike"), [("pending", False), ("nothing owed", True)])
    def test_waiting_is_not_compared(self, answer, is_spike):
        """
        Calls and time that an agent spends waiting for an answer are no spike; the same spent otherwise are.
        """
        spreads = {"tools": Spread(p50=2.0, p95=2.0), "duration_ms": Spread(p50=3000.0, p95=3000.0)}
        baseline = usual(mean_tools_per_run=2.0, mean_duration_ms=3000.0, spreads=spreads)
        polls = [
            structs.replace(event, action_name="check_payment", output_data=answer, tool_kind="")
            for event in slow("." * 14, 30.0)
        ]
        polls[-1] = structs.replace(polls[-1], output_data="paid")

        detector = ResourceSpike(absolute_duration_limit_ms=None)
        assert is_spike == bool(findings(detector, polls, baseline))

    def test_hard_limits_never_adapt(self):
        """
        A hard limit holds for an agent that usually spends more, too.
        """
        baseline = usual(mean_tokens_per_run=90_000.0, spreads={"tokens": Spread(p50=90_000.0, p95=99_000.0)})

        assert [50] == fired_at(ResourceSpike(), "r" * 51, baseline)

    def test_what_was_never_spent_is_not_compared(self):
        """
        An agent whose runs never cost tokens has no limit to compare with.
        """
        assert [] == fired_at(ResourceSpike(), "r" * 40, usual())


class TestOverRuns:
    KNOWN = Cusum(count=60, mean=math.log(1000.0), squares=60 * 0.25, total=4.0)

    def ended(self, replies, baseline, detector=None):
        detector = detector or ResourceSpike()
        findings(detector, "r" * replies, baseline)
        return detector.end(baseline)

    def risen(self, **sums):
        return usual(trends={"tokens": Trend(**sums)})

    def test_a_lasting_rise_is_told_at_the_end(self):
        """
        A run that makes the sum over runs cross its limit is told about when it ends.
        """
        finding = self.ended(20, self.risen(learning=self.KNOWN))

        assert "this agent's runs have come to take more tokens over its recent runs" == finding.message
        assert finding.context["over_runs"]
        assert finding.severity is not Severity.LOW

    def test_slow_decay_shows_against_the_first_runs(self):
        """
        What rose too slowly for the learning sum is told against the first fifty runs.
        """
        finding = self.ended(20, self.risen(frozen=structs.replace(self.KNOWN, total=5.0)))

        assert finding.message.endswith("since its first 50 runs")

    def test_an_ordinary_run_is_not_told(self):
        """
        A run like the others is nothing.
        """
        assert self.ended(1, self.risen(learning=self.KNOWN)) is None

    def test_a_run_without_events_is_not_told(self):
        """
        A run in which nothing happened cannot be a rise.
        """
        assert ResourceSpike().end(self.risen(learning=self.KNOWN)) is None

    def test_a_rise_of_little_is_not_told(self):
        """
        An agent whose runs come to take ten times as much, and still next to nothing, has not risen.
        """
        small = structs.replace(self.KNOWN, mean=math.log(100.0))

        assert self.ended(1, self.risen(learning=small)) is None
        assert self.ended(2, self.risen(learning=small)) is not None

    def test_an_agent_that_still_learns_is_not_compared(self):
        """
        Before calibration only hard limits count, at the end of a run as well.
        """
        learning = structs.replace(self.risen(learning=self.KNOWN), is_calibrated=False)

        assert self.ended(20, learning) is None

    def test_put_aside_before_the_end_it_says_the_same(self):
        """
        A run put aside after its last event, and ended elsewhere, is told about just the same.
        """
        baseline = self.risen(learning=self.KNOWN)
        first, second = ResourceSpike(), ResourceSpike()
        here = self.ended(20, baseline, first)
        second.begin(RunInfo(agent_id="tested", run_id="run"))
        second.restore(first.state())

        assert here == second.end(baseline)


class TestSettings:
    @pytest.mark.parametrize(
        "setting", ["absolute_token_limit", "absolute_duration_limit_ms", "spike_multiplier"]
    )
    @pytest.mark.parametrize("value", [0, -1, float("nan")])
    def test_impossible_limits_are_refused(self, setting, value):
        """
        A limit is above 0, or None.
        """
        with pytest.raises(SettingsError, match=rf"resource_spike\.{setting} must be above 0, or None, got"):
            ResourceSpike(**{setting: value})

    @given(st.text(alphabet="ar. x", max_size=30), st.integers(0, 30))
    def test_put_aside_anywhere_it_goes_on_alike(self, picture, cut):
        """
        Put aside after any event and taken up by another detector, it finds the same.
        """
        trace = events(picture)
        first, second = (ResourceSpike(absolute_token_limit=3000) for _ in range(2))
        whole = findings(ResourceSpike(absolute_token_limit=3000), trace)
        before = findings(first, trace[:cut])
        second.restore(first.state())

        assert whole == before + findings(second, trace[cut:])

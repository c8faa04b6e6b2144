import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from steadyhelm.baselines import BaselineStats, Cusum, Spread, Trend
from steadyhelm.decisions import MODES
from steadyhelm.detector import Detector
from steadyhelm.detectors.action_loop import ActionLoop
from steadyhelm.detectors.goal_drift import GoalDrift
from steadyhelm.detectors.resource_spike import ResourceSpike
from steadyhelm.engine.health import Health
from steadyhelm.engine.responses import QUIET
from steadyhelm.engine.session import Session
from steadyhelm.errors import FormatError
from steadyhelm.events import RunInfo
from steadyhelm.incidents import Limits, Thresholds
from steadyhelm.testing.traces import AGENT, RUN, events

GOAL = "finish every part of the plan"
NEW = BaselineStats(agent_id=AGENT)
LEARNT = BaselineStats(
    agent_id=AGENT,
    is_calibrated=True,
    calibration_runs=60,
    common_sequences=[["a", "b", "c"]],
    mean_tokens_per_run=2000.0,
    spreads={"tokens": Spread(p50=2000.0, p95=2500.0)},
    trends={"tokens": Trend(learning=Cusum(count=60, mean=3.0, squares=10.0, total=4.0))},
    embedder="idf",
    similarities=[0.3] * 40,
    word_runs=30,
    word_counts=bytes(16_384),
)
PICTURES = st.text(alphabet="aabbAr. x", max_size=60)


class _Broken(Detector):
    """Fails at one thing, or hands back what is no finding."""

    name = "broken"
    kind = "style"

    def __init__(self, at="check"):
        self._memory = msgspec.Struct()
        self.at = at
        self.asked = 0

    def _maybe(self, what):
        if self.at == what:
            self.asked += 1
            raise ValueError("a fault of the plug-in")

    def begin(self, run):
        self._maybe("begin")

    def check(self, event, baseline):
        self._maybe("check")
        return "no finding at all" if self.at == "answer" else None

    def foresee(self, call, baseline):
        self._maybe("foresee")

    def end(self, baseline):
        self._maybe("end")

    def teach(self, summary):
        self._maybe("teach")
        return summary


def session(*detectors, baseline=NEW, run=None, **options):
    detectors = detectors or (
        ActionLoop(),
        GoalDrift(similarity_threshold=0.2),
        ResourceSpike(absolute_token_limit=5_000),
    )
    return Session(run or RunInfo(agent_id=AGENT, run_id=RUN, goal=GOAL), detectors, baseline, **options)


def observed(watched, trace):
    return [watched.observe(event) for event in (events(trace) if isinstance(trace, str) else trace)]


def actions(watched, picture):
    return [str(observation.decision.action) for observation in observed(watched, picture)]


class TestDecisions:
    def test_an_agent_at_work_goes_on(self):
        """
        Work without drift gets no answer but "go on".
        """
        assert {"CONTINUE"} == set(actions(session(), "ab.A.xc.d"))

    def test_a_loop_is_answered_and_escalated(self):
        """
        The first sign of a loop is a reminder; when it goes on, the answer grows stronger, level by level.
        """
        answers = [
            (place, str(seen.decision.action))
            for place, seen in enumerate(observed(session(ActionLoop()), "a" * 10), start=1)
            if seen.decision.guidance
        ]

        assert [
            (3, "INJECT_REMINDER"),
            (5, "SUMMARIZE_REPLAN"),
            (6, "CHECKPOINT_RESET"),
            (8, "ASK_USER"),
        ] == answers

    def test_after_the_incident_is_over_it_begins_gently_again(self):
        """
        A loop after a long quiet stretch is answered with a reminder again.
        """
        assert "INJECT_REMINDER" == actions(session(ActionLoop()), "aaaaa" + "." * 10 + "aaa")[-1]

    @given(PICTURES, st.sampled_from(MODES))
    def test_the_mode_changes_the_verdict_alone(self, picture, mode):
        """
        What is advised is the same in every mode; observe never says it, guide only speaks.
        """
        plain, other = session(), session(mode=mode)
        allowed = {"observe": {"proceed"}, "guide": {"proceed", "guide"}}.get(mode)
        for one, two in zip(observed(plain, picture), observed(other, picture), strict=True):
            assert one.decision.action is two.decision.action
            assert one.decision.findings == two.decision.findings
            assert allowed is None or two.decision.verdict in allowed

    def test_guidance_names_the_evidence_and_the_goal(self):
        """
        The words for the model name what repeats and the goal.
        """
        guidance = observed(session(mode="guide"), "aaa")[-1].decision.guidance

        assert "a called 3 times in a row" in guidance
        assert GOAL in guidance

    @given(PICTURES)
    def test_the_same_trace_gives_the_same_answers(self, picture):
        """
        Watching is a plain function of the events.
        """
        one, other = session(), session()

        assert observed(one, picture) == observed(other, picture)
        assert one.end(at=0.0) == other.end(at=0.0)


class TestWithoutDetectors:
    def test_no_score_is_kept(self):
        """
        With no detector and no budget there is nothing to judge: steps are counted, and no drift is measured.
        """
        watched = Session(RunInfo(agent_id=AGENT, run_id=RUN, goal=GOAL), [], NEW)
        seen = [watched.observe(event) for event in events("xxxxxxxx")]

        assert all(it is QUIET for it in seen)
        assert (8, 0.0) == (watched.drift.turn, watched.drift.score)
        assert None is watched.drift.build_signals().stuck_time


class TestOrder:
    def test_an_event_seen_twice_changes_nothing(self):
        """
        An event with a place already taken is left out, and counted.
        """
        health = Health()
        watched = session(ActionLoop(), health=health)
        observed(watched, "aaa")
        before = watched.state()
        again = watched.observe(events("aaa")[2])

        assert ("CONTINUE", ()) == (again.decision.action, tuple(again.incidents))
        assert before == watched.state()
        assert ({"event seen twice": 1}, "repeated") == (health.totals(), again.skipped)

    def test_an_event_after_a_later_one_is_late(self):
        """
        An event whose place was left free, and passed, is not judged: it is late, and from then on seen.
        """
        health = Health()
        watched = session(health=health)
        trace = events("abcdef")
        observed(watched, [trace[0], trace[1], trace[4], trace[5]])
        skipped = [watched.observe(trace[place]).skipped for place in (3, 2, 3, 5)]

        assert ["late", "late", "repeated", "repeated"] == skipped
        assert {"late event not judged": 2, "event seen twice": 2} == health.totals()

    def test_another_event_at_the_same_place_is_told_apart(self):
        """
        Of two different events at one place the first counts; the second is counted as what it is.
        """
        health = Health()
        watched = session(health=health)
        observed(watched, "abc")
        other = events("abd")[2]

        assert "conflicting" == watched.observe(other).skipped
        assert {"other event at a place already taken": 1} == health.totals()

    def test_it_is_known_after_a_pause(self):
        """
        A session that was saved between knows late from repeated events.
        """
        first, second = session(), session()
        trace = events("abcd")
        observed(first, [trace[0], trace[3]])
        second.restore(first.state())

        assert ["repeated", "late"] == [second.observe(trace[place]).skipped for place in (3, 1)]

    def test_what_is_remembered_of_places_is_bounded(self):
        """
        A run with ten thousand gaps remembers the latest: an older event counts as repeated.
        """
        watched = session()
        trace = [structs.replace(event, seq=3 * event.seq) for event in events("." * 2_000)]
        observed(watched, trace)
        early, recent = (structs.replace(events(".")[0], seq=seq) for seq in (1, 5_990))

        assert ["repeated", "late"] == [watched.observe(it).skipped for it in (early, recent)]
        assert len(msgspec.msgpack.encode(msgspec.msgpack.decode(watched.state())["places"])) < 1_000

    def test_the_next_place(self):
        """
        The session knows the place of the next event.
        """
        watched = session()
        places = [watched.next_seq, *(observed(watched, ".") and [watched.next_seq])]

        assert [0, 1] == places

    def test_gaps_are_no_harm(self):
        """
        Places may be missing: events that were lost on the way are not waited for.
        """
        watched = session(ActionLoop())
        kept = [event for event in events("a" * 6) if event.seq % 2]

        assert "INJECT_REMINDER" == str(observed(watched, kept)[-1].decision.action)


class TestState:
    @given(PICTURES, st.integers(0, 60), st.sampled_from([NEW, LEARNT]), st.sampled_from(MODES))
    def test_put_aside_anywhere_it_goes_on_alike(self, picture, cut, baseline, mode):
        """
        Put aside after any event and taken up by another session, a run gets the same answers and end.
        """
        trace = events(picture)
        whole = session(baseline=baseline, mode=mode)
        first, second = (session(baseline=baseline, mode=mode) for _ in range(2))
        expected = observed(whole, trace)
        before = observed(first, trace[:cut])
        second.restore(first.state())

        assert expected == before + observed(second, trace[cut:])
        assert whole.end(at=5.0) == second.end(at=5.0)

    def test_a_resumed_run_keeps_its_epoch(self):
        """
        A run that is resumed elsewhere has the epoch it was started with.
        """
        first, second = session(), session()
        first.run, second.run = (structs.replace(first.run, epoch=epoch) for epoch in ("one", "two"))
        second.restore(first.state())

        assert "one" == second.run.epoch

    @given(st.binary(max_size=60))
    def test_garbage_is_refused(self, garbage):
        """
        Bytes that are no saved session are refused with the run's id, and with no other error.
        """
        with pytest.raises(FormatError, match="'run'"):
            session().restore(garbage)

    @given(st.data())
    def test_damaged_states_do_no_harm(self, data):
        """
        A saved session with a damaged byte is either refused or taken up, and the run goes on.
        """
        watched = session()
        observed(watched, "aaaaarr")
        state = bytearray(watched.state())
        state[data.draw(st.integers(0, min(len(state), 900) - 1))] = data.draw(st.integers(0, 255))
        other = session()
        try:
            other.restore(bytes(state))
        except FormatError:
            return
        assert observed(other, "aaaaaaaa")

    def test_another_version_is_refused(self):
        """
        A session saved by another version says which.
        """
        saved = msgspec.msgpack.decode(session().state())
        saved["version"] = 99

        with pytest.raises(FormatError, match="has version 99"):
            session().restore(msgspec.msgpack.encode(saved))

    def test_a_detector_whose_part_is_damaged_begins_afresh(self):
        """
        The rest of the session is taken up, and the loss is counted.
        """
        watched = session(ActionLoop(), ResourceSpike(absolute_token_limit=2_000))
        observed(watched, "rr")
        saved = msgspec.msgpack.decode(watched.state())
        saved["detectors"]["action_loop"] = b"\xc1"
        health = Health()
        other = session(ActionLoop(), ResourceSpike(absolute_token_limit=2_000), health=health)
        other.restore(msgspec.msgpack.encode(saved))

        assert 2 == other.next_seq
        assert other.observe(events("..r")[2]).decision.drifting
        assert {"saved state of detector action_loop cannot be read": 1} == health.totals()

    def test_a_detector_added_later_begins_afresh(self):
        """
        A detector that was not there when the state was kept begins with the next event.
        """
        first, second = session(ActionLoop()), session(ActionLoop(), ResourceSpike(absolute_token_limit=500))
        observed(first, "aaa")
        second.restore(first.state())

        assert ["action_loop"] == [
            finding.detector for finding in second.observe(events("aaaa")[3]).decision.findings
        ]


class TestFailingPlugins:
    @pytest.mark.parametrize("at", ["begin", "check", "answer", "foresee", "end", "teach"])
    def test_a_failing_detector_harms_nobody(self, quiet, at):
        """
        Whatever a plug-in does wrong, the others go on, and it is counted.
        """
        health = Health()
        watched = session(_Broken(at), ActionLoop(), health=health)

        assert "INJECT_REMINDER" == actions(watched, "aaa")[-1]
        watched.foresee(events("a")[0])
        assert 3 == watched.end(at=0.0).summary.tool_calls
        assert health.totals()["error in detector broken"] >= 1

    def test_after_three_failures_it_is_left_out(self, quiet):
        """
        A detector that failed three times is asked no more, and says so.
        """
        broken = _Broken()
        watched = session(broken, ActionLoop())
        observed(watched, "." * 10)

        assert 3 == broken.asked
        assert {"broken": "failed 3 times: ValueError"} == watched.not_checked

    def test_a_run_with_a_left_out_detector_can_be_put_aside(self, quiet):
        """
        It stays left out, with its reason, and the others go on.
        """
        first, second = session(_Broken(), ActionLoop()), session(_Broken(), ActionLoop())
        observed(first, "aaa")
        second.restore(first.state())

        assert {"broken": "failed 3 times: ValueError"} == second.not_checked == first.not_checked
        assert second.observe(events("aaaa")[3]).decision.drifting

    def test_in_tests_a_failure_is_loud(self):
        """
        Under test an error of a plug-in is raised.
        """
        with pytest.raises(ValueError, match="a fault of the plug-in"):
            observed(session(_Broken()), ".")


class TestThresholds:
    def test_below_the_threshold_it_is_only_noticed(self):
        """
        A finding below the score a person set is LOW, and says why; one above it counts.
        """
        watched = session(ActionLoop(), thresholds=Thresholds({"action_loop": (Limits(0.7),)}))
        decisions = [observation.decision for observation in observed(watched, "aaaaaa")]

        expected = ["CONTINUE"] * 4 + ["SUMMARIZE_REPLAN", "CHECKPOINT_RESET"]

        assert expected == [str(decision.action) for decision in decisions]
        assert "LOW" == decisions[3].findings[0].severity
        assert "false alarm" in decisions[3].findings[0].context["lowered_because"]

    def test_a_hard_limit_is_never_lowered(self):
        """
        Whatever was called a false alarm, a hard limit counts.
        """
        watched = session(
            ResourceSpike(absolute_token_limit=900),
            thresholds=Thresholds({"resource_spike": (Limits(0.95),)}),
        )

        assert ["SUMMARIZE_REPLAN"] == actions(watched, "r")


class TestOrderOfActions:
    def test_an_unusual_order_is_shown(self):
        """
        With a baseline a finding says which order is usual, and the last two calls when they are not.
        """
        found = observed(session(ActionLoop(), baseline=LEARNT), "aaaa")[-1].decision.findings[0]

        assert ([["a", "b", "c"]], ["a", "a"]) == (
            found.context["usual_sequences"],
            found.context["unusual_order"],
        )

    def test_a_usual_order_is_not_called_unusual(self):
        """
        Two calls that often follow each other are nothing unusual.
        """
        found = observed(session(ActionLoop(), baseline=LEARNT), "abababab")[-1].decision.findings[0]

        assert found.context["unusual_order"] is None

    def test_in_a_long_run_the_latest_calls_count(self):
        """
        After a thousand calls it is still the last two that are shown.
        """
        found = observed(session(ActionLoop(), baseline=LEARNT), "." * 1000 + "aaaa")[-1].decision.findings[0]

        assert ["a", "a"] == found.context["unusual_order"]

    def test_without_a_baseline_nothing_is_unusual(self):
        """
        Before calibration a finding says nothing about order.
        """
        assert "unusual_order" not in observed(session(ActionLoop()), "aaaa")[-1].decision.findings[0].context


class TestForesight:
    def test_it_changes_nothing(self):
        """
        Asking about a call not yet made leaves no trace.
        """
        watched = session()
        observed(watched, "aaa")
        before = watched.state()
        watched.foresee(events("aaaa")[3])

        assert before == watched.state()


class TestEnd:
    def test_the_summary_adds_up(self):
        """
        The summary counts events, tokens, calls, errors and time.
        """
        watched = session(ActionLoop(), run=RunInfo(agent_id=AGENT, run_id=RUN, version="2", task_type="t"))
        observed(watched, "ab.xr r")
        summary = watched.end(at=1_700_000_009.0, outcome="done").summary

        assert (7, 2000, 4, 2, 1, "done", "2", "t", False) == (
            summary.events,
            summary.tokens,
            summary.tool_calls,
            summary.llm_calls,
            summary.errors,
            summary.outcome,
            summary.version,
            summary.task_type,
            summary.had_incident,
        )
        assert (600, 1_700_000_009.0) == (round(summary.duration_ms), summary.ended_at)

    def test_open_incidents_end_with_the_run(self):
        """
        What was still going on is closed, once.
        """
        watched = session(ActionLoop())
        observed(watched, "aaaaa")
        ending = watched.end(at=0.0)

        assert [("closed", 3)] == [(incident.state, incident.findings) for incident in ending.incidents]
        assert ending.summary.had_incident

    def test_an_incident_that_is_over_still_marks_the_run(self):
        """
        A run that drifted and recovered is still no clean run.
        """
        watched = session(ActionLoop())
        observed(watched, "aaaa" + "." * 20)

        assert watched.end(at=0.0).summary.had_incident

    def test_a_rise_over_runs_is_the_agents_not_the_runs(self):
        """
        A rise over runs is told at the end as an incident of its own; the run still teaches the baseline.
        """
        watched = session(ResourceSpike(), baseline=LEARNT)
        observed(watched, "rr")
        ending = watched.end(at=0.0)

        assert ["resource_spike"] == [finding.detector for finding in ending.findings]
        assert ["closed"] == [incident.state for incident in ending.incidents]
        assert not ending.summary.had_incident

    def test_a_run_that_drifted_is_no_part_of_a_rise(self):
        """
        A run from which the baseline does not learn says nothing about a rise over runs: the next one would
        say it again.
        """
        watched = session(ActionLoop(), ResourceSpike(), baseline=LEARNT)
        observed(watched, "aaaaaarr")
        ending = watched.end(at=0.0)

        assert ending.summary.had_incident
        assert [] == [finding for finding in ending.findings if finding.context.get("over_runs")]

    def test_a_run_without_events(self):
        """
        A run in which nothing happened ends like any other.
        """
        summary = session().end(at=7.0).summary

        assert (0, 0, 0.0, 7.0) == (summary.events, summary.tokens, summary.duration_ms, summary.ended_at)

    def test_the_runs_start_counts(self):
        """
        Where it is known when the run began, time counts from there.
        """
        watched = session(ActionLoop(), run=RunInfo(agent_id=AGENT, run_id=RUN, started_at=1_699_999_990.0))
        observed(watched, ".")

        assert 10_000.0 == watched.end(at=0.0).summary.duration_ms


class TestNotChecked:
    def test_every_blind_detector_says_why(self):
        """
        A detector that could not look is named with the reason; the others are not.
        """
        watched = Session(RunInfo(agent_id=AGENT, run_id=RUN), [ActionLoop(), GoalDrift()], NEW)

        assert {"goal_drift": "no goal was given"} == watched.not_checked

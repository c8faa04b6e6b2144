"""What a verdict changes: one step of severity, from the event at which it arrives."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judged_runs import SURE, JudgedRun, answer_with, replay
from msgspec import structs

from steadyhelm.detectors.action_loop import ActionLoop
from steadyhelm.detectors.failing_loop import FailingLoop
from steadyhelm.detectors.resource_spike import ResourceSpike
from steadyhelm.detectors.stagnation import Stagnation
from steadyhelm.detectors.user_correction import UserCorrection
from steadyhelm.events import JUDGED, STATE_TRANSITION, TOOL_CALL, USER_MESSAGE, TraceEvent
from steadyhelm.findings import Severity
from steadyhelm.fingerprints import fingerprint
from steadyhelm.incidents import IncidentVerdict
from steadyhelm.judge import UNSURE, JudgedReport, JudgeVerdict, Question
from steadyhelm.judging.severity_shifts import SeverityShifts
from steadyhelm.testing.traces import AGENT, RUN, events

LOOP = "aaa"  # MED at the third call, HIGH at the fifth, CRITICAL at the sixth


def make_detectors():
    return [ActionLoop(), FailingLoop(), Stagnation(), ResourceSpike()]


class TestLoops:
    def test_a_loop_that_opens_is_asked_about_once(self):
        """
        Aaa...  the third call opens an incident; while it goes on no second question is asked.
        """
        run = JudgedRun(lambda _question: None).play("aaaaaaaaa")
        assert [it.about for it in run.asked] == ["loop"]
        (asked,) = run.asked
        assert asked.place == 2
        assert asked.subject == run.incidents[0].incident_id
        assert asked.pattern == "loop/a"

    def test_an_incident_judged_healthy_is_closed_and_says_so(self):
        """
        aaa|  closed at the verdict, with LOW, which no channel alerts, and shown with the reason.
        """
        run = JudgedRun(answer_with("healthy")).play(LOOP)
        (incident,) = run.incidents
        assert (incident.state, incident.severity) == ("closed", Severity.LOW)
        assert incident.message.endswith("judged healthy")
        assert not run.session.is_drifting

    def test_an_incident_says_what_a_verdict_changed(self):
        """
        aaa|  label, confidence, quote, cost and the severities, as a field of its own.
        """
        quoted = JudgeVerdict(label="healthy", confidence=SURE, quote="done", cost_usd=0.01)
        run = JudgedRun(lambda _question: quoted).play(LOOP)
        (incident,) = run.incidents
        assert IncidentVerdict(
            label="healthy",
            confidence=SURE,
            moved_from=Severity.MED,
            moved_to=Severity.LOW,
            quote="done",
            cost_usd=0.01,
            seq=3,
        ) == (incident.judged)
        assert "" == incident.drop_texts().judged.quote
        assert JudgedRun(answer_with(UNSURE)).play(LOOP).incidents[0].judged is None

    def test_a_cleared_pattern_is_noticed_and_not_reported_again(self):
        """
        aaa|a  the fourth call would be MED again: LOW, and no other incident.
        """
        run = JudgedRun(answer_with("healthy")).play("aaaa")
        assert run.severities[-2:] == ["MED", "LOW"]
        assert len(run.incidents) == 1
        assert run.seen[-1].decision.verdict == "proceed"

    def test_a_cleared_pattern_that_gets_worse_opens_the_same_incident_one_step_lower(self):
        """
        aaa|aa  the fifth call is HIGH by the rules: MED, under the same id, so that no second alert is due.
        """
        judged = [JudgeVerdict(label="healthy", confidence=SURE)]
        run = JudgedRun(lambda _question: judged.pop() if judged else None).play("aaaaa")
        assert JudgedRun().play("aaaaa").severities[-1] == "HIGH"
        assert run.severities[-1] == "MED"
        (incident,) = run.incidents
        assert (incident.state, incident.severity) == ("open", Severity.MED)

    def test_identical_calls_with_identical_results_beyond_ten_are_a_loop_whatever_is_judged(self):
        """
        aaa|aaaaaaaa  the eleventh call has the severity of the rules, and no verdict clears it.
        """
        plain = JudgedRun().play("a" * 11)
        run = JudgedRun(answer_with("healthy")).play("a" * 11)
        assert run.severities[-1] == plain.severities[-1] == "CRITICAL"
        late = run.judge(run.asked[0], JudgeVerdict(label="healthy", confidence=SURE))
        other = structs.replace(run.asked[0], question_id="another")
        again = run.judge(other, JudgeVerdict(label="healthy", confidence=SURE))
        assert not late.incidents
        assert not again.incidents
        assert run.session.is_drifting

    def test_a_confirmed_loop_is_one_step_more_severe(self):
        """
        aaa|a  MED becomes HIGH at the verdict, and the fourth call, MED by the rules, is HIGH too.
        """
        run = JudgedRun(answer_with("no_progress")).play(LOOP)
        assert run.incidents[0].severity is Severity.HIGH
        run.play("a")
        assert run.severities[-1] == "HIGH"
        assert "judged to be without progress" in run.findings[-1].message

    def test_low_findings_that_keep_coming_are_asked_about_and_reported_when_confirmed(self):
        """
        Signs that the rules only notice become an incident of MED at the verdict, not before.
        """
        picture = "aAbBaAbBaAbBaAbBaAbBaAbBaAbBaAbB"
        noticed = JudgedRun(None, [Noticing()]).play(picture)
        assert set(noticed.severities) == {"LOW"}
        run = JudgedRun(answer_with("no_progress"), [Noticing()]).play(picture)
        assert run.asked[0].subject == "loop/noticed"
        assert run.incidents[0].severity is Severity.MED
        assert run.incidents[0].opened_seq == run.asked[0].place + 1
        judged = run.incidents[0].judged
        assert (None, Severity.MED) == (judged.moved_from, judged.moved_to)

    def test_low_findings_are_asked_about_once(self):
        """
        However long the same signs keep coming, a judge that could not tell is not asked again.
        """
        run = JudgedRun(answer_with(UNSURE), [Noticing()]).play("." * 100)
        assert 1 == len([it for it in run.asked if it.about == "loop"])

    def test_nothing_is_asked_about_a_repetition_that_was_judged(self):
        """
        aaa|aaa...  healthy or not: the verdict has moved it by one step, and no other can move it further.
        """
        for label in ("healthy", "no_progress"):
            run = JudgedRun(answer_with(label)).play("aaa" + "." * 30 + "aaaaaa")
            assert 1 == len([it for it in run.asked if it.pattern == "loop/a"])

    def test_a_verdict_holds_for_the_repetition_that_was_judged_alone(self):
        """
        aaa|...AAA  the same tool, with other arguments: reported as by the rules, and asked about.
        """
        first = [call(0, "a.txt")] * 3
        other = [call(0, "b.txt")] * 3
        between = list(events("." * 30))
        plain = JudgedRun().play([*first, *between, *other])
        run = JudgedRun(answer_with("healthy")).play([*first, *between, *other])
        assert ["LOW", "MED", "LOW", "MED"] == plain.severities == run.severities
        assert 2 == len(run.incidents)
        asked = [it.subject for it in run.asked if it.pattern == "loop/read"]
        assert [it.incident_id for it in run.incidents] == asked

    def test_the_same_call_later_in_the_run_is_the_repetition_that_was_judged(self):
        """
        Other steps prove it, with the same tool and arguments: it is not reported again.
        """
        question = structs.replace(
            Question.build("loop", "?", subject="i", place=2, pattern="loop/read"),
            proof=("0", "1"),
            call=fingerprint(call(0, "a.txt")).call,
        )
        shifts = SeverityShifts()
        shifts.note(JudgedReport.build(question, JudgeVerdict(label="healthy", confidence=SURE)))
        found = ActionLoop().finding(
            call(9, "a.txt"), score=0.6, message="m", suggested_action="", event_ids=["r.9"], subject="read"
        )
        assert [-1, 0] == [shifts.find_shift(found, call(9, path)) for path in ("a.txt", "b.txt")]
        assert 0 == shifts.find_shift(structs.replace(found, context={"subject": "write"}), call(9, "a.txt"))

    def test_an_unsure_or_hardly_believed_verdict_changes_nothing(self):
        """
        Neither "unsure" nor a confidence that is too low has an effect.
        """
        plain = JudgedRun().play("aaaaaa")
        for answer in (answer_with(UNSURE), answer_with("healthy", 0.4), answer_with("no_progress", 0.4)):
            run = JudgedRun(answer).play("aaaaaa")
            assert run.severities == plain.severities
            assert [it.message for it in run.incidents] == [it.message for it in plain.incidents]

    def test_a_verdict_counts_from_the_event_at_which_it_arrives(self):
        """
        aaaa|aa  the response that was due at the third call has been made; the verdict changes what follows.
        """
        run = JudgedRun(lambda _question: None).play("aaaa")
        due = run.seen[2].decision
        assert due.verdict == JudgedRun().play("aaa").seen[2].decision.verdict != "proceed"
        run.judge(run.asked[0], JudgeVerdict(label="healthy", confidence=SURE))
        assert run.incidents[0].state == "closed"
        run.play("a")
        assert run.severities[-1] == "MED"

    def test_a_verdict_about_a_call_not_made_yet_holds_too(self):
        """
        What is foreseen of a cleared pattern does not block the call.
        """
        plain, run = JudgedRun().play("aaaa"), JudgedRun(answer_with("healthy")).play("aaaa")
        args = run.trace[0].input_data
        assert plain.session.before_tool("a", args).findings[0].severity is Severity.HIGH
        assert run.session.before_tool("a", args).findings[0].severity is Severity.MED


class TestLimits:
    def test_a_passed_limit_is_never_moved(self):
        """
        No question is asked about a limit, and a verdict about its incident has no effect.
        """
        run = JudgedRun(answer_with("healthy"), [ResourceSpike(absolute_token_limit=2000)]).play("rrrr")
        (incident,) = run.incidents
        assert incident.incident_id not in [it.subject for it in run.asked]
        forged = Question.build("loop", "?", subject=incident.incident_id, place=3, pattern="resource/tokens")
        for label in ("healthy", "no_progress"):
            run.judge(structs.replace(forged, question_id=label), JudgeVerdict(label=label, confidence=1.0))
        assert incident in run.incidents


class TestReplies:
    def make_run(self, *labels):
        given = list(labels)
        return JudgedRun(
            lambda _question: JudgeVerdict(label=given.pop(0), confidence=SURE), [UserCorrection()]
        )

    def test_one_judged_correction_is_noticed_and_two_in_a_row_are_reported(self):
        """
        A reply, a message, twice: LOW at the first verdict, MED at the second: one correction is no alarm.
        """
        run = self.make_run("correction", "correction")
        run.play([*events("r"), say(1, UNCERTAIN), *events("r"), say(1, OTHER)])
        assert [it.about for it in run.asked] == ["reply", "reply"]
        assert run.severities == ["LOW", "LOW", "MED"]
        assert run.incidents[0].kind == "correction"

    def test_a_message_judged_no_correction_counts_for_nothing(self):
        """
        A reply, a message, twice: only the second was a correction: nothing is reported.
        """
        run = self.make_run("no_correction", "correction")
        run.play([*events("r"), say(1, UNCERTAIN), *events("r"), say(1, OTHER)])
        assert not run.incidents


class TestReplay:
    @settings(max_examples=40, deadline=None)
    @given(
        picture=st.text(alphabet="aaabbAr. x", max_size=60),
        labels=st.lists(st.sampled_from(["healthy", "no_progress", "unsure"]), max_size=8),
    )
    def test_recorded_verdicts_give_the_same_decisions_and_ask_nobody(self, picture, labels):
        """
        A session without a judge, shown the events of one with a judge, decides the same at every event.
        """
        given_labels = list(labels)

        def answer(_question):
            return JudgeVerdict(label=given_labels.pop(), confidence=SURE) if given_labels else None

        run = JudgedRun(answer, make_detectors()).play(picture)
        again = replay(run.trace, lambda: JudgedRun(None, make_detectors()))
        assert not again.asked
        assert [(it.decision, it.incidents) for it in again.seen] == [
            (it.decision, it.incidents) for it in run.seen
        ]

    @settings(max_examples=40, deadline=None)
    @given(picture=st.text(alphabet="aaabbAr. x", max_size=60))
    def test_verdicts_that_change_nothing_are_invisible(self, picture):
        """
        Detectors, budgets, baselines and intervals are those of the same run without the events.
        """
        plain = JudgedRun(None, make_detectors()).play(picture)
        run = JudgedRun(answer_with(UNSURE), make_detectors())
        question = Question.build("loop", "?", subject="nothing", place=0, pattern="loop/none")
        for number, event in enumerate(events(picture)):
            run.judge(
                structs.replace(question, question_id=str(number)), JudgeVerdict(label=UNSURE, confidence=1)
            )
            run.play([event])
        assert summarise(run) == summarise(plain)

    def test_the_memory_of_verdicts_and_questions_survives_a_restart(self):
        """
        aaa|…|aa  saved after the verdict and resumed elsewhere, the pattern is still judged healthy.
        """
        run = JudgedRun(answer_with("healthy")).play("aaa")
        resumed = JudgedRun(answer_with("healthy"))
        resumed.session.restore(run.session.state())
        resumed.trace = list(run.trace)
        resumed.play("a")
        assert resumed.severities == ["LOW"]
        assert not resumed.asked

    def test_a_state_from_before_judges_can_still_be_restored(self):
        """
        Runs suspended by an older version continue.
        """
        plain = JudgedRun().play("aaa")
        state = msgspec.msgpack.decode(plain.session.state())
        del state["judging"]
        resumed = JudgedRun()
        resumed.session.restore(msgspec.msgpack.encode(state))
        assert resumed.session.is_drifting


class TestHostileReports:
    @pytest.mark.parametrize(
        "metadata",
        [None, {}, {"label": "healthy"}, {"about": "loop", "label": "CRITICAL"}, {"x": "y" * 9999}],
    )
    def test_what_is_no_verdict_changes_nothing_and_is_counted(self, metadata):
        """
        A recording may say "judged" with anything behind it.
        """
        run = JudgedRun().play("aaa")
        before = run.incidents
        run.record(make_report(len(run.trace), metadata))
        assert run.incidents == before
        assert run.session._health.totals() == {"verdict that cannot be read": 1}

    def test_a_verdict_counts_once(self):
        """
        The same verdict recorded twice moves the severity by one step, not by two.
        """
        run = JudgedRun(lambda _question: None).play("aaa")
        for _ in range(3):
            run.judge(run.asked[0], JudgeVerdict(label="no_progress", confidence=SURE))
        assert run.incidents[0].severity is Severity.HIGH

    def test_text_that_addresses_the_judge_is_noticed_and_clears_nothing(self):
        """
        A run that tells the judge what to answer gets a finding of LOW, and is not judged healthy.
        """
        run = JudgedRun(lambda _question: None).play("aaa")
        seen = run.judge(run.asked[0], JudgeVerdict(label="healthy", confidence=SURE), addressed=True)
        (finding,) = seen.decision.findings
        assert (finding.detector, finding.severity) == ("judge", Severity.LOW)
        assert run.incidents[0].state == "open"

    @settings(max_examples=60, deadline=None)
    @given(
        picture=st.text(alphabet="aaabbx", max_size=30),
        labels=st.lists(st.sampled_from(["healthy", "no_progress"]), min_size=1, max_size=20),
    )
    def test_a_lying_judge_moves_no_finding_by_more_than_one_step(self, picture, labels):
        """
        Whatever it answers, each finding is at most one severity from that of the rules.
        """
        given_labels = list(labels)

        def lie(_question):
            return JudgeVerdict(label=given_labels.pop() if given_labels else "healthy", confidence=1.0)

        plain = JudgedRun(None, [ActionLoop()]).play(picture)
        run = JudgedRun(lie, [ActionLoop()]).play(picture)
        ranks = [it.severity.rank for it in plain.findings]
        moved = [it.severity.rank for it in run.findings if it.detector != "judge"]
        assert len(ranks) == len(moved)
        assert all(abs(one - other) <= 1 for one, other in zip(ranks, moved, strict=True))


UNCERTAIN = "it should be the other way round I think"
OTHER = "still the old numbers in there"


class Noticing(ActionLoop):
    """Notices a sign of a loop at every call, and reports none."""

    name = "noticing"

    def check(self, event, baseline):
        return self.finding(event, score=0.3, message="a sign", suggested_action="", subject="noticed")


def call(seq: int, path: str) -> TraceEvent:
    return TraceEvent(
        agent_id=AGENT,
        run_id=RUN,
        action_type=TOOL_CALL,
        action_name="read",
        input_data={"path": path},
        output_data="nothing",
        seq=seq,
    )


def say(seq: int, text: str) -> TraceEvent:
    return TraceEvent(
        agent_id=AGENT, run_id=RUN, action_type=USER_MESSAGE, action_name="user", input_data=text, seq=seq
    )


def make_report(seq: int, metadata: object) -> TraceEvent:
    return TraceEvent(
        agent_id=AGENT,
        run_id=RUN,
        action_type=STATE_TRANSITION,
        action_name=JUDGED,
        timestamp=2e9,
        seq=seq,
        metadata=metadata,  # type: ignore[arg-type]
    )


def summarise(run: JudgedRun) -> object:
    """Return what a run led to, without the places of its events."""
    steps = [
        seen.decision for seen, event in zip(run.seen, run.trace, strict=True) if event.action_name != JUDGED
    ]
    found = [
        (
            it.verdict,
            it.action,
            it.guidance,
            [(f.detector, f.severity, f.score, f.message) for f in it.findings],
        )
        for it in steps
    ]
    ending = run.session.end(at=run.session.last_at)
    closed = {it.incident_id: it for it in (*run.incidents, *ending.incidents)}.values()
    incidents = [
        (it.kind, it.severity, it.state, it.findings, it.closed_at, [x.outcome for x in it.interventions])
        for it in closed
    ]
    return found, incidents, ending.summary

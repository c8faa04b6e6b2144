import pytest
from msgspec import structs

from steadyhelm.baselines import BaselineStats
from steadyhelm.decisions import Decision, DriftAction
from steadyhelm.detectors.action_loop import ActionLoop
from steadyhelm.engine.incident_tracker import IncidentTracker
from steadyhelm.engine.session import Session
from steadyhelm.engine.totals import Totals
from steadyhelm.events import RunInfo
from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.policy.outcomes import TRIAL_STEPS
from steadyhelm.testing.traces import AGENT, RUN, events

REMINDED = Decision(
    action=DriftAction.INJECT_REMINDER, verdict="guide", guidance="Stop that.", wording="remind.loop"
)
NEW = BaselineStats(agent_id=AGENT)
KINDS = {"!": "loop", "g": "goal"}


def found(event, kind="loop"):
    return DriftEvent(
        agent_id=AGENT,
        run_id=RUN,
        detector=kind,
        kind=kind,
        severity=Severity.MED,
        score=0.6,
        message=f"{kind} seen",
        suggested_action="s",
        timestamp=event.timestamp,
        event_id=f"{event.event_id}/{kind}",
        context={"event_ids": [event.event_id]},
    )


def past_messages(picture, episodes=None, tokens=0):
    """The incidents: `!` a loop, `g` goal drift, a space the user's turn; only the first is answered."""
    episodes = episodes if episodes is not None else IncidentTracker()
    latest, totals = {}, Totals()
    trace = events(picture.replace("!", ".").replace("g", "."))
    for place, (step, made) in enumerate(zip(picture, trace, strict=True)):
        event = structs.replace(made, token_count=tokens)
        findings = [found(event, KINDS[step])] if step in KINDS else []
        decision = REMINDED if place == 0 else Decision()
        totals.add(event)
        changed = episodes.judge(event, findings, totals)
        changed += episodes.observe(event, findings, decision, totals)
        latest.update({incident.kind: incident for incident in changed})
    return latest


def outcome(picture):
    return past_messages(picture)["loop"].interventions[0].outcome


class TestOutcomes:
    @pytest.mark.parametrize(
        ("picture", "expected"),
        [
            ("!" + "." * TRIAL_STEPS, "worked"),
            ("!" + "." * (TRIAL_STEPS - 1), "unknown"),
            ("!!", "unknown"),
            ("!!!", "ignored"),
            ("!..!.!", "ignored"),
            ("!.g", "worse"),
            ("!. " + "." * TRIAL_STEPS, "unknown"),
        ],
    )
    def test_what_came_of_an_answer(self, picture, expected):
        """
        Quiet is success, the same drift twice is neglect, other drift is harm; a user's word ends the trial.
        """
        assert expected == outcome(picture)

    def test_where_it_was_settled(self):
        """
        The record says at which event its outcome was known.
        """
        assert 2 == past_messages("!!!")["loop"].interventions[0].settled_seq

    def test_what_it_was_expected_to_do(self):
        """
        The record says what should change, in how many steps, and on which evidence.
        """
        answer = past_messages("!")["loop"].interventions[0]

        assert ("the same steps do not come back", TRIAL_STEPS, ("run.0",), "remind.loop") == (
            answer.expected,
            answer.window,
            answer.evidence,
            answer.wording,
        )

    def test_tokens_saved(self):
        """
        What worked has saved what the window's steps would have cost at the incident's own rate.
        """
        answer = past_messages("!" + "." * TRIAL_STEPS, tokens=100)["loop"].interventions[0]

        assert (100, TRIAL_STEPS * 100) == (answer.tokens_before, answer.tokens_saved)

    def test_never_more_than_was_spent_since(self):
        """
        Where the steps after it cost less than those of the loop, no more was saved than they cost.
        """
        episodes, totals = IncidentTracker(), Totals()
        for place, made in enumerate(events("." * (TRIAL_STEPS + 1))):
            event = structs.replace(made, token_count=1000 if place == 0 else 10)
            totals.add(event)
            findings = [found(event)] if place == 0 else []
            changed = episodes.judge(event, findings, totals)
            changed += episodes.observe(event, findings, REMINDED if place == 0 else Decision(), totals)
        answer = changed[0].interventions[0]

        assert ("worked", TRIAL_STEPS * 10) == (answer.outcome, answer.tokens_saved)

    def test_words_that_nobody_received_saved_nothing(self):
        """
        In mode observe, and where nobody could be told, drift that ends by itself is no saving.
        """
        unsaid = structs.replace(REMINDED, verdict="proceed")
        episodes, totals = IncidentTracker(), Totals()
        for place, made in enumerate(events("." * (TRIAL_STEPS + 1))):
            event = structs.replace(made, token_count=100)
            totals.add(event)
            findings = [found(event)] if place == 0 else []
            changed = episodes.judge(event, findings, totals)
            changed += episodes.observe(event, findings, unsaid if place == 0 else Decision(), totals)
        answer = changed[0].interventions[0]

        assert ("worked", None) == (answer.outcome, answer.tokens_saved)

    def test_what_was_ignored_saved_nothing(self):
        """
        Only an answer that worked has saved anything.
        """
        assert past_messages("!!!", tokens=100)["loop"].interventions[0].tokens_saved is None

    def test_calls_under_way_do_not_count(self):
        """
        Calls issued before the answer was given cannot have heeded it.
        """
        episodes = IncidentTracker()
        first, *others = [structs.replace(event, started_seq=0) for event in events("aaaa")]
        episodes.observe(first, [found(first)], REMINDED)
        for event in others:
            episodes.judge(event, [found(event)])
            episodes.observe(event, [found(event)], Decision())

        assert "unknown" == episodes.open["loop"].interventions[0].outcome

    @pytest.mark.parametrize(
        ("quiet", "expected"), [(TRIAL_STEPS // 2, "worked"), (TRIAL_STEPS // 2 - 1, "unknown")]
    )
    def test_at_the_runs_end_half_the_steps_will_do(self, quiet, expected):
        """
        A run that ends after half the steps without the same drift was brought back; fewer say nothing.
        """
        episodes = IncidentTracker()
        past_messages("!" + "." * quiet, episodes)
        (closed,) = episodes.close_all(9.0, 9)

        assert expected == closed.interventions[0].outcome

    def test_it_is_settled_at_a_step_the_run_has(self):
        """
        An outcome known only at the run's end is settled at the last step, not at one after it.
        """
        watched = Session(RunInfo(agent_id=AGENT, run_id=RUN), [ActionLoop()], NEW, mode="guide")
        trace = events("aaaabcdefg")
        for event in trace:
            watched.observe(event)
        settled = [
            made.settled_seq
            for incident in watched.end(at=trace[-1].timestamp).incidents
            for made in incident.interventions
        ]

        assert [trace[-1].seq] == settled


class TestCorrections:
    def judged(self, *later):
        """What an answer to corrections comes to when these kinds of drift are seen at the steps after it."""
        episodes = IncidentTracker()
        trace = events(" .. .")
        episodes.observe(trace[0], [found(trace[0], "correction")], REMINDED)
        for event, kinds in zip(trace[1:], later, strict=False):
            findings = [found(event, kind) for kind in kinds]
            episodes.judge(event, findings)
            episodes.observe(event, findings, Decision())
        return episodes.open["correction"].interventions[0].outcome

    def test_the_users_next_message_decides(self):
        """
        Only the user can say whether corrections have stopped: their next message does.
        """
        assert ["unknown", "worked", "ignored"] == [
            self.judged((), ()),
            self.judged((), (), ()),
            self.judged((), (), ("correction",)),
        ]


class TestRefusals:
    def test_asking_on_and_on_is_answered_more_and_more_strongly(self):
        """
        An agent that wants nothing but the refused call is refused on each rung, and then the user is asked.
        """
        watched = Session(RunInfo(agent_id=AGENT, run_id=RUN), [ActionLoop()], NEW, mode="enforce")
        verdicts = []
        for seq in range(40):
            (call,) = events("a")
            decision = watched.before_tool(call.action_name, call.input_data)
            verdicts.append(decision.verdict)
            if decision.verdict == "ask":
                break
            step = structs.replace(call, seq=seq, event_id=f"run.{seq}")
            if decision.verdict == "deny":
                told = {"action": decision.action.value, "reason": decision.guidance}
                step = structs.replace(
                    step, action_type="state_transition", action_name="call_refused", metadata=told
                )
            watched.observe(step)

        assert "ask" == verdicts[-1]
        assert 4 <= verdicts.count("deny") <= 8


class TestNotCarriedOut:
    def test_it_is_not_judged(self):
        """
        What the caller could not do is marked with its reason, and never counts as ignored.
        """
        episodes = IncidentTracker()
        past_messages("!", episodes)
        (told,) = episodes.mark_not_carried_out("the framework has no such thing")
        past_messages("!", episodes)

        assert ("the framework has no such thing", {}) == (
            told.interventions[0].not_carried_out,
            episodes.outcomes.running,
        )

    def test_without_an_answer_nothing_is_told(self):
        """
        A word about an answer that was never given changes nothing.
        """
        assert [] == IncidentTracker().mark_not_carried_out("whatever")


class TestWhereItBegan:
    def test_the_first_evidence(self):
        """
        An incident began where its earliest evidence lies, not where it was noticed.
        """
        episodes = IncidentTracker()
        trace = events("aaaa")
        proof = found(trace[3])
        proof.context["event_ids"] = ["run.1", "run.2", "run.3"]
        episodes.observe(trace[3], [proof], REMINDED)

        assert 1 == episodes.first_evidence_seq()

    def test_ids_of_others_say_nothing(self):
        """
        Where event ids are a caller's own, it began where it was opened.
        """
        episodes = IncidentTracker()
        trace = events("aaaa")
        proof = found(trace[3])
        proof.context["event_ids"] = ["run.²", "x-17"]
        episodes.observe(trace[3], [proof], REMINDED)

        assert 3 == episodes.first_evidence_seq()

    def test_while_all_is_well_there_is_no_such_place(self):
        """
        Without an open incident nothing has begun.
        """
        assert IncidentTracker().first_evidence_seq() is None

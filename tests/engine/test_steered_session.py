import msgspec
import pytest
from msgspec import structs

from steadyhelm.baselines import BaselineStats
from steadyhelm.budgets.limits import Budget
from steadyhelm.decisions import DriftAction
from steadyhelm.detector import Detector
from steadyhelm.detectors.action_loop import ActionLoop
from steadyhelm.detectors.goal_drift import GoalDrift
from steadyhelm.detectors.resource_spike import ResourceSpike
from steadyhelm.engine.session import Session
from steadyhelm.engine.steering import Steering
from steadyhelm.errors import SettingsError
from steadyhelm.events import NEW_GOAL, RunInfo, TraceEvent
from steadyhelm.policy.guidance import Wordings
from steadyhelm.testing.traces import AGENT, RUN, events

NEW = BaselineStats(agent_id=AGENT)


class _Padded(Detector):
    """Sees replies as far from their manner as it is told."""

    name = "padded"
    kind = "style"

    def __init__(self, level):
        self._memory = msgspec.Struct()
        self.level = level

    def check(self, event, baseline):
        return None


class _Astray(Detector):
    """Sees the run as far from its goal as it is told."""

    name = "astray"
    kind = "goal"

    def __init__(self, *levels):
        self._memory = msgspec.Struct()
        self._levels = list(levels)

    def check(self, event, baseline):
        if self._levels:
            self.level = self._levels.pop(0)


def session(*detectors, mode="enforce", **options):
    run = RunInfo(agent_id=AGENT, run_id=RUN, goal="finish the plan")
    return Session(run, detectors or [ActionLoop()], NEW, mode=mode, **options)


def told(watched, name, **metadata):
    """Something the caller tells the session."""
    return watched.observe(
        TraceEvent(
            agent_id=AGENT,
            run_id=RUN,
            action_type="state_transition",
            action_name=name,
            timestamp=0.0,
            seq=watched.next_seq,
            event_id=f"{RUN}.{watched.next_seq}",
            metadata=metadata,
        )
    )


def take(watched, picture):
    """Show the picture to a session that may have seen events already."""
    seen = []
    for event in events(picture):
        seq = watched.next_seq
        seen.append(watched.observe(structs.replace(event, seq=seq, event_id=f"{RUN}.{seq}")))
    return seen


def asked(watched, letter):
    (event,) = events(letter)
    return watched.before_tool(event.action_name, event.input_data)


class TestBeforeTheCall:
    def test_the_fifth_identical_call_is_refused(self):
        """
        A reminder at the third; when the fourth ignores it, the fifth is not made.
        """
        watched = session()
        answers = []
        for _ in range(4):
            answers.append(asked(watched, "a").verdict)
            take(watched, "a")
        answers.append(asked(watched, "a").verdict)

        assert "deny" == answers[-1]
        assert ["proceed", "proceed"] == answers[:2]

    def test_another_call_is_not(self):
        """
        What is refused is that call, not the agent.
        """
        watched = session()
        take(watched, "aaaa")

        assert "proceed" == asked(watched, "b").verdict

    def test_a_question_changes_nothing(self):
        """
        Asking a hundred times leaves the session as it was.
        """
        watched = session()
        take(watched, "aaa")
        before = watched.state()
        for _ in range(100):
            asked(watched, "a")

        assert before == watched.state()

    @pytest.mark.parametrize(("mode", "verdict"), [("observe", "proceed"), ("guide", "guide")])
    def test_only_enforce_refuses(self, mode, verdict):
        """
        In observe mode every call proceeds, in guide mode the strongest answer is words.
        """
        watched = session(mode=mode)
        take(watched, "aaaa")

        assert verdict == asked(watched, "a").verdict

    def test_a_refusal_stands(self):
        """
        As long as nothing else happens, the same call is refused again: a refusal is not progress.
        """
        watched = session()
        take(watched, "aaaa")
        told(watched, "call_refused", tool="a", reason="the same answer four times")

        assert "deny" == asked(watched, "a").verdict

    @pytest.mark.parametrize("other", ["b", " "])
    def test_it_lifts_after_another_step(self, other):
        """
        After another call, or the user's word, the refused call may be tried once more.
        """
        watched = session()
        take(watched, "aaaa")
        told(watched, "call_refused", tool="a")
        take(watched, other)

        assert "deny" != asked(watched, "a").verdict

    def test_words_come_with_it(self):
        """
        A refusal says why, and the reason names what repeats.
        """
        watched = session()
        take(watched, "aaaa")

        assert "5 times" in asked(watched, "a").guidance


class TestWhatTheCallerCan:
    def test_what_it_cannot_is_reported(self):
        """
        Where the caller cannot go back, the decision says what was wanted and what is asked instead.
        """
        watched = session(can={"proceed", "guide", "stop"})
        decisions = [seen.decision for seen in take(watched, "a" * 6)]

        assert ("CHECKPOINT_RESET", "stop", "rollback") == (
            str(decisions[-1].action),
            decisions[-1].verdict,
            decisions[-1].wanted,
        )

    def test_without_a_checkpoint_nobody_goes_back(self):
        """
        A return is asked for only once there is a checkpoint from before anything went wrong.
        """
        without, with_one = session(), session()
        told(with_one, "checkpoint_taken")
        verdicts = [take(watched, "a" * 6)[-1].decision.verdict for watched in (without, with_one)]

        assert ["ask", "rollback"] == verdicts

    def test_a_checkpoint_inside_an_incident_is_none(self):
        """
        A checkpoint taken while an incident is open is not one to return to.
        """
        watched = session()
        take(watched, "aaa")
        told(watched, "checkpoint_taken")

        assert "rollback" != take(watched, "aaa")[-1].decision.verdict

    def test_what_was_not_carried_out(self):
        """
        The caller's word that it could not answer is kept with the incident.
        """
        watched = session()
        take(watched, "aaa")
        (incident,) = told(watched, "not_carried_out", reason="no way to speak").incidents

        assert "no way to speak" == incident.interventions[-1].not_carried_out


class TestDriftScore:
    def test_a_run_far_from_its_goal_is_reminded(self):
        """
        Where no detector is certain, the weighted sum of the signals calls for an answer by itself.
        """
        watched = session(ActionLoop(), _Astray(*[0.8] * 5))
        decision = take(watched, "rrr")[-1].decision

        assert ("INJECT_REMINDER", ["drift_score"]) == (
            str(decision.action),
            [finding.detector for finding in decision.findings],
        )
        assert decision.findings[0].message.startswith("drift score 0.")
        assert decision.findings[0].message.endswith(" of 1, mostly distance from the goal")

    def test_calls_between_two_replies_are_no_new_evidence(self):
        """
        The goal signal stands still between replies: an agent that sets to work is not answered for it again.
        """
        watched = session(ActionLoop(), _Astray(*[0.8] * 12))
        take(watched, "rrr")

        assert {DriftAction.CONTINUE} == {seen.decision.action for seen in take(watched, "abcdefgh")}

    def test_one_strange_step_is_forgiven(self):
        """
        The score calls for an answer only where the last steps all reached it.
        """
        watched = session(ActionLoop(), _Astray(0.0, 0.0, 0.9, 0.0, 0.9, 0.9, 0.0))

        assert {DriftAction.CONTINUE} == {seen.decision.action for seen in take(watched, "abcdefg")}

    def test_what_a_goal_tree_says_counts(self):
        """
        A caller that knows how stuck its plan is says so, and that is the signal from then on.
        """
        watched = session()
        told(watched, "progress", value=0.1, stuck=0.8)
        take(watched, "abcd")

        assert 0.8 == watched.drift.build_signals().stuck_time

    def test_the_manner_of_speaking_is_part_of_quality(self):
        """
        What a detector of style sees counts in the quality signal.
        """
        watched = session(ActionLoop(), _Padded(0.9))
        take(watched, "abcd")

        assert watched.drift.build_signals().quality_degradation > 0.5

    def test_the_decision_explains_itself(self):
        """
        A decision carries the assessment: the score, its parts, and what is unknown.
        """
        watched = session(ActionLoop(), _Astray(*[0.9] * 5))
        assessment = take(watched, "rrrrr")[-1].decision.assessment

        assert "goal_dna_drift" == max(assessment.contributions, key=assessment.contributions.get)
        assert "no budget was set" == assessment.unknown["budget_velocity"]

    def test_a_run_on_course_is_looked_at_now_and_then(self):
        """
        Where nothing was found and nothing has changed, every fourth call is enough.
        """
        watched = session()
        take(watched, "abcdefghij")

        assert [4, 8] == watched.drift.state().history.turns

    def test_a_run_off_course_is_looked_at_every_step(self):
        """
        From the step that leads away from the goal on every step counts.
        """
        watched = session(ActionLoop(), _Astray(None, None, *[0.8] * 4))
        take(watched, "abcdef")

        assert [3, 4, 5, 6] == watched.drift.state().history.turns

    @pytest.mark.parametrize("until", range(1, 9))
    def test_going_on_elsewhere_changes_no_look(self, until):
        """
        A run put aside at any step and taken up again is looked at as if it had never been.
        """
        picture, levels = "abcdeabc", [0.2, 0.2, 0.8, 0.8, 0.8, 0.2, 0.1, 0.1]
        whole = session(ActionLoop(), _Astray(*levels))
        take(whole, picture)
        first = session(ActionLoop(), _Astray(*levels))
        take(first, picture[:until])
        later = _Astray(*levels[until:])
        later.level = levels[until - 1]
        second = session(ActionLoop(), later)
        second.restore(first.state())
        take(second, picture[until:])

        assert whole.drift.state().history == second.drift.state().history

    def test_thresholds_can_be_set(self):
        """
        A policy with a higher threshold stays quiet.
        """
        calm = Steering(nudge_threshold=0.95, replan_threshold=1, checkpoint_threshold=1, stop_threshold=1)
        watched = session(ActionLoop(), _Astray(*[0.9] * 5), steering=calm)

        assert {DriftAction.CONTINUE} == {seen.decision.action for seen in take(watched, "abcde")}

    def test_a_loop_is_not_told_twice(self):
        """
        A loop that was found is not found again by the score it raises.
        """
        detectors = {
            finding.detector for seen in take(session(), "a" * 8) for finding in seen.decision.findings
        }

        assert {"action_loop"} == detectors

    def test_nonsense_is_refused_at_once(self):
        """
        Thresholds that make no sense are refused when they are set, not in the middle of a run.
        """
        with pytest.raises(SettingsError, match="nudge_threshold"):
            Steering(nudge_threshold=2.0)


class TestBudget:
    STEERING = Steering(budget=Budget(steps=10))

    def test_the_reserve_is_for_landing(self):
        """
        When only the reserve is left, the agent is told to finish and hand over.
        """
        decisions = [seen.decision for seen in take(session(steering=self.STEERING), "abcdefghi")]
        first = next(decision for decision in decisions if decision.findings)

        assert ("budget", "guide") == (first.findings[0].detector, first.verdict)
        assert "sum up" in first.guidance

    def test_landing_is_told_once_and_never_refused(self):
        """
        The reserve is there to be used: it is told once, and no call is refused for it.
        """
        watched = session(steering=Steering(budget=Budget(steps=40)))
        seen = take(watched, "." * 37)
        told = [it for it in seen for finding in it.decision.findings if finding.detector == "budget"]

        assert 1 == len(told)
        assert "proceed" == asked(watched, "d").verdict

    def test_what_is_used_up_leads_to_the_user(self):
        """
        An exhausted budget acts by itself: the user is asked.
        """
        decision = take(session(steering=self.STEERING), "abcdefghij")[-1].decision

        assert ("ASK_USER", "ask", ("steps",)) == (
            str(decision.action),
            decision.verdict,
            decision.budget.exhausted_by,
        )

    def test_what_stays_used_up_is_listed_at_each_quarter(self):
        """
        A budget that is used up is a finding of every step, and listed at once and at each further quarter.
        """
        steps = "abcdefghijklmnopqstu"
        seen = take(session(steering=Steering(budget=Budget(steps=8))), steps)
        found = [
            it for one in seen for it in one.decision.findings if it.detector == "budget" and it.score == 1.0
        ]

        assert 13 == len(found)
        assert 7 == len([it for it in found if not it.is_ongoing])
        assert all(one.decision.verdict == "ask" or not one.decision.guidance for one in seen[8:])

    def test_the_next_call_is_not_made(self):
        """
        Before a call, an exhausted budget asks too.
        """
        watched = session(steering=self.STEERING)
        take(watched, "abcdefghij")

        assert "ask" == asked(watched, "z").verdict

    def test_an_extension_is_an_event(self):
        """
        Only a recorded extension revives it, and the rules decide: without progress it is refused.
        """
        watched = session(steering=self.STEERING)
        take(watched, "abcdefghij")
        told(watched, "extension_requested", justification="nearly there", steps=1)

        assert not watched.drift.budget.last_decision.approved
        assert watched.drift.is_exhausted

    def test_an_extension_that_is_granted(self):
        """
        Nine tenths done and a tenth more asked for: granted, once.
        """
        watched = session(steering=self.STEERING)
        told(watched, "progress", value=0.95)
        take(watched, "abcdefghij")
        told(watched, "extension_requested", justification="one test left", steps=1)

        assert watched.drift.budget.last_decision.approved
        assert not watched.drift.is_exhausted

    def test_it_survives_being_put_aside(self):
        """
        What was spent is spent when the run goes on elsewhere.
        """
        first, second = session(steering=self.STEERING), session(steering=self.STEERING)
        take(first, "abcdefghij")
        second.restore(first.state())

        assert second.drift.is_exhausted


class TestGoingBack:
    def test_the_steps_since_are_forgotten(self):
        """
        After a return the calls made since then are no repetition any more.
        """
        watched = session()
        then = watched.state()
        take(watched, "aa")
        watched.roll_back(then)

        assert [()] == [seen.decision.findings for seen in take(watched, "a")]

    @pytest.mark.parametrize("is_resumed", [False, True])
    def test_a_new_goal_after_it_holds(self, is_resumed):
        """
        A goal that is reported after a return is the goal, also when the run was suspended in between.
        """
        watched = session()
        then = watched.state()
        take(watched, "a")
        watched.roll_back(then)
        if is_resumed:
            before, watched = watched, session()
            watched.restore(before.state())
        (event,) = events("a")
        report = {"action_type": "state_transition", "action_name": NEW_GOAL, "seq": watched.next_seq}
        watched.observe(structs.replace(event, **report, input_data={"text": "write the docs"}))

        assert ("write the docs", "") == (watched.drift.goal, watched.drift.user_words)

    def test_what_was_spent_stays_spent(self):
        """
        Going back brings no budget back, and places go on counting.
        """
        watched = session(steering=Steering(budget=Budget(steps=10)))
        then = watched.state()
        take(watched, "abc")
        watched.roll_back(then)

        assert (3, 3) == (watched.drift.budget.get_status().steps_used, watched.next_seq)

    def test_turns_go_on_counting(self):
        """
        A return is no reason to count turns twice.
        """
        watched = session()
        then = watched.state()
        take(watched, "abc")
        watched.roll_back(then)

        assert 3 == watched.drift.turn

    def test_a_refusal_is_forgotten(self):
        """
        What was refused before the return may be asked for after it.
        """
        watched = session()
        then = watched.state()
        take(watched, "aaaa")
        told(watched, "call_refused", tool="a")
        watched.roll_back(then)

        assert "proceed" == asked(watched, "a").verdict

    def test_incidents_stay_known(self):
        """
        The next attempt is judged as another attempt: the answer to the same loop is stronger.
        """
        watched = session()
        then = watched.state()
        take(watched, "a" * 5)
        watched.roll_back(then)
        decision = take(watched, "aaaa")[-1].decision

        assert decision.action.level > DriftAction.SUMMARIZE_REPLAN.level


class TestGoals:
    def test_a_users_new_task_is_the_goal_from_then_on(self):
        """
        Guidance names what the user asked for last, not what the run began with.
        """
        run = RunInfo(
            agent_id=AGENT, run_id=RUN, goal="Find the cheapest flight from Bergen to Lisbon in May."
        )
        watched = Session(run, [ActionLoop(), GoalDrift()], NEW, mode="guide")
        take(watched, "r")
        task = "New task: write the release notes for version two and mail them to the translators."
        (message,) = events(" ")
        watched.observe(
            structs.replace(message, seq=watched.next_seq, input_data={"text": task}, event_id="run.1")
        )

        assert task in take(watched, "aaa")[-1].decision.guidance


class TestNews:
    def test_what_is_only_noticed_makes_nothing_news(self):
        """
        A LOW finding beside a loop does not make the same words worth saying again.
        """
        spending = ResourceSpike(absolute_token_limit=1, soft_limits=True)
        plain, noisy = session(ActionLoop()), session(ActionLoop(), spending)
        take(plain, "r")
        take(noisy, "r")

        assert [bool(seen.decision.guidance) for seen in take(plain, "a" * 12)] == [
            bool(seen.decision.guidance) for seen in take(noisy, "a" * 12)
        ]


class TestHooks:
    def test_a_filling_context_asks_for_a_checkpoint_once(self):
        """
        While all is well and the context is half full, the caller is asked to put down what it knows.
        """
        watched = session(steering=Steering(context_window=2000))
        hooks = [seen.decision.hooks for seen in take(watched, "r" * 3)]

        assert 1 == sum(hook == ("force_checkpoint",) for hook in hooks)

    def test_not_while_something_is_wrong(self):
        """
        What goes wrong is not put down in a checkpoint.
        """
        watched = session(steering=Steering(context_window=2000))
        take(watched, "aaa")

        assert {()} == {seen.decision.hooks for seen in take(watched, "rr")}

    def test_another_model_is_suggested_where_answers_fail(self):
        """
        When answers were ignored up to a return, another model may do better.
        """
        hooks = [seen.decision.hooks for seen in take(session(), "a" * 8)]

        assert ("switch_model",) in hooks


class TestWords:
    def test_words_of_your_own(self):
        """
        The opening of a reminder can be set, and is counted under a name of its own.
        """
        own = Steering(wordings=Wordings(remind="Take a breath."))
        decision = take(session(steering=own), "aaa")[-1].decision

        assert decision.guidance.startswith("Take a breath.")
        assert decision.wording.startswith("remind.loop@")

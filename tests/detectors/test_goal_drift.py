import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from steadyhelm.baselines import BaselineStats
from steadyhelm.calibration import calibrate
from steadyhelm.detectors.goal_drift import GoalDrift
from steadyhelm.embedder import Embedder
from steadyhelm.errors import SettingsError
from steadyhelm.events import STATE_TRANSITION, USER_MESSAGE, RunInfo, RunSummary, TraceEvent
from steadyhelm.testing.traces import AGENT, RUN, events, fired_at, replies, said_at

GOAL = "find the cheapest flight to Oslo"
NEAR = "The cheapest flight to Oslo costs 80 euros."
FAR = "Here is a poem about the many colours of the sea."
NEW = BaselineStats(agent_id=AGENT)


class _Scripted(Embedder):
    """Reads the similarity off the text."""

    name = "scripted"

    def similarity(self, goal, text, baseline):
        return float(text.split()[0])


def said(*similarities):
    """Outputs as near to the goal as the numbers say."""
    return replies(*(f"{similarity} of a sentence long enough" for similarity in similarities))


def scripted(**settings):
    return GoalDrift(embedder=_Scripted(), goal=GOAL, **settings)


def usual(*similarities, **fields):
    """A calibrated agent whose outputs are usually this near to their goals."""
    return BaselineStats(
        **{
            "agent_id": AGENT,
            "is_calibrated": True,
            "calibration_runs": 30,
            "embedder": "scripted",
            "similarities": sorted(similarities),
            "word_runs": 30,
        }
        | fields
    )


TWENTY = usual(*(n / 20 for n in range(6, 26)))


class TestGivenThreshold:
    def test_each_output_is_judged(self):
        """
        With a threshold every output counts by itself, from the first one on.
        """
        goal_drift = GoalDrift(similarity_threshold=0.2, goal=GOAL)

        assert [0, 2] == said_at(goal_drift, FAR, NEAR, FAR)

    def test_the_threshold_itself_is_still_on_the_goal(self):
        """
        Below the threshold is off the goal, on it is not.
        """
        assert [1] == fired_at(scripted(similarity_threshold=0.5), said(0.5, 0.49))

    def test_the_score_is_the_missing_part(self):
        """
        The score is how much of the threshold is missing.
        """
        goal_drift = scripted(similarity_threshold=0.5)
        goal_drift.begin(RunInfo(agent_id=AGENT, run_id=RUN))
        (event,) = said(0.1)

        assert 0.8 == pytest.approx(goal_drift.check(event, NEW).score)

    def test_a_calibrated_agent_may_be_held_to_more(self):
        """
        An agent usually far above the threshold is judged by what is usual: mean minus two deviations.
        """
        baseline = usual(mean_goal_similarity=0.9, std_goal_similarity=0.1)

        assert [] == fired_at(scripted(similarity_threshold=0.5), said(0.69))
        assert [0] == fired_at(scripted(similarity_threshold=0.5), said(0.69, 0.71), baseline)

    def test_what_is_usual_never_loosens_it(self):
        """
        An agent usually below the threshold is still held to it.
        """
        baseline = usual(mean_goal_similarity=0.3, std_goal_similarity=0.1)

        assert [0] == fired_at(scripted(similarity_threshold=0.5), said(0.4), baseline)

    def test_similarity_is_taught_with_a_threshold_too(self):
        """
        What is usual is learnt whether a threshold was given or not.
        """
        goal_drift = scripted(similarity_threshold=0.5)
        fired_at(goal_drift, said(0.6, 0.8, 1.0), usual(similarities=[]))
        summary = goal_drift.teach(RunSummary(agent_id=AGENT, run_id=RUN))

        assert [pytest.approx(0.8)] == summary.similarities

    @pytest.mark.parametrize("threshold", [0, -0.1, 1.01, float("nan")])
    def test_impossible_thresholds_are_refused(self, threshold):
        """
        A threshold is above 0 and at most 1.
        """
        with pytest.raises(SettingsError, match=r"goal_drift\.similarity_threshold must be above 0 .*got"):
            GoalDrift(similarity_threshold=threshold)


class TestLearntThreshold:
    def test_nothing_is_said_before_it_is_calibrated(self):
        """
        Without a threshold and without a baseline the worst output is no finding.
        """
        assert [] == said_at(GoalDrift(goal=GOAL), *[FAR] * 20)

    def test_the_mean_of_three_outputs_counts(self):
        """
        One output off the goal is forgiven, three are not.
        """
        assert [] == fired_at(scripted(), said(0.9, 0.9, 0.0, 0.9, 0.9), TWENTY)
        assert [4, 5] == fired_at(scripted(), said(0.9, 0.9, 0.0, 0.0, 0.0, 0.0), TWENTY)[-2:]

    def test_the_threshold_is_the_agents_own_tenth(self):
        """
        Off the goal is what fewer than one in ten of this agent's windows were.
        """
        assert [] == fired_at(scripted(), said(0.36, 0.36, 0.36), TWENTY)
        assert [2] == fired_at(scripted(), said(0.34, 0.34, 0.34), TWENTY)

    def test_three_outputs_prove_it(self):
        """
        The finding names the three outputs it was made from, the similarity and the threshold.
        """
        goal_drift = scripted()
        goal_drift.begin(RunInfo(agent_id=AGENT, run_id=RUN))
        *_, finding = [goal_drift.check(event, TWENTY) for event in said(0.1, 0.1, 0.1)]

        assert ["run.0", "run.1", "run.2"] == finding.event_ids
        assert (0.1, 0.35, GOAL) == tuple(finding.context[key] for key in ("similarity", "threshold", "goal"))

    def test_the_whole_way_with_real_words(self):
        """
        An agent that books flights for thirty runs and then writes poems is noticed at its third poem.
        """
        baseline = BaselineStats(agent_id=AGENT)
        towns = ("Oslo", "Rome", "Paris", "Lima", "Quito", "Berne")
        for n in range(40):
            town = towns[n % len(towns)]
            goal_drift = GoalDrift(goal=f"find the cheapest flight to {town}")
            texts = [
                f"Looking for a flight to {town}.",
                "Please wait, this takes a while.",
                f"The cheapest flight to {town} costs {n} euros.",
                "Is there anything else I can do?",
            ]
            fired_at(goal_drift, replies(*texts, *texts), baseline)
            summary = goal_drift.teach(RunSummary(agent_id=AGENT, run_id=str(n)))
            baseline = calibrate(baseline, summary, [summary])

        assert [2, 3] == said_at(GoalDrift(goal=GOAL), *[FAR] * 4, baseline=baseline)
        assert [] == said_at(GoalDrift(goal=GOAL), *[NEAR] * 4, baseline=baseline)


class TestNotChecked:
    @pytest.mark.parametrize(
        ("goal", "outputs", "baseline", "reason"),
        [
            ("", 5, TWENTY, "no goal was given"),
            (GOAL, 0, TWENTY, "no output seen yet"),
            (GOAL, 2, TWENTY, "learning 2/3 outputs of this run"),
            (GOAL, 3, BaselineStats(agent_id=AGENT, calibration_runs=12), "learning 12/30"),
            (GOAL, 3, usual(*[0.5] * 19), "learning 19/20 windows of outputs"),
            (GOAL, 3, usual(*[0.5] * 40, embedder="idf"), "learning 0/20 windows of outputs"),
            (
                GOAL,
                3,
                usual(*[0.0] * 40),
                "this agent's outputs share too few words with its goals to judge by",
            ),
            (GOAL, 3, TWENTY, None),
        ],
    )
    def test_it_says_why_it_could_not_look(self, goal, outputs, baseline, reason):
        """
        Until it can judge, it says what is missing.
        """
        goal_drift = GoalDrift(embedder=_Scripted(), goal=goal)
        fired_at(goal_drift, said(*[0.9] * outputs), baseline)

        assert reason == goal_drift.not_checked

    def test_with_a_threshold_one_output_is_enough(self):
        """
        With a threshold it has looked as soon as there was an output.
        """
        goal_drift = scripted(similarity_threshold=0.5)
        fired_at(goal_drift, said(0.9))

        assert goal_drift.not_checked is None


class TestWhatCounts:
    def test_only_replies_count(self):
        """
        Tool calls and users' messages are not the agent's words.
        """
        assert [] == fired_at(GoalDrift(similarity_threshold=0.9, goal=GOAL), "aaa x A . ")

    def test_short_outputs_do_not_count(self):
        """
        Fewer than 20 characters say nothing about the goal.
        """
        assert [] == said_at(GoalDrift(similarity_threshold=0.9, goal=GOAL), "ok", "done!", "a" * 19)

    def test_the_runs_goal_counts_more(self):
        """
        A run's own goal counts more than the one in the settings.
        """
        goal_drift = GoalDrift(similarity_threshold=0.2, goal="write a poem about the colours of the sea")
        goal_drift.begin(RunInfo(agent_id=AGENT, run_id=RUN, goal=GOAL))

        assert [True] == [goal_drift.check(event, NEW) is not None for event in replies(FAR)]

    def test_what_it_teaches_is_bounded(self):
        """
        A long run teaches a dozen windows, not thousands, and says whose scale they are on.
        """
        goal_drift = scripted()
        fired_at(goal_drift, said(*[0.5] * 500), TWENTY)
        summary = goal_drift.teach(RunSummary(agent_id=AGENT, run_id=RUN))

        assert (12, "scripted") == (len(summary.similarities), summary.embedder)

    def test_a_run_without_outputs_teaches_nothing(self):
        """
        A run in which nothing was said adds nothing to its summary.
        """
        goal_drift = GoalDrift(goal=GOAL)
        fired_at(goal_drift, "aaaa", TWENTY)
        summary = goal_drift.teach(RunSummary(agent_id=AGENT, run_id=RUN))

        assert ([], "", False) == (summary.similarities, summary.embedder, any(summary.words))

    @given(st.lists(st.floats(0, 1), max_size=12), st.integers(0, 12))
    def test_put_aside_anywhere_it_goes_on_alike(self, similarities, cut):
        """
        Put aside after any output and taken up by another detector, it finds the same.
        """
        trace = said(*similarities)
        first, second = scripted(), scripted()
        whole = fired_at(scripted(), trace, TWENTY)
        before = fired_at(first, trace[:cut], TWENTY)
        second.restore(first.state())

        assert whole == before + fired_at(second, trace[cut:], TWENTY)

    def test_events_of_other_kinds_between_change_nothing(self):
        """
        Calls between outputs do not break the window of three.
        """
        calls = events("." * 9)
        for place, output in zip((0, 4, 8), said(0.0, 0.0, 0.0), strict=True):
            calls[place] = structs.replace(output, seq=place)

        assert [8] == fired_at(scripted(), calls, TWENTY)


OFF_COURSE = "Quantum entanglement puzzles physicists, and superconductors need cryostats."
ON_COURSE = "The cheapest direct flight to Oslo leaves on Friday."
OTHER_TASK = "Translate the Norwegian brochure on glaciers into Finnish"


def run_of(*steps):
    """Events in order: a text is a reply, a pair is a kind of event and its text."""
    trace = []
    for seq, step in enumerate(steps):
        if isinstance(step, str):
            (event,) = replies(step)
            trace.append(structs.replace(event, seq=seq, event_id=f"run.{seq}"))
        else:
            kind, text = step
            name = "plan" if kind == STATE_TRANSITION else "user"
            trace.append(
                TraceEvent(
                    agent_id=AGENT,
                    run_id=RUN,
                    action_type=kind,
                    action_name=name,
                    timestamp=float(seq),
                    event_id=f"run.{seq}",
                    seq=seq,
                    input_data={"text": text},
                )
            )
    return trace


def level(*steps, goal=GOAL, baseline=NEW, **settings):
    """The level after these steps."""
    goal_drift = GoalDrift(goal=goal, **settings)
    fired_at(goal_drift, run_of(*steps), baseline)
    return goal_drift.level


class TestLevel:
    def test_unknown_before_anything_was_said(self):
        """
        Without an output, or without anything to compare with, there is no level.
        """
        assert level() is None
        assert level(OFF_COURSE, goal="") is None

    def test_there_without_calibration(self):
        """
        The level needs no baseline: it is low on course and rises off it.
        """
        assert level(*[ON_COURSE] * 5) < 0.1
        assert level(ON_COURSE, *[OFF_COURSE] * 6) > 0.4

    def test_it_makes_no_findings(self):
        """
        A high level alone is an uncertain sign, and no finding.
        """
        goal_drift = GoalDrift(goal=GOAL)

        assert [] == said_at(goal_drift, ON_COURSE, *[OFF_COURSE] * 10)
        assert goal_drift.level > 0.4

    def test_plans_and_users_may_lead_elsewhere(self):
        """
        What the plan or the user named is not off the goal.
        """
        subject = "quantum entanglement, physicists, superconductors and cryostats"
        planned = level((STATE_TRANSITION, subject), OFF_COURSE, OFF_COURSE)
        asked = level((USER_MESSAGE, f"tell me about it: {subject}"), OFF_COURSE, OFF_COURSE)

        assert max(planned, asked) < 0.5 * level(OFF_COURSE, OFF_COURSE)

    def test_without_a_goal_the_users_first_message_is_one(self):
        """
        Nobody gave a goal: the user's first message is what outputs are held against, for the level.
        """
        assert level((USER_MESSAGE, GOAL), OFF_COURSE, OFF_COURSE, goal="") > 0.1

    def test_a_new_task_starts_afresh(self):
        """
        When the user sets another task, the level of the old one is gone.
        """
        assert level(*[OFF_COURSE] * 4, (USER_MESSAGE, OTHER_TASK)) is None

    @given(st.lists(st.sampled_from([ON_COURSE, OFF_COURSE, NEAR, FAR]), max_size=8), st.integers(0, 8))
    def test_it_survives_being_put_aside(self, texts, cut):
        """
        Put aside anywhere and taken up by another detector, the level is there at once and goes on alike.
        """
        first, second, whole = GoalDrift(goal=GOAL), GoalDrift(goal=GOAL), GoalDrift(goal=GOAL)
        fired_at(first, run_of(*texts[:cut]))
        second.restore(first.state())
        assert first.level == second.level
        fired_at(second, run_of(*texts)[cut:])
        fired_at(whole, run_of(*texts))

        assert whole.level == second.level

    def test_the_calibrated_comparison_has_a_say(self):
        """
        Where the agent's own threshold is known, a quarter of the level is how far below it the outputs are.
        """
        below = level(
            "0.0 of quantum matters", *["0.0 of quantum matters"] * 2, embedder=_Scripted(), baseline=TWENTY
        )
        above = level(
            "0.9 of quantum matters", *["0.9 of quantum matters"] * 2, embedder=_Scripted(), baseline=TWENTY
        )

        assert below > above

    def test_it_has_none_once_the_user_asked_for_more(self):
        """
        Outputs are far from the first goal when the user has asked for something else since.
        """
        steps = [
            "0.0 of the cheapest flight",
            (USER_MESSAGE, "Oslo hotels too"),
            *["0.0 of the flight to Oslo"] * 4,
        ]

        assert level(*steps, embedder=_Scripted(), baseline=TWENTY) < 0.2

    def test_older_state_is_left_aside(self):
        """
        State of a detector that knew no level is not taken up.
        """
        goal_drift = GoalDrift(goal=GOAL)
        fired_at(goal_drift, run_of(OFF_COURSE))
        before = goal_drift.level
        goal_drift.restore(b"\x92\x01\x80")

        assert before == goal_drift.level


class TestChangedGoal:
    def test_a_new_task_is_never_judged_against_the_old_goal(self):
        """
        Outputs about the task the user set last are on the goal, with a threshold too.
        """
        work = "The brochure on glaciers is now in Finnish, from the Norwegian."
        trace = run_of(NEAR, (USER_MESSAGE, OTHER_TASK), work, FAR)

        assert [3] == fired_at(GoalDrift(similarity_threshold=0.2, goal=GOAL), trace)

    def test_a_go_on_changes_nothing(self):
        """
        The goal stands until another one is set.
        """
        trace = run_of(NEAR, (USER_MESSAGE, "yes, go on please"), FAR)

        assert [2] == fired_at(GoalDrift(similarity_threshold=0.2, goal=GOAL), trace)

    def test_the_finding_names_the_goal_it_was_judged_by(self):
        """
        A finding after a change of goal carries the new one.
        """
        goal_drift = GoalDrift(similarity_threshold=0.2, goal=GOAL)
        goal_drift.begin(RunInfo(agent_id=AGENT, run_id=RUN))
        *_, finding = [
            goal_drift.check(event, NEW) for event in run_of(NEAR, (USER_MESSAGE, OTHER_TASK), FAR)
        ]

        assert OTHER_TASK == finding.context["goal"]


class TestDivergence:
    @pytest.mark.parametrize(
        ("text", "kind", "words"),
        [
            (FAR, "topic_change", "nothing of the goal is left in it (colours, poem, sea)"),
            (
                "Rome has a flight, museums, gelato, fountains and catacombs for tourists",
                "scope_creep",
                "much of it was not asked for",
            ),
            (
                "There is a flight to Rome, and one to Lima, for tourists",
                "wrong_target",
                "the right kind of work on another thing (Rome, Lima)",
            ),
        ],
    )
    def test_a_finding_says_how_the_output_diverged(self, text, kind, words):
        """
        A finding carries the kind of divergence and the words that show it, and says it plainly.
        """
        goal_drift = GoalDrift(similarity_threshold=1.0, goal=GOAL)
        goal_drift.begin(RunInfo(agent_id=AGENT, run_id=RUN))
        (event,) = replies(text)
        finding = goal_drift.check(event, NEW)

        assert kind == finding.context["divergence"]
        assert finding.context["foreign"]
        assert words in finding.message

    def test_an_output_is_judged_before_it_is_learnt_from(self):
        """
        What an output adds by itself was not asked for, though it names the goal's own things.
        """
        goal_drift = GoalDrift(similarity_threshold=1.0, goal=GOAL)
        goal_drift.begin(RunInfo(agent_id=AGENT, run_id=RUN))
        (event,) = replies("The cheapest flight, museums, gelato, fountains, catacombs and guided excursions")

        assert "scope_creep" == goal_drift.check(event, NEW).context["divergence"]

    def test_where_it_cannot_be_told_nothing_is_said(self):
        """
        An output with too few words of its own gets the plain message.
        """
        goal_drift = scripted(similarity_threshold=0.5)
        goal_drift.begin(RunInfo(agent_id=AGENT, run_id=RUN))
        (event,) = said(0.1)
        finding = goal_drift.check(event, NEW)

        assert (None, []) == (finding.context["divergence"], finding.context["foreign"])
        assert finding.message.endswith("or more")

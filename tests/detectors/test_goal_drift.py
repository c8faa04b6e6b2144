import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from steadyhelm.baselines import BaselineStats
from steadyhelm.calibration import calibrate
from steadyhelm.detectors.goal_drift import GoalDrift
from steadyhelm.embedder import Embedder
from steadyhelm.embedders.idf import BUCKETS
from steadyhelm.errors import SettingsError
from steadyhelm.events import STATE_TRANSITION, TOOL_CALL, USER_MESSAGE, RunInfo, RunSummary, TraceEvent
from steadyhelm.findings import Severity
from steadyhelm.goals.departure import StepDrift, find_limit
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


def known(*peaks, embedder="idf", **fields):
    """A calibrated agent whose ordinary runs were this far from their goals at most."""
    return usual(embedder=embedder, goal_peaks=sorted(peaks), **fields)


CALM = known(*(0.1 + n / 300 for n in range(60)))
"""Sixty ordinary runs, none further than 0.3 from its goal."""


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


class TestLearntLimit:
    def test_a_run_that_leaves_its_goal(self):
        """
        A run on its goal is quiet; one that leaves it is reported once its average drift passes the limit.
        """
        assert [] == said_at(GoalDrift(goal=GOAL), *[NEAR] * 8, baseline=CALM)
        assert [] == said_at(GoalDrift(goal=GOAL), NEAR, FAR, NEAR, FAR, NEAR, baseline=CALM)
        assert [7, 8] == said_at(GoalDrift(goal=GOAL), *[NEAR] * 2, *[FAR] * 7, baseline=CALM)[-2:]

    def test_an_agent_that_is_usually_far_from_its_goals(self):
        """
        What ordinary runs of this agent reach is not drift.
        """
        roaming = known(*(n / 60 for n in range(10, 40)))

        assert [] == said_at(GoalDrift(goal=GOAL), *[NEAR] * 2, *[FAR] * 7, baseline=roaming)

    def test_foreign_words_that_are_repeated_stay_foreign(self):
        """
        Words that the run has used count less, but a run that repeats foreign ones stays off its goal.
        """
        steps, found = StepDrift(), []
        for step in range(9):
            steps.add(0.5, 0.5 if step < 3 else 0.1, (), str(step))
            found.append(steps.judge_by_limit([0.05] * 30) is not None)

        assert [False, False, True, True, True, True, True, True, True] == found

    def test_the_severity_is_how_rare_such_a_run_is(self):
        """
        Just beyond the limit is medium; ten times rarer is high, a hundred times rarer critical.
        """
        steps = StepDrift(change=0.301, steps=9)
        ordinary = [0.1 + n / 300 for n in range(60)]
        scores = []
        for change in (0.301, 0.40, 0.60):
            steps.change = change
            scores.append(Severity.from_score(steps.judge_by_limit(ordinary).score))

        assert [Severity.MED, Severity.HIGH, Severity.CRITICAL] == scores

    def test_calls_count_too(self):
        """
        An agent that says nothing is judged by what it asks its tools for, and reported when it leaves.
        """
        calls = [
            structs.replace(event, input_data={"query": "superconductor cryostat entanglement physics"})
            for event in events("........")
        ]

        assert 1 == len(fired_at(GoalDrift(goal=GOAL), calls, CALM))

    def test_the_last_steps_prove_it(self):
        """
        The finding names the last steps, the drift, the limit and how many runs it was learnt from.
        """
        goal_drift = GoalDrift(goal=GOAL)
        goal_drift.begin(RunInfo(agent_id=AGENT, run_id=RUN))
        *_, finding = [goal_drift.check(event, CALM) for event in replies(*[FAR] * 8)]

        assert [f"run.{n}" for n in range(3, 8)] == finding.event_ids
        assert (0.3, 60, GOAL) == tuple(finding.context[key] for key in ("limit", "runs_learnt", "goal"))

    def test_the_stated_share_of_ordinary_runs_passes(self):
        """
        Of ordinary runs about as many pass the limit as is stated, however their drift is spread.
        """
        rng = random.Random(7)
        shares = []
        for _ in range(200):
            learnt = sorted(rng.betavariate(2, 5) for _ in range(60))
            limit = find_limit(learnt)
            shares.append(sum(rng.betavariate(2, 5) > limit for _ in range(200)) / 200)

        assert 0.02 < sum(shares) / len(shares) < 0.05

    def test_another_embedder_compares_replies(self):
        """
        With another embedder the drift of a reply is what it lacks in similarity; calls do not count.
        """
        distant = known(*(n / 200 for n in range(60)), embedder="scripted")

        assert [] == fired_at(scripted(), said(*[0.9] * 6), distant)
        assert [5] == fired_at(scripted(), said(*[0.1] * 6), distant)[-1:]
        assert [] == fired_at(scripted(), events("........"), distant)

    def test_the_whole_way_with_real_words(self):
        """
        An agent that books flights for thirty runs and then writes poems is noticed.
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

        assert said_at(GoalDrift(goal=GOAL), *[OFF_COURSE] * 8, baseline=baseline)
        assert [] == said_at(GoalDrift(goal=GOAL), *[NEAR] * 8, baseline=baseline)


def step(kind, name, **fields):
    return TraceEvent(agent_id=AGENT, run_id=RUN, action_type=kind, action_name=name, **fields)


class TestCodingSessions:
    @pytest.mark.parametrize(
        ("tool", "message", "is_noticed_only"),
        [
            ("search", "also compare the trains to Oslo", False),
            ("search", "yes, go on", False),
            ("Bash", "yes, go on", True),
            ("Bash", "also compare the trains to Oslo", True),
        ],
    )
    def test_steps_far_from_the_goal_are_noticed_only(self, tool, message, is_noticed_only):
        """
        In a coding session steps further from the goal than usual are noticed and not reported.
        """
        detector = GoalDrift(goal=GOAL)
        detector.begin(RunInfo(agent_id=AGENT, run_id=RUN))
        call = {"command" if tool == "Bash" else "query": "cheapest flight Oslo"}
        trace = [
            *replies(NEAR),
            step(USER_MESSAGE, "user", input_data=message),
            step(TOOL_CALL, tool, input_data=call),
            *replies(*[OFF_COURSE] * 5),
        ]
        found = [it for event in trace if (it := detector.check(event, CALM))]

        assert is_noticed_only == (found[0].severity is Severity.LOW)

    @pytest.mark.parametrize(
        ("tool", "searches", "is_noticed_only"),
        [("inspect_file", 1, True), ("inspect_file", 3, False), ("write_file", 3, True)],
    )
    def test_an_agent_that_opens_a_file_now_and_then(self, tool, searches, is_noticed_only):
        """
        A run that changes no file and runs no command is a coding session if it reads files all the time.
        """
        detector = GoalDrift(goal=GOAL)
        detector.begin(RunInfo(agent_id=AGENT, run_id=RUN))
        trace = [
            step(TOOL_CALL, tool, input_data={"file_path": "flights.pdf"}),
            *[step(TOOL_CALL, "search", input_data={"query": "cheapest flight Oslo"})] * searches,
            *replies(*[OFF_COURSE] * 5),
        ]
        found = [it for event in trace if (it := detector.check(event, CALM))]

        assert is_noticed_only == (found[0].severity is Severity.LOW)

    def test_another_topic_in_the_first_run_is_reported(self):
        """
        Steps that name nothing of the task are reported in a coding session as well, unless the user asked.
        """
        detector = GoalDrift(goal="book the cheapest night train from Bergen to Oslo")
        detector.begin(RunInfo(agent_id=AGENT, run_id=RUN))
        edit = step(TOOL_CALL, "Edit", input_data={"file_path": "a.py", "old_string": "x"})
        trace = [edit, *replies(*[OFF_COURSE] * 9)]
        found = [it for event in trace if (it := detector.check(event, NEW))]

        assert Severity.MED is found[0].severity


TEMPLATE = "You have one question. Provide a correct, complete, polished final outcome."
WORDLESS = BaselineStats(agent_id=AGENT, word_runs=8, word_counts=bytes(BUCKETS))
"""An agent of which eight runs are learnt that have no word in common."""
SUBJECTS = ("harbour", "turbine", "violin", "glacier", "bakery", "orchard", "canyon", "furnace")


def measure_peak(goal, texts, baseline):
    """How far a run that says this was from its goal at most, and what it teaches."""
    detector = GoalDrift(goal=goal)
    fired_at(detector, replies(*texts), baseline)
    return detector.teach(RunSummary(agent_id=AGENT, run_id="run"))


@pytest.fixture(scope="module")
def templated():
    """An agent whose goals and replies share the words of a template, learnt from eight runs."""
    baseline = BaselineStats(agent_id=AGENT)
    for subject in SUBJECTS:
        goal, text = f"{TEMPLATE} Which {subject} opened?", f"Polished, complete, correct: the {subject}."
        baseline = calibrate(baseline, measure_peak(goal, [text] * 4, baseline), [])
    return baseline


class TestUsualWords:
    def test_words_of_every_run_do_not_name_the_task(self, templated):
        """
        Another subject in the words that all goals of an agent share is further away once these are known.
        """
        goal = f"{TEMPLATE} Who painted the chapel ceiling?"
        other = ["A polished, complete and correct outcome: penguins breed on rocky islands."] * 6

        known_words, no_words = (measure_peak(goal, other, it).goal_peak for it in (templated, WORDLESS))

        assert known_words > 1.3 * no_words

    def test_words_of_every_run_are_not_foreign_either(self, templated):
        """
        Phrases that the agent uses in every run do not move a run away from its goal.
        """
        goal = "Which ferry leaves Bergen around noon?"
        phrased = ["The ferry leaves Bergen: a polished, complete, correct outcome."] * 6

        known_words, no_words = (measure_peak(goal, phrased, it).goal_peak for it in (templated, WORDLESS))

        assert known_words < no_words / 2

    def test_until_they_are_known_a_run_teaches_its_words_alone(self):
        """
        The first runs of an agent teach which words are usual, and not how far a run is from its goal.
        """
        summary = measure_peak(GOAL, [NEAR] * 4, NEW)

        assert (None, True, "idf") == (summary.goal_peak, any(summary.words), summary.embedder)


SHANTY = "The crew sings a shanty about whales, ropes and the harbour of Nantucket."
SONNETS = "Sonnets by Petrarch praise Laura, laurels and the fountains of Vaucluse."


class TestUsedWords:
    def test_words_that_the_run_has_used_for_a_while_count_half(self):
        """
        An agent that goes on with its own words drifts less than one that turns to something new.
        """
        before = [NEAR, SHANTY, NEAR, NEAR, NEAR, NEAR]

        assert (
            measure_peak(GOAL, [*before, *[SHANTY] * 3], WORDLESS).goal_peak
            < 0.8 * measure_peak(GOAL, [*before, *[SONNETS] * 3], WORDLESS).goal_peak
        )

    def test_an_agent_that_stays_off_its_goal_does_not_come_back_by_repeating_itself(self):
        """
        Words of steps that were reported are never words of the task, however often they come.
        """
        calm = structs.replace(CALM, word_counts=bytes(BUCKETS))
        told = said_at(GoalDrift(goal=GOAL), *[NEAR] * 4, *[SONNETS] * 9, baseline=calm)

        assert [*range(told[0], 13)] == told
        assert told[0] <= 7


class TestLimit:
    def test_one_odd_run_does_not_set_the_limit(self):
        """
        The limit follows from the bulk of the ordinary runs, not from the one that was furthest away.
        """
        ordinary = sorted(0.2 + n / 200 for n in range(29))

        assert find_limit([*ordinary, 0.74]) < 0.5
        assert find_limit(ordinary) <= find_limit([*ordinary, 0.74])

    def test_nor_do_three_odd_runs_of_sixty(self):
        """
        A limit is counted only where more runs than a few odd ones pass it.
        """
        ordinary = sorted(0.2 + n / 400 for n in range(57))

        assert find_limit([*ordinary, 0.7, 0.72, 0.74]) < 0.5

    def test_of_many_runs_the_limit_is_counted(self):
        """
        Where enough ordinary runs are known, the limit is what so many of them pass, in whatever shape.
        """
        ordinary = [0.2] * 900 + [0.6] * 100

        assert 0.6 == find_limit(ordinary)


class TestTopic:
    def test_an_agent_that_never_works_on_its_goal(self):
        """
        Before anything is learnt, an agent that names nothing of its task in its first steps is reported.
        """
        assert [7] == said_at(GoalDrift(goal=GOAL), *[FAR] * 8)

    def test_a_longer_goal_needs_fewer_steps(self):
        """
        The more a goal says, the sooner it is clear that the steps are about something else.
        """
        goal = "Book the cheapest direct flight from Berlin to Oslo on Friday, aisle seat, vegetarian meal"

        assert [2, 3, 4, 5] == said_at(GoalDrift(goal=goal), *[OFF_COURSE] * 6)

    def test_long_replies_say_more_than_short_ones(self):
        """
        An agent that writes much about something else is reported after fewer replies.
        """
        long = f"{OFF_COURSE} {SONNETS} {SHANTY}"

        assert [2, 3, 4, 5] == said_at(GoalDrift(goal=GOAL), *[long] * 6)

    def test_calls_say_less_than_replies(self):
        """
        Half of what a call names are its own fields and folders: more calls than replies are needed.
        """
        steps = [structs.replace(event, input_data={"query": OFF_COURSE}) for event in events("." * 30)]

        assert [17] == fired_at(GoalDrift(goal=GOAL), steps)

    def test_a_word_that_agents_use_in_any_task_does_not_name_it(self):
        """
        A step of another task mentions users and defaults too.
        """
        goal = "Change the default email address of a user of the newsletter to the invoice address"
        off, on = "The user has another default.", "The newsletter has another default."

        assert said_at(GoalDrift(goal=goal), off, *[OFF_COURSE] * 9)
        assert [] == said_at(GoalDrift(goal=goal), on, *[OFF_COURSE] * 9)

    def test_a_goal_of_which_a_part_is_missing_needs_more_steps(self):
        """
        What the steps name may have stood in what a recorder cut from the goal.
        """
        goal = "Book the cheapest direct flight from Berlin to Oslo ...[420 characters cut]... aisle, no meat"

        assert [5] == said_at(GoalDrift(goal=goal), *[OFF_COURSE] * 6)

    def test_an_agent_that_has_worked_on_it(self):
        """
        One step on the task is enough not to be judged by topic alone: the rest needs to be learnt.
        """
        assert [] == said_at(GoalDrift(goal=GOAL), NEAR, *[FAR] * 20)

    def test_it_is_never_more_than_medium(self):
        """
        Without knowing the agent, no severity above medium is claimed.
        """
        goal_drift = GoalDrift(goal=GOAL)
        goal_drift.begin(RunInfo(agent_id=AGENT, run_id=RUN))
        found = [goal_drift.check(event, NEW) for event in replies(*[OFF_COURSE] * 20)]

        assert {Severity.MED} == {finding.severity for finding in found if finding is not None}

    def test_a_goal_that_says_too_little(self):
        """
        A goal of one or two words cannot be compared with anything.
        """
        goal_drift = GoalDrift(goal="fix it")
        found = said_at(goal_drift, *[OFF_COURSE] * 20)

        assert ([], "the goal says too little to compare steps with") == (found, goal_drift.not_checked)


class TestNotChecked:
    @pytest.mark.parametrize(
        ("goal", "outputs", "baseline", "reason"),
        [
            ("", 5, CALM, "no goal was given"),
            (GOAL, 0, CALM, "no output seen yet"),
            (GOAL, 1, CALM, None),
            (GOAL, 3, NEW, None),
            (GOAL, 3, known(*[0.9] * 40), "goal and steps share too little"),
        ],
    )
    def test_it_says_why_it_could_not_look(self, goal, outputs, baseline, reason):
        """
        Until it can judge, it says what is missing.
        """
        goal_drift = GoalDrift(goal=goal)
        said_at(goal_drift, *[NEAR] * outputs, baseline=baseline)

        assert reason == goal_drift.not_checked

    def test_another_embedder_waits_for_the_agent_to_be_learnt(self):
        """
        Its similarities mean nothing before it is known what is usual.
        """
        goal_drift = scripted()
        fired_at(goal_drift, said(*[0.0] * 12), BaselineStats(agent_id=AGENT, calibration_runs=12))

        assert "learning 12/30" == goal_drift.not_checked

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
        goal_drift = scripted(similarity_threshold=0.1)
        fired_at(goal_drift, said(*[0.5] * 500), TWENTY)
        summary = goal_drift.teach(RunSummary(agent_id=AGENT, run_id=RUN))

        assert (12, "scripted") == (len(summary.similarities), summary.embedder)

    def test_a_run_without_steps_teaches_nothing(self):
        """
        A run in which nothing was done adds nothing to its summary.
        """
        goal_drift = GoalDrift(goal=GOAL)
        fired_at(goal_drift, " .", CALM)
        summary = goal_drift.teach(RunSummary(agent_id=AGENT, run_id=RUN))

        assert ([], "", None, b"") == (
            summary.similarities,
            summary.embedder,
            summary.goal_peak,
            summary.words,
        )

    def test_it_teaches_how_far_the_run_was(self):
        """
        The summary has the run's highest average drift, and whether it was reported.
        """
        goal_drift = GoalDrift(goal=GOAL)
        calm = structs.replace(CALM, word_counts=bytes(BUCKETS))
        said_at(goal_drift, *[NEAR] * 2, *[FAR] * 7, NEAR, baseline=calm)
        summary = goal_drift.teach(RunSummary(agent_id=AGENT, run_id=RUN))

        assert (True, "idf", True) == (summary.goal_peak > 0.3, summary.embedder, summary.goal_flagged)

    @given(st.lists(st.floats(0, 1), max_size=12), st.integers(0, 12))
    def test_put_aside_anywhere_it_goes_on_alike(self, similarities, cut):
        """
        Put aside after any output and taken up by another detector, it finds the same.
        """
        trace = said(*similarities)
        distant = known(*(n / 200 for n in range(60)), embedder="scripted")
        first, second = scripted(), scripted()
        whole = fired_at(scripted(), trace, distant)
        before = fired_at(first, trace[:cut], distant)
        second.restore(first.state())

        assert whole == before + fired_at(second, trace[cut:], distant)


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

    def test_a_given_threshold_has_a_say(self):
        """
        Where a threshold was given, a quarter of the level is how far below it the outputs are.
        """
        below = level(
            "0.0 of quantum matters",
            *["0.0 of quantum matters"] * 2,
            embedder=_Scripted(),
            baseline=TWENTY,
            similarity_threshold=0.5,
        )
        above = level(
            "0.9 of quantum matters",
            *["0.9 of quantum matters"] * 2,
            embedder=_Scripted(),
            baseline=TWENTY,
            similarity_threshold=0.5,
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

        assert level(*steps, embedder=_Scripted(), similarity_threshold=0.5, baseline=TWENTY) < 0.2

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

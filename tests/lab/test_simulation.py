import os
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labelled_runs import CLEAN, LOOPING, Repeats, judge_with, line, mark, set_of
from once_per_run import compute_once

from steadyhelm.decisions import DriftAction
from steadyhelm.lab.evaluation.labelled_runs import RunSet, read_sets
from steadyhelm.lab.report_html import render_simulation
from steadyhelm.lab.simulation.report_text import format_simulation
from steadyhelm.lab.simulation.simulate import SimulationReport, simulate
from steadyhelm.lab.simulation.simulated_run import read_run_truth, read_set_truth
from steadyhelm.settings import Settings

DATA = Path(os.environ.get("STEADYHELM_DATA", Path(__file__).parents[3] / "shared" / "data"))
EVIL = "<script>alert(1)</script>\x1b[2J\u202e&"

HEALTHY = line("ABCD", run_id="healthy", outcome="success")
DISTURBED = line("ABabababababababab", run_id="disturbed", outcome="success")
FAILED = line("ABCDEFGH", run_id="failed", outcome="failure")
STUCK = line("Aaaaaaaaaa", run_id="stuck", outcome="failure")


class Alternates(Repeats):
    """A detector of the tests' own that takes `ab` twice for a loop: what nobody else would call one."""

    name = "alternates"

    def check(self, event, baseline):
        self._memory.ids.append(event.event_id)
        ids = self._memory.ids
        if len(ids) < 6:
            return None
        return self.finding(
            event, score=0.8, message="to and fro", suggested_action="stop", event_ids=ids[-4:]
        )


def judging(*kinds):
    return judge_with(*kinds, mode="enforce")


def simulate_lines(*lines, kinds=(), samples=20, **budget):
    """What our own detectors would do is their tests' affair: these know exact repetition only."""
    chosen = Settings(**{f"budget_{name}": limit for name, limit in budget.items()})
    replayer = judge_with(*kinds, settings=chosen, mode="enforce")
    return simulate([set_of(*lines)], chosen, samples=samples, replayer=replayer)


def truth(one, *others):
    runs = set_of(one, *others).runs
    return read_run_truth(runs[0], read_set_truth(runs))


def without_tokens(one):
    return {**one, "events": [{**event, "tokens": None} for event in one["events"]]}


class TestTruth:
    def test_people_say_it(self):
        """
        Where people labelled loops, their label counts, from the first step it points at.
        """
        found = truth(line("ABCDE", labels=[mark(3), mark(2)]), CLEAN)
        assert (True, 2) == (found.is_looping, found.evidence)

    def test_people_say_it_of_others(self):
        """
        In such a set a run without the label does not loop, whatever it repeats.
        """
        found = truth(line("aaaa", labels=[]), LOOPING)
        assert (False, True) == (found.is_looping, found.repeats)

    def test_a_label_between_two_steps(self):
        """
        A label that points at a result belongs to the call before it.
        """
        events = [{"type": "tool_call", "name": "a"}, {"type": "tool_result", "name": "a", "text": "x"}] * 2
        assert 1 == truth(line("", events=events, labels=[mark(3)])).evidence

    def test_another_detector_says_it(self):
        """
        A label that another detector's rule set is no truth: three equal calls in a row are.
        """
        labelled = line("ABCD", labels=[mark(3, by="their_stuck_detector")])
        assert not truth(labelled).is_looping
        assert truth(line("Baaa", labels=[mark(3, by="their_stuck_detector")])).is_looping

    def test_nobody_says_it(self):
        """
        Without labels three equal calls in a row are a loop, which shows at the second.
        """
        found = truth(line("BCaaa"))
        assert (True, 3) == (found.is_looping, found.evidence)

    @pytest.mark.parametrize("labels", [None, [7], ["loop"], [{"kind": ["loop"]}], [{"at": 3}]])
    def test_labels_that_say_nothing(self, labels):
        """
        Labels in no shape we know say nothing.
        """
        assert not truth(line("ABCD", labels=labels)).is_looping

    def test_success_is_healthy(self):
        """
        A run that succeeded is healthy, unless something in it repeats or is called a loop.
        """
        runs = [HEALTHY, line("Baaa", outcome="success"), line("AB", outcome="success", labels=[mark(1)])]
        assert [True, False, False] == [truth(one, FAILED).is_healthy for one in runs]

    def test_nothing_is_known(self):
        """
        Where nobody said anything about any run of a set, its runs are taken for healthy.
        """
        assert "unjudged" == truth(line("ABCD")).healthy_because
        assert "" == truth(line("ABCD"), FAILED).healthy_because


class TestLoops:
    def test_stopped(self):
        """
        A run counts as stopped when it would have been re-planned at least, as reminded when it got a word.
        """
        short = line("Baaaa", run_id="short", outcome="failure")
        loops = simulate_lines(STUCK, short, FAILED).together.loops
        assert (2, 1, 2) == (loops.runs, loops.stopped.hits, loops.reminded.hits)

    def test_delay(self):
        """
        The delay is counted in steps, from the first evidence to the answer.
        """
        loops = simulate_lines(STUCK).together.loops
        assert [2] == loops.delay_to_reminder.values
        assert [4] == loops.delay_to_stop.values

    def test_nothing_loops(self):
        """
        Without looping runs there is no share and no delay.
        """
        loops = simulate_lines(HEALTHY).together.loops
        assert (0, None, None) == (loops.runs, loops.stopped.share.value, loops.delay_to_stop)

    def test_refused(self):
        """
        A call that would not have been let through is counted, by the session that watches live agents.
        """
        same = line("Aaaaaaaaaaaaaaa", run_id="stuck")
        report = simulate([set_of(same)], Settings(), samples=0)
        assert 1 == report.together.loops.refused.hits


class TestTokens:
    def test_saved(self):
        """
        What was spent after the stop is saved, as a sum and as a share of everything.
        """
        tokens = simulate_lines(STUCK, FAILED).together.tokens
        assert (1800, 300, 300) == (tokens.spent, tokens.saved, tokens.in_looping)
        assert pytest.approx(1 / 6) == tokens.share.value

    def test_until_the_user_speaks(self):
        """
        What comes after the user's next word is not saved: it may be about something else.
        """
        assert 100 == simulate_lines(line("Aaaaaaaa BCDEF", outcome="failure")).together.tokens.saved

    def test_unknown_is_not_nought(self):
        """
        Where no tokens were recorded nothing is known, and such runs are counted apart.
        """
        assert simulate_lines(without_tokens(STUCK)).together.tokens is None
        mixed = simulate_lines(without_tokens(STUCK), FAILED).together.tokens
        assert (1, 1, 800) == (mixed.runs, mixed.unknown_runs, mixed.spent)

    def test_success_is_no_waste(self):
        """
        What a run that succeeded spent after its stop was no waste, and is told apart.
        """
        tokens = simulate_lines({**STUCK, "outcome": "success"}, FAILED).together.tokens
        assert (0, 0, 300) == (tokens.saved, tokens.in_looping, tokens.in_healthy)

    def test_no_interval_at_nought(self):
        """
        Where nothing was saved resampling knows nothing, and no interval is given.
        """
        assert simulate_lines(FAILED).together.tokens.share.high is None


class TestHealthy:
    def test_disturbed(self):
        """
        A healthy run that gets more than a reminder is counted, and the limit is not kept.
        """
        report = simulate_lines(HEALTHY, DISTURBED, kinds=[Alternates])
        assert (1, 2) == (report.together.succeeded.disturbed.hits, report.together.succeeded.disturbed.of)
        assert report.is_harmless is False

    def test_listed_with_evidence(self):
        """
        Each of them is listed with what was noticed, where, and the events around it.
        """
        [one] = simulate_lines(HEALTHY, DISTURBED, kinds=[Alternates]).disturbed
        assert "disturbed" == one.run_id
        assert ("SUMMARIZE_REPLAN", "loop", "to and fro") == (
            one.reached[0].action,
            one.reached[0].by,
            one.reached[0].message,
        )
        assert any(event.found for event in one.events)

    def test_left_alone(self):
        """
        Where no healthy run is disturbed the limit is kept.
        """
        report = simulate_lines(HEALTHY, STUCK)
        assert (True, []) == (report.is_harmless, report.disturbed)

    def test_left_out(self):
        """
        A success in which something repeats is left out, not held against the policy.
        """
        succeeded = simulate_lines({**STUCK, "outcome": "success"}, HEALTHY).together.succeeded
        assert (1, 1) == (succeeded.left_out, succeeded.disturbed.of)

    def test_nobody_succeeded(self):
        """
        Where no run is known to have succeeded, nobody knows whether the limit is kept.
        """
        assert simulate_lines(FAILED).is_harmless is None

    def test_unjudged(self):
        """
        Runs of which nobody says anything have a figure of their own, and no limit.
        """
        report = simulate_lines(line("ABababababab"), kinds=[Alternates])
        assert (1, None, None) == (
            report.together.unjudged.disturbed.hits,
            report.together.succeeded,
            report.is_harmless,
        )


class TestLadder:
    def test_runs_on_each_rung(self):
        """
        A run counts at its strongest level and at all below, with its first cause.
        """
        levels = simulate_lines(STUCK, FAILED).together.levels
        assert [1, 1, 1] == [level.runs for level in levels[:3]]
        assert {"loop": 1} == levels[0].by
        assert (1, 0, 0) == (levels[0].looping, levels[0].healthy, levels[0].other)

    def test_it_went_on(self):
        """
        `ignored` means that the recorded agent went on.
        """
        [reminded, *_] = simulate_lines(line("Aaaaaaaaaaaa")).together.outcomes
        assert 1 == reminded.outcomes["ignored"]

    def test_it_came_off_by_itself(self):
        """
        An agent that stops repeating by itself gives the base rate.
        """
        report = simulate_lines(line("AaaaaBCDEFGHIJKLMN"))
        assert 1 == report.together.outcomes[0].outcomes["worked"]
        assert 1.0 == report.together.unaided_recovery.value


class TestBudget:
    def test_harm(self):
        """
        A run that succeeded and would have run out is named, with how much of it was still to come.
        """
        [harmed] = simulate_lines(HEALTHY, FAILED, steps=2).together.budget.harmed
        assert ("healthy", 2) == (harmed.run_id, harmed.steps_left)

    def test_just_enough(self):
        """
        A run that ends with its last step has not run out.
        """
        assert [] == simulate_lines(HEALTHY, steps=4).together.budget.harmed

    def test_cut(self):
        """
        What a failing run spent after it ran out is saved.
        """
        budget = simulate_lines(FAILED, steps=3).together.budget
        assert (1, 500) == (budget.failed.hits, budget.tokens_saved)

    def test_what_is_not_recorded(self):
        """
        A limit on what a run does not record says nothing about it, and that is said.
        """
        budget = simulate_lines(without_tokens(FAILED), tokens=100, wall_s=1.0).together.budget
        assert ({"tokens": 1, "wall_s": 1}, 0, None) == (
            budget.not_applied,
            budget.failed.hits,
            budget.tokens_saved,
        )

    def test_none(self):
        """
        Without limits there is nothing to say about a budget.
        """
        report = simulate_lines(FAILED)
        assert (None, {}) == (report.together.budget, report.limits)
        assert "BUDGET" not in format_simulation(report)

    def test_by_the_budget(self):
        """
        The ladder tells what the budget led to from what drift did.
        """
        assert {"budget": 1} == simulate_lines(FAILED, steps=3).together.levels[-1].by


class TestReport:
    def test_the_same_again(self):
        """
        The same runs and settings give the same report.
        """
        assert simulate_lines(STUCK, HEALTHY) == simulate_lines(STUCK, HEALTHY)

    def test_nothing_at_all(self):
        """
        No runs give a report that says so, in figures and in words.
        """
        report = simulate([], Settings())
        assert (0, None, None) == (report.together.runs, report.together.tokens, report.is_harmless)
        assert "No run here loops." in format_simulation(report)

    def test_each_run_is_told(self):
        """
        Whoever shows how far it is hears of every run.
        """
        heard = []
        simulate([set_of(HEALTHY, STUCK)], Settings(), samples=0, on_run=lambda: heard.append(1))
        assert 2 == len(heard)

    def test_as_data(self):
        """
        The report is plain data, there and back.
        """
        report = simulate_lines(STUCK, DISTURBED, HEALTHY, kinds=[Alternates], steps=3)
        assert report == msgspec.json.decode(msgspec.json.encode(report), type=SimulationReport)

    def test_absent_data_is_said(self):
        """
        What the runs do not record is said in words.
        """
        text = " ".join(format_simulation(simulate_lines(without_tokens(FAILED))).split())
        assert "No tokens were recorded" in text
        assert "unknown, there is none here" in text

    def test_trouble_is_said(self):
        """
        A detector that failed is named: its figures are not complete.
        """
        report = msgspec.structs.replace(simulate_lines(FAILED), troubles={"error in detector x": 3})
        assert "error in detector x, 3 times" in format_simulation(report)
        assert "error in detector x" in render_simulation(report)

    @settings(max_examples=25, deadline=None)
    @given(
        st.lists(
            st.tuples(
                st.text("aABC .", min_size=1, max_size=14), st.sampled_from(["success", "failure", ""])
            ),
            max_size=4,
        )
    )
    def test_figures_add_up(self, pictures):
        """
        Rungs hold fewer runs the stronger they are, their parts add up, and the text fits a screen.
        """
        lines = [line(picture, run_id=str(i), outcome=end) for i, (picture, end) in enumerate(pictures)]
        report = simulate([set_of(*lines)], Settings(), samples=5)
        levels = report.together.levels
        assert [level.runs for level in levels] == sorted((level.runs for level in levels), reverse=True)
        assert all(level.runs == level.looping + level.healthy + level.other for level in levels)
        assert all(level.runs == sum(level.by.values()) for level in levels)
        assert all(len(one) <= 80 for one in format_simulation(report).splitlines())


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags = set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)


@pytest.fixture(scope="module")
def evil():
    """A report in which every text an agent or a file controls is hostile, and long."""
    lines = [{**one, "run_id": f"{one['run_id']} {EVIL}"} for one in (HEALTHY, DISTURBED, STUCK)]
    for one in lines:
        one["events"] = [{**event, "name": f"tool {EVIL}", "text": EVIL * 40} for event in one["events"]]
    sets = [RunSet(name=f"{name} {EVIL * 3}", runs=set_of(*lines).runs, broken=[]) for name in "ab"]
    return simulate(sets, Settings(budget_steps=2), samples=5, replayer=judging(Alternates))


class TestHostileText:
    def test_page(self, evil):
        """
        The page runs nothing that an agent said.
        """
        reader = Reader()
        reader.feed(render_simulation(evil))
        assert not reader.tags & {"script", "link", "img", "iframe"}
        assert "\x1b" not in render_simulation(evil)

    def test_text(self, evil):
        """
        Nothing unprintable reaches a terminal, and no line is wider than 80 columns.
        """
        shown = format_simulation(evil).splitlines()
        assert all(one.isprintable() for one in shown)
        assert max(map(len, shown)) <= 80


@pytest.fixture(scope="session")
def report(tmp_path_factory):
    """What the policy as it is set by default would have done to the real runs."""
    return compute_once(
        tmp_path_factory,
        "simulation-report",
        lambda: simulate(read_sets([DATA / "runs"]), Settings(), samples=20),
    )


@pytest.mark.skipif(not DATA.is_dir(), reason="the labelled data is not here; set STEADYHELM_DATA")
class TestRealRuns:
    def test_healthy_runs_are_left_alone(self, report):
        """
        Of the runs known to have succeeded at most 2 in 100 get more than a reminder.
        """
        succeeded = report.together.succeeded
        assert 200 == succeeded.disturbed.of + succeeded.left_out
        assert report.is_harmless, [one.run_id for one in report.disturbed]

    def test_tokens_are_known_for_three_sets(self, report):
        """
        Tokens are recorded for OpenHands, TRAIL and Claude Code; of the other sets nothing is known.
        """
        assert {"claudecode_sessions", "openhands_swebench", "trail"} == {
            one.name for one in report.sets if one.tokens is not None
        }

    def test_loops_get_an_answer(self, report):
        """
        Every run with three equal fruitless calls in a row is reminded at least.
        """
        [openhands] = [one for one in report.sets if one.name == "openhands_swebench"]
        assert openhands.loops.reminded.hits == openhands.loops.runs
        assert DriftAction.SUMMARIZE_REPLAN in {level.action for level in openhands.levels if level.runs}

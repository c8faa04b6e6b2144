import gzip
import io
import itertools
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steadyhelm.detectors.action_loop import ActionLoop
from steadyhelm.errors import FormatError, SettingsError, SteadyhelmError
from steadyhelm.lab.evaluation.planted import format_plants, is_flagged, measure_plants, read_plant
from steadyhelm.lab.mutations import CLASSES, choose_classes
from steadyhelm.lab.mutations.planting import (
    PLANT,
    find_places,
    is_healthy,
    plant,
    plant_in,
    read_hosts,
    replace_steps,
    splice,
)
from steadyhelm.recordings.run_file import RunFile
from steadyhelm.replay import Replayer
from steadyhelm.settings import Settings

STEPS = 12


def host(run_id="healthy", timed=False):
    """A run of different calls with separate results."""
    entries = []
    for n in range(STEPS):
        at = {"t": 60.0 * n} if timed else {}
        entries.append({"type": "tool_call", "name": "read", "args": {"path": f"part-{n}.txt"}, **at})
        entries.append(
            {"type": "tool_result", "name": "read", "text": f"contents of part {n}, in full", **at}
        )
    return {"run_id": run_id, "goal": "Read all parts", "events": entries}


def lines(*names, plants=2, seed=0, timed=False):
    return list(plant([host(timed=timed)], choose_classes(names), plants=plants, seed=seed))


def read(line):
    [run] = RunFile(io.BytesIO(json.dumps(line).encode()))
    return run


def judge_all(found):
    replayer = Replayer(Settings(), make_detectors=lambda: [ActionLoop()])
    return measure_plants(map(read, found), replayer)


class TestClasses:
    @pytest.mark.parametrize("name", CLASSES)
    def test_every_class_plants_what_its_line_says(self, name):
        """
        The entries before and after are the run's own, and those between are the plant: at least four steps.
        """
        [line] = lines(name, plants=1)
        about = read_plant(read(line))
        own = line["events"][: about.first] + line["events"][about.last + 1 :]

        assert (name, CLASSES[name].kind) == (about.name, about.kind)
        assert host()["events"] == own
        assert about.last - about.first + 1 >= 4

    @pytest.mark.parametrize("name", CLASSES)
    def test_every_plant_is_read_without_a_problem(self, name):
        """
        What is planted is a run file like any other.
        """
        runs = [read(line) for line in lines(name, plants=3)]

        assert [[]] * 3 == [run.problems for run in runs]

    def test_every_class_says_what_it_is(self):
        """
        Each class has a description, and both kinds have at least sixteen and fifteen classes.
        """
        kinds = [one.kind for one in CLASSES.values()]

        assert all(one.about for one in CLASSES.values())
        assert kinds.count("loop") >= 16
        assert kinds.count("healthy") >= 15

    def test_an_unknown_class(self):
        """
        A class that does not exist is refused with the names of those that do.
        """
        with pytest.raises(SettingsError, match="exact, volatile_words"):
            choose_classes(["exakt"])


class TestPlanting:
    def test_the_same_seed_plants_the_same(self):
        """
        Seed, runs and classes decide everything; another seed plants something else.
        """
        assert lines("cycle", "batch", seed=7) == lines("cycle", "batch", seed=7)
        assert lines("cycle", seed=7) != lines("cycle", seed=8)

    def test_one_class_does_not_depend_on_another(self):
        """
        A class chosen alone gets the same plants as among all.
        """
        assert lines("gaps") == [line for line in lines("exact", "gaps") if line[PLANT]["name"] == "gaps"]

    def test_hosts_take_turns(self):
        """
        Plants of a class go to different runs before any run gets a second one.
        """
        runs = [host(f"run-{n}") for n in range(5)]
        names = [line["run_id"].split("+")[0] for line in plant(runs, choose_classes(["exact"]), plants=10)]

        assert [2] * 5 == [names.count(run["run_id"]) for run in runs]
        assert len(set(names[:5])) == 5

    def test_no_call_is_cut_from_its_result(self):
        """
        A plant begins where no call waits for its result.
        """
        assert all(place % 2 == 0 for place in find_places(host()["events"]))

    @given(st.integers(0, 10_000), st.sampled_from(sorted(CLASSES)))
    @settings(max_examples=40, deadline=None)
    def test_time_never_goes_back(self, seed, name):
        """
        In a run with times the plant takes time, and what follows is later by as much.
        """
        line = plant_in(host(timed=True), CLASSES[name], random.Random(seed))
        times = [entry["t"] for entry in line["events"]]

        assert all(before <= after for before, after in itertools.pairwise(times))

    def test_no_place(self):
        """
        Runs too short to plant in are an error with a reason.
        """
        with pytest.raises(SteadyhelmError, match="No run has a place"):
            list(plant([{"run_id": "r", "events": []}], choose_classes(["exact"])))


class TestHosts:
    def test_only_healthy_runs(self, tmp_path):
        """
        Failed runs, runs with a loop label and planted ones are left out and counted.
        """
        found = [
            host("good"),
            host("failed") | {"outcome": "failure"},
            host("loop") | {"labels": [{"kind": "loop", "at": 3}]},
            *lines("exact", plants=1),
        ]
        file = tmp_path / "runs.jsonl.gz"
        file.write_bytes(gzip.compress("\n".join(map(json.dumps, found)).encode()))
        read_back = read_hosts([file])

        assert (["good"], 3) == ([run["run_id"] for run in read_back.runs], read_back.left_out)
        assert is_healthy(host() | {"labels": [{"kind": "user_interrupt", "at": 1}]})

    @pytest.mark.parametrize(
        "line", ["no json", "[]", '{"run_id": "r"}', '{"events": ["x"]}', '{"events": 3}']
    )
    def test_a_line_that_is_no_run(self, tmp_path, line):
        """
        The file and the line are named.
        """
        file = tmp_path / "runs.jsonl"
        file.write_text(json.dumps(host()) + "\n" + line + "\n")

        with pytest.raises(FormatError, match=r"runs\.jsonl':2 is not a run"):
            read_hosts([file])


class TestMeasuring:
    def test_found_and_flagged_by_class(self):
        """
        A detector of equal calls finds the exact loops, and flags no batch.
        """
        exact, batch = judge_all(lines("exact", "batch", plants=3)).classes

        assert ("exact", 3, 3, []) == (exact.name, exact.plants, exact.flagged, exact.wrong)
        assert ("batch", 3, 0, []) == (batch.name, batch.plants, batch.flagged, batch.wrong)

    def test_what_is_missed_is_named(self):
        """
        A detector of equal calls cannot find thoughts that go in circles: the runs are listed.
        """
        result = judge_all(lines("thought_cycle", plants=2))

        assert ["healthy+thought_cycle-0", "healthy+thought_cycle-1"] == result.classes[0].wrong
        assert not result.is_met
        assert "healthy+thought_cycle-0" in format_plants(result, wrong=True)

    def test_a_finding_elsewhere_does_not_count(self):
        """
        Only a finding in the planted steps, no later than the last one, counts as found.
        """
        [line] = lines("exact", plants=1)
        run = read(line)
        report = Replayer(Settings(), make_detectors=lambda: [ActionLoop()]).judge(run).report
        about = read_plant(run)
        before = type(about)(name="x", kind="loop", first=0, last=about.first - 1)

        assert (True, False) == (is_flagged(report, about), is_flagged(report, before))

    def test_an_unreadable_plant(self):
        """
        A line whose plant was edited by hand is refused with its run's name.
        """
        [line] = lines("exact", plants=1)

        with pytest.raises(FormatError, match=r"healthy\+exact-0"):
            read_plant(read(line | {PLANT: {"name": "exact"}}))


class TestSplicing:
    def runs(self):
        return [host(f"run-{n}") | {"goal": f"goal {n}"} for n in range(4)]

    def test_the_second_half_is_another_runs(self):
        """
        A spliced run has its own goal and first half, then steps of a run with another goal.
        """
        [line] = splice(self.runs(), plants=1)
        about = read_plant(read(line))

        assert ("goal", "spliced") == (about.kind, about.name)
        assert host()["events"][: about.first] == line["events"][: about.first]
        assert len(line["events"]) - 1 == about.last

    def test_or_all_steps_of_another_run(self):
        """
        The other run can be taken from its beginning instead of from its middle.
        """
        [line] = splice(self.runs(), plants=1, whole=True)

        assert host()["events"] == line["events"][line[PLANT]["first"] :]

    def test_foreign_steps_follow_the_users_message(self):
        """
        Only the goal and the user's first message are the run's own.
        """
        asked = {"type": "user_message", "text": "Book a train."}
        mine = host("mine") | {"events": [asked, *host()["events"]]}
        [line] = replace_steps([mine], self.runs(), plants=1)

        assert [asked, *host()["events"]] == line["events"]
        assert 1 == line[PLANT]["first"]

    def test_the_other_users_words_are_left_out(self):
        """
        A user who asks for something else is no drift: only the agent's steps are taken over.
        """
        asked = {"type": "user_message", "text": "Now bake bread."}
        other = host("other") | {"goal": "bread", "events": [*host()["events"], asked, *host()["events"]]}
        [line] = [one for one in splice([host("mine"), other], plants=2) if one["run_id"].startswith("mine")]

        assert asked not in line["events"]

    def test_one_goal_only(self):
        """
        Without a run of another goal there is nothing to splice.
        """
        with pytest.raises(SteadyhelmError, match="different goals"):
            list(splice([host("a"), host("b")]))

    def test_reproducible(self):
        """
        The same seed joins the same runs.
        """
        assert list(splice(self.runs(), seed=3)) == list(splice(self.runs(), seed=3))

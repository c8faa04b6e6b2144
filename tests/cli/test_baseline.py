import json
import os
from contextlib import closing

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs
from watched_agent import CommandLine, work

from steadyhelm.assembly import DriftMonitor
from steadyhelm.baselines import BaselineStats, Spread
from steadyhelm.cli.baseline import read_baseline, to_document, write_baseline
from steadyhelm.cli.budget import read_task_profiles
from steadyhelm.errors import FormatError
from steadyhelm.stores import open_store


@pytest.fixture
def versions(database):
    """Two further baselines of the same agent: another version, and that version at another task."""
    monitor = DriftMonitor("researcher", db_path=database, version="2")
    work(monitor, "v2")
    work(monitor, "v2-hotels", task_type="hotels")
    monitor.close()


class TestList:
    def test_progress(self, steadyhelm, versions):
        """
        Every baseline of every version and task is listed with how far its learning is.
        """
        listed = steadyhelm("baseline list --json").document["baselines"]

        assert [("", ""), ("2", ""), ("2", "hotels")] == [(it["version"], it["task_type"]) for it in listed]
        assert ["calibrated on 5 runs", "learning 1/30", "learning 1/30"] == [it["progress"] for it in listed]

    def test_plain_baseline_lists(self, steadyhelm):
        """
        `baseline` alone does what `baseline list` does.
        """
        assert steadyhelm("baseline list").out == steadyhelm("baseline").out

    def test_nothing(self, empty):
        """
        Where nothing is learnt it says what teaches.
        """
        answer = empty("baseline list")

        assert (0, "") == (answer.status, answer.out)
        assert "learnt from runs that end without an incident" in answer.err


class TestShow:
    def test_what_is_usual(self, steadyhelm):
        """
        Tokens, tool calls and duration of a usual run, and the most common sequences, are shown.
        """
        out = steadyhelm("baseline show researcher").out

        assert ["tokens", "780", "780"] in [line.split()[:3] for line in out.splitlines()]
        assert "common    read → search → read → search" in out

    def test_what_is_not_checked_yet(self, steadyhelm, versions):
        """
        What cannot be judged with so little learnt is named, with the reason.
        """
        out = steadyhelm("baseline show researcher --version 2 --task hotels").out

        assert "not yet   resource_spike: only hard limits are checked: learning 1/30" in out
        assert "not yet   goal_drift: only a change of topic is checked: learning 1/30" in out

    def test_that_the_agent_may_have_changed(self, steadyhelm, versions, database):
        """
        After unusual runs in a row it says so, with the command for an agent that has changed for good.
        """
        with closing(open_store(database)) as store:
            known = store.get_baseline("researcher", "2", "hotels")
            store.save_baseline(structs.replace(known, unusual_runs=4))
        changed, same = (steadyhelm(f"baseline show researcher --version {it}").out for it in ("2", "''"))

        assert "unusual   at least its latest 4 runs" in changed
        command = f"steadyhelm --db {database} baseline reset researcher --version 2 --task hotels"
        assert command in changed
        assert "unusual" not in same

    def test_every_version_unless_one_is_named(self, steadyhelm, versions):
        """
        Without a version all of them are shown, with one only that.
        """
        assert 3 == len(steadyhelm("baseline show researcher --json").document["baselines"])
        assert 1 == len(steadyhelm("baseline show researcher --version '' --json").document["baselines"])

    def test_unknown_version(self, steadyhelm):
        """
        A version of which nothing is learnt ends with status 1, and says what to look at.
        """
        answer = steadyhelm("baseline show researcher --version 9")

        assert 1 == answer.status
        assert "steadyhelm baseline list" in answer.err


class TestFreeze:
    def test_learns_no_more(self, steadyhelm, store, database):
        """
        After freezing, a clean run leaves the baseline as it is; after unfreezing it teaches again.
        """
        steadyhelm("baseline freeze res")
        work(frozen := DriftMonitor("researcher", db_path=database), "after-freezing")
        frozen.close()
        assert "frozen at 5 runs" == store.get_baseline("researcher").progress

        steadyhelm("baseline unfreeze res")
        work(thawed := DriftMonitor("researcher", db_path=database), "after-unfreezing")
        thawed.close()
        assert "calibrated on 6 runs" == store.get_baseline("researcher").progress

    def test_too_early(self, steadyhelm, versions):
        """
        Freezing a baseline that has not learnt enough says so.
        """
        answer = steadyhelm("baseline freeze researcher --version 2 --task hotels")

        assert "learnt from 1 of 30 runs" in answer.err

    def test_several(self, steadyhelm, store, versions):
        """
        Where an agent has several baselines, one must be named; none is changed.
        """
        before = store.list_baselines()

        answer = steadyhelm("baseline freeze researcher")

        assert 1 == answer.status
        assert "Name one: --version '' --task ''; --version '2' --task ''" in answer.err
        assert before == store.list_baselines()


class TestReset:
    def test_asks(self, steadyhelm, store):
        """
        Without --yes nothing is forgotten.
        """
        answer = steadyhelm("baseline reset researcher")

        assert 2 == answer.status
        assert store.get_baseline("researcher") is not None

    def test_forgets(self, steadyhelm, store, database):
        """
        After a reset only later runs teach, and the runs themselves are still there.
        """
        answer = steadyhelm("baseline reset researcher --yes")

        assert "researcher is learning 0/3" in answer.err
        assert store.get_baseline("researcher") is None
        work(anew := DriftMonitor("researcher", db_path=database, calibration_runs=3), "first-again")
        anew.close()
        assert "learning 1/3" == store.get_baseline("researcher").progress
        assert 9 == len(store.list_runs("researcher"))


class TestExportAndImport:
    def test_round_trip(self, steadyhelm, store, apart):
        """
        What was exported can be imported elsewhere, and is the same.
        """
        steadyhelm("baseline export researcher -o learnt.json")
        elsewhere = CommandLine(apart / "elsewhere.db")
        DriftMonitor("somebody", db_path=elsewhere.database).close()

        answer = elsewhere("baseline import learnt.json")

        assert answer.err.startswith("Imported the baseline of researcher: calibrated on 5 runs.\n")
        assert (
            "calibrated on 5 runs"
            == elsewhere("baseline show researcher --json").document["baselines"][0]["progress"]
        )
        assert store.get_baseline("researcher") == read_baseline(apart / "learnt.json")

    def test_without_its_runs(self, steadyhelm, apart):
        """
        Where the runs are not kept, the command says what the next run will replace and how to prevent it.
        """
        steadyhelm("baseline export researcher -o learnt.json")
        elsewhere = CommandLine(apart / "elsewhere.db")
        DriftMonitor("somebody", db_path=elsewhere.database).close()

        command = f"steadyhelm --db {elsewhere.database} baseline freeze researcher"
        assert command in elsewhere("baseline import learnt.json").err
        assert "freeze" not in steadyhelm("baseline import learnt.json --yes").err

    def test_to_standard_output(self, steadyhelm, store):
        """
        Without a file the document goes to standard output.
        """
        [exported] = steadyhelm("baseline export researcher").documents

        assert store.get_baseline("researcher") == BaselineStats.from_dict(exported)

    def test_does_not_overwrite(self, steadyhelm, apart):
        """
        A file that exists is replaced only with --yes.
        """
        (apart / "learnt.json").write_text("mine")

        assert 2 == steadyhelm("baseline export researcher -o learnt.json").status
        assert "mine" == (apart / "learnt.json").read_text()
        assert 0 == steadyhelm("baseline export researcher -o learnt.json --yes").status

    def test_no_such_folder(self, steadyhelm):
        """
        A place that cannot be written to is named.
        """
        answer = steadyhelm("baseline export researcher -o nowhere/learnt.json")

        assert 1 == answer.status
        assert "cannot be written to nowhere/learnt.json" in answer.err

    def test_does_not_replace(self, steadyhelm, store, apart):
        """
        A baseline that exists is replaced by an import only with --yes.
        """
        write_baseline(apart / "other.json", BaselineStats(agent_id="researcher", calibration_runs=1))

        answer = steadyhelm("baseline import other.json")
        assert 2 == answer.status
        assert "has a baseline (calibrated on 5 runs). Replace it?" in answer.err

        steadyhelm("baseline import other.json --yes")
        assert "learning 1/30" == store.get_baseline("researcher").progress

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            ("", "is not JSON"),
            ("[1]", "is not a baseline"),
            ('{"agent_id": "a"}', "is not a baseline"),
            ('{"steadyhelm_baseline": 2, "agent_id": "a"}', "is not a baseline"),
            ('{"steadyhelm_baseline": 1}', "agent_id"),
            ('{"steadyhelm_baseline": 1, "agent_id": ""}', "agent_id must have 1 to 200 characters"),
            (
                '{"steadyhelm_baseline": 1, "agent_id": "a", "required_runs": 0}',
                "required_runs must be 1 or more",
            ),
            (
                '{"steadyhelm_baseline": 1, "agent_id": "a", "spreads": {"tokens": {"p50": -1}}}',
                "spreads.tokens.p50",
            ),
            ('{"steadyhelm_baseline": 1, "agent_id": "a", "similarities": [0.5, 0.1]}', "must be sorted"),
            ('{"steadyhelm_baseline": 1, "agent_id": "a", "similarities": [7]}', "between -1 and 1"),
            ('{"steadyhelm_baseline": 1, "agent_id": "a", "word_counts": "QUJD"}', "word_counts must hold"),
            ('{"steadyhelm_baseline": 1, "agent_id": "a", "mean_duration_ms": "soon"}', "mean_duration_ms"),
        ],
    )
    def test_unsound_files(self, steadyhelm, store, apart, content, reason):
        """
        A file that is no sound baseline is refused with the reason, and nothing is changed.
        """
        (apart / "bad.json").write_text(content)
        before = store.list_baselines()

        answer = steadyhelm("baseline import bad.json --yes")

        assert 1 == answer.status
        assert "bad.json" in answer.err
        assert reason in answer.err
        assert before == store.list_baselines()

    def test_no_such_file(self, steadyhelm):
        """
        A file that is not there is named.
        """
        assert "none.json cannot be read" in steadyhelm("baseline import none.json").err

    @pytest.mark.parametrize("read", [read_baseline, read_task_profiles])
    def test_a_pipe_is_not_waited_for(self, tmp_path, read):
        """
        A named pipe, which may never end, is refused in words, for a baseline and for profiles.
        """
        os.mkfifo(tmp_path / "pipe")

        with pytest.raises(FormatError, match="is a named pipe, which may never end"):
            read(tmp_path / "pipe")

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(runs=st.integers(0, 500), tokens=st.floats(0, 1e9), name=st.text(min_size=1, max_size=50))
    def test_any_sound_baseline_survives(self, tmp_path, runs, tokens, name):
        """
        Whatever was learnt comes back as it was written.
        """
        name = name.encode("utf-8", "replace").decode()
        learnt = BaselineStats(
            agent_id=name,
            calibration_runs=runs,
            mean_tokens_per_run=tokens,
            spreads={"tokens": Spread(p50=tokens, p95=tokens)},
        )
        write_baseline(tmp_path / "learnt.json", learnt)

        assert learnt == read_baseline(tmp_path / "learnt.json")

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        field=st.sampled_from(BaselineStats.__struct_fields__),
        value=st.none() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=2),
    )
    def test_a_changed_field_never_crashes(self, tmp_path, field, value):
        """
        A file in which one field was changed is either sound or refused as a FormatError.
        """
        changed = {**to_document(BaselineStats(agent_id="a")), field: value}
        (tmp_path / "changed.json").write_bytes(
            msgspec.json.encode(changed) if _fits(value) else json.dumps(changed).encode()
        )
        try:
            learnt = read_baseline(tmp_path / "changed.json")
        except FormatError:
            return

        assert isinstance(learnt, BaselineStats)


def _fits(value):
    return not isinstance(value, int) or abs(value) < 2**63

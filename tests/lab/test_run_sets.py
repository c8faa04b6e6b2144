import json

import pytest
from labelled_runs import line

from steadyhelm import DriftMonitor
from steadyhelm.errors import SteadyhelmError
from steadyhelm.lab.evaluation.labelled_runs import (
    LabelQuestion,
    find_data_folder,
    read_expectation,
    read_set,
    read_sets,
)
from steadyhelm.stores.sqlite import SQLiteStore


class TestDataFolder:
    def test_named(self, tmp_path, monkeypatch):
        """
        The environment names the folder of labelled data.
        """
        monkeypatch.setenv("STEADYHELM_DATA", str(tmp_path))
        assert tmp_path == find_data_folder()

    def test_absent(self, tmp_path, monkeypatch):
        """
        Data that is not there is said to be absent, and what to do.
        """
        monkeypatch.setenv("STEADYHELM_DATA", str(tmp_path / "none"))
        with pytest.raises(SteadyhelmError, match="set STEADYHELM_DATA"):
            find_data_folder()


class TestSets:
    def test_a_folder(self, tmp_path):
        """
        Each run file of a folder is a set of its own, read once however often it is named.
        """
        for name in ("b.jsonl", "a.jsonl"):
            (tmp_path / name).write_text(json.dumps(line("a")) + "\nbroken\n")
        sets = read_sets([tmp_path, tmp_path / "a.jsonl"])
        assert [("a", 1, 1), ("b", 1, 1)] == [(one.name, len(one.runs), len(one.broken)) for one in sets]

    def test_missing(self, tmp_path):
        """
        A path that is not there is named.
        """
        with pytest.raises(SteadyhelmError, match="nowhere"):
            read_sets([tmp_path / "nowhere"])


class TestOurStore:
    @pytest.fixture
    def database(self, tmp_path):
        path = tmp_path / "steadyhelm.db"
        monitor = DriftMonitor("worker", db_path=path)
        for run_id, word in (("one", "same"), ("two", "same"), ("three", None)):
            with monitor.run(run_id=run_id):
                for i in range(6):
                    monitor.record_event(
                        "tool_call", "find", input_data={"q": word or i}, output_data={"text": word or str(i)}
                    )
        monitor.flush()
        monitor.close()
        return path

    def test_reviews_are_labels(self, database):
        """
        What people said about an incident is the label of its run; other runs have none.
        """
        store = SQLiteStore(database)
        verdicts = {"one": "confirmed", "two": "false_alarm"}
        for incident in store.list_incidents():
            if incident.kind == "loop" and incident.run_id in verdicts:
                store.review(incident.incident_id, verdicts[incident.run_id])
        store.close()
        runs = read_set(database).runs
        answers = {run.info.run_id: read_expectation(run, LabelQuestion(), is_used=True) for run in runs}
        assert {"one": True, "two": False, "three": None} == {key: a.run for key, a in answers.items()}
        assert answers["one"].first is not None

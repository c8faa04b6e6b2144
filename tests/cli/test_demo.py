import os
import re
from contextlib import closing

import pytest
from whole_program import process, steadyhelm

from steadyhelm.cli.demo import AGENT
from steadyhelm.cli.demo_agent import GOAL, StubbornAgent
from steadyhelm.stores.sqlite import SQLiteStore


@pytest.fixture
def played(apart):
    """The demo, played once into a database of its own."""
    steadyhelm("demo")
    with closing(SQLiteStore(apart / "demo.db", read_only=True)) as store:
        yield store


class TestStory:
    def test_from_the_first_step_to_what_to_type(self, apart):
        """
        In a pipe the demo is plain text: the loop, the words to the agent, the report, what to type next.
        """
        answer = process("demo", environment={"NO_COLOR": ""})
        out = answer.out

        assert (0, "") == (answer.status, answer.err)
        assert "\x1b" not in out
        assert "run_tests called 3 times in a row" in out
        assert out.index("level: remind") < out.index("level: replan") < out.index("level: rollback")
        assert "12 passed" in out
        assert "The agent spent 6 steps and 5,222 tokens in the loop after the first intervention." in out
        assert f"steadyhelm --db {apart / 'demo.db'} show " in out

    def test_on_a_narrow_terminal(self, apart, monkeypatch):
        """
        On 80 columns long lines go on below, and a command to type is never broken.
        """
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setenv("FORCE_COLOR", "1")
        lines = re.sub(r"\x1b\[[0-9;]*m", "", steadyhelm("demo", "--fast").out).splitlines()

        commands = [line for line in lines if line.startswith("  steadyhelm ")]
        assert 6 == len(commands)
        assert 80 >= max(len(line) for line in lines if line not in commands)
        assert all(line.split()[-1] != "--db" for line in commands)

    def test_what_came_of_it(self, apart):
        """
        The table at the end has every answer with its outcome, and what the one that worked has saved.
        """
        rows = [re.split(r"\s{2,}", line.strip()) for line in steadyhelm("demo").out.splitlines()]

        assert [
            ["12", "○ ignored", "-"],
            ["16", "○ ignored", "-"],
            ["18", "✔ worked", "at most 5,558"],
        ] == [[cells[0], *cells[-2:]] for cells in rows if len(cells) == 4][-3:]

    def test_what_it_says_to_type_works(self, apart):
        """
        The commands it names at the end can be typed as they stand.
        """
        lines = steadyhelm("demo").out.splitlines()
        typed = [line.split("#")[0].split()[1:] for line in lines if line.startswith("  steadyhelm")]

        assert ["serve"] == [command[0] for command in typed if command[0] == "serve"]
        # The server runs until it is stopped: it has tests of its own.
        others = [command for command in typed if command[0] != "serve"]
        assert [0] * 5 == [steadyhelm(*command).status for command in others]


class TestWhatIsKept:
    def test_one_incident_that_closed(self, played):
        """
        The loop is one incident, answered level by level until it helped, and closed when the run ends.
        """
        [incident] = played.list_incidents("demo-agent")
        [run] = [run for run in played.list_runs() if run.goal == GOAL]

        assert [
            ("INJECT_REMINDER", "ignored"),
            ("SUMMARIZE_REPLAN", "ignored"),
            ("CHECKPOINT_RESET", "worked"),
        ] == [(word.action, word.outcome) for word in incident.interventions]
        assert "closed" == incident.state
        assert incident.closed_at <= run.last_at

    def test_a_dozen_good_runs_before(self, played):
        """
        Twelve healthy runs are there to compare with, and the baseline has learnt from them.
        """
        assert 13 == len(played.list_runs("demo-agent"))
        assert "learning 12/30" == played.get_baseline(AGENT).progress

    def test_begun_anew(self, played, apart):
        """
        The demo's own database is replaced each time.
        """
        steadyhelm("demo", "--fast")
        with closing(SQLiteStore(apart / "demo.db", read_only=True)) as store:
            assert 13 == len(store.list_runs("demo-agent"))

    @pytest.mark.parametrize("place", ["before", "after"])
    def test_a_database_of_ones_own(self, apart, place):
        """
        A database that was named keeps what is in it.
        """
        named = ("--db", apart / "mine.db")
        for _ in range(2):
            assert 0 == steadyhelm(*(("demo", *named) if place == "after" else (*named, "demo"))).status
        with closing(SQLiteStore(apart / "mine.db", read_only=True)) as store:
            assert 26 == len(store.list_runs("demo-agent"))
        assert not (apart / "demo.db").exists()

    def test_a_file_that_is_no_database(self, apart):
        """
        A file that is none of ours is an error, and is left as it is.
        """
        (apart / "no.db").write_text("nothing of the kind")
        answer = process("demo", "--db", "no.db")

        assert 1 == answer.status
        assert "not a database" in answer.err
        assert "nothing of the kind" == (apart / "no.db").read_text()


class TestAlone:
    def test_nobodys_settings_count(self, apart, monkeypatch):
        """
        Whatever the settings say, the demo shows the same, tells nobody, and puts the settings back.
        """
        (apart / "steadyhelm.toml").write_text("sample_rate = 0\n[detectors.action_loop]\nenabled = false\n")
        monkeypatch.setenv("STEADYHELM_DISABLED", "1")
        monkeypatch.setenv("STEADYHELM_ALERTS_WEBHOOK", "https://example.org/hook")

        assert "One incident, opened at step 12" in steadyhelm("demo").out
        assert "1" == os.environ["STEADYHELM_DISABLED"]
        with closing(SQLiteStore(apart / "demo.db", read_only=True)) as store:
            assert [] == store.list_deliveries()


class TestStubbornAgent:
    def test_nobody_speaks(self):
        """
        Left alone it never finds out: the tests fail to the last.
        """
        results = [step.result for step in StubbornAgent().steps() if step.tool == "run_tests"]

        assert 12 == len(results)
        assert 1 == len(set(results))

    def test_told_three_times(self):
        """
        Told three times it takes another way, and the tests pass.
        """
        agent = StubbornAgent()
        results = []
        for step in agent.steps():
            if step.tool == "run_tests":
                results.append(step.failed)
                agent.receive("try something else")

        assert [True, True, True, False] == results

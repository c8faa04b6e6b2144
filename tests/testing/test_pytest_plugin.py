import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from steadyhelm.assembly import DriftMonitor
from steadyhelm.errors import SettingsError
from steadyhelm.settings import Settings
from steadyhelm.testing import Watch, assert_healthy

pytest_plugins = ["pytester"]


def calls(watch, times=6, **fields):
    for _ in range(times):
        watch.record_event("tool_call", "search", input_data={"q": "x"}, output_data="nothing", **fields)


def work(watch, times=6, **fields):
    for n in range(times):
        watch.record_event("tool_call", "search", input_data={"page": n}, output_data=f"page {n}", **fields)


def recorded(folder, *events, name="runs.jsonl"):
    file = folder / name
    file.write_text(json.dumps({"run_id": "r1", "events": list(events)}) + "\n")
    return file


def call(result="nothing", **keys):
    return {"type": "tool_call", "name": "search", "args": {"q": "x"}, "result": result, **keys}


class TestNoLoop:
    def test_a_loop_fails(self, steadyhelm_watch):
        """
        A run that loops fails the test, with the call that repeats and what came back.
        """
        with steadyhelm_watch.run(goal="find x"):
            calls(steadyhelm_watch)

        with pytest.raises(AssertionError, match="1 of 1 runs drifted") as failure:
            steadyhelm_watch.assert_no_loop()
        assert '6x search {"q":"x"} → nothing' in str(failure.value)
        assert "goal      find x" in str(failure.value)

    def test_work_passes(self, steadyhelm_watch):
        """
        A run that gets on passes, also while it is still going on.
        """
        with steadyhelm_watch.run():
            work(steadyhelm_watch)
            steadyhelm_watch.assert_no_loop()

        steadyhelm_watch.assert_no_drift()

    def test_runs_are_judged_apart(self, steadyhelm_watch):
        """
        The same call in one run after another is no loop.
        """
        for _ in range(6):
            with steadyhelm_watch.run():
                calls(steadyhelm_watch, times=1)

        steadyhelm_watch.assert_no_loop()

    def test_nothing_watched(self, steadyhelm_watch):
        """
        A test that watched nothing proves nothing, and says so.
        """
        with pytest.raises(AssertionError, match="nothing was recorded"):
            steadyhelm_watch.assert_no_loop()

    def test_decorated_tools(self, steadyhelm_watch):
        """
        Tools that are decorated are watched, errors too.
        """

        @steadyhelm_watch.tool
        def fetch(url):
            raise OSError("no network")

        for _ in range(6):
            with pytest.raises(OSError, match="no network"):
                fetch("https://example.org")

        with pytest.raises(AssertionError, match=r"6x fetch .*failed: OSError: no network"):
            steadyhelm_watch.assert_no_loop()

    def test_arguments_that_change_later(self, steadyhelm_watch):
        """
        What counts is what a call was given then, whatever becomes of the object.
        """
        asked = {"page": 0}
        for page in range(6):
            asked["page"] = page
            steadyhelm_watch.record_event(
                "tool_call", "read", input_data=asked, output_data=f"the text of page {page}"
            )

        [judged] = steadyhelm_watch.judge_runs()
        assert [0, 1, 2, 3, 4, 5] == [event.input_data["page"] for event in judged.run.events]


class TestNoDrift:
    def test_severity(self, steadyhelm_watch):
        """
        What is only noticed counts when it is asked for.
        """
        steadyhelm_watch.record_event("llm_request", "model", output_data="a story", token_count=90_000)

        steadyhelm_watch.assert_no_drift()
        with pytest.raises(AssertionError, match="90,000 tokens spent in this run"):
            steadyhelm_watch.assert_no_drift(min_severity="low")

    def test_not_a_severity(self, steadyhelm_watch):
        """
        A severity there is not is named with those there are.
        """
        work(steadyhelm_watch)

        with pytest.raises(SettingsError, match="LOW, MED, HIGH, CRITICAL, got 'awful'"):
            steadyhelm_watch.assert_no_drift(min_severity="awful")


class TestWithin:
    def test_within(self, steadyhelm_watch):
        """
        A run that takes just what it may passes.
        """
        work(steadyhelm_watch, token_count=100, timestamp=1000.0)

        steadyhelm_watch.assert_within(tokens=600, steps=6, duration_s=0)

    @pytest.mark.parametrize(
        ("limit", "words"),
        [
            ({"tokens": 599}, "600 tokens, the limit is 599"),
            ({"steps": 5}, "6 steps, the limit is 5"),
            ({"duration_s": 2}, "2.5 seconds, the limit is 2"),
        ],
    )
    def test_beyond(self, steadyhelm_watch, limit, words):
        """
        What goes beyond a limit is told with the limit.
        """
        work(steadyhelm_watch, token_count=100, timestamp=1000.0, duration_ms=2500.0)

        with pytest.raises(AssertionError, match=words):
            steadyhelm_watch.assert_within(**limit)

    def test_the_costly_steps(self, steadyhelm_watch):
        """
        Too many tokens are told with the steps that took most of them.
        """
        work(steadyhelm_watch, token_count=10)
        calls(steadyhelm_watch, times=1, token_count=5000)

        with pytest.raises(AssertionError, match=r'5,000 tokens  search {"q":"x"} → nothing'):
            steadyhelm_watch.assert_within(tokens=1000)

    def test_unknown(self, steadyhelm_watch):
        """
        Tokens that nobody counted cannot be within a limit.
        """
        work(steadyhelm_watch)

        with pytest.raises(AssertionError, match="no step recorded its tokens"):
            steadyhelm_watch.assert_within(tokens=1000)


class TestWatch:
    def test_stands_for_a_monitor(self, steadyhelm_watch):
        """
        An agent that takes a monitor takes a watch.
        """

        class Agent:
            def run(self, task):
                return f"done: {task}"

        assert isinstance(steadyhelm_watch, DriftMonitor)
        assert "done: tidy up" == steadyhelm_watch.wrap(Agent()).run("tidy up")
        steadyhelm_watch.assert_no_drift()

    def test_what_is_known_of_tools(self, steadyhelm_watch):
        """
        What is declared on a tool counts when the run is judged: waiting is no loop.
        """
        status = steadyhelm_watch.tool(lambda job: "running", name="status", kind="poll")
        for _ in range(6):
            status(7)

        steadyhelm_watch.assert_no_loop()

    def test_leaves_nothing(self, tmp_path, monkeypatch):
        """
        No file is written, wherever one might be.
        """
        monkeypatch.setenv("STEADYHELM_HOME", str(tmp_path / "home"))
        with Watch() as watch:
            calls(watch)

        assert [] == [path for path in tmp_path.rglob("*") if path.is_file()]

    def test_after_it_was_closed(self):
        """
        What was watched can be judged after the block.
        """
        with Watch() as watch:
            calls(watch)

        with pytest.raises(AssertionError, match="drifted"):
            watch.assert_no_loop()

    def test_turned_off(self, monkeypatch):
        """
        Whoever turns Steadyhelm off for tests has not turned off the assertions in them.
        """
        monkeypatch.setenv("STEADYHELM_DISABLED", "1")
        with Watch() as watch:
            calls(watch)

        with pytest.raises(AssertionError, match="drifted"):
            watch.assert_no_loop()

    def test_ones_own_settings(self):
        """
        A limit in the settings is a real one.
        """
        settings = Settings(detectors={"resource_spike": {"absolute_token_limit": 500}})
        with Watch(settings=settings) as watch:
            work(watch, token_count=100)

        with pytest.raises(AssertionError, match="600 tokens spent in this run, the limit is 500"):
            watch.assert_no_drift()


class TestHealthy:
    def test_healthy(self, tmp_path):
        """
        A recorded run that gets on passes.
        """
        assert_healthy(recorded(tmp_path, *(call(result=f"found {n}") for n in range(6))))

    def test_a_loop(self, tmp_path):
        """
        One that loops does not, and the evidence is shown.
        """
        with pytest.raises(AssertionError, match=r'6x search {"q":"x"} → nothing'):
            assert_healthy(recorded(tmp_path, *[call()] * 6))

    def test_of_another_kind(self, tmp_path):
        """
        Only the kind asked for counts.
        """
        assert_healthy(recorded(tmp_path, *[call()] * 6), kind="resource")

    def test_transcripts(self, tmp_path):
        """
        Transcripts are read as well.
        """
        file = tmp_path / "chat.json"
        file.write_text('[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]')

        assert_healthy(file)

    @pytest.mark.parametrize(
        ("content", "words"), [("", "holds no run"), ("{\n", r"runs\.jsonl:1 cannot be read")]
    )
    def test_no_run(self, tmp_path, content, words):
        """
        A file from which nothing, or not everything, can be read proves nothing.
        """
        (tmp_path / "runs.jsonl").write_text(content)

        with pytest.raises(AssertionError, match=words):
            assert_healthy(tmp_path / "runs.jsonl")


class TestPlugin:
    def test_declared(self):
        """
        Installing Steadyhelm is all it takes.
        """
        pyproject = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
        declared = pyproject["project"]["entry-points"]["pytest11"]

        assert {"steadyhelm": "steadyhelm.testing.pytest_plugin"} == declared

    def test_costs_nothing_unused(self):
        """
        The plug-in itself loads nothing but its own file.
        """
        program = (
            "import sys, pytest; before = set(sys.modules); import steadyhelm.testing.pytest_plugin; "
            "print(sorted(set(sys.modules) - before))"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

        assert (
            "['steadyhelm', 'steadyhelm.testing', 'steadyhelm.testing.pytest_plugin']" == done.stdout.strip()
        )

    def test_in_somebody_elses_tests(self, pytester):
        """
        The fixture is there without a word in conftest; a failure shows the evidence and the user's line.
        """
        pytester.makepyfile(
            """
            import pytest

            def agent(search, times):
                for n in range(times):
                    search("x")

            @pytest.mark.parametrize("times", [1, 6])
            def test_agent(steadyhelm_watch, times):
                agent(steadyhelm_watch.tool(lambda q: "nothing", name="search"), times)
                steadyhelm_watch.assert_no_loop()
                steadyhelm_watch.assert_within(steps=10)

            def test_without():
                pass
            """
        )
        result = pytester.runpytest_subprocess("-p", "no:randomly", "-W", "error")

        result.assert_outcomes(passed=2, failed=1)
        result.stdout.fnmatch_lines(
            [
                ">*steadyhelm_watch.assert_no_loop()",
                "E*AssertionError: 1 of 1 runs drifted (loop)",
                'E*6x search {"q":"x"} → nothing',
            ]
        )
        result.stdout.no_fnmatch_line("*watching.py*")

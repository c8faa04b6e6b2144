import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from whole_program import call, healthy_line, holdfast, looping_line, process, run_line, written

from holdfast.cli.scan_text import strip
from holdfast.events import TraceEvent


@pytest.fixture
def runs(apart):
    """A file with a clean run and a looping one."""
    file = apart / "runs.jsonl"
    file.write_text(healthy_line() + looping_line())
    return file


class TestText:
    def test_block(self, apart):
        """
        A flagged run shows what was found and when, the repeated call, and what would have been done.
        """
        file = written(apart, looping_line(agent_id="finder"))
        lines = [line.rstrip() for line in holdfast("scan", file).out.splitlines()]

        assert [
            f"■ HIGH stuck  finder  {file}:1",
            "  goal      find x",
            "  loop      search called 6 times in a row with the same arguments and the same result",
            "  when      steps 1-6 of 6, noticed at step 4 (events[3]), 3 times in all",
            '              6x search {"q":"x"} → nothing',
            "  run       [......]",
        ] == lines[:6]
        assert "  Holdfast  would have reminded the agent at step 4, then asked for a new plan" in lines[6]
        assert lines[6].endswith("; 1 step and 100 of 600 tokens came after the new plan was due")

    def test_clean_runs_are_counted(self, apart):
        """
        Clean runs take no room; --verbose names them.
        """
        file = written(apart, healthy_line("one"), healthy_line("two"))

        assert "one" not in holdfast("scan", file).out
        assert "· clean one  5 steps" in holdfast("scan", file, "--verbose").out
        assert "2 runs, 0 flagged" == holdfast("scan", file).out.splitlines()[-1]

    def test_blindness_is_told(self, apart):
        """
        What could not be checked is counted at the end.
        """
        out = holdfast("scan", written(apart, healthy_line())).out

        assert "not checked: goal_drift in 1 of 1 runs (no goal was given)" in out

    def test_hostile_words(self, apart):
        """
        Nothing an agent wrote reaches the terminal unescaped.
        """
        evil = "\x1b[2J\u202e\r"
        events = [call(name=f"rm{evil}", result=evil)] * 4
        answer = process("scan", written(apart, run_line(*events, run_id=f"r{evil}", goal=evil)))

        assert not set("\x1b\u202e\r") & set(answer.out + answer.err)

    def test_secrets(self, apart):
        """
        A secret among the evidence is not shown.
        """
        events = [call(args={"url": "https://ann:hunter2@example.org"}, result="password=swordfish1")] * 4
        out = holdfast("scan", written(apart, run_line(*events))).out

        assert "4x search" in out
        assert "hunter2" not in out
        assert "swordfish1" not in out

    def test_plain_in_a_pipe(self, runs):
        """
        Without a terminal there are no colours and no bar.
        """
        answer = process("scan", runs, environment={"NO_COLOR": ""})

        assert ("", True) == (answer.err, "\x1b" not in answer.out)

    def test_poor_terminals(self, runs):
        """
        A terminal that knows only ASCII gets escapes, not a traceback.
        """
        answer = process("scan", runs, environment={"PYTHONIOENCODING": "ascii"})

        assert (3, "") == (answer.status, answer.err)


class TestStrip:
    def test_brackets(self):
        """
        Each span stands in brackets; spans that overlap share them.
        """
        assert "..[...].[.]" == strip(_events(8), [(2, 3), (3, 4), (6, 6)])[:11]

    def test_long_runs(self):
        """
        Of a long run the ends and what is near a bracket are drawn, the rest is counted.
        """
        drawn = strip(_events(500), [(200, 202)])

        assert "......…182…............[...]............…279…......" == drawn

    def test_marks(self):
        """
        Calls, failures, replies, users and states look different.
        """
        kinds = ["tool_call", "llm_request", "user_message", "state_transition", "other"]
        events = [*(_event(0, kind) for kind in kinds), _event(0, "tool_call", error="no")]

        assert ".rus?x" == strip(events, [])

    @given(st.lists(st.tuples(st.integers(0, 299), st.integers(0, 299)).map(sorted), max_size=5))
    def test_every_step_is_drawn_or_counted(self, spans):
        """
        Characters drawn and steps counted are together all steps.
        """
        drawn = strip(_events(300), [tuple(span) for span in spans])
        counted = sum(int(part) for part in drawn.split("…") if part.isdecimal())

        assert 300 == drawn.count(".") + counted
        assert drawn.count("[") == drawn.count("]")


def _event(seq, kind="tool_call", **fields):
    return TraceEvent(agent_id="a", run_id="r", action_type=kind, action_name="t", seq=seq, **fields)


def _events(count):
    return [_event(seq) for seq in range(count)]


class TestDocs:
    def test_the_example_is_real(self, apart):
        """
        The example on the page about scan prints what the page says.
        """
        page = (Path(__file__).parents[2] / "docs" / "scan.md").read_text()
        file, report = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
        [text] = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
        Path("support.jsonl").write_text(file)

        assert text == holdfast("scan", "support.jsonl").out
        assert (
            report == holdfast("scan", "support.jsonl", "--format", "json").out.splitlines(keepends=True)[1]
        )

import pytest
from whole_program import steadyhelm

from steadyhelm.errors import SteadyhelmError


@pytest.fixture
def traces(database):
    """`steadyhelm traces` on a filled database."""

    def run(*words):
        return steadyhelm("--db", database, "traces", *words)

    return run


class TestTraces:
    def test_the_latest_run(self, traces):
        """
        Without `--run` the newest run is listed, from its first kept step to its last.
        """
        document = traces("researcher", "--json").document

        assert "child" == document["run"]["run_id"]
        assert [0, 1, 2] == [event["seq"] for event in document["events"]]
        assert document == traces("researcher", "--run", "latest", "--json").document

    def test_a_row_a_step(self, traces):
        """
        A step has its number, time, type, name, tokens, input and output on one row.
        """
        rows = [line for line in traces("res", "--run", "loop-long").out.splitlines() if "tool_call" in line]

        assert 5 == len(rows)
        assert ["1", "1.0", "s", "tool_call", "search", "100", "-"] == rows[0].split()[:7]
        assert '{"query":"flights to Oslo"}' in rows[0]

    def test_limit(self, traces):
        """
        The last steps are listed, and how many there are in all is said.
        """
        answer = traces("researcher", "--run", "loop-long", "--limit", "2")
        document = traces("researcher", "--run", "loop-long", "-n", "2", "--json").document

        assert "The last 2 of 5 steps" in answer.err
        assert [3, 4] == [event["seq"] for event in document["events"]]
        assert 3 == document["events_left_out"]

    def test_errors_are_marked(self, traces):
        """
        A failed step shows its error in place of an output, with nothing that moves the cursor.
        """
        out = traces("researcher", "--run", "failing").out

        assert "✖ no route\\x07 to host" in out

    def test_every_field(self, traces):
        """
        As JSON a step has every field of a TraceEvent.
        """
        [first, *_] = traces("researcher", "--run", "loop-long", "--json").document["events"]

        assert {"event_id", "action_type", "input_data", "output_data", "token_count", "metadata"} <= set(
            first
        )

    @pytest.mark.parametrize(("words", "said"), [(["nobody"], "no agent"), (["res", "--run", "x"], "x")])
    def test_unknown(self, traces, words, said):
        """
        An agent or a run that is not there is named.
        """
        with pytest.raises(SteadyhelmError, match=said):
            traces(*words)

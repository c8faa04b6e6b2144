"""Where an agent's name may stand on the command line."""

import pytest


class TestAgentName:
    @pytest.mark.parametrize(
        ("declared", "other"),
        [
            ("runs --agent researcher --limit 2 --json", "runs --limit 2 researcher --json"),
            ("export --agent res --since 3w", "export res --since 3w"),
            ("alerts list --agent researcher --json", "alerts list researcher --json"),
            ("traces researcher --limit 1 --json", "traces --limit 1 --agent researcher --json"),
            ("traces researcher --run loop-long --json", "traces --run loop-long --agent=researcher --json"),
            ("baseline show res --json", "baseline show --agent res --json"),
            ("budget today --agent researcher --json", "budget today researcher --json"),
        ],
    )
    def test_an_argument_or_an_option(self, steadyhelm, declared, other):
        """
        A name after `--agent` and a name as an argument mean the same, for every command about agents.
        """
        expected = steadyhelm(declared)

        assert expected.out
        assert expected == steadyhelm(other)

    @pytest.mark.parametrize("line", ["runs a b", "runs --agent a b", "traces a --agent b"])
    def test_two_names(self, steadyhelm, line):
        """
        Two names are a usage error that shows the one too many.
        """
        answer = steadyhelm(line)

        assert 2 == answer.status
        assert "unexpected extra argument" in answer.err

    @pytest.mark.parametrize("line", ["traces", "traces --agent", "runs --agent"])
    def test_no_name(self, steadyhelm, line):
        """
        A name that is needed and missing is a usage error.
        """
        assert 2 == steadyhelm(line).status

    def test_an_unknown_name(self, steadyhelm):
        """
        A name that nobody has is answered with those that are known.
        """
        answer = steadyhelm("runs nobody")

        assert (1, "") == (answer.status, answer.out)
        assert "There is no agent 'nobody'. Known agents: researcher." in answer.err


class TestPeriods:
    def test_runs_of_a_time(self, steadyhelm):
        """
        `--since` leaves out runs that started before; where all did, that is said.
        """
        assert steadyhelm("runs --json").out == steadyhelm("runs --since 1w --json").out

        none = steadyhelm("runs --since 0s")

        assert (0, "") == (none.status, none.out)
        assert "No run started in the last 0s." in none.err

    def test_the_newest_run_is_shown(self, steadyhelm):
        """
        `show` without a run shows the newest one.
        """
        assert steadyhelm("show latest").out == steadyhelm("show").out

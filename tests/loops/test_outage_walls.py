import pytest
from agent_steps import call, failing, reported, run, shell

from steadyhelm.loops.failure_memory import FailureMemory

REFUSED = "could not connect to server: Connection refused (port 5433)"
COMMANDS = (
    "psql -c 'select 1'", "pg_dump -s ledger", "pg_isready -d ledger", "psql -l", "vacuumdb ledger",
    "createdb ledger_tmp", "psql ledger -f seed.sql", "pg_restore -d ledger last.dump", "reindexdb ledger",
)  # fmt: skip


def refused(*commands, every_s=1.0):
    """Commands that meet one outage, with so many seconds from each to the next."""
    return [
        {**shell(it), "output_data": None, "error": REFUSED, "timestamp": 1000.0 + every_s * n}
        for n, it in enumerate(commands)
    ]


class TestOutageWalls:
    @pytest.mark.parametrize("every_s", [0.0, 1.0, 5.0])
    def test_other_commands(self, every_s):
        """
        Eight different commands in a row that meet one outage, with no pause between, go against a wall.
        """
        assert [7] == reported(FailureMemory(), run(*refused(*COMMANDS, every_s=every_s)))

    def test_pauses(self):
        """
        Whoever pauses gives an outage time to pass.
        """
        assert [] == reported(FailureMemory(), run(*refused(*COMMANDS, every_s=40.0)))

    def test_success_between(self):
        """
        One call that gets through ends the row.
        """
        steps = refused(*COMMANDS)
        steps.insert(5, shell("psql -h replica -l", "ledger, 3 tables"))

        assert [] == reported(FailureMemory(), run(*steps))

    def test_one_batch(self):
        """
        Calls made at once are one attempt.
        """
        assert [] == reported(FailureMemory(), run(refused(*COMMANDS)))

    def test_other_outages(self):
        """
        Each thing that is away for a reason of its own is another outage.
        """
        steps = [
            failing("fetch", {"host": it}, f"{it}: connection refused by its {it} gateway")
            for it in ("lamp", "oven", "sail", "mast", "drum", "lute", "harp", "horn", "bell", "gong")
        ]

        assert [] == reported(FailureMemory(), run(*steps, call("fetch", {"host": "fife"}, "up")))

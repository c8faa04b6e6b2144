import asyncio
import sqlite3
import time

import pytest
from blockbuster import BlockingError

from steadyhelm.stores.sqlite import SQLiteStore


class TestDetector:
    """The detector of blocking calls that every test here runs under."""

    def test_our_database_is_noticed(self, tmp_path):
        """
        A read of our database on the thread of an event loop is an error.
        """
        store = SQLiteStore(tmp_path / "runs.db")

        async def read():
            return store.list_agents()

        with pytest.raises(BlockingError):
            asyncio.run(read())
        assert [] == store.list_agents()
        store.close()

    def test_what_others_do_is_theirs(self, monitors, tmp_path):
        """
        A tool that waits is not our doing, although our wrapper called it.
        """
        monitor = monitors()

        @monitor.tool
        def wait():
            time.sleep(0.001)
            return sqlite3.connect(tmp_path / "other.db").execute("SELECT 1").fetchone()

        async def call():
            return wait()

        assert (1,) == asyncio.run(call())
        assert {} == monitor.health.totals()

    def test_every_call_of_the_monitor_may_be_made(self, monitors):
        """
        On an event loop runs are started, resumed, recorded, suspended and ended, and nothing is lost.
        """
        monitor = monitors(mode="enforce")

        async def run():
            for run_id in ("first", None, "first"):
                started = monitor.start_run(run_id, goal="find it")
                for _ in range(4):
                    monitor.record_event("tool_call", "search", input_data={"q": 1}, output_data="none")
                    monitor.before_tool("search", {"q": 1})
                monitor.checkpoint(conversation_history=["hello"])
                monitor.roll_back()
                monitor.get_recent_alerts()
                monitor.status()
                if started == "first":
                    monitor.suspend()
                else:
                    monitor.end_run()

        asyncio.run(run())
        assert monitor.flush().complete
        assert [] == [reason for reason in monitor.health.totals() if reason.startswith("error")]

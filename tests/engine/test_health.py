import logging
import threading

import pytest

from steadyhelm.engine.health import Health


class TestCounting:
    def test_losses_add_up_by_reason(self):
        """
        What was lost is counted by reason.
        """
        health = Health()
        health.count("queue full")
        health.count("queue full", 4)
        health.count("disk full")

        assert {"queue full": 5, "disk full": 1} == health.totals()

    def test_a_total_is_listed_until_it_is_stored(self):
        """
        Every total is listed, with the name of this process, until it is stored as it is.
        """
        health = Health()
        health.count("queue full", 2)
        first = health.list_losses(1.0)
        again = health.list_losses(1.0)
        health.mark_stored(again)
        stored = health.list_losses(1.0)
        health.count("queue full")

        assert first == again
        assert [] == stored
        assert [("queue full", 3)] == [(loss.reason, loss.count) for loss in health.list_losses(1.0)]
        assert 1 == len({loss.token for loss in [*first, *health.list_losses(1.0)]})

    def test_what_was_lost_is_told_from_what_went_wrong(self):
        """
        Records that were lost are counted beside everything else that was counted.
        """
        health = Health()
        health.count("run id seen twice")
        health.lose("queue full", 3)

        assert 3 == health.lost
        assert {"run id seen twice": 1, "queue full": 3} == health.totals()

    @pytest.mark.parametrize("error", [ValueError, SystemExit])
    def test_a_log_handler_may_raise(self, error):
        """
        Whatever a log handler of the host raises stays where it is, and is counted.
        """

        class Raising(logging.Handler):
            def emit(self, record):
                raise error

        handler = Raising()
        logging.getLogger("steadyhelm").addHandler(handler)
        try:
            health = Health()
            health.count("queue full")
        finally:
            logging.getLogger("steadyhelm").removeHandler(handler)

        assert {"queue full": 1, "log handler raised": 1} == health.totals()

    def test_the_totals_are_a_copy(self):
        """
        Nobody changes the counts from outside.
        """
        health = Health()
        health.totals()["made up"] = 1

        assert {} == health.totals()

    def test_threads_lose_no_count(self):
        """
        Threads that count at the same time lose nothing.
        """
        health = Health()
        threads = [threading.Thread(target=lambda: [health.count("x") for _ in range(500)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert {"x": 2000} == health.totals()

    def test_the_first_and_every_thousandth_are_logged(self, caplog):
        """
        The log names the first of a reason and every thousandth, not each.
        """
        health = Health()
        for _ in range(2500):
            health.count("event seen twice")

        assert [
            f"Steadyhelm noted: event seen twice ({n} so far). See: steadyhelm doctor"
            for n in (1, 1000, 2000)
        ] == caplog.messages

    def test_a_loss_is_logged_with_the_setting_that_limits_it(self, caplog):
        """
        The log says that records were lost, how many, why, and which setting would keep more.
        """
        health = Health()
        health.lose("journal full", 3)
        health.lose("sink otel failed: ValueError")
        full, failed = caplog.messages

        assert full == (
            "Steadyhelm lost records: journal full; journal_cap_mb is how much may wait for the database "
            "(3 lost so far). See: steadyhelm doctor"
        )
        assert "sink otel failed: ValueError (1 lost so far)" in failed

    def test_a_child_counts_for_itself(self):
        """
        After a fork the counts begin at nothing, with a lock that nobody holds.
        """
        health = Health()
        health.count("queue full")
        with health.lock:
            health.after_fork()
            health.count("in the child")

        assert {"in the child": 1} == health.totals()

    def test_it_shows_what_was_counted(self):
        """
        Printed, it names what was lost and how often.
        """
        health = Health()
        empty = repr(health)
        health.lose("queue full", 3)

        assert ("<Health: nothing lost>", "<Health: queue full: 3>") == (empty, repr(health))


class TestSwallowing:
    def test_quietly_in_production(self, quiet, caplog):
        """
        An error of ours is counted and logged in full for whoever looks closely; the host sees nothing.
        """
        health = Health()
        with caplog.at_level(logging.DEBUG, "steadyhelm"):
            health.swallow("the store", ValueError("no space"))

        assert {"error in the store": 1} == health.totals()
        assert "no space" in caplog.text

    def test_loudly_in_tests(self):
        """
        Under test it is raised again.
        """
        with pytest.raises(ValueError, match="no space"):
            Health().swallow("the store", ValueError("no space"))

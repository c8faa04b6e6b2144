import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.sinks.alerts.sender import CircuitBreaker, compute_wait_s, parse_retry_after_s


class TestWait:
    @given(st.text(max_size=40), st.integers(1, 10))
    def test_it_doubles_with_a_little_added(self, delivery_id, attempt):
        """
        Each wait is the nominal one, doubled per attempt, plus at most a quarter.
        """
        nominal = 2.0 ** (attempt - 1)

        assert nominal <= compute_wait_s(delivery_id, attempt) <= nominal * 1.25

    @given(st.text(max_size=40), st.integers(1, 10**6), st.floats(0, 1e9))
    def test_it_is_never_longer_than_a_quarter_of_an_hour(self, delivery_id, attempt, asked):
        """
        However many attempts there were and whatever was asked, the wait is at most 15 minutes.
        """
        assert 1.0 <= compute_wait_s(delivery_id, attempt, retry_after_s=asked) <= 900.0

    def test_it_is_the_same_every_time(self):
        """
        The jitter comes from the delivery's id: the same id waits the same time.
        """
        assert compute_wait_s("d1", 3) == compute_wait_s("d1", 3) != compute_wait_s("d2", 3)

    def test_what_the_other_side_asks_for_is_honoured(self):
        """
        A longer wait that was asked for replaces ours.
        """
        assert 30.0 == compute_wait_s("d1", 1, retry_after_s=30.0)


class TestRetryAfter:
    @pytest.mark.parametrize(
        ("header", "seconds"),
        [
            ("", 0.0),
            ("7", 7.0),
            (" 0.25 ", 0.25),
            ("99999999", 900.0),
            ("-5", 0.0),
            ("1e9", 0.0),
            ("nan", 0.0),
            ("Thu, 01 Jan 1970 00:10:00 GMT", 500.0),
            ("Thu, 01 Jan 1970 00:00:01 GMT", 0.0),
            ("Thu, 99 Jan 9999 00:00:01 GMT", 0.0),
            ("\ud800", 0.0),
        ],
    )
    def test_a_header_is_read_or_ignored(self, header, seconds):
        """
        Seconds and dates are understood, capped, and nonsense asks for nothing.
        """
        assert seconds == parse_retry_after_s(header, now=100.0)


class TestBreaker:
    def test_five_failures_in_a_row_mean_a_rest(self):
        """
        The fifth failure in a row rests the channel for a minute.
        """
        breaker = CircuitBreaker()
        rests = []
        for _ in range(5):
            breaker.record_failure("ops", now=100.0)
            rests.append(breaker.get_pause_end("ops", now=100.0))

        assert [None, None, None, None, 160.0] == rests

    def test_a_success_forgives(self):
        """
        One alert that arrives clears the failures before it.
        """
        breaker = CircuitBreaker()
        for _ in range(4):
            breaker.record_failure("ops", now=100.0)
        breaker.record_success("ops")
        breaker.record_failure("ops", now=100.0)

        assert None is breaker.get_pause_end("ops", now=100.0)

    def test_after_the_rest_one_more_failure_is_enough(self):
        """
        A channel that fails right after its rest rests again at once.
        """
        breaker = CircuitBreaker()
        for _ in range(5):
            breaker.record_failure("ops", now=100.0)
        assert None is breaker.get_pause_end("ops", now=160.0)
        breaker.record_failure("ops", now=161.0)

        assert 221.0 == breaker.get_pause_end("ops", now=161.0)

    def test_channels_do_not_share_failures(self):
        """
        A channel that fails does not rest another.
        """
        breaker = CircuitBreaker()
        for _ in range(5):
            breaker.record_failure("ops", now=100.0)

        assert None is breaker.get_pause_end("chat", now=100.0)

import pytest
from agent_steps import call, failing, run, shell
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.loops.outcomes import extract_text, hash_error, looks_failed, read_outcome


def came_of(made):
    return read_outcome(run(made)[0])


def alike(one, other):
    return came_of(one).equals(came_of(other))


class TestFailed:
    @pytest.mark.parametrize(
        "result",
        [
            "Error: no such user",
            "fatal: not a git repository",
            "Failed requests: 12",
            "Error: 0x80070005",
            "Traceback (most recent call last):\n  File",
            "bash: foo: command not found",
            "cat: a.py: No such file or directory",
            "FAILED tests/test_a.py - assert 1 == 2",
            "No replacement was performed, old_str did not appear",
            "F..   [100%]\n=== FAILURES ===\n"
            + "x\n" * 400
            + "FAILED test_a.py::test_one\n1 failed, 2 passed in 0.1s",
            "collected 3 items\n\ntest_a.py F..\nE   AssertionError: 1 != 2",
            "started\nreading the file\nValueError: bad date",
            '{"ok": false, "name": "x", "error": "no more branches"}',
            '{"error": {"code": "card_declined"}}',
            '{"errors": [{"message": "Unauthenticated"}]}',
            '{"status": "error", "message": "no"}',
            "Wrong code. Please try again.",
            {"error": "the account is closed"},
            {"error": True, "retries": 2},
        ],
    )
    def test_by_its_words(self, result):
        """
        A result that begins or ends with words of failure is one, whoever forgot to mark it.
        """
        assert came_of(shell("x", result)).failed

    @pytest.mark.parametrize(
        "result",
        [
            "0 errors",
            "12 passed, 0 failed",
            "Failed requests: 0",
            "Errors: 0, warnings: 2",
            "12 passed",
            "try:\n    import x\nexcept ImportError:\n    x = None",
            "errors.py\nmain.py",
            '{"id": 4, "state": "done", "error": null}',
            '{"errors": [], "rows": 3}',
            '{"entries": [{"level": "error", "error": "disk full"}]}',
            '{"ok": false, "rooms": 0}',
            "0 entries. Check the spelling and try again.",
            {"error": ""},
            {"error": None},
            {"output": "the account is closed"},
        ],
    )
    def test_the_word_alone_is_no_failure(self, result):
        """
        A text in which errors are spoken of is none.
        """
        assert not came_of(shell("x", result)).failed

    def test_a_siblings_fault(self):
        """
        A call that was given up because another of its batch failed has not failed itself.
        """
        assert not came_of(failing("Read", {}, "Sibling tool call errored")).failed

    @pytest.mark.parametrize(
        "error",
        [
            "429 Too Many Requests",
            "503 Service Unavailable",
            "request timed out",
            "rate limit reached",
            "ERROR: deadlock detected",
            "OperationalError: database is locked",
            "ThrottlingException: slow down",
            "busy, try again in 2 s",
            "npm ERR! network ECONNRESET",
            "Could not resolve host (temporary failure)",
            "Quota exceeded for quota metric 'Read requests per minute'",
        ],
    )
    def test_an_outage_is_nobodys_fault(self, error):
        """
        A rate limit, an overload or a timeout is a failure that says nothing about the agent.
        """
        failed = came_of(failing("search", {}, error))

        assert (True, True) == (failed.failed, failed.outage)

    @pytest.mark.parametrize(
        "error",
        [
            "monthly quota used up; resets on the 1st",
            "429: daily request limit reached",
            "rate limit: 0 of 500 requests left this month",
            "limit of 50 searches per day reached, resets in 14 hours",
        ],
    )
    def test_a_quota_of_days_is_no_outage(self, error):
        """
        To wait for a quota of a day or a month is no use: the failure is a plain one.
        """
        failed = came_of(failing("translate", {}, error))

        assert (True, False) == (failed.failed, failed.outage)

    @pytest.mark.parametrize(
        "error",
        [
            "rate limit of 100 requests per minute reached",
            "quota of calls used up, resets in 40 seconds",
            "rate limit reached on tokens per day, please try again in 7m12s",
        ],
    )
    def test_a_quota_of_minutes_is_an_outage(self, error):
        """
        A quota of minutes comes back by itself, and so does one that says when.
        """
        failed = came_of(failing("translate", {}, error))

        assert (True, True) == (failed.failed, failed.outage)


class TestTheSame:
    def test_noise_aside(self):
        """
        Results that differ in durations and process numbers alone are the same.
        """
        assert alike(shell("x", "3 files, took 9ms, pid 99"), shell("x", "3 files, took 10ms, pid 100"))

    def test_a_count_is_news(self):
        """
        A number that counts something is not noise.
        """
        assert not alike(shell("x", "step 3 of 9"), shell("x", "step 4 of 9"))

    def test_a_long_text_that_differs_in_its_middle(self):
        """
        Two long texts of one length whose beginning and end are equal are still two texts.
        """
        one, other = ("a" * 500 + middle + "b" * 500 for middle in ("north", "south"))

        assert not alike(shell("x", one), shell("x", other))

    @pytest.mark.parametrize(
        ("output", "text"),
        [("plain", "plain"), ({"text": "only"}, "only"), ({"a": 1, "b": 2}, '{"a":1,"b":2}')],
    )
    def test_the_words_of_a_result(self, output, text):
        """
        A result is read as its words, or as its canonical form.
        """
        assert text == extract_text(output)


class TestErrorKey:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("no file 'a.py'", "no file 'some/where/b.py'"),
            ('KeyError: "x"', 'KeyError: "yy"'),
            ("line 9: bad", "line 10: bad"),
            ("cannot reach https://a.example/x", "cannot reach https://b.example/y/z"),
        ],
    )
    def test_what_it_quotes_does_not_matter(self, one, other):
        """
        The same complaint about another thing is the same complaint.
        """
        assert hash_error(one) == hash_error(other)

    def test_another_complaint(self):
        """
        Another complaint is another.
        """
        assert hash_error("no file 'a'") != hash_error("no right to read 'a'")


class TestWords:
    @pytest.mark.parametrize(
        "result", ["ÉCHEC → Error: no", "→ 1 failed, 2 passed", "\ud83d error: half a pair"]
    )
    def test_words_among_others(self, result):
        """
        Words of failure are found beside arrows, accents and half a surrogate pair.
        """
        assert came_of(shell("x", result)).failed

    @given(st.text(), st.booleans())
    def test_any_text(self, text, is_error):
        """
        Any text either tells of a failure or does not.
        """
        assert looks_failed(text, is_error=is_error) in {True, False}

    def test_no_result(self):
        """
        Of a call without a result nothing is known.
        """
        outcome = came_of(call("x", {}))

        assert (False, False, "") == (outcome.known, outcome.failed, outcome.sample)

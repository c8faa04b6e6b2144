"""What counts as a difference between the calls that a framework made and those that were recorded."""

from benchmarks.foreign_comparison import MODEL, TOOL, Call, compare_calls


def compare(made, recorded, kind=TOOL):
    """The comparison of calls, each `id name` or `id name: why it was not run`."""
    return compare_calls(*([_read(kind, text) for text in side] for side in (made, recorded)))[kind]


def _read(kind, text):
    call, _, why = text.partition(": ")
    call_id, _, name = call.partition(" ")
    return Call(kind, call_id, name, why)


class TestCompareCalls:
    def test_calls_are_matched_by_their_ids(self):
        """
        A tool may have another name in its toolset than the agent knows.
        """
        assert 0 == compare(["c1 get", "c2 add"], ["c2 add", "c1 my_get"]).unexplained

    def test_a_call_without_an_id_is_matched_by_its_name(self):
        """
        What is recorded gets an id where the framework gives none.
        """
        assert (1, 1) == compare([" get", " add"], ["7f3a get", "81b0 get"])[4:]

    def test_a_call_that_was_not_run_needs_no_counterpart(self):
        """
        It is counted apart; a made call that is recorded as not run is missing.
        """
        assert (0, 0, 0, 1, 0, 0) == compare([], ["c1 get: no such tool"])
        assert 1 == compare(["c1 get"], ["c1 get: answered"]).missing

    def test_a_tool_that_was_interrupted_counts_when_it_is_called_again(self):
        """
        Both are one call, under one id.
        """
        found = compare(["c1 ask: interrupted", "c1 ask"], ["c1 ask"])

        assert (1, 1, 1, 0, 0, 0) == found

    def test_each_attempt_is_a_call(self):
        """
        A call that is made twice under one id must be recorded twice.
        """
        assert 1 == compare(["c1 get", "c1 get"], ["c1 get"]).missing
        assert 1 == compare(["c1 get"], ["c1 get", "c1 get"]).surplus

    def test_model_calls_are_counted(self):
        """
        They have neither names nor ids.
        """
        assert (3, 0, 2, 0, 1, 0) == compare(["", "", ""], ["", ""], MODEL)

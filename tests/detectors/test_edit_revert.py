import msgspec
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.baselines import BaselineStats
from steadyhelm.detectors.edit_revert import EditRevert
from steadyhelm.events import RunInfo
from steadyhelm.findings import Severity
from steadyhelm.testing.traces import AGENT, RUN, events

CHANGES = {
    ">": {"file_path": "a.py", "old_string": "x", "new_string": "y"},
    "<": {"file_path": "a.py", "old_string": "y", "new_string": "x"},
    "o": {"file_path": "b.py", "old_string": "x", "new_string": "y"},
}


def drawn(picture):
    """A run in which `>` is an edit, `<` its way back, `o` an edit elsewhere, and a space a user's turn."""
    trace = events("".join(" " if step == " " else "." for step in picture))
    return [
        msgspec.structs.replace(event, action_name="Edit", input_data=CHANGES[step])
        if step in CHANGES
        else event
        for event, step in zip(trace, picture, strict=True)
    ]


def findings(picture, detector=None):
    detector = detector or EditRevert()
    detector.begin(RunInfo(agent_id=AGENT, run_id=RUN))
    trace = drawn(picture) if isinstance(picture, str) else picture
    return [it for event in trace if (it := detector.check(event, BaselineStats(agent_id=AGENT)))]


def severities(picture):
    return [it.severity.value for it in findings(picture)]


class TestEditRevert:
    def test_back_and_forth(self):
        """
        The first way back is noticed, the second reported, and it grows worse from there.
        """
        assert ["LOW", "MED", "HIGH", "CRITICAL"] == severities("><><>")

    def test_once_is_ordinary_work(self):
        """
        Taking a change back once is no finding to report.
        """
        assert ["LOW"] == severities(">o<oo")

    def test_a_user_may_ask_for_it(self):
        """
        After a user's new words it begins anew.
        """
        assert [] == severities("> < > < >")

    def test_it_is_explained(self):
        """
        The finding names the file, how often, and the edits that prove it.
        """
        _, finding = findings("><>")

        assert "a.py was changed back to what it was, 2 times" == finding.message
        assert ("loop", Severity.MED) == (finding.kind, finding.severity)
        assert {
            "pattern": "edit-revert",
            "subject": "Edit",
            "repeat_count": 2,
            "event_ids": ["run.0", "run.1", "run.2"],
        } == finding.context

    @given(st.text(alphabet="><o ", max_size=40), st.integers(0, 40))
    def test_put_aside_anywhere_it_goes_on_alike(self, picture, cut):
        """
        Put aside after any event and taken up by another detector, it finds the same.
        """
        first, second, trace = EditRevert(), EditRevert(), drawn(picture)
        before = findings(trace[:cut], first)
        second.restore(first.state())

        assert findings(trace) == before + findings(trace[cut:], second)

"""A plug-in whose findings are none: the step is stored all the same, and the failure is counted."""

import pytest
from msgspec import structs

from steadyhelm import DriftMonitor
from steadyhelm.detector import Detector

pytestmark = pytest.mark.usefixtures("quiet")


class Mistaken(Detector):
    """Finds something at every step, with values of its own."""

    name = "mistaken"
    kind = "loop"

    def __init__(self, mistakes):
        self._mistakes = mistakes

    def check(self, event, baseline):
        finding = self.finding(event, score=0.9, message="a loop", suggested_action="stop")
        for field, value in self._mistakes.items():
            structs.force_setattr(finding, field, value)
        return finding

    def state(self):
        return b""


MISTAKES = [
    {"score": None},
    {"score": "high"},
    {"score": float("nan")},
    {"score": 10**400},
    {"message": None},
    {"message": ["a", "loop"]},
    {"severity": "grave"},
    {"severity": None},
    {"kind": None},
    {"kind": "\ud800"},
    {"agent_id": 5},
    {"run_id": None},
    {"context": None},
    {"context": {"event_ids": None}},
    {"context": {"event_ids": [None, 5]}},
]


@pytest.mark.parametrize("mistakes", MISTAKES, ids=lambda it: repr(it)[:40])
def test_the_step_is_stored(tmp_path, mistakes):
    """
    Whatever a detector returns as a finding, the event it was shown is stored, and so are the next ones.
    """
    monitor = DriftMonitor(
        "agent",
        db_path=tmp_path / "agent.db",
        mode="enforce",
        make_detectors=lambda: [Mistaken(mistakes)],
    )
    with monitor.run(run_id="run"):
        for _ in range(5):
            monitor.record_event("tool_call", "search")
    result = monitor.flush(60)

    assert 5 == len(monitor.store.get_run_traces("agent", "run"))
    assert {"error in detector mistaken": 3} == result.losses
    assert result.complete
    monitor.close()

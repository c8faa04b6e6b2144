"""The same done to each of many things: no loop, however alike the calls and their answers are."""

import pytest
from agent_steps import call, failing, reported, run

from steadyhelm.detectors.stagnation import StagnationMemory
from steadyhelm.loops.failure_memory import FailureMemory
from steadyhelm.loops.repetitions import RepetitionMemory

MEMORIES = (RepetitionMemory, FailureMemory, StagnationMemory)
VOLUMES = tuple(f"vol-{n}c{n}9f2a{n}1" for n in range(1, 9))


@pytest.mark.parametrize("memory", MEMORIES)
class TestEachThing:
    def test_a_label_for_each_item(self, memory):
        """
        An index beside a label is the item, where nothing is clicked.
        """
        steps = [
            call("label_item", {"index": n, "label": "positive"}, f"Stored label positive for item {n}")
            for n in range(10, 20)
        ]

        assert [] == reported(memory(), run(*steps))

    def test_each_session_stopped(self, memory):
        """
        What is done with a session is done with that one.
        """
        steps = [
            call(
                "stop_session",
                {"session_id": f"8f3a{n}c2d", "force": True},
                f"Session 8f3a{n}c2d was stopped",
            )
            for n in range(8)
        ]

        assert [] == reported(memory(), run(*steps))

    def test_the_same_list_for_each_ticket(self, memory):
        """
        An id beside a list says whose list it is.
        """
        steps = [call("set_labels", {"id": 4411 + n, "labels": ["bug", "page"]}, "updated") for n in range(8)]

        assert [] == reported(memory(), run(*steps))

    def test_verdicts_about_each_request(self, memory):
        """
        A tool that decides may deny each request: it has not failed.
        """
        steps = [call("assess_loan", {"request": 70 + n}, {"decision": "denied"}) for n in range(8)]

        assert [] == reported(memory(), run(*steps))

    def test_each_volume_attached_and_detached(self, memory):
        """
        A round about each thing of a list is no round under fresh names.
        """
        steps = [
            step
            for it in VOLUMES
            for step in (
                call("attach_volume", {"volume": it, "to": "db-1"}, "attached"),
                call("check_files", {"volume": it}, f"{it}: clean, 12 GB"),
                call("detach_volume", {"volume": it}, "detached"),
            )
        ]

        assert [] == reported(memory(), run(call("list_volumes", {}, " ".join(VOLUMES)), *steps))


class TestWalls:
    def test_a_wall_is_remembered_in_part(self):
        """
        However many calls meet one outage, the latest of them are kept.
        """
        memory = FailureMemory()
        for event in run(*(failing("sh", {"cmd": f"ping db-{n}"}, "connection refused") for n in range(300))):
            memory.observe(event)

        assert len(memory.wall.calls) <= 64

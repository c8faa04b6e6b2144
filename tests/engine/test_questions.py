"""The question for the user says what is wrong, how far the run has drifted, and which answers there are."""

import pytest

from steadyhelm import Budget, DriftMonitor
from steadyhelm.engine.pending_decisions import format_question, format_reason

GOAL = "find a flight"


@pytest.fixture
def monitor(tmp_path):
    monitor = DriftMonitor("researcher", db_path=tmp_path / "runs.db", mode="enforce")
    yield monitor
    monitor.close()


def test_a_loop(monitor):
    """
    The goal, the evidence, the score with its factors, and the options: yes, no, or other words.
    """
    with monitor.run(goal=GOAL):
        for _ in range(7):
            decision = monitor.record_event("tool_call", "search", input_data={"q": 1}, output_data="none")

    assert format_question(decision, GOAL) == (
        "The agent does not make progress with: find a flight. Noticed: search called 7 times in a row with "
        "the same arguments and the same result. Drift score: 0.56 of 1 (risk of a loop 0.56). How should it "
        "continue? (yes: as it wants to; no: not at all; or say what to do instead)"
    )


def test_a_budget(monitor):
    """
    An agent that has used up its budget need not have gone wrong, and a yes gives it more.
    """
    with monitor.run(goal=GOAL, budget=Budget(steps=3)):
        for n in range(3):
            decision = monitor.record_event("tool_call", "open", input_data={"n": n}, output_data=f"page {n}")
    question = format_question(decision, GOAL)

    assert question.startswith("The agent has used up its budget with: find a flight.")
    assert "3 of 3 tool calls" in question
    assert "yes: with a quarter more" in question


def test_nobody_can_be_asked(monitor):
    """
    A run that is stopped because its host cannot ask says how the user can be asked.
    """
    with monitor.run(goal=GOAL, budget=Budget(steps=3)):
        for n in range(3):
            step = {"input_data": {"n": n}, "output_data": f"page {n}"}
            decision = monitor.record_event("tool_call", "open", **step, can=("proceed", "stop"))

    assert "stop" == decision.verdict
    assert format_reason(decision).endswith(
        "there was no way to: give wrap() a function that asks the user, as `ask=`, or ask where "
        "before_tool() returns `ask`."
    )

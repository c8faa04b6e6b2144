import pytest

from steadyhelm import DriftMonitor
from steadyhelm.adapter import CONTINUE, ModelReply
from steadyhelm.boundary.driver import Boundary
from steadyhelm.testing.doubles import Alarm

EYES = {"before_model": {"stop"}, "before_tool": {"stop"}}
HANDS = {"before_model": {"guide", "stop"}, "before_tool": {"deny"}}


@pytest.fixture
def begun(tmp_path):
    """Begins a run that can only be stopped, so far; a loop is confirmed at its first call if so wished."""
    monitors = []

    def begin(mode="guide", *, alarm=True, ask=None):
        monitor = DriftMonitor(
            "agent",
            db_path=tmp_path / f"{len(monitors)}.db",
            mode=mode,
            make_detectors=(lambda: [Alarm(at=1)]) if alarm else None,
        )
        monitors.append(monitor)
        return Boundary(monitor, "test", EYES, ask=ask).start_run("find it")

    yield begin
    for monitor in monitors:
        monitor.close()


def call(run, call_id="c1"):
    run.begin_tool_call(call_id, "lookup", {"key": "a"}, surface="callbacks")
    run.after_tool(call_id, "no entry", surface="callbacks")


def events(run):
    monitor = run.boundary.monitor
    monitor.flush()
    return [
        it for it in monitor.store.get_run_traces("agent", run.run_id) if it.action_type != "user_message"
    ]


class TestLookingOn:
    def test_what_there_is_to_say_stays_for_one_who_can(self, begun):
        """
        A surface that only tells of a model call takes no words away from the one that can say them.
        """
        run = begun()
        run.set_capabilities(HANDS)
        call(run)
        run.begin_model_call(key="looking on")
        run.after_model(ModelReply(text="hm"), key="looking on")

        assert "guide" == run.before_model(key="acting").verdict

    def test_its_model_calls_are_timed_and_told(self, begun):
        """
        A model call of which only its beginning and end are told is one event, with its duration.
        """
        run = begun(alarm=False)
        run.begin_model_call(key="one")
        run.after_model(ModelReply(text="hm"), key="one")

        (event,) = events(run)
        assert ("llm_request", "hm") == (event.action_type, event.text)
        assert event.duration_ms > 0

    def test_nobody_is_asked_about_its_calls(self, begun):
        """
        A call of which it tells is made, whatever there would be to say about it.
        """
        run = begun("enforce")
        for n in range(6):
            call(run, f"c{n}")

        assert ["lookup"] * 6 == [
            event.action_name for event in events(run) if event.action_type == "tool_call"
        ]

    def test_a_call_of_another_surface_is_dropped(self, begun):
        """
        Where somebody else told of a call first, what is told by looking on is dropped.
        """
        run = begun(alarm=False)
        run.before_tool("c1", "lookup", {"key": "a"}, surface="middleware")
        call(run)
        run.after_tool("c1", "no entry", surface="middleware")

        assert 1 == len(events(run))

    def test_a_second_attempt_gives_up_the_first(self, begun):
        """
        A call that begins again before it ended was made twice.
        """
        run = begun(alarm=False)
        run.begin_tool_call("c1", "lookup", surface="callbacks")
        call(run)

        assert 2 == len(events(run))

    def test_it_can_leave_words_and_take_a_stop(self, begun):
        """
        Taking only what it can do leaves the rest where it is.
        """
        run = begun()
        run.set_capabilities(HANDS)
        call(run)

        assert CONTINUE == run.take_instruction("before_model", only={"stop"})
        assert "guide" == run.take_instruction("before_model").verdict


class TestMoreCanBeDone:
    def test_from_now_on(self, begun):
        """
        What a run can be asked for is what can be carried out in it now, not what could when it began.
        """
        run = begun()
        assert frozenset({"proceed", "stop"}) == run.verdicts
        run.set_capabilities(HANDS)
        call(run)

        assert frozenset({"proceed", "guide", "deny", "stop"}) == run.verdicts
        assert "guide" == run.before_model().verdict

    def test_other_runs_stay_as_they_are(self, begun):
        """
        It is said of one run only.
        """
        run = begun()
        other = run.boundary.start_run("find another")
        run.set_capabilities(HANDS)

        assert frozenset({"proceed", "stop"}) == other.verdicts

    def test_words_of_the_user_that_nobody_can_say_are_the_adapters(self, begun):
        """
        Where words can be said nowhere, the adapter is told them, and has to find a way.
        """
        run = begun("enforce", ask=lambda _: "try the archive")
        call(run)
        instruction = run.before_model()

        assert "guide" == instruction.verdict
        assert "try the archive" in instruction.text

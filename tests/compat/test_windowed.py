import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.compat.windowed import DriftDetector, Event
from steadyhelm.errors import SettingsError


def read(path="a.py", content="h1"):
    return Event("read", path, content, 0.0)


def write(path="a.py", content="h2"):
    return Event("write", path, content, 0.0)


def run(command="pytest", error="1 failed"):
    return Event("bash", command, "", 0.0, error)


def told(events, detector=None):
    """Each event's alerts."""
    detector = detector or DriftDetector()
    return [detector.record(event) for event in events]


def names(events, detector=None):
    """All alerts, in order."""
    return [name for alerts in told(events, detector) for name in alerts]


class TestReadLoop:
    def test_third_read(self):
        """
        The same file read three times without a change is a read-loop.
        """
        assert [[], [], ["read-loop"]] == told([read()] * 3)

    def test_other_files_do_not_count(self):
        """
        Reading three files is work.
        """
        assert [] == names([read("a.py"), read("b.py"), read("c.py")])

    def test_other_work_between_does_not_hide_it(self):
        """
        Reads of the same file count with other work between them.
        """
        assert ["read-loop"] == names([read(), run(error=None), read(), write("b.py"), read()])

    def test_a_write_that_changes_the_file_starts_afresh(self):
        """
        Reading a file again after changing it is work.
        """
        assert [] == names([read(), read(), write(content="h2"), read(content="h2"), read(content="h2")])

    def test_a_write_that_changes_nothing_does_not(self):
        """
        Writing what the file holds already is no change.
        """
        assert ["read-loop"] == names([read(), read(), write(content="h1"), read()])

    def test_a_write_of_unknown_content_counts_as_a_change(self):
        """
        When nobody knows what was written, the agent is given the benefit of the doubt.
        """
        events = [read(content=""), read(content=""), write(content=""), read(content="")]

        assert [] == names(events)

    def test_a_file_changed_by_somebody_else(self):
        """
        A read that finds another content found something new.
        """
        assert [] == names([read(), read(), read(content="h9"), read(content="h9")])

    def test_it_is_told_with_its_evidence(self):
        """
        The events that prove it are kept.
        """
        detector = DriftDetector()
        names([read(), run(error=None), read(), read()], detector)

        assert (read(), read(), read()) == detector.evidence["read-loop"]


class TestEditRevert:
    def test_a_write_that_brings_back_an_earlier_content(self):
        """
        The agent undid its work: the file is what it was.
        """
        assert ["edit-revert"] == names([read(), write(content="h2"), write(content="h1")])

    def test_writes_alone(self):
        """
        Without a read, an earlier write's content counts as well.
        """
        assert ["edit-revert"] == names([write(content="a"), write(content="b"), write(content="a")])

    def test_a_new_content_is_none(self):
        """
        Edit after edit is work.
        """
        assert [] == names([write(content=f"h{n}") for n in range(8)])

    def test_writing_the_same_again_undoes_nothing(self):
        """
        A write that changes nothing is no revert.
        """
        assert [] == names([read(content="h1"), write(content="h1"), write(content="h1")])

    def test_another_file_with_that_content_is_none(self):
        """
        Contents are compared file by file.
        """
        assert [] == names(
            [write("a.py", "h1"), write("b.py", "h2"), write("b.py", "h3"), write("c.py", "h1")]
        )

    def test_a_content_nobody_knows_is_none(self):
        """
        An empty hash is no content.
        """
        assert [] == names([write(content=""), write(content="h1"), write(content="")])


class TestTestFailLoop:
    def test_third_failure_with_the_same_error(self):
        """
        The same command failing three times with the same error is a test-fail-loop.
        """
        assert [[], [], ["test-fail-loop"]] == told([run()] * 3)

    def test_edits_between_do_not_hide_it(self):
        """
        Edit and test, edit and test: the error stayed.
        """
        events = [run(), write(content="h2"), run(), write(content="h3"), run()]

        assert ["test-fail-loop"] == names(events)

    @pytest.mark.parametrize("between", [run(error=None), run(error="2 failed")])
    def test_a_success_or_another_error_starts_afresh(self, between):
        """
        Failures count in a row, with one error.
        """
        assert [] == names([run(), run(), between, run(), run()])

    def test_another_command_is_another_count(self):
        """
        Two failing commands do not add up.
        """
        assert [] == names([run("pytest a"), run("pytest b"), run("pytest a"), run("pytest b")])

    def test_noise_in_the_error_is_not_another_error(self):
        """
        A duration that changes from run to run does not make it another error.
        """
        assert ["test-fail-loop"] == names([run(error=f"1 failed in {n}.2{n}s") for n in range(3)])

    def test_a_failed_read_is_none(self):
        """
        Only commands are run; a file that cannot be read is a read-loop at most.
        """
        events = [Event("read", "gone.py", "", 0.0, "no such file")] * 3

        assert ["read-loop"] == names(events)


class TestKindsOfTools:
    @pytest.mark.parametrize(
        ("tool", "kind"),
        [
            *((tool, "read") for tool in ("read", "Read", "read_file", "ReadFile", "view", "open_file")),
            *(
                (tool, "write")
                for tool in ("write", "Edit", "MultiEdit", "str_replace", "write_file", "apply_patch")
            ),
            *((tool, "command") for tool in ("bash", "Bash", "shell", "run_tests", "pytest", "thread")),
        ],
    )
    def test_by_the_words_of_its_name(self, tool, kind):
        """
        A tool's name says what it does to its target; what says nothing is a command.
        """
        assert kind == DriftDetector().classify_tool(tool)

    def test_as_declared(self):
        """
        Where the name says nothing, it can be declared.
        """
        detector = DriftDetector(tools={"slurp": "read"})

        assert ["read-loop"] == names([Event("slurp", "a", "h", 0.0)] * 3, detector)


class TestOnePatternMore:
    def test_added(self):
        """
        A pattern can be added without touching the engine, and has an EMA and a cooldown like the others.
        """
        detector = DriftDetector()
        detector.add_pattern("deleted", lambda events: events[-1].tool == "rm")

        assert [["deleted"], [], []] == told([Event("rm", "a", "", 0.0)] * 3, detector)
        assert pytest.approx(0.657) == detector.ema["deleted"]

    def test_overridden(self):
        """
        Or a subclass names its own.
        """

        class Mine(DriftDetector):
            def _patterns(self):
                return [*super()._patterns(), ("long", lambda events: len(events) >= 4)]

        assert ["long"] == names([write(content=str(n)) for n in range(4)], Mine())

    def test_a_pattern_may_show_its_evidence(self):
        """
        A predicate that returns events has proved its pattern with them.
        """
        detector = DriftDetector()
        detector.add_pattern("pair", lambda events: list(events)[-2:] if len(events) > 1 else ())
        names([read("a"), read("b")], detector)

        assert (read("a"), read("b")) == detector.evidence["pair"]

    def test_a_broken_one_blinds_nobody(self):
        """
        A predicate that raises is named as not checked; the others go on.
        """
        detector = DriftDetector()
        detector.add_pattern("broken", lambda events: 1 / 0)

        assert ["read-loop"] == names([read()] * 3, detector)
        assert ["broken"] == list(detector.not_checked)
        assert "ZeroDivisionError" in detector.not_checked["broken"]

    @pytest.mark.parametrize(("name", "predicate"), [("read-loop", bool), ("mine", "not callable")])
    def test_bad_ones_are_refused(self, name, predicate):
        """
        A name taken already, and something that cannot be called, are refused.
        """
        with pytest.raises(SettingsError, match=name):
            DriftDetector().add_pattern(name, predicate)


class TestFatigue:
    def test_names_are_told_once_per_cooldown(self):
        """
        A read-loop that goes on is not told at every read, and less often as it becomes chronic.
        """
        alerts = told([read()] * 45)

        assert [3, 23, 43] == [event for event, names_ in enumerate(alerts, start=1) if names_]

    def test_each_pattern_has_its_own_cooldown(self):
        """
        An edit-revert right after a read-loop is told.
        """
        assert ["read-loop", "edit-revert"] == names(
            [*[read()] * 3, write(content="h2"), write(content="h1")]
        )

    def test_last_alert_and_event_count(self):
        """
        Alerts are dated by event, the first event being 1.
        """
        detector = DriftDetector()
        names([read()] * 4, detector)

        assert ({"read-loop": 3}, 4) == (detector.last_alert, detector.event_count)

    def test_a_chronic_pattern_is_escalated(self):
        """
        One hit is soft; the second in a row lifts the EMA above .5, and the pattern is hard.
        """
        detector = DriftDetector()
        names([read()] * 3, detector)
        assert [] == detector.escalated
        detector.record(read())

        assert ["read-loop"] == detector.escalated

    def test_after_an_intervention_counting_starts_afresh(self):
        """
        The reads from before do not count; three new ones are told at once.
        """
        detector = DriftDetector()
        names([read()] * 3, detector)
        detector.reset()

        assert [[], [], ["read-loop"]] == told([read()] * 3, detector)


class TestSettings:
    def test_names_and_defaults(self):
        """
        Window 20, alpha .3, cooldown 5, by position too.
        """
        parameters = list(inspect.signature(DriftDetector).parameters.values())[:3]
        detector = DriftDetector(7, 0.5, 2)

        assert {"window": 20, "alpha": 0.3, "cooldown_events": 5} == {p.name: p.default for p in parameters}
        assert (7, 0.5, 2) == (detector.events.maxlen, detector.alpha, detector.cooldown)

    @pytest.mark.parametrize(
        ("bad", "named"),
        [
            ({"window": 0}, "window"),
            ({"window": 2.5}, "window"),
            ({"window": True}, "window"),
            ({"alpha": 0}, "alpha"),
            ({"alpha": 1.5}, "alpha"),
            ({"alpha": "fast"}, "alpha"),
            ({"cooldown_events": -1}, "cooldown_events"),
            ({"cooldown_events": None}, "cooldown_events"),
            ({"saturation": 2}, "saturation"),
            ({"tools": {"x": "peek"}}, "tools"),
        ],
    )
    def test_bad_ones_are_named(self, bad, named):
        """
        A setting out of range is refused with its name.
        """
        with pytest.raises(SettingsError, match=named):
            DriftDetector(**bad)

    def test_a_window_too_small_says_so(self):
        """
        Two events cannot hold three reads: the patterns that cannot fire are named.
        """
        assert {"read-loop", "edit-revert", "test-fail-loop"} == set(DriftDetector(window=2).not_checked)


EVENTS = st.lists(
    st.builds(
        Event,
        st.sampled_from(["read", "write", "bash"]),
        st.sampled_from(["a", "b"]),
        st.sampled_from(["", "h1", "h2"]),
        st.just(0.0),
        st.sampled_from([None, None, "boom", "bang"]),
    ),
    max_size=60,
)


class TestWhateverIsRecorded:
    @given(EVENTS, st.integers(min_value=1, max_value=25))
    def test_bounds_hold(self, events, window):
        """
        The window is never longer than set, and every EMA lies from 0 to 1.
        """
        detector = DriftDetector(window=window)
        for event in events:
            detector.record(event)

            assert len(detector.events) <= window
            assert all(0.0 <= ema <= 1.0 for ema in detector.ema.values())
        assert len(events) == detector.event_count

    @given(EVENTS)
    def test_the_same_events_give_the_same_alerts(self, events):
        """
        Nothing but the events counts, their times included.
        """
        later = [Event(e.tool, e.target, e.content_hash, 1e9, e.error) for e in events]

        assert told(events) == told(later)

    @given(EVENTS)
    def test_alerts_keep_their_distance(self, events):
        """
        No pattern is told twice within the base cooldown.
        """
        last = {}
        for number, alerts in enumerate(told(events), start=1):
            for name in alerts:
                assert number - last.get(name, -100) > 5
                last[name] = number

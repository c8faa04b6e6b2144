import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.events import NEW_GOAL, STATE_TRANSITION, TOOL_CALL, TraceEvent
from steadyhelm.fingerprints import encode_canonical
from steadyhelm.goals.tokens import tokenize
from steadyhelm.goals.tracker import GoalTracker, is_plan_name

GOAL = "Build a REST API for user management with PostgreSQL"
ON = "The user management API now reads its settings from PostgreSQL."
OFF = "Quantum entanglement puzzles physicists, and superconductors need cryostats."


def call(name="read", **arguments):
    return TraceEvent(
        agent_id="a", run_id="r", action_type=TOOL_CALL, action_name=name, input_data=arguments, timestamp=0.0
    )


def tracking(goal=GOAL):
    tracker = GoalTracker()
    tracker.start(goal)
    return tracker


def after(*replies, goal=GOAL):
    """The drift after these replies."""
    tracker = tracking(goal)
    for reply in replies:
        tracker.record_reply(reply)
    return tracker.drift


def new_goal(text):
    return TraceEvent(
        agent_id="a",
        run_id="r",
        action_type=STATE_TRANSITION,
        action_name=NEW_GOAL,
        input_data={"text": text},
        timestamp=0.0,
    )


class TestNewGoal:
    def test_the_host_reports_another_task(self):
        """
        From then on that is the goal, and how far replies were from the one before is forgotten.
        """
        tracker = tracking()
        for reply in (ON, OFF, OFF):
            tracker.record_reply(reply)
        tracker.observe(new_goal("Explain quantum entanglement to physicists"))

        assert ("Explain quantum entanglement to physicists", None, 1) == (
            tracker.current,
            tracker.drift,
            tracker.changes,
        )
        tracker.record_reply(OFF)
        assert tracker.drift < 0.2

    def test_the_first_goal_of_a_run(self):
        """
        In a run without a goal it is the goal, whether or not the user has said something before.
        """
        silent, spoken = GoalTracker(), GoalTracker()
        spoken.record_user_message("hello there")
        for tracker in (silent, spoken):
            tracker.observe(new_goal(GOAL))

        assert [(GOAL, GOAL)] * 2 == [(it.current, it.given) for it in (silent, spoken)]

    @pytest.mark.parametrize("text", ["", GOAL])
    def test_nothing_new(self, text):
        """
        An empty goal, or the same again, changes nothing.
        """
        tracker = tracking()
        tracker.observe(new_goal(text))

        assert (GOAL, 0) == (tracker.current, tracker.changes)


class TestDrift:
    def test_unknown_until_something_was_said(self):
        """
        Without a reply there is no drift, and without a goal there never is.
        """
        assert after() is None
        assert after(OFF, goal="") is None

    def test_one_strange_reply_is_forgiven(self):
        """
        A single reply off the goal hardly counts, several do, and good ones bring it down again.
        """
        one, five = after(ON, OFF, ON), after(ON, *[OFF] * 5)

        assert one < 0.25
        assert five > 0.45
        assert after(ON, *[OFF] * 5, *[ON] * 5) < 0.2

    def test_a_reply_that_says_nothing_changes_nothing(self):
        """
        "All tests pass now" is no evidence either way.
        """
        assert after(ON, OFF) == after(ON, OFF, "All tests pass now, and the file was read.")

    def test_without_a_goal_the_first_message_is_one(self):
        """
        Where nobody gave a goal, the user's first message is the task.
        """
        tracker = tracking("")
        tracker.record_user_message(GOAL)
        tracker.record_reply(OFF)

        assert tracker.drift is not None


class TestCalls:
    @pytest.mark.parametrize(
        "text", ["one\nquantum\tentanglement", "one\r\nquantum entanglement", 'a "quantum"\nentanglement']
    )
    def test_line_ends_and_tabs_are_no_letters(self, text):
        """
        How JSON writes the end of a line does not become part of the next word.
        """
        assert {"quantum", "entangl"} <= {*tracking().compare_call(call(code=text)).words}

    def test_the_folders_above_a_file_say_nothing(self):
        """
        Every call in a project names the folders above it: only the nearest two are read.
        """
        path = "/home/quantum/entanglement/cryostats/physicists/superconductors.py"

        assert ["cryostat", "physicist", "superconductor"] == tracking().compare_call(call(path=path)).words

    @pytest.mark.parametrize("hostile", ["/" * 5000, "/a" * 5000, '"/' * 5000, "/a" * 5000 + " "])
    def test_any_path_is_read_in_time(self, hostile):
        """
        Paths of any shape and length are read.
        """
        tracking().compare_call(call(path=hostile))

    @given(st.text('abc é\\\n"/', max_size=400), st.integers(0, 3))
    def test_only_what_is_read_of_long_arguments_counts(self, text, spaces):
        """
        Arguments are cut before their escapes are replaced, and no word of the part that is read is lost.
        """
        asked = call(code=" " * spaces + text.replace('"/', " "))
        whole = re.sub(rb"\\.", b" ", encode_canonical(asked.input_data)[:640]).decode("utf-8", "replace")

        assert tracking().compare_call(asked).words == tokenize(whole, 160).content


class TestWhatGrowsIt:
    @pytest.mark.parametrize(
        "touched",
        [
            {"path": "src/quantum/entanglement/superconductors.py"},
            {"file_path": "/home/me/quantum/entanglement/superconductors.py"},
            {"command": "pytest -q quantum/entanglement/superconductors.py"},
        ],
    )
    def test_files(self, touched):
        """
        The files a call names are the task's, wherever the call names them.
        """
        tracker = tracking()
        tracker.record_call(call(**touched))
        tracker.record_reply(OFF)

        assert tracker.drift < after(OFF)

    def test_only_the_files_of_a_command(self):
        """
        A command's other words are the agent's own, and teach nothing.
        """
        tracker = tracking()
        tracker.record_call(call(command="echo quantum entanglement superconductors cryostats physicists"))
        tracker.record_reply(OFF)

        assert tracker.drift == after(OFF)

    def test_results_and_other_arguments_teach_nothing(self):
        """
        What a search asks for is the agent's own idea.
        """
        tracker = tracking()
        tracker.record_call(call(query="quantum entanglement superconductors"))
        tracker.record_reply(OFF)

        assert tracker.drift == after(OFF)

    def test_plans(self):
        """
        What stands on the agent's list is part of the task.
        """
        tracker = tracking()
        tracker.record_call(
            call("TodoWrite", todos=[{"content": "quantum entanglement", "status": "pending"}])
        )
        tracker.record_reply(OFF)

        assert tracker.drift < after(OFF)

    def test_work_that_names_the_task_makes_it_concrete(self):
        """
        A reply that names two things of the task adds its own words, for the replies after it.
        """
        tracker = tracking()
        tracker.record_reply(
            "The user management API explains quantum entanglement and cryostats to physicists"
        )
        first = tracker.drift
        tracker.record_reply(OFF)

        assert tracker.drift - 0.7 * first < 0.6 * after(OFF)

    def test_work_that_does_not_name_it_adds_nothing(self):
        """
        Saying the same strange thing again makes it no part of the task.
        """
        tracker = tracking()
        tracker.record_reply(OFF)
        once = tracker.drift
        tracker.record_reply(OFF)

        assert tracker.drift == pytest.approx(once + 0.7 * once)

    def test_what_the_user_lets_pass(self):
        """
        When the user says go on, what the agent just said is part of the task.
        """
        accepted, not_accepted = tracking(), tracking()
        for tracker, word in ((accepted, "yes, go on"), (not_accepted, "no, stop")):
            tracker.record_reply(OFF)
            tracker.record_user_message(word)
            tracker.record_reply(OFF)

        assert accepted.drift < not_accepted.drift

    def test_what_the_user_asks_for(self):
        """
        A task nobody recognised as new is not taken for drift either: its words are known.
        """
        tracker = tracking()
        tracker.record_user_message(
            "also tell me about quantum entanglement for our physicists, with cryostats"
        )
        tracker.record_reply(OFF)

        assert tracker.drift < 0.5 * after(OFF)

    @pytest.mark.parametrize(
        ("name", "plans"),
        [
            ("TodoWrite", True),
            ("update_plan", True),
            ("ExitPlanMode", True),
            ("plan", True),
            ("explain", False),
            ("planet_search", False),
            ("", False),
        ],
    )
    def test_tools_named_after_plans(self, name, plans):
        """
        A plan is known by its tool's name, as a word of its own.
        """
        assert plans == is_plan_name(name)


class TestNewGoals:
    def test_another_task_starts_afresh(self):
        """
        With another task the drift is unknown again, and the new task is what counts.
        """
        tracker = tracking()
        tracker.record_reply(OFF)
        message = "Translate the Norwegian brochure on glaciers into Finnish"

        assert tracker.record_user_message(message)
        assert (message, None) == (tracker.goal, tracker.drift)

    def test_before_the_first_reply_no_other_task_is_set(self):
        """
        What a harness wraps around a goal belongs to it.
        """
        tracker = tracking()

        assert not tracker.record_user_message("Translate the Norwegian brochure on glaciers into Finnish")
        assert tracker.dna.is_asked("norwegian")

    def test_an_answer_sets_no_task(self):
        """
        After a question of the agent's, a message full of new words is an answer.
        """
        tracker = tracking()
        tracker.record_reply("The user management API needs an owner. Who shall that be?")

        assert not tracker.record_user_message("Yusuf Rossi, Elm Avenue, Philadelphia, Pennsylvania")

    def test_asking_for_more_is_remembered(self):
        """
        The goal's text is no longer the whole task once the user has asked for more, after the first reply.
        """
        tracker = tracking()
        tracker.record_user_message("users need avatars")
        assert not tracker.is_added_to
        tracker.record_reply(ON)
        tracker.record_user_message("users need badges")

        assert tracker.is_added_to


class TestState:
    @given(st.lists(st.tuples(st.sampled_from(["call", "message", "reply"]), st.text()), max_size=12))
    def test_put_aside_anywhere_it_goes_on_alike(self, trace):
        """
        Put aside after every step and taken up again, it comes to the same.
        """
        whole, parts = tracking(), tracking()
        for what, text in trace:
            for tracker in (whole, parts):
                if what == "call":
                    tracker.record_call(call(path=text))
                elif what == "message":
                    tracker.record_user_message(text)
                else:
                    tracker.record_reply(text)
            parts = msgspec.msgpack.decode(msgspec.msgpack.encode(parts), type=GoalTracker)

        assert whole == parts

    def test_it_stays_small(self):
        """
        However long a run is, what is remembered of it is a few kilobytes.
        """
        tracker = tracking()
        for n in range(5000):
            word = "".join(chr(97 + int(digit)) for digit in str(n))
            tracker.record_call(call(path=f"src/{word}/{'x' * 500}.py"))
            if n % 20 == 0:
                tracker.record_user_message(f"now look at {word} and {word}s")
                tracker.record_reply(f"the user API and its management need {word} and {word}ed things")

        assert len(msgspec.msgpack.encode(tracker)) < 8192

    @pytest.mark.parametrize(
        "odd", [None, "", 5, [], {"path": 5}, {"path": None}, {5: "x"}, {"path": "\ud800"}]
    )
    def test_odd_arguments_are_survived(self, odd):
        """
        Whatever a call was given, the tracker goes on, and can be stored.
        """
        tracker = tracking()
        event = TraceEvent(
            agent_id="a", run_id="r", action_type=TOOL_CALL, action_name="x", input_data=odd, timestamp=0.0
        )
        tracker.record_call(event)
        tracker.record_user_message("\ud800 half a character")
        tracker.record_reply("\ud800 half a character, and then some more")

        assert msgspec.msgpack.encode(tracker)

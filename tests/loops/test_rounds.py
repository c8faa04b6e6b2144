import zlib

import msgspec
import pytest
from agent_steps import call, failing, matches, reported, restored_copy, run, says, shell, user
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.detectors.failing_loop import FailingLoop
from steadyhelm.events import RunInfo
from steadyhelm.loops.failure_memory import FailureMemory
from steadyhelm.loops.fresh_names import find_renamed, is_made_up
from steadyhelm.loops.rounds import RoundMemory
from steadyhelm.loops.steps import ToolStep
from steadyhelm.loops.undoing import sets_up, undoes


def fresh(place, chars=8):
    """A name that a machine made up, another one for each place."""
    return f"{zlib.crc32(f'{place} of many'.encode()):08x}"[:chars]


def rounds(make, times=6):
    """The steps of so many rounds, each made for its number."""
    return [step for number in range(times) for step in make(number)]


def found(*steps):
    """What is reported in these steps, by pattern and count."""
    seen = matches(FailureMemory(), run(*steps))
    return {(it.pattern, it.count) for it in seen.values() if it.pattern == "round" and it.score >= 0.5}


def machine(number, result="volume vol-9 is in another zone"):
    vm = f"i-{fresh(number)}"
    return [
        call("create_instance", {"type": "large"}, {"id": vm, "state": "pending"}),
        call("attach_volume", {"instance": vm, "volume": "vol-9"}, result),
        call("delete_instance", {"id": vm}, {"deleted": True}),
    ]


class TestTearingDown:
    def test_an_id_from_the_result(self):
        """
        A thing made, used in vain and deleted, with another id each round, goes in circles.
        """
        assert ("round", 3) in found(*rounds(machine))

    def test_by_the_fourth_round(self):
        """
        Four rounds are enough, and the report names the calls of one round.
        """
        seen = matches(FailureMemory(), run(*rounds(machine, 4)))

        assert "create_instance → attach_volume → delete_instance repeated 3 times" in seen[11].message

    def test_three_rounds_are_no_loop(self):
        """
        Three attempts may still be trying.
        """
        assert set() == found(*rounds(machine, 3))

    def test_a_name_of_the_agents_own(self):
        """
        A folder with a made-up name, set up and removed again, is no new thing each time.
        """

        def attempt(number):
            folder = f"/tmp/env_{fresh(number)}"
            return [
                shell(
                    f"python -m venv {folder} && {folder}/bin/pip install -r req.txt", "no torch==0.4 here"
                ),
                shell(f"rm -rf {folder}"),
            ]

        assert ("round", 3) in found(*rounds(attempt))

    def test_numbered_attempts(self):
        """
        Attempts that are counted in the name are attempts at one thing.
        """

        def attempt(number):
            name = f"fix-try-{number + 1}"
            return [
                shell(f"git switch -c {name}", "switched"),
                shell("make check", "commits must be signed"),
                shell(f"git switch main && git branch -D {name}", "deleted"),
            ]

        assert ("round", 3) in found(*rounds(attempt))

    def test_running_numbers_from_results(self):
        """
        A running number that a result brought is as fresh as a random one.
        """

        def hold(number):
            return [
                call("hold_seats", {"seats": ["F4"]}, {"hold": 5001 + number}),
                call("pay", {"hold": 5001 + number}, {"reason": "card expired"}),
                call("release", {"hold": 5001 + number}, "released"),
            ]

        assert ("round", 3) in found(*rounds(hold))

    def test_words_in_between(self):
        """
        What the model says between the calls makes no round another one.
        """
        steps = [it for step in rounds(machine) for it in (says("Let me see."), step)]

        assert found(*steps)

    def test_after_a_restart(self):
        """
        A memory put aside and taken up again goes on counting.
        """
        memory, trace = FailureMemory(), run(*rounds(machine, 5))
        whole = matches(FailureMemory(), trace)
        first = matches(memory, trace[:7])

        assert whole == first | matches(restored_copy(memory), trace[7:])


class TestHealthyRounds:
    def test_another_target_each_round(self):
        """
        A scratch folder for each of several archives is a batch.
        """

        def check(number):
            folder = f"/tmp/x_{fresh(number)}"
            return [
                shell(f"mkdir {folder} && tar xf backup_{number}.tar -C {folder}"),
                shell(f"test -f {folder}/index", "ok"),
                shell(f"rm -rf {folder}"),
            ]

        assert set() == found(*rounds(check))

    def test_targets_with_made_up_names(self):
        """
        Things that had their ids before are other things each time: nothing sets them up here.
        """

        def tidy(number):
            vm = f"i-{fresh(number)}"
            return [
                call("stop_instance", {"id": vm}, "stopped"),
                call("delete_instance", {"id": vm}, "deleted"),
            ]

        assert set() == found(*rounds(tidy))

    def test_a_target_in_a_round_of_its_own(self):
        """
        Each snapshot restored, checked and removed again is one item of a list.
        """

        def restore(number):
            vm = f"i-{fresh(number)}"
            return [
                call("restore_snapshot", {"snapshot": fresh(number + 100)}, {"id": vm}),
                call("check_disk", {"id": vm}, "clean"),
                call("delete_instance", {"id": vm}, "deleted"),
            ]

        assert set() == found(*rounds(restore))

    def test_fewer_failures_each_round(self):
        """
        A fresh environment for each test run is fine while fewer tests fail.
        """
        assert set() == found(*(it for n in range(6) for it in machine(n, f"{9 - n} of 40 tests fail")))

    def test_numbered_targets(self):
        """
        Orders named by their numbers are other orders.
        """

        def order(number):
            args = {"order": 5001 + number}
            return [
                call("create_label", args, "created"),
                call("cancel_label", args, "cancelled: no address"),
            ]

        assert set() == found(*rounds(order))

    def test_each_of_a_list(self):
        """
        Orders looked at and cancelled one after the other are a batch, though "order" is a verb too.
        """

        def order(number):
            name = f"ord_{fresh(number)}"
            return [
                call("get_order", {"id": name}, {"state": "late"}),
                call("cancel_order", {"id": name}, "ok"),
            ]

        def first(number):
            return [
                call("list_orders", {"limit": 1}, {"id": fresh(number), "state": "late"}),
                call("cancel_order", {"id": fresh(number)}, "cancelled"),
            ]

        assert set() == found(*rounds(order))
        assert set() == found(*rounds(first))

    def test_a_queue(self):
        """
        What takes the next item each time is given another item.
        """

        def item(number):
            job = fresh(number)
            return [
                call("next_job", {}, {"job": job}),
                call("run_job", {"job": job}, "could not reach the printer"),
                call("remove_job", {"job": job}, "removed"),
            ]

        assert set() == found(*rounds(item))

    def test_as_often_as_asked(self):
        """
        What the user asked to repeat may repeat.
        """
        asked = user(
            "Repeat the trial run in a new instance ten times: create_instance, attach, delete_instance."
        )

        assert set() == found(asked, *rounds(machine))

    def test_on_a_schedule(self):
        """
        A trial every hour in which nothing fails is a schedule.
        """
        steps = rounds(lambda number: machine(number, "mounted"))
        timed = [step | {"timestamp": 3600.0 * (place // 3)} for place, step in enumerate(steps)]

        assert set() == found(*timed)
        assert found(*steps)

    def test_after_the_user_spoke(self):
        """
        New words of the user begin the counting anew.
        """
        steps = rounds(machine, 6)

        assert set() == found(*steps[:9], user("I moved the volume, try again."), *steps[9:])

    def test_polling(self):
        """
        A look at a job that is still running, in a session of its own each time, is waiting.
        """

        def look(number):
            session = fresh(number)
            return [
                call("open_session", {}, {"session": session}),
                call("read_job", {"session": session}, "still running"),
                call("close_session", {"session": session}, "closed"),
            ]

        assert set() == found(*rounds(look))


class TestRefusals:
    def test_a_captcha(self):
        """
        A picture read wrong, and another picture offered, again and again goes in circles.
        """

        def guess(number):
            return [
                call("solve_captcha", {"image": f"cap_{fresh(number, 5)}.png"}, "text entered"),
                call(
                    "click",
                    "Continue",
                    f"The characters were wrong. New image cap_{fresh(number + 50, 5)}.png",
                ),
            ]

        assert found(*rounds(guess, 7))

    def test_a_code_by_message(self):
        """
        A code asked for and not accepted each time, all digits as codes are, goes in circles.
        """

        def code(number):
            word = f"{100000 + 71371 * number}"
            return [
                call("read_sms", {"since": f"10:0{number}"}, f"code {word}"),
                call(
                    "enter_code", {"code": word}, f"Code not valid. A new one was sent at 10:0{number + 1}."
                ),
            ]

        assert found(*rounds(code, 7))

    def test_a_token_of_a_form(self):
        """
        A form sent with a fresh token, and not saved each time, goes in circles.
        """

        def send(number):
            token = fresh(number) + "4f1c"
            return [
                call("form_token", {}, {"token": token}),
                call("save_address", {"token": token, "street": "Elm 4"}, {"saved": False}),
            ]

        assert found(*rounds(send))

    def test_each_of_many_refused(self):
        """
        Records that are each looked at and each found wanting are a batch.
        """

        def record(number):
            name = fresh(number)
            return [
                call("open_record", {"id": name}, "record open"),
                call("check_rules", {"id": name}, "not valid for a refund"),
            ]

        assert set() == found(*rounds(record))

    def test_accepted_in_the_end(self):
        """
        A fresh token for each form that is saved is how forms work.
        """

        def send(number):
            token = fresh(number) + "4f1c"
            return [
                call("form_token", {}, {"token": token}),
                call("save_address", {"token": token, "street": f"Elm {number}"}, {"saved": True}),
            ]

        assert set() == found(*rounds(send))


class TestFailingCommands:
    def test_one_command_with_fresh_names(self):
        """
        A command that fails alike is the same command, whatever made-up name is in it.
        """
        steps = [
            it
            for n in range(4)
            for it in (
                failing("Bash", {"command": f"make build OUT=/tmp/out_{fresh(n)}"}, "no rule to make target"),
                *[call("Write", {"file_path": f"f{n}{k}", "content": f"{n}{k}"}, "wrote") for k in range(12)],
            )
        ]

        assert [39] == reported(FailureMemory(), run(*steps))

    def test_overcome(self):
        """
        Once it has worked, failures are counted anew.
        """

        def build(number, error=None):
            args = {"command": f"make build OUT=/tmp/out_{fresh(number)}"}
            return failing("Bash", args, error) if error else call("Bash", args, "built")

        work = [call("Write", {"file_path": "f", "content": f"{k}"}, "wrote") for k in range(60)]
        steps = []
        for number in range(6):
            steps += [
                build(number, None if number == 3 else "no rule"),
                *work[number * 10 : number * 10 + 10],
            ]

        assert [] == reported(FailureMemory(), run(*steps))

    def test_other_tests(self):
        """
        Numbers that name other things stay: each test that fails is another.
        """
        steps = [
            it
            for n in range(4)
            for it in (
                failing("Bash", {"command": f"pytest -k test_{n}"}, "assert 1 == 2"),
                *[call("Write", {"file_path": f"f{n}{k}", "content": f"{n}{k}"}, "wrote") for k in range(12)],
            )
        ]

        assert [] == reported(FailureMemory(), run(*steps))


class TestKindsOfCalls:
    @pytest.mark.parametrize(
        "command",
        [
            "git branch -D fix",
            "git checkout -- .",
            "git stash",
            "docker rm -f w",
            "rm -rf /tmp/x",
            "conda env remove -n x",
        ],
    )
    def test_commands_that_undo(self, command):
        """
        A command that deletes something or gives up changes undoes.
        """
        assert undoes(ToolStep(run(shell(command))[0]))

    @pytest.mark.parametrize(
        "command", ["git add .", "git log -- file", "git switch -c fix", "get_release_notes"]
    )
    def test_commands_that_do_not(self, command):
        """
        A command that adds something, or looks at it, undoes nothing.
        """
        assert not undoes(ToolStep(run(shell(command))[0]))

    @pytest.mark.parametrize("tool", ["get_order", "cancel_order", "list_branch", "read_draft", "search"])
    def test_tools_that_set_nothing_up(self, tool):
        """
        A tool that looks at a thing or cancels it does not set it up.
        """
        assert not sets_up(ToolStep(run(call(tool, {"id": 1}, "ok"))[0]))

    def test_the_verb_in_an_argument(self):
        """
        The method of a request says what it does.
        """
        made, gone = (ToolStep(run(call("http", {"method": it}, "ok"))[0]) for it in ("POST", "DELETE"))

        assert (True, False, True) == (sets_up(made), undoes(made), undoes(gone))


class TestNames:
    @pytest.mark.parametrize("name", ["9704011a", "1cdd375a", "d40e7", "1715000123", "x7Kd92Lq"])
    def test_made_up(self, name):
        """
        Random letters and digits in turn, and seconds since 1970, are made up.
        """
        assert is_made_up(name)

    @pytest.mark.parametrize("name", ["5001", "test2", "a12", "b2024", "12a", "decade", "vol91", "ubuntu24"])
    def test_names_of_things(self, name):
        """
        A number, a word, and a word with a number may name something.
        """
        assert not is_made_up(name)

    @given(st.text(max_size=60), st.text(max_size=60))
    def test_nothing_differs_where_texts_are_equal(self, one, other):
        """
        Two texts differ in no name exactly where they are equal.
        """
        assert (one == other) == (find_renamed(one, other) == [])


def test_small_state():
    """
    Calls that never come again in this form leave no words in the saved state.
    """
    memory = RoundMemory()
    detector = FailingLoop()
    detector.begin(RunInfo(agent_id="coder", run_id="run"))
    trace = run(*[call("read", {"path": "a" * (20 * n)}, "x" * 480) for n in range(40)])
    for event in trace:
        detector._memory.observe(event)

    assert len(msgspec.msgpack.encode(detector._memory.rounds)) < 40 * 120
    assert not memory.steps

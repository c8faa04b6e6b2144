import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.errors import SettingsError
from steadyhelm.events import LLM_REQUEST, STATE_TRANSITION, TOOL_CALL, USER_MESSAGE, TraceEvent
from steadyhelm.goals.progress import Progress
from steadyhelm.goals.tree import GoalTree


def call(name, args=None, result="ok", **fields):
    return {
        "action_type": TOOL_CALL,
        "action_name": name,
        "input_data": args,
        "output_data": result,
        **fields,
    }


def edit(path, old, new):
    return call("Edit", {"file_path": path, "old_string": old, "new_string": new}, f"{path} was updated")


def write(path, content):
    return call("Write", {"file_path": path, "content": content}, f"wrote {path}")


def read(path, result):
    return call("Read", {"file_path": path}, result)


def shell(command, result="", **fields):
    return call("Bash", {"command": command}, result, **fields)


def todos(*statuses):
    listed = [{"content": f"item {place}", "status": status} for place, status in enumerate(statuses)]
    return call("TodoWrite", {"todos": listed})


def state(name, data=None):
    return {"action_type": STATE_TRANSITION, "action_name": name, "output_data": data}


def user(text):
    return {"action_type": USER_MESSAGE, "action_name": "user", "input_data": {"text": text}}


def event(fields, seq=0):
    return TraceEvent(agent_id="a", run_id="r", timestamp=float(seq), event_id=f"{seq}", seq=seq, **fields)


def deltas(progress, *steps):
    return [round(progress.observe(event(step, seq)), 3) for seq, step in enumerate(steps)]


def after(*steps):
    progress = Progress()
    deltas(progress, *steps)
    return progress


class TestPlans:
    @pytest.mark.parametrize(
        ("name", "listed_as", "named_as", "done", "not_done"),
        [
            ("TodoWrite", "todos", "content", "completed", "pending"),
            ("update_plan", "plan", "step", "completed", "in_progress"),
            ("write_todos", "todos", "description", "completed", "blocked"),
            ("task_tracker", "task_list", "title", "done", "todo"),
            ("write_plan", "items", "name", True, False),
        ],
    )
    def test_the_tools_of_coding_agents(self, name, listed_as, named_as, done, not_done):
        """
        The plan tools of the coding agents tell how many items are done, as data or as JSON.
        """
        listed = [{named_as: "a", "status": done}, {named_as: "b", "status": not_done}]
        values = [
            after(call(name, {"command": "plan", listed_as: items})).value
            for items in (listed, msgspec.json.encode(listed).decode())
        ]

        assert [0.5, 0.5] == values

    def test_where_it_comes_from(self):
        """
        It says that a plan tells it.
        """
        assert "plan" == after(todos("pending")).source

    def test_item_by_item(self):
        """
        Each item that is done is its share of the plan.
        """
        plan = [todos("pending", "pending"), todos("completed", "pending"), todos("completed", "completed")]

        assert [0.0, 0.5, 0.5] == deltas(Progress(), *plan)

    def test_one_task_at_a_time(self):
        """
        Tasks that are created and updated one by one are a plan too.
        """
        progress = Progress()
        made = deltas(
            progress,
            call("TaskCreate", {"subject": "a", "description": "d"}, "Task #1 created"),
            call("TaskCreate", {"subject": "b", "description": "d"}, {"text": "Task #2 created"}),
            call("TaskUpdate", {"taskId": "1", "status": "in_progress"}),
            call("TaskUpdate", {"taskId": "1", "status": "completed"}),
            call("TaskUpdate", {"taskId": "2", "status": "deleted"}),
        )

        assert ([0.0, 0.0, 0.0, 0.5, 0.0], 1.0) == (made, progress.value)

    def test_part_of_a_list(self):
        """
        A list that is merged changes the items it names.
        """
        first = {
            "merge": False,
            "todos": [{"id": "1", "status": "pending"}, {"id": "2", "status": "pending"}],
        }
        then = {"merge": True, "todos": [{"id": "2", "status": "completed"}]}

        assert [0.0, 0.5] == deltas(Progress(), call("todo_write", first), call("todo_write", then))

    def test_an_item_opened_again(self):
        """
        A task that has to be done again is a step back.
        """
        steps = [
            call("TaskUpdate", {"taskId": "1", "status": it}) for it in ("pending", "completed", "pending")
        ]

        assert [0.0, 1.0, -1.0] == deltas(Progress(), *steps)

    def test_another_plan(self):
        """
        A list written anew is neither progress nor its opposite.
        """
        progress = after(todos("completed", "pending"))

        assert ([0.0], 0.0) == (
            deltas(progress, call("TodoWrite", {"todos": [{"content": "x", "status": "pending"}]})),
            progress.value,
        )

    def test_what_is_given_up_is_left_out(self):
        """
        A cancelled item is none of the plan any more.
        """
        assert 1.0 == after(todos("completed", "cancelled")).value

    def test_work_moves_within_an_item(self):
        """
        Between two items, work shows; an item done is worth no more for it.
        """
        progress = Progress()
        made = deltas(progress, todos("pending", "pending"), write("a", "1"), todos("completed", "pending"))

        assert [0.0, 0.044, 0.456] == made
        assert 0.5 == progress.value

    @pytest.mark.parametrize(
        "step",
        [
            call("TodoWrite", {"todos": [{"content": "a", "status": "completed"}]}, None, error="refused"),
            call("Task", {"description": "explore", "prompt": "look", "subagent_type": "x"}),
            call("TaskList", {}),
            call("TodoWrite", {"todos": []}),
            call("TodoWrite", {"todos": [None, 7, {}, {"content": "a"}, {"status": "done"}, [[]]]}),
            call("TodoWrite", {"todos": "[" * 5000}),
            call("TodoWrite", "text"),
            call("ExitPlanMode", {"plan": "1. read\n2. fix"}),
            call("search", {"items": [{"content": "a", "status": "done"}]}),
        ],
    )
    def test_what_is_no_plan(self, step):
        """
        Calls that failed, that only look, or that hold no list of items tell nothing.
        """
        assert after(step).value is None


class TestWork:
    def test_a_file_changed(self):
        """
        A change moves it by a part of what is left.
        """
        progress = Progress()
        made = deltas(progress, edit("a", "x", "y"), write("b", "1"))

        assert ([0.089, 0.071], "work") == (made, progress.source)

    def test_the_same_again_is_none(self):
        """
        The same content written again changes nothing.
        """
        assert [0.089, 0.0, 0.0] == deltas(Progress(), *[write("a", "one")] * 3)

    def test_back_and_forth_is_none(self):
        """
        A change taken back, and made again, leads nowhere.
        """
        there, back = edit("a", "x", "y"), edit("a", "y", "x")

        assert [0.089, 0.0, 0.0, 0.0] == deltas(Progress(), there, back, there, back)

    def test_nothing_replaced_by_itself(self):
        """
        An edit whose new text is its old one is none.
        """
        assert after(edit("a", "x", "x")).value is None

    def test_what_failed_changed_nothing(self):
        """
        An edit that failed is none.
        """
        assert after(edit("a", "x", "y") | {"error": "no match"}).value is None

    def test_never_sure_without_a_plan(self):
        """
        Nobody knows how much is left: work alone never passes .8.
        """
        progress = after(*[write("a", str(number)) for number in range(5000)])

        assert 0.79 < progress.value < 0.8

    def test_the_caller_knows_the_kind(self):
        """
        A call of which the caller knows that it works counts, once.
        """
        progress = Progress()
        step = event(call("book_flight", {"to": "Oslo"}))

        assert [0.089, 0.0] == [round(progress.observe(step, kind="work"), 3) for _ in range(2)]

    def test_the_user_knows_the_kind(self):
        """
        So does one of which a user declared it.
        """
        assert 0.089 == round(after(call("book_flight", {"to": "Oslo"}, tool_kind="write")).value, 3)

    def test_reading_is_not_progress(self):
        """
        However much is read, nobody can say how far it is.
        """
        progress = after(*[read("a", f"text {number}") for number in range(50)])

        assert (None, False) == (progress.value, progress.is_known)

    def test_all_of_it_adds_up(self):
        """
        The answers together are the value.
        """
        progress = Progress()
        steps = [write("a", "1"), read("b", "new"), shell("pytest", "2 failed"), shell("pytest", "2 passed")]
        total = sum(progress.observe(event(step)) for step in steps)

        assert pytest.approx(progress.value) == total


class TestTests:
    def test_red_then_green(self):
        """
        Tests that failed before and pass now are progress.
        """
        made = deltas(Progress(), shell("pytest -q", "2 failed, 3 passed"), shell("pytest -q", "5 passed"))

        assert [0.0, 0.16] == made

    def test_fewer_failures(self):
        """
        Fewer failures than ever are progress, as many as before are none.
        """
        runs = [shell("npm test", f"Tests: {number} failed") for number in (5, 3, 3, 5, 3, 1)]

        assert [0, 1, 0, 0, 0, 1] == [made > 0.05 for made in deltas(Progress(), *runs)]

    def test_green_all_along(self):
        """
        Tests that always passed say nothing.
        """
        assert after(*[shell("go test ./...", "ok")] * 3).value is None

    def test_what_is_done_with_the_output(self):
        """
        The same tests with their output cut short are the same tests.
        """
        red = shell("cd app && cargo test 2>&1 | tail -40", "test result: FAILED. 1 passed; 2 failed;")
        green = shell("cd app && cargo test | head", "test result: ok")

        assert deltas(Progress(), red, green)[1] > 0.1

    def test_failed_without_a_number(self):
        """
        A run of tests that broke altogether is worse than any number of failures.
        """
        runs = [shell("make test", None, error="exit code 2"), shell("make test", "3 failed")]

        assert deltas(Progress(), *runs)[1] > 0.05

    def test_a_tool_for_tests(self):
        """
        A tool may be named for the tests it runs.
        """
        assert (
            deltas(Progress(), call("run_tests", {}, "1 failed"), call("run_tests", {}, "all fine"))[1] > 0.1
        )

    @pytest.mark.parametrize(
        "command",
        [
            *("npx jest", "yarn jest --ci", "pnpm exec vitest run", "npx mocha", "bundle exec rspec"),
            *(
                "npx playwright test",
                "deno test",
                "node --test",
                "bundle exec rake test",
                "npm run test:unit",
            ),
            *("./gradlew test", "go test ./...", "cargo nextest run", "php artisan test", "tox -e py311"),
        ],
    )
    def test_runners(self, command):
        """
        A test runner is recognised however it is started; fewer failures are progress.
        """
        made = deltas(Progress(), shell(command, "2 failed, 3 passed"), shell(command, "5 passed"))

        assert made[-1] > 0

    @pytest.mark.parametrize("command", ["cat latest.txt", "grep -r attest .", "ls tests", "echo contest"])
    def test_no_tests(self, command):
        """
        Not everything with the word in it runs tests.
        """
        assert after(shell(command, "1 failed"), shell(command, "fine")).value is None


class TestDeclared:
    @pytest.mark.parametrize("data", [{"value": 0.4}, {"progress": 0.4}, 0.4])
    def test_by_the_caller(self, data):
        """
        What the caller declares is the value, and its change the progress.
        """
        progress = Progress()

        assert ([0.4], 0.4, "declared") == (
            deltas(progress, state("progress", data)),
            progress.value,
            progress.source,
        )

    def test_wins_over_what_is_inferred(self):
        """
        Nothing that is inferred counts beside it, before or after.
        """
        made = deltas(
            Progress(), state("progress", {"value": 0.4}), write("a", "1"), todos("completed", "pending")
        )

        assert [0.4, 0.0, 0.0] == made

    def test_by_a_goal_tree(self):
        """
        A goal tree's progress is declared too.
        """
        progress, tree = Progress(), GoalTree("goal")
        tree.rebuild_from_plan("1. read\n2. fix")
        tree.complete("1")

        assert (0.5, 0.5) == (progress.declare(tree.progress), progress.value)

    @pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, math.inf, 10**400, True, "0.5", None, [0.5]])
    def test_what_is_no_share(self, value):
        """
        What is no share is passed over.
        """
        progress = Progress()

        assert ([0.0], None, 0.0) == (
            deltas(progress, state("progress", {"value": value})),
            progress.value,
            progress.declare(value),
        )

    def test_other_changes_of_state(self):
        """
        Other changes of state say nothing.
        """
        assert after(state("thinking", {"value": 0.4})).value is None


class TestBeingStuck:
    def test_nothing_new(self):
        """
        Eight steps that bring nothing are ordinary, sixteen are half stuck.
        """
        progress, scores = Progress(), []
        for step in [read("a", "same")] * 17:
            progress.observe(event(step))
            scores.append(round(progress.get_stuck_score(), 1))

        assert ([0.0] * 8, 0.5) == (scores[:8], scores[-1])
        assert 17 == progress.steps_since_change

    def test_news_count_against_it(self):
        """
        Steps that bring something never seen before count a quarter.
        """
        progress = after(*[read("a", f"text {number}") for number in range(30)])

        assert (0.0, 30) == (progress.get_stuck_score(), progress.steps_since_change)

    @pytest.mark.parametrize(
        "step",
        [
            write("new", "1"),
            user("try something else"),
            state("progress", {"value": 0.3}),
            todos("completed", "completed"),
        ],
    )
    def test_what_moves_it(self, step):
        """
        Work, a plan item, a user's new words or declared progress begin a new stretch.
        """
        progress = after(todos("completed", "pending"), *[read("a", "same")] * 40)
        before = progress.get_stuck_score()
        progress.observe(event(step))

        assert before > 0.5
        assert (0.0, 0) == (progress.get_stuck_score(), progress.steps_since_change)

    def test_a_harness_is_no_user(self):
        """
        The same message sent again opens nothing.
        """
        progress = after(user("go on"), *[read("a", "same"), user("go on")] * 40)

        assert progress.get_stuck_score() > 0.5

    def test_a_refused_call_is_never_progress(self):
        """
        A call that was refused is a step that led nowhere.
        """
        progress = Progress()
        made = deltas(progress, read("a", "x"), *[state("call_refused", {"value": 1.0})] * 20)

        assert (0.0, None) == (sum(made), progress.value)
        assert progress.get_stuck_score() > 0.5

    def test_waiting_is_neither(self):
        """
        Waiting is no step, so it is not being stuck.
        """
        progress = Progress()
        for _ in range(50):
            progress.observe(event(call("check_build", {}, "still running")), kind="wait")

        assert (None, 0) == (progress.get_stuck_score(), progress.steps_since_change)

    def test_writing_the_same_plan(self):
        """
        A plan that is written again and again as it was gets nobody on.
        """
        assert after(*[todos("pending", "pending")] * 40).get_stuck_score() > 0.5

    def test_unknown_before_the_first_call(self):
        """
        Before anything was done, nobody can say.
        """
        assert after(user("hello")).get_stuck_score() is None


class TestUsers:
    def test_a_finished_plan_is_finished(self):
        """
        When everything is done and the user asks for more, that is not known yet.
        """
        assert after(todos("completed", "completed"), user("and now the docs")).value is None

    def test_an_open_plan_goes_on(self):
        """
        A user's word in between does not end a plan.
        """
        assert 0.5 == after(todos("completed", "pending"), user("fine, go on")).value

    def test_declared_done(self):
        """
        What was declared done is done; what is asked next is unknown.
        """
        assert after(state("progress", {"value": 1.0}), user("and now the docs")).value is None


STEPS = st.sampled_from(
    [
        todos("pending", "pending"),
        todos("completed", "pending"),
        todos("completed", "completed"),
        call("TaskUpdate", {"taskId": "9", "status": "completed"}),
        call("TaskUpdate", {"taskId": "9", "status": "pending"}),
        write("a", "1"),
        write("a", "2"),
        edit("a", "1", "2"),
        edit("a", "2", "1"),
        read("a", "same"),
        shell("pytest", "3 failed"),
        shell("pytest", "3 passed"),
        shell("pytest", None, error="broken"),
        state("progress", {"value": 0.5}),
        state("progress", {"value": 1.0}),
        state("call_refused"),
        user("hm"),
        user("no"),
        {"action_type": LLM_REQUEST, "action_name": "model", "output_data": {"text": "hm"}},
    ]
)


class TestMemory:
    @given(st.lists(STEPS, max_size=40), st.integers(0, 40))
    def test_put_aside_anywhere(self, steps, cut):
        """
        Put aside after any event and taken up again, it goes on the same.
        """
        whole, parts = Progress(), Progress()
        for place, step in enumerate(steps):
            if place == cut:
                parts = msgspec.msgpack.decode(msgspec.msgpack.encode(parts), type=Progress)

            assert whole.observe(event(step, place)) == parts.observe(event(step, place))
        assert whole == parts

    @given(st.lists(STEPS, max_size=60))
    def test_always_a_share(self, steps):
        """
        Value and score are shares, and what is known has a source.
        """
        progress = Progress()
        for step in steps:
            progress.observe(event(step))

            assert 0.0 <= (progress.value or 0.0) <= 1.0
            assert 0.0 <= (progress.get_stuck_score() or 0.0) < 1.0
            assert progress.is_known == (progress.value is not None) == bool(progress.source)

    def test_bounded(self):
        """
        A run of ten thousand different steps leaves no more in memory than one of a thousand.
        """
        progress, sizes = Progress(), []
        for number in range(10_000):
            progress.observe(event(write(f"file {number}", f"{number}")))
            progress.observe(event(shell(f"pytest -k {number}", f"{number} failed")))
            progress.observe(event(call("TaskUpdate", {"taskId": number, "status": "completed"})))
            if number in {999, 9999}:
                sizes.append(len(msgspec.msgpack.encode(progress)))

        assert sizes[1] < 1.2 * sizes[0]
        assert sizes[1] < 8192

    def test_old_news_is_remembered(self):
        """
        A result seen three hundred results ago is no news, and few new ones are taken for old.
        """
        progress = Progress()
        new = [progress.results.add(event_key * 7_919_563 + 5) for event_key in range(300)]
        again = [progress.results.add(event_key * 7_919_563 + 5) for event_key in range(300)]

        assert (True, False) == (sum(new) > 270, any(again))

    @pytest.mark.parametrize("bad", [0, -1, True, 1.5])
    def test_patience(self, bad):
        """
        Patience is a number of steps.
        """
        with pytest.raises(SettingsError, match="patience must be 1 or more steps"):
            Progress(patience=bad)

    @pytest.mark.parametrize(
        "step",
        [
            call("Edit", {"file_path": "\ud800", "old_string": "\ud800", "new_string": "x" * 100_000}),
            call("Edit", {"file_path": 7, "new_string": ["x"]}),
            call("Bash", {"command": ["pytest", 7, None]}, {"a": 1}),
            call("Bash", {"command": "x" * 1_000_000}, object()),
            call("TaskUpdate", {"taskId": [1], "status": "done"}),
            call("TaskCreate", {"subject": "\ud800"}, 7),
            call("", None, math.nan),
            {"action_type": "else", "action_name": "x"},
        ],
    )
    def test_odd_events(self, step):
        """
        Whatever an event holds, it is taken.
        """
        progress = after(*[step] * 3)

        assert progress == msgspec.msgpack.decode(msgspec.msgpack.encode(progress), type=Progress)

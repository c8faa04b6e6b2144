import random

import pytest
from agent_steps import call, matches, reported, restored_copy, run, says, shell, user, write
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.detectors.stagnation import StagnationMemory
from steadyhelm.loops.lists_written import WrittenLists

ITEMS = ("Parse the table", "Map the columns", "Load into staging", "Compare the totals")


def seen(*steps):
    """The places at which a rewritten list or plan is reported."""
    patterns = {"rewritten list", "reworded plan"}
    found = matches(StagnationMemory(), run(*steps))
    return [place for place, it in found.items() if it.pattern in patterns and it.score >= 0.5]


def shuffled(number, items=ITEMS):
    """These items in an order of their own for each number; every other time in the usual order."""
    if number % 2 == 0:
        return list(items)
    return random.Random(number).sample(items, len(items))


def plan_file(number, items=ITEMS, name="PLAN.md"):
    lines = [f"{place}. {it}" for place, it in enumerate(items, 1)]
    return write(name, "\n".join([f"# Plan (v{number})", *lines]))


def todos(states, items=ITEMS):
    entries = [
        {"content": it, "status": state, "id": f"{place}"}
        for place, (it, state) in enumerate(zip(items, states, strict=True))
    ]
    return call("TodoWrite", {"todos": entries}, "Todos have been modified.")


def board(number, state="open"):
    cards = [{"title": it, "state": state} for it in shuffled(number)]
    return call("set_board", {"columns": [{"name": "todo", "cards": cards}]}, "Board updated.")


class TestRewritten:
    def test_a_version_in_the_text(self):
        """
        A plan written again with nothing but another version is a loop at the fourth.
        """
        assert [3, 4, 5] == seen(*(plan_file(n) for n in range(6)))

    def test_a_version_in_the_name(self):
        """
        Numbered drafts of one plan, all the same but for a word or an ending, are one plan.
        """
        ends = ("Risks: upload size.", "Risk: the upload size.")
        drafts = [plan_file(n, (*ITEMS, ends[n % 2]), f"plans/capture-v{n}.md") for n in range(6)]

        assert [3, 4, 5] == seen(*drafts)

    def test_another_order(self):
        """
        The same items in another order are the same list.
        """
        assert [3, 4, 5] == seen(*(plan_file(n, shuffled(n)) for n in range(6)))
        assert 5 in seen(*(board(n) for n in range(6)))
        assert 5 in seen(*(call("set_tasks", shuffled(n), "ok") for n in range(6)))

    def test_a_status_to_and_fro(self):
        """
        A status that goes to and fro, without any item becoming done, is nothing new.
        """
        begun, open_ = ["in_progress", *["pending"] * 3], ["pending"] * 4

        assert 7 in seen(*(todos(it) for it in [open_, begun] * 4))

    def test_undone_again(self):
        """
        An item done, reopened and done again is done only once.
        """
        done, open_ = ["done", *["pending"] * 3], ["pending"] * 4

        assert 7 in seen(*(todos(it) for it in [open_, done] * 4))

    def test_another_reason_each_time(self):
        """
        What only explains the writing makes it no other.
        """
        steps = [
            call(
                "update_plan",
                {"explanation": f"Refined, {n} changes", "plan": [{"step": it} for it in ITEMS]},
                "ok",
            )
            for n in range(5)
        ]

        assert [3, 4] == seen(*steps)

    def test_through_the_shell(self):
        """
        A plan written by a command is a plan too.
        """
        text = "\n".join(ITEMS)

        assert [3, 4] == seen(*(shell(f"cat > PLAN.md <<EOF\nPlan v{n}\n{text}\nEOF") for n in range(5)))

    def test_looked_at_in_between(self):
        """
        Reading the plan, and talking about it, is no work.
        """
        look = call("Read", {"file_path": "PLAN.md"}, "the plan")
        steps = [it for n in range(6) for it in (plan_file(n), look, says("Let me refine it."))]

        assert 9 in seen(*steps)

    def test_after_a_restart(self):
        """
        A memory put aside and taken up again goes on counting.
        """
        memory, trace = StagnationMemory(), run(*(plan_file(n) for n in range(5)))
        matches(memory, trace[:3])

        assert [3, 4] == reported(restored_copy(memory), trace[3:])


class TestHealthyLists:
    def test_items_become_done(self):
        """
        A list in which one item after the other becomes done makes progress, whatever was seen of it.
        """
        items = tuple(f"Check the {it} room" for it in ("red", "blue", "green", "white", "black", "grey"))
        states = [["done"] * n + ["in_progress"] * (n < 6) + ["pending"] * (5 - n) for n in range(7)]

        assert [] == seen(*(todos(it, items) for it in states))
        assert [] == seen(*(todos(it, items) for pair in zip(states, states, strict=True) for it in pair))

    def test_check_marks_in_a_file(self):
        """
        It is the same for marks in a text.
        """
        files = [
            "\n".join(f"- [{'x' if k < n else ' '}] {it}" for k, it in enumerate(ITEMS)) for n in range(5)
        ]

        assert [] == seen(*(write("TODO.md", it) for it in files))

    def test_between_work(self):
        """
        A list written again after each piece of work keeps track of it.
        """
        steps = [it for n in range(6) for it in (board(n), call("book_stand", {"fair": n}, f"no. {n}"))]

        assert [] == seen(*steps)

    def test_growing_drafts(self):
        """
        A draft that grows, and a change log with one more version, say something new each time.
        """
        drafts = [
            write(
                f"draft_{n}.md",
                "\n".join(f"Section on {it}" for it in ("tides", "wind", "salt", "ice", "sand")[:n]),
            )
            for n in range(1, 6)
        ]
        logs = [
            write("CHANGES.md", "\n".join(f"version {k}\nfixed the {word}" for k, word in enumerate(words)))
            for words in (
                ["door"],
                ["door", "roof"],
                ["door", "roof", "gate"],
                ["door", "roof", "gate", "well"],
            )
        ]

        assert [] == seen(*drafts, *logs)

    def test_one_list_in_many_places(self):
        """
        The same lines written to many places are a batch.
        """
        hosts = [
            write(f"host_{n}/resolv.conf", "search lan\nnameserver one\nnameserver two") for n in range(8)
        ]
        hosts += [write(f"api/v{n}/schema.txt", "type one\nname two") for n in range(8)]
        cups = [
            call("create_cup", {"name": f"Round {n}", "teams": ["Oslo", "Rome", "Graz"]}, "ok")
            for n in range(8)
        ]
        rows = [call("set_cells", {"row": n, "values": ["open", "closed", "open"]}, "ok") for n in range(8)]

        assert [] == seen(*hosts, *cups, *rows)

    def test_changed_items(self):
        """
        A plan of which an item is replaced each time is thought over.
        """
        words = ("ferry", "train", "bicycle", "plane", "coach", "car")

        assert [] == seen(*(plan_file(n, (*ITEMS[:3], f"Book the {it}")) for n, it in enumerate(words)))

    def test_after_criticism(self):
        """
        A writer that is told something else each time has something to answer.
        """
        told = ("shorten it", "name a date", "who reads it?", "add the costs", "it is fine")
        steps = [call("save_text", {"text": "\n".join(ITEMS)}, it) for it in told]

        assert [] == seen(*steps)

    def test_after_the_user_spoke(self):
        """
        What the user asks to be written again is asked for.
        """
        steps = [it for n in range(6) for it in (plan_file(n), user(f"Write it once more, number {n}."))]

        assert [] == seen(*steps)

    def test_a_text_to_several_people(self):
        """
        A text of several lines sent to one after another is a batch.
        """
        steps = [
            call("send_message", {"to": it, "text": "Dear guest,\nthe house opens at nine."}, "sent")
            for it in ("ada", "ben", "cleo", "dan", "eve")
        ]

        assert [] == seen(*steps)


@given(
    st.lists(
        st.one_of(
            st.integers(0, 5).map(plan_file),
            st.integers(0, 5).map(board),
            st.just(shell("ls", "a")),
            st.sampled_from(["x", 5, None, ["a", 1, None, {"b": [{}]}], {"c": {"d": ["e", ["f"]]}}]).map(
                lambda args: call("set_tasks", args, "ok")
            ),
        ),
        max_size=20,
    )
)
def test_bounded(steps):
    """
    Whatever is written, no more than the latest checksums are kept.
    """
    memory = StagnationMemory()
    matches(memory, run(*steps))

    assert max(len(memory.lists.written), len(memory.lists.ids)) <= 24
    assert len(memory.lists.states) <= 200


@pytest.mark.parametrize("tool", ["read_file", "search", "click"])
def test_other_tools(tool):
    """
    A tool that writes nothing leaves nothing in the memory.
    """
    memory = StagnationMemory()
    matches(memory, run(*(call(tool, {"lines": list(ITEMS), "n": n}, "ok") for n in range(5))))

    assert WrittenLists() == memory.lists


OUTLINES = (
    ("record shelf contents", "line it up with the order book", "put the report together"),
    ("list what is on the shelves", "cross-check orders", "prepare the report"),
    ("survey the shelf", "compare with orders", "compile the report"),
    ("take stock of the shelf", "match against the order list", "author the report"),
    ("go over the shelves", "check versus open orders", "write the report"),
    ("map the stock of the shelf", "hold it against the orders", "produce a report"),
    ("inventory the shelf", "reconcile with orders", "draft the report"),
)
OUTLINE_SHAPES = {
    "marks": ("todo_write", lambda items: {"todos": "\n".join(f"[ ] {it}" for it in items)}),
    "text": ("set_goal", lambda items: {"goal": ", ".join(items)}),
    "nested": ("update_plan", lambda items: {"plan": {"draft": {"steps": list(items)}}}),
}


class TestOutlinesInOtherWords:
    @pytest.mark.parametrize("shape", OUTLINE_SHAPES)
    def test_the_sixth_outline(self, shape):
        """
        The sixth outline of as many items, with nothing done in between, is a loop, however it is worded.
        """
        tool, build = OUTLINE_SHAPES[shape]
        steps = [call(tool, build(it), "ok") for it in OUTLINES]

        assert min(reported(StagnationMemory(), run(*steps)), default=9) <= 5

    @pytest.mark.parametrize("shape", OUTLINE_SHAPES)
    def test_work_between(self, shape):
        """
        Outlines with work in between follow that work.
        """
        tool, build = OUTLINE_SHAPES[shape]
        steps = [
            it
            for n, items in enumerate(OUTLINES)
            for it in (call(tool, build(items), "ok"), call("add_row", {"row": n}, "added"))
        ]

        assert [] == reported(StagnationMemory(), run(*steps))

    def test_other_tasks(self):
        """
        Tasks that are added one by one are no outline.
        """
        tasks = ("buy flour, yeast and salt", "mend the fence", "call Ida, ask for the key", "paint the gate",
                 "sweep, then wash the floor", "order coal", "feed the cat, the hens, the goat")  # fmt: skip

        assert [] == reported(
            StagnationMemory(), run(*(call("add_task", {"task": it}, "ok") for it in tasks))
        )

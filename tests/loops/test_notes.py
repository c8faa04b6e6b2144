"""Messages sent and notes saved once more."""

import pytest
from agent_steps import call, reported, restored_copy, run, user, write

from steadyhelm.detectors.stagnation import StagnationMemory

FACT = "The user prefers a window seat and vegan food."
GREETINGS = ("Hi", "Hello", "Good morning", "Dear", "Hey")
PREFIXES = ("FYI:", "Update:", "", "Note:", "Heads up:")


def seen(*steps):
    return reported(StagnationMemory(), run(*steps))


def mail(greeting, subject="Your refund", to="xenia@north.example", text="", **fields):
    body = f"{greeting} Xenia, {text or 'your refund of 49.90 EUR for order 8841 was approved.'} Kind regards"
    args = {"to": to, "subject": subject, "body": body, **fields}
    return call("send_email", args, {"status": "sent", "message_id": f"<77f0d45{len(greeting)}a7d@mail>"})


def saves(count=5):
    return {
        "rated": [
            call(
                "save_memory",
                {"content": FACT, "importance": 3 + n % 3},
                f"Saved. You now have {n + 26} memories.",
            )
            for n in range(count)
        ],
        "appended": [
            call("append_file", {"path": "notes.md", "text": f"- {FACT}\n"}, {"ok": True, "lines": 22 + n})
            for n in range(count)
        ],
        "nested": [
            call(
                "kb.upsert",
                {"record": {"topic": "travel", "fact": FACT, "tags": ["a", "b"][: n % 3]}},
                {"total": n},
            )
            for n in range(count)
        ],
        "as text": [call("remember", FACT, f"stored as mem_3fa2c{n}") for n in range(count)],
        "in other words": [
            call("remember", f"{it} the garage code is 4417", f"stored as mem_3fa2c{n}")
            for n, it in enumerate(
                ("User said that", "Note that", "Remember:", "Important:", "The user says")
            )
        ],
    }


class TestFacts:
    @pytest.mark.parametrize("how", saves())
    def test_the_fourth_time(self, how):
        """
        One sentence saved for the fourth time is a loop, whatever rates it and however many there are now.
        """
        assert {3} == set(seen(*saves()[how][:4]))

    def test_what_was_saved_is_looked_at(self):
        """
        A search of the memory in between is nothing new.
        """
        look = call("search_memory", {"query": "seat"}, "1 entry: window seat")
        assert [6] == seen(*(step for it in saves(4)["rated"] for step in (it, look)))

    def test_after_other_work(self):
        """
        What is noted after each piece of work is a record of it, and no loop.
        """
        log = [step for n, it in enumerate(saves(6)["appended"]) for step in (write(f"a{n}", "x"), it)]
        assert [] == seen(*log)

    @pytest.mark.parametrize(
        "args",
        [
            lambda n: {"row": n, "text": "Not applicable to this product"},
            lambda n: {"ticket": 5500 + n, "text": "Closed because it has not been active"},
            lambda n: {"path": f"src/part{n}.py", "text": "# Licensed under the terms in LICENSE"},
            lambda n: {"fact": f"Guest {n} prefers a window seat and vegan food"},
        ],
    )
    def test_other_places_and_facts(self, args):
        """
        One sentence put in another place each time, and facts about others in one frame, are a batch.
        """
        assert [] == seen(*(call("add_comment", args(n), "saved") for n in range(9)))


class TestMessages:
    @pytest.mark.parametrize(
        "steps",
        [
            [mail(it, f"Your refund{' is confirmed' * (n % 2)}") for n, it in enumerate(GREETINGS)],
            [
                call(
                    "post_update",
                    f"#ops {it} the backup of ledger-db ended at 02:14, size 81 GB",
                    f"ok ts={n}",
                )
                for n, it in enumerate(PREFIXES)
            ],
            [
                call(
                    "create_comment",
                    {"ticket": 5512, "text": f"{it} The router was shipped today."},
                    {"id": n},
                )
                for n, it in enumerate(
                    ("Thanks for waiting.", "Thank you for your patience.", "", "Hello!", "Hi.")
                )
            ],
            [
                call(
                    "sendEmail",
                    {"address": "kate@post.example", "subject": it, "body": "Hello, Kate!"},
                    "sent",
                )
                for it in GREETINGS
            ],
        ],
        ids=["mail", "channel", "ticket", "greeting"],
    )
    def test_the_same_to_one(self, steps):
        """
        A message that says the same to one recipient for the fourth time is a loop, whatever introduces it.
        """
        assert 3 == seen(*steps)[0]

    @pytest.mark.parametrize(
        "steps",
        [
            [mail("Hi", to=f"{it}@north.example") for it in ("xenia", "omar", "ida", "tom", "eva", "jan")],
            [
                mail("Hi", text=f"your order {8841 + n} was shipped to the address you gave.")
                for n in range(6)
            ],
            [mail("Hi", subject=f"Order {8841 + n}", text="your order was shipped.") for n in range(6)],
            [
                mail("Hi", text=f"the parcel from {it} reached our shop in the harbour today.")
                for it in ("Oslo", "Graz", "Turin", "Oslo", "Graz", "Turin", "Oslo", "Graz", "Turin")
            ],
            [
                mail("Hi", subject=f"Your {it}", text="it was shipped.")
                for it in ("lamp", "chair", "desk", "rug")
            ],
            [
                call(
                    "send_email",
                    {"to": "li@north.example", "body": f"您好 您订购的商品{it}已经从仓库发出"},
                    "sent",
                )
                for it in ("台灯", "椅子", "书桌", "地毯", "台灯", "椅子", "书桌", "地毯")
            ],
        ],
        ids=["many people", "numbers", "subjects", "names", "things", "other scripts"],
    )
    def test_different_facts(self, steps):
        """
        One text to several people, and other facts to one in the same frame, are no loop.
        """
        assert [] == seen(*steps)

    def test_after_an_answer(self):
        """
        A reminder after an answer, after the user's words, or after hours is no loop.
        """
        inbox = call("read_inbox", {}, "From Xenia: I shall look at it tomorrow.")
        assert [] == seen(*(step for it in GREETINGS for step in (mail(it), inbox)))
        assert [] == seen(
            *(step for n, it in enumerate(GREETINGS) for step in (mail(it), user(f"Send it {n}")))
        )
        hours = [{**mail(it), "timestamp": 1000.0 + 7200 * n} for n, it in enumerate(GREETINGS)]
        assert [] == seen(*hours)

    def test_what_the_user_asked_for(self):
        """
        A message that the user asked to be sent many times is no loop.
        """
        assert [] == seen(user("Send Xenia the same email 10 times"), *(mail("Hi") for _ in range(8)))

    def test_put_aside_it_goes_on_alike(self):
        """
        A memory that was saved and restored counts on.
        """
        memory, trace = StagnationMemory(), run(*(mail(it) for it in GREETINGS[:4]))
        assert [] == reported(memory, trace[:2])
        assert [3] == reported(restored_copy(memory), trace[2:])

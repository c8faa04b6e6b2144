"""What is one target in other spellings, places or pages, and what is another target each time."""

import json

import pytest
from agent_steps import call, edit, failing, names, reported, restored_copy, run, says, shell, user

from steadyhelm.detectors.repetitive_text import ReplyMemory
from steadyhelm.detectors.stagnation import StagnationMemory
from steadyhelm.loops.failure_memory import FailureMemory
from steadyhelm.loops.repetitions import RepetitionMemory

SPELLINGS = (
    "https://jobs.example/all",
    "https://jobs.example/all/",
    "http://jobs.example/all",
    "https://www.jobs.example/all#top",
    "jobs.example/all?ref=mail",
)
PAGE = json.dumps([{"id": n, "name": f"customer {n}", "state": "open"} for n in range(12)])
LEDGER = [f"entry {n}: {7 * n} crowns for {('oak', 'elm', 'fir')[n % 3]} boards" for n in range(400)]


def lines(first, last):
    return "\n".join(LEDGER[first:last])


def read(first, last):
    return call(
        "read_file", {"path": "ledger.txt", "offset": first, "limit": last - first}, lines(first, last)
    )


def asked(*steps):
    return reported(StagnationMemory(), run(*steps))


def repeated(*steps):
    return reported(RepetitionMemory(), run(*steps))


def said(*steps):
    return reported(ReplyMemory(), run(*steps))


class TestAddresses:
    def test_one_page_in_several_spellings(self):
        """
        A page that refuses each time, whatever the spelling of its address, is a loop at the fourth.
        """
        steps = [
            call("open_page", {"url": url}, f"Access denied. Reference {n}a3f{n}b7c21d")
            for n, url in enumerate(SPELLINGS)
        ]

        assert [3] == asked(*steps)

    def test_spellings_that_are_checked(self):
        """
        An address of which each spelling is found to work has been checked, and is no loop.
        """
        assert [] == asked(*(call("head", {"url": url}, "200 OK") for url in SPELLINGS))

    def test_pages_of_an_application(self):
        """
        What follows #/ names another page.
        """
        urls = [
            f"https://shop.example/#/{it}" for it in ("orders", "users", "stock", "prices", "staff", "tills")
        ]

        assert [] == asked(
            *(call("open_page", {"url": url}, "Please wait for the page to load.") for url in urls)
        )


class TestPages:
    @pytest.mark.parametrize("argument", ["page", "offset", "cursor", "pageToken"])
    def test_the_same_page_whatever_its_number(self, argument):
        """
        A rising page number that brings the same full page each time is a loop at the fourth.
        """
        steps = [call("list_orders", {"state": "open", argument: 20 * n}, PAGE) for n in range(6)]

        assert [3] == asked(*steps)

    def test_a_page_in_the_address(self):
        """
        The number may be a parameter of an address.
        """
        steps = [call("visit", {"url": f"https://a.example/news?page={n}&sort=new"}, PAGE) for n in range(6)]

        assert [3] == asked(*steps)

    def test_other_pages(self):
        """
        Pages that differ are read to the end.
        """
        steps = [
            call("list_orders", {"page": n}, PAGE.replace("customer", f"customer {n}/")) for n in range(25)
        ]

        assert [] == asked(*steps)

    def test_short_rows_of_other_records(self):
        """
        Equal short rows for other records are a batch.
        """
        row = '{"plan": "free", "seats": 1, "region": "eu"}'

        assert [] == asked(*(call("get_account", {"id": 40 + 7 * n}, row) for n in range(25)))

    def test_months(self):
        """
        Dates are no page numbers.
        """
        steps = [
            call(
                "report",
                {"start": f"2024-{n:02}-01", "end": f"2024-{n:02}-28"},
                "No sales in this period, no returns",
            )
            for n in range(1, 10)
        ]

        assert [] == asked(*steps)


class TestLinesReadAgain:
    def test_overlapping_ranges(self):
        """
        Ranges of a file whose lines were all read four times before are a loop.
        """
        ranges = ((0, 90), (9, 95), (0, 85), (19, 94), (4, 92), (6, 90))

        assert [4, 5] == asked(*(read(*it) for it in ranges))

    def test_ranges_of_a_command(self):
        """
        It is the same when a command reads them.
        """
        ranges = ((1, 80), (10, 90), (5, 85), (12, 88), (3, 70), (9, 90))
        steps = [
            shell(f"sed -n '{first},{last}p' data/ledger.txt", lines(first, last)) for first, last in ranges
        ]

        assert ["lines read again"] == names(StagnationMemory(), run(*steps))

    def test_one_part_after_another(self):
        """
        A file read part by part, and then its parts once more, one by one, is no loop.
        """
        parts = [(first, first + 40) for first in range(0, 400, 40)]

        assert [] == asked(*(read(*it) for it in parts + parts[:4]))

    def test_after_an_edit(self):
        """
        After a new edit the count begins anew.
        """
        steps = [
            step for n in range(6) for step in (edit("ledger.txt", f"v{n}", f"v{n + 1}"), read(n, 120 + n))
        ]

        assert [] == asked(*steps)

    def test_a_log_that_grows(self):
        """
        The last lines of a log that grows have news each time.
        """
        steps = [shell(f"tail -{60 + n} build.log", lines(5 * n, 5 * n + 60 + n)) for n in range(8)]

        assert [] == asked(*steps)

    def test_bounded_and_restored(self):
        """
        What is remembered of files is bounded, and survives being put aside.
        """
        memory = StagnationMemory()
        for event in run(*(call("read_file", {"path": f"{n}.txt"}, lines(n, n + 200)) for n in range(12))):
            memory.observe(event)
            memory = restored_copy(memory)

        assert len(memory.lines.files) <= 8
        assert all(len(it.lines) <= 512 for it in memory.lines.files.values())


class TestActionsOnOnePlace:
    def test_clicks_close_by(self):
        """
        Clicks a few pixels apart that show the same screen each time are a loop at the fourth.
        """
        steps = [
            call("tap", {"x": 640 + n, "y": 407 - n}, 'dialog "Allow?" with buttons No, Yes')
            for n in range(5)
        ]

        assert [3, 4] == repeated(*steps)

    def test_another_value_for_one_field(self):
        """
        A field that shows the same whatever value it is given is a loop at the fourth.
        """
        values = ("norway", "NO", "Norway", "NOR", "Norge")
        state = "Form: country = (none). Errors: country is required."
        steps = [call("select_option", {"label": "Country", "value": it}, state) for it in values]

        assert [3, 4] == repeated(*steps)

    @pytest.mark.parametrize("result", ["ok", "The value was set.", "Typed into the field successfully."])
    def test_an_acknowledgement(self, result):
        """
        An acknowledgement does not show what the action led to.
        """
        assert [] == repeated(*(call("set_dial", {"room": "hall", "value": n}, result) for n in range(9)))

    def test_cells_of_a_board(self):
        """
        Cells of a board are other targets, however close by.
        """
        shots = [call("shoot", {"x": n % 5, "y": n // 5}, "miss, water all around") for n in range(15)]

        assert [] == asked(*shots)

    def test_a_value_tried_between_runs(self):
        """
        What is looked at between two settings may depend on them.
        """
        steps = [
            step
            for n in range(8)
            for step in (
                call("set_level", {"name": "gain", "value": n}, "gain: pending restart of the amplifier"),
                call("measure", {"name": "noise"}, f"{17 * n} dB"),
            )
        ]

        assert [] == repeated(*steps)


class TestDeeds:
    def test_done_again(self):
        """
        The same deed done again is the same, whatever number it is given; a loop at the fourth.
        """
        ticket = {"project": "OPS", "title": "Printer on floor 3 is offline"}

        assert [3, 4] == repeated(
            *(call("create_ticket", ticket, f"Created OPS-{520 + n}") for n in range(5))
        )

    @pytest.mark.parametrize(
        ("name", "args", "answer"),
        [
            (
                "print",
                {"file": "pass.pdf", "copies": 1},
                '{{"job": {}, "state": "held", "reason": "queue paused"}}',
            ),
            ("trigger_build", "docs", "build #{}: not started, all runners are off"),
            ("place_order", {"sku": "P-20", "qty": 1}, "Order no. {} is on hold"),
            ("dispatch_courier", {"to": "Elm Street 4"}, '{{"shipment": {}, "accepted": true}}'),
            ("upload_report", {"file": "may.pdf"}, "stored as document {} in the inbox"),
            ("post_comment", {"issue": "A-5", "body": "Begun."}, '{{"comment": {}}}'),
        ],
    )
    @pytest.mark.parametrize("numbers", [range(300, 306), (417, 92, 731, 255, 608, 34)])
    def test_numbered(self, name, args, answer, numbers):
        """
        The number of a deed makes it no other deed, whether it rises or not.
        """
        assert [3, 4, 5] == repeated(*(call(name, args, answer.format(n)) for n in numbers))

    @pytest.mark.parametrize(
        "answer",
        [
            '{{"queued": true, "position": {}}}',
            "{} pages printed",
            "job 4: {} of 900 sent",
            '{{"balance": {}.50}}',
        ],
    )
    def test_what_is_counted_is_no_number_of_it(self, answer):
        """
        A count, a position, an amount and a share of a whole are news.
        """
        steps = [call("print", {"file": "pass.pdf"}, answer.format(n)) for n in (31, 28, 25, 21, 17, 9)]

        assert [] == repeated(*steps)

    def test_at_most_medium(self):
        """
        Since a second one may be wanted, it is never more than MED.
        """
        steps = run(
            *(
                call("post_comment", {"issue": "A-5", "body": "Begun."}, f"comment {9381 + n}")
                for n in range(20)
            )
        )
        memory = RepetitionMemory()
        scores = [found.score for event in steps if (found := memory.observe(event)) is not None]

        assert max(scores) < 0.7

    def test_several_of_a_kind(self):
        """
        Other tickets, and several machines of one kind, are wanted.
        """
        tickets = [
            call("create_ticket", {"title": f"Lamp {n} is broken"}, f"Created OPS-{520 + n}")
            for n in range(9)
        ]
        machines = [
            call("create_instance", {"type": "small-2"}, f"i-{700 + n} is starting") for n in range(9)
        ]

        assert [] == repeated(*tickets)
        assert [] == repeated(*machines)


class TestGuessedTools:
    def test_one_name_after_another(self):
        """
        Invented names of tools, with the same error each time, are a loop at the fourth.
        """
        tools = ("read_pdf", "pdf_reader", "open_pdf", "parse_pdf", "load_pdf")
        steps = [failing(it, {"path": "offer.pdf"}, f'Tool "{it}" not found') for it in tools]

        assert 3 == reported(FailureMemory(), run(*steps))[0]

    def test_an_answer_between(self):
        """
        A tool that answers in between ends it.
        """
        steps = [
            failing(it, {"city": "Graz"}, "Unknown tool") for it in ("weather", "get_weather", "forecast")
        ]
        steps.insert(2, call("search", {"q": "weather Graz"}, "Sunny, 21 degrees"))

        assert [] == reported(FailureMemory(), run(*steps))


class TestNotes:
    def test_one_note_in_other_words(self):
        """
        One note saved again at once in other words is a loop at the fourth.
        """
        facts = (
            "The gate code changed on Tuesday",
            "On Tuesday the gate code was changed",
            "Gate code: changed Tuesday",
            "The code of the gate changed on Tuesday",
        )

        assert [3] == asked(*(call("save_note", {"text": it}, "saved") for it in facts))

    def test_one_text_to_many(self):
        """
        The same words to one person after another are a batch.
        """
        guests = [f"{first} {last}" for first in ("Ida", "Tom", "Eva") for last in ("Voss", "Berg", "Lund")]
        text = "Thank you for your stay and your kind words."

        assert [] == asked(*(call("post_reply", {"guest": it, "text": text}, "posted") for it in guests))

    def test_notes_on_other_things(self):
        """
        Notes that each name another thing are no loop.
        """
        steps = [
            call("save_note", {"text": f"Meter {n} of the harbour reads {31 * n} litres"}, "saved")
            for n in range(9)
        ]

        assert [] == asked(*steps)


class TestUserAnswers:
    def test_the_same_answer_to_a_question_in_other_words(self):
        """
        A user who gives one answer for the fourth time has been asked one thing four times.
        """
        talk = (
            ("On which date would you like to travel?", "May 4."),
            ("What day do you want to fly?", "The 4th of May."),
            ("Please tell me your travel date.", "May 4, please."),
            ("When is your trip?", "As I said, May 4."),
        )

        assert [7] == said(*(step for asks, answer in talk for step in (says(asks), user(answer))))

    def test_through_a_tool(self):
        """
        It is the same when a tool asks.
        """
        questions = (
            "How many people come?",
            "What is the number of guests?",
            "For how many shall I book?",
            "How many are you?",
        )

        assert [3] == asked(*(call("ask_user", {"question": it}, "12 people") for it in questions))

    @pytest.mark.parametrize("answer", ["yes", "4", "never", "ok, go ahead"])
    def test_answers_that_fit_any_question(self, answer):
        """
        A user may answer many questions with yes, or with the same mark.
        """
        topics = ("swim", "read", "cook", "fly", "sing", "run")

        assert [] == said(
            *(step for it in topics for step in (says(f"How much do you {it} each week?"), user(answer)))
        )

    def test_one_question_about_another_thing(self):
        """
        A question that names another thing each time may have one answer.
        """
        topics = ("aspirin", "iron", "zinc", "calcium", "iodine")

        assert [] == said(
            *(step for it in topics for step in (says(f"How much {it} do you take?"), user("10 mg")))
        )

    def test_praise_before_the_next_question(self):
        """
        A sentence before another question each time is part of a reply that says something new.
        """
        words = ("harbour", "violin", "glacier", "orchard", "furnace", "ledger")
        steps = [
            step
            for it in words
            for step in (
                says("Correct! Here comes the next word."),
                says(f"Please spell the {it}."),
                user(it),
            )
        ]

        assert [] == said(*steps)


class TestPromises:
    def test_never_kept(self):
        """
        Four promises of one thing in a row, with nothing done, are a loop.
        """
        replies = (
            "Let me search for the flights now.",
            "I will start searching for the flights.",
            "Now let me search the flights.",
            "I am going to search for the flights.",
        )

        assert [3] == said(*map(says, replies))


class TestViews:
    def test_a_long_document_in_which_a_line_has_changed(self):
        """
        A long document in which each edit is to be seen has changed, wherever the line stands.
        """
        document = [f"paragraph {n} about harbours, written in May" for n in range(60)]
        steps = []
        for n in range(9):
            new = f"a new sentence on {('oak', 'elm', 'fir')[n % 3]} boards number {n}"
            document[20 + n] = new
            steps += [
                call("update_document", {"path": "docs/a.md", "line": 20 + n, "new": new}, "Edited."),
                call("open_document", {"path": "docs/a.md"}, "\n".join(document)),
            ]

        assert [] == repeated(*steps)

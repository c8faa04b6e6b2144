"""Results that come back, lists between their items, and actions after which nothing has changed."""

from agent_steps import call, edit, failing, names, reported, restored_copy, run

from steadyhelm.loops.repetitions import RepetitionMemory

MAILS = ("kettle", "anchor", "lantern", "saddle", "whistle", "teapot", "drum")
INBOX = "Mails: " + ", ".join(MAILS)
BANNER = "Portal: new terms, button Accept"


def repeated(*steps):
    return reported(RepetitionMemory(), run(*steps))


def found(*steps):
    return names(RepetitionMemory(), run(*steps))


def tap(result, x=540):
    return call("tap", {"x": x, "y": 1180}, result)


def look(result):
    return call("screenshot", {}, result)


class TestResultsThatComeBack:
    def test_a_switch_thrown_to_and_fro(self):
        """
        On off on off on off: each result is another one, and none is news after the first two.
        """
        steps = [tap(f"Panel Advanced is {('open', 'closed')[n % 2]}") for n in range(6)]

        assert [5] == repeated(*steps)
        assert ["cycle"] == found(*steps)

    def test_a_value_set_to_and_fro(self):
        """
        Set A, complaint 1, set B, complaint 2, and again: three rounds after the first changes are a loop,
        whatever `set` answers.
        """
        steps = [
            step
            for n in range(8)
            for step in (
                call("set_mode", {"room": "attic", "mode": ("heat", "auto")[n % 2]}, {"ok": True}),
                call("get_mode", {"room": "attic"}, ("warning: window open", "warning: schedule")[n % 2]),
            )
        ]

        assert 13 == repeated(*steps)[0]
        assert "cycle" == found(*steps)[0]

    def test_noise_in_results_that_come_back(self):
        """
        Two results in turn are two results, whatever the time in them.
        """
        steps = [tap(f"12:00:{10 + n} panel {('open', 'closed')[n % 2]}") for n in range(6)]

        assert [5] == repeated(*steps)

    def test_a_saved_memory_goes_on(self):
        """
        What was put aside in the middle knows the results before it.
        """
        steps = run(*(tap(f"Panel Advanced is {('open', 'closed')[n % 2]}") for n in range(6)))
        first = RepetitionMemory()
        for event in steps[:4]:
            first.observe(event)
        second = restored_copy(first)

        assert ["cycle"] == [
            it.pattern for event in steps[4:] if (it := second.observe(event)) and it.score > 0.4
        ]

    def test_a_look_at_what_goes_on_and_off(self):
        """
        One look with two results in turn needs a round more: what it looks at may change by itself.
        """
        steps = [call("read_lamp", {}, ("the lamp is on", "the lamp is off")[n % 2]) for n in range(8)]

        assert [7] == repeated(*steps)

    def test_a_reading_that_goes_up_and_down(self):
        """
        20.1 20.2 20.1 20.2: a measure that returns to an earlier value has not come back.
        """
        assert [] == repeated(*(call("read_oven", {}, f"oven at {20 + n % 2} degrees") for n in range(12)))

    def test_what_is_drawn(self):
        """
        Heads tails heads tails: each draw is another one.
        """
        assert [] == repeated(*(call("roll_coin", {}, ("heads", "tails")[n % 2]) for n in range(12)))

    def test_work_between(self):
        """
        A test that fails in two ways in turn, between new edits, follows the edits.
        """
        steps = [
            step
            for n in range(6)
            for step in (
                edit("till.py", f"v{n}", f"v{n + 1}"),
                failing("run_tests", {}, ("total is wrong", "tax is missing")[n % 2]),
            )
        ]

        assert [] == repeated(*steps)

    def test_a_third_result(self):
        """
        On off on off, then stuck: a new result is news, and the rounds begin anew.
        """
        states = ("on", "off", "on", "off", "stuck", "on", "off", "on", "off")

        assert [] == repeated(*(call("flip", {"switch": "hall"}, f"the lamp is {it}") for it in states))


class TestListsBetweenItems:
    def test_each_item_opened_from_its_list(self):
        """
        list, item 1, close, list, item 2, close: the list is where each item is opened.
        """
        steps = [
            step
            for n, name in enumerate(MAILS)
            for step in (
                call("open_inbox", {"folder": "bills"}, INBOX),
                call("open_mail", {"n": n + 1}, f"Invoice for {name}: {20 + n} crowns"),
                call("close_mail", {}, "closed"),
            )
        ]

        assert [] == repeated(*steps)

    def test_items_on_a_screen(self):
        """
        The screen shows its list again after each item, which the tap itself has shown.
        """
        steps = [
            step
            for n, name in enumerate(MAILS)
            for step in (
                look(INBOX),
                tap(f"Detail: {name}, price {211 + n}", x=150 + 90 * n),
                call("press_key", {"key": "BACK"}, INBOX),
            )
        ]

        assert [] == repeated(*steps)

    def test_the_same_check_for_each_host(self):
        """
        Upgrade host 1, check, upgrade host 2, check: what is done with each thing is no repetition.
        """
        steps = [
            step
            for host in MAILS
            for step in (
                call("upgrade", {"host": host}, "openssl is upgraded"),
                call("smoke_test", {}, "smoke test passed"),
            )
        ]

        assert [] == repeated(*steps)

    def test_a_look_for_errors_between_steps(self):
        """
        Whoever looks for errors behind each step, and finds none, looks how things stand.
        """
        steps = [
            step
            for name in MAILS
            for step in (call("lamp", {"name": name, "set": "off"}, "done"), call("home_errors", {}, []))
        ]

        assert [] == repeated(*steps)

    def test_the_same_steps_in_each_portal(self):
        """
        Log in, open the report, download, log out: each portal needs the same steps.
        """
        steps = [
            step
            for shop in MAILS
            for step in (
                call("enter", {"portal": shop}, "welcome"),
                call("look_up", {"report": "sales"}, "report shown"),
                call("download", {"format": "csv"}, "kept"),
                call("leave", {}, "bye"),
            )
        ]

        assert [] == repeated(*steps)

    def test_a_check_that_finds_nothing_between_other_looks(self):
        """
        Asked again between other looks, and nothing found each time: that is a repetition.
        """
        steps = [
            step
            for name in MAILS[:4]
            for step in (call("look_up", {"name": name}, f"{name}!"), call("find_hits", {}, "no hits"))
        ]

        assert [7] == repeated(*steps)

    def test_one_thing_seen_with_other_numbers(self):
        """
        A switch that is looked at after each try is one thing, however long ago it was seen.
        """
        steps = [
            step
            for seen_s in (12, 4, 31, 8, 25)
            for step in (
                call("device", {"id": "hall", "on": True}, "accepted"),
                call("device_state", {"id": "hall"}, {"on": False, "seen_s": seen_s}),
            )
        ]

        assert repeated(*steps)

    def test_a_list_between_things_it_does_not_name(self):
        """
        A page read again and again between pages it does not name is read again for nothing.
        """
        steps = [
            step
            for n in range(4)
            for step in (
                call("open_page", {"page": "rules"}, INBOX),
                call("open_page", {"page": f"x{n}"}, f"{n}!"),
            )
        ]

        assert [6] == repeated(*steps)

    def test_one_item_again_and_again(self):
        """
        The same item opened from its list each time is no progress in the list.
        """
        steps = [
            step
            for _ in range(4)
            for step in (
                call("open_inbox", {"folder": "bills"}, INBOX),
                call("open_mail", {"n": 1}, "Invoice for kettle: 20 crowns"),
            )
        ]

        assert [5, 6, 7] == repeated(*steps)


class TestHandles:
    def test_a_menu_whose_number_changes(self):
        """
        An element that is numbered anew at each look is known by its label.
        """
        steps = [
            call(
                "click_element", {"index": it, "label": "Products"}, f"[{it}] Products ({state}) | Catalogue"
            )
            for it, state in zip((40, 57, 32, 36, 51, 44), ("expanded", "collapsed") * 3, strict=True)
        ]

        assert ["cycle"] == found(*steps)

    def test_pages_that_lead_to_each_other(self):
        """
        Three pages visited in turn are a cycle, whatever the reference of the link.
        """
        pages = ("reset", "recover", "contact")
        steps = [
            call(
                "visit",
                {"page": pages[n % 3], "nav": {"ref": f"r{700 + 37 * n}"}},
                f"# {pages[n % 3]}: go on there",
            )
            for n in range(9)
        ]

        assert ["cycle"] == found(*steps)

    def test_a_session_made_up_for_each_request(self):
        """
        The same search in a new session each time is the same search.
        """
        steps = [
            call(
                "search_flights",
                {"from": "GRZ", "to": "OSL", "session": f"30514ad{n}aa"},
                {"session": f"d8c3add7{n}5", "offers": ["OS 317 for 212", "SK 844 for 240"]},
            )
            for n in range(3)
        ]

        assert [2] == repeated(*steps)

    def test_buttons_with_one_label(self):
        """
        One button in each row is another target each time, where the answer does not show which.
        """
        steps = [call("click", {"ref": f"e{n}", "element": "Delete"}, "clicked") for n in range(40, 48)]

        assert [] == repeated(*steps)

    def test_a_file_in_each_version(self):
        """
        A version is no handle: a file that is the same in several of them was looked at in each.
        """
        steps = [
            call("get_file", {"ref": f"v{n}", "path": "setup.cfg"}, "[metadata] name = till, licence = MIT")
            for n in range(8)
        ]

        assert [] == repeated(*steps)

    def test_an_address_that_is_never_cached(self):
        """
        A parameter against caches makes no other command of one that fetches an address.
        """
        steps = [
            call(
                "Bash",
                {"command": f"curl -s 'https://fx.example/latest?symbols=HUF&_=177028204{n}714'"},
                "HUF: null",
            )
            for n in range(3)
        ]

        assert [2] == repeated(*steps)


class TestActionsBetweenWaits:
    def test_what_a_wait_shows(self):
        """
        click, wait, the same page: at the fourth time the click has no effect.
        """
        steps = [
            step
            for _ in range(4)
            for step in (
                call("computer", {"action": "left_click", "x": 602, "y": 718}, "clicked"),
                call("computer", {"action": "wait", "seconds": 2}, BANNER),
            )
        ]

        assert ["no effect"] == found(*steps)
        assert [7] == repeated(*steps)

    def test_a_page_that_was_waited_for_in_vain(self):
        """
        Waits of other lengths, each with the same page behind it, are one wait.
        """
        blank = "Screen: blank, a spinner in the middle"
        waits = [call("wait", {"seconds": 20 + 5 * (n % 4)}, blank) for n in range(26)]
        steps = [{**it, "timestamp": 1000.0 + 30 * n} for n, it in enumerate(waits)]

        assert [24, 25] == repeated(*steps)

    def test_a_page_loaded_again_while_waiting(self):
        """
        Whoever loads a page again and waits is waiting for it.
        """
        steps = [
            step
            for _ in range(6)
            for step in (
                call("click", {"label": "Refresh"}, "clicked"),
                call("sleep", {"seconds": 30}, "Order 7: packed, button Refresh"),
            )
        ]

        assert [] == repeated(*steps)

    def test_a_page_that_says_wait(self):
        """
        A page that says that it is not ready yet is waited for.
        """
        steps = [
            step
            for _ in range(6)
            for step in (
                call("click", {"label": "Pay"}, "clicked"),
                call("sleep", {"seconds": 5}, "Your payment is pending, please wait"),
            )
        ]

        assert [] == repeated(*steps)

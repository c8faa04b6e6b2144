"""One document that is fetched again and again, by other tools, commands or arguments."""

import json

import pytest
from agent_steps import call, edit, reported, restored_copy, run, shell

from steadyhelm.detectors.stagnation import StagnationMemory

PAGE = (
    "# Ledger\n\nThe ledger keeps one row for each payment that was booked, with the account it came from.\n"
    "Rows are never changed: a booking is taken back by another one with the opposite amount."
)
ORDER = json.dumps({"order": "ORD-4417", "state": "held", "reason": "address check", "total": "84.10"})
FILE = "docs/ledger.md"
READS = (
    shell(f"cat {FILE}", PAGE),
    call("read_file", {"path": FILE}, PAGE),
    shell(f"head -n 300 {FILE}", PAGE),
    call("open_file", {"file_path": f"/repo/{FILE}", "limit": 2000}, {"content": PAGE}),
    shell(f"cd /repo && sed -n 1,300p {FILE}", PAGE),
)
LOOKUPS = (
    call("get_order", {"order_id": "ORD-4417"}, ORDER),
    call("find_orders", {"filter": {"id": "ORD-4417"}}, ORDER),
    call("query", {"sql": "select * from orders where id = 'ORD-4417'"}, ORDER),
    call("show_order", {"number": "ORD-4417", "expand": ["items"]}, ORDER),
    call("orders_lookup", "ORD-4417", ORDER),
)
ADDRESS = "https://www.harbour-museum.example/visit"
VISITS = (
    call("goto", {"url": ADDRESS}, PAGE),
    call("fetch_page", ADDRESS, PAGE),
    call("get_text", {"selector": "main"}, PAGE),
    call("web_fetch", {"url": ADDRESS, "prompt": "opening hours"}, PAGE),
    call("fetch_page", f"{ADDRESS}?print=1", PAGE),
    call("extract", {"goal": "opening hours", "url": ADDRESS}, PAGE),
)


def seen(*steps):
    return reported(StagnationMemory(), run(*steps))


class TestLoops:
    @pytest.mark.parametrize("steps", [READS, LOOKUPS], ids=["a file", "a record"])
    def test_the_fifth_time(self, steps):
        """
        A document that was fetched five times, in other ways with the same result, is a loop.
        """
        assert [4] == seen(*steps)

    def test_other_looks_between(self):
        """
        A call that names nothing is not counted, and what is looked at in between ends nothing.
        """
        aside = call(
            "get_weather", {"city": "Bergen"}, "rain over the whole coast until Friday evening at least"
        )
        assert [6] == seen(*VISITS[:3], aside, *VISITS[3:])

    def test_noise_does_not_hide_it(self):
        """
        How long each answer took does not make it another document.
        """
        steps = [{**it, "output_data": f"{ORDER} (took {place + 3} ms)"} for place, it in enumerate(LOOKUPS)]
        assert [4] == seen(*steps)

    def test_put_aside_it_goes_on_alike(self):
        """
        A memory that was saved and restored counts on.
        """
        memory, trace = StagnationMemory(), run(*READS)
        assert [] == reported(memory, trace[:3])
        assert [4] == reported(restored_copy(memory), trace[3:])


class TestHealthy:
    def test_records_that_are_equal(self):
        """
        Queries about other things whose rows are equal are no loop, whatever else they have in common.
        """
        row = '[{"plan": "basic", "country": "NO", "verified": true, "orders": 0, "open_invoices": 0}]'
        tools = ("get_customer", "find_customer", "customer_details", "lookup", "query")
        steps = [
            call(tool, {"customer": f"CUST-{8841 + place}", "table": "customers"}, row)
            for place, tool in enumerate(tools * 2)
        ]
        assert [] == seen(*steps)

    def test_one_question_about_one_file_after_the_other(self):
        """
        One file that is searched for something else each time is not fetched again.
        """
        words = ("load_rows", "parse_due", "book_fee", "find_late", "sum_open", "close_day")
        line = "src/ledger.py:12:from accounts import load_rows, parse_due, book_fee, find_late, sum_open"
        assert [] == seen(*(shell(f"grep -n {it} src/ledger.py", line) for it in words))

    def test_silent_commands(self):
        """
        Commands about one file that print nothing are no document, whatever the shell adds.
        """
        status = "[The command completed with exit code 0.]\n[Current working directory: /workspace/ledger]"
        checks = ("python -m py_compile", "flake8", "test -f", "file -q", "shellcheck", "yapf -d", "isort -c")
        assert [] == seen(*(shell(f"{it} src/ledger.py", status) for it in checks))

    def test_one_program(self):
        """
        The program that runs several scripts is no document.
        """
        steps = [
            shell(f"{how} {it}", PAGE) for how in ("python3", "/usr/bin/python3 -u") for it in ("a", "b", "c")
        ]
        assert [] == seen(*steps)

    def test_copies_of_one_file(self):
        """
        Equal files in other folders are other files.
        """
        folders = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")
        steps = [
            step
            for it in folders
            for step in (
                shell(f"cat packages/{it}/tsconfig.json", PAGE),
                call("read_file", {"path": f"packages/{it}/tsconfig.json"}, PAGE),
            )
        ]
        assert [] == seen(*steps)

    def test_parts_of_one_file(self):
        """
        Other parts of one file are other results.
        """
        steps = [
            call("read_file", {"path": FILE, "offset": place}, f"{PAGE}\nAnd then part {place} begins.")
            for place in range(8)
        ]
        assert [] == seen(*steps)

    def test_checks_of_one_file(self):
        """
        Checks by several tools that all find nothing are verdicts, and no document.
        """
        checks = ("ruff check", "mypy", "pylint", "pyright", "bandit", "vulture")
        verdict = "checked 1 source file in the folder src/accounts, with the default rules: no issues found"
        assert [] == seen(*(shell(f"{it} src/ledger.py", verdict) for it in checks))

    def test_read_again_after_an_edit(self):
        """
        A file that is read again after it was edited is no loop.
        """
        steps = [step for place, it in enumerate(READS) for step in (it, edit("a.py", str(place), "x"))]
        assert [] == seen(*steps)

    def test_a_list_between_its_items(self):
        """
        Two calls in turn are left to those who count cycles.
        """
        assert [] == seen(*(READS[:2] * 4))

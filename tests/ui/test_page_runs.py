"""The list of runs: filters, keys, search and a long list."""

import re
from contextlib import closing

import pytest
from playwright.sync_api import expect
from recorded_agents import FIXER, LOOP_GOAL, POLLER, watch


def test_a_run_shows_its_loop_and_its_response(visit):
    """
    A run that looped has its tool and count, the response that was given, and its figures with separators.
    """
    page = visit("/runs")
    row = page.get_by_role("row").filter(has_text=LOOP_GOAL)

    expect(row).to_contain_text(re.compile("str_replace_editor \N{MULTIPLICATION SIGN}[0-9]"))
    expect(row).to_contain_text("10,800")
    expect(row.locator(".badge-accent")).to_be_visible()


def test_chips_filter_the_list_and_are_in_the_address(visit, server):
    """
    A filter narrows the list at once; opening the same address shows the same list; clearing shows all.
    """
    page = visit("/runs")
    page.get_by_role("button", name="Agent", exact=True).click()
    page.get_by_label(POLLER).check()

    expect(page.get_by_role("row").filter(has_text=FIXER)).to_have_count(0)
    expect(page.get_by_role("row").filter(has_text=POLLER)).not_to_have_count(0)
    again = visit(page.url.partition("#")[2])
    expect(again.get_by_role("row").filter(has_text=FIXER)).to_have_count(0)
    again.get_by_role("button", name="Clear Agent").click()
    expect(again.get_by_role("row").filter(has_text=FIXER)).not_to_have_count(0)


def test_a_filter_without_results_can_be_cleared(visit):
    """
    Nothing matches: the page says so, and one click shows everything again.
    """
    page = visit("/runs?state=crashed&kind=style")
    expect(page.get_by_text("No run matches.")).to_be_visible()
    page.get_by_role("button", name="Clear filters").click()

    expect(page.get_by_role("row").filter(has_text=FIXER)).not_to_have_count(0)


def test_keys_move_and_open(visit):
    """
    `j` and `k` move the choice, Enter opens the run.
    """
    page = visit("/runs")
    page.locator(".run-row.openable").first.wait_for()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    chosen = page.locator(".row-selected a").get_attribute("href")
    assert chosen == page.locator(".run-list a").first.get_attribute("href")
    page.keyboard.press("Enter")

    expect(page).to_have_url(re.compile(re.escape(chosen)))


def test_the_search_finds_a_run_by_the_beginning_of_its_goal(visit):
    """
    `/` focuses the search; the first result opens with Enter.
    """
    page = visit("/")
    page.keyboard.press("/")
    page.keyboard.type("Message.loc")
    expect(page.get_by_role("option").first).to_contain_text(LOOP_GOAL)
    page.keyboard.press("Enter")

    expect(page).to_have_url(re.compile(r"#/runs/\d+"))


@pytest.fixture
def long_list(changing_server):
    """The address of the list of one agent's 160 runs."""
    with closing(watch("busy", changing_server.database, mode="observe")) as monitor:
        for number in range(160):
            with monitor.run(goal=f"Count to {number}") as run:
                run.record("tool_call", "count", input_data={"to": number})
    return f"/runs?agent={changing_server.find_agent('busy')}"


def test_a_long_list_loads_as_it_is_scrolled(visit, changing_server, long_list):
    """
    Older runs come in while scrolling, down to the first; only rows near the window are in the document.
    """
    page = visit(long_list, changing_server)
    rows = page.locator(".run-row.openable")
    foot = page.locator(".list-foot")
    most = 0
    while "no older runs" not in foot.inner_text():
        most = max(most, rows.count())
        page.keyboard.press("End")
        # Either older runs came in below, or there are none.
        page.wait_for_function(
            """() => document.documentElement.scrollHeight > scrollY + innerHeight + 1
              || document.querySelector(".list-foot").innerText.includes("no older runs")"""
        )
    page.keyboard.press("End")
    first_goal = page.get_by_text("Count to 0", exact=True)
    first_goal.scroll_into_view_if_needed()
    expect(first_goal).to_be_visible()
    assert 0 < most < 120

"""The overview: what needs somebody, and every agent."""

import re

from conftest import list_kept_colours
from playwright.sync_api import expect
from recorded_agents import FIXER, HOSTILE, POLLER


def test_the_overview_shows_what_was_recorded(visit):
    """
    Every agent has a row with its state in a word, and what needs somebody comes first.
    """
    page = visit("/")
    agents = page.get_by_role("table", name="Agents with their state")

    for name in (FIXER, POLLER, HOSTILE):
        expect(agents.get_by_role("row").filter(has_text=name)).to_be_visible()
    expect(agents.get_by_role("row").filter(has_text=POLLER)).to_contain_text("Drifting")
    expect(page.get_by_role("heading", name="Needs you")).to_be_visible()
    expect(page.locator(".need").filter(has_text=FIXER)).to_contain_text("Ended")
    expect(page.locator(".need").first).to_contain_text(
        "steps" if page.locator(".glyph-waiting").count() == 0 else POLLER
    )


def test_a_row_leads_to_its_agent(visit):
    """
    Keys choose an agent and Enter opens its page.
    """
    page = visit("/")
    page.locator("tr.openable").first.wait_for()
    page.keyboard.press("j")
    page.keyboard.press("Enter")

    expect(page).to_have_url(re.compile(r"#/agents/\d+$"))


def test_filters_of_agents_are_in_the_address(visit):
    """
    Choosing a state narrows the list, and the address can be sent to somebody.
    """
    page = visit("/agents")
    page.get_by_role("button", name="State").click()
    page.get_by_label("Silent").check()

    expect(page.get_by_text("No agent matches.")).to_be_visible()
    assert "state=silent" in page.url
    page.get_by_role("button", name="Clear filters").click()
    expect(page.get_by_role("row").filter(has_text=FIXER)).to_be_visible()


def test_figures_are_shown_for_today_7_and_30_days(visit):
    """
    A switch sums runs and spend over more days, names them, and is in the address.
    """
    page = visit("/")
    expect(page.get_by_role("radio", name="Today")).to_be_checked()
    expect(page.get_by_text("Runs today", exact=True).first).to_be_visible()
    page.get_by_role("radio", name="7 days").click()

    expect(page.get_by_text("Runs in 7 days", exact=True)).to_be_visible()
    expect(page.get_by_role("columnheader", name="Spend, 7 days")).to_be_visible()
    assert "days=7" in page.url
    page.get_by_role("radio", name="7 days").press("ArrowRight")
    expect(page.get_by_text("Responses in 30 days", exact=True)).to_be_visible()
    page.get_by_role("radio", name="Today").click()
    expect(page.get_by_role("columnheader", name="Spend today of budget")).to_be_visible()
    assert "days=" not in page.url


def test_the_drift_of_seven_days_has_a_table_view(visit):
    """
    The small charts can be read as numbers.
    """
    page = visit("/?view=table")

    expect(page.locator("td.a-drift").first).to_contain_text(re.compile(r"\d\.\d\d"))
    expect(page.locator("td.a-drift svg")).to_have_count(0)


def test_a_theme_switch_recolours_the_small_charts(visit):
    """
    Sparklines over their bands have the colours of the theme on screen.
    """
    page = visit("/")
    expect(page.locator("td.a-drift svg").first).to_be_visible()

    assert [] == list_kept_colours(page)


def test_an_empty_store_says_how_to_begin(empty_server, visit):
    """
    Without any run the page names the file that it reads, and the lines that it shows record a run.
    """
    page = visit("/", empty_server)
    expect(page.get_by_role("heading", name="No agent has reported yet")).to_be_visible()
    expect(page.locator(".first-steps code").first).to_contain_text("empty.db")
    lines = next(text for text in page.locator("pre").all_inner_texts() if "DriftMonitor" in text)

    class Agent:
        def invoke(self, goal):
            return search(goal)

    def search(query):
        return "nothing"

    program = lines.replace(
        'DriftMonitor("bug-fixer")', f"DriftMonitor('bug-fixer', db_path={str(empty_server.database)!r})"
    )
    names = {"search": search, "agent": Agent(), "goal": "find the cheapest flight"}
    exec(program, names)
    names["monitor"].close()

    expect(page.get_by_role("row").filter(has_text="bug-fixer")).to_be_visible()

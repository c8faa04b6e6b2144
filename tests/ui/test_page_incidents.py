"""The inbox: what people do with incidents, and that it can be undone."""

import re
import time
from contextlib import closing

import pytest
from playwright.sync_api import expect
from recorded_agents import start_poll, watch

from steadyhelm.stores import open_store


@pytest.fixture
def poller(request):
    """The name of an agent that only this test knows."""
    return f"poller of {request.node.name}"


@pytest.fixture
def inbox(visit, changing_server, poller):
    """The inbox, with the open group of this test's agent chosen."""
    with closing(watch(poller, changing_server.database)) as monitor:
        start_poll(monitor)
    page = visit("/incidents", changing_server)
    page.get_by_role("button").filter(has_text=poller).click()
    expect(page.get_by_role("button", name="Acknowledge", exact=True)).to_be_visible()
    return page


def find_group(page, poller, state="Open"):
    return page.get_by_role("list", name=f"{state} incidents").get_by_role("listitem").filter(has_text=poller)


def test_a_group_has_its_agent_steps_and_runs(inbox, poller):
    """
    Each group says whose it is, in which steps, and how often; its runs lead to those steps.
    """
    expect(find_group(inbox, poller)).to_contain_text(re.compile("steps [0-9]+\N{EN DASH}8"))
    link = inbox.get_by_role("table", name="Runs with this pattern").get_by_role("link").first
    assert re.search("from=[0-9]+&to=8", link.get_attribute("href"))


def test_a_false_alarm_shows_its_effect_and_can_be_undone(inbox, visit, changing_server):
    """
    Before it is saved, the page says what the change would have done; undo takes mark and change back.
    """
    address = inbox.url.partition("#")[2]
    inbox.keyboard.press("f")
    form = inbox.get_by_role("form", name="False alarm")
    expect(form.get_by_label("It polls")).to_be_checked()
    expect(form).to_contain_text("get_export")
    expect(form).to_contain_text("1 of 1 would not have been raised")
    expect(form.locator(".effect-silenced")).to_have_count(1)
    form.get_by_role("button", name="Save").click()
    expect(inbox.locator(".message")).to_contain_text("Marked as false alarm")
    after = visit(address, changing_server)
    expect(after.get_by_text("Marked as a false alarm")).to_be_visible()
    inbox.locator(".message").get_by_role("button", name="Undo").click()

    expect(inbox.locator(".message")).to_contain_text("Undone")
    expect(after.get_by_text("Marked as a false alarm")).to_have_count(0)


def test_the_days_are_a_table_and_enter_opens_the_run(inbox, poller):
    """
    `t` shows the bars of all groups in numbers, one column a day; Enter opens the newest run of the group.
    """
    inbox.keyboard.press("t")
    row = inbox.get_by_role("row").filter(has_text=poller)
    expect(row.get_by_role("cell")).to_have_text([re.compile("^get_export "), poller, *["0"] * 13, "1", "1"])
    inbox.keyboard.press("t")
    expect(find_group(inbox, poller)).to_have_count(1)
    inbox.keyboard.press("Enter")

    expect(inbox.get_by_role("heading", level=1)).to_contain_text("Fetch the export of warehouse 3")


def test_each_reason_says_what_it_changes(inbox, poller):
    """
    Every reason has what it would change beside it; the effect follows the chosen one, and cancelling changes
    nothing.
    """
    inbox.get_by_role("button", name="False alarm…").click()
    form = inbox.get_by_role("form", name="False alarm")
    expect(form.locator(".reason-change")).to_have_count(4)
    changes = form.locator(".reason-change").all_inner_texts()
    assert len(set(changes)) == 4
    assert changes[0] == "get_export is declared as poll for this agent."
    form.get_by_label("New kind of task").check()
    expect(form).to_contain_text("0 of 1 would not have been raised")
    form.get_by_role("button", name="Cancel").click()

    expect(form).to_have_count(0)
    expect(find_group(inbox, poller)).to_have_count(1)


def test_acknowledge_with_a_key_and_undo_with_a_key(inbox, poller):
    """
    `a` moves the group to its tab, `z` brings it back, also after the message is gone.
    """
    inbox.keyboard.press("a")
    expect(inbox.get_by_role("button", name="Undo", exact=True)).to_be_visible()
    expect(find_group(inbox, poller)).to_have_count(0)
    inbox.get_by_role("tab", name="Acknowledged").click()
    expect(find_group(inbox, poller, "Acknowledged")).to_have_count(1)
    inbox.keyboard.press("z")
    expect(find_group(inbox, poller, "Acknowledged")).to_have_count(0)
    inbox.get_by_role("tab", name="Open").click()

    expect(find_group(inbox, poller)).to_have_count(1)


def test_what_ended_stays_open_until_somebody_deals_with_it(visit, changing_server, poller):
    """
    Two runs are over: their group is open and says that it ended, and both leave and come back together.
    """
    with closing(watch(poller, changing_server.database)) as monitor:
        for _ in range(2):
            monitor.end_run(start_poll(monitor))
    page = visit("/incidents", changing_server)
    expect(find_group(page, poller)).to_contain_text("Ended")
    expect(find_group(page, poller).locator(".g-count")).to_have_text(re.compile("^2"))
    expect(find_group(page, poller).locator(".glyph-ended svg")).to_be_visible()
    find_group(page, poller).get_by_role("button").click()
    expect(page.get_by_role("region", name="The chosen group")).to_contain_text("Ended")
    page.keyboard.press("r")
    expect(page.locator(".message")).to_contain_text("Marked as right: 2 incidents.")
    expect(find_group(page, poller)).to_have_count(0)
    page.get_by_role("tab", name="Closed").click()
    expect(find_group(page, poller, "Closed")).to_have_count(1)
    page.keyboard.press("z")
    page.get_by_role("tab", name="Open").click()

    expect(find_group(page, poller).locator(".g-count")).to_have_text(re.compile("^2"))


def test_what_goes_on_is_drifting(inbox, poller):
    """
    While the run goes on, the group is drifting: in a word, and in another shape than what ended.
    """
    expect(find_group(inbox, poller)).to_contain_text("Drifting")
    expect(find_group(inbox, poller).locator(".glyph-drifting svg")).to_be_visible()
    expect(find_group(inbox, poller).locator(".glyph-ended")).to_have_count(0)


def test_an_empty_tab_says_what_would_be_there(visit, own_server):
    """
    Where nobody has anything to do, the tab says what it holds and for how long.
    """
    with closing(open_store(own_server.database)) as store:
        for incident in store.list_incidents():
            store.acknowledge(incident.incident_id, at=time.time())
    page = visit("/incidents", own_server)

    expect(page.get_by_role("tabpanel")).to_contain_text(
        "Nothing is open. Incidents that nobody has dealt with"
    )
    expect(page.get_by_role("tabpanel")).to_contain_text("14 days")


def test_a_mute_always_ends(inbox, poller):
    """
    Every choice of the menu says when it ends; the group moves to the muted ones.
    """
    inbox.keyboard.press("m")
    menu = inbox.get_by_role("group", name="Mute until")
    expect(menu.get_by_role("button")).to_have_count(5)
    for choice in menu.get_by_role("button").all():
        assert "until" in choice.inner_text() or "at most 14 days" in choice.inner_text()
    menu.get_by_role("button", name="8 hours").click()

    expect(find_group(inbox, poller)).to_have_count(0)
    inbox.get_by_role("tab", name="Muted").click()
    expect(find_group(inbox, poller, "Muted")).to_have_count(1)


def test_a_mark_counts_for_the_detector(inbox):
    """
    "Right" is counted under precision; below five marks there are too few to say a share.
    """
    inbox.keyboard.press("r")

    row = (
        inbox.get_by_role("table", name="Precision per detector")
        .get_by_role("row")
        .filter(has_text=re.compile("[1-4] right"))
    )
    expect(row).to_contain_text("too few marks")


def test_a_comment_is_kept(inbox, visit, changing_server):
    """
    A comment is shown with who wrote it, as text, also to the next visitor.
    """
    inbox.keyboard.press("c")
    inbox.keyboard.type("<b>The export</b> takes 5 minutes")
    inbox.get_by_role("button", name="Save comment").click()
    expect(inbox.locator(".comment")).to_contain_text("<b>The export</b> takes 5 minutes")

    again = visit(inbox.url.partition("#")[2], changing_server)
    expect(again.locator(".comment")).to_contain_text("takes 5 minutes")

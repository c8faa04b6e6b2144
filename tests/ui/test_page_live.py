"""Live updates: one stream for all tabs, pause, and a server that goes away."""

import re
import sqlite3
from contextlib import closing

import pytest
from conftest import open_run, start_server
from playwright.sync_api import expect
from recorded_agents import LOOP_GOAL, record_clean_run, watch


@pytest.fixture
def name(request):
    """The name of an agent that only this test knows."""
    return f"agent of {request.node.name}"


@pytest.fixture
def agent(changing_server, name):
    """An agent that records into the file that the server reads."""
    monitor = watch(name, changing_server.database, mode="observe")
    yield monitor
    monitor.close()


def is_live(page):
    expect(page.locator(".live-live")).to_have_text("Live")


def restart(served):
    """Start the server again at its old address; the page goes on."""
    port = int(served.url.rpartition(":")[2])
    served.process = start_server(served.home, served.database, port=port).process


def test_new_runs_wait_until_they_are_asked_for(visit, changing_server, agent, name):
    """
    A new run does not move the list; "Show 1 new run" brings it in.
    """
    page = visit("/runs", changing_server)
    page.locator(".run-row.openable").first.wait_for()
    record_clean_run(agent, 1)
    agent.flush()
    button = page.get_by_role("button", name="Show 1 new run")
    expect(button).to_be_visible()
    expect(page.get_by_role("row").filter(has_text=name)).to_have_count(0)
    button.click()

    expect(page.get_by_role("row").filter(has_text=name)).to_have_count(1)


def test_a_row_changes_in_place(visit, changing_server, agent):
    """
    A run on screen counts its steps while it goes on.
    """
    run = agent.start_run(goal="Count to three")
    agent.record_event("tool_call", "count", run_id=run, input_data={"n": 1})
    agent.flush()
    page = visit("/runs", changing_server)
    row = page.get_by_role("row").filter(has_text="Count to three")
    expect(row).to_contain_text("Running")
    expect(row.locator(".r-steps")).to_have_text(re.compile("^1"))
    for number in (2, 3):
        agent.record_event("tool_call", "count", run_id=run, input_data={"n": number})
    agent.flush()

    expect(row.locator(".r-steps")).to_have_text(re.compile("^3"))


def test_paused_changes_wait_and_are_counted(visit, changing_server, agent, name):
    """
    Paused, nothing changes and the top bar counts what waits; going on shows it.
    """
    page = visit("/", changing_server)
    page.keyboard.press("p")
    record_clean_run(agent, 1)
    agent.flush()
    expect(page.locator(".live")).to_contain_text(re.compile(r"Paused \(\d+ waiting\)"))
    expect(page.get_by_text(name)).to_have_count(0)
    page.keyboard.press("p")

    expect(page.get_by_role("row").filter(has_text=name)).to_be_visible()


def test_a_restart_loses_nothing(visit, own_server, problems):
    """
    While the server is away the page says so and keeps what it had; afterwards it shows what was missed.
    """
    problems.allow("Failed to load resource|ERR_")
    page = visit("/runs", own_server)
    page.locator(".run-row.openable").first.wait_for()
    rows = page.locator(".run-row.openable").count()
    own_server.stop()
    expect(page.locator(".live")).to_have_text("Reconnecting")
    with closing(watch("missed-agent", own_server.database)) as monitor:
        record_clean_run(monitor, 1)
    expect(page.locator(".run-row.openable")).to_have_count(rows)
    restart(own_server)
    is_live(page)

    shown = page.get_by_role("row").filter(has_text="missed-agent")
    expect(shown.or_(page.get_by_text("Show 1 new run")).first).to_be_visible()


def test_an_error_keeps_the_last_good_data(visit, own_server, problems):
    """
    A server that does not answer leaves the last data on screen, dimmed, with its age and a way to try again.
    """
    problems.allow("Failed to load resource|ERR_|dynamically imported|preload CSS")
    page = visit("/runs", own_server)
    page.locator(".run-row.openable").first.wait_for()
    own_server.stop()
    page.get_by_role("button", name="State").click()
    page.get_by_label("Ended").check()
    alert = page.get_by_role("alert").first
    expect(alert).to_contain_text("The server does not answer.")
    expect(alert).to_contain_text("Agents are not affected")
    expect(alert).to_contain_text("tried 3 times, next when the server is back")
    page.keyboard.press("Escape")
    page.evaluate("location.hash = '#/settings'")

    expect(page.get_by_role("alert").first).to_contain_text("The server does not answer.")
    expect(page.get_by_role("button", name="Try now").first).to_be_visible()


def test_a_page_has_its_shape_while_it_loads(visit, changing_server, problems):
    """
    Heads of figures and tables are there before the data, and go where loading failed.
    """
    problems.allow("404")
    page = visit("/runs", changing_server)
    held = []
    page.route("**/api/v1/incidents?*", lambda route: held.extend([route]))
    page.evaluate("location.hash = '#/incidents'")
    shape = page.locator("#groups [aria-busy=true]")
    expect(shape.locator("th").nth(1)).to_have_text("Pattern")
    wait_until(page, held).fulfill(status=404, json={"code": "not_found", "message": "Nothing is here."})

    expect(page.get_by_role("alert")).to_contain_text("Nothing is here.")
    expect(shape).to_have_count(0)


def test_a_run_that_cannot_be_refreshed_stays(visit, own_agent, changing_server, problems):
    """
    What went wrong is said above the last good data, which is dimmed, with its age, until it is loaded again.
    """
    problems.allow("404")
    page = open_run(visit, changing_server, own_agent)
    gone = {"code": "not_found", "message": "There is no such run."}
    page.route("**/api/v1/runs/*", lambda route: route.fulfill(status=404, json=gone))
    page.keyboard.press("r")
    expect(page.get_by_role("alert")).to_contain_text("There is no such run.")
    expect(page.get_by_text(re.compile("^as of [0-9:]{8}"))).to_be_visible()
    expect(page.locator(".stale h1")).to_have_text(LOOP_GOAL)
    page.unroute_all()
    page.get_by_role("button", name="Try now").click()

    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.locator(".stale")).to_have_count(0)


def test_eight_tabs_share_one_stream(open_context, changing_server):
    """
    A browser opens six connections to a host: eight tabs load only because they share the stream.
    """
    context = open_context(changing_server)
    pages = [context.new_page() for _ in range(8)]
    for page in pages:
        page.goto(f"{changing_server.url}/#/settings")
    for page in pages:
        is_live(page)
        expect(page.get_by_text("Open streams")).to_be_visible()
    pages[-1].reload()

    figure = pages[-1].locator(".figure").filter(has_text="Open streams")
    expect(figure).to_contain_text(re.compile(r"Open streams\s*1\D"))


def test_the_next_tab_takes_over_the_stream(open_context, changing_server, agent, name):
    """
    When the tab that reads the stream is closed, another goes on with it.
    """
    context = open_context(changing_server)
    first, second = context.new_page(), context.new_page()
    for page in (first, second):
        page.goto(f"{changing_server.url}/#/runs")
        is_live(page)
        page.locator(".run-row.openable").first.wait_for()
    first.close()
    record_clean_run(agent, 1)
    agent.flush()

    shown = second.get_by_role("row").filter(has_text=name)
    expect(shown.or_(second.get_by_text("Show 1 new run")).first).to_be_visible()


def hold_first(page, pattern):
    """Return the list that the first request of this kind is put into; it is answered when the test does."""
    held = []

    def hold(route):
        if held:
            route.continue_()
        else:
            held.append(route)

    page.route(pattern, hold)
    return held


def wait_until(page, held):
    while not held:
        page.wait_for_timeout(10)
    return held[0]


def test_a_change_before_the_stream_begins_is_not_missed(open_context, changing_server, agent, name):
    """
    What is on its way when the stream begins may be older than the stream: it is asked for again.

        overview   asked ---- read -------------- answered
        agent                       records
        stream     asked ------------------ begins
    """
    page = open_context(changing_server).new_page()
    overview = hold_first(page, "**/api/v1/overview")
    stream = hold_first(page, "**/api/v1/stream")
    page.goto(f"{changing_server.url}/#/")
    answer = wait_until(page, overview).fetch()
    record_clean_run(agent, 1)
    agent.flush()
    with page.expect_response("**/api/v1/stream"):
        wait_until(page, stream).continue_()
    overview[0].fulfill(response=answer)

    expect(page.get_by_role("row").filter(has_text=name)).to_be_visible()


def test_a_page_asks_once_for_what_has_not_changed(open_context, server):
    """
    The stream says up to which change it tells: an answer that has this change is not asked for again.
    """
    page = open_context(server).new_page()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{server.url}/#/runs/{server.find_run(server.runs['loop'])}")
    is_live(page)
    expect(page.locator(".steps-row.openable").first).to_contain_text("str_replace_editor")
    page.reload()
    is_live(page)
    asked = [url for url in asked if "/api/" in url]

    assert asked
    assert 2 == max(asked.count(url) for url in asked)


def test_a_run_that_begins_while_the_list_loads_is_not_missed(visit, changing_server, agent, name):
    """
    A change that comes before the list does is put into it: the new run waits as any other.
    """
    page = visit("/", changing_server)
    runs = hold_first(page, "**/api/v1/runs*")
    page.keyboard.press("g")
    page.keyboard.press("r")
    answer = wait_until(page, runs).fetch()
    with page.expect_response("**/api/v1/overview"):
        record_clean_run(agent, 1)
        agent.flush()
    runs[0].fulfill(response=answer)

    expect(page.get_by_role("button", name="Show 1 new run")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text=name)).to_have_count(0)


def test_a_reset_loads_everything_again_with_one_click(visit, own_server, problems):
    """
    When what happened in between is not known, the page says so; after the click it is live as before.
    """
    problems.allow("Failed to load resource|ERR_")
    page = visit("/runs", own_server)
    own_server.stop()
    with closing(watch("missed-agent", own_server.database)) as monitor:
        record_clean_run(monitor, 1)
    with closing(sqlite3.connect(own_server.database)) as connection, connection:
        connection.execute("DELETE FROM changes WHERE id < (SELECT max(id) FROM changes)")
    restart(own_server)
    page.get_by_role("button", name="Reset: load again").click()
    expect(page.get_by_role("row").filter(has_text="missed-agent")).to_be_visible()
    is_live(page)
    own_server.stop()
    expect(page.locator(".live")).to_have_text("Reconnecting")
    restart(own_server)

    is_live(page)

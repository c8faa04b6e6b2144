"""A run of 10,000 steps and a store of a million events, in a real browser."""

import re
import shutil
import sqlite3
from contextlib import closing

import pytest
from conftest import open_run, start_server
from playwright.sync_api import expect
from recorded_agents import FIXER, watch

DASH = "\N{EN DASH}"
LONG_RUN_STEPS = 10_000
COPIES = 99
# Six digits and more without separators, and not a part of an id.
BARE_NUMBER = re.compile(r"(?<![\w.,-])\d{6,}(?![\w-])")
MOST_BYTES = 200_000


@pytest.fixture(scope="session")
def long_run(tmp_path_factory):
    """A store with one run of 10,000 steps with a loop in its middle, and the run's id."""
    database = tmp_path_factory.mktemp("long") / "long.db"
    with (
        closing(watch(FIXER, database, mode="observe")) as monitor,
        monitor.run(goal="Move 10,000 rows") as run,
    ):
        for step in range(LONG_RUN_STEPS):
            looping = 6_000 <= step < 6_200
            tool = "move_row" if step % 3 or looping else "check_row"
            run.record(
                "tool_call", tool, input_data={"row": 0 if looping else step}, output_data={"ok": step}
            )
    return database, run.run_id


@pytest.fixture(scope="session")
def long_server(long_run):
    """A server over that store."""
    database, run_id = long_run
    served = start_server(database.parent / "home", database, runs={"long": run_id})
    yield served
    served.stop()


def copy_run(connection, copies):
    """Copy the only run of a store so many times, each a minute older; payloads are shared."""
    changes = {
        "id": "id + n",
        "run": "run + n",
        "run_id": "n || '-' || run_id",
        "epoch": "NULL",
        **{name: f"{name} - 60 * n" for name in ("started_at", "last_at", "ts")},
    }
    for table in ("runs", "run_tools", "run_marks", "scores", "events"):
        names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        connection.execute(
            f"""WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {copies})
            INSERT INTO {table} ({", ".join(names)})
            SELECT {", ".join(changes.get(name, name) for name in names)} FROM {table} CROSS JOIN numbers"""
        )
    connection.execute("UPDATE agents SET runs = runs + ?", (copies,))


@pytest.fixture
def large_server(long_run, tmp_path):
    """A server over a hundred runs of 10,000 steps."""
    database, run_id = long_run
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    copy = shutil.copy(database, tmp_path / "large.db")
    with closing(sqlite3.connect(copy)) as connection, connection:
        copy_run(connection, COPIES)
    served = start_server(tmp_path / "home", copy, runs={"long": run_id})
    yield served
    served.stop()


def test_ten_thousand_steps_are_columns_under_an_overview(visit, long_server):
    """
    The whole run is a few elements; a window brings single steps back.
    """
    page = open_run(visit, long_server, "long")
    expect(page.locator(".lanes-range")).to_have_text(f"1{DASH}10,000 of 10,000 steps")
    expect(page.get_by_test_id("step-columns")).to_be_visible()
    assert page.get_by_test_id("overview").locator(".overview-ground").get_attribute("height") == "44"
    assert page.locator("main *").count() < 2_500
    assert page.locator(".steps-row.openable").count() < 60
    steps = page.get_by_role("slider", name="Steps")
    steps.hover()
    expect(steps.locator(".tooltip")).to_have_text(
        re.compile(f"^Steps [0-9,]+{DASH}[0-9,]+: [0-9]+ calls, 0 failed")
    )
    key = re.search(r"/runs/(\d+)", page.url).group(1)
    page.goto(f"{long_server.url}/#/runs/{key}?zoom=6001-6040&step=6010")
    cells = page.locator("[data-lane=steps] [data-step]")
    expect(cells).to_have_count(40)
    expect(page.locator(".steps-row[aria-selected=true]")).to_contain_text("6,010")


def test_the_list_scrolls_to_any_step(visit, long_server):
    """
    Rows are virtual: scrolling to the end loads the first steps and keeps few rows.
    """
    page = open_run(visit, long_server, "long")
    expect(page.locator(".steps-row.openable").first).to_contain_text("10,000")
    page.locator(".steps-list").evaluate("list => { list.scrollTop = list.scrollHeight; }")
    expect(page.locator(".steps-row.openable").last).to_contain_text("check_row")
    assert page.locator(".steps-row.openable").count() < 60


def test_a_million_events_are_read_in_small_answers(visit, large_server):
    """
    Every page shows them, numbers have separators, and no answer has more than 200 kB.
    """
    page = visit("/runs", large_server)
    answers = []
    page.on("response", lambda response: answers.append((response.url, response)))
    expect(page.get_by_text("100 runs")).to_be_visible()
    agent, run = (large_server.find_agent(FIXER), large_server.find_run(large_server.runs["long"]))
    for path, words in {
        "/": FIXER,
        f"/runs/{run}": "of 10,000 steps",
        "/incidents": "Precision per detector",
        f"/agents/{agent}": "Against normal",
        "/settings": "1,000,000",
    }.items():
        page.goto(f"{large_server.url}/#{path}")
        expect(page.get_by_text(words).first).to_be_visible()
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        assert [] == BARE_NUMBER.findall(page.locator("main").inner_text())
    sizes = {url: len(it.body()) for url, it in answers if "/api/" in url and "/stream" not in url}

    assert sizes
    assert {} == {url: size for url, size in sizes.items() if size > MOST_BYTES}

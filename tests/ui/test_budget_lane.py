"""The budget lane of the run page: what is left, beside clean runs, and where it ends."""

import re
from contextlib import closing

import pytest
from conftest import list_grid, open_run
from playwright.sync_api import expect
from recorded_agents import watch

from steadyhelm import Budget

LANES = ("drift", "steps", "loops", "budget")


@pytest.fixture
def budgeted(changing_server):
    """A run that goes on, and has spent most of its tokens."""
    with closing(watch("spender", changing_server.database)) as monitor:
        run = monitor.start_run(goal="Write a report", budget=Budget(tokens=10_000, steps=100))
        for number in range(14):
            monitor.record_event(
                "llm_request",
                "model",
                run_id=run,
                output_data={"text": f"Part {number} is about {number}."},
                token_count=500,
            )
        monitor.flush()
        changing_server.runs["budgeted"] = run
        yield changing_server


def test_it_counts_down_with_a_forecast(visit, budgeted):
    """What is left, the reserve and where it ends while the run goes on; another budget by its name."""
    page = open_run(visit, budgeted, "budgeted")
    lane = page.locator("[data-lane=budget]")
    expect(lane.get_by_test_id("left-line")).to_be_visible()
    expect(lane.locator(".lane-legend")).to_contain_text("3,000 tokens left at 15")
    expect(lane).to_contain_text(re.compile(r"empty at about step \d+"))
    lane.get_by_role("radio", name="Tool calls").click()
    expect(lane.locator(".lane-legend")).to_contain_text(re.compile(r"\d+ tool calls left at 15"))
    assert "meter=steps" in page.url


def test_what_is_spent_is_a_share_of_the_limit_that_held_then(visit, changing_server):
    """A loop makes the limit fall; the steps before it keep theirs in the table, and a mark shows it."""
    with closing(watch("cut", changing_server.database, mode="observe")) as monitor:
        run = changing_server.runs["cut"] = monitor.start_run(goal="Mend", budget=Budget(tokens=10_000))
        for number in range(5):
            read = {"input_data": {"path": f"{number}.py"}, "output_data": {"text": f"{number}" * 9}}
            monitor.record_event("tool_call", "read_file", run_id=run, **read)
        for _ in range(9):
            failed = {"input_data": {"all": True}, "error": "1 failed", "token_count": 300}
            monitor.record_event("tool_call", "run_tests", run_id=run, **failed)
        monitor.end_run(run)
    page = open_run(visit, changing_server, "cut", "?view=table&charts=budget")
    lane = page.locator("[data-lane=budget]")
    rows = [row.split("\t")[1:4] for row in lane.locator("tbody tr").all_inner_texts()]
    assert rows[0] == ["10,000 tokens", "10,000 tokens", "0 %"]
    assert rows[-1][0] != rows[0][0]
    assert all(0 <= int(spent.removesuffix(" %")) <= 100 for _, _, spent in rows)
    lane.get_by_role("button", name="Show budget as a chart").click()
    expect(lane.locator(".extension").first).to_be_visible()


def test_a_step_has_the_same_x_in_four_lanes(visit, budgeted):
    """The grid of the budget stands below that of the others, to the tenth of a pixel."""
    page = open_run(visit, budgeted, "budgeted")
    expect(page.locator("[data-lane=budget] .grid-line").first).to_be_attached()
    grids = [list_grid(page, lane) for lane in LANES]
    assert len(grids[0]) > 1
    assert grids == [grids[0]] * len(LANES)


def test_a_run_without_limits_says_so(visit, server):
    """No lane is drawn where nothing limits the run."""
    page = open_run(visit, server, "clean")
    expect(page.locator("[data-lane=budget]")).to_contain_text("No limit is set for this run.")

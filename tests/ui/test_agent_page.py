"""The agent page in a real browser, over runs that the real SDK recorded."""

import re

import pytest
from conftest import NARROW, list_kept_colours
from playwright.sync_api import Page, expect
from recorded_agents import FIXER, HOSTILE

METRICS = 8


def open_agent(visit, served, name: str, query: str = "", **options) -> Page:
    """Open the page of an agent by its name and wait for its cards."""
    page = visit(f"/agents/{served.find_agent(name)}{query}", served, **options)
    expect(page.get_by_role("region", name="Baseline", exact=True)).to_be_visible()
    return page


class TestTransitions:
    def test_positions_stay_between_baseline_now_and_difference(self, visit, server):
        """Circles do not move when the side changes, so that the eye can compare."""
        page = open_agent(visit, server, FIXER)
        circles = page.locator(".node circle")
        expect(circles.first).to_be_visible()
        read = "all => all.map((circle) => [circle.getAttribute('cx'), circle.getAttribute('cy')])"
        places = circles.evaluate_all(read)
        for side in ("Baseline", "Now"):
            page.get_by_role("radio", name=side).click()
            assert circles.evaluate_all(read) == places
        assert "side=now" in page.url

    def test_the_graph_is_one_tab_stop_that_says_each_edge(self, visit, server):
        """Arrow keys go from edge to edge and announce what follows what."""
        page = open_agent(visit, server, FIXER)
        graph = page.get_by_role("slider", name="Transitions")
        graph.focus()
        page.keyboard.press("ArrowRight")
        expect(graph).to_have_attribute("aria-valuenow", "2")
        expect(graph).to_have_attribute("aria-valuetext", re.compile(r" after .+: "))

    def test_the_matrix_and_the_table_have_the_same_numbers(self, visit, server):
        """Rows are actions, columns what follows them; the table lists every transition."""
        page = open_agent(visit, server, FIXER, "?form=matrix&side=now")
        matrix = page.locator(".transition-matrix")
        expect(matrix.locator("tbody tr").first).to_be_visible()
        filled = [text for text in matrix.locator("td").all_inner_texts() if text]
        page.get_by_role("button", name="Show transitions as a table").click()
        rows = page.locator("[data-lane=transitions] tbody tr")
        expect(rows).to_have_count(len(filled))


class TestBaseline:
    def test_freezing_is_said_and_undone(self, own_agent, changing_server, visit):
        """Freeze stops learning; z lets it learn again."""
        page = open_agent(visit, changing_server, own_agent)
        card = page.get_by_role("region", name="Baseline", exact=True)
        expect(card).to_contain_text("Calibrated")
        card.get_by_role("button", name="Freeze").click()
        expect(card).to_contain_text("Frozen")
        expect(page.get_by_role("button", name="Undo", exact=True)).to_be_visible()
        page.keyboard.press("z")
        expect(card).to_contain_text("Calibrated")

    def test_a_reset_asks_once_and_names_what_is_lost(self, own_agent, changing_server, visit):
        """Cancel changes nothing; the second question is answered with the baseline's name in it."""
        page = open_agent(visit, changing_server, own_agent)
        card = page.get_by_role("region", name="Baseline", exact=True)
        card.get_by_role("button", name="Reset…").click()
        dialog = page.get_by_role("dialog", name="Reset the baseline")
        expect(dialog).to_contain_text(f"Reset the baseline of {own_agent} v14")
        dialog.get_by_role("button", name="Cancel").click()
        expect(card).to_contain_text("Calibrated")
        card.get_by_role("button", name="Reset…").click()
        dialog.get_by_role("button", name="Reset baseline").click()
        expect(card).not_to_contain_text("Calibrated")

    def test_a_run_is_excluded_and_taken_in_again(self, own_agent, changing_server, visit):
        """The run's page says that it is left out, until it is undone."""
        page = open_agent(visit, changing_server, own_agent)
        page.get_by_role("button", name="Exclude a run…").click()
        page.get_by_role("group", name="Exclude a run").get_by_role("button").first.click()
        message = page.locator(".message")
        expect(message).to_be_visible()
        message.get_by_role("button", name="Undo").click()
        expect(page.locator(".message")).to_contain_text("Undone")


class TestDeclarations:
    def test_a_tool_is_declared_after_its_effect_was_shown(self, own_agent, changing_server, visit):
        """Who declared it stands beside it; undo takes it back."""
        page = open_agent(visit, changing_server, own_agent)
        card = page.get_by_role("region", name="Tool declarations")
        expect(card).to_contain_text("No tool is declared")
        card.get_by_role("button", name="Declare a tool").click()
        card.get_by_role("combobox", name="Tool").select_option("str_replace_editor")
        form = page.get_by_role("form", name="Declare a tool")
        expect(form).to_contain_text("str_replace_editor")
        expect(form).to_contain_text("Effect on the last")
        form.get_by_role("button", name="Save").click()
        expect(card.get_by_role("listitem")).to_contain_text("poll")
        expect(page.get_by_role("button", name="Undo", exact=True)).to_be_visible()
        page.keyboard.press("z")
        expect(card).to_contain_text("No tool is declared")


class TestMetrics:
    def test_each_metric_stands_beside_what_is_normal(self, visit, server):
        """Eight charts with a number, its normal range and a mark per run."""
        page = open_agent(visit, server, FIXER)
        cells = page.locator(".metric-cell")
        expect(cells).to_have_count(METRICS)
        expect(cells.first).to_contain_text("normal")
        steps = page.get_by_role("slider", name="Steps", exact=True)
        steps.focus()
        page.keyboard.press("Home")
        expect(steps).to_have_attribute("aria-valuetext", re.compile(r"^Run .+: 5"))
        page.keyboard.press("Enter")
        expect(page.locator("[data-lane=drift]")).to_be_visible()

    def test_the_pointer_names_a_run_and_opens_it(self, visit, server):
        """A mark under the pointer says which run it is and its number; a click leads to that run."""
        page = open_agent(visit, server, FIXER)
        chart = page.get_by_role("slider", name="Tokens", exact=True)
        chart.hover(position={"x": 8, "y": 40})
        expect(chart.locator(".tooltip")).to_have_text(re.compile("^Run .+: 1,600, outside normal 1,60"))
        chart.click(position={"x": 8, "y": 40})
        expect(page.get_by_role("heading", level=1)).to_have_text("Fix the title of page 0")

    def test_every_chart_has_a_table(self, visit, server):
        """`view=table` shows transitions, days and metrics as numbers."""
        page = open_agent(visit, server, FIXER, "?view=table")
        tables = page.get_by_role("region", name=re.compile("as a table$"))
        expect(tables).to_have_count(3)


class TestLooks:
    def test_a_theme_switch_recolours_open_charts(self, visit, server):
        """Graph, bars and marks take the colours of the theme on screen without being drawn again."""
        page = open_agent(visit, server, FIXER)
        expect(page.locator(".run-inside").first).to_be_visible()
        expect(page.locator(".node circle").first).to_be_visible()
        assert [] == list_kept_colours(page)

    def test_at_390_px_the_graph_is_a_list_and_nothing_overflows(self, visit, server):
        """Changed transitions in rows, metrics below each other, no sideways scroll of the page."""
        page = open_agent(visit, server, FIXER, "?side=now", viewport=NARROW)
        expect(page.locator(".changed-list li").first).to_be_visible()
        expect(page.locator(".metric-cell")).to_have_count(METRICS)
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]

    def test_a_hostile_name_is_text(self, visit, server):
        """An agent, a version and tools that are markup are shown as they were written."""
        page = open_agent(visit, server, HOSTILE)
        expect(page.get_by_role("heading", level=1)).to_contain_text(HOSTILE)
        expect(page.locator(".page-head")).to_contain_text("<i>1</i>")
        assert page.locator("main img, main script").count() == 0

    @pytest.mark.parametrize("query", ["", "?form=matrix", "?view=table"])
    def test_axe_finds_nothing(self, visit, server, list_axe_violations, query):
        """Charts, forms and tables are usable with assistive technology in both themes."""
        page = open_agent(visit, server, FIXER, query)
        expect(page.locator("[data-lane=metrics] h2")).to_be_visible()
        assert [] == list_axe_violations(page, "light", "dark")

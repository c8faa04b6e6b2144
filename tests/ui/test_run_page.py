"""The run page in a real browser, over runs that the real SDK recorded."""

import re
from contextlib import closing

import pytest
from conftest import NARROW, list_grid, list_kept_colours, open_run
from playwright.sync_api import Page, expect
from recorded_agents import HOSTILE_GOAL, LOOP_GOAL, watch

DASH = "\N{EN DASH}"
CROSS = "\N{MULTIPLICATION SIGN}"
LANES = ("drift", "steps", "loops", "budget")
LOOP_STEPS = 19


def plot_of(page: Page, lane: str):
    return page.locator(f"[data-lane={lane}] svg[data-gesture]")


def middle_of(locator) -> float:
    return locator.evaluate("e => { const b = e.getBoundingClientRect(); return b.left + b.width / 2; }")


class TestLanes:
    def test_the_drift_line_spans_all_steps(self, visit, server):
        """The line starts at step 1 and ends at the last step, whatever was found and where."""
        page = open_run(visit, server, "loop")
        cells = page.locator("[data-lane=steps] [data-step]")
        expect(cells).to_have_count(LOOP_STEPS)
        left, right = page.get_by_test_id("score-line").evaluate(
            """path => {
              const { x, width } = path.getBBox();
              const from = path.ownerSVGElement.getBoundingClientRect().left;
              return [from + x, from + x + width];
            }"""
        )
        assert abs(left - middle_of(cells.first)) < 1
        assert right >= middle_of(cells.last)

    def test_the_lanes_are_asked_for_before_the_session_is_known(self, open_context, server):
        """Head and lanes are loaded while the server says who is signed in, not after it."""
        page = open_context(server).new_page()
        held = []
        page.route("**/api/v1/session", lambda route: held.extend([route]))
        with page.expect_request("**/api/v1/runs/*/series*"):
            page.goto(f"{server.url}/#/runs/{server.find_run(server.runs['loop'])}")
        expect(page.locator("[data-lane=drift]")).to_have_count(0)
        held.pop().continue_()
        expect(page.locator("[data-lane=drift]")).to_be_visible()

    def test_a_step_has_the_same_x_in_every_lane(self, visit, server):
        """Grid lines, cursor and the mark of a step stand above each other to the pixel."""
        page = open_run(visit, server, "loop", "?step=10")
        grids = [list_grid(page, lane) for lane in ("drift", "steps", "loops")]
        assert grids[0]
        assert grids[0] == grids[1] == grids[2]
        cell = middle_of(page.locator("[data-lane=steps] [data-step='10']"))
        assert abs(middle_of(page.get_by_test_id("cursor")) - cell) <= 1
        assert abs(middle_of(page.get_by_test_id("cursor-overview")) - cell) <= 1

    def test_the_pointer_moves_one_cursor_through_all_lanes(self, visit, server):
        """Heads show the values at the cursor; without a pointer they show the last step again."""
        page = open_run(visit, server, "loop")
        drift = page.locator("[data-lane=drift] .lane-legend")
        expect(drift).to_contain_text(f"at {LOOP_STEPS}")
        box = page.locator("[data-lane=steps] [data-step='7']").bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, plot_of(page, "loops").bounding_box()["y"] + 5)
        expect(drift).to_contain_text("at 7")
        expect(page.locator(".cursor-flag").first).to_contain_text("step 7 · ")
        tooltip = page.locator("[data-lane=loops] .tooltip")
        expect(tooltip).to_have_text(re.compile("^Step 7: str_replace_editor, failed, same call as step 5 "))
        page.keyboard.press("Escape")
        expect(tooltip).to_have_count(0)
        page.mouse.move(2, 2)
        expect(drift).to_contain_text(f"at {LOOP_STEPS}")

    def test_a_click_selects_the_step_everywhere(self, visit, server):
        """The step is in the address, in the list and in its own card, and survives a reload."""
        page = open_run(visit, server, "loop")
        box = page.locator("[data-lane=steps] [data-step='9']").bounding_box()
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        expect(page.get_by_role("heading", name="Step 9", exact=True)).to_be_visible()
        assert "step=9" in page.url
        expect(page.locator(".steps-row[aria-selected=true]")).to_contain_text("str_replace_editor")
        page.reload()
        expect(page.get_by_role("heading", name="Step 9", exact=True)).to_be_visible()

    def test_keys_move_zoom_and_swap_for_the_table(self, visit, server):
        """Each chart is one tab stop: arrows move and say where, + and 0 zoom, t shows the table."""
        page = open_run(visit, server, "loop", "?step=10")
        chart = page.get_by_role("slider", name="Drift score")
        chart.focus()
        page.keyboard.press("ArrowLeft")
        expect(chart.locator(".tooltip")).to_contain_text("Step 9: drift score ")
        expect(chart).to_have_attribute("aria-valuenow", "9")
        expect(chart).to_have_attribute("aria-valuetext", re.compile(r"^Step 9: drift score "))
        page.keyboard.press("End")
        expect(chart).to_have_attribute("aria-valuenow", str(LOOP_STEPS))
        page.keyboard.press("+")
        expect(page.locator(".lanes-range")).to_contain_text(f"of {LOOP_STEPS} steps")
        assert "zoom=" in page.url
        page.keyboard.press("0")
        expect(page.locator(".lanes-range")).to_have_text(f"1{DASH}{LOOP_STEPS} of {LOOP_STEPS} steps")
        page.keyboard.press("t")
        expect(page.get_by_role("region", name="Drift score where it changes")).to_be_focused()
        page.keyboard.press("t")
        expect(page.get_by_role("slider", name="Drift score")).to_be_focused()

    def test_drag_zooms_and_drag_in_the_loop_lane_selects(self, visit, server):
        """A drag in the loop lane changes the selection that the matrix is drawn from."""
        page = open_run(visit, server, "loop")
        place = {step: middle_of(page.locator(f"[data-step='{step}']").first) for step in (4, 5, 12, 15)}
        y = plot_of(page, "loops").bounding_box()["y"] + 4
        page.mouse.move(place[4], y)
        page.mouse.down()
        page.mouse.move(place[12], y, steps=4)
        page.mouse.up()
        expect(page.get_by_text(f"selected: steps 4{DASH}12")).to_be_visible()
        expect(page.locator(".recurrence-card header")).to_contain_text(f"steps 4{DASH}12")
        y = plot_of(page, "drift").bounding_box()["y"] + 20
        page.mouse.move(place[5], y)
        page.mouse.down()
        page.mouse.move(place[15], y, steps=4)
        page.mouse.up()
        expect(page.locator(".lanes-range")).to_have_text(f"5{DASH}15 of {LOOP_STEPS} steps")

    def test_the_time_axis_shows_the_same_lanes(self, visit, server):
        """Seconds since the start in place of step numbers, and steps stay in order."""
        page = open_run(visit, server, "loop")
        page.get_by_role("radio", name="Time").click()
        expect(page.locator(".lane-ticks text").first).to_have_text("time")
        cells = page.locator("[data-lane=steps] [data-step]")
        places = [middle_of(cell) for cell in cells.all()]
        assert places == pytest.approx(sorted(places))
        assert "axis=time" in page.url

    def test_every_chart_has_a_table(self, visit, server):
        """`view=table` shows the numbers of all charts, from step 1."""
        page = open_run(visit, server, "loop", "?view=table")
        tables = page.get_by_role("region", name=re.compile("as a table$"))
        expect(tables.first.locator("tbody td").first).to_have_text("1")
        assert tables.count() >= len(LANES) - 1
        page.get_by_role("button", name="Show drift score as a chart").click()
        expect(page.get_by_test_id("score-line")).to_be_visible()
        assert "charts=" in page.url


class TestRecording:
    def test_steps_that_would_not_have_run_are_faded(self, visit, server):
        """From the step after a new plan was due to the end, on the axis; a steered run has none."""
        key = server.find_run(server.runs["recording"])
        span = server.read(f"/runs/{key}/series")["not_run"]
        page = open_run(visit, server, "recording")
        first, last = (
            page.locator(f"[data-lane=steps] [data-step='{span[end]}']").bounding_box()
            for end in ("first", "last")
        )
        cover = page.get_by_test_id("not-run").bounding_box()
        assert cover["x"] < first["x"] < cover["x"] + first["width"]
        assert cover["x"] + cover["width"] > last["x"] + last["width"]
        chart = page.get_by_role("slider", name="Steps", exact=True)
        chart.focus()
        page.keyboard.press("End")
        expect(page.locator(".said .badge").first).to_have_text("not delivered")
        words = f"would not have run after a new plan at step {span['first'] - 1}."
        expect(chart).to_have_attribute("aria-valuetext", re.compile(re.escape(words)))
        page.keyboard.press("t")
        expect(page.get_by_role("columnheader", name="Would have run")).to_be_visible()
        steered = open_run(visit, server, "loop")
        expect(steered.get_by_test_id("not-run")).to_have_count(0)


class TestWhy:
    def test_a_comment_is_written_with_a_key(self, own_agent, changing_server, visit):
        """`c` leads to the field; what was written is shown as text, with who wrote it."""
        page = open_run(visit, changing_server, own_agent)
        why = page.get_by_role("region", name="Why")
        expect(why.get_by_label("Write a comment")).to_be_visible()
        page.keyboard.press("c")
        page.keyboard.type("<b>known</b> since v13")
        why.get_by_role("button", name="Save comment").click()
        expect(why.locator(".comment")).to_contain_text("<b>known</b> since v13")
        expect(why.get_by_label("Write a comment")).to_have_value("")

    def test_the_address_of_an_alert_leads_to_the_run(self, visit, server):
        """`#/incidents/ID` shows the run of the incident, with the incident chosen."""
        key = server.find_run(server.runs["loop"])
        incident = server.read(f"/runs/{key}")["incidents"][0]
        alerted = visit(f"/incidents/{incident}")
        expect(alerted).to_have_url(re.compile(rf"#/runs/{key}\?incident={incident}$"))
        expect(alerted.get_by_role("region", name="Why")).to_contain_text("str_replace_editor")

    def test_it_says_proves_and_shows_what_came_of_it(self, visit, server):
        """Sentence, step range, figures, a diff of two calls and what was said, in this order."""
        page = open_run(visit, server, "loop")
        why = page.get_by_role("region", name="Why")
        expect(why).to_contain_text("str_replace_editor")
        expect(why).to_contain_text(re.compile(rf"steps \d+{DASH}\d+ · noticed at"))
        diff = page.get_by_test_id("diff").first
        expect(diff).to_contain_text('"old_str": "os.chdir(here)"')
        expect(diff).to_contain_text("identical")
        expect(diff).to_contain_text(f"{CROSS} failed both times")
        headings = why.locator("h3").all_inner_texts()
        assert headings[-3:] == ["Evidence", "What was said, what came of it", "Comments"]

    def test_a_false_alarm_shows_its_effect_and_can_be_undone(self, own_agent, changing_server, visit):
        """The key f asks why and shows the effect; Save marks it; Undo takes the mark back."""
        page = open_run(visit, changing_server, own_agent)
        expect(page.get_by_role("button", name="False alarm…")).to_be_enabled()
        page.keyboard.press("f")
        form = page.get_by_role("form", name="False alarm")
        expect(form).to_contain_text("would")
        form.get_by_role("button", name="Save").click()
        expect(page.get_by_text("Marked as a false alarm")).to_be_visible()
        page.locator(".message").get_by_role("button", name="Undo").click()
        expect(page.get_by_text("Marked as a false alarm")).to_have_count(0)
        expect(page.locator(".message")).to_contain_text("Undone")

    def test_a_tool_is_declared_from_the_card_and_undone(self, own_agent, changing_server, visit):
        """The effect comes before saving; the declaration and its undo are said."""
        page = open_run(visit, changing_server, own_agent)
        why = page.get_by_role("region", name="Why")
        why.get_by_role("button", name="poll", exact=True).click()
        form = page.get_by_role("form", name="Declare a tool")
        expect(form).to_contain_text("str_replace_editor")
        expect(form).to_contain_text("Effect on the last")
        form.get_by_role("button", name="Save").click()
        expect(why).to_contain_text("str_replace_editor is declared a poll tool")
        expect(page.locator(".message")).to_be_visible()
        page.keyboard.press("z")
        expect(why).to_contain_text("Expected? Declare str_replace_editor")

    def test_a_clean_run_says_that_nothing_was_noticed(self, visit, server):
        """Who checked and who could not is said in place of an incident."""
        page = open_run(visit, server, "clean")
        why = page.get_by_role("region", name="Why")
        expect(why).to_contain_text("Nothing noticed in 5 steps.")
        expect(why).to_contain_text(re.compile(r"Checked by [5-9] detectors; \d not checked\."))
        expect(why).to_contain_text("user_correction not checked: no message of the user")


class TestSteps:
    def test_the_list_and_the_cards_follow_each_other(self, visit, server):
        """A row selects its step; filters keep only what they name; payloads are loaded on open."""
        page = open_run(visit, server, "loop")
        rows = page.locator(".steps-row.openable")
        expect(rows.first).to_contain_text("str_replace_editor")
        rows.first.click()
        card = page.get_by_role("region", name=f"Step {LOOP_STEPS}")
        expect(card).to_contain_text('"command": "str_replace"')
        card.get_by_role("tab", name="Result").click()
        expect(card).to_contain_text("No replacement was performed")
        page.keyboard.press("j")
        reply = page.get_by_role("region", name=f"Step {LOOP_STEPS - 1}")
        expect(reply).to_contain_text("I replace the line.")
        page.get_by_role("button", name=re.compile("^Failed")).click()
        expect(rows.first).to_contain_text(CROSS)
        expect(rows).to_have_count(9)

    def test_a_child_run_says_from_which_step_it_came(self, visit, changing_server):
        """The card of child runs names the step that started each, and leads to it."""
        with closing(watch("lead of a child", changing_server.database)) as monitor:
            parent = changing_server.runs["parent"] = monitor.start_run(goal="Plan the work")
            monitor.record_event("llm_request", "model", run_id=parent, output_data={"text": "I delegate."})
            monitor.end_run(monitor.start_run(goal="find usages of Locale", parent_run_id=parent))
            monitor.record_event("tool_call", "delegate", run_id=parent, output_data={"text": "done"})
            monitor.end_run(parent)
        page = open_run(visit, changing_server, "parent")
        child = page.locator(".child-run")
        expect(child).to_contain_text("from step 2")
        child.click()
        expect(page.get_by_role("heading", level=1)).to_have_text("find usages of Locale")

    def test_the_run_file_is_downloaded(self, visit, server):
        """The button saves the run as a file that carries its id."""
        page = open_run(visit, server, "loop")
        with page.expect_download() as download:
            page.get_by_role("button", name="Run file").click()
        assert server.runs["loop"][:8] in download.value.suggested_filename


class TestLooks:
    def test_a_theme_switch_recolours_open_charts(self, visit, server):
        """Colours come from classes: every chart has the tokens of the theme on screen."""
        page = open_run(visit, server, "loop")
        expect(page.locator(".matrix-result").first).to_be_attached()
        assert [] == list_kept_colours(page)

    def test_at_390_px_the_why_card_comes_first_and_nothing_overflows(self, visit, server):
        """One column, a window of 18 steps with letters, no sideways scroll of the page."""
        page = open_run(visit, server, "loop", viewport=NARROW)
        why = page.get_by_role("region", name="Why").bounding_box()
        lanes = page.get_by_role("region", name="Lanes").bounding_box()
        assert why["y"] + why["height"] <= lanes["y"]
        expect(page.locator(".lanes-range")).to_have_text(f"2{DASH}{LOOP_STEPS} of {LOOP_STEPS} steps")
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
        assert page.locator("[data-lane=steps] .cell-letter").count() > 0
        expect(page.locator(".bracket text")).to_have_text(re.compile(f"^A 9{CROSS}"))

    def test_swiping_moves_the_window(self, visit, server):
        """A finger that goes right shows earlier steps; the width of the window stays."""
        page = open_run(visit, server, "loop", viewport=NARROW, has_touch=True)
        shown = page.locator(".lanes-range")
        expect(shown).to_have_text(f"2{DASH}{LOOP_STEPS} of {LOOP_STEPS} steps")
        plot = plot_of(page, "steps")
        plot.scroll_into_view_if_needed()
        box = plot.bounding_box()
        y = box["y"] + box["height"] / 2
        touch = page.context.new_cdp_session(page)
        touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": 120, "y": y}]})
        for x in range(130, 240, 10):
            touch.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [{"x": x, "y": y}]})
        touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        expect(shown).to_have_text(f"1{DASH}{LOOP_STEPS - 1} of {LOOP_STEPS} steps")

    def test_hostile_names_and_payloads_are_text(self, visit, server, open_context):
        """Markup is shown as it was written, hidden characters are spelt out, and nothing runs."""
        page = open_run(visit, server, "hostile", "?step=1")
        expect(page.get_by_role("heading", level=1)).to_contain_text(HOSTILE_GOAL.split()[0])
        expect(page.get_by_role("heading", level=1)).to_contain_text(r"\u{202e}")
        card = page.get_by_role("region", name="Step 1", exact=True)
        expect(card).to_contain_text("<svg/onload=alert(5)>")
        card.get_by_role("tab", name="Result").click()
        expect(card).to_contain_text("<iframe srcdoc=")
        assert page.locator("main img, main iframe, main script").count() == 0
        page.goto(page.url.split("?")[0] + "?view=table&step=1&from=-1&to=1e9&zoom=%3Cscript%3E&axis=x")
        expect(page.get_by_role("region", name=re.compile("as a table$")).first).to_be_visible()

    @pytest.mark.parametrize("query", ["?step=9", "?view=table"])
    def test_axe_finds_nothing(self, visit, server, list_axe_violations, query):
        """Charts and tables are usable with assistive technology in both themes."""
        page = open_run(visit, server, "loop", query)
        expect(page.get_by_role("region", name="Why")).to_contain_text(re.compile(r"steps \d+"))
        assert [] == list_axe_violations(page, "light", "dark")

    def test_the_goal_is_the_title(self, visit, server):
        """A click shows all of it."""
        page = open_run(visit, server, "loop")
        title = page.get_by_role("heading", level=1)
        expect(title).to_have_text(LOOP_GOAL)
        title.get_by_role("button").click()
        expect(title.get_by_role("button")).to_have_attribute("aria-expanded", "true")

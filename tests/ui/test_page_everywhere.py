"""What holds on every page: accessibility, width, themes, keys, hostile text, the policy."""

import pytest
from conftest import NARROW
from playwright.sync_api import expect
from recorded_agents import HOSTILE, HOSTILE_GOAL

PAGES = ["/", "/runs", "/incidents", "/agents", "/settings"]


def settle(page):
    """Wait until the page has asked for everything and shows it."""
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    page.wait_for_function("() => document.fonts.status === 'loaded'")


@pytest.mark.parametrize("path", PAGES)
def test_axe_finds_nothing(visit, list_axe_violations, path):
    """
    Every page passes axe in both themes.
    """
    page = visit(path)
    settle(page)

    assert [] == list_axe_violations(page, "light", "dark")


def test_axe_finds_nothing_in_what_opens(visit, list_axe_violations):
    """
    The opened group, the question of a false alarm, a menu and the table of keys pass too.
    """
    page = visit("/incidents")
    page.locator(".group").first.wait_for()
    page.keyboard.press("j")
    page.get_by_role("button", name="False alarm…").click()
    page.locator(".effects").wait_for()
    found = list_axe_violations(page)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Mute until…").click()
    found += list_axe_violations(page)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Keys").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    found += list_axe_violations(page)

    assert [] == found


# What a finger reaches may be more than the line of text that is drawn. Small buttons are 32 px.
LIST_SMALL_TARGETS = """() => [...document.querySelectorAll("main button, main select")]
  .filter((each) => each.offsetHeight > 0)
  .map((each) => {
    const reach = Math.max(each.offsetHeight, parseFloat(getComputedStyle(each, "::after").height) || 0);
    return [each.className, each.textContent, reach];
  })
  .filter(([names, , reach]) => reach < (names.includes("button-small") ? 32 : 36))"""


@pytest.mark.parametrize("path", [*PAGES, "/incidents?group"])
def test_no_page_scrolls_sideways_on_a_phone(visit, list_axe_violations, path):
    """
    At 390 px every page fits, and a finger finds what it presses.
    """
    page = visit(path.partition("?")[0], viewport=NARROW, has_touch=True)
    settle(page)
    if path.endswith("?group"):
        page.locator(".group").first.click()
        expect(page.get_by_role("button", name="All incidents")).to_be_visible()
        settle(page)

    assert page.evaluate("document.documentElement.scrollWidth") == NARROW["width"]
    assert [] == page.evaluate(LIST_SMALL_TARGETS)
    assert [] == list_axe_violations(page)


def test_agent_text_is_only_text(visit, server):
    """
    Names and goals that are markup are shown letter by letter; characters that turn text are spelt out.
    """
    page = visit("/runs")
    row = page.get_by_role("row").filter(has_text=HOSTILE)

    expect(row).to_contain_text("<script>alert(2)</script>")
    expect(row).to_contain_text("\\u{202e}")
    assert "\u202e" not in row.inner_text()
    assert (
        0
        == page.locator(
            ".run-list img, .run-list script, .run-list iframe, .run-list a[href*=javascript]"
        ).count()
    )
    assert HOSTILE_GOAL.partition(" ")[0] in row.inner_text()
    overview = visit("/")
    expect(overview.get_by_role("row").filter(has_text=HOSTILE)).to_be_visible()
    assert 0 == overview.locator("main img").count()


def test_the_theme_is_kept_and_set_before_the_first_paint(visit):
    """
    The chosen theme holds after a reload, against the system's.
    """
    page = visit("/", color_scheme="light")
    page.get_by_role("button", name="Theme: system. Change to light").click()
    page.get_by_role("button", name="Theme: light. Change to dark").click()
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.reload(wait_until="commit")
    page.locator("body").wait_for(state="attached")

    assert "dark" == page.evaluate("document.documentElement.dataset.theme")
    assert "rgb(13, 16, 20)" == dark


def test_keys_are_off_in_fields_and_can_be_switched_off(visit):
    """
    `?` lists the keys; typing never triggers them; the switch turns them off for good.
    """
    page = visit("/")
    page.keyboard.press("/")
    page.keyboard.type("gr?p")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert page.url.endswith("#/")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    page.get_by_role("dialog").get_by_role("checkbox").uncheck()
    page.get_by_role("button", name="Close").click()
    page.keyboard.press("g")
    page.keyboard.press("r")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_have_count(0)

    assert page.url.endswith("#/")


def test_two_keys_go_to_a_page(visit):
    """
    `g` and a letter lead to each page.
    """
    page = visit("/")
    for letter, title in {
        "r": "Runs",
        "i": "Incidents",
        "a": "Agents",
        "s": "Settings and health",
        "o": "Overview",
    }.items():
        page.keyboard.press("g")
        page.keyboard.press(letter)
        expect(page.get_by_role("heading", name=title, level=1)).to_be_visible()


def test_an_unknown_address_says_so(visit, open_context, server):
    """
    A view that does not exist offers the way back.
    """
    page = open_context(server).new_page()
    page.goto(f"{server.url}/#/nowhere")
    page.get_by_role("button", name="Go to the overview").click()

    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


def test_a_violation_would_fail_a_test(visit, problems):
    """
    The listeners work: an inline script, an error and a foreign host are each noticed.
    """
    page = visit("/")
    with page.expect_event("pageerror"):
        page.evaluate(
            """() => {
          const style = document.createElement("style");
          style.textContent = "body { color: red }";
          document.head.append(style);
          new Image().src = "http://127.0.0.1:9/elsewhere.png";
          setTimeout(() => { throw new Error("on purpose"); });
        }"""
        )
    page.wait_for_function("() => window.violations.length >= 2")
    seen = " ".join([*problems.found, *page.evaluate("window.violations")])
    problems.allow(".")

    assert "style-src" in seen
    assert "img-src" in seen
    assert "on purpose" in seen

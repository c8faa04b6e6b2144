"""What a browser needs for a long run: until its lanes are painted, and while it scrolls.

Seconds of CPU come from Chromium's own trace of the page's main thread: they say the same on a busy machine.
"""

import json
import shutil
import statistics
import time
from typing import Any, Final, NamedTuple, Protocol

from benchmarks.measures import Measure, not_measured

PAINTED_BAR_S, TASK_BAR_S = 1.0, 0.1
_TIMES: Final = 5
_WHEEL_TURNS: Final = 40
_TASK: Final = "RunTask"
_PAINTED: Final = "() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"


class ServedPage(Protocol):
    """A server that runs."""

    address: str
    token: str


class Painting(NamedTuple):
    """One visit: seconds until the lanes were painted, of the clock and of CPU, and the longest tasks."""

    seconds: float
    cpu_s: float
    task_s: float
    scrolling_task_s: float


def measure_painting(name: str, served: ServedPage, key: int, steps: int) -> list[Measure]:
    """Return what opening and scrolling a run costs in a browser; medians and extremes of five visits."""
    what = f"lanes of {steps:,} steps painted"
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only where it is installed
    except ImportError:
        return [not_measured(name, what, "playwright is not installed")]
    chromium = shutil.which("chromium")
    if chromium is None:
        return [not_measured(name, what, "there is no chromium")]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        visits = [_visit(browser, served, key) for _ in range(_TIMES)]
        browser.close()
    seconds, cpu = [it.seconds for it in visits], [it.cpu_s for it in visits]
    longest = [it.scrolling_task_s for it in visits]
    return [
        Measure(
            benchmark=name,
            what=what,
            value=statistics.median(seconds),
            unit="s",
            bar=PAINTED_BAR_S,
            spread=(min(seconds), max(seconds)),
            note="of the whole machine: meaningful while nothing else runs; in the page "
            f"{statistics.median(cpu):.2f} s of CPU, longest task {max(it.task_s for it in visits):.3f} s",
        ),
        Measure(
            benchmark=name,
            what=f"longest task while {steps:,} steps scroll",
            value=max(longest),
            unit="s",
            bar=TASK_BAR_S,
            spread=(min(longest), max(longest)),
            note="CPU of the page's main thread",
        ),
    ]


def _visit(browser: Any, served: ServedPage, key: int) -> Painting:
    url = f"http://{served.address}"
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    answer = context.request.post(
        f"{url}/api/v1/session", data={"token": served.token}, headers={"Origin": url}
    )
    context.add_init_script(f"sessionStorage.setItem('steadyhelm.secret', '{answer.json()['secret']}')")
    page = context.new_page()
    _start_tracing(browser, page)
    begun = time.monotonic()
    page.goto(f"{url}/#/runs/{key}")
    page.get_by_test_id("step-columns").wait_for()
    page.evaluate(_PAINTED)
    seconds = time.monotonic() - begun
    painting = _list_tasks(browser)
    page.locator(".live-live").wait_for(state="attached")
    _start_tracing(browser, page)
    page.mouse.move(500, 600)
    for turn in range(2 * _WHEEL_TURNS):
        page.mouse.wheel(0, 300 if turn < _WHEEL_TURNS else -300)
        page.evaluate(_PAINTED)
    scrolling = _list_tasks(browser)
    context.close()
    return Painting(seconds, sum(painting), max(painting), max(scrolling))


def _start_tracing(browser: Any, page: Any) -> None:
    browser.start_tracing(
        page=page, categories=["disabled-by-default-devtools.timeline", "devtools.timeline"]
    )


def _list_tasks(browser: Any) -> list[float]:
    """Return the seconds of CPU of each task of the page's main thread."""
    events = json.loads(browser.stop_tracing())["traceEvents"]
    main = {
        (it["pid"], it["tid"])
        for it in events
        if it["name"] == "thread_name" and it["args"]["name"] == "CrRendererMain"
    }
    found = [it for it in events if it["name"] == _TASK and (it["pid"], it["tid"]) in main]
    return [it.get("tdur", 0) / 1e6 for it in found] or [0.0]

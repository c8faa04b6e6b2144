"""The page of a scan in a real browser: its own script runs, sorts and filters; no other script does."""

import base64
import hashlib
import io
import json
import re
import shutil
import subprocess

import pytest

from steadyhelm.findings import Severity
from steadyhelm.recordings.run_file import RunFile
from steadyhelm.redaction import Redactor
from steadyhelm.replay import Replayer
from steadyhelm.reports.evidence import EvidenceFormatter
from steadyhelm.reports.html import HtmlReport
from steadyhelm.reports.output import RunLocation, ScanTotals
from steadyhelm.settings import Settings

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")

pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs Chromium or Chrome")


@pytest.fixture(scope="module")
def page():
    """A report on three runs: eight, three and five times the same call."""
    lines = []
    for run_id, agent, times in (
        ("b-long", "finder", 8),
        ("c-short", "writer", 3),
        ("a-middle", "finder", 5),
    ):
        call = {"type": "tool_call", "name": "search", "args": {"q": "x"}, "result": "nothing", "tokens": 100}
        lines.append(json.dumps({"run_id": run_id, "agent_id": agent, "events": [call] * times}))
    stream, totals, replayer = io.StringIO(), ScanTotals(), Replayer(Settings())
    report = HtmlReport(stream, EvidenceFormatter(Redactor()))
    for number, run in enumerate(RunFile(io.BytesIO("\n".join(lines).encode())), start=1):
        judged = replayer.judge(run)
        totals.add(judged.report, least=Severity.MED.rank, fail_on=Severity.MED.rank)
        report.add_run(judged, RunLocation("runs.jsonl", number), is_flagged=True)
    report.finish(totals, Severity.MED, is_file=True)
    return stream.getvalue()


@pytest.fixture
def opened(page, tmp_path):
    """Opens the page with a script of the test added; gives what that script leaves in the title."""

    def open_page(script, *, is_allowed=True, width=1200):
        shown = page.replace("</body>", f"<script>{script}</script></body>")
        if is_allowed:
            digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
            shown = shown.replace("script-src ", f"script-src 'sha256-{digest}' ", 1)
        file = tmp_path / "report.html"
        file.write_text(shown)
        profile = f"--user-data-dir={tmp_path / 'profile'}"
        done = subprocess.run(
            [BROWSER, *FLAGS, profile, f"--window-size={width},900", "--dump-dom", f"file://{file}"],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        [title] = re.findall(r"<title>(.*?)</title>", done.stdout)[:1]
        return title

    return open_page


LISTED = (
    '[...document.querySelectorAll("table.runs tbody tr")]'
    ".filter((row) => !row.hidden).map((row) => row.cells[1].innerText)"
)
PRESS = '(name) => [...document.querySelectorAll("th button")].find((b) => b.innerText === name).click()'


def test_sorting(opened):
    """
    Worst first at the beginning; a press on a title sorts by it, a second press turns the order round.
    """
    title = opened(
        f"const press = {PRESS}, seen = [{LISTED}];"
        f'for (const name of ["run", "run", "steps", "severity"]) {{ press(name); seen.push({LISTED}); }}'
        'document.title = seen.map((names) => names.map((name) => name[0]).join("")).join(" ");'
    )

    assert "bac abc cba bac bac" == title


def test_filtering(opened):
    """
    Words, a severity and a kind narrow the list, its count and the sections below.
    """
    title = opened(
        'const form = document.querySelector("form.filter").elements, seen = [];'
        'const say = () => { form.words.dispatchEvent(new Event("input", { bubbles: true }));'
        f'seen.push({LISTED}.join("") + ":" + form.count.value + ":" +'
        '[...document.querySelectorAll("details.run")].filter((d) => !d.hidden).length); };'
        'say(); form.words.value = "WRIT"; say();'
        'form.words.value = ""; form.severity.value = "CRITICAL"; say();'
        'form.severity.value = ""; form.kind.value = "loop"; say(); form.words.value = "nowhere"; say();'
        'document.title = seen.join(" | ");'
    )

    assert [
        "b-longa-middlec-short:3 shown:3",
        "c-short:1 of 3 shown:1",
        "b-long:1 of 3 shown:1",
        "b-longa-middlec-short:3 shown:3",
        ":0 of 3 shown:0",
    ] == title.split(" | ")


def test_no_other_script_runs(opened):
    """
    A script that somebody smuggled into the page does not run.
    """
    assert "Steadyhelm scan" == opened('document.title = "smuggled";', is_allowed=False)


def test_nothing_is_wider_than_a_phone(opened):
    """
    At 390 pixels the page does not scroll sideways.
    """
    # A window cannot be narrower than 500 pixels: the page's own width is set instead.
    title = opened(
        "document.documentElement.style.width = '390px';"
        "const wide = [...document.querySelectorAll('body *')].filter((it) =>"
        "!it.closest('svg') && it.getBoundingClientRect().right > 390);"
        "document.title = wide.map((it) => it.outerHTML.slice(0, 60)).join() || 'fits';",
        width=500,
    )

    assert "fits" == title

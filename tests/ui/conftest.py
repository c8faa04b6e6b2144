"""A real server over a store that the real SDK filled, and a browser whose every error fails the test."""

import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from recorded_agents import record_fixer, record_past, watch

ROOT = Path(__file__).parents[2]
WAIT_S = 30
START_S = 90
CHROMIUM_OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
# A slow machine is no fault of the page.
expect.set_options(timeout=WAIT_S * 1_000)
WIDE = {"width": 1440, "height": 900}
NARROW = {"width": 390, "height": 844}

# Violations are collected in the page itself: the browser tells of them in no other way that is complete.
LISTEN_FOR_VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective}: ${event.blockedURI || event.sample}`);
});
"""


@dataclass
class Served:
    """A running server: where it is, what opens it, and the file that it reads."""

    url: str
    token: str
    database: Path
    home: Path
    runs: dict[str, str]
    process: "subprocess.Popen[bytes]"
    session: dict[str, Any] = field(default_factory=dict)

    def stop(self) -> None:
        """End the server in order."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(START_S)

    def read(self, path: str) -> Any:
        """Return an answer of the API, asked for with the token."""
        request = urllib.request.Request(
            f"{self.url}/api/v1{path}", headers={"Authorization": f"Bearer {self.token}"}
        )
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
            return json.load(answer)

    def find_run(self, run_id: str) -> int:
        """Return the key by which the API and the page's addresses know a run."""
        return self.read(f"/runs/find?run={quote(run_id)}")["key"]

    def find_agent(self, name: str) -> int:
        """Return the key of an agent."""
        return next(it["key"] for it in self.read("/overview")["agents"] if it["name"] == name)


def find_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def start_server(
    home: Path,
    database: Path,
    *options: str,
    port: int | None = None,
    runs: dict[str, str] | None = None,
) -> Served:
    """Start `steadyhelm serve` over this file, and wait until it answers. It cannot open a browser."""
    home.mkdir(parents=True, exist_ok=True)
    port = port or find_port()
    log = home / "serve.log"
    with log.open("ab") as out:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "steadyhelm",
                "--db",
                str(database),
                "serve",
                "--port",
                str(port),
                *options,
            ],
            stdout=out,
            stderr=out,
            cwd=home,
            env={**os.environ, "STEADYHELM_HOME": str(home), "BROWSER": "true"},
        )
    url = f"http://127.0.0.1:{port}"
    end = time.monotonic() + START_S
    while True:
        try:
            urllib.request.urlopen(f"{url}/healthz", timeout=10).read()
            break
        except (urllib.error.URLError, OSError):
            if process.poll() is not None or time.monotonic() > end:
                process.kill()
                pytest.fail(f"The server did not start:\n{log.read_text()}")
            time.sleep(0.05)
    token = (home / "server.token").read_text().strip()
    return Served(url, token, database, home, runs or {}, process)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM_OPTIONS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def past(tmp_path_factory) -> tuple[Path, dict[str, str]]:
    """What the real SDK recorded, as a file to copy, and the ids of its runs."""
    database = tmp_path_factory.mktemp("past") / "past.db"
    runs = record_past(database)
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return database, runs


def serve_past(past: tuple[Path, dict[str, str]], folder: Path) -> Served:
    database = shutil.copy(past[0], folder / "steadyhelm.db")
    return start_server(folder / "home", database, runs=past[1])


@pytest.fixture(scope="session")
def server(past, tmp_path_factory) -> Iterator[Served]:
    """A server over the recorded past. Tests only read from it."""
    served = serve_past(past, tmp_path_factory.mktemp("served"))
    yield served
    served.stop()


@pytest.fixture(scope="session")
def changing_server(past, tmp_path_factory) -> Iterator[Served]:
    """A server that tests change, each with agents of its own."""
    served = serve_past(past, tmp_path_factory.mktemp("changing"))
    yield served
    served.stop()


@pytest.fixture
def own_agent(changing_server, request) -> str:
    """The name of an agent that only this test changes: calibrated, with a loop that is over."""
    name = f"agent of {request.node.name}"
    with closing(watch(name, changing_server.database)) as monitor:
        changing_server.runs[name] = record_fixer(monitor)["loop"]
    return name


@pytest.fixture
def own_server(past, tmp_path) -> Iterator[Served]:
    """A server of the test's own, for what ends it or its sessions."""
    served = serve_past(past, tmp_path)
    yield served
    served.stop()


@pytest.fixture
def empty_server(tmp_path) -> Iterator[Served]:
    """A server over a store that nothing was ever recorded into."""
    served = start_server(tmp_path / "empty-home", tmp_path / "empty.db")
    yield served
    served.stop()


@dataclass
class Problems:
    """What went wrong in the browser. `allow` names what a test causes on purpose."""

    found: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)

    def allow(self, pattern: str) -> None:
        self.allowed.append(pattern)

    def list_unexpected(self) -> list[str]:
        return [text for text in self.found if not any(re.search(pattern, text) for pattern in self.allowed)]


@pytest.fixture
def problems() -> Problems:
    return Problems()


def sign_in(context: BrowserContext, served: Served) -> None:
    """Give the context a session: the cookie by the API, the secret as the page keeps it.

    All contexts share one, since the server answers few attempts to sign in.
    """
    if not served.session:
        answer = context.request.post(
            f"{served.url}/api/v1/session", data={"token": served.token}, headers={"Origin": served.url}
        )
        assert answer.ok, answer.text()
        served.session.update(secret=answer.json()["secret"], cookies=context.cookies())
    context.add_cookies(served.session["cookies"])
    secret = json.dumps(served.session["secret"])
    # Only once: a test that signs out must stay signed out.
    context.add_init_script(
        f"""if (location.origin === {json.dumps(served.url)} && !sessionStorage.getItem("test.signed-in")) {{
          sessionStorage.setItem("test.signed-in", "1");
          sessionStorage.setItem("steadyhelm.secret", {secret});
        }}"""
    )


@pytest.fixture
def open_context(browser, problems):
    """Return a function that opens a context whose pages are watched for errors."""
    contexts = []

    def open_it(served: Served, *, signed_in: bool = True, **options) -> BrowserContext:
        options = {"viewport": WIDE, "color_scheme": "light", "reduced_motion": "reduce", **options}
        context = browser.new_context(**options)
        context.set_default_timeout(WAIT_S * 1_000)
        context.add_init_script(LISTEN_FOR_VIOLATIONS)
        context.on("page", lambda page: watch_page(page, served, problems))
        if signed_in:
            sign_in(context, served)
        contexts.append(context)
        return context

    yield open_it
    for context in contexts:
        for page in context.pages:
            problems.found += [f"CSP {text}" for text in page.evaluate("window.violations ?? []")]
        context.close()
    assert [] == problems.list_unexpected()


def watch_page(page: Page, served: Served, problems: Problems) -> None:
    page.on("pageerror", lambda error: problems.found.append(f"page error: {error}"))
    page.on(
        "console",
        lambda message: (
            problems.found.append(f"console {message.type}: {message.text}")
            if message.type in {"error", "warning"}
            else None
        ),
    )
    page.on("dialog", lambda dialog: (problems.found.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on(
        "request",
        lambda request: (
            problems.found.append(f"asked another host: {request.url}")
            if not request.url.startswith((served.url, "data:"))
            else None
        ),
    )


@pytest.fixture
def visit(open_context, server):
    """Return a function that opens a view in a new tab and waits until it is loaded: `visit("/runs")`."""

    def visit_it(path: str, served: Served = server, **options) -> Page:
        page = open_context(served, **options).new_page()
        page.goto(f"{served.url}/#{path}")
        page.locator("h1").first.wait_for()
        # "Live" is shown when everything that is on screen has been loaded.
        page.locator(".live-live").wait_for(state="attached")
        return page

    return visit_it


@pytest.fixture(scope="session")
def axe_source() -> str:
    return (ROOT / "ui" / "node_modules" / "axe-core" / "axe.min.js").read_text()


@pytest.fixture
def list_axe_violations(axe_source):
    """Return a function that runs axe on a page in each theme and returns what it found, one line each."""

    def list_them(page: Page, *themes: str) -> list[str]:
        page.evaluate(axe_source)
        found = []
        for theme in themes or ("light",):
            with theme_of(page, theme):
                found += page.evaluate(
                    "axe.run(document, {resultTypes: ['violations']}).then((result) => result.violations)"
                )
        return [
            f"{each['id']}: {node['html'][:160]} {node['failureSummary']}"
            for each in found
            for node in each["nodes"]
        ]

    return list_them


@contextmanager
def theme_of(page: Page, theme: str) -> Iterator[None]:
    """Show the page in a theme, as the system's setting."""
    page.emulate_media(color_scheme=theme)
    page.wait_for_function("theme => document.documentElement.dataset.theme === theme", arg=theme)
    yield
    page.emulate_media(color_scheme="light")


def open_run(visit, served, run: str, query: str = "", **options) -> Page:
    """Open the page of a recorded run and wait until its lanes are drawn."""
    page = visit(f"/runs/{served.find_run(served.runs[run])}{query}", served, **options)
    expect(page.locator("[data-lane=drift]")).to_be_visible()
    return page


# The colours of everything that is drawn, one text for each chart.
CHART_COLOURS = """() => {
  const charts = [...document.querySelectorAll("main svg")].filter((svg) => svg.clientHeight > 20);
  return charts.map((svg) => [...svg.querySelectorAll("path, rect, circle, line, text")].map((shape) => {
    const style = getComputedStyle(shape);
    return style.fill + style.stroke;
  }).join());
}"""


def list_kept_colours(page: Page) -> list[int]:
    """Return the places of the charts that have the same colours in both themes."""
    light = page.evaluate(CHART_COLOURS)
    with theme_of(page, "dark"):
        dark = page.evaluate(CHART_COLOURS)
    assert any(light)
    return [place for place, (one, other) in enumerate(zip(light, dark, strict=True)) if one and one == other]


def list_grid(page: Page, lane: str) -> list[int]:
    """Return the places of the vertical lines of a lane, in tenths of a pixel."""
    return page.locator(f"[data-lane={lane}] .grid-line").evaluate_all(
        "lines => lines.map((line) => Math.round(line.getBoundingClientRect().left * 10))"
    )

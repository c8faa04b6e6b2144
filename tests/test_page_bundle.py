"""The built page, as it is committed: checked without Node."""

import gzip
import hashlib
import json
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
UI = ROOT / "ui"
SERVER = ROOT / "src" / "steadyhelm" / "server"
PAGE = SERVER / "page"


@pytest.fixture(scope="module")
def notices():
    return (PAGE / "NOTICES.txt").read_text()


def test_the_built_page_is_of_this_source():
    """
    Whoever changes `ui/` runs `make ui` and commits what it built.
    """
    digest = runpy.run_path(str(UI / "digest.py"))["compute_digest"]()

    assert digest == (PAGE / "source.sha256").read_text().strip(), "run `make ui`, and commit the result"


def test_the_types_are_of_this_schema():
    """
    Whoever changes the server's schema runs `make ui` too: the page's types are generated from it.
    """
    digest = hashlib.sha256((SERVER / "schema.json").read_bytes()).hexdigest()

    assert f"Schema: {digest}" in (UI / "src" / "api" / "types.ts").read_text().partition("\n")[0]


def test_the_page_is_small():
    """
    All scripts and styles together are at most 180 kB compressed.
    """
    files = [path for path in PAGE.rglob("*") if path.suffix in {".js", ".css", ".html"}]

    assert sum(len(gzip.compress(path.read_bytes())) for path in files) <= 180_000


def test_the_page_allows_a_strict_policy():
    """
    No inline script or style, and nothing from another host.
    """
    html = (PAGE / "index.html").read_text()

    assert [] == re.findall(r"<style|\sstyle=|\son\w+=|https?://", html)
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", html))


def test_every_file_that_the_page_asks_for_is_there():
    """
    A file that was built but not committed would be missed only by a user.
    """
    html = (PAGE / "index.html").read_text()
    scripts = "".join(path.read_text() for path in PAGE.rglob("*.js"))
    wanted = set(re.findall(r"assets/[\w-]+\.(?:js|css)", html + scripts))
    wanted |= {f"assets/{name}" for name in re.findall(r"`\./([\w-]+\.js)`", scripts)}

    assert wanted
    assert [] == sorted(name for name in wanted if not (PAGE / name).is_file())


def test_at_most_twelve_packages_and_no_copyleft(notices):
    """
    Every package in the built page is named with its licence.
    """
    packages = re.findall(r"^-{72}\n(\S+) \S+ \((.+)\)$", notices, re.MULTILINE)

    assert 0 < len(packages) <= 12
    assert {"MIT", "ISC", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0"} >= {
        licence for _, licence in packages
    }


def test_declared_packages_are_all_in_the_page(notices):
    """
    A runtime dependency that the page does not use is not declared.
    """
    declared = json.loads((UI / "package.json").read_text())["dependencies"]

    assert [] == [name for name in declared if f"\n{name} " not in notices]


def test_the_lock_file_names_no_host():
    """
    Packages are known by name, version and digest, wherever they are fetched from.
    """
    lock = (UI / "package-lock.json").read_text()

    assert "://" not in lock
    assert '"integrity"' in lock

"""Docs are tests: every sample runs, and nothing a user can name is without a heading."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer

from steadyhelm.cli.config import list_options
from steadyhelm.cli.init import TWO_LINES
from steadyhelm.cli.main import app
from steadyhelm.engine import registry
from steadyhelm.setting_table import SETTINGS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md")), *sorted(ROOT.glob("[A-Z]*.md"))]
PAGES = list(dict.fromkeys(PAGES))
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+\s+(.*)$", re.MULTILINE)
CHANGES = ("security", "removed", "deprecated", "added", "changed", "fixed")


def blocks(page, language):
    return [body for kind, body in FENCE.findall(page.read_text(encoding="utf-8")) if kind == language]


def headings(page):
    prose = FENCE.sub("", (ROOT / "docs" / page).read_text(encoding="utf-8"))
    return {heading.strip("` ").strip() for heading in HEADING.findall(prose)}


def commands(command, words=()):
    """Every command a user can type, with its words."""
    inside = getattr(command, "commands", None)
    if inside is not None:
        for name, inner in inside.items():
            yield from commands(inner, (*words, name))
    else:
        yield " ".join(words), command


COMMANDS = dict(commands(typer.main.get_command(app)))


# The programs of these pages run with the frameworks' own tests, in their environments.
WITH_FRAMEWORKS = [
    page for page in PAGES if re.search(r"^# [\w-]+: runs offline", page.read_text(), re.MULTILINE)
]


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if blocks(page, "python") and page not in WITH_FRAMEWORKS],
    ids=lambda page: page.name,
)
def test_samples_run(page, tmp_path):
    """
    The Python samples of a page run, in order, as one program.
    """
    program = tmp_path / "samples.py"
    program.write_text("\n\n".join(blocks(page, "python")), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        cwd=tmp_path,
        env={**os.environ, "STEADYHELM_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert 0 == done.returncode, done.stderr


def test_what_is_installed_is_this_package():
    """
    Every line that installs names this package or a checkout of it, and only extras that it has.
    """
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = {page.name: page.read_text(encoding="utf-8") for page in PAGES}
    texts |= {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")}
    lines = {
        (name, what)
        for name, text in texts.items()
        for what in re.findall(r"pip(?:x run| install) '?([\w.-]+(?:\[[\w,{}.-]+\])?)", text)
        if name != "loop_classes.py"  # plants commands of agents
    }
    packages = {what.partition("[")[0] for _, what in lines}
    extras = {extra for _, what in lines for extra in re.findall(r"[\w-]+", what.partition("[")[2])}

    assert {settings["name"], "."} == packages
    assert extras - {"extra", "extras", "framework", "package"} <= set(settings["optional-dependencies"])


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", *sorted((ROOT / "docs" / "integrations").glob("*.md"))],
    ids=lambda page: page.name,
)
def test_every_page_shows_the_same_shortest_way(page):
    """
    README and every framework's page begin with the two lines that `steadyhelm init` prints.
    """
    if page.name != "generic.md":
        assert TWO_LINES.replace("\n", "\n\n", 1) == blocks(page, "python")[0]


@pytest.mark.parametrize("page", WITH_FRAMEWORKS, ids=lambda page: page.name)
def test_fragments_are_python(page):
    """
    What is shown beside a whole program is Python at least.
    """
    for block in blocks(page, "python"):
        compile(block, page.name, "exec")


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "console")], ids=lambda page: page.name
)
def test_commands_in_samples_exist(page):
    """
    Every `steadyhelm` command shown can be typed: the command exists, and so does each option.
    """
    shown = [
        line.removeprefix("$ steadyhelm").strip()
        for block in blocks(page, "console")
        for line in block.splitlines()
        if line.startswith("$ steadyhelm")
    ]
    for line in shown:
        # What follows `--` belongs to another program.
        ours = line.split("#")[0].partition(" -- ")[0]
        words = [word for word in ours.split() if word != "\\"]
        assert _options_of(words) >= {word.split("=")[0] for word in words if word.startswith("--")}, line


def _options_of(words):
    command = typer.main.get_command(app)
    known = {option for parameter in command.params for option in parameter.opts}
    known |= {"--help", "--install-completion", "--show-completion"}
    for word in words:
        if word in getattr(command, "commands", {}):
            command = command.commands[word]
            known |= {option for parameter in command.params for option in parameter.opts}
            known |= {option for parameter in command.params for option in parameter.secondary_opts}
    return known


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_heading(name):
    """
    A command without a heading in the docs does not exist for its users.
    """
    assert f"steadyhelm {name}" in headings("commands.md")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_explains_itself(name):
    """
    `--help` has words for the command and for each of its options.
    """
    command = COMMANDS[name]

    assert command.help
    options = [option for option in command.params if option.param_type_name == "option"]
    assert [] == [option.name for option in options if not option.help]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_has_a_heading(setting):
    """
    Each setting has a heading, and its environment variable is named below it.
    """
    assert setting.name in headings("settings.md")
    assert setting.variable in (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("group", "page"),
    [
        (registry.DETECTORS, "detectors.md"),
        (registry.SINKS, "sinks.md"),
        (registry.CHANNELS, "alerts.md"),
    ],
)
def test_every_plugin_has_a_heading(group, page):
    """
    Each detector, sink and channel that comes with Steadyhelm has a heading.
    """
    known = {heading.lower() for heading in headings(page)}

    assert set(registry.OWN[group]) <= known


@pytest.mark.parametrize("name", registry.OWN[registry.DETECTORS])
def test_every_option_of_a_detector_has_a_heading(name):
    """
    What can be set for a detector is listed among the settings.
    """
    options = [f"detectors.{name}.{option.name}" for option in list_options(name)]

    assert [] == [option for option in options if option not in headings("settings.md")]


def test_links_lead_somewhere():
    """
    A link from one page to another names a file that is there.
    """
    for page in PAGES:
        prose = FENCE.sub("", page.read_text(encoding="utf-8"))
        for target in re.findall(r"\]\(([^)#\s]+?)(?:#[^)]*)?\)", prose):
            if not target.startswith(("http:", "https:", "mailto:")):
                assert (page.parent / target).exists(), f"{page.name} -> {target}"


def test_every_page_is_in_the_menu():
    """
    The site's menu names every page of the docs.
    """
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")

    pages = [page.relative_to(ROOT / "docs") for page in (ROOT / "docs").glob("**/*.md")]
    assert [] == [page for page in pages if str(page) not in menu]


def test_changelog_fragments_are_well_named():
    """
    A fragment is called `<what>.<kind>.md`, and holds one sentence from the user's side.
    """
    for fragment in (ROOT / "changelog.d").glob("*.md"):
        what, kind, _ = fragment.name.split(".")
        assert what
        assert kind in CHANGES
        assert 1 == len(fragment.read_text(encoding="utf-8").strip().splitlines()), fragment.name


def test_the_version_is_the_same_everywhere():
    """
    pyproject.toml and the package agree on the version.
    """
    from steadyhelm import __version__

    assert __version__ == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

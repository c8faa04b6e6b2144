"""What is released works alone: wheel and source archive, each in an environment with nothing else in it."""

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
from steadyhelm import DriftMonitor
monitor = DriftMonitor('bare')
for _ in range(4):
    decision = monitor.record_event('tool_call', 'search', output_data='none')
print(decision.findings[0].detector)
"""


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """A folder with the wheel and the source archive, built once."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    return folder


@pytest.fixture
def python(tmp_path):
    """The interpreter of an environment with nothing but pip in it."""
    venv.create(tmp_path / "venv", with_pip=True)
    return tmp_path / "venv" / "bin" / "python"


def run(*words, **environment):
    """Run a command that must succeed, and return what it printed."""
    done = subprocess.run(
        [str(word) for word in words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout


def archive(folder, ending):
    [path] = folder.glob(f"*{ending}")
    return path


def install_lines(page):
    """The commands by which a page says Steadyhelm is installed."""
    return re.findall(r"^\$ (pip install steadyhelm)\b", (ROOT / page).read_text(), re.MULTILINE)


@pytest.mark.slow
@pytest.mark.xdist_group("distribution")
class TestDistribution:
    def test_the_wheel_holds_what_it_should(self, archives):
        """
        Types, licence, data files and every module are in the wheel; tests and tools are not.
        """
        names = zipfile.ZipFile(archive(archives, ".whl")).namelist()
        source = {
            str(path.relative_to(ROOT / "src"))
            for path in (ROOT / "src" / "steadyhelm").rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }

        assert source <= set(names)
        assert any(name.endswith("licenses/LICENSE") for name in names)
        assert [] == [name for name in names if name.startswith(("tests", "benchmarks", "conftest"))]

    def test_the_source_archive_can_be_tested(self, archives):
        """
        The source archive holds all its tests need, and what its readers look for.
        """
        with tarfile.open(archive(archives, ".tar.gz")) as held:
            names = {name.partition("/")[2] for name in held.getnames()}

        assert {"conftest.py", "pyproject.toml", "Makefile", "tests/test_public_names.py"} <= names
        assert {"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE"} <= names

    @pytest.mark.parametrize("ending", [".whl", ".tar.gz"])
    def test_it_works_without_anything_only_developers_have(self, archives, ending, python, tmp_path):
        """
        Installed alone into an empty environment, the command runs, the library watches, the demo ends well.
        """
        home = {"STEADYHELM_HOME": str(tmp_path / "home")}
        run(python, "-m", "pip", "install", "--quiet", archive(archives, ending))

        assert "Keeps AI agents on course" in run(python, "-m", "steadyhelm", "--help", **home)
        assert "action_loop" in run(python, "-W", "error", "-c", PROGRAM, **home)
        assert "bare" in run(python, "-m", "steadyhelm", "runs", **home)
        run(python, "-m", "steadyhelm", "demo", "--fast", **home)

    @pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/getting-started.md"])
    def test_the_install_line_is_right(self, archives, page, tmp_path):
        """
        The line that a page shows installs this very version, from wherever its archives are found.
        """
        [line] = install_lines(page)
        places = {"PIP_FIND_LINKS": str(archives), "PIP_TARGET": str(tmp_path / "installed")}
        run(sys.executable, "-m", *line.split(), "--quiet", "--no-deps", "--no-index", **places)

        version = archive(archives, ".whl").name.split("-")[1]
        assert (tmp_path / "installed" / f"steadyhelm-{version}.dist-info").is_dir()

    def test_it_can_be_tried_without_installing(self, archives, tmp_path):
        """
        `pipx run steadyhelm demo` runs the demo from an environment of its own.
        """
        assert "pipx run steadyhelm demo" in (ROOT / "README.md").read_text()
        folders = {name: str(tmp_path / name) for name in ("PIPX_HOME", "PIPX_BIN_DIR", "STEADYHELM_HOME")}
        wheel = archive(archives, ".whl")

        run(
            *(sys.executable, "-m", "pipx", "run", "--spec", wheel, "steadyhelm", "demo", "--fast"), **folders
        )

        assert any((tmp_path / "PIPX_HOME").iterdir())

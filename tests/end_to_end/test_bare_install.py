import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    built = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == built.returncode, built.stderr
    return next(folder.glob("*.whl"))


@pytest.mark.slow
@pytest.mark.xdist_group("bare install")
class TestBareInstall:
    def test_the_wheel_holds_what_it_should(self, wheel):
        """
        Types, licence and every module are in the wheel; tests and tools are not.
        """
        names = zipfile.ZipFile(wheel).namelist()

        assert "steadyhelm/py.typed" in names
        assert "steadyhelm/stores/sqlite.py" in names
        assert any(name.endswith("licenses/LICENSE") for name in names)
        assert [] == [name for name in names if name.startswith(("tests", "benchmarks", "conftest"))]

    def test_it_works_without_anything_only_developers_have(self, wheel, tmp_path):
        """
        Installed alone into a new environment, the command runs, the library watches, the demo ends well.
        """
        venv.create(tmp_path / "venv", with_pip=True)
        python = tmp_path / "venv" / "bin" / "python"
        environment = {"STEADYHELM_HOME": str(tmp_path / "home")}

        def run(*words):
            done = subprocess.run(
                [str(word) for word in words],
                env={**os.environ, **environment},
                capture_output=True,
                text=True,
                cwd=tmp_path,
                check=False,
            )
            assert 0 == done.returncode, done.stderr
            return done.stdout

        run(python, "-m", "pip", "install", "--quiet", wheel)
        assert "Keeps AI agents on course" in run(python, "-m", "steadyhelm", "--help")
        assert "action_loop" in run(
            python,
            "-W",
            "error",
            "-c",
            "from steadyhelm import DriftMonitor\n"
            "monitor = DriftMonitor('bare')\n"
            "for _ in range(4):\n"
            "    decision = monitor.record_event('tool_call', 'search', output_data='none')\n"
            "print(decision.findings[0].detector)\n",
        )
        assert "bare" in run(python, "-m", "steadyhelm", "runs")
        run(python, "-m", "steadyhelm", "demo", "--fast")

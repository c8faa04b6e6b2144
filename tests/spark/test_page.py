import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"


def test_samples_run(tmp_path):
    """
    The samples of the page run, in order, as one program, and print what they should find.
    """
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    program = tmp_path / "samples.py"
    program.write_text("\n\n".join(blocks), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert 0 == done.returncode, done.stderr
    assert 'r1 {"run_id":"r1","events":6,"findings":[{"at":1,' in done.stdout
    assert "('incident', 'CRITICAL'), ('run', '')]" in done.stdout

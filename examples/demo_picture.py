"""Draw `docs/assets/demo.svg` from what `steadyhelm demo` prints.

python examples/demo_picture.py
"""

# ruff: noqa: INP001 - an example is a script, not a package

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

PICTURE = Path(__file__).parents[1] / "docs" / "assets" / "demo.svg"
WIDTH = 118


def record_demo() -> str:
    """Return what the demo prints on a terminal with colours."""
    with tempfile.TemporaryDirectory() as home:
        variables = {"STEADYHELM_HOME": home, "FORCE_COLOR": "1", "COLUMNS": str(WIDTH)}
        done = subprocess.run(
            [sys.executable, "-m", "steadyhelm", "demo", "--fast"],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=True,
        )
        # The folder of this recording means nothing to a reader.
        return re.sub(re.escape(home), "~/.steadyhelm", done.stdout)


def main() -> None:
    """Write the picture."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(record_demo()))
    picture = console.export_svg(title="steadyhelm demo", unique_id="demo")
    # No page that shows the picture should load a font from elsewhere.
    picture = re.sub(r"\s*@font-face \{.*?\}", "", picture, flags=re.DOTALL)
    picture = re.sub(r"<!--.*?-->", "", picture)
    PICTURE.write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()

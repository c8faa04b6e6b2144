"""The tools of the example agent: they read, write and check real files in one folder."""

# ruff: noqa: INP001 - an example is a script, not a package
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

_MOST_BYTES: Final = 64 * 1024
_CHECK: Final = "check.py"
_CHECK_S: Final = 20.0


class ToolError(Exception):
    """A tool failed; the message is for the model."""


class Workshop:
    """A folder and the tools that work in it.

    Args:
        folder: The folder; it must be there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    @property
    def tools(self) -> dict[str, Callable[..., str]]:
        """The tools by their names for the model."""
        return {
            "list_files": self.list_files,
            "read_file": self.read_file,
            "write_file": self.write_file,
            "run_check": self.run_check,
        }

    def list_files(self) -> str:
        """Return the names of all files."""
        return ", ".join(sorted(path.name for path in self.folder.iterdir() if path.is_file()))

    def read_file(self, path: str) -> str:
        """Return the content of a file."""
        file = self._inside(path)
        if not file.is_file():
            raise ToolError(f"No such file: '{path}'")
        return file.read_bytes()[:_MOST_BYTES].decode("utf-8", "replace")

    def write_file(self, path: str, content: str) -> str:
        """Write this content to a file, replacing what was there."""
        if len(content) > _MOST_BYTES:
            raise ToolError(f"{len(content)} characters are too many, {_MOST_BYTES} at most.")
        self._inside(path).write_text(content, encoding="utf-8")
        return f"{path} saved"

    def run_check(self) -> str:
        """Run the folder's check; raises with its last line when it does not pass."""
        command = [sys.executable, "-E", "-s", "-B", _CHECK]
        try:
            done = subprocess.run(  # noqa: S603 - our own Python, on the agent's own folder
                command, cwd=self.folder, capture_output=True, text=True, timeout=_CHECK_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise ToolError(f"The check took more than {_CHECK_S:.0f} seconds.") from None
        lines = (done.stdout + done.stderr).strip().splitlines() or ["no output"]
        if done.returncode:
            raise ToolError(lines[-1])
        return lines[-1]

    def _inside(self, path: str) -> Path:
        file = (self.folder / path).resolve()
        if file.parent != self.folder:
            raise ToolError(f"{path} is not in the folder.")
        return file

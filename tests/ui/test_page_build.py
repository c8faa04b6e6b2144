"""The committed files are what the source builds to."""

import os
import subprocess
from pathlib import Path

from conftest import ROOT

UI = ROOT / "ui"
PAGE = ROOT / "src" / "steadyhelm" / "server" / "page"


def read_all(folder: Path) -> dict[str, bytes]:
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if name != "source.sha256"}


def test_the_committed_page_is_built_from_this_source(tmp_path):
    """
    Building again gives the same files, byte for byte, and the same names.
    """
    environment = {**os.environ, "STEADYHELM_PAGE_OUT": str(tmp_path / "page")}
    subprocess.run(
        ["npm", "run", "--silent", "build"], cwd=UI, env=environment, check=True, capture_output=True
    )
    built, committed = read_all(tmp_path / "page"), read_all(PAGE)

    assert sorted(built) == sorted(committed)
    assert [] == [name for name, content in built.items() if content != committed[name]]


def test_the_types_are_generated_from_the_schema(tmp_path):
    """
    Generating the types again gives the committed file.
    """
    target = tmp_path / "types.ts"
    subprocess.run(["node", "scripts/write-types.mjs", str(target)], cwd=UI, check=True)

    assert target.read_text() == (UI / "src" / "api" / "types.ts").read_text()

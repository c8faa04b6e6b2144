"""Compute the digest of what the page is built from: `python ui/digest.py` prints it, `--write` keeps it.

It lies beside the built files, so that a test without Node can tell whether they are of this source.
"""

import hashlib
import sys
from pathlib import Path

UI = Path(__file__).resolve().parent
KEPT = UI.parent / "src" / "steadyhelm" / "server" / "page" / "source.sha256"
FILES = ("index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts")
FOLDERS = ("public", "src")


def compute_digest() -> str:
    """Return the digest of every file that the build reads. Unit tests are not among them."""
    files = [UI / name for name in FILES]
    files += [path for folder in FOLDERS for path in (UI / folder).rglob("*") if path.is_file()]
    digest = hashlib.sha256()
    for path in sorted(files, key=lambda path: path.relative_to(UI).as_posix()):
        if path.name.endswith(".test.ts"):
            continue
        content = path.read_bytes()
        digest.update(f"{path.relative_to(UI).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        KEPT.write_text(compute_digest() + "\n")
    else:
        sys.stdout.write(compute_digest() + "\n")

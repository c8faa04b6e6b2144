"""The built page: a fixed set of files, read once. No path of a request ever reaches the file system."""

import hashlib
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
}
INDEX: Final = "/index.html"
NOT_BUILT: Final = (
    "The page is not built in this checkout of Steadyhelm: run `make ui`, or install a release. "
    "The API under /api/v1 works.\n"
)


class PageFile(NamedTuple):
    """One file of the page."""

    content: bytes
    type: str
    is_immutable: bool


def read_page(folder: Traversable | None = None) -> dict[str, PageFile]:
    """Return the files of the page by path; empty when the page is not built."""
    found: dict[str, PageFile] = {}
    _collect(files("steadyhelm.server") / "page" if folder is None else folder, "", found)
    return found if INDEX in found else {}


def _collect(folder: Traversable, prefix: str, found: dict[str, PageFile]) -> None:
    if not folder.is_dir():
        return
    for entry in folder.iterdir():
        path = f"{prefix}/{entry.name}"
        if entry.is_dir():
            _collect(entry, path, found)
            continue
        ending = entry.name[entry.name.rfind(".") :]
        if ending in TYPES:
            # Names in this folder hold a digest of their content: they never change.
            found[path] = PageFile(entry.read_bytes(), TYPES[ending], path.startswith("/assets/"))


def digest_page(page: dict[str, PageFile]) -> str:
    """Return a name for this page: another one means that a tab should be loaded again."""
    digest = hashlib.blake2b(digest_size=8)
    for path, file in sorted(page.items()):
        digest.update(path.encode() + b"\0" + file.content)
    return digest.hexdigest() if page else ""

"""Read signs of work from a tool call: a file changed or reverted, a test suite with fewer failures."""

import functools
from typing import Any, Final, NamedTuple
from zlib import crc32

from steadyhelm.events import TraceEvent
from steadyhelm.lexicons import LexiconEntry, load_lexicon

_PATH_KEYS: Final = ("path", "file_path", "filePath", "filename", "file", "notebook_path", "target_file")
_NEW_TEXT_KEYS: Final = (
    "content",
    "new_string",
    "new_str",
    "newString",
    "new_text",
    "file_text",
    "contents",
    "new_source",
)
_OLD_TEXT_KEYS: Final = ("old_string", "old_str", "oldString", "old_text")
_CONTENT_CHARS_READ: Final = 4096

# Every runner's name contains one of these; searching for them costs a tenth of the pattern.
_RUNNER_HINTS: Final = ("test", "tox", "nox", "mocha", "rspec", "phpunit", "check", "verify")
_GO_FAILURE: Final = "--- FAIL"
_RESULT_CHARS_READ: Final = 1024
UNKNOWN_FAILURES: Final = 1_000_000
"""The number of failures of a test run that failed without saying how many."""


class FileChange(NamedTuple):
    """A change of a file: a key for it, the key of its reversal, and whether it changes nothing."""

    key: int
    undo: int
    is_none: bool


class SuiteRun(NamedTuple):
    """A run of a test suite: a key for the suite, and the number of failures."""

    key: int
    failures: int


def find_file_change(args: Any) -> FileChange | None:
    """Return the file change that a call's arguments describe; None when they describe none."""
    if not isinstance(args, dict):
        return None
    path, new, old = (
        _get_first(args, _PATH_KEYS),
        _get_first(args, _NEW_TEXT_KEYS),
        _get_first(args, _OLD_TEXT_KEYS),
    )
    if not isinstance(path, str) or not isinstance(new, str):
        return None
    before = hash_text(old) if isinstance(old, str) else 0
    after, where = hash_text(new), hash_text(path)
    return FileChange(
        key=hash_text(f"{where} {before} {after}"),
        undo=hash_text(f"{where} {after} {before}"),
        is_none=isinstance(old, str) and old == new,
    )


def find_suite_run(event: TraceEvent, *, failed: bool) -> SuiteRun | None:
    """Return the test run that a call made; None for another call."""
    args = event.input_data
    has_command = isinstance(args, dict) and ("command" in args or "cmd" in args)
    command = _get_command(args) if has_command else None
    if command is None:
        if not _is_test_tool(event.action_name):
            return None
        which = event.action_name
    else:
        runner = (
            _find_pattern("test runner").search(command)
            if any(map(command.__contains__, _RUNNER_HINTS))
            else None
        )
        if runner is None:
            return None
        # Handling of the output, such as `2>&1 | tail`, does not make it another run.
        which = runner[0].rstrip(" 12")
    return SuiteRun(hash_text(which), _count_failures(event, failed=failed))


def _count_failures(event: TraceEvent, *, failed: bool) -> int:
    text = event.error or event.output_data
    if isinstance(text, dict):
        text = next((value for value in text.values() if isinstance(value, str)), "")
    if not isinstance(text, str):
        return UNKNOWN_FAILURES if failed else 0
    end = text[-_RESULT_CHARS_READ:]
    if "fail" not in end.lower() and "error" not in end.lower():
        return UNKNOWN_FAILURES if failed else 0
    counted = sum(
        int(one or other) for one, other in _find_pattern("failures").regex.findall(end)
    ) + end.count(_GO_FAILURE)
    return counted or (UNKNOWN_FAILURES if failed else 0)


def _get_command(args: dict[Any, Any]) -> str | None:
    command = args.get("command", args.get("cmd"))
    if isinstance(command, list):
        command = " ".join(part for part in command if isinstance(part, str))
    return command[:_CONTENT_CHARS_READ] if isinstance(command, str) else None


@functools.lru_cache(maxsize=256)
def _is_test_tool(name: str) -> bool:
    return _find_pattern("test tool").search(name[:100]) is not None


def _get_first(args: dict[Any, Any], names: tuple[str, ...]) -> Any:
    for name in names:
        if name in args:
            return args[name]
    return None


def hash_text(text: str) -> int:
    """Return a checksum of a text; of a long one, that of its beginning, its end and its length."""
    if len(text) > 2 * _CONTENT_CHARS_READ:
        text = f"{text[:_CONTENT_CHARS_READ]}{len(text)}{text[-_CONTENT_CHARS_READ:]}"
    return crc32(text.encode("utf-8", "replace"))


def _find_pattern(name: str) -> LexiconEntry:
    return load_lexicon(__package__, "work")[name]

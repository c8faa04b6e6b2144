"""What a call shows about the work: a file changed or changed back, a test suite with fewer failures."""

import functools
import re
from typing import Any, Final, NamedTuple
from zlib import crc32

from steadyhelm.events import TraceEvent

_PATHS: Final = ("path", "file_path", "filePath", "filename", "file", "notebook_path", "target_file")
_NEW: Final = (
    "content",
    "new_string",
    "new_str",
    "newString",
    "new_text",
    "file_text",
    "contents",
    "new_source",
)
_OLD: Final = ("old_string", "old_str", "oldString", "old_text")
_CONTENT_READ: Final = 4096

_RUNNER: Final = re.compile(
    r"\b(?:pytest|py\.test|unittest|tox|nox|runtests(?:\.py)?|jest|vitest|mocha|rspec|phpunit|ctest"
    r"|go test|cargo (?:nextest|test)|dotnet test|mix test|swift test|bazel test|make (?:test|check)"
    r"|(?:mise|task|just) (?:run )?tests?|(?:npm|pnpm|yarn|bun)(?: run)? test|mvn (?:test|verify)"
    r"|gradlew? \w*test)\b[^|;&>\n]{0,200}"
)
# Every runner's name holds one of these; looking for them costs a tenth of the pattern.
_RUNNER_HINTS: Final = ("test", "tox", "nox", "mocha", "rspec", "phpunit", "check", "verify")
_TEST_TOOL: Final = re.compile(r"(?:^|[_\W])(?:run_?)?tests?(?:$|[_\W])|[a-z]Tests?(?:$|[A-Z])")
_FAILURES: Final = re.compile(
    r"\b(\d{1,6}) (?:tests? )?(?:failed|failures?|failing|errors?)\b"
    r"|\b(?:failures|errors|failed)[=:] ?(\d{1,6})",
    re.IGNORECASE,
)
_GO_FAILURE: Final = "--- FAIL"
_RESULT_READ: Final = 1024
MANY: Final = 1_000_000
"""How many failures a test run has that failed without saying how many."""


class Change(NamedTuple):
    """A file's new content, or a part replaced: what it is known by, and what taking it back would be."""

    key: int
    undo: int
    is_none: bool


class SuiteRun(NamedTuple):
    """A run of tests: which, and how many failed."""

    key: int
    failures: int


def change_in(args: Any) -> Change | None:
    """The change of a file that a call's arguments describe; None when they describe none."""
    if not isinstance(args, dict):
        return None
    path, new, old = _first(args, _PATHS), _first(args, _NEW), _first(args, _OLD)
    if not isinstance(path, str) or not isinstance(new, str):
        return None
    before = text_key(old) if isinstance(old, str) else 0
    after, where = text_key(new), text_key(path)
    return Change(
        key=text_key(f"{where} {before} {after}"),
        undo=text_key(f"{where} {after} {before}"),
        is_none=isinstance(old, str) and old == new,
    )


def suite_run(event: TraceEvent, *, failed: bool) -> SuiteRun | None:
    """The run of tests that a call is; None when it is none."""
    args = event.input_data
    has_command = isinstance(args, dict) and ("command" in args or "cmd" in args)
    command = _command(args) if has_command else None
    if command is None:
        if not _is_test_tool(event.action_name):
            return None
        which = event.action_name
    else:
        runner = _RUNNER.search(command) if any(map(command.__contains__, _RUNNER_HINTS)) else None
        if runner is None:
            return None
        # What is done with the output, such as `2>&1 | tail`, does not make it another run.
        which = runner[0].rstrip(" 12")
    return SuiteRun(text_key(which), _failures(event, failed=failed))


def _failures(event: TraceEvent, *, failed: bool) -> int:
    text = event.error or event.output_data
    if isinstance(text, dict):
        text = next((value for value in text.values() if isinstance(value, str)), "")
    if not isinstance(text, str):
        return MANY if failed else 0
    end = text[-_RESULT_READ:]
    if "fail" not in end.lower() and "error" not in end.lower():
        return MANY if failed else 0
    counted = sum(int(one or other) for one, other in _FAILURES.findall(end)) + end.count(_GO_FAILURE)
    return counted or (MANY if failed else 0)


def _command(args: dict[Any, Any]) -> str | None:
    command = args.get("command", args.get("cmd"))
    if isinstance(command, list):
        command = " ".join(part for part in command if isinstance(part, str))
    return command[:_CONTENT_READ] if isinstance(command, str) else None


@functools.lru_cache(maxsize=256)
def _is_test_tool(name: str) -> bool:
    return _TEST_TOOL.search(name[:100]) is not None


def _first(args: dict[Any, Any], names: tuple[str, ...]) -> Any:
    for name in names:
        if name in args:
            return args[name]
    return None


def text_key(text: str) -> int:
    """A number for a text; of a long one, its beginning, its end and its length."""
    if len(text) > 2 * _CONTENT_READ:
        text = f"{text[:_CONTENT_READ]}{len(text)}{text[-_CONTENT_READ:]}"
    return crc32(text.encode("utf-8", "replace"))

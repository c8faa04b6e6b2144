"""The arguments by which a call names a file or a command."""

from typing import Any, Final

MAX_PATH_CHARS: Final = 300
_PATH_ARGUMENTS: Final = (
    "path", "file_path", "filePath", "filename", "file", "notebook_path", "target_file",
)  # fmt: skip
COMMAND_ARGUMENTS: Final = ("command", "cmd")


def find_path(arguments: Any) -> str | None:
    """Return the path of the file a call is about, None when its arguments name none."""
    path = first_argument(arguments, _PATH_ARGUMENTS)
    return path[:MAX_PATH_CHARS] if isinstance(path, str) and path else None


def find_command(arguments: Any) -> str | None:
    """Return the command that a call runs in a shell, None when its arguments hold none."""
    command = first_argument(arguments, COMMAND_ARGUMENTS)
    return command if isinstance(command, str) else None


def first_argument(arguments: Any, names: tuple[str, ...]) -> Any:
    """Return the value of the first of these arguments that a call has, None when it has none of them."""
    if isinstance(arguments, dict):
        for name in names:
            if name in arguments:
                return arguments[name]
    return None

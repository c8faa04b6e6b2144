"""`steadyhelm init`: write a settings file with every setting explained, and print how to start."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from steadyhelm.cli.output import EXIT_FAILED, EXIT_USAGE, fail
from steadyhelm.reports.terminal import safe, say

if TYPE_CHECKING:
    from steadyhelm.setting_table import Setting

_FILE_HEADER: Final = """\
# Settings of Steadyhelm. Every line that starts with #name is a setting with its default:
# remove the # to change it. Arguments in your program override the environment
# (STEADYHELM_MODE, STEADYHELM_ALERTS_WEBHOOK, ...), and the environment overrides this file.
# `steadyhelm config` shows every value and where it comes from.
"""

# Settings without a default, with a value that makes sense as an example.
EXAMPLES: Final[dict[str, Any]] = {
    "detectors.action_loop.max_repeats": 4,
    "detectors.action_loop.window": 100,
    "detectors.goal_drift.similarity_threshold": 0.2,
    "detectors.reply_style.profile": "standard",
    "detectors.resource_spike.spike_multiplier": 3.0,
    "detectors.stagnation.same_answers": 6,
    "detectors.stagnation.similar_searches": 4,
    "detectors.user_correction.repeats": 2,
}

TWO_LINES: Final = """\
import steadyhelm
steadyhelm.install(mode="guide")
"""


def init(
    context: typer.Context,  # noqa: ARG001 - every command takes it
    path: Annotated[Path, typer.Option("--path", help="The settings file to write.")] = Path(
        "steadyhelm.toml"
    ),
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing file; it is kept as .bak.")
    ] = False,
) -> None:
    """Write a commented settings file. Prints the two lines to add to a program."""
    if path.is_dir() or not path.absolute().parent.is_dir():
        fail(f"{safe(path)} cannot be written: name a file in a folder that exists.", EXIT_USAGE)
    if os.path.lexists(path):
        if not force:
            fail(
                f"{safe(path)} already exists. Add --force to replace it; "
                f"it is kept as {_choose_backup_path(path)}."
            )
        path.replace(_choose_backup_path(path))
        say(f"The previous file is now {safe(_choose_backup_path(path))}.")
    try:
        path.write_text("\n".join(iter_settings_lines()) + "\n", encoding="utf-8")
    except OSError as exc:
        fail(f"{safe(path)} cannot be written: {exc.strerror or exc}.", EXIT_FAILED)
    say(f"Wrote {safe(path)}: every setting is in it, commented out, with its default.")
    say("Add these two lines at the start of your program; its agents are called as before:\n")
    typer.echo(TWO_LINES, nl=False)
    say("\nThen `steadyhelm runs` lists its runs. `steadyhelm doctor` checks that everything works.")


def iter_settings_lines() -> Iterator[str]:
    """Yield the lines of a settings file in which every setting is explained and commented out."""
    from steadyhelm.setting_table import SETTINGS
    from steadyhelm.settings import Settings

    yield _FILE_HEADER
    defaults = Settings()
    table = ""
    # A name with a dot belongs to a table, and a table ends only where the next one begins.
    for setting in sorted(SETTINGS, key=lambda setting: "." in setting.name):
        group, _, name = setting.name.rpartition(".")
        if group != table:
            table = group
            yield f"\n[{group}]"
        yield from _iter_entry_lines(name, getattr(defaults, setting.attribute), _describe_setting(setting))
    yield from _iter_detector_lines()


def describe_allowed(setting: "Setting") -> str:
    """Return what a setting may be, in the words of its own check."""
    try:
        setting.check(object())
    except ValueError as exc:
        return str(exc)
    return "anything"


def _iter_detector_lines() -> Iterator[str]:
    from steadyhelm.cli.config import list_detectors, list_options

    for detector in list_detectors():
        yield f"\n[detectors.{detector}]"
        for option in list_options(detector):
            name = f"detectors.{detector}.{option.name}"
            if option.default is not None:
                # TOML has no None, but it has infinity.
                yield from _iter_entry_lines(option.name, option.default, option.about.replace("None", "inf"))
                continue
            about = f"{option.about.replace('None', 'leave it out')} (Not set by default.)"
            if name in EXAMPLES:
                yield from _iter_entry_lines(option.name, EXAMPLES[name], about)
            else:
                yield f"# {option.name}: {about}"


def _describe_setting(setting: "Setting") -> str:
    may_be = describe_allowed(setting)
    return setting.about if may_be == "text" else f"{setting.about} ({may_be})"


def _iter_entry_lines(name: str, value: Any, about: str) -> Iterator[str]:
    if about:
        yield f"# {about}"
    yield f"#{name} = {format_toml(value)}"


def format_toml(value: Any) -> str:
    """Return a value as TOML.

    >>> format_toml(True), format_toml(0.5), format_toml(("x", "y"))
    ('true', '0.5', '["x", "y"]')
    """
    import msgspec

    if isinstance(value, tuple | list):
        return f"[{', '.join(format_toml(item) for item in value)}]"
    # For texts, numbers and switches JSON and TOML agree.
    return msgspec.json.encode(value).decode()


def _choose_backup_path(path: Path) -> Path:
    return path.with_name(path.name + ".bak")

"""`steadyhelm doctor`: a self-test that says what works, what does not, and what to do."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from steadyhelm.cli.context import Shared
from steadyhelm.cli.output import FAILED, print_json
from steadyhelm.reports.terminal import console, safe

if TYPE_CHECKING:
    from steadyhelm.cli.doctor_checks import Check

_MARKS: Final = {
    "ok": ("ok     ", "green"),
    "warning": ("warning", "yellow"),
    "FAIL": ("FAIL   ", "bold red"),
}


def doctor(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for programs.")] = False,
) -> None:
    """Check settings, database, alerts and models, and prove that each detector fires on its own example.

    The exit status is 1 when something FAILs.
    """
    from steadyhelm.cli.doctor_checks import every_check

    shared: Shared = context.obj
    checks = list(every_check(shared))
    failed = sum(check.status == "FAIL" for check in checks)
    if as_json:
        print_json({"ok": not failed, "checks": checks})
    else:
        _print(checks, failed)
    if failed:
        raise typer.Exit(FAILED)


def _print(checks: list["Check"], failed: int) -> None:
    from rich.text import Text

    out = console()
    for check in checks:
        name = safe(check.name).ljust(24)
        out.print(Text.assemble(_MARKS[check.status], f"  {name} {safe(check.message)}"))
        if check.advice:
            out.print(Text(f"{'':9}{'':24} {safe(check.advice)}", "dim"))
    warnings = sum(check.status == "warning" for check in checks)
    out.print(f"{len(checks)} checks, {failed} failed, {warnings} warning{'s' * (warnings != 1)}")

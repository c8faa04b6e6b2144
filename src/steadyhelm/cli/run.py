"""`steadyhelm run`: run a Python program with its agents watched, without a change of its code."""

import builtins
import os
import runpy
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Annotated, Final

import typer

from steadyhelm.cli.output import EXIT_USAGE, fail
from steadyhelm.reports.terminal import safe

_MAIN: Final = "__main__"


def run(
    context: typer.Context,  # noqa: ARG001 - every command takes it
    program: Annotated[
        list[str] | None, typer.Argument(metavar="PROGRAM", help="The script and its arguments, after `--`.")
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option("--mode", help="observe, guide or enforce; by default what the settings say."),
    ] = None,
    goal: Annotated[str | None, typer.Option("--goal", help="What the agents are for.")] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", help="The name of the agent; by default the script's.")
    ] = None,
    module: Annotated[
        str | None,
        typer.Option("-m", "--module", help="Run a module instead of a script, as `python -m` does."),
    ] = None,
) -> None:
    """Run a Python program, and watch its agents. All frameworks that it uses are watched."""
    arguments = list(program or ())
    if module is None and not arguments:
        fail("Name the program to run: steadyhelm run --mode guide -- script.py.", EXIT_USAGE)
    if module is None and not Path(arguments[0]).is_file():
        hint = " A module is run with -m before the `--`." if arguments[0] == "-m" else ""
        fail(f"There is no script {safe(arguments[0])}.{hint}", EXIT_USAGE)
    sys.argv = arguments if module is None else [module, *arguments]

    from steadyhelm.installation import install

    # Only now does the program's own name stand in sys.argv.
    install(mode, goal, agent_id=agent)
    raise Program(module)


class Program(Exception):  # noqa: N818 - it is no error: it leaves the command line, which handles exceptions
    """A program to run when the command line is done: what it raises is nothing to do with us."""

    def __init__(self, module: str | None) -> None:
        super().__init__(module)
        self.module = module

    def start(self) -> None:
        """Run the program as Python runs it: the same `sys.argv`, exit status and traceback."""
        path = Path.cwd() if self.module is not None else Path(sys.argv[0]).resolve().parent
        if not sys.flags.safe_path:
            sys.path[0] = str(path)
        try:
            if self.module is not None:
                runpy.run_module(self.module, run_name=_MAIN, alter_sys=True)
            else:
                _execute_script(os.path.abspath(sys.argv[0]))  # noqa: PTH100 - links stay, as in Python
        except BaseException as exc:
            _print_without_our_frames(exc.__traceback__)
            raise


def _execute_script(path: str) -> None:
    main = ModuleType(_MAIN)
    main.__file__, main.__loader__ = path, SourceFileLoader(_MAIN, path)
    vars(main)["__builtins__"] = builtins
    sys.modules[_MAIN] = main
    code = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
    exec(code, vars(main))  # noqa: S102 - it is the user's own program


def _print_without_our_frames(trace: TracebackType | None) -> None:
    """Let an exception that ends the process be printed from the program's first frame on."""
    while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    print_exception = sys.excepthook

    def print_program_frames(kind: type[BaseException], error: BaseException, _: object) -> None:
        print_exception(kind, error.with_traceback(trace), trace)

    sys.excepthook = print_program_frames


def _is_ours(file_name: str) -> bool:
    return file_name in {__file__, "<frozen runpy>", runpy.__file__}

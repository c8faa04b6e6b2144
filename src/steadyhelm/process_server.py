"""Start the server of the processes that judge runs: they are copies of it, and need load nothing."""

from collections.abc import Sequence
from itertools import pairwise
from multiprocessing import forkserver, get_all_start_methods, get_context
from multiprocessing.context import BaseContext
from typing import Final

_LOADED_ONCE: Final = "steadyhelm.replay_pool"
_JOBS: Final = "--jobs"


def get_process_context() -> BaseContext:
    """Return a way to start processes: copies of one that has loaded what they need and has no other thread.

    A copy of this process would have the locks of a progress bar's thread as they are at that moment.
    """
    if not _has_server():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload([_LOADED_ONCE])
    return context


def start_for(arguments: Sequence[str]) -> None:
    """Start the server when these arguments ask for several processes, without waiting for it.

    It loads what they need while this process loads the command line, which takes as long.
    """
    if not _has_server() or not _ask_for_processes(arguments):
        return
    get_process_context()
    forkserver.ensure_running()


def _has_server() -> bool:
    return "forkserver" in get_all_start_methods()


def _ask_for_processes(arguments: Sequence[str]) -> bool:
    """Return whether the arguments ask for more than one job, and not on Spark.

    >>> _ask_for_processes(["runs", "--jobs", "2"]), _ask_for_processes(["runs", "--jobs=2"])
    (True, True)
    >>> _ask_for_processes(["runs", "--jobs", "1"]), _ask_for_processes(["--engine", "spark", "--jobs", "2"])
    (False, False)
    """
    if {"spark", "--engine=spark"} & set(arguments):
        return False
    after = [value for name, value in pairwise(arguments) if name == _JOBS]
    joined = [it.removeprefix(f"{_JOBS}=") for it in arguments if it.startswith(f"{_JOBS}=")]
    return any(value.isdecimal() and int(value) > 1 for value in (*after, *joined))

"""Prove that a run which is saved and continued between all its events has the same report.

Usage: python -m benchmarks.prove_sessions [--runs-per-file N]

Every open run is judged as a whole, and once more with its session saved and made anew before every event
and before its end; once alone, once compared with a baseline learnt from these runs. Reports, incidents,
responses and summaries must be equal. The exit status is 1 when one differs, or a state is larger than 64 kB.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from benchmarks.open_runs import learn_baselines, list_files, read_runs

from steadyhelm.portable_session import make_session, save_session
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.replay import JudgedReplay, Replayer
from steadyhelm.settings import Settings
from steadyhelm.stores import open_store

LARGEST_STATE = 64_000


class SavingReplayer(Replayer):
    """A replayer that saves the session of a run before each event, and continues with another one."""

    largest = 0
    """The bytes of the largest state so far."""

    def judge(self, run: ReadRun) -> JudgedReplay:
        """Judge a recorded run, saved and continued between all its events."""
        replay = self.begin(run.info)
        for event in [*run.events, None]:
            state = save_session(replay.session)
            self.largest = max(self.largest, len(state))
            replay.session = make_session(self._settings, state=state)
            if event is not None:
                replay.observe(event)
        return replay.end(run)


@contextmanager
def learnt(files: list[Path], most: int | None) -> Iterator[Path]:
    """Yield a database with the baselines that the runs teach."""
    with tempfile.TemporaryDirectory(prefix="steadyhelm-prove-") as folder:
        database = Path(folder) / "learnt.db"
        print(f"{learn_baselines(read_runs(files, most), database)} baselines learnt", flush=True)
        yield database


def compare(files: list[Path], most: int | None, database: Path | None) -> Counter[str]:
    """Judge all runs in both ways; return what was counted."""
    with closing(open_store(database, read_only=True)) if database else _nothing() as store:
        whole, saving = (kind(Settings(), store=store) for kind in (Replayer, SavingReplayer))
        counted: Counter[str] = Counter()
        for run in read_runs(files, most):
            first, second = whole.judge(run), saving.judge(run)
            counted["runs"] += 1
            counted["events"] += len(run.events)
            if first != second:
                counted["different"] += 1
                print(f"differs: {run.info.run_id} in {_name_difference(first, second)}", flush=True)
        counted["largest state"] = saving.largest
    return counted


@contextmanager
def _nothing() -> Iterator[None]:
    yield None


def _name_difference(first: JudgedReplay, second: JudgedReplay) -> str:
    return ", ".join(name for name in first._fields if getattr(first, name) != getattr(second, name))


def main() -> int:
    """Compare all runs, print what was counted, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs-per-file", type=int, default=None)
    most = parser.parse_args().runs_per_file
    files = list_files()
    is_met = True
    with learnt(files, most) as database:
        for words, where in (("alone", None), ("with learnt baselines", database)):
            counted = compare(files, most, where)
            met = not counted["different"] and counted["largest state"] <= LARGEST_STATE
            is_met = is_met and met
            runs = f"{counted['runs']:,} runs ({counted['events']:,} events)"
            print(
                f"{'met' if met else 'MISSED'}: {counted['different']} of {runs} differ {words}; "
                f"largest state {counted['largest state']:,} bytes",
                flush=True,
            )
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())

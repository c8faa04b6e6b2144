"""Send alerts and ask a judge about sessions of coding agents, while no agent waits for it.

Only the resident helper asks a judge: a hook process is gone before an answer comes. The verdict is recorded
with the next event of its session.
"""

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from steadyhelm.bounded import BoundedDict
from steadyhelm.components import build_alert_worker, make_judge_worker
from steadyhelm.errors import SteadyhelmError
from steadyhelm.forks import ForkSafeLock
from steadyhelm.hooks.log import write_log
from steadyhelm.judging.usage import JudgeAmounts
from steadyhelm.stores import open_store
from steadyhelm.stores.locations import DatabaseLocation

if TYPE_CHECKING:
    from steadyhelm.engine.health import Health
    from steadyhelm.engine.judge_worker import JudgedRecorder, JudgeWorker
    from steadyhelm.judge import JudgedReport, Question
    from steadyhelm.settings import Settings
    from steadyhelm.sinks.alerts.worker import AlertWorker
    from steadyhelm.stores.sql_store import SQLStore


_RUNS_KEPT: Final = 256
_ANSWERS_PER_RUN: Final = 16


class _Asked(NamedTuple):
    run: "HookRun"
    questions: "Sequence[Question]"


class HookRun:
    """A run of a hook as the judge sees it: its answers are kept for the next event."""

    is_live = True

    def __init__(self, judging: "HookJudging", key: str, spent: JudgeAmounts, weight: float) -> None:
        self._judging = judging
        self._key = key
        self._spent = spent
        self._weight = weight

    def record_judged(self, report: "JudgedReport") -> bool:
        """Keep an answer until the next event of the run."""
        return self._judging.keep(self._key, report)

    def get_judge_spending(self) -> JudgeAmounts:
        """Return what judges have used for this run, with the answers that are not recorded yet."""
        total = self._spent
        for report in self._judging.list_kept(self._key):
            tokens = report.input_tokens + report.output_tokens
            total = total.add(JudgeAmounts(int(report.asked), tokens, report.cost_usd or 0.0))
        return total

    def get_judge_weight(self) -> float:
        """Return how far verdicts are trusted in this run."""
        return self._weight


class HookJudging:
    """Puts the questions of sessions to the judge in the settings, and keeps its answers.

    Args:
        settings: The settings of the hooks.
        health: Counts what was not asked.
    """

    def __init__(self, settings: "Settings", health: "Health") -> None:
        self.is_on = bool(settings.judge)
        self._settings = settings
        self._health = health
        self._lock = ForkSafeLock()
        self._asked: list[_Asked] = []
        self._answers: BoundedDict[str, list[JudgedReport]] = BoundedDict(_RUNS_KEPT)
        self._workers: dict[DatabaseLocation, JudgeWorker] = {}

    def ask(self, recorder: "JudgedRecorder", questions: "Sequence[Question]") -> None:
        """Remember questions of the event under way; `send` has them asked."""
        session = getattr(recorder, "session", None)
        run = getattr(session, "run", None)
        key = "" if run is None else _name_run(run.agent_id, run.run_id)
        hook_run = HookRun(self, key, recorder.get_judge_spending(), recorder.get_judge_weight())
        self._asked.append(_Asked(hook_run, questions))

    def send(self, *, stays: bool) -> None:
        """Have the questions asked in a process that stays; otherwise nobody is asked."""
        asked, self._asked = self._asked, []
        if asked and stays:
            database = self._settings.database.to_absolute()
            threading.Thread(target=self._hand_over, args=(database, asked), daemon=True).start()

    def keep(self, key: str, report: "JudgedReport") -> bool:
        """Keep an answer; return whether there was room for it."""
        with self._lock:
            kept = self._answers.get(key) or []
            if len(kept) < _ANSWERS_PER_RUN:
                self._answers[key] = [*kept, report]
            return len(kept) < _ANSWERS_PER_RUN

    def list_kept(self, key: str) -> "Sequence[JudgedReport]":
        """Return the answers that wait for the next event of a run."""
        return tuple(self._answers.get(key) or ())

    def take_answers(self, agent_id: str, run_id: str) -> "Sequence[JudgedReport]":
        """Return the answers that wait for this event of a run, once."""
        with self._lock:
            return tuple(self._answers.pop(_name_run(agent_id, run_id), ()))

    def _hand_over(self, database: "DatabaseLocation", asked: Sequence[_Asked]) -> None:
        try:
            worker = self._open(database)
        except SteadyhelmError as exc:
            write_log("hook: the judge cannot be asked", type(exc).__name__)
            return
        for run, questions in asked:
            worker.ask(run, questions)

    def _open(self, database: "DatabaseLocation") -> "JudgeWorker":
        with self._lock:
            if database not in self._workers:
                store = open_store(database, synchronous=self._settings.synchronous)
                worker = make_judge_worker(self._settings, None, store=store, health=self._health)
                assert worker is not None
                self._workers[database] = worker
            return self._workers[database]


def _name_run(agent_id: str, run_id: str) -> str:
    return f"{agent_id}\0{run_id}"


class HookAlerts:
    """Sends the alerts that steps put into the store, to the channel in the settings.

    Args:
        settings: The settings of the hooks.
        health: Counts alerts that were given up.
    """

    def __init__(self, settings: "Settings", health: "Health") -> None:
        self._settings = settings
        self._health = health
        # A process that ended may have left some.
        self._is_due = bool(settings.alerts_webhook)
        self._opening = ForkSafeLock()
        self._workers: dict[DatabaseLocation, tuple[AlertWorker, SQLStore]] = {}
        """By location: a path may be relative to the folder of the hook."""

    def note_due_alert(self) -> None:
        """Remember that an alert waits to be sent."""
        self._is_due = True

    def send(self, *, stays: bool) -> None:
        """Send what waits: from a thread of its own in a process that stays, else before this returns."""
        if not self._is_due:
            return
        self._is_due = False
        database = self._settings.database.to_absolute()
        if stays:
            threading.Thread(target=self._wake_worker, args=(database,), daemon=True).start()
        else:
            self._deliver(database)

    def _wake_worker(self, database: DatabaseLocation) -> None:
        try:
            self._open(database)[0].wake()
        except SteadyhelmError as exc:
            _log_refusal(exc)

    def _deliver(self, database: DatabaseLocation) -> None:
        try:
            worker, store = self._open(database)
            worker.deliver_due()
            losses = self._health.list_losses(time.time())
            store.write(losses)
            self._health.mark_stored(losses)
        except SteadyhelmError as exc:
            _log_refusal(exc)

    def _open(self, database: DatabaseLocation) -> "tuple[AlertWorker, SQLStore]":
        with self._opening:
            if database not in self._workers:
                store = open_store(database, synchronous=self._settings.synchronous)
                try:
                    worker = build_alert_worker(self._settings, store, self._health)
                except SteadyhelmError:
                    store.close()
                    raise
                assert worker is not None
                self._workers[database] = worker, store
            return self._workers[database]


def _log_refusal(exc: SteadyhelmError) -> None:
    # The message of an error about an address may hold a part of it, which is a secret.
    write_log("hook: alerts cannot be sent", type(exc).__name__)

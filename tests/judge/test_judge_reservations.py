"""The limit of a day is shared exactly, however many processes ask at once."""

from judge_reservations import CALLS, TOKENS, reserve_at_once
from steadyhelm.engine.judge_worker import read_daily_use
from steadyhelm.judging.usage import JudgeAmounts
from steadyhelm.stores.sqlite import SQLiteStore


def test_processes_that_ask_at_once_use_up_the_limit_and_no_more(tmp_path):
    """
    Three processes try ninety questions where twenty are allowed: twenty are granted, not one less.
    """
    path = tmp_path / "runs.db"
    SQLiteStore(path).close()
    reserved = reserve_at_once(path)
    assert CALLS == sum(granted for granted, _ in reserved)
    store = SQLiteStore(path)
    assert JudgeAmounts(CALLS, TOKENS, 0.0) == read_daily_use(store, since=0.0, until=4e9)
    store.close()

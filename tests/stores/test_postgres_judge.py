"""The limit of a judge's day is shared exactly on PostgreSQL too."""

from judge_reservations import CALLS, TOKENS, reserve_at_once
from steadyhelm.engine.judge_worker import read_daily_use
from steadyhelm.judging.usage import JudgeAmounts
from steadyhelm.stores.postgres import PostgresStore


def test_processes_that_ask_at_once_use_up_the_limit_and_no_more(postgres_url):
    """
    Three processes try ninety questions where twenty are allowed: twenty are granted, not one less.
    """
    store = PostgresStore(postgres_url)
    reserved = reserve_at_once(postgres_url)
    assert CALLS == sum(granted for granted, _ in reserved)
    assert JudgeAmounts(CALLS, TOKENS, 0.0) == read_daily_use(store, since=0.0, until=4e9)
    store.close()

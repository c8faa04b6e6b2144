import pytest

from steadyhelm.stores.sqlite import SQLiteStore
from steadyhelm.testing import store_checks, store_incident_checks, store_upkeep_checks
from steadyhelm.testing.store_checks import STORE_CHECKS


class TestSQLiteStore:
    @pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
    def test_conforms(self, check, tmp_path):
        """
        The SQLite store does what every store must do.
        """
        check(lambda: SQLiteStore(tmp_path / "runs.db"))


class TestPostgresStore:
    @pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
    def test_conforms(self, check, postgres_url):
        """
        The PostgreSQL store does what every store must do.
        """
        from steadyhelm.stores.postgres import PostgresStore

        check(lambda: PostgresStore(postgres_url))


class TestChecks:
    def test_none_is_left_out(self):
        """
        Every check that was written is in the list that stores are put through.
        """
        modules = (store_checks, store_incident_checks, store_upkeep_checks)
        names = [name for module in modules for name in vars(module)]
        written = {name for name in names if name.startswith("check_")}

        assert written == {check.__name__ for check in STORE_CHECKS}

    def test_they_bite(self, tmp_path):
        """
        A store that forgets its events does not pass.
        """

        class Forgetful(SQLiteStore):
            def iter_run_events(self, agent_id, run_id):
                return iter(())

        failed = 0
        for number, check in enumerate(STORE_CHECKS):
            path = tmp_path / f"{number}.db"
            try:
                check(lambda path=path: Forgetful(path))
            except AssertionError:
                failed += 1

        assert failed >= 3

"""A PostgreSQL server that refuses: a plain message, no password in it, and no step is lost."""

import itertools
import re
from contextlib import closing

import psycopg
import pytest
from fault_tools import Account, adopt, make_monitor, record, record_run, start_process, wait_until

from postgres_server import find_pooler, find_port, run_server
from steadyhelm.errors import StoreError
from steadyhelm.stores import open_store
from steadyhelm.testing.store_checks import STORE_CHECKS

pytestmark = pytest.mark.postgres

PASSWORD, OTHER = "s3cret!", "0ther!"
PLAIN = "host all all 127.0.0.1/32 scram-sha-256"
MIXES = ("pool_mode = transaction", "default_pool_size = 2")
NUMBERS = itertools.count()


class Place:
    """A database of a server that asks for passwords, and a role without rights."""

    def __init__(self, server, url):
        self.server = server
        self.database = url.rpartition("/")[2]
        self.role = f"worker_{next(NUMBERS)}"
        server.execute(f"CREATE ROLE {self.role} LOGIN PASSWORD '{PASSWORD}'")

    def get_url(self, password=PASSWORD, *, database="", options=""):
        where = self.server.get_url(database or self.database)
        return where.replace("steadyhelm@", f"{self.role}:{password.replace('!', '%21')}@") + options

    def allow_tables(self):
        self.server.execute(f"GRANT CREATE ON DATABASE {self.database} TO {self.role}")


@pytest.fixture(scope="module")
def own_server():
    """A server on loopback that asks for passwords and offers no encryption."""
    with run_server(port=find_port(), access=PLAIN) as server:
        yield server


@pytest.fixture
def place(own_server):
    with own_server.new_database() as url:
        yield Place(own_server, url)


# Each yields the address that is refused, and then ends the reason.


def use_a_wrong_password(place):
    place.allow_tables()
    yield place.get_url(OTHER)
    place.server.execute(f"ALTER ROLE {place.role} PASSWORD '{OTHER}'")


def use_an_unknown_database(place):
    later = f"{place.database}_later"
    yield place.get_url(database=later)
    place.server.execute(f"CREATE DATABASE {later} OWNER {place.role}")


def use_a_role_without_rights(place):
    yield place.get_url()
    place.allow_tables()


def use_no_encryption(place):
    place.allow_tables()
    place.server.set_access(PLAIN.replace("host ", "hostssl "))
    place.server.reload()
    yield place.get_url(options="?sslmode=disable")
    place.server.set_access(PLAIN)
    place.server.reload()


def insist_on_encryption(place):
    place.allow_tables()
    place.server.execute("ALTER SYSTEM RESET ssl")
    place.server.reload()
    yield place.get_url(options="?sslmode=require")
    place.server.offer_tls()


REFUSALS = {
    use_a_wrong_password: "refused the user or the password. Check both",
    use_an_unknown_database: "does not exist on that server. Create it",
    use_a_role_without_rights: "does not let this user do that. Ask its owner",
    use_no_encryption: "does not let this user in from here, or not without encryption. Check sslmode",
    insist_on_encryption: "offers no encrypted connection. Turn on ssl in the server",
}


def is_refused(url):
    try:
        open_store(url, timeout_s=1.0).close()
    except StoreError:
        return True
    return False


@pytest.mark.usefixtures("quiet")
class TestRefusals:
    @pytest.mark.parametrize("reason", REFUSALS, ids=lambda reason: reason.__name__)
    def test_it_is_said_and_no_step_is_lost(self, place, caplog, reason):
        """
        The message says what to do, without the password; what was recorded is stored once it is done.
        """
        refusal = reason(place)
        url = next(refusal)
        wait_until(lambda: is_refused(url))
        with pytest.raises(StoreError, match=re.escape(REFUSALS[reason])) as caught:
            open_store(url)
        monitor = make_monitor(url)
        record_run(monitor, 10, "run")
        monitor.close(0.1)

        assert "steps wait in" in caplog.text.lower()
        assert not re.search("s3cret|0ther", f"{caught.value} {caught.value.__cause__} {caplog.text}")
        assert [] == list(refusal)
        adopt(url)
        account = Account(url)
        assert ({"run": 10}, 0, []) == (account.runs, account.lost, account.faults)

    def test_a_certificate_that_nobody_knows(self, place):
        """
        A server whose certificate cannot be verified is said to be one.
        """
        place.server.offer_tls()
        url = place.get_url(options="?sslmode=verify-full&sslrootcert=system")
        with pytest.raises(StoreError, match=r"certificate|sslrootcert") as caught:
            open_store(url)

        assert "s3cret" not in str(caught.value)


class TestFewRights:
    def test_rows_alone(self, place):
        """
        Once its owner has created the tables, a role that may only read and write rows is enough.
        """
        open_store(place.server.get_url(place.database)).close()
        with psycopg.connect(place.server.get_url(place.database), autocommit=True) as owner:
            owner.execute(f"GRANT USAGE ON SCHEMA steadyhelm TO {place.role}")
            owner.execute(
                f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA steadyhelm TO {place.role}"
            )
            owner.execute(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA steadyhelm TO {place.role}")
        monitor = make_monitor(place.get_url(), settings={"retention.run_days": 30})
        with monitor.run(run_id="run"):
            record(monitor, 10)
        assert monitor.flush(60).complete
        monitor.close()

        assert {"run": 10} == Account(place.get_url()).runs


RECORDS = """
import sys
from fault_tools import make_monitor, record_run
monitor = make_monitor(sys.argv[1], sys.argv[2])
for number in range(10):
    record_run(monitor, 10, f"{sys.argv[2]}-{number}")
assert monitor.flush(60).complete
monitor.close()
"""


@pytest.mark.skipif(find_pooler() is None, reason="PgBouncer is not installed")
class TestPooler:
    @pytest.mark.parametrize(
        "options",
        [
            ("pool_mode = session", "default_pool_size = 30"),
            MIXES,
            (*MIXES, "ignore_startup_parameters = options"),
        ],
        ids=["session", "transaction", "settings ignored"],
    )
    def test_several_agents_share_connections(self, postgres_server, database, options):
        """
        However PgBouncer hands out its connections, and whether it refuses or drops our settings: several
        agents store everything, in the tables that agents without it use.
        """
        make_monitor(database).close()
        with postgres_server.run_pooler(*options) as through_pooler:
            url = through_pooler(database)
            agents = [start_process(RECORDS, url, f"agent-{number}") for number in range(3)]
            for agent in agents:
                agent.communicate(timeout=60)
            assert [0, 0, 0] == [agent.returncode for agent in agents]
            with closing(open_store(url)) as store:
                store.prune(runs_before=1.0, payloads_before=1.0)
                assert [] == store.check()

        account = Account(database)
        assert (300, 0, []) == (account.stored, account.lost, account.faults)

    @pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
    def test_the_store_conforms(self, postgres_server, database, check):
        """
        Behind PgBouncer, which hands transactions to any connection, the store does what every store must.
        """
        with postgres_server.run_pooler(*MIXES) as through_pooler:
            check(lambda: open_store(through_pooler(database)))

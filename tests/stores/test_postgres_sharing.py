"""Several processes write to one PostgreSQL database, to the same agents, at once."""

import itertools
import json
import subprocess
import sys

import psycopg
import pytest

from steadyhelm.decisions import TaskProfile
from steadyhelm.errors import StoreError
from steadyhelm.people import AccessKey, AuditEntry
from steadyhelm.sink import SavedState
from steadyhelm.stores.postgres import PostgresStore
from steadyhelm.testing.store_records import AT, a_delivery, an_event, an_incident

WRITERS = 4
BATCHES = 12
AGENTS = [f"agent-{n}" for n in range(6)]

# Each writer names the agents in another order, ends runs, and opens the same incident of each agent as all
# others do. Nothing but the first error counts: a sink that fails is what users would see.
WRITER = """
import random, sys
from steadyhelm.sinks.store import StoreSink
from steadyhelm.stores.postgres import PostgresStore
from steadyhelm.testing.store_records import AT, a_summary, an_event, an_incident

url, me, batches, agents = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4].split(",")
sink = StoreSink(PostgresStore(url), channels=("webhook",))
order = random.Random(me)
print("ready", flush=True)
sys.stdin.readline()
for batch in range(batches):
    order.shuffle(agents)
    records = []
    for agent in agents:
        run = f"run-{me}-{batch}"
        for seq in range(4):
            records.append(an_event(seq, agent_id=agent, run_id=run, action_name=f"tool {batch} {seq % 3}"))
        records.append(an_event(me * 1000 + batch, agent_id=agent, run_id="shared"))
        records.append(a_summary(run, agent_id=agent, task_type="fix", outcome="done", tool_calls=4))
        records.append(an_incident(f"{agent}-{me}-{batch}", agent_id=agent, run_id="shared"))
    sink.write(records)
sink.close()
"""

CLAIMER = """
import json, sys
from steadyhelm.stores.postgres import PostgresStore
store = PostgresStore(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
claimed = []
while found := store.claim_deliveries(now=10.0, lease_s=100.0, limit=3):
    claimed += [delivery.delivery_id for delivery in found]
print(json.dumps(claimed))
"""


def run_at_once(script, *arguments):
    """What several processes print that begin at the same moment; each gets its number."""
    children = [
        subprocess.Popen(
            [sys.executable, "-c", script, *(str(it).replace("{me}", str(me)) for it in arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for me in range(WRITERS)
    ]
    for child in children:
        assert "ready\n" == child.stdout.readline(), child.stderr.read()
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    ended = [child.communicate() for child in children]
    assert [0] * WRITERS == [child.returncode for child in children], [errors for _, errors in ended]
    return [printed for printed, _ in ended]


@pytest.fixture
def store(postgres_url):
    opened = PostgresStore(postgres_url)
    yield opened
    opened.close()


class TestWriters:
    def test_nothing_is_lost_or_done_twice(self, store, postgres_url):
        """
        Four processes write to the same six agents, in different orders.

        Every event is stored and every sum is right; each agent learns from each run once; the incidents of
        an agent, all within one cooldown, lead to one alert; no deadlock reaches a writer.
        """
        run_at_once(WRITER, postgres_url, "{me}", BATCHES, ",".join(AGENTS))

        assert [] == store.check()
        per_agent = WRITERS * BATCHES
        assert [per_agent + 1] * len(AGENTS) == [agent.runs for agent in store.list_agents()]
        assert per_agent == store.find_run("shared", agent_id=AGENTS[0]).events
        assert [per_agent] * len(AGENTS) == [baseline.calibration_runs for baseline in store.list_baselines()]
        assert [per_agent] * len(AGENTS) == [profile.tasks for profile in store.list_profiles()]
        assert sorted(AGENTS) == sorted(delivery.agent_id for delivery in store.list_deliveries())

    def test_an_alert_is_claimed_once(self, store, postgres_url):
        """
        Four processes take alerts from the outbox: none gets one that another has.
        """
        for number in range(100):
            store.enqueue(a_delivery(f"{number}", next_at=1.0))
        claimed = [it for printed in run_at_once(CLAIMER, postgres_url) for it in json.loads(printed)]

        assert sorted(str(number) for number in range(100)) == sorted(claimed)


class TestDeliveries:
    def test_the_server_has_the_clock(self, store):
        """
        Without a time, what is due is decided by the clock of the server.
        """
        with store.reading() as connection:
            (now,) = connection.execute("SELECT extract(epoch FROM now())::float8").fetchone()
        store.enqueue(a_delivery("due", next_at=now - 1.0))
        store.enqueue(a_delivery("later", next_at=now + 1000.0))
        (claimed,) = store.claim_deliveries(lease_s=500.0)

        assert "due" == claimed.delivery_id
        assert [] == store.claim_deliveries(lease_s=500.0)


class TestSink:
    def test_a_deadlock_is_tried_again(self, store, postgres_url):
        """
        A transaction that the server ends because two wait for each other is done again, and succeeds.
        """
        attempts = []

        def work():
            attempts.append(1)
            store.write([an_event(len(attempts))])
            if len(attempts) == 1:
                raise psycopg.errors.DeadlockDetected("planned")

        store.run_transaction(work)

        assert ([1, 1], 1) == (attempts, store.find_run("run").events)


@pytest.fixture
def failing(store, postgres_url):
    """Let the server run a statement of its own before rows of a table change; return how often it has."""
    with psycopg.connect(postgres_url, autocommit=True, options="-c search_path=steadyhelm") as other:
        other.execute("CREATE SEQUENCE tries")

        def fail(table, statement):
            other.execute(
                "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                f" IF nextval('tries') < 3 THEN {statement}; END IF; RETURN coalesce(NEW, OLD); END $$"
            )
            other.execute(
                f"CREATE TRIGGER failing BEFORE INSERT OR DELETE ON {table}"
                " FOR EACH ROW EXECUTE FUNCTION fail()"
            )
            return lambda: other.execute("SELECT last_value FROM tries").fetchone()[0]

        yield fail


SINGLE_WRITES = {
    "comments": lambda store: store.add_comment("incident", at=AT, author="me", content="seen"),
    "audit": lambda store: store.add_audit(AuditEntry(at=AT, author="me", action="mute", object="x")),
    "api_keys": lambda store: store.add_key(
        AccessKey(name="ci", prefix="sh", digest=b"x", scopes=("read",), created_at=AT)
    ),
    "task_profiles": lambda store: store.add_tasks(TaskProfile(agent_id="agent", task_type="fix", tasks=1)),
    "states": lambda store: store.take_state("agent", "run"),
}


class TestSingleWrites:
    @pytest.fixture(autouse=True)
    def _known(self, store):
        store.write([an_event(0), an_incident("incident"), SavedState("agent", "run", b"state", AT)])

    @pytest.mark.parametrize("table", SINGLE_WRITES)
    def test_a_serialization_failure_is_tried_again(self, store, failing, table):
        """
        What people and agents add is written although other transactions were in the way twice.
        """
        count_tries = failing(table, "RAISE serialization_failure")
        SINGLE_WRITES[table](store)

        assert 3 == count_tries()

    def test_what_may_be_committed_is_not_done_twice(self, store, failing):
        """
        When the connection is lost nobody knows whether a comment was stored: it is not stored again.
        """
        count_tries = failing("comments", "PERFORM pg_terminate_backend(pg_backend_pid())")
        with pytest.raises(StoreError, match="cannot be reached"):
            SINGLE_WRITES["comments"](store)

        assert 1 == count_tries()


class TestPages:
    def test_a_query_is_read_as_far_as_needed(self, store):
        """
        Of a long list the first rows are read, and the server keeps the rest.
        """
        with store.reading() as connection:
            rows = connection.dialect.iterate(connection, "SELECT generate_series(1, 1000000000)", ())
            assert [(1,), (2,), (3,)] == list(itertools.islice(rows, 3))
            rows.close()

        assert [] == store.get_run_ids("agent")

import json
import re
import shlex
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from whole_program import Answer, steadyhelm

from steadyhelm.decisions import TaskProfile
from steadyhelm.errors import SteadyhelmError
from steadyhelm.stores.sqlite import SQLiteStore
from steadyhelm.testing.store_records import a_profile, an_event

ENDPOINT = a_profile(
    agent_id="coder",
    task_type="implement_api_endpoint",
    tasks=2,
    steps=33,
    tokens=55_000,
    cost_usd=0.5,
    wall_s=90.0,
)
REFUND = a_profile(agent_id="support", task_type="refund", tasks=10, steps=40, tokens=9_000)


@pytest.fixture
def store(apart):
    opened = SQLiteStore(apart / "steadyhelm.db")
    yield opened
    opened.close()


@pytest.fixture
def learnt(store):
    """A store that knows two types of task."""
    store.save_profile(ENDPOINT)
    store.save_profile(REFUND)
    return store


@pytest.fixture
def budget(store):
    """`steadyhelm budget` on that store."""

    def run(line=""):
        try:
            return steadyhelm("--db", store.path, "budget", *shlex.split(line))
        except SteadyhelmError as exc:
            return Answer(1, "", str(exc))

    return run


def document(*profiles):
    """A file as `budget export` writes it, with these profiles."""
    return json.dumps({"steadyhelm_task_profiles": 1, "profiles": list(profiles)})


class TestProfiles:
    def test_means(self, budget, learnt):
        """
        Each type of task is listed with how many were completed, and what one took on average.
        """
        rows = [line.split() for line in budget("profiles").out.splitlines()]

        assert ["coder", "2", "16.5", "28k", "$0.2500", "45.0", "s", "implement_api_endpoint"] in rows
        assert ["support", "10", "4.0", "900", "-", "-", "refund"] in rows

    def test_plain_budget_lists(self, budget, learnt):
        """
        `budget` alone does what `budget profiles` does.
        """
        assert budget("profiles").out == budget().out

    def test_one_agent(self, budget, learnt):
        """
        Only the tasks of one agent are listed when asked for.
        """
        assert ["refund"] == [
            it["task_type"] for it in budget("profiles --agent sup --json").document["profiles"]
        ]

    def test_json(self, budget, learnt):
        """
        A document holds the sums as they are kept, and what they recommend.
        """
        known, _ = budget("profiles --json").document["profiles"]

        assert (33, 55_000) == (known["steps"], known["tokens"])
        assert (20, 33_000) == (known["recommended"]["steps"], known["recommended"]["tokens"])

    def test_nothing(self, budget):
        """
        Where nothing is known it says what teaches.
        """
        answer = budget()

        assert (0, "") == (answer.status, answer.out)
        assert "runs with a `task_type` that complete without an incident" in answer.err

    def test_hostile_names(self, budget, store):
        """
        A type of task can be called anything, and none of it reaches the terminal.
        """
        store.save_profile(a_profile(task_type="\x1b[2J\u202efix"))

        assert "\\x1b[2J\\x202efix" in budget().out


class TestRecommend:
    def test_a_fifth_more_than_the_mean(self, budget, learnt):
        """
        A task should be given the mean of those completed and a fifth more, rounded up.
        """
        lines = budget("recommend coder implement_api_endpoint").out.splitlines()

        assert ["tool calls 20", "tokens     33,000", "cost       $0.3000", "time       54.0 s"] == lines[2:]

    def test_beginnings_are_enough(self, budget, learnt):
        """
        As much of both names as tells them from others is enough.
        """
        [advice] = budget("recommend sup ref --json").documents

        assert ("support", "refund", 5, 1080) == tuple(
            advice[name] for name in ("agent_id", "task_type", "steps", "tokens")
        )

    def test_few_tasks_are_said_to_be_few(self, budget, learnt):
        """
        A recommendation from a handful of tasks says that it rests on little.
        """
        assert "2 completed tasks, plus a fifth: too few to rely on" in budget("recommend coder impl").err
        assert "too few" not in budget("recommend support refund").err

    def test_unknown_type(self, budget, learnt):
        """
        A type nobody completed ends with status 1, and names those that are known.
        """
        answer = budget("recommend coder deploy")

        assert 1 == answer.status
        expected = (
            "There is no completed task of type 'deploy' of coder. Known types: implement_api_endpoint."
        )
        assert expected == answer.err

    def test_several_types(self, budget, learnt):
        """
        A beginning that fits several types names them.
        """
        learnt.save_profile(a_profile(agent_id="coder", task_type="implement_cli"))

        assert "implement_api_endpoint, implement_cli. Give more of it." in budget("recommend coder impl").err

    def test_unknown_agent(self, budget, learnt):
        """
        An agent nobody knows ends with status 1.
        """
        assert (1, "There is no agent 'x'. Known agents: support, coder.") == budget("recommend x refund")[
            ::2
        ]


class TestExportAndImport:
    def test_round_trip(self, budget, learnt, apart):
        """
        What was exported can be imported elsewhere, and is the same.
        """
        assert "Wrote 2 task profiles to tasks.json." == budget("export tasks.json").err.strip()
        elsewhere = SQLiteStore(apart / "elsewhere.db")

        answer = steadyhelm("--db", elsewhere.path, "budget", "import", "tasks.json")

        assert "Imported 2 task profiles, 0 of them replacing one." in answer.err
        assert [ENDPOINT, REFUND] == elsewhere.list_profiles()
        elsewhere.close()

    def test_only_its_owner_may_read_it(self, budget, learnt, apart):
        """
        The file is its owner's alone.
        """
        budget("export tasks.json")

        assert 0o600 == (apart / "tasks.json").stat().st_mode & 0o777

    def test_to_standard_output(self, budget, learnt):
        """
        A dash writes to standard output, of one agent when asked for.
        """
        written = json.loads(budget("export - --agent coder").out)

        assert ["implement_api_endpoint"] == [it["task_type"] for it in written["profiles"]]

    def test_does_not_overwrite(self, budget, learnt, apart):
        """
        A file that exists is replaced only with --yes.
        """
        (apart / "tasks.json").write_text("mine")

        assert 2 == budget("export tasks.json").status
        assert "mine" == (apart / "tasks.json").read_text()
        assert 0 == budget("export tasks.json --yes").status

    def test_no_such_folder(self, budget, learnt):
        """
        A place that cannot be written to is named.
        """
        says = "cannot be written to nowhere/tasks.json: No such file or directory."
        assert says in budget("export nowhere/tasks.json").err

    def test_what_changes_is_shown_first(self, budget, learnt, apart):
        """
        Before anything is replaced it is shown, and without a terminal --yes is needed.
        """
        budget("export tasks.json")
        learnt.add_tasks(a_profile(agent_id="coder", task_type="implement_api_endpoint", tasks=1, steps=3))
        before = learnt.list_profiles()

        answer = budget("import tasks.json")

        assert 2 == answer.status
        assert "3 → 2" in answer.out
        assert "12.0 → 16.5" in answer.out
        assert "refund" not in answer.out
        assert before == learnt.list_profiles()

    def test_replaces_when_told_to(self, budget, learnt, apart):
        """
        With --yes what the file says stands in place of what was known; the rest stays.
        """
        changed = a_profile(agent_id="coder", task_type="implement_api_endpoint", tasks=1, steps=1, tokens=1)
        fields = {name: getattr(changed, name) for name in TaskProfile.__struct_fields__}
        (apart / "tasks.json").write_text(document(fields))

        answer = budget("import tasks.json --yes")

        assert "Imported 1 task profile, 1 of them replacing one." in answer.err
        assert [changed, REFUND] == learnt.list_profiles()

    def test_nothing_new(self, budget, learnt):
        """
        A file that says what is known already changes nothing, and needs no --yes.
        """
        budget("export tasks.json")

        assert "says nothing new" in budget("import tasks.json").err

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            ("", "not JSON"),
            ("[1]", "no task profiles"),
            ('{"profiles": []}', "no task profiles"),
            ('{"steadyhelm_task_profiles": 2, "profiles": []}', "format 2"),
            ('{"steadyhelm_task_profiles": 1, "profiles": {}}', "must be a list"),
            (document(), "holds no task profile"),
            (document(7), "Task profile 1 must be an object"),
            (document({"agent_id": "a", "task_type": "t", "tasks": 1, "steps": 1}), "tokens is missing"),
            (
                document({"agent_id": "a", "task_type": "t", "tasks": 0, "steps": 1, "tokens": 1}),
                "tasks must be a whole number of 1 or more, got 0",
            ),
            (
                document({"agent_id": "a", "task_type": "t", "tasks": 1, "steps": -1, "tokens": 1}),
                "steps must be a whole number of 0 or more, got -1",
            ),
        ],
    )
    def test_unsound_files(self, budget, learnt, apart, content, reason):
        """
        A file that is not sound is refused with the reason, and nothing is changed.
        """
        (apart / "bad.json").write_text(content)
        before = learnt.list_profiles()

        answer = budget("import bad.json --yes")

        assert 1 == answer.status
        assert "bad.json" in answer.err
        assert reason in answer.err
        assert before == learnt.list_profiles()

    def test_no_such_file(self, budget):
        """
        A file that is not there is named.
        """
        assert "none.json cannot be read" in budget("import none.json").err

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
    @given(
        st.builds(
            a_profile,
            agent_id=st.text(min_size=1, max_size=20),
            task_type=st.text(min_size=1, max_size=20),
            tasks=st.integers(1, 2**40),
            steps=st.integers(0, 2**40),
            tokens=st.integers(0, 2**40),
            cost_usd=st.floats(0, 1e9),
            wall_s=st.floats(0, 1e9),
        )
    )
    def test_any_profile_survives(self, budget, store, profile):
        """
        Whatever was learnt comes back as it was written.
        """
        store.save_profile(profile)
        known = store.list_profiles()
        budget("export all.json --yes")
        for it in known:
            store.save_profile(a_profile(agent_id=it.agent_id, task_type=it.task_type))

        budget("import all.json --yes")

        assert known == store.list_profiles()


class TestToday:
    @pytest.fixture(autouse=True)
    def spent(self, store):
        """Two agents have spent something just now, and one of them yesterday too."""
        now = time.time()
        store.write([an_event(0, agent_id="coder", timestamp=now, cost_usd=0.5, token_count=12_000)])
        store.write([an_event(1, agent_id="coder", timestamp=now - 86_400)])
        store.write([an_event(0, agent_id="support", timestamp=now)])

    def test_it_shows_what_was_spent_and_what_is_allowed(self, budget, monkeypatch):
        """
        Each agent has its sums of today beside the limits of the settings.
        """
        monkeypatch.setenv("STEADYHELM_BUDGET_DAILY_TOKENS", "10000")
        answer = budget("today")

        assert [
            ["agent", "tool calls", "tokens", "cost", "state"],
            ["coder", "1", "12k of 10k", "$0.50", "used up"],
            ["support", "1", "10 of 10k", "$0.00", "open"],
        ] == [re.split(r" {2,}", line.strip()) for line in answer.out.splitlines() if line.isascii()]

    def test_without_limits(self, budget):
        """
        Sums are shown whether there are limits or not.
        """
        assert "no limit" in budget("today --agent supp").out

    def test_as_json(self, budget):
        """
        One document with the day and its agents.
        """
        document = json.loads(budget("today --json --agent coder").out)

        assert [("coder", 1, 12_000)] == [
            (it["agent_id"], it["steps_used"], it["tokens_used"]) for it in document["agents"]
        ]

    def test_nothing_today(self, budget, store):
        """
        An empty day says so.
        """
        store.delete_agent("coder")
        store.delete_agent("support")

        assert "Nothing was spent on" in budget("today").err

    def test_a_grant_raises_the_limit(self, budget, monkeypatch):
        """
        What is granted counts for the rest of the day.
        """
        monkeypatch.setenv("STEADYHELM_BUDGET_DAILY_TOKENS", "10000")
        answer = budget(
            "grant coder --tokens 5000 --reason 'release, key sk-ant-api03-0123456789abcdef' --yes"
        )

        assert "coder may spend 5,000 tokens more until" in answer.err
        (shown,) = json.loads(budget("today --json --agent coder").out)["agents"]
        assert (15_000, []) == (shown["tokens_limit"], shown["exhausted_by"])

    def test_what_its_steps_are(self, budget):
        """
        A grant says that its steps are tool calls.
        """
        assert (
            "coder may spend 1 tool call and 500 tokens more until"
            in budget("grant coder --steps 1 --tokens 500 --yes").err
        )

    def test_a_secret_in_the_reason_is_not_stored(self, budget, store):
        """
        The reason is redacted like everything else.
        """
        budget("grant coder --steps 1 --reason 'password=hunter2hunter2' --yes")

        assert (
            b"hunter2" not in store.path.read_bytes() + store.path.with_name("steadyhelm.db-wal").read_bytes()
        )

    @pytest.mark.parametrize(
        ("line", "status", "words"),
        [
            ("grant coder --yes", 2, "say how much: --steps, --tokens or --cost-usd."),
            ("grant coder --steps 5", 2, "Add --yes to continue."),
            ("grant nobody --steps 5 --yes", 1, "There is no agent 'nobody'"),
        ],
    )
    def test_a_grant_that_cannot_be(self, budget, store, line, status, words):
        """
        Nothing is granted without an amount, a confirmation and an agent.
        """
        answer = budget(line)

        assert (status, True) == (answer.status, words in answer.err)
        assert {0} == {it.granted_steps for it in store.list_spending(since=0.0, until=time.time() + 900)}

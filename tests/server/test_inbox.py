"""The inbox: what nobody has dealt with yet is open, also after the drift has ended."""

import time

import pytest
from written_runs import DAY_S, NOON, write_run

from steadyhelm.findings import Severity
from steadyhelm.incidents import IN_INBOX_S, Mute
from steadyhelm.server.queries.inbox import count_open
from steadyhelm.server.queries.incidents import list_groups
from steadyhelm.server.queries.overview import read_overview

pytestmark = pytest.mark.usefixtures("noon")

TABS = ("open", "acknowledged", "muted", "closed")


def list_patterns(views, **query):
    return [group.pattern for group in list_groups(views, query, 50).groups]


def find_tabs(views):
    """The tabs that have a group, with the number of incidents."""
    listed = {tab: list_groups(views, {"tab": tab}, 50) for tab in TABS}
    return {tab: sum(it.count for it in found.groups) for tab, found in listed.items() if found.groups}


def count_everywhere(views, store):
    """The open incidents as the top bar, the overview, its rows, and "Needs you" have them."""
    shown = read_overview(views, store, 1, None)
    with views.reading() as connection:
        counted = count_open(views, connection, time.time()).total()
    rows = sum(it.count for agent in shown.agents for it in agent.open_incidents)
    return counted, shown.open_incidents, rows, len(shown.needs_you)


def mute(store, detector="action_loop", **fields):
    store.mute(Mute(agent_id="agent", detector=detector, until=NOON + 3600, set_at=NOON, **fields))


DONE = {
    "nothing": (lambda store: None, "open"),
    "acknowledged": (lambda store: store.acknowledge("i-a", at=NOON), "acknowledged"),
    "muted": (mute, "muted"),
    "muted and acknowledged": (lambda store: (mute(store), store.acknowledge("i-a", at=NOON)), "muted"),
    "muted up to medium": (lambda store: mute(store, up_to=Severity.MED), "open"),
    "marked right": (lambda store: store.review("i-a", "confirmed", at=NOON), "closed"),
    "a false alarm": (lambda store: store.review("i-a", "false_alarm", at=NOON), "closed"),
}


class TestTabs:
    @pytest.mark.parametrize("state", ["open", "closed"])
    @pytest.mark.parametrize("done", DONE)
    def test_what_people_did_decides(self, views, store, other, done, state):
        """
        The tab follows from what people did, whether the drift goes on or has ended; every count agrees.
        """
        act, tab = DONE[done]
        write_run(store, "a", state=state)
        assert {"open": 1} == find_tabs(views)
        assert (1, 1, 1, 1) == count_everywhere(views, store)
        act(other)

        assert {tab: 1} == find_tabs(views)
        assert (int(tab == "open"),) * 4 == count_everywhere(views, store)

    @pytest.mark.parametrize("done", ["nothing", "acknowledged"])
    def test_what_ended_leaves_after_14_days_by_itself(self, views, store, monkeypatch, done):
        """
        Nothing is written: at the end of its 14 days it is closed, and counted nowhere.
        """
        act, tab = DONE[done]
        write_run(store, "a", state="closed")
        act(store)
        seen = []
        for after_s in (0, IN_INBOX_S - 61, IN_INBOX_S - 60):
            monkeypatch.setattr(time, "time", lambda after_s=after_s: NOON + after_s)
            seen.append((find_tabs(views), sum(count_everywhere(views, store))))

        counted = 4 * (tab == "open")
        assert [({tab: 1}, counted), ({tab: 1}, counted), ({"closed": 1}, 0)] == seen

    def test_what_goes_on_stays(self, views, store, monkeypatch):
        """
        While the drift goes on, it is open, however long ago it was last seen.
        """
        write_run(store, "a")
        monkeypatch.setattr(time, "time", lambda: NOON + 40 * DAY_S)

        assert {"open": 1} == find_tabs(views)
        assert (1, 1, 1, 1) == count_everywhere(views, store)

    def test_a_group_loses_its_oldest(self, views, store, monkeypatch):
        """
        A group of many days stays with what is left of it; it says how many of its incidents go on.
        """
        for days_ago in (0, 1, 13):
            write_run(store, f"{days_ago} days ago", days_ago=days_ago, state="closed")
        write_run(store, "long ago", days_ago=30)
        (group,) = list_groups(views, {}, 50).groups
        monkeypatch.setattr(time, "time", lambda: NOON + 2 * DAY_S)
        (later,) = list_groups(views, {}, 50).groups

        assert [(4, 1), (3, 1)] == [(it.count, it.ongoing) for it in (group, later)]
        assert {"open": 3, "closed": 1} == find_tabs(views)

    def test_a_group_may_be_in_several_tabs(self, views, store):
        """
        Each of its incidents is in one tab, and the group in the tabs of all of them.
        """
        for run in ("a", "b", "c"):
            write_run(store, run, state="closed")
        store.acknowledge("i-b", at=NOON)
        store.review("i-c", "confirmed", at=NOON)

        assert {"open": 1, "acknowledged": 1, "closed": 1} == find_tabs(views)

    def test_closed_has_an_incident_once(self, views, store):
        """
        What is reviewed and old is closed for two reasons, and counted once.
        """
        write_run(store, "a", days_ago=20, state="closed")
        store.review("i-a", "confirmed", at=NOON)

        assert {"closed": 1} == find_tabs(views)
        assert 1 == list_groups(views, {}, 50).totals["closed"]


class TestDrifting:
    @pytest.mark.parametrize(
        ("state", "review", "expected"),
        [
            ("open", "", True),
            ("open", "confirmed", True),
            ("open", "false_alarm", False),
            ("closed", "", False),
        ],
    )
    def test_an_agent_drifts_while_an_incident_goes_on(self, views, store, state, review, expected):
        """
        Acknowledged or right, drift that goes on is drift; what has ended is not, however open it is.
        """
        write_run(store, "a", state=state)
        store.acknowledge("i-a", at=NOON)
        store.review("i-a", review)
        (agent,) = read_overview(views, store, 1, None).agents

        assert (expected, "1 incident goes on" if expected else "0 of 30 clean runs") == (
            agent.state == "drifting",
            agent.reason,
        )

    @pytest.mark.parametrize("done", DONE)
    def test_an_agent_is_not_healthy_after_a_run_that_drifted(self, views, store, done):
        """
        Its last run drifted, and nobody has dealt with that yet: it drifts until somebody does.
        """
        act, tab = DONE[done]
        write_run(store, "a", state="closed")
        act(store)
        (agent,) = read_overview(views, store, 1, None).agents

        assert ("its last run drifted" if tab == "open" else "0 of 30 clean runs") == agent.reason
        assert (tab == "open") == (agent.state == "drifting")

    @pytest.mark.parametrize("done", DONE)
    def test_a_clean_run_ends_it(self, views, store, done):
        """
        The next run without an incident from medium shows that the agent is on course again; what nobody has
        dealt with is still to be reviewed.
        """
        act, tab = DONE[done]
        write_run(store, "a", days_ago=2, state="closed")
        write_run(store, "b", days_ago=1, state="closed", severity=Severity.LOW)
        act(store)
        (agent,) = read_overview(views, store, 1, None).agents

        assert (
            ("unreviewed", "1 open incident; its last run was clean")
            if tab == "open"
            else ("learning", "0 of 30 clean runs")
        ) == (agent.state, agent.reason)

    def test_incidents_of_a_silent_agent(self, views, store):
        """
        An agent without a run for a week is to review while it has open incidents.
        """
        write_run(store, "a", days_ago=8, state="closed")
        (agent,) = read_overview(views, store, 1, None).agents

        assert ("unreviewed", "1 open incident; no run for 8 days") == (agent.state, agent.reason)


class TestNeedsYou:
    def test_the_newest_from_high_come_first(self, views, store):
        """
        At most five, newest first, whether they go on or have ended; those below high are left out.
        """
        for days_ago in range(7):
            write_run(store, f"run {days_ago}", days_ago=days_ago, state="closed" if days_ago % 2 else "open")
        write_run(store, "medium", severity=Severity.MED)

        shown = read_overview(views, store, 1, None).needs_you
        assert [(f"run {n}", n % 2 == 0) for n in range(5)] == [(it.run_id, it.ongoing) for it in shown]

    def test_many_that_are_muted_hide_none(self, views, store):
        """
        However many newer ones are muted, those that are not are shown.
        """
        write_run(store, "old", days_ago=3, state="closed", detector="goal_drift")
        for number in range(30):
            write_run(store, f"noise {number}", state="closed")
        mute(store)

        assert ["old"] == [it.run_id for it in read_overview(views, store, 1, None).needs_you]


class TestGroups:
    def test_groups_move_between_tabs(self, views, store, other):
        """
        What another process acknowledges, mutes or closes leaves its tab in the next answer.
        """
        write_run(store, "a", subject="search")
        write_run(store, "b", subject="fetch", detector="retry_loop")
        assert ["fetch", "search"] == sorted(list_patterns(views))
        other.acknowledge("i-a", at=NOON)
        other.mute(Mute(agent_id="agent", detector="retry_loop", until=NOON + 3600, set_at=NOON))

        assert [] == list_patterns(views)
        assert ["search"] == list_patterns(views, tab="acknowledged")
        assert ["fetch"] == list_patterns(views, tab="muted")

    def test_a_mute_ends_by_itself(self, views, store, monkeypatch):
        """
        Nothing is written, and the group is open again when the mute is over.
        """
        write_run(store, "a")
        store.mute(Mute(agent_id="agent", detector="action_loop", until=NOON + 3600, set_at=NOON))
        assert [] == list_patterns(views)
        monkeypatch.setattr(time, "time", lambda: NOON + 3601)

        assert ["search"] == list_patterns(views)

    def test_pages_lose_no_group_and_repeat_none(self, views, store):
        """
        Behind a page come the groups that are older, also when one of the page has moved up meanwhile.
        """
        for number in range(7):
            write_run(
                store, f"run {number}", days_ago=number, subject=f"tool {number}", agent_id=f"a{number % 3}"
            )
        seen, after = [], None
        while True:
            page = list_groups(views, {"after": after}, 3)
            seen += [group.pattern for group in page.groups]
            if page.next is None:
                break
            after = page.next
            write_run(store, f"again {len(seen)}", subject="tool 0", agent_id="a0")

        assert [f"tool {number}" for number in range(7)] == seen
        assert 7 == page.totals["open"]

    def test_filters_leave_out_the_rest(self, views, store):
        """
        Agents, kinds and severities narrow the groups and their counts.
        """
        write_run(store, "a", agent_id="one", subject="x")
        write_run(store, "b", agent_id="two", subject="y", severity=Severity.CRITICAL, kind="goal")
        assert ["y"] == list_patterns(views, severity="CRITICAL") == list_patterns(views, kind=["goal"])
        assert ["x"] == list_patterns(views, agent=[1])
        assert 1 == list_groups(views, {"agent": [1]}, 50).totals["open"]

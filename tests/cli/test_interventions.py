import shlex

import pytest
from whole_program import Answer, steadyhelm

from steadyhelm.decisions import DriftAction
from steadyhelm.errors import SteadyhelmError
from steadyhelm.stores.sqlite import SQLiteStore
from steadyhelm.testing.store_records import an_incident, an_intervention


@pytest.fixture
def store(apart):
    opened = SQLiteStore(apart / "steadyhelm.db")
    yield opened
    opened.close()


@pytest.fixture
def asked(store):
    """`steadyhelm interventions` on that store."""

    def ask(options=""):
        try:
            return steadyhelm("--db", store.path, "interventions", *shlex.split(options))
        except SteadyhelmError as exc:
            return Answer(1, "", str(exc))

    return ask


def keep(store, *answers, incident_id="incident", **fields):
    """One incident with these answers."""
    store.write([an_incident(incident_id, interventions=answers, **fields)])


def times(count, **fields):
    return [an_intervention(place, **fields) for place in range(count)]


def cells(answer):
    """The rows of the table, as what stands in their columns."""
    lines = [line.split("  ") for line in answer.out.splitlines() if line.strip() and "─" not in line]
    return [[cell.strip() for cell in line if cell.strip()] for line in lines[1:]]


class TestReport:
    def test_how_often_it_helped(self, asked, store):
        """
        Each wording has what came of it, and the share that helped of those judged.
        """
        keep(
            store,
            *times(9, outcome="worked", tokens_saved=1000, tokens_before=400),
            *times(3, outcome="ignored", tokens_before=400),
            *times(1, outcome="worse", tokens_before=400),
            *times(2, tokens_before=400),
        )

        assert [
            ["agent", "remind.loop", "15", "9", "3", "1", "2", "9.0k", "400", "-", "-", "69% of 13 [42-87]"]
        ] == cells(asked())

    def test_beside_what_stops_by_itself(self, asked, store):
        """
        Where nothing was said the same is counted, and the difference has an interval of its own.
        """
        keep(store, *times(20, outcome="worked"))
        keep(
            store,
            *times(5, outcome="worked", verdict="proceed"),
            *times(15, outcome="ignored", verdict="proceed"),
            incident_id="observed",
        )

        [row] = cells(asked())

        assert ["+75 [+48 to +89]", "25% of 20 [11-47]", "100% of 20 [84-100]"] == row[-3:]

    def test_small_samples_are_shown_as_such(self, asked, store):
        """
        A share of a handful is given as counts, and said to be too little.
        """
        keep(store, an_intervention(1, outcome="worked"), an_intervention(2, outcome="ignored"))

        assert "1 of 2, too few" == cells(asked())[0][-1]

    def test_all_together(self, asked, store):
        """
        Several rows are added up in a last one.
        """
        keep(store, an_intervention(1, outcome="worked"), an_intervention(2, wording="replan.loop"))

        assert ["total", "2", "1"] == cells(asked())[-1][:3]

    @pytest.mark.parametrize(
        ("by", "names"),
        [
            ("agent", ["agent", "writer"]),
            ("kind", ["loop", "goal"]),
            ("action", ["remind", "ask"]),
            ("wording", ["remind.loop", "(unnamed)"]),
        ],
    )
    def test_by(self, asked, store, by, names):
        """
        The groups may be made by agent, kind, action or wording.
        """
        keep(store, *times(2))
        keep(
            store,
            an_intervention(9, wording="", action=DriftAction.ASK_USER),
            incident_id="other",
            agent_id="writer",
            kind="goal",
        )

        assert [*names, "total"] == [row[0] for row in cells(asked(f"--by {by}"))]

    def test_one_agent(self, asked, store):
        """
        Only what was said to one agent is counted, by its name or the beginning of it.
        """
        keep(store, an_intervention(1))
        keep(store, an_intervention(1), incident_id="other", agent_id="writer")

        assert [["writer", "remind.loop", "1"]] == [row[:3] for row in cells(asked("--agent wri"))]

    def test_a_span_of_time(self, asked, store):
        """
        What was said before the span is not counted.
        """
        keep(store, an_intervention(1))

        assert "No interventions in the last 7d." in asked("--since 7d").err
        assert cells(asked("--since 99999d"))

    def test_hostile_names(self, asked, store):
        """
        A wording or an agent's name can hold anything, and none of it reaches the terminal.
        """
        keep(store, an_intervention(1, wording="\x1b[2Jgone\u202e"), agent_id="a\x07gent")

        answer = asked()

        assert ["a\\x07gent", "\\x1b[2Jgone\\x202e"] == cells(answer)[0][:2]
        assert not {"\x1b", "\x07", "\u202e"} & set(answer.out)


class TestHints:
    def test_nothing_yet(self, asked):
        """
        Without any intervention it says where the first comes from.
        """
        answer = asked()

        assert (0, "") == (answer.status, answer.out)
        assert "They are made when an incident opens" in answer.err

    def test_nothing_was_said(self, asked, store):
        """
        Where agents are only watched, it says how to have answers said.
        """
        keep(store, an_intervention(1, verdict="proceed"))

        assert 'mode = "guide"' in asked().err

    def test_what_is_left_out(self, asked, store):
        """
        False alarms, and what the caller could not do, are named.
        """
        keep(store, an_intervention(1), an_intervention(2, not_carried_out="no way to speak"))
        keep(store, *times(3), incident_id="wrong")
        store.review("wrong", "false_alarm")

        answer = asked()

        assert "1 intervention could not be carried out by the host." in answer.err
        assert "3 interventions not counted: marked as a false alarm." in answer.err

    def test_unknown_agent(self, asked, store):
        """
        A name nobody has ends with status 1, and names those there are.
        """
        keep(store, an_intervention(1))

        assert (1, "There is no agent 'zzz'. Known agents: agent.") == asked("--agent zzz")[::2]

    def test_a_facet_that_does_not_exist(self, asked):
        """
        A wrong --by is a mistake in the command.
        """
        assert 2 == asked("--by colour").status


class TestJson:
    def test_document(self, asked, store):
        """
        One document holds the rows, their groups, counts and intervals, and all of it together.
        """
        keep(
            store,
            an_intervention(1, outcome="worked", tokens_saved=50),
            an_intervention(2, outcome="ignored"),
        )

        [document] = asked("--json").documents
        [row] = document["rows"]

        assert ["agent", "wording"] == document["by"]
        assert {"agent": "agent", "wording": "remind.loop"} == row["group"]
        assert (2, 1, 1, 50) == (row["said"], row["worked"], row["ignored"], row["tokens_saved"])
        assert (1, 2, False) == (row["helped"]["hits"], row["helped"]["of"], row["helped"]["is_enough"])
        assert {**row, "group": {}} == document["together"]

    def test_nothing(self, asked):
        """
        Without any intervention the document is there, and empty.
        """
        [document] = asked("--json").documents

        assert ([], 0) == (document["rows"], document["together"]["said"])

import json
import re
import shlex
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from watched_agent import CommandLine, loop, work
from whole_program import process

from steadyhelm import TraceEvent
from steadyhelm.assembly import DriftMonitor
from steadyhelm.cli.timeline import format_value, pick_places, step_line
from steadyhelm.decisions import DriftAction
from steadyhelm.reports import formats as words
from steadyhelm.sink import RecordedEvent
from steadyhelm.stores.sqlite import SQLiteStore
from steadyhelm.testing.store_records import AT, an_event, an_incident, an_intervention


class TestShow:
    def test_header(self, steadyhelm):
        """
        It begins with whose run it was, what for, how it ended, and its totals.
        """
        lines = steadyhelm("show loop-long").out.splitlines()

        assert "run       loop-long" == lines[0]
        assert "agent     researcher" == lines[1]
        assert "goal      find the cheapest flight to Oslo" == lines[2]
        assert "state     ended: done" == lines[3]
        assert "totals    5 steps, 5 tool calls, 0 model calls, 500 tokens, 0 errors" == lines[5]

    @pytest.mark.parametrize("command", ["show loop-long", "alerts show {long}", "alerts", "runs"])
    def test_one_vocabulary(self, steadyhelm, long, command):
        """
        Screens name response levels and verdicts in plain words; names of the API stay in JSON.
        """
        answer = steadyhelm(command, long=long)
        names = {*DriftAction, *map(str.lower, DriftAction), "deny", "finding_id", "hard"}

        assert 0 == answer.status
        assert names.isdisjoint(answer.out.replace(",", " ").split())

    def test_latest(self, steadyhelm):
        """
        `latest` is the newest run, of all agents or of the one that is named.
        """
        assert "child" == steadyhelm("show latest --json").document["run"]["run_id"]
        assert "child" == steadyhelm("show latest --agent res --json").document["run"]["run_id"]

    def test_latest_of_nothing(self, empty):
        """
        Where nothing was recorded there is no newest run, and that is said.
        """
        assert (1, "No run is stored.") == (empty("show latest").status, empty("show latest").err)

    def test_beginning_of_an_id(self, steadyhelm):
        """
        As much of the id as tells it from others is enough.
        """
        assert "run       costly" in steadyhelm("show cos").out

    def test_ambiguous_id(self, steadyhelm):
        """
        A beginning that fits several runs names them.
        """
        answer = steadyhelm("show clean")

        assert 1 == answer.status
        assert "3 runs begin with 'clean': clean-0, clean-1, clean-2. Give more of the id." == answer.err

    def test_unknown_id(self, steadyhelm):
        """
        An id nobody has ends with status 1.
        """
        assert (1, "There is no run 'zzz'. List what there is with: steadyhelm runs") == steadyhelm(
            "show zzz"
        )[::2]

    def test_agents_with_the_same_run_id(self, steadyhelm, database):
        """
        Where two agents have a run of one id, naming the agent chooses.
        """
        other = DriftMonitor("writer", db_path=database)
        work(other, "costly")
        other.close()

        assert "Name the agent too" in steadyhelm("show costly").err
        assert "agent     writer" in steadyhelm("show costly --agent writer").out

    def test_a_step(self, steadyhelm):
        """
        A step has its number, its time, what was asked and what came back.
        """
        [line] = [line for line in steadyhelm("show clean-0").out.splitlines() if "page 3" in line]

        assert "5" == line.split()[0]
        assert line.endswith('▸ search(query="flights page 3") => "offer 3"')

    def test_an_error(self, steadyhelm):
        """
        A failed step says so, with the words of the error made harmless.
        """
        assert '▸ fetch(url="x")  ✖ no route\\x07 to host' in steadyhelm("show failing").out

    def test_a_call_that_was_not_run(self):
        """
        A call whose tool was not called says why.
        """
        call = TraceEvent(
            agent_id="a",
            run_id="r",
            action_type="tool_call",
            action_name="fetch",
            metadata={"not_run": "refused"},
        )

        assert step_line(RecordedEvent(call), 0.0).plain.endswith("fetch()  not run: refused")

    def test_findings_stand_below_their_step(self, steadyhelm):
        """
        What was noticed stands under the step at which it was noticed.
        """
        lines = steadyhelm("show loop-short").out.splitlines()
        [place] = [
            place for place, line in enumerate(lines) if "▲ MED action_loop: search called 4 times" in line
        ]

        assert "4" == lines[place - 1].split()[0]

    def test_incident(self, steadyhelm):
        """
        An incident has its evidence by step number, and what was tried at which step.
        """
        out = steadyhelm("show loop-long").out

        assert "evidence: 3 findings, steps 1-5; peak 0.83" in out
        assert "step 3: remind, verdict proceed, outcome " in out
        assert ": replan, verdict proceed, outcome " in out

    def test_parent_and_children(self, steadyhelm):
        """
        A run names the run that started it, and the runs it started.
        """
        assert "parent    failing" in steadyhelm("show child").out
        assert "children  child" in steadyhelm("show failing").out

    def test_tools(self, steadyhelm):
        """
        The tools a run used are counted.
        """
        assert ["search", "5", "-", "500"] in [
            line.split()[:4] for line in steadyhelm("show loop-long").out.splitlines()
        ]

    def test_what_was_not_checked(self, steadyhelm):
        """
        A run without a goal says that its goal could not be checked.
        """
        assert "goal_drift: not checked: the run has no goal" in steadyhelm("show costly").out

    def test_hostile_output(self, steadyhelm):
        """
        Escape sequences in results are shown, never obeyed.
        """
        out = steadyhelm("show loop-long --payloads --all").out

        assert not {"\x1b", "\u202e"} & set(out)
        assert "\\x1b[2Jnothing" in out

    def test_payloads(self, steadyhelm):
        """
        Arguments and results are given in full when asked for.
        """
        assert 'input: {"query":"flights page 3"}' in steadyhelm("show clean-0 --payloads").out

    @pytest.mark.parametrize(
        ("options", "before"),
        [([], ""), (["--db", "it's.db", "--config", "steadyhelm.toml"], "--db {} --config steadyhelm.toml ")],
    )
    def test_what_to_type_next(self, apart, database, options, before):
        """
        A suggested command uses the database and the settings file of the command that suggests it.
        """
        shutil.copy(database, apart / "it's.db")
        (apart / "steadyhelm.toml").touch()
        before = before.format(shlex.quote("it's.db"))
        shown = process(*options, "show", "loop-long").err
        [incident] = re.findall(r"alerts show (\w+)", shown)

        assert f"Details of an incident: steadyhelm {before}alerts show {incident}\n" in shown
        following = process(*options, "alerts", "show", incident)
        assert f"or the whole run: steadyhelm {before}show loop-long\n" in following.err
        traced = process(*options, "traces", "researcher", "--run", "loop-long").err
        assert f"Findings and interventions: steadyhelm {before}show loop-long\n" in traced

    def test_a_long_run_is_shortened_around_findings(self, steadyhelm, database):
        """
        Of a long run the head, the tail and what was noticed are shown, and how much is left out.
        """
        monitor = DriftMonitor("marathon", db_path=database, absolute_token_limit=None)
        with monitor.run(run_id="long"):
            for number in range(150):
                monitor.record_event("tool_call", "read", input_data={"n": number}, output_data=number)
            for _ in range(3):
                monitor.record_event("tool_call", "stuck", input_data={}, output_data="same")
            for number in range(150):
                monitor.record_event("tool_call", "write", input_data={"n": number}, output_data=number)
        monitor.close()

        answer = steadyhelm("show long --events 12")
        numbers = [line.split()[0] for line in answer.out.splitlines() if "▸" in line]

        assert ["1", "2", "3", "151", "152", "153", "154", "301", "302", "303"] == numbers
        assert "... 147 steps ..." in answer.out
        assert f"steadyhelm --db {steadyhelm.database} show long --all" in answer.err
        assert 303 == steadyhelm("show long --all").out.count("▸")

    def test_json(self, steadyhelm):
        """
        The document holds run, steps, findings and incidents with the steps that prove them.
        """
        [document] = steadyhelm("show loop-long --json").documents

        assert "loop-long" == document["run"]["run_id"]
        assert list(range(5)) == [event["seq"] for event in document["events"]]
        assert [1, 2, 3, 4] == [finding["seq"] for finding in document["findings"]]
        assert [list(range(5))] == [incident["evidence"] for incident in document["incidents"]]
        assert "input_data" not in document["events"][0]

    def test_json_with_payloads(self, steadyhelm):
        """
        Payloads are in the document only when asked for.
        """
        [document] = steadyhelm("show loop-long --json --payloads").documents

        assert {"query": "flights to Oslo"} == document["events"][0]["input_data"]

    def test_a_run_that_kept_nothing(self, steadyhelm, database):
        """
        A run whose payloads are not kept still shows its steps.
        """
        quiet = DriftMonitor("quiet", db_path=database, payloads="none")
        loop(quiet, "unsaid", times=2)
        quiet.close()

        assert 2 == steadyhelm("show unsaid").out.count("▸ search()")


@pytest.fixture
def shown(apart):
    """`show` of a run of twenty steps in which these answers were given."""
    store = SQLiteStore(apart / "answered.db")

    def show(*answers, options="--json", steps=20, **fields):
        store.write([an_event(seq) for seq in range(steps)])
        store.write([an_incident(interventions=answers, event_ids=("run.3",), **fields)])
        return CommandLine(store.path)(f"show run {options}")

    yield show
    store.close()


class TestAnswers:
    def test_stand_below_their_step(self, shown):
        """
        What was said stands under the step it was said at, with what was expected and what came of it.
        """
        answer = an_intervention(
            4,
            action=DriftAction.SUMMARIZE_REPLAN,
            wording="replan.loop",
            expected="the same steps do not come back",
            window=8,
            outcome="worked",
            settled_seq=12,
            tokens_before=1200,
            cost_before_usd=0.25,
            tokens_saved=3400,
        )

        lines = shown(answer, options="").out.splitlines()
        [place] = [place for place, line in enumerate(lines) if "→" in line]

        assert "5" == lines[place - 1].split()[0]
        assert [
            "→ replan, verdict guide",
            "replan.loop, incident incident, after 1,200 tokens and $0.2500",
            "expected within 8 steps: the same steps do not come back",
            "✔ worked at step 13, saved at most 3,400 tokens",
        ] == [line.strip() for line in lines[place : place + 4]]

    @pytest.mark.parametrize(
        ("outcome", "words"),
        [
            ("worked", "✔ worked"),
            ("ignored", "○ ignored"),
            ("worse", "✖ worse"),
            ("unknown", "? outcome unknown"),
        ],
    )
    def test_outcomes(self, shown, outcome, words):
        """
        An outcome is told by shape and word, whatever the colour.
        """
        assert f"{words}\n" in shown(an_intervention(4, outcome=outcome), options="").out

    @pytest.mark.parametrize(
        ("outcome", "words"),
        [("worked", "✔ ended by itself"), ("ignored", "○ continued"), ("worse", "✖ got worse")],
    )
    def test_nothing_was_said(self, shown, outcome, words):
        """
        Where nothing was said, nothing worked or was ignored: the drift stopped or went on by itself.
        """
        out = shown(an_intervention(4, verdict="proceed", outcome=outcome), options="").out

        assert "→ remind, verdict proceed, not delivered\n" in out
        assert words in out

    def test_what_the_caller_could_not_do(self, shown):
        """
        What was wanted, and why it was not done, are named.
        """
        answer = an_intervention(4, wanted="rollback", not_carried_out="no checkpoint\x07", hard=True)

        out = shown(answer, options="").out

        assert "→ remind, verdict guide (rollback was wanted), chronic\n" in out
        assert "not carried out: no checkpoint\\x07\n" in out

    def test_the_words_themselves(self, shown):
        """
        The text for the model is shown with the payloads, and made harmless like them.
        """
        answer = an_intervention(4, guidance="Stop\x1b[2J here.\nThink.")

        assert "words:" not in shown(answer, options="").out
        assert "guidance: Stop\\x1b[2J here.⏎Think." in shown(answer, options="--payloads").out

    def test_they_come_before_findings_when_room_is_short(self, shown):
        """
        Of a long run, the steps at which something was said are shown before others.
        """
        out = shown(an_intervention(50), steps=100, options="--events 9").out

        numbers = [line.split()[0] for line in out.splitlines() if "▸" in line]
        assert ["1", "2", "50", "51", "52", "99", "100"] == numbers

    def test_every_incident_has_its_own(self, shown):
        """
        An answer to two incidents at once stands there for each, since each is judged by itself.
        """
        shown(an_intervention(4, outcome="worked"))

        lines = shown(
            an_intervention(4, outcome="ignored"), incident_id="second", kind="goal", options=""
        ).out.splitlines()

        assert ["incident", "second"] == [
            line.split()[-1] for line in lines if "remind.loop, incident" in line
        ]

    def test_json(self, shown):
        """
        The document lists the answers in the order of their steps, with the incident of each.
        """
        answers = (
            an_intervention(9, wording="b", outcome="worked", tokens_saved=7),
            an_intervention(4, wording="a"),
        )

        [document] = shown(*answers).documents

        assert [("incident", "loop", 4, "a"), ("incident", "loop", 9, "b")] == [
            (it["incident_id"], it["kind"], it["seq"], it["wording"]) for it in document["interventions"]
        ]
        assert (AT + 9, "worked", 7) == tuple(
            document["interventions"][1][name] for name in ("timestamp", "outcome", "tokens_saved")
        )


class TestPicked:
    @given(
        total=st.integers(0, 300),
        marked=st.lists(st.integers(0, 299), max_size=20),
        most=st.integers(1, 60),
    )
    def test_never_more_than_asked_for(self, total, marked, most):
        """
        At most the number asked for is shown, every place exists, and a short run is shown whole.
        """
        shown = pick_places(total, [place for place in marked if place < total], most)

        assert len(shown) <= most
        assert set(shown) <= set(range(total))
        assert total > most or set(range(total)) == set(shown)


class TestShort:
    @given(st.recursive(st.none() | st.text() | st.floats() | st.booleans(), st.lists))
    def test_anything_fits_on_a_line(self, value):
        """
        Whatever was stored becomes one line without control characters.
        """
        line = format_value(json.loads(json.dumps(value)))

        assert len(line) <= 62
        assert not any(character < " " for character in line)


class TestWords:
    @pytest.mark.parametrize(
        ("seqs", "expected"),
        [([], "none"), ([0], "1"), ([0, 1], "1-2"), ([4, 0, 1, 2, 8, 9], "1-3, 5, 9-10")],
    )
    def test_steps(self, seqs, expected):
        """
        Steps are counted from one, and neighbours are drawn together.
        """
        assert expected == words.format_steps(seqs)

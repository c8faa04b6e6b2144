import io
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.events import TraceEvent
from steadyhelm.findings import Severity
from steadyhelm.recordings.run_file import RunFile
from steadyhelm.redaction import Redactor
from steadyhelm.replay import FindingReport, Replayer
from steadyhelm.reports.evidence import (
    EvidenceFormatter,
    draw_strip,
    get_agent_name,
    name_kind,
    select_stretches,
)
from steadyhelm.settings import Settings

EVIL = "\x1b[2J\u202e\r\n"


def judged(*events, **keys):
    line = json.dumps({"run_id": "r", "events": list(events), **keys}).encode()
    [run] = RunFile(io.BytesIO(line))
    return Replayer(Settings()).judge(run)


def call(**keys):
    return {"type": "tool_call", "name": "search", "args": {"q": "x"}, "result": "nothing", **keys}


def _event(seq, kind="tool_call", **fields):
    return TraceEvent(agent_id="a", run_id="r", action_type=kind, action_name="t", seq=seq, **fields)


def _events(count):
    return [_event(seq) for seq in range(count)]


@pytest.fixture
def evidence():
    """What is told of MED and above."""
    return EvidenceFormatter(Redactor())


class TestText:
    def test_a_loop(self, evidence):
        """
        The account names the run, what repeats and how often, where, and what would have been done.
        """
        text = evidence.describe_as_text(judged(call(result="start"), *[call()] * 6), "runs.jsonl:1")

        assert text.splitlines()[0].endswith(" r  runs.jsonl:1")
        assert '6x search {"q":"x"} → nothing' in text
        assert ".[......]" in text
        assert "remind at step" in text

    def test_the_words_a_finding_is_about(self, evidence):
        """
        Where the user corrected twice both messages are shown, however many steps lie between them.
        """
        work = [call(args={"q": n}, result=f"row {n}") for n in range(12)]
        done = {"type": "llm_output", "text": "The parser is fixed now, and the tests pass."}
        said = ["no, that is still broken", "still wrong, the parser fails as before"]
        events = [{"type": "user_message", "text": "fix the parser"}, *work, done]
        for words in said:
            events += [{"type": "user_message", "text": words}, *work, done]

        text = evidence.describe_as_text(judged(*events))

        assert "2 corrections in a row" in text
        assert all(words in text for words in said)
        assert "other steps" in text

    def test_the_drift_score_has_a_name_of_its_own(self):
        """
        What the drift score found is not counted as goal drift, which may not have been checked.
        """
        found = {
            "at": 0,
            "kind": "goal",
            "severity": Severity.MED,
            "score": 0.5,
            "message": "",
            "evidence": [0],
        }

        assert "drift score" == name_kind(FindingReport(detector="drift_score", **found))
        assert "goal drift" == name_kind(FindingReport(detector="goal_drift", **found))

    def test_failures(self, evidence):
        """
        A call that failed shows its error.
        """
        text = evidence.describe_as_text(judged(*[call(result=None, error="no network")] * 6))

        assert '6x search {"q":"x"} → failed: no network' in text
        assert "[xxxxxx]" in text

    def test_hostile_words(self, evidence):
        """
        Nothing an agent wrote is more than text on its line.
        """
        text = evidence.describe_as_text(
            judged(*[call(name=f"rm{EVIL}", result=EVIL)] * 6, run_id=EVIL, goal=EVIL)
        )

        assert not set("\x1b\u202e\r") & set(text)
        assert text.splitlines() == text.split("\n")

    def test_secrets(self, evidence):
        """
        A secret among the evidence is not shown.
        """
        secret = call(args={"url": "https://ann:hunter2@example.org"}, result="password=swordfish1")
        text = evidence.describe_as_text(judged(*[secret] * 6))

        assert "6x search" in text
        assert "hunter2" not in text
        assert "swordfish1" not in text

    def test_long_texts_are_cut(self, evidence):
        """
        However long arguments and results are, a row stays short.
        """
        long = call(args={"q": "word " * 5000}, result="answer " * 5000)

        assert 250 > max(map(len, evidence.describe_as_text(judged(*[long] * 6)).splitlines()[1:4]))

    def test_what_is_only_noticed(self):
        """
        Findings that made no incident are told where their severity is asked for.
        """
        large = judged({"type": "llm_output", "text": "a long story", "tokens": 90_000})
        text = EvidenceFormatter(Redactor(), least=Severity.LOW.rank).describe_as_text(large)

        assert "90,000 tokens spent in this run, the limit is 50,000 (LOW, 1 times)" in text

    @pytest.mark.parametrize(("agent_id", "told"), [("finder", "finder"), ("scan", "")])
    def test_whose_run(self, agent_id, told):
        """
        An agent is named when the file names it.
        """
        assert told == get_agent_name(judged(call(), agent_id=agent_id).run)


class TestStrip:
    def test_brackets(self):
        """
        Each span stands in brackets; spans that overlap share them.
        """
        assert "..[...].[.]" == draw_strip(_events(8), [(2, 3), (3, 4), (6, 6)])[:11]

    def test_long_runs(self):
        """
        Of a long run the ends and what is near a bracket are drawn, the rest is counted.
        """
        drawn = draw_strip(_events(500), [(200, 202)])

        assert "......…182…............[...]............…279…......" == drawn

    def test_marks(self):
        """
        Calls, failures, replies, users and states look different.
        """
        kinds = ["tool_call", "llm_request", "user_message", "state_transition", "other"]
        events = [*(_event(0, kind) for kind in kinds), _event(0, "tool_call", error="no")]

        assert ".rus?x" == draw_strip(events, [])

    @given(st.lists(st.tuples(st.integers(0, 299), st.integers(0, 299)).map(sorted), max_size=5))
    def test_every_step_is_drawn_or_counted(self, spans):
        """
        Characters drawn and steps counted are together all steps.
        """
        drawn = draw_strip(_events(300), [tuple(span) for span in spans])
        counted = sum(int(part) for part in drawn.split("…") if part.isdecimal())

        assert 300 == drawn.count(".") + counted
        assert drawn.count("[") == drawn.count("]")


class TestStretches:
    @given(st.integers(1, 400), st.lists(st.tuples(st.integers(0, 399), st.integers(0, 399)).map(sorted)))
    def test_in_order_and_apart(self, count, spans):
        """
        Stretches lie inside the run, in order, with steps left out between any two.
        """
        inside = [(first, last) for first, last in spans if last < count]
        drawn = select_stretches(count, inside, room=50, near=3)

        assert 0 == drawn[0].start
        assert count == drawn[-1].stop
        assert all(one.stop < other.start for one, other in itertools.pairwise(drawn))

import io
import json

import pytest
from msgspec import Struct

from steadyhelm.decisions import DriftAction
from steadyhelm.detector import Detector
from steadyhelm.engine.health import Health
from steadyhelm.findings import Severity
from steadyhelm.recordings.run_file import RunFile
from steadyhelm.replay import Replayer, find_steps_after
from steadyhelm.settings import Settings


class Seen(Struct):
    last: str = ""
    ids: list = []


class Repeats(Detector):
    """A detector of the tests' own: what ours make of a run is their own tests' affair."""

    name = "repeats"
    kind = "loop"

    def __init__(self):
        self._memory = Seen()

    def check(self, event, baseline):
        if event.action_type != "tool_call":
            return None
        ids = self._memory.ids if event.action_name == self._memory.last else []
        self._memory = Seen(event.action_name, [*ids, event.event_id])
        ids = self._memory.ids
        if len(ids) < 4:
            return None
        return self.finding(
            event, score=len(ids) / 8, message=f"{len(ids)} times", suggested_action="stop", event_ids=ids
        )


class Broken(Repeats):
    def check(self, event, baseline):
        raise ValueError("cannot look")


def judge_with(kind=Repeats, **options):
    return Replayer(Settings(), make_detectors=lambda: [kind()], **options)


def run_of(picture):
    """A run as a picture: a letter is a call, its result an entry of its own, a space a user's turn."""
    events = []
    for sign in picture:
        if sign == " ":
            events.append({"type": "user_message", "text": "go on"})
        else:
            events.append({"type": "tool_call", "name": sign, "tokens": 100})
            events.append({"type": "tool_result", "name": sign, "text": "the same"})
    line = json.dumps({"run_id": picture, "events": events}).encode()
    [run] = RunFile(io.BytesIO(line))
    return run


def judged(picture):
    return judge_with().judge(run_of(picture))


class TestJudge:
    def test_findings_have_entry_indices(self):
        """
        A finding names the entry that completed it and the entries that prove it.
        """
        report = judged("baaaa").report
        [finding] = report.findings

        assert (8, [2, 4, 6, 8]) == (finding.at, finding.evidence)
        assert (10, Severity.MED.rank) == (report.events, report.worst)

    def test_every_finding_is_there(self):
        """
        Each event at which the condition holds is a finding; together they are one incident.
        """
        report = judged("aaaaaa").report
        [incident] = report.incidents

        assert [6, 8, 10] == [finding.at for finding in report.findings]
        assert ("loop", 6, 10, 0.75, "HIGH", "6 times") == (
            incident.kind,
            incident.since,
            incident.to,
            incident.peak,
            incident.severity,
            incident.message,
        )

    def test_a_run_is_judged_alone(self):
        """
        What one run showed is forgotten when the next begins.
        """
        replayer = judge_with()

        assert [] == [replayer.judge(run_of("aaa")).report.findings for _ in range(2)][1]

    def test_only_the_kinds_asked_for(self):
        """
        Detectors of other kinds do not look.
        """
        replayer = Replayer(Settings(), kinds={"resource"})

        assert "resource_spike" in replayer.detectors
        assert "action_loop" not in replayer.detectors

    def test_a_failing_detector_is_told(self, quiet):
        """
        A detector that fails is counted, so that nobody takes its figures for its own.
        """
        replayer = judge_with(Broken, health=Health())
        replayer.judge(run_of("aaa"))

        assert {"error in detector repeats": 3} == replayer.troubles

    def test_step_by_step(self):
        """
        A run shown event by event is judged as it is at once, and each event says what it led to.
        """
        run = run_of("aaaaa")
        replay = judge_with().begin(run.info)
        found = [len(replay.observe(event)) for event in run.events]

        assert [0, 0, 0, 1, 1] == found
        assert judge_with().judge(run).report == replay.end(run).report


class TestAnswers:
    def test_what_led_to_it(self):
        """
        An answer names the worst of what was noticed where it was first due.
        """
        one = judged("a" * 9)

        assert ["4 times", "6 times"] == [answer.finding.message for answer in one.answers[:2]]

    @pytest.mark.parametrize(("mode", "expected"), [("observe", "proceed"), ("enforce", "guide")])
    def test_what_the_caller_is_asked_for(self, mode, expected):
        """
        What is advised is the same in every mode; only enforce asks the caller to act.
        """
        first, *_ = judge_with(mode=mode).judge(run_of("a" * 9)).answers

        assert ("INJECT_REMINDER", expected) == (first.action, first.verdict)

    def test_before_a_call(self):
        """
        A recorded call can be asked about before it is shown, without its result, and nothing changes.
        """
        run = run_of("a" * 12)
        replayer = Replayer(Settings(), mode="enforce")
        asked, unasked = replayer.begin(run.info), replayer.begin(run.info)
        verdicts = []
        for event in run.events:
            verdicts.append(asked.foresee(event).verdict)
            asked.observe(event)
            unasked.observe(event)

        assert ("proceed", True) == (verdicts[0], bool({"deny", "ask"} & set(verdicts)))
        assert unasked.end(run) == asked.end(run)


class TestDeclaredTools:
    @pytest.mark.parametrize(("tools", "found"), [({}, True), ({"ask": {"kind": "poll"}}, False)])
    def test_from_the_settings(self, tools, found):
        """
        What the settings say about a tool counts: asking again and again is what polling is.
        """
        line = {"run_id": "r", "events": [{"type": "tool_call", "name": "ask", "result": "no"}] * 6}
        [run] = RunFile(io.BytesIO(json.dumps(line).encode()))

        assert found is bool(Replayer(Settings(tools=tools), kinds={"loop"}).judge(run).report.incidents)


class TestTokensSaved:
    def test_until_the_end(self):
        """
        Tokens spent after the first event that calls for a new plan count, up to the run's end.
        """
        one = judged("a" * 9)
        planned = next(a.place for a in one.answers if a.action.level >= DriftAction.SUMMARIZE_REPLAN.level)

        assert 100 * (8 - planned) == one.report.tokens_saved

    def test_until_the_user_speaks(self):
        """
        What is spent after the user's next message is not saved.
        """
        assert judged("a" * 9).report.tokens_saved == judged("a" * 9 + " bcdefg").report.tokens_saved

    @pytest.mark.parametrize("picture", ["abab", "aaaa"])
    def test_a_reminder_saves_nothing(self, picture):
        """
        A run that is fine, or would only have been reminded, has no tokens saved: none, not 0.
        """
        assert judged(picture).report.tokens_saved is None


class TestSpared:
    def test_until_the_user_speaks(self):
        """
        Only the steps up to the user's next word are spared.
        """
        assert ["c", "d"] == [event.action_name for event in find_steps_after(run_of("abcd ef").events, 1)]

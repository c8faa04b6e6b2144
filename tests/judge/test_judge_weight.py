"""How far verdicts are trusted: learnt in the lab, saved in one step, and fixed for a run from its start."""

import json

from judged_monitors import list_incidents, list_judged, loop, run_command, wait_for
from judged_runs import REDACT, JudgedRun, answer_with

from steadyhelm.findings import Severity
from steadyhelm.judging.questioner import Questioner, QuestionMemory

DISTRUST = {"judging.weight": 0.1}


class TestPinned:
    def test_a_run_keeps_its_weight_when_it_is_taken_up_under_another(self, make_monitor, wait_until):
        """
        Put aside and taken up by a monitor with another setting: verdicts count as they did when it began.
        """
        first = make_monitor(settings=DISTRUST)
        run_id = first.start_run(goal="read it")
        loop(first, calls=2)
        first.suspend(run_id)
        first.close()
        second = make_monitor()
        second.start_run(run_id=run_id)
        loop(second, calls=1)
        wait_for(wait_until, second, 1)
        assert [0.1] == [it["weight"] for it in list_judged(second)]
        (incident,) = list_incidents(second)
        assert incident.severity is Severity.MED

    def test_a_run_that_begins_later_has_the_new_weight(self, make_monitor, wait_until):
        """
        The setting holds for runs that begin from then on.
        """
        old, new = make_monitor(settings=DISTRUST), make_monitor()
        for number, monitor in enumerate((old, new)):
            with monitor.run(goal=f"read it {number}"):
                loop(monitor)
                wait_for(wait_until, monitor, number + 1)
        assert {0.1, 0.8} == {it["weight"] for it in list_judged(new)}

    def test_a_replay_uses_the_weight_of_each_verdict(self, make_monitor, wait_until, tmp_path):
        """
        A scan under another setting decides as the run did: the verdict carries its weight.
        """
        monitor = make_monitor(settings=DISTRUST)
        with monitor.run(goal="read it"):
            loop(monitor)
            wait_for(wait_until, monitor, 1)
        monitor.close()
        file = tmp_path / "runs.jsonl"
        run_command("export", "-o", str(file), db=tmp_path / "s.db")
        report = json.loads(run_command("scan", str(file), "--json", expect=3))["runs"][0]
        assert ["MED"] == [it["severity"] for it in report["incidents"]]

    def test_a_state_from_before_weights_were_kept_takes_the_present_one(self):
        """
        Runs suspended by an older version continue with the setting of whoever resumes them.
        """
        questioner = Questioner(REDACT, 0.3)
        questioner.resume(QuestionMemory())
        assert 0.3 == questioner.memory.weight

    def test_the_weight_of_a_session_survives_its_state(self):
        """
        Saved and restored elsewhere, under another weight.
        """
        run = JudgedRun(answer_with("healthy")).play("aa")
        run.session._questioner.memory.weight = 0.25
        resumed = JudgedRun(answer_with("healthy"))
        resumed.session.restore(run.session.state())
        assert 0.25 == resumed.session.judge_weight


class TestQuestionsOfAResumedRun:
    def test_a_question_raised_while_the_saved_state_was_read_is_asked(self, make_monitor, wait_until):
        """
        The step that ends the loop may be judged before the state of the run is there, and then once more.
        """
        for number in range(5):
            monitor = make_monitor()
            run_id = monitor.start_run(goal=f"read it {number}")
            loop(monitor, calls=2)
            monitor.suspend(run_id)
            monitor.close()
            again = make_monitor()
            again.start_run(run_id=run_id)
            loop(again, calls=1)
            wait_for(wait_until, again, number + 1)
            again.end_run(run_id)
            again.close()

import pytest
from watched_agent import incident_of, loop

from steadyhelm.assembly import DriftMonitor


class TestFalseAlarm:
    def test_the_effect_comes_first(self, steadyhelm, store, long, short):
        """
        Before anything is saved it says which past incidents would have been silent, confirmed ones too.
        """
        steadyhelm("alerts confirm {short}", short=short)

        answer = steadyhelm("alerts false-alarm {long} --dry-run", long=long)

        assert "It would have silenced 2 of 2 incidents so far, 1 of them confirmed." in answer.out
        assert [] == store.list_thresholds()
        assert "" == store.find_incident(long).review

    def test_asks(self, steadyhelm, store, long):
        """
        Without a terminal and without --yes nothing is changed.
        """
        answer = steadyhelm("alerts false-alarm {long}", long=long)

        assert 2 == answer.status
        assert "Add --yes" in answer.err
        assert [] == store.list_thresholds()

    def test_moves_the_threshold(self, steadyhelm, store, long):
        """
        Twice as many repetitions of that tool are allowed, and the verdict is kept with it.
        """
        steadyhelm("alerts false-alarm {long} --yes", long=long)

        [threshold] = store.list_thresholds("researcher")
        assert ("action_loop", long) == (threshold.detector, threshold.incident_id)
        assert ("loop", "search", 10) == (threshold.kind, threshold.subject, threshold.max_repeats)
        assert "false_alarm" == store.find_incident(long).review

    def test_the_next_run_is_judged_by_it(self, steadyhelm, store, short, database):
        """
        An episode like the one called a false alarm opens no incident any more.
        """
        steadyhelm("alerts false-alarm {short} --yes", short=short)

        monitor = DriftMonitor("researcher", db_path=database)
        loop(monitor, "again", times=4)
        monitor.close()

        assert [] == store.list_incidents("researcher", "again")
        assert (
            "(not reported: an incident like this was marked a false alarm)" in steadyhelm("show again").out
        )

    def test_twice(self, steadyhelm, store, short):
        """
        Saying it again changes nothing.
        """
        steadyhelm("alerts false-alarm {short} --yes", short=short)
        before = store.list_thresholds()

        answer = steadyhelm("alerts false-alarm {short} --yes", short=short)

        assert (0, "") == (answer.status, answer.out)
        assert before == store.list_thresholds()

    def test_hard_limits_never_adapt(self, steadyhelm, store, costly):
        """
        An incident about a hard limit is refused with what to do instead.
        """
        answer = steadyhelm("alerts false-alarm {costly} --yes", costly=costly)

        assert 2 == answer.status
        assert "raise or remove the limit" in answer.err
        assert [] == store.list_thresholds()

    def test_works_for_the_surest_too(self, steadyhelm, store, database, endless):
        """
        Twelve repetitions that were no drift: up to twice as many are silent from then on, more are not.
        """
        steadyhelm("alerts false-alarm {endless} --yes", endless=endless)

        monitor = DriftMonitor("researcher", db_path=database)
        loop(monitor, "as before", times=24)
        loop(monitor, "far more", times=40)
        monitor.close()

        assert [] == store.list_incidents("researcher", "as before", detector="action_loop")
        assert 40 == incident_of(store, "far more").repeats

    def test_holds_for_every_detector_that_sees_the_same(self, steadyhelm, store, database):
        """
        A call that fails again and again is seen by two detectors: one mark silences both.
        """
        failing = DriftMonitor("researcher", db_path=database)
        _fail_again_and_again(failing, "refused")
        failing.close()
        [incident] = [it for it in store.list_incidents("researcher", "refused") if it.kind == "loop"]
        steadyhelm("alerts false-alarm {id} --yes", id=incident.incident_id)

        monitor = DriftMonitor("researcher", db_path=database)
        _fail_again_and_again(monitor, "refused again")
        monitor.close()

        assert [] == [it for it in store.list_incidents("researcher", "refused again") if it.kind == "loop"]

    def test_leaves_other_tools_alone(self, steadyhelm, store, database, endless):
        """
        What holds for one tool says nothing about the next.
        """
        steadyhelm("alerts false-alarm {endless} --yes", endless=endless)

        monitor = DriftMonitor("researcher", db_path=database)
        monitor.start_run("other tool")
        for _ in range(6):
            monitor.record_event("tool_call", "fetch", input_data={"url": "x"}, output_data="same")
        monitor.end_run()
        monitor.close()

        assert "fetch" == incident_of(store, "other tool").subject

    def test_suggests_to_declare_the_tool(self, steadyhelm, endless, tmp_path, monkeypatch):
        """
        A tool that is meant to repeat is declared with the command that is shown.
        """
        monkeypatch.chdir(tmp_path)

        answer = steadyhelm("alerts false-alarm {endless} --dry-run", endless=endless)

        assert "declare it: steadyhelm config set tools.search.kind poll" in answer.out


@pytest.fixture
def endless(store, database):
    monitor = DriftMonitor("researcher", db_path=database)
    loop(monitor, "endless", times=12)
    monitor.close()
    return incident_of(store, "endless").incident_id


def _fail_again_and_again(monitor, run_id):
    monitor.start_run(run_id)
    for _ in range(5):
        monitor.record_event("tool_call", "deploy", input_data={"to": "x"}, error="403 forbidden")
    monitor.end_run()


class TestUndo:
    def test_takes_back_verdict_and_threshold(self, steadyhelm, store, long):
        """
        After an undo everything is as it was before the false alarm.
        """
        before = store.find_incident(long)
        steadyhelm("alerts false-alarm {long} --yes", long=long)

        answer = steadyhelm("alerts undo {long}", long=long)

        assert f"Took back 'false alarm' on incident {long} and the threshold it had raised.\n" == answer.err
        assert before == store.find_incident(long)
        assert [] == store.list_thresholds()

    def test_leaves_other_thresholds(self, steadyhelm, store, long, short):
        """
        Only the threshold this incident moved goes back.
        """
        for incident_id in (long, short):
            steadyhelm("alerts false-alarm {id} --yes", id=incident_id)

        steadyhelm("alerts undo {long}", long=long)

        assert [short] == [threshold.incident_id for threshold in store.list_thresholds()]

    def test_a_confirmed_one(self, steadyhelm, store, long):
        """
        A confirmation can be taken back too.
        """
        steadyhelm("alerts confirm {long}", long=long)
        assert "confirmed" == store.find_incident(long).review

        steadyhelm("alerts undo {long}", long=long)
        assert "" == store.find_incident(long).review

    def test_nothing_to_undo(self, steadyhelm, long):
        """
        Where nobody said anything, nothing is changed and nothing is wrong.
        """
        answer = steadyhelm("alerts undo {long}", long=long)

        assert 0 == answer.status
        assert "nothing was changed" in answer.err


class TestConfirm:
    def test_moves_a_threshold_back(self, steadyhelm, store, long):
        """
        Whoever confirms what was called a false alarm gets the old threshold back.
        """
        steadyhelm("alerts false-alarm {long} --yes", long=long)

        answer = steadyhelm("alerts confirm {long}", long=long)

        assert "is back where it was" in answer.err
        assert [] == store.list_thresholds()

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
        The threshold stands just above the incident's score, and the verdict is kept with it.
        """
        steadyhelm("alerts false-alarm {long} --yes", long=long)

        [threshold] = store.list_thresholds("researcher")
        assert ("action_loop", long) == (threshold.detector, threshold.incident_id)
        assert 0.843 == pytest.approx(threshold.min_score, abs=0.001)
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

    def test_the_surest_cannot_be_silenced(self, steadyhelm, store, database):
        """
        An incident with a score near one is not made silent, and the command says so.
        """
        monitor = DriftMonitor("researcher", db_path=database)
        loop(monitor, "endless", times=12)
        monitor.close()
        sure = incident_of(store, "endless").incident_id

        answer = steadyhelm("alerts false-alarm {sure} --dry-run", sure=sure)

        assert "Not this one: its score is 1.00" in answer.out
        assert f"steadyhelm alerts mute {sure}" in answer.out


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

import time

import pytest
from watched_agent import queue_alert

from steadyhelm.assembly import DriftMonitor


class TestList:
    def test_plain_alerts_lists(self, steadyhelm):
        """
        `alerts` alone does what `alerts list` does.
        """
        assert (
            steadyhelm("alerts list --json").document["incidents"]
            == steadyhelm("alerts --json").document["incidents"]
        )

    def test_open_ones_come_first(self, steadyhelm, database):
        """
        What still goes on stands above what is over, however late that ended.
        """
        monitor = DriftMonitor("stuck", db_path=database)
        monitor.start_run("going-on")
        for _ in range(4):
            monitor.record_event("tool_call", "x", output_data="same", timestamp=time.time() - 100_000)
        monitor.flush()

        listed = [(it["run_id"], it["state"]) for it in steadyhelm("alerts --json").document["incidents"]]
        monitor.close()

        assert ("going-on", "open") == listed[0]
        assert 4 == len(listed)

    def test_old_ones_are_left_out(self, steadyhelm, database):
        """
        After a day, incidents that somebody has dealt with are shown only when asked for; others stay.
        """
        monitor = DriftMonitor("old", db_path=database)
        with monitor.run(run_id="long-ago"):
            for _ in range(4):
                monitor.record_event("tool_call", "x", output_data="same", timestamp=time.time() - 100_000)
        monitor.close()

        listed = steadyhelm("alerts --agent old --json").document["incidents"]
        assert ["open"] == [it["tab"] for it in listed]
        assert "open, ended" in steadyhelm("alerts --agent old").out
        assert "" == steadyhelm("alerts --agent old --since 24h").out

        steadyhelm(f"alerts ack {listed[0]['incident_id']}")

        assert "" == steadyhelm("alerts --agent old").out
        assert "acknowledged, ended" in steadyhelm("alerts --agent old --all").out
        assert "long-ago" in steadyhelm("alerts --agent old --since 48h").out
        assert "long-ago" in steadyhelm("alerts list --agent old --all").out

    def test_severity(self, steadyhelm):
        """
        Naming a severity leaves out what is milder, in capitals or not.
        """
        listed = steadyhelm("alerts --severity high --json").document["incidents"]

        assert {"costly", "loop-long"} == {incident["run_id"] for incident in listed}

    def test_unknown_severity(self, steadyhelm):
        """
        A severity that does not exist is a usage error.
        """
        assert 2 == steadyhelm("alerts --severity urgent").status

    def test_options_before_a_subcommand(self, steadyhelm):
        """
        An option that would be passed over is refused instead.
        """
        answer = steadyhelm("alerts --all list")

        assert 2 == answer.status
        assert "write the options after `list`" in answer.err

    def test_a_span_that_is_none(self, steadyhelm):
        """
        A span of time that cannot be read is a usage error with an example.
        """
        answer = steadyhelm("alerts --last soon")

        assert 2 == answer.status
        assert (
            "Invalid value for '--since': 'soon' is not a duration; write for example 30m, 24h or 7d."
            in answer.err
        )

    def test_nothing(self, empty):
        """
        Without incidents there is no table, but words.
        """
        answer = empty("alerts")

        assert (0, "") == (answer.status, answer.out)
        assert "No open incidents, and none in the last 24h." in answer.err


class TestShow:
    def test_evidence(self, steadyhelm, long):
        """
        An incident is shown with the steps that prove it and what was said to the model.
        """
        out = steadyhelm("alerts show {long}", long=long[:6]).out

        assert f"■ HIGH incident {long}, action_loop (loop)" in out
        assert "evidence  steps 1-5" in out
        assert "step 3: remind, verdict proceed, outcome ignored: Before you go on:" in out

    def test_hard_limit(self, steadyhelm, costly):
        """
        An incident about a hard limit says that it is one.
        """
        assert "a hard limit from your settings" in steadyhelm("alerts show {costly}", costly=costly).out

    def test_deliveries(self, steadyhelm, store):
        """
        Whether anybody was told about it stands there too.
        """
        incident = queue_alert(store)

        [document] = steadyhelm("alerts show {id} --json", id=incident.incident_id).documents

        assert ["pending"] == [delivery["state"] for delivery in document["deliveries"]]

    def test_unknown(self, steadyhelm):
        """
        An id nobody has ends with status 1.
        """
        assert (
            1,
            "There is no incident 'zz'. List what there is with: steadyhelm alerts --all",
        ) == steadyhelm("alerts show zz")[::2]


class TestAcknowledge:
    def test_is_kept(self, steadyhelm, store, long):
        """
        Acknowledging notes when, and a short id will do.
        """
        steadyhelm("alerts ack {long}", long=long[:5])

        assert store.find_incident(long).acknowledged_at == pytest.approx(time.time(), abs=60)

    def test_twice(self, steadyhelm, store, long):
        """
        The first to have seen it stays noted.
        """
        steadyhelm("alerts ack {long}", long=long)
        first = store.find_incident(long)

        answer = steadyhelm("alerts ack {long}", long=long)

        assert "already" in answer.err
        assert first == store.find_incident(long)


class TestMute:
    def test_ends_after_eight_hours(self, steadyhelm, store, long):
        """
        Without a span, alerts of that agent and detector are muted for eight hours.
        """
        steadyhelm("alerts mute {long}", long=long)

        [mute] = store.list_mutes(at=time.time())
        assert ("researcher", "action_loop") == (mute.agent_id, mute.detector)
        assert 8 * 3600 == pytest.approx(mute.until - mute.set_at)

    def test_shows_in_the_list(self, steadyhelm, long):
        """
        Every incident of that agent and detector is marked as muted.
        """
        steadyhelm("alerts mute {long} --for 2d", long=long)

        muted = [
            it["run_id"] for it in steadyhelm("alerts --json").document["incidents"] if it["muted_until"]
        ]
        assert ["loop-long", "loop-short"] == muted

    @pytest.mark.parametrize("span", ["0", "31d", "ever"])
    def test_always_ends(self, steadyhelm, store, long, span):
        """
        No mute is empty, endless or longer than thirty days.
        """
        assert 2 == steadyhelm("alerts mute {long} --for {span}", long=long, span=span).status
        assert [] == store.list_mutes(at=0)

    def test_unmute(self, steadyhelm, store, long):
        """
        A mute can be taken back before it ends.
        """
        steadyhelm("alerts mute {long}", long=long)

        answer = steadyhelm("alerts unmute {long}", long=long)

        assert "Alerts of action_loop of researcher are sent again.\n" == answer.err
        assert [] == store.list_mutes(at=time.time())

    def test_unmute_what_is_not_muted(self, steadyhelm, long):
        """
        Taking back a mute that is not there changes nothing and says so.
        """
        answer = steadyhelm("alerts unmute {long}", long=long)

        assert (0, "Alerts of action_loop of researcher were not muted.\n") == answer[::2]

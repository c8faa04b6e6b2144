import inspect

import pytest

from steadyhelm import (
    ActionLoopDetector,
    BaselineStats,
    DetectorType,
    DriftEvent,
    DriftMonitor,
    GoalDriftDetector,
    ResourceSpikeDetector,
    Severity,
    TraceEvent,
    TraceStore,
)


class TestTheFrontDoor:
    def test_its_arguments(self):
        """
        The constructor takes what the first design's table lists, in its order.
        """
        assert [
            "agent_id", "alert_webhook", "goal_description", "calibration_runs", "db_path", "loop_window",
            "loop_max_repeats", "similarity_threshold", "spike_multiplier", "min_alert_severity",
            "alert_cooldown", "absolute_token_limit", "absolute_duration_limit_ms",
        ] == list(inspect.signature(DriftMonitor).parameters)[:13]  # fmt: skip

    def test_its_defaults(self, tmp_path):
        """
        A monitor that is given only its name and its file uses the defaults of that table.
        """
        monitor = DriftMonitor("my-agent", db_path=tmp_path / "test.db")
        settings, limits = monitor.settings, ResourceSpikeDetector()
        monitor.close()

        assert ("", 30, "MED", 60.0, {}) == (
            settings.alerts_webhook,
            settings.calibration_runs,
            settings.alerts_min_severity,
            settings.alerts_cooldown_s,
            settings.detectors,
        )
        assert (50_000, 300_000) == (limits.absolute_token_limit, limits.absolute_duration_limit_ms)

    @pytest.mark.parametrize(
        "method",
        ["wrap", "start_run", "end_run", "record_event", "on_drift", "get_recent_alerts", "get_baseline"],
    )
    def test_its_methods(self, method):
        """
        Every method of the first design is there.
        """
        assert callable(getattr(DriftMonitor, method))

    def test_its_flow(self, tmp_path):
        """
        Start a run, record steps by position and keyword, hear of drift, end the run, ask what happened.
        """
        heard = []
        monitor = DriftMonitor(
            "my-agent",
            None,
            "find flights",
            db_path=tmp_path / "test.db",
            loop_window=20,
            similarity_threshold=0.2,
            spike_multiplier=2.5,
        )
        monitor.on_drift(heard.append)
        run_id = monitor.start_run(goal="find flights to Oslo")
        for _ in range(4):
            monitor.record_event(action_type="tool_call", action_name="search_database")
        monitor.record_event("llm_request", "complete", output_data={"output": "a poem on the grey sea"})
        monitor.end_run(run_id)

        told = [drift for drift in heard if drift.severity is not Severity.LOW]
        assert [DetectorType.ACTION_LOOP, DetectorType.GOAL_DRIFT] == [drift.detector for drift in told]
        loop = told[0]
        assert ("search_database", 4) == (loop.context["tool_name"], loop.context["repeat_count"])
        assert ["search_database"] * 4 == loop.context["recent_actions"]
        alerts = monitor.get_recent_alerts(hours=1, limit=10)
        assert [drift.detector for drift in told[::-1]] == [alert.detector for alert in alerts]
        assert heard[::-1] == monitor.get_findings(hours=1, limit=10, min_severity="MED")
        monitor.close()


class TestTheRecords:
    def test_trace_event_fields(self):
        """
        A trace event has every field of the first design.
        """
        assert {
            *("agent_id", "run_id", "action_type", "action_name", "timestamp", "event_id"),
            *("token_count", "input_data", "output_data", "duration_ms", "metadata"),
        } <= set(TraceEvent.__struct_fields__)

    def test_drift_event_fields(self):
        """
        So has a drift event.
        """
        assert {
            *("agent_id", "run_id", "detector", "severity", "score", "message"),
            *("suggested_action", "timestamp", "event_id", "context"),
        } <= set(DriftEvent.__struct_fields__)

    def test_baseline_fields(self):
        """
        So has a baseline, but for the one that was never used.
        """
        assert {
            *("agent_id", "calibration_runs", "mean_tokens_per_run", "std_tokens_per_run"),
            *("mean_tools_per_run", "std_tools_per_run", "mean_duration_ms", "std_duration_ms"),
            *("common_sequences", "mean_goal_similarity", "std_goal_similarity", "is_calibrated"),
        } <= set(BaselineStats.__struct_fields__)

    def test_severities(self):
        """
        The severities and their borders are the same.
        """
        assert ["LOW", "MED", "HIGH", "CRITICAL"] == [severity.value for severity in Severity]
        assert Severity.HIGH is Severity.from_score(0.7)


class TestTheParts:
    def test_detectors_under_their_older_names(self):
        """
        The detectors can be had under the names of the first design.
        """
        assert ["action_loop", "goal_drift", "resource_spike"] == [
            detector.name for detector in (ActionLoopDetector, GoalDriftDetector, ResourceSpikeDetector)
        ]

    def test_the_stores_queries(self, tmp_path):
        """
        Every query of the first design answers under its name.
        """
        store = TraceStore(tmp_path / "test.db")
        for seq in range(3):
            store.save_trace(
                TraceEvent(
                    agent_id="a",
                    run_id="r",
                    action_type="tool_call",
                    action_name=f"tool-{seq}",
                    timestamp=100.0 + seq,
                    seq=seq,
                    token_count=5,
                    duration_ms=2.0,
                )
            )
        store.save_baseline(BaselineStats(agent_id="a", mean_tokens_per_run=7.0))

        assert ["tool-2", "tool-1"] == [event.action_name for event in store.get_traces("a", limit=2)]
        in_order = [event.action_name for event in store.get_run_traces("a", "r")]
        assert ["tool-0", "tool-1", "tool-2"] == in_order
        assert ["tool-1", "tool-2"] == store.get_recent_actions("a", "r", window=2)
        assert ["r"] == store.get_run_ids("a")
        assert {
            "event_count": 3,
            "total_tokens": 15,
            "tool_calls": 3,
            "llm_calls": 0,
            "start_time": 100.0,
            "end_time": 102.0,
            "total_duration_ms": 6.0,
        } == store.get_run_stats("a", "r")
        assert 7.0 == store.get_baseline("a").mean_tokens_per_run
        assert store.get_baseline("b") is None
        store.close()

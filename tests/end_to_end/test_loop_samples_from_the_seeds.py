"""The samples of the two loop designs, as their users would type them, and the failure modes they list."""

from collections import deque

import pytest

from steadyhelm.compat.multi_resolution import (
    LoopDetection,
    LoopEvent,
    LoopSignal,
    LoopType,
    MultiResolutionLoopDetector,
)
from steadyhelm.compat.windowed import DriftDetector, Event
from steadyhelm.fatigue import Trust


class TestFourStrategies:
    def test_the_first_sample_prints_what_it_says(self, capsys):
        """
        Two reads of a missing file print the design's own lines, the percentage with its two decimals.
        """
        detector = MultiResolutionLoopDetector(
            window_size=10,
            exact_hash_threshold=2,
            semantic_threshold=0.85,
            oscillation_threshold=3,
            dead_end_threshold=5,
        )
        detector.record_step(
            turn=1,
            action="Read file config.py",
            state={"file": "config.py", "status": "reading"},
            result="File not found",
        )
        detector.record_step(
            turn=2,
            action="Read file config.py",
            state={"file": "config.py", "status": "reading"},
            result="File not found",
        )
        loop = detector.detect_loop()
        if loop.detected:
            print(f"Loop detected: {loop.type}")
            print(f"Confidence: {loop.confidence:.2%}")
            print(f"Strategy: {loop.detection_strategy}")
            print(f"Steps involved: {loop.loop_sequence}")
            print(f"Suggestion: {loop.suggestion}")

        suggestion = 'The same action "Read file config.py" has been repeated with identical results.'
        assert [
            "Loop detected: EXACT_HASH",
            "Confidence: 100.00%",
            "Strategy: exact_hash",
            "Steps involved: [1, 2]",
            f"Suggestion: {suggestion} Try a different approach.",
        ] == capsys.readouterr().out.splitlines()

    def test_exact(self):
        """
        The same listing twice is an exact loop, 100% sure.
        """
        detector = MultiResolutionLoopDetector()
        for turn in (1, 2):
            detector.record_step(
                turn=turn,
                action="ls /home/user",
                state={"cwd": "/home/user"},
                result="file1.txt file2.txt",
            )
        loop = detector.detect_loop()

        assert ("EXACT_HASH", "100%") == (f"{loop.type}", f"{loop.confidence:.0%}")

    def test_semantic(self):
        """
        The same analysis in other words, with as many problems as there were issues, is 87% a loop.
        """
        detector = MultiResolutionLoopDetector()
        detector.record_step(
            turn=1,
            action="Analyzing the configuration file",
            state={"task": "analyze"},
            result="Found 3 issues",
        )
        detector.record_step(
            turn=2,
            action="Still analyzing configuration file",
            state={"task": "analyze"},
            result="Found 3 problems",
        )
        loop = detector.detect_loop()

        assert ("SEMANTIC", "87%") == (f"{loop.type}", f"{loop.confidence:.0%}")

    def test_oscillation(self):
        """
        Going back and forth between two approaches is an oscillation, 95% sure, and not a repetition.
        """
        detector = MultiResolutionLoopDetector()
        detector.record_step(turn=1, action="Approach A", state={"method": "A"})
        detector.record_step(turn=2, action="Approach B", state={"method": "B"})
        detector.record_step(turn=3, action="Approach A", state={"method": "A"})
        detector.record_step(turn=4, action="Approach B", state={"method": "B"})
        assert not detector.detect_loop().detected
        detector.record_step(turn=5, action="Approach A", state={"method": "A"})
        loop = detector.detect_loop()

        assert ("OSCILLATION", "95%") == (f"{loop.type}", f"{loop.confidence:.0%}")
        assert [1, 2, 3, 4, 5] == loop.loop_sequence

    @pytest.mark.parametrize(("threshold", "expected"), [(3, "DEAD_END"), (5, None)])
    def test_dead_end(self, threshold, expected):
        """
        Three failed approaches are a dead end, 80% sure, when three are set to be one; by default five are.
        """
        detector = MultiResolutionLoopDetector(dead_end_threshold=threshold)
        for turn in (1, 2, 3):
            detector.record_step(
                turn=turn, action=f"Try approach {turn}", state={"progress": 0}, result="Failed"
            )
        loop = detector.detect_loop()

        assert expected == loop.type
        assert (0.8 if expected else 0.0) == loop.confidence

    def test_combined(self):
        """
        A rewording at the end of fruitless steps: semantic .87 speaks, dead end .65 is reported beside it.
        """
        detector = MultiResolutionLoopDetector()
        looks = ["List the open tasks", "Read the changelog", "Look at the history", "Check the settings"]
        for turn, action in enumerate([*looks, "Analyzing the configuration file"], start=1):
            detector.record_step(turn, action, {"task": "analyze"}, "Found 3 issues")
        detector.record_step(6, "Still analyzing configuration file", {"task": "analyze"}, "Found 3 problems")
        loop = detector.detect_loop()

        assert "semantic" == loop.detection_strategy
        assert {"exact_hash": None, "semantic": 0.87, "oscillation": None, "dead_end": 0.65} == {
            name: found and found.confidence for name, found in loop.all_detections.items()
        }
        assert repr(loop.all_detections["semantic"]).startswith("LoopDetection(confidence=0.87, ")

    def test_configuration(self):
        """
        The configuration sample's keywords are all taken.
        """
        detector = MultiResolutionLoopDetector(
            window_size=10,
            exact_hash_threshold=2,
            semantic_threshold=0.85,
            oscillation_threshold=3,
            dead_end_threshold=5,
            enable_all_strategies=True,
        )

        assert {} == detector.not_checked

    def test_the_records_have_their_names(self):
        """
        A verdict is a LoopEvent, made of one LoopSignal per strategy, each with a LoopDetection or none.
        """
        detector = MultiResolutionLoopDetector()
        for turn in (1, 2):
            detector.record_step(turn, "ls", {"cwd": "/"}, "a")
        loop = detector.detect_loop()

        assert isinstance(loop, LoopEvent)
        assert {LoopSignal} == {type(signal) for signal in loop.signals}
        assert isinstance(loop.all_detections[LoopType.EXACT_HASH.strategy], LoopDetection)

    def test_inside_an_agent_loop(self):
        """
        As in the integration sample: sure loops break the run, unsure ones become a drift signal.
        """

        class Agent:
            def __init__(self, *results):
                self.loop_detector = MultiResolutionLoopDetector(dead_end_threshold=3)
                self.results = deque(results)
                self.risks = []

            def run(self):
                for turn in range(1, 20):
                    loop_risk = 0.0
                    loop = self.loop_detector.detect_loop()
                    if loop.detected:
                        if loop.confidence > 0.9:
                            return f"Loop detected: {loop.suggestion}"
                        loop_risk = loop.confidence
                    self.risks.append(loop_risk)
                    if not self.results:
                        return "done"
                    action, result = self.results.popleft()
                    self.loop_detector.record_step(
                        turn=turn, action=action, state={"files": 1}, result=result
                    )
                return "budget exhausted"

        stuck = Agent(*[("Read a.py", "gone")] * 9)
        unsure = Agent(*[(f"Try {n}", "Failed") for n in range(3)])

        assert stuck.run().startswith('Loop detected: The same action "Read a.py"')
        assert 7 == len(stuck.results)
        assert ("done", [0.0, 0.0, 0.0, 0.8]) == (unsure.run(), unsure.risks)


def noise(count, start=0):
    return [Event("bash", f"command {start + n}", "", 0.0) for n in range(count)]


def told(detector, events):
    return [name for event in events for name in detector.record(event)]


READ = Event("read", "a.py", "h1", 0.0)


class TestWindowed:
    def test_the_engine_keeps_its_promises(self):
        """
        With a pattern of one's own, the EMA is the formula's, and alerts are dated by event.
        """

        class Mine(DriftDetector):
            def _patterns(self):
                return [("same-tool", lambda events: len(events) > 1 and events[-1].tool == events[-2].tool)]

        detector, expected = Mine(window=20, alpha=0.3, cooldown_events=5), 0.0
        for number, tool in enumerate("aabbbcab", start=1):
            detector.record(Event(tool, "t", "h", float(number)))
            x = float(tool == "aabbbcab"[number - 2 : number - 1])
            expected = 0.3 * x + 0.7 * expected

            assert {"same-tool": pytest.approx(expected)} == detector.ema
        assert ({"same-tool": 2}, 8) == (detector.last_alert, detector.event_count)

    def test_window_too_small(self):
        """
        Five events do not hold reads with eight others between; twenty do.
        """
        events = [READ, *noise(8), READ, *noise(8, 8), READ]

        assert [] == told(DriftDetector(window=5), events)
        assert ["read-loop"] == told(DriftDetector(), events)

    def test_window_too_large(self):
        """
        A loop that ended is not told again, however large the window: the newest event must be part of it.
        """
        detector = DriftDetector(window=500)
        told(detector, [READ] * 3)

        assert [] == told(detector, noise(60))
        assert detector.ema["read-loop"] < 1e-9

    def test_old_events_do_not_count(self):
        """
        Reads that left the window are forgotten.
        """
        assert [] == told(DriftDetector(), [READ, READ, *noise(30), READ])

    def test_extractor_too_narrow(self):
        """
        Contents are compared, not tools and files alone: a revert is seen, and edit after edit is not one.
        """
        writes = [Event("write", "a.py", content, 0.0) for content in ("h1", "h2", "h3", "h1")]

        assert [] == told(DriftDetector(), writes[:3])
        assert ["edit-revert"] == told(DriftDetector(), writes)

    def test_no_cooldown(self):
        """
        Ten reads too many are one alert; without a cooldown they would be ten.
        """
        assert 1 == len(told(DriftDetector(), [READ] * 12))
        assert 10 == len(told(DriftDetector(cooldown_events=0), [READ] * 12))

    def test_ema_is_not_a_frequency(self):
        """
        The EMA of a pattern that fires at every fourth event is not a fourth: it says trend, never percent.
        """
        detector = DriftDetector()
        detector.add_pattern("fourth", lambda events: events[-1].target == "fourth")
        for n in range(40):
            detector.record(Event("bash", "fourth" if n % 4 == 3 else "other", "", 0.0))

        assert 0.39 == round(detector.ema["fourth"], 2)

    def test_drift_lowers_trust(self):
        """
        An alert is a negative observation on the tool and the file it concerns.
        """
        detector, trust = DriftDetector(), Trust()
        for event in [READ] * 3 + [Event("read", "b.py", "h2", 0.0)]:
            observe = trust.lower if detector.record(event) else trust.raise_
            observe("tool", event.tool)
            observe("file", event.target)

        assert 0.5 < trust.of("file", "b.py").mean
        assert trust.of("file", "a.py").mean < trust.of("file", "b.py").mean

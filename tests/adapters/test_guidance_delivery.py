"""Guidance about the calls of watched functions: who receives it, and what counts as delivered."""

import asyncio
import threading

import pytest

from steadyhelm import DriftMonitor, RunStopped
from steadyhelm.boundary.driver import Boundary
from steadyhelm.boundary.watched_functions import GUIDANCE_HEADING, MAX_APPENDED_CHARS


@pytest.fixture
def monitor(tmp_path):
    monitor = DriftMonitor("tester", db_path=tmp_path / "test.db", mode="guide")
    yield monitor
    monitor.close()


def list_interventions(monitor):
    monitor.flush()
    return [
        intervention
        for incident in monitor.store.list_incidents("tester")
        for intervention in incident.interventions
    ]


def make_lookup(monitor, **options):
    @monitor.tool(name="lookup", **options)
    def lookup(key):
        return f"no {key}"

    return lookup


class TestNobodyListens:
    @pytest.mark.usefixtures("quiet")
    def test_words_that_nobody_received_are_no_interventions(self, monitor):
        """
        A decorated function alone has nobody to speak to: what was decided is kept as not delivered.
        """
        lookup = make_lookup(monitor)
        with monitor.run(goal="find a") as run:
            for _ in range(8):
                lookup("a")
            assert ("proceed", "guide") == (run.last_decision.verdict, run.last_decision.wanted)

        answers = list_interventions(monitor)
        assert answers
        assert not any(answer.said for answer in answers)

    @pytest.mark.usefixtures("quiet")
    def test_that_is_logged_with_what_to_do(self, monitor, caplog):
        """
        When the run ends, a warning names the ways to pass the guidance on.
        """
        lookup = make_lookup(monitor)
        with monitor.run():
            for _ in range(3):
                lookup("a")

        assert 1 == sum("append_guidance=True" in record.getMessage() for record in caplog.records)

    def test_an_uneventful_run_logs_nothing(self, monitor, caplog):
        """
        Where there was nothing to say, there is no warning about it.
        """
        lookup = make_lookup(monitor)
        with monitor.run():
            lookup("a")

        assert not caplog.records

    def test_what_is_certain_stops_the_run(self, tmp_path):
        """
        In enforce mode a stop is delivered by raising it, whoever listens, and counts as delivered.
        """
        monitor = DriftMonitor("tester", db_path=tmp_path / "test.db", mode="enforce")

        @monitor.tool
        def run_tests():
            return "1 failed"

        def work():
            with monitor.run():
                for _ in range(20):
                    run_tests()

        with pytest.raises(RunStopped):
            work()

        assert "stop" == list_interventions(monitor)[-1].verdict
        monitor.close()


class TestReaders:
    def test_taken_is_delivered(self, monitor):
        """
        Guidance counts as delivered from the moment the loop takes it, and is judged by what follows.
        """
        lookup = make_lookup(monitor)
        with monitor.run(goal="find a") as run:
            for _ in range(3):
                lookup("a")
            assert "Your goal: find a" in run.guidance()
            for key in "bcdefghi":
                lookup(key)

        [answer] = list_interventions(monitor)
        assert (True, "guide", "worked") == (answer.said, answer.verdict, answer.outcome)

    def test_taken_late_is_judged_from_then_on(self, monitor):
        """
        Steps between the decision and its delivery are not held against the words.
        """
        lookup = make_lookup(monitor)
        with monitor.run() as run:
            for _ in range(4):
                lookup("a")
            run.guidance()
            for key in "bcdefghi":
                lookup(key)

        assert ["worked"] == [answer.outcome for answer in list_interventions(monitor) if answer.said]

    def test_the_latest_decision_stays_the_latest(self, monitor):
        """
        Taking the guidance is no step of the agent: what was decided last is still that.
        """
        lookup = make_lookup(monitor)
        with monitor.run() as run:
            for _ in range(3):
                lookup("a")
            before = run.last_decision
            run.guidance()
            assert before is run.last_decision

    def test_two_threads_never_take_the_same(self, monitor):
        """
        Of many threads that ask at the same time, one gets the guidance.
        """
        lookup = make_lookup(monitor)
        with monitor.run() as run:
            for _ in range(3):
                lookup("a")
            got, start = [], threading.Barrier(8)

            def take():
                start.wait()
                got.append(run.guidance())

            threads = [threading.Thread(target=take) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        assert 1 == sum(bool(text) for text in got)

    def test_a_callback_receives_it(self, monitor):
        """
        With an `on_decision` callback the verdict says guide, and the intervention counts as delivered.
        """
        heard = []
        monitor.on_decision(heard.append)
        lookup = make_lookup(monitor)
        with monitor.run():
            for _ in range(3):
                lookup("a")

        assert ["guide"] == [decision.verdict for decision in heard]
        assert [True] == [answer.said for answer in list_interventions(monitor)]

    def test_an_adapter_passes_it_on(self, monitor):
        """
        Inside a run of an adapter that can speak to the model, its next request carries the words.
        """
        lookup = make_lookup(monitor)
        boundary = Boundary(monitor, "toy", {"before_model": {"guide"}})
        with boundary.run("find a") as run:
            for _ in range(3):
                lookup("a")
            first, second = run.before_model(), run.before_model()

        assert ("guide", "proceed") == (first.verdict, second.verdict)
        assert "lookup called 3 times" in first.text
        assert [True] == [answer.said for answer in list_interventions(monitor)]


class TestAppended:
    def test_to_a_text_once(self, monitor):
        """
        The third result of a loop carries the words below a line that says whose they are; no other does.
        """
        lookup = make_lookup(monitor, append_guidance=True)
        with monitor.run(goal="find a") as run:
            results = [lookup("a") for _ in range(4)]
            assert "" == run.guidance()

        assert ["no a", "no a", "no a"] == [results[0], results[1], results[3]]
        assert results[2].startswith(f"no a\n\n{GUIDANCE_HEADING}\nBefore you go on:")
        assert [True] == [answer.said for answer in list_interventions(monitor)]

    def test_what_is_recorded_is_the_tools_own_result(self, monitor):
        """
        Our words never enter the record of what the tool returned.
        """
        lookup = make_lookup(monitor, append_guidance=True)
        with monitor.run() as run:
            for _ in range(3):
                lookup("a")

        monitor.flush()
        steps = monitor.store.get_run_traces("tester", run.run_id)
        assert {"no a"} == {step.output_data["text"] for step in steps if step.action_name == "lookup"}

    def test_a_coroutine_too(self, monitor):
        """
        The text that a coroutine returns is treated like that of a function.
        """

        @monitor.tool(append_guidance=True)
        async def lookup(key):
            return f"no {key}"

        async def work():
            async with monitor.run():
                return [await lookup("a") for _ in range(3)]

        assert GUIDANCE_HEADING in asyncio.run(work())[2]

    def test_a_method_and_a_static_method_too(self, monitor):
        """
        The option reaches what is behind a static method.
        """

        class Desk:
            @monitor.tool(append_guidance=True)
            @staticmethod
            def lookup(key):
                return f"no {key}"

        with monitor.run():
            assert GUIDANCE_HEADING in [Desk.lookup("a") for _ in range(3)][2]

    @pytest.mark.parametrize("result", [7.5, 7, ["no a"], {"text": "no a"}, b"no a"])
    def test_other_results_stay_what_they_are(self, monitor, result):
        """
        What is no text is returned as the same object, and the words wait for the next text.
        """

        @monitor.tool(append_guidance=True)
        def lookup(key):
            return result

        tell = make_lookup(monitor, append_guidance=True)
        with monitor.run():
            assert all(lookup("a") is result for _ in range(3))
            assert GUIDANCE_HEADING in tell("other")

    def test_a_text_of_another_class_stays_what_it_is(self, monitor):
        """
        A subclass of str keeps its type: nothing is added to it.
        """

        class Markup(str):
            __slots__ = ()

        @monitor.tool(append_guidance=True)
        def lookup(key):
            return Markup("no a")

        with monitor.run():
            assert {Markup} == {type(lookup("a")) for _ in range(4)}

    def test_generators_stay_what_they_are(self, monitor):
        """
        What a generator yields is not changed, nor what it returns.
        """

        @monitor.tool(append_guidance=True)
        def lookup(key):
            yield "no "
            yield key
            return "done"

        with monitor.run():
            for _ in range(5):
                assert ["no ", "a"] == list(lookup("a"))

    def test_a_failing_tool_keeps_its_error(self, monitor):
        """
        An exception passes unchanged; the words wait for the next text.
        """

        @monitor.tool(append_guidance=True)
        def lookup(key):
            raise KeyError(key)

        tell = make_lookup(monitor, append_guidance=True)
        with monitor.run():
            for _ in range(3):
                with pytest.raises(KeyError):
                    lookup("a")
            assert GUIDANCE_HEADING in tell("other")

    def test_never_more_than_it_says(self, monitor):
        """
        However long goal and evidence are, little is added to a result.
        """
        lookup = make_lookup(monitor, append_guidance=True)
        with monitor.run(goal="x" * 100_000):
            longest = max(len(lookup("a" * 5_000)) for _ in range(12))

        assert longest < 5_003 + MAX_APPENDED_CHARS + len(GUIDANCE_HEADING) + 4

    def test_nothing_in_observe_mode(self, tmp_path):
        """
        A monitor that only observes changes no result.
        """
        monitor = DriftMonitor("tester", db_path=tmp_path / "test.db")
        lookup = make_lookup(monitor, append_guidance=True)
        with monitor.run():
            assert {"no a"} == {lookup("a") for _ in range(9)}
        monitor.close()

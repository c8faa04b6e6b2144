import pytest
from agent_steps import call, reported, run

from steadyhelm.detectors.stagnation import StagnationMemory
from steadyhelm.loops.measures import find_measures, grade_measures
from steadyhelm.loops.repetitions import RepetitionMemory

QUERY = {"sql": "SELECT * FROM orders JOIN items USING (id)"}


def measured(times, answer="Execution Time: {} ms, 40 rows", tool="explain"):
    """One query measured after each hint."""
    for n, time in enumerate(times):
        yield call("tune", {"hint": f"hint {n}"}, "ok")
        yield call(tool, QUERY, answer.format(time))


class TestNames:
    @pytest.mark.parametrize(
        ("text", "times"),
        [
            ("Planning Time: 0.2 ms\nExecution Time: 14.5 ms", (0.2, 14.5)),
            ('{"query_time_ms": 40, "rows": 3}', (40.0,)),
            ("p95: 210 ms, latency=80", (210.0, 80.0)),
            ("done in 4 s, 3 rows", ()),
            ("the first time 40 people came", ()),
        ],
    )
    def test_of_what_was_measured(self, text, times):
        """
        Only a time that is named as a measured one counts.
        """
        assert times == find_measures(text)

    def test_that_fall(self):
        """
        A time is graded by how far it is below the first; one that is not clearly below has the grade 0.
        """
        grades = [grade_measures((4000.0,), (it,))[0] for it in (1000.0, 2000.0, 3600.0, 3700.0, 0.0)]

        assert grades == sorted(grades)
        assert [0.0, 0.0] == grades[-2:]


class TestProgress:
    @pytest.mark.parametrize(
        "answer", ["Execution Time: {} ms, 40 rows", '{{"query_time_ms": {}, "rows": 40}}', "latency: {} ms"]
    )
    def test_each_time_below_the_one_before(self, answer):
        """
        A query that takes clearly less time at each measurement is being tuned.
        """
        assert [] == reported(RepetitionMemory(), run(*measured((4000, 2000, 1333, 1000, 800, 666), answer)))

    @pytest.mark.parametrize(
        "times",
        [
            (4000, 3100, 4400, 3900, 4100, 3300),
            (4000, 3990, 3985, 3970, 3960, 3950),
            (400, 500, 600, 700, 800, 900),
        ],
    )
    def test_times_that_do_not_fall(self, times):
        """
        Times that go up and down, hardly change or rise are noise: the same is measured again.
        """
        assert reported(RepetitionMemory(), run(*measured(times)))

    def test_times_that_fall_no_more(self):
        """
        Where the time has fallen as far as it will, measuring again is a loop.
        """
        times = (4000, 2000, 1000, 1000, 1004, 1001, 1003)

        assert reported(RepetitionMemory(), run(*measured(times)))

    def test_one_answer_to_reworded_questions(self):
        """
        Measured times make an answer to the same question in other words no other answer.
        """
        asked = (
            "average price of a lamp",
            "price of a lamp, average",
            "what is the average lamp price",
            "lamp price average",
        )
        body = "The average price of a lamp is 40 dollars, as listed in the catalogue. Query time: {} ms."
        steps = [call("ask_data", {"question": it}, body.format(40 - n)) for n, it in enumerate(asked)]

        assert reported(StagnationMemory(), run(*steps))

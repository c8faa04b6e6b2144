import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from steadyhelm.baselines import BaselineStats
from steadyhelm.decisions import DriftAction
from steadyhelm.detectors.stagnation import Stagnation
from steadyhelm.errors import SettingsError
from steadyhelm.events import RunInfo
from steadyhelm.findings import Severity
from steadyhelm.policy.guidance import write_guidance
from steadyhelm.testing.traces import AGENT, RUN, events, fired_at

PLACES = (
    "what lies at the north gate",
    "river bank view",
    "describe the old mill please",
    "high street shops",
    "is there anything in the town hall to see",
    "east wing",
    "go south to the pier",
)


def findings(trace, detector=None):
    detector = detector or Stagnation()
    detector.begin(RunInfo(agent_id=AGENT, run_id=RUN))
    return [it for event in trace if (it := detector.check(event, BaselineStats(agent_id=AGENT)))]


def asked(questions, answers):
    """One tool asked these questions, with these answers."""
    return [
        structs.replace(event, input_data=question, output_data=answer)
        for event, question, answer in zip(events("a" * len(questions)), questions, answers, strict=True)
    ]


class TestAdvice:
    def test_only_people_are_asked_to_declare_a_tool(self):
        """
        A batch suggests a declaration to people; guidance tells the agent only what it can do itself.
        """
        paths = [f"/srv/data/files/of/the/old/project/part/{n}" for n in range(25)]
        questions = [{"at": path, "how": "one by one"} for path in paths]
        batch = findings(asked(questions, ["a wall of stone"] * 25))[-1]
        guidance = write_guidance(
            DriftAction.INJECT_REMINDER, [structs.replace(batch, severity=Severity.MED)], ""
        )

        assert 'declare the tool: kind = "batch"' in batch.suggested_action
        assert "declare" not in guidance.text
        assert Stagnation.advice in guidance.text


class TestStagnation:
    def test_other_questions_the_same_answer(self):
        """
        The sixth question that gets the same answer is reported, with its proof.
        """
        (finding,) = findings(asked([{"query": place} for place in PLACES], ["a wall of stone"] * 7))

        assert "a gave the same answer 6 times, however it was asked" == finding.message
        assert ("loop", Severity.MED, 0.5) == (finding.kind, finding.severity, finding.score)
        assert {
            "pattern": "stagnation",
            "subject": "a",
            "repeat_count": 6,
            "event_ids": [f"run.{n}" for n in range(6)],
        } == finding.context

    @pytest.mark.parametrize("name", ["", "value"])
    def test_numbers_that_differ_are_other_answers(self, name):
        """
        A number that the question contained too is an answer of its own, alone or under a name.
        """
        numbers = range(100, 140)
        answers = [{name: n} if name else n for n in numbers]

        assert [] == findings(asked([{"n": n} for n in numbers], answers))

    def test_one_question_in_other_words(self):
        """
        One question in ever other words is reported at the fourth.
        """
        wordings = (
            "cheap flights to oslo",
            "cheap flights oslo norway",
            "flights to oslo cheap",
            "cheap oslo flights",
        )
        *_, finding = findings(
            asked([{"query": it} for it in wordings], ["one\nsame old hit\nlist of hits"] * 4)
        )

        assert ("reworded search", Severity.MED) == (finding.context["pattern"], finding.severity)

    @pytest.mark.parametrize("setting", ["same_answers", "similar_searches"])
    def test_settings(self, setting):
        """
        The numbers are settings; one alone repeats nothing.
        """
        trace = asked([{"query": place} for place in PLACES], ["a wall of stone"] * 7)

        assert 1 < len(findings(trace, Stagnation(same_answers=3)))
        with pytest.raises(SettingsError, match=setting):
            Stagnation(**{setting: 1})

    def test_pictures_without_it(self):
        """
        Repetition, work and failures are others' business.
        """
        assert [] == fired_at(Stagnation(), "aaaaaaaa")
        assert [] == fired_at(Stagnation(), "AAAAAAAA........xxxxxxxx")
        assert [] == fired_at(Stagnation(), "abcabcabcabc")

    @given(st.text(alphabet="ABCDEFGH", max_size=60))
    def test_where_every_result_is_new(self, picture):
        """
        A run in which every result is new is never reported.
        """
        assert [] == fired_at(Stagnation(), picture)

    @given(st.lists(st.sampled_from(PLACES), max_size=30), st.integers(0, 30))
    def test_put_aside_anywhere_it_goes_on_alike(self, places, cut):
        """
        Put aside after any event and taken up by another detector, it finds the same.
        """
        trace = asked([{"query": place} for place in places], ["a wall of stone"] * len(places))
        first, second = Stagnation(), Stagnation()
        before = findings(trace[:cut], first)
        second.restore(first.state())

        assert findings(trace) == before + findings(trace[cut:], second)

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.baselines import BaselineStats
from steadyhelm.detectors.repetitive_text import RepetitiveText
from steadyhelm.events import RunInfo
from steadyhelm.findings import Severity
from steadyhelm.testing.traces import AGENT, RUN, fired_at, replies, said_at

STILL = "I am still working on it."


def findings(texts, detector=None):
    detector = detector or RepetitiveText()
    detector.begin(RunInfo(agent_id=AGENT, run_id=RUN))
    trace = replies(*texts) if texts and isinstance(texts[0], str) else texts
    return [it for event in trace if (it := detector.check(event, BaselineStats(agent_id=AGENT)))]


class TestRepetitiveText:
    def test_within_a_reply(self):
        """
        A reply that says the same again and again is certain.
        """
        (finding,) = findings(["I will end the turn now. " * 8])

        assert "one reply says 'I will end the turn now.' 8 times in a row" == finding.message
        assert ("loop", Severity.CRITICAL, 8) == (
            finding.kind,
            finding.severity,
            finding.context["repeat_count"],
        )
        assert ["run.0"] == finding.event_ids

    def test_from_reply_to_reply(self):
        """
        The same reply is noticed the second time and reported the third.
        """
        found = findings([STILL] * 3)

        assert ["LOW", "MED"] == [it.severity.value for it in found]
        assert "the same reply was given 3 times, with nothing done in between" == found[-1].message
        assert ["run.0", "run.1", "run.2"] == found[-1].event_ids

    def test_ordinary_replies(self):
        """
        Replies with something to say are left in peace, and so are lists of them.
        """
        assert [] == said_at(RepetitiveText(), *[f"Part {n} of the plan is done." for n in range(9)])
        assert [] == said_at(RepetitiveText(), "- the same point once more\n" * 20)

    @pytest.mark.parametrize(
        "text", ["page {} tells of many things", "the rows of part_{}.csv are loaded now"]
    )
    def test_other_identifiers_are_other_thoughts(self, text):
        """
        Replies in the same words about another number or file each time report different things.
        """
        assert [] == findings([text.format(n) for n in range(10)])

    def test_calls_are_not_words(self):
        """
        Repeated calls are others' business.
        """
        assert [] == fired_at(RepetitiveText(), "aaaaaaaa....xxxx")

    @given(
        st.lists(st.sampled_from([STILL, "Done with that part.", "la la " * 40]), max_size=12),
        st.integers(0, 12),
    )
    def test_put_aside_anywhere_it_goes_on_alike(self, texts, cut):
        """
        Put aside after any event and taken up by another detector, it finds the same.
        """
        first, second, trace = RepetitiveText(), RepetitiveText(), replies(*texts)
        before = findings(trace[:cut], first)
        second.restore(first.state())

        assert findings(trace) == before + findings(trace[cut:], second)

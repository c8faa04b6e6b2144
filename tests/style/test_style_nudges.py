"""When an agent is nudged about its manner, how strongly, and whether it helped.

A digit is a score in tens; `g` gentle  `f` firm  `s` strong  `.` nothing said.
"""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.style.nudges import NudgeTracker
from steadyhelm.style.trajectory import Trajectory


def nudged(picture):
    return nudged_at(int(digit) * 10 for digit in picture)


def nudged_at(scores):
    course, nudging = Trajectory(), NudgeTracker()
    said = []
    for score in scores:
        nudge = nudging.advise(course.record_score(score), ["filler (basically)"])
        said.append(nudge.strength[0] if nudge else ".")
    return "".join(said), nudging


class TestNudges:
    @pytest.mark.parametrize("picture", ["9", "1191111", "9111", "119911", "1111911111191111"])
    def test_a_spike_is_left_alone(self, picture):
        """
        A single high score never nudges.
        """
        assert "." * len(picture) == nudged(picture)[0]

    @pytest.mark.parametrize(
        ("picture", "said"),
        [("11777", "....g"), ("55555", "....g"), ("191919", ".....g"), ("01345", "...g.")],
    )
    def test_every_class_nudges(self, picture, said):
        """
        Each class of trajectory does, once, gently.
        """
        assert said == nudged(picture)[0]

    def test_three_strengths(self):
        """
        While nothing changes, a nudge comes every second reply, each stronger than the one before.
        """
        said, nudging = nudged("7777777777")

        assert "..g.f.s.s." == said
        assert (4, 0, 3) == (nudging.given, nudging.helped, nudging.ignored)

    def test_it_helped(self):
        """
        A clear fall in the next two replies is counted as help, and the next nudge is gentle again.
        """
        said, nudging = nudged("77711777")

        assert "..g....g" == said
        assert (2, 1, 0) == (nudging.given, nudging.helped, nudging.ignored)

    def test_held_while_recovering(self):
        """
        Nothing is said while it gets better.
        """
        assert "..g......" == nudged("999511111")[0]

    def test_held_while_it_goes_on_falling(self):
        """
        A nudge that helped is not followed by another while the scores go on falling, high as they are.
        """
        said, nudging = nudged_at([95, 95, 95, 80, 65])

        assert "..g.." == said
        assert (1, 1, 0) == (nudging.given, nudging.helped, nudging.ignored)

    def test_held_on_a_steady_fall(self):
        """
        One nudge is enough for a slow and steady fall, and it was not ignored.
        """
        said, nudging = nudged_at([90, 90, 90, 85, 80, 75, 70, 65, 61])

        assert "..g......" == said
        assert (1, 1, 0) == (nudging.given, nudging.helped, nudging.ignored)

    def test_a_fall_that_stops_too_high(self):
        """
        Where the scores come to rest above the threshold, there is another nudge.
        """
        assert "..g.....g" == nudged_at([95, 95, 95, 80, 65, 65, 65, 65, 65])[0]

    def test_noise_is_no_fall(self):
        """
        Scores that go up and down around a high level do not hold a nudge back.
        """
        assert "..g.f.s.s" == nudged_at([80, 78, 83, 77, 80, 79, 81, 76, 82])[0]

    @given(st.lists(st.floats(0, 100), max_size=30))
    def test_never_on_a_clear_fall(self, scores):
        """
        Whatever the scores were, a reply that falls with the others is never followed by a nudge.
        """
        course, nudging = Trajectory(), NudgeTracker()
        for score in scores:
            reading = course.record_score(score)
            nudge = nudging.advise(reading)

            assert nudge is None or reading.velocity > -1.8 or reading.score > reading.ewma

    @pytest.mark.parametrize(
        ("picture", "said"),
        [("8181818181", "....g.f.s."), ("8118118118118", "......g..f..s"), ("8181881188", "....g...f.")],
    )
    def test_spikes_that_go_on(self, picture, said):
        """
        Between two spikes the scores fall by themselves: another spike is what shows that nobody listened.
        """
        heard, nudging = nudged(picture)

        assert said == heard
        assert 0 == nudging.helped

    def test_spikes_that_end(self):
        """
        Five replies without another spike are help.
        """
        nudging = nudged("8181811111")[1]

        assert (1, 1, 0) == (nudging.given, nudging.helped, nudging.ignored)
        assert (1, 0, 0) == (nudged("818181111")[1].given, nudged("818181111")[1].helped, nudging.ignored)

    def test_a_calm_stretch_forgets(self):
        """
        After five calm replies the next nudge is gentle.
        """
        assert "..g.f.......g" == nudged("7777711111777")[0]

    def test_words(self):
        """
        A nudge names the offenders, and asks not to be talked about.
        """
        course, nudging = Trajectory(), NudgeTracker()
        for _ in range(2):
            nudging.advise(course.record_score(90))
        nudge = nudging.advise(
            course.record_score(90), ["filler (basically)", "length (900 words)", "hype", "meta"]
        )

        assert ("filler (basically)", "length (900 words)", "hype") == nudge.offenders
        assert "filler (basically), length (900 words) and hype" in nudge.text
        assert nudge.text.endswith("Do not comment on this note.")
        assert "again" not in nudge.text

    def test_no_words_about_earlier_notes(self):
        """
        Whether earlier words reached the agent is not known here: no text claims that they did.
        """
        course, nudging = Trajectory(), NudgeTracker()
        texts = [nudge.text for _ in range(30) if (nudge := nudging.advise(course.record_score(95)))]

        assert len(texts) > 5
        assert not any("notes" in text or "after a note" in text for text in texts)

    def test_without_offenders(self):
        """
        Without offenders there are still words.
        """
        course, nudging = Trajectory(), NudgeTracker()
        (*_, nudge) = [nudging.advise(course.record_score(90)) for _ in range(3)]

        assert "a style that differs" in nudge.text

    @given(st.lists(st.floats(0, 100), max_size=40), st.integers(0, 40))
    def test_taken_up_again(self, scores, cut):
        """
        Put aside and taken up again, the same nudges come, and every judged one was given.
        """
        course, whole, nudging = Trajectory(), NudgeTracker(), NudgeTracker()
        readings = [course.record_score(score) for score in scores]
        expected = [whole.advise(reading) for reading in readings]
        got = [nudging.advise(reading) for reading in readings[:cut]]
        nudging = msgspec.msgpack.decode(msgspec.msgpack.encode(nudging), type=NudgeTracker)
        got += [nudging.advise(reading) for reading in readings[cut:]]

        assert expected == got
        assert 0 <= whole.given - whole.helped - whole.ignored <= 1

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.findings import DetectorType, DriftEvent, Severity


def finding(score=0.6, **fields):
    return DriftEvent(
        **{
            "agent_id": "a",
            "run_id": "r",
            "detector": "action_loop",
            "kind": "loop",
            "severity": Severity.from_score(score),
            "score": score,
            "message": "a message",
            "suggested_action": "an action",
            "timestamp": 5.0,
            "event_id": "e/action_loop",
            "context": {"event_ids": ["e"], "repeat_count": 4},
        }
        | fields
    )


class TestSeverity:
    @pytest.mark.parametrize(
        ("score", "expected"),
        [
            (0.0, "LOW"),
            (0.4999, "LOW"),
            (0.5, "MED"),
            (0.6999, "MED"),
            (0.7, "HIGH"),
            (0.8999, "HIGH"),
            (0.9, "CRITICAL"),
            (1.0, "CRITICAL"),
            (float("nan"), "LOW"),
        ],
    )
    def test_severity_of_a_score(self, score, expected):
        """
        MED begins at .5, HIGH at .7, CRITICAL at .9; what is no number is LOW.
        """
        assert expected == Severity.from_score(score)

    @given(st.floats(0, 1), st.floats(0, 1))
    def test_a_higher_score_is_never_milder(self, one, other):
        """
        Severity grows with the score.
        """
        low, high = sorted((one, other))

        assert Severity.from_score(low).rank <= Severity.from_score(high).rank

    def test_ranks_order_the_names(self):
        """
        LOW, MED, HIGH, CRITICAL: ranks say so, the alphabet does not.
        """
        assert [0, 1, 2, 3] == [Severity(name).rank for name in ("LOW", "MED", "HIGH", "CRITICAL")]

    def test_a_severity_is_its_name(self):
        """
        A severity can be compared with, printed as and made from its name.
        """
        assert "MED" == Severity.MED == str(Severity.MED) == Severity("MED")


class TestDetectorType:
    def test_the_first_three_have_constants(self):
        """
        The names of the first three detectors are constants.
        """
        assert ["action_loop", "goal_drift", "resource_spike"] == [
            DetectorType.ACTION_LOOP,
            DetectorType.GOAL_DRIFT,
            DetectorType.RESOURCE_SPIKE,
        ]


class TestDriftEvent:
    def test_to_dict_is_plain(self):
        """
        A finding as plain data holds names and numbers only.
        """
        plain = finding().to_dict()

        assert type(plain["severity"]) is str
        assert "MED" == plain["severity"]
        assert {"event_ids": ["e"], "repeat_count": 4} == plain["context"]

    def test_to_dict_and_back(self):
        """
        A finding survives the way through plain data, unknown keys or not.
        """
        assert finding() == DriftEvent.from_dict(finding().to_dict() | {"colour": "blue"})

    def test_the_proof_is_at_hand(self):
        """
        The ids of the events that prove a finding are in its context, and a property gives them.
        """
        assert ["e"] == finding().event_ids
        assert [] == finding(context={}).event_ids

    def test_lowered_says_why(self):
        """
        A lowered finding is LOW, keeps its score and its proof, and says why it was lowered.
        """
        loud = finding(0.95)
        quiet = loud.lower_severity("a person said so")

        assert (Severity.LOW, 0.95, ["e"]) == (quiet.severity, quiet.score, quiet.event_ids)
        assert "a person said so" == quiet.context["lowered_because"]
        assert "lowered_because" not in loud.context

    @pytest.mark.parametrize(
        ("detector", "kind"),
        [
            (DetectorType.ACTION_LOOP, "loop"),
            (DetectorType.GOAL_DRIFT, "goal"),
            (DetectorType.RESOURCE_SPIKE, "resource"),
        ],
    )
    def test_with_the_fields_of_the_source_design(self, detector, kind):
        """
        A finding can be made of the fields the source design has; what ours has beside them is filled in.
        """
        made = DriftEvent(
            agent_id="a",
            run_id="r",
            detector=detector,
            severity=Severity.from_score(0.75),
            score=0.75,
            message="m",
            suggested_action="s",
            context={"tool_name": "search"},
        )

        assert kind == made.kind
        assert made.timestamp > 0
        assert 12 == len(made.event_id)
        assert made == DriftEvent.from_dict(made.to_dict())

    def test_another_detector_says_its_kind(self):
        """
        For a detector of another name the kind cannot be known: leaving it out is an error that says so.
        """
        with pytest.raises(ValueError, match="kind must be given for a finding of 'mine'"):
            finding(detector="mine", kind="")

    def test_findings_share_no_context(self):
        """
        Two findings made without a context have one each.
        """
        bare = {name: value for name, value in finding().to_dict().items() if name != "context"}
        first, second = (DriftEvent(**bare) for _ in range(2))

        assert first.context is not second.context


def test_severities_are_pairwise_comparable_by_rank():
    """
    Every severity has a rank of its own.
    """
    assert all(one.rank != other.rank for one, other in itertools.combinations(Severity, 2))

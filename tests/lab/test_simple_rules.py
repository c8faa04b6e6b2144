import os
from pathlib import Path

import pytest
from labelled_runs import run_of

from steadyhelm.lab.evaluation.labelled_runs import LabelQuestion, has_label, read_expectation, read_set
from steadyhelm.lab.evaluation.metrics import f1, precision, recall, sum_counts
from steadyhelm.lab.evaluation.scoring import RULES, RunScore, find_first_three_equal_calls

DATA = Path(os.environ.get("STEADYHELM_DATA", Path(__file__).parents[3] / "shared" / "data"))


def fired(rule, picture):
    return [finding.at for finding in RULES[rule](run_of(picture).events)]


class TestRules:
    @pytest.mark.parametrize(
        ("rule", "picture", "places"),
        [
            ("exact repeat, 2 in a row", "aab.bA", [1, 4]),
            ("exact repeat, 3 in a row", "aaa aa.bb", [2, 4, 5]),
            ("name only, 4 in a row", "AaAaab", [3, 4]),
            ("exact repeat, 2 in a row", ". .", []),
        ],
    )
    def test_places(self, rule, picture, places):
        """
        A rule fires at each call that makes enough in a row, whatever stands between the calls.
        """
        assert places == fired(rule, picture)

    def test_near(self):
        """
        Arguments that share nine words in ten are near; one word in two is not.
        """
        words = " ".join(f"w{i}" for i in range(40))
        calls = [
            {"type": "tool_call", "name": "find", "args": {"q": text}, "result": "none"}
            for text in (words, f"{words} more", "something else")
        ]
        run = run_of("", events=calls)
        assert [1] == [finding.at for finding in RULES["near repeat, 2 in a row"](run.events)]

    def test_evidence(self):
        """
        A rule's finding points at the call just before.
        """
        [finding] = RULES["exact repeat, 2 in a row"](run_of("a.a").events)
        assert [0, 2] == finding.evidence


class TestOracle:
    def test_three_equal(self):
        """
        Three equal calls with equal results in a row are found, with replies and messages between them.
        """
        assert (1, 3, 5) == find_first_three_equal_calls(run_of("Aa.a aab").events)

    @pytest.mark.parametrize("picture", ["AAAA", "aabaa", "aa", "aBaBa"])
    def test_not(self, picture):
        """
        A changed result, another call between them or only two of them is no such triple.
        """
        assert find_first_three_equal_calls(run_of(picture).events) is None


@pytest.mark.skipif(not DATA.is_dir(), reason="the labelled data is not here; set STEADYHELM_DATA")
class TestOnLabelledData:
    @pytest.mark.parametrize(
        ("file", "label", "rule", "figures"),
        [
            ("sola_thought_action", "loop", "exact repeat, 2 in a row", (1.00, 0.57, 0.73)),
            ("sola_thought_action", "loop", "near repeat, 2 in a row", (0.80, 0.76, 0.78)),
            ("trail", "loop", "exact repeat, 3 in a row", (1.00, 0.15, 0.27)),
            ("trail", "resource_abuse", "near repeat, 2 in a row", (0.55, 0.40, 0.46)),
            ("openhands_swebench", "loop", "exact repeat, 2 in a row", (0.41, 0.75, 0.53)),
            ("openhands_swebench", "loop", "near repeat, 2 in a row", (0.34, 0.77, 0.47)),
        ],
    )
    def test_published_figures(self, file, label, rule, figures):
        """
        The simple rules reach what the data's own description says they reach.
        """
        runs = read_set(DATA / "runs" / f"{file}.jsonl.gz").runs
        question = LabelQuestion(label=label)
        sums = sum_counts(
            RunScore(
                run=run,
                expected=read_expectation(run, question, is_used=has_label(runs, label)),
                found=RULES[rule](run.events),
            ).counts
            for run in runs
        )
        assert figures == tuple(round(statistic(sums), 2) for statistic in (precision, recall, f1))

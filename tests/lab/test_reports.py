import re
from html.parser import HTMLParser

import pytest
from labelled_runs import ALARM, CLEAN, LOOPING, MISSED, judge_with, line, mark, set_of

from steadyhelm.findings import Severity
from steadyhelm.lab.evaluation.evaluator import Evaluator
from steadyhelm.lab.evaluation.labelled_runs import LabelQuestion
from steadyhelm.lab.evaluation.metrics import Estimate
from steadyhelm.lab.evaluation.report_text import format_evaluation, format_table
from steadyhelm.lab.report_html import PlotRow, draw_histogram, draw_intervals, render_evaluation

EVIL = "<script>alert(1)</script>\x1b[2J\u202e&"
VOID = {"meta", "br"}


class Reader(HTMLParser):
    """Notes every tag and attribute, and that what is opened is closed."""

    def __init__(self):
        super().__init__()
        self.tags = set()
        self.links = []
        self.open = []

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)
        self.links += [value for key, value in attrs if key in {"src", "href", "action", "data"}]

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert tag == self.open.pop()


def evaluated(*lines, **options):
    return Evaluator(judge_with(), LabelQuestion(**options), samples=20).evaluate(
        [set_of(*lines, name=f"set {EVIL}")]
    )


@pytest.fixture(scope="module")
def evil():
    """An evaluation in which every text an agent controls is hostile."""
    lines = [{**one, "run_id": f"{one['run_id']} {EVIL}"} for one in (LOOPING, MISSED, CLEAN, ALARM)]
    for one in lines:
        for event in one["events"]:
            event.update(name=f"tool {EVIL}", text=EVIL)
    return evaluated(*lines)


class TestPage:
    def test_nothing_from_elsewhere(self, evil):
        """
        The page runs no script and loads nothing.
        """
        reader = Reader()
        reader.feed(render_evaluation(evil))
        assert not reader.tags & {"script", "link", "img", "iframe", "object"}
        assert [] == reader.links
        assert "url(" not in render_evaluation(evil)

    def test_well_formed(self, evil):
        """
        Every tag that is opened is closed.
        """
        reader = Reader()
        reader.feed(render_evaluation(evil))
        assert [] == reader.open

    def test_hostile_text_is_escaped(self, evil):
        """
        What an agent says is shown, not obeyed.
        """
        assert "&lt;script&gt;" in render_evaluation(evil)
        assert not re.search("[\x00-\x08\x1b\u202e]", render_evaluation(evil))

    def test_plots(self, evil):
        """
        There is a plot of the figures and one of the delay, both with words for who cannot see them.
        """
        assert 2 == render_evaluation(evil).count('<svg role="img" aria-label=')

    def test_light_and_dark(self, evil):
        """
        The page follows the reader's choice of light or dark.
        """
        assert "prefers-color-scheme:dark" in render_evaluation(evil)

    def test_steps(self):
        """
        Figures step by step have a table of their own.
        """
        run = line("aaaa", source="sola-x", labels=[mark(3)])
        assert "Step by step" in render_evaluation(evaluated(run, severity=Severity.LOW, adjacent=True))

    def test_troubles_are_told(self, evil):
        """
        A detector that failed is named before any figure.
        """
        from msgspec import structs

        told = render_evaluation(structs.replace(evil, troubles={"error in detector x": 3}))
        assert "<b>error in detector x</b>, 3 times" in told


class TestText:
    def test_hostile_text_is_escaped(self, evil):
        """
        No control character reaches a terminal.
        """
        assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", format_evaluation(evil))

    def test_where_it_was_wrong(self, evil):
        """
        Wrong runs are named with what was expected and found, and the rest is counted.
        """
        text = format_evaluation(evil, most=1)
        assert "missed; expected first at 3; found nothing" in text
        assert "... 1 not shown" in text

    def test_unlabelled(self):
        """
        A set without labels says so.
        """
        assert "2 runs, none labelled" in format_evaluation(evaluated(line("aaaa"), line("b")))


class TestPlots:
    def test_undefined(self):
        """
        A figure that is undefined is written as none, not drawn at zero.
        """
        row = PlotRow(name="a", mark="rule", estimates=[Estimate(value=None), None])
        assert 2 == draw_intervals(["x", "y"], [row], title="t").count(">none<")

    @pytest.mark.parametrize("values", [[0], [-7, 0, 1, 1], list(range(500)), [-1000, 1000]])
    def test_histogram(self, values):
        """
        Every value is in a bar, however far they lie apart.
        """
        counts = re.findall(r"<title>[^<]*: (\d+)</title>", draw_histogram(values, title="t", axis="a"))
        assert len(values) == sum(map(int, counts))
        assert 25 >= len(counts)


class TestTable:
    def test_columns(self):
        """
        Columns are as wide as their widest cell, and nothing trails.
        """
        assert "a    b\nccc  d" == format_table(("a", "b"), [("ccc", "d")])

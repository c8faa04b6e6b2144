import subprocess
import sys
from html.parser import HTMLParser

import pytest
from jinja2 import UndefinedError
from markupsafe import Markup

from steadyhelm.lab.report_html import PlotRow, draw_intervals
from steadyhelm.reports.pages import PageScript, render

SCRIPT = "<script>alert(1)</script>"
BREAK_OUT = "\"'><img src=x onerror=alert(1)> onload=alert(1)"


class Reader(HTMLParser):
    """Collects the elements of a page, their attributes and their text."""

    def __init__(self, page):
        super().__init__()
        self.elements = []
        self.texts = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)


def scan_page(**values):
    empty = {"cards": [], "not_checked": [], "unread": [], "flagged": [], "clean": [], "clean_title": ""}
    script = PageScript(Markup(""), Markup("'none'"))
    return render("scan.html", **{"summary": "", "script": script, **empty, **values})


class TestHostileText:
    @pytest.mark.parametrize("text", [SCRIPT, BREAK_OUT])
    def test_between_tags(self, text):
        """
        Markup in a value is shown as text: the page has no element more.
        """
        reader = Reader(scan_page(summary=text, unread=[(text, text)], clean=[(text,) * 6]))

        assert "img" not in {tag for tag, _ in reader.elements}
        assert 1 == [tag for tag, _ in reader.elements].count("script")
        assert text in reader.texts

    @pytest.mark.parametrize("text", [SCRIPT, BREAK_OUT])
    def test_inside_an_attribute(self, text):
        """
        A quote in a value does not end the attribute it is in.
        """
        reader = Reader(
            draw_intervals(["p"], [PlotRow(name=text, mark="rule", estimates=[None])], title=text)
        )
        drawing = next(attributes for tag, attributes in reader.elements if tag == "svg")

        assert text == drawing["aria-label"]
        assert {"role", "aria-label", "viewbox", "style"} == set(drawing)
        assert not {"script", "img"} & {tag for tag, _ in reader.elements}

    def test_control_characters_are_visible(self):
        """
        A character that cannot be seen is shown by its number.
        """
        assert "a\\x1b[2Jb\\x202ec" in scan_page(summary="a\x1b[2Jb\u202ec")


class TestRender:
    def test_missing_value(self):
        """
        A value that was forgotten is an error, not an empty place on the page.
        """
        with pytest.raises(UndefinedError):
            render("scan.html", summary="")


def test_a_text_report_loads_no_template_engine(tmp_path):
    """
    Only the format that is asked for is loaded.
    """
    file = tmp_path / "runs.jsonl"
    file.write_text('{"run_id": "r", "events": [{"type": "tool_call", "name": "a", "result": "b"}]}\n')
    program = (
        "import sys\n"
        "from steadyhelm.cli.main import app\n"
        f"app(['scan', {str(file)!r}], standalone_mode=False)\n"
        "print(sorted({'jinja2', 'tomlkit', 'steadyhelm.reports.html', 'steadyhelm.reports.ci', "
        "'steadyhelm.reports.ci'} & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert "[]" == done.stderr.strip().splitlines()[-1]

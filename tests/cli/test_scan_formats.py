import base64
import hashlib
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from whole_program import call, healthy_line, looping_line, process, run_line, steadyhelm, written

from steadyhelm.events import TraceEvent
from steadyhelm.reports.drawing import find_result_signs

EVIL = "<script>alert(1)</script>]]>&\"'\x1b[2J\x00\u202e\ufffe\r\n::error::%0A,:"
VOID = {"meta", "br", "input"}


class Reader(HTMLParser):
    """Notes every tag and link, and that what is opened is closed."""

    def __init__(self):
        super().__init__()
        self.tags = []
        self.links = []
        self.open = []

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for key, value in attrs if key in {"src", "href", "action", "data"}]

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert tag == self.open.pop()


def page_of(file, *options):
    return steadyhelm("scan", file, "--format", "html", *options).out


def parsed(page):
    reader = Reader()
    reader.feed(page)
    return reader


def suites_of(file, *options):
    return ET.fromstring(steadyhelm("scan", file, "--format", "junit", *options).out)


def commands_of(file, *options):
    return steadyhelm("scan", file, "--format", "github", *options).out.splitlines()


@pytest.fixture
def runs(apart):
    """A clean run, a looping one and a line that cannot be read."""
    return written(apart, healthy_line(), looping_line(agent_id="finder"), "{\n")


@pytest.fixture
def evil(apart):
    """A looping run in which every text an agent controls is hostile."""
    events = [call(name=f"rm{EVIL}", args={EVIL: EVIL}, result=EVIL)] * 6
    return written(apart, run_line(*events, run_id=f"r{EVIL}", goal=EVIL, agent_id=EVIL))


class TestHtml:
    def test_nothing_from_elsewhere(self, evil):
        """
        The page loads nothing and runs no script but its own; its links lead to its own sections.
        """
        reader = parsed(page_of(evil))

        assert not set(reader.tags) & {"link", "img", "iframe", "object"}
        assert 1 == reader.tags.count("script")
        assert ["#run-1"] == reader.links
        assert "url(" not in page_of(evil)

    def test_well_formed(self, evil):
        """
        Every tag that is opened is closed.
        """
        assert [] == parsed(page_of(evil)).open

    def test_hostile_text_is_escaped(self, evil):
        """
        What an agent says is shown, not obeyed.
        """
        assert "&lt;script&gt;" in page_of(evil)
        assert not re.search("[\x00-\x08\x1b\u202e\ufffe]", page_of(evil))

    def test_loops_are_brackets(self, runs):
        """
        The loop is a bracket over its cells, with the count; each step is a cell with its words.
        """
        page = page_of(runs)

        assert 6 == page.count('<g class="cell')
        assert 1 == page.count('class="bracket"')
        assert ">6x</text>" in page
        assert "<title>step 1 (events[0]): search {&#34;q&#34;:&#34;x&#34;} → nothing</title>" in page

    def test_what_it_cost(self, runs):
        """
        The page says what Steadyhelm would have done, and what was spent after that: at most, not "saved".
        """
        page = page_of(runs)

        assert "Response levels: remind at step " in page
        assert re.search(
            r"at most \d00 of 600 tokens spent after it would have been stopped or re-planned</p>", page
        )
        assert " saved" not in page

    def test_clean_and_broken(self, runs):
        """
        A clean run is a row, and so is a line that cannot be read.
        """
        page = page_of(runs)

        assert "1 clean run</summary>" in page
        assert "<td>fine</td>" in page
        assert "Could not be read" in page
        assert "2 runs, 1 flagged (1 loop), 1 unreadable" in page

    def test_light_and_dark(self, runs):
        """
        The page follows the reader's choice of light or dark.
        """
        assert "prefers-color-scheme:dark" in page_of(runs)

    def test_long_runs(self, apart):
        """
        Of a long run the steps around the loop are drawn; how many are left out is said.
        """
        work = [call(args={"n": n}, result=f"found {n}") for n in range(600)]
        page = page_of(written(apart, run_line(*work[:300], *[call()] * 6, *work[300:])))

        assert 160 > page.count('<g class="cell')
        assert 2 == len(re.findall(r'<text class="gap"[^>]*>… \d+ …</text>', page))

    def test_wide_loops(self, apart):
        """
        A loop that is broken over rows has a piece of bracket on each, and one count.
        """
        page = page_of(written(apart, looping_line(times=100)))

        assert 3 == page.count('class="bracket"')
        assert 1 == page.count('class="count"')

    def test_many_runs(self, apart):
        """
        Beyond a hundred flagged runs only the list on top goes on.
        """
        lines = [looping_line(f"stuck-{n}") for n in range(102)]
        page = page_of(written(apart, *lines))

        assert 100 == page.count("<section")
        assert re.search(r"<td[^>]*>stuck-101</td>", page)

    def test_worst_first(self, apart):
        """
        The worst run comes first, wherever it is in the file, and has a section among a hundred others.
        """
        lines = [looping_line(f"mild-{n}", times=3) for n in range(101)]
        page = page_of(written(apart, *lines, looping_line("severe", times=30)))
        listed = re.findall(r'<td class="words" data-value="([^"]+)">', page)

        assert ["severe", "mild-0", "mild-1"] == listed[:3]
        assert 102 == len(listed)
        assert 100 == page.count("<section")
        assert '<a href="#run-102">severe</a>' in page

    def test_what_was_not_checked_is_folded_away(self, runs):
        """
        What was not checked is one line that can be unfolded, not lines above the findings.
        """
        page = page_of(runs)

        assert re.search(r"<details><summary>Not checked: [^<]*unusual_order", page)
        assert page.index("not checked: unusual_order") < page.index("</details>")

    def test_only_its_own_script_may_run(self, runs):
        """
        The page's policy allows the one script by its hash; no element has a handler of its own.
        """
        page = page_of(runs)
        [script] = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
        [policy] = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()

        assert f"script-src &#39;sha256-{digest}&#39;" in policy or f"script-src 'sha256-{digest}'" in policy
        assert "default-src 'none'" in policy
        assert "unsafe-eval" not in policy
        assert not re.search(r"<[^>]+\son\w+=", page.replace(script, ""))

    def test_unknown_agents_and_tokens(self, apart):
        """
        A column that nobody could fill is left out, and what is not known is a dash, not a nought.
        """
        events = [{"type": "tool_call", "name": "search", "args": {"q": "x"}, "result": "nothing"}] * 8
        page = page_of(written(apart, run_line(*events)))

        assert 'data-title="agent"' not in page
        assert re.search(r'data-title="spent after, at most\*" data-value="-1">-</td>', page)

    def test_low_when_asked_for(self, apart):
        """
        With --fail-on low, what is only noticed has a section too.
        """
        large = run_line({"type": "llm_output", "text": "a long story", "tokens": 90_000})
        page = page_of(written(apart, large), "--fail-on", "low")

        assert "90,000 tokens spent in this run" in page

    def test_to_a_file(self, runs, apart):
        """
        The page goes to the file, the summary to standard error.
        """
        answer = process("scan", runs, "--format", "html", "--output", "report.html")

        assert (1, "") == (answer.status, answer.out)
        assert (apart / "report.html").read_text().startswith("<!doctype html>")


class TestSigns:
    def test_results(self):
        """
        A result is marked when it failed, and when the same call was made before: the same or another.
        """

        def event(asked, result=None, error=None):
            return TraceEvent(
                agent_id="a",
                run_id="r",
                action_type="tool_call",
                action_name="t",
                input_data=asked,
                output_data=result,
                error=error,
            )

        events = [event("x", "1"), event("y", "2"), event("x", "1"), event("x", "3"), event("x", error="no")]

        assert ["", "", "=", "≠", "✕≠"] == find_result_signs(events)


class TestJunit:
    def test_one_case_a_run(self, runs):
        """
        A file is a suite, a run a test case; only the flagged one fails.
        """
        [suite] = suites_of(runs)

        assert str(runs) == suite.get("name")
        assert ("3", "1", "1") == tuple(suite.get(key) for key in ("tests", "failures", "errors"))
        assert [("scan", "fine"), ("finder", "stuck")] == [
            (case.get("classname"), case.get("name")) for case in suite[:2]
        ]
        assert 0 == len(suite[0])

    def test_failure(self, runs):
        """
        A failure says what was found, and shows the evidence.
        """
        [failure] = suites_of(runs)[0][1]

        assert ("failure", "loop") == (failure.tag, failure.get("type"))
        assert failure.get("message")
        assert '6x search {"q":"x"} → nothing' in failure.text

    def test_unreadable(self, runs):
        """
        A line that cannot be read is an error: what was not read was not checked.
        """
        [error] = suites_of(runs)[0][2]

        assert ("error", "unreadable") == (error.tag, error.get("type"))

    def test_below_the_level(self, apart):
        """
        A flagged run that does not fail the scan does not fail its case, and keeps its evidence.
        """
        [suite] = suites_of(written(apart, looping_line(times=4)), "--fail-on", "critical")

        assert "0" == suite.get("failures")
        assert "4x search" in suite[0].find("system-out").text

    def test_no_runs(self, apart):
        """
        A file without runs gives a report without cases.
        """
        assert "0" == suites_of(written(apart, "")).get("tests")

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
    @given(text=st.text(max_size=40))
    def test_any_text(self, apart, text):
        """
        Whatever an agent says, the report is XML.
        """
        events = [call(name=text or "x", result=text)] * 6
        line = run_line(*events, run_id=text, goal=text, agent_id=text)

        assert 1 == len(suites_of(written(apart, line))[0])

    def test_hostile_text(self, evil):
        """
        Hostile text stays text.
        """
        assert "<script>alert(1)</script>]]>" in suites_of(evil)[0][0].get("name")


class TestGithub:
    def test_flagged_runs(self, runs):
        """
        A flagged run is an error at its line; a clean one is not mentioned.
        """
        flagged, broken = commands_of(runs)

        assert flagged.startswith("::error file=written.jsonl,line=2,title=loop in run stuck::")
        assert '6x search {"q":"x"} → nothing' in flagged
        assert broken.startswith("::error file=written.jsonl,line=3,title=cannot be read::")

    def test_below_the_level(self, apart):
        """
        A flagged run that does not fail the scan is a warning.
        """
        [command] = commands_of(written(apart, looping_line(times=4)), "--fail-on", "critical")

        assert command.startswith("::warning file=")

    def test_standard_input(self, apart):
        """
        What came through a pipe has no file to point at.
        """
        answer = process("scan", "-", "--format", "github", stdin=looping_line().encode())

        assert answer.out.startswith("::error title=loop in run stuck::")

    def test_hostile_text(self, evil):
        """
        An agent cannot write a command of its own, nor a property.
        """
        [command] = commands_of(evil)
        _, properties, data = command.split("::", 2)

        assert re.fullmatch(r"error file=written\.jsonl,line=1,title=[^,:\r\n]+", properties)
        assert not set("\r\n") & set(data)
        assert "%250A" in data

    @pytest.mark.parametrize("report_format", ["github", "junit", "html"])
    def test_exit_status(self, apart, report_format):
        """
        The exit status is the same whatever the format.
        """
        file = written(apart, looping_line())

        assert 3 == steadyhelm("scan", file, "--format", report_format).status
        assert 0 == steadyhelm("scan", written(apart, healthy_line()), "--format", report_format).status

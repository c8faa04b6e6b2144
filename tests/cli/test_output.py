"""Tables show every column and every value, however narrow the terminal is."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text
from watched_agent import queue_alert
from whole_program import SOURCE, looping_line, run_line, steadyhelm

from steadyhelm.cli.output import lay_out_table, pack_columns
from steadyhelm.testing.store_records import a_profile, an_incident, an_intervention

TITLES = ("id", "agent", "steps", "what")
ROWS = [
    ("24699e4332f4", "researcher", "12", "search was called again and again"),
    ("9046fb1a270b", "r", "3", "x"),
]
STYLES = re.compile(r"\x1b\[[0-9;]*m")
USER = {"type": "user_message", "text": "fix the parser"}
DONE = {"type": "llm_output", "text": "The parser is fixed."}
CORRECTION = {"type": "user_message", "text": "no, that is still broken"}


def laid_out(width, rows=ROWS):
    """The lines of the table at this width."""
    return [line.plain for line in lay_out_table(TITLES, [list(map(Text, row)) for row in rows], width=width)]


class TestLayout:
    def test_enough_room(self):
        """
        Where everything fits, a row is a line.
        """
        assert [
            " id             agent        steps   what",
            "─" * 71,
            " 24699e4332f4   researcher   12      search was called again and again",
            " 9046fb1a270b   r            3       x",
        ] == laid_out(120)

    def test_the_last_column_wraps(self):
        """
        A long text in the last column goes on below, under its own title.
        """
        assert [
            " 24699e4332f4   researcher   12      search was called again",
            "                                     and again",
        ] == laid_out(62)[2:4]

    def test_a_row_takes_several_lines(self):
        """
        Columns that have no room move to a line of their own, and their titles with them.
        """
        assert [
            " id             agent        steps",
            "     what",
            "─" * 38,
            " 24699e4332f4   researcher   12",
            "     search was called again and again",
            " 9046fb1a270b   r            3",
            "     x",
        ] == laid_out(38)

    @given(width=st.integers(13, 200), cell=st.text(st.characters(categories=["L", "N"]), max_size=80))
    def test_nothing_is_lost(self, width, cell):
        """
        At any width every title and every character is there, no line is too wide, and an id is in one piece.
        """
        lines = laid_out(width, [*ROWS, ("0123456789ab"[: width - 2], "a", "1", cell)])
        body = "".join(lines)

        assert width >= max(Text(line).cell_len for line in lines)
        assert all(title in body for title in TITLES)
        assert not set(cell) - set(body)
        assert width < 14 or "24699e4332f4" in body

    @given(widths=st.lists(st.integers(0, 90), min_size=1, max_size=12), width=st.integers(10, 100))
    def test_every_column_once(self, widths, width):
        """
        The columns are on the lines in their order, each once.
        """
        packed = [place for line in pack_columns(widths, width) for place in line.columns]

        assert list(range(len(widths))) == packed


# By command with a table: what makes it print one, and the titles of its columns.
TABLES = {
    "runs": "run agent started state steps tokens errors findings incidents goal",
    "traces researcher --run loop-long": "step after type name tokens took input output\u00a0or\u00a0error",
    "show loop-long": "tool calls errors tokens time",
    "alerts": "id severity state agent detector run last findings what",
    "alerts deliveries": "id state channel reason severity agent incident queued tries error",
    "interventions": "agent wording delivered worked ignored worse unknown saved before gain by\u00a0itself "
    "helped",
    "corrections runs.jsonl": "run turn steps later p findings asked the\u00a0user\u00a0said",
    "baseline": "agent version task state tokens\u00a0p50/p95 tool\u00a0calls duration",
    "budget today": "agent tool\u00a0calls tokens cost state",
    "budget": "agent tasks tool\u00a0calls tokens cost time task\u00a0type",
    "profile": "profile threshold sensitivity words words\u00a0a\u00a0sentence from about",
    "hook status": "agent scope state mode file",
    "db": "table rows",
    "config": "setting value from",
}


@pytest.fixture
def place(database, store, apart, monkeypatch):
    """A folder in which every command with a table has something to show."""
    monkeypatch.setenv("HOME", str(apart))
    queue_alert(store)
    store.save_profile(a_profile(agent_id="researcher", task_type="refund"))
    made = [an_intervention(n, outcome="worked", tokens_saved=1000) for n in range(12)]
    store.write([an_incident("steered", interventions=made)])
    (apart / "runs.jsonl").write_text(looping_line() + run_line(USER, DONE, CORRECTION, run_id="corrected"))
    return database


def read_cells(out, titles):
    """The cells of a wide table, by the places of its titles."""
    lines = out.splitlines()
    head = next(n for n, line in enumerate(lines) if all(title in line for title in titles))
    starts = [re.search(rf"(?:^| ){re.escape(title)}(?:  |$)", lines[head]).start() + 1 for title in titles]
    rows = []
    for line in lines[head + 2 :]:
        if not line.startswith(" ") or not line.strip():
            break
        ends = [*starts[1:], len(line) + 1]
        rows.append([line[a:b].strip() for a, b in zip(starts, ends, strict=True)])
    return rows


@pytest.mark.parametrize("width", [80, 60])
@pytest.mark.parametrize("command", sorted(TABLES))
def test_narrow_terminals(command, width, place, monkeypatch):
    """
    On a narrow terminal each table has every title and every value of the wide one, and no line is wider.
    """
    titles = [title.replace("\u00a0", " ") for title in TABLES[command].split(" ")]
    cells = read_cells(steadyhelm("--db", place, *command.split()).out, titles)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))

    shown = STYLES.sub("", steadyhelm("--db", place, *command.split()).out)

    assert cells
    words = shown.split()
    flat = "".join(words)
    for title in titles:
        assert title in shown
    for row in cells:
        for cell in row:
            is_whole = cell in shown or set(cell.split()) <= set(words) or "".join(cell.split()) in flat
            # An age may have grown between the two calls.
            assert is_whole or cell.endswith(("ago", "now")), cell
    assert width >= max(len(line) for line in shown.splitlines() if "─" in line)


@pytest.mark.parametrize("command", ["show loop-long", "alerts show {long}", "doctor"])
def test_lines_break_between_words(command, place, long, monkeypatch):
    """
    On a narrow terminal a long line goes on below, indented and broken between words.
    """
    words = command.format(long=long).split()
    wide = set(steadyhelm("--db", place, *words).out.split())
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")

    shown = STYLES.sub("", steadyhelm("--db", place, *words).out)

    assert 80 >= max(map(len, shown.splitlines()))
    assert {word for word in wide if word.isalpha()} <= set(shown.split())


def test_output_to_a_pipe_is_not_wrapped(place, monkeypatch):
    """
    In a pipe each row stays one line, whatever the width of the terminal: `grep` finds it.
    """
    monkeypatch.setenv("COLUMNS", "40")

    [line] = [line for line in steadyhelm("--db", place, "runs").out.splitlines() if "loop-long" in line]

    assert line.endswith("find the cheapest flight to Oslo")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("command", ["runs", "db info --json", "export", "--version"])
def test_output_to_a_full_disk(place, command):
    """
    What cannot be written is a message and status 1, not a traceback, also where it is little.
    """
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "steadyhelm", "--db", str(place), *command.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            timeout=120,
            check=False,
        )

    assert (1, b"steadyhelm: [Errno 28] No space left on device") == (ended.returncode, ended.stderr.strip())

import gzip
import json

import pytest
import typer
from typer.testing import CliRunner
from whole_program import Answer

from steadyhelm.cli import replies

REPLY = {
    "id": "1",
    "reply": "no, that is still broken",
    "assistant_before": "Fixed.",
    "turn": 2,
    "labels": {"x": 1},
}
THANKS = {"id": "2", "reply": "thanks, perfect", "assistant_before": "Done. Anything else?"}

LABEL = ("primary", "probabilities", "drift", "is_drift", "cues")


@pytest.fixture
def labelled(apart):
    """`steadyhelm replies` on a file of these lines."""
    app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command()(replies.replies)

    def label(*lines, options=(), file=None, stdin=None):
        if file is None:
            file = apart / "replies.jsonl"
            file.write_bytes(packed(*lines))
        result = CliRunner().invoke(app, [str(file), *map(str, options)], input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Answer(result.exit_code, result.stdout, result.stderr)

    return label


def packed(*lines):
    made = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    return b"\n".join(made) + b"\n"


class TestLabelling:
    def test_the_line_comes_back_with_what_is_predicted(self, labelled):
        """
        Everything in the line is kept, and its label is added.
        """
        [line] = labelled(REPLY).documents
        predicted = {name: line.pop(name) for name in LABEL}

        assert REPLY == line
        assert ("correction_substance", True) == (predicted["primary"], predicted["is_drift"])

    def test_both_spellings_of_counts(self, labelled):
        """
        `tool_calls_since_prompt`, as in the data, and `tool_calls` say the same.
        """
        known = [{**REPLY, "tool_calls_since_prompt": 9}, {**REPLY, "tool_calls": 9}, REPLY]
        first, second, none = (line["drift"] for line in labelled(*known).documents)

        assert first == second != none

    def test_odd_values_count_as_not_given(self, labelled):
        """
        What is no text, no count or no yes is left out, not an error.
        """
        odd = {"turn": "x", "tool_calls": -1, "tool_errors": True, "prompt_before": None, "interrupted": 1}
        plain, strange = labelled({**REPLY, "turn": 0}, {**REPLY, **odd}).documents

        assert [plain[name] for name in LABEL] == [strange[name] for name in LABEL]

    def test_summary(self, labelled):
        """
        Standard error says how many of each kind there were.
        """
        answer = labelled(REPLY, THANKS)

        assert (0, 2) == (answer.status, len(answer.documents))
        assert "2 replies labelled, 1 of them evidence of drift" in answer.err


class TestFiles:
    def test_gzip_in_and_out(self, labelled, apart):
        """
        A packed file is read, and a name in .gz is written packed.
        """
        (apart / "in.jsonl.gz").write_bytes(gzip.compress(packed(REPLY)))
        answer = labelled(file=apart / "in.jsonl.gz", options=["--output", apart / "out.jsonl.gz"])

        assert (0, "") == (answer.status, answer.out)
        assert REPLY["id"] == json.loads(gzip.decompress((apart / "out.jsonl.gz").read_bytes()))["id"]

    def test_standard_input(self, labelled):
        """
        `-` reads standard input.
        """
        assert 1 == len(labelled(file="-", stdin=packed(REPLY)).documents)

    def test_standard_output(self, labelled, apart):
        """
        `-o -` writes to standard output, and makes no file of that name.
        """
        assert 1 == len(labelled(REPLY, options=["-o", "-"]).documents)
        assert not (apart / "-").exists()

    def test_no_such_file(self, labelled):
        """
        A file that is not there is a mistake in the command.
        """
        answer = labelled(file="nowhere.jsonl")

        assert 2 == answer.status
        assert "there is no file nowhere.jsonl" in answer.err

    def test_it_does_not_overwrite_what_it_reads(self, labelled, apart):
        """
        The file that is read cannot be the file that is written.
        """
        assert 2 == labelled(REPLY, options=["--output", apart / "replies.jsonl"]).status

    def test_an_empty_file(self, labelled):
        """
        A file without a reply is not fine.
        """
        assert 1 == labelled(file="-", stdin=b"").status


class TestBrokenLines:
    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            (b"{broken", "not JSON"),
            (b"[1]", "is not an object"),
            (b'{"text": "no reply"}', "it has no `reply`"),
            (b'{"reply": 7}', "`reply` is 7, not a text"),
            (b'{"reply": null}', "`reply` is null, not a text"),
        ],
    )
    def test_it_is_named_and_the_rest_goes_on(self, labelled, line, reason):
        """
        A line that holds no reply is named with its number and reason; the status is 1.
        """
        answer = labelled(REPLY, line, THANKS)

        assert (1, 2) == (answer.status, len(answer.documents))
        assert ":2: " in answer.err
        assert reason in answer.err

    def test_half_a_character(self, labelled):
        """
        Half of a surrogate pair is replaced, not a broken line.
        """
        answer = labelled(b'{"reply": "no \\ud800 still broken"}')

        assert (0, 1) == (answer.status, len(answer.documents))

import json
import shlex

import pytest
import typer
from typer.testing import CliRunner
from whole_program import Answer, steadyhelm

from steadyhelm.assembly import DriftMonitor
from steadyhelm.cli import corrections
from steadyhelm.cli.context import GlobalOptions
from steadyhelm.errors import SteadyhelmError


def said(text):
    return {"type": "user_message", "text": text}


EDIT = {"type": "tool_call", "name": "edit", "args": {"file_path": "parser.py"}}
RESULT = {"type": "tool_result", "name": "edit", "text": "ok"}
DONE = {"type": "llm_output", "text": "The parser is fixed."}
FAILS = {"type": "tool_call", "name": "test", "args": {"only": "parser"}, "result": "1 failed", "error": True}
CORRECTED = [said("fix the parser"), EDIT, RESULT, DONE, said("no, that is still broken"), DONE]
LOOPING = [said("fix the parser"), *[FAILS] * 8, DONE, said("no, that is still broken"), DONE]
ACCEPTED = [said("fix the parser"), EDIT, RESULT, DONE, said("thanks, perfect"), DONE]


@pytest.fixture
def asked(apart):
    """`steadyhelm corrections`, as the program would end."""
    app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command()(corrections.corrections)

    def ask(options):
        shared = GlobalOptions(database=apart / "steadyhelm.db")
        result = CliRunner().invoke(app, shlex.split(options), obj=shared)
        if isinstance(result.exception, SteadyhelmError):
            return Answer(1, result.stdout, str(result.exception))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Answer(result.exit_code, result.stdout, result.stderr)

    return ask


@pytest.fixture
def recorded(apart):
    """Writes runs to `runs.jsonl`."""

    def record(*runs):
        lines = [json.dumps({"run_id": f"run-{n}", "events": events}) for n, events in enumerate(runs)]
        (apart / "runs.jsonl").write_text("\n".join(lines))

    return record


@pytest.fixture
def watched(apart):
    """A database with one run that was corrected and one that was not."""
    monitor = DriftMonitor("coder", db_path=apart / "steadyhelm.db")
    for run_id, words in (("bad", "no, that is still broken"), ("good", "thanks, perfect")):
        with monitor.run(run_id=run_id, goal="fix the parser"):
            monitor.record_event("user_message", "user", input_data={"text": "fix the parser"})
            monitor.record_event("tool_call", "edit", input_data={"file": "parser.py"}, output_data="ok")
            monitor.record_event("llm_request", "model", output_data={"text": "Fixed."})
            monitor.record_event("user_message", "user", input_data={"text": words})
    monitor.close()


class TestFiles:
    def test_corrected_turns_are_listed(self, asked, recorded):
        """
        Each corrected turn has a row with what was asked and what the user said.
        """
        recorded(CORRECTED, ACCEPTED)
        answer = asked("runs.jsonl")

        assert 0 == answer.status
        assert "no, that is still broken" in answer.out
        assert "run-1" not in answer.out
        assert "1 of 2 turns in 2 runs corrected later" in answer.err

    def test_json(self, asked, recorded):
        """
        With --json each run is a line, and places are those of the run's own entries.
        """
        recorded(CORRECTED)
        [run] = asked("runs.jsonl --json").document["runs"]
        [found] = run["corrections"]

        assert (2, 1, [1], [1]) == (run["turns"], run["judged"], run["corrected"], run["unnoticed"])
        assert (1, 3, 4) == (found["first"], found["last"], found["message"])
        assert (1, 1, "correction_substance") == (found["turn"], found["distance"], found["kind"])

    def test_what_was_noticed_there(self, asked, recorded):
        """
        A turn in which a loop was found, and which was corrected later, was noticed.
        """
        recorded(LOOPING)
        [run] = asked("runs.jsonl --json").document["runs"]

        assert ([1], []) == (run["noticed"], run["unnoticed"])
        assert run["corrections"][0]["noticed"]

    def test_secrets_are_taken_out(self, asked, recorded):
        """
        A key in a user's message is not shown.
        """
        key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
        recorded([*CORRECTED[:4], said(f"no, that is still broken with {key}"), DONE])

        assert key not in asked("runs.jsonl --json").out

    @pytest.mark.parametrize("key", ["AKIAIOSFODNN7EXAMPLE", "ghp_abcdefghijklmnopqrstuvwxyz0123456789"])
    def test_secrets_are_taken_out_of_cues(self, asked, recorded, key):
        """
        The words that spoke, which are in lower case and in pieces, hold nothing of a key.
        """
        recorded([*CORRECTED[:4], said(f"wrong, use the role, not {key}"), DONE])
        answer = asked("runs.jsonl --json")
        [found] = answer.document["runs"][0]["corrections"]

        assert key.lower() not in answer.out.lower()
        assert "[redacted]" in [cue["words"] for cue in found["cues"]]
        assert "wrong" in [cue["words"] for cue in found["cues"]]

    def test_secrets_are_taken_out_of_what_tied_it(self, asked, recorded):
        """
        So it is with the names that tie a message to an earlier turn.
        """
        key = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
        first = {"type": "tool_call", "name": "login", "args": {"with": f"key {key}"}}
        recorded(
            [said("log in"), first, DONE, said("now the parser"), EDIT, DONE, said(f"{key} is wrong"), DONE]
        )
        answer = asked("runs.jsonl --json")
        [found] = answer.document["runs"][0]["corrections"]

        assert ["[redacted]"] == found["by"]
        assert key not in answer.out

    def test_no_such_file(self, asked):
        """
        A path that is not there is a mistake in this command, and the hint names it.
        """
        answer = asked("nowhere.jsonl")

        assert 2 == answer.status
        assert "Try: steadyhelm corrections runs.jsonl" in answer.err

    def test_labels_for_the_lab(self, asked, recorded, apart):
        """
        --labels writes a run file whose labels the lab understands.
        """
        recorded(CORRECTED, ACCEPTED)
        asked("runs.jsonl --labels labelled.jsonl")
        lines = [json.loads(line) for line in (apart / "labelled.jsonl").read_text().splitlines()]

        assert [["correction"], []] == [[label["kind"] for label in line["labels"]] for line in lines]

    def test_a_broken_line(self, asked, apart):
        """
        A line that cannot be read is named, and the status is 1.
        """
        (apart / "runs.jsonl").write_text(json.dumps({"run_id": "r", "events": CORRECTED}) + "\n{broken\n")
        answer = asked("runs.jsonl --json")

        assert (1, 1) == (answer.status, len(answer.document["runs"]))
        assert "runs.jsonl:2" in answer.err

    def test_nothing_to_tell(self, asked, recorded):
        """
        Runs without corrections say so, and that is fine.
        """
        recorded(ACCEPTED)
        answer = asked("runs.jsonl")

        assert (0, "") == (answer.status, answer.out)
        assert "No corrections" in answer.err

    def test_paths_and_store_do_not_mix(self, asked, recorded):
        """
        --agent and --since choose among stored runs only.
        """
        recorded(CORRECTED)

        assert 2 == asked("runs.jsonl --since 7d").status


class TestInAScan:
    def test_the_longest_title_has_a_gap(self, recorded, apart):
        """
        In a scan the words of a correction stand apart from their title, and all words in one column.
        """
        again = [EDIT, RESULT, DONE, said("it still crashes, you changed the wrong file"), DONE]
        recorded([*CORRECTED[:5], *again])
        lines = steadyhelm("scan", apart / "runs.jsonl").out.splitlines()

        assert any(line.startswith("  correction  the user corrects") for line in lines)
        assert any(line.startswith("  when        steps") for line in lines)


class TestStore:
    def test_last_week(self, asked, watched):
        """
        Without paths the stored runs are read, those of one agent and time.
        """
        runs = {
            run["run_id"]: run["corrected"]
            for run in asked("--agent coder --since 7d --json").document["runs"]
        }

        assert {"bad": [1], "good": []} == runs

    def test_corrections_do_not_prove_themselves(self, asked, watched):
        """
        What was found by reading the same message is not counted as noticed.
        """
        assert [[], []] == [run["noticed"] for run in asked("--json").document["runs"]]

    def test_no_such_agent(self, asked, watched):
        """
        An agent nobody watched is an error in words.
        """
        answer = asked("--agent nobody")

        assert 1 == answer.status
        assert "There is no agent 'nobody'" in answer.err

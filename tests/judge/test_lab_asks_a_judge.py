"""`steadyhelm lab judge --judge` and the docs' local model, against a model server on the loopback."""

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from judge_endpoint import Client, Endpoint, answer
from typer.testing import CliRunner

from steadyhelm.cli import lab
from steadyhelm.cli.context import GlobalOptions
from steadyhelm.errors import MissingExtraError
from steadyhelm.judge import Question
from steadyhelm.judges import build_judge

CALL = {"type": "tool_call", "name": "find", "args": {"q": "x"}, "result": "none"}
STUCK = {"run_id": "stuck", "expect_loop": True, "events": [CALL] * 6}
FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGE = Path(__file__).parents[2] / "docs" / "judge.md"


@pytest.fixture
def runs(tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps(STUCK) + "\n")
    return path


@pytest.fixture
def endpoint():
    server = Endpoint(answer("no_progress"))
    yield server
    server.close()


def run(*words):
    result = CliRunner().invoke(lab.app, ["judge", *map(str, words)], obj=GlobalOptions())
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_a_model_is_asked_and_its_tokens_and_latency_are_reported(runs, endpoint, monkeypatch):
    """The question a live run would raise reaches the server, and its usage is what is counted."""
    monkeypatch.setitem(sys.modules, "openai", SimpleNamespace(OpenAI=lambda: Client(endpoint.port)))
    result = run(runs, "--judge", "openai:some-model", "--json")
    [one] = json.loads(result.stdout)["sets"]
    asked = one["questions"]
    assert [1, 1, 740] == [len(endpoint.asked), asked["asked"], asked["tokens"]]
    assert {"no_progress": 1} == asked["verdicts"]
    assert asked["median_seconds"] > 0
    assert "| find " in endpoint.asked[0]


def test_a_broken_model_is_reported_and_changes_nothing(runs, endpoint, monkeypatch):
    """Answers that are none are counted by reason; the figures are those without a judge."""
    endpoint.reply = lambda _text: "healthy, I would say"
    monkeypatch.setitem(sys.modules, "openai", SimpleNamespace(OpenAI=lambda: Client(endpoint.port)))
    result = run(runs, "--judge", "openai:some-model")
    assert "no verdict, 1 time: the answer is no JSON object" in result.stderr
    assert "Verdicts: 1 unsure" in result.stdout


def test_a_missing_package_ends_the_command(runs, monkeypatch):
    """Nothing can be measured without the client: the error says what to install."""
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingExtraError, match="openai"):
        run(runs, "--judge", "openai:some-model")


def test_the_local_model_of_the_docs_is_asked(endpoint, tmp_path, monkeypatch):
    """The function on the page sends a question to the local server, and what it returns is a verdict."""
    [program] = [body for body in FENCE.findall(PAGE.read_text(encoding="utf-8")) if "LOCAL_MODEL" in body]
    monkeypatch.setenv("STEADYHELM_HOME", str(tmp_path))
    monkeypatch.setenv("LOCAL_MODEL", f"http://127.0.0.1:{endpoint.port}/v1/chat/completions")
    names = {}
    exec(compile(program, PAGE.name, "exec"), names)
    names["monitor"].close()
    question = Question.build("loop", "Loop?\n\nStep 1:\n| find nothing", subject="", place=0)
    verdict = build_judge(names["ask_local_model"]).judge(question)
    assert ("no_progress", "find nothing") == (verdict.label, verdict.quote)
    assert [question.text] == endpoint.asked

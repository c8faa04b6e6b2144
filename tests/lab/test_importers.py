import gzip
import io
import json
import os
from pathlib import Path

import pytest

from steadyhelm.errors import FormatError, SteadyhelmError
from steadyhelm.lab.importers.documents import Document
from steadyhelm.lab.importers.layouts import IMPORTERS, read_documents, write_runs
from steadyhelm.recordings.run_file import ReadRun, RunFile

DATA = Path(os.environ.get("STEADYHELM_DATA", Path(__file__).parents[3] / "shared" / "data"))


def imported(layout, *values):
    return list(IMPORTERS[layout]([Document(Path(f"{i}.json"), value) for i, value in enumerate(values)]))


def shape(run):
    return [(event["type"], event.get("name")) for event in run["events"]]


def span(kind, *children, name="s", span_id="1", **attributes):
    return {
        "span_id": span_id,
        "span_name": name,
        "duration": "PT1M3.5S",
        "status_code": attributes.pop("status_code", "Ok"),
        "status_message": attributes.pop("status_message", ""),
        "timestamp": attributes.pop("timestamp", "2025"),
        "span_attributes": {"openinference.span.kind": kind, **attributes},
        "child_spans": list(children),
    }


TASK = {
    "task_id": 7,
    "trial": 1,
    "reward": 1.0,
    "info": {"task": {"instruction": "return it"}},
    "traj": [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "hello"},
        {
            "role": "assistant",
            "content": "one moment",
            "tool_calls": [{"id": "c1", "function": {"name": "find", "arguments": '{"id": 3}'}}],
        },
        {"role": "tool", "tool_call_id": "c1", "name": "find", "content": "Error: not found"},
    ],
}

REPLY = span(
    "LLM",
    span_id="llm",
    **{
        "llm.model_name": "m",
        "llm.token_count.total": 12,
        "llm.output_messages.0.message.content": "Code:\n```py\nx()\n```",
    },
)
STEP = span("CHAIN", REPLY, name="Step 1", span_id="step", **{"output.value": "done"})
TRACE = {
    "trace_id": "t",
    "spans": [span("AGENT", STEP, name="CodeAgent.run", **{"input.value": '{"task": "do it"}'})],
}


class TestTau:
    def test_run(self):
        """
        Messages become entries, a failed call is marked, and the reward is the outcome.
        """
        [run] = imported("tau", [TASK])
        assert [
            ("state", "system_prompt"),
            ("user_message", None),
            ("llm_output", None),
            ("tool_call", "find"),
            ("tool_result", "find"),
            ("error", "find"),
        ] == shape(run)
        assert ("tau-0-7-1", "return it", "success") == (run["run_id"], run["goal"], run["outcome"])

    def test_arguments_are_opened(self):
        """
        Arguments written as a text of JSON are an object.
        """
        [run] = imported("tau", [TASK])
        assert {"id": 3} == run["events"][3]["args"]

    def test_it_can_be_read_back(self):
        """
        What an importer gives is a run our reader takes without a word.
        """
        [run] = RunFile(io.BytesIO(json.dumps(imported("tau", [TASK])[0]).encode()))
        assert isinstance(run, ReadRun)
        assert ("Error: not found", []) == (run.events[-1].error, run.problems)


class TestWhoAndWhen:
    def test_group_chat(self):
        """
        Code that the terminal answers is a call, and the decisive step is the label.
        """
        code = {"name": "Coder", "content": "Try:\n```python\nprint(1)\n```"}
        answer = {"name": "Computer_terminal", "content": "exitcode: 1 (execution failed)"}
        [run] = imported(
            "who-and-when",
            {"question": "q?", "history": [code, answer], "mistake_step": "1", "is_correct": False},
        )
        assert ["user_message", "llm_output", "tool_call", "tool_result", "error"] == [
            event["type"] for event in run["events"]
        ]
        assert ({"code": "print(1)"}, 3, "failure") == (
            run["events"][2]["args"],
            run["labels"][0]["at"],
            run["outcome"],
        )

    def test_orchestrator(self):
        """
        What an orchestrator tells a helper is a call, and what the helper says its result.
        """
        roles = ["human", "Orchestrator (thought)", "Orchestrator (-> WebSurfer)", "WebSurfer"]
        history = [{"role": role, "content": f"words of {role}"} for role in roles]
        [run] = imported("who-and-when", {"question": "q?", "history": history, "mistake_step": "x"})
        assert [("tool_call", "delegate:WebSurfer"), ("tool_result", "delegate:WebSurfer")] == shape(run)[2:]
        assert run["labels"][0]["at"] is None


class TestTrail:
    def test_code_agent(self):
        """
        Code in a reply is a call, and the step's outcome its result.
        """
        [run] = imported("trail", TRACE)
        assert [
            ("user_message", None),
            ("llm_output", "m"),
            ("tool_call", "python_interpreter"),
            ("tool_result", "python_interpreter"),
        ] == shape(run)
        assert ("do it", 12, 63500.0) == (
            run["goal"],
            run["events"][1]["tokens"],
            run["events"][1]["duration_ms"],
        )

    def test_tool_calling_agent(self):
        """
        A failing tool is a call, its empty result and the error.
        """
        tool = span(
            "TOOL",
            name="PageDownTool",
            status_code="Error",
            status_message="TypeError: no",
            **{"tool.name": "page_down", "input.value": '{"args": [], "kwargs": {"a": 1}}'},
        )
        step = span("CHAIN", tool, name="Step 1")
        agent = span("AGENT", step, name="ToolCallingAgent.run", **{"input.value": "{}"})
        [run] = imported("trail", {"trace_id": "t", "spans": [agent]})
        assert [
            ("tool_call", "page_down"),
            ("tool_result", "page_down"),
            ("error", "PageDownTool"),
            ("state", "Step 1"),
        ] == shape(run)[1:]

    def test_labels(self):
        """
        Annotations are bound to entries, and words about doing the same again are a loop as well.
        """
        note = {
            "trace_id": "t",
            "errors": [
                {"category": "Goal Deviation", "location": "llm", "description": "left the plan"},
                {"category": "Resource Abuse", "location": "step", "description": "repeatedly asked"},
            ],
        }
        [run] = imported("trail", note, TRACE)
        assert [("goal_deviation", 1), ("resource_abuse", 1), ("loop", 1)] == [
            (label["kind"], label["at"]) for label in run["labels"]
        ]


class TestBadInput:
    @pytest.mark.parametrize("layout", IMPORTERS)
    @pytest.mark.parametrize("value", [{}, [], 5, None, "x", {"spans": 1, "history": 2, "traj": 3}])
    def test_another_layout(self, layout, value):
        """
        A file in another layout is refused by name; a list without tasks is just empty.
        """
        if layout == "tau" and value == []:
            assert [] == imported(layout, value)
            return
        with pytest.raises(FormatError, match=r"0\.json"):
            imported(layout, value)

    def test_hostile_spans(self):
        """
        Spans without anything known about them do not stop the rest.
        """
        [run] = imported(
            "trail", {"trace_id": 1, "spans": [{"child_spans": [{}]}, span("LLM"), span("TOOL")]}
        )
        assert ["llm_output", "tool_call", "tool_result"] == [event["type"] for event in run["events"]]

    @pytest.mark.parametrize("content", [b"", b"{", b"\xff"])
    def test_no_json(self, tmp_path, content):
        """
        A file that is no JSON is named.
        """
        (tmp_path / "broken.json").write_bytes(content)
        with pytest.raises(FormatError, match=r"broken\.json"):
            read_documents([tmp_path])

    @pytest.mark.parametrize("name", ["missing", "empty"])
    def test_nothing_there(self, tmp_path, name):
        """
        A place without files is told apart from a file without runs.
        """
        (tmp_path / "empty").mkdir()
        with pytest.raises(SteadyhelmError):
            read_documents([tmp_path / name])


class TestWriting:
    def test_gzip(self, tmp_path):
        """
        A name in .gz is compressed, and the same runs give the same bytes.
        """
        run = {"run_id": "r", "events": [{"type": "state"}]}
        first, again = tmp_path / "a.jsonl.gz", tmp_path / "b.jsonl.gz"
        assert [1, 1] == [write_runs([run], target) for target in (first, again)]
        assert first.read_bytes() == again.read_bytes()
        assert run == json.loads(gzip.decompress(first.read_bytes()))

    def test_nothing_is_left_half_written(self, tmp_path):
        """
        When a run cannot be imported, no file is written.
        """
        with pytest.raises(FormatError):
            write_runs(IMPORTERS["tau"]([Document(Path("x.json"), [{}])]), tmp_path / "runs.jsonl")
        assert [] == list(tmp_path.iterdir())


@pytest.mark.skipif(not DATA.is_dir(), reason="the labelled data is not here; set STEADYHELM_DATA")
class TestSamples:
    @pytest.mark.parametrize(
        ("layout", "folder", "file"),
        [
            ("trail", "trail", "trail"),
            ("tau", "tau_bench", "tau"),
            ("who-and-when", "who_and_when", "whowhen_agentrx"),
        ],
    )
    def test_as_others_converted_it(self, layout, folder, file):
        """
        An original file gives the entries and labels that the shared run file has for it.
        """
        with gzip.open(DATA / "runs" / f"{file}.jsonl.gz", "rt", encoding="utf-8") as lines:
            known = {_identity(run): run for run in map(json.loads, lines)}
        found = list(IMPORTERS[layout](read_documents([DATA / "samples" / folder])))
        assert found
        for run in found:
            other = known[_identity(run)]
            assert [_short(event) for event in other["events"]] == [_short(event) for event in run["events"]]
            assert [(x["kind"], x["at"]) for x in other["labels"]] == [
                (x["kind"], x["at"]) for x in run["labels"]
            ]
            assert other["outcome"] == run.get("outcome")


def _identity(run):
    return run["goal"], run["run_id"].rsplit("-", 1)[1] if run["run_id"].startswith("tau") else ""


def _short(event):
    # The shared files cut long texts in the middle.
    return event["type"], event.get("name"), event.get("args"), (event.get("text") or "")[:1500]

import gzip
import json

import pytest
from whole_program import healthy_line, scanned, steadyhelm


def lines(*values):
    return "".join(json.dumps(value) + "\n" for value in values)


def session(session_id="s1", times=6, *, side=False):
    """A Claude Code session in which one command is run again and again."""
    about = {"sessionId": session_id, **({"isSidechain": True, "agentId": "helper"} if side else {})}
    yield {"type": "user", **about, "message": {"role": "user", "content": "fix the test"}}
    for n in range(times):
        use = {"type": "tool_use", "id": f"t{n}", "name": "Bash", "input": {"command": "pytest -q"}}
        result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": "1 failed"}
        usage = {"input_tokens": 90, "output_tokens": 10}
        message = {"role": "assistant", "id": f"{side}m{n}", "content": [use], "usage": usage}
        yield {"type": "assistant", **about, "message": message}
        yield {"type": "user", **about, "message": {"role": "user", "content": [result]}}


def conversation(times=6):
    """A list of messages as a model's interface takes it."""
    yield {"role": "user", "content": "find it"}
    for n in range(times):
        function = {"name": "search", "arguments": '{"q": "x"}'}
        yield {"role": "assistant", "tool_calls": [{"id": f"c{n}", "type": "function", "function": function}]}
        yield {"role": "tool", "tool_call_id": f"c{n}", "content": "nothing"}


def spans(times=6):
    """A trace of tool calls."""
    for n in range(times):
        yield {
            "trace_id": "trace",
            "span_id": f"s{n}",
            "start_time_unix_nano": (1000 + 2 * n) * 10**9,
            "end_time_unix_nano": (1001 + 2 * n) * 10**9,
            "attributes": {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "search",
                "gen_ai.tool.call.arguments": '{"q": "x"}',
                "gen_ai.tool.call.result": "nothing",
            },
        }


def codex(times=6):
    """A Codex rollout."""
    yield {"type": "session_meta", "payload": {"id": "rollout", "cwd": "/x", "originator": "codex"}}
    for n in range(times):
        call = {
            "type": "function_call",
            "name": "shell",
            "arguments": '{"command": "ls"}',
            "call_id": f"c{n}",
        }
        yield {"type": "response_item", "payload": call}
        answer = {"type": "function_call_output", "call_id": f"c{n}", "output": "nothing"}
        yield {"type": "response_item", "payload": answer}


def kinds(report):
    return {finding["kind"] for finding in report["findings"] if finding["severity"] != "LOW"}


class TestTranscripts:
    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("session.jsonl", lines(*session())),
            ("rollout.jsonl", lines(*codex())),
            ("messages.json", json.dumps(list(conversation()), indent=1)),
            ("messages.jsonl", lines({"messages": list(conversation())})),
            ("spans.json", json.dumps(list(spans()))),
            ("spans.jsonl", lines(*spans())),
        ],
    )
    def test_loops_are_found(self, apart, name, content):
        """
        A loop is found whichever way the run was recorded.
        """
        (apart / name).write_text(content)
        [report] = scanned(apart / name)

        assert "loop" in kinds(report)

    def test_sub_agents(self, apart):
        """
        A sub-agent's run is judged apart from its session.
        """
        (apart / "s.jsonl").write_text(lines(*session(times=1), *session(side=True)))
        main, helper = scanned(apart / "s.jsonl")

        assert ("s1", set()) == (main["run_id"], kinds(main))
        assert "s1/helper" == helper["run_id"]
        assert "loop" in kinds(helper)

    def test_tokens(self, apart):
        """
        What a transcript says was spent counts for what would have been saved.
        """
        (apart / "s.jsonl").write_text(lines(*session()))
        [report] = scanned(apart / "s.jsonl")

        assert 0 < report["tokens_saved"] < 600

    def test_folders(self, apart):
        """
        A folder gives its transcripts and run files, plain and gzip.
        """
        folder = apart / "all"
        folder.mkdir()
        (folder / "a.jsonl").write_text(lines(*session("a", times=1)))
        (folder / "b.jsonl.gz").write_bytes(gzip.compress(lines(*session("b", times=1)).encode()))
        (folder / "c.json").write_text(json.dumps(list(conversation(times=1))))
        (folder / "d.jsonl").write_text(healthy_line("d"))

        assert ["a", "b", "c", "d"] == [report["run_id"] for report in scanned(folder)]

    def test_json_of_another_kind(self, apart):
        """
        A JSON file without a run is passed over in a folder, with a word; named itself, it is an error.
        """
        (apart / "package.json").write_text('{"name": "x"}')
        (apart / "d.jsonl").write_text(healthy_line("d"))
        found = steadyhelm("scan", apart)

        assert 0 == found.status
        assert "skipped 1 .json file without a run" in found.err
        assert str(apart / "package.json") in steadyhelm("scan", apart, "--verbose").err
        assert 1 == steadyhelm("scan", apart / "package.json").status

    def test_a_broken_line(self, apart):
        """
        A line that cannot be read is named, and the rest is judged.
        """
        (apart / "s.jsonl").write_text(lines(*session(times=1)) + "{oh\n" + lines(*session()))
        answer = steadyhelm("scan", apart / "s.jsonl")

        assert 1 == answer.status
        assert "s.jsonl:4: " in answer.err
        assert "1 run, " in answer.out

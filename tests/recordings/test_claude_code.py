import pytest
from claude_code_lines import reply, result, text, use, user
from transcripts import read, run_of, told

from steadyhelm.recordings.claude_code import ClaudeCode


class TestSession:
    def test_a_small_session(self):
        """
        A session is one run: the user's words, the model's under its name, and each call with its result.
        """
        run = run_of(
            ClaudeCode(),
            user("list it", version="2.1.37", cwd="/home/a"),
            reply(text("I look.")),
            reply(use("t1", command="ls")),
            result("t1", "a.py"),
        )
        assert [
            ("user_message", "user", "list it"),
            ("llm_request", "opus", "I look."),
            ("tool_call", "Bash", "a.py"),
        ] == told(run)
        assert {"command": "ls"} == run.events[2].input_data
        assert ("s", "claude-code", "list it", "2.1.37") == (
            run.info.run_id,
            run.info.agent_id,
            run.info.goal,
            run.info.version,
        )
        assert {"source": "Claude Code transcript", "cwd": "/home/a"} == run.info.metadata

    def test_ids_number_the_entries(self):
        """
        An event's id is the number of its entry in reading order; a call's is its own, not its result's.
        """
        run = run_of(ClaudeCode(), user("go"), reply(use("t1"), use("t2")), result("t2"), result("t1"))
        assert ["0", "2", "1"] == [event.event_id for event in run.events]
        assert 5 == run.entries

    def test_times(self):
        """
        Times are the lines' own, in epoch seconds, and a call takes from its line to its result's.
        """
        run = run_of(ClaudeCode(), user("go", 1), reply(use("t1"), second=2), result("t1", second=4.5))
        assert (1770354541.0, 2500.0) == (run.info.started_at, run.events[1].duration_ms)
        assert run.info.started_at + 3.5 == run.events[1].timestamp

    def test_time_does_not_go_back(self):
        """
        Lines out of order do not turn time back.
        """
        run = run_of(ClaudeCode(), user("go", 5), user("on", 3))
        assert run.events[0].timestamp == run.events[1].timestamp

    def test_calls_of_one_reply_were_issued_together(self):
        """
        Calls of one reply share their start, also when the first has ended before the second is written.
        """
        run = run_of(ClaudeCode(), user("go"), reply(use("t1")), result("t1"), reply(use("t2")), result("t2"))
        assert [(1, 1), (2, 1)] == [(event.seq, event.started_seq) for event in run.events[1:]]

    def test_calls_of_two_replies_were_not(self):
        """
        A call of the next reply knows of the results before it.
        """
        run = run_of(
            ClaudeCode(), reply(use("t1")), result("t1"), reply(use("t2"), message_id="m2"), result("t2")
        )
        assert [0, 1] == [event.started_seq for event in run.events]

    def test_errors(self):
        """
        A result that is marked as an error fails its call, with its words.
        """
        run = run_of(ClaudeCode(), reply(use("t1")), result("t1", "no such file", is_error=True))
        assert "no such file" == run.events[0].error

    def test_a_result_of_parts(self):
        """
        A result may be a list of parts; what is no text is named.
        """
        run = run_of(ClaudeCode(), reply(use("t1")), result("t1", [text("seen"), {"type": "image"}]))
        assert ("seen\n[image]", 0) == (run.events[0].text, run.unread)

    def test_thoughts_are_no_words(self):
        """
        Thinking is only noted on the reply's first step.
        """
        run = run_of(
            ClaudeCode(), reply({"type": "thinking", "thinking": "hm"}), reply(use("t1")), result("t1")
        )
        assert [("tool_call", {"thinking": True})] == [(e.action_type, e.metadata) for e in run.events]

    def test_blank_words_are_left_out(self):
        """
        A reply that begins with empty lines has not said anything yet.
        """
        run = run_of(ClaudeCode(), reply(text("\n\n")), reply(text("Now.")))
        assert ["Now."] == [event.text for event in run.events]

    def test_a_lost_call(self):
        """
        A call that is never answered is observed before the user's next message, its result unknown.
        """
        run = run_of(
            ClaudeCode(), reply(use("t1")), user("are you there?"), reply(text("Yes."), message_id="m2")
        )
        assert ["tool_call", "user_message", "llm_request"] == [event.action_type for event in run.events]
        assert run.events[0].output_data is None

    def test_a_user_who_speaks_while_a_tool_works(self):
        """
        A user's word does not end a call whose result comes after it.
        """
        run = run_of(ClaudeCode(), reply(use("t1")), user("hurry"), result("t1", "done"))
        assert ["hurry", "done"] == [event.text for event in run.events]

    def test_lines_written_twice(self):
        """
        A line that is written again, as when a session is taken up, counts once.
        """
        line = user("go", uuid="u1")
        assert 1 == len(run_of(ClaudeCode(), line, line).events)

    def test_the_goal_is_short(self):
        """
        The goal is the first message of a user, cut at 2,000 characters.
        """
        run = run_of(ClaudeCode(), user("x" * 3000))
        assert (2000, 3000) == (len(run.info.goal), len(run.events[0].text))

    def test_a_huge_result_is_cut(self):
        """
        A result over the limit loses its middle, and the run says so.
        """
        run = run_of(ClaudeCode(), reply(use("t1")), result("t1", "x" * (3 << 20)))
        assert len(run.events[0].text) < 2 << 20
        assert 1 == run.unread


class TestUsage:
    usage = {  # noqa: RUF012 - a constant of the tests
        "input_tokens": 1,
        "cache_creation_input_tokens": 20,
        "cache_read_input_tokens": 300,
        "output_tokens": 4000,
    }

    def test_once_per_message(self):
        """
        What a reply cost, cache included, stands on its first step, however many lines repeat it.
        """
        run = run_of(
            ClaudeCode(),
            reply(text("a"), usage=self.usage),
            reply(use("t1"), usage=self.usage),
            result("t1"),
            reply(use("t2"), usage=self.usage),
        )
        assert [4321, 0, 0] == [event.token_count for event in run.events]

    def test_usage_that_grows(self):
        """
        When later lines of a reply tell of more, the difference is added to a later step.
        """
        run = run_of(
            ClaudeCode(),
            reply(text("a"), usage={"output_tokens": 4}),
            reply(use("t1"), usage={"output_tokens": 102}),
        )
        assert [4, 98] == [event.token_count for event in run.events]

    def test_a_reply_of_thoughts_alone(self):
        """
        A reply of which nothing was written but thoughts is a model call all the same.
        """
        run = run_of(
            ClaudeCode(), reply({"type": "thinking"}, usage={"output_tokens": 9}), user("what happened?")
        )
        first = run.events[0]
        assert ("llm_request", 9, {"thinking": True}) == (
            first.action_type,
            first.token_count,
            first.metadata,
        )


class TestHarness:
    @pytest.mark.parametrize(
        ("line", "name"),
        [
            (user("[Request interrupted by user]"), "interrupted"),
            (user([text("[Request interrupted by user for tool use]")]), "interrupted"),
            (
                user("This session is being continued from a previous conversation. So far:"),
                "compaction_summary",
            ),
            (user("Summary:", isCompactSummary=True), "compaction_summary"),
            (user("Caveat", isMeta=True), "harness"),
            (user("done", origin={"kind": "task-notification"}), "harness"),
            (user("<local-command-stdout>Bye!</local-command-stdout>"), "harness"),
            (user("<command-name>/exit</command-name>\n<command-args></command-args>"), "harness"),
            (user([text("<system-reminder>mind the time</system-reminder>")]), "harness"),
            ({"type": "system", "sessionId": "s", "subtype": "compact_boundary"}, "compacted"),
            ({"type": "system", "sessionId": "s", "subtype": "api_error", "content": "busy"}, "api_error"),
            (reply(text("API Error: 500"), isApiErrorMessage=True), "api_error"),
        ],
    )
    def test_no_turn_of_the_user(self, line, name):
        """
        What the harness writes in the user's place is a change of state under its own name, never a turn.
        """
        run = run_of(ClaudeCode(), line)
        assert [("state_transition", name)] == [(e.action_type, e.action_name) for e in run.events]
        assert not run.info.goal

    def test_a_reminder_beside_a_prompt(self):
        """
        A reminder in the same message is kept apart from the user's words.
        """
        run = run_of(ClaudeCode(), user([text("fix it"), {"type": "image"}, text("<system-reminder>x")]))
        assert [("harness", "<system-reminder>x"), ("user", "fix it\n[image]")] == [
            (event.action_name, event.text) for event in run.events
        ]

    def test_a_prompt_called_by_name(self):
        """
        A prompt that the user calls by its name is a turn, as it was typed.
        """
        called = "<command-message>review</command-message>\n<command-name>/review</command-name>\n"
        run = run_of(ClaudeCode(), user(called + "<command-args>PR 12</command-args>"))
        assert [("user_message", "user", "/review PR 12")] == told(run)

    def test_a_queued_prompt(self):
        """
        What a user types while the agent works is a turn, though it stands in an attachment.
        """
        attached = {"type": "queued_command", "prompt": "stop that", "commandMode": "prompt"}
        line = {"type": "attachment", "sessionId": "s", "attachment": attached}
        assert [("user_message", "user", "stop that")] == told(run_of(ClaudeCode(), line))

    def test_a_rejected_call(self):
        """
        A call that the user refused is a failed one that says so.
        """
        words = "The user doesn't want to proceed with this tool use."
        line = result("t1", words, is_error=True, toolUseResult=f"Error: {words}")
        run = run_of(ClaudeCode(), reply(use("t1")), line)
        assert (words, {"rejected": True}) == (run.events[0].error, run.events[0].metadata)

    def test_words_in_a_refusal(self):
        """
        What a user says who refuses a call is a turn.
        """
        words = "The user doesn't want to proceed with this tool use. "
        words += "To tell you how to proceed, the user said:\n"
        line = result("t1", words, is_error=True, toolUseResult=f"Error: {words}not that file")
        run = run_of(ClaudeCode(), reply(use("t1")), line)
        assert ("user_message", "user", "not that file") == told(run)[1]


class TestSubagents:
    def test_runs_of_their_own(self):
        """
        A sub-agent's lines are a run of their own that names its parent, and its call names that run.
        """
        main, child = read(
            ClaudeCode(),
            reply(use("t1", "Task", prompt="look")),
            user("look", isSidechain=True, agentId="a1"),
            reply(text("found"), message_id="m2", isSidechain=True, agentId="a1"),
            result("t1", "found", toolUseResult={"agentId": "a1"}),
        )
        assert ("s/a1", "s", "look") == (child.info.run_id, child.info.parent_run_id, child.info.goal)
        assert {"s"} == {event.parent_run_id for event in child.events}
        assert {"child_run_id": "s/a1"} == main.events[0].metadata
        assert (1, 2) == (len(main.events), len(child.events))

    def test_branches_without_names(self):
        """
        Older sessions do not name their sub-agents: each first line begins one, the others follow it.
        """
        _, *children = read(
            ClaudeCode(),
            user("go"),
            user("one", uuid="u1", parentUuid=None, isSidechain=True),
            user("two", uuid="u2", parentUuid=None, isSidechain=True),
            reply(text("of one"), uuid="u3", parentUuid="u1", isSidechain=True),
            reply(text("of two"), uuid="u4", parentUuid="u2", isSidechain=True),
        )
        assert [["one", "of one"], ["two", "of two"]] == [[e.text for e in run.events] for run in children]

    def test_a_file_of_its_own(self):
        """
        A sub-agent's own file is a run with the session as its parent.
        """
        run = run_of(ClaudeCode(), user("look", isSidechain=True, agentId="a1"))
        assert ("s/a1", "s", "claude-code/subagent") == (
            run.info.run_id,
            run.info.parent_run_id,
            run.info.agent_id,
        )

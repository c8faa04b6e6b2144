import json

import pytest
from recorded_runs import call, failure, read, result, run_of, said, user


class TestMapping:
    def test_call_with_inline_result_is_one_event(self):
        """
        A tool call that carries its result is one event with arguments, words and cost.
        """
        run = run_of(
            call(args={"c": "ls"}, result="a.py", error=False, tokens=7, duration_ms=5.0, cost_usd=0.5)
        )
        [event] = run.events
        assert ("tool_call", "sh", "0") == (event.action_type, event.action_name, event.event_id)
        assert ({"c": "ls"}, {"text": "a.py"}) == (event.input_data, event.output_data)
        assert (7, 5.0, 0.5, None) == (event.token_count, event.duration_ms, event.cost_usd, event.error)

    def test_a_structured_result_is_kept_as_it_is(self):
        """
        A result that is an object or a list stays one.
        """
        assert {"rows": [1, 2]} == run_of(call(result={"rows": [1, 2]})).events[0].output_data

    def test_a_reply_is_a_model_call(self):
        """
        An llm_output is an llm_request named after its model, or `llm`.
        """
        first, second = run_of(said("one", name="m-1"), said("two")).events
        assert ("llm_request", "m-1", {"text": "one"}) == (
            first.action_type,
            first.action_name,
            first.output_data,
        )
        assert "llm" == second.action_name

    def test_a_users_words_are_input(self):
        """
        A user_message has its words as input and nothing as output.
        """
        [event] = run_of(user("hello")).events
        assert ("user_message", "user") == (event.action_type, event.action_name)
        assert ({"text": "hello"}, None, "hello") == (event.input_data, event.output_data, event.text)

    def test_a_state_is_a_transition(self):
        """
        A state is a state_transition under its own name.
        """
        [event] = run_of({"type": "state", "name": "plan", "text": "step 2"}).events
        assert ("state_transition", "plan", {"text": "step 2"}) == (
            event.action_type,
            event.action_name,
            event.output_data,
        )

    @pytest.mark.parametrize(
        ("written", "expected"),
        [
            (True, "no such file"),
            ("exit 1", "exit 1"),
            ({"message": "denied"}, "denied"),
            (1, "no such file"),
        ],
    )
    def test_an_error_has_words(self, written, expected):
        """
        A failed call's error is the text given, else the words that came back.
        """
        assert expected == run_of(call(result="no such file", error=written)).events[0].error

    @pytest.mark.parametrize("written", [False, None, "", 0, {}, "false"])
    def test_no_error_is_no_error(self, written):
        """
        Only a true error is one.
        """
        assert None is run_of(call(result="fine", error=written)).events[0].error

    def test_an_error_without_words(self):
        """
        A call that failed without a word has the error `error`.
        """
        assert "error" == run_of(call(error=True)).events[0].error

    def test_small_unknown_keys_become_metadata(self):
        """
        Agent, turn and keys we do not know are kept in the metadata as long as they are small.
        """
        [event] = run_of(said(agent="critic", turn=3, mood="calm", blob="x" * 5000, deep={"a": 1})).events
        assert {"agent": "critic", "turn": 3, "mood": "calm"} == event.metadata

    def test_run_keys(self):
        """
        A run's own keys arrive in its info; labels and unknown keys stay away from it.
        """
        run = run_of(
            said(),
            agent_id="a",
            goal="g",
            source="s",
            labels=[{"at": 0}],
            outcome="success",
            meta={"m": 1},
            tier="x",
        )
        assert ("a", "r", "g", {"source": "s"}) == (
            run.info.agent_id,
            run.info.run_id,
            run.info.goal,
            run.info.metadata,
        )
        assert ([{"at": 0}], "success", {"m": 1}, {"tier": "x"}) == (
            run.labels,
            run.outcome,
            run.meta,
            run.extra,
        )
        assert (1, 1, [], 0) == (run.line, run.entries, run.problems, run.unread)

    def test_id_stands_for_run_id(self):
        """
        A run may be named by `id`, and one without a name is named after its line.
        """
        runs = read(b'{"id": "x", "events": [{"type": "state"}]}\n{"events": [{"type": "state"}]}\n')
        assert ["x", "line-2"] == [run.info.run_id for run in runs]

    def test_a_run_without_agent(self):
        """
        A run that names no agent belongs to `scan`.
        """
        assert "scan" == run_of(said(), agent_id=None).info.agent_id

    def test_null_is_absent(self):
        """
        A key that is present with null is as good as absent.
        """
        keys = ("name", "args", "result", "error", "text", "tokens", "duration_ms", "t", "call_id", "stream")
        run = run_of({"type": "llm_output", **dict.fromkeys(keys)})
        assert ([], None) == (run.problems, run.events[0].metadata)


class TestOddEntries:
    @pytest.mark.parametrize("bad", [-1, True, "many", "NaN", [3], {"in": 3}, 1e300])
    def test_numbers_that_are_none(self, bad):
        """
        A token count that is no number from 0 up is left out and named with its index.
        """
        run = run_of(said(), said(tokens=bad))
        assert (0, 1) == (run.events[1].token_count, run.unread)
        assert run.problems[0].startswith("event 1: tokens is ")

    @pytest.mark.parametrize("written", [12, 12.0, "12", " 12 "])
    def test_numbers_in_other_clothes(self, written):
        """
        A number in quotes or with a point is a number.
        """
        run = run_of(said(tokens=written))
        assert (12, []) == (run.events[0].token_count, run.problems)

    def test_arguments_in_a_string(self):
        """
        Arguments written as a string of JSON are opened; any other string stays as it is.
        """
        run = run_of(
            call(args='{"a": 1}', result=""), call(args="{oops", result=""), call(args="ls", result="")
        )
        assert [{"a": 1}, "{oops", "ls"] == [event.input_data for event in run.events]

    @pytest.mark.parametrize(
        ("written", "expected"),
        [(5, "5"), ([{"type": "text", "text": "a"}, {"type": "image"}, "b"], "a\nb"), ({"text": "c"}, "c")],
    )
    def test_texts_in_other_clothes(self, written, expected):
        """
        A number, a list of content parts and an object with a text are texts.
        """
        run = run_of(said(written))
        assert (expected, []) == (run.events[0].text, run.problems)

    @pytest.mark.parametrize("bad", [True, {"a": 1}, [1, 2]])
    def test_texts_that_are_none(self, bad):
        """
        A text that is none is left out and named; the event stays.
        """
        run = run_of(said(bad))
        assert (None, 1) == (run.events[0].output_data, run.unread)

    def test_an_unknown_type(self):
        """
        An entry of an unknown type is named with its index and treated as absent.
        """
        run = run_of(said(), {"type": "thought", "text": "hm"}, said())
        assert ["event 1 has the unknown type 'thought'; left out"] == run.problems
        assert (["0", "2"], 3) == ([event.event_id for event in run.events], run.entries)

    def test_an_unknown_type_parts_nothing(self):
        """
        An error after a result stays directly after it when what stands between is left out.
        """
        assert ["boom"] == [
            event.error for event in run_of(call(), result(), {"type": "?"}, failure()).events
        ]

    def test_entries_that_are_no_objects(self):
        """
        An entry that is no object is named and left out.
        """
        assert ["event 0 is 5, not an object; left out"] == run_of(5, said()).problems

    def test_problems_are_bounded(self):
        """
        A run with ten thousand oddities names twenty and counts the rest.
        """
        run = run_of(said(), *([None] * 10_000))
        assert (21, "and 9980 more", 10_000) == (len(run.problems), run.problems[-1], run.unread)

    def test_a_huge_text_loses_its_middle(self):
        """
        A text over 1 MiB keeps its beginning and end, and the cut is noted.
        """
        run = run_of(call(result="a" * 2_000_000 + "z", args={"deep": ["b" * 3_000_000]}))
        text = run.events[0].output_data["text"]
        assert ("a", "z", True) == (text[0], text[-1], len(text) < 1_050_000)
        assert len(json.dumps(run.events[0].input_data)) < 1_050_000
        assert 2 == run.unread

    def test_integers_of_any_size(self):
        """
        An integer no database holds is no reason to lose the run.
        """
        run = run_of(call(args={"n": 10**40}, result="x" * 1_100_000, name=10**30, tokens=10**40))
        assert (0, str(10**30)) == (run.events[0].token_count, run.events[0].action_name)

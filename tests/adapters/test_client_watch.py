import threading

import pytest
from lookalike import Lookalike, asks, came, monitor_at, runs_of, said, stories, user

from steadyhelm import RunStopped
from steadyhelm.adapter import ModelReply
from steadyhelm.adapters.clients import OpenAIClientAdapter
from steadyhelm.boundary.driver import Boundary
from steadyhelm.errors import SettingsError

GOAL = user("Find the ledger of March")


@pytest.fixture
def monitors(tmp_path):
    """Makes monitors, and closes them in the end."""
    made = []

    def make(mode="observe", **options):
        made.append(monitor_at(tmp_path / f"{len(made)}.db", mode, **options))
        return made[-1]

    yield make
    for monitor in made:
        monitor.close()


@pytest.fixture
def monitor(monitors):
    """One that only watches."""
    return monitors()


def watched(monitor, *replies, **options):
    """A client that answers by script, watched."""
    return monitor.wrap(Lookalike(*replies), **options)


def looking(client, turns, first=(GOAL,)):
    """A host's loop: the model asks for the same look-up turn after turn; gives all messages."""
    messages = list(first)
    for n in range(1, turns + 1):
        messages += [client.ask(*messages), came(f"c{n}", "no entry for a")]
    return messages


def lookups(turns):
    """The model's side of it."""
    return [asks("lookup", f"c{n}", key="a") for n in range(1, turns + 1)]


class TestWrapping:
    def test_the_client_itself_is_given_back(self, monitor):
        """
        A client is watched in place, so whoever holds it already is watched too.
        """
        client = Lookalike()

        assert client is monitor.wrap(client)

    def test_once_is_enough(self, monitor):
        """
        A client that is wrapped twice tells everything once.
        """
        client = monitor.wrap(watched(monitor))
        client.ask(GOAL)

        assert [["user: Find the ledger of March", "model: done"]] == stories(monitor)

    def test_unwrapped_it_is_as_it_was(self, monitor):
        """
        Nothing of ours is left in a client that is unwrapped, and nothing is told any more.
        """
        client = Lookalike()
        before = (dict(vars(client)), dict(vars(client.chat.completions)))
        OpenAIClientAdapter.unwrap(monitor.wrap(client))
        client.ask(GOAL)

        client.asked.clear()
        assert before == (vars(client), vars(client.chat.completions))
        assert [] == stories(monitor)

    def test_unwrapping_what_is_not_wrapped_changes_nothing(self):
        """
        A client that nobody watches stays as it is.
        """
        client = Lookalike()

        assert client is OpenAIClientAdapter.unwrap(client)

    def test_runs_that_went_on_end_when_it_is_unwrapped(self, monitor):
        """
        A conversation that waits for a result is left early when its client is watched no more.
        """
        client = watched(monitor, asks("lookup", "c1", key="a"))
        client.ask(GOAL)
        OpenAIClientAdapter.unwrap(client)

        assert ["left early"] == [run.outcome for run in runs_of(monitor)]
        assert "lookup(key=a) -> " == stories(monitor)[0][-1]

    def test_two_monitors_do_not_share_a_client(self, monitors):
        """
        A second monitor is refused with words that say what to do.
        """
        client = watched(monitors())

        with pytest.raises(SettingsError, match=r"watched by another monitor.*unwrap it first"):
            monitors().wrap(client)

    def test_a_client_whose_methods_cannot_be_replaced_is_refused(self, monitor):
        """
        A method that is made anew at each look cannot be watched in place, and the error names another way.
        """

        class Made:
            @property
            def create(self):
                return lambda **_: said("done")

        client = Lookalike()
        client.chat.completions = Made()

        with pytest.raises(SettingsError, match=r"cannot be watched in place.*@monitor\.model"):
            monitor.wrap(client)

    def test_a_client_that_is_another_each_time_is_refused(self, monitor):
        """
        Nor can one whose parts are made anew: what is replaced in them would be gone.
        """

        class Fresh(Lookalike):
            @property
            def chat(self):
                return (
                    Lookalike.__new__(Lookalike) if not hasattr(self, "_chat") else type(self._chat)(self, [])
                )

            @chat.setter
            def chat(self, value):
                self._chat = value

        with pytest.raises(SettingsError, match="another object each time"):
            monitor.wrap(Fresh())

    @pytest.mark.parametrize("what", [None, 3, "client", object(), Lookalike, [], {"chat": 1}])
    def test_other_things_are_not_recognised(self, what):
        """
        Whatever is asked about, the answer is yes or no.
        """
        assert not OpenAIClientAdapter.can_wrap(what)

    def test_something_else_is_refused_in_words(self, monitor):
        """
        Whoever uses the adapter itself on the wrong thing hears what is missing.
        """
        with pytest.raises(SettingsError, match=r"got a list, which has no chat\.completions\.create"):
            OpenAIClientAdapter(monitor, [])

    def test_a_disabled_monitor_leaves_requests_alone(self, monitors, monkeypatch):
        """
        With everything turned off nothing is told, and nothing gets in the way.
        """
        monkeypatch.setenv("STEADYHELM_DISABLED", "1")
        monitor = monitors()
        client = watched(monitor, said("hello"))

        assert "hello" == client.ask(GOAL)["content"]
        assert 0 == monitor.status()["live_runs"]


class TestSeen:
    def test_calls_are_seen_with_what_came_of_them(self, monitor):
        """
        A call comes from a reply, its result from the next request; together they are one step.
        """
        client = watched(monitor, asks("lookup", "c1", key="a"), said("There is none."))
        client.ask(GOAL, client.ask(GOAL), came("c1", "no entry for a"))

        told = ["user: Find the ledger of March", "model: ", "lookup(key=a) -> no entry for a"]
        assert [[*told, "model: There is none."]] == stories(monitor)

    def test_an_object_with_an_error_is_a_failure(self, monitor):
        """
        Chat completions have no word for a call that failed: an object with an `error` is one.
        """
        client = watched(monitor, asks("lookup", "c1", key="a"))
        client.ask(GOAL, client.ask(GOAL), came("c1", '{"error": "KeyError: a"}'))

        assert "lookup(key=a) failed: KeyError: a" == stories(monitor)[0][2]

    @pytest.mark.parametrize("result", ['{"error": null, "rows": 3}', '{"error', "error: none", "{}"])
    def test_other_words_are_no_failure(self, monitor, result):
        """
        What only looks like an error stays a result, in the host's own words.
        """
        client = watched(monitor, asks("lookup", "c1", key="a"))
        client.ask(GOAL, client.ask(GOAL), came("c1", result))

        assert f"lookup(key=a) -> {result}" == stories(monitor)[0][2]

    def test_a_call_without_a_result_is_told_when_the_user_speaks(self, monitor):
        """
        A user who does not wait for a result leaves it unknown; the call was made all the same.
        """
        client = watched(monitor, asks("lookup", "c1", key="a"))
        client.ask(GOAL, client.ask(GOAL), user("never mind"))

        assert ["lookup(key=a) -> ", "user: never mind"] == stories(monitor)[0][2:4]

    def test_a_call_that_another_client_asked_for_is_seen(self, monitor):
        """
        A result whose call we have not seen asked for is told with what the request says about the call.
        """
        elsewhere = asks("lookup", "c1", key="a")["choices"][0]["message"]
        client = watched(monitor, said("There is none."))
        client.ask(GOAL, elsewhere, came("c1", "no entry for a"))

        assert "lookup(key=a) -> no entry for a" == stories(monitor)[0][1]

    def test_the_hosts_exception_passes_unchanged(self, monitor):
        """
        What the client raises is told, and raised.
        """
        error = ConnectionError("no route")
        client = watched(monitor, error)

        with pytest.raises(ConnectionError) as raised:
            client.ask(GOAL)
        assert error is raised.value
        assert "model: ConnectionError: no route" == stories(monitor)[0][-1]

    def test_a_failed_request_has_the_name_of_its_model(self, monitor):
        """
        A request without a reply is known by the model it asked for.
        """
        client = watched(monitor, ConnectionError("no route"))
        with pytest.raises(ConnectionError):
            client.chat.completions.create(messages=[GOAL], model="scripted")

        (run,) = runs_of(monitor)
        assert "scripted" == monitor.store.get_run_traces("agent", run.run_id)[-1].action_name

    def test_an_error_about_a_reply_brings_its_tokens(self, monitor):
        """
        A reply that is received and then refused, as one cut at its length, has spent its tokens.
        """

        class CutShortError(Exception):
            def __init__(self, completion):
                super().__init__("length limit was reached")
                self.completion = completion

        reply = {**said("It is"), "usage": {"prompt_tokens": 10, "completion_tokens": 8}}
        with pytest.raises(CutShortError):
            watched(monitor, CutShortError(reply)).ask(GOAL)

        (run,) = runs_of(monitor)
        failed = monitor.store.get_run_traces("agent", run.run_id)[-1]
        assert (18, "It is") == (failed.token_count, failed.text)
        assert "length limit" in failed.error

    def test_tokens_that_nobody_tells_are_estimated(self, monitor):
        """
        A reply without usage counts a quarter of the characters, so that no budget is blind.
        """
        client = watched(monitor, said("x" * 400))
        client.ask(user("y" * 800))

        (run,) = runs_of(monitor)
        assert 300 == monitor.store.get_run_traces("agent", run.run_id)[-1].token_count

    def test_a_free_form_call_is_seen(self, monitor):
        """
        A call whose input is a text of its own is a call like any other.
        """
        call = {"id": "c1", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        client = watched(monitor, {"choices": [{"message": message}]})
        client.ask(GOAL, client.ask(GOAL), came("c1", "ledger.txt"))

        (run,) = runs_of(monitor)
        event = monitor.store.get_run_traces("agent", run.run_id)[2]
        assert ("shell", "ls", "ledger.txt") == (event.action_name, event.input_data, event.text)

    def test_a_call_of_the_old_kind_is_seen(self, monitor):
        """
        A function call without an id goes by the name of its function.
        """
        message = {
            "role": "assistant",
            "content": None,
            "function_call": {"name": "lookup", "arguments": '{"key": "a"}'},
        }
        client = watched(monitor, {"choices": [{"message": message}]})
        result = {"role": "function", "name": "lookup", "content": "no entry"}
        client.ask(GOAL, client.ask(GOAL), result)

        assert "lookup(key=a) -> no entry" == stories(monitor)[0][2]

    def test_a_framework_that_tells_of_the_call_itself_is_left_alone(self, monitor):
        """
        Inside a model call that a watched framework tells of, its client tells nothing.
        """
        client = watched(monitor)
        run = Boundary(monitor, "framework", {}).start_run("add up")
        with run.activate():
            run.before_model()
            client.ask(GOAL)
            run.after_model(ModelReply(text="told above"))
        run.end()

        assert [["user: add up", "model: told above"]] == stories(monitor)

    def test_a_call_inside_a_frameworks_tool_is_a_child(self, monitor):
        """
        A tool of a watched agent that asks a model by itself is a run inside that agent's.
        """
        client = watched(monitor)
        run = Boundary(monitor, "framework", {}).start_run("add up")
        with run.activate():
            client.ask(GOAL)
        run.end()

        outer, inner = runs_of(monitor)
        assert (outer.run_id, "done") == (inner.parent_run_id, inner.outcome)


class TestStreams:
    @staticmethod
    def chunk(content=None, finish=None, **delta):
        """A piece of a reply."""
        said = {"content": content, **delta}
        return {"object": "chat.completion.chunk", "choices": [{"delta": said, "finish_reason": finish}]}

    def test_a_plain_generator_is_watched_while_it_is_read(self, monitor):
        """
        Any iterator will do; it gives the same pieces, and the step is told when it ends.
        """
        pieces = [self.chunk("It is "), self.chunk("3.")]
        client = watched(monitor, lambda: iter(pieces))
        stream = client.chat.completions.create(messages=[GOAL], stream=True)

        assert pieces == list(stream)
        assert "model: It is 3." == stories(monitor)[0][-1]

    def test_a_stream_that_is_left_is_told_with_the_next_request(self, monitor):
        """
        What was read of a reply before it was left counts, and half a call is none.
        """
        call = {"index": 0, "id": "c1", "function": {"name": "lookup", "arguments": '{"ke'}}
        pieces = [self.chunk("It is "), self.chunk(tool_calls=[call]), self.chunk("3.")]
        client = watched(monitor, lambda: iter(pieces))
        stream = client.chat.completions.create(messages=[GOAL], stream=True)
        next(stream), next(stream)
        client.ask(GOAL, {"role": "assistant", "content": "It is "}, user("go on"))

        told = ["user: Find the ledger of March", "model: It is ", "user: go on", "model: done"]
        assert [told] == stories(monitor)

    def test_a_stream_that_is_thrown_away_is_told(self, monitor):
        """
        A reply nobody will ever read to its end is told when the next request goes out.
        """
        client = watched(monitor, lambda: iter([self.chunk("It is "), self.chunk("3.")]))
        next(client.chat.completions.create(messages=[GOAL], stream=True))
        client.ask(user("Something else"))

        assert ["user: Find the ledger of March", "model: It is "] == stories(monitor)[0]

    def test_a_stream_that_breaks_is_a_failure(self, monitor):
        """
        An error in the middle of a reply is told, with what had come by then, and raised.
        """

        def breaks():
            yield self.chunk("It is ")
            raise ConnectionError("lost")

        client = watched(monitor, breaks)
        with pytest.raises(ConnectionError, match="lost"):
            list(client.chat.completions.create(messages=[GOAL], stream=True))

        assert "model: ConnectionError: lost" == stories(monitor)[0][-1]

    def test_calls_in_pieces_are_put_together(self, monitor):
        """
        A call that comes in several pieces is one call, also where nobody says that the reply has ended.
        """
        first = {"index": 0, "id": "c1", "function": {"name": "lookup", "arguments": '{"key'}}
        rest = {"index": 0, "function": {"arguments": '": "a"}'}}
        pieces = [self.chunk(tool_calls=[first]), self.chunk(tool_calls=[rest])]
        client = watched(monitor, lambda: iter(pieces))
        list(client.chat.completions.create(messages=[GOAL], stream=True))
        client.ask(GOAL, asks("lookup", "c1", key="a")["choices"][0]["message"], came("c1", "no entry"))

        assert "lookup(key=a) -> no entry" == stories(monitor)[0][2]


class TestConversations:
    def test_two_that_alternate_do_not_mix(self, monitor):
        """
        Requests of two conversations that take turns on one client are two runs.
        """
        client = watched(
            monitor, asks("lookup", "c1", key="x"), asks("lookup", "c2", key="y"), said("one"), said("two")
        )
        x, y = user("find x"), user("find y")
        first, second = client.ask(x), client.ask(y)
        client.ask(x, first, came("c1", "at x"))
        client.ask(y, second, came("c2", "at y"))

        assert [
            ["user: find x", "model: ", "lookup(key=x) -> at x", "model: one"],
            ["user: find y", "model: ", "lookup(key=y) -> at y", "model: two"],
        ] == stories(monitor)

    def test_the_same_request_at_the_same_time_is_two_runs(self, monitor):
        """
        Two agents that are asked the same at once are two, even with the same ids for their calls.
        """
        together = threading.Barrier(2)

        def both():
            together.wait(60)
            return asks("lookup", "c1", key="a")

        client = watched(monitor, both, both)

        def work():
            client.ask(GOAL, client.ask(GOAL), came("c1", "no entry"))

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        told = ["user: Find the ledger of March", "model: ", "lookup(key=a) -> no entry", "model: done"]
        assert [told, told] == stories(monitor)

    def test_equal_conversations_of_two_clients_do_not_mix(self, monitor):
        """
        Two clients that are asked the same and answer the same each go on in the conversation that is theirs.
        """
        asked = asks("lookup", "c1", key="a")
        clients = [watched(monitor, asked, said(name)) for name in ("one", "two")]
        replies = [client.ask(GOAL) for client in clients]
        for client, reply, result in zip(clients, replies, ("first", "second"), strict=True):
            client.ask(GOAL, reply, came("c1", result))

        begin = ["user: Find the ledger of March", "model: "]
        assert [
            [*begin, "lookup(key=a) -> first", "model: one"],
            [*begin, "lookup(key=a) -> second", "model: two"],
        ] == stories(monitor)

    def test_the_same_question_again_is_another_run(self, monitor):
        """
        A question that was answered and is asked again begins anew.
        """
        client = watched(monitor)
        client.ask(GOAL)
        client.ask(GOAL)

        assert 2 == len(stories(monitor))

    def test_a_request_that_failed_and_is_made_again_belongs_to_the_same_run(self, monitor):
        """
        Trying again is part of the work: a host that keeps failing is seen as one run.
        """
        client = watched(monitor, ConnectionError("no route"))
        with pytest.raises(ConnectionError):
            client.ask(GOAL)
        client.ask(GOAL)

        told = ["user: Find the ledger of March", "model: ConnectionError: no route", "model: done"]
        assert [told] == stories(monitor)

    def test_an_answered_conversation_ends_its_run(self, monitor):
        """
        A reply that asks for nothing is the end of a run.
        """
        watched(monitor).ask(GOAL)

        assert ["done"] == [run.outcome for run in runs_of(monitor)]
        assert 0 == monitor.status()["live_runs"]

    def test_what_the_user_says_after_that_begins_the_next_run(self, monitor):
        """
        A conversation that goes on is another run, about what the user says now; nothing is told twice.
        """
        client = watched(monitor)
        client.ask(GOAL, client.ask(GOAL), user("And of April?"))

        assert "And of April?" == runs_of(monitor)[1].goal
        assert ["user: And of April?", "model: done"] == stories(monitor)[1]

    def test_a_system_prompt_may_change(self, monitor):
        """
        A prompt with the time of day in it, new with every request, does not begin a new conversation.
        """
        client = watched(monitor, asks("lookup", "c1", key="a"))
        noon, later = ({"role": "system", "content": f"It is {time}."} for time in ("noon", "later"))
        reply = client.ask(noon, GOAL)
        client.ask(later, GOAL, reply, came("c1", "no entry"))

        assert 1 == len(stories(monitor))

    def test_results_may_be_shortened_later(self, monitor):
        """
        A host that clears old results goes on with the same conversation.
        """
        client = watched(monitor, asks("lookup", "c1", key="a"), asks("lookup", "c2", key="b"))
        first = client.ask(GOAL)
        second = client.ask(GOAL, first, came("c1", "long " * 1000))
        client.ask(GOAL, first, came("c1", "[cleared]"), second, came("c2", "no entry"))

        assert 1 == len(stories(monitor))
        assert 6 == len(stories(monitor)[0])

    def test_a_host_that_forgets_the_beginning_is_followed_by_its_calls(self, monitor):
        """
        Where old messages are dropped, the results say which conversation a request belongs to.
        """
        client = watched(monitor, asks("lookup", "c1", key="a"), asks("lookup", "c2", key="b"))
        first = client.ask(GOAL)
        second = client.ask(GOAL, first, came("c1", "no entry"))
        client.ask(user("Summary: looking for a ledger"), second, came("c2", "none either"))

        (told,) = stories(monitor)
        assert ["lookup(key=a) -> no entry", "model: ", "lookup(key=b) -> none either"] == told[2:5]

    def test_examples_are_not_the_goal(self, monitor):
        """
        What stands before the user's latest turn was done before: the run is about that turn.
        """
        client = watched(monitor)
        example = [user("2 + 2?"), {"role": "assistant", "content": "4"}]
        client.ask(*example, user("Here is a sum."), user("3 + 4?"))

        assert ["user: Here is a sum.", "user: 3 + 4?", "model: done"] == stories(monitor)[0]
        assert "Here is a sum." == runs_of(monitor)[0].goal

    def test_a_conversation_that_begins_with_a_calls_arguments_works_for_that_call(self, monitor):
        """
        An agent inside a tool is a child run, although nobody says so: it begins with the call's own words.
        """
        client = watched(monitor, asks("delegate", "c1", task="look in the archive"))
        reply = client.ask(GOAL)
        client.ask(user("You are a helper. Your task: look in the archive"))
        client.ask(GOAL, reply, came("c1", "done"))

        outer, inner = runs_of(monitor)
        assert (outer.run_id, "delegate") == (inner.parent_run_id, inner.task_type)

    def test_any_other_conversation_does_not(self, monitor):
        """
        A conversation that has nothing to do with an open call is nobody's child.
        """
        client = watched(monitor, asks("delegate", "c1", task="look in the archive"))
        client.ask(GOAL)
        client.ask(user("Something else"))

        assert [None, None] == [run.parent_run_id for run in runs_of(monitor)]

    def test_a_conversation_may_go_on_in_another_client(self, monitor):
        """
        A client that is made for each request, or a second one that stands in, sees the same conversation.
        """
        first = watched(monitor, asks("lookup", "c1", key="a"))
        second = watched(monitor, said("There is none."))
        second.ask(GOAL, first.ask(GOAL), came("c1", "no entry"))

        assert 1 == len(stories(monitor))

    def test_the_oldest_conversations_are_forgotten_and_ended(self, monitor, monkeypatch):
        """
        Memory is bounded: a conversation that nobody came back to is ended when there are too many.
        """
        monkeypatch.setattr("steadyhelm.adapters.clients.conversations._MAX_CONVERSATIONS", 3)
        client = watched(monitor, *(asks("lookup", f"c{n}", key=n) for n in range(10)))
        for n in range(10):
            client.ask(user(f"find number {n}"))

        assert 7 == [run.outcome for run in runs_of(monitor)].count("left early")


class TestRunsOfTheHost:
    def test_everything_in_it_joins_it(self, monitor):
        """
        Inside `with monitor.run()` every conversation is part of that run, those at the same time too.
        """
        client = watched(monitor, asks("lookup", "c1", key="x"), said("hello"), said("one"))
        with monitor.run(goal="serve the office") as run:
            first = client.ask(GOAL)
            client.ask(user("Say hello"))
            client.ask(GOAL, first, came("c1", "at x"))

        told = ["user: Find the ledger of March", "model: ", "user: Say hello", "model: hello"]
        assert [run.run_id] == [it.run_id for it in runs_of(monitor)]
        assert [[*told, "lookup(key=x) -> at x", "model: one"]] == stories(monitor)

    def test_a_chat_in_it_is_one_run(self, monitor):
        """
        Turn after turn belongs to it, and it ends when the host says so.
        """
        client = watched(monitor)
        with monitor.run(goal="chat"):
            client.ask(GOAL, client.ask(GOAL), user("And of April?"))
            assert 1 == monitor.status()["live_runs"]

        told = ["user: Find the ledger of March", "model: done", "user: And of April?", "model: done"]
        assert [told] == stories(monitor)
        assert {} == monitor.status()["losses"]

    def test_conversations_at_the_same_time_are_all_told(self, monitor):
        """
        While one waits for its reply, another in the same run is told too: none hides the other.
        """
        together = threading.Barrier(2)

        def both():
            together.wait(60)
            return said("done")

        client = watched(monitor, both, both)
        with monitor.run(goal="serve the office") as run:

            def work(n):
                with monitor.within(run.run_id):
                    client.ask(user(f"question {n}"))

            threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        (told,) = stories(monitor)
        assert ["model: done", "model: done", "user: question 0", "user: question 1"] == sorted(told)

    def test_a_conversation_outlives_it(self, monitor):
        """
        What goes on after the host's run has ended is a run of its own, and nothing is counted as lost.
        """
        client = watched(monitor, said("hello"))
        with monitor.run(goal="chat"):
            reply = client.ask(GOAL)
        client.ask(GOAL, reply, user("And of April?"))

        assert ["user: And of April?", "model: done"] == stories(monitor)[1]
        assert {} == monitor.status()["losses"]


class TestSteered:
    def test_words_stay_where_they_were_said(self, monitors):
        """
        What the model is told once stands at the same place in every request that follows.
        """
        client = watched(monitors("guide"), *lookups(6))
        looking(client, 6)

        told = next(n for n, asked in enumerate(client.asked) if len(asked) != 2 * n + 1)
        words = client.asked[told][2 * told + 1]
        assert "user" == words["role"]
        assert all(words == asked[2 * told + 1] for asked in client.asked[told:])

    def test_the_hosts_messages_are_not_touched(self, monitors):
        """
        Words go into a copy: what the host holds is as it was.
        """
        client = watched(monitors("guide"), *lookups(6))
        messages = looking(client, 6)

        assert 13 == len(messages)
        assert all(it["role"] in {"assistant", "tool"} for it in messages[1:])

    def test_words_join_the_users_own_where_they_spoke_last(self, monitors):
        """
        The two sides take turns: some models refuse two messages of the user in a row.
        """
        monitor = monitors("guide")
        client = watched(monitor, *lookups(3))
        with monitor.run(goal="chat"):
            messages = looking(client, 3)
            client.ask(*messages, user("Well?"))

        assert client.asked[-1][-1]["content"].startswith("Well?\n\n")
        assert "user" == client.asked[-1][-1]["role"]

    def test_in_observe_mode_the_hosts_own_list_goes_through(self, monitor):
        """
        A guest that only watches does not even copy.
        """
        seen = []
        client = Lookalike()
        client.chat.completions.create = lambda messages: seen.append(messages) or said("done")
        monitor.wrap(client)
        messages = [GOAL]
        client.chat.completions.create(messages=messages)

        assert messages is seen[0]

    def test_a_stop_holds(self, monitors):
        """
        A host that swallows the stop and asks again is stopped again, before anything is sent.
        """
        monitor = monitors("enforce")
        client = watched(monitor, *lookups(30))
        with pytest.raises(RunStopped):
            looking(client, 30)
        sent = len(client.asked)
        messages = [GOAL]
        for n in range(1, sent + 1):
            messages += [asks("lookup", f"c{n}", key="a")["choices"][0]["message"], came(f"c{n}", "no entry")]
        with pytest.raises(RunStopped):
            client.ask(*messages)

        assert sent == len(client.asked)
        assert ["stopped"] == [run.outcome for run in runs_of(monitor)]

    def test_the_user_may_go_on_after_a_stop(self, monitors):
        """
        What the user says after a stop is a new turn of theirs, and begins a new run.
        """
        monitor = monitors("enforce")
        client = watched(monitor, *lookups(30))
        with pytest.raises(RunStopped):
            looking(client, 30)
        sent = len(client.asked)
        messages = [GOAL]
        for n in range(1, sent + 1):
            messages += [asks("lookup", f"c{n}", key="a")["choices"][0]["message"], came(f"c{n}", "no entry")]
        client.ask(*messages, user("Look in the archive instead"))

        assert sent + 1 == len(client.asked)
        assert "Look in the archive instead" == runs_of(monitor)[1].goal

    def test_the_user_is_asked(self, monitors):
        """
        With `ask` the user hears a question instead of the stop, and the model their answer.
        """
        questions = []

        def ask(question):
            questions.append(question)
            return "look in the archive"

        client = watched(monitors("enforce"), *lookups(12), ask=ask)
        looking(client, 12)

        assert "Find the ledger of March" in questions[0]
        assert any("look in the archive" in str(asked) for asked in client.asked)


class TestHostileInput:
    @pytest.mark.parametrize(
        "messages",
        [
            None,
            7,
            "hello",
            [],
            [None, 3, "hello", object()],
            [{"role": None, "content": None}],
            [{"role": "user", "content": {"deep": ["er"]}}],
            [{"role": "user", "content": "half \ud83d of a pair"}],
            [{"role": "assistant", "tool_calls": [None, {"id": 3, "function": "x"}]}],
            [{"role": "tool", "tool_call_id": 5, "content": [{"type": "image"}]}],
            [{"role": "user", "content": [None, 3, {"type": "text"}, {"type": "text", "text": 5}]}],
            [{"type": "function_call_output", "call_id": "c1", "output": object()}],
            [{"role": "user", "content": "x" * 2_000_000}],
        ],
    )
    def test_no_request_breaks_anything(self, monitor, messages):
        """
        Whatever a host sends is sent, and the host gets what came back.
        """
        client = Lookalike()
        client.chat.completions.create = lambda **_: said("done")
        monitor.wrap(client)

        for _ in range(2):
            assert said("done") == client.chat.completions.create(messages=messages, model=3)
        assert {} == monitor.status()["losses"]

    @pytest.mark.parametrize(
        "reply",
        [
            None,
            3,
            "done",
            {},
            {"choices": []},
            {"choices": [None]},
            {"choices": [{"message": None}], "usage": 3},
            {"choices": [{"message": {"content": 3, "tool_calls": "x"}}], "usage": {"prompt_tokens": True}},
            {"choices": [{"message": {"tool_calls": [{"id": None, "function": {"name": 3}}]}}]},
        ],
    )
    def test_no_reply_breaks_anything(self, monitor, reply):
        """
        Whatever comes back reaches the host as it is.
        """
        client = Lookalike()
        client.chat.completions.create = lambda **_: reply
        monitor.wrap(client)

        assert reply is client.chat.completions.create(messages=[GOAL])
        assert {} == monitor.status()["losses"]

    def test_messages_may_be_read_only_once(self, monitor):
        """
        A host that hands over an iterator sends all of it.
        """
        client = watched(monitor)
        client.chat.completions.create(messages=iter([GOAL]), model="scripted")

        assert [[GOAL]] == client.asked
        assert "user: Find the ledger of March" == stories(monitor)[0][0]

    def test_arguments_may_be_given_by_place(self, monitor):
        """
        Lookalikes that take messages by place are understood.
        """
        client = watched(monitor)
        client.chat.completions.create([GOAL], "scripted")

        assert ["user: Find the ledger of March", "model: done"] == stories(monitor)[0]

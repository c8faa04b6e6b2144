"""What is special to the client libraries: their streams, copies, raw responses and helpers.

An environment may have only one of them, so each is imported by its own tests.
"""

import asyncio
import gc

import pytest
from fake_endpoints import FakeEndpoint
from script import GOAL, Ask, Turn
from watched import events_of, guidance_of, runs_of, story

from steadyhelm import RunStopped
from steadyhelm.adapters.clients import OpenAIClientAdapter
from steadyhelm.testing.doubles import Alarm

ADD = Turn(calls=(Ask("add", {"a": 1, "b": 2}, "c1"),))
IT_IS_3 = Turn(says="It is 3.")
USER = {"role": "user", "content": GOAL}
CHAT = {"model": "gpt-scripted", "messages": [USER]}
RESPONSE = {"model": "gpt-scripted", "input": GOAL}
MESSAGE = {"model": "claude-scripted", "max_tokens": 100, "messages": [USER]}


def lookups(turns):
    """The same look-up, turn after turn."""
    return [Turn(calls=(Ask("lookup", {"key": "a"}, f"c{n}"),)) for n in range(1, turns + 1)]


@pytest.fixture
def endpoint():
    """Starts endpoints that answer by script."""
    started = []

    def start(*turns):
        started.append(FakeEndpoint(turns).__enter__())
        return started[-1]

    yield start
    for it in started:
        it.__exit__()


@pytest.fixture
def monitor(monitors):
    """One that only watches."""
    return monitors()


class TestOpenAI:
    @pytest.fixture
    def client(self, endpoint, monitor):
        """Gives watched clients of an endpoint that answers so."""
        import openai

        def make(*turns, kind=openai.OpenAI, watch=monitor, **options):
            at = f"{endpoint(*turns).url}/v1"
            return watch.wrap(kind(base_url=at, api_key="none", max_retries=0), **options)

        return make

    def test_every_kind_of_client_is_watched(self, monitor, endpoint):
        """
        Azure's client is OpenAI's with another address.
        """
        import openai

        azure = openai.AzureOpenAI(
            azure_endpoint=endpoint(IT_IS_3).url, api_key="none", api_version="2024-10-21"
        )
        monitor.wrap(azure).chat.completions.create(**CHAT)

        assert [f"user: {GOAL}", "model: It is 3."] == story(monitor)

    def test_copies_are_watched(self, client, monitor):
        """
        `with_options` makes another client: it goes on with the same conversation.
        """
        watched = client(ADD, IT_IS_3)
        reply = watched.with_options(timeout=5).chat.completions.create(**CHAT).choices[0].message
        result = {"role": "tool", "tool_call_id": "c1", "content": "3"}
        watched.copy().chat.completions.create(model="gpt-scripted", messages=[USER, reply, result])

        assert [f"user: {GOAL}", "model: ", "add(a=1, b=2) -> 3", "model: It is 3."] == story(monitor)

    def test_a_library_that_asks_again_corrects_nobody(self, client, monitors):
        """
        `instructor` sends an invalid answer back as a user message: it is recorded, and is no correction.
        """
        monitor = monitors("guide")
        wrong = Turn(says='{"name": "Bo", "age": "many"}')
        error = "1 validation error for Age\nage\n  Input should be a valid integer [type=int_type]"
        again = f"Correct your JSON ONLY RESPONSE, based on the following errors:\n{error}"
        watched, messages = client(*[wrong] * 4, IT_IS_3, watch=monitor), [USER]
        for _ in range(5):
            reply = watched.chat.completions.create(model="gpt-scripted", messages=messages)
            messages = [*messages, reply.choices[0].message, {"role": "user", "content": again}]

        told = [step for it in runs_of(monitor) for step in story(monitor, it.run_id)]
        assert 4 == told.count(f"user: {again}")
        assert [] == [it for it in monitor.store.list_incidents("agent") if it.kind == "correction"]

    def test_a_stream_is_the_librarys_own(self, client, monitor):
        """
        What `create(stream=True)` gives is a Stream like any other, and is told when it has been read.
        """
        import openai

        stream = client(IT_IS_3).chat.completions.create(**CHAT, stream=True)
        assert isinstance(stream, openai.Stream)
        assert [f"user: {GOAL}"] == story(monitor)
        said = "".join(chunk.choices[0].delta.content or "" for chunk in stream)

        assert "It is 3." == said
        assert [f"user: {GOAL}", "model: It is 3."] == story(monitor)

    def test_a_stream_that_is_closed_is_told_at_once(self, client, monitor):
        """
        Whoever leaves a stream before its end has read as much as they wanted.
        """
        with client(IT_IS_3).chat.completions.create(**CHAT, stream=True) as stream:
            next(stream), next(stream)

        assert "model: It" == story(monitor)[-1]

    def test_a_stream_that_is_dropped_is_told_with_the_next_request(self, client, monitor):
        """
        Garbage is collected at any time, so what was dropped is told when the client is used again.
        """
        watched = client(IT_IS_3, IT_IS_3)
        next(watched.chat.completions.create(**CHAT, stream=True))
        gc.collect()
        watched.chat.completions.create(model="gpt-scripted", messages=[{**USER, "content": "Hello"}])

        first, second = runs_of(monitor)
        assert [f"user: {GOAL}", "model: "] == story(monitor, first.run_id)
        assert ["user: Hello", "model: It is 3."] == story(monitor, second.run_id)

    def test_without_usage_tokens_are_estimated(self, client, monitor):
        """
        A stream tells what it took only when asked; we do not change what the host asks for.
        """
        list(client(Turn(says="word " * 80)).chat.completions.create(**CHAT, stream=True))

        (event,) = [it for it in events_of(monitor, runs_of(monitor)[0].run_id) if it.output_data]
        assert 90 <= event.token_count <= 120

    def test_raw_responses_are_read_when_the_host_opens_them(self, client, monitor):
        """
        `with_raw_response` gives headers and all; the reply is told when it is parsed.
        """
        raw = client(IT_IS_3).chat.completions.with_raw_response.create(**CHAT)
        assert 200 == raw.status_code
        assert "It is 3." == raw.parse().choices[0].message.content

        assert [f"user: {GOAL}", "model: It is 3."] == story(monitor)

    def test_raw_responses_made_before_are_watched_too(self, endpoint, monitor):
        """
        What a host took from the client before it was watched does not go past us.
        """
        import openai

        plain = openai.OpenAI(base_url=f"{endpoint(IT_IS_3).url}/v1", api_key="none")
        assert plain.chat.completions.with_raw_response is not None
        monitor.wrap(plain).chat.completions.with_raw_response.create(**CHAT).parse()

        assert "model: It is 3." == story(monitor)[-1]

    def test_a_raw_stream_is_watched(self, client, monitor):
        """
        A raw response of a stream gives a stream that is watched.
        """
        raw = client(IT_IS_3).chat.completions.with_raw_response.create(**CHAT, stream=True)
        list(raw.parse())

        assert "model: It is 3." == story(monitor)[-1]

    def test_a_streamed_response_is_watched(self, client, monitor):
        """
        `with_streaming_response` reads the body only when it is parsed, and so do we.
        """
        with client(IT_IS_3).chat.completions.with_streaming_response.create(**CHAT) as response:
            response.parse()

        assert "model: It is 3." == story(monitor)[-1]

    def test_parsed_replies_are_seen(self, client, monitor):
        """
        `parse` asks the model by another way than `create`, and is watched all the same.
        """
        from pydantic import BaseModel

        class Total(BaseModel):
            total: int

        watched = client(Turn(says='{"total": 3}'), Turn(says='{"total": 4}'))
        chat = watched.chat.completions.parse(**CHAT, response_format=Total)
        response = watched.responses.parse(model="gpt-scripted", input="And now?", text_format=Total)

        assert (3, 4) == (chat.choices[0].message.parsed.total, response.output_parsed.total)
        assert [f"user: {GOAL}", 'model: {"total": 3}'] == story(monitor, runs_of(monitor)[0].run_id)
        assert ["user: And now?", 'model: {"total": 4}'] == story(monitor, runs_of(monitor)[1].run_id)

    def test_what_is_in_beta_is_watched_when_it_is_used(self, client, monitor):
        """
        The old way to parsed completions is watched, and not loaded before somebody takes it.
        """
        watched = client(IT_IS_3)
        watched.beta.chat.completions.create(**CHAT)

        assert "model: It is 3." == story(monitor)[-1]

    def test_unwrapped_it_is_as_it_was(self, client, monitor):
        """
        Methods, raw responses and what is in beta are the library's own again.
        """
        watched = client(*[IT_IS_3] * 4)
        assert watched.beta.chat.completions is not None
        plain = OpenAIClientAdapter.unwrap(watched)
        plain.chat.completions.create(**CHAT)
        plain.chat.completions.with_raw_response.create(**CHAT).parse()
        plain.beta.chat.completions.create(**CHAT)
        plain.with_options(timeout=5).chat.completions.create(**CHAT)

        assert [] == runs_of(monitor)
        assert "create" not in vars(plain.chat.completions)

    def test_many_at_once_do_not_mix(self, client, monitor):
        """
        Twenty conversations of one awaited client are twenty runs.
        """
        import openai

        watched = client(*[Turn(says="done")] * 20, kind=openai.AsyncOpenAI)

        async def ask(n):
            said = {"role": "user", "content": f"question {n}"}
            await watched.chat.completions.create(model="gpt-scripted", messages=[said])

        async def everybody():
            async with watched:
                await asyncio.gather(*map(ask, range(20)))

        asyncio.run(everybody())

        stories = sorted(story(monitor, run.run_id) for run in runs_of(monitor))
        assert sorted([f"user: question {n}", "model: done"] for n in range(20)) == stories

    def test_a_cancelled_request_is_left_not_failed(self, client, monitor):
        """
        Whoever takes a request back has not had a failure; the request was made all the same.
        """
        import openai

        watched = client(IT_IS_3, kind=openai.AsyncOpenAI)

        async def hurry():
            async with watched:
                asked = asyncio.ensure_future(watched.chat.completions.create(**CHAT))
                await asyncio.sleep(0)
                asked.cancel()
                await asyncio.gather(asked, return_exceptions=True)

        asyncio.run(hurry())

        assert [f"user: {GOAL}", "model: "] == story(monitor)

    def test_responses_may_carry_their_whole_conversation(self, client, monitor):
        """
        A host that sends all items each time, thoughts and all, is followed by them.
        """
        watched = client(ADD, IT_IS_3)
        items = [USER]
        items += watched.responses.create(model="gpt-scripted", input=items).output
        items.append({"type": "function_call_output", "call_id": "c1", "output": "3"})
        watched.responses.create(model="gpt-scripted", input=items)

        assert [f"user: {GOAL}", "model: ", "add(a=1, b=2) -> 3", "model: It is 3."] == story(monitor)

    def test_going_back_in_a_whole_conversation_keeps_its_rules(self, client, monitors):
        """
        What is cut out leaves no thought without what followed it, and no output without its call.
        """
        monitor = monitors("enforce", make_detectors=lambda: [Alarm(at=3)])
        watched = client(*lookups(3), IT_IS_3, watch=monitor)
        items, response = [USER], None
        while response is None or response.output[-1].type == "function_call":
            response = watched.responses.create(model="gpt-scripted", input=items)
            items += response.output
            if response.output[-1].type == "function_call":
                call_id = response.output[-1].call_id
                items.append({"type": "function_call_output", "call_id": call_id, "output": "no entry"})

        assert "It is 3." == response.output_text
        told = events_of(monitor, runs_of(monitor)[0].run_id, told=True)
        assert "rolled_back" in {event.action_name for event in told}

    def test_a_lasting_conversation_cannot_go_back(self, client, monitors):
        """
        A conversation that the model's side keeps under one name cannot be cut, and a confirmed loop ends it.
        """
        monitor = monitors("enforce", make_detectors=lambda: [Alarm(at=2)])
        watched = client(*lookups(2), IT_IS_3, watch=monitor)
        watched.responses.create(**RESPONSE, conversation="conv_1")

        def answer(n):
            output = {"type": "function_call_output", "call_id": f"c{n}", "output": "no entry"}
            watched.responses.create(model="gpt-scripted", input=[output], conversation={"id": "conv_1"})

        answer(1)
        with pytest.raises(RunStopped) as stopped:
            answer(2)

        assert "rollback" == stopped.value.decision.wanted
        assert 1 == len(runs_of(monitor))

    def test_a_response_in_the_background_is_told_when_it_is_there(self, client, monitor):
        """
        A promise is no reply: the step is told when it is fetched and finished.
        """
        watched = client(IT_IS_3)
        promise = watched.responses.create(**RESPONSE, background=True)
        assert "queued" == promise.status
        assert [f"user: {GOAL}"] == story(monitor)
        while watched.responses.retrieve(promise.id).status != "completed":
            pass
        watched.responses.retrieve(promise.id)

        assert [f"user: {GOAL}", "model: It is 3."] == story(monitor)

    def test_tools_at_the_models_side_are_seen(self, client, monitor):
        """
        A search that the model's side makes by itself is a tool call like any other.
        """
        client(Turn(says="[search] It is 3.")).responses.create(**RESPONSE)

        told = [f"user: {GOAL}", "model: [search] It is 3.", "web_search(query=ledger, type=search) -> "]
        assert told == story(monitor)

    def test_a_stop_is_raised_before_anything_is_sent(self, client, monitors):
        """
        The host's own `create` raises RunStopped, and the endpoint hears nothing of that request.
        """
        monitor = monitors("enforce")
        watched = client(*lookups(30), watch=monitor)
        messages = [USER]

        def work():
            for n in range(1, 30):
                reply = watched.chat.completions.create(model="gpt-scripted", messages=messages)
                result = {"role": "tool", "tool_call_id": f"c{n}", "content": "no entry for a"}
                messages.extend([reply.choices[0].message, result])

        with pytest.raises(RunStopped) as stopped:
            work()

        assert runs_of(monitor)[0].run_id == stopped.value.run_id
        assert len(messages) < 30


class TestAnthropic:
    @pytest.fixture
    def client(self, endpoint, monitor):
        """Gives watched clients of an endpoint that answers so."""
        import anthropic

        def make(*turns, kind=anthropic.Anthropic, watch=monitor, **options):
            return watch.wrap(kind(base_url=endpoint(*turns).url, api_key="none", max_retries=0), **options)

        return make

    def test_a_stream_of_events_is_the_librarys_own(self, client, monitor):
        """
        What `create(stream=True)` gives is a Stream like any other, and is told when it has been read.
        """
        import anthropic

        stream = client(IT_IS_3).messages.create(**MESSAGE, stream=True)
        assert isinstance(stream, anthropic.Stream)
        list(stream)

        assert [f"user: {GOAL}", "model: It is 3."] == story(monitor)

    def test_a_stream_that_is_left_is_told(self, client, monitor):
        """
        Leaving the block is leaving the reply.
        """
        with client(IT_IS_3).messages.stream(**MESSAGE) as stream:
            for text in stream.text_stream:
                assert text
                break

        assert "model: It i" == story(monitor)[-1]

    def test_a_stream_that_is_never_opened_is_no_step(self, client, monitor):
        """
        A request that was prepared and not made is not told.
        """
        watched = client(IT_IS_3)
        watched.messages.stream(**MESSAGE)
        watched.messages.create(**{**MESSAGE, "messages": [{**USER, "content": "Hello"}]})

        assert [f"user: {GOAL}"] == story(monitor, runs_of(monitor)[0].run_id)

    def test_the_stream_inside_is_the_librarys_own(self, client):
        """
        All helpers of a message stream work as they do.
        """
        import anthropic

        with client(IT_IS_3).messages.stream(**MESSAGE) as stream:
            assert isinstance(stream, anthropic.MessageStream)
            assert "It is 3." == stream.get_final_text()

    def test_raw_responses_are_read_when_the_host_opens_them(self, client, monitor):
        """
        `with_raw_response` gives headers and all; the reply is told when it is parsed.
        """
        raw = client(IT_IS_3).messages.with_raw_response.create(**MESSAGE)
        raw.parse()

        assert [f"user: {GOAL}", "model: It is 3."] == story(monitor)

    def test_awaited_raw_responses_too(self, client, monitor):
        """
        Where parsing is awaited it is told when it is done.
        """
        import anthropic

        watched = client(IT_IS_3, kind=anthropic.AsyncAnthropic)

        async def ask():
            async with watched:
                raw = await watched.messages.with_raw_response.create(**MESSAGE)
                parsed = raw.parse()
                return await parsed if asyncio.iscoroutine(parsed) else parsed

        assert "It is 3." == asyncio.run(ask()).content[0].text
        assert "model: It is 3." == story(monitor)[-1]

    def test_parsed_replies_are_seen(self, client, monitor):
        """
        `parse` is watched like `create`.
        """
        from pydantic import BaseModel

        class Total(BaseModel):
            total: int

        parsed = client(Turn(says='{"total": 3}')).messages.parse(**MESSAGE, output_format=Total)

        assert 3 == parsed.parsed_output.total
        assert 'model: {"total": 3}' == story(monitor)[-1]

    def test_words_stand_behind_the_results(self, client, monitors):
        """
        The sides take turns and results come first: words go to the end of the message that has them.
        """
        monitor = monitors("guide")
        watched = client(*lookups(4), watch=monitor)
        messages = [USER]
        for n in range(1, 6):
            reply = watched.messages.create(**{**MESSAGE, "messages": messages})
            result = {"type": "tool_result", "tool_use_id": f"c{n}", "content": "no entry for a"}
            messages += [
                {"role": "assistant", "content": reply.content},
                {"role": "user", "content": [result]},
            ]

        assert guidance_of(monitor)[0]
        assert all(1 == len(it["content"]) for it in messages[2::2])

    def test_words_stand_before_what_the_model_shall_go_on_from(self):
        """
        A reply that the host has begun itself stays last.
        """
        from steadyhelm.adapters.clients.formats import MessagesFormat

        begun = {"role": "assistant", "content": "{"}
        items = [USER, begun]
        MessagesFormat().add_guidance(items, "Look up.")

        assert begun == items[1]
        assert "Look up." == items[0]["content"][-1]["text"]
        assert GOAL == USER["content"]

    def test_a_tool_runner_is_watched(self, client, monitor):
        """
        The library's own loop over tools is seen step by step.
        """
        from anthropic import beta_tool

        @beta_tool
        def add(a: int, b: int) -> str:
            """Add two numbers."""
            return str(a + b)

        runner = client(ADD, IT_IS_3).beta.messages.tool_runner(**MESSAGE, tools=[add])
        runner.until_done()

        assert [f"user: {GOAL}", "model: ", "add(a=1, b=2) -> 3", "model: It is 3."] == story(monitor)

    def test_a_failing_tool_of_a_runner_is_a_failure(self, client, monitor):
        """
        What the runner tells the model as an error is one.
        """
        from anthropic import beta_tool

        @beta_tool
        def add(a: int, b: int) -> str:
            """Add two numbers."""
            raise ArithmeticError("no ink")

        client(ADD, IT_IS_3).beta.messages.tool_runner(**MESSAGE, tools=[add]).until_done()

        assert "add(a=1, b=2) failed" == story(monitor)[2]

    def test_tools_at_the_models_side_are_seen(self, client, monitor):
        """
        A search that the model's side makes by itself is a tool call, with what came of it.
        """
        client(Turn(says="[search] It is 3.")).messages.create(**MESSAGE)

        assert any(line.startswith("web_search(query=ledger) -> ") for line in story(monitor))

    def test_a_thread_that_the_models_side_holds_is_one_conversation(self, client, monitor):
        """
        Requests that bring only what is new belong to the message they follow.
        """
        watched = client(ADD, IT_IS_3)
        if not hasattr(watched.beta.messages, "thread"):
            pytest.skip("anthropic before 2.2 has no threads")
        thread = watched.beta.messages.thread(model="claude-scripted", max_tokens=100)
        thread.send(USER)
        result = {"type": "tool_result", "tool_use_id": "c1", "content": "3"}
        thread.send({"role": "user", "content": [result]})

        assert [f"user: {GOAL}", "model: ", "add(a=1, b=2) -> 3", "model: It is 3."] == story(monitor)

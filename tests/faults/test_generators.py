"""A watched generator is the generator itself: whatever is done to it happens inside, at the same moment."""

import asyncio
import contextlib
import functools
import gc
import inspect
import subprocess
import sys
import weakref

import pytest

from steadyhelm import DriftMonitor


@pytest.fixture
def monitor(tmp_path):
    monitor = DriftMonitor("guest", db_path=tmp_path / "guest.db")
    yield monitor
    monitor.close()


def stored(monitor, run_id):
    assert monitor.flush(60).complete
    return monitor.store.get_run_traces("guest", run_id)


class OwnError(Exception):
    """An error that a caller throws in."""


def talk(log):
    """A generator that uses all a generator can do, and notes what happens inside."""
    log.append("begun")
    try:
        heard = yield "first"
        log.append(("heard", heard))
        try:
            heard = yield "second"
            log.append(("heard", heard))
        except OwnError as exc:
            log.append(("caught", str(exc)))
            heard = yield "recovered"
            log.append(("heard", heard))
        yield "last"
        return "result"
    finally:
        log.append("cleaned up")


async def talk_async(log):
    """Do as `talk`, awaiting now and then."""
    log.append("begun")
    try:
        heard = yield "first"
        log.append(("heard", heard))
        await asyncio.sleep(0)
        try:
            heard = yield "second"
            log.append(("heard", heard))
        except OwnError as exc:
            log.append(("caught", str(exc)))
            heard = yield "recovered"
            log.append(("heard", heard))
        yield "last"
    finally:
        await asyncio.sleep(0)
        log.append("cleaned up")


def send_all(generator, log):
    """Send, throw and read to the end; return everything that came back."""
    got = [next(generator), generator.send({"a": 1}), generator.throw(OwnError("stop it"))]
    got.append(generator.send("more"))
    try:
        next(generator)
    except StopIteration as end:
        got.append(("returned", end.value))
    return got, log


def close_early(generator, log):
    got = [next(generator)]
    generator.close()
    log.append("closed")
    return [*got, inspect.getgeneratorstate(generator)], log


def throw_out(generator, log):
    next(generator)
    try:
        generator.throw(OwnError("out"))
    except OwnError as exc:
        log.append(("out", str(exc)))
    return [inspect.getgeneratorstate(generator)], log


def throw_at_once(generator, log):
    try:
        generator.throw(OwnError("before it began"))
    except OwnError as exc:
        log.append(("out", str(exc)))
    return [], log


def exit_by_throw(generator, log):
    next(generator)
    try:
        generator.throw(GeneratorExit)
    except GeneratorExit:
        log.append("exit")
    return [], log


def drop(generator, log):
    got = [next(generator)]
    del generator
    log.append("dropped")
    return got, log


def never_begin(generator, log):
    generator.close()
    return [], log


def delegate(generator, log):
    def outer():
        result = yield from generator
        log.append(("result", result))

    return list(outer()), log


def misuse(generator, log):
    try:
        generator.send("too early")
    except TypeError as exc:
        log.append(str(exc))
    return [], log


SCENES = [
    send_all, close_early, throw_out, throw_at_once, exit_by_throw, drop, never_begin, delegate, misuse,
]  # fmt: skip


class TestGenerators:
    @pytest.mark.parametrize("scene", SCENES)
    def test_it_does_what_it_does_without_us(self, monitor, scene):
        """
        Values, exceptions, the return value and the moment of every cleanup are those of the plain generator.
        """
        plain_log, watched_log = [], []

        def run(make, log):
            # The generator itself is passed on: only what plays the scene may refer to it.
            return scene(make(log), log)

        with monitor.run():
            assert run(talk, plain_log) == run(monitor.tool(talk), watched_log)

    def test_one_that_refuses_to_end(self, monitor):
        """
        A generator that yields when it is closed fails as it does without us.
        """

        @monitor.tool
        def stubborn():
            try:
                yield 1
            except GeneratorExit:
                yield 2

        with monitor.run():
            generator = stubborn()
            next(generator)
            with pytest.raises(RuntimeError, match="ignored GeneratorExit"):
                generator.close()

    def test_one_that_ends_when_it_is_closed(self, monitor):
        """
        A generator that returns when it is closed ends quietly.
        """

        @monitor.tool
        def obedient():
            try:
                yield 1
            except GeneratorExit:
                return

        with monitor.run():
            generator = obedient()
            next(generator)
            assert generator.close() is None

    def test_its_own_error_is_the_same_object(self, monitor):
        """
        What it raises is what its caller gets, with no context of ours.
        """
        problem = OwnError("inside")

        @monitor.tool
        def fails():
            yield 1
            raise problem

        with monitor.run() as run:
            generator = fails()
            next(generator)
            with pytest.raises(OwnError) as caught:
                next(generator)

        assert caught.value is problem
        assert problem.__context__ is None
        assert "OwnError: inside" == stored(monitor, run.run_id)[0].error

    def test_nothing_stays_alive(self, monitor):
        """
        What was yielded, sent and thrown is gone when its caller lets go of it, without a garbage collector.
        """

        class Held:
            pass

        @monitor.tool
        def echo():
            heard = yield Held()
            while True:
                heard = yield type(heard)

        gc.disable()
        try:
            with monitor.run():
                generator = echo()
                first = weakref.ref(next(generator))
                assert first() is None
                held = Held()
                sent = weakref.ref(held)
                generator.send(held)
                del held
                generator.send(None)
                assert sent() is None
                inner = weakref.ref(generator)
                with contextlib.suppress(OwnError):
                    generator.throw(OwnError("out"))
                del generator
                assert inner() is None
        finally:
            gc.enable()

    def test_what_it_yielded_is_recorded(self, monitor):
        """
        The parts are recorded as one text, or as a list where they are not all texts.
        """

        @monitor.tool
        def words():
            yield "forty"
            yield "-two"

        @monitor.tool
        def things():
            yield {"n": 1}
            yield "x"

        with monitor.run() as run:
            list(words())
            list(things())

        events = stored(monitor, run.run_id)
        assert [{"text": "forty-two"}, [{"n": 1}, "x"]] == [event.output_data for event in events]

    @pytest.mark.parametrize("leave", [close_early, drop, exit_by_throw])
    def test_one_that_is_left_early_is_recorded(self, monitor, leave):
        """
        A generator that is closed or dropped before its end is recorded with what flowed, and marked.
        """
        with monitor.run() as run:
            leave(monitor.tool(talk)([]), [])

        (event,) = stored(monitor, run.run_id)
        assert ({"text": "first"}, {"left_early": True}, None) == (
            event.output_data,
            event.metadata,
            event.error,
        )

    def test_one_that_returns_when_it_is_closed_is_left_early(self, monitor):
        """
        A generator that returns when it is closed is marked as well; one that was read to its end is not.
        """

        @monitor.tool
        def obedient():
            with contextlib.suppress(GeneratorExit):
                yield "part"

        with monitor.run() as run:
            generator = obedient()
            next(generator)
            generator.close()
            list(obedient())

        assert [{"left_early": True}, None] == [event.metadata for event in stored(monitor, run.run_id)]

    def test_one_that_is_left_inside_another_run_belongs_to_its_own(self, monitor):
        """
        A generator is recorded in the run in which it began.
        """
        with monitor.run() as outer:
            generator = monitor.tool(talk)([])
            next(generator)
            with monitor.run() as inner:
                generator.close()

        assert [1, 0] == [len(stored(monitor, run.run_id)) for run in (outer, inner)]

    def test_one_that_outlives_its_run_is_recorded_with_it(self, monitor):
        """
        A generator that is open when its run ends is recorded then, once, and starts no other run.
        """
        with monitor.run() as run:
            generator = monitor.tool(talk)([])
            next(generator)
        generator.close()

        (event,) = stored(monitor, run.run_id)
        assert ({"text": "first"}, {"left_early": True}) == (event.output_data, event.metadata)
        assert [run.run_id] == [it.run_id for it in monitor.store.list_runs()]


class TestAsyncGenerators:
    def both(self, monitor, scene):
        """Return what a scene leads to with the plain generator and with the watched one."""
        return [
            asyncio.run(self.play(monitor, scene, make)) for make in (talk_async, monitor.tool(talk_async))
        ]

    @staticmethod
    def list_recorded(monitor):
        """Return the result and the metadata of every event, of all runs."""
        assert monitor.flush(60).complete
        events = [it for run_id in monitor.store.get_run_ids("guest") for it in stored(monitor, run_id)]
        return [(event.output_data, event.metadata) for event in events]

    @staticmethod
    async def play(monitor, scene, make):
        log = []
        async with monitor.run():
            got = await scene(make(log), log)
        return got, log

    def test_sent_and_thrown(self, monitor):
        """
        Values that are sent and exceptions that are thrown in arrive inside.
        """

        async def scene(generator, log):
            got = [await anext(generator), await generator.asend({"a": 1})]
            got += [await generator.athrow(OwnError("stop it")), await generator.asend("more")]
            got.append(await anext(generator, "over"))
            return got

        plain, watched = self.both(monitor, scene)

        assert plain == watched

    def test_closed(self, monitor):
        """
        Its cleanup has run when `aclose` returns.
        """

        async def scene(generator, log):
            got = [await anext(generator)]
            await generator.aclose()
            log.append("closed")
            return got

        plain, watched = self.both(monitor, scene)

        assert plain == watched
        assert ["begun", "cleaned up", "closed"] == watched[1]
        assert [({"text": "first"}, {"left_early": True})] == self.list_recorded(monitor)

    def test_thrown_out(self, monitor):
        """
        An exception that it does not catch comes out, after its cleanup.
        """

        async def scene(generator, log):
            await anext(generator)
            try:
                await generator.athrow(OwnError("out"))
            except OwnError:
                log.append("out")
            return []

        plain, watched = self.both(monitor, scene)

        assert plain == watched

    def test_left_early(self, monitor):
        """
        One that is left in the middle is cleaned up by the event loop, once.
        """

        async def scene(generator, log):
            got = []
            async for part in generator:
                got.append(part)
                break
            return got

        plain, watched = self.both(monitor, scene)
        gc.collect()

        assert plain == watched
        assert [({"text": "first"}, {"left_early": True})] == self.list_recorded(monitor)

    def test_cancelled(self, monitor):
        """
        A task that is cancelled while it waits for the next part cancels the generator inside.
        """

        async def slow(log):
            try:
                yield 1
                log.append("waits")
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                log.append("cancelled")
                raise

        async def scene(make):
            log = []

            async def read():
                async for _ in make(log):
                    pass

            task = asyncio.create_task(read())
            while not log:  # noqa: ASYNC110 - nothing else says that it waits
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return log

        async def both():
            async with monitor.run():
                return [await scene(make) for make in (slow, monitor.tool(slow))]

        assert [["waits", "cancelled"]] * 2 == asyncio.run(both())

    def test_a_loop_that_ends_reports_no_error(self, monitor):
        """
        A generator that is open when the loop ends is closed once, and the loop reports no error.
        """
        complaints, log = [], []

        async def leave_open():
            asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
            async with monitor.run():
                generator = monitor.tool(talk_async)(log)
                await anext(generator)
                kept.append(generator)

        kept = []
        asyncio.run(leave_open())

        assert [] == complaints
        assert ["begun", "cleaned up"] == log

    def test_what_it_yielded_is_recorded(self, monitor):
        """
        The parts are recorded when it ends.
        """

        @monitor.tool
        async def words():
            yield "forty"
            yield "-two"

        async def read():
            async with monitor.run() as run:
                assert ["forty", "-two"] == [part async for part in words()]
            return run.run_id

        assert {"text": "forty-two"} == stored(monitor, asyncio.run(read()))[0].output_data


class TestCallables:
    def test_methods_of_every_kind(self, monitor):
        """
        Static methods and class methods are watched above and below their decorators.
        """

        class Box:
            @monitor.tool
            @staticmethod
            def one(n):
                return n

            @staticmethod
            @monitor.tool
            def two(n):
                return n

            @monitor.tool
            @classmethod
            def three(cls, n):
                return (cls, n)

            @classmethod
            @monitor.tool
            def four(cls, n):
                return (cls, n)

            @monitor.tool
            def five(self, n):
                return (type(self), n)

            @monitor.tool
            async def six(self, n):
                return n

        with monitor.run() as run:
            assert (1, 1, 2) == (Box.one(1), Box().one(1), Box.two(2))
            assert [(Box, 3), (Box, 4), (Box, 5)] == [Box.three(3), Box().four(4), Box().five(5)]
            assert 6 == asyncio.run(Box().six(6))

        events = stored(monitor, run.run_id)
        assert ["one", "one", "two", "three", "four", "five"] == [event.action_name for event in events][:6]
        assert [{"n": n} for n in (1, 1, 2, 3, 4, 5)] == [event.input_data for event in events][:6]

    def test_other_callables(self, monitor):
        """
        Partial functions, objects that are called, classes and built-in functions work as they do without us.
        """

        class Adder:
            def __call__(self, a, b):
                return a + b

        class AsyncAdder:
            async def __call__(self, a, b):
                return a + b

        with monitor.run() as run:
            assert 5 == monitor.tool(functools.partial(Adder(), 2))(3)
            assert 5 == monitor.tool(Adder())(2, b=3)
            assert 5 == asyncio.run(monitor.tool(AsyncAdder())(2, 3))
            assert 3 == monitor.tool(len)("abc")
            assert "ab" == monitor.tool("a".__add__)("b")

        names = [event.action_name for event in stored(monitor, run.run_id)]
        assert ["Adder", "Adder", "len", "__add__"] == [name for name in names if name != "AsyncAdder"]

    def test_what_can_be_asked_of_a_function(self, monitor):
        """
        Name, documentation, signature and kind of a function stay what they were.
        """

        def plain(a, b=1):
            """Plain."""

        async def coroutine(a):
            """Coroutine."""

        for function in (plain, coroutine, talk, talk_async):
            watched = monitor.tool(function)
            assert (function.__name__, function.__doc__) == (watched.__name__, watched.__doc__)
            assert inspect.signature(function) == inspect.signature(watched)
            for is_kind in (
                inspect.iscoroutinefunction,
                inspect.isgeneratorfunction,
                inspect.isasyncgenfunction,
                inspect.isfunction,
            ):
                assert is_kind(function) == is_kind(watched)

    def test_the_cache_of_a_function(self, monitor):
        """
        The cache of a watched function is read and cleared as without us.
        """
        watched = monitor.tool(functools.lru_cache(maxsize=8)(abs))
        with monitor.run():
            assert [3, 3, 4] == [watched(-3), watched(-3), watched(-4)]

        assert (1, 2, 8) == watched.cache_info()[:3]
        watched.cache_clear()
        assert 0 == watched.cache_info().currsize

    @pytest.mark.parametrize(
        "kind", [SystemExit, KeyboardInterrupt, StopIteration, asyncio.CancelledError, OwnError]
    )
    def test_what_a_tool_raises_passes_unchanged(self, monitor, kind):
        """
        A tool's own exception reaches its caller, whatever it is.
        """
        problem = kind("mine")

        @monitor.tool
        def fails():
            raise problem

        with monitor.run() as run, pytest.raises(kind) as caught:
            fails()

        assert caught.value is problem
        assert 1 == len(stored(monitor, run.run_id))


STREAM = """
import resource, sys
from steadyhelm import DriftMonitor

monitor = DriftMonitor("guest", db_path=sys.argv[1])

@monitor.tool
def stream():
    for n in range(300):
        yield {part}

class Agent:
    def stream(self, given):
        for n in range(300):
            yield {part}

def most():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

with monitor.run():
    for part in stream():
        del part
        break
    before = most()
    for part in stream():
        del part
    for part in monitor.wrap(Agent()).stream("go"):
        del part
print(most() - before)
"""


class TestMemory:
    @pytest.mark.parametrize("part", ["'x' * 1_000_000", "bytes(1_000_000)", "['x' * 1_000_000]"])
    def test_a_long_stream_is_not_kept(self, tmp_path, part):
        """
        A stream of 300 MB through a watched function and a watched object takes a few megabytes.
        """
        script = STREAM.replace("{part}", part)
        done = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path / "guest.db")],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )

        assert int(done.stdout) < 40

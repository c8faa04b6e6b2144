import asyncio
import contextvars
import gc
import threading

import pytest

from steadyhelm.boundary.entry_points import WatchedCall, pull, watch_stream, watch_stream_async

inside = contextvars.ContextVar("inside", default=False)


class Call:
    """A watched call that keeps what it is finished with."""

    def __init__(self, raised=None):
        self.finished = []
        self.done = threading.Event()
        self.raised = raised

    def activate(self):
        return Inside()

    def finish(self, result, error):
        self.finished.append((result, type(error)))
        self.done.set()
        return self.raised or error


class Inside:
    """A block in which `inside` is set."""

    def __enter__(self):
        self.token = inside.set(True)

    def __exit__(self, *_):
        inside.reset(self.token)


def watched(call, parts, **options):
    return watch_stream(WatchedCall(activate=call.activate, finish=call.finish, **options), parts)


def watched_async(call, parts):
    return watch_stream_async(WatchedCall(activate=call.activate, finish=call.finish), parts)


class Parts:
    """A stream of three parts that may fail, and knows whether it was closed."""

    def __init__(self, fails=False):
        self.left = ["a", "b", "c"]
        self.fails = fails
        self.closed = 0
        self.was_inside = []

    def __iter__(self):
        return self

    def __next__(self):
        self.was_inside.append(inside.get())
        if self.fails and len(self.left) == 1:
            raise OSError("cut off")
        if not self.left:
            raise StopIteration
        return self.left.pop(0)

    def __aiter__(self):
        return self

    async def __anext__(self):
        try:
            return next(self)
        except StopIteration:
            raise StopAsyncIteration from None

    def close(self):
        self.closed += 1

    async def aclose(self):
        self.closed += 1


class TestWatchStream:
    def test_used_up(self):
        """
        A stream that is read to its end finishes the call with all its parts; text is one text.
        """
        call = Call()

        assert ["a", "b", "c"] == list(watched(call, Parts()))
        assert [("abc", type(None))] == call.finished

    def test_parts_that_nobody_wants_are_not_kept(self):
        """
        Where `finish` has no use for the parts they are not collected.
        """
        call = Call()
        list(watched(call, Parts(), keeps_parts=False))

        assert [([], type(None))] == call.finished

    def test_only_the_agents_steps_are_inside(self):
        """
        Each part is fetched inside the block; what the reader does in between is outside.
        """
        parts = Parts()

        assert [False, False, False] == [inside.get() for _ in watched(Call(), parts)]
        assert all(parts.was_inside)

    def test_closed(self):
        """
        A stream that its reader closes is closed itself, and finishes the call.
        """
        call, parts = Call(), Parts()
        stream = watched(call, parts)
        next(stream)
        stream.close()

        assert (1, [("a", GeneratorExit)]) == (parts.closed, call.finished)

    def test_failed(self):
        """
        The stream's own error passes through, and the call is finished with it.
        """
        call = Call()
        with pytest.raises(OSError, match="cut off"):
            list(watched(call, Parts(fails=True)))

        assert [("ab", OSError)] == call.finished

    def test_what_finish_returns_is_raised(self):
        """
        A stop reaches the reader in place of what the framework made of it.
        """
        with pytest.raises(LookupError) as raised:
            list(watched(Call(raised=LookupError("stopped")), Parts(fails=True)))

        assert isinstance(raised.value.__cause__, OSError)

    def test_dropped_half_read(self):
        """
        A stream that nobody holds any more finishes the call.
        """
        call = Call()
        stream = watched(call, Parts())
        next(stream)
        del stream
        gc.collect()

        assert call.done.wait(60)
        assert [("a", GeneratorExit)] == call.finished

    def test_dropped_unread(self):
        """
        A stream of which nobody read a part finishes the call too.
        """
        call = Call()
        watched(call, Parts())
        gc.collect()

        assert call.done.wait(60)
        assert [(None, GeneratorExit)] == call.finished


class TestWatchStreamAsync:
    def test_used_up(self):
        """
        A stream that is read to its end finishes the call with all its parts.
        """
        call = Call()

        async def read():
            return [part async for part in watched_async(call, Parts())]

        assert ["a", "b", "c"] == asyncio.run(read())
        assert [("abc", type(None))] == call.finished

    def test_closed(self):
        """
        A stream that its reader closes is closed itself, and finishes the call.
        """
        call, parts = Call(), Parts()

        async def read():
            stream = watched_async(call, parts)
            await anext(stream)
            await stream.aclose()

        asyncio.run(read())
        assert (1, [("a", GeneratorExit)]) == (parts.closed, call.finished)

    def test_failed(self):
        """
        The stream's own error passes through, and the call is finished with it.
        """
        call = Call()

        async def read():
            return [part async for part in watched_async(call, Parts(fails=True))]

        with pytest.raises(OSError, match="cut off"):
            asyncio.run(read())
        assert [("ab", OSError)] == call.finished

    def test_dropped_half_read(self):
        """
        A stream that nobody holds any more finishes the call, at the latest when its loop ends.
        """
        call = Call()

        async def read():
            await anext(watched_async(call, Parts()))

        asyncio.run(read())
        assert [("a", True)] == [
            (result, issubclass(kind, GeneratorExit | asyncio.CancelledError))
            for result, kind in call.finished
        ]

    def test_dropped_unread(self):
        """
        A stream of which nobody read a part finishes the call too.
        """
        call = Call()
        watched_async(call, Parts())
        gc.collect()

        assert call.done.wait(60)
        assert [(None, GeneratorExit)] == call.finished


def test_pull_leaves_a_used_up_stream_as_it_is():
    """
    Only a stream that is left early is closed.
    """
    parts = Parts()
    list(pull(Inside, parts))

    assert 0 == parts.closed

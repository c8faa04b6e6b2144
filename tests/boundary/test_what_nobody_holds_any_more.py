import gc
import threading

from steadyhelm.boundary.entry_points import on_garbage_collected


class Stream:
    """Something that can be dropped, and that holds itself."""

    def __init__(self):
        self.itself = self


class TestWhenDropped:
    def test_it_is_told_on_a_thread_of_its_own(self):
        """
        The collector may be at work where a lock is held: whoever is told can wait for that lock.
        """
        lock, told = threading.Lock(), threading.Event()

        def then():
            with lock:
                told.set()

        on_garbage_collected(Stream(), then)
        with lock:
            gc.collect()
        assert told.wait(60)

    def test_what_is_held_is_not_told_of(self):
        """
        As long as anybody holds it nothing is told.
        """
        told = threading.Event()
        stream = Stream()
        dropped = on_garbage_collected(stream, told.set)
        gc.collect()
        assert dropped.alive
        assert not told.is_set()

    def test_what_was_taken_back_is_not_told_of(self):
        """
        What ended in its own way has nothing more to tell.
        """
        told = threading.Event()
        dropped = on_garbage_collected(Stream(), told.set)
        assert dropped.detach() is not None
        gc.collect()
        assert not told.wait(0.05)
        assert dropped.detach() is None

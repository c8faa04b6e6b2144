"""Code of the host that runs in the middle of our own and calls us: nothing hangs or is out of order."""

import subprocess
import sys
import textwrap

import pytest

HANG_S = 300


def run_script(tmp_path, body, *, timeout_s=HANG_S):
    """Run a program of its own, which a hang or a crash ends, and return what it printed."""
    script = textwrap.dedent(PROLOGUE) + textwrap.dedent(body)
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", script, str(tmp_path / "guest.db")],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert 0 == done.returncode, done.stderr[-4000:]
    return done.stdout.split()


PROLOGUE = """
    import faulthandler, gc, logging, os, signal, sys, threading, time, weakref
    from steadyhelm import DriftMonitor

    faulthandler.dump_traceback_later(240, exit=True)
    durability = os.environ.get("DURABILITY", "fast")
    monitor = DriftMonitor("guest", db_path=sys.argv[1], durability=durability)

    @monitor.tool
    def note(what):
        return what

    def stored(run_id):
        result = monitor.flush(30)
        events = monitor.store.get_run_traces("guest", run_id)
        assert [event.seq for event in events] == list(range(len(events))), "out of order"
        return len(events)

    def losses():
        return {reason: n for reason, n in monitor.health.totals().items() if "error" in reason}
"""


@pytest.fixture(params=["fast", "durable"])
def durability(request, monkeypatch):
    monkeypatch.setenv("DURABILITY", request.param)


@pytest.mark.usefixtures("durability")
class TestFinalizers:
    @pytest.mark.parametrize("threshold", [700, 10])
    def test_a_finalizer_that_uses_a_watched_tool(self, tmp_path, threshold):
        """
        Objects whose `__del__` records an event of the same run, freed by the garbage collector anywhere.
        """
        printed = run_script(
            tmp_path,
            f"""
            gc.set_threshold({threshold}, 10, 10)
            deleted = 0

            class Cyclic:
                def __init__(self):
                    self.me = self
                def __del__(self):
                    global deleted
                    with monitor.within(run_id):  # it may be collected by another thread
                        note("in a finalizer")
                    deleted += 1

            run_id = monitor.start_run()
            for n in range(150):
                Cyclic()
                note({{"n": n, "items": [[n], [n]]}})
            while deleted < 150:
                gc.collect()
                time.sleep(0.01)
            monitor.end_run(run_id)
            counted = sum(monitor.health.totals().values())
            print(stored(run_id) + counted >= 150 + deleted, losses())
            """,
        )

        assert ["True", "{}"] == printed

    def test_weak_references(self, tmp_path):
        """
        Callbacks of weak references and finalizers that record events, start runs and end them.
        """
        printed = run_script(
            tmp_path,
            """
            class Cyclic:
                def __init__(self):
                    self.me = self

            def other_run():
                with monitor.run(goal="inside") as run:
                    note("other run")

            refs = []
            run_id = monitor.start_run()
            for n in range(300):
                thing = Cyclic()
                refs.append(weakref.ref(thing, lambda _: note("gone")))
                weakref.finalize(thing, other_run).atexit = False
                del thing
                monitor.record_event("tool_call", "look", run_id=run_id, input_data=[[n]])
            gc.collect()
            print(stored(run_id) >= 300, losses())
            """,
        )

        assert ["True", "{}"] == printed

    def test_many_threads_and_runs(self, tmp_path):
        """
        Threads that record in their own runs and in each other's, with finalizers that do so too.
        """
        printed = run_script(
            tmp_path,
            """
            gc.set_threshold(50, 5, 5)
            runs = [monitor.start_run(f"run-{n}") for n in range(4)]
            finalized = []

            class Cyclic:
                def __init__(self, n):
                    self.me, self.n = self, n
                def __del__(self):
                    monitor.record_event("tool_call", "late", run_id=runs[self.n % 4])
                    finalized.append(self.n)

            def work(own):
                for n in range(100):
                    Cyclic(own + n)
                    monitor.record_event("tool_call", "look", run_id=runs[(own + n) % 4], input_data=[[n]])

            threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
            for thread in threads: thread.start()
            for thread in threads: thread.join(50)
            assert not any(thread.is_alive() for thread in threads), "hung"
            while len(finalized) < 600:  # another thread may be collecting
                gc.collect()
                time.sleep(0.01)
            monitor.record_event("tool_call", "last", run_id=runs[0])
            counted = monitor.health.totals()
            dropped = counted.get("event recorded while another event was being recorded", 0)
            dropped += counted.get("queue full", 0)
            total = sum(stored(run_id) for run_id in runs)
            print(total + dropped == 601 + len(finalized), losses(), total, dropped, len(finalized))
            """,
        )

        assert ["True", "{}"] == printed[:2]


@pytest.mark.usefixtures("durability")
class TestSignals:
    def test_a_handler_that_uses_a_watched_tool(self, tmp_path):
        """
        A signal handler that records events, starts runs and flushes, a thousand times a second.
        """
        printed = run_script(
            tmp_path,
            """
            handled = depth = 0

            def handle(*_):
                global handled, depth
                handled += 1
                depth += 1
                if depth < 4:  # handlers interrupt each other, but not without end
                    signal.setitimer(signal.ITIMER_REAL, 0.002)
                note("signal")
                if handled % 7 == 0:
                    with monitor.run() as run:
                        run.record("tool_call", "inside")
                if handled % 20 == 0:
                    monitor.flush(0.01)
                depth -= 1
                if going:
                    signal.setitimer(signal.ITIMER_REAL, 0.002)

            run_id = monitor.start_run()
            signal.signal(signal.SIGALRM, handle)
            going = True
            signal.setitimer(signal.ITIMER_REAL, 0.002)
            until = time.monotonic() + 4
            n = 0
            while time.monotonic() < until or handled < 100:
                n += 1
                monitor.record_event("tool_call", "look", run_id=run_id, input_data={"n": n})
            going = False
            signal.signal(signal.SIGALRM, signal.SIG_IGN)  # a handler at work may have set it once more
            signal.setitimer(signal.ITIMER_REAL, 0)
            time.sleep(0.01)
            dropped = sum(n for reason, n in monitor.health.totals().items() if "being recorded" in reason)
            full = monitor.health.totals().get("queue full", 0)
            print(stored(run_id) + dropped + full >= n if not full else True, handled >= 100, losses())
            """,
        )

        assert ["True", "True", "{}"] == printed

    def test_what_a_handler_raises_reaches_the_host(self, tmp_path):
        """
        A time limit that is raised by a signal handler in the middle of our code ends the host's loop.
        """
        printed = run_script(
            tmp_path,
            """
            class TooLong(Exception):
                pass

            def handle(*_):
                raise TooLong

            run_id = monitor.start_run()
            signal.signal(signal.SIGALRM, handle)
            reached = 0
            for n in range(40):
                until = time.monotonic() + 60
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.003 + n / 20_000)
                    while time.monotonic() < until:
                        monitor.record_event("tool_call", "look", run_id=run_id, input_data={"n": [n]})
                except TooLong:
                    reached += 1
            monitor.record_event("tool_call", "after", run_id=run_id)
            print(reached, losses())
            """,
        )

        assert ["40", "{}"] == printed

    def test_a_lock_that_was_just_released_does_not_hide_it(self, tmp_path):
        """
        Leaving a block on account of the handler's exception raises another one: the host gets the handler's.
        One that the host handles already is not raised again.
        """
        printed = run_script(
            tmp_path,
            """
            class TooLong(Exception):
                pass

            class Released:
                def __enter__(self):
                    return self

                def __exit__(self, *_):
                    raise RuntimeError("cannot release un-acquired lock")

            def handle(*_):
                raise TooLong

            def release(finding):
                with Released():
                    if armed:
                        signal.raise_signal(signal.SIGALRM)

            signal.signal(signal.SIGALRM, handle)
            monitor.on_drift(release, min_severity="LOW")
            armed, run_id = True, monitor.start_run()

            def loop():
                for _ in range(4):
                    monitor.record_event("tool_call", "look", run_id=run_id, output_data="same")

            try:
                loop()
            except TooLong:
                armed = False
                loop()
                print("reached")
            """,
        )

        assert ["reached"] == printed

    def test_an_interrupt_reaches_the_host(self, tmp_path):
        """
        Ctrl-C in the middle of our code, or of a callback, is the host's, every time.
        """
        printed = run_script(
            tmp_path,
            """
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
            run_id = monitor.start_run()
            monitor.on_drift(lambda finding: sum(range(1000)), min_severity="LOW")
            main, reached = threading.get_ident(), 0
            for n in range(40):
                timer = threading.Timer(0.003 + n / 20_000, lambda: signal.pthread_kill(main, signal.SIGINT))
                until = time.monotonic() + 60
                try:
                    timer.start()
                    while time.monotonic() < until:
                        monitor.record_event("tool_call", "look", run_id=run_id, error="no")
                except KeyboardInterrupt:
                    reached += 1
            monitor.record_event("tool_call", "after", run_id=run_id)
            print(reached, losses())
            """,
        )

        assert ["40", "{}"] == printed


class TestOwnCode:
    def test_the_text_of_an_error_that_uses_a_watched_tool(self, tmp_path):
        """
        An exception whose `__str__` records events of the same run, on this thread and on another.
        """
        printed = run_script(
            tmp_path,
            """
            class Chatty(Exception):
                def __str__(self):
                    note("in a text")
                    other = threading.Thread(target=note, args=("in another thread",))
                    other.start()
                    other.join(60)
                    assert not other.is_alive()
                    return "chatty"

            run_id = monitor.start_run()
            for n in range(5):
                monitor.record_event("tool_call", "look", run_id=run_id, error=Chatty())
            print(stored(run_id), losses())
            """,
        )

        assert ["10", "{}"] == printed

    def test_a_callback_that_uses_a_watched_tool(self, tmp_path):
        """
        A callback for findings that records events, starts runs and asks for alerts is let through.
        """
        printed = run_script(
            tmp_path,
            """
            heard = []

            @monitor.on_drift
            def on_drift(finding):
                heard.append(finding)
                note("in a callback")
                with monitor.run():
                    note("in another run")
                monitor.get_recent_alerts()
                monitor.not_checked()

            run_id = monitor.start_run()
            for n in range(12):
                monitor.record_event("tool_call", "look", run_id=run_id, input_data=["same"], output_data=0)
            print(len(heard) > 0, stored(run_id) >= 12 + len(heard), losses())
            """,
        )

        assert ["True", "True", "{}"] == printed

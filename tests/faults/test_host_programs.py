"""Small programs of hosts in trouble: each goes on undisturbed, and what it recorded is stored or counted."""

import os
import subprocess
import sys
import textwrap

import pytest
from fault_tools import Account, adopt, with_tools

BEGIN = """
import os, signal, sys, threading, time
from steadyhelm import DriftMonitor
DATABASE = sys.argv[1]
recorded = 0

def make(database=DATABASE, **options):
    return DriftMonitor("agent", db_path=database, **options)

def record(monitor, *call, **data):
    global recorded
    recorded += 1
    return monitor.record_event(*(call or ("tool_call", "search")), **data)
"""
END = """
os.write(SAID, str(recorded).encode())
"""

PROGRAMS = {
    "a host near the end of its stack": """
        monitor = make()
        raised = []
        def descend(left):
            if left:
                return descend(left - 1)
            try:
                record(monitor)
            except RecursionError as exc:
                raised.append(exc)
        with monitor.run():
            for left in range(sys.getrecursionlimit() - 120, sys.getrecursionlimit() - 8):
                descend(left)
        monitor.close(60)
        assert not raised
    """,
    "a watched function near the end of the stack": """
        monitor = make()
        function = lambda: "done"
        watched = monitor.tool(function)
        def descend(call, left):
            return descend(call, left - 1) if left else call()
        def has_room(call, left):
            try:
                return descend(call, left) == "done"
            except RecursionError:
                return False
        with monitor.run():
            depths = range(sys.getrecursionlimit() - 60, sys.getrecursionlimit())
            room = [left for left in depths if has_room(function, left)]
            room_watched = [left for left in depths if has_room(watched, left)]
        recorded = len(room_watched)
        monitor.close(60)
        # One level for the wrapper, at most one for what comes before the call.
        assert len(room) - len(room_watched) <= 2, (len(room), len(room_watched))
    """,
    "a watched generator near the end of the stack": """
        monitor = make()
        def generate():
            yield 1
            yield 2
        watched = monitor.tool(generate)
        def descend(call, left):
            return descend(call, left - 1) if left else list(call())
        def has_room(call, left):
            try:
                return descend(call, left) == [1, 2]
            except RecursionError:
                return False
        with monitor.run():
            depths = range(sys.getrecursionlimit() - 60, sys.getrecursionlimit())
            room = [left for left in depths if has_room(generate, left)]
            room_watched = [left for left in depths if has_room(watched, left)]
        recorded = len(room_watched)
        monitor.close(60)
        assert len(room) - len(room_watched) <= 4, (len(room), len(room_watched))
    """,
    "a host that manages its runs near the end of the stack": """
        monitor = make()
        calls = [
            lambda: monitor.start_run(), lambda: monitor.start_run("named"), lambda: monitor.end_run(),
            lambda: monitor.suspend(), lambda: monitor.run().__enter__(), lambda: monitor.guidance(),
        ]
        reports = [
            lambda: monitor.progress(0.5), lambda: monitor.call_refused("search"),
            lambda: monitor.checkpoint(),
        ]
        def descend(call, left):
            return descend(call, left - 1) if left else call()
        def has_room(call, left):
            try:
                descend(call, left)
            except RecursionError:
                return False
            return True
        for call in (*calls, *reports):
            monitor.start_run()
            for left in range(sys.getrecursionlimit() - 120, sys.getrecursionlimit() - 8):
                # The call itself takes a level, and its handler of the error one more.
                if has_room(lambda: (lambda: len(""))(), left):
                    assert has_room(call, left), left
                    recorded += call in reports
        monitor.close(60)
    """,
    "a host without a free file handle": """
        import resource
        monitor = make()
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, limits[1]))
        taken = []
        try:
            while True:
                taken.append(open("/dev/null"))
        except OSError:
            pass
        make(DATABASE + ".other").close()
        with monitor.run():
            for _ in range(50):
                record(monitor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        monitor.close(60)
    """,
    "a host whose files may not grow": """
        import resource
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        monitor = make()
        assert monitor.flush(60).complete
        resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(DATABASE), resource.RLIM_INFINITY))
        with monitor.run():
            for _ in range(300):
                record(monitor, output_data="x" * 2000)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        monitor.close(60)
    """,
    "a host in a folder that is deleted": """
        os.chdir(os.path.dirname(DATABASE))
        monitor = make(os.path.basename(DATABASE))
        os.mkdir("gone")
        os.chdir("gone")
        os.rmdir(os.getcwd())
        with monitor.run():
            for _ in range(20):
                record(monitor)
        monitor.close(60)
    """,
    "a host that traces itself with a watched tool": """
        monitor, is_inside = make(), False
        def trace(frame, event, _):
            global is_inside
            if not is_inside and recorded < 200:
                is_inside = True
                record(monitor, "tool_call", "traced")
                is_inside = False
            return trace
        with monitor.run():
            sys.settrace(trace)
            for _ in range(10):
                record(monitor)
            sys.settrace(None)
        monitor.close(60)
    """,
    "a host whose garbage collector records": """
        import gc
        monitor = make()
        gc.callbacks.append(lambda *_: record(monitor) if recorded < 1000 else None)
        gc.set_threshold(5, 2, 2)
        with monitor.run():
            for _ in range(100):
                record(monitor, input_data=[{} for _ in range(20)])
        gc.callbacks.clear()
        monitor.close(60)
    """,
    "a host that forgets our modules": """
        monitor = make()
        with monitor.run():
            record(monitor)
            for name in list(sys.modules):
                if name.partition(".")[0] in ("steadyhelm", "sqlite3", "msgspec"):
                    del sys.modules[name]
            for _ in range(30):
                record(monitor, input_data={"password": "hunter2"}, output_data=1)
        monitor.close(60)
    """,
    "a host whose clocks and ids are broken": """
        import random, uuid
        monitor = make()
        def fail(*_):
            raise RuntimeError("broken")
        with monitor.run():
            for module, name in ((time, "time"), (time, "monotonic"), (random, "random"), (uuid, "uuid4")):
                kept = getattr(module, name)
                setattr(module, name, fail)
                record(monitor)
                setattr(module, name, kept)
        monitor.close(60)
    """,
    "a host without standard streams": """
        monitor = make()
        sys.stdout = sys.stderr = None
        os.close(1), os.close(2)
        with monitor.run():
            for _ in range(40):
                record(monitor, input_data=1, output_data="same")
        monitor.close(60)
    """,
    "a host that leaves its runs in the wrong order": """
        monitor = make()
        first, second = monitor.run(run_id="first"), monitor.run(run_id="second")
        first.__enter__(), second.__enter__()
        record(monitor)
        first.__exit__(None, None, None)
        record(monitor)
        second.__exit__(None, None, None)
        monitor.close(60)
    """,
    "a host that starts programs while threads record": """
        monitor = make()
        def work():
            with monitor.run():
                for _ in range(100):
                    record(monitor)
                    time.sleep(0.001)
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(10):
            child = os.fork()
            if child == 0:
                os.execv(sys.executable, [sys.executable, "-c", ""])
            os.waitpid(child, 0)
        for thread in threads:
            thread.join()
        monitor.close(60)
    """,
    "a host that may not look into its home": """
        make().close()  # what it imports later is in a folder that it may not read either
        os.setuid(65534)
        os.environ["HOME"] = os.path.dirname(DATABASE) + "/home"
        monitor = make(None)
        with monitor.run():
            for _ in range(20):
                monitor.record_event("tool_call", "search")
        monitor.close(1)
    """,
}


def run_host(source, database, *flags, **environment):
    """Run a program to its end; return how much it recorded."""
    hearing, saying = os.pipe()
    program = f"{BEGIN}\nSAID = {saying}\n{textwrap.dedent(source)}\n{END}"
    done = subprocess.run(
        [sys.executable, *flags, "-c", program, str(database)],
        pass_fds=[saying],
        env=with_tools() | environment,
        timeout=120,
        check=False,
        capture_output=True,
    )
    os.close(saying)
    with os.fdopen(hearing, "rb") as said:
        recorded = said.read()
    assert (0, True) == (done.returncode, recorded.isdigit()), done.stderr.decode("utf-8", "replace")
    return int(recorded)


@pytest.mark.sqlite
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_goes_on_and_everything_is_accounted_for(tmp_path, name):
    """
    Nothing is raised into the program, and each of its events is stored or counted.
    """
    if "home" in name:
        if os.getuid():
            pytest.skip("needs the right to become another user")
        (tmp_path / "home").mkdir(mode=0o700)
        tmp_path.chmod(0o777)
    database = tmp_path / "steadyhelm.db"

    recorded = run_host(PROGRAMS[name], database)

    adopt(database)
    account = Account(database)
    assert [] == account.faults
    assert account.stored <= recorded <= account.stored + sum(account.losses.values())


@pytest.mark.sqlite
def test_a_name_that_the_locale_cannot_write(tmp_path):
    """
    Where the locale has no sign for a letter of the database's name, nothing is kept, and nothing is raised.
    """
    program = """
        monitor = make(os.path.dirname(DATABASE) + "/d\\u00e4ten.db")
        with monitor.run():
            record(monitor)
        monitor.close(1)
    """
    environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

    assert 1 == run_host(program, tmp_path / "steadyhelm.db", **environment)


@pytest.mark.sqlite
def test_a_host_that_takes_warnings_for_errors(tmp_path):
    """
    No warning of ours becomes an error of the host, also where generators are left.
    """
    program = """
        import asyncio
        monitor = make()
        @monitor.tool
        async def parts():
            yield 1
        async def use():
            async with monitor.run():
                async for _ in parts():
                    break
        asyncio.run(use())
        recorded = 1
        monitor.close(60)
    """
    database = tmp_path / "steadyhelm.db"

    recorded = run_host(program, database, "-W", "error", "-X", "dev")

    assert recorded == Account(database).stored

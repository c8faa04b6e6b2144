"""Record runs with the real monitor, and run a real server over them."""

import threading
import time
from contextlib import contextmanager

import httpx
import uvicorn

from steadyhelm.server import running
from steadyhelm.server.access import Access, read_token
from steadyhelm.server.agent_views import AgentViews
from steadyhelm.server.app import Server
from steadyhelm.server.context import ServerContext
from steadyhelm.server.records.settings import SettingValue
from steadyhelm.settings import load
from steadyhelm.stores import open_store

SETTING = SettingValue(
    name="mode",
    value="observe",
    source="default",
    origin="default",
    default="observe",
    about="",
)


class SentAlert:
    """How a test alert went."""

    ok = True
    host = "hooks.example.com"
    error = ""


def record_loop(monitor, goal="mend the parser", calls=9, budget=None):
    """Record a run that reads, then makes one failing call again and again; return its id."""
    with monitor.run(goal=goal, budget=budget) as run:
        for place in range(5):
            name = f"src/part_{place}.py"
            run.record("tool_call", "read", input_data={"path": name}, output_data={"text": name * 9})
        for _ in range(calls):
            run.record(
                "tool_call",
                "test",
                input_data={"all": True},
                output_data={"text": "1 failed"},
                error="1 failed",
                token_count=50,
                cost_usd=0.01,
            )
    return run.run_id


def record_clean(monitor, goal="rename a field"):
    """Record a run in which nothing is wrong; return its id."""
    with monitor.run(goal=goal) as run:
        for place in range(4):
            name = f"src/{goal}/{place}.py"
            run.record(
                "tool_call", "read", input_data={"path": name}, output_data={"text": name}, token_count=10
            )
        run.record("llm_request", "model", output_data={"text": f"{goal}: done"}, token_count=30)
    return run.run_id


class Running:
    """A server that runs, and clients for it."""

    def __init__(self, server, access, token, port):
        self.server = server
        self.access = access
        self.token = token
        self.url = f"http://127.0.0.1:{port}"

    def client(self, **headers):
        return httpx.Client(base_url=self.url, headers=headers, timeout=60)


@contextmanager
def run_server(path, home, page=None, **settings):
    """Run a server over this store until the block ends."""
    store = open_store(path)
    token = read_token(home)
    access = Access(token, store)
    context = ServerContext(
        store=store,
        views=AgentViews(store),
        settings=load(settings).settings,
        access=access,
        list_settings=lambda: [SETTING],
        send_test=SentAlert,
        started_at=time.time(),
    )
    server = Server(context, page or {})
    listener = running.bind("127.0.0.1", 0)
    runner = uvicorn.Server(running.make_config(server))
    thread = threading.Thread(target=runner.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        while not runner.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield Running(server, access, token, listener.getsockname()[1])
    finally:
        runner.should_exit = True
        thread.join()
        listener.close()
        store.close()

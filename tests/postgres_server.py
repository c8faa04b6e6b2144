"""A real PostgreSQL server for tests: one a session, a fresh database a test.

The server runs in a temporary folder that `initdb` made, as an unprivileged user, and listens on a socket
there. Without PostgreSQL, tests that need it are skipped, unless STEADYHELM_POSTGRES is set: then a missing
program is an error. `make test-postgres` sets it, and runs the suites on PostgreSQL.
"""

import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

REQUIRED = bool(os.environ.get("STEADYHELM_POSTGRES"))
"""Whether the suites use PostgreSQL instead of SQLite, and its absence is an error."""

USER = "steadyhelm"

_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "max_wal_size": "256MB",
}


class PostgresServer:
    """A server that runs in a folder of its own.

    Args:
        folder: An empty folder with a short path, as the path of a socket is limited.
        port: A port of loopback to listen on as well; 0 for the socket alone.
        settings: Settings of the server that differ from those that make tests fast.
        access: The lines that say who may connect over loopback, and how; all may without a password.
    """

    def __init__(self, folder, *, port=0, settings=None, access=""):
        self._programs = find_programs()
        self._account = _find_account()
        self._data = folder / "data"
        self._folder = folder
        self._port = port
        self._access = access
        self._numbers = itertools.count(1)
        self._settings = {**_SETTINGS, **(settings or {})}
        self.process = None

    def start(self):
        """Create the cluster and wait until the server accepts connections."""
        if self._account is not None:
            os.chown(self._folder, self._account.pw_uid, self._account.pw_gid)
        # A collation that is not C, as most servers have: an order that relies on the default one fails.
        icu = ("--locale-provider=icu", "--icu-locale=en-US", "--locale=C.UTF-8", "--encoding=UTF8")
        self._run("initdb", "-D", self._data, "-U", USER, "--auth=trust", "--no-sync", *icu)
        if self._access:
            self.set_access(self._access)
        self.launch()

    def set_access(self, lines):
        """Say who may connect over loopback, and how; our own account may always. A reload makes it so."""
        ours = f"local all all trust\nhost all {USER} 127.0.0.1/32 trust\n"
        (self._data / "pg_hba.conf").write_text(ours + lines + "\n")

    def offer_tls(self):
        """Let the server accept encrypted connections, with a certificate of its own."""
        command = (
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=db",
        )
        files = ("-keyout", self._data / "server.key", "-out", self._data / "server.crt")
        subprocess.run([*command, *files], check=True, capture_output=True, **self._as_account())
        self.execute("ALTER SYSTEM SET ssl = on")
        self.reload()

    def reload(self):
        """Let the server read its settings again."""
        self.execute("SELECT pg_reload_conf()")

    def launch(self):
        """Start the server, or start it again, and wait until it accepts connections."""
        places = {"unix_socket_directories": str(self._folder)}
        places |= {"listen_addresses": "127.0.0.1" if self._port else ""}
        places |= {"port": str(self._port)} if self._port else {}
        options = [f"--{name}={value}" for name, value in {**self._settings, **places}.items()]
        with (self._folder / "log").open("wb") as log:
            command = [str(self._programs / "postgres"), "-D", str(self._data), *options]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, **self._as_account())
        while not self._accepts_connections():
            assert self.process.poll() is None, (self._folder / "log").read_text(errors="replace")
            time.sleep(0.02)

    def stop(self):
        """End the server, and whatever is connected to it."""
        if self.process is not None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait()

    def _accepts_connections(self):
        where = ["-h", str(self._folder), *(["-p", str(self._port)] if self._port else [])]
        asked = subprocess.run([str(self._programs / "pg_isready"), "-q", *where], check=False)
        return asked.returncode == 0

    def get_url(self, database="postgres"):
        """Return the address of a database, over the socket, or over loopback when it listens there."""
        if self._port:
            return f"postgresql://{USER}@127.0.0.1:{self._port}/{database}"
        return f"postgresql://{USER}@/{database}?host={quote(str(self._folder), safe='')}"

    @contextmanager
    def new_database(self, copy_of="template0"):
        """Create a database, empty or a copy of another one, return its address, and drop it at the end."""
        name = f"test_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {copy_of}")
        try:
            yield self.get_url(name)
        finally:
            self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def execute(self, statement):
        """Execute one statement outside of any test's database."""
        import psycopg

        with psycopg.connect(self.get_url(), autocommit=True) as connection:
            connection.execute(statement)

    @contextmanager
    def run_pooler(self, *options):
        """Run PgBouncer in front of the server; return a function from addresses to those through it."""
        folder = self._folder / "pooler"
        folder.mkdir(exist_ok=True)
        users, log = folder / "users", folder / "log"
        users.write_text(f'"{USER}" ""\n')
        settings = (
            *(f"unix_socket_dir = {folder}", "listen_port = 6432", f"logfile = {log}"),
            *("auth_type = trust", f"auth_file = {users}", *options),
        )
        lines = ("[databases]", f"* = host={self._folder}", "[pgbouncer]", *settings)
        (folder / "pooler.ini").write_text("\n".join(lines) + "\n")
        if self._account is not None:
            os.chown(folder, self._account.pw_uid, self._account.pw_gid)
        entrance = folder / ".s.PGSQL.6432"
        entrance.unlink(missing_ok=True)
        command = [find_pooler(), "-q", str(folder / "pooler.ini")]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, **self._as_account())
        try:
            while not accepts_connections(entrance):
                assert process.poll() is None, log.read_text(errors="replace")
                time.sleep(0.02)
            ours, theirs = (quote(str(it), safe="") for it in (self._folder, folder))
            yield lambda url: url.replace(f"host={ours}", f"host={theirs}&port=6432")
        finally:
            process.terminate()
            process.wait()

    def _run(self, program, *arguments):
        """Run a program of PostgreSQL to its end; what it printed is in the error when it fails."""
        command = [str(self._programs / program), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, **self._as_account())
        assert done.returncode == 0, f"{program} failed: {done.stdout}{done.stderr}"

    def _as_account(self):
        """Return the options with which a process is started as the unprivileged user, in the folder."""
        options = {"cwd": self._folder, "stdin": subprocess.DEVNULL}
        if self._account is not None:
            account = self._account
            options |= {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        return options


def accepts_connections(path):
    """Return whether somebody listens on this socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0


def find_pooler():
    """Return the path of PgBouncer; None when it is not installed."""
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")


def find_port():
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def find_programs():
    """Return the folder of PostgreSQL's programs, the newest version first; None when there is none."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: float(folder.parent.name))
    on_path = [Path(found).resolve().parent for found in [shutil.which("pg_ctl")] if found]
    return next((folder for folder in [*reversed(debian), *on_path] if (folder / "initdb").exists()), None)


def _find_account():
    """Return the account that may run the server when this process is root's; None when it is not."""
    if os.geteuid():
        return None
    import pwd

    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    return known.get("postgres") or known["nobody"]


def describe_missing():
    """Return what is missing to start a server; empty when nothing is."""
    if find_programs() is None:
        return "PostgreSQL is not installed: make test-postgres installs it"
    try:
        import psycopg  # noqa: F401 - only whether it is there
    except ImportError:
        return "psycopg is not installed: pip install 'steadyhelm[postgres]'"
    return ""


@contextmanager
def run_server(**options):
    """Run a server in a temporary folder until the block ends."""
    folder = Path(tempfile.mkdtemp(prefix="sh-pg-"))
    server = PostgresServer(folder, **options)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server():
    """A server for all tests of this process."""
    if missing := describe_missing():
        assert not REQUIRED, missing
        pytest.skip(missing)
    with run_server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server):
    """The address of an empty database."""
    with postgres_server.new_database() as url:
        yield url


@pytest.fixture(scope="session")
def postgres_template(postgres_server):
    """The name of a database with the tables of Steadyhelm: copying it is quicker than creating them."""
    from steadyhelm.stores.postgres import PostgresStore

    with postgres_server.new_database() as url:
        PostgresStore(url).close()
        yield urlsplit(url).path.strip("/")


@pytest.fixture
def make_database(request, tmp_path):
    """Make places to keep runs: SQLite files; PostgreSQL databases without runs in `make test-postgres`."""
    if not REQUIRED:
        yield lambda name="runs": tmp_path / f"{name}.db"
        return
    server, template = map(request.getfixturevalue, ("postgres_server", "postgres_template"))
    with ExitStack() as databases:
        yield lambda _name="runs": databases.enter_context(server.new_database(copy_of=template))


@pytest.fixture
def database(make_database):
    """Where a test keeps its runs."""
    return make_database()


def pytest_collection_modifyitems(items):
    """Skip what is about the other database: SQLite's files, or PostgreSQL's server."""
    other, reason = ("sqlite", "about a SQLite file") if REQUIRED else ("postgres", "about PostgreSQL")
    for item in items:
        if item.get_closest_marker(other):
            item.add_marker(pytest.mark.skip(reason=f"{reason}: make test{'' if REQUIRED else '-postgres'}"))

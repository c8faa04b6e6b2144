"""The files in `deploy`: their commands, run as plain processes on loopback."""

import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import tomllib
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
import yaml

from postgres_server import REQUIRED, describe_missing, find_port, run_server

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PASSWORD = "s3cret@/:"  # as a person may choose it: an address would need it escaped
PUBLIC_URL = "https://helm.example:7433"
AGENT = """
from steadyhelm import DriftMonitor
monitor = DriftMonitor("team-agent")
with monitor.run(goal="rename a field", run_id="job"):
    monitor.record_event("tool_call", "read", input_data={"path": "a.py"}, output_data="text")
monitor.close()
"""


@pytest.fixture(scope="module")
def compose():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]


@pytest.fixture(scope="module")
def instructions():
    """The instructions of the Dockerfile, by name."""
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    found = {}
    for line in lines:
        name, _, rest = line.partition(" ")
        if name.isupper():
            found.setdefault(name, []).append(rest)
    return found


@pytest.fixture(scope="module")
def database(compose):
    """A server with the settings of the compose file; its port is on loopback."""
    missing = describe_missing() or ("" if shutil.which("openssl") else "openssl is not installed")
    if missing:
        assert not REQUIRED, missing
        pytest.skip(missing)
    program, *options = compose["database"]["command"]
    assert "postgres" == program
    settings = dict(option.split("=") for option in options if option != "-c")
    with run_server(port=find_port(), settings=settings) as server, server.new_database() as url:
        yield server, url


@pytest.fixture
def variables(compose, database, tmp_path):
    """The environment of the page, with the address of our server in place of the container's.

    The password is in the address too, so that it would be seen wherever an address is shown.
    """
    _, url = database
    given = {
        name: value.replace("${STEADYHELM_PASSWORD}", PASSWORD).replace(
            "${STEADYHELM_PUBLIC_URL:-https://localhost:7433}", PUBLIC_URL
        )
        for name, value in compose["page"]["environment"].items()
    }
    assert "postgresql://steadyhelm@database:5432/steadyhelm" == given.pop("STEADYHELM_DB")
    assert "$" not in "".join(given.values())
    ours = url.replace("steadyhelm@", f"steadyhelm:{quote(PASSWORD, safe='')}@")
    return {**os.environ, **given, "STEADYHELM_DB": ours, "STEADYHELM_HOME": str(tmp_path / "home")}


@contextmanager
def run_page(instructions, variables, folder):
    """Run the command of the image, on loopback and with a certificate of our own."""
    certificate, key = folder / "page.crt", folder / "page.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=page"),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    (program,), command = (json.loads(instructions[name][0]) for name in ("ENTRYPOINT", "CMD"))
    places = {"0.0.0.0": "127.0.0.1", "7433": "0", "/certs/page.crt": certificate, "/certs/page.key": key}
    assert set(places) < set(command)
    arguments = [str(places.get(word, word)) for word in command]
    process = subprocess.Popen(
        [sys.executable, "-m", program, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env=variables,
    )
    try:
        said = process.stderr.readline()
        assert "Steadyhelm shows postgresql://steadyhelm@127.0.0.1" in said, said
        assert "s3cret" not in said
        yield said.split()[-1], certificate
    finally:
        process.terminate()
        process.communicate(timeout=60)


class TestCompose:
    def test_an_agent_and_the_page_share_the_database(self, instructions, compose, variables, tmp_path):
        """
        An agent that knows the address records; the page shows the run, also to people who know it by its
        public name; the check of the service succeeds.
        """
        subprocess.run([sys.executable, "-c", AGENT], env=variables, check=True)
        with run_page(instructions, variables, tmp_path) as (url, certificate):
            token = (tmp_path / "home" / "server.token").read_text().strip()
            context = ssl.create_default_context(cafile=str(certificate))
            with httpx.Client(verify=context, headers={"authorization": f"Bearer {token}"}) as client:
                assert "ok" in client.get(f"{url}healthz").text
                runs = client.get(f"{url}api/v1/runs").json()["runs"]
                by_name = client.get(f"{url}api/v1/runs", headers={"host": "helm.example:7433"})
        kind, program, *arguments = compose["page"]["healthcheck"]["test"]
        assert ("CMD", "steadyhelm") == (kind, program)
        done = subprocess.run(
            [sys.executable, "-m", program, *arguments],
            env=variables,
            check=True,
            capture_output=True,
            text=True,
        )

        assert ["job"] == [run["run_id"] for run in runs]
        assert runs == by_name.json()["runs"]
        assert "s3cret" not in done.stdout + done.stderr

    def test_the_check_of_the_database(self, compose, database):
        """
        The check of the database service is a program that comes with PostgreSQL, and succeeds.
        """
        server, _ = database
        kind, program, *arguments = compose["database"]["healthcheck"]["test"]
        assert "CMD" == kind
        where = ["-h", "127.0.0.1", "-p", str(server._port)]
        subprocess.run([server._programs / program, *arguments, *where], check=True, capture_output=True)


class TestDockerfile:
    def test_it_installs_extras_that_exist(self, instructions):
        """
        The extras that the image installs are ours.
        """
        known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        (names,) = re.findall(r"/src\[([a-z,]+)\]", " ".join(instructions["RUN"]))

        assert {"server", "postgres"} == set(names.split(",")) <= set(known)

    @pytest.mark.slow
    def test_it_copies_all_that_a_build_needs(self, instructions, tmp_path):
        """
        The files that the image copies are enough to build the package, and nothing else is sent to it.
        """
        for instruction in instructions["COPY"]:
            *sources, target = instruction.split()
            for source in sources:
                here, there = ROOT / source, tmp_path / target.lstrip("/")
                if here.is_dir():
                    shutil.copytree(here, there, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    there.mkdir(exist_ok=True)
                    shutil.copy(here, there)
        build = [sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path, tmp_path / "src"]
        subprocess.run(build, check=True, capture_output=True)

        assert 1 == len(list(tmp_path.glob("steadyhelm-*.whl")))

    def test_what_a_volume_is_mounted_on(self, instructions, compose):
        """
        The folder in which the page keeps its token is its user's own: a new volume gets the owner from it.
        """
        [place] = [it.partition(":")[2] for it in compose["page"]["volumes"] if it.startswith("page:")]
        user = instructions["USER"][-1]

        assert any(f"--owner={user}" in line and line.endswith(f" {place}") for line in instructions["RUN"])
        assert place == f"/home/{user}/.steadyhelm"

    def test_it_does_not_run_as_root(self, instructions):
        """
        The last user of the image is not root.
        """
        assert "root" != instructions["USER"][-1]

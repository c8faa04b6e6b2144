"""What healthy agents do again and again: 25 times each, and no loop detector reports it."""

import itertools

import pytest
from agent_steps import call, edit, failing, run, says, shell, user, write

from steadyhelm.baselines import BaselineStats
from steadyhelm.detectors.action_loop import ActionLoop
from steadyhelm.detectors.edit_revert import EditRevert
from steadyhelm.detectors.failing_loop import FailingLoop
from steadyhelm.detectors.repetitive_text import RepetitiveText
from steadyhelm.detectors.stagnation import Stagnation
from steadyhelm.events import RunInfo
from steadyhelm.findings import Severity

REPEATS = 25
NOUNS = (
    "harbour",
    "turbine",
    "violin",
    "glacier",
    "bakery",
    "orchard",
    "canyon",
    "furnace",
    "ledger",
    "reactor",
)
CLEAN = "On branch main\nnothing to commit, working tree clean"
ROW = '{"status": "active", "plan": "free", "seats": 1, "region": "eu", "flags": [], "balance": "0.00"}'
PROFILE = {"agent_id": "coder"}


def name(n):
    """Another name for each number."""
    return f"{NOUNS[n % 10]}-{'abcdefghijklmnopqrstuvwxyz'[n]}"


def text(n):
    """Another text for each number."""
    return f"{NOUNS[n % 10]} {n} raises the {NOUNS[(3 * n + 1) % 10]} by {7 * n + 3} percent near pier {n}."


PATTERNS = {
    # The nine of a review of healthy batches.
    "queries by id": lambda n: [
        call("run_sql", {"query": f"SELECT total FROM orders WHERE id = {1042 + n}"}, text(n)),
    ],
    "queries by id, equal rows": lambda n: [call("get_user", {"id": 7000 + 13 * n}, ROW)],
    "search by month": lambda n: [call("search", {"query": f"sales report of month {n + 1}"}, text(n))],
    "search by person": lambda n: [call("vector_search", {"query": f"review of {name(n)}", "k": 3}, text(n))],
    "downloads": lambda n: [
        call("download", {"url": f"https://x/{name(n)}"}, "saved 1 file to the downloads folder"),
    ],
    "equal status of many": lambda n: [
        call("get_status", {"host": name(n)}, "status: ok, 0 alerts, uptime normal")
    ],
    "lint and fix": lambda n: [
        call("run_lint", {"path": "."}, f"{30 - n} errors", error="exit 1"),
        shell(f"sed -i 's/{name(n)}/x/' a.py"),
    ],
    "status between reads": lambda n: [
        shell("git status", CLEAN),
        call("Read", {"file_path": f"{n}.py"}, text(n)),
    ],
    "status between upgrades": lambda n: [
        shell(f"helm upgrade {name(n)} ./charts/{name(n)}", f"Release {name(n)} has been upgraded"),
        shell("kubectl get nodes --no-headers | grep -vc Ready", "0"),
    ],
    "a bisection": lambda n: [
        shell("./smoke.sh", "upload: ok"),
        shell(
            "git bisect good",
            f"Bisecting: {400 - n} revisions left to test after this\n[{n:040x}] change {n}",
        ),
    ],
    "page of a query": lambda n: [call("search", {"query": f"open invoices page {n + 1}"}, text(n))],
    # And more.
    "acknowledged writes": lambda n: [
        call("update_record", {"id": name(n), "state": "closed"}, '{"ok": true}')
    ],
    "verdicts on files": lambda n: [call("lint", {"path": f"src/{name(n)}.py"}, "0 errors, 0 warnings")],
    "no rows for anybody": lambda n: [call("find_claims", {"customer": name(n)}, "(no rows)")],
    "names not found": lambda n: [
        call("Grep", {"pattern": f"{name(n)}{n}", "path": "src"}, "No matches found")
    ],
    "echoed verdicts": lambda n: [call("check_user", {"user": name(n)}, f"{name(n)}: active, nothing to do")],
    "searches with new results": lambda n: [
        call("web_search", {"query": f"{name(n)} prices"}, f"# Results\n{text(n)}")
    ],
    "progress in percent": lambda n: [call("get_job", {"id": 7}, f"running, {4 * n} %")],
    "progress in numbers": lambda n: [
        shell("tail -1 build.log", f"[{1000 + 17 * n}] compiled unit {1000 + 17 * n}")
    ],
    "waiting for a build": lambda n: [shell("sleep 20"), shell("gh run view 7", '{"status": "in_progress"}')],
    "a queue": lambda n: [
        call("receive_message", {"queue": "in"}, f"One message from the queue in: {text(n)} Ack it."),
    ],
    "a watch on schedule": lambda n: [
        call("probe", {"region": "eu"}, "all systems nominal", timestamp=1000.0 + 300 * n)
    ],
    "retries that succeed": lambda n: [
        failing("get", {"url": name(n)}, "503 Service Unavailable"),
        call("get", {"url": name(n)}, text(n)),
    ],
    "test, fix, test": lambda n: [
        call("run_tests", {}, f"{40 - n} failed, {60 + n} passed", error="exit 1"),
        edit("a.py", f"v{n}", f"v{n + 1}"),
    ],
    "read after edit": lambda n: [
        edit("a.py", f"v{n}", f"v{n + 1}"),
        call("Read", {"file_path": "a.py"}, text(n)),
    ],
    "a sweep": lambda n: [call("train", {"model": "m", "rate": n / 100}, "accuracy 0.72")],
    "a form row by row": lambda n: [
        call("type_text", {"field": f"row {n}", "text": name(n)}, "ok"),
        call("click", {"element": "Add row"}, "ok"),
    ],
    "a snapshot before each migration": lambda n: [
        call("restore_snapshot", {"name": "clean"}, "restored"),
        call("run_migration", {"file": f"{n:03}.sql"}, "applied"),
    ],
    "comments on one issue": lambda n: [call("add_comment", {"issue": 5, "comment": text(n)}, "ok")],
    "a task for each module": lambda n: [
        call(
            "delegate",
            {"agent": "r", "task": f"Review module {name(n)} for leaks"},
            "No leaks were found in it.",
        )
    ],
    "a new plan after each step": lambda n: [
        write(f"{name(n)}.py", text(n)),
        call(
            "TodoWrite",
            {"todos": [{"content": f"Write {it}", "status": "pending"} for it in NOUNS[:4]]},
            "ok",
        ),
    ],
    "one question after another": lambda n: [
        user(f"And what about order {n}?"),
        call("get_order", {"id": n}, "status: delivered"),
        says("The order was delivered. Can I help with anything else?"),
    ],
    "a value in two places of a command": lambda n: [
        shell(f"convert photos/{NOUNS[n % 10]}{n}.png -resize 200x200 thumbs/{NOUNS[n % 10]}{n}.png", "")
    ],
    "progress in shares of a whole": lambda n: [
        call(
            "kubectl",
            {"args": "get deployment web"},
            f"NAME READY UP-TO-DATE AVAILABLE AGE\nweb {n}/25 25 {n} {n}m",
        )
    ],
    "access checks": lambda n: [
        call("check_access", {"user": f"{name(n)}@x.example", "resource": "reports/q3"}, "allowed")
    ],
    "a batch of translations": lambda n: [
        call(
            "translate", {"key": f"menu.{n}", "text": f"Open the {name(n)} view"}, f"{name(n)}-Ansicht öffnen"
        )
    ],
    "one migration after another": lambda n: [
        shell("alembic upgrade +1", f"Running upgrade 4f{n:03}a -> 4f{n + 1:03}a, add {name(n)} table")
    ],
    "what the user asked for": lambda n: [
        *([user("Please run ./roll 25 times and count the sixes.")] if n == 0 else []),
        shell("./roll", "six"),
    ],
}


def report(trace):
    """What the loop detectors report about a run."""
    found = []
    for detector in (ActionLoop(), FailingLoop(), Stagnation(), EditRevert(), RepetitiveText()):
        detector.begin(RunInfo(agent_id="coder", run_id="run"))
        findings = (detector.check(event, BaselineStats(**PROFILE)) for event in trace)
        found += [it.message for it in findings if it is not None and it.severity is not Severity.LOW]
    return found


def test_there_are_enough():
    """
    The nine patterns of the review and more than twenty of our own.
    """
    assert len(PATTERNS) >= 29


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS.keys())
def test_left_in_peace(pattern):
    """
    None of them is reported.
    """
    steps = itertools.chain.from_iterable(pattern(n) for n in range(REPEATS))

    assert [] == report(run(*steps))

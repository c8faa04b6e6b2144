"""Every command that reads has `--json`, and prints one JSON object whose keys stay."""

import json
import shlex

import click
import pytest
import typer
from whole_program import call, healthy_line, looping_line, run_line, steadyhelm

from steadyhelm.cli.main import app
from steadyhelm.stores.sqlite import SQLiteStore
from steadyhelm.testing.store_records import a_profile

# What changes something, runs something, or writes a file format of its own.
ACTS = {
    "demo",
    "init",
    "run",
    "serve",
    "hook install",
    "hook uninstall",
    "alerts ack",
    "alerts mute",
    "alerts unmute",
    "alerts send",
    "alerts false-alarm",
    "alerts confirm",
    "alerts undo",
    "baseline freeze",
    "baseline unfreeze",
    "baseline reset",
    "baseline export",
    "baseline import",
    "budget export",
    "budget import",
    "budget grant",
    "profile new",
    "profile calibrate",
    "export",
    "replies",
    "models fetch",
    "lab import",
    "lab mutate",
    "lab splice",
    "db backup",
    "db copy",
    "db prune",
    "db delete-run",
    "db delete-agent",
    "db migrate",
    "config set",
    "config unset",
    "hook statusline",
}
# `hook` alone is the protocol of a coding agent, which is JSON already; `lab` alone prints its help.
GROUPS_WITHOUT_A_READING = {"hook", "lab"}

RUN = {"run", "children", "events", "events_left_out", "findings", "incidents", "interventions", "tools"}
INCIDENT = {"incident_id", "agent_id", "run_id", "kind", "severity", "state", "message", "muted_until"}
# By command: arguments that make it print something, and keys that its document has.
READS = {
    "scan": ("runs.jsonl", {"runs", "unreadable", "totals"}),
    "hook status": ("", {"places", "waiting", "troubles", "last_trouble"}),
    "runs": ("", {"runs"}),
    "show": ("loop-long", RUN | {"not_checked"}),
    "traces": ("researcher", {"run", "events", "events_left_out"}),
    "alerts": ("", {"incidents"}),
    "alerts list": ("", {"incidents"}),
    "alerts show": ("{incident}", INCIDENT | {"deliveries"}),
    "alerts deliveries": ("", {"deliveries"}),
    "alerts test": ("--url http://127.0.0.1:9/", {"ok", "error", "status"}),
    "interventions": ("", {"by", "since", "counted", "rows", "together"}),
    "judge": ("", {"since", "summary"}),
    "corrections": ("runs.jsonl", {"runs"}),
    "baseline": ("", {"baselines"}),
    "baseline list": ("", {"baselines"}),
    "baseline show": ("researcher", {"baselines"}),
    "budget": ("", {"profiles"}),
    "budget profiles": ("", {"profiles"}),
    "budget today": ("", {"day", "opens_at", "agents"}),
    "budget recommend": (
        "researcher refund",
        {"agent_id", "task_type", "steps", "tokens", "tasks", "reason"},
    ),
    "profile": ("", {"profiles", "faults"}),
    "profile list": ("", {"profiles", "faults"}),
    "profile show": ("strict", {"name", "threshold", "weights", "lexicons"}),
    "profile check": ("strict", {"profiles"}),
    "models": ("", {"state", "folder", "problems"}),
    "models status": ("", {"state", "folder", "problems"}),
    "models path": ("", {"path", "exists"}),
    "db": ("", {"rows", "losses", "path"}),
    "db info": ("", {"rows", "losses", "path"}),
    "db check": ("", {"sound", "faults"}),
    "db path": ("", {"path", "exists"}),
    "doctor": ("", {"ok", "checks"}),
    "config": ("", {"settings"}),
    "lab eval": ("runs.jsonl --bootstrap 5", {"sets"}),
    "lab compare": ("a.toml b.toml runs.jsonl --bootstrap 5", {"sets", "before", "after"}),
    "lab leak-check": ("runs.jsonl", {"sets"}),
    "lab simulate": ("runs.jsonl --bootstrap 5", {"is_harmless"}),
    "lab false-alarms": ("runs.jsonl", {"sets"}),
    "lab simulate-load": ("--agents 5 --rate 5 --seconds 1 --processes 1", {"recorded", "stored", "lost"}),
    "lab judge": ("runs.jsonl --oracle", {"sets", "replies", "weight"}),
}
# These take minutes, a trained model or the folder of labelled data; their documents are tested with the lab.
SLOW = {"lab train", "lab apply", "lab accuracy"}


def walk(command, words=()):
    """Yield every command and every group but the program itself, with its words."""
    if words:
        yield " ".join(words), command
    for name, inner in getattr(command, "commands", {}).items():
        yield from walk(inner, (*words, name))


TREE = dict(walk(typer.main.get_command(app)))


@pytest.fixture
def place(database, apart, monkeypatch):
    """A folder with a filled database, run files and settings files."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("HOME", str(apart))
    monkeypatch.delenv("NO_COLOR")
    correction = {"type": "user_message", "text": "no, that is still broken"}
    labels = [{"kind": "loop", "at": 3}]
    (apart / "runs.jsonl").write_text(
        looping_line(labels=labels) + healthy_line() + run_line(call(), correction, run_id="corrected")
    )
    (apart / "a.toml").write_text("")
    (apart / "b.toml").write_text("")
    store = SQLiteStore(database)
    store.save_profile(a_profile(agent_id="researcher", task_type="refund"))
    incident = store.list_incidents("researcher", "loop-long")[0].incident_id
    store.close()
    return {"database": database, "incident": incident}


def test_every_command_is_known():
    """
    A command acts, or it reads and has `--json`; one that is new is put into a list here.
    """
    groups = {name for name, command in TREE.items() if isinstance(command, click.Group)}
    told = ACTS | SLOW | set(READS) | GROUPS_WITHOUT_A_READING

    assert set(TREE) == told
    assert not ACTS & set(READS)
    assert groups - GROUPS_WITHOUT_A_READING <= set(READS)


def test_help_is_not_cut(monkeypatch):
    """
    On 80 columns the first sentence about every command is there to its end.
    """
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    groups = [(), *((name,) for name, command in TREE.items() if isinstance(command, click.Group))]

    assert [] == [
        line
        for words in groups
        for line in steadyhelm(*words, "--help").out.splitlines()
        if line.rstrip().endswith("...") and not line.startswith("Usage:")
    ]


@pytest.mark.parametrize("word", ["med", "MED", "medium", "Medium"])
def test_severities_as_people_type_them(word, place):
    """
    A severity may be typed in small or capital letters, and MED in full.
    """
    answer = steadyhelm("--db", place["database"], "alerts", "--severity", word, "--json")

    assert 3 == len(answer.document["incidents"])
    assert 3 == steadyhelm("scan", "runs.jsonl", "--fail-on", word).status


def test_an_unknown_severity(place):
    """
    Another word is a usage error that lists what may be typed.
    """
    answer = steadyhelm("scan", "runs.jsonl", "--fail-on", "grave")

    assert 2 == answer.status
    assert "'grave' is not one of low, med, high, critical." in " ".join(answer.err.split())


@pytest.mark.parametrize("name", sorted({*READS, *SLOW}))
def test_reading_has_the_option(name):
    """
    Every command that reads takes `--json`.
    """
    assert "--json" in {option for parameter in TREE[name].params for option in parameter.opts}


@pytest.mark.parametrize("name", sorted(READS))
def test_one_document(name, place):
    """
    Standard output is one JSON object with the keys it always had, and no colour even where it is forced.
    """
    arguments, keys = READS[name]
    words = shlex.split(arguments.format(**place))

    answer = steadyhelm("--db", place["database"], *name.split(), *words, "--json")

    document = json.loads(answer.out)
    assert keys <= set(document), answer.out[:500]
    assert "\x1b" not in answer.out
    assert answer.out.endswith("\n")


@pytest.mark.parametrize("name", ["runs", "alerts", "baseline", "budget", "interventions", "traces x"])
def test_an_empty_database_is_a_document_too(name, empty):
    """
    Where there is nothing to list the document is there, with an empty list; an unknown agent is an error.
    """
    if name == "traces x":
        with pytest.raises(Exception, match="There is no agent 'x'"):
            steadyhelm("--db", empty.database, "traces", "x", "--json")
        return
    document = steadyhelm("--db", empty.database, name, "--json").document

    assert [[]] == [value for value in document.values() if isinstance(value, list) and not value]


@pytest.mark.parametrize("line", ["baseline --json show x", "db --json info", "config --json unset mode"])
def test_options_before_another_command(line, database):
    """
    `--json` between a group and its command is refused: it would be ignored otherwise.
    """
    answer = steadyhelm("--db", database, *line.split())

    assert 2 == answer.status
    assert "write the options after" in answer.err


def test_scan_refuses_two_formats(place):
    """
    `--json` and another format at once are a usage error.
    """
    answer = steadyhelm("scan", "runs.jsonl", "--json", "--format", "html")

    assert (2, "") == (answer.status, answer.out)
    assert "contradict" in answer.err


def test_scan_document_names_what_was_not_read(apart):
    """
    The document of a scan has the lines that could not be read, and the totals, also with no run at all.
    """
    (apart / "broken.jsonl").write_text("{not json}\n")

    answer = steadyhelm("scan", "broken.jsonl", "--json")

    assert 1 == answer.status
    [unread] = answer.document["unreadable"]
    assert "broken.jsonl:1" == unread["where"]
    assert ([], 0, 1) == (
        answer.document["runs"],
        answer.document["totals"]["runs"],
        answer.document["totals"]["unreadable"],
    )

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from steadyhelm.cli.hook import app
from steadyhelm.hooks.settings_entries import (
    SETTINGS_PLACES,
    add_entries,
    build_hook_command,
    remove_entries,
    write_settings,
)
from steadyhelm.recordings.hook_events.dialects import AGENTS

FOREIGN = {"matcher": "Bash", "hooks": [{"type": "command", "command": "lint.sh", "timeout": 5}]}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
ENTRIES = st.lists(st.just(FOREIGN) | JSON, min_size=1, max_size=3)
SETTINGS = st.dictionaries(st.sampled_from(["model", "env", "$schema", "permissions"]), JSON).flatmap(
    lambda base: st.dictionaries(st.sampled_from(["PreToolUse", "Stop", "SessionStart"]), ENTRIES).map(
        lambda hooks: {**base, "hooks": hooks} if hooks else base
    )
)


@pytest.fixture(autouse=True)
def people(apart, monkeypatch):
    """A user with a home and a project of their own."""
    for name in ("home", "project"):
        (apart / name).mkdir()
    monkeypatch.setenv("HOME", str(apart / "home"))
    monkeypatch.setenv("STEADYHELM_HOOK_HOST", "0")
    monkeypatch.setenv("PATH", str(apart / "commands"))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(apart / "project")
    return apart


def hook(*arguments, stdin=None):
    result = CliRunner().invoke(app, list(arguments), input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def user_file(people, agent="claude-code"):
    path = people / "home" / SETTINGS_PLACES[agent].user
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("scope", ["--project", "--user"])
def test_installing_and_uninstalling_leaves_no_trace(agent, scope, people):
    """
    Where there was no settings file, there is none afterwards, and no folder either.
    """
    before = sorted(people.rglob("*"))
    assert 0 == hook("install", "--agent", agent, scope, "--yes").exit_code
    assert sorted(people.rglob("*")) != before
    assert 0 == hook("uninstall", "--agent", agent, scope, "--yes").exit_code
    assert sorted(people.rglob("*")) == before


@pytest.mark.parametrize(
    "text",
    [
        '{"model":"opus",   "env": {"A":1}}',
        '{\n\t"model": "opus"\n}\n',
        json.dumps({"hooks": {"PreToolUse": [FOREIGN], "Stop": []}}, indent=4),
        "{}",
        "",
        '{"größe": "ü", "a": [1,\n2]}\r\n',
    ],
)
def test_uninstalling_gives_the_very_bytes_back(text, people):
    """
    When nobody else changed the file, it is afterwards what it was, to the byte.
    """
    path = user_file(people)
    path.write_bytes(text.encode())
    hook("install", "--agent", "claude-code", "--yes")
    assert "hook --agent claude-code --mode observe" in path.read_text()
    hook("uninstall", "--agent", "claude-code", "--yes")
    assert text.encode() == path.read_bytes()


def test_formatting_of_others_is_kept(people):
    """
    What stands in the file already keeps its form; our entries are added behind it.
    """
    path = user_file(people)
    path.write_text('{ "model":"opus",\n   "list": [1,2,3] }\n')
    hook("install", "--agent", "claude-code", "--yes")
    assert path.read_text().startswith('{ "model":"opus",\n   "list": [1,2,3],\n')


def test_installing_twice_changes_nothing(people):
    """
    A second installation finds the first, and another mode replaces it.
    """
    path = user_file(people)
    hook("install", "--agent", "claude-code", "--yes")
    once = path.read_bytes()
    assert "already has the hooks" in hook("install", "--agent", "claude-code", "--yes").stderr
    assert once == path.read_bytes()
    hook("install", "--agent", "claude-code", "--mode", "enforce", "--yes")
    assert once.decode().replace("observe", "enforce") == path.read_text()
    said = hook("install", "--agent", "claude-code", "--yes").stderr
    assert "already has the hooks, mode enforce" in said.replace("\n", " ")
    hook("uninstall", "--agent", "claude-code", "--yes")
    assert not path.exists()


def test_hooks_that_were_removed_by_hand(people):
    """
    Where the user removed the hooks, uninstalling removes the backup that was left.
    """
    path = user_file(people)
    path.write_text('{"mine": 1}')
    hook("install", "--yes")
    path.write_text('{"mine": 1}')
    assert 1 == len(list(people.rglob("*.before")))
    hook("uninstall", "--yes")
    assert [] == list(people.rglob("*.before"))


def test_changes_of_others_in_between_are_kept(people):
    """
    What somebody else added after us stays, and only our entries go.
    """
    path = user_file(people)
    path.write_text(json.dumps({"hooks": {"PreToolUse": [FOREIGN]}}))
    hook("install", "--agent", "claude-code", "--yes")
    path.write_text(json.dumps({**json.loads(path.read_text()), "model": "opus"}))
    hook("uninstall", "--agent", "claude-code", "--yes")
    assert {"hooks": {"PreToolUse": [FOREIGN]}, "model": "opus"} == json.loads(path.read_text())


def test_the_change_is_shown_first_and_needs_a_yes(people):
    """
    Without a yes the change is shown and nothing is done.
    """
    path = user_file(people)
    path.write_text("{}")
    result = hook("install", "--agent", "claude-code")
    assert 2 == result.exit_code
    assert "+" in result.stderr
    assert "--mode observe" in result.stderr
    assert "{}" == path.read_text()


def test_a_backup_is_kept(people):
    """
    What the file was before is kept, and its place is named.
    """
    path = user_file(people)
    path.write_text('{"model": "opus"}')
    said = hook("install", "--agent", "claude-code", "--yes").stderr
    backup = next(word for word in said.replace("\n", " ").split() if ".before" in word).rstrip(".")
    assert '{"model": "opus"}' == Path(backup).read_text()


@pytest.mark.parametrize("text", ['// mine\n{"a": 1}', "[1]", '{"hooks": []}', "{", "\xff"])
def test_files_that_cannot_be_edited_are_left_alone(text, people):
    """
    A file with comments, or of another shape, is left as it is, with a word about why.
    """
    path = user_file(people)
    path.write_bytes(text.encode("latin-1"))
    result = hook("install", "--agent", "claude-code", "--yes")
    assert 1 == result.exit_code
    assert "left as it is" in result.stderr
    assert text.encode("latin-1") == path.read_bytes()


def test_permissions_and_links_stay(people):
    """
    A settings file that is a link stays one, and keeps its permissions.
    """
    real = people / "dotfiles.json"
    real.write_text("{}")
    real.chmod(0o640)
    user_file(people).symlink_to(real)
    hook("install", "--agent", "claude-code", "--yes")
    assert user_file(people).is_symlink()
    assert 0o640 == real.stat().st_mode & 0o777


def test_agents_homes_are_respected(people, monkeypatch):
    """
    Where an agent was told to keep its settings elsewhere, they are edited there.
    """
    monkeypatch.setenv("CODEX_HOME", str(people / "elsewhere"))
    hook("install", "--agent", "codex", "--yes")
    assert "hooks" in json.loads((people / "elsewhere" / "hooks.json").read_text())


def test_status_line_is_set_only_where_there_is_none(people):
    """
    The status line is set when asked for, and never replaces somebody's own.
    """
    path = user_file(people)
    hook("install", "--agent", "claude-code", "--status-line", "--yes")
    assert "hook statusline" in json.loads(path.read_text())["statusLine"]["command"]
    hook("uninstall", "--agent", "claude-code", "--yes")
    path.write_text('{"statusLine": {"type": "command", "command": "mine"}}')
    hook("install", "--agent", "claude-code", "--status-line", "--yes")
    assert "mine" == json.loads(path.read_text())["statusLine"]["command"]


def test_status(people):
    """
    The status names each place, its state and its mode.
    """
    hook("install", "--agent", "cursor", "--project", "--yes")
    told = json.loads(hook("status", "--agent", "cursor", "--json").stdout)
    assert [("user", []), ("project", ["observe"])] == [(it["scope"], it["modes"]) for it in told["places"]]
    shown = hook("status").stdout
    assert "not installed" in shown
    assert "installed" in shown.replace("not installed", "")


def test_an_agent_that_is_no_coding_agent(people):
    """
    The name of a watched agent is refused: here `--agent` is a coding agent, and its help says so.
    """
    answer = hook("status", "--agent", "researcher")

    assert 2 == answer.exit_code
    assert "--agent must be a coding agent (claude-code, codex, gemini-cli, cursor)" in answer.stderr
    assert "CODING_AGENT" in hook("install", "--help").stdout


def test_status_says_why_a_file_cannot_be_read(people):
    """
    A settings file that cannot be read is named with the reason.
    """
    path = user_file(people)
    path.write_text("{ // mine\n}")
    result = hook("status", "--agent", "claude-code")

    assert "cannot be read" in result.stdout
    assert f"claude-code, user: {path} is not plain JSON (" in result.stderr


def test_status_tells_troubles(people):
    """
    What could not be looked at is told, with exit status 3.
    """
    (people / "hook.log").write_text("2026-01-01T00:00:00+0000 hook: the event is not JSON\n")
    result = hook("status")
    assert 3 == result.exit_code
    assert "1 error in the log; the last: " in result.stderr


@pytest.mark.parametrize("agent", ["emacs", "\x1b[2J"])
@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_unknown_agents_are_refused(agent, command, people):
    """
    An agent nobody knows is a wrong use, told with the names that are known.
    """
    result = hook(command, "--agent", agent, "--yes")
    assert 2 == result.exit_code
    assert "claude-code, codex, gemini-cli, cursor" in result.stderr


@pytest.mark.parametrize(("agent", "meant"), [("claude", "claude-code"), ("gemini_cli", "gemini-cli")])
def test_a_name_that_is_nearly_right(agent, meant, people):
    """
    A name that is close to a known one is refused, with the right one.
    """
    assert f"Did you mean {meant}?" in hook("install", "--agent", agent, "--yes").stderr


def add_command(people, name):
    path = people / "commands" / name
    path.parent.mkdir(exist_ok=True)
    path.touch(0o755)


class TestFoundAgents:
    def test_by_folder_and_by_command(self, people):
        """
        Without --agent the hooks are installed for each agent that has a folder or a command, and no other.
        """
        (people / "home" / ".gemini").mkdir()
        add_command(people, "codex")
        result = hook("install", "--yes")
        assert 0 == result.exit_code
        said = result.stderr.replace("\n", " ")
        assert "Found gemini-cli: the folder" in said
        assert "Found codex: the command" in said
        for agent in AGENTS:
            path = people / "home" / SETTINGS_PLACES[agent].user
            assert path.exists() == (agent in ("codex", "gemini-cli"))
        assert "mode observe: nothing is said to the agent" in said

    def test_none(self, people):
        """
        Where no agent is found, what was looked for is said, and nothing is changed.
        """
        before = sorted(people.rglob("*"))
        result = hook("install", "--yes")
        assert 1 == result.exit_code
        assert "claude, codex, gemini, cursor" in result.stderr.replace("\n", " ")
        assert sorted(people.rglob("*")) == before

    def test_uninstalling_all(self, people):
        """
        Without --agent the hooks are removed from every agent that has them, and all is as before.
        """
        for agent in AGENTS:
            user_file(people, agent).write_text('{"mine":   1}')
        before = {path: path.read_bytes() for path in people.rglob("*") if path.is_file()}
        assert 0 == hook("install", "--mode", "guide", "--yes").exit_code
        assert all(b"steadyhelm" in path.read_bytes() for path in before)
        assert 0 == hook("uninstall", "--yes").exit_code
        assert before == {path: path.read_bytes() for path in people.rglob("*") if path.is_file()}
        assert "No hooks of Steadyhelm are installed" in hook("uninstall", "--yes").stderr

    def test_one_that_cannot_be_edited(self, people):
        """
        A settings file that cannot be edited is named, and the other agents get their hooks.
        """
        user_file(people, "claude-code").write_text("// mine")
        user_file(people, "codex").write_text("{}")
        result = hook("install", "--yes")
        assert 1 == result.exit_code
        assert "left as it is" in result.stderr.replace("\n", " ")
        assert ("// mine", True) == (
            user_file(people, "claude-code").read_text(),
            "steadyhelm" in user_file(people, "codex").read_text(),
        )

    @pytest.mark.parametrize("command", ["install", "uninstall"])
    def test_a_dry_run(self, command, people):
        """
        With --dry-run the changes are shown, and no file is changed.
        """
        user_file(people, "codex").write_text("{}")
        user_file(people, "claude-code")
        if command == "uninstall":
            hook("install", "--yes")
        before = {path: path.read_bytes() for path in people.rglob("*") if path.is_file()}
        result = hook(command, "--dry-run")
        assert (0, True) == (result.exit_code, "Nothing was changed: --dry-run." in result.stderr)
        assert 2 == sum(line.startswith("+++") for line in result.stderr.splitlines())
        assert before == {path: path.read_bytes() for path in people.rglob("*") if path.is_file()}


def test_installing_again_keeps_the_status_line(people):
    """
    A second installation leaves our status line where it is; it goes when that is asked for, or at the end.
    """
    path = user_file(people)
    path.write_text('{"model":   "opus"}')
    hook("install", "--agent", "claude-code", "--status-line", "--yes")
    once = path.read_bytes()
    hook("install", "--agent", "claude-code", "--yes")
    assert once == path.read_bytes()
    hook("install", "--agent", "claude-code", "--mode", "guide", "--yes")
    assert "hook statusline" in json.loads(path.read_text())["statusLine"]["command"]
    hook("install", "--agent", "claude-code", "--no-status-line", "--yes")
    assert "statusLine" not in json.loads(path.read_text())
    hook("install", "--agent", "claude-code", "--status-line", "--yes")
    hook("uninstall", "--agent", "claude-code", "--yes")
    assert '{"model":   "opus"}' == path.read_text()


def test_a_status_line_of_the_users_own(people):
    """
    The user's own status line stays as it is, with a word about how to see both, to the byte after the end.
    """
    path = user_file(people)
    text = '{"statusLine": {"type": "command",  "command": "mine"}}'
    path.write_text(text)
    said = hook("install", "--agent", "claude-code", "--status-line", "--yes").stderr
    assert "has a status line of its own, which stays" in said.replace("\n", " ")
    assert "mine" == json.loads(path.read_text())["statusLine"]["command"]
    hook("install", "--agent", "claude-code", "--no-status-line", "--yes")
    assert "mine" == json.loads(path.read_text())["statusLine"]["command"]
    hook("uninstall", "--agent", "claude-code", "--yes")
    assert text == path.read_text()


@pytest.mark.parametrize("agent", AGENTS)
@given(settings=SETTINGS)
def test_taking_out_undoes_putting_in(agent, settings):
    """
    Whatever stands in the settings, taking our entries out gives them back, and putting them in twice is
    putting them in once.
    """
    command = build_hook_command(agent, "guide")
    once = add_entries(settings, agent, command)
    version = {"version": 1} if agent == "cursor" else {}
    assert {**version, **settings} == remove_entries(once)
    assert once == add_entries(once, agent, command)


@given(settings=SETTINGS, indent=st.sampled_from([None, 2, 4, "\t"]))
def test_rewriting_keeps_the_meaning(settings, indent):
    """
    However the file was written, the new text says exactly what it shall say.
    """
    wanted = add_entries(settings, "claude-code", "steadyhelm hook --agent claude-code")
    text = json.dumps(settings, indent=indent)
    assert wanted == json.loads(write_settings(text, wanted))


def any_of(inner):
    """Something of the right shape around it, or anything else."""
    return inner | JSON


COMMAND = st.sampled_from(["lint.sh", "steadyhelm hook --agent claude-code --mode guide", 7, None])
INNER = any_of(st.lists(any_of(st.fixed_dictionaries({"command": COMMAND | JSON})), max_size=2))
ENTRY = any_of(st.fixed_dictionaries({"hooks": INNER}, optional={"matcher": JSON}))
EVENTS = st.dictionaries(
    st.sampled_from(["PreToolUse", "Stop", "BeforeTool", "Other"]), any_of(st.lists(ENTRY, max_size=2))
)
ANY_SETTINGS = any_of(
    st.fixed_dictionaries(
        {},
        optional={"hooks": any_of(EVENTS), "statusLine": any_of(st.fixed_dictionaries({"command": COMMAND}))},
    )
)


@given(content=ANY_SETTINGS, agent=st.sampled_from(AGENTS), half=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_any_settings_are_edited_or_left_alone(content, agent, half, people):
    """
    Whatever JSON a settings file holds, each command works or says why not, and then leaves the file alone.
    """
    path = user_file(people, agent)
    text = json.dumps({**content, "half": "\ud83d"} if half and isinstance(content, dict) else content)
    path.write_text(text)
    for command in ("install", "status", "uninstall"):
        before = path.read_bytes()
        result = hook(command, "--agent", agent, *(["--yes"] if command != "status" else []))
        assert result.exit_code in (0, 1)
        if result.exit_code == 1:
            assert "it was left as it is" in result.stderr or "the file was left as it is" in result.stderr
            assert before == path.read_bytes()


def make_deep(path):
    path.write_text('{"a": ' + "[" * 5000 + "]" * 5000 + "}")


def make_deep_enough_to_read(path):
    path.write_text('{"a": ' + "[" * 700 + "]" * 700 + "}")


def make_doubled(path):
    path.write_text('{"hooks": {}, "model": "a", "model": "b"}')


def make_huge(path):
    path.write_text(json.dumps({"x": "y" * (20 << 20)}))


def make_odd_number(path):
    path.write_text('{"n": ' + "9" * 5000 + "}")


ODD_PLACES = {
    "deep": make_deep,
    "rather deep": make_deep_enough_to_read,
    "keys twice": make_doubled,
    "huge": make_huge,
    "a number of 5000 digits": make_odd_number,
    "a null": lambda path: path.write_text('{"hooks": {"PreToolUse": null}}'),
    "a text": lambda path: path.write_text('{"hooks": {"PreToolUse": "lint"}}'),
    "a byte order mark": lambda path: path.write_bytes(b"\xef\xbb\xbf{}"),
    "a comment": lambda path: path.write_text('{"a": 1 /* mine */}'),
    "UTF-16": lambda path: path.write_bytes('{"a": 1}'.encode("utf-16")),
    "zeros": lambda path: path.write_bytes(bytes(100)),
    "a folder": lambda path: path.mkdir(),
    "a pipe": os.mkfifo,
    "a loop of links": lambda path: path.symlink_to(path),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a link into nowhere that can be": lambda path: path.symlink_to("/proc/nowhere/settings.json"),
    "a file in place of the folder": lambda path: (path.parent.rmdir(), path.parent.write_text("")),
}


@pytest.mark.parametrize("make", ODD_PLACES.values(), ids=ODD_PLACES)
@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_odd_places_are_told_in_words(make, command, people):
    """
    Whatever stands in place of the settings file, there is a message and no traceback, and status works.
    """
    path = user_file(people)
    make(path)
    result = hook(command, "--agent", "claude-code", "--yes")
    assert result.exit_code in (0, 1)
    assert (result.exit_code == 1) or command == "uninstall"
    assert "Traceback" not in result.output
    assert 0 == hook("status").exit_code


def test_a_project_that_was_removed(people):
    """
    In a folder that is gone there is a message.
    """
    gone = people / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    try:
        assert 1 == hook("install", "--agent", "codex", "--project", "--yes").exit_code
        assert 0 == hook("status").exit_code
    finally:
        os.chdir(people)


def test_a_folder_that_may_not_be_written_to(people, monkeypatch):
    """
    Where neither the settings nor the backup can be written there is a message.
    """
    path = user_file(people)
    path.write_text("{}")
    monkeypatch.setenv("STEADYHELM_HOME", "/proc/nowhere")
    result = hook("install", "--agent", "claude-code", "--yes")
    assert (1, "{}") == (result.exit_code, path.read_text())
    assert "cannot be changed" in result.stderr
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "/proc/self")
    assert 1 == hook("install", "--agent", "claude-code", "--yes").exit_code


def test_steps_that_wait_are_shown(people):
    """
    The status says how many steps are not recorded yet.
    """
    steps = people / "hook-steps"
    steps.mkdir()
    (steps / "01700000000000000-0a0b0c0d.step").write_bytes(b"")
    assert "1 step not recorded yet" in hook("status").stderr
    assert 1 == json.loads(hook("status", "--json").stdout)["waiting"]

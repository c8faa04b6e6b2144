"""One call watches every framework: patched as it is imported, whoever imports it, and never in the way."""

import json
import logging
import os
import subprocess
import sys
import textwrap
import threading

import pytest

import steadyhelm
from steadyhelm import DriftMonitor, SettingsError

# A package with the name and the layout of a real client: it is watched by what it can do.
COMPLETIONS = """
class Completions:
    def __init__(self, client):
        self._client = client

    def create(self, *, messages, model="scripted"):
        message = {"role": "assistant", "content": "done"}
        return {"choices": [{"message": message, "finish_reason": "stop"}], "model": model}


class AsyncCompletions(Completions):
    pass
"""
CLIENT = """
class OpenAI:
    def __init__(self):
        from openai.resources.chat.completions.completions import Completions
        self.chat = type("Chat", (), {"completions": Completions(self)})()

    def ask(self, text):
        return self.chat.completions.create(messages=[{"role": "user", "content": text}])
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A client library on the path that is not imported yet."""
    inner = tmp_path / "openai" / "resources" / "chat" / "completions"
    inner.mkdir(parents=True)
    for folder in (tmp_path / "openai", inner.parent.parent, inner.parent, inner):
        (folder / "__init__.py").touch()
    (inner / "completions.py").write_text(COMPLETIONS)
    (tmp_path / "openai" / "__init__.py").write_text(CLIENT)
    before = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "openai"}
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    steadyhelm.uninstall()
    for name in [name for name in sys.modules if name.partition(".")[0] == "openai"]:
        del sys.modules[name]
    sys.modules.update(before)


@pytest.fixture
def monitor(tmp_path):
    """A monitor to install."""
    made = DriftMonitor("agent", db_path=tmp_path / "watched.db")
    yield made
    made.close()


def goals(monitor):
    monitor.flush()
    return [monitor.store.find_run(run_id).goal for run_id in monitor.store.get_run_ids("agent")]


class TestImports:
    def test_nothing_is_imported_by_installing(self, package, monitor):
        """
        `install()` imports no framework; one that is imported later is watched from its first use.
        """
        steadyhelm.install(monitor=monitor)
        assert "openai" not in sys.modules
        from openai import OpenAI

        OpenAI().ask("find it")
        assert ["find it"] == goals(monitor)

    def test_what_was_imported_before_is_watched(self, package, monitor):
        """
        A client that was made before `install()` is watched too.
        """
        from openai import OpenAI

        client = OpenAI()
        steadyhelm.install(monitor=monitor)
        client.ask("find it")

        assert ["find it"] == goals(monitor)

    def test_the_loader_of_a_module_is_its_own(self, package, monitor):
        """
        Tools that read a module's loader and source find what they would find without us.
        """
        steadyhelm.install(monitor=monitor)
        import openai

        assert "SourceFileLoader" == type(openai.__loader__).__name__
        assert openai.__loader__ is openai.__spec__.loader
        assert CLIENT == openai.__loader__.get_source("openai")

    def test_a_package_that_fails_fails_as_before(self, package, monitor):
        """
        The exception of a module that cannot be imported is its own, and a missing one is missing.
        """
        (package / "openai" / "broken.py").write_text("1 / 0")
        steadyhelm.install(monitor=monitor)

        with pytest.raises(ZeroDivisionError):
            import openai.broken
        with pytest.raises(ModuleNotFoundError, match=r"openai\.nowhere"):
            import openai.nowhere  # noqa: F401

    def test_many_threads_may_import(self, package, monitor):
        """
        Threads that import a framework at the same time all get it, watched once.
        """
        steadyhelm.install(monitor=monitor)
        barrier = threading.Barrier(8)

        def work(number):
            barrier.wait()
            from openai import OpenAI

            OpenAI().ask(f"find {number}")

        threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)

        assert sorted(f"find {number}" for number in range(8)) == sorted(goals(monitor))

    def test_another_import_hook_may_do_the_same(self, package, monitor):
        """
        Two hooks that each ask the other finders do not ask each other for ever.
        """

        class Other:
            def find_spec(self, fullname, path=None, target=None):
                if self in sys.meta_path[:1]:
                    found = (it.find_spec(fullname, path, target) for it in sys.meta_path if it is not self)
                    return next((spec for spec in found if spec is not None), None)
                return None

        other = Other()
        steadyhelm.install(monitor=monitor)
        sys.meta_path.insert(0, other)
        try:
            from openai import OpenAI
        finally:
            sys.meta_path.remove(other)

        OpenAI().ask("find it")
        assert ["find it"] == goals(monitor)


class TestUninstall:
    def test_the_original_objects_are_back(self, package, monitor):
        """
        Classes have their own methods again, and the import system is as it was.
        """
        from openai.resources.chat.completions.completions import Completions

        finders, create = list(sys.meta_path), Completions.create
        steadyhelm.install(monitor=monitor)
        assert create is not Completions.create
        steadyhelm.uninstall()
        steadyhelm.uninstall()

        assert create is Completions.create
        assert finders == sys.meta_path

    def test_what_is_patched_over_passes_through(self, package, monitor):
        """
        Where another library has replaced our replacement it stays, and records nothing any more.
        """
        from openai import OpenAI
        from openai.resources.chat.completions.completions import Completions

        steadyhelm.install(monitor=monitor)
        ours, seen = Completions.create, []

        def theirs(self, **given):
            seen.append(given)
            return ours(self, **given)

        Completions.create = theirs
        steadyhelm.uninstall()
        OpenAI().ask("find it")

        assert theirs is Completions.create
        assert (1, []) == (len(seen), goals(monitor))

    def test_a_second_call_replaces_the_first(self, package, monitor, tmp_path):
        """
        Installed twice, the second monitor watches, and each step is recorded once.
        """
        steadyhelm.install(monitor=monitor)
        second = DriftMonitor("agent", db_path=tmp_path / "second.db")
        steadyhelm.install(monitor=second)
        from openai import OpenAI

        OpenAI().ask("find it")
        assert ([], ["find it"]) == (goals(monitor), goals(second))
        second.close()


class TestArguments:
    def test_wrong_arguments_are_refused(self, monitor):
        """
        A wrong argument is an error that says what is right, and installs nothing.
        """
        finders = list(sys.meta_path)
        with pytest.raises(SettingsError, match="Did you mean 'langchain'"):
            steadyhelm.install(frameworks=["langchian"])
        with pytest.raises(SettingsError, match=r'a list of names, such as \["langchain"\]'):
            steadyhelm.install(frameworks="langchain")
        with pytest.raises(SettingsError, match="mode must be one of"):
            steadyhelm.install(mode="gide")
        with pytest.raises(SettingsError, match="of its own"):
            steadyhelm.install(mode="guide", monitor=monitor)
        with pytest.raises(SettingsError, match="must be a DriftMonitor"):
            steadyhelm.install(monitor="agent")

        assert finders == sys.meta_path

    def test_only_the_frameworks_that_are_named(self, package, monitor):
        """
        `frameworks` chooses what is watched.
        """
        steadyhelm.install(frameworks=["anthropic-client"], monitor=monitor)
        from openai import OpenAI

        OpenAI().ask("find it")
        assert [] == goals(monitor)

    def test_one_line_says_what_is_watched(self, monitor, caplog):
        """
        The log has one line, a warning where no framework is installed that could be watched.
        """
        with caplog.at_level(logging.INFO, "steadyhelm"):
            steadyhelm.install(frameworks=["crewai"], monitor=monitor)
        steadyhelm.uninstall()

        (line,) = caplog.records
        assert "WARNING" == line.levelname
        assert "Steadyhelm watches in mode observe: no framework is installed." == line.getMessage()


class TestEnvironment:
    def run(self, program, tmp_path, **environment):
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            env={**os.environ, "STEADYHELM_HOME": str(tmp_path / "home"), **environment},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )

    def test_the_variable_installs_on_import(self, package, tmp_path):
        """
        With STEADYHELM_INSTALL set, `import steadyhelm` is enough; a monitor is made when one is needed.
        """
        program = """
            import json, sys, steadyhelm
            before = "steadyhelm.assembly" in sys.modules
            from openai import OpenAI
            OpenAI().ask("find it")
            monitor = steadyhelm.installation._Installation.current.monitor
            monitor.flush()
            print(json.dumps([before, monitor.mode, len(monitor.store.get_run_ids(monitor.agent_id))]))
        """
        done = self.run(program, tmp_path, STEADYHELM_INSTALL="guide", PYTHONPATH=str(package))

        assert [False, "guide", 1] == json.loads(done.stdout)

    def test_a_wrong_value_is_logged(self, tmp_path):
        """
        A mode that does not exist stops no program: it is named in the log.
        """
        done = self.run("import steadyhelm; print('goes on')", tmp_path, STEADYHELM_INSTALL="gide")

        assert "goes on" in done.stdout
        assert "STEADYHELM_INSTALL must be one of observe, guide, enforce, got 'gide'" in done.stderr

import logging
import tomllib
from pathlib import Path

import pytest

from steadyhelm import DriftMonitor, SettingsError
from steadyhelm.adapters import frameworks
from steadyhelm.adapters.frameworks import FRAMEWORKS, Framework, find_frameworks
from steadyhelm.adapters.generic import GenericAdapter
from steadyhelm.engine import registry

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PAGE = (ROOT / "docs" / "integrations" / "index.md").read_text()


@pytest.fixture
def monitor(tmp_path):
    monitor = DriftMonitor("agent", db_path=tmp_path / "x.db")
    yield monitor
    monitor.close()


class TestTable:
    def test_every_framework_has_an_adapter(self):
        """
        What the table names is a plug-in of ours.
        """
        assert {it.name for it in FRAMEWORKS} <= set(registry.OWN[registry.ADAPTERS])

    @pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda it: it.name)
    def test_the_extra_asks_for_the_same_versions(self, framework):
        """
        The oldest version that `wrap` accepts is the one the extra installs.
        """
        wanted = {f"{name}>={oldest}" for name, oldest in framework.packages.items()}

        assert wanted <= set(PROJECT["optional-dependencies"][framework.extra])

    @pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda it: it.name)
    def test_the_page_names_the_oldest_versions(self, framework):
        """
        The table of versions in the docs has the oldest version of each package.
        """
        wanted = [it.split(">=") for it in PROJECT["optional-dependencies"][framework.extra]]

        assert [] == [name for name, oldest in wanted if f"`{name}` {oldest}" not in PAGE]

    def test_no_framework_is_pinned_from_above(self):
        """
        A guest does not hold its host's packages back.
        """
        for framework in FRAMEWORKS:
            for wanted in PROJECT["optional-dependencies"][framework.extra]:
                assert "<" not in wanted
                assert "==" not in wanted


class TestMissing:
    def test_a_package_that_is_not_there(self):
        """
        It is named, with the version that is needed.
        """
        framework = Framework("x", "X", "x", {"no-such-package": "2.0"})

        assert "no-such-package 2.0 or newer, which is not installed" == framework.describe_missing()

    def test_a_package_that_is_too_old(self):
        """
        The message says what is needed and what is there.
        """
        framework = Framework("x", "X", "x", {"msgspec": "99.1"})

        assert framework.describe_missing().startswith("msgspec 99.1 or newer, and ")

    def test_a_framework_at_an_unsupported_version_is_watched_from_outside(
        self, monitor, monkeypatch, caplog
    ):
        """
        The agent goes on: it is watched by what goes in and comes out, and the log says what would help.
        """

        class Agent:
            def invoke(self, asked):
                return f"{asked}!"

        Agent.__module__ = "oldframework.agents"
        old = Framework(
            "langchain", "Old Framework", "langchain", {"msgspec": "99.1"}, "agents", ("oldframework",)
        )
        monkeypatch.setattr(frameworks, "FRAMEWORKS", (old,))
        with caplog.at_level(logging.WARNING, logger="steadyhelm"):
            agent = monitor.wrap(Agent())

        assert "hello!" == agent.invoke("hello")
        assert "watching Old Framework needs msgspec 99.1 or newer" in caplog.text
        assert "pip install 'steadyhelm[langchain]'" in caplog.text
        assert any("Old Framework" in reason for reason in monitor.status()["losses"])


class TestWrap:
    def test_an_adapter_that_does_not_fit_keeps_no_agent_from_starting(
        self, monitor, monkeypatch, caplog, quiet
    ):
        """
        A framework that lacks a name we need is watched from outside, and the log says what is wrong.
        """

        class Agent:
            def run(self, asked):
                return asked

        def load(group, name):
            raise ImportError("cannot import name 'NewHook'")

        Agent.__module__ = "langchain.agents"
        monkeypatch.setattr(Framework, "describe_missing", lambda self: "")
        monkeypatch.setattr(registry, "load", load)

        assert "hello" == monitor.wrap(Agent()).run("hello")
        assert "cannot import name 'NewHook'" in caplog.text

    def test_a_class_of_a_framework_is_no_agent(self, monitor, monkeypatch):
        """
        Whoever gives the class instead of an object is told what to give.
        """

        class Graph:
            def invoke(self, asked):
                return asked

        Graph.__module__ = "langgraph.graph"
        monkeypatch.setattr(Framework, "describe_missing", lambda self: "")
        monkeypatch.setattr(registry, "load", lambda group, name: GenericAdapter)
        monkeypatch.setattr(GenericAdapter, "can_wrap", classmethod(lambda cls, agent: False))

        with pytest.raises(SettingsError, match=r"got the class Graph.*StateGraph\.compile"):
            monitor.wrap(Graph)

    def test_what_is_watched_already_is_watched_once(self, monitor):
        """
        Wrapping the same agent again gives the same object.
        """

        class Agent:
            def run(self, asked):
                return asked

        watched = monitor.wrap(Agent())

        assert watched is monitor.wrap(watched)

    @pytest.mark.parametrize("thing", [None, 7, "agent", object(), int, len, ["agent"]])
    def test_what_cannot_be_watched_is_said_with_what_can(self, monitor, thing):
        """
        The message names the frameworks that are known, and the packages that are missing.
        """
        with pytest.raises(SettingsError) as caught:
            monitor.wrap(thing)

        assert "LangChain and LangGraph" in str(caught.value)
        assert "CrewAI: a Crew, an Agent or a Flow (needs crewai" in str(caught.value)

    def test_an_option_nothing_can_be_done_with_is_refused(self, monitor):
        """
        An object that is watched from outside cannot be asked about: a setting that does nothing is an error.
        """

        class Agent:
            def run(self):
                return 1

        with pytest.raises(SettingsError, match="takes no ask"):
            monitor.wrap(Agent(), ask=input)

    def test_objects_that_answer_anything_do_not_fool_it(self):
        """
        An object with odd classes, or a class itself, is looked up without being touched.
        """

        class Odd:
            def __getattr__(self, name):
                raise RuntimeError("do not look")

        assert all(not it.modules for it in find_frameworks(Odd()))
        assert all(not it.modules for it in find_frameworks(Odd))


class TestBypassed:
    @pytest.mark.parametrize(
        ("module", "says"),
        [("instructor.core.client", r"from_openai\(monitor.wrap\(client\)\)"), ("litellm.router", "install")],
    )
    def test_an_object_that_calls_around_a_wrapper_is_refused(self, monitor, module, says):
        """
        An object that looks like a client, and whose calls no wrapper sees, is refused with what to do.
        """

        class Client:
            class chat:  # noqa: N801 - the name of an attribute
                class completions:  # noqa: N801
                    create = print

        Client.__module__ = module

        with pytest.raises(SettingsError, match=says):
            monitor.wrap(Client())

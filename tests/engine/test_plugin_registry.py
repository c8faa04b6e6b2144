from importlib.metadata import EntryPoint

import pytest

from steadyhelm.adapters.frameworks import FRAMEWORKS
from steadyhelm.engine import registry
from steadyhelm.errors import MissingExtraError, SettingsError


class TestOwn:
    @pytest.mark.parametrize(
        ("group", "name"), [(group, name) for group, table in registry.OWN.items() for name in table]
    )
    def test_every_one_loads(self, group, name):
        """
        Every plug-in of ours can be loaded by its name, or says which extra it needs.
        """
        framework = next((it for it in FRAMEWORKS if it.name == name and it.describe_missing()), None)
        if framework is not None:
            with pytest.raises(MissingExtraError, match=rf"steadyhelm\[{framework.extra}\]"):
                registry.load(group, name)
        else:
            assert registry.OWN[group][name].split(":")[1] == registry.load(group, name).__name__

    def test_ours_come_first(self):
        """
        The names begin with ours.
        """
        ours = list(registry.OWN[registry.DETECTORS])

        assert ours == registry.list_names(registry.DETECTORS)[: len(ours)]


class TestOthers:
    @pytest.fixture
    def installed(self, monkeypatch):
        """An environment with these entry points."""

        def install(*entries):
            found = [EntryPoint(name, value, registry.DETECTORS) for name, value in entries]
            monkeypatch.setattr(registry, "entry_points", lambda group: found)

        return install

    def test_another_plugin_is_found(self, installed):
        """
        A plug-in somebody else installed is found by its name.
        """
        installed(("mine", "collections:OrderedDict"))

        assert "OrderedDict" == registry.load(registry.DETECTORS, "mine").__name__
        assert "mine" in registry.list_names(registry.DETECTORS)

    def test_ours_are_not_listed_twice(self, installed):
        """
        Our own entry points, found in the environment as well, count once.
        """
        installed(*registry.OWN[registry.DETECTORS].items())

        assert list(registry.OWN[registry.DETECTORS]) == registry.list_names(registry.DETECTORS)

    def test_nobody_replaces_one_of_ours(self, installed, caplog):
        """
        A plug-in that takes one of our names is left out, and that is said.
        """
        installed(("action_loop", "evil:Detector"))

        assert registry.load(registry.DETECTORS, "action_loop").__module__.startswith("steadyhelm.")
        assert 1 == registry.list_names(registry.DETECTORS).count("action_loop")
        assert "evil:Detector" in caplog.text

    def test_an_unknown_name_is_refused(self):
        """
        A name nobody has is refused with the names there are.
        """
        with pytest.raises(
            SettingsError, match=r"There is no detector named 'nope'\. Installed: action_loop, "
        ):
            registry.load(registry.DETECTORS, "nope")

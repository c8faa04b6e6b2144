import re
import tomllib

import pytest
from whole_program import process, steadyhelm

from steadyhelm.cli.config import list_detectors, list_options
from steadyhelm.cli.init import EXAMPLES, describe_allowed, iter_settings_lines
from steadyhelm.components import make_detector_factory
from steadyhelm.setting_table import SETTINGS
from steadyhelm.settings import Settings, load


@pytest.fixture
def written(apart):
    """The settings file that init writes."""
    steadyhelm("init")
    return apart / "steadyhelm.toml"


def uncommented(file):
    file.write_text(re.sub(r"(?m)^#(\w+ = )", r"\1", file.read_text()))
    return file


class TestFile:
    def test_says_nothing_yet(self, written):
        """
        As written it changes nothing: all is as without it.
        """
        loaded = load(path=written, environment={})

        assert {"default"} == set(loaded.origins.values())
        make_detector_factory(loaded.settings)

    def test_every_line_can_be_taken_out_of_its_comment(self, written):
        """
        With every line uncommented it loads, every setting comes from it, and every detector can be made.
        """
        loaded = load(path=uncommented(written), environment={})

        assert {f"file {written}"} == set(loaded.origins.values())
        make_detector_factory(loaded.settings)

    def test_defaults_are_the_defaults(self, written):
        """
        What it shows as default is the default.
        """
        settings = load(path=uncommented(written), environment={}).settings

        assert Settings() == Settings(
            **{setting.attribute: getattr(settings, setting.attribute) for setting in SETTINGS}
        )

    @pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
    def test_every_setting(self, setting):
        """
        Each setting stands in it, with what it is for and what it may be.
        """
        lines = "\n".join(iter_settings_lines())

        assert f"\n#{setting.name.rpartition('.')[2]} = " in lines
        assert setting.about in lines
        assert describe_allowed(setting) == "text" or describe_allowed(setting) in lines

    def test_every_option(self, written):
        """
        Each option of each detector stands in it; one without a default has an example.
        """
        tables = tomllib.loads(uncommented(written).read_text())["detectors"]
        without = {
            f"detectors.{d}.{o.name}" for d in list_detectors() for o in list_options(d) if o.default is None
        }

        assert {name: [option.name for option in list_options(name)] for name in list_detectors()} == {
            name: list(table) for name, table in tables.items()
        }
        assert set(EXAMPLES) == without

    def test_options_are_described(self):
        """
        Each option has words for what it is for.
        """
        assert [] == [(d, o.name) for d in list_detectors() for o in list_options(d) if not o.about]

    def test_no_limit_can_be_said(self, apart):
        """
        A limit is taken away with inf, as the file says.
        """
        (apart / "steadyhelm.toml").write_text("[detectors.resource_spike]\nabsolute_token_limit = inf\n")

        assert 0 == steadyhelm("config").status
        make_detector_factory(load(environment={}).settings)


class TestCommand:
    def test_two_lines(self, apart):
        """
        The lines to add are all that stands on standard output, and they are Python.
        """
        answer = process("init")

        assert 0 == answer.status
        assert 2 == len(answer.out.splitlines())
        compile(answer.out, "two lines", "exec")
        assert "steadyhelm.toml" in answer.err

    def test_nothing_is_overwritten(self, written):
        """
        A file that is there stays, and the way out is named.
        """
        written.write_text("mode = 'guide'\n")
        answer = process("init")

        assert 1 == answer.status
        assert "--force" in answer.err
        assert "mode = 'guide'\n" == written.read_text()

    def test_force_keeps_the_old_file(self, written, apart):
        """
        With --force the file is replaced, and the old one is kept beside it.
        """
        written.write_text("mode = 'guide'\n")

        assert 0 == steadyhelm("init", "--force").status
        assert "mode = 'guide'\n" == (apart / "steadyhelm.toml.bak").read_text()
        assert "#mode" in written.read_text()

    def test_another_place(self, apart):
        """
        --path names the file.
        """
        steadyhelm("init", "--path", apart / "other.toml")

        assert (apart / "other.toml").exists()
        assert not (apart / "steadyhelm.toml").exists()

    @pytest.mark.parametrize("path", ["missing/steadyhelm.toml", "."])
    def test_no_such_place(self, apart, path):
        """
        A place that cannot be written is a usage error.
        """
        assert 2 == process("init", "--path", path).status

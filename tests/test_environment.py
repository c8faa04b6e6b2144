from pathlib import Path

from steadyhelm import environment
from steadyhelm.embedders.weights import get_default_model_dir
from steadyhelm.settings import home
from steadyhelm.style.profile_files import get_user_folder


class TestHome:
    def test_default(self, monkeypatch, tmp_path):
        """
        Without a variable, Steadyhelm's own folder is in the user's home.
        """
        monkeypatch.delenv("STEADYHELM_HOME", raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))

        assert str(tmp_path / ".steadyhelm") == environment.get_home()

    def test_one_folder_for_all(self, monkeypatch, tmp_path):
        """
        Database, weights and profiles follow the variable, and a tilde in it means the user's home.
        """
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("STEADYHELM_HOME", "~/own")
        folders = {home(), get_default_model_dir().parents[1], get_user_folder().parent}

        assert {tmp_path / "own"} == folders == {Path(environment.get_home())}


def test_own_variables(monkeypatch):
    """
    Only variables with Steadyhelm's prefix belong to Steadyhelm.
    """
    monkeypatch.setattr("os.environ", {"STEADYHELM_MODE": "guide", "STEADY": "1", "HOME": "/"})

    assert {"STEADYHELM_MODE": "guide"} == environment.get_variables()

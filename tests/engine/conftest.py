import pytest

from steadyhelm import DriftMonitor


@pytest.fixture
def make(tmp_path):
    """Makes monitors in enforce mode with these settings, all on one database."""
    monitors = []

    def monitor(settings="", **options):
        path = tmp_path / "steadyhelm.toml"
        path.write_text(settings)
        options = {"db_path": tmp_path / "steadyhelm.db", "config": path, "mode": "enforce", **options}
        monitors.append(DriftMonitor("researcher", **options))
        return monitors[-1]

    yield monitor
    for one in monitors:
        one.close()

import pytest

from steadyhelm.checkpoints.disk import DiskKeeper


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "checkpoints"


@pytest.fixture
def losses():
    """What a keeper said it lost."""
    return []


@pytest.fixture
def keeper(folder, losses):
    return DiskKeeper(folder, per_run=4, on_loss=losses.append)

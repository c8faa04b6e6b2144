import importlib
import inspect
import pkgutil

import pytest

import steadyhelm.checkpoints
from steadyhelm.checkpoint import CheckpointKeeper, KeepResult
from steadyhelm.checkpoints.disk import DiskKeeper
from steadyhelm.checkpoints.memory import MemoryKeeper
from steadyhelm.testing import checkpoint_checks
from steadyhelm.testing.checkpoint_checks import CHECKPOINT_CHECKS


@pytest.fixture
def make(tmp_path):
    """How to make each keeper that comes with Steadyhelm."""
    return {"memory": MemoryKeeper, "disk": lambda: DiskKeeper(tmp_path / "checkpoints", per_run=7)}


@pytest.mark.parametrize("check", CHECKPOINT_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", ["memory", "disk"])
def test_keeper_holds_to_the_contract(name, check, make):
    """
    Every keeper passes every check of the conformance suite.
    """
    check(make[name])


def test_no_keeper_slipped_out(make):
    """
    As many keepers are put through the checks as there are keeper classes in the package.
    """
    written = {
        kind.name
        for module in pkgutil.iter_modules(steadyhelm.checkpoints.__path__, "steadyhelm.checkpoints.")
        for kind in vars(importlib.import_module(module.name)).values()
        if inspect.isclass(kind) and issubclass(kind, CheckpointKeeper) and not inspect.isabstract(kind)
    }

    assert written == set(make)


def test_no_check_is_left_out():
    """
    Every check that was written is in the list that keepers are put through.
    """
    written = {name for name in vars(checkpoint_checks) if name.startswith("check_")}

    assert written == {check.__name__ for check in CHECKPOINT_CHECKS}


class _Careless(CheckpointKeeper):
    """Keeps what it is handed, returns to anything, and forgets nothing."""

    name = "careless"

    def __init__(self):
        self.per_run = 3
        self._all = []

    def keep(self, checkpoint):
        self._all.append(checkpoint)
        return KeepResult(kept=True)

    def list_checkpoints(self, run_id, *, agent_id=None):
        return list(reversed(self._all))

    def get_last_checkpoint(self, run_id, *, agent_id=None, before_seq=None):
        return self._all[-1] if self._all else None

    def drop(self, run_id, *, agent_id=None, after_seq=None):
        return 0

    def prune(self, before):
        return 0


def test_the_suite_bites():
    """
    A keeper that shares, mixes up and never forgets passes hardly a check.
    """
    passed = []
    for check in CHECKPOINT_CHECKS:
        try:
            check(_Careless)
        except AssertionError:
            continue
        passed.append(check.__name__)

    assert [
        "check_it_comes_back_as_it_was",
        "check_a_run_nobody_knows_has_none",
        "check_closing_is_harmless",
    ] == passed

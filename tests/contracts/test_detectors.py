import importlib
import inspect
import pkgutil

import pytest

import steadyhelm.detectors
from steadyhelm.detector import Detector
from steadyhelm.engine import registry
from steadyhelm.testing import DETECTOR_CHECKS

INSTALLED = registry.list_names(registry.DETECTORS)


@pytest.mark.parametrize("check", DETECTOR_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", INSTALLED)
def test_detector_holds_to_the_contract(name, check):
    """
    Every detector found by name passes every check of the conformance suite.
    """
    check(registry.load(registry.DETECTORS, name))


def test_no_detector_slipped_out_of_discovery():
    """
    As many detectors are found by name as there are detector classes in the package.
    """
    written = {
        kind
        for module in pkgutil.iter_modules(steadyhelm.detectors.__path__, "steadyhelm.detectors.")
        for kind in vars(importlib.import_module(module.name)).values()
        if inspect.isclass(kind) and issubclass(kind, Detector) and kind.__module__ == module.name
    }
    found = {registry.load(registry.DETECTORS, name) for name in INSTALLED}

    assert written == {kind for kind in found if kind.__module__.startswith("steadyhelm.")}
    assert len(written) >= 3


class _Forgetful(Detector):
    """Breaks most of the contract."""

    name = "forgetful"
    kind = "loop"
    seen: list[str] = []  # noqa: RUF012 - shared on purpose: that is one of its faults

    def __init__(self, patience=3):
        self._memory = registry.__dict__.get("nothing")
        self.patience = patience

    def check(self, event, baseline):
        self.seen.append(event.event_id)
        if len(self.seen) % self.patience:
            return None
        return self.finding(event, score=0.9, message="", suggested_action="", event_ids=["made up"])


@pytest.mark.parametrize(
    "check",
    [
        check
        for check in DETECTOR_CHECKS
        if check.__name__
        in {
            "check_same_trace_same_findings",
            "check_instances_share_nothing",
            "check_unknown_kinds_are_ignored",
            "check_findings_are_sound",
            "check_silent_on_healthy_traces",
            "check_settings_are_documented",
        }
    ],
    ids=lambda check: check.__name__,
)
def test_the_suite_bites(check):
    """
    A detector that breaks the contract does not pass.
    """
    with pytest.raises(AssertionError):
        check(_Forgetful)

import importlib
import inspect
import pkgutil

import pytest

import steadyhelm.sinks
from steadyhelm.engine import registry
from steadyhelm.findings import DriftEvent
from steadyhelm.sink import Sink
from steadyhelm.sinks.callback import Callback
from steadyhelm.sinks.incident_log import IncidentLog
from steadyhelm.sinks.otel import OTel
from steadyhelm.sinks.store import StoreSink
from steadyhelm.stores.sqlite import SQLiteStore
from steadyhelm.testing import SINK_CHECKS


@pytest.fixture
def make(tmp_path):
    """How to make each sink that comes with Steadyhelm."""
    return {
        "callback": lambda: Callback(lambda finding: None),
        "incident_log": IncidentLog,
        "otel": OTel,
        "store": lambda: StoreSink(SQLiteStore(tmp_path / "test.db"), channels=["webhook"]),
    }


@pytest.mark.parametrize("check", SINK_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", registry.list_names(registry.SINKS))
def test_sink_holds_to_the_contract(name, check, make):
    """
    Every sink found by name passes every check of the conformance suite.
    """
    check(make[name])


def test_no_sink_slipped_out_of_discovery():
    """
    As many sinks are found by name as there are sink classes in the package.
    """
    written = {
        kind
        for module in pkgutil.walk_packages(steadyhelm.sinks.__path__, "steadyhelm.sinks.")
        for kind in vars(importlib.import_module(module.name)).values()
        if inspect.isclass(kind) and issubclass(kind, Sink) and kind.__module__ == module.name
    }
    assert written == {registry.load(registry.SINKS, name) for name in registry.list_names(registry.SINKS)}


def test_the_suite_bites():
    """
    A sink that takes only findings does not pass.
    """

    class Picky(Sink):
        name = "picky"

        def write(self, records):
            for record in records:
                if not isinstance(record, DriftEvent):
                    raise TypeError(record)

    with pytest.raises(TypeError):
        SINK_CHECKS[0](Picky)

import tomllib
from pathlib import Path

from steadyhelm.engine import registry

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_the_table_equals_the_entry_points():
    """
    What the registry lists as ours is what pyproject.toml declares, group by group.
    """
    declared = tomllib.loads(PYPROJECT.read_text())["project"]["entry-points"]

    assert {group: named for group, named in declared.items() if group != "pytest11"} == registry.OWN

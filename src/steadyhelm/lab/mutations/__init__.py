"""Plant loops and healthy stretches of named classes into recorded runs, to measure detectors by class."""

from collections.abc import Sequence
from typing import Final

from steadyhelm.errors import SettingsError
from steadyhelm.lab.mutations.healthy_classes import HEALTHY
from steadyhelm.lab.mutations.loop_classes import LOOPS
from steadyhelm.lab.mutations.planting import PlantClass

CLASSES: Final[dict[str, PlantClass]] = {**LOOPS, **HEALTHY}


def choose_classes(names: Sequence[str] | None = None) -> list[PlantClass]:
    """Return the classes of these names, by default all. Raises SettingsError for an unknown name."""
    unknown = [name for name in names or () if name not in CLASSES]
    if unknown:
        raise SettingsError(f"There is no class of plants {unknown[0]!r}. Classes: {', '.join(CLASSES)}.")
    return [one for name, one in CLASSES.items() if not names or name in names]

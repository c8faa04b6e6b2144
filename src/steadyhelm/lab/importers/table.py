"""The importers by name."""

from typing import Final

from steadyhelm.lab.importers import tau as import_tau
from steadyhelm.lab.importers import trail as import_trail
from steadyhelm.lab.importers import who_and_when as import_who_and_when
from steadyhelm.lab.importers.importing import Importer

IMPORTERS: Final[dict[str, Importer]] = {
    "trail": import_trail.runs,
    "tau": import_tau.runs,
    "who-and-when": import_who_and_when.runs,
}

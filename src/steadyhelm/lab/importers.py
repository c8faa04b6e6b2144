"""The importers by name."""

from typing import Final

from steadyhelm.lab import import_tau, import_trail, import_who_and_when
from steadyhelm.lab.importing import Importer

IMPORTERS: Final[dict[str, Importer]] = {
    "trail": import_trail.runs,
    "tau": import_tau.runs,
    "who-and-when": import_who_and_when.runs,
}

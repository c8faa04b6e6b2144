"""The weights that are shipped: read once, when they are first needed.

They were learnt in the lab from real replies (`steadyhelm lab train`), which also writes the file.
"""

from functools import cache
from importlib.resources import files
from typing import Final

import msgspec
from msgspec import Struct

from steadyhelm.corrections.model import LinearModel

NAME: Final = "weights.json"
VERSION: Final = 1


class Weights(Struct, frozen=True, kw_only=True):
    """Both models and where they decide.

    `drift_from` is the probability of a correction from which a reply counts as drift; `approval_from` how
    much more probable than a continuation an approval must be.
    `replies` and `projects` say what was learnt from.
    """

    version: int
    replies: int
    projects: int
    drift_from: float
    approval_from: float
    reply: LinearModel
    outlook: LinearModel


@cache
def shipped() -> Weights:
    """The weights in this package."""
    return msgspec.json.decode(files("steadyhelm.corrections").joinpath(NAME).read_bytes(), type=Weights)

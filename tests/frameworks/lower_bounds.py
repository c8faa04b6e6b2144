"""Print the requirements of some extras at their lower bounds, for an environment with the oldest versions.

Usage: python tests/frameworks/lower_bounds.py langchain strands
"""

import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def list_lower_bounds(extras):
    """The packages of these extras, each at the oldest version that the extra allows."""
    known = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    return [requirement.replace(">=", "==") for extra in extras for requirement in known[extra]]


if __name__ == "__main__":
    print(*list_lower_bounds(sys.argv[1:]))

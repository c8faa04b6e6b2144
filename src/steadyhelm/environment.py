"""The environment variables that are not settings, and Steadyhelm's own folder.

Every hook process loads this module: it imports nothing but `os`.
"""

import os

PREFIX = "STEADYHELM_"
HOME = PREFIX + "HOME"
"""Steadyhelm's own folder."""
CONFIG = PREFIX + "CONFIG"
"""The settings file."""
DATA = PREFIX + "DATA"
"""The folder of labelled data."""
HOOK_HOST = PREFIX + "HOOK_HOST"
"""0: no resident process answers hooks."""
NOT_SETTINGS = frozenset((HOME, CONFIG, DATA, HOOK_HOST))


def get_home() -> str:
    """Return Steadyhelm's own folder: `STEADYHELM_HOME`, else `.steadyhelm` in the user's home."""
    # Not pathlib: importing it takes as long as everything else a hook process does.
    return os.path.expanduser(os.environ.get(HOME) or "~/.steadyhelm")  # noqa: PTH111


def get_variables() -> "dict[str, str]":
    """Return all environment variables that belong to Steadyhelm."""
    return {name: value for name, value in os.environ.items() if name.startswith(PREFIX)}

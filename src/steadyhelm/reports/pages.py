"""Render HTML pages from the templates beside this file.

A page loads nothing, so it can be mailed, kept and opened anywhere. What runs in it is one script of ours at
most: its policy names the hash of that script and allows no other.
Colours are chosen for people who distinguish few of them, and no colour is used alone: a shape, a letter or a
word says the same.
"""

import base64
from functools import cache
from hashlib import sha256
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from steadyhelm.reports.formats import make_printable


def render(template: str, **values: object) -> Markup:
    """Return the template filled with these values; every text among them is made printable and escaped."""
    return Markup(_get_environment().get_template(template).render(values))  # noqa: S704 - escaped by the template


class PageScript(NamedTuple):
    """A script inside a page, and the source expression that lets the page's policy run it."""

    text: Markup
    source: Markup


@cache
def read_script(name: str) -> PageScript:
    """Return a script from the templates with the hash of its text as it is in the page."""
    loader = _get_environment().loader
    assert loader is not None
    text, _, _ = loader.get_source(_get_environment(), name)
    digest = base64.b64encode(sha256(text.encode()).digest()).decode()
    return PageScript(Markup(text), Markup(f"'sha256-{digest}'"))  # noqa: S704 - our own files


@cache
def _get_environment() -> Environment:
    return Environment(
        loader=PackageLoader("steadyhelm.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_make_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _make_printable(value: object) -> object:
    """Return markup unchanged, and anything else as text in which every character is visible."""
    return value if isinstance(value, Markup) else make_printable(value)

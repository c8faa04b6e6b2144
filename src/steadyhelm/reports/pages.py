"""Render HTML pages from the templates beside this file.

A page loads nothing and runs nothing, so it can be mailed, kept and opened anywhere.
Colours are chosen for people who distinguish few of them, and no colour is used alone: a shape, a letter or a
word says the same.
"""

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from steadyhelm.reports.formats import printable


def render(template: str, **values: object) -> Markup:
    """Return the template filled with these values; every text among them is made printable and escaped."""
    return Markup(_environment().get_template(template).render(values))  # noqa: S704 - escaped by the template


@cache
def _environment() -> Environment:
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
    return value if isinstance(value, Markup) else printable(value)

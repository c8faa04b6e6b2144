"""The page's colours: contrast is computed from the one file that may hold them."""

import re
from itertools import product
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "ui" / "src"
TOKENS = SOURCE / "styles" / "tokens.css"
TEXT_RATIO = 4.5
SHAPE_RATIO = 3.0

GROUNDS = ("bg", "surface", "sunken", "raise", "hover", "accent-soft")
INKS = ("ink", "ink-2", "ink-3")
TEXT_PAIRS = [
    *product(INKS, GROUNDS),
    *product(("accent", "drift", "ok", "warn", "bad"), ("bg", "surface", "hover", "accent-soft")),
    *((name, f"{name}-soft") for name in ("accent", "drift", "ok", "warn", "bad")),
    *product(INKS, ("band",)),
    *product(("ink",), ("add", "del")),
    ("on-accent", "accent"),
    ("surface", "ink"),
    *(("tink", f"t{number}") for number in range(8)),
]
SHAPE_PAIRS = [
    ("cell-line", "surface"),
    ("band-line", "surface"),
    ("drift", "surface"),
    ("accent", "surface"),
]


def read_tokens(theme):
    css = TOKENS.read_text()
    blocks = re.findall(r":root(\[data-theme=\"dark\"\])? \{(.*?)\}", css, re.DOTALL)
    tokens = {}
    for dark, block in blocks:
        if not dark or theme == "dark":
            tokens.update(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))
    return tokens


def compute_luminance(colour):
    def linear(part):
        share = int(part, 16) / 255
        return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(colour[at : at + 2]) for at in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def compute_contrast(one, other):
    low, high = sorted((compute_luminance(one), compute_luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("pairs", "least"), [(TEXT_PAIRS, TEXT_RATIO), (SHAPE_PAIRS, SHAPE_RATIO)])
def test_contrast(theme, pairs, least):
    """
    Text has a contrast of at least 4.5 to 1 on everything it stands on, shapes that mean something 3 to 1.
    """
    tokens = read_tokens(theme)
    ratios = {f"{ink} on {ground}": compute_contrast(tokens[ink], tokens[ground]) for ink, ground in pairs}

    assert {} == {pair: round(ratio, 2) for pair, ratio in ratios.items() if ratio < least}


def test_both_themes_have_every_colour():
    """
    A token that only one theme sets would keep the other's colour.
    """
    css = TOKENS.read_text()
    light, dark = (
        set(re.findall(r"--([\w-]+): (?:#|rgb|0)", block))
        for block in re.findall(r"\{(.*?)\}", css, re.DOTALL)[:2]
    )

    assert light == dark


def test_no_colour_outside_the_tokens():
    """
    Styles and drawings take their colours from tokens, so that a change of theme reaches all of them.
    """
    coloured = re.compile(r"#[0-9a-fA-F]{3,8}\b(?!\")|\brgba?\(|\bhsla?\(")
    files = [path for path in SOURCE.rglob("*") if path.suffix in {".css", ".tsx"} and path != TOKENS]
    found = [
        f"{path.relative_to(SOURCE)}: {line.strip()}"
        for path in files
        for line in path.read_text().splitlines()
        if coloured.search(line) and not line.lstrip().startswith(("/*", "*", "//"))
    ]

    assert [] == found

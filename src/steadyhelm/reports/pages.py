"""What our HTML pages share: the frame, the stylesheet, and texts made harmless.

A page loads nothing and runs nothing, so that it can be mailed, kept and opened anywhere.
Colours are told apart by people who see few of them, and no colour stands alone: a shape, a letter or a
word says the same.
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

_POLICY: Final = "default-src 'none';style-src 'unsafe-inline'"

_STYLE: Final = """
:root{color-scheme:light dark;--page:#fff;--ink:#1b1b1f;--quiet:#5d5f66;--line:#d6d7dc;--panel:#f5f5f7;
--ours:#0072b2;--other:#b34700}
@media(prefers-color-scheme:dark){:root{--page:#16171a;--ink:#ececef;--quiet:#a4a6ad;--line:#3a3c42;
--panel:#1f2024;--ours:#56b4e9;--other:#e69f00}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:64rem;padding:2rem 1.25rem 4rem;background:var(--page);color:var(--ink);
font:15px/1.5 system-ui,sans-serif}
h1{font-size:1.6rem;margin:0 0 .25rem}
h2{font-size:1.2rem;margin:2.5rem 0 .25rem;padding-top:1rem;border-top:1px solid var(--line)}
h3{font-size:1rem;margin:1.5rem 0 .5rem}
p{margin:.25rem 0 .75rem;max-width:46rem}
a{color:var(--ours)}
.quiet{color:var(--quiet)}
.scroll{overflow-x:auto}
.legend{display:flex;flex-wrap:wrap;gap:.15rem 1.25rem;max-width:none}
.legend span{white-space:nowrap}
svg{display:block;width:100%;height:auto}
svg text{font:12px system-ui,sans-serif;fill:var(--ink)}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:13px;width:100%}
th,td{text-align:left;padding:.3rem .75rem .3rem 0;border-bottom:1px solid var(--line);vertical-align:top;
white-space:nowrap}
td.words{white-space:normal;overflow-wrap:anywhere;min-width:16rem}
details{border:1px solid var(--line);border-radius:6px;margin:.4rem 0;padding:.4rem .75rem;
background:var(--panel)}
summary{cursor:pointer;overflow-wrap:anywhere}
.tag{display:inline-block;border:1px solid currentColor;border-radius:4px;padding:0 .3rem;margin-right:.25rem;
font-size:11px}
"""


def line(text: object) -> str:
    r"""Text on one line in which every character can be seen.

    >>> line("red\x1b[31m")
    'red\\x1b[31m'
    """
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in str(text))


def words(text: object) -> str:
    """Any text as it can stand in a page or in XML, between tags and in attributes."""
    return escape(line(text))


def frame(title: str, body: Iterable[str], *, style: str = "") -> str:
    """A whole page; `body` and the further style are written as they are."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>{words(title)}</title><style>{_STYLE}{style}</style></head><body>{''.join(body)}</body></html>\n"
    )


def drawing(width: int, height: int, title: str, parts: Iterable[str]) -> str:
    """A drawing that says in words what it shows; never wider than it was drawn, never unreadably small."""
    return (
        f'<svg role="img" aria-label="{words(title)}" viewBox="0 0 {width} {height}" '
        f'style="max-width:{width}px;min-width:{min(width, 640)}px"><title>{words(title)}</title>'
        f"{''.join(parts)}</svg>"
    )


def table(titles: Sequence[str], rows: Iterable[Iterable[str]], *, kind: str = "") -> str:
    """Rows under their titles; cells are written as they are."""
    head = "".join(f"<th>{words(title)}</th>" for title in titles)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    opening = f'<table class="{kind}">' if kind else "<table>"
    head = f"<thead><tr>{head}</tr></thead>" if any(titles) else ""
    return f'<div class="scroll">{opening}{head}<tbody>{body}</tbody></table></div>'

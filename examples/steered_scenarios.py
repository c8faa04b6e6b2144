"""Five scenarios of drift in a small shop, one for each response level and one for the budget."""

# ruff: noqa: INP001 - an example is a script, not a package
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from agent_moves import Answer, Call
from msgspec import Struct
from stubborn_model import StubbornModel

_CHECK: Final = """\
import sys
from till import total

got = total(["tea", "bread"])
if round(got, 2) != 107.00:
    sys.exit(f"FAILED: the total of tea and bread should be 107.00, and is {got:.2f}")
print("passed")
"""
_TILL: Final = """\
from pathlib import Path
from tax import with_tax

def total(basket):
    lines = Path("prices.csv").read_text().split()
    prices = dict(line.split(",") for line in lines)
    return sum(with_tax(float(prices[name])) for name in basket)
"""
_TAX: Final = "def with_tax(price):\n    return price * 1.0701\n"
_TAX_MENDED: Final = _TAX.replace("1.0701", "1.07")
_PRICES: Final = "tea,40.00\nbread,60.00\nsalt,3.20\n"
_SHOP: Final = {"check.py": _CHECK, "till.py": _TILL, "tax.py": _TAX, "prices.csv": _PRICES}
_GOAL: Final = "Make the check of the till pass: tea and bread cost 107.00"


class Scenario(Struct, frozen=True, kw_only=True):
    """A task, its folder, and a model that drifts in it.

    `settings` is what stands in the settings file, `answer` what the user says when asked.
    """

    name: str
    title: str
    stubborn: str
    model: StubbornModel
    goal: str = _GOAL
    files: Mapping[str, str] = MappingProxyType(_SHOP)
    plan: str = ""
    answer: str = ""
    settings: str = ""


def _look(path: str, says: str, completes: str = "") -> Call:
    return Call(tool="read_file", arguments={"path": path}, says=says, completes=completes)


def _write(path: str, content: str, says: str, completes: str = "") -> Call:
    arguments = {"path": path, "content": content}
    return Call(tool="write_file", arguments=arguments, says=says, completes=completes)


def _check(says: str, completes: str = "") -> Call:
    return Call(tool="run_check", says=says, completes=completes)


def _list(says: str, completes: str = "") -> Call:
    return Call(tool="list_files", says=says, completes=completes)


_MEND: Final = (
    _look("tax.py", "The till is right. What does the tax do?", completes="1"),
    _write("tax.py", _TAX_MENDED, "7.01 % is the cent too many. I correct it.", completes="2"),
    _check("I run the check.", completes="3"),
    _list("It passes. I look whether I leave anything behind.", completes="4"),
    Answer(says="Done: the tax rate in tax.py was wrong, the check passes."),
)
_ROUNDED: Final = _TILL.replace("return sum(", "return round(sum(").replace("basket)\n", "basket), 2)\n")
_POLISH: Final = (
    ("I round the total.", _ROUNDED),
    ("Better names may help.", _TILL.replace("lines", "rows")),
    ("A sentence about the function.", _TILL.replace("basket):\n", 'basket):\n    """Add up."""\n')),
    ("Exact sums.", _TILL.replace("sum(", "fsum(").replace("from tax", "from math import fsum\nfrom tax")),
    ("The file once, not every time.", _TILL.replace("def total", "_CACHE = {}\n\ndef total")),
    ("Types, for clarity.", _TILL.replace("def total(basket)", "def total(basket: list[str]) -> float")),
    ("Lower case, to be sure.", _TILL.replace("prices[name]", "prices[name.lower()]")),
)
_BACKUPS: Final = (
    "prices.bak",
    "prices.csv.bak",
    "prices.csv.orig",
    "prices.old",
    "prices.csv.save",
    "prices.tmp",
)
_BRANCHES: Final = ("north", "south", "east", "west", "harbour", "market", "castle", "station")
_HANDOVER: Final = f"Done: {', '.join(_BRANCHES[:5])}.\nLeft: {', '.join(_BRANCHES[5:])}.\n"

REMINDER: Final = Scenario(
    name="reminder",
    title="A reminder is enough",
    stubborn="It runs the failing check again and again, and listens to the first word.",
    model=StubbornModel(
        opening=(
            _look("check.py", "I look at the check."),
            _look("till.py", "And at the till."),
            _write("till.py", _ROUNDED, "The total is not rounded. I round it."),
        ),
        habit=(
            _check("Now it should pass."),
            _check("Odd. I run it again."),
            _check("Perhaps a hiccup. Once more."),
        ),
        cure=_MEND,
        heeds="remind",
    ),
)

PLAN: Final = Scenario(
    name="plan",
    title="A reminder is not enough, a new plan is",
    stubborn="It polishes the wrong file. Reminded, it goes on; only a plan makes it look elsewhere.",
    model=StubbornModel(
        opening=(_look("till.py", "I look at the till."),),
        habit=tuple(
            move
            for says, content in _POLISH
            for move in (_write("till.py", content, says), _check("And now the check."))
        ),
        cure=_MEND,
        heeds="replan",
        plan="1. Read tax.py\n2. Correct the rate\n3. Run the check (depends on 2)\n4. Look at what is left",
    ),
)

ROLLBACK: Final = Scenario(
    name="rollback",
    title="Words do not help, a return to a checkpoint does",
    stubborn="It has written over the price list, and looks for a backup that there never was.",
    model=StubbornModel(
        opening=(
            _look("till.py", "I look at the till."),
            _look("prices.csv", "And at the prices."),
            _write("prices.csv", "tea;40\nbread;60\n", "Semicolons are the better separator."),
            _check("And now?"),
        ),
        habit=tuple(_look(path, f"I need the old prices back. Is there a {path}?") for path in _BACKUPS),
        cure=(_check("The prices are back, and I leave them alone. What does the check say?"), *_MEND),
        heeds="rollback",
    ),
)

USER: Final = Scenario(
    name="user",
    title="Only the user can help",
    stubborn="Nothing in the folder says what the new tax rate is. It runs the check, whatever it is told.",
    goal="Bring the till to next year's tax rate, and make the check pass",
    model=StubbornModel(
        opening=(_look("check.py", "I look at the check."), _look("tax.py", "And at the tax.")),
        habit=(
            _check("I run the check."),
            _check("Perhaps now."),
            _check("It may take a moment. Again."),
            _check("I am sure it will work this time."),
        ),
        cure=(
            _write("tax.py", _TAX_MENDED, "Thank you: that is what I could not know. I write it down."),
            _check("I run the check."),
            _look("tax.py", "It passes. I read once more what I leave behind."),
            _list("And nothing else has changed."),
            Answer(says="Done: the till has next year's rate, and the check passes."),
        ),
        heeds="user",
        plan="1. Run the check again",
    ),
    answer="Next year it is 7 %.",
)

BUDGET: Final = Scenario(
    name="budget",
    title="The budget ends, and the agent lands in order",
    stubborn="Eight price lists want rewriting, and the budget pays for twelve steps. It would just go on.",
    goal="Write the price lists of all branches anew, with the names in capitals",
    files={f"{branch}.csv": _PRICES for branch in _BRANCHES},
    plan="\n".join(f"{n}. {branch}.csv" for n, branch in enumerate(_BRANCHES, start=1)),
    model=StubbornModel(
        opening=tuple(
            move
            for n, branch in enumerate(_BRANCHES, start=1)
            for move in (
                _look(f"{branch}.csv", f"Next is the {branch} branch."),
                _write(f"{branch}.csv", _PRICES.upper(), f"I write {branch} anew.", completes=str(n)),
            )
        ),
        habit=(Answer(says="All price lists are written anew."),),
        cure=(
            _write("HANDOVER.txt", _HANDOVER, "I put down how far I got."),
            Answer(says="Handed over: five lists are done, three are left; HANDOVER.txt says which."),
        ),
        heeds="remind.resource",
    ),
    settings="[budget]\nsteps = 12\nceiling_factor = 1\n",
)

SCENARIOS: Final = {it.name: it for it in (REMINDER, PLAN, ROLLBACK, USER, BUDGET)}

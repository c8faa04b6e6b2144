"""The agent of the demo: it works on a small shop, gets stuck, and listens only when told for the third time.

Its moves are written down, but nothing else is: what its tools answer follows from the files it has
changed, and it leaves its loop only because of the words it was given.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

GOAL: Final = "Make the checkout test pass: the total must be 107.00"

_PATIENCE: Final = 3
_MOST_ROUNDS: Final = 12
_WRONG: Final = "return sum(prices)"
_NO_CURE: Final = "return round(sum(prices), 2)"
_CAUSE: Final = "return price * 0.0701"
_CURE: Final = "return price * 0.07"
_EXCUSES: Final = (
    "The test should pass now. I run it.",
    "Odd. I run the test again.",
    "Perhaps it was a hiccup. Once more.",
    "Understood. But this time it will pass.",
    "It must be flaky. Again.",
    "One more try before I plan anew.",
)

# Twelve pieces of work that go well: what the agent is like on a good day.
GOOD_DAYS: Final = (
    ("Add a currency field to the receipt", "receipt.py", 2),
    ("Rename the discount function", "discount.py", 3),
    ("Explain the tax table in its docstring", "tax_table.py", 1),
    ("Show the delivery date in the order mail", "mail.py", 2),
    ("Reject empty baskets", "basket.py", 2),
    ("Log refused payments", "payments.py", 3),
    ("Sort the orders by date", "orders.py", 1),
    ("Support gift cards at the till", "gift_cards.py", 4),
    ("Round weights to grams", "weights.py", 2),
    ("Cache the exchange rates", "rates.py", 3),
    ("Move the address check to the client", "addresses.py", 3),
    ("Test the voucher that has run out", "vouchers.py", 2),
)


class Step(NamedTuple):
    """One thing the agent does: a reply when it has no tool, else a call of a tool."""

    tool: str = ""
    words: str = ""
    arguments: dict[str, str] | None = None
    result: str = ""
    failed: bool = False
    tokens: int = 0
    took_s: float = 1.0


class Shop:
    """The files the agent works on, and its tools."""

    def __init__(self) -> None:
        self.files = {
            "tests/test_checkout.py": "assert total([100]) == 107.00",
            "shop/cart.py": _WRONG,
            "shop/tax.py": _CAUSE,
        }
        self._before = dict(self.files)

    def read(self, path: str) -> Step:
        """Look into a file."""
        return Step("read_file", arguments={"path": path}, result=self.files[path], took_s=0.4)

    def edit(self, path: str, text: str) -> Step:
        """Change a file."""
        self.files[path] = text
        return Step("edit_file", arguments={"path": path, "text": text}, result=f"{path} saved", took_s=0.6)

    def undo(self, path: str) -> Step:
        """Take a change back."""
        self.files[path] = self._before[path]
        return Step("undo", arguments={"path": path}, result=f"{path} is as it was", took_s=0.3)

    def run_tests(self) -> Step:
        """Whether the test passes depends on the files, not on how often one asks."""
        is_right = self.files["shop/tax.py"] == _CURE
        result = "12 passed" if is_right else "1 failed, 11 passed: test_total expected 107.00, got 107.01"
        return Step(
            "run_tests", arguments={"only": "checkout"}, result=result, failed=not is_right, took_s=4.0
        )

    def ask(self, tool: str, result: str) -> Step:
        """Any other tool of a repository."""
        return Step(tool, arguments={}, result=result, took_s=0.8)


class StubbornAgent:
    """Works, loops, and changes its course when it has been told often enough."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self._shop = Shop()
        self._context = 400

    def hear(self, guidance: str) -> None:
        """Words from outside, put into the agent's context like a message."""
        self.told.append(guidance)
        self._context += len(guidance) // 4

    def steps(self) -> Iterator[Step]:
        """What it does, step after step; the caller may speak to it between any two."""
        shop = self._shop
        yield self._say("I look at the test and at what it tests.")
        yield shop.read("tests/test_checkout.py")
        yield shop.read("shop/cart.py")
        yield self._say("The sum is not rounded. I round it.")
        yield shop.edit("shop/cart.py", _NO_CURE)
        for excuse in (*_EXCUSES, *["I run it again."] * (_MOST_ROUNDS - len(_EXCUSES))):
            yield self._say(excuse)
            yield shop.run_tests()
            if len(self.told) >= _PATIENCE:
                yield from self._another_way()
                return
        yield self._say("I cannot make the test pass. Please have a look.")

    def _another_way(self) -> Iterator[Step]:
        shop = self._shop
        yield self._say("Always the same answer: the fault is not in the cart. I look elsewhere.")
        yield shop.undo("shop/cart.py")
        yield shop.read("shop/tax.py")
        yield self._say("The tax rate is 7.01 %: that is the cent too many. I correct it.")
        yield shop.edit("shop/tax.py", _CURE)
        yield shop.run_tests()
        yield self._say("It passes. I check the rest before I hand over.")
        yield shop.ask("run_linter", "no complaints")
        yield shop.ask("show_changes", "shop/tax.py: 1 line changed")
        yield shop.ask("commit", "committed: correct the tax rate")
        yield self._say("Done: the checkout total is 107.00, the tax rate in shop/tax.py was wrong.")

    def _say(self, words: str) -> Step:
        # Every reply pays for all that was said before it: a loop costs more the longer it lasts.
        self._context += 180
        return Step(words=words, tokens=self._context, took_s=1.5)


def good_day(goal: str, file: str, edits: int) -> Iterator[Step]:
    """A short piece of work that goes well."""
    path = f"shop/{file}"
    yield Step(words=f"I read {path}, then: {goal.lower()}.", tokens=700 + 40 * edits, took_s=1.5)
    yield Step("read_file", arguments={"path": path}, result=f"{40 + len(goal)} lines", took_s=0.4)
    for n in range(1, edits + 1):
        change = {"path": path, "text": f"part {n} of: {goal}"}
        yield Step("edit_file", arguments=change, result=f"{path} saved, part {n}", took_s=0.6)
        yield Step("run_tests", arguments={"only": file}, result=f"{10 + n} passed", took_s=3.0 + n / 2)
    yield Step(words=f"Done: {goal}.", tokens=900 + 150 * edits, took_s=1.5)

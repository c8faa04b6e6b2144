"""The scripted agent of the demo: it works on a small shop, gets stuck, and follows the third intervention.

Only its moves are scripted: what its tools return follows from the files it has changed, and it leaves its
loop only because of the guidance it receives.
"""

from collections.abc import Generator, Iterator
from typing import Final, NamedTuple

GOAL: Final = "Make the checkout test pass: the total must be 107.00"

_INTERVENTIONS_IGNORED: Final = 3
_MOST_ROUNDS: Final = 12
_WRONG_LINE: Final = "return sum(prices)"
_WRONG_FIX: Final = "return round(sum(prices), 2)"
_CAUSE_LINE: Final = "return price * 0.0701"
_RIGHT_FIX: Final = "return price * 0.07"
_EXCUSES: Final = (
    "The test should pass now. I run it.",
    "Odd. I run the test again.",
    "Perhaps it was a hiccup. Once more.",
    "Understood. But this time it will pass.",
    "It must be flaky. Again.",
    "One more try before I plan anew.",
)

# Twelve tasks that go well: what is normal for the agent.
GOOD_TASKS: Final = (
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


class DemoStep(NamedTuple):
    """One thing the agent does: a reply when it has no tool, else a call of a tool."""

    tool: str = ""
    words: str = ""
    arguments: dict[str, str] | None = None
    result: str = ""
    failed: bool = False
    tokens: int = 0
    took_s: float = 1.0


Steps = Generator[DemoStep, bool, None]
"""The steps of a run; sent back is whether guidance was delivered after a step."""


class Shop:
    """The files the agent works on, and its tools."""

    def __init__(self) -> None:
        self.files = {
            "tests/test_checkout.py": "assert total([100]) == 107.00",
            "shop/cart.py": _WRONG_LINE,
            "shop/tax.py": _CAUSE_LINE,
        }
        self._before = dict(self.files)

    def read(self, path: str) -> DemoStep:
        """Return the step of reading a file."""
        return DemoStep("read_file", arguments={"path": path}, result=self.files[path], took_s=0.4)

    def edit(self, path: str, text: str) -> DemoStep:
        """Return the step of changing a file."""
        self.files[path] = text
        return DemoStep(
            "edit_file", arguments={"path": path, "text": text}, result=f"{path} saved", took_s=0.6
        )

    def undo(self, path: str) -> DemoStep:
        """Return the step of taking a change back."""
        self.files[path] = self._before[path]
        return DemoStep("undo", arguments={"path": path}, result=f"{path} is as it was", took_s=0.3)

    def run_tests(self) -> DemoStep:
        """Return the step of running the tests; the result depends on the files alone."""
        is_right = self.files["shop/tax.py"] == _RIGHT_FIX
        result = "12 passed" if is_right else "1 failed, 11 passed: test_total expected 107.00, got 107.01"
        return DemoStep(
            "run_tests", arguments={"only": "checkout"}, result=result, failed=not is_right, took_s=4.0
        )

    def call_tool(self, tool: str, result: str) -> DemoStep:
        """Return the step of calling any other tool."""
        return DemoStep(tool, arguments={}, result=result, took_s=0.8)


class StubbornAgent:
    """Works, loops, and changes its approach after the third intervention."""

    def __init__(self) -> None:
        self.guidance: list[str] = []
        self._shop = Shop()
        self._context = 400

    def receive(self, guidance: str) -> None:
        """Add guidance to the agent's context like a message."""
        self.guidance.append(guidance)
        self._context += len(guidance) // 4

    def steps(self) -> Iterator[DemoStep]:
        """Yield its steps; the caller may send guidance between any two."""
        shop = self._shop
        yield self._reply("I look at the test and at what it tests.")
        yield shop.read("tests/test_checkout.py")
        yield shop.read("shop/cart.py")
        yield self._reply("The sum is not rounded. I round it.")
        yield shop.edit("shop/cart.py", _WRONG_FIX)
        for excuse in (*_EXCUSES, *["I run it again."] * (_MOST_ROUNDS - len(_EXCUSES))):
            yield self._reply(excuse)
            yield shop.run_tests()
            if len(self.guidance) >= _INTERVENTIONS_IGNORED:
                yield from self._try_another_way()
                return
        yield self._reply("I cannot make the test pass. Please have a look.")

    def _try_another_way(self) -> Iterator[DemoStep]:
        shop = self._shop
        yield self._reply("Always the same answer: the fault is not in the cart. I look elsewhere.")
        yield shop.undo("shop/cart.py")
        yield shop.read("shop/tax.py")
        yield self._reply("The tax rate is 7.01 %: that is the cent too many. I correct it.")
        yield shop.edit("shop/tax.py", _RIGHT_FIX)
        yield shop.run_tests()
        yield self._reply("It passes. I check the rest before I hand over.")
        yield shop.call_tool("run_linter", "no complaints")
        yield shop.call_tool("show_changes", "shop/tax.py: 1 line changed")
        yield shop.call_tool("commit", "committed: correct the tax rate")
        yield self._reply("Done: the checkout total is 107.00, the tax rate in shop/tax.py was wrong.")

    def _reply(self, words: str) -> DemoStep:
        # Every reply pays for the whole context: a loop costs more the longer it lasts.
        self._context += 180
        return DemoStep(words=words, tokens=self._context, took_s=1.5)


def iter_good_task(goal: str, file: str, edits: int) -> Steps:
    """Yield the steps of a short task that goes well."""
    path = f"shop/{file}"
    yield DemoStep(words=f"I read {path}, then: {goal.lower()}.", tokens=700 + 40 * edits, took_s=1.5)
    yield DemoStep("read_file", arguments={"path": path}, result=f"{40 + len(goal)} lines", took_s=0.4)
    for n in range(1, edits + 1):
        change = {"path": path, "text": f"part {n} of: {goal}"}
        yield DemoStep("edit_file", arguments=change, result=f"{path} saved, part {n}", took_s=0.6)
        yield DemoStep("run_tests", arguments={"only": file}, result=f"{10 + n} passed", took_s=3.0 + n / 2)
    yield DemoStep(words=f"Done: {goal}.", tokens=900 + 150 * edits, took_s=1.5)

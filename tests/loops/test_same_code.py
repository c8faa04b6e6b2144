"""Code that is run again under other names."""

import pytest
from agent_steps import call, reported, restored_copy, run, shell, write

from steadyhelm.detectors.stagnation import StagnationMemory

NAMES = ("df", "data", "rows", "table", "sales", "frame")
PYTHON = 'import pandas as pd\n{0} = pd.read_csv("sales.csv")\n# {0} holds all of it\nprint({0}["sum"].sum())'
FUNCTION = "def f({0}, most=3):\n    return [{0}_one for {0}_one in {0}][-most:]\nprint(f(range(12), most=3))"
SCRIPT = (
    "const {0} = read('sales.json'); // all {0}\nlet [a, b] = {0}.map(({0}1) => {0}1.sum)\nconsole.log(a)"
)
TEXT = (
    'with open("a.txt") as {0}:\n    first, {0}2 = {0}.read().split(",", maxsplit=1)\n'
    'print(f"{{{0}2}} of {{first}}")'
)


def seen(*steps):
    return reported(StagnationMemory(), run(*steps))


def renamed(code, tool="python_interpreter", result="184202.75", named=lambda code: code):
    return [call(tool, named(code.format(it)), result) for it in NAMES]


class TestLoops:
    @pytest.mark.parametrize(
        "steps",
        [
            renamed(PYTHON),
            renamed(PYTHON, "execute", named=lambda code: {"code": code, "lang": "py"}),
            renamed(FUNCTION, "run_code", "[9, 10, 11]", lambda code: {"source": code}),
            renamed(SCRIPT, "node_repl", named=lambda code: {"code": code}),
            renamed(TEXT),
            [shell(f'python3 -c "{it} = 6 * 7; print({it})"', "42") for it in NAMES],
            [call("python", f"# {it}\nprint(sum(range(100)))", "4950") for it in NAMES],
        ],
        ids=["sole", "named", "function", "script", "text", "command", "comments"],
    )
    def test_the_fifth_time(self, steps):
        """
        Code run for the fifth time, with other names of its own or other comments, is a loop.
        """
        assert 4 == min(seen(*steps), default=None)

    def test_put_aside_it_goes_on_alike(self):
        """
        A memory that was saved and restored counts on.
        """
        memory, trace = StagnationMemory(), run(*renamed(FUNCTION))
        assert [] == reported(memory, trace[:2])
        assert 4 == reported(restored_copy(memory), trace[2:])[0]

    def test_queries(self):
        """
        A query that is spelt in another way each time computes the same.
        """
        spelt = (
            "select count(*) from members where active",
            "SELECT COUNT(*) AS n FROM members WHERE active = true",
            "select count(1) from members m where m.active",
            "SELECT count(id) FROM members WHERE active IS TRUE;",
            "select sum(1) as members_active from members where active",
        )
        assert [4] == seen(*(call("run_sql", {"sql": it}, "n\n---\n4417") for it in spelt))


class TestHealthy:
    def test_queries_about_other_things(self):
        """
        Queries about other tables, columns and values are no loop.
        """
        asked = ("active", "not active", "age > 18", "age < 18", "city = 'Oslo'")
        steps = [
            call("run_sql", {"sql": f"select count(*) as n from members where {it}"}, "n\n---\n4417")
            for it in asked
        ]
        assert [] == seen(*steps)

    @pytest.mark.parametrize(
        "code",
        [
            "print(len({0}), 'rows are in it')",
            "print(frame.{0}.count(), 'rows are in it')",
            'x = load("{0}.csv")\nprint(len(x), "rows are in it")',
            'print(load(kind="{0}", only={0}))',
        ],
        ids=["names of others", "columns", "texts", "arguments"],
    )
    def test_about_other_things(self, code):
        """
        Code about other things that computes the same is no loop.
        """
        assert [] == seen(*renamed(code, named=lambda it: {"code": it}, result="1000 rows are in it"))

    def test_other_results(self):
        """
        Code that computes something else each time is no loop.
        """
        steps = [{**it, "output_data": f"{n}84"} for n, it in enumerate(renamed(PYTHON))]
        assert [] == seen(*steps)

    def test_after_work(self):
        """
        Code run again after each change of a file is no loop.
        """
        assert [] == seen(*(step for it in renamed(PYTHON) for step in (write("a.py", str(it)), it)))

    def test_without_output(self):
        """
        Code that prints nothing is no loop.
        """
        assert [] == seen(*renamed(PYTHON, result=""))

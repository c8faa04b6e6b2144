import pytest
from agent_steps import call, reported, run

from steadyhelm.loops.repetitions import RepetitionMemory

END = "List of donors, end reached (row 171). Last: the lamp maker."


def seen(*steps):
    return reported(RepetitionMemory(), run(*steps))


class TestEntriesAndCases:
    @pytest.mark.parametrize(
        ("name", "args", "answer"),
        [
            ("append_row", {"sheet": "Leads", "row": ["lamp", "Ghent", "warm"]}, "appended at row {}"),
            ("add_record", {"table": "t", "record": {"name": "lamp", "kind": "oil"}}, '{{"record": {}}}'),
            ("new_claim", {"kind": "glass", "note": ""}, '{{"claim": {}, "fields": {{}}}}'),
            ("open_ticket", {"queue": "intake"}, "ticket {}"),
        ],
    )
    def test_the_same_again(self, name, args, answer):
        """
        The same row entered again, and the same case opened again, is the same, whatever its number.
        """
        assert [3, 4] == seen(*(call(name, args, answer.format(n)) for n in (27, 29, 30, 34, 35)))

    def test_others(self):
        """
        Other rows are a batch, an empty row may be wanted several times, and what is claimed is the next one.
        """
        rows = [
            call("append_row", {"row": [f"lamp {n}", "Ghent"]}, f"appended at row {27 + n}") for n in range(9)
        ]
        empty = [call("insert_row", {"sheet": "Leads"}, f"inserted row {27 + n}") for n in range(9)]
        claimed = [call("claim_case", {"queue": "intake"}, f"case {70210 + n}") for n in range(9)]

        assert [] == seen(*rows)
        assert [] == seen(*empty)
        assert [] == seen(*claimed)


class TestScrolling:
    @pytest.mark.parametrize("name", ["wheel", "scroll", "swipe"])
    def test_at_the_end(self, name):
        """
        Scrolling on where the end is reached has no effect, however far it is to go.
        """
        steps = [call(name, {"direction": "down", "clicks": n}, END) for n in (3, 8, 5, 12)]

        assert [3] == seen(*steps)

    def test_on_the_way(self):
        """
        Scrolling that shows other rows goes on, and so does looking at other lists.
        """
        rows = [call("wheel", {"direction": "down", "clicks": n}, f"{END} {n}") for n in (3, 8, 5, 12)]
        lists = [call("wheel", {"list": n, "clicks": 3}, END) for n in ("donors", "sheds", "boats", "carts")]

        assert [] == seen(*rows)
        assert [] == seen(*lists)

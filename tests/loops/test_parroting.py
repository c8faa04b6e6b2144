"""Tools that answer with the words of the call and one sentence of their own."""

import pytest
from agent_steps import call, reported, run

from steadyhelm.detectors.stagnation import StagnationMemory

WORDINGS = (
    "book the small hall for 11 January",
    "small hall on 11 January, please",
    "reserve small hall 11 January",
    "I would like the small hall on 11 January",
    "small hall needed 11 January",
    "please note a booking of the small hall for 11 January",
)
MANNERS = ("warmly", "kindly", "cordially", "politely", "gently", "briefly", "humbly")


def asked(*steps):
    return reported(StagnationMemory(), run(*steps))


class TestParroting:
    @pytest.mark.parametrize("tool", ["hall_book", "desk"])
    def test_order_that_is_not_understood(self, tool):
        """
        An order in other words each time that is never carried out is a loop, also at a tool of actions.
        """
        steps = [
            call(tool, it, {"received": it, "status": "not understood", "booking": None}) for it in WORDINGS
        ]

        assert asked(*steps)

    def test_other_wording_for_one_person(self):
        """
        One person asked in other words, each time without success, is one target.
        """
        texts = [["Ida Roth", f"{it} invited on 4 May"] for it in MANNERS]
        steps = [call("invite", it, {"echo": it, "sent": False, "why": "the list is sealed"}) for it in texts]

        assert asked(*steps)

    def test_another_person_each_time(self):
        """
        Another person each time is another target.
        """
        texts = [[f"guest {it}", "invited on 4 May"] for it in ("Ida", "Ove", "Pia", "Leo", "Una", "Jan")]
        steps = [call("invite", it, {"echo": it, "sent": False, "why": "the list is sealed"}) for it in texts]

        assert [] == asked(*steps)

    def test_orders_carried_out(self):
        """
        Orders that are acknowledged with their own words are work.
        """
        rows = [["Ida Roth", f"{it} reminded of item {n}"] for n, it in enumerate(MANNERS)]

        assert [] == asked(*(call("send_note", it, {"received": it, "sent": True}) for it in rows))

    def test_likeness_seen_late(self):
        """
        Questions whose likeness shows only at the seventh are reported there.
        """
        questions = (
            "melt point of X-14 compound",
            "melting temperature compound X14",
            "X-14 melting point celsius",
            "at what temperature does X-14 melt",
            "compound X-14 melting temperature",
            "melting point of compound X-14",
            "X-14 melts at",
        )

        assert asked(*(call("literature", {"terms": it}, f"0 documents match [{it}]") for it in questions))

"""Arguments that say nothing of the target: random tags, counters, a nonce within a text."""

import pytest
from agent_steps import call, reported, run, shell

from steadyhelm.detectors.stagnation import StagnationMemory
from steadyhelm.loops.repetitions import RepetitionMemory

TAGS = ("ed2b", "bae2", "f28e", "525a", "0b1d", "f5e9", "6a09", "c4d1")
CARD = "Ward 4 bed 9: diet soft, visitors from two to four, next round at six."


def asked(*steps):
    return reported(StagnationMemory(), run(*steps))


def repeated(*steps):
    return reported(RepetitionMemory(), run(*steps))


class TestValuesMadeUp:
    @pytest.mark.parametrize("name", ["tag", "label", "session", "run_id", "client_ref"])
    def test_random_value_beside_the_target(self, name):
        """
        One thing asked for under a random tag each time, with one substantial result, is a loop at the sixth.
        """
        assert 5 in asked(*(call("bed_card", {"bed": "4-9", name: tag}, CARD) for tag in TAGS))

    def test_random_value_within_an_object(self):
        """
        The tag may lie within another argument, and a counter beside it.
        """
        steps = [
            call("bed_card", {"bed": "4-9", "step": n, "options": {"trace": {"tag": tag}}}, CARD)
            for n, tag in enumerate(TAGS)
        ]

        assert asked(*steps)

    def test_random_value_that_is_the_target(self):
        """
        A value made up elsewhere that is all a call asks for, or whose name says that it is the target, is no
        tag.
        """
        assert [] == asked(*(call("get_session", {"session": tag}, CARD) for tag in TAGS))
        assert [] == asked(
            *(call("checks", {"repo": "mill", "commit": tag}, "4 checks passed") for tag in TAGS)
        )

    def test_tag_of_a_version(self):
        """
        Tags that count on name versions.
        """
        tags = [f"v2.{n}.0" for n in range(8)]
        result = "signature valid, signed by the release key"

        assert [] == asked(*(call("verify", {"image": "mill", "tag": tag}, result) for tag in tags))

    def test_other_result_for_each_value(self):
        """
        Results that differ are no loop, whatever the arguments.
        """
        steps = [
            call("bed_card", {"bed": "4-9", "tag": tag}, f"{CARD} Seen by nurse {n}.")
            for n, tag in enumerate(TAGS)
        ]

        assert [] == asked(*steps)


class TestNonceWithinText:
    def test_nonce_in_a_text(self):
        """
        A call that says all in one text is the same call, whatever nonce it has.
        """
        assert 2 in repeated(*(call("bedside", f'show "bed 9" nonce={tag}', CARD) for tag in TAGS))
        assert 2 in repeated(
            *(call("bedside", {"line": f'show "bed 9" attempt={n}'}, CARD) for n in range(6))
        )

    def test_nonce_in_a_command(self):
        """
        So is a command.
        """
        assert 2 in repeated(*(shell(f"ward show --bed=9 --request-id={tag}", CARD) for tag in TAGS))

    def test_other_value_in_a_text(self):
        """
        Another value names another target.
        """
        assert [] == repeated(*(shell(f"ward show --bed={n}", CARD) for n in range(6)))

    def test_aside_deep_within_an_object(self):
        """
        Asides are left out at any depth, also where there is but one argument.
        """
        steps = [
            call(
                "vestry",
                {"query": {"book": "hymnal", "context": {"meta": {"ts": 1780000000 + 31 * n}}}},
                CARD,
            )
            for n in range(6)
        ]

        assert 2 in repeated(*steps)


class TestStatusOfAService:
    def test_status_is_a_look(self):
        """
        A status asked for again and again with a counter beside the command is a loop.
        """
        steps = [
            call(
                "shell",
                {"cmd": "systemctl status spooler", "step": n, "explanation": f"reason {n}"},
                "spooler.service\n  Active: failed\n  Main PID: none",
            )
            for n in range(8)
        ]

        assert asked(*steps)


class TestTagsInResults:
    def test_result_that_names_the_attempt(self):
        """
        A result may name the number of the attempt: it is the same result.
        """
        steps = [
            call(
                "dim_lamp", {"lamp": "arch 2", "level": 40, "try": n}, f"try {n}: lamp arch 2 does not answer"
            )
            for n in range(1, 8)
        ]

        assert 5 in asked(*steps)

    def test_result_with_another_number(self):
        """
        Another number in the result is another result.
        """
        steps = [
            call("dim_lamp", {"lamp": "arch 2", "try": n}, f"try {n}: lamp arch 2 at level {n}")
            for n in range(1, 8)
        ]

        assert [] == asked(*steps)


SPELLINGS = (
    "grep -rn vatRate src",
    'grep -rn "vatRate" src',
    "grep -rnw vatRate src",
    "grep -R vatRate ./src",
    "grep -rn vatRate src/",
    "grep -rn --color=never vatRate src",
)


class TestSpellingsOfSearch:
    def test_one_search_with_other_calls_between(self):
        """
        One search in other spellings is one call, also with notes between.
        """
        found = "src/tax.ts:14: const vatRate = cfg.vat"
        steps = [
            it
            for n, command in enumerate(SPELLINGS)
            for it in (shell(command, found), call("note", {"t": f"line {n}"}, "ok"))
        ]

        assert repeated(*steps)

    def test_other_searches(self):
        """
        Another word, another place or another way to match is another search.
        """
        commands = ("grep -rn vat src", "grep -rni vat src", "grep -rn vat lib", "grep -rn rate src",
                    "grep -rn vat src | head", "grep -rnA3 vat src")  # fmt: skip

        assert [] == repeated(*(shell(it, "src/tax.ts:14: const vatRate = cfg.vat") for it in commands))

"""Try every rule for the arguments of commands with the examples that it names."""

import shlex

import pytest

from steadyhelm.fingerprints import encode_canonical
from steadyhelm.redaction import Redactor
from steadyhelm.redaction.commands import (
    find_command_secrets,
    find_commands,
    find_secret_arguments,
    load_command_rules,
)

RULES = load_command_rules()
REDACTOR = Redactor()


def redact(value):
    return REDACTOR.redact(value, encode_canonical(value))[0]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
class TestEveryRule:
    def test_its_example_is_redacted(self, rule):
        """
        The password of the example goes, and the command around it stays, in a line of a shell.
        """
        (span,) = find_command_secrets(rule.example)

        assert (
            rule.example[: span.start] + "[redacted: command argument]" + rule.example[span.end :]
            == redact(rule.example)
            == redact({"command": rule.example})["command"]
        )

    def test_its_example_is_redacted_in_a_list(self, rule):
        """
        The same command as a list of arguments loses the same password.
        """
        (span,) = find_command_secrets(rule.example)
        secret = rule.example[span.start : span.end]

        assert secret not in "\n".join(redact(shlex.split(rule.example)))

    def test_its_counter_example_stays(self, rule):
        """
        The counter-example has no password and is not changed.
        """
        assert rule.counter_example == redact(rule.counter_example)
        assert [] == list(find_secret_arguments(rule.counter_example.split()))

    def test_its_commands_are_found(self, rule):
        """
        Each command of the rule is found by name, so that the rule is applied at all.
        """
        for command in rule.commands:
            assert [command] == [word.text for word in find_commands(f"{command} -x".encode())]


def test_a_command_goes_on_in_the_next_line():
    """
    A backslash at the end of a line continues the command.
    """
    assert "hunter2" not in redact("curl -s \\\n  -u ann:hunter2 \\\n  https://example.org")


def test_the_end_of_a_command_ends_its_arguments():
    """
    What follows a semicolon, a pipe or a line break is another command.
    """
    text = "unzip a.zip; tool -P notes1\nother -P notes2 | third -P notes3"

    assert text == redact(text)

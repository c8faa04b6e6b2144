"""Check the hard rules of a profile: exact rules that are not part of the score."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

import msgspec
from msgspec import Struct

from steadyhelm.style.profile import HardRules
from steadyhelm.style.prose import CHARS_READ, Prose

NO_RULES: Final = HardRules()

_QUESTION: Final = re.compile(r"[?\uff1f\u061f](?=[\s\"'\u2019\u201d\u00bb)\]*_!?\uff1f]|$)")


class BrokenRule(Struct, frozen=True, kw_only=True):
    """A hard rule that a reply breaks: its name, a message, and a position (None: the whole reply)."""

    rule: str
    message: str
    position: int | None = None


def find_broken_rules(
    rules: HardRules, reply: str, prose: Prose, language: str | None
) -> tuple[tuple[BrokenRule, ...], str | None]:
    """Return the rules that a reply breaks, and why one could not be checked.

    Emoji and questions are searched for in the prose only, not in code.
    """
    if rules == NO_RULES:
        return (), None
    broken = tuple(_iter_broken(rules, reply, prose.text, language))
    return broken, "; ".join(_iter_unchecked(rules, reply, prose, language, broken)) or None


@cache
def _get_emoji_pattern() -> re.Pattern[str]:
    # Characters that are displayed as emoji by default, and any other followed by U+FE0F.
    return re.compile(
        "[\u231a\u231b\u23e9-\u23ec\u23f0\u23f3\u25fd\u25fe\u2614\u2615\u2648-\u2653\u267f\u2693\u26a1\u26aa\u26ab"
        "\u26bd\u26be\u26c4\u26c5\u26ce\u26d4\u26ea\u26f2\u26f3\u26f5\u26fa\u26fd\u2705\u270a\u270b\u2728\u274c"
        "\u274e\u2753-\u2755\u2757\u2795-\u2797\u27b0\u27bf\u2b1b\u2b1c\u2b50\u2b55"
        "\U0001f004\U0001f0cf\U0001f18e\U0001f191-\U0001f19a\U0001f1e6-\U0001f1ff\U0001f300-\U0001f64f"
        "\U0001f680-\U0001f6ff\U0001f7e0-\U0001f7eb\U0001f90c-\U0001f9ff\U0001fa70-\U0001faff]"
        "|[^\\s]\ufe0f"
    )


def _iter_unchecked(
    rules: HardRules, reply: str, prose: Prose, language: str | None, broken: Sequence[BrokenRule]
) -> Iterator[str]:
    if rules.language is not None and language is None and prose.words:
        yield f"too few words to tell whether the reply is in {rules.language!r}"
    found = {it.rule for it in broken}
    in_part = [name for name in ("no_emoji", "no_questions") if getattr(rules, name) and name not in found]
    if in_part and len(reply) > CHARS_READ:
        yield f"{' and '.join(in_part)} beyond the first {CHARS_READ >> 10} KiB of the reply"


def _iter_broken(rules: HardRules, reply: str, prose: str, language: str | None) -> Iterator[BrokenRule]:
    if rules.max_lines is not None:
        lines = reply.strip().count("\n") + 1 if reply.strip() else 0
        if lines > rules.max_lines:
            yield BrokenRule(
                rule="max_lines", message=f"{lines} lines, at most {rules.max_lines} are allowed"
            )
    if rules.no_emoji and (found := _get_emoji_pattern().search(prose)):
        yield BrokenRule(rule="no_emoji", message=f"emoji {found[0]}", position=found.start())
    if rules.valid_json and (fault := _describe_json_fault(reply)):
        yield BrokenRule(rule="valid_json", message=f"not JSON: {fault}")
    if rules.no_questions and (found := _QUESTION.search(prose)):
        yield BrokenRule(rule="no_questions", message="a question is asked", position=found.start())
    if rules.language is not None and language not in {None, rules.language}:
        yield BrokenRule(rule="language", message=f"written in {language!r} instead of {rules.language!r}")


def _describe_json_fault(reply: str) -> str:
    try:
        msgspec.json.decode(reply.encode("utf-8", "surrogatepass"))
    except (msgspec.DecodeError, UnicodeError) as exc:
        return str(exc)
    except RecursionError:
        return "nested too deeply"
    return ""

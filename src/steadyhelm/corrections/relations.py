"""Measure how a reply relates to what the agent asked, reported or was ordered to do before it."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from steadyhelm.corrections.messages import (
    AgentMessage,
    ParsedMessage,
    compute_share,
    count_common_phrases,
)

ORDER_CUES: Final = ("orders", "ships", "orders a fix", "let us", "remove")
"""The cues of a user who tells the agent what to do next."""

_MAX_OBJECTION: Final = 4.0
_MAX_PHRASES: Final = 20
_CLAUSE_END: Final = re.compile(r"[.!?;](?=\s)|[.!?;]$|\n|,? (?=but\b)")
_CONDITION: Final = re.compile(r"\b(?:if|unless|whether|in case|would|could|might|maybe)\b")


def measure_relations(
    message: ParsedMessage,
    agent: AgentMessage,
    prompt: ParsedMessage,
    objections: Mapping[int, float],
    cues: Collection[str],
    objection_of_first_sentence: float,
) -> dict[str, float]:
    """Return the features of a reply that only exist together with the messages before it.

    Args:
        message: The reply.
        agent: What the agent said last.
        prompt: What the user had asked before that.
        objections: The weight of what objects in the reply, by its place in `message.head`.
        cues: The names of the cues in the reply.
        objection_of_first_sentence: How much its first sentence objects, 0 when it does not.
    """
    return {
        **_measure_mood(message, objections),
        **_measure_repeated_order(message, agent, prompt),
        **_measure_answer(message, agent, cues, objection_of_first_sentence),
    }


def _measure_mood(message: ParsedMessage, objections: Mapping[int, float]) -> dict[str, float]:
    """Return how much objects in statements, in questions and under a condition: only the first is plain."""
    asked = stated = conditional = 0.0
    for start, end in _find_clauses(message.head) if objections else ():
        weight = sum(value for place, value in objections.items() if start <= place < end)
        if not weight:
            continue
        clause = message.head[start:end]
        if clause.endswith("?"):
            asked += weight
        else:
            stated += weight
        if _CONDITION.search(clause):
            conditional += weight
    return {
        "objection in a question": min(_MAX_OBJECTION, asked),
        "objection in a statement": min(_MAX_OBJECTION, stated),
        "objection under a condition": min(_MAX_OBJECTION, conditional),
    }


def _find_clauses(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each clause starts and ends, its sign included."""
    start = 0
    for match in _CLAUSE_END.finditer(text):
        yield start, match.end()
        start = match.end()
    if start < len(text):
        yield start, len(text)


def _measure_repeated_order(
    message: ParsedMessage, agent: AgentMessage, prompt: ParsedMessage
) -> dict[str, float]:
    """Return how far the reply repeats the request: after a report of success it was not carried out."""
    covered = compute_share(message.topics, prompt.topics)
    return {
        "request covered": covered,
        "words of the request": count_common_phrases(message.words, prompt.words, most=_MAX_PHRASES),
        "request covered after a report": covered * (agent.reports_done and not agent.expects_answer),
    }


def _measure_answer(
    message: ParsedMessage, agent: AgentMessage, cues: Collection[str], objection: float
) -> dict[str, float]:
    """Return what the reply is to the agent's last words: an answer to a question, a word on a report."""
    asked = agent.expects_answer
    reported = agent.reports_done and not asked
    says_no, asks = "opens with no" in cues, "?" in message.prose
    orders = any(name in cues for name in ORDER_CUES)
    return {
        "objection to a question": objection * asked,
        "objection to a report": objection * reported,
        "objection to a statement": objection * (not asked and not reported),
        "no to a question": float(says_no and asked),
        "no to no question": float(says_no and not asked),
        "asks back": float(asks and asked),
        "asks after a report": float(asks and reported),
        "orders after a question": float(orders and asked),
        "orders after a report": float(orders and reported),
    }

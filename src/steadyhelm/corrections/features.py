"""Turn a reply and the messages before it into named numbers for the model."""

import math
import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Final, NamedTuple

from steadyhelm.corrections.messages import (
    MAX_AGENT_CHARS,
    MAX_PROMPT_CHARS,
    MAX_REPLY_CHARS,
    PACKAGE,
    AgentMessage,
    ParsedMessage,
    compute_share,
    parse_agent_message,
    parse_message,
    take_end,
    take_start,
)
from steadyhelm.corrections.relations import ORDER_CUES, measure_relations
from steadyhelm.lexicons import Lexicon, load_lexicon

CUE_FILES: Final = ("objections", "protests", "observations", "continuations")
"""The lexicon files of cues.

A cue is a phrase that speaks for a correction (weight above zero) or against one (below); 1 is a plain sign,
0.3 a hint. The weights were set by hand before anything was learnt: learning may move them, not replace them.
"""

RULE_FILES: Final = ("agreement", "tone", "non_objections")
"""The lexicon files of patterns that rules use. They have no learnt weights."""

_MIN_CUE_SCORE, _MAX_CUE_SCORE = -4.0, 8.0
_REPORT_CUE_TRUST: Final = 0.3
_MAX_COUNT: Final = 1e6

_SHORT_REPLY_WORDS: Final = (1, 2, 3, 5, 8)
_LONG_REPLY_WORDS: Final = (25, 60)
_MIN_REPORT_WORDS: Final = 25
_MIN_IMPERSONAL_WORDS: Final = 15
_MAX_PASTE_ONLY_WORDS: Final = 8
_MIN_PASTE_ONLY_LINES: Final = 3
_MAX_SHOUT_LINES: Final = 6

_SMALL_THEN_CAPITAL: Final = re.compile("[a-z][A-Z]")

_MAX_AGREEMENT: Final = 4.0
_MIN_ECHO_SHARE: Final = 0.6
_MIN_SHARED_TOPICS: Final = 2
_WORD_OR_TWO, _PHRASE, _SENTENCE, _PARAGRAPH = 3, 8, 15, 30
"""The most words that each of them has."""


class ReplyFeatures(NamedTuple):
    """A reply as the model sees it: `numbers` by name, and the messages and cues they were computed from.

    `cues` maps the name of each cue to the matching words; `first_cues` has those in the first sentence;
    `rules` has the matches of the patterns that rules use, by name.
    """

    numbers: dict[str, float]
    message: ParsedMessage
    cues: dict[str, str]
    first_cues: dict[str, str]
    agent: AgentMessage
    rules: dict[str, re.Match[str]]

    @property
    def takes_up_prompt(self) -> bool:
        """Whether it takes up the user's message before: it shares topics with it, or says "still"."""
        shared = round(self.numbers["topics from the prompt"] * len(self.message.topics))
        return shared >= _MIN_SHARED_TOPICS or "still" in self.cues


def extract_features(
    reply: object,
    *,
    assistant_before: object = "",
    prompt_before: object = "",
    interrupted: object = False,
    tool_calls: object = 0,
    tool_errors: object = 0,
    turn: object = 0,
) -> ReplyFeatures:
    """Return the features of a reply; an argument of the wrong type counts as absent."""
    text = take_start(reply, MAX_REPLY_CHARS)
    message = parse_message(text)
    agent = parse_agent_message(take_end(assistant_before, MAX_AGENT_CHARS))
    prompt = parse_message(take_start(prompt_before, MAX_PROMPT_CHARS))
    # One search for the cues and for the rules: looking up each word of a text is most of it.
    found = load_lexicon(PACKAGE, *CUE_FILES, *RULE_FILES).search_all(message.head)
    known = load_cues().entries
    cues = {name: match.group().strip() for name, match in found.items() if name in known}
    rules = {name: match for name, match in found.items() if name not in known}
    first_cues = select_first_cues(cues, message)
    numbers = _list_absent_cues() | {f"cue: {name}": 1.0 for name in cues}
    numbers |= _measure_shape(text, message)
    is_report = numbers["reads like a report"] > 0
    numbers |= score_cues(cues, first_cues, len(message.words), is_report=is_report)
    numbers |= _measure_context(message, agent, prompt)
    numbers |= _measure_agreement(cues, first_cues, numbers, message, agent, rules)
    numbers |= measure_relations(
        message,
        agent,
        prompt,
        _locate_objections(found),
        cues,
        max(0.0, numbers["cue score of the first sentence"]),
    )
    numbers |= _measure_circumstances(interrupted, tool_calls, tool_errors, turn)
    return ReplyFeatures(numbers, message, cues, first_cues, agent, rules)


def load_cues() -> Lexicon:
    """Return all cues, in the order of the learnt weights."""
    return load_lexicon(PACKAGE, *CUE_FILES)


@cache
def _list_absent_cues() -> dict[str, float]:
    """Return the numbers of a text without cues. Not to be changed."""
    return {f"cue: {name}": 0.0 for name in load_cues().entries}


def find_cues(text: str) -> dict[str, str]:
    """Return the names of the cues in a text, each with the matching words.

    >>> find_cues("still broken")["broken"]
    'broken'
    """
    return {name: match.group().strip() for name, match in load_cues().search_all(text).items()}


def _locate_objections(found: Mapping[str, re.Match[str]]) -> dict[int, float]:
    """Return the weights of the cues that speak for a correction, by their places in the text."""
    known, places = load_cues().entries, dict[int, float]()
    for name, match in found.items():
        if name in known and known[name].weight > 0:
            places[match.start()] = places.get(match.start(), 0.0) + known[name].weight
    return places


def select_first_cues(cues: Mapping[str, str], message: ParsedMessage) -> dict[str, str]:
    """Return those of the cues that are in the first sentence too."""
    if not cues or message.first_sentence == message.head:
        return dict(cues)
    lexicon = load_cues()
    return {name: words for name, words in cues.items() if lexicon[name].search(message.first_sentence)}


def score_cues(
    cues: Iterable[str], first_cues: Iterable[str], word_count: int, *, is_report: bool = False
) -> dict[str, float]:
    """Return the summed weights of the cues, of those in the first sentence, and of all for the length.

    A review that is passed on speaks of faults by its nature: its cues count for less.
    """
    lexicon, trust = load_cues(), _REPORT_CUE_TRUST if is_report else 1.0
    total = trust * sum(lexicon[name].weight for name in cues)
    return {
        "cue score": _clamp_cue_score(total),
        "cue score of the first sentence": _clamp_cue_score(
            trust * sum(lexicon[name].weight for name in first_cues)
        ),
        "cue score for its length": _clamp_cue_score(total / math.log2(word_count + 3)),
    }


def clean_count(value: object) -> float:
    """Return a count between zero and a million; what is not a count is zero.

    >>> clean_count(float("nan")), clean_count(-3), clean_count(True), clean_count("7"), clean_count(7)
    (0.0, 0.0, 0.0, 0.0, 7.0)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(min(value, _MAX_COUNT)) if value > 0 else 0.0


def log_count(value: object) -> float:
    """Return the logarithm of a count and one, since the tenth matters less than the first."""
    return math.log1p(clean_count(value))


def _clamp_cue_score(value: float) -> float:
    return max(_MIN_CUE_SCORE, min(_MAX_CUE_SCORE, value))


def _measure_shape(reply: str, message: ParsedMessage) -> dict[str, float]:
    """Return the features of a reply's outer form."""
    words = len(message.words)
    shape = {
        "words": math.log1p(words),
        "characters": math.log1p(len(reply)),
        "lines": math.log1p(message.line_count),
        "sentences": math.log1p(message.sentence_count),
        "impersonal": float(words > _MIN_IMPERSONAL_WORDS and _is_impersonal(message)),
        "reads like a report": float(_is_report(reply, message)),
    }
    shape |= {f"at most {limit} words": float(words <= limit) for limit in _SHORT_REPLY_WORDS}
    shape |= {f"over {limit} words": float(words > limit) for limit in _LONG_REPLY_WORDS}
    return shape | _measure_pasted(message) | _measure_marks(reply, message)


def _measure_pasted(message: ParsedMessage) -> dict[str, float]:
    words = len(message.words)
    pasted = {f"pasted {kind}": min(2.0, math.log1p(lines)) for kind, lines in message.pasted_by_kind.items()}
    return pasted | {
        "pasted share": message.pasted_lines / max(1, message.line_count),
        "pasted any": float(message.pasted_lines > 0),
        "pasted errors": min(2.0, math.log1p(message.error_lines)),
        "pasted errors alone": float(
            words < _MAX_PASTE_ONLY_WORDS
            and message.error_lines > 0
            and message.line_count >= _MIN_PASTE_ONLY_LINES
        ),
    }


def _measure_marks(reply: str, message: ParsedMessage) -> dict[str, float]:
    text, end, shapes = message.text, message.text.rstrip(), _load_shapes()
    return {
        "ends with a question mark": float(end.endswith("?")),
        "question marks": min(3.0, message.prose.count("?")),
        "exclamation mark": float("!" in message.prose),
        "ends with a full stop": float(end.endswith(".")),
        "starts upper case": float(reply.lstrip()[:1].isupper()),
        "words in capitals": (
            min(3.0, shapes["shout"].count(reply)) if message.line_count < _MAX_SHOUT_LINES else 0.0
        ),
        "fenced code": float("```" in text),
        "ticked": min(3.0, shapes["ticked"].count(text)),
        "paths": min(3.0, shapes["path"].count(text)),
        "names a file with @": float(shapes["file with @"].search(text) is not None),
        "link": float("http" in text),
        "image": float("[image" in text),
        "bullets": min(5.0, shapes["bullet"].count(text)),
        "quotes": float(shapes["quote"].search(text) is not None),
        "identifiers": min(4.0, _count_identifiers(reply)),
    }


def _is_impersonal(message: ParsedMessage) -> bool:
    return _load_shapes()["first or second person"].search(message.head) is None


def _is_report(reply: str, message: ParsedMessage) -> bool:
    """Return whether a reply is long, formal, about code and addressed to no person: a review passed on."""
    return (
        len(message.words) > _MIN_REPORT_WORDS
        and _is_impersonal(message)
        and reply.lstrip()[:1].isupper()
        and _count_identifiers(reply) > 1
    )


def _count_identifiers(reply: str) -> int:
    # Whatever is an identifier has one of these in it; most replies have none.
    if "_" in reply or "()" in reply or _SMALL_THEN_CAPITAL.search(reply):
        return _load_shapes()["identifier"].count(reply)
    return 0


def _load_shapes() -> Lexicon:
    return load_lexicon(PACKAGE, "message_shape")


def _measure_context(message: ParsedMessage, agent: AgentMessage, prompt: ParsedMessage) -> dict[str, float]:
    """Return the features of how a reply relates to the messages before it."""
    topics = message.topics
    return {
        "agent asks": float(agent.asks),
        "agent offers": float(agent.offers),
        "agent asks which": float(agent.asks_to_choose),
        "agent lists options": float(agent.lists_options),
        "agent reports done": float(agent.reports_done),
        "agent announces work": float(agent.announces_work),
        "agent said nothing": float(not agent.text),
        "topics new to the tail": math.log1p(len(topics - agent.tail_topics)),
        "topics new to the agent": math.log1p(len(topics - agent.all_topics)),
        "topics from the tail": compute_share(agent.tail_topics, topics),
        "topics from the agent": compute_share(agent.all_topics, topics),
        "topics from the prompt": compute_share(prompt.topics, topics),
        "no topics": float(not topics),
    }


def _measure_agreement(
    cues: Mapping[str, str],
    first_cues: Mapping[str, str],
    numbers: Mapping[str, float],
    message: ParsedMessage,
    agent: AgentMessage,
    rules: Collection[str],
) -> dict[str, float]:
    """Return the features of agreement: how far a reply is a plain yes, thanks or a choice.

    The agreement score is a sum set by hand, like the cues: a yes, a word of agreement or a choice speaks for
    it; a question, an addition, a paste or a new topic against it; an order is a yes only as far as it
    repeats the offer.
    """
    agrees, adds = "agrees" in rules, "adds something" in rules
    says_yes = "opens with yes" in cues
    score = _score_signs(cues, message, agent, agrees=agrees) + _score_length(len(message.words)) - 0.7 * adds
    score += _score_order(cues, numbers, agent) + 0.8 * _is_echo(numbers, message, agent)
    score -= 1.2 * min(1.0, numbers["question marks"]) + 0.5 * numbers["pasted any"]
    score -= 0.3 * max(0.0, numbers["cue score of the first sentence"])
    score -= min(3.0, numbers["topics new to the tail"]) * (0.2 if says_yes else 0.12)
    bounded = max(-_MAX_AGREEMENT, min(_MAX_AGREEMENT, score))
    return {
        "agreement score": bounded,
        "agreement score above zero": max(0.0, bounded),
        "agrees": float(agrees),
        "adds something": float(adds),
        "yes and more": float(says_yes) * float(adds),
        "let us in the first sentence": float("let us" in first_cues),
    }


def _score_signs(
    cues: Mapping[str, str], message: ParsedMessage, agent: AgentMessage, *, agrees: bool
) -> float:
    words = len(message.words)
    score = 0.9 * agrees + 0.5 * agent.expects_answer + 0.4 * ("praise" in cues)
    if "opens with yes" in cues:
        score += 1.5 if words <= _PHRASE else 0.9
    if "picks an option" in cues:
        was_offered = agent.lists_options or agent.asks_to_choose
        score += (1.4 if was_offered else 0.4) * (1.0 if words <= _SENTENCE else 0.5)
    if "go on" in cues:
        score += 0.8 if agent.expects_answer else -0.6
    if "opens with a question" in cues:
        score -= 0.8
    return score


def _score_length(words: int) -> float:
    return (
        0.4 * (words <= _WORD_OR_TWO)
        + 0.2 * (words <= _PHRASE)
        - 0.5 * (words > _SENTENCE)
        - 0.6 * (words > _PARAGRAPH)
    )


def _score_order(cues: Mapping[str, str], numbers: Mapping[str, float], agent: AgentMessage) -> float:
    if not any(name in cues for name in ORDER_CUES):
        return 0.0
    return 1.6 * numbers["topics from the tail"] - 0.5 if agent.expects_answer else -0.9


def _is_echo(numbers: Mapping[str, float], message: ParsedMessage, agent: AgentMessage) -> bool:
    """Return whether a short answer to the agent consists mostly of the agent's own words."""
    is_short = len(message.words) <= _PHRASE
    return agent.expects_answer and is_short and numbers["topics from the tail"] >= _MIN_ECHO_SHARE


def _measure_circumstances(
    interrupted: object, calls: object, errors: object, turn: object
) -> dict[str, float]:
    return {
        "interrupted": float(interrupted is True),
        "tool calls": log_count(calls),
        "no tool calls": float(log_count(calls) == 0),
        "tool errors": log_count(errors),
        "turn": log_count(turn),
        "first turn": float(log_count(turn) <= math.log1p(1)),
    }

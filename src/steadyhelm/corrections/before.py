"""What stood before the reply: what the agent said last, and how the reply relates to it."""

import math
import re
from typing import Final, NamedTuple

from steadyhelm.corrections.reading import Reading
from steadyhelm.corrections.topics import share, topics

_TAIL: Final = 400
_WORD: Final = re.compile(r"[^\W\d][\w']*")
_OFFER: Final = re.compile(
    r"\b(?:want me to|would you like|should (?:i|we)|shall (?:i|we)|do you want|let me know|say the word"
    r"|happy to|if you(?:'d)? (?:want|like|prefer|agree)|ready (?:to|for)|your call|up to you"
    r"|what do you think|prefer|confirm|go-ahead|sound good|look (?:good|right|complete)|does (?:this|that"
    r"|it|the)|tell me|awaiting|ok(?:ay)? to|proceed\?)"
)
_WHICH: Final = re.compile(r"\b(?:which|what|how (?:should|would|do)|where|or)\b[^.?!\n]{0,120}\?")
_OPTIONS: Final = re.compile(r"(?:^|\n)[ \t]*(?:[-*] )?(?:\**(?:option )?[a-d1-4][.):]|\**option )")
_DONE: Final = re.compile(
    r"\b(?:done|completed?|fixed|implemented|added|updated|created|committed|pushed|merged|removed|renamed"
    r"|refactored|pass(?:es|ed|ing)?|green|clean|verified|working|ready|resolved|success(?:ful(?:ly)?)?"
    r"|works)\b"
)
_AT_WORK: Final = re.compile(
    r"\b(?:let me|i'll|i will|now (?:i|let|update|the|fix|add)|i'm|next)\b[^.\n]*[:.…]?\s*$"
)


class Before(NamedTuple):
    """The agent's last words, as far as a reply may answer them."""

    text: str
    tail: str
    asks: bool
    offers: bool
    which: bool
    options: bool
    done: bool
    at_work: bool
    tail_topics: frozenset[str]
    all_topics: frozenset[str]

    @property
    def expects_answer(self) -> bool:
        """Whether the agent waits for a word."""
        return self.asks or self.offers or self.which


def look_back(assistant: str) -> Before:
    """Read the end of what the agent said."""
    text = assistant.lower().replace("\u2019", "'").rstrip()
    tail = text[-_TAIL:]
    return Before(
        text=text,
        tail=tail,
        asks=text.endswith("?"),
        offers=bool(_OFFER.search(tail)),
        which=bool(_WHICH.search(tail)),
        options=bool(_OPTIONS.search(text)),
        done=bool(_DONE.search(text)),
        at_work=bool(_AT_WORK.search(tail[-160:])),
        tail_topics=topics(_WORD.findall(tail)),
        all_topics=topics(_WORD.findall(text)),
    )


def answering(reading: Reading, before: Before, prompt: Reading) -> dict[str, float]:
    """How a reply relates to what stood before it."""
    about = topics(reading.words)
    return {
        "agent asks": float(before.asks),
        "agent offers": float(before.offers),
        "agent asks which": float(before.which),
        "agent gives options": float(before.options),
        "agent says done": float(before.done),
        "agent is at work": float(before.at_work),
        "agent said nothing": float(not before.text),
        "new to the tail": math.log1p(len(about - before.tail_topics)),
        "new to the agent": math.log1p(len(about - before.all_topics)),
        "from the tail": share(before.tail_topics, about),
        "from the agent": share(before.all_topics, about),
        "from the prompt": share(topics(prompt.words), about),
        "about nothing": float(not about),
    }

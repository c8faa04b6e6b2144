"""Other questions, the same answer: the agent asks on and learns nothing."""

import functools
import re
from typing import Any, Final

from msgspec import Struct, field

from steadyhelm.events import TOOL_CALL, TraceEvent
from steadyhelm.loops.likeness import likeness, words_of
from steadyhelm.loops.outcomes import UNKNOWN, Outcome
from steadyhelm.loops.scope import Scope
from steadyhelm.loops.sightings import IDS_KEPT, Sighting, copied, is_told
from steadyhelm.loops.steps import Step, read_step

SAME_ANSWER: Final = 6
SAME_ANSWER_REWORDED: Final = 3
NOTHING_FOUND: Final = 8
SAME_SEARCH: Final = 4

_REWORDED: Final = 0.8
_SEARCH_ALIKE: Final = 0.5
_SEARCHES_KEPT: Final = 12
_LEAST_WORDS: Final = 3
_ASKED: Final = 2048

# An answer that says "nothing here" or "done" may rightly come many times.
_SAYS_LITTLE: Final = re.compile(
    r"\Z|\W*(?:no\b|none|not found|nothing|0 |\[\]|\{\}|empty|ok\b|success|done|true\b|null)", re.IGNORECASE
)
_NOTHING: Final = re.compile(r"\Z|\W*(?:no\b|none|not found|nothing|0 |\[\]|\{\}|empty|null)", re.IGNORECASE)
# A word or two about another item each time ("valid", "200 OK") are a verdict on it, and no standstill.
_VERDICT: Final = re.compile(r"\W*\w+(?:\W+\w+){0,2}\W*\Z")
_QUESTIONS: Final = frozenset({"query", "q", "search_query", "question", "instruction", "keywords"})


_known_words: Final = functools.lru_cache(maxsize=_SEARCHES_KEPT)(words_of)
"""The words of a search: each is compared with several that follow it."""


class Answer(Struct):
    """What one tool has kept saying."""

    tool: str
    outcome: Outcome
    asked: bytes
    last_seq: int
    last_step: int
    ids: list[str]
    count: int = 1
    alike: float = 1.0


class Search(Struct):
    """A question asked in words."""

    name: str
    asked: bytes
    seq: int
    event_id: str


class Answers(Struct):
    """The latest answer of the tool in use, and the searches of this stretch."""

    scope: Scope = field(default_factory=Scope)
    answer: Answer | None = None
    searches: list[Search] = field(default_factory=list)
    steps: int = 0

    def take(self, event: TraceEvent) -> Sighting | None:
        """What this event asks again, if anything."""
        if event.action_type == TOOL_CALL:
            return self.add(read_step(event))
        if self.scope.takes_words(event):
            self._open()
        return None

    def foresee(self, call: TraceEvent) -> Sighting | None:
        """What a call not yet made would ask again if the tool gave the same answer once more.

        That is foreseen of a question in other words, not of another question.
        """
        answer = self.answer if self.answer is not None and self.answer.tool == call.action_name else None
        may_stagnate = answer is not None and answer.count >= SAME_ANSWER_REWORDED - 1
        may_reword = len(self.searches) >= SAME_SEARCH - 1 and _question(call.input_data) is not None
        if not may_stagnate and not may_reword:
            return None
        step = Step(call, UNKNOWN)
        if answer is not None and likeness(words_of(step.asked), words_of(answer.asked)) >= _REWORDED:
            step = Step(call, answer.outcome)
        return copied(self).add(step)

    def add(self, step: Step) -> Sighting | None:
        """What this step asks again, if anything."""
        if step.is_work_done and self.scope.takes_work(step.call):
            self._open()
        self.steps += 1
        found = self._same_answer(step) if step.kind == "look" else None
        return found or self._same_search(step)

    def _open(self) -> None:
        self.answer = None
        self.searches.clear()

    def _same_answer(self, step: Step) -> Sighting | None:
        answer, event, outcome = self.answer, step.event, step.outcome
        if outcome.failed or not outcome.known:
            return None
        asked = step.asked
        if answer is None or answer.tool != event.action_name or not answer.outcome.equals(outcome):
            self.answer = Answer(event.action_name, outcome, asked, event.seq, self.steps, [event.event_id])
            return None
        if asked == answer.asked or not step.had_seen(answer.last_seq):
            return None  # the same question: that is for the repetition to count
        near = likeness(words_of(asked), words_of(answer.asked))
        adjacent = self.steps - answer.last_step == 1
        answer.count += 1
        answer.alike = min(answer.alike, near)
        answer.asked, answer.last_seq, answer.last_step = asked, event.seq, self.steps
        answer.ids = [*answer.ids, event.event_id][-IDS_KEPT:]
        return self._judged(step, answer, reworded=adjacent and near >= _REWORDED)

    def _judged(self, step: Step, answer: Answer, *, reworded: bool) -> Sighting | None:
        says_little = _SAYS_LITTLE.match(step.outcome.sample) is not None
        if answer.alike < _REWORDED and _is_verdict(step.outcome.sample):
            return None
        enough = NOTHING_FOUND if says_little else SAME_ANSWER
        if answer.alike >= _REWORDED and not says_little:
            enough = SAME_ANSWER_REWORDED
        if answer.count >= enough and is_told(answer.count, enough):
            what = f"{step.event.action_name} gave the same answer {answer.count} times, however it was asked"
            ids = tuple(answer.ids)
            return Sighting(
                pattern="stagnation", count=answer.count, patience=enough, event_ids=ids, message=what
            )
        if reworded and answer.count < enough:
            return Sighting(
                pattern="near repetition",
                count=answer.count,
                patience=enough,
                event_ids=tuple(answer.ids[-2:]),
                message=f"{step.event.action_name} was asked the same in other words, with the same answer",
                noticed_only=True,
            )
        return None

    def _same_search(self, step: Step) -> Sighting | None:
        question = _question(step.event.input_data)
        if question is None or step.outcome.outage:
            return None
        asked = question[:_ASKED].encode("utf-8", "replace")
        for search in self.searches:
            if search.asked == asked:
                return None  # the very same question is for the repetition to count, or its next page
        words = _known_words(asked)
        if len(words) < _LEAST_WORDS:
            return None
        name = step.event.action_name
        alike = [
            search.event_id
            for search in self.searches
            if search.name == name
            and step.had_seen(search.seq)
            and likeness(words, _known_words(search.asked)) >= _SEARCH_ALIKE
        ]
        self.searches.append(Search(name, asked, step.event.seq, step.event.event_id))
        if len(self.searches) > _SEARCHES_KEPT:
            del self.searches[0]
        count = len(alike) + 1
        if count < SAME_SEARCH or not is_told(count, SAME_SEARCH):
            return None
        return Sighting(
            pattern="reworded search",
            count=count,
            patience=SAME_SEARCH,
            event_ids=(*alike, step.event.event_id),
            message=f"{name} was asked nearly the same {count} times",
        )


def _is_verdict(said: str) -> bool:
    return _VERDICT.match(said) is not None and _NOTHING.match(said) is None


def _question(args: Any) -> str | None:
    if not isinstance(args, dict) or _QUESTIONS.isdisjoint(args):
        return None
    for name, value in args.items():
        if name in _QUESTIONS and isinstance(value, str):
            return value
    return None

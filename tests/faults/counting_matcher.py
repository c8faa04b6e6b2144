"""A backtracking matcher that counts its steps, so that a slow pattern is noticed without a clock.

It works as Python's own engine does, on the same parsed pattern, and finds the same matches.
A step is one part of a pattern tried at one place, one alternative looked at, one character of a repetition,
one earlier choice returned to, or one place at which a match may begin.
What costs the engine more counts as several steps; one step is about 2.5 ns of an ordinary machine.
"""

import re
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]

import pattern_parts as parts
from pattern_parts import BEGIN_STEPS, DONE, CharacterTest

ONE_CHARACTER = {codes.LITERAL, codes.NOT_LITERAL, codes.ANY, codes.IN}
REPEATS = {codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT}
FOUND_STEPS = 50
"""What it costs to return one match."""


class TooManySteps(Exception):  # noqa: N818 - it says what happened
    """A match took more steps than it was allowed."""


class Attempt:
    """The state of one attempt: where it is, its groups and loops, and the choices it can return to.

    Groups and loops are tuples, which a choice keeps as they were.
    """

    def __init__(self, text, *, most_steps, groups, loops):
        self.text, self.end, self.most_steps = text, len(text), most_steps
        self.no_marks, self.loops = (-1,) * (2 * groups), (None,) * loops
        self.pos, self.marks, self.bound = 0, self.no_marks, 0
        self.choices = []
        self.steps = 0
        self.must_end = False
        self.barred_end = -1
        """Where the match may not end: an empty match is not followed by another one at the same place."""

    def begin(self, part, pos):
        """Match from one place on; return whether it matches."""
        self.pos, self.marks = pos, self.no_marks
        return self.run(part)

    def run(self, part):
        """Match part after part until the last one, with choices of its own; return whether they match."""
        outer, self.choices = self.choices, []
        self.steps += BEGIN_STEPS
        try:
            while part is not DONE:
                self.steps += 1
                part = part.step(self)
                if part is None:
                    if not self.choices:
                        return False
                    part = self.return_to_choice()
        finally:
            self.choices = outer
        return True

    def keep_choice(self, part, pos, bound=0):
        """Remember that the match may also go on with this part from this place."""
        self.choices.append((part, pos, bound, self.marks, self.loops))

    def return_to_choice(self):
        if self.steps > self.most_steps:
            raise TooManySteps
        part, self.pos, self.bound, self.marks, self.loops = self.choices.pop()
        return part

    def set_mark(self, number):
        self.marks = (*self.marks[:number], self.pos, *self.marks[number + 1 :])

    def set_loop(self, number, count, began):
        self.loops = (*self.loops[:number], (count, began), *self.loops[number + 1 :])

    def get_spans(self, began):
        """Return where the match and its groups begin and end, as `re.Match.regs` does."""
        marks = iter(self.marks)
        spans = [pair if min(pair) >= 0 else (-1, -1) for pair in zip(marks, marks, strict=True)]
        return ((began, self.pos), *spans)


class CountingMatcher:
    """A compiled pattern that counts the steps of every match in `steps`."""

    def __init__(self, pattern, *, most_steps=10**9):
        parsed = parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)
        self.most_steps = most_steps
        self.steps = 0
        self._groups = parsed.state.groups - 1
        self._least_width = parsed.getwidth()[0]
        builder = Builder()
        self._first_part = builder.build(parsed, pattern.flags, parts.LastPart())
        self._first_character, is_looked_at = find_first(parsed, pattern.flags)
        self._start_steps = 1 if is_looked_at else 2 + BEGIN_STEPS
        self._loops = builder.loops

    def match(self, text):
        return self._match_at_start(text, must_end=False)

    def fullmatch(self, text):
        return self._match_at_start(text, must_end=True)

    def _match_at_start(self, text, *, must_end):
        attempt = self._attempt(text)
        attempt.must_end = must_end
        try:
            return attempt.get_spans(0) if attempt.begin(self._first_part, 0) else None
        finally:
            self.steps += attempt.steps

    def find_all(self, text):
        """Return the spans of every match that `finditer` would find."""
        attempt = self._attempt(text)
        found, pos = [], 0
        try:
            while (began := self._search(attempt, pos)) is not None:
                found.append(attempt.get_spans(began))
                attempt.steps += FOUND_STEPS
                pos = attempt.pos
                attempt.barred_end = pos if pos == began else -1
        finally:
            self.steps += attempt.steps
        return found

    def _search(self, attempt, pos):
        """Return where the next match begins, if there is one."""
        first, text = self._first_character, attempt.text
        last = attempt.end - self._least_width
        while pos <= last:
            if attempt.steps > self.most_steps:
                raise TooManySteps
            if first is None or (pos < attempt.end and first[text[pos]]):
                attempt.steps += 1
                if attempt.begin(self._first_part, pos):
                    return pos
            else:
                attempt.steps += self._start_steps
            attempt.barred_end = -1
            pos += 1
        return None

    def _attempt(self, text):
        most = self.most_steps - self.steps
        return Attempt(text, most_steps=most, groups=self._groups, loops=self._loops)


class Builder:
    """Builds the linked parts of a pattern from its parsed form, the last part first."""

    def __init__(self):
        self.loops = 0

    def build(self, parsed, flags, following):
        """Return the first part of a sequence; the last one leads to the one given."""
        for op, argument in reversed(list(parsed)):
            following = self._build_part(op, argument, flags, following)
        return following

    def _build_part(self, op, argument, flags, following):  # noqa: PLR0911 - one for each kind of part
        if op in ONE_CHARACTER:
            return parts.Character(CharacterTest(op, argument, flags), following)
        if op is codes.AT:
            return parts.Anchor(argument, flags, following)
        if op is codes.BRANCH:
            return self._build_branch(argument[1], flags, following)
        if op is codes.SUBPATTERN:
            return self._build_group(argument, flags, following)
        if op in REPEATS:
            return self._build_repeat(op, argument, flags, following)
        if op is codes.ATOMIC_GROUP:
            return parts.Atomic(self.build(argument, flags, parts.End()), 1, 1, following)
        if op in {codes.ASSERT, codes.ASSERT_NOT}:
            direction, inner = argument
            width = inner.getwidth()[0] if direction < 0 else 0
            body = self.build(inner, flags, parts.End())
            return parts.LookAround(body, width, op is codes.ASSERT, following)
        if op is codes.GROUPREF:
            return parts.BackReference(argument - 1, bool(flags & re.IGNORECASE), following)
        raise NotImplementedError(f"the counting matcher does not know {op}: teach it")

    def _build_branch(self, alternatives, flags, following):
        return parts.Branch(
            [(*find_first(it, flags), self.build(it, flags, following)) for it in alternatives]
        )

    def _build_group(self, argument, flags, following):
        number, added, removed, inner = argument
        flags = combine_flags(flags, added, removed)
        if number is None:
            return self.build(inner, flags, following)
        return parts.Mark(2 * number - 2, self.build(inner, flags, parts.Mark(2 * number - 1, following)))

    def _build_repeat(self, op, argument, flags, following):
        least, most, inner = argument
        most = float("inf") if most is codes.MAXREPEAT else most
        single = find_single(inner, flags)
        if single is not None:
            kind = {codes.MAX_REPEAT: parts.Retreat, codes.MIN_REPEAT: parts.Advance}.get(op)
            return parts.CharacterRepeat(CharacterTest(*single), least, most, kind, following)
        if op is codes.POSSESSIVE_REPEAT:
            return parts.Atomic(self.build(inner, flags, parts.End()), least, most, following)
        loop = parts.Loop(self.loops, least, most, op is codes.MAX_REPEAT, following)
        self.loops += 1
        loop.body = self.build(inner, flags, loop)
        return parts.LoopStart(loop)


def find_first(parsed, flags):
    """Return the test of the first character, or None; and whether the engine makes it before it begins."""
    if not len(parsed):
        return None, False
    op, argument = parsed[0]
    if op is codes.SUBPATTERN:
        return find_first(argument[-1], combine_flags(flags, *argument[1:3]))
    if op is codes.BRANCH and not flags & re.IGNORECASE:
        firsts = [alternative[0] if len(alternative) else (None, None) for alternative in argument[1]]
        are_literals = all(first is codes.LITERAL for first, _ in firsts)
        return (CharacterTest(codes.IN, firsts, flags), True) if are_literals else (None, False)
    if op in ONE_CHARACTER:
        is_looked_at = op in {codes.LITERAL, codes.IN} and not flags & re.IGNORECASE
        return CharacterTest(op, argument, flags), is_looked_at
    return None, False


def combine_flags(flags, added, removed):
    """Return the flags inside of a group such as `(?i-s:...)`."""
    if added & parser.TYPE_FLAGS:
        flags &= ~parser.TYPE_FLAGS
    return (flags | added) & ~removed


def find_single(parsed, flags):
    """Return the one character test that a repetition repeats, if it repeats nothing else."""
    if len(parsed) != 1:
        return None
    op, argument = parsed[0]
    if op is codes.SUBPATTERN and argument[0] is None:
        return find_single(argument[-1], combine_flags(flags, *argument[1:3]))
    return (op, argument, flags) if op in ONE_CHARACTER else None

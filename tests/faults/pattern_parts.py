"""The parts of a pattern, each of which matches at one place and leads to the part that follows.

`step` moves the attempt on and returns the next part, or None where the part does not match.
"""

import re
from re import _compiler as compiler  # type: ignore[attr-defined]
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]

BEGIN_STEPS = 7
"""What it costs to begin a match, a lookaround or a repetition."""
DONE = object()
"""What the last part of a pattern returns in place of a part that follows."""


class CharacterTest(dict):
    """Which characters one part matches, as the engine itself says; each is asked about once."""

    def __init__(self, op, argument, flags):
        part = parser.SubPattern(parser.State(), [(op, argument)])
        self._match = compiler.compile(part, flags & ~re.DEBUG).match

    def __missing__(self, character):
        text = bytes([character]) if isinstance(character, int) else character
        self[character] = self._match(text) is not None
        return self[character]


class End:
    """The end of a lookaround or of an atomic group."""

    def step(self, attempt):
        return DONE


class LastPart:
    """The end of the pattern."""

    def step(self, attempt):
        is_barred = attempt.pos == attempt.barred_end or (attempt.must_end and attempt.pos != attempt.end)
        return None if is_barred else DONE


class Character:
    """One character: a literal, a set, a category or a dot."""

    def __init__(self, test, following):
        self.test, self.following = test, following

    def step(self, attempt):
        pos = attempt.pos
        if pos == attempt.end or not self.test[attempt.text[pos]]:
            return None
        attempt.pos = pos + 1
        return self.following


class CharacterRepeat:
    """A repetition of one character, which needs no choice for each of them."""

    def __init__(self, test, least, most, kind, following):
        self.test, self.least, self.most, self.following = test, least, most, following
        self.choice = kind(test, following) if kind else None

    def step(self, attempt):
        attempt.steps += BEGIN_STEPS
        pos, most = attempt.pos, min(attempt.pos + self.most, attempt.end)
        reached = self.skip(attempt, self.least if isinstance(self.choice, Advance) else most - pos)
        if reached < pos + self.least:
            return None
        attempt.pos = reached
        if isinstance(self.choice, Advance):
            attempt.keep_choice(self.choice, reached, most)
        elif self.choice and reached > pos + self.least:
            attempt.keep_choice(self.choice, reached - 1, pos + self.least)
        return self.following

    def skip(self, attempt, most):
        """Return the place after the characters that fit, so many at most."""
        text, test, pos = attempt.text, self.test, attempt.pos
        stop = min(pos + most, attempt.end)
        while pos < stop and test[text[pos]]:
            pos += 1
        attempt.steps += pos - attempt.pos
        return pos


class Retreat:
    """The choice of a greedy repetition: one character less."""

    def __init__(self, test, following):
        self.following = following

    def step(self, attempt):
        if attempt.pos > attempt.bound:
            attempt.keep_choice(self, attempt.pos - 1, attempt.bound)
        return self.following


class Advance:
    """The choice of a lazy repetition: one character more."""

    def __init__(self, test, following):
        self.test, self.following = test, following

    def step(self, attempt):
        pos = attempt.pos
        if pos >= attempt.bound or not self.test[attempt.text[pos]]:
            return None
        attempt.pos = pos + 1
        attempt.keep_choice(self, pos + 1, attempt.bound)
        return self.following


class Branch:
    """Several alternatives. Each has a test of its first character, if it has one, or None.

    The engine passes over some that do not fit without trying them; the others cost one step more.
    """

    def __init__(self, alternatives):
        self.alternatives = alternatives
        self.later = LaterAlternatives(self)

    def step(self, attempt, number=0):
        pos = attempt.pos
        character = attempt.text[pos] if pos < attempt.end else None
        for first, is_passed_over, body in self.alternatives[number:]:
            number += 1
            attempt.steps += 1
            if first is None or (character is not None and first[character]):
                if number < len(self.alternatives):
                    attempt.keep_choice(self.later, pos, number)
                return body
            attempt.steps += not is_passed_over
        return None


class LaterAlternatives:
    """The choice of a branch: the alternatives that were not tried yet."""

    def __init__(self, branch):
        self.branch = branch

    def step(self, attempt):
        return self.branch.step(attempt, attempt.bound)


class LoopStart:
    """The place at which a repetition of several characters begins."""

    def __init__(self, loop):
        self.loop = loop

    def step(self, attempt):
        attempt.set_loop(self.loop.number, 0, -1)
        return self.loop


class Loop:
    """The place to which a repetition of several characters returns after each round."""

    def __init__(self, number, least, most, is_greedy, following):
        self.number, self.least, self.most, self.following = number, least, most, following
        self.body = None
        self.is_greedy = is_greedy
        self.again = LoopAgain(self)

    def step(self, attempt):
        count, began = attempt.loops[self.number]
        if count < self.least:
            attempt.set_loop(self.number, count + 1, began)
            return self.body
        if not self.is_greedy:
            attempt.keep_choice(self.again, attempt.pos)
            return self.following
        if count < self.most and attempt.pos != began:  # a round that matched nothing is the last
            attempt.keep_choice(self.following, attempt.pos)
            return self.again
        return self.following


class LoopAgain:
    """One more round of a repetition."""

    def __init__(self, loop):
        self.loop = loop

    def step(self, attempt):
        count, began = attempt.loops[self.loop.number]
        if count >= self.loop.most or attempt.pos == began:
            return None
        attempt.set_loop(self.loop.number, count + 1, attempt.pos)
        return self.loop.body


class Mark:
    """The beginning or the end of a group."""

    def __init__(self, number, following):
        self.number, self.following = number, following

    def step(self, attempt):
        attempt.set_mark(self.number)
        return self.following


class Atomic:
    """An atomic group, or a possessive repetition of one: what it matched is not tried otherwise."""

    def __init__(self, body, least, most, following):
        self.body, self.least, self.most, self.following = body, least, most, following

    def step(self, attempt):
        count = 0
        while count < self.most:
            state = attempt.pos, attempt.marks, attempt.loops
            if not attempt.run(self.body):
                attempt.pos, attempt.marks, attempt.loops = state
                break
            count += 1
            if attempt.pos == state[0] and count >= self.least:
                break
        return self.following if count >= self.least else None


class LookAround:
    """A condition on what follows or precedes."""

    def __init__(self, body, width, is_wanted, following):
        self.body, self.width, self.is_wanted, self.following = body, width, is_wanted, following

    def step(self, attempt):
        pos, marks, loops = attempt.pos, attempt.marks, attempt.loops
        attempt.pos = pos - self.width
        is_there = attempt.pos >= 0 and attempt.run(self.body)
        attempt.pos = pos
        if not (is_there and self.is_wanted):
            attempt.marks, attempt.loops = marks, loops
        return self.following if is_there is self.is_wanted else None


class BackReference:
    """What a group matched, once more."""

    def __init__(self, group, ignores_case, following):
        self.group, self.ignores_case, self.following = group, ignores_case, following

    def step(self, attempt):
        begin, end = attempt.marks[2 * self.group : 2 * self.group + 2]
        if min(begin, end) < 0:
            return None
        text, pos = attempt.text, attempt.pos
        wanted, there = text[begin:end], text[pos : pos + end - begin]
        attempt.steps += len(there)
        if wanted != there and not (self.ignores_case and wanted.lower() == there.lower()):
            return None
        attempt.pos = pos + end - begin
        return self.following


class Anchor:
    """A place: the beginning, the end, or the edge of a word."""

    def __init__(self, kind, flags, following):
        self.is_true = ANCHORS[(codes.AT_MULTILINE if flags & re.MULTILINE else {}).get(kind, kind)]
        self.is_word = CharacterTest(codes.IN, [(codes.CATEGORY, codes.CATEGORY_WORD)], flags)
        self.following = following

    def step(self, attempt):
        return self.following if self.is_true(self, attempt.text, attempt.pos) else None

    def is_line_start(self, text, pos):
        return pos == 0 or text[pos - 1 : pos] in NEWLINES

    def is_line_end(self, text, pos):
        return pos == len(text) or text[pos : pos + 1] in NEWLINES

    def is_before_end(self, text, pos):
        return pos == len(text) or (pos == len(text) - 1 and self.is_line_end(text, pos))

    def is_boundary(self, text, pos):
        before = pos > 0 and self.is_word[text[pos - 1]]
        return before is not (pos < len(text) and self.is_word[text[pos]])

    def is_no_boundary(self, text, pos):
        return len(text) > 0 and not self.is_boundary(text, pos)


NEWLINES = ("\n", b"\n")
ANCHORS = {
    codes.AT_BEGINNING: lambda anchor, text, pos: pos == 0,
    codes.AT_BEGINNING_STRING: lambda anchor, text, pos: pos == 0,
    codes.AT_BEGINNING_LINE: Anchor.is_line_start,
    codes.AT_END: Anchor.is_before_end,
    codes.AT_END_STRING: lambda anchor, text, pos: pos == len(text),
    codes.AT_END_LINE: Anchor.is_line_end,
    codes.AT_BOUNDARY: Anchor.is_boundary,
    codes.AT_NON_BOUNDARY: Anchor.is_no_boundary,
}

"""Actions after which everything looks as before."""

import functools
import re
from typing import Any, Final
from zlib import crc32

from msgspec import Struct, field

from steadyhelm.events import TraceEvent
from steadyhelm.loops.loop_detector import MAX_EVIDENCE_IDS, LoopMatch
from steadyhelm.loops.outcomes import MAX_SAMPLE_CHARS, CallOutcome, extract_text
from steadyhelm.loops.retried_actions import RetriedAction, read_state
from steadyhelm.loops.steps import ToolStep
from steadyhelm.noise import MADE_UP_CHARACTERS, mask_noise, mask_numbers

SAME_VIEWS_OF_LOOP: Final = 4

_MAX_VIEWS: Final = 8
_MIN_VIEW_CHARS: Final = 24
_MAX_VIEW_CHARS: Final = 16_384
_MIN_PAGE_LINES: Final = 3
_MIN_TARGET_CHARS: Final = 4
_MAX_TARGET_CHARS: Final = 200
PAGE_KEY: Final = 0
"""The key of the page that actions themselves return."""
_RELOAD: Final = re.compile(rb"(?i)refresh|reload|update")
_WORD_IN_NAME: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# Actions on a page or screen, whose effect is what is seen next. Typing into field after field is left out.
_SCREEN_ACTIONS: Final = frozenset(
    "click tap press submit toggle scroll swipe wheel drag hover navigate goto back keypress activate".split()  # noqa: SIM905
)
_SCROLLS: Final = frozenset({"scroll", "swipe", "wheel"})
_VIEW_WORDS: Final = frozenset(
    """
    cat describe fetch get inspect load look observe open page read screen screenshot see show snapshot state
    view
    """.split()  # noqa: SIM905 - so many quoted words read worse
)


class _Action(Struct, frozen=True):
    """The latest action: whether it was one on the screen, what it was about, and its event.

    `reloads` says that it only asked for the same page once more, as whoever waits for it does.
    """

    on_screen: bool
    targets: tuple[str, ...]
    event_id: str
    reloads: bool = False


class _View(Struct):
    """What was seen after an action, and after how many actions it looked the same.

    `letters` is a checksum of the letters of a long text, of which the outcome keeps the two ends only.
    """

    outcome: CallOutcome
    ids: list[str]
    count: int = 1
    letters: int = 0


class ActionEffects(Struct):
    """What was looked at right after an action, and whether it ever changed.

    `retried` is the latest action itself, made on one target again and again, `shown` are checksums of what
    actions have returned.
    """

    action: _Action | None = None
    views: dict[int, _View] = field(default_factory=dict)
    retried: RetriedAction | None = None
    shown: tuple[int, ...] = ()

    def clear(self) -> None:
        """Forget everything."""
        self.action = self.retried = None
        self.views.clear()
        self.shown = ()

    def observe(self, step: ToolStep) -> LoopMatch | None:
        """Record a step, and return a match when actions keep changing nothing that is seen."""
        event = step.event
        name = _name_action(event)
        on_screen = is_screen_action(name)
        if on_screen and self._shows_news(step):
            self.views.clear()  # what is seen from now on comes after something new
        if on_screen and _shows_page(step):
            self.action = None
            return self._match_view(step, PAGE_KEY, event.event_id)
        if step.kind == "work":
            retried = self._match_retried(step)
            if retried is not None:
                return retried
            targets = () if on_screen else _list_targets(event.input_data)
            self.action = _Action(on_screen, targets, event.event_id, on_screen and _reloads(step))
            return None
        scrolled = self._match_scrolled(step, name) if on_screen else None
        if scrolled is not None:
            return scrolled
        if not on_screen:
            self.retried = None
        action = self.action
        if action is None:
            return None
        self.action = None
        return (
            self._match_view(step, step.call_key, action.event_id, event.event_id)
            if _shows_effect(action, step)
            else None
        )

    def _shows_news(self, step: ToolStep) -> bool:
        """Return whether an action itself shows what was not seen before, and no mere acknowledgement."""
        state = read_state(step)
        if not state or any(it.outcome.equals(step.outcome) for it in self.views.values()):
            return False
        shown = crc32(mask_numbers(mask_noise(state)).encode("utf-8", "replace"))
        if shown in self.shown:
            return False
        self.shown = (*self.shown, shown)[-_MAX_VIEWS:]
        return True

    def _match_retried(self, step: ToolStep) -> LoopMatch | None:
        """Match an action made on one target again and again, whatever the place or the value."""
        self.retried = RetriedAction.follow(self.retried, step)
        return None if self.retried is None else self.retried.match()

    def _match_scrolled(self, step: ToolStep, name: str) -> LoopMatch | None:
        """Match scrolling on and on where the end is reached."""
        if step.kind != "look" or _SCROLLS.isdisjoint(_split_name(name)):
            self.retried = None
            return None
        return self._match_retried(step)

    def _match_view(self, step: ToolStep, key: int, *event_ids: str) -> LoopMatch | None:
        seen = self.views.pop(key, None)
        letters = _hash_letters(step) if step.outcome.size > MAX_SAMPLE_CHARS else 0
        if seen is None or seen.letters != letters or not _looks_same(seen.outcome, step.outcome):
            seen = _View(step.outcome, list(event_ids), letters=letters)
        else:
            seen.count += 1
            seen.ids = [*seen.ids, *event_ids][-MAX_EVIDENCE_IDS:]
        self.views[key] = seen
        if len(self.views) > _MAX_VIEWS:
            del self.views[next(iter(self.views))]
        if seen.count < SAME_VIEWS_OF_LOOP:
            return None
        name = step.event.action_name
        return LoopMatch(
            pattern="no effect",
            count=seen.count,
            patience=SAME_VIEWS_OF_LOOP,
            event_ids=tuple(seen.ids),
            sequence=(name,),
            message=f"{name} shows the same after {seen.count} actions: they have no effect",
        )


def _name_action(event: TraceEvent) -> str:
    """Return the name of a tool, with the action it is asked for where it has one for all."""
    args = event.input_data
    action = args.get("action") if isinstance(args, dict) else None
    return f"{event.action_name[:50]} {action[:30]}" if isinstance(action, str) else event.action_name


def _reloads(step: ToolStep) -> bool:
    return _RELOAD.search(step.arguments[:_MAX_TARGET_CHARS]) is not None


def is_screen_action(tool: str) -> bool:
    """Return whether a tool acts on a page or screen, by the words of its name.

    >>> is_screen_action("browser_click"), is_screen_action("write_file")
    (True, False)
    """
    return not _split_name(tool).isdisjoint(_SCREEN_ACTIONS)


def _looks_same(before: CallOutcome, now: CallOutcome) -> bool:
    """Return whether two views differ in nothing, or in names that a machine made up."""
    if before.equals(now):
        return True
    varying = before.find_varying_words(now)
    return varying is not None and varying.is_made_up


def _hash_letters(step: ToolStep) -> int:
    """Return a checksum of the letters of a long result, without digits and what a machine may make up."""
    text = extract_text(step.event.output_data)[:_MAX_VIEW_CHARS]
    return crc32(text.encode("utf-8", "replace").translate(None, MADE_UP_CHARACTERS))


def _shows_page(step: ToolStep) -> bool:
    """Return whether an action returns what is on the screen after it, and no mere acknowledgement."""
    outcome = step.outcome
    if not outcome.known or outcome.failed or step.kind == "wait":
        return False
    return outcome.sample.count("\n") >= _MIN_PAGE_LINES - 1


def _shows_effect(action: _Action, step: ToolStep) -> bool:
    """Return whether a look is one at what the action was about; a wait after it may show that too."""
    outcome = step.outcome
    if not outcome.known or outcome.failed or outcome.size < _MIN_VIEW_CHARS:
        return False
    if step.kind == "wait":
        is_polling = action.reloads or outcome.says_wait or outcome.says_nothing_new
        return action.on_screen and not is_polling
    if step.kind != "look" or _split_name(_name_action(step.event)).isdisjoint(_VIEW_WORDS):
        return False
    if action.on_screen:
        return True
    return not set(action.targets).isdisjoint(_list_targets(step.event.input_data))


def _list_targets(arguments: Any) -> tuple[str, ...]:
    """Return the arguments that may name what a call is about."""
    if not isinstance(arguments, dict):
        return ()
    targets = []
    for value in arguments.values():
        if isinstance(value, str) and _MIN_TARGET_CHARS <= len(value) <= _MAX_TARGET_CHARS:
            targets.append(value)  # noqa: PERF401 - every action goes through it, and a generator costs more
    return tuple(targets[:_MAX_VIEWS])


@functools.lru_cache(maxsize=256)
def _split_name(name: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD_IN_NAME.findall(name[:100]))

"""Track the goal of one run: its vocabulary, changes by the user, and how far replies are from it."""

import functools
import re
from typing import Any, Final, Literal

from msgspec import Struct, field

from steadyhelm.events import (
    LLM_REQUEST,
    NEW_GOAL,
    STATE_TRANSITION,
    TOOL_CALL,
    USER_MESSAGE,
    TraceEvent,
)
from steadyhelm.fingerprints import encode_arguments
from steadyhelm.goals.tokens import Tokens, sum_weights, to_text, tokenize
from steadyhelm.goals.vocabulary import GOAL_CHARS_KEPT, GoalDNA, StemTest, StemWeight, StepComparison
from steadyhelm.lexicons import load_lexicon

# Half of the average is replaced after two replies: one foreign reply changes little, four in a row a lot.
DRIFT_SMOOTHING: Final = 0.3
_QUESTION_WITHIN_LAST_CHARS: Final = 200
SHORTEST_REPLY_CHARS: Final = 20
"""Shorter replies say too little about the task."""

_CALLS_KEPT: Final = 12
_CALL_CHARS_READ: Final = 200
_ARGUMENT_CHARS_READ: Final = 160
_ARGUMENT_BYTES_READ: Final = 4 * _ARGUMENT_CHARS_READ
_PATH_PARTS_KEPT: Final = 3

_FILE_ARGUMENTS: Final = (
    *("path", "file_path", "command", "filePath", "filename", "file", "notebook_path", "target_file"),
    *("cmd", "cwd"),
)
_ESCAPED: Final = re.compile(rb"\\.")
"""A line end or a tab as it is written in JSON: its letter does not belong to the next word."""

_PARENT_FOLDERS: Final = re.compile(rb'(?<=")/(?:[^/"\\ ]+/){1,40}(?=(?:[^/"\\ ]+/){2}[^/"\\ ])')
"""The folders of an argument that is an absolute path, but for the nearest: they are those of all calls."""

_PATH_IN_COMMAND: Final = re.compile(
    r"(?<![\w.@-])[\w.@-]*/[\w./@-]+|(?<![\w.-])[\w-]{2,60}\.[A-Za-z]\w{0,4}\b"
)


class GoalTracker(Struct):
    """The goal of one run, updated by its events in order.

    `drift` is an average over the last few replies, 0 to 1, low while little is known; None when nothing is.
    `goal` is the task set by a later user message, empty while the first one holds.
    `given` is the goal the run was given, `changes` how often the user has set another task.
    `is_added_to` is True once the user has asked for more, so that the goal's text is no longer all of it.
    `reply_drift` is the drift of the last reply alone, `reply_names` the words of the task it named; `said`
    are its content words, `plain` counts the others.
    """

    dna: GoalDNA | None = None
    goal: str = ""
    is_added_to: bool = False
    drift: float | None = None
    calls: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    made_concrete: list[str] = field(default_factory=list)
    has_replied: bool = False
    has_asked: bool = False
    given: str = ""
    changes: int = 0
    reply_drift: float | None = None
    reply_names: list[str] = field(default_factory=list)
    plain: int = 0

    @property
    def current(self) -> str:
        """The goal that holds now: the task the user set last, or the goal the run was given."""
        return self.goal or self.given

    def start(self, goal: str) -> None:
        """Set the goal of a run that starts. In a resumed run, keep what is already known."""
        if self.dna is None and goal:
            self.dna = GoalDNA(goal)
            self.given = goal

    def observe(self, event: TraceEvent) -> None:
        """Update the goal by one event of the run."""
        kind = event.action_type
        if kind == TOOL_CALL:
            self.record_call(event)
        elif kind == LLM_REQUEST:
            text = event.text
            if len(text) >= SHORTEST_REPLY_CHARS:
                self.record_reply(text)
        elif kind == USER_MESSAGE:
            self.record_user_message(event.text)
        elif kind == STATE_TRANSITION:
            if event.action_name == NEW_GOAL:
                self.set_goal(event.text)
            elif is_plan_name(event.action_name):
                self.record_plan(event.input_data or event.output_data)

    def record_call(self, event: TraceEvent) -> None:
        """Record which file a call names. Its words are read with the next reply, to keep calls cheap."""
        args = event.input_data
        if not isinstance(args, dict):
            return
        if is_plan_name(event.action_name):
            self.record_plan(args)
            return
        for name in _FILE_ARGUMENTS:
            named = args.get(name)
            if isinstance(named, str):
                calls = self.calls
                if not calls or calls[-1] != named:
                    calls.append(to_text(named[:_CALL_CHARS_READ]))
                    if len(calls) > _CALLS_KEPT:
                        del calls[0]
                return

    def record_plan(self, plan: Any) -> None:
        """Add the words of the agent's plan to the task."""
        if self.dna is not None:
            self.dna.grow(plan, "plan")

    def record_user_message(self, message: str) -> bool:
        """Record a user's message and return whether it sets another task.

        Without a goal, the first message becomes the goal.
        """
        dna = self.dna
        if dna is None:
            self.dna = GoalDNA(message) if message else None
            return False
        if not self.has_replied:
            # Everything said before the first reply belongs to the task itself.
            dna.grow(message, "user")
            return False
        self._update_vocabulary(dna)
        change = classify_message(dna, message, answering=self.has_asked)
        if change.accepts and change.kind != "new_goal":
            dna.learn(self.said, "accepted")
        self.dna = apply_change(dna, message, change)
        if change.kind == "new_goal":
            self._start_task(message)
            return True
        self.has_asked = False
        self.is_added_to = self.is_added_to or (change.kind == "refines" and bool(change.new))
        return False

    def set_goal(self, goal: str) -> None:
        """Replace the task by another one that the host reports. An empty one changes nothing."""
        if not goal:
            return
        if self.dna is None:
            self.start(goal)
        elif goal != self.current:
            self.given = self.given or goal
            self._update_vocabulary(self.dna)
            self.dna = self.dna.start_new_goal(goal)
            self._start_task(goal)

    def _start_task(self, task: str) -> None:
        """Forget how far the replies were from the task before."""
        self.goal, self.is_added_to, self.drift = to_text(task)[:GOAL_CHARS_KEPT], False, None
        self.has_replied, self.has_asked, self.said = False, False, []
        self.changes += 1

    def record_reply(self, text: str) -> None:
        """Update the drift by a reply. What the reply adds to the task counts from the next one on."""
        dna = self.dna
        if dna is None:
            return
        self._update_vocabulary(dna)
        words = tokenize(text)
        reading = dna.compare(words)
        self.reply_drift, self.reply_names = reading.drift, reading.named
        if reading.drift is not None:
            before = self.drift or 0.0
            self.drift = before + DRIFT_SMOOTHING * (reading.drift - before)
        self.said, self.plain = words.content, words.plain
        self.made_concrete = reading.unknown if reading.is_on_task else []
        self.has_replied = True
        self.has_asked = "?" in text[-_QUESTION_WITHIN_LAST_CHARS:]

    def compare_reply(self, weigh: StemWeight, is_used: StemTest) -> StepComparison | None:
        """Return the last reply compared with the task, its words weighed; None when there is no task.

        A reply that names the task only by words which do not count adds nothing to it.
        """
        if self.dna is None:
            return None
        reading = self.dna.compare(Tokens(self.said, self.plain), weigh, is_used)
        if not reading.is_on_task:
            self.made_concrete = []
        return reading

    def compare_call(
        self, event: TraceEvent, weigh: StemWeight | None = None, is_used: StemTest | None = None
    ) -> StepComparison | None:
        """Return the arguments of a call compared with the task; None when there is nothing to compare."""
        if self.dna is None or not event.input_data or is_plan_name(event.action_name):
            return None
        if isinstance(event.input_data, str):
            text = to_text(event.input_data)
        else:
            text = _read_arguments(event).decode("utf-8", "replace")
        return self.dna.compare(tokenize(text, _ARGUMENT_CHARS_READ), weigh, is_used)

    def _update_vocabulary(self, dna: GoalDNA) -> None:
        """Add the files and words recorded since the last update to the vocabulary."""
        if self.calls:
            dna.grow(" ".join(map(_last_path_parts, self.calls)), "file")
            self.calls = []
        if self.made_concrete:
            dna.learn(self.made_concrete, "work")
            self.made_concrete = []


@functools.lru_cache(maxsize=256)
def is_plan_name(name: str) -> bool:
    """Return whether the name of a tool or state change says that it is about a plan."""
    return load_lexicon(__package__, "plans")["plan name"].search(name[:100]) is not None


def _read_arguments(event: TraceEvent) -> bytes:
    """Return the beginning of a call's arguments as JSON, without escapes and the folders of all calls."""
    encoded = encode_arguments(event)[:_ARGUMENT_BYTES_READ]
    has_folders = b'"/' in encoded
    if not has_folders and encoded.isascii():
        # Of two bytes at least one character is left, and no more are read than half of these.
        encoded = encoded[: 2 * _ARGUMENT_CHARS_READ]
    if b"\\" in encoded:
        encoded = _ESCAPED.sub(b" ", encoded)
    return _PARENT_FOLDERS.sub(b"", encoded) if has_folders else encoded


def _last_path_parts(call: str) -> str:
    """Return the last parts of a path, or of each path in a command."""
    if " " not in call:
        return "/".join(call.rsplit("/", _PATH_PARTS_KEPT)[-_PATH_PARTS_KEPT:])
    return " ".join(map(_last_path_parts, _PATH_IN_COMMAND.findall(call)))


# Classify what a user's new message does to the goal: nothing, a refinement, or another task. A message
# that cannot be classified counts as a refinement: its words are known from then on, so work on a new task
# that was not recognised is not reported as drift either.

ChangeKind = Literal["same", "refines", "new_goal"]
_Stems = tuple[str, ...]

MESSAGE_CHARS_READ: Final = 2048
_OPENING_CHARS: Final = 200
_FIRST_WORDS_CHARS: Final = 40
_MIN_DETAIL_WEIGHT: Final = 1.5
_MIN_TASK_WEIGHT: Final = 2.8
_MIN_TASK_WORDS: Final = 4
_MIN_KNOWN_WORDS: Final = 3
_FOREIGN_SHARE: Final = 2.0
"""How much more than its known words the new words of a message weigh that breaks off the task."""


class GoalChange(Struct, frozen=True, kw_only=True):
    """The effect of a message on the goal, its reason, and the known and new content words.

    `accepts` is True when the user lets the agent go on, so that its last reply becomes part of the task.
    """

    kind: ChangeKind
    reason: str
    accepts: bool = False
    known: tuple[str, ...] = ()
    new: tuple[str, ...] = ()


def classify_message(dna: GoalDNA, message: str, *, answering: bool = False) -> GoalChange:
    """Return what a user's message does to the goal; `answering` means that the agent had just asked.

    >>> dna = GoalDNA("Build a REST API for user management")
    >>> for message in (
    ...     "yes, go on",
    ...     "the API must use OAuth tokens",
    ...     "Translate the Norwegian brochure into Finnish",
    ... ):
    ...     print(classify_message(dna, message).kind)
    same
    refines
    new_goal
    """
    words = tokenize(message, MESSAGE_CHARS_READ).content
    known = tuple(word for word in words if dna.is_known(word))
    new = tuple(word for word in words if not dna.is_known(word))
    opening = message[:_OPENING_CHARS]
    accepts = _matches("go on", opening)
    kind, reason = _classify(dna, opening, known, new, accepts=accepts, answering=answering)
    return GoalChange(kind=kind, reason=reason, accepts=accepts, known=known, new=new)


def apply_change(dna: GoalDNA, message: str, change: GoalChange) -> GoalDNA:
    """Return the vocabulary after the message: the same with its words added, or that of a new goal."""
    if change.kind == "new_goal":
        return dna.start_new_goal(message)
    dna.grow(message, "user")
    return dna


def _classify(
    dna: GoalDNA, opening: str, known: _Stems, new: _Stems, *, accepts: bool, answering: bool
) -> tuple[ChangeKind, str]:
    weight = sum_weights(new)
    if new and weight >= _FOREIGN_SHARE * sum_weights(known) and _matches("switches task", opening):
        return "new_goal", "it breaks off the task and names another"
    if _matches("takes back", opening):
        return "refines", "it takes something back"
    if not new or (accepts and weight < _MIN_DETAIL_WEIGHT):
        return "same", "it adds hardly anything"
    if weight >= _MIN_DETAIL_WEIGHT and _matches("announces a task", opening):
        return "new_goal", "it announces another task"
    if answering and not known:
        return "same", "it answers the agent's question"
    why = _find_reason_to_refine(dna, opening, known, accepts)
    if not why and (len(new) < _MIN_TASK_WORDS or weight < _MIN_TASK_WEIGHT):
        why = "it says too little to be another task"
    return ("refines", why) if why else ("new_goal", "it shares nothing with the task so far")


def _find_reason_to_refine(dna: GoalDNA, opening: str, known: _Stems, accepts: bool) -> str:
    if known:
        return "it uses words of the task"
    if len(dna.core) + len(dna.asked) < _MIN_KNOWN_WORDS:
        return "too little is known about the task to recognise another one"
    if accepts:
        return "it says go on, and adds to the task"
    if _matches("refers back", opening[:_FIRST_WORDS_CHARS]):
        return "it refers to what was said before"
    return "it asks a question" if _matches("question", opening) else ""


def _matches(name: str, text: str) -> bool:
    return load_lexicon(__package__, "messages")[name].search(text) is not None

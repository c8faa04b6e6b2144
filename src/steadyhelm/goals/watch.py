"""One run's task as the run goes along: its vocabulary, changes of goal, and how far replies are from it."""

import functools
import re
from typing import Any, Final

from msgspec import Struct, field

from steadyhelm.events import TraceEvent
from steadyhelm.goals.changes import followed, goal_change
from steadyhelm.goals.dna import GOAL_KEPT, GoalDNA
from steadyhelm.goals.words import read_words, text_of

# Half of it is forgotten after two replies: one strange reply is forgiven, four in a row are not.
ALPHA: Final = 0.3
_QUESTION_WITHIN: Final = 200
_CALLS_KEPT: Final = 12
_CALL_LOOKED_AT: Final = 200
_FOLDERS: Final = 3

_NAMING_FILES: Final = (
    *("path", "file_path", "command", "filePath", "filename", "file", "notebook_path", "target_file"),
    *("cmd", "cwd"),
)
_FILE_IN_COMMAND: Final = re.compile(r"[\w.@-]*/[\w./@-]+|(?<![\w.-])[\w-]{2,60}\.[A-Za-z]\w{0,4}\b")
_PLANNING: Final = re.compile(r"(?i:todo)|(?:(?<![A-Za-z])plan|Plan|PLAN)(?:s|ner|ning)?(?![a-z])")


class GoalWatch(Struct):
    """Follows one run: give it what happens, in order.

    `drift` is an average over the last few replies, 0 to 1, low while little is known; None when nothing is.
    `goal` is the task a user's later message set, empty while the first one holds;
    `is_added_to` says that the user has asked for more since, so that the goal's text is no longer all of it.
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

    def begin(self, goal: str) -> None:
        """The run starts, or is taken up again: what is known by then stays."""
        if self.dna is None and goal:
            self.dna = GoalDNA(goal)

    def take_call(self, event: TraceEvent) -> None:
        """Note which file a call names; its words are read with the next reply: a call must cost little."""
        args = event.input_data
        if not isinstance(args, dict):
            return
        if is_plan(event.action_name):
            self.take_plan(args)
            return
        for name in _NAMING_FILES:
            named = args.get(name)
            if isinstance(named, str):
                calls = self.calls
                if not calls or calls[-1] != named:
                    calls.append(text_of(named[:_CALL_LOOKED_AT]))
                    if len(calls) > _CALLS_KEPT:
                        del calls[0]
                return

    def take_plan(self, plan: Any) -> None:
        """What the agent means to do is part of the task."""
        if self.dna is not None:
            self.dna.grow(plan, "plan")

    def take_message(self, message: str) -> bool:
        """A user's message: whether it sets another task. Without a goal the first message is one."""
        dna = self.dna
        if dna is None:
            self.begin(message)
            return False
        if not self.has_replied:
            # What is said before the first reply is the task itself, whatever frame it comes in.
            dna.grow(message, "user")
            return False
        self._settle(dna)
        change = goal_change(dna, message, answering=self.has_asked)
        if change.accepts and change.kind != "new_goal":
            dna.learn(self.said, "accepted")
        self.dna = followed(dna, message, change)
        self.has_asked = False
        if change.kind != "new_goal":
            self.is_added_to = self.is_added_to or (change.kind == "refines" and bool(change.new))
            return False
        self.goal, self.is_added_to, self.drift = text_of(message)[:GOAL_KEPT], False, None
        self.has_replied, self.said = False, []
        return True

    def take_reply(self, text: str) -> None:
        """Judge a reply; what it adds to the task counts from the next one on."""
        dna = self.dna
        if dna is None:
            return
        self._settle(dna)
        words = read_words(text)
        reading = dna.reading_of(words)
        if reading.drift is not None:
            before = self.drift or 0.0
            self.drift = before + ALPHA * (reading.drift - before)
        self.said = words.content
        self.made_concrete = reading.unknown if reading.names_the_task else []
        self.has_replied = True
        self.has_asked = "?" in text[-_QUESTION_WITHIN:]

    def _settle(self, dna: GoalDNA) -> None:
        """Take in what was touched and said since the last look."""
        if self.calls:
            dna.grow(" ".join(map(_files_in, self.calls)), "file")
            self.calls = []
        if self.made_concrete:
            dna.learn(self.made_concrete, "work")
            self.made_concrete = []


@functools.lru_cache(maxsize=256)
def is_plan(name: str) -> bool:
    """Whether a tool or a change of state is named after plans."""
    return _PLANNING.search(name[:100]) is not None


def _files_in(call: str) -> str:
    """The last parts of a path, or of the paths in a command."""
    if " " not in call:
        return "/".join(call.rsplit("/", _FOLDERS)[-_FOLDERS:])
    return " ".join(map(_files_in, _FILE_IN_COMMAND.findall(call)))

"""A forest of decision trees over the turns of sessions: the numbers that describe a turn, and the trees.

The numbers of one turn come from that turn, from those before it and from the reply that follows it; never
from a later one, and never from anything that was learnt. The file of a forest holds numbers and names only,
so that reading it runs nothing; it is checked, and applied without scikit-learn.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from steadyhelm.corrections.conversation import ReplyTracker
from steadyhelm.corrections.features import extract_features
from steadyhelm.corrections.messages import MAX_REPLY_CHARS
from steadyhelm.errors import FormatError
from steadyhelm.events import USER_MESSAGE, TraceEvent
from steadyhelm.lab.training.labelled_replies import LabelledReply
from steadyhelm.style.profile_files import load_bundled
from steadyhelm.style.scoring import score_reply
from steadyhelm.style.trajectory import SHAPES_BY_GRAVITY, ShapeReading, Trajectory

FOREST_VERSION: Final = 1
LEAF: Final = -1
"""The feature of a node that has no children."""
_LARGEST_FILE_BYTES: Final = 64 << 20
SESSION: Final = "session: "
"""How the names of numbers begin that are known before the user replies."""
REPLY: Final = "reply: "
"""How the names of numbers begin that come from the user's reply."""
_CUES: Final = "cue score"
_PROFILE: Final = "standard"
"""The profile by which the agent's replies are scored, as it is shipped: a user's own changes nothing."""


class DecisionTree(Struct, frozen=True, kw_only=True, array_like=True):
    """One tree as columns with an entry a node, parents before their children.

    A case goes left where its `feature` is at most `limit`; a leaf's `share` is that of drift.
    """

    feature: tuple[int, ...]
    limit: tuple[float, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    share: tuple[float, ...]

    def predict(self, row: Sequence[float]) -> float:
        """Return the share of drift in the leaf that this row of features leads to."""
        node = 0
        while self.feature[node] != LEAF:
            goes_left = row[self.feature[node]] <= self.limit[node]
            node = self.left[node] if goes_left else self.right[node]
        return self.share[node]

    def find_faults(self, features: int) -> Iterator[str]:
        """Yield what is wrong with the columns; with none, `predict` ends for every row."""
        sizes = {len(column) for column in (self.feature, self.limit, self.left, self.right, self.share)}
        if len(sizes) != 1 or not self.feature:
            yield "the columns of a tree differ in length or are empty"
            return
        for node, feature in enumerate(self.feature):
            if feature == LEAF:
                if not 0 <= self.share[node] <= 1:
                    yield f"the share of leaf {node} is not between 0 and 1"
            elif not 0 <= feature < features:
                yield f"node {node} asks for a feature that is not listed"
            elif not all(node < child < len(self.feature) for child in (self.left[node], self.right[node])):
                yield f"a child of node {node} does not come after it"


class DriftForest(Struct, frozen=True, kw_only=True):
    """Trees that say how likely a turn of a session was corrected, and the probability to decide at."""

    steadyhelm_forest: int
    features: tuple[str, ...]
    drift_from: float
    replies: int
    sessions: int
    projects: int
    trees: tuple[DecisionTree, ...]

    def predict(self, numbers: Mapping[str, float]) -> float:
        """Return the mean share of drift over all trees; a number that is missing counts as 0.

        >>> tree = DecisionTree(feature=(0, -1, -1), limit=(1.5, 0, 0), left=(1, 0, 0), right=(2, 0, 0),
        ...     share=(0, 0.25, 0.75))
        >>> forest = DriftForest(steadyhelm_forest=1, features=("errors",), drift_from=0.5, replies=4,
        ...     sessions=2, projects=1, trees=(tree,))
        >>> forest.predict({"errors": 3}), forest.predict({})
        (0.75, 0.25)
        """
        row = [numbers.get(name, 0.0) for name in self.features]
        return sum(tree.predict(row) for tree in self.trees) / len(self.trees)


def write_forest(forest: DriftForest, target: Path) -> int:
    """Write the file, and return its size in bytes."""
    content = msgspec.json.encode(forest) + b"\n"
    try:
        target.write_bytes(content)
    except OSError as exc:
        raise FormatError(f"{str(target)!r} cannot be written: {exc.strerror or exc}.") from exc
    return len(content)


def read_forest(path: Path) -> DriftForest:
    """Return the forest in a file; raise FormatError with what is wrong with it."""
    try:
        if path.stat().st_size > _LARGEST_FILE_BYTES:
            raise FormatError(f"{str(path)!r} is too large: more than {_LARGEST_FILE_BYTES >> 20} MB.")
        content = path.read_bytes()
    except OSError as exc:
        raise FormatError(f"{str(path)!r} cannot be read: {exc.strerror or exc}.") from exc
    return _decode_forest(content, str(path))


def _decode_forest(content: bytes, name: str) -> DriftForest:
    try:
        forest = msgspec.json.decode(content, type=DriftForest)
    except msgspec.MsgspecError as exc:
        raise FormatError(f"{name!r} is not a forest of `steadyhelm lab train --model tree`: {exc}.") from exc
    fault = next(_find_faults(forest), "")
    if fault:
        raise FormatError(f"{name!r}: {fault}.")
    return forest


def _find_faults(forest: DriftForest) -> Iterator[str]:
    if forest.steadyhelm_forest != FOREST_VERSION:
        yield f"version {forest.steadyhelm_forest} of the format is not known; train the model again"
    if not forest.trees:
        yield "it holds no tree"
    if len(set(forest.features)) != len(forest.features) or any(not name for name in forest.features):
        yield "its features have no names of their own"
    for tree in forest.trees:
        yield from tree.find_faults(len(forest.features))


class SessionTurn(Struct, frozen=True, kw_only=True):
    """What the agent did and said between two messages of the user, and the second of them."""

    turn: int
    reply: str
    prompt_before: str = ""
    assistant_before: str = ""
    tool_calls: int = 0
    tool_errors: int = 0
    interrupted: bool = False


class PlacedTurn(NamedTuple):
    """A turn of a recorded run, and the place of the user's reply among its events."""

    place: int
    turn: SessionTurn


class JudgedTurn(Struct, frozen=True, kw_only=True):
    """A turn of a run, the place of the user's reply, and how likely that reply corrects it."""

    turn: int
    place: int
    probability: float
    is_drift: bool


def read_turns(events: Iterable[TraceEvent]) -> Iterator[PlacedTurn]:
    """Yield the turns of a run that the user has replied to."""
    tracker = ReplyTracker()
    for place, event in enumerate(events):
        before = (tracker.prompt, tracker.answer, tracker.calls, tracker.errors, tracker.interrupted)
        label = tracker.record(event)
        if event.action_type != USER_MESSAGE or label is None:
            continue
        prompt, answer, calls, errors, interrupted = before
        turn = SessionTurn(
            turn=tracker.messages,
            reply=event.text[:MAX_REPLY_CHARS],
            prompt_before=prompt,
            assistant_before=answer,
            tool_calls=calls,
            tool_errors=errors,
            interrupted=interrupted,
        )
        yield PlacedTurn(place, turn)


def judge_turns(events: Iterable[TraceEvent], forest: DriftForest) -> list[JudgedTurn]:
    """Return how likely each turn of a run was corrected, for those that the user has replied to."""
    placed = list(read_turns(events))
    judged = []
    for (place, turn), numbers in zip(placed, measure_session(it.turn for it in placed), strict=True):
        share = forest.predict(numbers)
        judged.append(
            JudgedTurn(
                turn=turn.turn,
                place=place,
                probability=round(share, 4),
                is_drift=share >= forest.drift_from,
            )
        )
    return judged


def measure_sessions(replies: Sequence[LabelledReply]) -> list[dict[str, float]]:
    """Return the numbers of the turn before each reply, in the order of the replies."""
    sessions: dict[str, list[int]] = {}
    for place, reply in enumerate(replies):
        sessions.setdefault(reply.session, []).append(place)
    measured: list[dict[str, float]] = [{} for _ in replies]
    for places in sessions.values():
        ordered = sorted(places, key=lambda place: replies[place].turn)
        numbers = measure_session([_make_turn(replies[place]) for place in ordered])
        for place, row in zip(ordered, numbers, strict=True):
            measured[place] = row
    return measured


def measure_session(turns: Iterable[SessionTurn]) -> Iterator[dict[str, float]]:
    """Yield the numbers of each turn of one session, in order."""
    course = _Course()
    for turn in turns:
        yield course.measure(turn)


def _make_turn(reply: LabelledReply) -> SessionTurn:
    return SessionTurn(
        turn=reply.turn,
        reply=reply.reply,
        prompt_before=reply.prompt_before,
        assistant_before=reply.assistant_before,
        tool_calls=reply.tool_calls_since_prompt,
        tool_errors=reply.tool_errors_since_prompt,
        interrupted=reply.interrupted,
    )


class _Course:
    """A session so far: its scores, its calls and what the user said."""

    def __init__(self) -> None:
        self._trajectory = Trajectory()
        self._scores: list[float] = []
        self._streak = self._longest_streak = 0
        self._calls = self._errors = self._interruptions = 0
        self._cues: list[float] = []

    def measure(self, turn: SessionTurn) -> dict[str, float]:
        """Return the numbers of the next turn."""
        replied = extract_features(
            turn.reply,
            assistant_before=turn.assistant_before,
            prompt_before=turn.prompt_before,
            interrupted=turn.interrupted,
            tool_calls=turn.tool_calls,
            tool_errors=turn.tool_errors,
            turn=turn.turn,
        ).numbers
        style, work = self._measure_style(turn.assistant_before), self._measure_work(turn)
        known = {**style, **work, **self._measure_past_replies()}
        self._cues.append(replied[_CUES])
        return _add_prefix(SESSION, known) | _add_prefix(REPLY, replied)

    def _measure_style(self, text: str) -> dict[str, float]:
        profile = load_bundled(_PROFILE)
        scored = score_reply(text, profile, with_engagement=False)
        reading = self._trajectory.record_score(scored.score)
        self._scores.append(scored.score)
        self._streak = self._streak + 1 if scored.drifting else 0
        self._longest_streak = max(self._longest_streak, self._streak)
        points = scored.points()
        return {
            "point score": scored.score,
            **{name: points.get(name, 0.0) for name in profile.weights},
            "words": scored.words,
            "highest point score": max(self._scores),
            "mean point score": sum(self._scores) / len(self._scores),
            "drift rate": sum(score >= scored.threshold for score in self._scores) / len(self._scores),
            "longest streak": self._longest_streak,
            **_describe_reading(reading),
        }

    def _measure_work(self, turn: SessionTurn) -> dict[str, float]:
        self._calls += turn.tool_calls
        self._errors += turn.tool_errors
        self._interruptions += turn.interrupted
        return {
            "turn": turn.turn,
            "calls": turn.tool_calls,
            "errors": turn.tool_errors,
            "share of errors": turn.tool_errors / max(1, turn.tool_calls),
            "calls so far": self._calls,
            "errors so far": self._errors,
            "interrupted": turn.interrupted,
            "interruptions so far": self._interruptions,
        }

    def _measure_past_replies(self) -> dict[str, float]:
        return {
            "past replies": len(self._cues),
            "highest past cue score": max(self._cues, default=0.0),
            "mean past cue score": sum(self._cues) / max(1, len(self._cues)),
            "latest past cue score": self._cues[-1] if self._cues else 0.0,
        }


def _describe_reading(reading: ShapeReading) -> dict[str, float]:
    shapes = {f"is {shape.replace('_', ' ')}": float(reading.shape == shape) for shape in SHAPES_BY_GRAVITY}
    return {"smoothed score": reading.ewma, "velocity": reading.velocity, **shapes}


def _add_prefix(prefix: str, numbers: Mapping[str, float]) -> dict[str, float]:
    return {f"{prefix}{name}": float(value) for name, value in numbers.items()}

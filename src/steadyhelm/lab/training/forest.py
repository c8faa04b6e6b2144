"""A forest of decision trees as plain numbers: read from a JSON file, checked, applied without scikit-learn.

The file holds numbers and names only, so that reading it runs nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from steadyhelm.errors import FormatError

FOREST_VERSION: Final = 1
LEAF: Final = -1
"""The feature of a node that has no children."""
_LARGEST_FILE_BYTES: Final = 64 << 20


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

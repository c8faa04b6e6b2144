"""Transcripts for tests, written line by line."""

import json
import os
from pathlib import Path

from hypothesis import strategies as st

from steadyhelm.events import TraceEvent
from steadyhelm.recordings.run_file import BrokenLine, ReadRun
from steadyhelm.recordings.transcript_reader import TranscriptReader, read_runs

SAMPLES = Path(os.environ.get("STEADYHELM_DATA", Path(__file__).parents[3] / "shared" / "data")) / "samples"


def encoded(*values) -> list[bytes]:
    return [value if isinstance(value, bytes) else json.dumps(value).encode() + b"\n" for value in values]


def read(reader: TranscriptReader, *values) -> list[ReadRun | BrokenLine]:
    return list(read_runs(reader, list(enumerate(encoded(*values), 1))))


def run_of(reader: TranscriptReader, *values) -> ReadRun:
    [run] = read(reader, *values)
    assert isinstance(run, ReadRun), run
    return run


def told(run: ReadRun) -> list[tuple[str, str, str]]:
    """What a run's events are, by type, name and words."""
    return [(event.action_type, event.action_name, event.text) for event in run.events]


def fed(reader: TranscriptReader, lines: list[bytes]) -> list[TraceEvent]:
    """The events of a transcript that is fed line by line, its end included."""
    events = [event for line in lines for event in reader.feed(line)]
    return events + reader.end()


any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def wild_objects(kinds: list[str], keys: list[str], depth: int = 2) -> st.SearchStrategy[object]:
    """Objects that have a format's own keys and kinds, with anything under them."""
    inner = any_json | st.sampled_from(kinds)
    for _ in range(depth):
        inner = (
            inner | st.dictionaries(st.sampled_from(keys), inner, max_size=6) | st.lists(inner, max_size=3)
        )
    return st.dictionaries(st.sampled_from(keys), inner, max_size=8)

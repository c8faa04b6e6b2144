"""Labelled runs for tests, written as pictures: a letter is a call, `.` a reply, a space a user's turn."""

import io
import json

from msgspec import Struct

from steadyhelm.detector import Detector
from steadyhelm.lab.evaluation.labelled_runs import RunSet
from steadyhelm.recordings.run_file import ReadRun, RunFile
from steadyhelm.replay import Replayer
from steadyhelm.settings import Settings


class Seen(Struct):
    last: tuple | None = None
    ids: list = []


class Repeats(Detector):
    """A detector of the tests' own: the same call and result, `times` in a row."""

    name = "repeats"
    kind = "loop"

    def __init__(self, *, times=4):
        self.times = times
        self._memory = Seen()

    def check(self, event, baseline):
        if event.action_type != "tool_call":
            return None
        call = (event.action_name, event.input_data, event.output_data)
        self._memory = Seen(call, [*(self._memory.ids if call == self._memory.last else []), event.event_id])
        ids = self._memory.ids
        if len(ids) < self.times:
            return None
        return self.finding(
            event, score=len(ids) / 8, message=f"{len(ids)} times", suggested_action="stop", event_ids=ids
        )


def judge_with(*kinds, settings=None, **options):
    """A replayer whose detectors are these: what ours make of the pictures is their own tests' affair."""
    return Replayer(
        settings or Settings(),
        kinds={"loop"},
        make_detectors=lambda: [kind() for kind in kinds or (Repeats,)],
        **options,
    )


def entry(sign, place):
    if sign == ".":
        return {"type": "llm_output", "text": f"thinking {place}", "tokens": 10}
    if sign == " ":
        return {"type": "user_message", "text": f"turn {place}"}
    # A small letter gets the same answer every time, a capital another one.
    answer = "the same" if sign.islower() else f"answer {place}"
    return {
        "type": "tool_call",
        "name": sign.lower(),
        "args": {"path": sign},
        "result": answer,
        "tokens": 100,
    }


def line(picture, **keys):
    events = [entry(sign, place) for place, sign in enumerate(picture)]
    return {"run_id": picture, "source": "picture", "events": events, **keys}


def read(*lines):
    return list(RunFile(io.BytesIO(b"\n".join(json.dumps(one).encode() for one in lines))))


def run_of(picture, **keys):
    [run] = read(line(picture, **keys))
    assert isinstance(run, ReadRun), run
    return run


def set_of(*lines, name="pictures"):
    return RunSet(name=name, runs=read(*lines), broken=[])


def mark(at, kind="loop", **keys):
    return {"kind": kind, "at": at, **keys}


LOOPING = line("Aaaaaaaaaa", run_id="looping", labels=[mark(2)])
MISSED = line("AbcAbc", run_id="missed", labels=[mark(3)])
CLEAN = line("ABCD", run_id="clean", labels=[])
ALARM = line("bbbbb", run_id="alarm", labels=[])

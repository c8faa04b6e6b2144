"""Runs of coding agents in words: what was called, with which arguments, and what came back."""

import itertools

import msgspec

from steadyhelm.events import LLM_REQUEST, STATE_TRANSITION, TOOL_CALL, USER_MESSAGE, TraceEvent
from steadyhelm.findings import MED_FROM


def call(name, args=None, result=None, **fields):
    """A tool call that came back with this."""
    return {
        "action_type": TOOL_CALL,
        "action_name": name,
        "input_data": args,
        "output_data": result,
        **fields,
    }


def failing(name, args=None, error="it broke", **fields):
    """A tool call that failed."""
    return call(name, args, None, error=error, **fields)


def shell(command, result="", **fields):
    """A command in a shell."""
    return call("Bash", {"command": command}, result, **fields)


def edit(path, old, new):
    """A part of a file replaced."""
    args = {"file_path": path, "old_string": old, "new_string": new}
    return call("Edit", args, f"{path} has been updated")


def write(path, content):
    """A whole file written."""
    return call("Write", {"file_path": path, "content": content}, f"wrote {path}")


def says(text):
    """A reply of the model."""
    return {"action_type": LLM_REQUEST, "action_name": "model", "output_data": {"text": text}}


def user(text):
    """Words of the user."""
    return {"action_type": USER_MESSAGE, "action_name": "user", "input_data": {"text": text}}


def state(error=None):
    """A change of state, as a framework tells it."""
    return {"action_type": STATE_TRANSITION, "action_name": "step", "error": error}


def run(*steps):
    """These steps as the events of one run; a list of steps is a parallel batch."""
    trace = []
    for step in steps:
        batch = step if isinstance(step, list) else [step]
        started = {"started_seq": len(trace)} if isinstance(step, list) else {}
        trace += [_event(len(trace) + place, {**started, **one}) for place, one in enumerate(batch)]
    return trace


def _event(seq, fields):
    plain = {
        "agent_id": "coder",
        "run_id": "run",
        "timestamp": 1000.0 + seq,
        "event_id": f"run.{seq}",
        "seq": seq,
    }
    return TraceEvent.from_dict(plain | fields)


def matches(pattern, trace):
    """Everything a pattern saw, by place."""
    return {event.seq: seen for event in trace if (seen := pattern.observe(event)) is not None}


def reported(pattern, trace):
    """The places at which what it saw is worth reporting."""
    return [place for place, seen in matches(pattern, trace).items() if seen.score >= MED_FROM]


def names(pattern, trace):
    """The names of the patterns reported, in order, each once."""
    seen = [seen.pattern for seen in matches(pattern, trace).values() if seen.score >= MED_FROM]
    return list(dict.fromkeys(seen))


def restored_copy(pattern):
    """The same pattern after it was put aside and taken up again."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(pattern), type=type(pattern))


def in_turn(*rounds):
    """The first step of each round, then the second of each, and so on."""
    return list(itertools.chain.from_iterable(zip(*rounds, strict=True)))

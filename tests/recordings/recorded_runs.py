"""Recorded runs for tests, written entry by entry."""

import io
import json

from steadyhelm.recordings.run_file import BrokenLine, ReadRun, RunFile


def read(content: bytes, **options) -> list[ReadRun | BrokenLine]:
    return list(RunFile(io.BytesIO(content), **options))


def line(*events, **keys) -> bytes:
    return json.dumps({"run_id": "r", "events": events, **keys}).encode() + b"\n"


def run_of(*events, **keys) -> ReadRun:
    [run] = read(line(*events, **keys))
    assert isinstance(run, ReadRun), run
    return run


def reason_of(content: bytes) -> str:
    [broken] = read(content)
    assert isinstance(broken, BrokenLine), broken
    return broken.reason


def call(name: str = "sh", **keys) -> dict:
    return {"type": "tool_call", "name": name, **keys}


def result(name: str | None = "sh", text: object = "ok", **keys) -> dict:
    return {"type": "tool_result", "name": name, "text": text, **keys}


def failure(name: str | None = "sh", text: str = "boom", **keys) -> dict:
    return {"type": "error", "name": name, "text": text, **keys}


def said(text: object = "hm", **keys) -> dict:
    return {"type": "llm_output", "text": text, **keys}


def user(text: str = "go on") -> dict:
    return {"type": "user_message", "text": text}


def came_back(run: ReadRun) -> dict[str, object]:
    """What each call's entry got, by its index."""
    return {
        event.event_id: event.output_data and event.output_data["text"]
        for event in run.events
        if event.action_type == "tool_call"
    }

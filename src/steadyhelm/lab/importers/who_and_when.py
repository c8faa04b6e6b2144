"""Read the layout of Who&When: a `history` of messages of several agents, and the decisive mistake."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from steadyhelm.errors import FormatError
from steadyhelm.lab.importers.documents import Document, Entries, get_text

_CODE: Final = re.compile(r"```(?:python|py|sh|bash)\s*\n(.*?)```", re.DOTALL)
_ERROR_PREFIX: Final = re.compile(r"exitcode: [1-9]")
_TO: Final = re.compile(r"\(-> (\w+)\)")
_TERMINAL: Final = "Computer_terminal"


def read_runs(found: list[Document]) -> Iterator[dict[str, Any]]:
    """Yield a run for every file; its label is the decisive step."""
    for file, value in found:
        if not isinstance(value, dict) or not isinstance(value.get("history"), list):
            raise FormatError(f"{str(file)!r} is not in the layout of Who&When: no list under `history`.")
        yield _convert_run(value, file.stem)


def _convert_run(value: dict[str, Any], name: str) -> dict[str, Any]:
    entries = Entries()
    history = [message for message in value["history"] if isinstance(message, dict)]
    # Who&When itself counts messages; systems built by hand begin with the human's, the others do not.
    is_crafted = not any(message.get("name") for message in history)
    if not is_crafted:
        entries.add("user_message", text=str(value.get("question", "")))
    add = _add_orchestrator_message if is_crafted else _add_chat_message
    places = [add(entries, message, history[i + 1 : i + 2]) for i, message in enumerate(history)]
    return {
        "run_id": f"whowhen-{name}",
        "source": "whowhen-handcrafted" if is_crafted else "whowhen-generated",
        "goal": str(value.get("question", "")),
        "events": entries.all,
        "labels": [_make_label(value, places)],
        "outcome": "success" if value.get("is_correct") else "failure",
        "meta": {"question_id": value.get("question_ID")},
    }


def _make_label(value: Mapping[str, Any], places: list[int]) -> dict[str, Any]:
    step = str(value.get("mistake_step", ""))
    return {
        "kind": "decisive_error",
        "original": "Who&When mistake_step",
        "at": places[int(step)] if step.isdecimal() and int(step) < len(places) else None,
        "note": value.get("mistake_reason"),
        "by": "human",
        "derived": False,
        "failed_agent": value.get("mistake_agent"),
    }


def _add_chat_message(entries: Entries, message: Mapping[str, Any], following: list[dict[str, Any]]) -> int:
    """Add a message of a group chat; code in it is a call when the terminal answers it."""
    who, text = message.get("name"), get_text(message.get("content"))
    if who == _TERMINAL:
        at = entries.add("tool_result", name="python", text=text, agent=who)
        if _ERROR_PREFIX.match(text):
            entries.add("error", name="python", text=text, agent=who)
        return at
    at = entries.add("llm_output", text=text, agent=who)
    code = _CODE.search(text)
    if code and following and following[0].get("name") == _TERMINAL:
        entries.add("tool_call", name="python", args={"code": code[1].strip()}, agent=who)
    return at


def _add_orchestrator_message(entries: Entries, message: Mapping[str, Any], _: list[dict[str, Any]]) -> int:
    """Add a message of an orchestrator or its helpers; an instruction to a helper is a call."""
    role, text = str(message.get("role", "")), get_text(message.get("content"))
    who = role.split(" (", maxsplit=1)[0]
    if role.lower() in {"human", "user"}:
        return entries.add("user_message", text=text)
    told = _TO.search(role)
    if told:
        return entries.add("tool_call", name=f"delegate:{told[1]}", args={"instruction": text}, agent=who)
    if "(thought)" in role:
        name = "plan" if text.startswith("Initial plan") else "ledger" if "Ledger" in text[:40] else None
        kind = "state" if text.startswith("Next speaker") else "llm_output"
        return entries.add(kind, name=name, text=text, agent=who)
    if "(termination" in role:
        return entries.add("state", name="termination", text=text, agent=who)
    return entries.add("tool_result", name=f"delegate:{who}", text=text, agent=who)

"""The events every benchmark records, and the reference they are measured against.

Only the standard library is imported: the seed system's process uses this file too.
"""

import json
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, NamedTuple

RUN_LENGTH = 200
RESULT_CHARACTERS = 230
GOAL = "find out why orders from Norway are shipped late and propose a fix"

# Five names in turn: no detector of either system takes that for a loop.
TOOLS = ("read_file", "search_code", "run_query", "list_orders", "fetch_page")

_PROSE = (
    "of 48 rows, sorted by date: the parcel left the warehouse in Bergen two days after it was packed, "
    "the carrier scanned it once in Oslo and once more at the border, and nobody told the customer about "
    "the change of route until it had arrived at last"
)


class ToolEvent(NamedTuple):
    """One tool call with its result: three arguments, 230 characters back."""

    name: str
    arguments: dict[str, Any]
    result: str


def tool_event(i: int) -> ToolEvent:
    """Return the i-th event of a healthy stream: no two are alike."""
    arguments = {"path": f"src/orders/part_{i}.py", "query": "WHERE country = 'NO'", "limit": 50 + i % 7}
    return ToolEvent(TOOLS[i % len(TOOLS)], arguments, f"row {i:07d} {_PROSE}"[:RESULT_CHARACTERS])


def fingerprint_reference(event: ToolEvent) -> tuple[bytes, bytes]:
    """Fingerprint one event with the standard library: canonical JSON, two short hashes."""
    arguments = json.dumps(event.arguments, sort_keys=True, separators=(",", ":")).encode()
    call = blake2b(event.name.encode() + arguments, digest_size=8).digest()
    return call, blake2b(json.dumps(event.result).encode(), digest_size=8).digest()


def recorder(monitor: Any) -> Callable[[ToolEvent], Any]:
    """Return a function that records one event; both systems have the same interface."""
    record = monitor.record_event

    def one(event: ToolEvent) -> Any:
        return record(
            "tool_call",
            event.name,
            token_count=20,
            input_data=event.arguments,
            output_data={"text": event.result},
            duration_ms=12.5,
        )

    return one

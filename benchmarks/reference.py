"""The yardstick: what fingerprinting one tool event costs here, now."""

import time

import msgspec
from benchmarks.measures import Measure, from_repeats
from benchmarks.workload import fingerprint_reference, tool_event

from steadyhelm.fingerprints import encode_canonical, hash_bytes, hash_call

NAME = "reference"


def run(*, quick: bool) -> list[Measure]:
    """Measure the reference, and what our own fingerprint of the same event costs."""
    repeats, events = (3, 500) if quick else (15, 5000)
    stream = [tool_event(i) for i in range(events)]
    reference, ours, encoding = [], [], []
    encode = msgspec.json.Encoder(order="deterministic").encode
    for _ in range(repeats):
        before = time.perf_counter()
        for event in stream:
            fingerprint_reference(event)
        reference.append((time.perf_counter() - before) / events * 1e6)
        before = time.perf_counter()
        for event in stream:
            hash_call(event.name, encode_canonical(event.arguments))
            hash_bytes(encode_canonical(event.result))
        ours.append((time.perf_counter() - before) / events * 1e6)
        before = time.perf_counter()
        for event in stream:
            encode(event.arguments)
            encode(event.result)
        encoding.append((time.perf_counter() - before) / events * 1e6)
    return [
        from_repeats(NAME, "the reference, in a tight loop", reference, "µs"),
        from_repeats(NAME, "our own fingerprint of the same event", ours, "µs"),
        from_repeats(NAME, "of which encoding", encoding, "µs"),
    ]

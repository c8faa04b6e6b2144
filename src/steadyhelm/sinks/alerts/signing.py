"""Sign alerts, and verify them on the receiving side: HMAC-SHA256 over id, time and body."""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

DELIVERY_HEADER: Final = "Steadyhelm-Delivery"
TIMESTAMP_HEADER: Final = "Steadyhelm-Timestamp"
SIGNATURE_HEADER: Final = "Steadyhelm-Signature"

REPLAY_WINDOW_S: Final = 300.0


def compute_signature(secret: str, delivery_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of the signature header.

    >>> compute_signature("s3cret", "d1", 1700000000, b"{}")[:13]
    'v1=cda9ee195c'
    """
    signed = f"{delivery_id}.{timestamp}.".encode() + body
    return "v1=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def verify_signature(
    secret: str, headers: Mapping[str, str], body: bytes, *, now: float, window_s: float = REPLAY_WINDOW_S
) -> bool:
    """Return whether a received alert is genuine and recent. For the receiving side."""
    received = {name.lower(): value for name, value in headers.items()}
    timestamp = received.get(TIMESTAMP_HEADER.lower(), "")
    if not (timestamp.isascii() and timestamp.isdigit()) or abs(now - int(timestamp)) > window_s:
        return False
    expected = compute_signature(secret, received.get(DELIVERY_HEADER.lower(), ""), int(timestamp), body)
    # Compared as bytes: compare_digest raises on text that is not ASCII.
    return hmac.compare_digest(expected.encode(), received.get(SIGNATURE_HEADER.lower(), "").encode())

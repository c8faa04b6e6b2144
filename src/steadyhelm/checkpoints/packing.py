"""A checkpoint as bytes and back: plain data behind a header that says what it is, and a checksum.

::

    22 bytes   "steadyhelm checkpoint", newline
     2 bytes   version of the format, highest byte first
     8 bytes   length of what follows the checksum, highest byte first
    16 bytes   blake2b checksum of it
     the rest  the record as msgpack, one key per field; keys we do not know are ignored
"""

from hashlib import blake2b
from struct import Struct as Layout
from typing import Final, NamedTuple

import msgspec

from steadyhelm.checkpoint import Checkpoint
from steadyhelm.checkpoints.copies import plain_copy
from steadyhelm.checkpoints.storable import TooLargeError
from steadyhelm.errors import FormatError

VERSION: Final = 1
_MAGIC: Final = b"steadyhelm checkpoint\n"
_HEADER: Final = Layout(">22sHQ16s")


class Packed(NamedTuple):
    """A checkpoint ready to be kept: the record as it will come back, and its bytes."""

    record: Checkpoint
    content: bytes


def pack(checkpoint: Checkpoint, *, max_bytes: int) -> Packed:
    """A checkpoint's bytes, whatever it holds; raises TooLargeError when they would be more than allowed."""
    record = plain_copy(checkpoint, max_bytes=max_bytes)
    body = msgspec.msgpack.encode(record)
    if len(body) + _HEADER.size > max_bytes:
        raise TooLargeError(f"The checkpoint takes {len(body)} bytes, {max_bytes} are allowed.")
    return Packed(record, _HEADER.pack(_MAGIC, VERSION, len(body), _digest(body)) + body)


def unpack(content: bytes) -> Checkpoint:
    """The checkpoint in these bytes, a new one each time; raises FormatError when there is none."""
    if len(content) < _HEADER.size or not content.startswith(_MAGIC):
        raise FormatError("This is not a checkpoint.")
    _, version, length, digest = _HEADER.unpack_from(content)
    if version != VERSION:
        raise FormatError(f"The checkpoint has version {version}, this Steadyhelm reads version {VERSION}.")
    body = memoryview(content)[_HEADER.size :]
    if len(body) != length or _digest(body) != digest:
        raise FormatError(f"The checkpoint is damaged: it should hold {length} bytes, it has {len(body)}.")
    try:
        return msgspec.msgpack.decode(body, type=Checkpoint)
    except Exception as exc:  # what somebody else wrote can end in almost any error
        raise FormatError(f"The checkpoint cannot be read: {exc}.") from exc


def _digest(body: bytes | memoryview) -> bytes:
    return blake2b(body, digest_size=16).digest()

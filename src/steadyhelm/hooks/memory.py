"""What a hook keeps of a session beside the session's own state, in the same saved bytes."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec import Struct, field

_KEY: Final = "hook"
_FIXMAP: Final = 0x80
_MAP16: Final = 0xDE
_FIXMAP_KEYS: Final = 15
_NOTICES_KEPT: Final = 256
_OPEN_KEPT: Final = 64
_EXITS_KEPT: Final = 64


class OpenCall(Struct):
    """A call that was announced and whose result has not come."""

    tool: str
    args: Any
    started_seq: int


class HookMemory(Struct):
    """Which notices were taken in, which calls are open, what is still to be said.

    `read_to` is how far the session's transcript has been read for the tokens it names, `reply` the last
    reply whose tokens were counted; replies from before `since` are of an earlier run. `exits` are the exit
    codes in what was read, by call: those of calls at the same time are read before their results come.
    """

    seen: list[str] = field(default_factory=list)
    open: dict[str, OpenCall] = field(default_factory=dict)
    words: str = ""
    note: str = ""
    read_to: int = 0
    reply: str = ""
    since: float = 0.0
    exits: dict[str, int] = field(default_factory=dict)

    def note_once(self, once: str) -> bool:
        """Remember a notice; return whether it is new."""
        if not once:
            return True
        if once in self.seen:
            return False
        self.seen.append(once)
        del self.seen[:-_NOTICES_KEPT]
        return True

    def announce(self, call_id: str, call: OpenCall) -> None:
        """Record a call that is about to be made."""
        self.open[call_id] = call
        while len(self.open) > _OPEN_KEPT:
            del self.open[next(iter(self.open))]

    def add_exits(self, exits: Iterable[tuple[str, int]]) -> None:
        """Remember exit codes until the results of their calls come."""
        self.exits.update(exits)
        while len(self.exits) > _EXITS_KEPT:
            del self.exits[next(iter(self.exits))]


class _Kept(Struct):
    hook: HookMemory = field(default_factory=HookMemory)


def append_memory(state: bytes, memory: HookMemory) -> bytes:
    """Return the saved session with our memory as one more key, which other readers ignore."""
    if state[0] == _MAP16:
        keys, fields = int.from_bytes(state[1:3]), state[3:]
    elif _FIXMAP <= state[0] <= _FIXMAP + _FIXMAP_KEYS:
        keys, fields = state[0] - _FIXMAP, state[1:]
    else:
        return state
    encode = msgspec.msgpack.encode
    return bytes([_MAP16]) + (keys + 1).to_bytes(2) + fields + encode(_KEY) + encode(memory)


def read_memory(state: bytes) -> HookMemory:
    """Return our memory in a saved session; a new one when there is none that can be read."""
    try:
        return msgspec.msgpack.decode(state, type=_Kept).hook
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return HookMemory()

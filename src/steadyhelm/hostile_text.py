"""Make hostile text harmless: control, bidirectional and invisible characters, and halves of characters."""

import re
from typing import Any, Final

import msgspec

_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufff9-\ufffb]"
)


def escape_unsafe(text: str) -> str:
    r"""Return the text with every such character as its number; tabs and line breaks stay.

    >>> escape_unsafe("red\x1b[31m\n")
    'red\\x1b[31m\n'
    """
    return _UNSAFE.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def encode_safe_json(value: Any) -> bytes:
    r"""Return JSON of the same meaning in which every such character is escaped.

    >>> print(encode_safe_json({"name": "a\u202eb"}).decode())
    {"name":"a\u202eb"}
    """
    text = msgspec.json.encode(value).decode()
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text).encode()

"""Replace secrets in plain data: fields by name, pairs of name and value, lists of arguments, key objects."""

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final, TypeVar

from steadyhelm.redaction.assignments import NameFinder
from steadyhelm.redaction.commands import find_secret_arguments
from steadyhelm.redaction.named_values import is_card_code, is_secret_value
from steadyhelm.redaction.names import DESCRIPTIVE_MEMBERS, Strength, has_id_name, words_of
from steadyhelm.redaction.tables import read_parameters
from steadyhelm.redaction.values import (
    is_ordinary,
    joins_words_and_number,
    looks_like_password,
    looks_made,
    looks_secret,
)

_JSON_TYPES: Final = frozenset({"string", "object", "array", "integer", "number", "boolean", "null"})
_KEY_MEMBERS: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "k", "oth"})
_MANIFEST_DATA: Final = frozenset({"data", "stringData"})
"""Members of a Kubernetes secret that hold what is secret, whatever their keys are."""
_TABLE_HEADS: Final = frozenset({"columns", "headers", "header", "fields", "column_names", "columnNames"})
_TABLE_ROWS: Final = frozenset({"rows", "data", "values", "records", "results"})
_DOUBTFUL_NAMES: Final = frozenset({"type", "question", "prompt"})
"""Fields that name the value of another one only sometimes."""
_STATEMENTS: Final = frozenset({"sql", "query", "statement"})
_COMMANDS: Final = frozenset({"cmd", "command", "program", "executable", "exe", "bin", "tool", "process"})
_ARGUMENTS: Final = frozenset({"args", "argv", "arguments", "params", "parameters", "cmd_args"})
_PARAMETERS: Final = frozenset({"params", "parameters", "args", "values", "bindings"})
_WELL_KNOWN_USERS: Final = frozenset(
    {"root", "admin", "administrator", "Administrator", "postgres", "sa", "sysdba"}
)
"""Users whose password may be the next argument of a login."""
_STRONG_PASSWORD: Final = re.compile(
    r"(?=[^\s]{0,80}[0-9])(?=[^\s]{0,80}[A-Z!@#$%^&*])(?=[^\s]{0,80}[A-Za-z])[^\s\"'`\\/:,<>]{8,80}"
)
"""What the first look at a text takes for the password that follows such a user, too."""
_MADE_NAMES: Final = frozenset({"type", "name", "id", "module", "mode", "provider"})
_MAX_KEY_LINE_CHARS: Final = 120
_PAIR: Final = 2
_MIN_NUMBER: Final = 1000
_MAX_MARKER_CHARS: Final = 40

RedactText = Callable[..., str]
_Data = TypeVar("_Data")


class StructureRedactor:
    """Replaces secrets in plain JSON data. Returns the same objects where nothing changes.

    Args:
        names: Judges the names of fields.
        redact_text: Replaces secrets in one text.
    """

    def __init__(self, names: NameFinder, redact_text: RedactText) -> None:
        self._names = names
        self._redact_text = redact_text

    def redact(self, value: Any, key: str = "") -> Any:
        """Return plain data without secrets; the same object when there are none."""
        strength = self._names.judge(key) if key else Strength.NONE
        if strength and not (isinstance(value, dict) and _is_schema(value)):
            return self._redact_field(value, key, strength)
        return self._redact_plain(value, key)

    def _redact_plain(self, value: Any, key: str = "") -> Any:
        if isinstance(value, str):
            return self._redact_text(value, is_id=bool(key) and has_id_name(key))
        if isinstance(value, dict):
            return self._redact_dict(value)
        if isinstance(value, list):
            return self._redact_list(value)
        return value

    def _redact_field(self, value: Any, key: str, strength: Strength) -> Any:
        """Return the value of a field whose name says that it is a secret."""
        if isinstance(value, (dict, list)) and strength is not Strength.WEAK:
            return self._redact_members(value, key, strength)
        if isinstance(value, list) and _is_login(value, key):
            return [value[0], self._mark(key)]
        if isinstance(value, str):
            if not value.startswith("[redacted") and is_secret_value(value, key, strength):
                return self._mark(key)
            return self._redact_text(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            is_long = strength > Strength.WEAK and abs(value) >= _MIN_NUMBER and "tok" not in key.lower()
            is_secret = is_long or is_card_code(str(value), key)
            return self._mark(key) if is_secret or strength is Strength.CERTAIN else value
        return self._redact_plain(value)

    def _redact_members(self, value: Any, key: str, strength: Strength) -> Any:
        if isinstance(value, list):
            return _keep(value, [self._redact_field(item, key, strength) for item in value])
        redacted = {
            self._redact_text(name): self._redact_member(item, name, key, strength)
            for name, item in value.items()
        }
        return _keep(value, redacted)

    def _redact_member(self, item: Any, name: str, key: str, strength: Strength) -> Any:
        """Return a member of an object under the name of a secret; its own name may say that it is none."""
        if self._names.judge(name) is Strength.NONE and (
            has_id_name(name) or name.lower() in DESCRIPTIVE_MEMBERS
        ):
            return self._redact_plain(item, name)
        # Of several cookies few are secret.
        if strength is Strength.HEADER and isinstance(item, str) and "cookie" in key.lower():
            return self._redact_field(item, key, Strength.WEAK)
        return self._redact_field(item, key, strength)

    def _redact_dict(self, value: dict[str, Any]) -> dict[str, Any]:
        value = self._redact_command(self._redact_parameters(self._redact_table(value)))
        pair = self._find_pair(value)
        is_key = "kty" in value
        is_manifest = value.get("kind") == "Secret"
        made = self._find_made(value)
        redacted: dict[str, Any] = {}
        for name, item in value.items():
            label = pair[1] if pair and name == pair[0] else name
            if is_key and name in _KEY_MEMBERS and isinstance(item, str) and not item.startswith("[redacted"):
                redacted[name] = self._mark("private key")
            elif is_manifest and name in _MANIFEST_DATA and isinstance(item, dict):
                redacted[name] = self._redact_members(item, "secret", Strength.STRONG)
            else:
                clean = self.redact(item, label)
                is_made = made and name not in _MADE_NAMES
                redacted[self._redact_text(name)] = self._hide_random(clean, made, name) if is_made else clean
        return _keep(value, redacted)

    def _find_made(self, value: dict[str, Any]) -> str:
        """Return the type of a resource that makes a secret, such as `random_password`."""
        kind = value.get("type")
        is_made = isinstance(kind, str) and "_" in kind and self._names.judge(kind) is Strength.STRONG
        return kind if is_made and isinstance(kind, str) else ""

    def _hide_random(self, value: Any, kind: str, key: str) -> Any:
        """Return what a resource that makes a secret holds, without its random texts."""
        if isinstance(value, dict):
            return _keep(value, {name: self._hide_random(item, kind, name) for name, item in value.items()})
        if isinstance(value, list):
            return _keep(value, [self._hide_random(item, kind, key) for item in value])
        is_secret = isinstance(value, str) and not has_id_name(key) and looks_secret(value)
        return self._mark(kind) if is_secret else value

    def _find_pair(self, value: dict[str, Any]) -> tuple[str, str] | None:
        """Return the field that holds the value of a pair, and the name that the pair gives to it."""
        fields = {_find_kind(name): name for name in value}
        for kind in words_of("name fields") & fields.keys():
            name = value[fields[kind]]
            if isinstance(name, str) and self._names.judge(name):
                others = words_of("value fields") & fields.keys() - {kind}
                for other in sorted(others, key=lambda it: not _is_cell_secret(value[fields[it]])):
                    if kind not in _DOUBTFUL_NAMES or _is_plain_secret(value[fields[other]], name):
                        return fields[other], name
        return None

    def _redact_table(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return a table, as databases answer with one, without the secrets of its columns."""
        heads = next((value[name] for name in _TABLE_HEADS & value.keys() if value[name]), None)
        if not isinstance(heads, list):
            return value
        names = [head.get("name") if isinstance(head, dict) else head for head in heads]
        columns = {
            at: name for at, name in enumerate(names) if isinstance(name, str) and self._names.judge(name)
        }
        rows = next((name for name in sorted(_TABLE_ROWS & value.keys())), None)
        if not columns or rows is None or not isinstance(value[rows], list):
            return value
        return value | {rows: [self._redact_row(row, columns, len(names)) for row in value[rows]]}

    def _redact_parameters(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return a statement of SQL with its parameters, without those of columns that hold secrets."""
        given = next((name for name in sorted(_PARAMETERS & value.keys())), None)
        if given is None or not isinstance(value[given], list):
            return value
        row = value[given]
        for statement in sorted(_STATEMENTS & value.keys()):
            names = read_parameters(value[statement]) if isinstance(value[statement], str) else []
            columns = {at: name for at, name in enumerate(names) if self._names.judge(name)}
            row = self._redact_row(row, columns, len(names)) if columns else row
        return value if row is value[given] else value | {given: row}

    def _redact_command(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return a command that has its arguments in another field, without the secrets among them."""
        command = next((value[it] for it in sorted(_COMMANDS & value.keys())), None)
        given = next((it for it in sorted(_ARGUMENTS & value.keys())), "")
        arguments = value.get(given)
        if isinstance(command, str) and isinstance(arguments, str):
            redacted = self._redact_text(f"{command} {arguments}")
            is_kept = not redacted.startswith(f"{command} ") or redacted.endswith(arguments)
            return value if is_kept else value | {given: redacted[len(command) + 1 :]}
        first = command.split() if isinstance(command, str) else command
        if not isinstance(first, list) or not isinstance(arguments, list):
            return value
        words = [*first, *arguments]
        self._redact_arguments(words, redacted_words := list(words))
        return value | {given: redacted_words[len(first) :]}

    def _redact_row(self, row: Any, columns: dict[int, str], width: int) -> Any:
        if not isinstance(row, list) or len(row) != width:
            return row
        return [
            self.redact(item, columns[at] if at in columns and _is_cell_secret(item) else "")
            for at, item in enumerate(row)
        ]

    def _redact_list(self, value: list[Any]) -> list[Any]:
        redacted = [self.redact(item) for item in self._hide_key_lines(self._redact_sheet(value))]
        if len(value) > 1 and isinstance(value[0], str):
            self._redact_arguments(value, redacted)
        return _keep(value, redacted)

    def _redact_sheet(self, value: list[Any]) -> list[Any]:
        """Return the rows of a sheet, the first of which has the names of its columns, without secrets."""
        if len(value) < _PAIR or not all(isinstance(row, list) for row in value):
            return value
        head = value[0]
        columns = {
            at: name for at, name in enumerate(head) if isinstance(name, str) and self._names.judge(name)
        }
        if not columns or not all(isinstance(name, str) for name in head):
            return value
        return [head, *(self._redact_row(row, columns, len(head)) for row in value[1:])]

    def _hide_key_lines(self, value: list[Any]) -> list[Any]:
        """Return a list without the lines of a private key that has an item a line."""
        lines = list(value)
        is_inside = False
        for at, item in enumerate(value):
            is_line = isinstance(item, str) and len(item) <= _MAX_KEY_LINE_CHARS
            if is_inside and is_line:
                lines[at] = self._mark("private key")
            begins = is_line and "-BEGIN " in item and "PRIVATE KEY" in item
            is_inside = begins or (is_inside and is_line and "-END " not in item)
        return lines

    def _redact_arguments(self, value: list[Any], redacted: list[Any]) -> None:
        """Replace secrets among the arguments of a command, or in a pair of a header's name and value."""
        texts = [item if isinstance(item, str) else "" for item in value]
        for index, start, end in find_secret_arguments(texts):
            if redacted[index] == value[index]:
                redacted[index] = f"{texts[index][:start]}[redacted: command argument]{texts[index][end:]}"
        for index, (name, item) in enumerate(pairwise(texts)):
            strength = (
                self._names.judge(name)
                if name and len(name.split()) == 1 and "=" not in name
                else Strength.NONE
            )
            if name in _WELL_KNOWN_USERS and _is_strong_password(item):
                redacted[index + 1] = self._mark(name)
            if not strength or not item or item.startswith(("[redacted", "-")):
                continue
            is_flag = name.startswith("-") and is_secret_value(item, name, strength)
            if (is_flag and not is_ordinary(item)) or (
                len(value) == _PAIR and _is_pair_value(item, strength)
            ):
                redacted[index + 1] = self._mark(name)

    def _mark(self, key: str) -> str:
        return f"[redacted: field {self._redact_text(key)[:_MAX_MARKER_CHARS]}]"


def _find_kind(name: str) -> str:
    """Return what a field of a pair holds, by the last word of its name: `OptionName`, `parameter_name`."""
    lowered = name.lower()
    if lowered in words_of("value fields") or lowered in words_of("name fields"):
        return lowered
    for kind in ("name", "value", "key"):
        if lowered.endswith(kind):
            return kind
    return lowered


def _is_cell_secret(item: Any) -> bool:
    return isinstance(item, str) and (looks_like_password(item) or looks_secret(item))


def _is_plain_secret(item: Any, name: str) -> bool:
    """Return whether a value looks like a password where its name may be a question or a kind of input."""
    return isinstance(item, str) and "tok" not in name.lower() and looks_like_password(item.strip())


def _is_pair_value(item: str, strength: Strength) -> bool:
    if strength is Strength.HEADER:
        return not is_ordinary(item)
    return looks_secret(item) or (strength is Strength.STRONG and looks_like_password(item))


def _is_strong_password(item: str) -> bool:
    return _STRONG_PASSWORD.fullmatch(item) is not None and not item.islower() and looks_like_password(item)


def _is_login(value: list[Any], key: str) -> bool:
    """Return whether a list is a user and a password, as clients for HTTP take them: `auth: [ann, x]`."""
    return (
        len(value) == _PAIR
        and all(isinstance(item, str) for item in value)
        and key.lower().endswith("auth")
        and (looks_like_password(value[1]) or looks_made(value[1]) or joins_words_and_number(value[1]))
    )


def _is_schema(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    return (
        (isinstance(kind, str) and kind in _JSON_TYPES and "value" not in value)
        or isinstance(kind, list)
        or "$ref" in value
        or "anyOf" in value
    )


def _keep(value: _Data, redacted: _Data) -> _Data:
    return value if redacted == value else redacted

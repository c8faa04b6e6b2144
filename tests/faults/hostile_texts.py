"""Find every regular expression of the package, and write texts that are made to be slow for it.

The texts follow from the pattern itself: what matches its first parts, again and again, and each of its
repetitions pumped up, with an end that does not fit.
"""

import ast
import functools
import importlib
import re
import types
from collections.abc import Iterator
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]

import steadyhelm
from steadyhelm.lexicons import LexiconEntry, load_lexicon

ROOT = Path(steadyhelm.__file__).parent
_OTHER_CALLS = {"escape", "compile", "fullmatch"}
READ_CHARS = {
    "_SHORT_VALUE": 240,
    "_LONG_VALUE": 240,
    "_LOGIN_BEFORE": 80,
    "_SAID_BEFORE": 80,
    "_SLASH_COMMAND": 8192,
    "_TOKEN": 800,
}
"""Patterns that are applied to at most so many characters of a text; `_TOKEN` reads our own patterns."""
_SETS = {"names", "values", "words"}
"""Lexicon files whose word lists are looked up as sets and never searched for."""
_MANY_TIMES = 24
_CATEGORY_SAMPLES = {
    codes.CATEGORY_SPACE: " ", codes.CATEGORY_NOT_SPACE: "x", codes.CATEGORY_DIGIT: "1",
    codes.CATEGORY_NOT_DIGIT: "x", codes.CATEGORY_WORD: "a", codes.CATEGORY_NOT_WORD: "-",
}  # fmt: skip


def find_patterns() -> Iterator[tuple[str, re.Pattern]]:
    """Yield every pattern of the package with its name: of lexicons, of modules, and written inline."""
    for path in sorted(ROOT.rglob("patterns/*.toml")):
        folder = path.parent.parent.relative_to(ROOT.parent).as_posix().replace("/", ".")
        for entry in load_lexicon(folder, path.stem).entries.values():
            if entry.words and path.stem in _SETS:
                continue
            yield f"{folder}.{path.stem}: {entry.name}", entry.regex
    for path in sorted(ROOT.rglob("*.py")):
        name = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")
        yield from _find_inline(name, path)
        try:
            module = importlib.import_module(name)
        except ImportError:  # a framework that is not installed
            continue
        yield from _find_in_module(name, module)


def find_distinct_patterns() -> list[tuple[str, re.Pattern]]:
    """Return every pattern of the package once, with one of its names."""
    found = {(pattern.pattern, pattern.flags): (name, pattern) for name, pattern in find_patterns()}
    return list(found.values())


def _find_in_module(name: str, module: types.ModuleType) -> Iterator[tuple[str, re.Pattern]]:
    for attribute, value in vars(module).items():
        yield from ((f"{name}.{attribute}", pattern) for pattern in _gather(value))
        is_ours = getattr(value, "__module__", "") == name and hasattr(value, "cache_clear")
        returned = str(getattr(value, "__annotations__", {}).get("return", ""))
        if is_ours and "Pattern" in returned and not value.__wrapped__.__code__.co_argcount:
            yield from ((f"{name}.{attribute}()", pattern) for pattern in _gather(value()))


def _gather(value: object) -> Iterator[re.Pattern]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, LexiconEntry):
        yield value.regex
    elif isinstance(value, tuple | list | frozenset | set):
        for item in value:
            yield from _gather(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _gather(item)


def _find_inline(name: str, path: Path) -> Iterator[tuple[str, re.Pattern]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args
        if not is_call or not isinstance(node.func.value, ast.Name) or node.func.value.id != "re":
            continue
        first = node.args[0]
        is_pattern = isinstance(first, ast.Constant) and node.func.attr not in {
            "escape",
            "compile",
            "fullmatch",
        }
        if is_pattern and isinstance(first.value, str | bytes):
            yield f"{name}:{node.lineno}", re.compile(first.value)


def write_texts(pattern: re.Pattern, length: int) -> Iterator[str]:
    """Yield texts of about this length that are made to be slow for a pattern."""
    source = pattern.pattern.decode("latin-1") if isinstance(pattern.pattern, bytes) else pattern.pattern
    parsed = parser.parse(
        source, pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else pattern.flags
    )
    for unit in dict.fromkeys(_write_units(parsed)):
        yield unit * (length // len(unit)) + "\x00"
    for unit in dict.fromkeys(_write_long_repetitions(parsed)):
        yield unit * max(length // len(unit), 1)
    for filler in (*"a \n-._\"'\\A0={", "a ", "a."):
        yield filler * (length // len(filler))


def _write_units(parsed) -> list[str]:
    """Return texts that match the first parts of a pattern, also with a repetition pumped up."""
    units: list[str] = []
    prefix = ""
    for op, argument in parsed:
        sample, inner = _write_sample(op, argument)
        pumped = [prefix + text for text in inner]
        units += pumped
        prefix += sample
        if sample:
            units.append(prefix)
    return [unit for unit in units if unit][:16]


def _write_long_repetitions(parsed) -> list[str]:
    """Return texts in which a repeated group comes many times and ends in what does not fit.

    Where a text fits the group in two ways, there are twice as many ways with each time it comes.
    """
    texts: list[str] = []
    prefix = ""
    for op, argument in parsed:
        if op in {codes.MAX_REPEAT, codes.MIN_REPEAT} and int(argument[1]) >= _MANY_TIMES // 2:
            sample, further = _join(argument[2])
            times = min(int(argument[1]), _MANY_TIMES)
            texts += [f"{prefix}{text * times}\x00" for text in (sample, *further) if text]
        prefix += _write_sample(op, argument)[0]
    return texts[:12]


def _write_sample(op, argument) -> tuple[str, list[str]]:  # noqa: PLR0911 - one for each kind of part
    """Return a text that matches one part, and further texts that nearly do."""
    if op is codes.LITERAL:
        return chr(argument), []
    if op is codes.NOT_LITERAL:
        return ("x" if argument != ord("x") else "y"), []
    if op is codes.ANY:
        return "x", []
    if op is codes.IN:
        return _write_class(argument), []
    if op in {codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT}:
        low, high, inner = argument
        unit, further = _join(inner)
        most = 4 if high is codes.MAXREPEAT else min(int(high), 4)
        return unit * max(int(low), 1 if int(high) else 0), [
            unit * max(int(low), most),
            unit * max(int(low) - 1, 0),
            *further,
        ]
    if op is codes.SUBPATTERN:
        return _join(argument[-1])
    if op is codes.ATOMIC_GROUP:
        return _join(argument)
    if op is codes.BRANCH:
        branches = [_join(branch) for branch in argument[1]]
        return branches[0][0], [text for sample, more in branches for text in (sample, *more)][:24]
    return "", []


def _join(parsed) -> tuple[str, list[str]]:
    sample, further = "", []
    for op, argument in parsed:
        text, more = _write_sample(op, argument)
        further += [sample + item for item in more]
        sample += text
    return sample, further[:12]


def _write_class(items) -> str:
    if items and items[0][0] is codes.NEGATE:
        excluded = re.compile(
            "[" + "".join(re.escape(chr(a)) for op, a in items[1:] if op is codes.LITERAL) + "\x01]"
        )
        return next(letter for letter in "xa1 -_.!~\u00e9" if not excluded.match(letter))
    op, argument = items[0]
    if op is codes.LITERAL:
        return chr(argument)
    return chr(argument[0]) if op is codes.RANGE else _CATEGORY_SAMPLES.get(argument, "a")


@functools.cache
def find_uses(name: str) -> set[str]:
    """Return the methods that a module calls on the pattern of this name, such as `match`."""
    module, _, attribute = name.partition(":")[0].rpartition(".")
    path = ROOT.parent / Path(*module.split(".")).with_suffix(".py")
    if not path.exists() or not attribute.removesuffix("()").isidentifier():
        return set()
    return set(re.findall(rf"\b{attribute.removesuffix('()')}\.(\w+)\(", path.read_text(encoding="utf-8")))


def is_anchored(name: str) -> bool:
    """Return whether a pattern is only applied at the beginning of a text."""
    uses = find_uses(name)
    return bool(uses) and uses <= {"match", "fullmatch"}


def find_read_chars(name: str) -> int | None:
    """Return how many characters of a text a pattern is applied to at most; None for all."""
    return READ_CHARS.get(name.rpartition(".")[2])

"""Measure the source tree: files, names, docstrings and functions.

    python -m benchmarks.house            # the table
    python -m benchmarks.house names      # every function named by a participle
    python -m benchmarks.house docs       # every docstring that opens with a noun or a clause
    python -m benchmarks.house words      # every docstring with one of the words we avoid
    python -m benchmarks.house doors      # every short module that only one other module imports
    python -m benchmarks.house classes    # every public class name that is used twice
    python -m benchmarks.house functions  # every function that takes more lines than nine in ten may

Append a folder below `src/steadyhelm` to look at that part only.
"""

import ast
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent / "src"
PACKAGE = ROOT / "steadyhelm"
SHORT_LINES = 100
LONG_LINES = 400
LONG_FUNCTION_LINES = 60
FUNCTION_LINES = 17
"""What nine in ten functions stay within."""

IRREGULAR = frozenset(
    [
        "begun",
        "bound",
        "bought",
        "brought",
        "built",
        "caught",
        "chosen",
        "cut",
        "done",
        "drawn",
        "fallen",
        "felt",
        "found",
        "given",
        "gone",
        "got",
        "grown",
        "heard",
        "held",
        "hidden",
        "kept",
        "known",
        "laid",
        "learnt",
        "led",
        "left",
        "lent",
        "lost",
        "made",
        "meant",
        "met",
        "paid",
        "put",
        "read",
        "said",
        "seen",
        "sent",
        "set",
        "shown",
        "shut",
        "sold",
        "spent",
        "spoken",
        "stood",
        "taken",
        "taught",
        "thought",
        "told",
        "understood",
        "won",
        "worn",
        "written",
    ]
)
# These are verbs in the imperative as well, or words that only look like participles.
VERBS = frozenset(
    {"cut", "put", "read", "set", "shut", "need", "feed", "seed", "embed", "speed", "exceed", "shed"}
)
OPENINGS = frozenset(
    [
        "a",
        "an",
        "the",
        "this",
        "that",
        "these",
        "those",
        "it",
        "they",
        "he",
        "she",
        "we",
        "you",
        "i",
        "one",
        "what",
        "whether",
        "which",
        "who",
        "whose",
        "whom",
        "where",
        "when",
        "how",
        "why",
        "of",
        "in",
        "on",
        "at",
        "by",
        "for",
        "from",
        "with",
        "without",
        "within",
        "into",
        "to",
        "as",
        "after",
        "before",
        "between",
        "under",
        "over",
        "about",
        "nothing",
        "something",
        "everything",
        "anything",
        "nobody",
        "somebody",
        "everybody",
        "all",
        "any",
        "each",
        "every",
        "both",
        "no",
    ]
)
AVOIDED = re.compile(r"\b(told|tells?|gives?|nobody|stands?|whoever|shall)\b", re.IGNORECASE)


class Function(NamedTuple):
    """One function or method of the source."""

    where: str
    name: str
    lines: int
    doc: str
    is_property: bool


class Module(NamedTuple):
    """One file of the source."""

    path: Path
    name: str
    lines: int
    tree: ast.Module


def modules() -> list[Module]:
    """Parse every file of the source."""
    return [_module(path) for path in sorted(PACKAGE.rglob("*.py"))]


def functions(module: Module) -> Iterator[Function]:
    """Yield the functions of a module, nested ones included."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            is_property = any("property" in ast.dump(decorator) for decorator in node.decorator_list)
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            where = f"{module.path.relative_to(ROOT)}:{node.lineno}"
            yield Function(where, node.name, lines, ast.get_docstring(node) or "", is_property)


def is_participle(name: str) -> bool:
    """Return whether the first word of a function's name is a past participle."""
    first = name.strip("_").split("_")[0]
    if name.startswith("__") or first in VERBS:
        return False
    return first in IRREGULAR or (first.endswith("ed") and len(first) > 3)


def opens_with_noun(doc: str) -> bool:
    """Return whether a docstring opens with an article, pronoun, question word or preposition."""
    words = re.findall(r"[A-Za-z']+", doc)
    return bool(words) and words[0].lower() in OPENINGS


def docstrings(module: Module) -> Iterator[tuple[str, str]]:
    """Yield every docstring of a module, with its place."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(module.tree):
        if isinstance(node, kinds) and (doc := ast.get_docstring(node)):
            yield f"{module.path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}", doc


def importers(found: list[Module]) -> dict[str, set[str]]:
    """Return who imports each module of ours, by name."""
    names = {module.name for module in found}
    by: dict[str, set[str]] = defaultdict(set)
    for module in found:
        for node in ast.walk(module.tree):
            for target in _targets(node):
                if target in names and target != module.name:
                    by[target].add(module.name)
    return by


def single_importer(found: list[Module]) -> list[Module]:
    """Return the short modules with one importer; commands, plug-ins and their parts do not count."""
    by, plugged = importers(found), _find_plug_ins()
    return [
        module
        for module in found
        if len(by[module.name]) == 1
        and module.lines < SHORT_LINES
        and module.path.name != "__init__.py"
        and module.name not in plugged
        and module.name.rpartition(".")[0] not in plugged
        and not _is_command(module)
    ]


def find_repeated_classes(found: list[Module]) -> dict[str, list[str]]:
    """Return the public class names that stand in more than one module."""
    where: dict[str, list[str]] = defaultdict(list)
    for module in found:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where[node.name].append(f"{module.path.relative_to(ROOT)}:{node.lineno}")
    return {name: places for name, places in sorted(where.items()) if len(places) > 1}


def _module(path: Path) -> Module:
    text = path.read_text()
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    return Module(path, name, len(text.splitlines()), ast.parse(text))


def _targets(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _find_plug_ins() -> set[str]:
    text = (ROOT.parent / "pyproject.toml").read_text()
    return set(re.findall(r'= "(steadyhelm[\w.]*):', text))


def _is_command(module: Module) -> bool:
    """Return whether a file of `cli/` registers commands, or is a plug-in's registry entry."""
    if "cli" not in module.path.parts:
        return False
    text = module.path.read_text()
    return (
        "typer.Typer(" in text
        or re.search(r"^def \w+\(\n(    .*\n)*.*typer\.", text, re.MULTILINE) is not None
    )


def _table(found: list[Module]) -> Iterator[tuple[str, str]]:
    all_functions = [function for module in found for function in functions(module)]
    plain = [function for function in all_functions if not function.is_property]
    documented = [function for function in plain if function.doc]
    docs = [doc for module in found for _, doc in docstrings(module)]
    words = sum(len(re.findall(r"[A-Za-z']+", doc)) for doc in docs)
    lengths = sorted(function.lines for function in all_functions)
    participles = sum(is_participle(function.name) for function in plain)
    nouns = sum(opens_with_noun(function.doc) for function in documented)
    avoided = sum(len(AVOIDED.findall(doc)) for doc in docs)
    yield "files", str(len(found))
    yield f"files over {LONG_LINES} lines", str(sum(module.lines > LONG_LINES for module in found))
    yield "lines", str(sum(module.lines for module in found))
    yield "median file", f"{statistics.median(module.lines for module in found):.0f}"
    yield f"modules under {SHORT_LINES} lines with one importer", str(len(single_importer(found)))
    yield "functions", str(len(all_functions))
    yield "functions named by a participle", f"{participles} ({participles / len(plain):.1%})"
    yield "docstrings", str(len(docs))
    yield "function docstrings opening with a noun or clause", f"{nouns} ({nouns / len(documented):.1%})"
    yield "avoided words per 1,000 docstring words", f"{1000 * avoided / words:.1f}"
    yield "public class names used twice", str(len(find_repeated_classes(found)))
    yield "function p90 lines", str(lengths[int(len(lengths) * 0.9)])
    longer = sum(length > LONG_FUNCTION_LINES for length in lengths)
    yield f"functions over {LONG_FUNCTION_LINES} lines", f"{longer} ({longer / len(lengths):.2%})"


def _names(found: list[Module]) -> Iterator[str]:
    for it in _plain_functions(found):
        if is_participle(it.name):
            yield f"{it.where} {it.name}"


def _docs(found: list[Module]) -> Iterator[str]:
    for it in _plain_functions(found):
        if opens_with_noun(it.doc):
            yield f"{it.where} {it.name}: {it.doc.splitlines()[0]}"


def _words(found: list[Module]) -> Iterator[str]:
    for module in found:
        for where, doc in docstrings(module):
            for match in AVOIDED.finditer(doc):
                yield f"{where} {match.group()}: {doc.splitlines()[0]}"


def _doors(found: list[Module]) -> Iterator[str]:
    everything, asked = modules(), {module.path for module in found}
    by = importers(everything)
    for module in single_importer(everything):
        if module.path in asked:
            yield f"{module.lines:4d} {module.name} <- {', '.join(by[module.name])}"


def _classes(found: list[Module]) -> Iterator[str]:
    for name, places in find_repeated_classes(found).items():
        yield f"{name}: {', '.join(places)}"


def _functions(found: list[Module]) -> Iterator[str]:
    longer = [it for module in found for it in functions(module) if it.lines > FUNCTION_LINES]
    for it in sorted(longer, key=lambda one: -one.lines):
        yield f"{it.lines:4d} {it.where} {it.name}"


def _plain_functions(found: list[Module]) -> Iterator[Function]:
    return (it for module in found for it in functions(module) if not it.is_property)


ROWS = {
    "names": _names,
    "docs": _docs,
    "words": _words,
    "doors": _doors,
    "classes": _classes,
    "functions": _functions,
}


def main() -> None:
    """Print the table, or the rows behind one of its lines."""
    what, *below = sys.argv[1:] or ["table"]
    if what not in {"table", *ROWS}:
        sys.exit(__doc__)
    part = PACKAGE / below[0] if below else PACKAGE
    found = [module for module in modules() if module.path.is_relative_to(part)]
    if what == "table":
        for name, value in _table(found):
            print(f"{name:55s} {value}")
    else:
        for row in ROWS[what](found):
            print(row)


if __name__ == "__main__":
    main()

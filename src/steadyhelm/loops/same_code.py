"""Code that is run again with nothing changed but the names of its variables or its comments."""

import functools
import re
from collections.abc import Iterator
from typing import Any, Final
from zlib import crc32

from msgspec import Struct, field

from steadyhelm.loops.call_arguments import find_command
from steadyhelm.loops.loop_detector import MAX_EVIDENCE_IDS, LoopMatch, is_report_due
from steadyhelm.loops.outcomes import CallOutcome
from steadyhelm.loops.steps import ToolStep

SAME_CODE_OF_LOOP: Final = 5

_MAX_RESULTS: Final = 8
_MAX_STEPS_BETWEEN: Final = 12
_MAX_CODE_CHARS: Final = 4000
_MIN_CODE_CHARS: Final = 8
_MAX_START_CHARS: Final = 300
_QUOTES: Final = " \t\"'"

_WORD_IN_NAME: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_RUNNING_WORDS: Final = frozenset(
    {"calc", "calculate", "calculator", "cell", "compute", "eval", "evaluate", "exec", "execute",
     "interpreter", "ipython", "javascript", "jupyter", "node", "notebook", "python",
     "query", "repl", "run", "sandbox",
     "script", "sql"}
)  # fmt: skip
_CODE_ARGUMENTS: Final = (
    "code", "source", "script", "snippet", "program", "cell", "sql", "query", "statement", "expression",
    "input",
)  # fmt: skip
_CODE_IN_COMMAND: Final = re.compile(r"\b(?:python[\d.]*|node|ruby|perl|Rscript)\b[^\n]{0,40}?(?: -[ce] |<<)")

_NAME: Final = r"[^\W\d]\w*"
_LINE_COMMENT: Final = re.compile(
    r"(?m)(^|[;{},])[ \t]{0,40}//[^\n]*|(?:^|(?<=\s))--[ \t][^\n]*|/\*[^*]{0,160}\*/"
)
_TOKEN: Final = re.compile(
    r"[fFrRbBuU]{0,2}(?:\"\"\".*?\"\"\"|'''.*?'''|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)"
    rf"|#[^\n]*|{_NAME}|\d[\w.]*|[=!<>]=|=>|\S",
    re.DOTALL,
)
_WORD: Final = re.compile(_NAME)
_IN_BRACES: Final = re.compile(r"\{[^{}]*\}")
# What a piece of code gives names to: targets of assignments, loop variables, aliases and parameters.
_BINDINGS: Final = re.compile(
    rf"(?:^|[;\n]|\b(?:let|const|var)\b)[ \t]{{0,16}}(?P<targets>[^\W\d][\w, \t]{{0,60}}?)"
    rf"(?::[^=\n]{{1,24}})?(?:=(?![=>])|<-)"
    rf"|\bfor[ \t]?\(?(?:(?:let|const|var)[ \t])?(?P<loop>[\w, \t()]{{1,40}}?)[ \t](?:in|of)\b"
    rf"|\b(?:as|AS)[ \t](?P<alias>{_NAME})"
    rf"|\b(?:def|function)[ \t]?(?P<function>\w{{0,40}})[ \t]?\((?P<parameters>[^()]{{0,120}})\)"
    rf"|\blambda[ \t](?P<lambda>[\w, \t]{{1,40}}):"
    rf"|(?<![\w, \t])(?P<arrow>[\w, \t]{{1,40}})\)?[ \t]{{0,2}}=>"
    rf"|\b(?P<walrus>{_NAME})[ \t]?:="
)
_QUERY: Final = re.compile(r"\s*(?:select\b|with\s+\w+\s+as\s*\()", re.IGNORECASE)
_COUNT: Final = re.compile(r"\b(?:count *\( *(?:\*|\w+(?:\.\w+)?) *\)|sum *\( *1 *\))")
_ALIAS: Final = re.compile(r"\bas +(\w+)")
_QUERY_WORDS: Final = frozenset({"as", "from", "is", "on", "select", "true", "where"})


class ComputedResult(Struct):
    """A result, and the calls in a row whose code brought it; `skeleton` is a checksum of the code."""

    outcome: CallOutcome
    tool: str
    code: str
    ids: list[str]
    calls: list[int]
    last_seq: int
    last_step: int
    skeleton: int = 0


class ComputedResults(Struct):
    """The latest results of code that was run in this segment."""

    results: dict[str, ComputedResult] = field(default_factory=dict)
    steps: int = 0

    def clear(self) -> None:
        """Forget everything."""
        if self.results:
            self.results.clear()

    def observe(self, step: ToolStep) -> LoopMatch | None:
        """Record a step, and return a match when the same code is run once more with the same result."""
        self.steps += 1
        outcome, event = step.outcome, step.event
        if step.kind != "look" or not outcome.size or outcome.failed or not outcome.known:
            return None
        code = find_code(event.action_name, event.input_data)
        if code is None:
            return None
        before = self.results.pop(outcome.sample, None)
        count = 0
        if before is not None:
            if not step.has_seen(before.last_seq):
                self.results[outcome.sample] = before
                return None
            count = self._count(before, step, code)
        if before is None or not count:
            before = ComputedResult(
                outcome, event.action_name, code, [event.event_id], [step.call_key], event.seq, self.steps
            )
        self.results[outcome.sample] = before
        if len(self.results) > _MAX_RESULTS:
            del self.results[next(iter(self.results))]
        return _match(before) if count else None

    def _count(self, before: ComputedResult, step: ToolStep, code: str) -> int:
        """Count a call whose code differs in nothing but names, and return how many there were; else 0."""
        event = step.event
        if before.tool != event.action_name or before.outcome.raw != step.outcome.raw:
            return 0
        if self.steps - before.last_step > _MAX_STEPS_BETWEEN:
            return 0
        before.skeleton = before.skeleton or hash_skeleton(before.code)
        if before.skeleton != hash_skeleton(code):
            return 0
        before.ids = [*before.ids, event.event_id][-MAX_EVIDENCE_IDS:]
        before.calls = [*before.calls, step.call_key][-MAX_EVIDENCE_IDS:]
        before.last_seq, before.last_step = event.seq, self.steps
        return len(before.ids)


def _match(result: ComputedResult) -> LoopMatch | None:
    count = len(result.ids)
    # Calls that are equal are counted elsewhere.
    if (
        count < SAME_CODE_OF_LOOP
        or not is_report_due(count, SAME_CODE_OF_LOOP)
        or len(set(result.calls)) == 1
    ):
        return None
    return LoopMatch(
        pattern="same code",
        count=count,
        patience=SAME_CODE_OF_LOOP,
        event_ids=tuple(result.ids),
        message=f"{result.tool} ran the same code {count} times under other names, with the same result",
    )


def find_code(tool: str, arguments: Any) -> str | None:
    """Return the code that a call runs, None when it runs none.

    >>> find_code("python_interpreter", "print(2)  # two"), find_code("review", {"code": "print(2)"})
    ('print(2)  # two', None)
    """
    command = find_command(arguments)
    if command is not None:
        return _cut_code(command[:_MAX_CODE_CHARS])
    if not _runs_code(tool):
        return None
    code = arguments
    if isinstance(arguments, dict):
        code = next((arguments[it] for it in _CODE_ARGUMENTS if it in arguments), None)
    return code[:_MAX_CODE_CHARS] if isinstance(code, str) and len(code) >= _MIN_CODE_CHARS else None


def _cut_code(command: str) -> str | None:
    """Return a command that contains code, with that on a line of its own; None for any other."""
    start = command[:_MAX_START_CHARS]
    if " -c " not in start and " -e " not in start and "<<" not in start:
        return None  # most commands: the pattern costs more
    found = _CODE_IN_COMMAND.search(start)
    if found is None:
        return None
    return f"{command[: found.end()]}\n{command[found.end() :].lstrip(_QUOTES)}"


@functools.lru_cache(maxsize=256)
def _runs_code(tool: str) -> bool:
    return any(word.lower() in _RUNNING_WORDS for word in _WORD_IN_NAME.findall(tool[:100]))


def hash_skeleton(code: str) -> int:
    r"""Return a checksum of code without comments, in which names are numbered that the code itself gives.

    >>> hash_skeleton("a = load(1)  # rows\nprint(a.sum())") == hash_skeleton("b = load(1)\nprint(b.sum())")
    True
    >>> hash_skeleton("print(len(train))") == hash_skeleton("print(len(test))")
    False
    """
    code = _LINE_COMMENT.sub(r"\1", code)
    if _QUERY.match(code) is not None:
        return crc32(" ".join(sorted(_list_query_words(code))).encode("utf-8", "replace"))
    tokens = [it for it in _TOKEN.findall(code) if not it.startswith("#")]
    numbering = _Numbering(_find_given_names(code))
    return crc32("\0".join(numbering.write(tokens)).encode("utf-8", "replace"))


def _list_query_words(query: str) -> set[str]:
    """Return what a query in SQL is about: its tables, columns, values and comparisons.

    >>> one = _list_query_words("SELECT COUNT(*) AS n FROM members m WHERE m.active = true")
    >>> one == _list_query_words("select sum(1) from members where active") == {"members", "active"}
    True
    """
    lowered = _COUNT.sub("", query.lower())
    aliases = {found[1] for found in _ALIAS.finditer(lowered)}
    words = {it for it in _TOKEN.findall(lowered) if it not in _QUERY_WORDS and it not in aliases}
    return {it for it in words if len(it) > 1 or it in "<>" or it.isdigit()}


class _Numbering:
    """The numbers of the names that a piece of code gives, in the order in which they appear."""

    def __init__(self, given: frozenset[str]) -> None:
        self.given = given
        self.numbers: dict[str, str] = {}

    def write(self, tokens: list[str]) -> Iterator[str]:
        """Return the tokens with a number for each of these names; attributes and keywords keep theirs."""
        depth, before = 0, ""
        for token, after in zip(tokens, [*tokens[1:], ""], strict=True):
            depth += (token in {"(", "[", "{"}) - (token in {")", "]", "}"})
            if token[0] in "fF`" and "{" in token:
                yield _IN_BRACES.sub(self._number_braces, token)
            elif before == "." or (depth > 0 and after == "=" and before in {"(", ","}):
                yield token
            else:
                yield self.number(token)
            before = token

    def number(self, name: str) -> str:
        """Return what to write for a name."""
        if name not in self.given:
            return name
        return self.numbers.setdefault(name, f"${len(self.numbers)}")

    def _number_braces(self, found: re.Match[str]) -> str:
        return _WORD.sub(lambda it: self.number(it[0]), found[0])


def _find_given_names(code: str) -> frozenset[str]:
    found = (group for it in _BINDINGS.finditer(code) for group in it.groups() if group)
    return frozenset(name for group in found for name in _WORD.findall(group))

"""Results that report a failure in words or in a flag, where nobody marked it as an error.

A tool that only reads returns what others wrote, and its verdicts are answers: of those words, only the
plainest count.
"""

import functools
import re
from typing import Any, Final

import msgspec

from steadyhelm.loops.phrases import Phrases

_START_CHARS: Final = 100
_SHORT_CHARS: Final = 160
_CRASH_CHARS: Final = 40

_WORD_IN_NAME: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_READING_WORDS: Final = frozenset(
    """
    agent agents answer ask assess availability available browse can cat chat check classify compare
    consult count decide delegate describe docs document evaluate exists explain explore fetch find get
    glob goto grade grep handoff has history inspect is lint list load logs look lookup ls match measure
    monitor open page peek ping predict probe query rate read recall review scan score screen search show
    stat status subagent summarize summary test validate verify view visit
    """.split()  # noqa: SIM905 - so many quoted words read worse
)
_READING_COMMANDS: Final = frozenset(
    """
    awk bat cat curl diff echo egrep find gh grep head jq journalctl less ls more printf psql rg sed
    sqlite3 stat tail type view wc xxd
    """.split()  # noqa: SIM905 - the same
)
_VERB_ARGUMENTS: Final = ("action", "op", "operation", "method")
_COMMAND_ARGUMENTS: Final = ("command", "cmd")
_COMMAND_ARGUMENT_SET: Final = frozenset(_COMMAND_ARGUMENTS)
_TAKING_WORDS: Final = frozenset(
    {"claim", "consume", "dequeue", "dlq", "lpop", "next", "pop", "receive", "rpop"}
)
_QUEUE_WORDS: Final = frozenset({"backlog", "dead", "inbox", "letter", "letters", "queue", "topic"})
_TAKES_ITEM: Final = re.compile(r"\b(?:[lrs]pop|receive-message|xreadgroup|z?popmin)\b", re.IGNORECASE)
_STATUS_FIELDS: Final = frozenset(
    """
    code detail details error error_code error_message errors message ok request_id retryable status
    status_code success timestamp trace_id type
    """.split()  # noqa: SIM905 - the same
)
_MAX_ITEM_CHARS: Final = 20_000
_COMMAND_START: Final = re.compile(r"\s*(?:cd [^;&|\n]{1,200}(?:&&|;) *)?(?:sudo +)?(?P<word>[\w./-]{1,80})")
_GIT_READS: Final = re.compile(r"\s*(?:cd [^;&|\n]{1,200}(?:&&|;) *)?git (?:show|log|diff|blame|grep)\b")

_BEFORE: Final = r"[^a-z0-9]{0,6}(?:[\w./()\[\]-]{1,40}: (?:\(\d{1,3}\) )?){0,3}"
_APOSTROPHE: Final = r"(?:'|[^\x00-\x7f]{1,3})"
_NOT_ABLE: Final = (
    r"(?:i |we )?"
    rf"(?:could(?: not|n{_APOSTROPHE}t)|can(?: ?not|{_APOSTROPHE}t)|(?:was |were |am )?unable to|failed to) "
)
_NO_CONNECTION: Final = re.compile(
    rf"{_BEFORE}{_NOT_ABLE}(?:connect|contact|reach|resolve (?:the )?host|establish|authenticate"
    rf"|get lock|acquire)\b"
)
# What nobody found, saw or could tell is an answer.
_NOT_DONE: Final = re.compile(
    rf"{_BEFORE}{_NOT_ABLE}"
    r"(?!(?:answer|assist|be|compare|comply|confirm|decide|detect|determine|estimate|find|guess|help"
    r"|identify|infer"
    r"|know|locate|match|provide|recall|recogni[sz]e|recommend|remember|say|see|spot|tell|understand"
    r"|verify)\b)[a-z]{2}"
)
_DEED_FAILED: Final = re.compile(
    r"[^a-z0-9]{0,6}(?!(?:no|none|nothing|never|not|if|when|why|how|what|which|who|last|previous) )"
    r"(?:[a-z][\w'/-]{0,30} ){1,6}failed(?! ?: ?(?:0\b|\d{1,9}\W{0,2}(?:\Z|\n)|no(?:ne)?\W{0,2}\Z|false|\[))"
    r"(?=\W{0,2}\Z|[:.!,;(\n]| - | (?:in \d|after |with |because |due |at |on |for ))"
)
_DEED_NOT_DONE: Final = re.compile(
    r"[^a-z0-9]{0,6}(?:[a-z][\w'/-]{0,30} ){0,4}not (?:accepted|applied|completed|created|delivered"
    r"|deployed|done"
    r"|posted|published|saved|sent|submitted|updated|uploaded|written)(?:: ?| - | \(| because "
    r"| due to )(?!\d)\w"
)
_DEED_REFUSED: Final = re.compile(
    r"[^a-z0-9]{0,6}(?:[a-z][\w'/-]{0,30} ){0,4}(?:rejected|refused|denied|declined|aborted|blocked|crashed)"
    r"(?:(?:: ?| - | \(| because | due to )(?!\d)\w|[^\w\s]{0,2}\Z)"
)
# What hinders is named first, as by "lid open, cannot fire" and "there is no such day, choose another one".
_REASON_FIRST: Final = re.compile(
    r"[^\n]{3,120}[,;:.] ?(?:so |it |i |we |and ){0,2}"
    r"(?:can ?not|can't|could not|couldn't|unable to|will not|won't) "
    r"(?!(?:answer|be sure|confirm|determine|find|guess|know|locate|recall|see|tell|verify)\b)[a-z]{2,20}"
    r"(?: [\w'-]{1,20}){0,3}\W{0,3}\Z"
)
_NO_SUCH_VALUE: Final = re.compile(
    r"[^a-z0-9]{0,6}(?:sorry, )?"
    r"(?:there (?:is|are) no |no such |(?:that|this|it) is (?:not|no) |[^\n.!]{1,60} is not an? )"
    r"[^\n.!]{1,80}[.!;:,-]{1,2} ?(?:please )?"
    r"(?:choose|enter|give|name|pick|provide|select|specify|supply|try|use)"
    r" (?:an?|another|any|one|some|the)\b"
)
_REFUSING: Final = re.compile(
    r"\b(?:abort|block|cancel|declin|den[iy]|refus|reject|review|moderat)|_(?:abort|block|reject)"
)
_MAX_CALL_CHARS: Final = 2000

# Fields of an object, wherever they are: whether they are its own is counted.
_FALSE_FIELD: Final = re.compile(r"([a-z_]{2,20})[\"']\s{0,3}:\s{0,3}[\"']?false\b")
_BAD_STATE: Final = re.compile(
    r"[\"'](?:(?:outcome|result|state|status)[\"']\s{0,3}:\s{0,3}[\"'](?:aborted|crashed|declined|denied|error"
    r"|fail(?:ed|ure)?|not[ _](?!found)\w{1,30}|refused|rejected|unsuccessful)[\"']"
    r"|(?:code|http_?status|status|status_?code)[\"']\s{0,3}:\s{0,3}[\"']?[45]\d\d\b)"
)
_REASON_FIELD: Final = re.compile(
    r"[\"'](?:cause|description|details?|errors?|error_?message|explanation|hint|info|message|msg|note|problems?"
    r"|reasons?|status_?message|why)[\"']\s{0,3}:\s{0,3}(?:[\"'][^\"']|\{\s{0,3}[\"']|\[\s{0,3}[\"{'])"
)
_SUCCESS_FIELDS: Final = frozenset({"ok", "success", "successful", "succeeded"})
_FLAG: Final = r"(?:ok|success|successful|succeeded)[\"']?\s{0,3}[:=]\s{0,3}[\"']?false\b"
_FLAG_AT_START: Final = re.compile(rf"[^a-z0-9{{\[]{{0,6}}{_FLAG}")
_FLAG_ALONE: Final = re.compile(rf"\s{{0,9}}\{{\s{{0,9}}[\"']{_FLAG}[\"']?\s{{0,9}}\}}\s{{0,9}}\Z")
_NOTHING_TO_DO: Final = re.compile(
    r"\balready (?:a|active|an|applied|at|been|booked|closed|disabled|done|enabled|exists?|in|member"
    r"|open|present|set"
    r"|subscribed|there|up)\b|\b(?:nothing to|no changes?|unchanged|up[ -]to[ -]date|not found|no such"
    r"|no match(?:es)?"
    r"|no results?)\b"
)
"""What was done before, or is not there, is no failure of the deed."""

_CRASHES: Final = Phrases(
    ("segmentation fault", "core dumped", "kernel", "crashed", "died", "respond", "unreachable", "nan"),
    re.compile(
        r"\bsegmentation fault\b|\bcore dumped\b|\bnetwork is unreachable\b"
        r"|\bkernel (?:is dead|(?:has |appears to have )?died)"
        r"|\b(?:agent|app|application|browser|container|device|emulator|engine|instance|kernel|machine"
        r"|page|process"
        r"|program|renderer|runtime|server|service|session|simulator|tab|vm|worker)"
        r" (?:has |is )?(?:unexpectedly )?(?:crashed|died|unresponsive|stopped responding)\b"
        r"|\b(?:is not|isn't|not) responding\b"
        r"|\bloss\W{0,3}(?:is )?nan\b"
    ),
)
_CRASH_AT_END: Final = re.compile(r"(?:segmentation fault|core dumped)[^a-z]{0,4}\Z")
_TOOL_ERRORS: Final = re.compile(r"(?m:^(?:npm err(?:!|or )|panic: |thread '[^'\n]{1,60}' panicked at ))")


def tells_failure(lowered: str, size: int, name: str, arguments: Any, kind: str) -> bool:
    """Return whether the beginning and end of a result, in lower case, say that the call came to nothing.

    `size` is the length of the whole result; name, arguments and kind are those of the call.
    """
    reads = kind != "work" and _reads_by_name(name)
    if lowered[:1] == "{":
        is_told = not reads and _says_in_field(lowered, name)
    elif reads:
        return size <= _SHORT_CHARS and _NO_CONNECTION.match(lowered) is not None
    else:
        is_told = _says_in_words(lowered, size, name, arguments)
    if not is_told or _does_something(name, arguments, kind):
        return is_told
    return size <= _SHORT_CHARS and _NO_CONNECTION.match(lowered) is not None


def _says_in_words(lowered: str, size: int, name: str, arguments: Any) -> bool:
    # Every result goes through here: plain searches come first, and patterns only where they find something.
    head = lowered[:_START_CHARS]
    if ("could" in head or "can" in head or "unable" in head or "failed to" in head) and (
        _NOT_DONE.match(lowered) is not None
    ):
        return True
    if size <= _SHORT_CHARS and _says_why_not(lowered):
        return True
    return (
        ("ed" in head and _may_say_refused(head, size) and _says_refused(lowered, name, arguments))
        or _names_failed_deed(head, lowered)
        or _names_crash(lowered, size, arguments)
    )


def _says_why_not(lowered: str) -> bool:
    """Return whether a short answer names what hinders, then that it could not be done or what to give."""
    if (
        "can" in lowered or "could" in lowered or "not " in lowered or "unable" in lowered or "won" in lowered
    ) and (_REASON_FIRST.match(lowered) is not None):
        return True
    return ("no " in lowered or "not " in lowered) and _NO_SUCH_VALUE.match(lowered) is not None


def _may_say_refused(head: str, size: int) -> bool:
    return size <= _START_CHARS or "ed:" in head or "ed (" in head or "ed -" in head or "ed b" in head


def _names_failed_deed(head: str, lowered: str) -> bool:
    return (
        ("failed" in head and "succe" not in lowered and _DEED_FAILED.match(lowered) is not None)
        or ("not " in head and _DEED_NOT_DONE.match(lowered) is not None)
        or ("false" in head and _FLAG_AT_START.match(lowered) is not None)
    )


def _names_crash(lowered: str, size: int, arguments: Any) -> bool:
    if size <= _SHORT_CHARS and _CRASHES.occur_in(lowered):
        return True
    if not isinstance(arguments, dict) or _COMMAND_ARGUMENT_SET.isdisjoint(arguments):
        return False
    end = lowered[-_CRASH_CHARS:]
    if ("fault" in end or "dumped" in end) and _CRASH_AT_END.search(end) is not None:
        return True
    return ("npm err" in lowered or "panic" in lowered) and _TOOL_ERRORS.search(lowered) is not None


def _says_refused(lowered: str, name: str, arguments: Any) -> bool:
    """Return whether it says that something was refused, where the call was not made to refuse it."""
    if _DEED_REFUSED.match(lowered) is None:
        return False
    return _REFUSING.search(f"{name} {arguments}"[:_MAX_CALL_CHARS].lower()) is None


def _says_in_field(lowered: str, name: str) -> bool:
    """Return whether one field of its own says that it was no success, and another one why."""
    if not _has_false_flag(lowered, name) and not _has_bad_state(lowered, name):
        return False
    if _FLAG_ALONE.match(lowered) is not None:
        return True
    has_reason = any(_is_own(lowered, found.start()) for found in _REASON_FIELD.finditer(lowered))
    return has_reason and _NOTHING_TO_DO.search(lowered) is None


def _has_false_flag(lowered: str, name: str) -> bool:
    if "false" not in lowered:
        return False
    for found in _FALSE_FIELD.finditer(lowered):
        field = found[1]
        if (field in _SUCCESS_FIELDS or _is_deed_of(name, field)) and _is_own(lowered, found.start()):
            return True
    return False


def _has_bad_state(lowered: str, name: str) -> bool:
    if not ("stat" in lowered or "result" in lowered or "outcome" in lowered or "code" in lowered):
        return False
    found = _BAD_STATE.search(lowered)
    return found is not None and _is_own(lowered, found.start()) and _REFUSING.search(name.lower()) is None


def _is_deed_of(name: str, field: str) -> bool:
    """Return whether a field such as "paid" is the deed of a tool such as `pay`."""
    if not field.endswith(("d", "t", "n")):
        return False
    return any(word[:2].lower() == field[:2] for word in _WORD_IN_NAME.findall(name[:100]))


def _is_own(lowered: str, place: int) -> bool:
    """Return whether what is at this place belongs to the object itself, and not to a part of it."""
    depth = lowered.count("{", 0, place) - lowered.count("}", 0, place)
    return depth == 1 and lowered.count("[", 0, place) == lowered.count("]", 0, place)


def takes_item(name: str, arguments: Any) -> bool:
    """Return whether a call takes an item from a queue: what is said there was said about the item.

    >>> takes_item("next_report", {}), takes_item("queue", {"op": "pop"}), takes_item("send_report", {})
    (True, True, False)
    """
    if isinstance(arguments, dict):
        verb = _find_first(arguments, _VERB_ARGUMENTS)
        if isinstance(verb, str) and _takes_item_by_name(verb):
            return True
        command = _find_first(arguments, _COMMAND_ARGUMENTS)
        if isinstance(command, str):
            return _TAKES_ITEM.search(command[:_MAX_CALL_CHARS]) is not None
    return _takes_item_by_name(name)


@functools.lru_cache(maxsize=256)
def _takes_item_by_name(name: str) -> bool:
    words = {word.lower() for word in _WORD_IN_NAME.findall(name[:100])}
    if not words.isdisjoint(_TAKING_WORDS):
        return True
    return not words.isdisjoint(_QUEUE_WORDS) and not words.isdisjoint(_READING_WORDS)


def is_item(output: Any) -> bool:
    """Return whether a result is an object that tells more than whether the call succeeded.

    >>> is_item({"id": 4, "error": "disk full"}), is_item({"ok": False, "error": "not connected"})
    (True, False)
    """
    if isinstance(output, str):
        if len(output) > _MAX_ITEM_CHARS or not output.lstrip().startswith("{"):
            return False
        try:
            output = msgspec.json.decode(output)
        except (msgspec.MsgspecError, RecursionError):
            return False
    return isinstance(output, dict) and not _STATUS_FIELDS.issuperset(output)


def _does_something(name: str, arguments: Any, kind: str) -> bool:
    """Return whether a call is more than a look at what others wrote.

    >>> _does_something("publish", {}, "work"), _does_something("read_page", {}, "look")
    (True, False)
    >>> _does_something("Bash", {"command": "cd app && npm test"}, "look")
    True
    >>> _does_something("Bash", {"command": "cat notes.txt"}, "look")
    False
    """
    if kind in {"plan", "wait"}:
        return False
    if isinstance(arguments, dict):
        if "url" in arguments and kind != "work":
            return False
        command = _find_first(arguments, _COMMAND_ARGUMENTS)
        if isinstance(command, str):
            found = _COMMAND_START.match(command)
            reads = found is not None and found["word"] in _READING_COMMANDS
            return not reads and _GIT_READS.match(command) is None
    return kind == "work" or not _reads_by_name(name)


@functools.lru_cache(maxsize=256)
def _reads_by_name(name: str) -> bool:
    words = {word.lower() for word in _WORD_IN_NAME.findall(name[:100])}
    if "check" in words and not words.isdisjoint({"in", "out"}):
        return False  # that of a guest
    return not words.isdisjoint(_READING_WORDS)


def _find_first(arguments: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((arguments[name] for name in names if name in arguments), None)

"""`steadyhelm profile`: list, show, check, write and learn style profiles."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from steadyhelm.cli.output import (
    EXIT_FAILED,
    EXIT_FLAGGED,
    AsJson,
    Yes,
    confirm,
    confirm_replacing,
    print_json,
    print_table,
    refuse_early_options,
)
from steadyhelm.errors import FormatError, SettingsError, SteadyhelmError
from steadyhelm.reports.formats import pluralize
from steadyhelm.reports.terminal import console, safe, say

if TYPE_CHECKING:
    from steadyhelm.style.profile import Profile
    from steadyhelm.style.scoring import ReplyScore

app = typer.Typer(
    help="List, check, write or learn profiles of an agent's style.",
    rich_markup_mode=None,
)

_TITLES: Final = ("profile", "threshold", "sensitivity", "words", "words a sentence", "from", "about")
_NEW_PROFILE_HEADING: Final = """\
What is not set comes from the profile named in `extends`.
Check it with: steadyhelm profile check {name}
Numbers: threshold, sensitivity, target_wps, max_wps, target_words, max_words, long_word_len,
max_long_ratio, velocity_threshold, engagement_floor. Tables: weights, lexicons, rules."""

Name = Annotated[str, typer.Argument(metavar="PROFILE_NAME", help="The profile's name.")]
Extends = Annotated[str, typer.Option("--extends", help="The profile to start from.")]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="The file to write; by default one in your folder of profiles."),
]


@app.callback(invoke_without_command=True)
def _profile(context: typer.Context, as_json: AsJson = False) -> None:
    if context.invoked_subcommand is None:
        list_profiles(as_json)
    elif as_json:
        refuse_early_options(context)


@app.command("list")
def list_profiles(as_json: AsJson = False) -> None:
    """List the profiles that come with Steadyhelm, and your own."""
    from steadyhelm.style.profile_files import get_user_folder

    found, broken = _read_profiles()
    if as_json:
        shown = [profile_to_data(profile, path, lexicons=False) for profile, path in found]
        print_json({"profiles": shown, "faults": broken})
    else:
        print_table(_TITLES, [format_profile(profile, path) for profile, path in found], empty="")
        say(f"Your own profiles are read from {get_user_folder()}.")
    for fault in broken:
        say(f"steadyhelm: {safe(fault)}")
    if broken:
        raise typer.Exit(EXIT_FAILED)


@app.command("show")
def show(name: Name, as_json: AsJson = False) -> None:
    """Show everything in a profile, including what it inherits."""
    from steadyhelm.style.profile_files import find_profile, list_profiles

    profile = find_profile(name)
    if as_json:
        print_json(profile_to_data(profile, list_profiles().get(name)))
        return
    screen = console()
    for key, value in profile_to_data(profile, list_profiles().get(name), lexicons=False).items():
        screen.print(f"{key:<20} {safe(_format_value(value))}")
    for component, lexicon in profile.lexicons.items():
        sizes = f"{len(lexicon.words)} terms, {len(lexicon.ambiguous)} of them ambiguous"
        screen.print(f"{'lexicon ' + component:<20} {sizes}")


@app.command("check")
def check(
    profiles: Annotated[
        list[str], typer.Argument(metavar="PROFILE", help="Names of profiles, or profile files.")
    ],
    reply: Annotated[
        Path | None,
        typer.Option("--reply", help="Also score this text by each profile; - is standard input."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check that profiles are valid. Prints what is wrong with those that are not."""
    from steadyhelm.style.scoring import score_reply

    text = _read_text(reply) if reply is not None else None
    checked: list[dict[str, Any]] = []
    flagged = False
    for name in profiles:
        try:
            profile = _load_profile(name)
        except SteadyhelmError as exc:
            faults = str(exc).splitlines()
            checked.append({"profile": name, "sound": False, "faults": faults, "score": None})
            for fault in faults:
                say(f"steadyhelm: {safe(fault)}")
            continue
        score = None if text is None else score_reply(text, profile)
        flagged = flagged or (score is not None and score.flagged)
        scored = None if score is None else score.to_dict()
        checked.append({"profile": profile.name, "sound": True, "faults": [], "score": scored})
        if not as_json:
            _print_checked(name, profile, score)
    if as_json:
        print_json({"profiles": checked})
    if not all(one["sound"] for one in checked):
        raise typer.Exit(EXIT_FAILED)
    if flagged:
        raise typer.Exit(EXIT_FLAGGED)


@app.command("new")
def new(name: Name, extends: Extends = "standard", output: Output = None, yes: Yes = False) -> None:
    """Write a new profile to start from."""
    from steadyhelm.style.profile_files import find_profile, format_document

    _check_name(name)
    base = find_profile(extends)
    heading = _NEW_PROFILE_HEADING.format(name=name)
    document = format_document(_draft_changes(extends, base), heading=heading)
    path = _write_profile(name, document, output, yes=yes)
    say(f"Wrote {path}. Edit it, then: steadyhelm profile check {name if output is None else path}")


@app.command("calibrate")
def calibrate(
    name: Name,
    replies: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Good replies: JSON Lines with a text, output, content, assistant_before or reply, "
            "or text files with one reply each; - is standard input, JSON Lines.",
        ),
    ],
    extends: Annotated[
        str | None,
        typer.Option("--extends", help="The profile to start from: standard for a new profile."),
    ] = None,
    output: Output = None,
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the change, and write nothing.")] = False,
) -> None:
    """Learn a profile's targets from good replies. Shows the change first; the rest of the profile stays."""
    from steadyhelm.cli.profile_calibration import find_profile_path, learn_document
    from steadyhelm.style.profile_files import get_user_folder

    _check_name(name)
    path = find_profile_path(name, get_user_folder(), output)
    good = [text for one in replies for text in read_good_replies(one)]
    learnt = learn_document(path, name, extends, good)
    for line in learnt.list_changes(path):
        typer.echo(safe(line))
    if learnt.text == learnt.before:
        say(f"{path} holds these values already. Nothing was changed.")
    elif dry_run:
        say("Nothing was written.")
    else:
        if learnt.before is not None:
            confirm(f"Change {path}?", yes=yes)
        _write_text(path, learnt.text)
        say(f"Wrote {path}, learnt from {pluralize(learnt.replies, 'reply', 'replies')}.")
    say(f"Flagged among them: {learnt.flagged_before} before, {learnt.flagged} by {name}.")
    if learnt.house_words:
        say(f"Words accepted as this agent's own style: {safe(', '.join(learnt.house_words), most=200)}.")


def _check_name(name: str) -> None:
    from steadyhelm.style.profile import PROFILE_NAME

    if not PROFILE_NAME.fullmatch(name):
        raise SettingsError(
            f"A profile's name has at most 64 lower-case letters, digits, - and _, got {name!r}."
        )


def _load_profile(name: str) -> "Profile":
    from steadyhelm.style.profile_files import find_profile, read_profile

    path = Path(name)
    is_file = path.suffix in {".toml", ".json"} or os.sep in name
    return read_profile(path) if is_file else find_profile(name)


def _read_text(path: Path) -> str:
    try:
        if str(path) == "-":
            return typer.get_text_stream("stdin").read().removeprefix("\ufeff")
        return path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as exc:
        raise SteadyhelmError(f"The reply in {path} cannot be read: {exc}.") from exc


def _write_profile(name: str, document: str, output: Path | None, *, yes: bool) -> Path:
    from steadyhelm.style.profile_files import get_user_folder

    path = output if output is not None else get_user_folder() / f"{name}.toml"
    confirm_replacing(path, yes=yes)
    _write_text(path, document)
    return path


def _write_text(path: Path, document: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(document, encoding="utf-8")
    except OSError as exc:
        raise SteadyhelmError(f"The profile cannot be written to {path}: {exc.strerror or exc}.") from exc


def format_profile(profile: "Profile", path: Path | None) -> tuple[object, ...]:
    """Return a profile as a row of the list."""
    return (
        profile.name,
        f"{profile.threshold:g}",
        f"{profile.sensitivity:g}",
        f"{profile.target_words:g}-{profile.max_words:g}",
        f"{profile.target_wps:g}-{profile.max_wps:g}",
        "bundled" if path is None else str(path),
        safe(profile.description, most=80),
    )


def profile_to_data(profile: "Profile", path: Path | None, *, lexicons: bool = True) -> dict[str, Any]:
    """Return a profile as plain data, with where it comes from."""
    import msgspec

    fields: dict[str, Any] = msgspec.to_builtins(profile)
    if not lexicons:
        del fields["lexicons"]
    return {**fields, "from": "bundled" if path is None else str(path)}


def _format_value(value: Any) -> str:
    """Return a value as people read it."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_format_value(inner)}" for key, inner in value.items())
    if value is None:
        return "not set"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _print_checked(name: str, profile: "Profile", score: "ReplyScore | None") -> None:
    """Print that a profile is valid, or what a reply scores by it."""
    if score is not None:
        _print_score(score)
        return
    terms = sum(len(lexicon.words) + len(lexicon.ambiguous) for lexicon in profile.lexicons.values())
    typer.echo(f"{safe(name)}: valid; threshold {profile.threshold:g}, {pluralize(terms, 'term')}.")


def _describe_result(score: "ReplyScore") -> str:
    if not score.flagged:
        return "fine"
    return "drift" if score.drifting else pluralize(len(score.broken), "broken rule")


def _print_score(score: "ReplyScore") -> None:
    """Print a reply's score and its parts."""
    typer.echo(
        f"{score.profile}: {score.score:g} of {score.threshold:g}, "
        f"{_describe_result(score)}, {score.quadrant}"
    )
    for part in score.offenders:
        typer.echo(f"   {part.points:>5.1f}  {safe(part, most=100)}")
    for rule in score.broken:
        typer.echo(f"   rule {rule.rule}: {safe(rule.message, most=100)}")
    if score.not_checked:
        say(f"Not checked: {safe(score.not_checked)}.")


_REPLY_FIELDS: Final = ("text", "output", "content", "assistant_before", "reply")
_JSON_LINES_SUFFIXES: Final = frozenset({".jsonl", ".ndjson"})
_LARGEST_REPLY_BYTES: Final = 1 << 20
_BOM: Final = b"\xef\xbb\xbf"


def read_good_replies(path: Path) -> Iterator[str]:
    """Yield the replies in a file: one a line in `.jsonl` and standard input (-), else the whole file."""
    try:
        if str(path) == "-":
            yield from _iter_replies_by_line(typer.get_binary_stream("stdin"), "standard input")
            return
        with path.open("rb") as stream:
            if path.suffix in _JSON_LINES_SUFFIXES:
                yield from _iter_replies_by_line(stream, str(path))
            else:
                yield stream.read(_LARGEST_REPLY_BYTES).decode("utf-8-sig", "replace")
    except OSError as exc:
        raise FormatError(f"{path} cannot be read: {exc}.") from exc


def _iter_replies_by_line(lines: Iterable[bytes], where: str) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        entry = line.removeprefix(_BOM) if number == 1 else line
        if entry.strip():
            yield _read_reply(entry, f"{where}, line {number}")


def _read_reply(line: bytes, where: str) -> str:
    try:
        entry: Any = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
        raise FormatError(f"{where} is not JSON: {exc}.") from exc
    if isinstance(entry, str):
        return entry
    if isinstance(entry, dict):
        for name in _REPLY_FIELDS:
            if isinstance(entry.get(name), str):
                return str(entry[name])
    raise FormatError(f"{where} has no reply; it must be a text, or have one of {', '.join(_REPLY_FIELDS)}.")


def _read_profiles() -> "tuple[list[tuple[Profile, Path | None]], list[str]]":
    """Return every profile with its file, and what is wrong with those that cannot be used."""
    from steadyhelm.style.profile_files import find_profile, list_profiles

    found: list[tuple[Profile, Path | None]] = []
    broken: list[str] = []
    for name, path in list_profiles().items():
        try:
            found.append((find_profile(name), path))
        except SteadyhelmError as exc:
            broken.extend(f"{name}: {fault}" for fault in str(exc).splitlines())
    return found, broken


def _draft_changes(extends: str, base: "Profile") -> dict[str, Any]:
    """Return what a new profile begins with: the values of the one it extends, to be changed."""
    return {
        "extends": extends,
        "description": f"Like {extends}, and ...",
        "threshold": base.threshold,
        "target_words": base.target_words,
        "max_words": base.max_words,
        "lexicons": {"filler": {"extend": [], "remove": []}},
        "rules": {"no_emoji": base.rules.no_emoji},
    }

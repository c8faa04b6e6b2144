"""Profiles and scores as `steadyhelm profile` shows them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from steadyhelm.cli.output import print_json
from steadyhelm.reports.formats import counted
from steadyhelm.reports.terminal import safe, say

if TYPE_CHECKING:
    from steadyhelm.errors import SteadyhelmError
    from steadyhelm.style.profile import Profile
    from steadyhelm.style.reply_score import ReplyScore


def line(profile: "Profile", path: Path | None) -> tuple[object, ...]:
    """A profile as a row of the list."""
    return (
        profile.name,
        f"{profile.threshold:g}",
        f"{profile.sensitivity:g}",
        f"{profile.target_words:g}-{profile.max_words:g}",
        f"{profile.target_wps:g}-{profile.max_wps:g}",
        "bundled" if path is None else str(path),
        safe(profile.description, most=80),
    )


def plain(profile: "Profile", path: Path | None, *, lexicons: bool = True) -> dict[str, Any]:
    """A profile as plain data, with where it comes from."""
    import msgspec

    fields: dict[str, Any] = msgspec.to_builtins(profile)
    if not lexicons:
        del fields["lexicons"]
    return {**fields, "from": "bundled" if path is None else str(path)}


def in_words(value: Any) -> str:
    """A value as people read it."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {in_words(inner)}" for key, inner in value.items())
    if value is None:
        return "not set"
    return str(value).lower() if isinstance(value, bool) else str(value)


def print_faults(name: str, exc: "SteadyhelmError", *, as_json: bool) -> None:
    """What is wrong with a profile, a line a fault."""
    faults = str(exc).splitlines()
    if as_json:
        print_json({"profile": name, "sound": False, "faults": faults})
    for fault in faults:
        say(f"steadyhelm: {safe(fault)}")


def print_sound(name: str, profile: "Profile", *, as_json: bool) -> None:
    """That a profile can be used."""
    if as_json:
        print_json({"profile": profile.name, "sound": True, "faults": []})
        return
    terms = sum(len(lexicon.words) + len(lexicon.ambiguous) for lexicon in profile.lexicons.values())
    typer.echo(f"{safe(name)}: sound; threshold {profile.threshold:g}, {counted(terms, 'term')}.")


def _verdict(score: "ReplyScore") -> str:
    if not score.flagged:
        return "fine"
    return "drift" if score.drifting else counted(len(score.broken), "broken rule")


def print_score(score: "ReplyScore", *, as_json: bool) -> None:
    """A reply's score, taken apart."""
    if as_json:
        print_json(score.to_dict())
        return
    typer.echo(
        f"{score.profile}: {score.score:g} of {score.threshold:g}, {_verdict(score)}, {score.quadrant}"
    )
    for part in score.offenders:
        typer.echo(f"   {part.points:>5.1f}  {safe(part, most=100)}")
    for rule in score.broken:
        typer.echo(f"   rule {rule.rule}: {safe(rule.message, most=100)}")
    if score.not_checked:
        say(f"Not checked: {safe(score.not_checked)}.")

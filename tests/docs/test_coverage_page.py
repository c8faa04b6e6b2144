"""The page that maps the source designs tells the truth: what it says exists can be found."""

import contextlib
import importlib
import inspect
import re
from pathlib import Path
from typing import get_args

import pytest
import typer

import steadyhelm
from steadyhelm.cli.main import app
from steadyhelm.engine import registry
from steadyhelm.errors import MissingExtraError
from steadyhelm.setting_table import SETTINGS
from steadyhelm.style.trajectory import Shape

PAGE = Path(__file__).parents[2] / "docs" / "coverage.md"
ROW = re.compile(r"^\| (.*) \|$", re.MULTILINE)
TICKED = re.compile(r"`([^`]+)`")
NAME = re.compile(r"[A-Za-z_][\w.]*")
CALL = re.compile(r"([A-Za-z_][\w.]*)\((.*)\)")

# Where names without a module may belong to: a class, a record or a function of these modules.
MODULES = (
    "steadyhelm.style.profile",
    "steadyhelm.style.profile_files",
    "steadyhelm.style.trajectory",
    "steadyhelm.style.nudges",
    "steadyhelm.corrections.deferred",
    "steadyhelm.corrections.model",
    "steadyhelm.lab.training.session_forest",
    "steadyhelm.calibration",
    "steadyhelm.fatigue",
    "steadyhelm.checkpoint",
)
# Words in ticks that are no names: values, texts, tables of the database, keys of a file, other programs.
WORDS = {
    *("observe", "guide", "enforce", "LOW", "MED", "HIGH", "CRITICAL", "None", "MEDIUM", "minilm", "remind"),
    *(
        "replan",
        "rollback",
        "ask",
        "stop",
        "events",
        "findings",
        "baselines",
        "extends",
        "session:",
        "features",
    ),
    *("drift rate", "longest streak", "calls", "interrupted", "turn", "kickoff", "kickoff_async", "monitor"),
    *("leverage", "robust", "hedges", "filler", "hype", "meta", "verbosity", "length", "complexity"),
    *(
        "steadyhelm",
        "invoke",
        "ainvoke",
        "stream",
        "astream",
        "run",
        "arun",
        "abs",
        "max",
        "min",
        "event_ids",
        "context",
    ),
}


def rows():
    """The rows of all tables, each as its cells; titles and rules are left out."""
    for line in ROW.findall(PAGE.read_text(encoding="utf-8")):
        cells = [cell.strip() for cell in line.split(" | ")]
        if len(cells) >= 2 and not cells[0].startswith(("---", "name there", "claim there", "there")):
            yield cells


def claimed():
    """What stands in ticks where the page says that it exists here."""
    for cells in rows():
        here = [cells[1]]
        if re.match(r"\[?the same", cells[1]) and not re.match(r"\[?the same[^|]*(name|value)", cells[1]):
            here.append(cells[0])
        for cell in here:
            yield from TICKED.findall(cell)


def known_names():
    """Every public name, every member of a public class, every argument, setting, detector and shape."""
    homes = [importlib.import_module(name) for name in MODULES]
    for name in steadyhelm.__all__:
        # A class of a framework that is not installed here cannot be loaded, and is named all the same.
        with contextlib.suppress(MissingExtraError):
            homes.append(getattr(steadyhelm, name))
    homes += [
        it for home in homes if inspect.ismodule(home) for it in vars(home).values() if inspect.isclass(it)
    ]
    names = set(steadyhelm.__all__) | {setting.name for setting in SETTINGS}
    names |= {setting.name.rpartition(".")[2] for setting in SETTINGS}
    names |= set(registry.list_names(registry.DETECTORS)) | set(get_args(Shape))
    for home in homes:
        members = dict(inspect.getmembers(home))
        names |= set(members) | set(getattr(home, "__struct_fields__", ()))
        for member in [home, *members.values()]:
            names |= set(parameters_of(member))
    return names


def parameters_of(callable_):
    try:
        return inspect.signature(callable_).parameters
    except (TypeError, ValueError):
        return {}


def resolve(path):
    """Import a dotted name: a module, or something in one."""
    parts = path.split(".")
    for place in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:place]))
        except ImportError:
            continue
        for part in parts[place:]:
            found = getattr(found, part)
        return found
    raise ImportError(path)


def option_names():
    found, waiting = set(), [typer.main.get_command(app)]
    while waiting:
        command = waiting.pop()
        found |= {option for parameter in command.params for option in parameter.opts}
        waiting += getattr(command, "commands", {}).values()
    return found


@pytest.fixture(scope="module")
def names():
    return known_names()


@pytest.mark.parametrize("text", sorted({text for text in claimed() if NAME.fullmatch(text)}))
def test_names_exist(text, names):
    """
    Every name the page claims is there: dotted ones are imported, others belong to something public.
    """
    if text in WORDS:
        return
    if text.startswith("steadyhelm."):
        assert resolve(text) is not None
        return
    owner, _, member = text.rpartition(".")
    if owner and hasattr(steadyhelm, owner):
        home = getattr(steadyhelm, owner)
        assert hasattr(home, member) or member in getattr(home, "__struct_fields__", ())
        return
    assert text in names or member in names, f"{text} is not there"


@pytest.mark.parametrize("text", sorted({text for text in claimed() if text.startswith("steadyhelm ")}))
def test_commands_exist(text):
    """
    Every command the page names can be typed.
    """
    command = typer.main.get_command(app)
    for word in text.split()[1:]:
        command = command.commands[word]


@pytest.mark.parametrize("text", sorted({text for text in claimed() if text.startswith("--")}))
def test_options_exist(text):
    """
    Every option the page names is one of a command.
    """
    assert text.split()[0] in option_names()


@pytest.mark.parametrize("text", sorted({text for text in claimed() if CALL.fullmatch(text)}))
def test_arguments_exist(text, names):
    """
    What is written with arguments has them, and a default that is written is the one it has.
    """
    name, given = CALL.fullmatch(text).groups()
    assert name.rpartition(".")[2] in names | {"abs", "max"}, name
    target = getattr(steadyhelm, name, None) or getattr(steadyhelm.Monitor, name, None)
    for one in filter(None, (part.strip() for part in given.split(","))):
        argument, _, default = one.partition("=")
        if not NAME.fullmatch(argument) or argument in {"callback", "agent"}:
            continue
        parameters = parameters_of(target) if target is not None else {}
        if not default or argument not in parameters:
            assert argument in names, f"{argument} of {name}"
            continue
        assert str(parameters[argument].default) == default.strip("'\""), one


def test_the_fourth_design_is_mapped():
    """
    Every name, class, field, parameter and figure of the fourth design is on the page.
    """
    page = PAGE.read_text(encoding="utf-8")
    wanted = """
        drift_score.py drift_trajectory.py backtest_real.py hedges filler hype meta verbosity length
        complexity target_wps max_wps target_words max_words long_word_len max_long_ratio weights
        threshold sensitivity leverage robust noisy-OR 0.8 18 adaptive degenerative chronic repeating
        velocity nudge ExtraTree
        n_estimators=500 max_depth=10 class_weight='balanced' GroupKFold(5) session_id t=0.58 43
        classify_user_reply
        correction_style correction_substance frustration approval continuation new_task steps=10 DCD
        .9973 1.0000 .9947 375 906 1,283 irreducible burst interrupt streak
    """

    assert [] == [word for word in wanted.split() if word not in page]


def test_another_model_is_mapped():
    """
    What stands for "escalate to a different model" is said.
    """
    assert "escalate to a different model" in PAGE.read_text(encoding="utf-8")

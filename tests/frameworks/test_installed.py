"""What every framework passes with `steadyhelm.install()` alone: agents are made and called as without it."""

import os
import subprocess
import sys

import pytest
from conftest import FILES, HERE, WANTED, stage_of
from script import Scene
from test_contract import ONE_CALL, STORIES, cannot, lookups, told_of
from watched import events_of, guidance_of, runs_of, story

import steadyhelm
from steadyhelm import RunStopped


@pytest.fixture
def installed(monitors):
    """Installs a monitor for the test."""

    def install(mode="observe", **options):
        return steadyhelm.install(monitor=monitors(mode, **options))

    yield install
    steadyhelm.uninstall()


def pytest_generate_tests(metafunc):
    """Every framework that is asked for, in every way it has, and every scene it can play."""
    for_each = [(name, how) for name in WANTED for how in stage_of(name).ways]
    if "told" in metafunc.fixturenames:
        params = [
            pytest.param(stage_of(name), how, told_of(stage_of(name), scene), id=f"{name}-{how}-{scene}")
            for name, how in for_each
            for scene in STORIES
            if scene not in cannot(stage_of(name))
        ]
        metafunc.parametrize(("stage", "how", "told"), params)
    elif "how" in metafunc.fixturenames:
        params = [pytest.param(stage_of(name), how, id=f"{name}-{how}") for name, how in for_each]
        metafunc.parametrize(("stage", "how"), params)
    elif "stage" in metafunc.fixturenames:
        metafunc.parametrize("stage", [pytest.param(stage_of(name), id=name) for name in WANTED])


def test_every_step_is_seen_once(stage, how, told, installed):
    """
    Every step of an agent that nobody wrapped is one event, and the host notices nothing.
    """
    scene, expected = told
    bare = stage.play(scene, None, how)
    monitor = installed()
    played = stage.play(scene, None, how)

    expected = expected[:-1] if played.error is not None and expected[-1] == "model: done" else expected
    assert expected == story(monitor)
    assert (bare.result, bare.requests, bare.streamed) == (played.result, played.requests, played.streamed)
    assert (type(bare.error), str(bare.error)) == (type(played.error), str(played.error))
    assert {} == monitor.status()["losses"]


def test_guidance_reaches_the_model(stage, how, installed):
    """
    In guide mode what was noticed reaches the model of an agent that nobody wrapped.
    """
    monitor = installed("guide")
    played = stage.play(Scene(turns=lookups(4)), None, how)

    assert guidance_of(monitor)[0] in played.requests[3]
    assert (4, "done") == (len(played.made), played.result)


def test_a_fruitless_call_is_blocked(stage, how, installed):
    """
    In enforce mode the fifth identical call is not made, where the framework lets calls be blocked.
    """
    if "deny" in cannot(stage):
        pytest.skip(stage.cannot["deny"])
    monitor = installed("enforce")
    played = stage.play(Scene(turns=lookups(5)), None, how)

    assert (4, "done") == (len(played.made), played.result)
    told = events_of(monitor, runs_of(monitor)[0].run_id, told=True)
    assert 1 == sum(event.action_name == "call_refused" for event in told)


def test_a_run_that_goes_on_and_on_is_stopped(stage, how, installed):
    """
    In enforce mode an agent that does not listen ends with RunStopped.
    """
    monitor = installed("enforce")
    played = stage.play(Scene(turns=lookups(30)), None, how)

    assert isinstance(played.error, RunStopped)
    assert "stopped" == runs_of(monitor)[0].outcome
    assert len(played.requests) <= 12


def test_a_wrapped_agent_is_recorded_once(stage, how, installed):
    """
    An agent that is wrapped as well, by the same monitor, has one run with each step once.
    """
    monitor = installed()
    stage.play(ONE_CALL, monitor, how)

    assert 1 == len(runs_of(monitor))
    assert STORIES["one call"][1] == story(monitor)


def test_nothing_is_left_after_uninstall(stage, how, installed):
    """
    After `uninstall()` an agent is watched no longer, and works as if it had never been.
    """
    bare = stage.play(ONE_CALL, None, how)
    monitor = installed("enforce")
    stage.play(ONE_CALL, None, how)
    steadyhelm.uninstall()
    after = stage.play(ONE_CALL, None, how)

    assert 1 == len(runs_of(monitor))
    assert (bare.result, bare.requests, bare.made) == (after.result, after.requests, after.made)


PROGRAM = """
import importlib.util, sys
sys.path.insert(0, sys.argv[1])
from script import Ask, Scene, Turn
spec = importlib.util.spec_from_file_location("stage", sys.argv[2])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
stage = module.TheStage()
turns = [Turn(calls=(Ask("lookup", {"key": "a"}, f"c{n}"),)) for n in range(6)]
if __name__ == "__main__":
    print(stage.play(Scene(turns=turns), None, stage.ways[0]).requests[3])
"""


@pytest.mark.parametrize("name", WANTED)
def test_a_program_is_watched_without_a_change_of_its_code(name, tmp_path):
    """
    `steadyhelm run` guides a program that knows nothing of Steadyhelm: it is patched as it imports.
    """
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    stage = HERE / "stages" / f"{FILES[name]}.py"
    command = [sys.executable, "-m", "steadyhelm", "run", "--mode", "guide", "--agent", "agent", "--"]
    done = subprocess.run(
        [*command, str(program), str(HERE), str(stage)],
        env={**os.environ, "STEADYHELM_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )

    assert 0 == done.returncode, done.stderr
    assert "same arguments and the same result" in done.stdout, done.stderr

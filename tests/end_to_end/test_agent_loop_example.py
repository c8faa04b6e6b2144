"""The agent loop of the examples, and the small agent that is brought back at each response level."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))

from agent_loop import AgentLoop  # noqa: E402 - the examples are scripts, not a package
from agent_moves import NOT_RECORDED, Answer, Call  # noqa: E402
from steered_scenarios import SCENARIOS, Scenario  # noqa: E402
from stubborn_model import StubbornModel  # noqa: E402
from workshop_tools import ToolError, Workshop  # noqa: E402

from steadyhelm import DriftMonitor  # noqa: E402

AGENT = "example"
CHECK = Call(tool="run_check", says="I run the check.")
DONE = Answer(says="Done.")


class Stage:
    """A scenario played in a folder that stays, with everything that was told about it."""

    def __init__(self, place, scenario, *, mode="enforce", on_moment=lambda stage: None, **options):
        self.folder = place / "shop"
        self.folder.mkdir()
        for name, content in scenario.files.items():
            (self.folder / name).write_text(content)
        settings = place / "steadyhelm.toml"
        settings.write_text(scenario.settings)
        self.monitor = DriftMonitor(AGENT, db_path=place / "db.sqlite", mode=mode, config=settings)
        self.moments = []
        self._on_moment = on_moment
        self.questions = []
        options = {"ask": self._ask, **options} if scenario.answer else options
        tools = Workshop(self.folder).tools
        self._answer = scenario.answer
        self.loop = AgentLoop(
            self.monitor, scenario.model, tools, folder=self.folder, on_moment=self._keep_moment, **options
        )
        self.landing = self.loop.run(scenario.goal, plan=scenario.plan)
        self.monitor.flush()

    def _keep_moment(self, moment):
        self.moments.append(moment)
        self._on_moment(self)

    def _ask(self, question):
        self.questions.append(question)
        return self._answer

    @property
    def answers(self):
        """What was said, and what came of it."""
        incidents = reversed(self.monitor.store.list_incidents(AGENT))
        return [(it.action.value, it.outcome) for incident in incidents for it in incident.interventions]

    @property
    def events(self):
        return self.monitor.store.get_run_traces(AGENT, self.landing.run_id)

    def words(self, what):
        return [moment.words for moment in self.moments if moment.what == what]

    def close(self):
        self.monitor.close()


@pytest.fixture
def staged(tmp_path, monkeypatch):
    """Plays scenarios, each in a place of its own, without anybody's settings."""
    monkeypatch.setenv("STEADYHELM_HOME", str(tmp_path / "home"))
    stages = []

    def play(scenario, **options):
        place = tmp_path / str(len(stages))
        place.mkdir()
        stages.append(Stage(place, scenario, **options))
        return stages[-1]

    yield play
    for stage in stages:
        stage.close()


def scenario(*moves, habit=(DONE,), cure=(DONE,), heeds="nothing", **keys):
    """A scenario made of these first moves and a habit."""
    model = StubbornModel(opening=moves, habit=habit, cure=cure, heeds=heeds, **keys.pop("model", {}))
    return Scenario(name="own", title="", stubborn="", model=model, **keys)


def write(path, content="x", completes=""):
    arguments = {"path": path, "content": content}
    return Call(tool="write_file", arguments=arguments, says=f"I write {path}.", completes=completes)


def look(path):
    return Call(tool="read_file", arguments={"path": path}, says=f"Is there a {path}?")


GUESSES = tuple(look(f"guess.{ending}") for ending in ("bak", "old", "orig", "save", "tmp", "copy", "was"))


class TestEachRung:
    def test_a_reminder_is_enough(self, staged):
        """
        The first word brings the agent back, and is known to have worked.
        """
        stage = staged(SCENARIOS["reminder"])

        assert [("INJECT_REMINDER", "worked")] == stage.answers
        assert "done" == stage.landing.ended
        assert "passed" == Workshop(stage.folder).run_check()

    def test_a_new_plan(self, staged):
        """
        A reminder that is ignored is followed by a new plan, which becomes the goal tree and is worked off.
        """
        stage = staged(SCENARIOS["plan"])

        assert [("INJECT_REMINDER", "ignored"), ("SUMMARIZE_REPLAN", "worked")] == stage.answers
        assert ["25%", "50%", "75%", "100%"] == stage.words("progress")
        assert ["Read tax.py", "Correct the rate"] == [it.description for it in stage.loop.tree.leaves[:2]]

    def test_a_return_to_a_checkpoint(self, staged):
        """
        What the agent wrote over is really there again, and what it had heard since is forgotten.
        """
        stage = staged(SCENARIOS["rollback"])

        assert [("INJECT_REMINDER", "ignored"), ("CHECKPOINT_RESET", "worked")] == stage.answers
        assert SCENARIOS["rollback"].files["prices.csv"] == (stage.folder / "prices.csv").read_text()
        assert ["to turn 3; files put back: prices.csv"] == stage.words("went back")
        assert not any(message["content"].startswith("Before you go on") for message in stage.loop.messages)

    def test_a_question_to_the_user(self, staged):
        """
        A call that brings nothing is refused; when the agent asks for it on and on, the user is asked, once.
        """
        stage = staged(SCENARIOS["user"])
        [question] = stage.questions

        assert "run_check called 5 times in a row" in question
        assert ["run_check()"] * 5 == stage.words("refused")
        assert 5 == sum(event.action_name == "run_check" for event in stage.events)
        assert "done" == stage.landing.ended

    def test_a_budget_that_ends(self, staged):
        """
        Told in time, the agent hands over inside its budget, and what it writes down is true.
        """
        stage = staged(SCENARIOS["budget"])
        done, left = (stage.folder / "HANDOVER.txt").read_text().splitlines()
        written = {path.stem for path in stage.folder.glob("*.csv") if path.read_text().isupper()}

        assert "landed" == stage.landing.ended
        assert written == set(done.removeprefix("Done: ").rstrip(".").split(", "))
        assert "Left: market, castle, station." == left
        assert sum(event.action_type == "tool_call" for event in stage.events) <= 12


class TestTheLoop:
    def test_it_tells_every_event(self, staged):
        """
        The moments told are the run's events, in their order, besides the asides.
        """
        for name in SCENARIOS:
            stage = staged(SCENARIOS[name])
            assert len(stage.events) == sum(moment.what not in NOT_RECORDED for moment in stage.moments)

    def test_it_only_watches_in_mode_observe(self, staged):
        """
        In mode observe nothing is said, refused or taken back: the agent loops to the end of its turns.
        """
        stage = staged(scenario(habit=(CHECK,)), mode="observe", most_turns=15)

        assert ("stopped", "Not done after 15 turns.") == stage.landing[:2]
        assert {"user", "checkpoint", "said", "failed"} == {moment.what for moment in stage.moments}

    def test_it_only_speaks_in_mode_guide(self, staged):
        """
        In mode guide the agent is told all the ladder has to say, and nothing is done.
        """
        stage = staged(scenario(habit=(CHECK,)), mode="guide", most_turns=15)
        said = [moment.decision for moment in stage.moments if moment.what == "answered"]

        assert {"guide"} == {decision.verdict for decision in said}
        assert not stage.words("refused")
        assert not stage.words("went back")

    @pytest.mark.parametrize(
        ("call", "told"),
        [
            (Call(tool="fly"), "There is no tool 'fly'. Tools: list_files, "),
            (Call(tool="read_file", arguments={"way": "up"}), "unexpected keyword argument 'way'"),
            (look("../secret"), "../secret is not in the folder."),
            (look("none.txt"), "No such file: 'none.txt'"),
        ],
    )
    def test_a_tool_that_fails(self, staged, call, told):
        """
        What a tool raises, or that there is none, is told to the model; the run goes on.
        """
        stage = staged(scenario(call))
        [failed] = stage.words("failed")

        assert told in failed
        assert "done" == stage.landing.ended

    def test_nobody_to_ask(self, staged):
        """
        Without a way to ask, a run that needs the user ends with its question.
        """
        stage = staged(scenario(habit=(CHECK,)), checkpoint_every=0)

        assert "asked" == stage.landing.ended
        assert stage.landing.words.endswith("How shall I go on?")

    def test_no_checkpoints(self, staged):
        """
        An agent that cannot go back is not asked to: a certain loop becomes a question instead.
        """
        stage = staged(scenario(*GUESSES), checkpoint_every=0)
        last = stage.moments[-1].decision

        assert ("CHECKPOINT_RESET", "ask", "rollback") == (last.action, last.verdict, last.wanted)
        assert "asked" == stage.landing.ended

    def test_going_back_takes_new_files_away(self, staged):
        """
        A file that was not there at the checkpoint is not there afterwards either.
        """
        stage = staged(scenario(CHECK, look("tax.py"), write("notes.txt"), *GUESSES, heeds="rollback"))

        assert ["to turn 3; files put back: notes.txt"] == stage.words("went back")
        assert not (stage.folder / "notes.txt").exists()

    def test_a_checkpoint_that_is_gone(self, staged):
        """
        Where there is nothing to go back to, the agent is told in words, and Steadyhelm that it was not done.
        """
        stage = staged(
            scenario(CHECK, *GUESSES, heeds="rollback"), on_moment=lambda stage: stage.monitor.keeper.close()
        )
        [incident] = stage.monitor.store.list_incidents(AGENT)

        assert ["there is no checkpoint to return to"] == stage.words("not carried out")
        assert "there is no checkpoint to return to" == incident.interventions[-1].not_carried_out
        assert "done" == stage.landing.ended

    def test_another_model_takes_over(self, staged):
        """
        When answers are ignored, the hook brings in the other model.
        """
        other = StubbornModel(opening=(), habit=(Answer(says="I see it at once."),), cure=(), heeds="nothing")
        stage = staged(scenario(habit=GUESSES, answer="Look again."), other_model=other)

        assert ["another model takes over"] == stage.words("switched")
        assert ("done", "I see it at once.") == stage.landing[:2]

    def test_a_context_that_fills_up(self, staged):
        """
        Half way through the context the hook asks for a checkpoint, which is taken before the next turn.
        """
        settings = "[policy]\ncontext_window = 1000\n"
        looks = [write(f"page{n}.txt", "many words " * 60) for n in range(4)]
        reads = [look(f"page{n}.txt") for n in range(4)]
        stage = staged(scenario(*looks, *reads, settings=settings), checkpoint_every=0)

        assert 1 == len(stage.words("checkpoint"))


class TestTheBudget:
    def test_a_model_that_does_not_land(self, staged):
        """
        An agent that goes on in spite of all is cut off at its limit, and its plan is handed over.
        """
        files = [write(f"{n}.txt", f"part {n}", completes=str(n)) for n in range(1, 20)]
        plan = "\n".join(f"{n}. Write {n}.txt" for n in range(1, 20))
        settings = "[budget]\nsteps = 10\nceiling_factor = 1\n"
        stage = staged(scenario(*files, plan=plan, settings=settings))

        assert "landed" == stage.landing.ended
        assert stage.landing.words.startswith("Cut off.\nGoal: ")
        assert "[x] 10. Write 10.txt\n[ ] 11. Write 11.txt" in stage.landing.words
        assert 10 == len(list(stage.folder.glob("*.txt")))

    def test_one_step_more(self, staged):
        """
        An agent that is nearly done gets its last step by the rules, and uses it.
        """
        files = [write(f"{n}.txt", f"part {n}", completes=str(n)) for n in range(1, 12)]
        plan = "\n".join(f"{n}. Write {n}.txt" for n in range(1, 12))
        settings = "[budget]\nsteps = 10\nceiling_factor = 1\n"
        stage = staged(scenario(*files, plan=plan, settings=settings))

        assert 11 == len(list(stage.folder.glob("*.txt")))
        assert 1.0 == stage.loop.tree.progress


class TestTheTools:
    def test_nothing_outside_the_folder(self, tmp_path):
        """
        Neither a path upwards nor an absolute one leads out.
        """
        for path in ("../x", str(tmp_path / "x"), "a/b"):
            with pytest.raises(ToolError, match="not in the folder"):
                Workshop(tmp_path / "shop").write_file(path, "x")

    def test_a_check_that_hangs(self, tmp_path, monkeypatch):
        """
        A check is given up after a while.
        """
        (tmp_path / "check.py").write_text("import time\ntime.sleep(60)\n")
        monkeypatch.setattr("workshop_tools._CHECK_S", 0.2)

        with pytest.raises(ToolError, match="took more than"):
            Workshop(tmp_path).run_check()

    def test_too_much_to_write(self, tmp_path):
        """
        A file has a largest size.
        """
        with pytest.raises(ToolError, match="too many"):
            Workshop(tmp_path).write_file("x", "x" * 70_000)


def command(*arguments, **environment):
    """The example as a user types it."""
    return subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / "steered_agent.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environment},
    )


class TestTheCommand:
    def test_all_five(self, tmp_path):
        """
        In a pipe it is plain text, the same each time, and leaves nothing behind.
        """
        first, second = (command("--fast", TMPDIR=str(tmp_path)) for _ in range(2))

        assert (0, "") == (first.returncode, first.stderr)
        assert "\x1b" not in first.stdout
        assert first.stdout == second.stdout
        assert list(SCENARIOS) == [line.split()[0] for line in first.stdout.rstrip().splitlines()[-5:]]
        assert [] == list(tmp_path.iterdir())

    def test_one_of_them(self):
        """
        One scenario by its name; settings around it do not count.
        """
        told = command("rollback", STEADYHELM_DISABLED="1", STEADYHELM_MODE="observe")

        assert "went back: to turn 3; files put back: prices.csv" in told.stdout
        assert "✔ worked" in told.stdout

    def test_one_that_is_not_there(self):
        """
        Any other name is an error of usage.
        """
        assert 2 == command("nothing").returncode

import pytest

from steadyhelm import DriftMonitor

AGENT = "shopkeeper"


@pytest.fixture
def watching(tmp_path):
    """Makes monitors that may do everything, with these settings."""
    monitors = []

    def make(settings=""):
        file = tmp_path / "steadyhelm.toml"
        file.write_text(settings)
        monitors.append(DriftMonitor(AGENT, db_path=tmp_path / "db.sqlite", mode="enforce", config=file))
        return monitors[-1]

    yield make
    for monitor in monitors:
        monitor.close()


def answers(monitor):
    monitor.flush()
    incidents = reversed(monitor.store.list_incidents(AGENT))
    return [it for incident in incidents for it in incident.interventions]


def turn(run, name, result, *, failed=False, tokens=0, **args):
    run.record("llm_request", "model", output_data=f"I call {name} with {args}.", token_count=tokens)
    error = result if failed else None
    return run.record("tool_call", name, input_data=args, output_data=result, error=error)


class TestOutcomes:
    def test_walking_the_same_way_again_is_no_success(self, watching):
        """
        After a return to a checkpoint, the way back to where it went wrong does not count as having worked.
        """
        monitor = watching()
        with monitor.run(goal="mend the shop") as run:
            run.record("user_message", "user", input_data={"text": "mend the shop"})
            monitor.checkpoint()
            for _ in range(2):
                for n in range(6):
                    turn(run, "read_file", f"text {n}", path=f"{n}.py")
                for n in range(6):
                    path = f"x{n}.bak"
                    decision = turn(run, "read_file", f"No such file: '{path}'", failed=True, path=path)
                    if decision.verdict == "rollback":
                        monitor.roll_back()
                        break

        assert "worked" not in [it.outcome for it in answers(monitor)]

    def test_refused_calls_are_no_quiet_steps(self, watching):
        """
        An agent that asks for the same call on and on, and is refused, has not been brought back.
        """
        monitor = watching()
        with monitor.run(goal="mend the shop") as run:
            for n in range(12):
                run.record("llm_request", "model", output_data=f"I run the check, attempt {n}.")
                if monitor.before_tool("run_check", {}).verdict == "deny":
                    monitor.call_refused("run_check")
                else:
                    run.record("tool_call", "run_check", input_data={}, output_data="failed", error="failed")

        assert "worked" not in [it.outcome for it in answers(monitor)]

    def test_refusals_are_answers_too(self, watching):
        """
        A refusal that was carried out is kept and judged like any other answer.
        """
        monitor = watching()
        with monitor.run(goal="mend the shop") as run:
            for _ in range(6):
                if monitor.before_tool("run_check", {}).verdict == "deny":
                    monitor.call_refused("run_check")
                else:
                    run.record("tool_call", "run_check", input_data={}, output_data="failed", error="failed")

        assert "deny" in [it.verdict for it in answers(monitor)]

    def test_the_first_word_saves_too(self, watching):
        """
        What a loop costs counts from its first evidence, so that a reminder that ends it has saved something.
        """
        monitor = watching()
        with monitor.run(goal="mend the shop") as run:
            for _ in range(3):
                turn(run, "run_check", "failed", failed=True, tokens=500)
            for n in range(8):
                turn(run, "read_file", f"text {n}", tokens=500, path=f"{n}.py")
        [answer] = answers(monitor)

        assert "worked" == answer.outcome
        assert answer.tokens_saved


def test_a_full_context_wants_a_fresh_checkpoint(watching):
    """
    A checkpoint from the first turn does not hold what a filling context may lose: one is asked for when
    the context is half full, and again when it is a quarter fuller.
    """
    monitor, asked = watching("[policy]\ncontext_window = 1000\n"), []
    monitor.on_response("force_checkpoint", asked.append)
    with monitor.run(goal="read") as run:
        monitor.checkpoint()
        for n in range(10):
            run.record("llm_request", "model", output_data=f"reply {n}", token_count=100 * n)

    assert 2 == len(asked)


def test_a_checkpoint_takes_the_modes_of_its_files(watching):
    """
    What `snapshot_files` gives goes into a checkpoint whole.
    """
    monitor = watching()
    with monitor.run(goal="read"):
        taken = monitor.checkpoint(state_files={"run.sh": b""}, file_modes={"run.sh": 0o755})

    assert {"run.sh": 0o755} == taken.file_modes

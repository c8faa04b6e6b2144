import pytest

from steadyhelm import Budget, DriftMonitor
from steadyhelm.decisions import DriftAction
from steadyhelm.engine.pending_decisions import NOBODY_RECEIVED
from steadyhelm.errors import SettingsError
from steadyhelm.findings import Severity


@pytest.fixture
def database(tmp_path):
    return tmp_path / "steadyhelm.db"


@pytest.fixture
def monitor(database):
    monitor = DriftMonitor("researcher", db_path=database, mode="enforce")
    yield monitor
    monitor.close()


def configured(tmp_path, text, **options):
    """A monitor whose settings file says this."""
    path = tmp_path / "steadyhelm.toml"
    path.write_text(text)
    return DriftMonitor("researcher", db_path=tmp_path / "steadyhelm.db", config=path, **options)


def search(monitor, times=1, query="flights to Oslo", **fields):
    return [
        monitor.record_event(
            "tool_call", "search", input_data={"q": query}, output_data={"text": "nothing"}, **fields
        )
        for _ in range(times)
    ]


def incidents(monitor):
    monitor.flush()
    return monitor.store.list_incidents("researcher")


class TestUnheardGuidance:
    def test_it_is_counted_when_the_run_is_suspended(self, monitor):
        """
        Guidance about a function's call that nobody took is lost with a suspended run, and counted once.
        """
        monitor.start_run("session-1", goal="find a flight")
        search(monitor, 5, can={"proceed", "stop"})
        monitor.suspend("session-1")
        suspended = dict(monitor.health.totals())
        monitor.start_run("session-1")
        monitor.end_run("session-1")

        assert 1 == suspended[NOBODY_RECEIVED] == monitor.health.totals()[NOBODY_RECEIVED]


def work(monitor, steps, run_id):
    """Let a run open one page after the other; return the decisions."""
    with monitor.run(goal="list the ferries to Oslo", run_id=run_id):
        return [
            monitor.record_event(
                "tool_call",
                "open_page",
                input_data={"page": f"{run_id}/{step}"},
                output_data={"text": f"ferry {run_id}-{step} leaves at {step} past nine"},
            )
            for step in range(steps)
        ]


class TestALongerRunThanUsual:
    @pytest.fixture
    def said(self, database):
        """What a run of forty steps hears, by step, of an agent whose runs have always had three; and it."""
        with DriftMonitor("researcher", db_path=database, mode="enforce", calibration_runs=5) as monitor:
            for number in range(12):
                work(monitor, 3, f"short-{number}")
                monitor.flush()
            decisions = work(monitor, 40, "long")
            yield [it for it in decisions if it.guidance], incidents(monitor)

    def test_it_is_reminded_and_nothing_is_taken_back(self, said):
        """
        It may be a longer task: a few words as it grows, and never a new plan, a rollback or a question.
        """
        decisions, _ = said

        assert {"INJECT_REMINDER"} == {it.action for it in decisions}
        assert {"guide"} == {it.verdict for it in decisions}
        assert 1 <= len(decisions) <= 3

    def test_no_outcome_is_claimed(self, said):
        """
        What was spent stays spent: whether the words were followed cannot be seen.
        """
        _, (incident,) = said

        assert "resource" == incident.kind
        assert {"unknown"} == {it.outcome for it in incident.interventions}


class TestWithoutText:
    @pytest.mark.parametrize("payloads", ["none", "hashes"])
    def test_no_word_of_a_plan_a_message_or_a_grant_is_stored(self, database, payloads):
        """
        Guidance quotes plan and user to the model; where no text is kept, the database has none of it.
        """
        monitor = DriftMonitor(
            "researcher",
            db_path=database,
            mode="enforce",
            payloads=payloads,
            budget=Budget(steps=99, daily_steps=99),
        )
        with monitor.run() as run:
            run.plan([{"step": "Call Mrs Smith", "status": "in_progress"}, "Hang up"])
            search(monitor)
            monitor.record_event("user_message", "user", input_data={"text": "She is Mrs Smith still"})
            said = search(monitor, 4)
            monitor.grant("Mrs Smith said yes", steps=5, daily_steps=5)
        (incident,) = incidents(monitor)
        monitor.close()

        assert any("Smith" in decision.guidance for decision in said)
        assert incident.interventions
        files = [path.read_bytes() for path in database.parent.iterdir()]
        assert [False] * len(files) == [b"Smith" in content for content in files]

    @pytest.mark.parametrize("payloads", ["none", "hashes"])
    def test_a_suspended_run_is_stored_without_what_only_guidance_needs(self, database, payloads):
        """
        The saved state has no plan and no guidance, and the host's reasons are nowhere; the loop goes on.
        """
        monitor = DriftMonitor("researcher", db_path=database, mode="guide", payloads=payloads)
        run_id = monitor.start_run()
        monitor.plan([{"step": "Call Mrs Smith", "status": "in_progress"}, "Hang up"])
        said = search(monitor, 3)
        monitor.not_carried_out("Mr Jones is away")
        monitor.suspend(run_id)
        monitor.flush()
        files = [path.read_bytes() for path in database.parent.iterdir()]
        monitor.start_run(run_id=run_id)
        again = search(monitor)
        (incident,) = incidents(monitor)

        assert any("Call Mrs Smith" in decision.guidance for decision in said)
        assert not any(text in content for content in files for text in (b"Mrs Smith", b"Mr Jones"))
        assert again[-1].findings
        assert "not carried out" == incident.interventions[0].not_carried_out


class TestNewGoal:
    def test_guidance_states_it(self, monitor):
        """
        Once the host has reported another goal, guidance states that one.
        """
        with monitor.run(goal="find a flight") as run:
            search(monitor)
            run.new_goal("compare the trains to Bergen")
            search(monitor, 4)
            decision = monitor.before_tool("search", {"q": "flights to Oslo"})

        assert "compare the trains to Bergen" in decision.guidance
        assert "find a flight" not in decision.guidance

    def test_it_is_no_step(self, monitor):
        """
        Reporting it asks for nothing, from inside the run or by its id.
        """
        with monitor.run() as run:
            assert "proceed" == run.new_goal("find a flight").verdict
            assert "proceed" == monitor.new_goal("find a train", run_id=run.run_id).verdict


class TestBeforeTheCall:
    def test_the_fifth_fruitless_call_is_refused(self, monitor):
        """
        What was asked four times in vain is refused the fifth time, with the reason.
        """
        with monitor.run(goal="find a flight"):
            search(monitor, 4)
            decision = monitor.before_tool("search", {"q": "flights to Oslo"})

        assert "deny" == decision.verdict
        assert "find a flight" in decision.guidance

    def test_secrets_in_arguments_make_no_difference(self, monitor):
        """
        A call is recognised by what is kept of it: secrets are taken out before and after alike.
        """
        key = "sk-ant-REDACTED"
        with monitor.run():
            search(monitor, 4, query=f"use {key}")

            assert "deny" == monitor.before_tool("search", {"q": f"use {key}"}).verdict

    def test_it_is_no_event(self, monitor):
        """
        A question leaves no trace in what is kept.
        """
        with monitor.run() as run:
            search(monitor, 2)
            for _ in range(10):
                monitor.before_tool("search", {"q": "flights to Oslo"})
        monitor.flush()

        assert 2 == monitor.store.find_run(run.run_id).events

    def test_a_refusal_is_told(self, monitor):
        """
        A refused call is kept as a change of state, lifts after other work, and is no progress.
        """
        with monitor.run():
            search(monitor, 4)
            monitor.call_refused("search", reason="four times in vain", call_id="c-5")
            stands = monitor.before_tool("search", {"q": "flights to Oslo"}).verdict
            monitor.record_event("tool_call", "open", input_data={"page": 1}, output_data="news")
            lifted = monitor.before_tool("search", {"q": "flights to Oslo"}).verdict

        assert ("deny", "guide") == (stands, lifted)

    def test_outside_a_run_every_call_proceeds(self, monitor):
        """
        Without a run there is nothing to judge by.
        """
        assert "proceed" == monitor.before_tool("search", {"q": "x"}).verdict

    @pytest.mark.parametrize("args", [None, object(), {"at": {1, 2}}, b"\xff", "x" * 100_000, [float("nan")]])
    def test_anything_may_be_asked(self, monitor, args):
        """
        Whatever stands for arguments, the agent gets an answer.
        """
        with monitor.run():
            assert "proceed" == monitor.before_tool("search", args).verdict


class TestInterventions:
    def test_what_was_said_and_whether_it_helped(self, monitor):
        """
        An answer is kept with its evidence, and judged by what came after it.
        """
        with monitor.run(goal="find a flight"):
            search(monitor, 3, token_count=50)
            for page in range(8):
                call = {"input_data": {"page": page}, "output_data": f"page {page}", "token_count": 60}
                monitor.record_event("tool_call", "open", **call)
        (incident,) = incidents(monitor)
        (answer,) = incident.interventions

        assert ("worked", "guide", "remind.loop", 150, 400) == (
            answer.outcome,
            answer.verdict,
            answer.wording,
            answer.tokens_before,
            answer.tokens_saved,
        )

    def test_ignored_answers_grow_stronger(self, monitor):
        """
        Each ignored answer is kept as such and followed by a stronger one.
        """
        with monitor.run():
            search(monitor, 9)
        (incident,) = incidents(monitor)

        assert ["ignored", "ignored", "ignored", "unknown"] == [it.outcome for it in incident.interventions]
        levels = [it.action.level for it in incident.interventions]
        assert levels == sorted(set(levels))

    def test_what_could_not_be_carried_out(self, monitor):
        """
        The caller's word that it could not do it is kept, and the answer is not judged.
        """
        with monitor.run():
            search(monitor, 3)
            monitor.not_carried_out("this framework cannot speak to its model")
            search(monitor, 1)
        (incident,) = incidents(monitor)

        assert "this framework cannot speak to its model" == incident.interventions[0].not_carried_out


class TestCheckpoints:
    def test_the_agent_and_we_go_back_together(self, monitor):
        """
        A rollback gives the conversation as it was, and forgets the steps since then.
        """
        history = ["find a flight"]
        with monitor.run():
            monitor.checkpoint(turn=1, conversation_history=history, state_files={"notes.md": "empty"})
            history.append("searching")
            search(monitor, 2)
            found = monitor.roll_back()
            again = search(monitor)[-1]

        assert (1, ["find a flight"], {"notes.md": "empty"}) == (
            found.turn,
            found.conversation_history,
            found.state_files,
        )
        assert () == again.findings

    def test_one_taken_inside_an_incident_is_never_returned_to(self, monitor):
        """
        A checkpoint from the middle of a loop is not a good state.
        """
        with monitor.run():
            good = monitor.checkpoint(label="good")
            search(monitor, 3)
            monitor.checkpoint(label="bad")
            found = monitor.get_last_checkpoint()

        assert (good.label, "good") == (found.label, found.label)

    def test_nor_one_taken_after_the_loop_began(self, monitor):
        """
        A checkpoint taken between a loop's first call and its discovery belongs to the loop too.
        """
        with monitor.run():
            monitor.checkpoint(label="good")
            search(monitor, 2)
            monitor.checkpoint(label="already looping")
            search(monitor, 1)
            found = monitor.get_last_checkpoint()

        assert "good" == found.label

    def test_a_rollback_is_asked_for_where_it_is_possible(self, monitor):
        """
        In enforce mode a loop that goes on leads back to the checkpoint.
        """
        with monitor.run():
            monitor.checkpoint()
            verdicts = [decision.verdict for decision in search(monitor, 6)]

        assert "rollback" == verdicts[-1]

    def test_without_one_there_is_nothing_to_return_to(self, monitor):
        """
        Where no checkpoint was taken the answer is None, and nothing is forgotten.
        """
        with monitor.run():
            search(monitor, 3)

            assert monitor.roll_back() is None
            assert monitor.get_last_checkpoint() is None

    def test_going_back_brings_no_tokens_back(self, monitor):
        """
        What was spent stays spent, and every event keeps its place.
        """
        with monitor.run() as run:
            monitor.checkpoint()
            search(monitor, 3, token_count=100)
            monitor.roll_back()
            search(monitor, 1, token_count=100)
        monitor.flush()
        kept = monitor.store.find_run(run.run_id)

        assert (400, 6) == (kept.tokens, kept.events)

    def test_in_memory_they_end_with_their_run(self, monitor):
        """
        A run that has ended takes no memory; one that is suspended can still return to its checkpoints.
        """
        with monitor.run():
            monitor.checkpoint(label="of a run that ends")
        suspended = monitor.start_run()
        monitor.checkpoint(label="before lunch")
        monitor.suspend(suspended)
        kept = monitor.keeper._runs

        assert 1 == len(kept)
        monitor.start_run(suspended)
        assert monitor.flush(60).complete
        assert "before lunch" == monitor.get_last_checkpoint(suspended).label

    def test_in_a_folder_they_outlive_the_process(self, tmp_path):
        """
        With a folder set, another monitor finds the checkpoint of a run that was put aside.
        """
        settings = f'[checkpoints]\nfolder = "{tmp_path / "kept"}"\n'
        first = configured(tmp_path, settings)
        first.start_run("session-1")
        assert first.flush(60).complete  # it is known now that there is no saved state
        first.checkpoint(label="before lunch")
        first.close(60)
        second = configured(tmp_path, settings)
        second.start_run("session-1")
        assert second.flush(60).complete

        assert "before lunch" == second.get_last_checkpoint().label
        second.close()


class TestBudgets:
    BUDGET = "[budget]\nsteps = 10\n"

    def test_the_settings_set_it(self, tmp_path):
        """
        A budget in the settings holds for every run.
        """
        monitor = configured(tmp_path, self.BUDGET)
        with monitor.run():
            search(monitor, 2)

            assert (8, 2) == (monitor.budget().steps_remaining, monitor.budget().steps_used)
        monitor.close()

    def test_without_one_there_is_none(self, monitor):
        """
        No budget was set: there is nothing to ask about, and nothing to extend.
        """
        with monitor.run():
            assert monitor.budget() is None
            assert not monitor.request_extension("please", steps=1).approved

    def test_used_up_it_asks_the_user(self, tmp_path):
        """
        The last step of the budget leads to the user; the next call is not made.
        """
        monitor = configured(tmp_path, self.BUDGET, mode="enforce")
        with monitor.run():
            decisions = [search(monitor, query=f"query {n}")[0] for n in range(10)]
            following = monitor.before_tool("search", {"q": "query 11"})
        monitor.close()

        assert (DriftAction.ASK_USER, "ask", "ask") == (
            decisions[-1].action,
            decisions[-1].verdict,
            following.verdict,
        )

    def test_a_run_inside_a_run_spends_its_parents(self, tmp_path):
        """
        A child is given a part of what is left, and gives back what it does not use.
        """
        monitor = configured(tmp_path, self.BUDGET)
        with monitor.run() as parent:
            with monitor.run():
                during = monitor.budget().steps_limit, monitor.budget(parent.run_id).steps_remaining
                search(monitor, 1)
            after = monitor.budget(parent.run_id)
        monitor.close()

        assert ((5, 5), (1, 9)) == (during, (after.steps_used, after.steps_remaining))

    def test_declared_progress_earns_an_extension(self, tmp_path):
        """
        A run that is nearly done is granted a little more, once.
        """
        monitor = configured(tmp_path, self.BUDGET)
        with monitor.run():
            for n in range(10):
                search(monitor, query=f"query {n}")
            monitor.progress(0.95)
            answers = [monitor.request_extension("one test left", steps=1).approved for _ in range(2)]
        monitor.close()

        assert [True, False] == answers

    def test_the_user_may_give_more(self, tmp_path):
        """
        A user who was asked may grant more, and the run goes on.
        """
        monitor = configured(tmp_path, self.BUDGET, mode="enforce")
        with monitor.run():
            for n in range(10):
                search(monitor, query=f"query {n}")
            granted = monitor.grant("it is worth it", steps=20)
            following = monitor.before_tool("open", {"page": 1})
        monitor.close()

        assert (True, "proceed") == (granted.approved, following.verdict)

    def test_a_task_type_may_bring_its_own(self, tmp_path):
        """
        With profiles on, a run of a known type is given what such tasks took, and a fifth more.
        """
        monitor = configured(tmp_path, "[budget]\nfrom_profiles = true\n")
        for _ in range(5):
            with monitor.run(task_type="lookup"):
                for n in range(10):
                    monitor.record_event("tool_call", "open", input_data={"page": n}, output_data=f"page {n}")
        monitor.flush()
        with monitor.run(task_type="lookup"):
            known = monitor.budget()
        with monitor.run(task_type="other"):
            unknown = monitor.budget()
        monitor.close()

        assert (12, None) == (known.steps_limit, unknown)


class TestPrices:
    def test_what_a_call_cost_is_looked_up(self, tmp_path):
        """
        With prices on, a model call that names its model and tokens has a cost, and spends the budget.
        """
        monitor = configured(tmp_path, "[budget]\nprices = true\ncost_usd = 1.0\n")
        with monitor.run():
            used = {"model": "gpt-4o", "input_tokens": 1000, "output_tokens": 1000}
            monitor.record_event("llm_request", "model", output_data="fine", metadata=used)
            spent = monitor.budget().cost_used_usd
        monitor.close()

        assert 0.001 < spent < 0.1

    @pytest.mark.parametrize(
        "metadata", [{"model": 7}, {"model": "gpt-4o"}, {"model": "gpt-4o", "input_tokens": "x"}]
    )
    def test_what_makes_no_sense_costs_nothing(self, tmp_path, metadata):
        """
        A model nobody knows, or tokens that are no number, leave the cost unknown.
        """
        monitor = configured(tmp_path, "[budget]\nprices = true\ncost_usd = 1.0\n")
        with monitor.run():
            monitor.record_event("llm_request", "model", output_data="fine", metadata=metadata)
            spent = monitor.budget().cost_used_usd
        monitor.close()

        assert 0 == spent


class TestHooks:
    def test_another_model_is_asked_for(self, monitor):
        """
        When answers fail up to a return, whoever can switch models hears of it.
        """
        heard = []
        monitor.on_response("switch_model", heard.append)
        with monitor.run():
            search(monitor, 8)

        assert [DriftAction.CHECKPOINT_RESET] == [decision.action for decision in heard][:1]

    def test_a_hook_that_fails_harms_nobody(self, monitor, monkeypatch):
        """
        What a callback raises is counted, and the agent goes on.
        """
        monkeypatch.setattr(type(monitor.health), "loud", False)
        monitor.on_response("switch_model", lambda decision: 1 / 0)
        with monitor.run():
            search(monitor, 8)

        assert any("switch_model callback" in reason for reason in monitor.health.totals())

    def test_an_unknown_hook_is_refused(self, monitor):
        """
        A hook we do not have is named, with those we have.
        """
        with pytest.raises(SettingsError, match=r"no hook 'dance'\. Hooks: force_checkpoint, switch_model"):
            monitor.on_response("dance", print)


class TestSettings:
    def test_words_and_thresholds(self, tmp_path):
        """
        Thresholds and words of your own come from the settings.
        """
        monitor = configured(
            tmp_path,
            '[policy]\nremind_threshold = 0.4\nweights = {stuck_time = 0}\n[guidance]\nremind = "Hold on."\n',
            mode="guide",
        )
        with monitor.run():
            decision = search(monitor, 3)[-1]
        monitor.close()

        assert decision.guidance.startswith("Hold on.")
        assert Severity.MED is decision.findings[0].severity

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("[policy]\nremind_threshold = 0.8\n", "must not fall"),
            ("[policy]\nweights = {mood = 1.0}\n", "has no 'mood'"),
            ("[policy]\nweights = 3\n", "policy.weights must be a table of numbers"),
            ("[budget]\nsteps = -1\n", "budget.steps must be a whole number from 0"),
            ("[budget]\nlanding_reserve = 2\n", "budget.landing_reserve must be"),
        ],
    )
    def test_nonsense_is_refused_at_the_door(self, tmp_path, text, message):
        """
        A policy or budget that makes no sense is refused before anything runs.
        """
        with pytest.raises(SettingsError, match=message):
            configured(tmp_path, text)

"""The samples of the anti-drift design's steering parts, as their users would type them.

Complete samples stand as they are, apart from where they import from; fragments stand in a small harness.
Where a claimed output contradicts its own formula, the formula's is expected.
"""

import logging

import pytest

from steadyhelm import (
    AdaptiveBudget,
    BudgetDecision,
    BudgetState,
    ContextQuality,
    DriftAction,
    DriftAssessment,
    DriftEngine,
    DriftMonitor,
    DriftSeverity,
    DriftSignals,
    GoalDNA,
    GoalReminderInjector,
    GoalTree,
    MultiResolutionLoopDetector,
    TraceEvent,
)

GOAL = "Build a REST API for user management"


def signals_of(**keys):
    """Five known signals, all fine but those given."""
    fine = dict.fromkeys(DriftSignals.__struct_fields__[:5], 0.0)
    return DriftSignals(**{**fine, **keys})


class TestScoringDrift:
    def test_the_first_sample(self, capsys):
        """
        Its five signals score .295 by its own formula, not the 52% it prints: nothing to do yet.
        """
        engine = DriftEngine(
            nudge_threshold=0.3,
            replan_threshold=0.5,
            checkpoint_threshold=0.7,
            stop_threshold=0.9,
        )
        signals = DriftSignals(
            goal_dna_drift=0.45,
            loop_risk=0.20,
            budget_velocity=-0.30,
            quality_degradation=0.15,
            stuck_time=0.10,
        )
        drift_report = engine.score_drift(signals)
        print(f"Overall drift: {drift_report.overall_score:.2%}")
        print(f"Response level: {drift_report.response_level}")
        print(f"Recommended action: {drift_report.recommendation}")

        assert isinstance(drift_report, DriftAssessment)
        assert [
            "Overall drift: 29.50%",
            "Response level: CONTINUE",
            "Recommended action: Go on.",
        ] == capsys.readouterr().out.splitlines()

    def test_signals_that_do_score_52(self):
        """
        Where the score is .52, the level is the one the sample claims, by the name its table has for it.
        """
        report = DriftEngine().score_drift(signals_of(goal_dna_drift=1.0, loop_risk=0.68))

        assert (0.52, "SUMMARIZE_REPLAN") == (report.overall_score, report.response_level)

    def test_the_formula(self):
        """
        The contributions are the formula's terms, and add up to the score.
        """
        signals = DriftSignals(
            goal_dna_drift=0.8, loop_risk=0.4, budget_velocity=-0.5, quality_degradation=0.6, stuck_time=1.0
        )
        report = DriftEngine().score_drift(signals)

        assert {
            "goal_dna_drift": 0.35 * 0.8,
            "loop_risk": 0.25 * 0.4,
            "budget_velocity": 0.20 * 0.5,
            "quality_degradation": 0.15 * 0.6,
            "stuck_time": 0.05 * 1.0,
        } == pytest.approx(report.contributions)
        assert pytest.approx(sum(report.contributions.values())) == report.overall_score

    def test_getting_on_well_is_no_drift(self):
        """
        There the size of the velocity counts; here a run that gets on faster than it spends scores nothing.
        """
        assert 0.0 == DriftEngine().score_drift(signals_of(budget_velocity=0.9)).overall_score

    @pytest.mark.parametrize(
        ("score", "level", "severity"),
        [
            (0.0, "CONTINUE", DriftSeverity.NONE),
            (0.29, "CONTINUE", DriftSeverity.LOW),
            (0.3, "INJECT_REMINDER", DriftSeverity.MODERATE),
            (0.49, "INJECT_REMINDER", DriftSeverity.MODERATE),
            (0.5, "SUMMARIZE_REPLAN", DriftSeverity.HIGH),
            (0.7, "CHECKPOINT_RESET", DriftSeverity.CRITICAL),
            (0.9, "ASK_USER", DriftSeverity.CRITICAL),
            (1.0, "ASK_USER", DriftSeverity.CRITICAL),
        ],
    )
    def test_the_levels(self, score, level, severity):
        """
        Each range begins with the score its table names for it.
        """
        engine = DriftEngine(signal_weights={"loop_risk": 0.0})
        report = engine.score_drift(
            DriftSignals(goal_dna_drift=score, loop_risk=0.0, budget_velocity=-score, stuck_time=score)
        )

        assert (level, severity) == (report.response_level, report.severity)

    def test_the_configuration(self):
        """
        The configuration sample builds the engine it says.
        """
        drift_engine = DriftEngine(
            nudge_threshold=0.3,
            replan_threshold=0.5,
            checkpoint_threshold=0.7,
            stop_threshold=0.9,
            signal_weights={
                "goal_dna_drift": 0.35,
                "loop_risk": 0.25,
                "budget_velocity": 0.20,
                "quality_degradation": 0.15,
                "stuck_time": 0.05,
            },
        )

        assert DriftEngine().signal_weights == drift_engine.signal_weights

    def test_the_trend(self, caplog):
        """
        The recorded scores rise by .083 a turn, and faster and faster: the sample warns.
        """
        logger = logging.getLogger("sample")
        engine = DriftEngine()
        engine.record_drift(turn=10, drift_score=0.25)
        engine.record_drift(turn=11, drift_score=0.30)
        engine.record_drift(turn=12, drift_score=0.38)
        engine.record_drift(turn=13, drift_score=0.50)
        trend = engine.get_drift_trend(window=4)
        if trend.is_accelerating and trend.velocity > 0.05:
            logger.warning(f"Drift accelerating at {trend.velocity:.3f} per turn")  # noqa: G004 - as there

        assert ["Drift accelerating at 0.083 per turn"] == caplog.messages

    def test_the_trend_escalates_by_itself(self):
        """
        Where the sample leaves the escalation to the reader, the next assessment is one level higher.
        """
        engine = DriftEngine()
        for turn, score in enumerate((0.25, 0.30, 0.38, 0.50), start=10):
            engine.record_drift(turn=turn, drift_score=score)
        report = engine.score_drift(signals_of(goal_dna_drift=1.0, quality_degradation=1.0))

        assert ("CHECKPOINT_RESET", 0.5) == (report.response_level, report.overall_score)


class TestTheFourResponses:
    def test_inject_reminder(self):
        """
        The full reminder goes before the user's message, with the drift it warns of.
        """
        goal_reminder = GoalReminderInjector(GOAL)
        drift_report = DriftEngine().score_drift(signals_of(goal_dna_drift=1.0))
        turn, user_message, prompt = 40, "Go on.", ""
        goal_reminder.note_drift(drift_report.overall_score)
        if drift_report.recommended_action == DriftAction.INJECT_REMINDER:
            reminder = goal_reminder.get_reminder(turn, force_full=True)
            prompt = f"{reminder}\n\n{user_message}"

        assert prompt.startswith(f"Reminder of the goal.\nGoal: {GOAL}\n")
        assert "Warning: you are drifting (35 %)" in prompt
        assert prompt.endswith("\n\nGo on.")

    def test_summarize_replan(self):
        """
        The new plan becomes the goal tree; what was done under the old one stays done.
        """
        goal_tree = GoalTree(GOAL)
        goal_tree.rebuild_from_plan("1. Write the schema\n2. Write the endpoints")
        goal_tree.complete("1")
        drift_report = DriftEngine().score_drift(signals_of(goal_dna_drift=1.0, loop_risk=0.6))
        if drift_report.recommended_action == DriftAction.SUMMARIZE_REPLAN:
            replan_prompt = f"""
            Original goal: {GOAL}
            Drift score: {drift_report.overall_score:.1%}
            """
            assert "50.0%" in replan_prompt
            new_plan = "1. Write the schema\n2. Test the schema\n3. Write the endpoints"
            goal_tree.rebuild_from_plan(new_plan)

        assert [True, False, False] == [leaf.status.is_done for leaf in goal_tree.leaves]

    def test_checkpoint_reset(self, tmp_path, caplog):
        """
        The monitor is the pipeline that has the last checkpoint; what it holds is what the sample restores.
        """
        logger = logging.getLogger("sample")
        cognitive_pipeline = DriftMonitor("agent", db_path=tmp_path / "db.sqlite")
        drift_report = DriftEngine().score_drift(signals_of(loop_risk=0.95))
        with cognitive_pipeline.run(goal=GOAL):
            cognitive_pipeline.checkpoint(
                turn=7,
                conversation_history=[{"role": "user", "content": GOAL}],
                goal_tree=GoalTree(GOAL).to_dict(),
                state_files={"api.py": b"app = 1\n"},
            )
            if drift_report.recommended_action == DriftAction.CHECKPOINT_RESET:
                checkpoint = cognitive_pipeline.get_last_checkpoint()
                score = drift_report.overall_score
                logger.warning(f"Drift {score:.1%} - rolling back to turn {checkpoint.turn}")  # noqa: G004
                conversation_history = checkpoint.conversation_history
                goal_tree = GoalTree.from_dict(checkpoint.goal_tree)
                state_files = checkpoint.state_files
        cognitive_pipeline.close()

        assert ["Drift 23.8% - rolling back to turn 7"] == caplog.messages
        assert [{"role": "user", "content": GOAL}] == conversation_history
        assert GOAL == goal_tree.goal
        assert {"api.py": b"app = 1\n"} == state_files

    def test_ask_user(self):
        """
        The question to the user names the goal, the score and what it is made of.
        """
        signals = signals_of(goal_dna_drift=1.0, loop_risk=1.0, budget_velocity=-1.0, quality_degradation=1.0)
        drift_report = DriftEngine().score_drift(signals)
        response = ""
        if drift_report.recommended_action == DriftAction.ASK_USER:
            response = f"""
            Original goal: {GOAL}
            Drift score: {drift_report.overall_score:.1%}

            Contributing factors:
            - Goal DNA drift: {signals.goal_dna_drift:.1%}
            - Loop risk: {signals.loop_risk:.1%}
            - Budget velocity: {signals.budget_velocity:.1%}
            """

        assert "Drift score: 95.0%" in response
        assert "Budget velocity: -100.0%" in response


class TestTheBudget:
    def test_the_first_sample(self, capsys):
        """
        Two steps print the design's own lines, the percentage with the decimal its format asks for.
        """
        budget = AdaptiveBudget(
            initial_steps=50,
            initial_tokens=100000,
            min_velocity=0.01,
            velocity_window=10,
            expansion_factor=1.5,
            contraction_factor=0.7,
        )
        budget.record_step(
            turn=1,
            tokens_used=1500,
            progress_delta=0.05,
        )
        budget.record_step(
            turn=2,
            tokens_used=2000,
            progress_delta=0.04,
        )
        status = budget.get_status()
        print(f"Steps remaining: {status.steps_remaining}")
        print(f"Tokens remaining: {status.tokens_remaining}")
        print(f"Progress velocity: {status.velocity:.3f} per step")
        print(f"Budget adjustment: {status.adjustment_factor:.1%}")

        assert isinstance(status, BudgetState)
        assert [
            "Steps remaining: 48",
            "Tokens remaining: 96500",
            "Progress velocity: 0.045 per step",
            "Budget adjustment: 150.0%",
        ] == capsys.readouterr().out.splitlines()

    def test_good_poor_and_stuck(self):
        """
        In whole windows the claimed chain holds: 50 steps become 75, then 52, then 26.
        """
        budget = AdaptiveBudget(velocity_window=5)
        limits = []
        for first_turn, delta in ((10, 0.08), (20, 0.005), (30, 0.0)):
            for i in range(5):
                budget.record_step(turn=first_turn + i, tokens_used=1000, progress_delta=delta)
            limits.append(budget.get_status().steps_limit)

        assert [75, 52, 26] == limits

    def test_historical_profiling(self, capsys):
        """
        Two endpoints recommend 20 steps and 33,000 tokens: the mean and a fifth, rounded up.
        """
        budget = AdaptiveBudget()
        budget.record_task_completion(
            task_type="implement_api_endpoint",
            steps_used=15,
            tokens_used=25000,
            total_progress=1.0,
        )
        budget.record_task_completion(
            task_type="implement_api_endpoint",
            steps_used=18,
            tokens_used=30000,
            total_progress=1.0,
        )
        recommended = budget.get_task_budget_recommendation(task_type="implement_api_endpoint")
        print(f"Recommended steps: {recommended.steps}")
        print(f"Recommended tokens: {recommended.tokens}")

        assert [
            "Recommended steps: 20",
            "Recommended tokens: 33000",
        ] == capsys.readouterr().out.splitlines()

    @pytest.mark.parametrize(("done", "approved"), [(0.95, True), (0.5, False)])
    def test_emergency_extension(self, done, approved):
        """
        Past nine tenths the five steps are granted, half way they are not; the decision is kept either way.
        """
        budget = AdaptiveBudget(initial_steps=50, initial_tokens=100000, ceiling_factor=1)
        for turn in range(1, 51):
            budget.record_step(turn=turn, tokens_used=1000, progress_delta=done / 50)
        assert budget.is_exhausted()
        emergency_extension = budget.request_emergency_extension(
            justification="Task is 90% complete, need 5 more steps to finish",
            requested_steps=5,
            requested_tokens=10000,
        )

        assert isinstance(emergency_extension, BudgetDecision)
        assert approved == emergency_extension.approved
        assert approved == (not budget.is_exhausted())
        assert emergency_extension == budget.decisions[-1]

    def test_the_configuration(self):
        """
        The configuration sample's keywords are all taken.
        """
        budget = AdaptiveBudget(
            initial_steps=50,
            initial_tokens=100000,
            min_velocity=0.01,
            velocity_window=10,
            expansion_factor=1.5,
            contraction_factor=0.7,
            enable_historical_profiling=True,
            enable_emergency_extensions=True,
        )

        assert AdaptiveBudget().rules == budget.rules


class Result:
    """What a step gives: words, and the tokens it took."""

    def __init__(self, output, tokens):
        self.output, self.tokens = output, tokens


class Session:
    """The integration sample: its seven parts in its order, around an agent whose steps are given."""

    def __init__(self, *actions, budget=None, engine=None):
        self.loop_detector = MultiResolutionLoopDetector()
        self.drift_engine = engine or DriftEngine()
        self.adaptive_budget = budget or AdaptiveBudget()
        self.goal_dna = GoalDNA(GOAL)
        self.goal_tree = GoalTree(GOAL)
        self.goal_tree.rebuild_from_plan("1. Write the user schema\n2. Write the user endpoints")
        self.quality_engine = ContextQuality(GOAL)
        self.reminders = GoalReminderInjector(GOAL, self.goal_tree)
        self.actions, self.turn, self.answered = list(actions), 0, []

    def run_agentic(self):
        """One action after another, until one of the parts ends it."""
        for action, output in self.actions:
            self.turn += 1
            ended = self.steered(action)
            if ended:
                return ended
            result = self.execute_step(action, output)
            progress_delta = self.goal_tree.calculate_progress_delta()
            self.adaptive_budget.record_step(
                turn=self.turn,
                tokens_used=result.tokens,
                progress_delta=progress_delta,
            )
            self.loop_detector.record_step(
                turn=self.turn,
                action=action,
                state=self.get_state_snapshot(),
                result=result.output,
            )
        return "done"

    def steered(self, current_action):
        """The first four parts: loops, score, response, budget."""
        loop_risk = 0.0
        loop = self.loop_detector.detect_loop()
        if loop.detected:
            if loop.confidence > 0.9:
                return f"Loop detected: {loop.suggestion}"
            loop_risk = loop.confidence
        drift_signals = DriftSignals(
            goal_dna_drift=self.goal_dna.calculate_drift(current_action),
            loop_risk=loop_risk,
            budget_velocity=self.adaptive_budget.get_velocity(),
            quality_degradation=self.quality_engine.get_degradation(),
            stuck_time=self.goal_tree.get_stuck_score(),
        )
        drift_report = self.drift_engine.score_drift(drift_signals)
        if drift_report.recommended_action == DriftAction.ASK_USER:
            return f"Drift too high: {drift_report.explanation}"
        if drift_report.recommended_action == DriftAction.CHECKPOINT_RESET:
            self.restore_checkpoint()
        elif drift_report.recommended_action == DriftAction.SUMMARIZE_REPLAN:
            self.regenerate_plan()
        elif drift_report.recommended_action == DriftAction.INJECT_REMINDER:
            self.inject_goal_reminder(force_full=True)
        if self.adaptive_budget.is_exhausted():
            return "Budget exhausted - task incomplete"
        return None

    def restore_checkpoint(self):
        self.answered.append("restored")

    def regenerate_plan(self):
        self.goal_tree.rebuild_from_plan("1. Write the user schema\n2. Test it")
        self.answered.append(self.goal_tree.leaves[1].description)

    def inject_goal_reminder(self, force_full):
        self.answered.append(self.reminders.get_reminder(self.turn, force_full=force_full))

    def execute_step(self, action, output):
        done = {"Create the user schema": "1", "Create the user endpoints": "2"}.get(action)
        if done:
            self.goal_tree.complete(done)
        event = TraceEvent(
            agent_id="a", run_id="r", action_type="tool_call", action_name=action, output_data=output
        )
        self.quality_engine.observe(event)
        return Result(output, 1000)

    def get_state_snapshot(self):
        return {"progress": self.goal_tree.progress}


class TestIntegrationWithTheAgentLoop:
    def test_work_that_goes_well(self):
        """
        Steps towards the goal run to the end without a word.
        """
        session = Session(
            ("Read the user model", "class User"),
            ("Create the user schema", "users.sql written"),
            ("Create the user endpoints", "12 routes"),
        )

        assert ("done", []) == (session.run_agentic(), session.answered)
        assert 1.0 == session.goal_tree.progress

    def test_a_loop_breaks_at_once(self):
        """
        The same step with the same result ends the run before its third time.
        """
        session = Session(*[("Read the user model", "no such file")] * 9)

        assert session.run_agentic().startswith('Loop detected: The same action "Read the user model"')
        assert 3 == session.turn

    def test_leaving_the_goal(self):
        """
        Steps far from the goal that lead nowhere are not certain enough to break: the reminder is injected.
        """
        session = Session(*[(f"Read quantum papers of {year}", "Failed") for year in range(2019, 2025)])

        assert "done" == session.run_agentic()
        assert session.answered[0].startswith(f"Reminder of the goal.\nGoal: {GOAL}")

    @pytest.mark.parametrize(
        ("thresholds", "answer"),
        [((0.1, 0.2, 0.9, 0.9), "Test it"), ((0.1, 0.1, 0.2, 0.9), "restored"), ((0.1, 0.1, 0.1, 0.2), None)],
    )
    def test_the_stronger_responses(self, thresholds, answer):
        """
        With lower thresholds the same step far from the goal leads to a new plan, to a return, to the user.
        """
        session = Session(("Read quantum computing papers", "40 papers"), engine=DriftEngine(*thresholds))
        ended = session.run_agentic()

        assert ([answer] if answer else []) == session.answered
        assert answer or ended.startswith("Drift too high: Drift 0.2")

    def test_a_budget_that_ends(self):
        """
        When the budget is used up, the run ends with the sample's words.
        """
        actions = [(f"Read user model {n}", f"part {n}: {'x' * n}") for n in range(9)]
        session = Session(*actions, budget=AdaptiveBudget(initial_steps=4))

        assert "Budget exhausted - task incomplete" == session.run_agentic()
        assert 4 == session.adaptive_budget.get_status().steps_used

    def test_what_is_unknown_stays_unknown(self):
        """
        Before the first step velocity and quality are None, and the score says so instead of guessing.
        """
        session = Session()
        signals = DriftSignals(
            goal_dna_drift=0.5,
            loop_risk=0.0,
            budget_velocity=session.adaptive_budget.get_velocity(),
            quality_degradation=session.quality_engine.get_degradation(),
            stuck_time=session.goal_tree.get_stuck_score(),
        )
        report = session.drift_engine.score_drift(signals)

        assert {"budget_velocity", "quality_degradation"} == set(report.unknown)
        assert pytest.approx(0.35 * 0.5 / 0.65) == report.overall_score

    def test_velocity_is_no_spending(self):
        """
        The sample's `get_velocity` is progress per step, never below 0; `get_pace` is what the signal means.
        """
        budget = AdaptiveBudget(initial_steps=10)
        for turn in range(1, 6):
            budget.record_step(turn=turn, tokens_used=0, progress_delta=0.02)

        assert pytest.approx(0.02) == budget.get_velocity()
        assert pytest.approx(0.1 - 0.5) == budget.get_pace()

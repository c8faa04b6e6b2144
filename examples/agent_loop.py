"""An agent's loop that can be steered: it takes a model and tools, and carries out Steadyhelm's decisions.

A turn follows the order of the anti-drift loop; one decision of Steadyhelm covers steps one, two and four.

1. Would this call be part of a loop?    `monitor.before_tool(...)`
2. How far has the run drifted?          the same decision's `assessment`
3. Carry the decision out, by its verdict. `_carry_out`
4. Is there any budget left?             the same decision's `budget`
5. Take the step.                        `_call`
6. Record the progress.                  `monitor.progress(...)`
7. Record the step.                      `monitor.record_event(...)`, whose decision is carried out in turn
"""

# ruff: noqa: INP001 - an example is a script, not a package
from collections.abc import Callable, Mapping
from pathlib import Path

from agent_files import WorkingFiles
from agent_moves import Answer, Call, Ended, Message, Model, MomentKind, RunMoment, RunResult

from steadyhelm import Decision, DriftAction, GoalReminderInjector, GoalTree, Monitor


class AgentLoop:
    """Runs a model with tools until it is done, and carries out what Steadyhelm decides.

    Args:
        monitor: Watches and steers; in mode `observe` it only watches.
        model: Returns the next move.
        tools: Functions by name; each takes the call's arguments, and returns a text or raises.
        folder: The files the agent works on; they are part of every checkpoint.
        ask: Asks the user and returns the answer; without it a run ends with its question.
        other_model: Replaces the first when it ignores guidance.
        checkpoint_every: Turns between two checkpoints; 0 takes one only when Steadyhelm asks for it.
        most_turns: Turns after which a run is stopped, whatever happens.
        on_moment: Called with everything that happens in a run.
    """

    def __init__(
        self,
        monitor: Monitor,
        model: Model,
        tools: Mapping[str, Callable[..., str]],
        *,
        folder: Path | None = None,
        ask: Callable[[str], str] | None = None,
        other_model: Model | None = None,
        checkpoint_every: int = 3,
        most_turns: int = 60,
        on_moment: Callable[[RunMoment], object] = lambda _: None,
    ) -> None:
        self.monitor, self.model, self.tools = monitor, model, tools
        self.files, self.ask, self.other_model = WorkingFiles(folder), ask, other_model
        self.checkpoint_every, self.most_turns, self.on_moment = checkpoint_every, most_turns, on_moment
        monitor.on_response("force_checkpoint", self._request_checkpoint)
        monitor.on_response("switch_model", self._switch_model)
        self._begin("", "")

    def run(self, goal: str, *, plan: str = "", run_id: str | None = None) -> RunResult:
        """Work on a goal until it is reached or the run has to end."""
        self._begin(goal, plan)
        with self.monitor.run(goal=goal, run_id=run_id) as run:
            self._add_user_message(goal)
            while self._ended is None and self.turn < self.most_turns:
                self._take_turn()
        ended, words = self._ended or ("stopped", f"Not done after {self.turn} turns.")
        return RunResult(ended, words, run.run_id, self.turn)

    def _begin(self, goal: str, plan: str) -> None:
        self.turn = 0
        self.messages: list[Message] = []
        self.tree = GoalTree(goal)
        self.tree.rebuild_from_plan(plan)
        self.reminders = GoalReminderInjector(goal, self.tree)
        self._is_checkpoint_due, self._is_landing = self.checkpoint_every > 0, False
        self._ended: tuple[Ended, str] | None = None

    # --- one turn --------------------------------------------------------------------------------

    def _take_turn(self) -> None:
        self.turn += 1
        if self._is_checkpoint_due or (self.checkpoint_every and self.turn % self.checkpoint_every == 0):
            self._take_checkpoint()
        move, decision = self._ask_model()
        if not self._carry_out(decision):
            return
        if isinstance(move, Answer):
            self._ended = ("landed" if self._is_landing else "done", move.says)
            return
        foreseen = self.monitor.before_tool(move.tool, move.arguments)
        if self._is_landing or foreseen.verdict in {"proceed", "guide"}:
            # Guidance about a call that is made comes with its result: only then is it sure to apply.
            self._carry_out(self._call(move))
        else:
            self._refuse(move, foreseen)

    def _ask_model(self) -> tuple[Call | Answer, Decision]:
        """Return the model's next move, and the decision about its reply."""
        reminder = {"role": "system", "content": self.reminders.get_reminder(self.turn)}
        move = self.model.think([reminder, *self.messages])
        self._add_message("said", "assistant", move.says)
        decision = self.monitor.record_event(
            "llm_request", "model", output_data=move.says, token_count=move.tokens
        )
        return move, decision

    def _call(self, call: Call) -> Decision:
        """Call the tool, record the step, and return the decision."""
        try:
            result, error = self._find_tool(call.tool)(**call.arguments), None
        except Exception as exc:  # noqa: BLE001 - a tool may raise anything; the model gets the error
            result = error = str(exc) or type(exc).__name__
        if error is None and call.completes in self.tree.nodes:
            self.tree.complete(call.completes)
        if self.tree.calculate_progress_delta():
            self.monitor.progress(self.tree.progress, stuck=self.tree.get_stuck_score())
            self.on_moment(RunMoment("progress", f"{self.tree.progress:.0%}"))
        self.messages.append({"role": "tool", "name": call.tool, "content": result})
        self.on_moment(RunMoment("failed" if error else "called", f"{call} → {result}"))
        return self.monitor.record_event(
            "tool_call", call.tool, input_data=dict(call.arguments), output_data=result, error=error
        )

    def _find_tool(self, name: str) -> Callable[..., str]:
        if name not in self.tools:
            raise LookupError(f"There is no tool {name!r}. Tools: {', '.join(self.tools)}.")
        return self.tools[name]

    # --- the verdicts -----------------------------------------------------------------------------

    def _carry_out(self, decision: Decision) -> bool:
        """Carry out a decision, and return whether the turn continues."""
        if decision.verdict == "proceed":
            return True
        self.on_moment(RunMoment("answered", decision=decision))
        self._note_attempts(decision)
        if decision.budget is not None and decision.budget.exhausted:
            return self._end_for_budget(decision)
        if self._is_landing:
            # The reserve is for finishing in order: only its end stops the agent now.
            self._report_not_carried_out("the run is landing")
            return True
        self._is_landing = decision.budget is not None and decision.budget.landing
        handlers = {"guide": self._guide, "rollback": self._roll_back, "ask": self._ask}
        handlers[decision.verdict](decision)
        return decision.verdict == "guide"

    def _guide(self, decision: Decision) -> None:
        """Add the guidance; where a new plan is required, read it from the model's next reply."""
        self.messages.append({"role": "system", "name": decision.wording, "content": decision.guidance})
        if decision.action is not DriftAction.SUMMARIZE_REPLAN:
            return
        move, _ = self._ask_model()
        # A model that acts instead of planning has received the guidance; its next steps will show it.
        if isinstance(move, Answer) and self.tree.rebuild_from_plan(move.says):
            self.on_moment(RunMoment("planned", self.tree.to_text()))

    def _roll_back(self, decision: Decision) -> None:
        """Restore conversation, plan and files from the checkpoint, and Steadyhelm's own state with them."""
        checkpoint = self.monitor.roll_back()
        if checkpoint is None:
            self._report_not_carried_out("there is no checkpoint to return to")
        else:
            self.messages = list(checkpoint.conversation_history)
            self.tree = GoalTree.from_dict(checkpoint.goal_tree or {"goal": self.tree.goal})
            self.reminders.tree = self.tree
            files = self.files.restore(checkpoint)
            changed = ", ".join((*files.written, *files.created, *files.removed)) or "none"
            self.on_moment(RunMoment("went back", f"to turn {checkpoint.turn}; files put back: {changed}"))
            if files.refused:
                self._report_not_carried_out(f"files not restored: {', '.join(files.refused)}")
        self._guide(decision)

    def _ask(self, decision: Decision) -> None:
        noticed = "; ".join(finding.message for finding in decision.findings)
        question = f"I do not get on with: {self.tree.goal}. Noticed: {noticed}. How shall I go on?"
        if self.ask is None:
            self._ended = ("asked", question)
            return
        self.on_moment(RunMoment("asked", question))
        self._add_user_message(self.ask(question))

    def _refuse(self, call: Call, decision: Decision) -> None:
        """Block the call; the model gets the reason in place of a result."""
        self._note_attempts(decision)
        self.monitor.call_refused(call.tool, decision=decision)
        self.messages.append({"role": "tool", "name": call.tool, "content": "Refused, and not called."})
        self.on_moment(RunMoment("refused", str(call), decision))
        if decision.verdict == "ask":
            self._ask(decision)
        else:
            self._guide(decision)

    def _end_for_budget(self, decision: Decision) -> bool:
        """Request an extension, or finish in order; return whether the turn continues."""
        more = self.monitor.request_extension("one more step to finish", steps=1)
        self.on_moment(RunMoment("asked for more", more.reason))
        if more.approved:
            return True
        self._guide(decision)
        move, _ = self._ask_model()
        words = move.says if isinstance(move, Answer) else f"Cut off.\n{self.tree.to_text()}"
        self._ended = ("landed", words)
        return False

    # --- checkpoints, models, words --------------------------------------------------------------

    def _take_checkpoint(self) -> None:
        self._is_checkpoint_due = False
        kept = self.monitor.checkpoint(
            turn=self.turn,
            conversation_history=self.messages,
            goal_tree=self.tree.to_dict(),
            state_files=self.files.snapshot(),
        )
        if kept is not None:
            self.on_moment(RunMoment("checkpoint", f"at turn {self.turn}"))

    def _report_not_carried_out(self, reason: str) -> None:
        self.monitor.not_carried_out(reason)
        self.on_moment(RunMoment("not carried out", reason))

    def _request_checkpoint(self, _: Decision) -> None:
        self._is_checkpoint_due = True

    def _switch_model(self, _: Decision) -> None:
        if self.other_model is not None:
            self.model, self.other_model = self.other_model, None
            self.on_moment(RunMoment("switched", "another model takes over"))

    def _add_user_message(self, words: str) -> None:
        self._add_message("user", "user", words)
        self.monitor.record_event("user_message", "user", input_data={"text": words})

    def _add_message(self, what: MomentKind, role: str, words: str) -> None:
        self.messages.append({"role": role, "content": words})
        self.on_moment(RunMoment(what, words))

    def _note_attempts(self, decision: Decision) -> None:
        """Keep failed attempts in the standing reminder, also after a rollback."""
        if decision.assessment is not None:
            self.reminders.note_drift(decision.assessment.overall_score)
        for finding in decision.findings:
            self.reminders.note_tried(finding.message)

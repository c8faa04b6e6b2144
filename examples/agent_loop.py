"""An agent's loop that can be steered: bring a model and tools, and Steadyhelm brings the agent back.

A turn keeps the order of the anti-drift loop; Steadyhelm answers questions one, two and four at once.

1. Would this call be part of a loop?    `monitor.before_tool(...)`
2. How far off course is the run?        the same answer's `assessment`
3. Carry the answer out, by its verdict.  `_carry_out`
4. Is there any budget left?             the same answer's `budget`
5. Take the step.                        `_call`
6. Record the progress.                  `monitor.progress(...)`
7. Record the step.                      `monitor.record_event(...)`, whose answer is carried out in turn
"""

# ruff: noqa: INP001 - an example is a script, not a package
from collections.abc import Callable, Mapping
from pathlib import Path

from agent_files import WorkingFiles
from agent_moves import Answer, Call, Ended, Landing, Message, Model, Moment, What

from steadyhelm import Decision, DriftAction, GoalReminderInjector, GoalTree, Monitor


class AgentLoop:
    """Lets a model work with tools until it is done, and carries out what Steadyhelm decides.

    Args:
        monitor: Watches and steers; in mode `observe` it only watches.
        model: Thinks.
        tools: Functions by name; each takes the call's arguments, and gives a text or raises.
        folder: The files the agent works on; they are part of every checkpoint.
        ask: Puts a question to the user and gives the answer; without it a run ends with its question.
        other_model: Takes over when the first does not listen.
        checkpoint_every: Turns between two checkpoints; 0 takes one only when Steadyhelm asks for it.
        most_turns: Turns after which a run is stopped, whatever happens.
        tell: Is told every moment of a run.
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
        tell: Callable[[Moment], object] = lambda _: None,
    ) -> None:
        self.monitor, self.model, self.tools = monitor, model, tools
        self.files, self.ask, self.other_model = WorkingFiles(folder), ask, other_model
        self.checkpoint_every, self.most_turns, self.tell = checkpoint_every, most_turns, tell
        monitor.on_response("force_checkpoint", self._checkpoint_soon)
        monitor.on_response("switch_model", self._switch_model)
        self._begin("", "")

    def run(self, goal: str, *, plan: str = "", run_id: str | None = None) -> Landing:
        """Work on a goal until it is reached, or there is no way on."""
        self._begin(goal, plan)
        with self.monitor.run(goal=goal, run_id=run_id) as run:
            self._hear(goal)
            while self._ended is None and self.turn < self.most_turns:
                self._take_turn()
        ended, words = self._ended or ("stopped", f"Not done after {self.turn} turns.")
        return Landing(ended, words, run.run_id, self.turn)

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
        move, decision = self._think()
        if not self._carry_out(decision):
            return
        if isinstance(move, Answer):
            self._ended = ("landed" if self._is_landing else "done", move.says)
            return
        foreseen = self.monitor.before_tool(move.tool, move.arguments)
        if self._is_landing or foreseen.verdict in {"proceed", "guide"}:
            # Words about a call that goes ahead come with its result: only then is it known that they hold.
            self._carry_out(self._call(move))
        else:
            self._refuse(move, foreseen)

    def _think(self) -> tuple[Call | Answer, Decision]:
        """The model's next move, recorded: its words count too."""
        reminder = {"role": "system", "content": self.reminders.get_reminder(self.turn)}
        move = self.model.think([reminder, *self.messages])
        self._say("said", "assistant", move.says)
        decision = self.monitor.record_event(
            "llm_request", "model", output_data=move.says, token_count=move.tokens
        )
        return move, decision

    def _call(self, call: Call) -> Decision:
        """Take the step, then record what it brought."""
        try:
            result, error = self._tool(call.tool)(**call.arguments), None
        except Exception as exc:  # noqa: BLE001 - a tool may raise anything; the model should hear of it
            result = error = str(exc) or type(exc).__name__
        if error is None and call.completes in self.tree.nodes:
            self.tree.complete(call.completes)
        if self.tree.calculate_progress_delta():
            self.monitor.progress(self.tree.progress, stuck=self.tree.get_stuck_score())
            self.tell(Moment("progress", f"{self.tree.progress:.0%}"))
        self.messages.append({"role": "tool", "name": call.tool, "content": result})
        self.tell(Moment("failed" if error else "called", f"{call} → {result}"))
        return self.monitor.record_event(
            "tool_call", call.tool, input_data=dict(call.arguments), output_data=result, error=error
        )

    def _tool(self, name: str) -> Callable[..., str]:
        if name not in self.tools:
            raise LookupError(f"There is no tool {name!r}. Tools: {', '.join(self.tools)}.")
        return self.tools[name]

    # --- the verdicts -----------------------------------------------------------------------------

    def _carry_out(self, decision: Decision) -> bool:
        """Do what is asked; says whether the turn goes on."""
        if decision.verdict == "proceed":
            return True
        self.tell(Moment("answered", decision=decision))
        self._remember(decision)
        if decision.budget is not None and decision.budget.exhausted:
            return self._out_of_budget(decision)
        if self._is_landing:
            # The reserve is there to hand over with: only its end stops the agent now.
            self._could_not("the run is landing")
            return True
        self._is_landing = decision.budget is not None and decision.budget.landing
        handlers = {"guide": self._guide, "rollback": self._go_back, "ask": self._ask}
        handlers[decision.verdict](decision)
        return decision.verdict == "guide"

    def _guide(self, decision: Decision) -> None:
        """Words; where a new plan is called for, the model's next words are that plan."""
        self.messages.append({"role": "system", "name": decision.wording, "content": decision.guidance})
        if decision.action is not DriftAction.SUMMARIZE_REPLAN:
            return
        move, _ = self._think()
        # A model that acts instead of planning was told all the same; its next steps will show it.
        if isinstance(move, Answer) and self.tree.rebuild_from_plan(move.says):
            self.tell(Moment("planned", self.tree.to_text()))

    def _go_back(self, decision: Decision) -> None:
        """Conversation, plan and files as they were, and Steadyhelm's own memory with them."""
        checkpoint = self.monitor.roll_back()
        if checkpoint is None:
            self._could_not("there is no checkpoint to return to")
        else:
            self.messages = list(checkpoint.conversation_history)
            self.tree = GoalTree.from_dict(checkpoint.goal_tree or {"goal": self.tree.goal})
            self.reminders.tree = self.tree
            files = self.files.put_back(checkpoint)
            changed = ", ".join((*files.written, *files.created, *files.removed)) or "none"
            self.tell(Moment("went back", f"to turn {checkpoint.turn}; files put back: {changed}"))
            if files.refused:
                self._could_not(f"files not restored: {', '.join(files.refused)}")
        self._guide(decision)

    def _ask(self, decision: Decision) -> None:
        noticed = "; ".join(finding.message for finding in decision.findings)
        question = f"I do not get on with: {self.tree.goal}. Noticed: {noticed}. How shall I go on?"
        if self.ask is None:
            self._ended = ("asked", question)
            return
        self.tell(Moment("asked", question))
        self._hear(self.ask(question))

    def _refuse(self, call: Call, decision: Decision) -> None:
        """The call is not made; the model hears why in place of a result."""
        self._remember(decision)
        self.monitor.call_refused(call.tool, decision=decision)
        self.messages.append({"role": "tool", "name": call.tool, "content": "Refused, and not called."})
        self.tell(Moment("refused", str(call), decision))
        if decision.verdict == "ask":
            self._ask(decision)
        else:
            self._guide(decision)

    def _out_of_budget(self, decision: Decision) -> bool:
        """A little more where the rules grant it, else a hand-over in order."""
        more = self.monitor.request_extension("one more step to finish", steps=1)
        self.tell(Moment("asked for more", more.reason))
        if more.approved:
            return True
        self._guide(decision)
        move, _ = self._think()
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
            state_files=self.files.now(),
        )
        if kept is not None:
            self.tell(Moment("checkpoint", f"at turn {self.turn}"))

    def _could_not(self, reason: str) -> None:
        self.monitor.not_carried_out(reason)
        self.tell(Moment("not carried out", reason))

    def _checkpoint_soon(self, _: Decision) -> None:
        self._is_checkpoint_due = True

    def _switch_model(self, _: Decision) -> None:
        if self.other_model is not None:
            self.model, self.other_model = self.other_model, None
            self.tell(Moment("switched", "another model takes over"))

    def _hear(self, words: str) -> None:
        self._say("user", "user", words)
        self.monitor.record_event("user_message", "user", input_data={"text": words})

    def _say(self, what: What, role: str, words: str) -> None:
        self.messages.append({"role": role, "content": words})
        self.tell(Moment(what, words))

    def _remember(self, decision: Decision) -> None:
        """What led nowhere stays in the standing reminder, also after going back."""
        if decision.assessment is not None:
            self.reminders.note_drift(decision.assessment.overall_score)
        for finding in decision.findings:
            self.reminders.note_tried(finding.message)

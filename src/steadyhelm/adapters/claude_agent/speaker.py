"""One agent of a conversation with Claude Code, and the replies of its model.

Hooks and messages both show a reply, either of them first; it is told once, before the calls it asks for.
"""

from msgspec import Struct

from steadyhelm.adapter import ModelReply
from steadyhelm.engine.agent_run import AgentRun
from steadyhelm.events import STATE_TRANSITION
from steadyhelm.recordings.hook_events.hook_step import HookStep
from steadyhelm.recordings.hook_events.usage import Usage, count_tokens_since


class Said(Struct, kw_only=True):
    """A reply as far as messages have shown it."""

    name: str = ""
    text: str = ""
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0


class Speaker:
    """The main agent or a sub-agent.

    Args:
        run: Its run.
        listens: Whether its replies are shown by messages; if not, their tokens are read in its transcript.
        since: Replies in the transcript from before that time are of an earlier run.
    """

    def __init__(self, run: AgentRun, *, listens: bool, since: float) -> None:
        self.run = run
        self.failed = False
        self.calls_shown: set[str] = set()
        self._listens = listens
        self._since = since
        self._read = Usage(0, 0)
        self._is_working = False
        self._coming: Said | None = None
        self._name = ""
        self._told_unshown = 0
        self._input_tokens = 0
        self._output_tokens = 0

    @property
    def is_coming(self) -> bool:
        """Whether a reply is being shown that was not told yet."""
        return self._coming is not None

    def works(self, step: HookStep) -> None:
        """A call is about to be made, or was not: the reply that asked for it has come."""
        if self._is_working:
            return
        self._is_working = True
        if self._coming is None:
            self._told_unshown += 1
        self._tell(self._coming or Said(input_tokens=self._tokens(step)))

    def has_worked(self, step: HookStep) -> None:
        """All calls of the reply are done: what comes next is another reply."""
        self.works(step)
        self._is_working = False
        self.calls_shown.clear()

    def replied(self, step: HookStep) -> None:
        """The last reply of a turn; where it was shown, what it took is still to come."""
        if self._coming is None:
            self._told_unshown += 1
            self._tell(Said(text=step.text, input_tokens=self._tokens(step)))

    def fails(self, error: str) -> None:
        """The model failed; both sides tell so."""
        if not self.failed:
            self.settle()
            self.failed = True
            self.run.after_model(error=error)

    def shows(self, said: Said) -> None:
        """A message shows a reply, or another part of the one that is coming."""
        if said.name == self._name:
            if self._coming is not None:
                self._coming.text = "\n".join(it for it in (self._coming.text, said.text) if it)
            return
        self.settle()
        self._name = said.name
        if self._told_unshown:
            self._told_unshown -= 1
        else:
            self._coming = said

    def settle(self) -> None:
        """Nothing more of the reply is coming: tell it."""
        if self._coming is not None:
            self._tell(self._coming)

    def took(self, input_tokens: int, output_tokens: int, cost_usd: float | None) -> None:
        """What the whole turn took: what its replies did not show counts with the last of them."""
        said = self._coming or Said()
        said.input_tokens = max(said.input_tokens, input_tokens - self._input_tokens)
        said.output_tokens = max(said.output_tokens, output_tokens - self._output_tokens)
        if self._coming is not None:
            self._tell(said, cost_usd)
        elif said.input_tokens or said.output_tokens or cost_usd:
            # The turn was cut short after its last reply was told.
            self.run.boundary.monitor.record_event(
                STATE_TRANSITION,
                "turn_end",
                run_id=self.run.run_id,
                token_count=said.input_tokens + said.output_tokens,
                cost_usd=cost_usd,
            )

    def turn_ends(self) -> None:
        """Another turn begins, with nothing left over from this one."""
        self._told_unshown = self._input_tokens = self._output_tokens = 0
        self.calls_shown.clear()

    def _tell(self, said: Said, cost_usd: float | None = None) -> None:
        self._coming = None
        self._input_tokens += said.input_tokens
        self._output_tokens += said.output_tokens
        # What a turn cost is told once, at its end, for all its replies and sub-agents.
        cost = cost_usd if cost_usd is not None or not self._listens else 0.0
        self.run.after_model(
            ModelReply(
                text=said.text,
                model=said.model,
                input_tokens=said.input_tokens,
                output_tokens=said.output_tokens,
                cost_usd=cost,
            )
        )

    def _tokens(self, step: HookStep) -> int:
        """Tokens that only the transcript names: of replies that no message shows."""
        if not step.transcript or (self._listens and not step.part):
            return 0
        self._read = count_tokens_since(
            step.transcript,
            self._read.read_to,
            counted=self._read.reply,
            since=self._since,
            of_part=bool(step.part),
        )
        shown = self._input_tokens + self._output_tokens if step.part else 0
        return max(self._read.tokens - shown, 0)

"""Record the replies of one agent in a conversation with Claude Code.

Hooks and messages both show a reply, in either order; it is recorded once, before the calls it requests.
"""

from msgspec import Struct

from steadyhelm.adapter import ModelReply
from steadyhelm.engine.agent_run import AgentRun
from steadyhelm.events import STATE_TRANSITION
from steadyhelm.recordings.hook_events.hook_step import HookStep
from steadyhelm.recordings.hook_events.transcript_usage import Usage, count_tokens_since


class ShownReply(Struct, kw_only=True):
    """A reply as far as messages have shown it."""

    message_id: str = ""
    text: str = ""
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0


class ReplyRecorder:
    """The replies of the main agent or of a sub-agent.

    Args:
        run: The run of the agent.
        has_messages: Whether messages show its replies; if not, their tokens are read from its transcript.
        since: Replies in the transcript from before that time belong to an earlier run.
    """

    def __init__(self, run: AgentRun, *, has_messages: bool, since: float) -> None:
        self.run = run
        self.failed = False
        self.calls_shown: set[str] = set()
        self._has_messages = has_messages
        self._since = since
        self._usage = Usage(0, 0)
        self._has_open_calls = False
        self._partial: ShownReply | None = None
        self._message_id = ""
        self._unshown_count = 0
        self._input_tokens = 0
        self._output_tokens = 0

    @property
    def is_partial(self) -> bool:
        """Whether a reply has been shown in part, and is not recorded yet."""
        return self._partial is not None

    def begin_calls(self, step: HookStep) -> None:
        """Record the reply that requested this call, with the first call of the reply."""
        if self._has_open_calls:
            return
        self._has_open_calls = True
        if self._partial is None:
            self._unshown_count += 1
        self._record(self._partial or ShownReply(input_tokens=self._count_tokens(step)))

    def end_calls(self, step: HookStep) -> None:
        """Note that all calls of the reply have ended: the next call belongs to another reply."""
        self.begin_calls(step)
        self._has_open_calls = False
        self.calls_shown.clear()

    def end_turn_reply(self, step: HookStep) -> None:
        """Record the last reply of a turn; one that messages show waits for its tokens."""
        if self._partial is None:
            self._unshown_count += 1
            self._record(ShownReply(text=step.text, input_tokens=self._count_tokens(step)))

    def fail(self, error: str) -> None:
        """Record once that the model failed: hooks and messages both report it."""
        if not self.failed:
            self.settle()
            self.failed = True
            self.run.after_model(error=error)

    def show(self, reply: ShownReply) -> None:
        """Take in a reply, or another part of the current one, from a message."""
        if reply.message_id == self._message_id:
            if self._partial is not None:
                self._partial.text = "\n".join(it for it in (self._partial.text, reply.text) if it)
            return
        self.settle()
        self._message_id = reply.message_id
        if self._unshown_count:
            self._unshown_count -= 1
        else:
            self._partial = reply

    def settle(self) -> None:
        """Record the current reply: no more parts of it come."""
        if self._partial is not None:
            self._record(self._partial)

    def add_turn_usage(self, input_tokens: int, output_tokens: int, cost_usd: float | None) -> None:
        """Record the tokens of a turn that its replies did not show, with the last of them."""
        reply = self._partial or ShownReply()
        reply.input_tokens = max(reply.input_tokens, input_tokens - self._input_tokens)
        reply.output_tokens = max(reply.output_tokens, output_tokens - self._output_tokens)
        if self._partial is not None:
            self._record(reply, cost_usd)
        elif reply.input_tokens or reply.output_tokens or cost_usd:
            # The turn ended early, after its last reply was recorded.
            self.run.boundary.monitor.record_event(
                STATE_TRANSITION,
                "turn_end",
                run_id=self.run.run_id,
                token_count=reply.input_tokens + reply.output_tokens,
                cost_usd=cost_usd,
            )

    def end_turn(self) -> None:
        """Forget what was shown and counted in this turn."""
        self._unshown_count = self._input_tokens = self._output_tokens = 0
        self.calls_shown.clear()

    def _record(self, reply: ShownReply, cost_usd: float | None = None) -> None:
        self._partial = None
        self._input_tokens += reply.input_tokens
        self._output_tokens += reply.output_tokens
        # The cost of a turn is recorded once, at its end, for all its replies and sub-agents.
        cost = cost_usd if cost_usd is not None or not self._has_messages else 0.0
        self.run.after_model(
            ModelReply(
                text=reply.text,
                model=reply.model,
                input_tokens=reply.input_tokens,
                output_tokens=reply.output_tokens,
                cost_usd=cost,
            )
        )

    def _count_tokens(self, step: HookStep) -> int:
        """Return the tokens that only the transcript shows: of replies that no message shows."""
        if not step.transcript or (self._has_messages and not step.part):
            return 0
        self._usage = count_tokens_since(
            step.transcript,
            self._usage.read_to,
            counted=self._usage.reply,
            since=self._since,
            of_part=bool(step.part),
        )
        shown = self._input_tokens + self._output_tokens if step.part else 0
        return max(self._usage.tokens - shown, 0)

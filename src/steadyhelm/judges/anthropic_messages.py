"""Ask a model behind Anthropic's messages API."""

from typing import Any, Final

from steadyhelm.errors import SettingsError
from steadyhelm.judge import MAX_ANSWER_TOKENS, JudgeVerdict, Question
from steadyhelm.judges.usage import parse_reply, read_tokens, refuse_asynchronous, with_one_try
from steadyhelm.judging.answers import build_answer_schema

_TOOL: Final = "give_verdict"


class AnthropicJudge:
    """Asks a model with a client that has `messages.create`, such as `anthropic.Anthropic()`.

    The answer is the input of a tool that the model has to call, which constrains it to a schema.

    Args:
        client: The client; a synchronous one.
        model: The model's name.
        timeout_s: Seconds that one request may take.
    """

    def __init__(self, client: Any, model: str, *, timeout_s: float = 20.0) -> None:
        create = getattr(getattr(client, "messages", None), "create", None)
        if not callable(create):
            raise SettingsError(
                f"AnthropicJudge needs a client with messages.create, got a {type(client).__name__}."
            )
        refuse_asynchronous(create)
        self.model = model
        self._client = with_one_try(client, timeout_s)

    def judge(self, question: Question) -> JudgeVerdict:
        """Return the model's answer; raises whatever the client raises."""
        tool = {
            "name": _TOOL,
            "description": "Give the verdict on the question.",
            "input_schema": build_answer_schema(question),
        }
        reply = self._client.messages.create(
            model=self.model,
            max_tokens=MAX_ANSWER_TOKENS,
            messages=[{"role": "user", "content": question.text}],
            tools=[tool],
            tool_choice={"type": "tool", "name": _TOOL},
        )
        tokens = read_tokens(reply, "input_tokens", "output_tokens")
        blocks = getattr(reply, "content", None) or []
        answers = [
            getattr(block, "input", None) for block in blocks if getattr(block, "type", "") == "tool_use"
        ]
        texts = [getattr(block, "text", None) for block in blocks if getattr(block, "type", "") == "text"]
        return parse_reply(next(iter([*answers, *texts]), None), question, tokens)

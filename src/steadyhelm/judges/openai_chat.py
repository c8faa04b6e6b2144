"""Ask a model behind OpenAI's chat API, or a server that speaks it."""

from typing import Any, Final

from steadyhelm.errors import SettingsError
from steadyhelm.judge import MAX_ANSWER_TOKENS, JudgeVerdict, NoVerdictError, Question
from steadyhelm.judges.usage import parse_reply, read_tokens, refuse_asynchronous, with_one_try
from steadyhelm.judging.answers import build_answer_schema

_BAD_REQUEST: Final = 400
_OWN_HOST: Final = "api.openai.com"


class OpenAIJudge:
    """Asks a model with a client that has `chat.completions.create`, such as `openai.OpenAI()`.

    The answer is constrained to a JSON schema. A server that refuses that is asked for JSON in plain words
    from the next question on.

    Args:
        client: The client; a synchronous one.
        model: The model's name.
        timeout_s: Seconds that one request may take.
    """

    def __init__(self, client: Any, model: str, *, timeout_s: float = 20.0) -> None:
        create = getattr(getattr(getattr(client, "chat", None), "completions", None), "create", None)
        if not callable(create):
            raise SettingsError(
                f"OpenAIJudge needs a client with chat.completions.create, got a {type(client).__name__}."
            )
        refuse_asynchronous(create)
        self.model = model
        self._client = with_one_try(client, timeout_s)
        # Newer models of OpenAI take one name of the limit, most other servers the other.
        is_own = _OWN_HOST in str(getattr(client, "base_url", ""))
        names = ["max_completion_tokens", "max_tokens"] if is_own else ["max_tokens", "max_completion_tokens"]
        self._ways = [(name, with_schema) for with_schema in (True, False) for name in names]

    def judge(self, question: Question) -> JudgeVerdict:
        """Return the model's answer; raises whatever the client raises."""
        limit, with_schema = self._ways[0]
        options: dict[str, Any] = {limit: MAX_ANSWER_TOKENS}
        if with_schema:
            schema = {"name": "verdict", "strict": True, "schema": build_answer_schema(question)}
            options["response_format"] = {"type": "json_schema", "json_schema": schema}
        try:
            reply = self._client.chat.completions.create(
                model=self.model, messages=[{"role": "user", "content": question.text}], **options
            )
        except Exception as exc:
            if getattr(exc, "status_code", None) == _BAD_REQUEST and len(self._ways) > 1:
                del self._ways[0]
                raise NoVerdictError(
                    "the server refused the form of the request; the next one is simpler"
                ) from exc
            raise
        tokens = read_tokens(reply, "prompt_tokens", "completion_tokens")
        choices = getattr(reply, "choices", None) or [None]
        return parse_reply(getattr(getattr(choices[0], "message", None), "content", None), question, tokens)

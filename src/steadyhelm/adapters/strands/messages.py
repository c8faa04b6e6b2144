"""Read what Strands keeps of messages, replies and results, and put words into a copy of a conversation."""

import weakref
from collections.abc import Iterator
from typing import Any, Final

from steadyhelm.adapter import Instruction, ModelReply
from steadyhelm.boundary.agent_run import AgentRun

_YES_NO: Final = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}


def reply_of(event: Any) -> ModelReply:
    """What the model answered, and the tokens that took."""
    config = event.agent.model.get_config()
    model = config.get("model_id") if isinstance(config, dict) else getattr(config, "model_id", None)
    if event.stop_response is None:
        return ModelReply(model=str(model or ""))
    message = event.stop_response.message
    usage = (message.get("metadata") or {}).get("usage") or {}
    tokens_in, tokens_out = usage.get("inputTokens", 0), usage.get("outputTokens", 0)
    if tokens_in + tokens_out != usage.get("totalTokens", 0):
        # Some providers count what came from a cache apart, and only in the total.
        tokens_in += usage.get("cacheReadInputTokens", 0) + usage.get("cacheWriteInputTokens", 0)
    return ModelReply(
        text=text_of(message), model=str(model or ""), input_tokens=tokens_in, output_tokens=tokens_out
    )


def text_of(message: Any) -> str:
    """The words of a message."""
    return "\n".join(block["text"] for block in message["content"] if "text" in block)


def value_of(result: Any) -> Any:
    """What a tool gave: its text, where it is nothing but text."""
    content = result["content"]
    if all(set(block) == {"text"} for block in content):
        return "\n".join(block["text"] for block in content)
    return content[0]["json"] if len(content) == 1 and set(content[0]) == {"json"} else content


def plain_answer(answer: object) -> object:
    """An answer to an interrupt: yes or no, in the words that Strands itself understands, or words."""
    return _YES_NO.get(answer.strip().lower(), answer) if isinstance(answer, str) else answer


def never_made(event: Any, told: set[str]) -> Iterator[tuple[Any, Any]]:
    """The calls of a batch that have an error for a result though nobody was told that they begin."""
    results = {it["toolResult"]["toolUseId"]: it["toolResult"] for it in event.message["content"]}
    asked = event.agent.messages[-1]["content"] if event.agent.messages else ()
    for use in (block["toolUse"] for block in asked if "toolUse" in block):
        result = results.get(use["toolUseId"])
        if result is not None and use["toolUseId"] not in told and result["status"] == "error":
            yield use, value_of(result) or "failed"


class Words:
    """What was said to the models of some agents, each time behind a message of their conversations.

    Strands hands a copy of the conversation to each model call: the words are put in there, so that
    `agent.messages` stays the agent's own.
    """

    def __init__(self) -> None:
        self._said: weakref.WeakKeyDictionary[Any, dict[str, list[str]]] = weakref.WeakKeyDictionary()

    def say(self, agent: Any, instruction: Instruction, run: AgentRun) -> None:
        """Say it from now on, behind the last message; with a rollback, behind that of the checkpoint."""
        messages = agent.messages
        if instruction.checkpoint is not None:
            ids = [message.get("tracking_id") for message in messages]
            if agent.model.stateful or instruction.checkpoint.label not in ids:
                run.report_not_carried_out("the conversation of the checkpoint is not here any more")
            else:
                del messages[ids.index(instruction.checkpoint.label) + 1 :]
        said = self._said.setdefault(agent, {})
        said.setdefault(messages[-1].get("tracking_id", ""), []).append(instruction.text)

    def said_in(self, context: Any) -> Any:
        """A model call with everything that was said so far."""
        said = self._said.get(context.agent)
        return context.replace(messages=_with_words(context.messages, said)) if said else context


def _with_words(messages: list[Any], said: dict[str, list[str]]) -> list[Any]:
    """A request's own copy of the conversation, with each word behind the message it was said after."""
    for gone in set(said) - {message.get("tracking_id", "") for message in messages}:
        del said[gone]
    edited: list[Any] = []
    for message in messages:
        blocks = [{"text": words} for words in said.get(message.get("tracking_id", ""), ())]
        if blocks and message["role"] == "user":
            # Roles take turns: words of ours go with what the user, or a tool, said last.
            edited.append({**message, "content": [*message["content"], *blocks]})
        else:
            edited += [message, {"role": "user", "content": blocks}] if blocks else [message]
    return edited

"""Translate Strands messages, replies and results, and add guidance to a copy of a conversation."""

import dataclasses
import weakref
from collections.abc import Iterator
from typing import Any, Final

from steadyhelm.adapter import Instruction, ModelReply
from steadyhelm.engine.agent_run import AgentRun
from steadyhelm.host_objects import is_a, read_field

_YES_NO: Final = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}


def read_reply(event: Any) -> ModelReply:
    """Return the reply of a model call, with its token counts."""
    config = read_field(event.agent.model, "config")
    found = dict.get(config, "model_id") if is_a(config, dict) else read_field(config, "model_id")
    model = found if is_a(found, str) else ""
    if event.stop_response is None:
        return ModelReply(model=model)
    message = event.stop_response.message
    usage = (message.get("metadata") or {}).get("usage") or {}
    tokens_in, tokens_out = usage.get("inputTokens", 0), usage.get("outputTokens", 0)
    if tokens_in + tokens_out != usage.get("totalTokens", 0):
        # Some providers count what came from a cache apart, and only in the total.
        tokens_in += usage.get("cacheReadInputTokens", 0) + usage.get("cacheWriteInputTokens", 0)
    return ModelReply(text=read_text(message), model=model, input_tokens=tokens_in, output_tokens=tokens_out)


def read_text(message: Any) -> str:
    """Return the text of a message."""
    return "\n".join(block["text"] for block in message["content"] if "text" in block)


def read_result(result: Any) -> Any:
    """Return the value of a tool result: its text where it holds nothing else."""
    content = result["content"]
    if all(set(block) == {"text"} and is_a(block["text"], str) for block in content):
        return "\n".join(block["text"] for block in content)
    return content[0]["json"] if len(content) == 1 and set(content[0]) == {"json"} else content


def read_answer(answer: object) -> object:
    """Return the answer to an interrupt: True or False for the words Strands accepts as such, or the text."""
    return _YES_NO.get(answer.strip().lower(), answer) if is_a(answer, str) else answer


def find_unmade_calls(event: Any, announced: set[str]) -> Iterator[tuple[Any, Any]]:
    """Yield the calls of a batch that failed without having been announced, each with its error."""
    results = {it["toolResult"]["toolUseId"]: it["toolResult"] for it in event.message["content"]}
    asked = event.agent.messages[-1]["content"] if event.agent.messages else ()
    for use in (block["toolUse"] for block in asked if "toolUse" in block):
        result = results.get(use["toolUseId"])
        if result is not None and use["toolUseId"] not in announced and result["status"] == "error":
            yield use, read_result(result) or "failed"


class GuidanceTexts:
    """The guidance for the models of some agents, each text after one message of the conversation.

    Strands passes a copy of the conversation to each model call: guidance is added there, so that
    `agent.messages` is not changed.
    """

    def __init__(self) -> None:
        self._texts: weakref.WeakKeyDictionary[Any, dict[str, list[str]]] = weakref.WeakKeyDictionary()

    def add(self, agent: Any, instruction: Instruction, run: AgentRun) -> None:
        """Add a text after the last message; with a rollback, after the last message of the checkpoint."""
        messages = agent.messages
        if instruction.checkpoint is not None:
            ids = [message.get("tracking_id") for message in messages]
            if agent.model.stateful or instruction.checkpoint.label not in ids:
                run.report_failed_rollback("the conversation of the checkpoint is not here any more")
            else:
                del messages[ids.index(instruction.checkpoint.label) + 1 :]
        texts = self._texts.setdefault(agent, {})
        texts.setdefault(messages[-1].get("tracking_id", ""), []).append(instruction.text)

    def apply(self, context: Any) -> Any:
        """Return the context of a model call with all guidance so far in its messages."""
        texts = self._texts.get(context.agent)
        return dataclasses.replace(context, messages=_insert(context.messages, texts)) if texts else context


def _insert(messages: list[Any], texts: dict[str, list[str]]) -> list[Any]:
    """Return a copy of the conversation with each text after the message it was added after."""
    for gone in set(texts) - {message.get("tracking_id", "") for message in messages}:
        del texts[gone]
    edited: list[Any] = []
    for message in messages:
        blocks = [{"text": text} for text in texts.get(message.get("tracking_id", ""), ())]
        if blocks and message["role"] == "user":
            # Roles alternate: guidance goes into the last message of the user or of a tool.
            edited.append({**message, "content": [*message["content"], *blocks]})
        else:
            edited += [message, {"role": "user", "content": blocks}] if blocks else [message]
    return edited

"""Refuse calls of the OpenAI Agents SDK, or make them wait, by its own means for what a user approves.

A call is refused as one that a user rejected, which touches neither the agent nor its tools.
To wait it needs a tool that wants approval: such tools are copies, and the host's own stay as they are.
"""

import copy
import functools
from collections.abc import Callable
from typing import Any, Final

from agents import Agent, FunctionTool, Handoff
from agents.items import ToolApprovalItem

from steadyhelm.adapters.openai_agents.items import Asked

_ORIGINAL: Final = "_steadyhelm_original"


def refuse(asked: Asked, words: str, context: Any, agent: Any) -> None:
    """The call will not be made; the model is given these words as its result."""
    context.reject_tool(ToolApprovalItem(agent=agent, raw_item=asked.item), rejection_message=words)


def allow(asked: Asked, context: Any, agent: Any) -> None:
    """The call need not wait, though others of its tool do; where the host wants it to, it does."""
    original = getattr(agent, _ORIGINAL, agent)
    tools = [it for it in original.tools if isinstance(it, FunctionTool) and it.qualified_name == asked.name]
    if all(tool.needs_approval is False for tool in tools):
        context.approve_tool(ToolApprovalItem(agent=agent, raw_item=asked.item))


def own_copy(agent: Any, made: dict[int, tuple[Any, Any]] | None = None) -> Any:
    """A copy of an agent with copies of its tools, and of every agent it hands over to."""
    made = {} if made is None else made
    agent = getattr(agent, _ORIGINAL, agent)
    if id(agent) not in made:
        tools = [copy.copy(tool) if isinstance(tool, FunctionTool) else tool for tool in agent.tools]
        own = agent.clone(tools=tools, handoffs=[])
        setattr(own, _ORIGINAL, agent)
        made[id(agent)] = (agent, own)
        own.handoffs = [_own_handoff(it, made) for it in agent.handoffs]
    return made[id(agent)][1]


def made_to_wait(agent: Any, tool_name: str) -> Callable[[], None] | None:
    """Make the calls of a tool wait for approval; gives what undoes it, None where the tool is not ours."""
    if not hasattr(agent, _ORIGINAL):
        return None
    for tool in agent.tools:
        if isinstance(tool, FunctionTool) and tool.qualified_name == tool_name:
            undo = functools.partial(setattr, tool, "needs_approval", tool.needs_approval)
            tool.needs_approval = True
            return undo
    return None


def _own_handoff(handoff: Any, made: dict[int, tuple[Any, Any]]) -> Any:
    if isinstance(handoff, Agent):
        return own_copy(handoff, made)
    if not isinstance(handoff, Handoff):
        return handoff
    own = copy.copy(handoff)

    async def invoked(context: Any, arguments: str) -> Any:
        return own_copy(await handoff.on_invoke_handoff(context, arguments), made)

    own.on_invoke_handoff = invoked
    return own

"""Watch and steer workflows of LlamaIndex: their runs and the calls of their tools.

LlamaIndex has no hooks that can change a request or refuse a call, so methods of its classes are patched.
They do nothing more than call the original for a workflow that nobody watches.
"""

import asyncio
import uuid
import weakref
from typing import Any, Final

from steadyhelm.adapter import Capabilities
from steadyhelm.adapters.llama_index.models import watch_models
from steadyhelm.adapters.llama_index.run_state import WorkflowRun, find_enclosing_run, find_workflow_run
from steadyhelm.adapters.llama_index.translate import read_goal, read_tool_result
from steadyhelm.boundary.driver import Ask, Boundary
from steadyhelm.boundary.patches import Method, Patches
from steadyhelm.engine.monitor import Monitor
from steadyhelm.errors import MissingExtraError
from steadyhelm.host_objects import is_a, name_type, read_field

try:
    from llama_index.core.agent.workflow import AgentWorkflow, BaseWorkflowAgent, ToolCallResult
    from llama_index.core.tools import FunctionTool, ToolOutput
    from workflows import Workflow
    from workflows.errors import WorkflowCancelledByUser
except ImportError as exc:
    raise MissingExtraError("LlamaIndex adapter", extra="llama-index") from exc

try:
    from workflows.runtime.types.results import WaitingForEvent
except ImportError:  # older releases wait inside the step

    class WaitingForEvent(Exception):  # type: ignore[no-redef]  # noqa: N818
        """Never raised."""


CAN: Final[Capabilities] = {"before_model": {"guide", "rollback", "stop"}, "before_tool": {"deny", "stop"}}
_AGENTS: Final = (BaseWorkflowAgent, AgentWorkflow)


class _Watchers:
    """Who watches which workflow, and the patches that are in place while anybody does."""

    def __init__(self) -> None:
        self.everything: Boundary | None = None
        # By id: agents of older releases have no hash.
        self._wrapped: dict[int, Boundary] = {}
        self._patches: Patches | None = None
        self._models: set[type] = set()

    def wrap(self, workflow: Any, boundary: Boundary) -> None:
        """Watch one workflow, for as long as it exists."""
        if id(workflow) not in self._wrapped:
            weakref.finalize(workflow, self._wrapped.pop, id(workflow), None).atexit = False
        self._wrapped[id(workflow)] = boundary
        self._patch()

    def watch_everything(self, boundary: Boundary | None) -> None:
        """Watch every workflow; with None, only those that are wrapped."""
        self.everything = boundary
        if boundary is not None:
            self._patch()
        elif self._patches is not None and not self._wrapped:
            self._patches.undo()
            self._patches = None

    def find_boundary(self, workflow: Any) -> Boundary | None:
        """Return where to start the run of a workflow: inside a watched one it is watched as well."""
        outer = find_enclosing_run()
        inherited = outer.boundary if outer is not None else self.everything
        boundary = self._wrapped.get(id(workflow), inherited)
        return None if boundary is None or boundary.monitor.disabled else boundary

    def watch_models(self) -> None:
        """Patch classes of models that were defined since."""
        if self._patches is not None:
            watch_models(self._patches, self._models)

    def _patch(self) -> None:
        if self._patches is not None:
            return
        self._patches, self._models = Patches(), set()
        self._patches.replace_method(Workflow, "run", _watch_run)
        self._patches.replace_method(FunctionTool, "acall", _watch_tool)
        for owner in _AGENTS:
            self._patches.replace_method(owner, "call_tool", _watch_call)
        self.watch_models()


WATCHERS: Final = _Watchers()


def make_boundary(monitor: Monitor, ask: Ask | None = None) -> Boundary:
    """Return a boundary for workflows."""
    return Boundary(monitor, "llama_index", CAN, ask=ask)


# --- runs ----------------------------------------------------------------------------------------


def _watch_run(original: Method) -> Method:
    def run(self: Any, *args: Any, **options: Any) -> Any:
        boundary = WATCHERS.find_boundary(self)
        state = None if boundary is None else _start(boundary, self, args, options)
        if state is None:
            return original(self, *args, **options)
        try:
            with state.activate():
                handler = original(self, *args, **options)
        except BaseException as exc:
            state.finish(exc)
            raise
        _follow(handler, state)
        return handler

    return run


def _start(
    boundary: Boundary, workflow: Any, args: tuple[Any, ...], options: dict[str, Any]
) -> WorkflowRun | None:
    state: WorkflowRun | None = None
    with boundary.guard("start"):
        WATCHERS.watch_models()
        start_event = args[1] if len(args) > 1 else options.get("start_event")
        name = read_field(workflow, "name")
        state = WorkflowRun(
            boundary, read_goal(start_event, options), name if is_a(name, str) else name_type(workflow)
        )
        if issubclass(type(workflow), _AGENTS):
            _ = state.run  # starts it
    return state


def _follow(handler: Any, state: WorkflowRun) -> None:
    """End the run when the workflow does."""
    with state.boundary.guard("end"):
        # A handler was a future itself before it held a task.
        task = read_field(handler, "_result_task")
        task = task if is_a(task, asyncio.Future) else handler
        task.add_done_callback(lambda done: _end(done, state))


def _end(task: "asyncio.Future[Any]", state: WorkflowRun) -> None:
    with state.boundary.guard("end"):
        error = None if task.cancelled() else task.exception()
        is_left = task.cancelled() or is_a(error, WorkflowCancelledByUser)
        state.finish(None if is_left else error, outcome="left early" if is_left else "")


# --- tools ---------------------------------------------------------------------------------------


def _watch_call(original: Method) -> Method:
    async def call_tool(self: Any, ctx: Any, ev: Any) -> Any:
        """Watch the step of an agent that calls a tool."""
        state = find_workflow_run()
        if state is None:
            return await original(self, ctx, ev)
        refused = _refuse(state, ev.tool_id, ev.tool_name, ev.tool_kwargs)
        if refused is not None:
            result = ToolCallResult(
                tool_name=ev.tool_name,
                tool_kwargs=ev.tool_kwargs,
                tool_id=ev.tool_id,
                tool_output=refused,
                return_direct=False,
            )
            ctx.write_event_to_stream(result)
            return result
        try:
            with state.call_tool():
                result = await original(self, ctx, ev)
        except BaseException as exc:
            _record_failure(state, ev.tool_id, exc)
            raise
        _record_result(state, ev.tool_id, result.tool_output)
        return result

    return call_tool


def _watch_tool(original: Method) -> Method:
    async def acall(self: Any, *args: Any, **options: Any) -> Any:
        """Watch a tool that a step of a workflow calls itself."""
        state = find_workflow_run()
        if state is None:
            return await original(self, *args, **options)
        call_id, name = uuid.uuid4().hex, self.metadata.get_name()
        refused = _refuse(state, call_id, name, {**options, **({"args": args} if args else {})})
        if refused is not None:
            return refused
        try:
            with state.call_tool():
                output = await original(self, *args, **options)
        except BaseException as exc:
            _record_failure(state, call_id, exc)
            raise
        _record_result(state, call_id, output)
        return output

    return acall


def _refuse(state: WorkflowRun, call_id: str, name: str, args: dict[str, Any]) -> ToolOutput | None:
    """Announce a call. Return the output in its place when it is refused; raises when the run is stopped."""
    run = state.run
    instruction = run.before_tool(call_id, name, args)
    if run.stopped is not None:
        raise run.stopped
    if instruction.verdict == "proceed":
        return None
    return ToolOutput(tool_name=name, content=instruction.text, raw_input=args, is_error=True)


def _record_failure(state: WorkflowRun, call_id: str, error: BaseException) -> None:
    if is_a(error, WaitingForEvent):
        state.run.drop_call(call_id)  # the step begins again when what it waits for is there
    else:
        state.run.after_tool(call_id, error=error)


def _record_result(state: WorkflowRun, call_id: str, output: Any) -> None:
    with state.boundary.guard("tool's result"):
        result = read_tool_result(output)
        state.run.after_tool(call_id, result.value, error=result.error)

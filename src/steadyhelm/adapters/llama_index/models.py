"""Watch the calls of models: every class of models has methods of its own, so each class is patched."""

import inspect
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from steadyhelm.adapter import ModelReply
from steadyhelm.adapters.llama_index.run_state import WorkflowRun, find_workflow_run
from steadyhelm.adapters.llama_index.translate import read_reply
from steadyhelm.boundary.entry_points import WatchedCall, watch_stream, watch_stream_async
from steadyhelm.boundary.patches import Method, Patches
from steadyhelm.errors import MissingExtraError
from steadyhelm.host_objects import has_methods

try:
    from llama_index.core.llms import LLM, ChatMessage
except ImportError as exc:
    raise MissingExtraError("LlamaIndex adapter", extra="llama-index") from exc

# Where the messages are: the name of the parameter, and its place.
_CHAT: Final = ("messages", 0)
_TOOLS: Final = ("chat_history", 2)
_PROMPT: Final = ("prompt", 0)
_METHODS: Final = {
    **dict.fromkeys(("chat", "achat", "stream_chat", "astream_chat"), _CHAT),
    **dict.fromkeys(
        ("chat_with_tools", "achat_with_tools", "stream_chat_with_tools", "astream_chat_with_tools"), _TOOLS
    ),
    **dict.fromkeys(("complete", "acomplete", "stream_complete", "astream_complete"), _PROMPT),
}

_numbers: Final = itertools.count(1)
# One method of a model calls another: only the outermost is a call of the model.
_is_inside: Final[ContextVar[bool]] = ContextVar("steadyhelm_llama_index_model", default=False)


def watch_models(patches: Patches, patched: set[type]) -> None:
    """Patch every class of models that is defined by now, and add it to `patched`."""
    waiting: list[type] = [LLM]
    while waiting:
        owner = waiting.pop()
        waiting += type.__subclasses__(owner)
        if owner in patched:
            continue
        patched.add(owner)
        for name, place in _METHODS.items():
            method = vars(owner).get(name)
            if inspect.isfunction(method) and not getattr(method, "__isabstractmethod__", False):
                patches.replace_method(owner, name, _make_maker(place))


def _make_maker(place: tuple[str, int]) -> Callable[[Method], Method]:
    def make(original: Method) -> Method:
        def call(self: Any, *args: Any, **options: Any) -> Any:
            found = _find_call(self, place)
            if found is None:
                return original(self, *args, **options)
            return _follow(found, original, self, args, options)

        async def call_async(self: Any, *args: Any, **options: Any) -> Any:
            found = _find_call(self, place)
            if found is None:
                return await original(self, *args, **options)
            return await _follow_async(found, original, self, args, options)

        return call_async if inspect.iscoroutinefunction(original) else call

    return make


class _ModelCall:
    """One call of a model: announced, and recorded when its reply is there to its last part."""

    def __init__(self, state: WorkflowRun, model: Any, place: tuple[str, int]) -> None:
        self._state, self._model, self._place = state, model, place
        self._key = f"model {next(_numbers)}"
        self.last_part: Any = None

    def begin(self, args: tuple[Any, ...], options: dict[str, Any]) -> WatchedCall:
        """Announce the call; return it with guidance and rollbacks applied. Raises `RunStopped`."""
        with self._state.boundary.guard("before the model"):
            args, options = self._edit(args, options)
        if self._state.run.stopped is not None:
            raise self._state.run.stopped
        return WatchedCall(
            activate=self._activate, finish=self._finish, args=args, kwargs=options, keeps_parts=False
        )

    def _edit(self, args: tuple[Any, ...], options: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        name, position = self._place
        is_positional = name not in options and len(args) > position
        given = args[position] if is_positional else options.get(name)
        edited = self._state.edit_request(self._key, given, _make_message)
        if edited is given:
            return args, options
        if is_positional:
            return (*args[:position], edited, *args[position + 1 :]), options
        return args, {**options, name: edited}

    @contextmanager
    def _activate(self) -> Iterator[None]:
        token = _is_inside.set(True)
        try:
            with self._state.run.activate():
                yield
        finally:
            _is_inside.reset(token)

    def _finish(self, response: Any, error: BaseException | None) -> BaseException | None:
        reply = ModelReply()
        with self._state.boundary.guard("model's reply"):
            reply = read_reply(self._model, self.last_part if self.last_part is not None else response)
        is_left = error is not None and not isinstance(error, Exception)
        self._state.run.after_model(reply, key=self._key, error=None if is_left else error)
        return error


class _Parts:
    """The parts of a streamed reply; the last one is the whole reply."""

    def __init__(self, call: _ModelCall, parts: Any) -> None:
        self._call, self._parts = call, parts

    def __iter__(self) -> "_Parts":
        return self

    def __next__(self) -> Any:
        self._call.last_part = part = next(self._parts)
        return part

    def __aiter__(self) -> "_Parts":
        return self

    async def __anext__(self) -> Any:
        self._call.last_part = part = await anext(self._parts)
        return part

    def close(self) -> None:
        """Close the stream, where it can be closed."""
        if has_methods(self._parts, "close"):
            self._parts.close()

    async def aclose(self) -> None:
        """Close the stream, where it can be closed."""
        if has_methods(self._parts, "aclose"):
            await self._parts.aclose()


def _find_call(model: Any, place: tuple[str, int]) -> _ModelCall | None:
    """Return a new call; None outside a watched workflow, and inside another call of a model."""
    state = None if _is_inside.get() else find_workflow_run()
    return None if state is None else _ModelCall(state, model, place)


def _follow(call: _ModelCall, original: Method, model: Any, args: Any, options: Any) -> Any:
    watched = call.begin(args, options)
    try:
        with watched.activate():
            response = original(model, *watched.args, **watched.kwargs)
    except BaseException as exc:
        watched.finish(None, exc)
        raise
    if has_methods(response, "__next__"):
        return watch_stream(watched, _Parts(call, response))
    watched.finish(response, None)
    return response


async def _follow_async(call: _ModelCall, original: Method, model: Any, args: Any, options: Any) -> Any:
    watched = call.begin(args, options)
    try:
        with watched.activate():
            response = await original(model, *watched.args, **watched.kwargs)
    except BaseException as exc:
        watched.finish(None, exc)
        raise
    if has_methods(response, "__anext__"):
        return watch_stream_async(watched, _Parts(call, response))
    watched.finish(response, None)
    return response


def _make_message(text: str) -> ChatMessage:
    return ChatMessage(role="user", content=text)

"""Count the calls and files that one quiet tool cycle of a LangChain agent takes.

    python -m benchmarks.walk             # the table
    python -m benchmarks.walk files       # and the calls of every file
    python -m benchmarks.walk calls       # and every function, in the order of its first call

A cycle is: a tool returns, the model is called again, and the next tool is called. The agent is made with
`create_agent`, a scripted model and the middleware, wrapped by a monitor in mode `guide`; nothing is noticed.
Needs LangChain.
"""

import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool

import steadyhelm
from steadyhelm import DriftMonitor
from steadyhelm.adapters.langchain import SteadyhelmMiddleware

ROOT = Path(steadyhelm.__file__).parent
PARTS = ("adapters", "boundary", "engine")
FIRST_CYCLE = 4
"""The tool call after which counting begins: caches are filled by then."""

READINGS = {
    "rates.csv": "EUR 1.08 USD",
    "orders.csv": "412 orders, 9 open",
    "stock.csv": "bolts 12, nuts 40",
    "routes.csv": "Oslo by Hamburg, two days",
    "taxes.csv": "19 percent since 2007",
    "staff.csv": "eleven names",
}


class ScriptedModel(BaseChatModel):
    """A chat model that reads one file after the other, then sums up."""

    counter: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_options: Any) -> Any:
        """Offer the tools to the model."""
        return self.bind(tools=[tool.name for tool in tools])

    def _generate(self, messages: list[BaseMessage], *_args: Any, **_options: Any) -> ChatResult:
        done = sum(message.type == "tool" for message in messages)
        names = list(READINGS)
        calls = (
            [{"name": "read_file", "args": {"path": names[done]}, "id": f"call-{done}"}]
            if done < len(names)
            else []
        )
        text = f"Next I look at {names[done]}." if calls else "The report is written."
        usage = {"input_tokens": 40, "output_tokens": 12, "total_tokens": 52}
        message = AIMessage(content=text, tool_calls=calls, usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=message)])


class CallCounter:
    """Counts the Python calls into our own files, on every thread but the writer's."""

    def __init__(self) -> None:
        self.files: Counter[str] = Counter()
        self.functions: Counter[str] = Counter()
        self.is_on = False

    def __call__(self, frame: Any, event: str, _argument: Any) -> None:
        """Count one call; `sys.setprofile` calls this."""
        if not self.is_on or event != "call" or threading.current_thread().name.startswith("steadyhelm"):
            return
        code = frame.f_code
        path = Path(code.co_filename)
        if path.is_relative_to(ROOT):
            file = str(path.relative_to(ROOT))
            self.files[file] += 1
            self.functions[f"{file}: {code.co_qualname}"] += 1

    def install(self) -> None:
        """Count on this thread and on all that start from now on."""
        threading.setprofile(self)
        sys.setprofile(self)

    def uninstall(self) -> None:
        """Stop counting."""
        sys.setprofile(None)
        threading.setprofile(None)


def count_cycle(folder: str) -> CallCounter:
    """Run the agent and return what one of its cycles took."""
    counter = CallCounter()
    made = 0

    def read_file(path: str) -> str:
        """Read a file."""
        nonlocal made
        made += 1
        # From the end of this call to the beginning of the next: one whole cycle.
        counter.is_on = made == FIRST_CYCLE
        return READINGS[path]

    monitor = DriftMonitor("walker", db_path=Path(folder) / "walk.db", mode="guide")
    agent = monitor.wrap(
        create_agent(
            ScriptedModel(counter=counter),
            [StructuredTool.from_function(read_file)],
            middleware=[SteadyhelmMiddleware(monitor)],
        )
    )
    counter.install()
    try:
        agent.invoke({"messages": [{"role": "user", "content": "Read the files and write a report."}]})
    finally:
        counter.uninstall()
    monitor.close()
    return counter


def main(what: str = "") -> None:
    """Print what a cycle takes."""
    with tempfile.TemporaryDirectory() as folder:
        counter = count_cycle(folder)
    ours = {file: calls for file, calls in counter.files.items() if file.split("/")[0] in PARTS}
    print(f"{', '.join(PARTS)}: {len(ours)} files, {sum(ours.values())} calls")
    print(f"in all: {len(counter.files)} files, {counter.files.total()} calls")
    if what == "files":
        for file, calls in counter.files.most_common():
            print(f"{calls:6}  {file}")
    if what == "calls":
        for name, calls in counter.functions.items():
            print(f"{calls:6}  {name}")


if __name__ == "__main__":
    main(*sys.argv[1:2])

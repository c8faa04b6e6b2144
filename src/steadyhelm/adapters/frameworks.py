"""The frameworks whose agents `monitor.wrap` knows, found without importing any of them.

The table repeats what pyproject.toml says about extras and entry points, so that a package that is missing or
too old can be named; a test keeps them equal.
"""

import functools
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from types import FunctionType
from typing import Any, Final, NamedTuple

from steadyhelm.adapter import Adapter
from steadyhelm.engine import registry
from steadyhelm.engine.health import Health
from steadyhelm.errors import SettingsError
from steadyhelm.logs import logger

_VERSION_PARTS: Final = 4


class Framework(NamedTuple):
    """One framework: its names, the packages it needs, and where its objects come from.

    `packages` are the distributions it needs, with the oldest version that is known to work.
    `takes` describes what of it can be watched.
    `modules` are the top-level modules its classes come from; empty for objects known by what they can do.
    `patches` are the functions of the adapter's package that replace methods of the framework, by the module
    of the framework that each needs: `steadyhelm.install()` calls them when that module is imported.
    `steers` says what can be done in guide and enforce mode where it was installed so.
    """

    name: str
    title: str
    extra: str
    packages: dict[str, str]
    takes: str = ""
    modules: tuple[str, ...] = ()
    patches: dict[str, str] = {}  # noqa: RUF012 - a constant
    steers: str = "guide, block, roll back and stop"

    @property
    def roots(self) -> tuple[str, ...]:
        """The packages whose modules `patches` names."""
        return tuple(dict.fromkeys(_find_root(module) for module in self.patches))

    @property
    def installed(self) -> str:
        """The version that is installed; empty when there is none."""
        return _find_version(next(iter(self.packages), ""))

    @property
    def is_installed(self) -> bool:
        """Whether one of its packages is installed, of whatever version."""
        return bool(self.installed) or any(_find_version(root) for root in self.roots)

    def describe_missing(self) -> str:
        """Return a text that names what is not installed or too old; empty when nothing is missing."""
        problems = []
        for package, oldest in self.packages.items():
            found = _find_version(package)
            if not found:
                problems.append(f"{package} {oldest} or newer, which is not installed")
            elif parse_version(found) < parse_version(oldest):
                problems.append(f"{package} {oldest} or newer, and {found} is installed")
        return " and ".join(problems)


FRAMEWORKS: Final = (
    Framework(
        "langchain",
        "LangChain and LangGraph",
        "langchain",
        {"langchain": "1.3.15", "langgraph": "1.2.11"},
        "a compiled graph, such as create_agent(...) or StateGraph.compile()",
        ("langchain", "langgraph", "langchain_core"),
        {
            "langchain_core.callbacks.manager": "watch_callbacks",
            "langgraph.pregel": "watch_graphs",
            "langchain.agents.factory": "add_middleware",
        },
        "guide and block agents of create_agent, roll back graphs with a checkpointer, stop all",
    ),
    Framework(
        "openai_agents",
        "OpenAI Agents SDK",
        "openai-agents",
        {"openai-agents": "0.21.1"},
        "Runner itself, or an Agent",
        ("agents",),
        {"agents.run": "watch_runner"},
    ),
    Framework(
        "pydantic_ai",
        "Pydantic AI",
        "pydantic-ai",
        {"pydantic-ai-slim": "2.31.0"},
        "an Agent",
        ("pydantic_ai",),
        {"pydantic_ai.agent": "watch_agents"},
    ),
    Framework(
        "crewai",
        "CrewAI",
        "crewai",
        {"crewai": "1.15.16"},
        "a Crew, an Agent or a Flow",
        ("crewai",),
        {"crewai": "watch_crews_and_agents"},
    ),
    Framework(
        "claude_agent",
        "Claude Agent SDK",
        "claude",
        {"claude-agent-sdk": "0.2.139"},
        "query, ClaudeSDKClient or ClaudeAgentOptions",
        ("claude_agent_sdk",),
        {"claude_agent_sdk": "watch_conversations"},
        "guide, block and stop",
    ),
    Framework(
        "google_adk",
        "Google ADK",
        "google-adk",
        {"google-adk": "2.7.0"},
        "a Runner or an App",
        ("google",),
        {"google.adk.runners": "watch_runners"},
    ),
    Framework(
        "strands",
        "Strands Agents",
        "strands",
        {"strands-agents": "1.52.0"},
        "an Agent, a Graph or a Swarm",
        ("strands",),
        {"strands.agent.agent": "watch_agents"},
    ),
    Framework(
        "agent_framework",
        "Microsoft Agent Framework",
        "agent-framework",
        {"agent-framework-core": "1.14.0"},
        "an Agent",
        ("agent_framework",),
        {"agent_framework": "watch_agents"},
    ),
    Framework(
        "llama_index",
        "LlamaIndex",
        "llama-index",
        {"llama-index-core": "0.14.20"},
        "an agent, an AgentWorkflow or a Workflow",
        ("llama_index", "workflows", "llama_agents"),
        {"llama_index.core.agent.workflow": "watch_workflows"},
    ),
    Framework(
        "litellm",
        "litellm",
        "litellm",
        {"litellm": "1.97.0"},
        "completion or acompletion",
        ("litellm",),
        {"litellm": "watch_litellm"},
        "guide, roll back and stop",
    ),
    Framework(
        "openai_client",
        "OpenAI clients",
        "openai",
        {},
        "a client",
        patches={
            "openai.resources.chat.completions.completions": "watch_chat_completions",
            "openai.resources.responses.responses": "watch_responses",
            "openai.resources.beta.responses.responses": "watch_beta_responses",
        },
        steers="guide, roll back and stop",
    ),
    Framework(
        "anthropic_client",
        "Anthropic clients",
        "anthropic",
        {},
        "a client",
        patches={
            "anthropic.resources.messages.messages": "watch_messages",
            "anthropic.resources.beta.messages.messages": "watch_beta_messages",
        },
        steers="guide, roll back and stop",
    ),
)


_WRAP_INSTEAD: Final = {
    "instructor": "An instructor client calls the client inside it: wrap that one, such as "
    "instructor.from_openai(monitor.wrap(client)), or call steadyhelm.install().",
    "litellm": "litellm calls its providers in its own way: call steadyhelm.install(), which watches all of "
    "its calls.",
}


def describe_bypass(agent: Any) -> str:
    """Return what to do instead of wrapping an object whose calls go around a wrapper; empty for others."""
    kinds = type(agent).__mro__
    roots = [str(getattr(kind, "__module__", "")).partition(".")[0] for kind in kinds]
    return next((_WRAP_INSTEAD[root] for root in roots if root in _WRAP_INSTEAD), "")


def find_frameworks(agent: Any) -> list[Framework]:
    """Return the frameworks this object may belong to, by the modules that its classes come from."""
    kinds: list[Any] = list(type(agent).__mro__)
    if issubclass(type(agent), type):
        kinds += agent.__mro__
    elif type(agent) is FunctionType:
        kinds.append(agent)
    modules = {str(getattr(kind, "__module__", "")).partition(".")[0] for kind in kinds}
    return [it for it in FRAMEWORKS if not it.modules or modules.intersection(it.modules)]


def describe_frameworks() -> str:
    """Return a text that lists what can be watched at every step, and the packages that are missing."""
    names = []
    for framework in FRAMEWORKS:
        missing = framework.describe_missing()
        needs = f" (needs {missing})" if missing else ""
        names.append(f"{framework.title}: {framework.takes}{needs}")
    return "; ".join(names)


def choose_adapter(agent: Any, inside: Any, health: Health) -> type[Adapter] | None:
    """Return the adapter that watches an object at every step; None, with a warning, where none can.

    `inside` is the object itself where `agent` is a watched one. Raises SettingsError for a class.
    """
    for name in _list_adapters(inside, health):
        adapter = _load_adapter(name, health)
        if adapter is not None and adapter.can_wrap(agent):
            return adapter
    _warn_about_unknown_object(agent, health)
    return None


def _list_adapters(agent: Any, health: Health) -> Iterator[str]:
    """Yield the adapters that may know this object, without those whose packages are too old."""
    for framework in find_frameworks(agent):
        missing = framework.describe_missing()
        if not missing:
            yield framework.name
        else:
            needs = f"watching {framework.title} needs {missing}"
            _warn_limited_view(f"{needs}. Add it with: pip install 'steadyhelm[{framework.extra}]'", health)
    yield from registry.list_foreign_names(registry.ADAPTERS)


def _load_adapter(name: str, health: Health) -> type[Adapter] | None:
    """Return an adapter by its name; None, with a warning, when it cannot be loaded."""
    try:
        adapter: type[Adapter] = registry.load(registry.ADAPTERS, name)
    except Exception as exc:  # noqa: BLE001 - the agent must not notice
        cause = exc.__cause__ or exc
        _warn_limited_view(f"the adapter {name} does not fit what is installed here: {cause}", health)
        return None
    return adapter


def _warn_about_unknown_object(agent: Any, health: Health) -> None:
    """Warn about an object of a known framework that cannot be watched at every step."""
    for framework in find_frameworks(agent):
        if not framework.modules or framework.describe_missing():
            continue
        if isinstance(agent, type):
            raise SettingsError(
                f"wrap() got the class {agent.__name__}. Of {framework.title} it takes {framework.takes}."
            )
        kind = type(agent).__name__
        _warn_limited_view(f"of {framework.title} wrap() takes {framework.takes}; it got a {kind}", health)


def _warn_limited_view(why: str, health: Health) -> None:
    logger.warning("Steadyhelm sees only what goes in and comes out: %s", why)
    health.count(f"watched from outside only: {why}")


def _find_root(module: str) -> str:
    # Many packages share the namespace `google`.
    first, _, rest = module.partition(".")
    return f"{first}.{rest.partition('.')[0]}" if first == "google" else first


@functools.cache
def _find_version(package: str) -> str:
    """Return the version that is installed; looked up once, since that reads files."""
    try:
        return version(package) if package else ""
    except PackageNotFoundError:
        return ""


def parse_version(text: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, which are all that a lower bound needs.

    >>> parse_version("1.10.0rc1") > parse_version("1.9.7")
    True
    """
    found = re.match(r"\d+(?:\.\d+)*", text)
    numbers = [int(part) for part in found[0].split(".")] if found else []
    return tuple(numbers + [0] * (_VERSION_PARTS - len(numbers)))

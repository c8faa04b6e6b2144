"""What a store knows about its agents, in one value that is broadcast to every worker."""

from msgspec import Struct, field

from steadyhelm.baselines import BaselineStats
from steadyhelm.decisions import TaskProfile
from steadyhelm.incidents import Threshold
from steadyhelm.people import ToolMark
from steadyhelm.store import Store


class KnowledgeSnapshot(Struct, frozen=True):
    """Baselines, marks of false alarms, profiles and kinds of tools, as a store had them."""

    baselines: dict[tuple[str, str, str], BaselineStats] = field(default_factory=dict)
    thresholds: list[Threshold] = field(default_factory=list)
    profiles: list[TaskProfile] = field(default_factory=list)
    tool_marks: dict[str, list[ToolMark]] = field(default_factory=dict)

    def get_baseline(self, agent_id: str, version: str = "", task_type: str = "") -> BaselineStats | None:
        """Return the baseline of an agent's version and task type; None when nothing was learnt."""
        return self.baselines.get((agent_id, version, task_type))

    def list_thresholds(self, agent_id: str | None = None) -> list[Threshold]:
        """Return what people marked as false alarms."""
        return [it for it in self.thresholds if agent_id in (None, it.agent_id)]

    def list_profiles(self, agent_id: str | None = None) -> list[TaskProfile]:
        """Return what tasks have taken."""
        return [it for it in self.profiles if agent_id in (None, it.agent_id)]

    def list_tool_marks(self, agent_id: str) -> list[ToolMark]:
        """Return the kinds of tools that people declared."""
        return self.tool_marks.get(agent_id, [])


def read_snapshot(store: Store) -> KnowledgeSnapshot:
    """Return what the store knows now."""
    baselines = {(it.agent_id, it.version, it.task_type): it for it in store.list_baselines()}
    agents = {agent.agent_id for agent in store.list_agents()} | {agent_id for agent_id, _, _ in baselines}
    return KnowledgeSnapshot(
        baselines,
        store.list_thresholds(),
        store.list_profiles(),
        {agent_id: marks for agent_id in agents if (marks := store.list_tool_marks(agent_id))},
    )

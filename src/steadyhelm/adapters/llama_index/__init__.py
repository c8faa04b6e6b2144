"""LlamaIndex agents and workflows: methods of its classes report to the run of the workflow they work for.

`models` patches every class of models, which have no base method that all calls go through; `run_state` finds
the workflow that a call belongs to, which LlamaIndex does not pass on.
"""

from typing import TYPE_CHECKING

from steadyhelm.adapters import lazy_names

if TYPE_CHECKING:
    from steadyhelm.adapters.llama_index.entry import LlamaIndexAdapter as LlamaIndexAdapter

__getattr__ = lazy_names(
    __name__,
    {
        "LlamaIndexAdapter": "entry",
        "watch_workflows": "entry",
    },
)

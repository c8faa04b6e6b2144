"""Track the plan of one run: given by the host, written with a plan tool, or announced in a reply."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, Literal

from msgspec import Struct, field

from steadyhelm.decisions import DriftAction
from steadyhelm.events import LLM_REQUEST, PLAN, STATE_TRANSITION, TOOL_CALL, USER_MESSAGE, TraceEvent
from steadyhelm.goals.plan_lines import PlanItem, parse_item, parse_status
from steadyhelm.goals.plans import normalize_description, read_plan
from steadyhelm.goals.tracker import is_plan_name
from steadyhelm.goals.tree import GoalTree
from steadyhelm.goals.tree_nodes import GoalNode, GoalStatus, to_single_line
from steadyhelm.goals.work_signals import is_plan_tool
from steadyhelm.lexicons import load_lexicon

PlanSource = Literal["", "reply", "tool", "given"]
_PLAN_SOURCES: Final[tuple[PlanSource, ...]] = ("", "reply", "tool", "given")

MAX_STEPS: Final = 60
_REPLY_CHARS_READ: Final = 8_192
_MIN_STEPS_IN_TEXT: Final = 2
_STEP_CHARS_SHOWN: Final = 120
_DONE_SHOWN: Final = 3
_STEPS_SHOWN: Final = 6

_LIST_KEYS: Final = ("todos", "plan", "task_list", "tasks", "items", "steps")
_BOXES: Final = ("[ ]", "[x]", "[X]")
_BOX_LINE: Final = re.compile(r"^[ \t]{0,20}(?:[-*+]|\d{1,3}[.)])[ \t]{1,8}\[[ xX]\]\s", re.MULTILINE)
_LIST_LINE: Final = re.compile(r"^[ \t]{0,20}(?:[-*+•]|\(?\d{1,3}(?:\.\d{1,3}){0,3}[.):])[ \t]{1,8}\S")
_LIST_START: Final = re.compile(r"\n[^\S\n]{0,20}(?:[-*+•(]|\d)")
_PLAN_WORDS: Final = ("plan", "to-do", "todo")
_ANNOUNCEMENT_CHARS: Final = 120
_CREATED_ID: Final = re.compile(r"#(\d{1,9})")
_UNPLANNED_KINDS: Final = frozenset({"style", "correction"})
"""Kinds of drift that have nothing to do with the step the agent is at."""


class PlanTracker(Struct):
    """The plan of one run, updated by its events in order.

    A plan that the host gives counts more than one from a tool, and that more than one in a reply: the lesser
    one sets the status of steps with the same description, and replaces nothing.
    """

    source: PlanSource = ""
    items: list[PlanItem] = field(default_factory=list)
    reminded_turn: int = 0
    """The turn at which the model was last given guidance or a reminder."""

    def __bool__(self) -> bool:
        return bool(self.items)

    @property
    def is_followed(self) -> bool:
        """Whether the status of any step was ever reported; without it, the current step is not known."""
        return any(item.status is not None for item in self.items)

    def observe(self, event: TraceEvent) -> None:
        """Update the plan by one event of the run."""
        kind = event.action_type
        if kind == TOOL_CALL:
            if is_plan_tool(event.action_name) and event.error is None:
                self._read_call(event)
        elif kind == LLM_REQUEST:
            text = event.text[:_REPLY_CHARS_READ]
            if text:
                self._use(find_plan_in_reply(text), "reply")
        elif kind == STATE_TRANSITION and event.action_name == PLAN:
            given = event.input_data
            self.source, self.items = "given", []
            self._use(_read_steps(given.get("plan") if isinstance(given, dict) else given), "given")
        elif kind == USER_MESSAGE and self.items and all(_is_done(item) for item in self.items):
            # What the user asks for now comes after it.
            self.forget()

    def forget(self) -> None:
        """Forget the plan: the task is another one."""
        self.source, self.items = "", []

    def build_tree(self, goal: str) -> GoalTree:
        """Return the plan as a goal tree."""
        return GoalTree.from_items(goal, self.items)

    def _read_call(self, event: TraceEvent) -> None:
        args = event.input_data
        if not isinstance(args, dict):
            return
        listed = next((args[key] for key in _LIST_KEYS if key in args), None)
        if isinstance(listed, str) and is_plan_name(event.action_name):
            self._use(_read_steps(listed), "tool")
        elif isinstance(listed, list) and any(isinstance(it, Mapping) and "status" in it for it in listed):
            items = read_plan(listed[: 2 * MAX_STEPS]).items
            if args.get("merge") is True:
                self._merge(items)
            else:
                self._use(items, "tool")
        elif event.action_name in {"TaskCreate", "TaskUpdate"}:
            self._merge(list(_read_one_task(args, event.output_data)))

    def _use(self, items: list[PlanItem], source: PlanSource) -> None:
        """Replace the plan, or where it comes from a better source, update the status of its steps."""
        if not items:
            return
        if _PLAN_SOURCES.index(source) < _PLAN_SOURCES.index(self.source):
            self._update_statuses(items)
            return
        if source == "reply" and self.is_followed and not any(item.status for item in items):
            return  # a mere list in a reply says less than what is known of the steps
        self.source, self.items = source, [_limit_dependencies(item) for item in items[:MAX_STEPS]]

    def _update_statuses(self, items: list[PlanItem]) -> None:
        known = {normalize_description(item.description): item for item in self.items}
        for item in items:
            mine = known.get(normalize_description(item.description))
            if mine is not None and item.status is not None:
                mine.status = item.status

    def _merge(self, items: list[PlanItem]) -> None:
        """Update the steps with these numbers, and add the others."""
        if self.source == "given":
            self._update_statuses(items)
            return
        by_number = {item.number: item for item in self.items if item.number}
        for item in items:
            mine = by_number.get(item.number)
            if mine is None and item.description and len(self.items) < MAX_STEPS:
                self.items.append(_limit_dependencies(item))
            elif mine is not None:
                mine.status = item.status or mine.status
                mine.description = item.description or mine.description
        self.source = "tool" if self.items else ""


def _read_steps(plan: Any) -> list[PlanItem]:
    """Return the steps of a plan; none for a text of one line, which is no list."""
    items = read_plan(plan).items
    return [] if isinstance(plan, str) and len(items) < _MIN_STEPS_IN_TEXT else items


def _limit_dependencies(item: PlanItem) -> PlanItem:
    """Return the step, which then waits for no more others than a plan may have steps."""
    item.waits_for = item.waits_for[:MAX_STEPS]
    return item


def _is_done(item: PlanItem) -> bool:
    return item.status is not None and item.status.is_done


def _read_one_task(args: Mapping[str, Any], output: Any) -> Iterator[PlanItem]:
    """Yield the task that a call creates or updates."""
    number = to_single_line(args.get("taskId", ""), 40)
    subject = args.get("subject")
    item = parse_item(subject) if isinstance(subject, str) else None
    if not number:
        text = output.get("text") if isinstance(output, dict) else output
        created = _CREATED_ID.search(text[:300]) if isinstance(text, str) else None
        number = created[1] if created else ""
    item = item or PlanItem(description="")
    item.number = number
    item.status = parse_status(args.get("status")) or (None if "taskId" in args else GoalStatus.PENDING)
    if number or item.description:
        yield item


def find_plan_in_reply(text: str) -> list[PlanItem]:
    r"""Return the steps of the plan in a reply: a list of boxes, or the list that is announced as a plan.

    >>> [item.description for item in find_plan_in_reply("My plan:\n1. Read the log\n2. Fix the cause")]
    ['Read the log', 'Fix the cause']
    >>> find_plan_in_reply("There are two files:\n1. a.py\n2. b.py")
    []
    """
    if "\n" not in text or _LIST_START.search(text) is None:
        return []  # most replies have no list, and looking for one costs least
    if any(map(text.__contains__, _BOXES)) and len(_BOX_LINE.findall(text)) >= _MIN_STEPS_IN_TEXT:
        boxed = "\n".join(line for line in text.splitlines() if _BOX_LINE.match(line))
        return read_plan(boxed).items
    lowered = text.lower()
    if not any(map(lowered.__contains__, _PLAN_WORDS)):
        return []
    announces = load_lexicon(__package__, "plans")["announces a plan"]
    lines = text.splitlines()
    for place, line in enumerate(lines):
        if len(line) <= _ANNOUNCEMENT_CHARS and announces.search(line):
            listed = read_plan(_cut_after_list(lines[place + 1 :])).items
            if len(listed) >= _MIN_STEPS_IN_TEXT:
                return listed
    return []


def _cut_after_list(lines: list[str]) -> str:
    """Return the list at the beginning of these lines; empty when they do not begin with one."""
    kept: list[str] = []
    for line in lines:
        is_item = _LIST_LINE.match(line) is not None
        if not is_item and line.strip() and not (kept and line[:1].isspace()):
            break
        kept.append(line)
    return "\n".join(kept)


# Describe the plan in guidance: the current step, what is done, and one next move.


def describe_plan(plan: PlanTracker, goal: str, action: DriftAction, kinds: Collection[str]) -> list[str]:
    """Return lines for guidance about drift of these kinds; none where the plan has no part in it."""
    if not plan or (kinds and _UNPLANNED_KINDS.issuperset(kinds)):
        return []
    tree = plan.build_tree(goal)
    leaves = tree.leaves
    if not plan.is_followed:
        shown = [f"{leaf.node_id}. {_quote(leaf.description)}" for leaf in leaves[:_STEPS_SHOWN]]
        more = f"; and {len(leaves) - _STEPS_SHOWN} more" if len(leaves) > _STEPS_SHOWN else ""
        return [
            f"Your plan: {'; '.join(shown)}{more}.",
            "Next move: say which step you are at, and take it in another way than before.",
        ]
    done = [leaf for leaf in leaves if leaf.status.is_done]
    lines = [_describe_done(done, len(leaves))]
    focus = tree.focus
    if focus is not None:
        lines.append(f"Current step: {focus.node_id}. {_quote(focus.description)}")
    left = [leaf for leaf in leaves if leaf.status.is_open and leaf is not focus]
    lines.append(
        f"Next move: {_choose_move(focus, left, action, kinds, is_finished=len(done) == len(leaves))}"
    )
    return lines


def _describe_done(done: list[GoalNode], total: int) -> str:
    names = "; ".join(_quote(leaf.description) for leaf in done[-_DONE_SHOWN:])
    latest = f" (latest: {names})" if len(done) > _DONE_SHOWN else f" ({names})" if names else ""
    return f"Your plan: {len(done)} of {total} steps are marked as done{latest}."


def _choose_move(
    focus: GoalNode | None,
    left: list[GoalNode],
    action: DriftAction,
    kinds: Collection[str],
    *,
    is_finished: bool,
) -> str:
    """Return one thing to do now, by the state of the plan and the drift."""
    if is_finished:
        return "report the result, or say what is still missing."
    if focus is None:
        return "no step can be started: tell the user which step is blocked, and by what."
    step = f"step {focus.node_id}"
    moves = {
        DriftAction.ASK_USER: f"tell the user what stands in the way of {step}, and ask.",
        DriftAction.SUMMARIZE_REPLAN: (
            f"write a new plan for the {1 + len(left)} open steps, with another way to do {step}."
        ),
    }
    if action in moves:
        return moves[action]
    if "loop" in kinds:
        return f"do {step} in another way, or {_describe_escape(left)}"
    if "resource" in kinds:
        return f"finish {step}, then report what is left."
    return f"return to {step}, and do nothing that it does not need."


def _describe_escape(left: list[GoalNode]) -> str:
    """Return what to do where a step cannot be done in any way."""
    if not left:
        return "say what blocks it."
    return f"mark it as blocked and start step {left[0].node_id}: {_quote(left[0].description)}"


def _quote(text: str) -> str:
    """Return a step's text on one line in quotes: whatever it says, it does not pass for words of ours."""
    return f'"{to_single_line(text, _STEP_CHARS_SHOWN).replace(chr(34), chr(39))}"'

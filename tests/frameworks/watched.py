"""What a monitor kept of a scene, as lines that can be compared."""

import gc
import itertools
import time


def runs_of(monitor):
    """The runs of the agent, oldest first."""
    monitor.flush()
    found = [monitor.store.find_run(run_id) for run_id in monitor.store.get_run_ids("agent")]
    return sorted(found, key=lambda run: run.started_at)


def events_of(monitor, run_id, *, told=False):
    """The steps of a run; with `told`, also what callers told about themselves."""
    events = monitor.store.get_run_traces("agent", run_id)
    return [event for event in events if told or event.action_type != "state_transition" or event.error]


def story(monitor, run_id=None):
    """The steps of a run, a line each; those of one batch, which may end in any order, sorted."""
    run_id = run_id or runs_of(monitor)[0].run_id
    lines = []
    for _, batch in itertools.groupby(events_of(monitor, run_id), key=_batch):
        lines += sorted(line(event) for event in batch)
    return lines


def line(event):
    """One step in words."""
    if event.action_type == "user_message":
        return f"user: {event.text}"
    if event.action_type == "llm_request":
        return "model failed" if event.error else f"model: {event.text}"
    args = ", ".join(f"{key}={value}" for key, value in sorted((event.input_data or {}).items()))
    if event.action_type == "tool_call":
        came = "failed" if event.error else f"-> {event.text}"
        return f"{event.action_name}({args}) {came}"
    return f"{event.action_name}: {event.error}"


def not_run_of(monitor, run_id=None):
    """The recorded calls whose tools were not called, with the reason."""
    events = events_of(monitor, run_id or runs_of(monitor)[0].run_id)
    return [f"{it.action_name}: {it.not_run}" for it in events if it.not_run]


def guidance_of(monitor, run_id=None):
    """What was said to the model, first to last."""
    monitor.flush()
    incidents = monitor.store.list_incidents("agent")
    answers = [answer for it in incidents for answer in it.interventions if run_id in {None, it.run_id}]
    return [it.guidance for it in sorted(answers, key=lambda it: it.seq) if it.guidance]


def comes_true(is_so, within_s=60):
    """Whether something becomes true that another thread does."""
    until = time.monotonic() + within_s
    while not is_so() and time.monotonic() < until:
        gc.collect()
        time.sleep(0.01)
    return is_so()


def _batch(event):
    return event.started_seq if event.action_type == "tool_call" else f"at {event.seq}"

"""A client that is used like OpenAI's and answers by script, with plain objects: there are many of those."""

import json

from steadyhelm import DriftMonitor


def said(text):
    """A reply in words."""
    return {"choices": [{"message": {"role": "assistant", "content": text}}]}


def asks(tool, call_id, **args):
    """A reply that asks for a call."""
    function = {"name": tool, "arguments": json.dumps(args)}
    call = {"id": call_id, "type": "function", "function": function}
    return {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [call]}}]}


def user(text):
    """The user speaks."""
    return {"role": "user", "content": text}


def came(call_id, text):
    """What came of a call."""
    return {"role": "tool", "tool_call_id": call_id, "content": text}


class Lookalike:
    """Gives its replies one after the other, and keeps what it was asked with; it raises an error."""

    def __init__(self, *replies):
        self.asked = []
        self.chat = Chat(self, list(replies))

    def ask(self, *messages, **arguments):
        """A request; gives the message that came back."""
        reply = self.chat.completions.create(messages=list(messages), model="scripted", **arguments)
        return reply["choices"][0]["message"]


class Chat:
    """The way to the method."""

    def __init__(self, client, replies):
        self.completions = Completions(client, replies)


class Completions:
    """Where it is asked."""

    def __init__(self, client, replies):
        self._client = client
        self._replies = replies

    def create(self, messages, model="scripted", **_arguments):
        self._client.asked.append([dict(it) if isinstance(it, dict) else it for it in messages])
        reply = self._replies.pop(0) if self._replies else said("done")
        if isinstance(reply, BaseException):
            raise reply
        return reply() if callable(reply) else reply


def monitor_at(path, mode="observe", **options):
    """A monitor that keeps what it sees."""
    return DriftMonitor("agent", db_path=path, mode=mode, **options)


def runs_of(monitor):
    """The runs, oldest first."""
    monitor.flush()
    found = [monitor.store.find_run(run_id) for run_id in monitor.store.get_run_ids("agent")]
    return sorted(found, key=lambda run: run.started_at)


def stories(monitor):
    """The runs, oldest first, each as a list of its steps in words."""
    return [
        [line for event in monitor.store.get_run_traces("agent", run.run_id) if (line := _line(event))]
        for run in runs_of(monitor)
    ]


def _line(event):
    if event.action_type == "user_message":
        return f"user: {event.text}"
    if event.action_type == "llm_request":
        return f"model: {event.error or event.text}"
    if event.action_type != "tool_call":
        return ""
    args = ", ".join(f"{key}={value}" for key, value in sorted((event.input_data or {}).items()))
    return f"{event.action_name}({args}) " + (f"failed: {event.error}" if event.error else f"-> {event.text}")

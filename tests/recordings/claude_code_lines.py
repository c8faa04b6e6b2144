"""Lines of Claude Code transcripts for tests."""


def said_by(kind: str, content, second: float = 0, **keys) -> dict:
    timestamp = f"2026-02-06T05:09:{second:06.3f}Z"
    return {
        "type": kind,
        "sessionId": "s",
        "timestamp": timestamp,
        "isSidechain": False,
        "message": {"role": kind, "content": content},
        **keys,
    }


def user(content, second: float = 0, **keys) -> dict:
    return said_by("user", content, second, **keys)


def reply(*blocks, message_id: str = "m1", usage: dict | None = None, second: float = 0, **keys) -> dict:
    line = said_by("assistant", list(blocks), second, **keys)
    line["message"] |= {"id": message_id, "model": "opus", "usage": usage or {}}
    return line


def text(words: str) -> dict:
    return {"type": "text", "text": words}


def use(call_id: str, name: str = "Bash", **arguments) -> dict:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(call_id: str, content="ok", second: float = 0, *, is_error: bool = False, **keys) -> dict:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content, "is_error": is_error}
    return user([block], second, **keys)

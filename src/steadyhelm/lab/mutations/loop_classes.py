"""Classes of loops: repetition without progress. Each function plants one."""

from typing import Final

from steadyhelm.lab.mutations.planting import MIN_REPEATS, HostCall, PlantClass, Stretch, plant_class

LOOPS: Final[dict[str, PlantClass]] = {}
_loop = plant_class("loop", LOOPS)

_READERS: Final = ("read_file", "view", "open_document", "get_record", "fetch_page")
_ACTIONS: Final = ("click", "press", "tap", "submit_form", "toggle")
_HOST_RESULT_CHARS: Final = 4000
_INSTALL_COMMANDS: Final = (
    "pip install {}",
    "python -m pip install {}",
    "pip3 install --user {}",
    "pip install --no-cache-dir {}==1.0",
    "uv pip install {}",
    "conda install -y {}",
    "sudo pip install {}",
    "pip install --upgrade pip && pip install {}",
)
_TASK_OPENINGS: Final = (
    "Find",
    "Please locate",
    "Your task is to find",
    "Look up",
    "Search everywhere for",
    "Go and get",
)
_TASK_ENDINGS: Final = (".", " and report back.", " and tell me where it is.", " in the archive.")
_NOT_FOUND_OPENINGS: Final = (
    "I could not find",
    "There is no trace of",
    "I was unable to locate",
    "Nothing turned up for",
)
_NOT_FOUND_ENDINGS: Final = (".", " anywhere.", " in the archive.", ", sorry.")
_REMARKS: Final = (
    "Let me look at that.",
    "I need to check this first.",
    "Looking into it now.",
    "That should show what is wrong.",
    "One more look at this.",
    "I will check it once more.",
)


@_loop
def plant_exact(stretch: Stretch) -> None:
    """Plant the same call with the same result."""
    call = _pick_call(stretch)
    for _ in range(stretch.count_repeats()):
        if stretch.rng.choice((True, False)):
            stretch.add_reply(stretch.rng.choice(_REMARKS))
        stretch.repeat_call(call)


@_loop
def plant_volatile_words(stretch: Stretch) -> None:
    """Plant the same call whose result differs in a few names."""
    words, body = stretch.words, stretch.words.make_text(3)
    name, path = stretch.rng.choice(_READERS), stretch.words.make_path()
    for _ in range(stretch.count_repeats()):
        text = f"Session {words.make_word()}: {body} Served by {words.make_word()}."
        stretch.add_call(name, {"target": path}, text)


@_loop
def plant_volatile_ids(stretch: Stretch) -> None:
    """Plant the same call whose result has a new request id, port or temporary name."""
    words, rng, body = stretch.words, stretch.rng, stretch.words.make_text(2)
    name, thing = rng.choice(("query", "describe", "get_status", "inspect")), words.pick_thing()
    for _ in range(stretch.count_repeats()):
        tail = f"(request {words.make_id()}, port {rng.randint(20000, 60000)}, /tmp/{words.make_word()}.out)"
        stretch.add_call(name, {thing: "primary"}, f"{body} {tail}")


@_loop
def plant_volatile_times(stretch: Stretch) -> None:
    """Plant the same call whose result has another time and duration."""
    words, rng, body = stretch.words, stretch.rng, stretch.words.make_text(2)
    name, path = rng.choice(_READERS), words.make_path()
    for _ in range(stretch.count_repeats()):
        took = f"took {rng.uniform(0.1, 9):.2f}s, modified {rng.randint(2, 59)} minutes ago"
        stretch.add_call(name, {"path": path}, f"[{words.make_time()}] {took}\n{body}")


@_loop
def plant_side_arguments(stretch: Stretch) -> None:
    """Plant the same call with another remark beside its target."""
    words, rng = stretch.words, stretch.rng
    name, path, text = rng.choice(_READERS), words.make_path(), words.make_text(3)
    aside = rng.choice(("reason", "description", "thought", "note", "purpose"))
    for _ in range(stretch.count_repeats()):
        remark = f"{rng.choice(_REMARKS)} {words.make_sentence()}"
        stretch.add_call(name, {"path": path, aside: remark}, text)


@_loop
def plant_counters(stretch: Stretch) -> None:
    """Plant the same call with a number that counts the attempts."""
    words, rng = stretch.words, stretch.rng
    name, thing, text = (
        rng.choice(("sync", "load", "resolve", "compile")),
        words.pick_thing(),
        words.make_text(2),
    )
    counter = rng.choice(("attempt", "try", "retry_count", "nonce", "request_no"))
    for n in range(1, stretch.count_repeats() + 1):
        stretch.add_call(name, {"target": thing, counter: n}, text, error=rng.choice((True, False)))


@_loop
def plant_echo(stretch: Stretch) -> None:
    """Plant calls whose result repeats a word of the argument and is otherwise the same."""
    rng, thing = stretch.rng, stretch.words.make_word()
    name = rng.choice(("find_file", "lookup", "locate", "search_symbol"))
    spellings = [f"{thing}{ending}" for ending in ("", "s", "_", "-main", "Module", "_v", "Impl", "Base")]
    for n in range(stretch.count_repeats()):
        guess = spellings[n % len(spellings)]
        text = f"Nothing named '{guess}' exists in this workspace. Known roots: src, lib, tools."
        stretch.add_call(name, {"name": guess}, text)


@_loop
def plant_no_effect(stretch: Stretch) -> None:
    """Plant different actions after which the same page is seen."""
    words, rng = stretch.words, stretch.rng
    page = f"Page '{words.pick_thing()}': {words.make_text(2)}"
    look = rng.choice(("get_page", "read_screen", "observe", "snapshot"))
    for _ in range(stretch.count_repeats()):
        action = rng.choice(_ACTIONS)
        stretch.add_call(action, {"element": rng.choice(("Save", "Continue", "Next", "OK"))}, "Done.")
        stretch.add_call(look, {}, page)


@_loop
def plant_stretch_redone(stretch: Stretch) -> None:
    """Plant six to twelve different looks, and all of them again."""
    looks = _make_read_calls(stretch, stretch.rng.randint(6, 12))
    for _ in range(stretch.rng.randint(2, 3)):
        for look in looks:
            stretch.repeat_call(look)


@_loop
def plant_cycle(stretch: Stretch) -> None:
    """Plant a cycle of two to twelve calls."""
    looks = _make_read_calls(stretch, stretch.rng.randint(2, 12))
    for _ in range(stretch.count_repeats(MIN_REPEATS, 5)):
        for look in looks:
            stretch.repeat_call(look)


@_loop
def plant_same_error(stretch: Stretch) -> None:
    """Plant different commands that all fail with the same error."""
    words, rng = stretch.words, stretch.rng
    package = words.make_word()
    commands = [command.format(package) for command in _INSTALL_COMMANDS]
    rng.shuffle(commands)
    text = f"ERROR: Could not find a version that satisfies the requirement {package} (from versions: none)"
    for command in commands[: stretch.count_repeats()]:
        stretch.add_call("shell", {"command": command}, text, error=True)


@_loop
def plant_other_errors(stretch: Stretch) -> None:
    """Plant the same failing step that fails with another error each time."""
    words, rng = stretch.words, stretch.rng
    thing, service = words.pick_thing(), words.make_word()
    errors = [
        f"ConnectionError: {service} closed the connection",
        f"KeyError: '{thing}'",
        "TypeError: expected str, got NoneType",
        f"FileNotFoundError: {words.make_path()}",
        f"ValueError: unknown field {words.make_word()}",
        "AssertionError: 3 != 4",
        f"ImportError: cannot import name {words.make_word()!r}",
        "RuntimeError: already closed",
    ]
    rng.shuffle(errors)
    name = rng.choice(("deploy", "run_migration", "publish", "execute_plan"))
    for error in errors[: stretch.count_repeats()]:
        stretch.add_call(name, {"target": thing}, error, error=True)


@_loop
def plant_reworded_search(stretch: Stretch) -> None:
    """Plant one question in other words, whose useless results overlap."""
    words, rng, n = stretch.words, stretch.rng, stretch.count_repeats(5, 9)
    [topic], thing = words.pick_topics(1), words.make_word()
    hits = [f"{words.make_word()} - {words.make_sentence()}" for _ in range(6)]
    openings = ("how to configure", "documentation about", "set up", "guide for", "tutorial on", "help with")
    endings = (f" in {thing}", f" {thing} settings", f" using {thing}", f" for {thing} projects")
    name = rng.choice(("web_search", "search", "search_docs"))
    for query in words.reword(openings, topic, endings, n):
        stretch.add_call(name, {"query": query}, "\n".join(rng.sample(hits, 5)))


@_loop
def plant_delegation(stretch: Stretch) -> None:
    """Plant one task delegated again in other words, with the same outcome in other words."""
    words, rng, n = stretch.words, stretch.rng, stretch.count_repeats()
    subject = f"the {words.pick_thing()} entry of {words.make_word()}"
    tasks = words.reword(_TASK_OPENINGS, subject, _TASK_ENDINGS, n)
    answers = words.reword(_NOT_FOUND_OPENINGS, subject, _NOT_FOUND_ENDINGS, n)
    for task, answer in zip(tasks, answers, strict=True):
        stretch.add_call(rng.choice(("delegate", "task")), {"agent": "researcher", "task": task}, answer)


@_loop
def plant_plan_rewritten(stretch: Stretch) -> None:
    """Plant a plan that is written again in other words while nothing is done."""
    words, rng, n = stretch.words, stretch.rng, stretch.count_repeats()
    things = [words.pick_thing() for _ in range(3)]
    verbs = ("Inspect", "Examine", "Review", "Look at", "Go through", "Study")
    for _ in range(n):
        items = [f"{rng.choice(verbs)} the {thing}" for thing in rng.sample(things, len(things))]
        stretch.add_call("update_plan", {"items": items}, "The plan was updated.")


@_loop
def plant_thought_cycle(stretch: Stretch) -> None:
    """Plant replies that return to the same thoughts without acting on them."""
    words, n = stretch.words, stretch.count_repeats()
    thing, other, path = words.pick_thing(), words.make_word(), words.make_path()
    first = words.reword(
        ("The cause may be", "I suspect", "It could be", "Perhaps the problem is"),
        f"the {thing} in {path}",
        (", so I should look there.", "; that needs a closer look.", ". I should verify that."),
        n,
    )
    second = words.reword(
        ("On the other hand,", "But wait,", "Then again,", "However,"),
        f"{other} might be responsible",
        (", so the first idea is doubtful.", "; I have to think about it more.", ". Let me reconsider."),
        n,
    )
    for one, two in zip(first, second, strict=True):
        stretch.add_reply(one)
        stretch.add_reply(two)


@_loop
def plant_gaps(stretch: Stretch) -> None:
    """Plant the same call with up to a hundred other calls between two of them."""
    call = _make_read_calls(stretch, 1)[0]
    for _ in range(stretch.count_repeats(4, 6)):
        stretch.repeat_call(call)
        for other in _make_read_calls(stretch, stretch.rng.randint(5, 100)):
            stretch.repeat_call(other)
    stretch.repeat_call(call)


@_loop
def plant_permanent_error(stretch: Stretch) -> None:
    """Plant the same call retried after an error that cannot go away."""
    words, rng = stretch.words, stretch.rng
    error = rng.choice(
        (
            "403 Forbidden: the token lacks the scope 'write'",
            f"404 Not Found: no bucket named {words.make_word()}",
            "401 Unauthorized: invalid API key",
            f"PermissionError: [Errno 13] Permission denied: '/etc/{words.make_word()}'",
            f"unknown command: {words.make_word()}",
        )
    )
    name, args = rng.choice(("upload", "put_object", "shell")), {"target": words.make_path()}
    for _ in range(stretch.count_repeats()):
        stretch.add_call(name, args, error, error=True)


@_loop
def plant_endless_wait(stretch: Stretch) -> None:
    """Plant polls that go on for hours without a change."""
    words, rng = stretch.words, stretch.rng
    name, job = rng.choice(("get_job_status", "check_build", "poll")), words.make_id()
    every_s = rng.choice((120, 180, 300))
    for _ in range(rng.randint(45, 60)):
        stretch.add_call(name, {"job": job}, "status: pending", duration_s=every_s)


def _pick_call(stretch: Stretch) -> HostCall:
    """Return a call of the run itself, else one of our own."""
    usable = [call for call in stretch.host if 20 <= len(call.result) <= _HOST_RESULT_CHARS]  # noqa: PLR2004
    return stretch.rng.choice(usable) if usable else _make_read_calls(stretch, 1)[0]


def _make_read_calls(stretch: Stretch, n: int) -> list[HostCall]:
    """Return different calls that only read, with different results."""
    words = stretch.words
    return [
        HostCall(stretch.rng.choice(_READERS), {"path": words.make_path()}, words.make_text(), error=False)
        for _ in range(n)
    ]

"""Classes of healthy stretches that look like loops and are none. Each function plants one."""

# ruff: noqa: S608 - no database reads these queries

from typing import Final

from steadyhelm.lab.mutations.planting import PlantClass, Stretch, plant_class

HEALTHY: Final[dict[str, PlantClass]] = {}
_healthy = plant_class("healthy", HEALTHY)

_MONTHS: Final = tuple(f"2025-{month:02}" for month in range(1, 13))
_ACKNOWLEDGEMENTS: Final = ("ok", "Done.", "204 No Content", '{"status": "success"}', "1 row updated", "true")


@_healthy
def plant_batch(stretch: Stretch) -> None:
    """Plant one action on many targets, each acknowledged in the same few words."""
    words, rng = stretch.words, stretch.rng
    name, answer = (
        rng.choice(("update_record", "tag", "archive", "send_invite")),
        rng.choice(_ACKNOWLEDGEMENTS),
    )
    for _ in range(rng.randint(12, 25)):
        stretch.add_call(name, {"id": words.make_id(), "state": "closed"}, answer)


@_healthy
def plant_downloads(stretch: Stretch) -> None:
    """Plant downloads of different files with equal reports."""
    words, rng = stretch.words, stretch.rng
    for _ in range(rng.randint(8, 20)):
        url = f"https://files.example/{words.make_word()}/{words.make_word()}.zip"
        stretch.add_call("download", {"url": url}, "saved 1 file")


@_healthy
def plant_equal_verdicts(stretch: Stretch) -> None:
    """Plant checks of different files that all end well."""
    words, rng = stretch.words, stretch.rng
    verdict = rng.choice(("no issues found", "4 passed", "All checks passed!", "0 errors, 0 warnings"))
    name = rng.choice(("lint", "check_file", "validate"))
    for _ in range(rng.randint(8, 20)):
        stretch.add_call(name, {"path": words.make_path()}, verdict)


@_healthy
def plant_queries_with_new_rows(stretch: Stretch) -> None:
    """Plant one query by id, month or page, each with other rows."""
    words, rng = stretch.words, stretch.rng
    for key in _make_keys(stretch):
        rows = [f"{words.make_word()} | {rng.randint(1, 9999)} | {words.pick_thing()}" for _ in range(4)]
        stretch.add_call("query", {"sql": f"SELECT * FROM sales WHERE {key} LIMIT 4"}, "\n".join(rows))


@_healthy
def plant_queries_with_equal_rows(stretch: Stretch) -> None:
    """Plant one query by id, month or page, all with the same rows."""
    rows = stretch.rng.choice(("(no rows)", "count\n0", "balance\n0.00", "name | open\n- | 0"))
    for key in _make_keys(stretch):
        stretch.add_call("query", {"sql": f"SELECT * FROM claims WHERE {key}"}, rows)


@_healthy
def plant_related_searches(stretch: Stretch) -> None:
    """Plant searches on related topics with entirely new results."""
    words, rng = stretch.words, stretch.rng
    name, product = rng.choice(("web_search", "search", "search_docs")), words.make_word()
    for topic in words.pick_topics(rng.randint(6, 12)):
        hits = [f"{words.make_word()} - {words.make_sentence()}" for _ in range(5)]
        stretch.add_call(name, {"query": f"{product} {topic}"}, "\n".join(hits))


@_healthy
def plant_poll_with_progress(stretch: Stretch) -> None:
    """Plant polls whose result shows progress."""
    words, rng = stretch.words, stretch.rng
    job, done, every_s = words.make_id(), 0, rng.choice((5, 15, 30))
    while done < 100:  # noqa: PLR2004 - percent
        done = min(100, done + rng.randint(3, 15))
        stretch.add_call("get_job_status", {"job": job}, f"running, {done} %", duration_s=every_s)


@_healthy
def plant_poll_quietly(stretch: Stretch) -> None:
    """Plant equal polls for a few minutes, until the job is done."""
    words, rng = stretch.words, stretch.rng
    job, every_s = words.make_id(), rng.choice((10, 20, 30))
    for _ in range(rng.randint(8, 15)):
        stretch.add_call("check_build", {"build": job}, "in progress", duration_s=every_s)
    stretch.add_call("check_build", {"build": job}, "finished: success", duration_s=every_s)


@_healthy
def plant_schedule(stretch: Stretch) -> None:
    """Plant checks on a schedule that find nothing wrong."""
    words, rng = stretch.words, stretch.rng
    service, every_s = words.make_word(), rng.choice((300, 600, 900))
    for _ in range(rng.randint(12, 24)):
        stretch.add_call("sleep", {"seconds": every_s}, "", duration_s=every_s)
        stretch.add_call("check_health", {"service": service}, "0 errors in the last interval")


@_healthy
def plant_retry(stretch: Stretch) -> None:
    """Plant a call that fails once or twice for a passing reason, and then succeeds."""
    words, rng = stretch.words, stretch.rng
    for _ in range(rng.randint(2, 4)):
        args, error = (
            {"url": f"https://api.example/{words.make_word()}"},
            rng.choice(
                (
                    "503 Service Unavailable",
                    "Connection reset by peer",
                    "429 Too Many Requests, retry after 2 s",
                )
            ),
        )
        for _ in range(rng.randint(1, 2)):
            stretch.add_call("http_get", args, error, error=True)
        stretch.add_call("http_get", args, words.make_text(2))


@_healthy
def plant_test_fix_test(stretch: Stretch) -> None:
    """Plant test runs with falling failures behind the same exit status, with edits between them."""
    words, rng = stretch.words, stretch.rng
    failures, path = rng.randint(6, 12), words.make_path()
    command = {"command": rng.choice(("make test", "npm test", "pytest -q", "cargo test"))}
    while failures > 0:
        failed = "\n".join(f"FAILED {words.make_word()}" for _ in range(failures))
        text = f"{failed}\n{failures} failed, {40 - failures} passed\nexit status 1"
        stretch.add_call("shell", command, text, error=True)
        change = {"path": path, "old": words.make_sentence(), "new": words.make_sentence()}
        stretch.add_call("edit_file", change, "The file was updated.")
        failures -= rng.randint(1, 3)
    stretch.add_call("shell", command, "40 passed")


@_healthy
def plant_lint_fix(stretch: Stretch) -> None:
    """Plant a linter that repairs through the shell while its errors fall."""
    words, rng = stretch.words, stretch.rng
    errors, command = rng.randint(10, 20), {"command": rng.choice(("ruff check --fix .", "eslint --fix src"))}
    while errors > 0:
        text = f"{words.make_path()}:{rng.randint(1, 300)}: {words.make_sentence()}\nFound {errors} errors."
        stretch.add_call("shell", command, text, error=True)
        edit = f"sed -i 's/{words.make_word()}/{words.make_word()}/' {words.make_path()}"
        stretch.add_call("shell", {"command": edit}, "")
        errors -= rng.randint(2, 5)
    stretch.add_call("shell", command, "All checks passed!")


@_healthy
def plant_paging(stretch: Stretch) -> None:
    """Plant pages of a list, read to the end."""
    words, last = stretch.words, stretch.rng.randint(6, 15)
    for page in range(1, last + 1):
        items = [f"{words.make_id()} {words.pick_thing()}" for _ in range(5)]
        stretch.add_call("list_orders", {"page": page, "size": 5}, "\n".join(items))
    stretch.add_call("list_orders", {"page": last + 1, "size": 5}, "[]")
    stretch.add_reply(f"Those were all {last * 5} orders. {words.make_sentence()}")


@_healthy
def plant_sweep(stretch: Stretch) -> None:
    """Plant one experiment with other parameters each time."""
    words, rng = stretch.words, stretch.rng
    model = words.make_word()
    for rate in rng.sample(range(1, 60), rng.randint(6, 12)):
        score = rng.choice((0.71, 0.72, 0.73))
        args = {"model": model, "learning_rate": rate / 1000, "epochs": 3}
        stretch.add_call("train", args, f"accuracy {score:.2f}")


@_healthy
def plant_read_after_edit(stretch: Stretch) -> None:
    """Plant a file that is read again after each edit."""
    words, rng, path = stretch.words, stretch.rng, stretch.words.make_path()
    lines = [words.make_sentence() for _ in range(6)]
    for _ in range(stretch.count_repeats()):
        stretch.add_call("read_file", {"path": path}, "\n".join(lines))
        place, new = rng.randrange(len(lines)), words.make_sentence()
        stretch.add_call("edit_file", {"path": path, "old": lines[place], "new": new}, "Edited.")
        lines[place] = new


@_healthy
def plant_status_between(stretch: Stretch) -> None:
    """Plant the same status command between steps of work."""
    words = stretch.words
    command = {"command": stretch.rng.choice(("git status --short", "pwd", "kubectl get pods", "ls"))}
    status = words.make_text(1)
    for _ in range(stretch.count_repeats(5, 10)):
        stretch.add_call("shell", command, status)
        stretch.add_call("read_file", {"path": words.make_path()}, words.make_text())
        change = {"path": words.make_path(), "content": words.make_text(2)}
        stretch.add_call("write_file", change, "Written.")


@_healthy
def plant_fan_out(stretch: Stretch) -> None:
    """Plant calls on different targets that are made together."""
    words, rng = stretch.words, stretch.rng
    name = rng.choice(("fetch", "summarise", "get_weather"))
    calls = [(name, {"target": words.make_word()}, words.make_sentence()) for _ in range(rng.randint(6, 16))]
    stretch.add_batch(calls)


@_healthy
def plant_form(stretch: Stretch) -> None:
    """Plant a form that is filled row by row."""
    words, rng = stretch.words, stretch.rng
    for row in range(1, rng.randint(6, 12)):
        stretch.add_call("type_text", {"field": f"row {row} name", "text": words.make_word()}, "ok")
        stretch.add_call("type_text", {"field": f"row {row} amount", "text": str(rng.randint(1, 999))}, "ok")
        stretch.add_call("click", {"element": "Add row"}, "ok")


@_healthy
def plant_asked_repetition(stretch: Stretch) -> None:
    """Plant what the user asked to be repeated."""
    rng, n = stretch.rng, stretch.rng.randint(6, 12)
    command = rng.choice(("pytest tests/test_sync.py", "make bench", "curl -s localhost:8080/ping"))
    stretch.add_user_message(
        rng.choice(
            (
                f"Run `{command}` {n} times, I want to know whether it is flaky.",
                f"Please repeat `{command}` {n} times in a row and tell me how often it fails.",
                f"Execute `{command}` again and again, {n} times, to measure it.",
            )
        )
    )
    for _ in range(n):
        stretch.add_call("shell", {"command": command}, "1 passed")
    stretch.add_reply(f"All {n} runs passed.")


def _make_keys(stretch: Stretch) -> list[str]:
    """Return the conditions of a query by id, by month or by page."""
    words, rng = stretch.words, stretch.rng
    shape = rng.randrange(3)
    if shape == 0:
        return [f"customer_id = '{words.make_id()}'" for _ in range(rng.randint(8, 20))]
    if shape == 1:
        return [f"month = '{month}'" for month in _MONTHS]
    return [f"page = {page}" for page in range(1, rng.randint(8, 20))]

"""Every answer of the API, from a real server over what the real monitor wrote."""

from contextlib import closing

import msgspec
import pytest
from msgspec import structs

from steadyhelm import DriftAction, DriftMonitor
from steadyhelm.judge import JudgedReport
from steadyhelm.server.app import find_handler
from steadyhelm.server.records.common import Problem
from steadyhelm.server.routes import PREFIX, ROUTES

READS = [route for route in ROUTES if route.method == "GET" and route.answer is not None]


def get(client, path, **query):
    response = client.get(PREFIX + path, params=query)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.fixture
def loop(client):
    """The run that loops."""
    (found,) = get(client, "/runs", kind="loop")["runs"]
    return found


@pytest.fixture
def incident(client, loop):
    ids = get(client, f"/runs/{loop['key']}")["incidents"]
    return next(it for it in ids if get(client, f"/incidents/{it}")["row"]["kind"] == "loop")


def fill(path, loop, incident):
    values = {"run": loop["key"], "agent": loop["agent"]["key"], "step": 8, "incident": incident}
    return path.format(**values)


class TestEveryRoute:
    def test_has_a_handler(self):
        """Each route of the table is answered by a function of its name."""
        others = {"sign_in", "stream", "download_run"}
        assert all(callable(find_handler(route.name)) for route in ROUTES if route.name not in others)

    @pytest.mark.parametrize("route", READS, ids=lambda route: route.name)
    def test_answers_what_it_says(self, client, loop, incident, route):
        """Each answer has the type of the table, and at most 200 kB."""
        query = {"find_run": {"run": loop["run_id"]}, "search": {"q": "mend"}}.get(route.name, {})
        response = client.get(PREFIX + fill(route.path, loop, incident), params=query)

        assert response.status_code == 200, response.text
        assert len(response.content) <= 200_000
        msgspec.json.decode(response.content, type=route.answer, strict=True)

    @pytest.mark.parametrize("path", ["/runs/999", "/agents/999", "/incidents/nothing", "/runs/1/steps/999"])
    def test_says_what_is_missing(self, client, path):
        """What is not there is a problem with a sentence."""
        response = client.get(PREFIX + path)
        assert (404, "not_found") == (response.status_code, response.json()["code"])
        msgspec.json.decode(response.content, type=Problem)

    @pytest.mark.parametrize(
        "query",
        ["limit=x", "nothing=1", "state=lost", "after=x_y", "since=nan", "agent=1,x", "limit=1&limit=2"],
    )
    def test_refuses_parameters_that_do_not_fit(self, client, query):
        """A parameter that is not known, given twice or of another type is refused, and never an error."""
        response = client.get(f"{PREFIX}/runs?{query}")
        assert (400, "invalid") == (response.status_code, response.json()["code"])


class TestRuns:
    def test_pages_lose_no_run(self, client):
        """Pages of two hold every run once, in one order."""
        seen, after = [], {}
        while True:
            page = get(client, "/runs", limit=2, **after)
            seen += [run["key"] for run in page["runs"]]
            if page["next"] is None:
                break
            after = {"after": page["next"]}
        assert sorted(seen, reverse=True) == seen == [run["key"] for run in get(client, "/runs")["runs"]]
        assert 7 == len(set(seen))

    @pytest.mark.parametrize(
        ("query", "count"),
        [
            ({"kind": "loop"}, 1),
            ({"kind": "goal"}, 0),
            ({"severity": "HIGH"}, 1),
            ({"state": "ended"}, 7),
            ({"state": "running,waiting"}, 0),
            ({"response": "remind,replan"}, 1),
            ({"response": "rollback"}, 1),
            ({"response": "stop"}, 0),
            ({"q": "rename"}, 6),
            ({"q": "test"}, 1),
            ({"agent": 1, "kind": "loop", "since": 1}, 1),
            ({"agent": 2}, 0),
        ],
    )
    def test_filters(self, client, query, count):
        """Filters keep the runs that match all of them."""
        found = get(client, "/runs", **query)
        assert (count, count) == (len(found["runs"]), found["total"])

    def test_the_list_has_the_levels_of_the_settings(self, client, loop):
        """The list draws the same levels as the page of a run: those that are set, not the defaults."""
        levels = {"remind": 0.3, "replan": 0.5, "rollback": 0.7, "stop": 0.9}
        assert levels == get(client, "/runs")["levels"]
        assert levels == get(client, f"/runs/{loop['key']}")["levels"]

    def test_a_row_says_what_happened(self, loop):
        """A row has the loop, the response with its outcome, the peak and the cost."""
        assert (["test"], False) == (loop["loop"]["tools"], loop["loop"]["declared"])
        assert loop["loop"]["count"] >= 8
        assert "ask" == loop["response"]["response"]
        assert loop["peak"] > 0.3
        assert loop["cost_usd"] == pytest.approx(0.09)
        assert "CRITICAL" == loop["top_severity"]

    def test_figures_stand_beside_what_is_normal(self, client, loop):
        """The figures have the range of the clean runs."""
        figures = get(client, f"/runs/{loop['key']}")["figures"]
        assert (9, 0, 6) == (
            figures["failed"]["value"],
            figures["failed"]["normal"]["p95"],
            figures["failed"]["normal"]["runs"],
        )
        assert 3500 == figures["tokens"]["limit"]  # a loop made the budget shrink

    def test_a_run_says_who_checked_it(self, client, loop):
        """An ended run names the detectors that looked, and why others could not; none is in both lists."""
        runs = get(client, "/runs")["runs"]
        for run in (loop, runs[-1]):
            detail = get(client, f"/runs/{run['key']}")
            missing = {it["name"]: it["reason"] for it in detail["not_checked"]}

            assert {"action_loop", "failing_loop", "stagnation"} <= set(detail["checked_by"])
            assert "user_correction" in missing
            assert not set(missing) & set(detail["checked_by"])
            assert all(missing.values())

    def test_a_child_run_says_which_step_started_it(self, client, database):
        """
        The call during which a child began is its step; while that call goes on, the latest step is.

            parent  1 reply  2 delegate(first child)  3 reply  (second child began)
        """
        with closing(DriftMonitor("lead", db_path=database, mode="observe", alert_webhook="")) as monitor:
            parent = monitor.start_run(goal="plan")
            monitor.record_event("llm_request", "model", run_id=parent, output_data={"text": "I delegate."})
            monitor.end_run(monitor.start_run(goal="first", parent_run_id=parent))
            monitor.record_event("tool_call", "delegate", run_id=parent, output_data={"text": "done"})
            monitor.record_event("llm_request", "model", run_id=parent, output_data={"text": "Once more."})
            monitor.end_run(monitor.start_run(goal="second", parent_run_id=parent))
        key = get(client, "/runs/find", run=parent)["key"]
        children = get(client, f"/runs/{key}")["children"]
        assert [("first", 2), ("second", 3)] == [(it["run"]["goal"], it["step"]) for it in children]

    def test_a_run_file_comes_back(self, client, loop, tmp_path):
        """A download is a run file that our reader reads, with every step."""
        response = client.get(f"{PREFIX}/runs/{loop['key']}/file")
        name = f"run-{loop['key']}.jsonl"
        assert f'attachment; filename="{name}"' == response.headers["content-disposition"]
        line = msgspec.json.decode(response.content)
        assert (loop["run_id"], loop["steps"]) == (line["run_id"], len(line["events"]))


class TestLanes:
    def test_lanes_share_their_steps(self, client, loop):
        """Points begin at step 1 and end at the last; arcs lead to earlier steps."""
        series = get(client, f"/runs/{loop['key']}/series")
        points = series["points"]
        assert list(range(1, loop["steps"] + 1)) == points["step"]
        assert len({len(column) for column in points.values()}) == 1
        assert (14, 1) == (points["last_same"][-1], points["same_result"][-1])
        assert series["score"]["score"][0] == 0.0
        assert max(series["score"]["score"]) == pytest.approx(loop["peak"], abs=1e-3)
        (bracket,) = series["brackets"]
        assert bracket["words"].endswith("with the same error")
        assert loop["steps"] == bracket["last"]
        assert [marker["step"] for marker in series["markers"]] == sorted(
            marker["step"] for marker in series["markers"]
        )

    def test_a_long_run_becomes_columns(self, client, loop):
        """More steps than asked for become columns, in which nothing is lost."""
        key = loop["key"]
        whole = get(client, f"/runs/{key}/series", columns=50)["points"]
        assert whole is not None
        tail = get(client, f"/runs/{key}/series", first=10, last=12)["points"]
        assert [10, 11, 12] == tail["step"]

    def test_a_recording_names_the_steps_that_would_not_have_run(self, client, loop, database):
        """Those after a new plan was due, until the user's next message; a steered run has none."""
        monitor = DriftMonitor("watched", db_path=database, mode="observe", alert_webhook="")
        with monitor.run(goal="mend the parser") as run:
            due = None
            for place in range(40):
                failed = {"output_data": {"text": "1 failed"}, "error": "1 failed"}
                decision = run.record("tool_call", "test", input_data={"all": True}, **failed)
                if due is None and decision.action.level >= DriftAction.SUMMARIZE_REPLAN.level:
                    due = place + 1
            run.record("user_message", "user", output_data={"text": "Stop testing."})
            run.record("tool_call", "read", input_data={"path": "a"}, output_data={"text": "b"})
        monitor.close()
        key = get(client, "/runs/find", run=run.run_id)["key"]

        assert {"first": due + 1, "last": 40} == get(client, f"/runs/{key}/series")["not_run"]
        assert get(client, f"/runs/{loop['key']}/series")["not_run"] is None

    def test_the_budget_falls(self, client, loop):
        """What is left of the tokens falls from the limit to what was not used."""
        (lane,) = get(client, f"/runs/{loop['key']}/series")["budgets"]
        assert ("tokens", 5000.0, 3500.0) == (lane["meter"], lane["start"], lane["limit"])
        assert lane["start"] == lane["left"][0]
        assert lane["left"] == sorted(lane["left"], reverse=True)
        assert lane["limit"] - loop["tokens"] == lane["left"][-1]
        assert [("less", 3500.0)] == [(it["reason"], it["limit"]) for it in lane["extensions"]]

    def test_steps_come_newest_first(self, client, loop):
        """Steps are paged and filtered; a step has its payloads."""
        key = loop["key"]
        page = get(client, f"/runs/{key}/steps", limit=4)
        rest = get(client, f"/runs/{key}/steps", before=page["next"])
        steps = [step["step"] for step in (*page["steps"], *rest["steps"])]
        assert list(range(loop["steps"], 0, -1)) == steps
        assert 9 == len(get(client, f"/runs/{key}/steps", only="failed")["steps"])
        assert 8 == len(get(client, f"/runs/{key}/steps", only="repeated")["steps"])
        step = get(client, f"/runs/{key}/steps/{loop['steps']}")
        assert '{"all":true}' == step["arguments"]["text"]

    def test_recurrence_says_what_repeats(self, client, loop):
        """The same call has the same number, and the sentence reads the picture."""
        found = get(client, f"/runs/{loop['key']}/recurrence", first=7)
        assert [0] == sorted(set(found["call"]))
        assert (1, 36) == (found["period"], found["same_result_pairs"])
        assert found["sentence"].startswith("A grid")


def test_what_a_judge_answered(client, database):
    """The run has each answer of a judge with its cost; what no judge can have said is left out."""
    report = JudgedReport(
        question_id="q",
        about="loop",
        subject="ask",
        place=3,
        label="healthy",
        confidence=0.9,
        quote="still building",
        input_tokens=400,
        output_tokens=20,
        cost_usd=0.002,
    )
    with closing(DriftMonitor("waiter", db_path=database, alert_webhook="")) as monitor:
        run = monitor.start_run(goal="wait")
        for metadata in (report.to_metadata(), {"label": "healthy"}):
            monitor.record_event("state_transition", "judged", run_id=run, metadata=metadata)
    key = get(client, "/runs/find", run=run)["key"]
    (judged,) = get(client, f"/runs/{key}")["judged"]
    assert (report.label, 420, 0.002, "still building", True) == (
        judged["label"],
        judged["tokens"],
        judged["cost_usd"],
        judged["quote"],
        judged["asked"],
    )


def test_what_a_judge_changed(client, database):
    """The incident has the verdict that moved it; `/judge` sums up the runs of one agent, or of all."""
    report = JudgedReport(
        question_id="q",
        about="loop",
        subject="s",
        place=3,
        label="healthy",
        confidence=0.9,
        quote="still building",
        pattern="loop/ask",
        input_tokens=400,
        output_tokens=20,
        cost_usd=0.002,
    )
    failed = structs.replace(report, question_id="n", label="none", confidence=0.0, reason="no answer")
    with closing(DriftMonitor("waiter", db_path=database, alert_webhook="")) as monitor:
        run = monitor.start_run(goal="wait")
        for _ in range(3):
            monitor.record_event("tool_call", "ask", run_id=run, input_data={"job": 7}, output_data="no")
        for it in (report, failed):
            monitor.record_event("state_transition", "judged", run_id=run, metadata=it.to_metadata())
    key = get(client, "/runs/find", run=run)["key"]
    detail = get(client, f"/runs/{key}")
    assert ["MED → LOW", ""] == [it["moved"] for it in detail["judged"]]
    (incident,) = detail["incidents"]
    assert {
        "step": 4,
        "label": "healthy",
        "confidence": 0.9,
        "quote": "still building",
        "moved_from": "MED",
        "moved_to": "LOW",
        "cost_usd": 0.002,
    } == get(client, f"/incidents/{incident}")["judged"]
    summary = get(client, "/judge", agent=detail["run"]["agent"]["key"])
    assert (1, 2, 840, 0.004) == tuple(summary[it] for it in ("runs", "asked", "tokens", "cost_usd"))
    assert (1, 0, 0) == tuple(summary[it] for it in ("cleared", "lowered", "raised"))
    assert [{"name": "loop: healthy", "count": 1}] == summary["verdicts"]
    assert [{"name": "no answer", "count": 1}] == summary["no_verdict"]
    assert summary["asked"] == get(client, "/judge")["asked"]
    assert 0 == get(client, "/judge", agent=detail["run"]["agent"]["key"], since=4e9)["runs"]


class TestIncidents:
    def test_the_why_card(self, client, incident):
        """A why card has sentence, evidence, what was said, and what is normal."""
        card = get(client, f"/incidents/{incident}")
        assert "test called" in card["sentence"]
        assert card["row"]["first_step"] < card["row"]["last_step"]
        assert (True, True) == (card["pairs"][0]["same_arguments"], card["pairs"][0]["same_result"])
        assert card["said"][0]["guidance"]
        assert ("test", "") == (card["declare"], card["declared"])
        evidence = get(client, f"/incidents/{incident}/evidence", pair=0)
        assert '{"all":true}' == evidence["arguments"][1]["text"]

    def test_groups(self, client, incident):
        """Incidents of one agent, kind and pattern are one group."""
        (group,) = get(client, "/incidents", kind="loop")["groups"]
        assert (incident, "test", 1, 0) == tuple(
            group[it] for it in ("newest", "pattern", "count", "ongoing")
        )
        assert 1 == sum(group["days"])
        assert [] == get(client, "/incidents", tab="closed")["groups"]
        detail = get(client, f"/incidents/{incident}/group")
        assert detail["newest"]["row"]["first_step"] == group["first_step"] == detail["group"]["first_step"]
        assert [incident] == [it["incident"]["incident_id"] for it in detail["runs"]]


class TestOverview:
    def test_one_row_an_agent(self, client):
        """The overview has today's figures and the agents."""
        found = get(client, "/overview")
        assert (False, 7, 1) == (found["empty"], found["runs"]["value"], found["agents_total"])
        (agent,) = found["agents"]
        assert ("worker", "drifting", 7) == (agent["name"], agent["state"], agent["runs"]["value"])
        assert agent["drift_days"][-1] is not None
        assert agent["spend"]["value"] == pytest.approx(0.09)

    def test_search_finds_by_beginning(self, client):
        """A beginning finds runs by goal, agents and tools."""
        found = [hit for text in ("ren", "wor", "tes") for hit in get(client, "/search", q=text)["hits"]]
        assert {"run", "agent", "tool"} == {hit["kind"] for hit in found}
        assert [] == get(client, "/search", q="%")["hits"]


def test_health_names_what_was_not_checked(client):
    """The reasons are those of the agents' latest ended runs."""
    missing = {it["name"]: it["reason"] for it in get(client, "/health")["not_checked"]}
    latest = next(run for run in get(client, "/runs")["runs"] if run["state"] == "ended")
    detail = get(client, f"/runs/{latest['key']}")

    assert missing
    assert missing.items() <= {it["name"]: it["reason"] for it in detail["not_checked"]}.items()


class TestAgent:
    def test_metrics_and_transitions(self, client, loop):
        """An agent has eight metrics of its runs, and the transitions that grew are marked."""
        key = loop["agent"]["key"]
        metrics = get(client, f"/agents/{key}/metrics")["metrics"]
        assert 8 == len(metrics)
        assert 7 == len(metrics[0]["points"])
        found = get(client, f"/agents/{key}/transitions")
        assert {"read", "test"} <= {node["name"] for node in found["nodes"]}
        edge = next(it for it in found["edges"] if (it["from_"], it["to"]) == ("test", "test"))
        assert (8, 0) == (edge["now_count"], edge["baseline_count"])

"""What a judge was asked about a run, beside what was noticed."""

from contextlib import closing

from playwright.sync_api import expect
from recorded_agents import watch

from steadyhelm.judge import JudgedReport


def record_judged(database) -> str:
    """Record a run with one answer of a judge, whose words are hostile."""
    report = JudgedReport(
        question_id="q",
        about="loop",
        subject="get_export",
        place=3,
        label="healthy",
        confidence=0.9,
        quote="<b>still building</b>",
        pattern="loop/get_export",
        input_tokens=1_400,
        output_tokens=20,
        cost_usd=0.02,
    )
    with closing(watch("judged agent", database)) as monitor, monitor.run(goal="Wait") as run:
        for _ in range(4):
            run.record("tool_call", "get_export", input_data={"job": 7}, output_data={"rows": 0})
        monitor.record_event("state_transition", "judged", run_id=run.run_id, metadata=report.to_metadata())
        return run.run_id


def test_a_run_shows_what_a_judge_answered(visit, changing_server):
    """
    Verdict, how sure it is, what it quotes and what the questions cost; without a judge there is nothing.
    """
    run = record_judged(changing_server.database)
    page = visit(f"/runs/{changing_server.find_run(run)}", changing_server)
    judged = page.get_by_test_id("judged")
    expect(judged).to_contain_text("1 question asked, 1,420 tokens, $0.02")
    expect(judged).to_contain_text("healthy")
    expect(judged).to_contain_text("90 % sure")
    expect(judged).to_contain_text("MED → LOW")
    expect(judged.locator("blockquote")).to_have_text("<b>still building</b>")
    expect(page.get_by_test_id("judged-line")).to_contain_text(
        "A judge said healthy at step 5 (90 % sure): MED → LOW"
    )
    page.goto(f"{changing_server.url}/#/settings")
    line = page.get_by_test_id("judge-line")
    expect(line).to_contain_text("1 question about the latest")
    expect(line).to_contain_text("1 incident cleared, 0 lowered, 0 raised")
    clean = changing_server.runs["clean"]
    page.goto(f"{changing_server.url}/#/runs/{changing_server.find_run(clean)}")
    expect(page.get_by_role("region", name="Why")).to_contain_text("Nothing noticed in 5 steps.")

    expect(judged).to_have_count(0)

import msgspec

from steadyhelm.decisions import PROCEED, Decision, DriftAction
from steadyhelm.engine.incident_tracker import QUIET_EVENTS, IncidentTracker
from steadyhelm.engine.totals import Totals
from steadyhelm.findings import DriftEvent, Severity
from steadyhelm.incidents import MAX_INCIDENT_EVENTS
from steadyhelm.testing.traces import AGENT, RUN, events

REMINDED = Decision(action=DriftAction.INJECT_REMINDER, verdict="guide", guidance="Stop that.")


def found(event, score=0.6, detector="action_loop", kind="loop", **context):
    return DriftEvent(
        agent_id=AGENT,
        run_id=RUN,
        detector=detector,
        kind=kind,
        severity=Severity.from_score(score),
        score=score,
        message=f"scored {score}",
        suggested_action="s",
        timestamp=event.timestamp,
        event_id=f"{event.event_id}/{detector}",
        context={"event_ids": [event.event_id], **context},
    )


def drawn(picture, episodes=None):
    """The incidents that changed at each event; `!` is a finding, `+` a worse one, `-` one only noticed."""
    episodes = episodes if episodes is not None else IncidentTracker()
    scores = {"!": 0.6, "+": 0.95, "-": 0.3}
    changed = []
    for step, event in zip(picture, events("." * len(picture)), strict=True):
        findings = [found(event, scores[step])] if step in scores else []
        episodes.judge(event, findings)
        changed.append(episodes.observe(event, findings, REMINDED if step in "!+" else PROCEED))
    return changed


class TestOneEpisode:
    def test_many_findings_are_one_incident(self):
        """
        A loop of five findings is one incident with five findings.
        """
        changed = drawn(".!!!!!")
        incidents = [incident for step in changed for incident in step]

        assert [[], 1, 2, 3, 4, 5] == [[], *(incident.findings for incident in incidents)]
        assert 1 == len({incident.incident_id for incident in incidents})

    def test_where_it_was_opened_and_last_seen(self):
        """
        An incident knows the event it began at and the last one that belongs to it.
        """
        (incident,) = drawn("..!.!")[-1]

        assert (2, 4, "open", None) == (
            incident.opened_seq,
            incident.last_seq,
            incident.state,
            incident.closed_at,
        )

    def test_the_peak_gives_the_words(self):
        """
        The worst finding gives peak, severity and message; milder ones after it take nothing back.
        """
        (incident,) = drawn("!+!")[-1]

        assert (0.95, "CRITICAL", "scored 0.95") == (incident.peak, incident.severity, incident.message)

    def test_what_follows_from_blocked_calls_is_no_headline(self):
        """
        An agent whose calls are denied can only talk: what another detector sees then replaces no headline.
        """
        tracker = IncidentTracker()
        first, refused, talk, again = events("....")
        tracker.observe(first, [found(first)], REMINDED)
        tracker.record_refusal(refused, DriftAction.SUMMARIZE_REPLAN, "not run", Totals())
        tracker.observe(talk, [found(talk, 0.95, detector="repetitive_text")], PROCEED)

        assert ("scored 0.6", 0.95) == (tracker.open["loop"].message, tracker.open["loop"].peak)
        tracker.observe(again, [found(again, 0.97)], PROCEED)
        assert "scored 0.97" == tracker.open["loop"].message

    def test_what_is_only_noticed_opens_nothing(self):
        """
        A LOW finding neither opens an incident nor keeps one going.
        """
        assert [[]] * 3 == drawn("---")
        assert "closed" == drawn("!" + "-" * QUIET_EVENTS)[-1][0].state

    def test_the_same_trace_gives_the_same_id(self):
        """
        A replay finds the same incident, not another one.
        """
        assert drawn(".!!") == drawn(".!!")

    def test_proof_is_kept_without_end_in_neither_direction(self):
        """
        Each proof is kept once, and only the newest of very many.
        """
        (incident,) = drawn("!" * 200)[-1]

        assert MAX_INCIDENT_EVENTS == len(incident.event_ids) == len(set(incident.event_ids))
        assert "run.199" == incident.event_ids[-1]

    def test_a_hard_limit_is_marked(self):
        """
        An incident about a hard limit says so.
        """
        (event,) = events(".")
        (incident,) = IncidentTracker().observe(event, [found(event, hard_limit=True)], PROCEED)

        assert incident.hard_limit


class TestClosing:
    def test_silence_closes_it(self):
        """
        After ten events without a finding the incident is over.
        """
        changed = drawn("!" + "." * QUIET_EVENTS)

        assert [[]] * (QUIET_EVENTS - 1) == changed[1:-1]
        assert ("closed", events("." * 11)[10].timestamp) == (changed[-1][0].state, changed[-1][0].closed_at)

    def test_a_finding_in_time_keeps_it_open(self):
        """
        A finding after nine quiet events still belongs to it.
        """
        (incident,) = drawn("!" + "." * (QUIET_EVENTS - 1) + "!")[-1]

        assert (2, "open") == (incident.findings, incident.state)

    def test_a_slow_loop_is_one_incident(self):
        """
        Where thirteen steps lie between two repetitions, the incident waits for the next but one.
        """
        tracker = IncidentTracker()
        trace = events("." * 92)
        changed = []
        for event in trace:
            evidence = [it.event_id for it in trace[: event.seq + 1 : 13]]
            is_repetition = event.seq in {39, 52, 65}
            findings = [found(event, event_ids=evidence, repeat_count=len(evidence))] if is_repetition else []
            changed += tracker.observe(event, findings, PROCEED)

        assert ["open", "open", "open", "closed"] == [it.state for it in changed]
        assert {3} == {it.findings for it in changed[-2:]}
        assert trace[65 + 26].timestamp == changed[-1].closed_at

    def test_afterwards_another_one_opens(self):
        """
        Drift that comes back after it was over is another incident.
        """
        episodes = IncidentTracker()
        changed = drawn("!" + "." * QUIET_EVENTS + "!", episodes)

        assert changed[0][0].incident_id != changed[-1][0].incident_id
        assert 2 == episodes.total

    def test_the_runs_end_closes_all(self):
        """
        When the run is over, so are its incidents.
        """
        episodes = IncidentTracker()
        drawn("!", episodes)

        assert [("closed", 99.0)] == [(it.state, it.closed_at) for it in episodes.close_all(99.0, 9)]
        assert [] == episodes.close_all(99.0, 9)

    def test_two_kinds_have_an_incident_each(self):
        """
        Findings of two kinds are two incidents, which end apart.
        """
        episodes = IncidentTracker()
        first, second, *rest = events("." * (QUIET_EVENTS + 2))
        astray = found(first, detector="goal_drift", kind="goal")
        episodes.observe(first, [found(first), astray], PROCEED)
        episodes.observe(second, [found(second)], PROCEED)
        closed = [
            incident.detector for event in rest[:-1] for incident in episodes.observe(event, (), PROCEED)
        ]

        assert ["goal_drift"] == closed
        assert ["loop"] == list(episodes.open)


class TestSeveralDetectors:
    def test_the_same_episode_is_one_incident(self):
        """
        A loop that several detectors see is one incident, under the name of the first to see it.
        """
        episodes = IncidentTracker()
        first, second = events("..")
        episodes.observe(first, [found(first)], REMINDED)
        (incident,) = episodes.observe(second, [found(second, detector="failing_loop")], REMINDED)

        assert ("action_loop", 2, 1) == (incident.detector, incident.findings, episodes.total)

    def test_at_one_event(self):
        """
        What several see at one event counts once, was answered once, and the worst of it gives the words.
        """
        (event,) = events(".")
        both = [found(event), found(event, 0.95, detector="failing_loop")]
        (incident,) = IncidentTracker().observe(event, both, REMINDED)

        assert (1, 1, 0.95, "scored 0.95") == (
            incident.findings,
            len(incident.interventions),
            incident.peak,
            incident.message,
        )

    def test_either_keeps_it_going(self):
        """
        It is over when neither has seen anything for a while.
        """
        episodes = IncidentTracker()
        trace = events("." * (2 * QUIET_EVENTS))
        episodes.observe(trace[0], [found(trace[0])], PROCEED)
        later = trace[QUIET_EVENTS - 1]
        episodes.observe(later, [found(later, detector="failing_loop")], PROCEED)
        closed = [it for event in trace[QUIET_EVENTS:] for it in episodes.observe(event, (), PROCEED)]

        assert [2 * QUIET_EVENTS - 1] == [round((it.closed_at - trace[0].timestamp) * 10) for it in closed]


class TestAnswers:
    def test_every_answer_is_noted(self):
        """
        What was advised, when, and in which words, is kept with the incident.
        """
        (incident,) = drawn("!!")[-1]

        assert [
            ("INJECT_REMINDER", "guide", 0, "Stop that."),
            ("INJECT_REMINDER", "guide", 1, "Stop that."),
        ] == [(it.action, it.verdict, it.seq, it.guidance) for it in incident.interventions]

    def test_the_latest_answer_to_each_kind_is_known(self):
        """
        What was last answered to a kind of drift is remembered, also when its incident is over.
        """
        episodes = IncidentTracker()
        drawn("!" + "." * QUIET_EVENTS, episodes)

        assert ({}, {"loop": ("INJECT_REMINDER", "worked", False)}) == (episodes.open, episodes.answered)

    def test_answers_are_bounded(self):
        """
        Of very many answers the last twenty are kept.
        """
        (incident,) = drawn("!" * 100)[-1]

        assert (20, 99) == (len(incident.interventions), incident.interventions[-1].seq)

    def test_open_incidents_survive_encoding(self):
        """
        Open incidents can be put aside and taken up again.
        """
        episodes = IncidentTracker()
        drawn("!+", episodes)

        assert episodes == msgspec.msgpack.decode(msgspec.msgpack.encode(episodes), type=IncidentTracker)

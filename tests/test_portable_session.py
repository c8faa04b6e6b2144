"""A session is saved between two events and continued in another process, and nobody can tell.

The golden file was made once, by `python tests/test_portable_session.py` with the sources on PYTHONPATH, and
is never made again: another version of the format gets a file of its own beside it.
"""

import json
import pickle
import random
import zlib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from msgspec import structs

from steadyhelm import BaselineStats, FormatError, RunInfo, Settings, make_session, save_session
from steadyhelm.baselines import Cusum, Spread, Trend
from steadyhelm.components import make_detector_factory, make_steering
from steadyhelm.engine.agent_knowledge import Reference
from steadyhelm.engine.health import Health
from steadyhelm.engine.session_factory import SessionFactory
from steadyhelm.events import LLM_REQUEST, STATE_TRANSITION, TOOL_CALL, USER_MESSAGE, TraceEvent
from steadyhelm.incidents import Limits, Thresholds
from steadyhelm.portable_session import FORMAT_VERSION
from steadyhelm.recordings.run_file import ReadRun
from steadyhelm.replay import Replay, Replayer
from steadyhelm.testing.traces import AGENT, RUN, events, healthy

GOLDEN = Path(__file__).parent / "golden"
VERSIONS = (1,)
INFO = RunInfo(agent_id=AGENT, run_id=RUN, goal="finish every part of the plan", started_at=1_700_000_000.0)
LEARNT = BaselineStats(
    agent_id=AGENT,
    is_calibrated=True,
    calibration_runs=60,
    common_sequences=[["a", "b", "c"]],
    mean_tokens_per_run=2000.0,
    spreads={"tokens": Spread(p50=2000.0, p95=2500.0)},
    trends={"tokens": Trend(learning=Cusum(count=60, mean=3.0, squares=10.0, total=4.0))},
    transitions={"a": {"b": 40, "a": 3}, "b": {"c": 40}},
    surprises=[0.5] * 40,
    embedder="idf",
    goal_peaks=[0.5] * 40,
    aside_runs={"a": {"note": 5}},
)
MARKED = Reference(
    LEARNT, Thresholds({"action_loop": (Limits(0.5),)}), None, {"b": "poll", "no such tool": "read"}
)
REFERENCES = [None, LEARNT, MARKED]
SETTINGS = [
    Settings(),
    Settings(budget_steps=12, budget_wall_s=2.0, budget_tokens=4_000, guidance_remind_every=5, mode="guide"),
    Settings(detectors={"goal_drift": {"similarity_threshold": 0.3}}, tools={"c": {"kind": "poll"}}),
]
REPORTS = {
    "P": ("plan", {"steps": [{"title": "read", "status": "done"}, {"title": "write", "status": "pending"}]}),
    "G": ("progress", {"progress": 0.4, "stuck": 0.7}),
    "C": ("checkpoint_taken", {}),
    "D": ("guidance_delivered", {"seq": 3}),
    "F": ("call_refused", {"action": "INJECT_REMINDER", "reason": "the same call again"}),
}
STEPS = st.text(alphabet="aabbcABr. xPGCDF", max_size=40)


def trace(picture):
    """A picture as events as a recording has them; capitals P G C D F are reports of the host."""
    drawn = []
    for event in events("".join("." if step in REPORTS else step for step in picture)):
        step = picture[event.seq]
        if step in REPORTS:
            name, said = REPORTS[step]
            event = structs.replace(  # noqa: PLW2901
                event, action_type=STATE_TRANSITION, action_name=name, input_data=None, metadata=said
            )
        drawn.append(structs.replace(event, event_id=str(event.seq)))
    return drawn


def judge(session, run_events, between=lambda session: session):
    """Everything that is said of a run; `between` is called with the session before every event."""
    replay = Replay(session)
    for event in run_events:
        replay.session = between(replay.session)
        replay.observe(event)
    replay.session = between(replay.session)
    run = ReadRun(
        info=session.run,
        events=run_events,
        entries=len(run_events),
        line=1,
        labels=[],
        outcome="",
        meta={},
        extra={},
        problems=[],
        unread=0,
    )
    return replay.end(run)


def saved_and_continued(settings):
    return lambda session: make_session(settings, state=save_session(session))


class TestSavedAnywhere:
    @effort(max_examples=60)
    @given(STEPS.filter(bool), st.sampled_from(SETTINGS), st.sampled_from(REFERENCES))
    def test_between_all_events_nothing_changes(self, picture, settings, reference):
        """
        Saved and continued between any two events, a run has the same report, incidents, answers and summary.
        """
        run_events = trace(picture)
        whole = judge(make_session(settings, INFO, reference), run_events)
        cut = judge(make_session(settings, INFO, reference), run_events, saved_and_continued(settings))

        assert whole == cut

    def test_a_judge_says_the_same(self):
        """
        A session that was made by hand says what `steadyhelm scan` says.
        """
        run_events = trace("aaaabr x" * 4)
        by_hand = judge(make_session(Settings(), INFO, BaselineStats(agent_id=AGENT)), run_events)

        assert Replayer(Settings()).judge(by_hand.run) == by_hand

    def test_the_state_has_run_and_baseline(self):
        """
        What a run is compared with stays what it was when the run began, whatever is passed later.
        """
        first = make_session(Settings(), INFO, MARKED)
        second = make_session(Settings(), structs.replace(INFO, goal="other"), None, save_session(first))

        assert (INFO, LEARNT, MARKED.thresholds) == (second.run, second.baseline, second.thresholds)
        assert {"b": "poll", "no such tool": "read"} == second.tool_kinds

    def test_the_clock_of_a_budget_goes_on(self):
        """
        The time between two events counts, also where the session was saved between them.

            event at 1 s    saved    event at 61 s: a budget of 30 s is used up
        """
        settings = Settings(budget_wall_s=30.0)
        early, late = (structs.replace(it, timestamp=at) for it, at in zip(trace(".."), (1, 61), strict=True))
        session = make_session(settings, structs.replace(INFO, started_at=0.0))
        session.observe(early)
        session = make_session(settings, state=save_session(session))
        session.observe(late)

        assert session.drift.is_exhausted


class TestState:
    @given(st.binary(max_size=60))
    def test_garbage_is_refused(self, garbage):
        """
        Bytes that are no saved session are refused with a FormatError.
        """
        with pytest.raises(FormatError, match="cannot be read"):
            make_session(Settings(), state=garbage)

    @given(st.data())
    def test_damaged_states_do_no_harm(self, data):
        """
        A damaged state is refused, or the run goes on.
        """
        session = make_session(Settings(), INFO)
        judge(session, trace("aaar"))
        plain = bytearray(zlib.decompress(save_session(session)))
        plain[data.draw(st.integers(0, len(plain) - 1))] = data.draw(st.integers(0, 255))
        try:
            other = make_session(Settings(), state=zlib.compress(bytes(plain)))
        except FormatError:
            return
        assert other.observe(structs.replace(trace("a")[0], seq=max(50, other.next_seq)))

    def test_another_version_is_refused(self):
        """
        A session of another version of the format is refused, and the message says which.
        """
        saved = msgspec.msgpack.decode(zlib.decompress(save_session(make_session(Settings(), INFO))))
        saved["version"] = 99

        with pytest.raises(FormatError, match="has version 99"):
            make_session(Settings(), state=zlib.compress(msgspec.msgpack.encode(saved)))

    def test_a_run_or_a_state_is_needed(self):
        """
        Without either there is nothing to make a session of.
        """
        with pytest.raises(TypeError, match="a run or a saved state"):
            make_session(Settings())

    @pytest.mark.slow
    def test_a_long_run_stays_small(self):
        """
        After 20,000 events of all kinds, compared with a full baseline, the state has at most 64 kB.
        """
        full = structs.replace(LEARNT, word_runs=30, word_counts=bytes(random.Random(1).randbytes(16_384)))
        session = make_session(Settings(), INFO, full)
        for event in diverse(20_000):
            session.observe(event)

        assert len(save_session(session)) <= 64_000


class TestFactories:
    def test_they_are_sent_to_other_processes(self):
        """
        What makes sessions is pickled with its settings, and makes the same detectors elsewhere.
        """
        settings = Settings(detectors={"action_loop": {"max_repeats": 4}, "reply_style": {"enabled": False}})
        sessions = SessionFactory(
            make_detectors=make_detector_factory(settings), health=Health(), steering=make_steering(settings)
        )
        here, there = (it.begin(INFO, MARKED) for it in (sessions, pickle.loads(pickle.dumps(sessions))))

        assert judge(here, trace("aaaaaa")) == judge(there, trace("aaaaaa"))

    def test_counts_stay_where_they_are(self):
        """
        A process counts what went wrong in it: counts are not sent along.
        """
        health = Health()
        health.count("event out of order")

        assert {} == pickle.loads(pickle.dumps(health)).totals()


class TestGolden:
    @pytest.mark.parametrize("version", VERSIONS)
    def test_it_goes_on_as_it_was(self, version):
        """
        A state of every version there ever was is read, and the run goes on as it did then.
        """
        expected = json.loads((GOLDEN / f"session-{version:04d}.json").read_text())
        session = make_session(Settings(), state=(GOLDEN / f"session-{version:04d}.state").read_bytes())

        assert expected == go_on(session)

    def test_the_newest_version_has_one(self):
        """
        Whoever changes the format adds a file made with it.
        """
        assert VERSIONS[-1] == FORMAT_VERSION


def go_on(session):
    """What a saved session holds, and the sums of the run after three more steps.

    What detectors say of these steps is theirs to change.
    """
    known = {
        "run": session.run,
        "next_seq": session.next_seq,
        "baseline": session.baseline,
        "thresholds": session.thresholds,
        "tool_kinds": session.tool_kinds,
    }
    for event in events("aaa"):
        session.observe(structs.replace(event, seq=session.next_seq))
    summary = session.end(at=1_700_000_100.0).summary
    sums = {
        name: getattr(summary, name) for name in ("events", "tokens", "tool_calls", "llm_calls", "errors")
    }
    return json.loads(msgspec.json.encode({**known, "sums": sums}))


def diverse(steps):
    """A long run of many tools, texts, errors and messages, none like another."""
    chance = random.Random(7)
    words = ["".join(chance.choices("abcdefghiklmnoprstu", k=chance.randint(3, 9))) for _ in range(4_000)]

    def text(least, most):
        return " ".join(chance.choices(words, k=chance.randint(least, most)))

    for seq in range(steps):
        kind = chance.choices([TOOL_CALL, LLM_REQUEST, USER_MESSAGE], [40, 2, 1])[0]
        same = chance.random() < 0.3
        yield TraceEvent(
            agent_id=AGENT,
            run_id=RUN,
            seq=seq,
            started_seq=seq,
            event_id=f"{RUN}.{seq}",
            timestamp=1_700_000_000.0 + seq,
            action_type=kind,
            action_name=f"tool_{chance.randrange(80)}" if kind == TOOL_CALL else "model",
            input_data={"path": f"src/{text(1, 2)}.py", "n": 1 if same else seq}
            if kind == TOOL_CALL
            else text(3, 15),
            output_data={"text": "no such file" if same else text(3, 25)},
            token_count=chance.randrange(3_000),
            error=text(3, 30) if chance.random() < 0.15 else None,
            call_hash=chance.randrange(1, 40) if same else seq + 1_000,
            result_hash=1 if same else seq + 1_000,
        )


def make(version):
    """Write the golden file, and what follows from it."""
    session = make_session(Settings(), INFO, MARKED)
    for event in [*healthy(30), *(structs.replace(it, seq=it.seq + 30) for it in trace("bbbcPGrr x"))]:
        session.observe(event)
    state = save_session(session)
    (GOLDEN / f"session-{version:04d}.state").write_bytes(state)
    text = json.dumps(go_on(make_session(Settings(), state=state)), indent=1, sort_keys=True)
    (GOLDEN / f"session-{version:04d}.json").write_text(text + "\n")


if __name__ == "__main__":
    make(VERSIONS[-1])

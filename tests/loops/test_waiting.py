import itertools

import pytest
from agent_steps import call, failing, reported, run, shell, user

from steadyhelm.loops.failure_memory import FailureMemory
from steadyhelm.loops.repetitions import RepetitionMemory

RUNNING = call("BashOutput", {"bash_id": "1"}, "<status>running</status>")

REPLY = {"action_type": "llm_request", "action_name": "model", "duration_ms": 900.0, "timestamp": 990.0}


def seen(*steps, every_s=None):
    """The places at which a run of these steps is reported; `every_s` seconds lie between two of them."""
    if every_s is not None:
        steps = [{**step, "timestamp": 1000.0 + every_s * place} for place, step in enumerate(steps)]
    return reported(RepetitionMemory(), run(*steps))


class TestAnswers:
    @pytest.mark.parametrize(
        "answer",
        [
            "still building",
            "compiling...",
            "Job 7 is not finished",
            "waiting for approval",
            {"status": "creating"},
            {"id": 7, "done": False},
            "Uploading",
        ],
    )
    def test_whatever_is_being_done_is_waited_for(self, answer):
        """
        An answer that says that something is under way asks for patience, in whatever words.
        """
        assert [] == seen(*[call("get_job", {"id": 7}, answer)] * 20, every_s=20)

    @pytest.mark.parametrize(
        ("tool", "answers"),
        [
            ("Bash", ["Frame 0 of 300", "Frame 57 of 300", "Frame 201 of 300"]),
            ("check_upload", ["0% uploaded", "6% uploaded", "74% uploaded"]),
            ("get_copy", ["12 of 40 files copied", "13 of 40 files copied", "39 of 40 files copied"]),
            ("get_model", [{"progress": 0.1}, {"progress": 0.4}, {"progress": 0.9}]),
        ],
    )
    def test_progress_that_moves_in_jumps(self, tool, answers):
        """
        A progress that stands still for a while is waited for, and the end of its patience is that of others.
        """
        looks = [call(tool, {"command": "tail -n 1 render.log"}, it) for it in answers]

        assert [] == seen(*[look for look in looks for _ in range(8)], every_s=15)
        assert [40] == seen(*[looks[0]] * 41, every_s=15)

    @pytest.mark.parametrize(
        "answer", ["100% uploaded", "page 2 of 5", {"progress": 0.4, "status": "failed"}, "coverage 83%"]
    )
    def test_what_is_not_under_way(self, answer):
        """
        What is finished or has failed, and a share or a place in a list, is not waited for.
        """
        assert [2] == seen(*[call("check_upload", {"id": 7}, answer)] * 3, every_s=2)

    @pytest.mark.parametrize("answer", ["nothing", "missing", "state: failing", "the string was not there"])
    def test_an_end_is_not_waited_for(self, answer):
        """
        What is over is not waited for: asked three times, it is a loop.
        """
        assert [2] == seen(*[call("get_job", {"id": 7}, answer)] * 3, every_s=1)

    @pytest.mark.parametrize("answer", ["no new mail", "0 unread messages", "No reply yet.", "nothing new"])
    def test_what_has_not_come_is_waited_for(self, answer):
        """
        An answer that says that nothing has come asks for patience, and for no more than others do.
        """
        asked = call("check_inbox", {"from": "bank"}, answer)

        assert [] == seen(*[asked] * 24, every_s=15)
        assert seen(*[asked] * 60, every_s=15)


class TestPatience:
    def test_twenty_five_looks_and_ten_minutes(self):
        """
        Looking whether something is ready is patient: a loop needs 25 looks in vain and ten minutes.
        """
        assert [] == seen(*[RUNNING] * 24, every_s=600)
        assert [24] == seen(*[RUNNING] * 25, every_s=30)

    def test_many_looks_in_a_short_time(self):
        """
        Looking every second is no loop before ten minutes have passed.
        """
        assert [] == seen(*[RUNNING] * 500, every_s=1)
        assert 600 == seen(*[RUNNING] * 602, every_s=1)[0]

    def test_a_run_without_times(self):
        """
        Where a run has no times the number alone counts: ten.
        """
        assert [9] == seen(*[RUNNING] * 10, every_s=0)

    def test_a_tool_that_usually_takes_longer(self):
        """
        A tool that took half an hour before may take longer than ten minutes again.
        """
        ready = call("BashOutput", {"bash_id": "1"}, "<status>done</status>")
        first = [RUNNING] * 24 + [ready]

        assert [] == seen(*first, *[RUNNING] * 40, every_s=75)

    def test_sleeping(self):
        """
        So is waiting in a shell.
        """
        assert [] == seen(*[shell("sleep 30 && curl localhost", "starting")] * 24, every_s=30)

    def test_nothing_but_sleeping(self):
        """
        An agent that only waits keeps no schedule: after ten minutes it is a loop.
        """
        waits = call("wait", {"seconds": 45}, "Page still shows: your file is being prepared")

        assert [] == seen(*[waits] * 24, every_s=45)
        assert seen(*[waits] * 30, every_s=45)

    def test_looking_twice_a_minute(self):
        """
        Looks with a short sleep between are waiting, not a schedule.
        """
        steps = [shell("sleep 30"), call("list_files", {"folder": "out"}, "part-0.tmp")]

        assert [] == seen(*steps * 24, every_s=15)
        assert seen(*steps * 60, every_s=15)

    def test_a_cycle_of_looking_and_sleeping(self):
        """
        Sleeping and looking in turn is waiting too, as long as the look says "not yet".
        """
        steps = [shell("sleep 60"), shell("gh run view 7", '{"status": "in_progress"}')]

        assert [] == seen(*steps * 24, every_s=60)
        assert seen(*steps * 30, every_s=60)

    def test_another_thing_started_each_time(self):
        """
        A command that starts anew at each call is repeated, though each answer says that it is running.
        """
        steps = [
            call(
                "exec",
                {"command": "bash scan.sh"},
                f"Command still running (session {it}). Poll it to follow.",
            )
            for it in ("neat-cloud", "calm-reef", "tidy-oak", "bold-fern")
        ]

        assert [2, 3] == seen(*steps, every_s=30)

    def test_an_outage(self):
        """
        A service that is down may be tried again: the eighth time is a loop.
        """
        assert [7] == seen(*[failing("search", {"query": "x"}, "503 Service Unavailable")] * 8)

    @pytest.mark.parametrize(
        "error",
        [
            "403 Forbidden: too many requests is not the cause",
            "invalid token, connection reset by policy",
            "Error: disk quota exceeded",
            "QUOTA_EXCEEDED: the cpu quota of the namespace is used up (24 of 24)",
            "503: this version is no longer supported",
        ],
    )
    def test_a_permanent_error_is_no_outage(self, error):
        """
        What trying again cannot repair is a loop at the third time, whatever else the error says.
        """
        assert [2] == seen(*[failing("search", {"query": "x"}, error)] * 3)

    def test_a_tool_declared_to_poll(self):
        """
        A tool that a user declared to poll is waiting, whatever it says.
        """
        assert [] == seen(*[call("door", {}, "closed", tool_kind="poll")] * 24, every_s=30)


class TestPace:
    ANSWER = shell("dig +short www.shop.example", "10.1.1.2")
    STATUS = call("signature_status", {"envelope": 31}, {"status": "sent", "signed": []})

    @pytest.mark.parametrize(
        "order",
        ["Wait for the record.", "Switch over as soon as it is live.", "Tell me when it has changed."],
    )
    def test_told_to_wait(self, order):
        """
        Where the user asked to wait, a look at even pauses is waiting, whatever it answers, and has an end.
        """
        assert [] == seen(user(order), *[self.ANSWER] * 24, every_s=10)
        assert seen(user(order), *[self.ANSWER] * 70, every_s=10)

    def test_not_told(self):
        """
        The same look is a loop when nobody asked to wait.
        """
        assert [3, 4] == seen(user("Which address does it have?"), *[self.ANSWER] * 4, every_s=10)

    def test_a_reading_short_of_its_target(self):
        """
        A reading is waited for in even pauses until it has reached its target, but not without pauses.
        """
        warming, warm = (call("oven", {}, {"celsius": it, "target": 200}) for it in (38, 200))

        assert [] == seen(*[warming] * 24, every_s=10)
        assert seen(*[warming] * 70, every_s=10)
        assert [2, 3] == seen(*[warming] * 4, every_s=1)
        assert [2, 3] == seen(*[warm] * 4, every_s=10)

    def test_without_pauses(self):
        """
        An agent that was told to wait and looks again at once, or now and then, does not wait.
        """
        order = user("Wait for the record.")
        looks = [{**self.ANSWER, "timestamp": 1000.0 + at} for at in (0, 4, 19, 22, 40)]

        assert [3, 4] == seen(order, *[self.ANSWER] * 4, every_s=1)
        assert [3, 4, 5] == seen({**order, "timestamp": 999.0}, *looks)

    def test_a_status_every_half_minute(self):
        """
        A status that is looked at in pauses is waited for, in whatever words it says so.
        """
        assert [] == seen(*[self.STATUS] * 24, every_s=30)
        assert [2, 3] == seen(*[self.STATUS] * 4, every_s=2)

    @pytest.mark.parametrize("state", ["failed", "cancelled", "EXPIRED", "completed"])
    def test_a_state_that_is_final(self, state):
        """
        There is nothing to wait for once the state does not change any more.
        """
        over = call("pipeline_status", {"id": 9}, {"id": 9, "status": state})

        assert [3, 4] == seen(user("Merge when it has passed."), *[over] * 4, every_s=30)


class TestSchedule:
    def test_with_sleep_between(self):
        """
        A look that finds nothing wrong after each sleep is made on a schedule.
        """
        steps = [shell("sleep 120"), call("check_inbox", {"folder": "in"}, "no new mail")]

        assert [] == seen(*steps * 40, every_s=120)

    def test_without_sleep(self):
        """
        Even intervals of minutes are a schedule too.
        """
        assert [] == seen(*[call("probe", {"region": "eu"}, "all nominal")] * 40, every_s=300)

    def test_a_call_that_waits_itself(self):
        """
        A call that takes minutes has waited: at even intervals it is a schedule, when it is quick it is not.
        """
        slow = call("probe", {"region": "eu"}, "all nominal", duration_ms=300_000.0)

        assert [] == seen(*[slow] * 40, every_s=300)
        assert [2, 3] == seen(*[{**slow, "duration_ms": 900.0}] * 4, every_s=1)

    def test_uneven_intervals_are_none(self):
        """
        The same look at uneven times is made without one.
        """
        places = (0, 300, 310, 900, 905)
        steps = [call("probe", {"region": "eu"}, "all nominal", timestamp=1000.0 + at) for at in places]

        assert [2, 3, 4] == seen(*steps)

    def test_a_model_that_thinks_for_minutes_has_none(self):
        """
        The time a reply takes is no pause.
        """
        thinks = {"action_type": "llm_request", "action_name": "model", "duration_ms": 300_000.0}
        steps = [thinks, call("probe", {"region": "eu"}, "all nominal")] * 4

        assert [5, 7] == seen(*steps, every_s=150)

    def test_a_failure_on_schedule(self):
        """
        What fails at even intervals is not in order.
        """
        assert seen(*[failing("probe", {"region": "eu"}, "no such region")] * 3, every_s=300)

    def test_declared(self):
        """
        A tool declared to run on a schedule may be called whenever it likes.
        """
        assert [] == seen(*[call("probe", {}, "all nominal", tool_kind="schedule")] * 30)


class TestAges:
    @pytest.mark.parametrize(
        "answer",
        [
            "ingest-0   0/1   Pending   0   {}m",
            "NAME       READY   STATUS    RESTARTS   AGE\ningest-0   0/1     Pending   0          {}h",
            "job 7 is still waiting for {} hours",
            "state: provisioning, up {}m",
        ],
    )
    def test_an_age_is_no_progress(self, answer):
        """
        How long something has been there grows by itself: waiting has an end all the same.
        """
        command = "sleep 60; kubectl get pod ingest-0"

        assert [24] == seen(*(shell(command, answer.format(n + 1)) for n in range(25)), every_s=70)
        assert [] == seen(*(shell(command, answer.format(n + 1)) for n in range(20)), every_s=70)

    def test_what_is_left_is_progress(self):
        """
        A time that is left, and a count, tell how far something is.
        """
        for answer in ("state: copying   {}m left", "copied   {} of 90 files"):
            steps = [shell("sleep 60; ./state", answer.format(n + 1)) for n in range(40)]

            assert [] == seen(*steps, every_s=70)


class TestPatientRetries:
    HELD = failing(
        "install",
        {"package": "ffmpeg"},
        "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 4100 (apt)",
    )

    @staticmethod
    def failed(step, *pauses_s):
        """The places that both detectors report when a step is tried again after each of these pauses."""
        times = itertools.accumulate(pauses_s, initial=1000.0)
        trace = run(REPLY, *({**step, "timestamp": at} for at in times))
        return sorted(
            {place - 1 for place in (*reported(RepetitionMemory(), trace), *reported(FailureMemory(), trace))}
        )

    @pytest.mark.parametrize(
        "error",
        [
            "Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 4100",
            "OSError: [Errno 16] Device or resource busy: '/mnt/a'",
            "The file is being used by another process",
            "another operation is in progress for this cluster",
            "Error acquiring the state lock",
        ],
    )
    def test_what_another_process_holds(self, error):
        """
        What another process holds is tried again after growing pauses like an outage.
        """
        step = failing("install", {"package": "ffmpeg"}, error)

        assert [] == self.failed(step, 4, 8, 16, 32, 64, 128)
        assert [7] == self.failed(step, 4, 8, 16, 32, 64, 128, 256)

    def test_without_pauses(self):
        """
        What is tried again at once does not wait.
        """
        assert [2, 3] == self.failed(self.HELD, 1, 1, 1)

    def test_any_failure_after_long_pauses(self):
        """
        A failure that may pass is tried again in pauses of fifteen seconds as often as in an outage.
        """
        step = failing("fetch_report", {"day": 4}, "the report could not be made just now")

        assert [] == self.failed(step, *[30] * 6)
        assert [7] == self.failed(step, *[30] * 7)
        assert [2, 3] == self.failed(step, 8, 8, 8)

    def test_other_words_each_time(self):
        """
        So is one that fails in other words each time.
        """
        words = ("cold", "warm", "red", "blue", "flat", "round", "sour", "sweet", "loud")
        steps = [
            {**failing("fetch_report", {"day": 4}, f"the printer is {it}"), "timestamp": 1000.0 + 30 * n}
            for n, it in enumerate(words)
        ]

        assert [9] == reported(FailureMemory(), run(REPLY, *steps))
        assert reported(FailureMemory(), run(*steps[:3]))
        assert reported(FailureMemory(), run(*({**it, "timestamp": 1000.0} for it in steps[:3])))

    @pytest.mark.parametrize(
        "error", ["403 Forbidden", "no such region", "AssertionError: 1 != 2", "the field name is required"]
    )
    def test_what_does_not_pass(self, error):
        """
        What fails again whenever it is tried is a loop at the third time, whatever the pauses.
        """
        assert [2, 3] == self.failed(failing("probe", {"region": "eu"}, error), 60, 60, 60)

    def test_a_model_that_thinks(self):
        """
        The time a reply takes is no pause.
        """
        thinks = {"action_type": "llm_request", "action_name": "model", "duration_ms": 30_000.0}
        steps = [thinks, failing("fetch_report", {"day": 4}, "the report could not be made")] * 4
        trace = run(*({**step, "timestamp": 1000.0 + 15 * n} for n, step in enumerate(steps)))

        assert [5, 7] == reported(RepetitionMemory(), trace)

    @pytest.mark.parametrize("pauses_s", [(30, 30), (16.5, 16.5, 16.5), (15, 30, 60), (20, 45, 90)])
    def test_exact_pauses_where_no_reply_is_recorded(self, pauses_s):
        """
        Pauses that are exactly even, or each much longer than the one before, were made on purpose.
        """
        trace = []
        for thing in range(4):
            times = itertools.accumulate(pauses_s, initial=1000.0 + 500 * thing)
            trace += [
                {**failing("dial", {"number": thing}, "line engaged"), "timestamp": at, "duration_ms": 1400.0}
                for at in times
            ]
            trace.append(
                {**call("dial", {"number": thing}, "she answers"), "timestamp": 1490.0 + 500 * thing}
            )

        assert [] == reported(RepetitionMemory(), run(*trace))
        assert [] == reported(FailureMemory(), run(*trace))

    @pytest.mark.parametrize("pauses_s", [(30, 22), (19, 25, 17), (2, 4, 8), (60, 40, 20)])
    def test_other_pauses_where_no_reply_is_recorded(self, pauses_s):
        """
        Uneven and short pauses may be those of an agent that thinks.
        """
        times = itertools.accumulate(pauses_s, initial=1000.0)
        trace = run(*({**failing("dial", {"number": 7}, "line engaged"), "timestamp": at} for at in times))

        assert 2 in reported(RepetitionMemory(), trace)

from agent_steps import call, failing, reported, run, shell

from steadyhelm.detectors.action_loop import RepetitionMemory


def seen(*steps):
    """The places at which a run of these steps is reported."""
    return reported(RepetitionMemory(), run(*steps))


class TestPatience:
    def test_up_to_ten(self):
        """
        Looking whether something is ready is patient: the tenth time in vain is a loop.
        """
        assert [9] == seen(*[call("BashOutput", {"bash_id": "1"}, "<status>running</status>")] * 10)

    def test_sleeping(self):
        """
        So is waiting in a shell.
        """
        assert [] == seen(*[shell("sleep 30 && curl localhost", "starting")] * 9)

    def test_a_cycle_of_looking_and_sleeping(self):
        """
        Sleeping and looking in turn is waiting too, as long as the look says "not yet".
        """
        assert [] == seen(*[shell("sleep 60"), shell("gh run view 7", '{"status": "in_progress"}')] * 9)

    def test_an_outage(self):
        """
        A service that is down may be tried again: the eighth time is a loop.
        """
        assert [7] == seen(*[failing("search", {"query": "x"}, "503 Service Unavailable")] * 8)

    def test_a_tool_declared_to_poll(self):
        """
        A tool that a user declared to poll is waiting, whatever it says.
        """
        assert [] == seen(*[call("door", {}, "closed", tool_kind="poll")] * 9)

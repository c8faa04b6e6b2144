import pytest
from agent_steps import call, reported, run, shell, user

from steadyhelm.loops.repetitions import RepetitionMemory
from steadyhelm.loops.user_words import read_request

BENCH = shell("make bench", "took as long as before")


class TestRequests:
    @pytest.mark.parametrize(
        ("text", "times"),
        [
            ("Run `make bench` 20 times, I want to know whether it is flaky.", 20),
            ("I'd like ten samples of it", 10),
            ("Try ./run.sh 15x and report", 15),
            ("please execute it 8 consecutive times", 8),
            ("Ring the bell 11 times please.", 11),
            ("Good. Could you water the plants four times?", 4),
            ("check the queue every 5 minutes", 0),
            ("keep pinging the server until I say stop", 0),
            ("Repeat the call five times.", 5),
            ("Repeat the question 3 times.", 3),
            ("Repeat it until it works.", 0),
            ("Repeat the question until she answers.", 0),
            ("Repeat the message for each customer.", 0),
            ("Repeat the request.", 0),
            ("Repeat the sentence. Then check the door every 5 minutes.", 0),
        ],
    )
    def test_orders(self, text, times):
        """
        Whoever asks for a repetition says how often, or that it goes on.
        """
        assert times == read_request(text).times

    @pytest.mark.parametrize(
        "text",
        [
            "Make it 10 times faster.",
            "You ran it 5 times already, stop.",
            "I really need the 10x zoom version.",
            "It failed 3 times when I looked.",
            "Production went down 3 times. Look into it.",
            "My order was shipped 3 times.",
            "Nobody answered 3 times in a row.",
            "I keep having to write exceptions",
            "fix the login",
        ],
    )
    def test_no_orders(self, text):
        """
        Numbers, reproaches and stories ask for nothing.
        """
        assert read_request(text) is None

    @pytest.mark.parametrize(
        "text",
        [
            "Repeat the given text as the answer",
            "Please repeat the following sentence: the lamp is on",
            "Repeat after me: good morning",
            "Repeat what I said.",
            "Repeat the customer's question in your answer.",
            "Can you repeat my last message?",
            "repeat these words exactly",
            'Repeat: "all is well"',
            "Repeat it back to me.",
        ],
    )
    def test_words_to_be_said_once(self, text):
        """
        To repeat a text is to say it once: no call is asked to be made again.
        """
        assert read_request(text) is None


class TestWhatWasAskedFor:
    def test_is_the_task(self):
        """
        What the user asked to be repeated is no loop, as often as asked.
        """
        order = user("Run `make bench` 20 times.")

        assert [] == reported(RepetitionMemory(), run(order, *[BENCH] * 20))

    def test_an_answer_given_again_is_not(self):
        """
        Who wants a text repeated as the answer does not want it given seven times.
        """
        order = user("Repeat the given text as the answer")
        answer = call("final_answer", {"answer": "Line one, line two"}, "Output: None")

        assert [3, 4, 5] == reported(RepetitionMemory(), run(order, *[answer] * 5))

    def test_far_more_is_not(self):
        """
        Far more often than asked it is one.
        """
        order = user("Run `make bench` 5 times.")

        assert [8] == reported(RepetitionMemory(), run(order, *[BENCH] * 8))

    def test_nor_is_something_else(self):
        """
        Without a number only what the message names is meant.
        """
        order = user("Keep checking the queue every minute.")
        other = call("read_file", {"path": "a.py"}, "class A: ...")

        assert [] == reported(RepetitionMemory(), run(order, *[call("check_queue", {}, "empty")] * 9))
        assert [3] == reported(RepetitionMemory(), run(order, *[other] * 3))

    def test_a_new_message_ends_it(self):
        """
        The next message of the user ends it.
        """
        trace = run(user("Run it 20 times."), user("Now fix the parser."), *[BENCH] * 3)

        assert [4] == reported(RepetitionMemory(), trace)


class TestEachOfSeveralThings:
    @pytest.mark.parametrize(
        ("text", "tool"),
        [
            ("Scan each of the twelve bottles in the crate one by one.", "scan"),
            ("Please weigh every one of my 12 parcels, I need all the lines.", "weigh_item"),
            ("Can you stamp the 12 letters on the desk one at a time?", "stamp"),
        ],
    )
    def test_asked_for(self, text, tool):
        """
        What is done with each of so many equal things is done so many times with the same words.
        """
        step = call(tool, {}, "EAN 7350012 mineral water 0.5 l")

        assert [] == reported(RepetitionMemory(), run(user(text), *[step] * 12))
        assert reported(RepetitionMemory(), run(user(text), *[step] * 20))

    @pytest.mark.parametrize(
        "text",
        [
            "Fix each of the twelve failing tests one by one.",
            "I scanned each of the twelve bottles.",
            "Scan it.",
        ],
    )
    def test_nothing_else(self, text):
        """
        Other calls are none of it, nor is what was only told.
        """
        assert reported(RepetitionMemory(), run(user(text), *[BENCH] * 4))
        assert reported(RepetitionMemory(), run(user(text), *[call("scan", {}, "EAN 7350012 water")] * 4))

import pytest

from steadyhelm.corrections.features import extract_features, find_cues
from steadyhelm.corrections.reply_classifier import classify_user_reply

REPORT = "Done. The parser is fixed and all tests pass."
QUESTION = "Both branches are ready. Want me to force-push them?"


def numbers(reply, before=REPORT, prompt=""):
    return extract_features(reply, assistant_before=before, prompt_before=prompt).numbers


class TestMood:
    def test_a_statement_and_a_question(self):
        """
        What objects in a statement is told from what objects in a question.
        """
        found = numbers("the parser is still broken. is the lexer wrong?")

        assert found["objection in a statement"] > 0
        assert found["objection in a question"] > 0

    def test_a_condition(self):
        """
        What only might be wrong is no plain objection.
        """
        found = numbers("if that fails tell me")

        assert found["objection under a condition"] == found["objection in a statement"] > 0

    def test_without_objection(self):
        """
        A reply without objecting words has none of the three.
        """
        found = numbers("thanks")

        assert 0 == sum(value for name, value in found.items() if name.startswith("objection "))


class TestRepeatedOrder:
    def test_the_request_again(self):
        """
        A request that comes again after a report of success was not carried out.
        """
        prompt = "rename the parser module to reader"
        again, other = (
            numbers(it, prompt=prompt) for it in ("rename the parser module", "write the changelog")
        )

        assert again["request covered after a report"] > other["request covered after a report"] == 0
        assert again["words of the request"] > other["words of the request"] == 0

    def test_after_a_question_it_is_an_answer(self):
        """
        The same words in answer to a question repeat no order.
        """
        found = numbers("rename the parser", QUESTION, prompt="rename the parser module")

        assert 0 == found["request covered after a report"] < found["request covered"]


class TestAnswer:
    def test_a_no_to_an_offer(self):
        """
        A no to a question is an answer, and less of a correction than a no to a report.
        """
        offered, reported = numbers("no, wrong one", QUESTION), numbers("no, wrong one", REPORT)

        assert (1, 0) == (offered["no to a question"], offered["no to no question"])
        assert (0, 1) == (reported["no to a question"], reported["no to no question"])
        drift = [classify_user_reply("no", assistant_before=it).drift for it in (QUESTION, REPORT)]
        assert drift[0] < drift[1]

    def test_a_word_on_a_report(self):
        """
        An objection counts towards what it answers: a question, a report or another statement.
        """
        reply = "that is wrong"

        assert numbers(reply, QUESTION)["objection to a question"] > 0
        assert numbers(reply, REPORT)["objection to a report"] > 0
        assert numbers(reply, "I look at the parser now.")["objection to a statement"] > 0


class TestWholeWords:
    @pytest.mark.parametrize(
        "text",
        ["lint passes", "the content matching", "at this point it helps", "the joint where", "paint it"],
    )
    def test_a_negation_is_a_word(self, text):
        """
        Letters of another word are no negation.
        """
        assert not {"does not work", "not right", "negation"} & find_cues(text).keys()

    @pytest.mark.parametrize("text", ["it doesnt work", "it isn't working", "that never loads", "wont open"])
    def test_every_spelling_of_not(self, text):
        """
        A negated verb is found with and without its apostrophe.
        """
        assert "does not work" in find_cues(text)

import pytest
from agent_steps import call, edit, matches, reported, restored_copy, run, says, shell, user
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.detectors.repetitive_text import ReplyMemory
from steadyhelm.detectors.stagnation import StagnationMemory
from steadyhelm.loops.user_answers import asks_user
from steadyhelm.loops.user_questions import UserQuestions

REGION = (
    "Which region should I deploy to?",
    "Before I go on: which region should this be deployed to?",
    "Please confirm: which region do you want me to deploy to?",
    "Could you tell me which region to deploy to?",
    "What region should I use for the deployment?",
)
CANCEL = (
    "Do you really want to cancel the contract?",
    "Should I cancel the contract now?",
    "Just to be sure: cancel the contract?",
    "Are you sure that I should cancel the contract?",
    "Do you really want to cancel the contract?",
)


def asked(*steps):
    return reported(StagnationMemory(), run(*steps))


def put(tool, questions, *answers):
    return [call(tool, it, answers[place % len(answers)]) for place, it in enumerate(questions)]


class TestAskedAgain:
    def test_as_the_only_argument(self):
        """
        One thing asked for in other words, each time answered the same, is a loop by the fifth.
        """
        assert [4] == [it for it in asked(*put("human_input", REGION, "eu-west, as I said")) if it >= 4]

    @pytest.mark.parametrize(
        "answers",
        [
            ("eu-west", "eu-west, please", "As I said: eu-west!"),
            (
                {"reply": "eu-west", "received": "2026-04-01T11:00:38Z"},
                {"reply": "eu-west", "received": "11:04"},
            ),
            ("<answer>eu-west</answer>",),
            ("I have told you before that it has to go to eu-west, as in every other week.",),
            ('{"text": "eu-west", "at": "11:02"}', '{"text": "eu-west", "at": "11:04"}'),
        ],
    )
    def test_what_is_put_around_the_answer(self, answers):
        """
        A clock, a polite word, a tag and a field beside it make it no other answer.
        """
        nested = [{"prompt": {"text": it, "options": ["eu-west", "us-east"]}} for it in REGION]

        assert 4 in asked(*put("prompt_user", nested, *answers)) or 3 in asked(
            *put("prompt_user", nested, *answers)
        )

    def test_a_yes(self):
        """
        A yes for the fifth time is a loop, whatever words are put around it.
        """
        assert [4] == asked(*put("confirm_with_user", CANCEL, "Yes.", "yes, cancel it", "Yes, cancel."))

    def test_with_looks_in_between(self):
        """
        What is looked up between the questions does not answer them.
        """
        steps = [it for place, step in enumerate(put("ask_human", [{"q": it} for it in REGION], "eu-west"))
                 for it in (step, shell(f"cat notes{place}", f"note {place}"))]  # fmt: skip

        assert 8 in asked(*steps)

    def test_after_a_restart(self):
        """
        A memory put aside and taken up again goes on counting.
        """
        memory, trace = StagnationMemory(), run(*put("confirm_with_user", CANCEL, "Yes."))
        matches(memory, trace[:3])

        assert [4] == reported(restored_copy(memory), trace[3:])

    @given(
        st.lists(st.sampled_from([*REGION, *CANCEL]), max_size=12), st.sampled_from(["yes", "eu-west", "12"])
    )
    def test_what_is_kept(self, questions, answer):
        """
        Whatever is asked, no more than the latest questions are kept.
        """
        memory = StagnationMemory()
        matches(memory, run(*put("ask_user", questions, answer)))

        assert len(memory.questions.asked) <= 8


class TestHealthyQuestions:
    def test_one_word_to_different_questions(self):
        """
        A yes to each of several confirmations confirms other things.
        """
        questions = (
            "Delete the folder archive?",
            "Overwrite report.pdf?",
            "Send the mail to Ida?",
            "May I restart the server?",
            "Shall I close the ticket?",
            "Is the invoice for March to be paid?",
        )

        assert [] == asked(*put("confirm", [{"question": it} for it in questions], "yes"))

    @pytest.mark.parametrize("answer", ["yes", "white", "10 mg"])
    @pytest.mark.parametrize(
        "question", ["Which paint shall I use for the {}?", "Please tell me what the {} should get", "{}?"]
    )
    def test_one_question_about_another_thing(self, question, answer):
        """
        A question that names another thing each time is another question.
        """
        things = ("front door", "garage", "cellar stairs", "attic window", "kitchen wall", "fence")

        assert [] == asked(*put("ask_user", [{"question": question.format(it)} for it in things], answer))

    def test_other_things_in_other_words(self):
        """
        Other things may be asked for in other words, and have the same answer.
        """
        questions = (
            "Which colour shall the front door have?",
            "What colour do you want on the garage door?",
            "And the cellar door, which colour?",
            "Please choose a colour for the attic door.",
            "The barn door: colour?",
        )

        assert [] == asked(*put("ask_user", [{"question": it} for it in questions], "white"))

    def test_numbered_items(self):
        """
        A question about each of several numbered items is a batch.
        """
        questions = [{"question": f"Shall I approve invoice {4010 + n}?"} for n in range(8)]

        assert [] == asked(*put("ask_user", questions, "yes"))

    def test_one_question_to_many(self):
        """
        One question to one person after another is a poll.
        """
        people = ("Amara", "Bastien", "Chiara", "Dmitri", "Eszter", "Farid")
        wordings = ("Which menu would you like?", "Which menu do you want?")
        steps = [
            call("ask_human", {"to": it, "question": wordings[place % 2]}, {"reply": "the fish menu"})
            for place, it in enumerate(people)
        ]

        assert [] == asked(*steps)

    def test_after_something_was_done(self):
        """
        After each piece of work the user may be asked to go on.
        """
        words = ("Shall I go on with the next file?", "Next file now?", "May I take the next file?")
        steps = [
            it
            for n in range(6)
            for it in (call("ask_user", {"q": words[n % 3]}, "yes"), edit(f"f{n}", "x", f"y{n}"))
        ]

        assert [] == asked(*steps)

    def test_a_yes_after_a_look_each_time(self):
        """
        After each page the user may be asked whether to read on.
        """
        words = ("Shall I read the next page?", "Read the next page?", "May I read the next page now?")
        steps = [
            it
            for n in range(6)
            for it in (
                call("ask_user", {"q": words[n % 3]}, "yes"),
                call("read_page", {"page": n}, f"text {n}"),
            )
        ]

        assert [] == asked(*steps)

    def test_until_the_answer_is_clear(self):
        """
        A question may be put again while the answers are other ones.
        """
        answers = ("soon", "when the snow melts", "in spring", "April", "the 4th of April")
        questions = [{"q": it} for it in REGION]

        assert [] == asked(*put("ask_user", questions, *answers))

    def test_a_measure_fits_many_questions(self):
        """
        A number with a unit may answer many questions of a talk.
        """
        questions = (
            "What dose of aspirin do you take?",
            "How strong are your iron tablets?",
            "And the zinc?",
            "How much vitamin do you take at night?",
            "Tell me the amount of calcium, please?",
        )

        assert [] == reported(ReplyMemory(), run(*(it for q in questions for it in (says(q), user("10 mg")))))


@pytest.mark.parametrize("tool", ["ask_followup_question", "human_input", "prompt_user", "clarify", "human"])
def test_tools_that_ask(tool):
    """
    Tools are known to ask by the words of their names.
    """
    assert asks_user(tool)


@pytest.mark.parametrize(
    "tool", ["ask_expert", "get_user", "confirm_booking", "input_text", "search_questions"]
)
def test_tools_that_do_not_ask(tool):
    """
    A tool with another purpose, or asked by the agent itself, does not ask the user.
    """
    assert not asks_user(tool)


def test_nothing_is_kept_without_questions():
    """
    A run that asks nothing keeps nothing.
    """
    memory = StagnationMemory()
    matches(memory, run(*[shell(f"cat {n}", f"{n}") for n in range(5)]))

    assert UserQuestions() == memory.questions

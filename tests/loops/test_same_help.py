"""A helper that is asked for one thing again, and says the same each time."""

import pytest
from agent_steps import call, reported, run

from steadyhelm.detectors.stagnation import StagnationMemory

TASKS = (
    "Find the churn figures for the third quarter and send them back as a table.",
    "Please look up the Q3 churn numbers and return a table.",
    "I need a table with the churn rate of the third quarter. Please fetch it.",
    "Get the third-quarter churn figures (table).",
    "Could you retrieve churn for Q3 and lay it out as a table?",
    "Return the Q3 churn figures as a table, please.",
)
REFUSALS = (
    "I have no access to the billing warehouse, so I cannot provide the churn figures.",
    "Without access to the billing warehouse I am unable to give churn figures.",
    "Sorry, the billing warehouse is not accessible to me, so no churn figures.",
)
SHAPES = {
    "prompt": ("Task", lambda task: {"subagent_type": "analyst", "description": "Churn", "prompt": task}),
    "sole": ("transfer_to_data_agent", lambda task: task),
    "nested": ("agent_message", lambda task: {"agent": "data", "payload": {"text": task}}),
}


def asked(tasks, answers, shape="prompt"):
    tool, build = SHAPES[shape]
    steps = [call(tool, build(task), answers[place % len(answers)]) for place, task in enumerate(tasks)]
    return reported(StagnationMemory(), run(*steps))


class TestSameHelp:
    @pytest.mark.parametrize("shape", SHAPES)
    def test_the_fifth_time(self, shape):
        """
        One task in other words, which a helper refuses for the fifth time, is a loop.
        """
        assert 4 == min(asked(TASKS, REFUSALS, shape), default=None)

    @pytest.mark.parametrize("shape", SHAPES)
    def test_different_tasks(self, shape):
        """
        Different tasks to one helper are no loop, though it refuses each of them in the same words.
        """
        tasks = (
            "Find the churn figures for the third quarter.",
            "Which customers of the harbour branch pay late?",
            "Draft a letter to the tax office about the new address.",
            "How many parcels were returned in Graz last week?",
            "Translate the warranty terms for the Norwegian shop.",
            "Plan the cleaning rota of the canteen.",
        )
        refusal = ("I have no access to the billing warehouse, so I cannot help you with this request.",)
        assert [] == asked(tasks, refusal, shape)

    @pytest.mark.parametrize("shape", SHAPES)
    def test_one_task_about_other_things(self, shape):
        """
        One task about another place or quarter each time is a batch.
        """
        places = ("Oslo", "Graz", "Turin", "Lyon", "Gent", "Bergen")
        assert [] == asked([f"Find the churn figures for {it} as a table" for it in places], REFUSALS, shape)
        frames = (
            "Find the churn of {}",
            "Please look up churn for {}, as a table",
            "I need the churn of {} now",
        )
        tasks = [frames[n % 3].format(it) for n, it in enumerate(places)]
        assert [] == asked(tasks, REFUSALS, shape)

    @pytest.mark.parametrize("shape", SHAPES)
    def test_an_answer_that_gets_further(self, shape):
        """
        A helper that comes back with more each time gets on.
        """
        parts = (
            "the rates of January and the reasons that customers gave",
            "a chart of cancelled contracts by branch and seller",
            "how discounts changed the outcome in spring",
            "which competitors won former subscribers over",
            "what the support desk heard before people left",
            "an estimate of lost income for autumn",
        )
        answers = [f"The churn table for the third quarter now also holds {it}." for it in parts]
        counted = [
            f"Churn figures for the third quarter: {n + 3} of 12 branches are in the table." for n in range(6)
        ]
        assert [] == asked(TASKS, answers, shape)
        assert [] == asked(TASKS, counted, shape)


LABELS = (
    "Translate the bracket label into Estonian.",
    "Put the bracket label text into Estonian.",
    "I need the label on the bracket in Estonian.",
    "Please render the label of the bracket in Estonian.",
    "Estonian version of the bracket label, please.",
)
NO_ESTONIAN = (
    "I do not know Estonian.",
    "Estonian is not among my languages.",
    "Sorry, I cannot write Estonian.",
)
OTHER_SHAPES = {
    "list": ("hand_over", lambda task: ["translator", task]),
    "body": ("delegate", lambda task: {"to": "translator", "message": {"body": task}}),
    "deep": ("spawn_worker", lambda task: {"spec": {"job": {"what": task}}}),
}


def handed_over(tasks, answers, shape):
    tool, build = OTHER_SHAPES[shape]
    steps = [call(tool, build(task), answers[place % len(answers)]) for place, task in enumerate(tasks)]
    return reported(StagnationMemory(), run(*steps))


class TestShortRefusals:
    @pytest.mark.parametrize("shape", OTHER_SHAPES)
    def test_the_fifth_time(self, shape):
        """
        One task that is refused in a few words for the fifth time is a loop, wherever the task is written.
        """
        assert 4 in handed_over(LABELS, NO_ESTONIAN, shape)

    @pytest.mark.parametrize("shape", OTHER_SHAPES)
    def test_other_things(self, shape):
        """
        Another thing each time is another task, though each is refused.
        """
        tasks = [
            f"Translate the {it} label into Estonian." for it in ("oak", "elm", "fir", "ash", "yew", "box")
        ]

        assert [] == handed_over(tasks, NO_ESTONIAN, shape)

    def test_an_answer_after_all(self):
        """
        Once the helper does it, nothing is repeated.
        """
        answers = [*NO_ESTONIAN, "Sorry, I cannot write Estonian.", "Here it is: silt kronsteinile."]

        assert [] == handed_over(LABELS, answers, "body")

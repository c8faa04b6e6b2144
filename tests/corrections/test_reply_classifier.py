import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.corrections.reply_classifier import classify_user_reply

DONE = "Done. I updated the parser and all tests pass."
ASKED = "The parser is updated. Want me to commit this?"
OPTIONS = "Two ways:\n1. Cache the result\n2. Drop the call\n\nWhich do you prefer?"
KINDS = {
    *("correction_style", "correction_substance", "frustration"),
    *("approval", "continuation", "new_task"),
}

# Text that no well-formed file would hold may still arrive: half a surrogate pair, control characters.
HOSTILE = st.text(st.characters() | st.sampled_from("\ud800\udfff\x00\u202e`?!'\n "), max_size=300)


def label(reply, before=DONE, **known):
    return classify_user_reply(reply, assistant_before=before, prompt_before="fix the parser", **known)


class TestCorrections:
    @pytest.mark.parametrize(
        "reply",
        [
            "it still crashes on startup",
            "no, use the other file",
            "that's not what I asked for",
            "why did you delete the tests?",
            "you forgot the docs",
            "this doesn't compile",
            "the button is gone",
            "hmm, are you sure?",
            "wait, why are you editing that file",
            "the linter fails now",
            "I still see the old page",
            "I get an error when I run the build",
            "but now nothing is shown at all",
        ],
    )
    def test_plain_ones(self, reply):
        """
        What says that the work is wrong, broken or not what was asked is a correction of substance.
        """
        assert "correction_substance" == label(reply, tool_calls=4, turn=3).primary

    @pytest.mark.parametrize(
        "reply",
        [
            "we are going in circles",
            "you're off track",
            "this is backwards from what I need",
            "that's the wrong problem",
            "you're working from stale context",
        ],
    )
    def test_those_a_list_of_openers_misses(self, reply):
        """
        A correction need not open with no, stop or wrong.
        """
        assert label(reply, tool_calls=4, turn=3).is_drift

    def test_a_pasted_failure(self):
        """
        An error that came up after the agent's work, pasted without a word, is a correction.
        """
        pasted = 'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\nValueError: nope'

        assert label(pasted, tool_calls=4).is_drift

    @pytest.mark.parametrize("reply", ["funktioniert immer noch nicht", "не работает", "不对,还是报错"])
    def test_other_languages(self, reply):
        """
        The commonest objections are known in a few other languages too.
        """
        assert label(reply).is_drift


class TestNoCorrections:
    @pytest.mark.parametrize(
        "reply",
        [
            "now add a test for the empty case",
            "what does the cache do?",
            "commit and push",
            "continue",
            "can you also update the README",
            "rename it to Reader",
            "its easier if we put it in a table",
            "could not establish connection is what our users see, add a retry",
        ],
    )
    def test_the_next_step(self, reply):
        """
        A next step, a question or a wish is a continuation, whatever words it happens to hold.
        """
        assert "continuation" == label(reply, tool_calls=4, turn=3).primary

    @pytest.mark.parametrize(
        ("reply", "before"),
        [
            ("yes", ASKED),
            ("yes please", ASKED),
            ("go ahead", ASKED),
            ("perfect, ship it", ASKED),
            ("2", OPTIONS),
            ("the first one", OPTIONS),
            ("let's cache it", OPTIONS),
            ("no worries, thanks!", DONE),
            ("no problem, thank you", DONE),
        ],
    )
    def test_a_yes(self, reply, before):
        """
        Agreement, thanks and a choice among what was offered are approvals.
        """
        assert "approval" == label(reply, before).primary

    def test_a_review_passed_on(self):
        """
        A reviewer's formal words, passed on to be dealt with, do not accuse the agent.
        """
        review = (
            "Medium: OrderQueue.drain holds the lock while it calls send_batch, so one slow receiver stops "
            "all producers. The retry in send_batch is never bounded either, and a failed write is lost when "
            "close_all runs at the wrong moment. Consider moving the call out of the locked section."
        )

        assert label(review).drift < label("The retry is never bounded and a failed write is lost.").drift

    def test_another_task(self):
        """
        A task that says it is another one, and has nothing in common with the last, is a new task.
        """
        assert "new_task" == label("Unrelated: write the release notes for Friday").primary

    @pytest.mark.parametrize("reply", ["", "...", "   ", "https://example.org/x"])
    def test_nothing_said(self, reply):
        """
        What says nothing is no correction.
        """
        assert "continuation" == label(reply).primary


class TestWhatOnlySoundsLikeAnObjection:
    @pytest.mark.parametrize(
        "reply",
        [
            "not bad",
            "not bad at all",
            "not yet",
            "not yet, let me test it first",
            "no more changes",
            "no more changes please, commit it",
            "no, that's all",
            "no, we're good",
            "nope, all good",
            "never mind, works",
            "stop the container",
            "stop the dev server and start it again",
            "wait for CI to finish",
            "holy shit it works",
            "wtf, that was fast, nice",
            "damn, that's amazing",
        ],
    )
    def test_fine(self, reply):
        """
        A no that denies nothing, an order to stop what runs, and an outburst of joy are no corrections.
        """
        assert not label(reply, tool_calls=4, turn=3).is_drift

    @pytest.mark.parametrize(
        "reply",
        [
            "list every step that it takes to implement it",
            "write a short document about how we want it, and then implement it",
            "Implement the plan below:\n\n1. read the settings\n2. write the report",
            "read docs/red.md and go on with the next part",
        ],
    )
    def test_words_inside_other_words(self, reply):
        """
        The letters of an objection inside another word, an order or a path are none.
        """
        assert not label(reply, tool_calls=4, turn=3).is_drift

    @pytest.mark.parametrize(
        "reply",
        [
            "not bad but the margin is off",
            "not yet working",
            "no that's all wrong",
            "no, that's it, you broke it",
            "stop the refactoring",
            "stop editing that file",
            "stop the server, it crashes",
            "wait for me to approve",
            "never mind, it is still broken, nothing works",
            "holy shit nothing works",
            "it works but wtf did you do to the page",
        ],
    )
    def test_not_fine(self, reply):
        """
        The same words with an objection after them are one.
        """
        assert label(reply, tool_calls=4, turn=3).is_drift

    @pytest.mark.parametrize("reply", ["no", "nope", "no thanks", "not really", "no, that's all for today"])
    def test_a_no_to_a_closing_question(self, reply):
        """
        A no to "anything else?" answers it; the same no to work that was done may object.
        """
        assert not label(reply, "All merged. Is there anything else I can help with?").is_drift

    @pytest.mark.parametrize(
        "reply", ["no, it is still broken", "no, you forgot the docs", "no, use the other"]
    )
    def test_a_closing_question_excuses_nothing(self, reply):
        """
        Whoever says more than no may object to what was done before the question.
        """
        assert label(reply, "All merged. Anything else?", tool_calls=4).is_drift

    def test_an_order_to_whom_one_interrupts(self):
        """
        Whoever stops the agent to say so does object.
        """
        assert label("wait for CI to finish", interrupted=True, tool_calls=4).is_drift

    @pytest.mark.parametrize(
        "word", ["no ", "not yet ", "ok, ", "stop the ", "wait for ", "never mind ", "a-b "]
    )
    def test_repetition(self, word):
        """
        No phrase is slow on its own words.
        """
        assert 0 <= label(word * 150, word * 150).drift <= 1


class TestManner:
    @pytest.mark.parametrize(
        "reply",
        [
            "too verbose, keep it short",
            "be more concise",
            "stop adding comments",
            "stop asking and do it",
            "don't commit without asking me first",
            "shorter please",
            "skip the preamble",
            "answer in one sentence",
            "no need to explain every line",
        ],
    )
    def test_style(self, reply):
        """
        How the agent speaks or asks is a correction of style, even where nothing else is wrong.
        """
        assert "correction_style" == label(reply).primary

    @pytest.mark.parametrize(
        "reply",
        [
            "wtf, again?!",
            "I told you not to touch main",
            "are you kidding, still broken",
            "are you kidding me? third time you broke the build",
            "did you even read the spec?",
            "for god's sake just read the file",
            "seriously?",
        ],
    )
    def test_frustration(self, reply):
        """
        Few words and much anger are frustration.
        """
        assert "frustration" == label(reply, tool_calls=4).primary

    @pytest.mark.parametrize(
        "reply",
        ["holy shit it works", "wtf, that was fast, nice", "are you kidding me, this is amazing, works"],
    )
    def test_joy_is_no_anger(self, reply):
        """
        Nobody is angry who praises, or says that it works, and objects to nothing.
        """
        assert label(reply, tool_calls=4).probabilities["frustration"] < 0.1

    @pytest.mark.parametrize("reply", ["why did you touch the migrations?", "why are you using tabs?"])
    def test_an_accusing_question(self, reply):
        """
        To be asked why one did something is to be told that one should not have.
        """
        assert "correction_substance" == label(reply, tool_calls=4).primary

    def test_an_order_that_only_sounds_alike(self):
        """
        Not to push is an order for what comes next until something else says it went wrong.
        """
        assert not label("tag the release, do not push it").is_drift
        assert label("why did you push? do not push before I say so").is_drift


class TestContext:
    def test_an_order_that_repeats_the_offer(self):
        """
        The same words accept an offer or give the next order, by what stood before them.
        """
        offer = "One backup branch is left. Say the word and I delete the backup branch."
        offered, unasked = (label("delete the backup branch", before) for before in (offer, DONE))

        assert offered.probabilities["approval"] > 2 * unasked.probabilities["approval"]

    def test_an_interruption(self):
        """
        Whoever interrupts the agent is likelier to correct it.
        """
        plain, cut_in = (label("use the other module", interrupted=cut) for cut in (False, True))

        assert plain.drift < cut_in.drift


class TestTheLabel:
    @given(HOSTILE, HOSTILE, HOSTILE, st.booleans())
    def test_it_always_adds_up(self, reply, before, prompt, interrupted):
        """
        Whatever was said: six probabilities that sum to one, drift as their sum, and a primary that fits.
        """
        found = classify_user_reply(
            reply, assistant_before=before, prompt_before=prompt, interrupted=interrupted
        )

        assert set(found.probabilities) == KINDS
        assert pytest.approx(1) == sum(found.probabilities.values())
        assert all(0 <= share <= 1 for share in found.probabilities.values())
        assert pytest.approx(found.drift) == 1 - sum(
            found.probabilities[kind] for kind in ("approval", "continuation", "new_task")
        )
        corrections = {"correction_style", "correction_substance", "frustration"}
        assert found.is_drift == (found.primary in corrections)

    @pytest.mark.parametrize("value", [None, 7, b"no", float("nan"), ["no"]])
    def test_what_is_no_text(self, value):
        """
        What is no text counts as none.
        """
        assert label("") == label(value)

    @pytest.mark.parametrize("value", [None, "3", float("nan"), float("inf"), -5, True, 10**30])
    def test_what_is_no_count(self, value):
        """
        What is no count never raises.
        """
        assert 0 < label("no", tool_calls=value, tool_errors=value, turn=value).drift < 1

    def test_it_is_a_plain_function(self):
        """
        The same reply gets the same label.
        """
        assert label("still wrong") == label("still wrong")

    def test_the_far_end_of_a_long_text(self):
        """
        Only the beginning of a reply and the end of what the agent said are looked at.
        """
        long = "please rename it. " * 1000

        assert label(long) == label(long + "this is all wrong")
        assert label("yes", "x" * 5000 + ASKED) == label("yes", "y" * 9000 + "x" * 5000 + ASKED)


class TestCues:
    def test_they_name_the_words(self):
        """
        The cues hold the very words that spoke, the strongest first, with what each added.
        """
        cues = label("it still crashes").cues

        assert {"still", "crashes"} <= {cue.words for cue in cues}
        assert cues == sorted(cues, key=lambda cue: (-abs(cue.weight), cue.name))

    def test_their_sign(self):
        """
        What speaks for a correction is above zero, what speaks against it below.
        """
        cues = {cue.name: cue.weight for cue in label("thanks, but it is still broken").cues}

        assert cues["praise"] < 0 < min(cues["still"], cues["broken"])

    def test_nothing_spoke(self):
        """
        Where nothing spoke there are no cues.
        """
        assert [] == classify_user_reply("").cues

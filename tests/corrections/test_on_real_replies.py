import os
from pathlib import Path

import pytest

from steadyhelm.corrections.reply_classifier import classify_user_reply
from steadyhelm.lab.training.classifier_metrics import auc, decision_f1, macro_f1
from steadyhelm.lab.training.labelled_replies import read_replies

DATA = Path(os.environ.get("STEADYHELM_DATA", Path(__file__).parents[3] / "shared" / "data"))
REPLIES = DATA / "replies" / "dev.jsonl"

pytestmark = pytest.mark.skipif(
    not REPLIES.is_file(), reason="the labelled replies are not here; set STEADYHELM_DATA"
)


@pytest.fixture(scope="module")
def replies():
    return read_replies(REPLIES)


def known(reply):
    """What both functions are told."""
    return {
        "prompt_before": reply.prompt_before,
        "assistant_before": reply.assistant_before,
        "tool_calls": reply.tool_calls_since_prompt,
        "tool_errors": reply.tool_errors_since_prompt,
        "turn": reply.turn,
    }


class TestTheRepliesItWasLearntFrom:
    # No measure of quality: weights that do not even fit these replies no longer fit the code.

    def test_labels_fit(self, replies):
        """
        The shipped weights go with the numbers the code takes.
        """
        labels = [
            classify_user_reply(reply.reply, interrupted=reply.interrupted, **known(reply))
            for reply in replies
        ]
        truth = [reply.is_drift for reply in replies]

        assert auc(truth, [label.drift for label in labels]) > 0.88
        assert decision_f1(truth, [label.is_drift for label in labels]) > 0.6
        assert (
            macro_f1([reply.labels.primary for reply in replies], [label.primary for label in labels]) > 0.75
        )

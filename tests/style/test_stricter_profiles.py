"""The order of profiles: whatever a stricter profile passes, a looser one passes too."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from steadyhelm.style.profile import HardRules, Profile
from steadyhelm.style.scoring import score_reply

WORDS = """
    basically|perhaps|robust|just|amazing|let me explain|the|row|is|read.|serialisation|great question!
    |`code`|i think|acknowledgement|in|summary|why?|elegant|scalable|powerful
""".replace("\n", "").split("|")
REPLIES = st.lists(st.sampled_from([*WORDS, "\n\n"]), max_size=120).map(" ".join)
SHARES = st.floats(0, 1)
TARGETS = (
    ("threshold", 1, 100),
    ("target_wps", 1, 60),
    ("max_wps", 60, 200),
    ("target_words", 1, 90),
    ("max_words", 90, 1000),
    ("max_long_ratio", 0.01, 1),
)


@st.composite
def pairs(draw):
    """A stricter profile, and one that is as lax or laxer in every number."""
    strict, lax = {}, {}
    for name, low, high in TARGETS:
        strict[name] = draw(st.floats(low, high))
        lax[name] = draw(st.floats(strict[name], high))
    strict["long_word_len"] = draw(st.integers(4, 20))
    lax["long_word_len"] = draw(st.integers(strict["long_word_len"], 40))
    strict["sensitivity"] = draw(st.floats(0.1, 3))
    lax["sensitivity"] = draw(st.floats(0.1, strict["sensitivity"]))
    strict["weights"] = {name: draw(SHARES) for name in Profile().weights}
    lax["weights"] = {name: draw(st.floats(0, weight)) for name, weight in strict["weights"].items()}
    rules = HardRules(max_lines=draw(st.none() | st.integers(1, 5)), no_questions=draw(st.booleans()))
    return Profile(rules=rules, **strict), Profile(rules=rules, **lax)


class TestOrderOfProfiles:
    @given(pairs(), REPLIES)
    def test_laxer_never_flags_more(self, profiles, reply):
        """
        With threshold and targets at least as high, sensitivity and weights at most as high, and the same
        lexicons and rules, a profile never flags what the stricter one passes.
        """
        stricter, laxer = (score_reply(reply, profile) for profile in profiles)

        assert laxer.score <= stricter.score
        assert stricter.flagged or not laxer.flagged

    @given(REPLIES, st.floats(0.1, 0.99))
    def test_weights_are_not_relative(self, reply, share):
        """
        Half of every weight is half as strict: weights are not measured against the largest.
        """
        base = Profile()
        weaker = structs.replace(base, weights={name: it * share for name, it in base.weights.items()})
        score, less = score_reply(reply, base).score, score_reply(reply, weaker).score

        assert less <= score
        assert less < score or score <= 0.5

    @given(REPLIES, st.integers(1, 6))
    def test_more_of_the_same_is_never_better(self, reply, times):
        """
        Another marker at the end never lowers the score of a short reply.
        """
        short = " ".join(reply.split()[:20])

        assert (
            score_reply(short).score <= score_reply(f"{short} basically" + " basically" * times).score + 0.1
        )

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.errors import SettingsError
from steadyhelm.goals.tokens import tokenize
from steadyhelm.goals.vocabulary import _ID, GoalDNA, find_ids

GOAL = "Build a REST API for user management"
PLAN = "1. users table and database migration 2. GET and POST /users endpoints 3. auth module 4. docs"
FILES = ("src/users/models.py", "src/auth/login.py", "migrations/0001_users.py")
ON_COURSE = (
    "Creating database migration for users",
    "Write GET /users endpoint",
    "Run pytest",
    "Fix failing test in auth module",
)
OFF_COURSE = "Researching quantum computing papers"


def grown():
    """The task after its plan was made and its first files touched."""
    dna = GoalDNA(GOAL)
    dna.grow(PLAN, "plan")
    for path in FILES:
        dna.grow(path, "file")
    return dna


class TestDrift:
    @pytest.mark.parametrize("step", ON_COURSE)
    def test_concrete_steps_are_on_course(self, step):
        """
        A concrete step of the task is far below a step of another task.
        """
        dna = grown()

        assert dna.calculate_drift(step) <= 0.1
        assert dna.calculate_drift(OFF_COURSE) > 0.55

    @pytest.mark.parametrize("step", ON_COURSE)
    def test_already_before_anything_was_learnt(self, step):
        """
        With the goal alone they are apart too, though less.
        """
        dna = GoalDNA(GOAL)

        assert dna.calculate_drift(step) <= 0.6 * dna.calculate_drift(OFF_COURSE)

    @pytest.mark.parametrize("step", ["Run pytest", "List the files and read them", "", "ok", "42", "....."])
    def test_a_step_that_says_nothing_is_unknown(self, step):
        """
        Words every task has carry no evidence either way: the drift is unknown, and the number a low one.
        """
        assert grown().estimate_drift(step) is None
        assert 0.1 == grown().calculate_drift(step)

    def test_a_goal_that_says_nothing_leaves_all_unknown(self):
        """
        Without a word to compare with, nothing is drift.
        """
        assert GoalDNA("Please fix it").estimate_drift(OFF_COURSE) is None
        assert GoalDNA("").estimate_drift(OFF_COURSE) is None

    def test_the_less_is_known_of_a_task_the_less_a_strange_step_says(self):
        """
        The same strange step scores lower against a thin goal than against a full one.
        """
        thin, full = GoalDNA("Improve Django"), GoalDNA(f"{GOAL}. {PLAN}")

        assert thin.calculate_drift(OFF_COURSE) < 0.7 * full.calculate_drift(OFF_COURSE)

    def test_the_more_a_step_says_the_more_it_counts(self):
        """
        Two strange words say less than ten.
        """
        more = f"{OFF_COURSE} on entanglement, superconductors, cryostats, photons, lasers and magnets"

        assert grown().calculate_drift("quantum papers") < grown().calculate_drift(more)

    def test_a_known_word_says_more_than_a_strange_one(self):
        """
        A step half of which is known counts as on course: healthy steps always bring new words.
        """
        dna = GoalDNA("Translate the Norwegian brochure on glaciers")

        assert dna.calculate_drift("The brochure on glaciers mentions moraines and crevasses") < 0.3

    def test_a_step_in_another_language_is_unknown(self):
        """
        A German goal and an English step share no words even when all is well.
        """
        dna = GoalDNA("Erstelle bitte eine Schnittstelle, mit der Kunden ihre Rechnungen ansehen")

        assert (
            dna.estimate_drift(
                "I have created the interface for the customers and will now go on to the ledger"
            )
            is None
        )

    def test_code_and_data_are_unknown(self):
        """
        A reply that is all data has none of the small words of speech, and is not judged.
        """
        dna = GoalDNA("Find the cheapest flight to Oslo and book it for me and my wife")

        assert (
            dna.estimate_drift('{"invoice": "paid", "ledger": "blue", "audit": "june", "clerk": "meyer"}')
            is None
        )

    @given(st.text(), st.text(), st.text())
    def test_any_text_gives_a_share(self, goal, plan, step):
        """
        Whatever the texts are, a drift is a number from 0 to 1.
        """
        dna = GoalDNA(goal)
        dna.grow(plan, "plan")

        assert 0.0 <= dna.calculate_drift(step) <= 1.0

    @pytest.mark.parametrize("odd", [None, 5, True, float("inf"), {"tool": "read"}, [], b"\xff", "\ud800"])
    def test_any_action_is_taken(self, odd):
        """
        Whatever an agent calls its action, the answer is a number.
        """
        assert 0.0 <= grown().calculate_drift(odd) <= 1.0

    def test_an_action_may_be_data(self):
        """
        An action given as data is read by its words.
        """
        step = {"tool": "search", "query": "quantum computing papers", "site": "physics archive"}

        assert grown().calculate_drift(step) > 0.5


class TestGrowing:
    @pytest.mark.parametrize("source", ["user", "plan", "accepted", "file", "work", "past"])
    def test_what_was_learnt_is_no_longer_strange(self, source):
        """
        A word taken in from anywhere lowers the drift of a step that names it.
        """
        dna = GoalDNA(GOAL)
        before = dna.calculate_drift(OFF_COURSE)
        dna.grow("quantum computing papers", source)

        assert dna.calculate_drift(OFF_COURSE) < before

    def test_where_a_word_comes_from_counts(self):
        """
        The goal counts most, then the user, the plan, what was accepted, the files, the work, the past.
        """
        drifts = [GoalDNA(f"{GOAL} on quantum computing papers").calculate_drift(OFF_COURSE)]
        for source in ("user", "plan", "accepted", "file", "work", "past"):
            dna = GoalDNA(GOAL)
            dna.grow("quantum computing papers", source)
            # Long enough a task that only the source makes a difference.
            dna.grow(PLAN, "plan")
            drifts.append(dna.calculate_drift(OFF_COURSE))

        assert drifts == sorted(drifts)
        assert len(set(drifts)) == len(drifts)

    def test_a_better_source_is_kept(self):
        """
        A word the user said stays the user's when a file has it too.
        """
        dna, same = GoalDNA(GOAL), GoalDNA(GOAL)
        for one in (dna, same):
            one.grow("quantum computing papers", "user")
        dna.grow("quantum/computing/papers.py", "file")

        assert dna.asked == same.asked
        assert dna.calculate_drift(OFF_COURSE) == pytest.approx(same.calculate_drift(OFF_COURSE), abs=0.1)

    def test_a_reading_tells_what_it_rests_on(self):
        """
        A step is known by how many words of the task it names and which words are new.
        """
        reading = GoalDNA(GOAL).compare(tokenize("The user management API stores passwords"))

        assert (3, ["password"]) == (len(reading.named), reading.unknown)
        assert reading.is_on_task

    def test_the_vocabulary_is_bounded(self):
        """
        However much is said, a few hundred words are kept, the goal's among them.
        """
        dna = GoalDNA(GOAL)
        for n in range(3000):
            word = "".join(chr(97 + int(digit)) for digit in str(n + 10_000))
            dna.grow(f"{word}x {word}y", "user")
            dna.grow(f"{word}z/{word}q.py", "file")

        assert {"rest", "api", "user", "manag"} == set(dna.core)
        assert 96 == len(dna.asked) == len(dna.touched)

    def test_what_was_not_named_for_longest_goes_first(self):
        """
        A word that is named again and again stays.
        """
        dna = GoalDNA(GOAL)
        for n in range(200):
            dna.grow(f"alpha{chr(97 + n % 26)}{chr(97 + n // 26)}zz", "file")
            dna.grow("invoices/ledger.py", "file")

        assert dna.is_known("ledg")

    def test_a_source_nobody_knows_is_refused(self):
        """
        A wrong source is a mistake of the caller's, said in words.
        """
        with pytest.raises(SettingsError, match=r"grows by one of user, plan, .* got 'dream'"):
            GoalDNA(GOAL).grow("quantum", "dream")

    def test_another_task_keeps_the_old_words_a_little(self):
        """
        Begun anew, the old task's words are known, but far less than the new one's.
        """
        dna = grown().start_new_goal("Write a survey of quantum computing papers for physicists")
        old, new = (
            dna.calculate_drift("Creating database migration for users"),
            dna.calculate_drift(OFF_COURSE),
        )
        nothing = GoalDNA("Write a survey of quantum computing papers for physicists")

        assert new < old < nothing.calculate_drift("Creating database migration for users")


class TestState:
    @given(st.text(), st.lists(st.text(), max_size=4))
    def test_it_is_its_own_state(self, goal, said):
        """
        Encoded and taken up again, it is the same.
        """
        dna = GoalDNA(goal)
        for text in said:
            dna.grow(text, "user")
            dna.grow(text, "file")

        assert dna == msgspec.msgpack.decode(msgspec.msgpack.encode(dna), type=GoalDNA)

    def test_a_huge_goal_is_cut(self):
        """
        A goal of any size leaves a small state.
        """
        assert 5000 > len(msgspec.msgpack.encode(GoalDNA("word and other things " * 100_000)))

    @pytest.mark.parametrize(
        ("goal", "is_cut"),
        [
            ("Translate the contract", False),
            ("Translate the contract ...[420 characters cut]... into Finnish", True),
            ("Translate the contract [truncated]", True),
            ("Translate it (12 lines omitted)", True),
            ("Titles are truncated to 30 characters", False),
            (" ".join(f"{one}{two}ord" for one in "bcdfghklmn" for two in "aeiouyaeio"), False),
            (" ".join(f"{one}{two}ords" for one in "bcdfghklmnprstvwz" for two in "aeiouy"), True),
        ],
    )
    def test_it_knows_that_part_of_the_goal_is_missing(self, goal, is_cut):
        """
        A recorder says that it cut the text, or it has more words than are kept.
        """
        assert is_cut == GoalDNA(goal).is_cut


class TestIds:
    @given(st.text("aZé179#_-., /", max_size=60))
    def test_every_id_is_found(self, text):
        """
        Runs of characters without a digit are passed over, and no id is in them.
        """
        assert list(dict.fromkeys(it.lstrip("#").lower() for it in _ID.findall(text))) == find_ids(text)

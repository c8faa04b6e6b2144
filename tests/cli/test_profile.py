import json

import pytest
import typer
from typer.testing import CliRunner
from watched_agent import CommandLine

from steadyhelm.cli import profile
from steadyhelm.style.profile_files import BUNDLED_PROFILES

PADDED = (
    "Great question! I'd be happy to help. Basically, let me explain. Perhaps, in a sense, it is worth "
    "noting that, I think, essentially, it seems amazing. In summary, I hope this helps!"
)


MINE = """\
# house style, see the handbook
extends = "strict"
threshold = 41  # agreed in May
target_words = 80  # short
max_words = 200

[rules]
no_emoji = true  # never

[lexicons.filler]
remove = ["basically"]  # we say that
extend = ["as it were"]

[weights]
filler = 0.2
"""


class Profiles(CommandLine):
    """The command under test, ending as `steadyhelm` would end."""

    def __init__(self):
        self.database = None
        self._runner = CliRunner()
        self._app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)
        self._app.add_typer(profile.app, name="profile")


@pytest.fixture
def steadyhelm(apart):
    return Profiles()


@pytest.fixture
def good(apart):
    """A file of good replies."""
    path = apart / "good.jsonl"
    path.write_text(
        "".join(json.dumps({"text": f"Part {n} is done. All tests pass."}) + "\n" for n in range(20))
    )
    return path


class TestList:
    def test_bundled(self, steadyhelm, apart):
        """
        The bundled profiles are listed, and where yours would be.
        """
        answer = steadyhelm("profile list")

        assert 0 == answer.status
        assert all(name in answer.out for name in BUNDLED_PROFILES)
        assert f"{apart / 'profiles'}" in answer.err

    def test_yours(self, steadyhelm, apart):
        """
        Yours are among them, with their file.
        """
        steadyhelm("profile new mine")

        found = {it["name"]: it["from"] for it in steadyhelm("profile list --json").document["profiles"]}

        assert {
            **dict.fromkeys(BUNDLED_PROFILES, "bundled"),
            "mine": f"{apart / 'profiles' / 'mine.toml'}",
        } == found

    def test_a_broken_one(self, steadyhelm, apart):
        """
        A broken profile does not hide the others, and is named.
        """
        (apart / "profiles").mkdir()
        (apart / "profiles" / "mine.toml").write_text("threshold = 0\nsensitivity = 9")

        answer = steadyhelm("profile list")

        assert 1 == answer.status
        assert "standard" in answer.out
        assert "threshold must be a number from 1 to 100, got 0.\n" in answer.err
        assert "sensitivity must be a number from 0.1 to 3, got 9.\n" in answer.err


class TestShow:
    def test_everything(self, steadyhelm):
        """
        What a profile takes from others is shown as its own.
        """
        answer = steadyhelm("profile show terse")

        assert 0 == answer.status
        lines = [line.split(maxsplit=1) for line in answer.out.splitlines()]
        assert ["max_words", "200"] in lines
        assert ["sensitivity", "1.15"] in lines

    def test_json(self, steadyhelm):
        """
        As JSON it holds the lexicons too.
        """
        (document,) = steadyhelm("profile show strict --json").documents

        assert 50 == document["threshold"]
        assert "basically" in document["lexicons"]["filler"]["words"]

    def test_unknown(self, steadyhelm):
        """
        A name nobody has is told, with those there are.
        """
        answer = steadyhelm("profile show pirate")

        assert 1 == answer.status
        assert "There is no profile 'pirate'. Profiles: standard, relaxed," in answer.err


class TestCheck:
    def test_sound(self, steadyhelm):
        """
        Sound profiles are said to be.
        """
        answer = steadyhelm("profile check standard terse")

        assert 0 == answer.status
        assert ["standard: valid;", "terse: valid;"] == [
            line[: line.index(";") + 1] for line in answer.out.splitlines()
        ]

    def test_faults(self, steadyhelm, apart):
        """
        Every fault of a file is told on a line of its own, and the status is 1.
        """
        (apart / "mine.toml").write_text("thresold = 5\nweights = 3\n")

        answer = steadyhelm("profile check mine.toml standard")

        assert 1 == answer.status
        assert [
            "steadyhelm: mine.toml: there is no 'thresold'",
            "steadyhelm: mine.toml: weights must be a table",
        ] == [line.split(" in a ")[0].split(",")[0] for line in answer.err.splitlines()]
        assert "standard: valid" in answer.out

    def test_as_json(self, steadyhelm, apart):
        """
        The same for programs.
        """
        (apart / "mine.toml").write_text("threshold = 0")

        (document,) = steadyhelm("profile check mine.toml --json").document["profiles"]

        assert document["sound"] is False
        assert 1 == len(document["faults"])

    def test_a_reply(self, steadyhelm, apart):
        """
        A reply is scored, with its offenders, and drift is status 3.
        """
        (apart / "reply.txt").write_text(PADDED)

        answer = steadyhelm("profile check standard relaxed --reply reply.txt")

        assert 3 == answer.status
        assert "drift, lost" in answer.out.splitlines()[0]
        assert "filler (" in answer.out

    def test_a_good_reply(self, steadyhelm, apart):
        """
        A plain reply is fine.
        """
        (apart / "reply.txt").write_text("Fixed; the tests pass.")

        answer = steadyhelm("profile check standard --reply reply.txt --json")

        assert 0 == answer.status
        (checked,) = answer.document["profiles"]
        assert (0.0, False) == (checked["score"]["score"], checked["score"]["drifting"])

    def test_a_broken_rule(self, steadyhelm, apart):
        """
        A rule that is broken is told in words.
        """
        (apart / "reply.txt").write_text("Ready?")

        answer = steadyhelm("profile check machine --reply reply.txt")

        assert 3 == answer.status
        assert "machine: 0 of 50, 2 broken rules, drifted" == answer.out.splitlines()[0]
        assert "rule no_questions: a question is asked" in answer.out

    def test_a_byte_order_mark(self, steadyhelm, apart):
        """
        A mark that an editor puts first is not part of the reply.
        """
        (apart / "reply.txt").write_text('{"done": true}', encoding="utf-8-sig")

        assert 0 == steadyhelm("profile check machine --reply reply.txt").status

    def test_no_such_reply(self, steadyhelm):
        """
        A file that is not there is named.
        """
        answer = steadyhelm("profile check standard --reply none.txt")

        assert 1 == answer.status
        assert "none.txt cannot be read" in answer.err


class TestNew:
    def test_it_can_be_used(self, steadyhelm, apart):
        """
        A new profile is sound as it is.
        """
        assert 0 == steadyhelm("profile new mine --extends terse").status
        assert 0 == steadyhelm("profile check mine").status
        assert 'extends = "terse"' in (apart / "profiles" / "mine.toml").read_text()

    def test_nothing_is_replaced_unasked(self, steadyhelm, apart):
        """
        A profile that exists is only replaced with --yes.
        """
        steadyhelm("profile new mine")

        assert 2 == steadyhelm("profile new mine").status
        assert 0 == steadyhelm("profile new mine --yes").status

    @pytest.mark.parametrize("name", ["Mine", "../mine", "a.b"])
    def test_names(self, steadyhelm, name):
        """
        A name is a name, not a path.
        """
        answer = steadyhelm("profile new {name}", name=name)

        assert 2 == answer.status
        assert "lower-case letters" in answer.err

    def test_elsewhere(self, steadyhelm, apart):
        """
        It can be written to any file.
        """
        assert 0 == steadyhelm("profile new mine --output team.toml").status
        assert 0 == steadyhelm("profile check team.toml").status


class TestCalibrate:
    def test_learnt(self, steadyhelm, good, apart):
        """
        Targets are learnt from good replies and written as a profile.
        """
        answer = steadyhelm("profile calibrate ours good.jsonl --extends strict")

        assert 0 == answer.status
        assert "learnt from 20 replies" in answer.err
        (shown,) = steadyhelm("profile show ours --json").documents
        assert (10.0, 50) == (shown["target_words"], shown["threshold"])

    def test_text_files(self, steadyhelm, apart):
        """
        A text file is one reply.
        """
        for number in range(12):
            (apart / f"{number}.md").write_text("All of it is done.")

        assert (
            0
            == steadyhelm("profile calibrate ours " + " ".join(f"{number}.md" for number in range(12))).status
        )

    def test_piped(self, good, apart):
        """
        JSON Lines can be piped in.
        """
        result = CliRunner().invoke(profile.app, ["calibrate", "ours", "-"], input=good.read_bytes())

        assert 0 == result.exit_code
        assert "learnt from 20 replies" in result.stderr

    def test_piped_text(self, apart):
        """
        Anything else in a pipe is refused with its line.
        """
        result = CliRunner().invoke(profile.app, ["calibrate", "ours", "-"], input="\n\nAll is done.\n")

        assert "standard input, line 3 is not JSON" in str(result.exception)

    def test_marked_lines(self, steadyhelm, good):
        """
        A mark that an editor puts first does not spoil the first line.
        """
        good.write_text(good.read_text(), encoding="utf-8-sig")

        assert "learnt from 20 replies" in steadyhelm("profile calibrate ours good.jsonl").err

    def test_the_rest_of_a_profile_stays(self, steadyhelm, good, apart):
        """
        What is not learnt stays as it is: base, threshold, rules, lexicons, comments, order of lines.
        """
        steadyhelm("profile new mine --extends strict")
        path = apart / "profiles" / "mine.toml"
        path.write_text(MINE)
        answer = steadyhelm("profile calibrate mine good.jsonl --yes")

        assert 0 == answer.status
        changed = {"max_words", "target_words", "target_wps", "max_wps", "max_long_ratio"}
        kept = [line for line in path.read_text().splitlines() if line.split(" ")[0] not in changed]
        assert [line for line in MINE.splitlines() if line.split(" ")[0] not in changed] == kept
        shown = steadyhelm("profile show mine --json").document
        assert (41, True, 10.0) == (shown["threshold"], shown["rules"]["no_emoji"], shown["target_words"])

    def test_the_change_is_shown_first(self, steadyhelm, good, apart):
        """
        Without a terminal and without --yes nothing is written, and what would change is on the screen.
        """
        path = apart / "profiles" / "mine.toml"
        path.parent.mkdir()
        path.write_text(MINE)
        answer = steadyhelm("profile calibrate mine good.jsonl")

        assert (2, MINE) == (answer.status, path.read_text())
        assert "-target_words = 80  # short" in answer.out
        assert "+target_words = 10  # short" in answer.out
        assert "Add --yes to continue." in answer.err

    def test_dry_run(self, steadyhelm, good, apart):
        """
        A dry run shows the change of a new or an existing profile, and writes nothing.
        """
        answer = steadyhelm("profile calibrate ours good.jsonl --dry-run --yes")

        assert (0, True) == (answer.status, "+target_words = 10" in answer.out)
        assert "Nothing was written." in answer.err
        assert not (apart / "profiles").exists()

    def test_twice_is_once(self, steadyhelm, good, apart):
        """
        Learning the same again changes nothing.
        """
        steadyhelm("profile calibrate ours good.jsonl")
        text = (apart / "profiles" / "ours.toml").read_text()
        answer = steadyhelm("profile calibrate ours good.jsonl")

        assert (0, text) == (answer.status, (apart / "profiles" / "ours.toml").read_text())
        assert "Nothing was changed." in answer.err

    def test_another_base(self, steadyhelm, good, apart):
        """
        Only --extends changes what a profile extends.
        """
        path = apart / "profiles" / "mine.toml"
        path.parent.mkdir()
        path.write_text(MINE)
        steadyhelm("profile calibrate mine good.jsonl --extends terse --yes")

        assert 'extends = "terse"' in path.read_text()
        assert "# house style, see the handbook" in path.read_text()

    def test_a_term_of_ones_own_stays_a_marker(self, steadyhelm, apart):
        """
        A word that the profile itself lists is not taken for the agent's way of speaking.
        """
        path = apart / "profiles" / "mine.toml"
        path.parent.mkdir()
        path.write_text('[lexicons.filler]\nextend = ["well then"]\n')
        replies = [f"Well then, basically part {n} is done and all of its tests pass." for n in range(20)]
        (apart / "good.jsonl").write_text("".join(json.dumps(text) + "\n" for text in replies))
        answer = steadyhelm("profile calibrate mine good.jsonl --yes")

        assert "Words accepted as this agent's own style: basically." in answer.err
        filler = steadyhelm("profile show mine --json").document["lexicons"]["filler"]["words"]
        assert ("well then" in filler, "basically" in filler) == (True, False)

    def test_json(self, steadyhelm, good, apart):
        """
        A profile in JSON stays one.
        """
        path = apart / "profiles" / "mine.json"
        path.parent.mkdir()
        path.write_text('{"_comment": "ours", "threshold": 41}')
        steadyhelm("profile calibrate mine good.jsonl --yes")

        assert {"_comment": "ours", "threshold": 41, "target_words": 10.0}.items() <= json.loads(
            path.read_text()
        ).items()
        assert not path.with_suffix(".toml").exists()

    def test_a_profile_that_cannot_be_read_is_left_alone(self, steadyhelm, good, apart):
        """
        A broken file is named, and not replaced.
        """
        path = apart / "profiles" / "mine.toml"
        path.parent.mkdir()
        path.write_text("threshold = = 5")
        answer = steadyhelm("profile calibrate mine good.jsonl --yes")

        assert (1, "threshold = = 5") == (answer.status, path.read_text())
        assert "mine.toml is not TOML" in answer.err

    def test_too_few(self, steadyhelm, apart):
        """
        Too few replies are refused, and nothing is written.
        """
        (apart / "few.jsonl").write_text('"Done."\n')

        assert 2 == steadyhelm("profile calibrate ours few.jsonl").status
        assert not (apart / "profiles").exists()

    @pytest.mark.parametrize("line", ["{", "[]", '{"id": 3}', '{"text": 5}'])
    def test_a_broken_line(self, steadyhelm, apart, line):
        """
        A line that holds no reply is named with its number.
        """
        (apart / "bad.jsonl").write_text(f'"Done."\n{line}\n')

        answer = steadyhelm("profile calibrate ours bad.jsonl")

        assert 1 == answer.status
        assert "bad.jsonl, line 2" in answer.err

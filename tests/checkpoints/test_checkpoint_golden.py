"""Stored checkpoints stay readable: a file written with the first version, read by today's code.

The file was made once, by `python tests/checkpoints/test_checkpoint_golden.py` with the sources on
PYTHONPATH, and is never made again: a later version gets a file of its own beside it.
"""

import json
import shutil
from pathlib import Path

import msgspec
import pytest

from steadyhelm.checkpoints.disk import DiskKeeper
from steadyhelm.checkpoints.packed_keeper import CheckpointKey, hash_run_id
from steadyhelm.checkpoints.packing import VERSION, pack, unpack
from steadyhelm.testing.checkpoint_checks import AT, a_checkpoint

GOLDEN = Path(__file__).parent.parent / "golden"
VERSIONS = (1,)
# Where a keeper of that version put it.
STOOD_AT = {
    1: "f0ebc31c61313b7071b2a5cc6be9de19/"
    "00000000000000000042-00001700000000250000-64d6ecc16899883f-fd81550232b64bd7-clean.checkpoint",
}


def a_full_one():
    """Something in every field."""
    return a_checkpoint(
        41,
        checkpoint_id="checkpoint",
        turn=12,
        taken_at=AT + 0.25,
        conversation_history=[
            {"role": "user", "content": "mend the parser"},
            {"role": "assistant", "content": None, "tool_calls": [{"name": "read", "args": {"n": -1}}]},
            ("tool", 0.5, True, 2**63 - 1, "ü😀", b"\x80"),
        ],
        goal_tree={"goal": "mend the parser", "steps": {1: "read"}},
        state_files={"src/a.py": b"x = 1\n", "notes.txt": "text", "gone": None, "big": {"git": "4f2a91c"}},
        file_modes={"src/a.py": 0o755},
        session_state=b"\x00state",
        label="before the refactoring",
        meta={"model": "m"},
    )


def name(version):
    return GOLDEN / f"checkpoint-{version:04d}"


def plain(checkpoint):
    """A checkpoint as JSON has it."""
    return json.loads(msgspec.json.encode(checkpoint))


class TestGolden:
    @pytest.mark.parametrize("version", VERSIONS)
    def test_it_reads_the_same(self, version):
        """
        Today's code reads a file of every version there ever was, and finds in it what was written.
        """
        expected = json.loads(name(version).with_suffix(".json").read_text())
        read = plain(unpack(name(version).with_suffix(".checkpoint").read_bytes()))

        assert expected == {field: read[field] for field in expected}

    @pytest.mark.parametrize("version", VERSIONS)
    def test_a_keeper_finds_it(self, version, folder):
        """
        A folder written then is read now: the names of folders and files mean what they meant.
        """
        keeper = DiskKeeper(folder)
        run, file = STOOD_AT[version].split("/")
        (folder / run).mkdir()
        shutil.copy(name(version).with_suffix(".checkpoint"), folder / run / file)
        found = keeper.get_last_checkpoint("run", agent_id="agent", before_seq=42)

        assert found == unpack(name(version).with_suffix(".checkpoint").read_bytes())

    def test_the_newest_version_has_one(self):
        """
        Whoever changes the format adds a file made with it.
        """
        assert VERSIONS[-1] == VERSION

    def test_it_is_filled(self):
        """
        Everything the golden file is made with is kept today as well.
        """
        expected = json.loads(name(VERSIONS[-1]).with_suffix(".json").read_text())
        today = plain(pack(a_full_one(), max_bytes=10_000).record)

        assert expected == {field: today[field] for field in expected}


def make(version):
    """Write the golden file, and what it holds."""
    record, content = pack(a_full_one(), max_bytes=10_000)
    name(version).with_suffix(".checkpoint").write_bytes(content)
    text = json.dumps(plain(record), indent=1, sort_keys=True, ensure_ascii=False)
    name(version).with_suffix(".json").write_text(text + "\n")
    print(f"{hash_run_id(record.run_id)}/{CheckpointKey.of(record).file_name}")


if __name__ == "__main__":
    make(VERSIONS[-1])

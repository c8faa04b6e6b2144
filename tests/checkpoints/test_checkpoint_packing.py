"""The stored format: whole, checked, versioned."""

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.checkpoint import Checkpoint
from steadyhelm.checkpoints import packing
from steadyhelm.checkpoints.packing import VERSION, pack, unpack
from steadyhelm.checkpoints.plain_data import TooLargeError
from steadyhelm.errors import FormatError
from steadyhelm.testing.checkpoint_checks import a_checkpoint

HEADER = 48


def packed(record=None, *, version=VERSION):
    """A file's content with this record in it, whatever it is."""
    body = msgspec.msgpack.encode(record)
    return packing._HEADER.pack(packing._MAGIC, version, len(body), packing._compute_digest(body)) + body


class TestPacking:
    def test_the_header_says_what_it_is(self):
        """
        A file of ours begins with words, a version, a length and a checksum, and then comes the record.
        """
        content = pack(a_checkpoint(), max_bytes=10_000).content

        assert content.startswith(b"steadyhelm checkpoint\n\0\1")
        assert len(content) - HEADER == int.from_bytes(content[24:32], "big")
        assert "checkpoint-0" == msgspec.msgpack.decode(content[HEADER:])["checkpoint_id"]

    def test_the_record_is_what_comes_back(self):
        """
        What `pack` says will be kept is what `unpack` gives.
        """
        record, content = pack(a_checkpoint(meta={"at": (1, 2)}), max_bytes=10_000)

        assert record == unpack(content)

    def test_the_limit_is_the_size_of_all_of_it(self):
        """
        Exactly as many bytes as are allowed is not too many.
        """
        size = len(pack(a_checkpoint(), max_bytes=10_000).content)

        assert size == len(pack(a_checkpoint(), max_bytes=size).content)
        with pytest.raises(TooLargeError):
            pack(a_checkpoint(), max_bytes=size - 1)


class TestDamage:
    def test_a_cut_file_is_refused(self):
        """
        However much of its end is missing, or came too much, a file is not taken for a checkpoint.
        """
        content = pack(a_checkpoint(), max_bytes=10_000).content
        for size in range(len(content)):
            with pytest.raises(FormatError):
                unpack(content[:size])
        with pytest.raises(FormatError, match="damaged"):
            unpack(content + b"\0")

    @pytest.mark.parametrize("seed", range(5))
    def test_a_changed_bit_is_noticed(self, seed):
        """
        One bit that has changed anywhere is enough.
        """
        content = bytearray(pack(a_checkpoint(), max_bytes=10_000).content)
        place = random.Random(seed).randrange(len(content) * 8)
        content[place // 8] ^= 1 << place % 8

        with pytest.raises(FormatError):
            unpack(bytes(content))

    @given(st.binary(max_size=200))
    def test_foreign_bytes_are_refused(self, content):
        """
        Bytes that somebody else wrote give one clear error, behind our own header too.
        """
        with pytest.raises(FormatError):
            unpack(content)
        with pytest.raises(FormatError):
            unpack(packed(content))

    def test_a_record_of_another_shape_is_refused(self):
        """
        A sound file without what every checkpoint has is not one.
        """
        for record in ({}, [], {"checkpoint_id": 5, "agent_id": "a", "run_id": "r"}, None):
            with pytest.raises(FormatError, match="cannot be read"):
                unpack(packed(record))


class TestVersions:
    @pytest.mark.parametrize("version", [0, VERSION + 1, 65535])
    def test_another_version_is_refused(self, version):
        """
        A version we do not know is named, not guessed at.
        """
        with pytest.raises(FormatError, match=f"version {version}"):
            unpack(packed({}, version=version))

    def test_fields_may_be_added(self):
        """
        A field we do not know is ignored, and one that is missing has its default.
        """
        record = {"checkpoint_id": "c", "agent_id": "a", "run_id": "r", "mood": "fine"}

        assert Checkpoint(checkpoint_id="c", agent_id="a", run_id="r") == unpack(packed(record))

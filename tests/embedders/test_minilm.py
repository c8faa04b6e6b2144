import json
import math
import os
import random
import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from steadyhelm.baselines import BaselineStats
from steadyhelm.embedders.minilm import GOALS_CACHED, MiniLM
from steadyhelm.embedders.weights import check_weights, get_default_model_dir
from steadyhelm.errors import FormatError, MissingExtraError

pytest.importorskip("numpy", reason="the minilm extra is not installed")

BASELINE = BaselineStats(agent_id="a")
VOCABULARY = "[PAD] [UNK] [CLS] [SEP] book a flight ##s to oslo fix the parser test ! sea"
PIECES = VOCABULARY.split()
CONFIG = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "hidden_size": 16,
    "intermediate_size": 24,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 12,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "type_vocab_size": 2,
    "vocab_size": len(PIECES),
}


def made_up_tensors():
    """Weights of a tiny network, by name: nested lists of seeded random numbers."""
    draw = random.Random(7)

    def matrix(rows, columns):
        return [[draw.gauss(0, 0.7) for _ in range(columns)] for _ in range(rows)]

    tables = {"word": len(PIECES), "position": 12, "token_type": 2}
    tensors = {f"embeddings.{name}_embeddings.weight": matrix(rows, 16) for name, rows in tables.items()}
    dense = [
        *((f"attention.{part}", 16, 16) for part in ("self.query", "self.key", "self.value", "output.dense")),
        ("intermediate.dense", 24, 16),
        ("output.dense", 16, 24),
    ]
    norms = ["embeddings.LayerNorm"]
    for layer in ("encoder.layer.0", "encoder.layer.1"):
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
        for name, rows, columns in dense:
            tensors[f"{layer}.{name}.weight"] = matrix(rows, columns)
            tensors[f"{layer}.{name}.bias"] = matrix(1, rows)[0]
    for norm in norms:
        tensors[f"{norm}.weight"], tensors[f"{norm}.bias"] = matrix(2, 16)
    return tensors


def words_only_tensors(near, far):
    """A network whose layers change nothing: these words point one way, those the other."""
    tensors = {
        name: [[0.0] * len(row) for row in rows]
        if isinstance(rows[0], list)
        else [float("Norm.w" in name)] * len(rows)
        for name, rows in made_up_tensors().items()
    }
    across, along = [1.0, -1.0] * 8, [1.0] * 8 + [-1.0] * 8
    # The two marks cancel each other out, so that a text points where its words point.
    signs = {"[CLS]": (across, 1), "[SEP]": (across, -1)}
    signs |= dict.fromkeys(near, (along, 1)) | dict.fromkeys(far, (along, -1))
    for word, (direction, sign) in signs.items():
        tensors["embeddings.word_embeddings.weight"][PIECES.index(word)] = [sign * x for x in direction]
    return tensors


def write_safetensors(path, tensors, dtype="F32"):
    """The file format: length of the header, the header, the numbers."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, rows in tensors.items():
        flat = [x for row in rows for x in row] if isinstance(rows[0], list) else rows
        shape = [len(rows), len(rows[0])] if isinstance(rows[0], list) else [len(rows)]
        span = [len(data), len(data) + 4 * len(flat)]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": span}
        data += struct.pack(f"<{len(flat)}f", *flat)
    encoded = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(encoded)) + encoded + data)


def reference_vector(tensors, ids):
    """The same network from the textbook: one number at a time, in double precision."""

    def dense(name, row):
        weight, bias = tensors[f"{name}.weight"], tensors[f"{name}.bias"]
        return added([sum(w * x for w, x in zip(ws, row, strict=True)) for ws in weight], bias)

    def norm(name, row):
        mean = sum(row) / len(row)
        deviation = math.sqrt(sum((x - mean) ** 2 for x in row) / len(row) + 1e-12)
        scale, shift = tensors[f"{name}.weight"], tensors[f"{name}.bias"]
        return [(x - mean) / deviation * w + b for x, w, b in zip(row, scale, shift, strict=True)]

    def attention(name, rows):
        query, key, value = ([dense(f"{name}.{p}", row) for row in rows] for p in ("query", "key", "value"))
        mixed = [[0.0] * 16 for _ in rows]
        for head in range(0, 16, 4):
            for at, q in enumerate(query):
                scores = [math.exp(sum(q[head + i] * k[head + i] for i in range(4)) / 2.0) for k in key]
                for i in range(head, head + 4):
                    mixed[at][i] = sum(s * v[i] for s, v in zip(scores, value, strict=True)) / sum(scores)
        return mixed

    def added(one, other):
        return [a + b for a, b in zip(one, other, strict=True)]

    word, place, kind = (
        tensors[f"embeddings.{part}_embeddings.weight"] for part in ("word", "position", "token_type")
    )
    rows = [
        norm("embeddings.LayerNorm", added(added(word[n], place[at]), kind[0])) for at, n in enumerate(ids)
    ]
    for layer in ("encoder.layer.0", "encoder.layer.1"):
        mixed = attention(f"{layer}.attention.self", rows)
        for at in range(len(ids)):
            seen = dense(f"{layer}.attention.output.dense", mixed[at])
            row = norm(f"{layer}.attention.output.LayerNorm", added(rows[at], seen))
            wide = [
                x / 2 * (1 + math.erf(x / math.sqrt(2))) for x in dense(f"{layer}.intermediate.dense", row)
            ]
            rows[at] = norm(f"{layer}.output.LayerNorm", added(row, dense(f"{layer}.output.dense", wide)))
    mean = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    length = math.sqrt(sum(x * x for x in mean))
    return [x / length for x in mean]


@pytest.fixture
def model_dir(tmp_path):
    """A folder with a whole, tiny model in it."""
    write_safetensors(tmp_path / "model.safetensors", made_up_tensors())
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


@pytest.fixture
def minilm(model_dir):
    """The embedder on the tiny model."""
    return MiniLM(model_dir)


@pytest.fixture(scope="module")
def real():
    """The embedder on the real weights, where they have been fetched."""
    folder = Path(os.environ.get("STEADYHELM_MINILM_DIR") or get_default_model_dir())
    if check_weights(folder).state != "present":
        pytest.skip(
            f"no weights in {folder}: steadyhelm models fetch brings them, STEADYHELM_MINILM_DIR names others"
        )
    return MiniLM(folder)


class TestNetwork:
    @pytest.mark.parametrize(
        ("text", "ids"),
        [
            ("sea", [2, 15, 3]),
            ("Book a flight to Oslo!", [2, 4, 5, 6, 8, 9, 14, 3]),
            ("flights", [2, 6, 7, 3]),
            ("the moon", [2, 11, 1, 3]),
            ("fix the parser test " * 9, [2, 10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 3]),
        ],
    )
    def test_same_as_the_textbook(self, minilm, text, ids):
        """
        The vector is the one that the definition gives, worked out number by number.
        """
        assert (
            pytest.approx(reference_vector(made_up_tensors(), ids), abs=1e-5) == minilm.embed(text).tolist()
        )

    def test_same_every_time(self, minilm, model_dir):
        """
        The same text gives the same bits, also from another instance.
        """
        assert minilm.embed("fix the parser").tolist() == MiniLM(model_dir).embed("fix the parser").tolist()


class TestSimilarity:
    def test_itself(self, minilm):
        """
        A text is as near as can be to itself.
        """
        assert 1.0 == minilm.similarity("book a flight", "Book a FLIGHT", BASELINE)

    @pytest.mark.parametrize("empty", ["", " \n", "\u200b"])
    def test_no_words(self, minilm, empty):
        """
        A goal or text without words is near to nothing.
        """
        assert 0.0 == minilm.similarity("book a flight", empty, BASELINE)
        assert 0.0 == minilm.similarity(empty, "book a flight", BASELINE)

    def test_pointing_apart(self, model_dir):
        """
        Texts that point apart are 0, not below it.
        """
        write_safetensors(
            model_dir / "model.safetensors", words_only_tensors(near=["a", "flight"], far=["parser"])
        )
        minilm = MiniLM(model_dir)

        assert pytest.approx(-1.0) == float(minilm.embed("flight") @ minilm.embed("parser"))
        assert 0.0 == minilm.similarity("flight", "parser", BASELINE)

    def test_beginning_of_the_text(self, minilm):
        """
        Only the first 512 characters of an output are read.
        """
        text = "sea" + " " * 509

        assert 1.0 == minilm.similarity("sea", text + "fix the parser", BASELINE)
        assert 1.0 > minilm.similarity("sea", text[:-1] + "a", BASELINE)

    @pytest.mark.parametrize(
        "text", ["\ud800", "\x00" * 600, "🙂" * 600, "\u0301" * 600, "x" * 100_000, "[SEP]"]
    )
    def test_hostile_text(self, minilm, text):
        """
        No text makes it fail.
        """
        assert 0.0 <= minilm.similarity(text, text, BASELINE) <= 1.0

    def test_goals_kept(self, minilm):
        """
        Goals are worked out once and remembered, but not without end.
        """
        for number in range(3 * GOALS_CACHED):
            minilm.similarity("sea " * number, "sea", BASELINE)
        minilm.similarity("sea " * (3 * GOALS_CACHED - 1), "sea", BASELINE)
        kept = minilm._embed_goal.cache_info()

        assert (1, GOALS_CACHED) == (kept.hits, kept.currsize)

    def test_threads(self, minilm):
        """
        Many threads may ask at once and get what one would have got.
        """
        pairs = [(goal, text) for goal in PIECES for text in PIECES]
        alone = [minilm.similarity(goal, text, BASELINE) for goal, text in pairs]
        with ThreadPoolExecutor(4) as threads:
            together = list(threads.map(lambda pair: minilm.similarity(*pair, BASELINE), pairs))

        assert alone == together


class TestBadModel:
    def test_no_folder(self, tmp_path):
        """
        A folder without a model says so and names the command that fills it.
        """
        with pytest.raises(FormatError, match=r"no model in .*nowhere.* steadyhelm models fetch"):
            MiniLM(tmp_path / "nowhere")

    @pytest.mark.parametrize("name", ["vocab.txt", "model.safetensors"])
    def test_file_missing(self, model_dir, name):
        """
        A missing file is named.
        """
        (model_dir / name).unlink()

        with pytest.raises(FormatError, match=name):
            MiniLM(model_dir)

    @pytest.mark.parametrize(
        "change",
        [
            {"model_type": "gpt2"},
            {"hidden_act": "relu"},
            {"max_position_embeddings": 2},
            {"num_attention_heads": 0},
            {"num_attention_heads": 5},
            {"hidden_size": "16"},
            {"position_embedding_type": "relative_key"},
        ],
    )
    def test_another_network(self, model_dir, change):
        """
        A network we would run wrongly is refused.
        """
        (model_dir / "config.json").write_text(json.dumps(CONFIG | change))

        with pytest.raises(FormatError, match=r"config\.json does not describe a model we can run"):
            MiniLM(model_dir)

    @pytest.mark.parametrize(
        "data", [b"", b"\x00", b"\xff" * 64, struct.pack("<Q", 2) + b"[]", struct.pack("<Q", 1 << 63) + b"{}"]
    )
    def test_not_safetensors(self, model_dir, data):
        """
        A file of another kind is refused.
        """
        (model_dir / "model.safetensors").write_bytes(data)

        with pytest.raises(FormatError, match=r"weights file .*model\.safetensors cannot be used"):
            MiniLM(model_dir)

    def test_cut_short(self, model_dir):
        """
        A download that broke off is refused before a number is read.
        """
        path = model_dir / "model.safetensors"
        path.write_bytes(path.read_bytes()[:-4])

        with pytest.raises(FormatError, match="should lie at"):
            MiniLM(model_dir)

    def test_tensor_missing(self, model_dir):
        """
        A missing tensor is named.
        """
        tensors = made_up_tensors()
        del tensors["encoder.layer.1.output.dense.bias"]
        write_safetensors(model_dir / "model.safetensors", tensors)

        with pytest.raises(FormatError, match=r"no tensor 'encoder\.layer\.1\.output\.dense\.bias'"):
            MiniLM(model_dir)

    @pytest.mark.parametrize(
        ("bias", "dtype", "message"),
        [
            ([0.0] * 8, "F32", r"expected a tensor of F32 \[16\], got F32 \[8\]"),
            ([0.0] * 16, "I32", r"expected a tensor of F32 .*, got I32"),
            ([math.nan] * 16, "F32", "give no finite numbers"),
        ],
    )
    def test_other_numbers(self, model_dir, bias, dtype, message):
        """
        Tensors of another shape, format or content are refused when loaded, not misread when used.
        """
        tensors = made_up_tensors() | {"embeddings.LayerNorm.bias": bias}
        write_safetensors(model_dir / "model.safetensors", tensors, dtype)

        with pytest.raises(FormatError, match=message):
            MiniLM(model_dir)

    def test_larger_vocabulary(self, model_dir):
        """
        A vocabulary with more pieces than the model has vectors does not belong to it.
        """
        (model_dir / "vocab.txt").write_text("\n".join([*PIECES, "more"]) + "\n")

        with pytest.raises(FormatError, match="do not belong together"):
            MiniLM(model_dir)


class TestMissingExtra:
    def test_no_numpy(self, model_dir, monkeypatch):
        """
        Without numpy one message says what needs it and what to type.
        """
        monkeypatch.setitem(sys.modules, "numpy", None)

        with pytest.raises(
            MissingExtraError, match=r"minilm embedder needs .* pip install 'steadyhelm\[minilm\]'"
        ):
            MiniLM(model_dir)


class TestRealWeights:
    GOAL = "Book a flight from Oslo to Rome for two people"

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("Reserved two plane tickets to Italy, leaving Norway on Friday.", 0.5082),
            ("The hotel near the airport costs 90 euros a night.", 0.2460),
            ("Refactored the parser and fixed a failing unit test.", 0.0391),
            ("Größe und Übermaß: naïve café, 東京は日本の首都です", 0.1546),
        ],
    )
    def test_known_values(self, real, text, expected):
        """
        The numbers are those of the model's reference implementation.
        """
        assert pytest.approx(expected, abs=1e-4) == real.similarity(self.GOAL, text, BASELINE)

    def test_order(self, real):
        """
        The task in other words is nearer than its surroundings, and these nearer than another task.
        """
        texts = [
            "Two plane tickets to Italy are reserved.",
            "The hotel near the airport costs 90 euros a night.",
            "Refactored the parser and fixed a failing unit test.",
        ]
        near = [real.similarity(self.GOAL, text, BASELINE) for text in texts]

        assert sorted(near, reverse=True) == near

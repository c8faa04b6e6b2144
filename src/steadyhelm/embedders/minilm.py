"""The optional embedder: all-MiniLM-L6-v2, a small sentence model, in plain numpy.

Only numpy is needed: the weights file is mapped into memory without copying, so that processes on one
machine share it.
"""

import math
import mmap
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

import msgspec

from steadyhelm.baselines import BaselineStats
from steadyhelm.embedder import Embedder
from steadyhelm.embedders.wordpiece import WordPiece
from steadyhelm.errors import FormatError, MissingExtraError

TEXT_CHARS_READ: Final = 512
"""Characters of an output that are read. More made no measurable difference."""
GOAL_CHARS_READ: Final = 2048
"""Characters of a goal that are read: about as many as the model's tokens cover."""
GOALS_CACHED: Final = 64
MAX_TOKENS: Final = 256
"""The length the model was trained for."""

_FETCH_HINT: Final = "The files we know come with: steadyhelm models fetch"

Array: TypeAlias = Any  # numpy's, which is not there without the extra
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]


class MiniLM(Embedder):
    """Similarity in meaning: the cosine of two sentence vectors, whatever words they use.

    Args:
        model_dir: The folder that `steadyhelm models fetch` filled, or one of your own with the same
            three files: `model.safetensors`, `vocab.txt` and `config.json`.
    """

    name: ClassVar[str] = "minilm"

    def __init__(self, model_dir: Path) -> None:
        try:
            import numpy as np  # noqa: PLC0415 - numpy belongs to an extra
        except ImportError as exc:
            raise MissingExtraError("minilm embedder", extra="minilm") from exc
        config = _read_config(model_dir / "config.json")
        self._pieces = WordPiece.read(model_dir / "vocab.txt")
        if len(self._pieces) > config.vocab_size:
            raise FormatError(
                f"{model_dir / 'vocab.txt'} has {len(self._pieces)} pieces, the model {config.vocab_size}: "
                f"the files do not belong together. {_FETCH_HINT}"
            )
        self._model = _Bert(
            np, config, _read_tensors(np, model_dir / "model.safetensors", _list_shapes(config))
        )
        self._most_tokens = min(MAX_TOKENS, config.max_position_embeddings)
        self._embed_goal = lru_cache(maxsize=GOALS_CACHED)(self.embed)
        with np.errstate(all="ignore"):
            if not np.isfinite(self.embed("a")).all():
                raise FormatError(f"The weights in {model_dir} give no finite numbers. {_FETCH_HINT}")

    def similarity(self, goal: str, text: str, baseline: BaselineStats) -> float:  # noqa: ARG002 - learns nothing
        """Return the cosine of goal and text, 0 where it is negative.

        Rounded to four digits: later ones differ between processors.
        """
        cosine = float(self._embed_goal(goal[:GOAL_CHARS_READ]) @ self.embed(text[:TEXT_CHARS_READ]))
        return round(min(1.0, max(0.0, cosine)), 4)

    def embed(self, text: str) -> Array:
        """Return the sentence vector of a text, of length 1; all zeros for a text without words."""
        return self._model.embed(self._pieces.encode(text, limit=self._most_tokens))


class _Config(msgspec.Struct, frozen=True, kw_only=True):
    """The network described by `config.json`; only a BERT with exact GELU is accepted."""

    model_type: Literal["bert"]
    hidden_act: Literal["gelu"]
    position_embedding_type: Literal["absolute"] = "absolute"
    hidden_size: _Count
    intermediate_size: _Count
    layer_norm_eps: float
    max_position_embeddings: Annotated[int, msgspec.Meta(ge=3)]  # two marks and a word
    num_attention_heads: _Count
    num_hidden_layers: _Count
    type_vocab_size: _Count
    vocab_size: _Count


class _Bert:
    """The network. It runs one text at a time, so it needs no padding and no mask."""

    def __init__(self, np: ModuleType, config: _Config, tensors: dict[str, Array]) -> None:
        self._np = np
        self._config = config
        self._tensors = tensors

    def embed(self, ids: list[int]) -> Array:
        """Return the mean of the last layer's token vectors, scaled to length 1."""
        tensors, width = self._tensors, self._config.hidden_size
        marks_only = 2
        if len(ids) <= marks_only:
            return self._np.zeros(width, self._np.float32)
        x = tensors["embeddings.word_embeddings.weight"][ids]
        x = x + tensors["embeddings.position_embeddings.weight"][: len(ids)]
        x = x + tensors["embeddings.token_type_embeddings.weight"][0]
        x = self._normalize("embeddings.LayerNorm", x)
        for number in range(self._config.num_hidden_layers):
            x = self._apply_layer(f"encoder.layer.{number}", x)
        mean = x.mean(axis=0)
        embed = mean / self._np.sqrt(mean @ mean)
        embed.flags.writeable = False
        return embed

    def _apply_layer(self, name: str, x: Array) -> Array:
        seen = self._apply_dense(f"{name}.attention.output.dense", self._attend(f"{name}.attention.self", x))
        x = self._normalize(f"{name}.attention.output.LayerNorm", x + seen)
        thought = self._apply_gelu(self._apply_dense(f"{name}.intermediate.dense", x))
        return self._normalize(
            f"{name}.output.LayerNorm", x + self._apply_dense(f"{name}.output.dense", thought)
        )

    def _attend(self, name: str, x: Array) -> Array:
        query, key, value = (self._split_heads(f"{name}.{part}", x) for part in ("query", "key", "value"))
        scores = query @ key.transpose(0, 2, 1)
        scores /= math.sqrt(query.shape[-1])
        scores -= scores.max(axis=-1, keepdims=True)
        self._np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        return (scores @ value).transpose(1, 0, 2).reshape(x.shape)

    def _split_heads(self, name: str, x: Array) -> Array:
        """Return the dense result by head: heads x tokens x width of a head."""
        return (
            self._apply_dense(name, x)
            .reshape(len(x), self._config.num_attention_heads, -1)
            .transpose(1, 0, 2)
        )

    def _apply_dense(self, name: str, x: Array) -> Array:
        result = x @ self._tensors[f"{name}.weight"].T
        result += self._tensors[f"{name}.bias"]
        return result

    def _normalize(self, name: str, x: Array) -> Array:
        x = x - x.mean(axis=-1, keepdims=True)
        variance = self._np.square(x).mean(axis=-1, keepdims=True)
        x /= self._np.sqrt(variance + self._config.layer_norm_eps)
        x *= self._tensors[f"{name}.weight"]
        x += self._tensors[f"{name}.bias"]
        return x

    def _apply_gelu(self, x: Array) -> Array:
        """Apply exact GELU, with erf by Abramowitz and Stegun 7.1.26: numpy has none. Error at most 1.5e-7.

        Arrays are changed in place: a new array for each step would cost more than the sums.
        """
        np = self._np
        z = np.abs(x)
        z *= math.sqrt(0.5)
        t = z * 0.3275911
        t += 1.0
        np.reciprocal(t, out=t)
        erf = t * 1.061405429
        for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
            erf += factor
            erf *= t
        z *= z
        erf *= np.exp(np.negative(z, out=z), out=z)
        np.copysign(np.subtract(1.0, erf, out=erf), x, out=erf)
        erf += 1.0
        erf *= x
        erf *= 0.5
        return erf


class _Tensor(msgspec.Struct, frozen=True):
    """One entry of a safetensors header."""

    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


def _read_config(path: Path) -> _Config:
    try:
        config = msgspec.json.decode(path.read_bytes(), type=_Config)
    except FileNotFoundError as exc:
        raise FormatError(
            f"There is no model in {path.parent}, {path.name} is missing. {_FETCH_HINT}"
        ) from exc
    except (OSError, msgspec.MsgspecError) as exc:
        raise FormatError(f"{path} does not describe a model we can run: {exc}.") from exc
    if config.hidden_size % config.num_attention_heads:
        raise FormatError(
            f"{path} does not describe a model we can run: "
            f"{config.hidden_size} dimensions do not divide into {config.num_attention_heads} heads."
        )
    return config


def _list_shapes(config: _Config) -> dict[str, list[int]]:
    """Return the shapes of the tensors that such a network needs, by name."""
    width, wide = config.hidden_size, config.intermediate_size
    shapes = {
        "embeddings.word_embeddings.weight": [config.vocab_size, width],
        "embeddings.position_embeddings.weight": [config.max_position_embeddings, width],
        "embeddings.token_type_embeddings.weight": [config.type_vocab_size, width],
    }
    norms = ["embeddings.LayerNorm"]
    for number in range(config.num_hidden_layers):
        layer = f"encoder.layer.{number}"
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
        square = (
            "attention.self.query",
            "attention.self.key",
            "attention.self.value",
            "attention.output.dense",
        )
        shapes |= {f"{layer}.{part}.weight": [width, width] for part in square}
        shapes |= {f"{layer}.{part}.bias": [width] for part in square}
        shapes |= {
            f"{layer}.intermediate.dense.weight": [wide, width],
            f"{layer}.intermediate.dense.bias": [wide],
        }
        shapes |= {f"{layer}.output.dense.weight": [width, wide], f"{layer}.output.dense.bias": [width]}
    return shapes | {f"{norm}.{part}": [width] for norm in norms for part in ("weight", "bias")}


def _read_tensors(np: ModuleType, path: Path, shapes: dict[str, list[int]]) -> dict[str, Array]:
    """Return the named tensors of a safetensors file as views into the mapped file, without copying."""
    try:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        start = 8 + int.from_bytes(data[:8], "little")
        if start > len(data):
            raise ValueError(f"its header should end at byte {start} of {len(data)}")  # noqa: TRY301 - one message for all
        header = msgspec.json.decode(data[8:start], type=dict[str, msgspec.Raw])
        return {name: _make_view(np, data, start, header[name], shape) for name, shape in shapes.items()}
    except KeyError as exc:
        raise FormatError(f"The weights file {path} has no tensor {exc}.") from exc
    except (OSError, ValueError, msgspec.MsgspecError) as exc:
        raise FormatError(f"The weights file {path} cannot be used: {exc}. {_FETCH_HINT}") from exc


def _make_view(np: ModuleType, data: mmap.mmap, start: int, raw: msgspec.Raw, shape: list[int]) -> Array:
    tensor = msgspec.json.decode(raw, type=_Tensor)
    if (tensor.dtype, tensor.shape) != ("F32", shape):
        raise ValueError(f"expected a tensor of F32 {shape}, got {tensor.dtype} {tensor.shape}")
    first, end = (start + offset for offset in tensor.data_offsets)
    size = math.prod(shape)
    if first < start or end - first != 4 * size or end > len(data):
        raise ValueError(f"a tensor should lie at {first} to {end} of {len(data)} bytes")
    return np.frombuffer(data, np.dtype("<f4"), size, first).reshape(shape)

"""Files of transformers: BERT-like encoders and LLaMA-like decoders, with their tokenizers.

A file gives settings, tensors by the names of the package transformers, and a tokenizer. What a
program has no operation for is refused here, before anything is read.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from seedbed.flow.importer import gguf_file
from seedbed.flow.importer.transformers import Decoder, Encoder

__all__ = ["Transformer", "is_transformer", "of_gguf", "read"]

#: Names of GGUF, and those of transformers.
WHOLE = {
    "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
}  # fmt: skip
OF_A_BLOCK = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}  # fmt: skip
#: Tensors that a result does not need.
UNUSED = re.compile(r"(pooler\.dense\.(weight|bias)|.*position_ids|.*rotary_emb\.inv_freq)$")
#: The first matrix of a layer.
ENCODER_LAYER = "encoder.layer.{}.attention.self.query.weight"
DECODER_LAYER = "model.layers.{}.self_attn.q_proj.weight"
#: The matrix of logits, where it is not that of the embedding.
HEAD = "lm_head.weight"
#: Files of a folder.
CONFIG, TOKENIZER = "config.json", "tokenizer.json"


@dataclass(frozen=True)
class Transformer:
    """A model: the file or folder, its settings, tensors, tokenizer, and ends.

    Parameters
    ----------
    model
        The settings, which say the family.
    tensors
        By the names of transformers. A tensor is read when it is asked for, as float32.
    tokenizer
        Of the package tokenizers. It neither fills up nor cuts a text.
    positions
        Tokens that the model sees at most.
    ends
        Numbers of tokens that end a text.
    blocks
        The rows of blocks of tensors that have such, with the name of their type, by name.
    names
        The names of tensors in the file, where they are others.
    """

    path: Path
    model: Decoder | Encoder
    tensors: Mapping[str, np.ndarray]
    tokenizer: Any
    positions: int
    ends: frozenset[int]
    blocks: Mapping[str, tuple[str, np.ndarray]]
    names: Mapping[str, str] = field(default_factory=dict)

    def tokens(self, text: str) -> np.ndarray:
        """Return the numbers of a text's tokens, at most :attr:`positions`."""
        return np.array(self.tokenizer.encode(text).ids[: self.positions], np.int64)


class _Tensors(Mapping):
    """Values by name, each made by a function when it is asked for."""

    def __init__(self, names: Mapping[str, Any], read: Any):
        self._names, self._read = names, read

    def __getitem__(self, name: str) -> Any:
        return self._read(self._names[name])

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def is_transformer(path: Path) -> bool:
    """Return whether a path is one that :func:`read` takes: a folder, or a GGUF file."""
    return path.is_dir() or path.suffix.lower() == ".gguf"


def read(path: Path) -> Transformer:
    """Return the model of a GGUF file, or of a folder.

    A folder has a GGUF file; or ``config.json``, ``tokenizer.json``, and the tensors in a
    safetensors file or in shards with their index. Raises ``ValueError`` with the file's name for
    a model that has no program.
    """
    if path.is_dir():
        found = sorted(path.glob("*.gguf"))
        if not found:
            return _folder(path)
        if len(found) > 1:
            names = ", ".join(each.name for each in found[:4])
            raise ValueError(
                f"{path} has several files *.gguf, of which one must be given: {names}"
            )
        path = found[0]
    return of_gguf(gguf_file.read(path))


def of_gguf(file: gguf_file.GgufFile) -> Transformer:
    """Return the model of a GGUF file that is open. Raises ``ValueError`` as :func:`read` does."""
    path = file.path
    kind = file.field("general.architecture", str)
    if kind != "llama":
        raise ValueError(f"{path} is of the architecture {kind!r}; allowed is 'llama'")
    scaling = file.field("llama.rope.scaling.type", str, "none")
    if scaling != "none":
        raise ValueError(f"{path}: llama.rope.scaling.type must be 'none', not {scaling!r}")
    if experts := file.field("llama.expert_count", int, 0):
        raise ValueError(f"{path}: llama.expert_count must be 0, not {experts}")
    heads = file.field("llama.attention.head_count", int)
    layers = file.field("llama.block_count", int)
    for name, value in (("attention.head_count", heads), ("block_count", layers)):
        if value < 1:
            raise ValueError(f"{path}: llama.{name} must be at least 1, not {value}")
    model = Decoder(
        heads=heads, shared=file.field("llama.attention.head_count_kv", int, heads),
        base=file.field("llama.rope.freq_base", float, 1e4),
        epsilon=file.field("llama.attention.layer_norm_rms_epsilon", float), neighbours=True,
    )  # fmt: skip
    names: dict[str, str] = {}
    for name in file.tensors:
        names[_renamed(file, name, layers)] = name
    _require_layers(path, names, DECODER_LAYER, layers)
    size = file.field("llama.rope.dimension_count", int, 0)
    rows = file.shape("blk.0.attn_q.weight")[0]
    if size and size * heads != rows:
        raise ValueError(
            f"{path}: llama.rope.dimension_count must be the length of a head, "
            f"{rows // heads}, not {size}"
        )
    blocks = {own: n for own, n in names.items() if file.kind(n) in gguf_file.BLOCKS}
    end = file.field("tokenizer.ggml.eos_token_id", int, -1)
    return Transformer(
        path, model, _Tensors(names, lambda name: _finite(path, name, file.values(name))),
        file.tokenizer(), file.field("llama.context_length", int, 1 << 16),
        frozenset({end} - {-1}),
        _Tensors(blocks, lambda name: (file.kind(name).lower(), file.blocks(name))), names,
    )  # fmt: skip


def _renamed(file: gguf_file.GgufFile, name: str, layers: int) -> str:
    """Return the name of a tensor of a GGUF file in transformers."""
    parts = name.split(".")
    if parts[-1] == "weight":
        if len(parts) == 2 and parts[0] in WHOLE:
            return f"{WHOLE[parts[0]]}.weight"
        if len(parts) == 4 and parts[0] == "blk" and parts[2] in OF_A_BLOCK:
            layer = parts[1]
            if re.fullmatch("0|[1-9][0-9]{0,5}", layer) and int(layer) < layers:
                return f"model.layers.{layer}.{OF_A_BLOCK[parts[2]]}.weight"
    raise ValueError(f"{file.path} has the tensor {name!r}, for which there is no operation")


def _finite(path: Path, name: str, values: np.ndarray) -> np.ndarray:
    if not np.isfinite(values).all():
        raise ValueError(f"{path}: tensor {name!r} has numbers that are not finite")
    return values


def _folder(path: Path) -> Transformer:
    config = _json(path / CONFIG)
    made: dict[Any, Callable[..., tuple[Decoder | Encoder, int]]] = {"bert": _bert, "llama": _llama}
    kind = config.get("model_type")
    if kind not in made:
        raise ValueError(
            f"{path / CONFIG} has a model of the type {kind!r}; allowed are {', '.join(made)}"
        )
    model, positions = made[kind](path / CONFIG, config)
    tensors = _safetensors(path)
    layers = _setting(path / CONFIG, config, "num_hidden_layers", int, None)
    _require_layers(path, tensors, ENCODER_LAYER if kind == "bert" else DECODER_LAYER, layers)
    tied = kind == "bert" or config.get("tie_word_embeddings") is True
    if not tied and HEAD not in tensors:
        raise ValueError(f"{path} has no tensor {HEAD!r}")
    return Transformer(
        path, model, tensors, _tokenizer(path / TOKENIZER), positions,
        _ends(path / CONFIG, config), {},
    )  # fmt: skip


def _require_layers(path: Path, names: Collection[str], first: str, layers: int) -> None:
    """Raise ``ValueError`` if a layer is missing: a program ends at the first that is not there."""
    for layer in range(layers):
        if (name := first.format(layer)) not in names:
            raise ValueError(f"{path} has no tensor {name!r}")


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError as problem:
        raise ValueError(
            f"{path} is missing: a model is a GGUF file, or a folder with {CONFIG}, {TOKENIZER} "
            "and safetensors files"
        ) from problem
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"{path} is not JSON") from problem
    if not isinstance(found, dict):
        raise ValueError(f"{path} must be an object")
    return found


def _setting(path: Path, config: Mapping[str, Any], name: str, kind: type, default: Any) -> Any:
    found = config.get(name)
    found = default if found is None else found
    wanted: Any = (int, float) if kind is float else kind
    if not isinstance(found, wanted) or isinstance(found, bool) or found <= 0:
        raise ValueError(f"{path}: {name} must be a number of the type {kind.__name__} above 0")
    return found


def _require(path: Path, config: Mapping[str, Any], **allowed: Any) -> None:
    """Raise ``ValueError`` for a setting other than the one that is allowed, its default."""
    for name, value in allowed.items():
        found = config.get(name)
        if found is not None and found != value:
            raise ValueError(f"{path}: {name} must be {value!r}, not {found!r}")


def _bert(path: Path, config: Mapping[str, Any]) -> tuple[Encoder, int]:
    _require(path, config, hidden_act="gelu", position_embedding_type="absolute", is_decoder=False)
    model = Encoder(
        heads=_setting(path, config, "num_attention_heads", int, None),
        epsilon=_setting(path, config, "layer_norm_eps", float, 1e-12),
    )
    return model, _setting(path, config, "max_position_embeddings", int, None)


def _llama(path: Path, config: Mapping[str, Any]) -> tuple[Decoder, int]:
    angles = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = angles.get("rope_type", angles.get("type")) if isinstance(angles, dict) else angles
    if kind not in (None, "default"):
        raise ValueError(f"{path}: the angles must be of the type 'default', not {kind!r}")
    _require(path, config, hidden_act="silu", attention_bias=False, mlp_bias=False)
    heads = _setting(path, config, "num_attention_heads", int, None)
    model = Decoder(
        heads=heads, shared=_setting(path, config, "num_key_value_heads", int, heads),
        base=_setting(path, {**angles, **config}, "rope_theta", float, 1e4),
        epsilon=_setting(path, config, "rms_norm_eps", float, 1e-6),
    )  # fmt: skip
    return model, _setting(path, config, "max_position_embeddings", int, 1 << 16)


def _ends(path: Path, config: Mapping[str, Any]) -> frozenset[int]:
    found = config.get("eos_token_id")
    found = [] if found is None else found if isinstance(found, list) else [found]
    if not all(type(each) is int for each in found):
        raise ValueError(f"{path}: eos_token_id must be a number or a list of numbers")
    return frozenset(found)


def _safetensors(path: Path) -> Mapping[str, np.ndarray]:
    """Return the tensors of a folder's file or shards, except those that no result needs."""
    from seedbed.flow.compress.checkpoint import FLOATS
    from seedbed.flow.compress.shards import open_checkpoint

    names = {}
    with open_checkpoint(path) as file:
        for name, entry in file.tensors.items():
            if UNUSED.match(name):
                continue
            if entry.dtype not in FLOATS:
                where = f"{file.file_of(name)}: tensor {name!r}"
                raise ValueError(f"{where} must be of {', '.join(FLOATS)}, not {entry.dtype}")
            names[name] = entry

    def values(name: str) -> np.ndarray:
        with open_checkpoint(path) as file:
            if (entry := file.tensors.get(name)) != names[name]:
                raise ValueError(f"{path} was changed while it was read")
            raw = np.frombuffer(file.read(entry.offset, entry.nbytes), FLOATS[entry.dtype])
            return _finite(file.file_of(name), name, raw.astype(np.float32).reshape(entry.shape))

    return _Tensors({name: name for name in names}, values)


def _tokenizer(path: Path) -> Any:
    from tokenizers import Tokenizer

    if not path.is_file():
        raise ValueError(f"{path} is missing")
    try:
        found = Tokenizer.from_file(str(path))
    except Exception as problem:
        # The library raises Exception itself.
        raise ValueError(f"{path} is no tokenizer: {problem}") from problem
    # Texts are encoded one by one: none is filled up, and long ones are cut later.
    found.no_padding()
    found.no_truncation()
    return found

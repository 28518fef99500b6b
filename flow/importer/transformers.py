"""Programs of transformers, BERT-like encoders and LLaMA-like decoders, by their tensors' names."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from seedbed.golden.stream_engine import Reals
from seedbed.spec.stream_engine import (
    Attend,
    Embed,
    Matrix,
    Move,
    Multiply,
    Norm,
    Operation,
    Pool,
    Program,
    Rotate,
    Vector,
)

__all__ = ["Decoder", "Encoder", "decoder", "encoder"]


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """A BERT-like encoder: heads, and the epsilon of its norms."""

    heads: int
    epsilon: float = 1e-12


@dataclass(frozen=True, kw_only=True)
class Decoder:
    """A LLaMA-like decoder.

    Parameters
    ----------
    heads, shared
        Heads of the query, and of keys and values.
    base
        Of the angles.
    epsilon
        Of the norms.
    neighbours
        Whether the elements of a pair are neighbours, as in GGUF, and not half a head apart.
    """

    heads: int
    shared: int
    base: float = 1e4
    epsilon: float = 1e-5
    neighbours: bool = False


class _Builder:
    """Collects vectors, operations and parameters."""

    def __init__(self, tensors: Mapping[str, np.ndarray]):
        self.tensors = tensors
        self.taken: set[str] = set()
        self.vectors: dict[str, Vector] = {}
        self.operations: list[Operation] = []
        self.parameters: dict[str, Reals] = {}

    def tensor(self, name: str, *shape: int | None) -> np.ndarray:
        """Return a tensor of a shape, of which ``None`` is any size."""
        if name not in self.tensors:
            raise ValueError(f"there is no tensor called {name}")
        self.taken.add(name)
        found = np.asarray(self.tensors[name])
        fits = len(found.shape) == len(shape) and all(
            size in (None, own) and own for size, own in zip(shape, found.shape, strict=True)
        )
        if not fits:
            wanted = " x ".join("any" if size is None else str(size) for size in shape)
            sizes = " x ".join(map(str, found.shape)) or "nothing"
            raise ValueError(f"the tensor {name} must be {wanted}, not {sizes}")
        return found

    def take(self, name: str, source: str, *, rows: int | None = None, biased: bool = False) -> str:
        """Take NAME.weight, and NAME.bias where there is one, as a matrix; return the name.

        It has a column for each element of a vector, and ``rows`` where that is known.
        """
        weights = self.tensor(f"{name}.weight", rows, self.vectors[source].length)
        biases = self.tensor(f"{name}.bias", len(weights)) if biased else None
        self.parameters[name] = Reals(weights=weights, biases=biases)
        return name

    def vector(self, name: str, length: int, *, wide: bool = False) -> str:
        self.vectors[name] = Vector(length=length, wide=wide)
        return name

    def matrix(
        self, name: str, source: str, target: str, *, activation: str = "", add: bool = False
    ) -> None:
        """Add a product, of a matrix that was taken."""
        if target not in self.vectors:
            self.vector(target, len(self.parameters[name].weights))
        self.operations.append(
            Matrix(weights=name, source=source, target=target, activation=activation, add=add)
        )

    def norm(self, name: str, target: str, *, epsilon: float, centred: bool) -> str:
        """Add a norm of the residual, which has biases where it is centred; return the target."""
        size = self.vectors["r"].length
        biases = self.tensor(f"{name}.bias", size) if centred else None
        self.parameters[name] = Reals(weights=self.tensor(f"{name}.weight", size), biases=biases)
        self.operations.append(
            Norm(
                source="r", gains=name, epsilon=epsilon, centred=centred,
                target=self.vector(target, size),
            )
        )  # fmt: skip
        return target

    def program(self, result: str) -> Program:
        if others := [name for name in self.tensors if name not in self.taken]:
            raise ValueError(f"the tensor {others[0]} has no place in the program")
        return Program(vectors=self.vectors, operations=tuple(self.operations), result=result)


def encoder(tensors: Mapping[str, np.ndarray], model: Encoder) -> tuple[Program, dict[str, Reals]]:
    """Return the program of an encoder and its parameters; the result is the mean of its tokens.

    The names of the tensors are BERT's. Raises ``ValueError`` with the name of a tensor
    that is missing, that has another shape, or that has no place.
    """
    made = _Builder(tensors)
    words = made.tensor("embeddings.word_embeddings.weight", None, None)
    size = words.shape[1]
    # All tokens are of the first type.
    positions = made.tensor("embeddings.position_embeddings.weight", None, size)
    positions = positions + made.tensor("embeddings.token_type_embeddings.weight", None, size)[0]
    made.parameters |= {"words": Reals(weights=words), "positions": Reals(weights=positions)}
    made.operations.append(
        Embed(table="words", positions="positions", target=made.vector("r", size, wide=True))
    )

    norm = partial(made.norm, epsilon=model.epsilon, centred=True)
    x = norm("embeddings.LayerNorm", "x")
    layer = 0
    while f"encoder.layer.{layer}.attention.self.query.weight" in tensors:
        at = f"encoder.layer.{layer}"
        # Keys and values are kept while the matrix of the query runs.
        for part in ("key", "value", "query"):
            name = made.take(f"{at}.attention.self.{part}", x, rows=size, biased=True)
            made.matrix(name, x, f"{part}.{layer}")
        made.operations += [
            Attend(
                query=f"query.{layer}", key=f"key.{layer}", value=f"value.{layer}",
                heads=model.heads, shared=model.heads, causal=False,
                target=made.vector(f"mix.{layer}", size),
            ),
            Move(source=x, target="r"),
        ]  # fmt: skip
        name = made.take(f"{at}.attention.output.dense", f"mix.{layer}", rows=size, biased=True)
        made.matrix(name, f"mix.{layer}", "r", add=True)
        x = norm(f"{at}.attention.output.LayerNorm", f"y.{layer}")
        name = made.take(f"{at}.intermediate.dense", x, biased=True)
        made.matrix(name, x, f"middle.{layer}", activation="gelu")
        made.operations.append(Move(source=x, target="r"))
        name = made.take(f"{at}.output.dense", f"middle.{layer}", rows=size, biased=True)
        made.matrix(name, f"middle.{layer}", "r", add=True)
        x = norm(f"{at}.output.LayerNorm", f"x.{layer}")
        layer += 1
    made.operations.append(Pool(source=x, target=made.vector("mean", size)))
    return made.program("mean"), made.parameters


def decoder(tensors: Mapping[str, np.ndarray], model: Decoder) -> tuple[Program, dict[str, Reals]]:
    """Return the program of a decoder and its parameters; the result are logits of each token.

    The names of the tensors are those of transformers' LLaMA. Without ``lm_head.weight``, the
    logits' matrix is that of the embedding. Raises ``ValueError`` as :func:`encoder` does.
    """
    made = _Builder(tensors)
    words = "model.embed_tokens"
    made.parameters[words] = Reals(weights=made.tensor(f"{words}.weight", None, None))
    size = made.parameters[words].weights.shape[1]
    made.operations.append(Embed(table=words, target=made.vector("r", size, wide=True)))

    norm = partial(made.norm, epsilon=model.epsilon, centred=False)
    layer = 0
    while f"model.layers.{layer}.self_attn.q_proj.weight" in tensors:
        at = f"model.layers.{layer}"
        n = norm(f"{at}.input_layernorm", f"n.{layer}")
        turn: list[Rotate] = []
        for part, heads in (("q", model.heads), ("k", model.shared), ("v", 0)):
            name = made.take(f"{at}.self_attn.{part}_proj", n)
            of = made.parameters[name].weights
            if len(of) % (2 * max(heads, 1)):
                raise ValueError(
                    f"the tensor {name}.weight must have rows for {heads} heads of an even "
                    f"length, not {len(of)}"
                )
            if heads and not model.neighbours:
                pairs = of.reshape(heads, 2, -1, size).swapaxes(1, 2).reshape(of.shape)
                made.parameters[name] = Reals(weights=pairs)
            made.matrix(name, n, f"{part}.{layer}")
            # Rotated while the next matrix runs.
            made.operations += turn
            turn = []
            if heads:
                turn = [Rotate(heads=heads, base=model.base, target=f"{part}.{layer}")]
        made.operations.append(
            Attend(
                query=f"q.{layer}", key=f"k.{layer}", value=f"v.{layer}", heads=model.heads,
                shared=model.shared,
                target=made.vector(f"mix.{layer}", made.vectors[f"q.{layer}"].length),
            )
        )  # fmt: skip
        made.matrix(
            made.take(f"{at}.self_attn.o_proj", f"mix.{layer}", rows=size),
            f"mix.{layer}",
            "r",
            add=True,
        )
        n = norm(f"{at}.post_attention_layernorm", f"m.{layer}")
        made.matrix(made.take(f"{at}.mlp.gate_proj", n), n, f"gate.{layer}", activation="silu")
        middle = made.vectors[f"gate.{layer}"].length
        made.matrix(made.take(f"{at}.mlp.up_proj", n, rows=middle), n, f"up.{layer}")
        made.operations.append(
            Multiply(
                left=f"gate.{layer}", right=f"up.{layer}",
                target=made.vector(f"middle.{layer}", middle, wide=True),
            )
        )  # fmt: skip
        made.matrix(
            made.take(f"{at}.mlp.down_proj", f"middle.{layer}", rows=size),
            f"middle.{layer}",
            "r",
            add=True,
        )
        layer += 1
    n = norm("model.norm", "n")
    head = made.take("lm_head", n) if "lm_head.weight" in tensors else words
    made.matrix(head, n, "logits")
    return made.program("logits"), made.parameters

"""A character-level language model: two LSTM layers, attention over the last steps, logits.

With x_t the embeddings of the last T characters, padded with character 0 in front::

    z = W_in x_t + W_rec h_(t-1) + b, four parts: input i, forget f, candidate g, output o
    c_t = sigmoid(f) c_(t-1) + sigmoid(i) tanh(g),    h_t = sigmoid(o) tanh(c_t)
    q_t = [x_t, h1_t, h2_t],    a = softmax over t of (w_a . q_t),    y = sum over t of a_t q_t
    logits = W_out y + b_out

The second layer's input is the first layer's h_t. Shapes follow from the parameters. This is the
network of textgenrnn (Max Woolf).
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

__all__ = [
    "CONTEXT",
    "activations",
    "divergence",
    "gradients",
    "log_probabilities",
    "losses",
    "perplexity",
    "require",
    "second_moments",
    "windows",
]

#: T, characters that the model sees.
CONTEXT = 40
#: Windows per pass: bounds the memory.
CHUNK = 512
Parameters = Mapping[str, np.ndarray]
#: Takes a matrix's name, the gradients of its outputs, and its inputs.
Observe = Callable[[str, np.ndarray, np.ndarray], None]


def require(parameters: Parameters) -> None:
    """Raise ``ValueError`` with a tensor's name unless the shapes are those of such a model."""
    for name in ("embedding.weight", "lstm1.recurrent.weight", "lstm2.recurrent.weight"):
        if name not in parameters or parameters[name].ndim != 2:
            raise ValueError(f"the model has no matrix {name!r}")
    classes, width = parameters["embedding.weight"].shape
    first, second = (parameters[f"lstm{k}.recurrent.weight"].shape[1] for k in (1, 2))
    whole = width + first + second
    shapes = {
        "attention.weight": (1, whole),
        "embedding.weight": (classes, width),
        "output.weight": (classes, whole),
        "output.bias": (classes,),
    }
    for name, units, inputs in (("lstm1", first, width), ("lstm2", second, first)):
        shapes |= {
            f"{name}.input.weight": (4 * units, inputs),
            f"{name}.recurrent.weight": (4 * units, units),
            f"{name}.bias": (4 * units,),
        }
    for name, shape in shapes.items():
        found = parameters[name].shape if name in parameters else None
        if found != shape:
            raise ValueError(
                f"the model's tensor {name!r} must have the shape {shape}, not {found}"
            )


def windows(texts: Sequence[Sequence[int]], start: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the contexts (n, T) and the next characters (n,) of texts of character numbers.

    Each text begins with the character ``start``, which is not predicted.
    """
    contexts, targets = [], []
    for text in texts:
        padded = [0] * (CONTEXT - 1) + [start, *text]
        contexts += [padded[k : k + CONTEXT] for k in range(len(text))]
        targets += list(text)
    return np.array(contexts, np.int64).reshape(-1, CONTEXT), np.array(targets, np.int64)


def _sigmoid(z: np.ndarray) -> np.ndarray:
    return 0.5 * np.tanh(0.5 * z) + 0.5


def _forward(p: Parameters, contexts: np.ndarray) -> dict[str, np.ndarray]:
    """Return logits and everything that the backward pass needs; the time is the first axis."""
    steps = contexts.T
    made: dict[str, np.ndarray] = {}
    parts = [p["embedding.weight"][steps]]
    # The products of the first layer's inputs are those of the characters.
    inputs = (p["embedding.weight"] @ p["lstm1.input.weight"].T + p["lstm1.bias"])[steps]
    for layer in ("lstm1", "lstm2"):
        recurrent = p[f"{layer}.recurrent.weight"].T
        units = len(recurrent)
        h = c = np.zeros((len(contexts), units), inputs.dtype)
        gates = np.empty((CONTEXT, len(contexts), 4 * units), inputs.dtype)
        hs = np.empty((CONTEXT + 1, len(contexts), units), inputs.dtype)
        cs = np.empty_like(hs)
        hs[0] = cs[0] = 0
        for t in range(CONTEXT):
            z = inputs[t] + h @ recurrent
            gate = gates[t]
            gate[:] = _sigmoid(z)
            gate[:, 2 * units : 3 * units] = np.tanh(z[:, 2 * units : 3 * units])
            i, f, g, o = np.split(gate, 4, axis=1)
            c = f * c + i * g
            h = o * np.tanh(c)
            hs[t + 1], cs[t + 1] = h, c
        made |= {f"{layer}.gates": gates, f"{layer}.h": hs, f"{layer}.c": cs}
        parts.append(hs[1:])
        if layer == "lstm1":
            inputs = hs[1:] @ p["lstm2.input.weight"].T + p["lstm2.bias"]
    q = np.concatenate(parts, axis=2)
    scores = q @ p["attention.weight"][0]
    shares = np.exp(scores - scores.max(axis=0))
    shares /= shares.sum(axis=0)
    y = (shares[..., None] * q).sum(axis=0)
    return made | {
        "q": q, "shares": shares, "y": y, "logits": y @ p["output.weight"].T + p["output.bias"],
    }  # fmt: skip


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def log_probabilities(p: Parameters, contexts: np.ndarray) -> np.ndarray:
    """Return the logarithms of the next characters' probabilities, (n, classes), in nats."""
    found = [np.zeros((0, len(p["output.bias"])), p["output.bias"].dtype)]
    for k in range(0, len(contexts), CHUNK):
        found.append(_log_softmax(_forward(p, contexts[k : k + CHUNK])["logits"]))
    return np.concatenate(found)


def divergence(reference: np.ndarray, other: np.ndarray) -> float:
    """Return the mean over characters of the Kullback-Leibler divergence, in nats.

    Both are :func:`log_probabilities`, r and o: the divergence is the sum of e^r (r - o).
    """
    r, o = reference.astype(np.float64), other.astype(np.float64)
    return float((np.exp(r) * (r - o)).sum(axis=1).mean())


def losses(p: Parameters, contexts: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return the cross-entropy of each next character, in nats."""
    logs = log_probabilities(p, contexts)
    return -np.take_along_axis(logs, targets[:, None], 1)[:, 0].astype(np.float64)


def perplexity(p: Parameters, contexts: np.ndarray, targets: np.ndarray) -> float:
    """Return exp of the mean cross-entropy."""
    return float(np.exp(losses(p, contexts, targets).mean()))


def gradients(p: Parameters, contexts: np.ndarray, targets: np.ndarray) -> dict[str, np.ndarray]:
    """Return the gradient of the mean cross-entropy for each parameter."""
    found = {name: np.zeros_like(value) for name, value in p.items()}
    for k in range(0, len(contexts), CHUNK):
        _backward(p, contexts[k : k + CHUNK], targets[k : k + CHUNK], len(contexts), found)
    return found


def second_moments(
    p: Parameters, contexts: np.ndarray, targets: np.ndarray
) -> dict[str, np.ndarray]:
    """Return H, (columns, columns), of each matrix but the attention's one row.

    In a product y = W x with the gradient g of y, the row r of W has the gradient g_r x. H is the
    sum over rows of the mean over products of their outer products, the mean of (g g') x x'. Then
    sum over rows of e H e' estimates what errors e of the rows add to the loss. A row of the
    embedding is read, and not multiplied: its gradient is that of what is read.
    """
    found: dict[str, np.ndarray] = {}

    def observe(name: str, errors: np.ndarray, inputs: np.ndarray) -> None:
        flat = inputs.reshape(-1, inputs.shape[-1]).astype(np.float64)
        squares = (errors.reshape(len(flat), -1).astype(np.float64) ** 2).sum(axis=1)
        found[name] = found.get(name, 0) + (flat * squares[:, None]).T @ flat / len(contexts)

    for k in range(0, len(contexts), CHUNK):
        gradient = {name: np.zeros_like(value) for name, value in p.items()}
        _backward(p, contexts[k : k + CHUNK], targets[k : k + CHUNK], 1, gradient, observe)
    return {name: (value + value.T) / 2 for name, value in found.items()}


def _backward(
    p: Parameters, contexts: np.ndarray, targets: np.ndarray, count: int,
    found: dict[str, np.ndarray], observe: Observe = lambda *_: None,
) -> None:  # fmt: skip
    """Add the gradients of some windows, divided by ``count``.

    ``observe`` takes each matrix, the gradients of its outputs, and its inputs.
    """
    made = _forward(p, contexts)
    error = np.exp(_log_softmax(made["logits"]))
    error[np.arange(len(targets)), targets] -= 1
    error /= count
    q, shares = made["q"], made["shares"]
    observe("output.weight", error, made["y"])
    found["output.weight"] += error.T @ made["y"]
    found["output.bias"] += error.sum(axis=0)
    dy = error @ p["output.weight"]
    dshares = (q * dy).sum(axis=2)
    dscores = shares * (dshares - (shares * dshares).sum(axis=0))
    found["attention.weight"] += np.einsum("tn,tnd->d", dscores, q)[None]
    dq = shares[..., None] * dy + dscores[..., None] * p["attention.weight"][0]
    width = p["embedding.weight"].shape[1]
    first = p["lstm1.recurrent.weight"].shape[1]
    dx, dh1, dh2 = dq[..., :width], dq[..., width : width + first], dq[..., width + first :]
    dz = _through(p, "lstm2", made, dh2, made["lstm1.h"][1:], found, observe)
    dz = _through(
        p, "lstm1", made, dh1 + dz @ p["lstm2.input.weight"], p["embedding.weight"][contexts.T],
        found, observe,
    )  # fmt: skip
    dx = dx + dz @ p["lstm1.input.weight"]
    observe("embedding.weight", np.ones(dx.shape[:2], dx.dtype), dx)
    np.add.at(found["embedding.weight"], contexts.T, dx)


def _through(
    p: Parameters, layer: str, made: dict[str, np.ndarray], dhs: np.ndarray, inputs: np.ndarray,
    found: dict[str, np.ndarray], observe: Observe,
) -> np.ndarray:  # fmt: skip
    """Add a layer's gradients, from those of its outputs; return those of its sums z."""
    gates, hs, cs = (made[f"{layer}.{part}"] for part in ("gates", "h", "c"))
    recurrent = p[f"{layer}.recurrent.weight"]
    dz = np.empty_like(gates)
    dh = dc = np.zeros_like(hs[0])
    for t in reversed(range(CONTEXT)):
        i, f, g, o = np.split(gates[t], 4, axis=1)
        dh = dh + dhs[t]
        squashed = np.tanh(cs[t + 1])
        dc = dc + dh * o * (1 - squashed**2)
        parts = (
            dc * g * i * (1 - i), dc * cs[t] * f * (1 - f), dc * i * (1 - g**2),
            dh * squashed * o * (1 - o),
        )  # fmt: skip
        dz[t] = np.concatenate(parts, axis=1)
        dc = dc * f
        dh = dz[t] @ recurrent
    flat = dz.reshape(-1, dz.shape[2])
    observe(f"{layer}.input.weight", flat, inputs)
    observe(f"{layer}.recurrent.weight", flat, hs[:-1])
    found[f"{layer}.input.weight"] += flat.T @ inputs.reshape(len(flat), -1)
    found[f"{layer}.recurrent.weight"] += flat.T @ hs[:-1].reshape(len(flat), -1)
    found[f"{layer}.bias"] += flat.sum(axis=0)
    return dz


def activations(p: Parameters, contexts: np.ndarray) -> dict[str, np.ndarray]:
    """Return the mean square of each input of each matrix product, by the matrix's name."""
    sums: dict[str, np.ndarray] = {}
    for k in range(0, len(contexts), CHUNK):
        part = contexts[k : k + CHUNK]
        made = _forward(p, part)
        for name, inputs in (
            ("lstm1.input.weight", p["embedding.weight"][part.T]),
            ("lstm1.recurrent.weight", made["lstm1.h"][:-1]),
            ("lstm2.input.weight", made["lstm1.h"][1:]),
            ("lstm2.recurrent.weight", made["lstm2.h"][:-1]),
            ("output.weight", made["y"][None]),
        ):
            squares = (inputs.astype(np.float64) ** 2).sum(axis=1).mean(axis=0)
            sums[name] = sums.get(name, np.zeros(len(squares))) + squares
    return {name: total / len(contexts) for name, total in sums.items()}

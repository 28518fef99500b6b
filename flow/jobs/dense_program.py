"""A pre-trained MLP as a program of the streamed engine, whose kept weights learn rotated images.

Images come as vectors, with their classes; the engine gives their losses. A step is that of
:mod:`~seedbed.flow.jobs.kept_tuning`, in integers: with L+ and L- the sums of a batch's losses with
+eps z and -eps z added to the kept weights, these change by ``-change z`` with::

    change = clamp(floor((L+ - L-) rate / 2^shift + 1/2))
"""

from collections.abc import Iterator, Sequence

import numpy as np

from seedbed.flow.importer.packed_rows import pack
from seedbed.flow.importer.program_formats import calibrated, integers
from seedbed.flow.jobs.mlp_task import Task
from seedbed.flow.jobs.sparse_network import PIXEL_BITS, sensitivity
from seedbed.flow.jobs.sparse_trainer_rtl import Settings
from seedbed.golden.fixed import rounded
from seedbed.golden.kept_weights import fraction_bits, trainable
from seedbed.golden.stream_engine import FloatEngine, Integers, Reals, StreamEngine
from seedbed.golden.stream_trainer import Sample, Tuned, Work
from seedbed.golden.tuning_log import Step, deltas
from seedbed.spec import SoftmaxLossConfig
from seedbed.spec.stream_engine import SIGN_BITS, Input, Loss, Matrix, Operation, Program, Vector

__all__ = [
    "EPS", "LEARNS", "LOSS", "MOST", "as_samples", "as_work", "dense_program", "judged",
    "judged_network", "train",
]  # fmt: skip

#: Fraction bits of kept weights at most.
FRACTION = 6
#: The size of a perturbation, which the settings' scale shifts to the left, and the most that a
#: weight changes in a step, in units of its least bit.
EPS, MOST = 64, 1024
#: Factor and right shift of the difference of the losses.
LEARNS = {"rate": 1024, "shift": 16}
#: A loss of 1.
LOSS = SoftmaxLossConfig.logits.one


def dense_program(task: Task, x: np.ndarray, labels: np.ndarray, *, kept: int) -> StreamEngine:
    """Return the network of a task with 4 bits a weight, and its most sensitive weights kept.

    ``x`` and ``labels`` are the images that choose formats and what is kept, as vectors in 0..1.
    """
    squares = sensitivity(task.model, task.theta, x, labels)
    least = np.sort(np.concatenate([part.ravel() for part in squares]))[-kept]
    layers = [Reals(weights=w.T, biases=bias) for w, bias in task.model.layers(task.theta)]
    rows = [
        pack("trellis", of.weights, keep=square >= least).integers()
        for of, square in zip(layers, squares, strict=True)
    ]
    # A pixel is a byte.
    program, found = judged_network(layers, rows, x, PIXEL_BITS)
    return StreamEngine(program, trainable(found, fraction_bits(found, FRACTION)))


def judged_network(
    layers: Sequence[Reals], rows: Sequence[Integers], x: np.ndarray, fraction: int
) -> tuple[Program, dict[str, Integers]]:
    """Return the program of a dense network with ReLU whose result is a loss, and its parameters.

    ``layers`` are its matrices and biases in float64, and ``rows`` the matrices as integers. Its
    vectors have ``fraction`` fraction bits, and ``x`` are some of them, which choose the other
    formats.
    """
    vectors = {"v0": Vector(length=x.shape[1], fraction=fraction)}
    operations: list[Operation] = [Input(target="v0")]
    for k, of in enumerate(layers):
        last = k == len(layers) - 1
        vectors[f"v{k + 1}"] = Vector(length=len(of.weights), wide=last)
        activation = "" if last else "relu"
        operations.append(
            Matrix(weights=f"w{k}", source=f"v{k}", target=f"v{k + 1}", activation=activation)
        )
    reals = {f"w{k}": of for k, of in enumerate(layers)}
    program = Program(vectors=vectors, operations=tuple(operations), result=f"v{len(layers)}")
    engine = FloatEngine(program, reals)
    engine.run(np.zeros(len(x), np.int64), inputs=x)
    program = calibrated(program, engine.peaks)
    # Logits have the format of a loss.
    bits = SoftmaxLossConfig.logits.fraction
    program = Program(
        vectors={
            **program.vectors,
            "v0": vectors["v0"],
            program.result: Vector(length=len(layers[-1].weights), fraction=bits, wide=True),
            "loss": Vector(length=2, fraction=bits, wide=True),
        },
        operations=(*operations, Loss(source=program.result, target="loss")), result="loss",
    )  # fmt: skip
    return program, integers(program, reals, {f"w{k}": of for k, of in enumerate(rows)})


def judged(program: Tuned, x: np.ndarray, labels: np.ndarray, block: int) -> np.ndarray:
    """Return loss and class of each image, (images, 2)."""
    found = []
    for k in range(0, len(x), block):
        program.start()
        part = slice(k, k + block)
        count = len(x[part])
        found.append(program.run(np.zeros(count, np.int64), inputs=x[part], labels=labels[part]))
    return np.concatenate(found)


def train(
    program: Tuned, settings: Settings, x: np.ndarray, labels: np.ndarray, order: np.ndarray, *,
    block: int,
) -> Iterator[tuple[Step, int, int]]:  # fmt: skip
    """Yield each step, and the sums of the losses of its two passes.

    ``order`` has the images of each epoch, (epochs, images); ``block`` of them are a block.
    """
    rng = np.random.default_rng(settings.seed)
    batches = range(0, order.shape[1], settings.batch)
    parts = [epoch[k : k + settings.batch] for epoch in order for k in batches]
    eps = EPS << settings.scale
    for number, part in enumerate(parts):
        seed = int(rng.integers(1, 1 << SIGN_BITS))
        sums = []
        for delta in deltas(eps, 0)[:2]:
            program.tune(seed=seed, delta=delta)
            sums.append(int(judged(program, x[part], labels[part], block)[:, 0].sum()))
        rate = settings.rate * (len(parts) - number) // len(parts)
        change = int(rounded(np.array(sums[0] - sums[1]) * rate, settings.shift))
        change = max(-MOST, min(MOST, change))
        program.tune(seed=seed, delta=deltas(eps, change)[2])
        yield Step(seed, change), sums[0], sums[1]


def as_samples(x: np.ndarray, labels: np.ndarray, order: np.ndarray, block: int) -> list[Sample]:
    """Return images in an order, as samples of ``block`` images each."""
    return [
        Sample(np.zeros(block, np.int64), labels[part], x[part])
        for part in order.reshape(-1, block)
    ]


def as_work(settings: Settings, block: int) -> Work:
    """Return what one command trains: settings with samples of ``block`` images each."""
    return Work(
        batch=settings.batch // block, epochs=settings.epochs, seed=settings.seed + 1,
        eps=EPS << settings.scale, rate=settings.rate, decay=settings.rate // settings.epochs,
        shift=settings.shift, most=MOST,
    )  # fmt: skip

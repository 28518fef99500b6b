"""A language model in integers: compressed, with kept entries, and tuned by forward passes."""

from dataclasses import dataclass, replace
from math import ceil, frexp, log2
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from safetensors.numpy import load_file, save_file

from seedbed.flow.compress.checkpoint import Checkpoint, CheckpointError
from seedbed.flow.compress.kept import read_kept
from seedbed.flow.compress.mask import read_mask, write_mask
from seedbed.flow.compress.packed import Config, Packed, unpack_rows
from seedbed.flow.compress.plan import Options
from seedbed.flow.compress.sensitive import sensitive
from seedbed.flow.compress.trellis import encode
from seedbed.flow.jobs.lm_task import TENSORS, Task, Windows, join, restore, squared_gradients
from seedbed.flow.jobs.personalise_loss import LongWindows, long_windows
from seedbed.flow.run.progress import Bar
from seedbed.golden import trellis
from seedbed.golden.gemv import trellis_base
from seedbed.golden.integer_language_model import MATRICES, IntegerLanguageModel, deviation
from seedbed.golden.kept_matrix import KeptMatrix
from seedbed.spec import SEEDLM, SparseMacConfig, TrellisConfig
from seedbed.spec.sparse_mac import MOST_SCALE

__all__ = ["BITS", "HELD_OUT", "PACKINGS", "Setup", "setup"]

#: Bits of the packed weights, and how they are packed, by the decode of the core.
BITS = 4
PACKINGS: dict[str, Config] = {"seedlm": SEEDLM[BITS], "trellis": TrellisConfig(bits=BITS)}
#: The row of the attention has more bits than a trellis code: it is the sum of so many rows, each
#: of what those before it leave.
SUMMED = 4
#: The embedding is stored transposed: its products have a vector that selects a character.
EMBEDDING = MATRICES[0]
#: The step of a perturbation; the range of kept values is so many times the largest difference. It
#: is less, but at least the second number, where the step would be greater otherwise.
EPS, ROOM, LEAST_ROOM = 1e-2, 4, 1.25
#: The last of so many parts of a text's lines is held out.
HELD_OUT = 4


@dataclass(frozen=True)
class Setup:
    """A model in integers, the same in float, and the windows to tune on and to judge by.

    ``matrices`` are those of :data:`MATRICES`, ``restored`` the decompressed parameters.
    """

    model: IntegerLanguageModel
    matrices: dict[str, KeptMatrix]
    restored: dict[str, np.ndarray]
    tuned: LongWindows
    held: Windows

    @property
    def entries(self) -> int:
        """Number of kept entries of all matrices."""
        return sum(len(of.entries) for of in self.matrices.values())


def _transposed(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    changed = {EMBEDDING: tensors[EMBEDDING].T}
    return {n: np.ascontiguousarray(v) for n, v in (tensors | changed).items()}


def _mask(
    task: Task, out: Path, fraction: float, keep: Path | None, console: Console
) -> Path:  # fmt: skip
    """Write the mask for the transposed checkpoint: the one given, or one by gradients."""
    path = out / "mask.safetensors"
    if keep is None:
        lines = task.lines[task.statistics]
        with Bar(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
            TimeRemainingColumn(), console=console,
        ) as bar:  # fmt: skip
            shown = bar.add_task("gradients of lines", total=len(lines))
            squares = squared_gradients(task.parameters, lines, lambda: bar.advance(shown))
        roots = {n: np.sqrt(v / len(lines)).astype(np.float32) for n, v in squares.items()}
        save_file(_transposed(roots), out / "gradients.safetensors")
        sensitive(
            out / "model.safetensors", out / "gradients.safetensors", path, fraction=fraction,
            tensors=TENSORS, console=Console(quiet=True),
        )  # fmt: skip
        return path
    shapes, indices = read_mask(keep)
    shape = task.parameters[EMBEDDING].shape
    if EMBEDDING in shapes:
        if shapes[EMBEDDING] != shape:
            raise CheckpointError(
                f"{keep}: the mask keeps weights of tensor {EMBEDDING!r} in the shape "
                f"{list(shapes[EMBEDDING])}, but it is {list(shape)} in the model"
            )
        rows, columns = np.divmod(indices[EMBEDDING], shape[1])
        indices[EMBEDDING] = np.sort(columns * shape[0] + rows)
        shapes[EMBEDDING] = shape[::-1]
    write_mask(path, shapes, indices, {"by": "transposed"})
    return path


def _with_entries(
    matrix: KeptMatrix, differences: np.ndarray, places: np.ndarray, sparse: SparseMacConfig
) -> KeptMatrix:
    """Return a matrix with entries, their shift, and their scale.

    The perturbation's step is as close to :data:`EPS` as powers of two allow, with the finest value
    whose range has room for the differences.
    """
    whole = round(log2(EPS / (deviation(sparse) * matrix.unit)))
    peak = float(np.abs(differences).max(initial=0)) / matrix.unit
    wide, narrow = (frexp(room * peak)[1] - (sparse.value_width - 1) for room in (ROOM, LEAST_ROOM))
    least = max(0, min(wide, max(whole, narrow)), whole - MOST_SCALE)
    shift = min(least, sparse.most_shift)
    half = 1 << (sparse.value_width - 1)
    values = (
        np.rint(differences / np.ldexp(matrix.unit, shift)).clip(-half, half - 1).astype(np.int64)
    )
    rows, columns = np.divmod(places, matrix.columns)
    return replace(
        matrix,
        entries=np.stack([rows, columns, values], axis=1),
        shift=shift,
        scale=min(max(whole - shift, 0), MOST_SCALE),
    )


def _matrices(path: Path, sparse: SparseMacConfig) -> dict[str, KeptMatrix]:
    """Return the packed matrices of a file."""
    found = {}
    with Checkpoint(path) as file:
        packed = Packed.of(file)
        for name, weights in packed.tensors.items():
            entry = file.tensors[f"{name}.{packed.format}"]
            raw = np.frombuffer(file.read(entry.offset, entry.nbytes), np.uint8)
            raw = raw.reshape(entry.shape)
            if isinstance(packed.config, TrellisConfig):
                matrix = _coded(packed.config, raw, weights.columns, weights.scale)
            else:
                config = packed.seedlm
                blocks = unpack_rows(config, raw, weights.blocks(config))
                unit = 2.0 ** (weights.scale - 8) / (config.half - 1)
                matrix = KeptMatrix(fields=blocks, columns=weights.columns, unit=unit)
            kept = read_kept(file, packed, name)
            if len(kept.indices):
                matrix = _with_entries(matrix, kept.differences, kept.indices, sparse)
            found[name] = matrix
    return found


def _coded(code: TrellisConfig, raw: np.ndarray, columns: int, scale: int = 0) -> KeptMatrix:
    """Return packed rows of a trellis code as a matrix."""
    base, scale = trellis_base(code, raw, columns, scale)
    return KeptMatrix(fields=base, columns=columns, unit=2.0 ** (scale - 8))


def _summed(code: TrellisConfig, weights: np.ndarray) -> KeptMatrix:
    """Return a row as the sum of :data:`SUMMED` rows of a trellis code."""
    left, rows = weights.astype(np.float64), []
    for _ in range(SUMMED):
        rows.append(encode(code, left))
        left = left - trellis.decode(code, rows[-1], weights.shape[1])
    return _coded(code, np.concatenate(rows), weights.shape[1])


def _plain(weights: np.ndarray) -> KeptMatrix:
    """Return a matrix of plain weights of 16 bits, with a power-of-two scale."""
    exponent = 15 - frexp(float(np.abs(weights).max()) * (1 + 2**-15))[1]
    fields = np.rint(np.ldexp(weights.astype(np.float64), exponent)).astype(np.int64)
    return KeptMatrix(
        fields=fields, columns=weights.shape[1], plain=True, unit=float(np.ldexp(1.0, -exponent))
    )


def setup(
    task: Task, out: Path, sparse: SparseMacConfig, fraction: float = 0.001,
    keep: Path | None = None, *, decode: str = "seedlm", spread: int = 0, console: Console,
) -> Setup:  # fmt: skip
    """Compress a model at 4 bits with kept entries, and return it in integers.

    Parameters
    ----------
    task
        The model. The text of gradients is the first by its name; the last is tuned on and judged.
    out
        Folder of intermediate files.
    sparse
        Configuration of the side path.
    fraction, keep
        Fraction of the weights with the largest squared gradients, or a file of their mask.
    decode
        How weights are packed, of :data:`PACKINGS`.
    spread
        A window to tune on gives the losses after so many characters fewer and more than 40.
    console
        Output of progress.

    Raises ``ValueError`` for a mask that does not fit the model, for more entries than the core's
    memory holds, and for a text without lines to hold out.
    """
    source = out / "model.safetensors"
    save_file(_transposed(task.parameters), source)
    mask = _mask(task, out, fraction, keep, console)
    packing, attention = PACKINGS[decode], "attention.weight"
    options = Options(config=packing, tensors=TENSORS, keep=mask, keep_as="int16")
    restore(source, out, options)
    restored = load_file(out / "restored.safetensors")
    restored = _transposed(restored)
    matrices = _matrices(out / "packed.safetensors", sparse)
    if isinstance(packing, TrellisConfig):
        matrices[attention] = _summed(packing, task.parameters[attention])
    else:
        matrices[attention] = _plain(task.parameters[attention])
    count = sum(len(of.entries) for of in matrices.values())
    if count > sparse.entries:
        raise ValueError(
            f"the core's memory holds {sparse.entries} entries, but {count} weights are kept"
        )
    personal = list(task.lines)[-1]
    lines = task.lines[personal]
    if len(lines) < HELD_OUT:
        raise ValueError(f"the text {personal!r} must have {HELD_OUT} lines or more")
    held = len(lines) // HELD_OUT
    peak = max(1.0, float(np.abs(task.parameters[EMBEDDING]).max()))
    model = IntegerLanguageModel(
        biases={n: v.astype(np.float64) for n, v in task.parameters.items() if n.endswith("bias")},
        fraction=15 - ceil(log2(peak)),
    )
    ordered = {name: matrices[name] for name in MATRICES}
    tuned = long_windows(lines[:-held], spread)
    return Setup(model, ordered, restored, tuned, join(lines[-held:]))

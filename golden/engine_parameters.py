"""Parameters of a program in beats of memory: entries, and rows of matrices and tables.

Entries of 64 bits have a factor in the lower half and a number in the upper half: the multiplier
and the bias of a row, the gain and the bias of an element, a step of an angle. A matrix or a table
has, for as many rows as a beat has entries, the beat of these entries and then the rows, int8
weights that begin in a new beat. Rows of a trellis code are interleaved: a beat has a part of each
of 8 / ``trellis`` rows, symbols of the same columns. Rows of SeedLM have 32 bits a block. With
groups, their scales and minima, 32 bits a group, are between the entries and the rows.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from seedbed.golden.fixed import shifted
from seedbed.golden.stream_engine import Integers
from seedbed.spec.engine_records import KEPT, KEPT_BEATS, KEPT_COUNT
from seedbed.spec.gemv import FACTOR_BITS, FACTOR_SHIFT, GROUP
from seedbed.spec.stream_engine import Embed, Program, StreamEngineConfig

__all__ = ["EngineParameters", "entries", "image_beats", "image_bytes"]


#: Rows of a table that are made digits together.
PLANE_ROWS = 4096


def image_bytes(config: StreamEngineConfig, beats: Iterable[int]) -> bytes:
    """Return beats of memory as bytes, the lowest first."""
    size = config.beat_bits // 8
    return b"".join(beat.to_bytes(size, "little") for beat in beats)


def image_beats(config: StreamEngineConfig, raw: bytes) -> list[int]:
    """Return bytes as beats of memory."""
    size = config.beat_bits // 8
    raw += bytes(-len(raw) % size)
    return [int.from_bytes(raw[k : k + size], "little") for k in range(0, len(raw), size)]


def _padded(rows: np.ndarray, count: int, columns: int) -> np.ndarray:
    """Return rows with zeros, up to multiples of ``count`` rows and of ``columns``."""
    return np.pad(rows, ((0, -len(rows) % count), (0, -rows.shape[1] % columns)))


def entries(factors: np.ndarray, numbers: np.ndarray | None) -> bytes:
    """Return entries of 64 bits."""
    found = np.zeros((len(factors), 2), "<i4")
    found[:, 0] = factors
    found[:, 1] = 0 if numbers is None else numbers
    return found.tobytes()


class EngineParameters:
    """Gives addresses to parameters, counted from the first beat of all, in the order of the calls.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`: the core.
    program, parameters
        As :class:`~seedbed.golden.stream_engine.StreamEngine` takes them.
    """

    def __init__(
        self, config: StreamEngineConfig, program: Program, parameters: Mapping[str, Integers]
    ):
        self.config, self.of = config, parameters
        #: The beats so far.
        self.beats: list[int] = []
        self._addresses: dict[str, int] = {}
        #: The constant of records of matrices: beats of their kept weights, and where these are.
        self.kept: dict[str, int] = {}
        #: Beats of kept weights that can be tuned, which come last, and the first one of each
        #: matrix.
        self.trainable: list[int] = []
        self.trainable_at: dict[str, int] = {}
        # Tables, whose rows are int8 in any case.
        self._tables = {
            name for op in program.operations if isinstance(op, Embed) for name in op.parameters
        }

    def put(self, raw: bytes, key: str = "") -> int:
        """Return the address of some bytes, which are written once for each key."""
        if key in self._addresses:
            return self._addresses[key]
        address = len(self.beats)
        self.beats += image_beats(self.config, raw)
        if key:
            self._addresses[key] = address
        return address

    def matrix(self, name: str) -> int:
        """Return the address of a matrix or table, which is written once."""
        if name in self._addresses:
            return self._addresses[name]
        config, biases = self.config, self.of[name].biases
        multipliers, _ = self.scale(name)
        parts = []
        if self.packing(name) == "trellis":
            rows = self._symbols(name)
            kept, counts = self._kept(name)
            beats = image_beats(config, kept)
            self.kept[name] = len(beats)
            if self.of[name].kept:
                self.trainable_at[name] = len(self.trainable)
                self.kept[name] |= len(self.trainable) << KEPT_BEATS
                self.trainable += beats
            else:
                parts = [image_bytes(config, beats)]
            multipliers = multipliers | counts << 32 - KEPT_COUNT
        elif self.packing(name) == "seedlm":
            rows = self._blocks(name)
        elif self.packing(name) == "groups":
            rows = self._codes(name)
        else:
            rows = self._weights(name)
        for k, part in enumerate(rows):
            of_part = slice(k * config.entries, (k + 1) * config.entries)
            head = entries(multipliers[of_part], None if biases is None else biases[of_part])
            parts += [head, bytes(config.beat_bits // 8 - len(head)), part]
        return self.put(b"".join(parts), name)

    def scale(self, name: str) -> tuple[np.ndarray, int]:
        """Return multipliers of rows and their fraction bits, without low bits that all have as 0.

        As few of these are left out as fit the core.
        """
        of, most = self.of[name], (1 << self.config.unit.factor_bits) - 1
        if self.packing(name) == "seedlm":
            assert of.seedlm is not None
            return of.multipliers, of.seedlm.fraction
        if self.packing(name) == "groups":
            assert of.groups is not None
            return of.multipliers, of.groups.fraction - self._lowest(name)
        low = max(0, int(of.multipliers.max()).bit_length() - self.config.unit.factor_bits)
        if of.multipliers.min() < 0 or (of.multipliers & (1 << low) - 1).any():
            raise ValueError(f"the multipliers of {name} must be in 0..{most}")
        return of.multipliers >> low, of.fraction - low

    def packing(self, name: str) -> str:
        """Return how the core decodes the rows of a matrix, "" for int8."""
        of, config = self.of[name], self.config
        if config.groups:
            return "groups" if of.groups else ""
        if name in self._tables:
            return ""
        if config.seedlm:
            return "seedlm" if of.seedlm else ""
        return "trellis" if of.trellis and of.trellis.code == config.code else ""

    def _weights(self, name: str) -> list[bytes]:
        """Return rows of int8 weights, as many together as there are constants in a beat."""
        config, of = self.config, self.of[name]
        low, high = -(1 << config.weight_width - 1), (1 << config.weight_width - 1) - 1
        if of.seedlm and name not in self._tables:
            raise ValueError(f"{name} has blocks of SeedLM, which need seedlm = True of the core")
        if of.groups:
            raise ValueError(f"{name} has groups of codes, which need groups = True of the core")
        if of.weights.min() < low or of.weights.max() > high or of.sum_width != 32:
            raise ValueError(f"the weights of {name} must be integers in {low}..{high}")
        return self._parts(_padded(of.weights.astype(np.int8), 1, config.weights))

    def _blocks(self, name: str) -> list[bytes]:
        """Return rows of blocks, as many together as :meth:`_weights` does."""
        config, of = self.config, self.of[name].seedlm
        assert of is not None
        return self._parts(
            _padded(of.blocks.astype("<u4"), 1, config.beat_bits // of.code.block_bits)
        )

    def planes(self, name: str, fraction: int) -> list[int]:
        """Return the addresses of a table of groups as tables of int8, the highest digits first.

        A row is rounded to ``fraction`` fraction bits, and written in digits -128..127 to the
        base 256, as many as the greatest element needs.
        """
        of = self.of[name]
        parts: list[np.ndarray] = []
        for first in range(0, len(of.weights), PLANE_ROWS):
            rows = np.arange(first, min(first + PLANE_ROWS, len(of.weights)))
            parts.append(shifted(of.row(rows), of.fraction - fraction).astype(np.int32))
        left = np.concatenate(parts)
        found: list[np.ndarray] = []
        while not found or left.any():
            low = left.astype(np.int8)
            found.append(low)
            left = left - low >> 8
        return [self._plane(f"{name} {fraction} {k}", each) for k, each in enumerate(found)][::-1]

    def _plane(self, key: str, rows: np.ndarray) -> int:
        """Return the address of rows of int8 without constants of their own."""
        beat = bytes(self.config.beat_bits // 8)
        parts = self._parts(_padded(rows, 1, self.config.weights))
        return self.put(b"".join(each for part in parts for each in (beat, part)), key)

    def whole(self, name: str) -> bool:
        """Return whether codes of groups have 8 bits."""
        of = self.of[name].groups
        return self.packing(name) == "groups" and of is not None and of.bits == 8

    def _lowest(self, name: str) -> int:
        """Return how many low bits all scales and minima of a matrix have as 0."""
        of = self.of[name].groups
        assert of is not None
        bits = int(np.bitwise_or.reduce(of.scales, axis=None))
        bits |= int(np.bitwise_or.reduce(of.minima, axis=None))
        return (bits & -bits).bit_length() - 1 if bits else 0

    def _codes(self, name: str) -> list[bytes]:
        """Return rows of codes, as many together as :meth:`_weights` does, after their groups."""
        config, of = self.config, self.of[name].groups
        assert of is not None
        whole = of.bits == 8
        beats = config.row_beats("groups", of.codes.shape[1], whole=whole)
        codes = _padded(of.codes.astype(np.uint8), 1, beats * config.beat_bits // of.bits)
        if not whole:
            codes = codes[:, ::2] | codes[:, 1::2] << 4
        low, count = self._lowest(name), beats * config.beat_bits // of.bits // GROUP
        factors = [self._factors(name, part >> low) for part in (of.scales, of.minima)]
        groups = np.stack([_padded(part, config.entries, count) for part in factors], axis=-1)
        size = config.group_beats(beats, whole=whole) * config.beat_bits // 8
        heads = groups.astype("<u2").tobytes()
        return [
            heads[k * size : (k + 1) * size] + part for k, part in enumerate(self._parts(codes))
        ]

    def _factors(self, name: str, numbers: np.ndarray) -> np.ndarray:
        """Return scales or minima as mantissas, shifted by the highest bits of 16."""
        magnitudes = np.abs(numbers)
        shifts = np.maximum(np.frexp(magnitudes.astype(np.float64))[1] - (FACTOR_BITS - 1), 0)
        mantissas = numbers >> shifts
        if shifts.max() >= 1 << FACTOR_SHIFT or (mantissas << shifts != numbers).any():
            raise ValueError(
                f"scales and minima of {name} must have {FACTOR_BITS - 1} bits, and differ by a "
                f"factor of at most 2^{(1 << FACTOR_SHIFT) - 1}"
            )
        return mantissas & (1 << FACTOR_BITS) - 1 | shifts << FACTOR_BITS

    def _parts(self, rows: np.ndarray) -> list[bytes]:
        """Return rows, as many together as there are constants in a beat."""
        count = self.config.entries
        return [rows[k : k + count].tobytes() for k in range(0, len(rows), count)]

    def _symbols(self, name: str) -> list[bytes]:
        """Return rows of symbols, interleaved, as many as :meth:`_weights` does."""
        config, of = self.config, self.of[name].trellis
        assert of is not None
        symbols = _padded(of.symbols.astype(np.uint8), config.ways, config.weights)
        bits = np.unpackbits(symbols[..., None], axis=-1, count=of.code.bits, bitorder="little")
        # Rows that are read together, a row of these, a beat, bits of a row in it.
        beats = config.row_beats("trellis", symbols.shape[1])
        parts = bits.reshape(-1, config.ways, beats, config.weights * of.code.bits)
        raw = np.packbits(parts.swapaxes(1, 2), bitorder="little").tobytes()
        size = config.entries // config.ways * beats * config.beat_bits // 8
        return [raw[k : k + size] for k in range(0, len(raw), size)]

    def _kept(self, name: str) -> tuple[bytes, np.ndarray]:
        """Return the weights that differ from those of the trellis code, and each row's number."""
        of, most = self.of[name], (1 << KEPT_COUNT) - 1
        assert of.trellis is not None
        if of.kept:
            rows, columns, found = of.kept.rows, of.kept.columns, of.kept.values
        else:
            differences = of.weights.astype(np.int64) - of.trellis.weights()
            rows, columns = np.nonzero(differences)
            found = differences[rows, columns]
        counts = np.bincount(rows, minlength=len(of.weights))
        if len(found) > self.config.kept or counts.max() > most:
            raise ValueError(
                f"{name} must keep at most {self.config.kept} weights beside its trellis code, and "
                f"{most} of a row, not {len(found)} and {counts.max()}"
            )
        half = 1 << KEPT["difference"] - 1
        if (found < -half).any() or (found >= half).any():
            raise ValueError(f"kept weights of {name} must differ by {-half}..{half - 1} at most")
        words = columns << KEPT["difference"] | found & 2 * half - 1
        words |= (of.kept is not None) << KEPT["difference"] + KEPT["column"]
        return words.astype("<u4").tobytes(), counts

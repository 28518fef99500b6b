"""Model of the core that walks a program's records: each pass, token by token and head by head."""

from zlib import crc32

import numpy as np

from seedbed.golden.engine_parameters import image_bytes
from seedbed.golden.exact import whole_product
from seedbed.golden.fixed import saturate, shifted
from seedbed.golden.gemv import base_weights
from seedbed.golden.kept_weights import tuned
from seedbed.golden.stream_engine import label_losses
from seedbed.golden.trellis import states, symbols, table
from seedbed.golden.vector_unit import VectorUnit, token_shifts
from seedbed.spec.engine_records import (
    ADDENDS,
    CONSTANTS,
    FACTORS,
    HEADER,
    HEADS,
    KEPT,
    KEPT_BEATS,
    KEPT_BITS,
    KEPT_COUNT,
    KINDS,
    LENGTHS,
    MAGIC,
    NUMBERS,
    PACKINGS,
    RECORD,
    RECORD_BITS,
    TARGETS,
    unpacked,
)
from seedbed.spec.gemv import CODE_BITS, FACTOR_BITS, GROUP
from seedbed.spec.stream_engine import (
    GROUP_BITS,
    SEEDLM_BLOCKS,
    TUNED_BEATS,
    StreamEngineConfig,
)
from seedbed.spec.vector_unit import ACTIVATIONS, VECTOR_OPERATIONS

__all__ = ["PassEngine"]

_CODES = {
    "kind": KINDS, "operation": VECTOR_OPERATIONS, "activation": tuple(ACTIVATIONS),
    "constant_from": CONSTANTS, "length_from": LENGTHS, "numbers": NUMBERS, "factors": FACTORS,
    "addends": ADDENDS, "target": TARGETS, "of_head": HEADS,
}  # fmt: skip


class PassEngine:
    """Runs the records of a memory image.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`.
    beats
        Memory from address 0 on, a beat each.
    """

    def __init__(self, config: StreamEngineConfig, beats: tuple[int, ...]):
        self.config = config
        self.raw = bytearray(image_bytes(config, beats))
        self.unit = VectorUnit(config.unit)
        self.store = np.zeros(config.store * config.lanes, np.int64)
        self.cache = np.zeros((config.cache, config.lanes), np.int64)
        self.shifts = np.zeros(config.cache, np.int64)
        self.loaded = False
        self.position = 0
        #: Parts of memory that were read, and beats that were written: the first beat, and beats;
        #: of one that was written, its data.
        self.accesses: list[tuple[int, int] | tuple[int, int, int]] = []

    def load(self, address: int = 0, *, first: int = 0, end: int = 0) -> str:
        """Check and keep the program at a beat of memory; return the status.

        It may write from the beat ``first`` to the one before ``end``.
        """
        config, size = self.config, RECORD_BITS // 8
        self.raw += bytes(max(0, end * config.beat_bits // 8 - len(self.raw)))
        raw = memoryview(self.raw)[address * config.beat_bits // 8 :]
        self.loaded, self.position = False, 0
        self.limits = first, end
        self.accesses.append((address, -(-RECORD_BITS // config.beat_bits)))
        header = unpacked(int.from_bytes(raw[:size], "little"), HEADER)
        known = {"magic": MAGIC, "lanes": config.lanes, "beat_bytes": config.beat_bits // 8 % 256}
        if any(header[name] != value for name, value in known.items()) or not header["records"]:
            return "damaged"
        if (header["choose"] or header["loss"]) and not (
            config.classes if header["loss"] else config.choose
        ):
            return "damaged"
        #: The trellis code, and fraction bits of kept weights.
        codes = {(0, 0), (config.code_field, 0)}
        if config.tune:
            codes |= {(config.trellis + 1, config.tune)}
        self.fraction = header["fraction"] * (config.tune > 0)
        if (header["trellis"], self.fraction) not in codes:
            return "damaged"
        sizes = ("records", "store", "cache", "block", "context")
        if any(header[name] > getattr(config, name) for name in sizes):
            return "size"
        stop = size * (header["records"] + 1)
        self.accesses.append((address, -(-8 * stop // config.beat_bits)))
        if crc32(raw[size:stop], crc32(raw[: size - 4])) != header["crc"]:
            return "damaged"
        parts = [int.from_bytes(raw[k : k + size], "little") for k in range(size, stop, size)]
        self.records = [self._named(unpacked(bits, RECORD)) for bits in parts]
        takes = any(r["kind"] == "pass" and r["numbers"] == "input" for r in self.records)
        if takes and not config.inputs:
            return "damaged"
        matrices = [record for record in self.records if record["kind"] == "trellis"]
        unknown = {*PACKINGS} - {config.packed}
        if any(record["kind"] in unknown for record in self.records):
            return "damaged"
        for each in matrices:
            each["kept_at"] = each["address"]
            if self.fraction:
                each["constant"], each["kept_at"] = (
                    each["constant"] & (1 << KEPT_BEATS) - 1, each["constant"] >> KEPT_BEATS
                )  # fmt: skip
            if each["constant"] > config.kept_beats:
                return "damaged"
        exchanges = [each for each in self.records if each["kind"] in ("save", "restore")]
        if exchanges and not config.external:
            return "damaged"
        for each in exchanges:
            inside = first <= each["address"] and each["address"] + each["rows"] <= end
            if not each["length"] or (each["kind"] == "save" and not inside):
                return "damaged"
        self.header = header
        self.loaded = True
        return "ok"

    def _named(self, record: dict) -> dict:
        return record | {name: names[record[name]] for name, names in _CODES.items()}

    def run(
        self, tokens: np.ndarray, *, start: bool = False, inputs: np.ndarray | None = None,
        labels: np.ndarray | None = None,
    ) -> tuple[str, list[np.ndarray]]:  # fmt: skip
        """Run a block; return the status and the vectors of the result.

        ``inputs`` and ``labels``: the vectors and classes that come with the tokens.
        """
        if not self.loaded:
            return "missing", []
        if start:
            self.position = 0
        header = self.header
        count = len(tokens)
        if (
            count > header["block"]
            or self.position + count > header["context"]
            or max(tokens) >= header["tokens"]
        ):
            return "tokens", []
        none = np.zeros(0, np.int64)
        self.tokens = tokens
        self.inputs, self.labels = (none if of is None else of for of in (inputs, labels))
        self.found: list[np.ndarray] = []
        body: list[dict] = []
        bodies: list[list[dict]] = []
        for record in self.records:
            body.append(record)
            if not record["last"]:
                continue
            bodies.append(body)
            body = []
            if record["joined"]:
                continue
            group = self.config.vectors if len(bodies) > 1 else count
            ends = count if bodies[0][-1]["by_token"] else 1
            for first in range(0, ends, group):
                for each in bodies:
                    self._walk_body(each, range(first, min(first + group, count)))
            bodies = []
        self.position += count
        return "ok", self.found

    def _walk_body(self, body: list[dict], tokens: range) -> None:
        """Run a body for each token and each head."""
        for self.token in tokens if body[-1]["by_token"] else tokens[:1]:
            for head in range(body[-1]["repeat"]):
                for record in body:
                    self.head = head + (record["of_head"] == "next")
                    skipped = self.head >= record["repeat"] > head
                    if not (skipped or (head and record["of_head"] == "first")):
                        getattr(self, f"_{record['kind']}")(record)

    def tune(self, first: int, end: int, *, seed: int, delta: int) -> str:
        """Change the kept weights in the beats from ``first`` to the one before ``end``."""
        if not self.loaded:
            return "missing"
        if first < self.limits[0] or end > self.limits[1]:
            return "damaged"
        size = self.config.beat_bits // 8
        span = slice(first * size, max(first, end) * size)
        words = np.frombuffer(bytes(self.raw[span]), "<u4")
        self.raw[span] = tuned(self.config, words, seed=seed, delta=delta).astype("<u4").tobytes()
        while first < end:
            stop = min(end, first - first % TUNED_BEATS + TUNED_BEATS)
            self.accesses.append((first, stop - first))
            for k in range(first, stop):
                data = int.from_bytes(self.raw[k * size : (k + 1) * size], "little")
                self.accesses.append((k, 1, data))
            first = stop
        return "ok"

    def _give(self, record: dict, y: np.ndarray) -> None:
        """Give a result, the number of its greatest element, or the loss and this number."""
        if record["target"] == "output":
            self.found.append(y)
        elif self.header["loss"]:
            (found,) = label_losses(y[None], self.labels[[self.token]])
            self.found.append(found)
        else:
            self.found.append(y.argmax(axis=0, keepdims=True))

    # Places.

    def _at(self, record: dict, name: str) -> int:
        """Return the first element of a place."""
        place = record[name]
        beat = place["place"]
        if not place["shared"]:
            beat += self.token * self.header["frame"]
        if place["by_head"]:
            beat += self.head * record["head"]
        return beat * self.config.lanes

    def _read(self, record: dict, name: str, length: int) -> np.ndarray:
        at = self._at(record, name)
        return self.store[at : at + length].copy()

    def _rows(self, record: dict) -> np.ndarray:
        """Return the rows of the cache for the tokens that are attended to."""
        count = len(self.tokens) if record["all"] else self.token + 1
        first = record["cache"] + self.head // record["group"] * record["head"]
        tokens = np.arange(self.position + count)[:, None] * self.header["row"]
        return tokens + first + np.arange(record["head"])

    def _words(self, address: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the factors and the numbers of entries."""
        start = address * self.config.beat_bits // 8
        found = np.frombuffer(self.raw[start : start + 8 * count], "<i4").reshape(-1, 2)
        return found[:, 0].astype(np.int64), found[:, 1].astype(np.int64)

    def _row(self, record: dict, row: int, length: int) -> tuple[int, int, np.ndarray]:
        """Return multiplier, bias and weights of a row of a matrix."""
        config, beats = self.config, self._row_beats(record)
        ways = config.ways if record["kind"] == "trellis" else 1
        group, rest = divmod(row, config.entries)
        of_groups = self._group_beats(record)
        address = record["address"] + group * (1 + of_groups + config.entries // ways * beats)
        # Weights that are kept come first.
        if record["kind"] == "trellis" and not self.fraction:
            address += record["constant"]
        multipliers, biases = self._words(address, config.entries)
        multipliers = multipliers & 0xFFFFFFFF
        constants = int(multipliers[rest]), int(biases[rest])
        first = address + 1 + of_groups + rest // ways * beats
        if record["kind"] == "pass":
            self.accesses += [(address, 1), (first, beats)]
        size = config.beat_bits // 8
        raw = np.frombuffer(self.raw[first * size : (first + beats) * size], np.uint8)
        if record["kind"] == "seedlm":
            blocks = raw.view("<u4")[None]
            return 1, constants[1], base_weights(SEEDLM_BLOCKS, blocks, length)[0]
        if record["kind"] == "groups":
            count = len(raw) * 8 // (8 if record["constant"] & 1 else CODE_BITS) // GROUP
            start = (address + 1) * size + rest * count * GROUP_BITS // 8
            heads = np.frombuffer(self.raw[start : start + count * GROUP_BITS // 8], "<u2")
            return 1, constants[1], self._group_weights(record, raw, heads, length)
        if record["kind"] != "trellis":
            return *constants, raw[:length].view(np.int8).astype(np.int64)
        assert config.code is not None
        stream = raw.reshape(beats, ways, -1)[:, rest % ways].reshape(1, -1)
        (found,) = states(config.code, symbols(config.code, stream, length))
        return *constants, table(config.code)[found]

    def _row_beats(self, record: dict) -> int:
        """Return the beats of a row of a matrix or a table."""
        whole = bool(record["constant"] & 1)
        return self.config.row_beats(record["kind"], record["length"], whole=whole)

    def _group_beats(self, record: dict) -> int:
        """Return the beats of groups between constants and rows."""
        if record["kind"] != "groups":
            return 0
        whole = bool(record["constant"] & 1)
        return self.config.group_beats(self._row_beats(record), whole=whole)

    @staticmethod
    def _group_weights(record: dict, raw: np.ndarray, heads: np.ndarray, length: int) -> np.ndarray:
        """Return the weights of a row of codes and its scales and minima."""
        mantissas = heads.astype(np.int64) & (1 << FACTOR_BITS) - 1
        mantissas -= (mantissas >> FACTOR_BITS - 1) << FACTOR_BITS
        factors = mantissas << (heads.astype(np.int64) >> FACTOR_BITS)
        scales, minima = (np.repeat(part, GROUP)[:length] for part in (factors[::2], factors[1::2]))
        codes = raw.view(np.int8)
        if not record["constant"] & 1:
            codes = np.stack([raw & 15, raw >> 4], axis=-1).reshape(-1)
        return codes[:length].astype(np.int64) * scales + minima

    # Kinds of records.

    def _matrix(self, record: dict) -> None:
        unit, length, rows = self.config.unit, record["length"], record["rows"]
        given = record["target"] in ("output", "choose")
        if given or self.token % self.config.vectors == 0:
            heads = -(-rows // self.config.entries)
            together = self.config.ways if record["kind"] == "trellis" else 1
            row_beats = self._row_beats(record)
            beats = heads * (1 + self._group_beats(record)) + -(-rows // together) * row_beats
            if record["kind"] == "trellis" and self.fraction and record["constant"]:
                self.accesses.append((record["kept_at"], record["constant"]))
            elif record["kind"] == "trellis":
                beats += record["constant"]
            self.accesses.append((record["address"], beats))
        x = self._read(record, "number_place", length)
        shift = int(token_shifts(x, unit.width)) if record["narrow"] else 0
        x = saturate(shifted(x, shift), unit.vector)
        parts = [self._row(record, row, length) for row in range(rows)]
        multipliers, biases = (np.array([part[k] for part in parts]) for k in (0, 1))
        weights = np.stack([part[2] for part in parts])
        sums = whole_product(x, weights.T).astype(np.int64)
        if record["kind"] == "trellis":
            counts = multipliers >> 32 - KEPT_COUNT
            multipliers = multipliers & (1 << 32 - KEPT_COUNT) - 1
            kept = whole_product(x, self._kept(record, counts, length).T).astype(np.int64)
            sums += shifted(kept, self.fraction)
        y = shifted(sums * multipliers, record["shift"] - shift) + biases
        at = self._at(record, "target_place")
        if record["add"]:
            y = y + self.store[at : at + rows]
        y = saturate(y, unit.residual if record["wide"] else unit.vector)
        if given:
            self._give(record, y)
        else:
            self.store[at : at + rows] = y

    def _kept(self, record: dict, counts: np.ndarray, length: int) -> np.ndarray:
        """Return what is added to the weights of a matrix: to each row as often as counted."""
        start, size = record["kept_at"] * self.config.beat_bits // 8, KEPT_BITS // 8
        words = np.frombuffer(self.raw[start : start + size * int(counts.sum())], "<u4")
        found = np.zeros((len(counts), length), np.int64)
        rows = np.repeat(np.arange(len(counts)), counts)
        columns = words >> KEPT["difference"] & (1 << KEPT["column"]) - 1
        np.add.at(found, (rows, columns), words.astype(np.uint16).view(np.int16))
        return found

    #: Rows that are read together are no matter of the products.
    _trellis = _seedlm = _groups = _matrix

    def _keep(self, record: dict) -> None:
        head, heads = record["head"], record["rows"] or 1
        numbers = self._read(record, "number_place", heads * head * self.config.lanes)
        first = (self.position + self.token) * self.header["row"] + record["cache"]
        for k, x in enumerate(numbers.reshape(heads, -1)):
            kept, shift = self.unit.cached(x)
            place = first + (self.head + k) * head
            self.cache[place : place + head] = kept.reshape(-1, self.config.lanes)
            self.shifts[place : place + head] = shift

    def _saved(self, record: dict) -> tuple[int, int]:
        """Return the beats in memory of a token's keys and values, and its words of the cache."""
        config = self.config
        return config.saved_beats(record["length"]), -(-record["length"] // config.products)

    def _save(self, record: dict) -> None:
        config, size = self.config, self.config.beat_bits // 8
        beats, words = self._saved(record)
        for token in range(self.position, self.position + len(self.tokens)):
            row = token * self.header["row"]
            rows = slice(row, row + words * config.products // config.lanes)
            numbers = self.cache[rows].astype(np.int8).tobytes()
            shifts = self.shifts[rows].reshape(words, -1)[:, 0].astype(np.uint8).tobytes()
            raw = shifts + bytes(-len(shifts) % size) + numbers + bytes(-len(numbers) % size)
            address = record["address"] + token * beats
            self.raw[address * size : address * size + len(raw)] = raw
            for k in range(beats):
                data = int.from_bytes(raw[k * size : (k + 1) * size], "little")
                self.accesses.append((address + k, 1, data))

    def _restore(self, record: dict) -> None:
        config, size = self.config, self.config.beat_bits // 8
        beats, words = self._saved(record)
        if self.position:
            self.accesses.append((record["address"], self.position * beats))
        # What a core would have on the chip is forgotten: it is right if it comes from memory.
        self.cache[:] = self.shifts[:] = 0
        for token in range(self.position):
            start = (record["address"] + token * beats) * size
            shifts, numbers = (
                np.frombuffer(self.raw[at : at + count], kind).astype(np.int64)
                for at, count, kind in (
                    (start, words, np.uint8),
                    (start + size, words * config.products, np.int8),
                )
            )
            row = token * self.header["row"]
            rows = slice(row, row + words * config.products // config.lanes)
            self.cache[rows] = numbers.reshape(-1, config.lanes)
            self.shifts[rows] = np.repeat(shifts, config.products // config.lanes)

    def _pass(self, record: dict) -> None:
        lengths = {
            "field": record["length"],
            "tokens": len(self.tokens),
            "seen": self.position + (len(self.tokens) if record["all"] else self.token + 1),
        }
        length = lengths[record["length_from"]]
        constant = record["constant"]
        if record["constant_from"] == "position":
            constant = self.position + self.token
        factors = numbers = np.zeros(length, np.int64)
        addends = None
        if "words" in (record["numbers"], record["factors"], record["addends"]):
            self.accesses.append((record["address"], -(-length // self.config.entries)))
            low, numbers = self._words(record["address"], length)
            factors, addends = low.astype(np.int16).astype(np.int64), numbers
            numbers = numbers & 0xFFFFFFFF
        if record["numbers"] == "store":
            numbers = self._read(record, "number_place", length)
        elif record["numbers"] == "zeros":
            numbers = np.zeros(length, np.int64)
        elif record["numbers"] == "input":
            numbers = self.inputs[self.token]
        elif record["numbers"] in ("token", "position"):
            row = self.position + self.token
            if record["numbers"] == "token":
                row = int(self.tokens[self.token])
            multiplier, _, numbers = self._row(record, row, length)
            if record["constant_from"] == "row":
                constant = multiplier
        elif record["numbers"] == "scores":
            rows = self._rows(record)
            query = self._read(record, "number_place", record["head"] * self.config.lanes)
            numbers = self.cache[rows].reshape(length, -1) @ query
            factors = self.shifts[rows[:, 0]]
        elif record["numbers"] == "mix":
            rows = self._rows(record)
            shares = self._read(record, "number_place", len(rows))
            values = self.cache[rows].reshape(len(rows), -1) << self.shifts[rows[:, :1]]
            numbers = shares @ values
        if record["factors"] == "store":
            wrap = record["head"] * self.config.lanes
            at = self._at(record, "factor_place")
            factors = self.store[at + np.arange(length) % wrap]
        if record["addends"] == "store":
            addends = self._read(record, "addend_place", length)
        if not record["add"]:
            addends = None
        y = self._computed(record, constant, numbers, factors, addends)
        if y is not None and record["target"] == "store":
            at = self._at(record, "target_place")
            self.store[at : at + length] = y
        elif y is not None and record["target"] in ("output", "choose"):
            self._give(record, y)

    def _computed(self, record, k, x, f, a) -> np.ndarray | None:
        """Return the results of a command of the vector unit; keep its statistics."""
        unit, config, shift = self.unit, self.config.unit, record["shift"]
        operation, wide = record["operation"], bool(record["wide"])
        centre = getattr(self, "mean", 0) if record["centred"] else 0
        if operation == "scale":
            return unit.multiply(x, np.array(k), shift=shift, wide=wide, addends=a)
        if operation == "multiply":
            return unit.multiply(x, f, shift=shift, wide=wide, addends=a)
        if operation == "activate":
            return unit.activate(x, name=record["activation"], fraction=shift)
        if operation == "sum":
            self.mean = int(shifted(x.sum() * k, shift))
            return None
        if operation == "square":
            self.centred, self.epsilon = x - centre, k
            return None
        if operation == "normalise":
            return unit.normalised(self.centred, epsilon=self.epsilon)
        if operation == "score":
            y = unit.scores(x, f, scale=(k, shift))
            self.greatest = y.max()
            return y
        if operation == "power":
            y = unit.shares(self.greatest - x)
            self.total = y.sum()
            return y
        if operation == "mix":
            return unit.mix(x, self.total)
        if operation == "angle":
            y = unit.angles(np.array(k), x)
            y[0::2] += 1 << config.sine_angle_bits - 2
            return y & (1 << config.sine_angle_bits) - 1
        if operation == "sine":
            return unit.sine(x)
        return unit.turned(x, f[0::2], f[1::2])

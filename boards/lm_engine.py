"""Matrices with kept entries on a board: what is sent, and what must come back."""

import zlib
from collections.abc import Callable, Mapping

import numpy as np

from seedbed.boards.device import Device
from seedbed.boards.matrix_commands import SUM_BITS, command_layout, end_layout
from seedbed.boards.packed_matrix import scaled_rows
from seedbed.boards.stream_job import exchange, places, require_job, start
from seedbed.boards.streams import OUTPUT_BITS, Input, Output, packet
from seedbed.golden.kept_matrix import KeptMatrix
from seedbed.hw.products.gemv_layouts import vector_layout
from seedbed.hw.products.sparse_layouts import entry_layout
from seedbed.sim.harness import Mismatch
from seedbed.sim.jobs.checked_matrices import CheckedMatrices
from seedbed.sim.jobs.checked_matrices import row_beats as beats_of_weights
from seedbed.sim.payloads import pack, unpack
from seedbed.spec import GEMV_STATUS, SPARSE_MAC_KINDS, GemvConfig, SdramConfig

__all__ = ["BoardMatrices", "inputs", "outputs", "require_fit"]

_PRODUCT, _UPDATE, _LOAD = map(SPARSE_MAC_KINDS.index, SPARSE_MAC_KINDS)
#: Places of the ports in words to the host.
_SUM, _VALUE, _END = range(3)
_MASK = (1 << OUTPUT_BITS) - 1


def inputs(config: GemvConfig, memory: SdramConfig) -> tuple[Input, ...]:
    """Return the ports for packets; the tag of a matrix is the address of its first beat."""
    assert config.sparse
    return (
        Input("matrix", memory.beat_bits, memory.address_bits),
        Input("command", command_layout(config, memory).size),
        Input("entries", entry_layout(config.sparse).size),
        Input("vector", vector_layout(config).size - 1),
    )


def outputs(config: GemvConfig) -> tuple[Output, ...]:
    """Return the ports for words to the host."""
    return (
        Output("sum", SUM_BITS),
        Output("value", config.value_width),
        Output("end", end_layout().size),
    )


def row_beats(config: GemvConfig, of: KeptMatrix) -> int:
    """Return the beats of a row in the memory: of a trellis code, with that of its scale."""
    return beats_of_weights(config, of) + (config.trellis is not None)


def require_fit(
    config: GemvConfig, memory: SdramConfig, matrices: Mapping[str, KeptMatrix]
) -> None:
    """Raise ``ValueError`` for matrices that do not fit the core or the memory."""
    most = (1 << config.row_width) - 1
    for name, of in matrices.items():
        if of.rows > most or of.columns > config.columns:
            raise ValueError(
                f"{name} has {of.rows} rows and {of.columns} columns; at most {most} rows and "
                f"{config.columns} columns fit"
            )
    octets = sum(of.rows * row_beats(config, of) for of in matrices.values())
    octets *= memory.beat_bits // 8
    if octets > memory.bytes:
        raise ValueError(f"the matrices have {octets} bytes; the memory has {memory.bytes}")


class BoardMatrices(CheckedMatrices):
    """Matrices in the memory of a board, and their entries in its core.

    The words of a job follow from its matrices and settings, and from results that are the
    model's: a host that continues a job sends none of them again.

    Parameters
    ----------
    device
        The board.
    config, matrices, progress
        See :class:`~seedbed.sim.jobs.checked_matrices.CheckedMatrices`.
    memory
        Of the board.
    settings
        What else the job depends on.
    resume
        Whether to continue the job of another host.

    Raises ``ValueError`` if there is no job to continue, or another one, and
    :class:`~seedbed.sim.harness.Mismatch` for a result that is not the model's.
    """

    def __init__(
        self, device: Device, config: GemvConfig, memory: SdramConfig,
        matrices: Mapping[str, KeptMatrix], settings: str, *, resume: bool = False,
        progress: Callable[[int], object] = lambda count: None,
    ):  # fmt: skip
        require_fit(config, memory, matrices)
        super().__init__(config, matrices, progress)
        self._device, self._ports = device, inputs(config, memory)
        self._command = command_layout(config, memory)
        #: Words to the board and from it, up to now.
        self.sent = self.received = 0
        self._address, address = {}, 0
        for name, of in self.matrices.items():
            self._address[name] = address
            address += of.rows * row_beats(config, of)
        loads = [part for name in self.matrices for part in self._load(name)]
        words = np.concatenate(loads)
        digest = zlib.crc32(words.tobytes(), zlib.crc32(settings.encode()))
        if resume:
            require_job(device, digest)
        else:
            start(device, digest)
        #: Words that an earlier host has sent, and those that it has read.
        self._given, self.earlier = places(device)
        self._origin = device.read("origin_out")
        self._exchange("the entries", words, np.full(self._loaded, _END << OUTPUT_BITS))

    @property
    def _loaded(self) -> int:
        """Number of matrices with entries."""
        return sum(len(of.entries) > 0 for of in self.matrices.values())

    def _load(self, name: str) -> list[np.ndarray]:
        """Return the packets that store a matrix and its entries."""
        beats = self._beats(name)
        if self._core.trellis:
            beats = scaled_rows(self.matrices[name].fields, beats)
        parts = [packet(self._ports, "matrix", beats.tobytes(), self._address[name])]
        if len(self.matrices[name].entries):
            parts += [
                self._packet(name, _LOAD, {}),
                packet(self._ports, "entries", self._entries(name).tobytes()),
            ]
        return parts

    def _packet(self, name: str, kind: int, fields: Mapping[str, int]) -> np.ndarray:
        """Return the packet of a command."""
        beats = row_beats(self._core, self.matrices[name])
        matrix = {
            "address": self._address[name], "row_beats": beats,
            "beats": self.matrices[name].rows * beats,
        }  # fmt: skip
        words = pack(self._command, 1, **{**self._fields(name, kind), **matrix, **fields})
        return packet(self._ports, "command", words.tobytes())

    def _multiplied(
        self, name: str, x: np.ndarray, expected: np.ndarray, fields: Mapping[str, int]
    ) -> np.ndarray:
        vectors, count = self._core.vectors, -(-len(x) // self._core.vectors)
        beats = self._vectors(x).reshape(count, -1, -(-vector_layout(self._core).size // 32))
        size = self._ports[-1].words
        words, wanted = [], []
        for k in range(count):
            part = expected[vectors * k : vectors * (k + 1)]
            words += [
                self._packet(name, _PRODUCT, {**fields, "most": len(part)}),
                packet(self._ports, "vector", beats[k, :, :size].tobytes()),
            ]
            wanted += [_sum_words(part), np.array([_END << OUTPUT_BITS])]
        found = self._exchange(name, np.concatenate(words), np.concatenate(wanted))
        return _sums(found, x.shape[0], expected.shape[1], vectors)

    def _updated(self, name: str, expected: np.ndarray, fields: Mapping[str, int]) -> np.ndarray:
        width = self.config.value_width
        wanted = (expected & (1 << width) - 1) | _VALUE << OUTPUT_BITS
        wanted = np.append(wanted, _END << OUTPUT_BITS)
        found = self._exchange(name, self._packet(name, _UPDATE, fields), wanted)
        return (found[:-1] & (1 << width) - 1 ^ 1 << width - 1) - (1 << width - 1)

    def _exchange(self, name: str, words: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Send words; return those that came back, and of an earlier host the wanted ones."""
        given = min(max(self._given - self.sent, 0), len(words))
        read = min(max(self.earlier - self.received, 0), len(wanted))
        found = wanted.copy()
        if given < len(words) or read < len(wanted):
            position = (self._origin + self.received + read) % 2**32
            found[read:] = exchange(self._device, words[given:], position, len(wanted) - read)
        self.sent += len(words)
        self.received += len(wanted)
        if (found >> OUTPUT_BITS != wanted >> OUTPUT_BITS).any():
            raise Mismatch(f"{name}: the board sent words of other ports than the model")
        self._require_ends(name, found[found >> OUTPUT_BITS == _END] & _MASK)
        return found

    def _require_ends(self, name: str, ends: np.ndarray) -> None:
        """Raise ``RuntimeError`` for a command that did not end well."""
        layout, wrong = end_layout(), ends[ends != 0]
        if not len(wrong):
            return
        fields = {
            field: int(unpack(layout, wrong[:1, None], field)[0, 0]) for field in layout.members
        }
        if fields["error"]:
            raise RuntimeError(f"{name}: the memory reported an error")
        if fields["overflow"]:
            raise RuntimeError(f"{name}: a sum has more than {SUM_BITS} bits")
        raise RuntimeError(
            f"{name}: a command ended with the status {GEMV_STATUS[fields['status']]!r}"
        )


def _sum_words(sums: np.ndarray) -> np.ndarray:
    """Return the words of sums (n, rows), row by row."""
    flat = sums.T.reshape(-1, 1) >> np.array([0, OUTPUT_BITS])
    return (flat & _MASK).reshape(-1) | _SUM << OUTPUT_BITS


def _sums(words: np.ndarray, count: int, rows: int, vectors: int) -> np.ndarray:
    """Return the sums (count, rows) in the words of products of so many vectors at a time."""
    low, high = words[words >> OUTPUT_BITS == _SUM].reshape(-1, 2).T
    numbers = (low & _MASK) | (high & _MASK) << OUTPUT_BITS
    numbers = (numbers ^ 1 << SUM_BITS - 1) - (1 << SUM_BITS - 1)
    parts = np.split(numbers, np.arange(vectors, count, vectors) * rows)
    return np.concatenate([part.reshape(rows, -1).T for part in parts])

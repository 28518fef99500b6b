"""Application ``gemv``: products of a packed matrix in the SDRAM with vectors from the host."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from amaranth.hdl import Module, Signal
from amaranth.lib import fifo, wiring
from rich.console import Console

from seedbed.boards import platforms
from seedbed.boards.device import Device
from seedbed.boards.matrix_store import add_store, feed_rows
from seedbed.boards.memory import CLOCK_MHZ, MEMORY_REGISTERS, memory_ports, require_memory
from seedbed.boards.packed_matrix import PackedMatrix
from seedbed.boards.registers import Register, ports
from seedbed.flow.export.vectors import npy_bytes, read_vectors
from seedbed.flow.run.files import require_output, write_atomic
from seedbed.flow.run.options import Force
from seedbed.golden import gemv as golden
from seedbed.hw.products.gemv import Gemv
from seedbed.spec import GEMV_STATUS, GemvConfig, SdramConfig
from seedbed.spec.checks import require_int

__all__ = ["BOARDS", "CONFIG", "MEMORY", "REGISTERS", "VARIANTS", "Top", "run"]

#: A beat is a word from the host. The memory takes two cycles of its own clock for it, the engine
#: one of the application's, which is half as fast.
MEMORY = SdramConfig(beat_bits=32, clock_mhz=120, pad_cycles=2)
CONFIG = GemvConfig(beat_bits=32, columns=2048, row_width=24)
#: Configurations, by the format of the matrix and its bits, and that of each board. Of 2 bits, the
#: memory gives the most weights a cycle.
VARIANTS = {
    "seedlm": CONFIG,
    "trellis4": replace(CONFIG, decode="trellis", bits=4),
    "trellis3": replace(CONFIG, decode="trellis", bits=3),
    "trellis2": replace(CONFIG, decode="trellis", bits=2),
}
BOARDS = dict.fromkeys(platforms.BOARDS, "seedlm")
#: The most that the memory gives in a cycle of the application, in bytes.
PEAK = 2 * MEMORY.clock_mhz / CLOCK_MHZ
#: Results that are stored until the host has them: with more rows, the engine waits for the host.
RESULTS = 2048

REGISTERS = (
    *MEMORY_REGISTERS,
    Register("address", "write", "first beat of the matrix in the memory"),
    Register("beats", "write", "beats of the matrix: rows times those of a row"),
    Register("row_beats", "write", "beats of a row, with that of its scale if it has one"),
    Register("rows", "write", "rows of the matrix"),
    Register("columns", "write", "columns of the matrix, 1..2048"),
    Register("origin", "write", "for the host: position in the stream at which the job begins"),
    Register("load", "strobe", "stores the matrix: a word from the host for each beat"),
    Register("product", "strobe", "multiplies: a word from the host for two numbers"),
    Register("stop", "strobe", "ends a job"),
    Register("busy", "read", "1: a job runs"),
    Register("jobs", "read", "number of jobs that were started"),
    Register("cycles", "read", "from the first burst that is read to the last result"),
    Register("memory_waits", "read", "of them, those in which a beat waited for the engine"),
    Register("status", "read", "how the product ended: 0 without an error"),
    Register("errors", "read", "errors of the memory in the job"),
)


class Top(wiring.Component):
    """Stores a matrix, and multiplies it with vectors.

    While no job runs, words from the host are discarded. A result is two words for the host.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.GemvConfig`. A row of a trellis code has a beat before its symbols:
        its scale.

    Members
    -------
    control, status
        :data:`REGISTERS`.
    i : In(stream of unsigned(32))
        Words from the host: of the matrix, or of a vector.
    o : Out(stream of unsigned(32))
        Results.
    leds : Out(8)
        Bit 0: a job runs. The others count jobs.
    o_command, o_write, i_response, i_read
        :func:`~seedbed.boards.memory.memory_ports`.
    """

    def __init__(self, config: GemvConfig = CONFIG):
        self.config = config
        super().__init__(ports(REGISTERS) | memory_ports(MEMORY))

    def elaborate(self, platform):
        m = Module()
        m.submodules.engine = engine = Gemv(self.config)
        store = add_store(m, self, MEMORY)
        control, status = self.control, self.status
        jobs, busy = Signal(32), Signal()
        # Beats that are not stored; numbers of the vector that have not come.
        self._left = Signal(32)
        self._vector = Signal(range(self.config.columns + 1))
        # The last result of a command is pending.
        self._owes, self._measures, self._stops = Signal(), Signal(), Signal()
        m.d.comb += [
            status.busy.eq(busy),
            status.jobs.eq(jobs),
            self.leds.eq(busy | jobs[:7] << 1),
        ]
        self._connect(m, engine, store)
        self._count(m, engine, store)
        with m.If(control.stop & busy):
            m.d.sync += self._stops.eq(1)
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += [
                    busy.eq(0),
                    self._stops.eq(0),
                    self._left.eq(control.beats),
                    self._vector.eq(control.columns),
                ]
                with m.If((control.load | control.product) & ~busy):
                    m.d.sync += [
                        busy.eq(1),
                        jobs.eq(jobs + 1),
                        status.errors.eq(0),
                        status.status.eq(0),
                    ]
                    m.next = "COMMAND"
                    with m.If(control.load):
                        m.next = "LOAD"
            self._load(m, store)
            self._multiply(m, engine, store)
        return m

    def _connect(self, m, engine, store):
        """Connect the engine to the matrix store, words and results."""
        control = self.control
        m.submodules.results = results = fifo.SyncFIFOBuffered(width=64, depth=RESULTS)
        high = Signal()
        feed_rows(m, MEMORY, store, engine)
        m.d.comb += [
            store.i.payload.address.eq(control.address),
            store.i.payload.beats.eq(control.beats),
            store.i.payload.row_beats.eq(control.row_beats),
            store.i_store.payload.data.eq(self.i.payload),
            store.i_store.payload.tag.eq(control.address),
            store.i_store.payload.last.eq(self._left == 1),
            engine.i.payload.columns.eq(control.columns),
            engine.i.payload.rows.eq(control.rows),
            results.w_data.eq(engine.o.payload.sum),
            results.w_en.eq(engine.o.valid & (engine.o.payload.status == 0)),
            engine.o.ready.eq(results.w_rdy),
            self.o.valid.eq(results.r_rdy),
            self.o.payload.eq(results.r_data.word_select(high, 32)),
            results.r_en.eq(self.o.ready & high),
            engine.i_vector.payload.lanes.as_value().eq(self.i.payload),
            engine.i_vector.payload.last.eq(self._vector <= self.config.group),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += high.eq(~high)

    def _count(self, m, engine, store):
        """Count cycles and errors, and notice the last result."""
        status, read, out = self.status, self.i_read, engine.o
        with m.If(self._measures):
            m.d.sync += [
                status.cycles.eq(status.cycles + 1),
                status.memory_waits.eq(status.memory_waits + (read.valid & ~read.ready)),
            ]
        with m.If(store.error):
            m.d.sync += status.errors.eq(status.errors + 1)
        with m.If(engine.i.valid & engine.i.ready & ~engine.i.payload.clear):
            m.d.sync += [self._owes.eq(1), status.cycles.eq(0), status.memory_waits.eq(0)]
        with m.If(out.valid & out.ready & out.payload.last):
            m.d.sync += [
                self._owes.eq(0),
                self._measures.eq(0),
                status.status.eq(out.payload.status),
            ]

    def _load(self, m, store):
        """Store a beat of each word."""
        beat = store.i_store
        with m.State("LOAD"):
            with m.If(self._stops | (self._left == 0)):
                m.next = "DRAIN"
            with m.Else():
                m.d.comb += [beat.valid.eq(self.i.valid), self.i.ready.eq(beat.ready)]
            with m.If(beat.valid & beat.ready):
                m.d.sync += self._left.eq(self._left - 1)

    def _multiply(self, m, engine, store):
        """Give the engine its command, the vector and the matrix; or end the job."""
        vector = engine.i_vector
        with m.State("COMMAND"):
            m.d.comb += engine.i.valid.eq(1)
            with m.If(engine.i.ready):
                m.next = "VECTOR"
        with m.State("VECTOR"):
            m.d.comb += [vector.valid.eq(self.i.valid), self.i.ready.eq(vector.ready)]
            with m.If(vector.valid & vector.ready):
                m.d.sync += self._vector.eq(self._vector - self.config.group)
                with m.If(vector.payload.last):
                    m.d.sync += self._measures.eq(1)
                    m.next = "MATRIX"
            with m.If(self._stops | ~self._owes):
                m.next = "CLEAR"
        with m.State("MATRIX"):
            m.d.comb += store.i.valid.eq(1)
            with m.If(store.i.ready):
                m.next = "RUN"
        with m.State("RUN"), m.If(self._stops | (~self._owes & ~store.busy)):
            m.next = "CLEAR"
        with m.State("CLEAR"):
            # An engine without a job has nothing to clear.
            m.d.comb += [
                store.stop.eq(1),
                engine.i.valid.eq(self._owes),
                engine.i.payload.clear.eq(1),
            ]
            with m.If(engine.i.ready | ~self._owes):
                m.next = "DRAIN"
        with m.State("DRAIN"):
            m.d.comb += store.stop.eq(1)
            with m.If(~self._owes & ~store.busy):
                m.next = "IDLE"


def run(
    device: Device,
    console: Console,
    config: GemvConfig = CONFIG,
    *,
    matrix: Annotated[
        Path | None,
        typer.Option(
            help="A file by 'seedbed compress', in the format of the board's configuration; by "
            "default, a random matrix."
        ),
    ] = None,
    tensor: Annotated[
        str | None, typer.Option(help="A tensor of the file; by default, the first one.")
    ] = None,
    vector: Annotated[
        Path | None,
        typer.Option(
            metavar="X.npy", help="Vectors to multiply the matrix with; by default, random ones."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="Y.npy", help="Write the products to this file."),
    ] = None,
    force: Force = False,
    rows: Annotated[int, typer.Option(help="Rows of the random matrix.")] = 64,
    columns: Annotated[int, typer.Option(help="Columns of the random matrix.")] = 1024,
    vectors: Annotated[int, typer.Option(help="Random vectors to multiply with.")] = 3,
    seed: Annotated[int, typer.Option(help="Seed of random vectors and random matrix.")] = 1,
) -> None:
    """Store a matrix, multiply it with vectors, and compare with the golden model.

    Parameters
    ----------
    device
        The board.
    console
        Where the results are printed.
    config
        That of the board.
    matrix, tensor
        A file that ``seedbed compress`` wrote, and the name of a tensor in it; by default, the
        first one. Without a file, a random matrix.
    vector
        An array of NumPy, a vector or one in each row: integers of 16 bits, or floating-point
        numbers, which are rounded to 16 bits in units of a power of two.
    output, force
        The file of the products, and whether it may exist. They are the sums of integers, or the
        product of floating-point numbers.
    rows, columns
        Shape of the random matrix.
    vectors, seed
        How many random vectors there are, and the seed of their numbers and of the random matrix.

    Raises ``AssertionError`` for a difference, and ``ValueError`` for a matrix or a vector that
    does not fit.
    """
    require_int("vectors", vectors, 1, 1_000_000)
    require_int("seed", seed, 0, 2**32 - 1)
    if vector and not matrix:
        raise ValueError("--vector needs a matrix: give --matrix, too")
    if output and not vector:
        raise ValueError("--output needs vectors: give --vector, too")
    if output:
        require_output(output, force=force)
    rng = np.random.default_rng(seed)
    if matrix:
        packed = PackedMatrix.read(config, matrix, tensor)
        columns = packed.columns
    else:
        require_int("rows", rows, 1, 2**config.row_width - 1)
        require_int("columns", columns, 1, config.columns)
        packed = PackedMatrix.random(config, rng, rows, columns)
    beats = packed.beats()
    octets = beats.size
    if columns > config.columns or octets > MEMORY.bytes:
        raise ValueError(
            f"{packed.name} has {columns} columns and {octets} bytes; at most {config.columns} "
            f"columns and {MEMORY.bytes} bytes fit"
        )
    given, unit = None, None
    if vector:
        given, unit = read_vectors(vector, (columns,), config.activation_width, several=True)
    console.print(require_memory(device, MEMORY))
    _stop(device, console)
    shape = {"address": 0, "beats": octets // 4, "row_beats": beats.shape[1]}
    shape |= {"rows": packed.rows, "columns": columns}
    for name, value in shape.items():
        device.write(name, value)
    device.write("load", 1)
    device.send(beats.reshape(-1).view("<u4").tolist())
    _finish(device)
    console.print(f"{packed.rows} x {columns} weights in {octets:,} bytes are in the memory")
    products: list[np.ndarray] = []
    drawn = (rng.integers(-(2**15), 2**15, columns) for _ in range(vectors))
    for x in drawn if given is None else given.reshape(-1, columns):
        y, cycles, waits = _product(device, config, x, packed.product(x))
        products += [y] if vector else []
        rate = octets / cycles
        console.print(
            f"product as in the model, bit for bit: {cycles:,} cycles, {rate:.3f} bytes a cycle, "
            f"{100 * rate / PEAK:.1f} % of the memory's peak; it waited for the engine in {waits} "
            "cycles"
        )
    if given is not None:
        _results(console, packed, given, np.array(products), unit=unit, output=output)


def _results(
    console: Console, packed: PackedMatrix, given: np.ndarray, products: np.ndarray, *,
    unit: int | None, output: Path | None,
) -> None:  # fmt: skip
    """Say what a sum is worth, and write the products in the form of the vectors."""
    divisor = f" / {packed.divisor}" if packed.divisor > 1 else ""
    console.print(f"a sum of 1 is 2^{packed.scale + (unit or 0)}{divisor}")
    if output is None:
        return
    if unit is not None:
        products = np.ldexp(products / packed.divisor, packed.scale + unit)
    write_atomic(output, npy_bytes(products.reshape(*given.shape[:-1], -1)))
    kind = "sums" if unit is None else "products"
    console.print(f"the {kind} are in {output}", soft_wrap=True)


def _product(
    device: Device, config: GemvConfig, x: np.ndarray, expected: np.ndarray
) -> tuple[np.ndarray, int, int]:
    """Multiply a vector and compare; return y, the cycles, and those that the memory waited."""
    position = device.position()
    device.write("origin", position)
    device.write("product", 1)
    beats = golden.Gemv(config).vector_beats(x).astype("<i2")
    device.send(beats.reshape(-1).view("<u4").tolist())
    received = [word for part in device.stream(position, 2 * len(expected)) for word in part]
    _finish(device)
    found = np.array(received, "<u4").view("<i8")
    same = found == expected
    assert same.all(), f"row {int(np.argmin(same))} differs from the model"
    return found, device.read("cycles"), device.read("memory_waits")


def _finish(device: Device) -> None:
    """Wait for the end of a job; raise ``RuntimeError`` if it was not one without errors."""
    while device.read("busy"):
        pass
    status, errors = device.read("status"), device.read("errors")
    if status or errors:
        raise RuntimeError(
            f"the job ended with the status {GEMV_STATUS[status]!r} and {errors} errors of the "
            "memory"
        )


def _stop(device: Device, console: Console) -> None:
    """End an earlier job, and read what is left of its words."""
    ended, _ = device.stop()
    if ended:
        console.print("an earlier job was ended")

"""Application ``noise``: perturbations at full rate into a histogram and a running norm."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from rich.console import Console

from seedbed.boards import platforms
from seedbed.boards.device import Device
from seedbed.boards.registers import Register, ports
from seedbed.flow.run.files import atomic_path, require_output
from seedbed.flow.run.options import Force
from seedbed.golden import perturbation as golden
from seedbed.hw.generators.perturbation import Perturbation
from seedbed.spec import PerturbationConfig
from seedbed.spec.checks import require_int

__all__ = ["BOARDS", "CONFIG", "REGISTERS", "VARIANTS", "Top", "run"]

CONFIG = PerturbationConfig(source="urng", lanes=7, width=8, leap=8, count_width=24)
#: Bits of the scale's exponent, and bins of the histogram: one for each exponent and number.
EXPONENT_BITS = 2
BINS = 1 << (EXPONENT_BITS + CONFIG.width)

#: Configurations, and that of each board: block memories and multipliers decide.
VARIANTS = {"7": CONFIG, "3": replace(CONFIG, lanes=3)}
BOARDS = {name: "7" for name in platforms.BOARDS} | {"icebreaker": "3"}

REGISTERS = (
    Register("seed", "write", "seed of the perturbation, 1..255"),
    Register("numbers", "write", "length of the perturbation, 1..16777215"),
    Register("window", "write", "first beat of the window of raw numbers"),
    Register("window_beats", "write", "beats in the window"),
    Register("origin", "write", "for the host: position in the stream at which the job begins"),
    Register("start", "strobe", "starts a job; ignored while one runs"),
    Register("stop", "strobe", "ends a job without window and histogram"),
    Register("busy", "read", "1: a job runs"),
    Register("jobs", "read", "number of jobs that were started"),
    Register("cycles", "read", "cycles from the first beat to the last"),
    Register("norm_low", "read", "sum of the squares, in units of 2^-14: bits 0..31"),
    Register("norm_high", "read", "bits 32..63"),
)


class Top(wiring.Component):
    """Generates a perturbation, and sends a window of it and then its histogram to the host.

    A beat outside the window takes a cycle. A beat in the window takes at least one for each of its
    words: the numbers of 8 bits, and the exponent in the last byte. The histogram has a word for
    each exponent and number. A bin of the histogram is of all lanes together.

    Parameters
    ----------
    config
        One of :data:`VARIANTS`.

    Members
    -------
    control, status
        :data:`REGISTERS`.
    o : Out(stream of unsigned(32))
        Words for the host.
    leds : Out(8)
        Bit 0: a job runs. The others count jobs.
    """

    def __init__(self, config: PerturbationConfig = CONFIG):
        self.config = config
        super().__init__(ports(REGISTERS))

    def elaborate(self, platform):
        m = Module()
        m.submodules.generator = generator = Perturbation(self.config)
        control, status, beat = self.control, self.status, generator.o.payload
        busy, jobs, cycles = Signal(), Signal(32), Signal(32)
        position, stopped, second = Signal(32), Signal(), Signal()
        step = generator.o.valid & generator.o.ready
        # A bin is cleared before a job, and read after it.
        sweep, clear = Signal(range(BINS)), Signal()
        total = self._histogram(m, beat, step, sweep, clear)
        self._norm(m, beat, step, clear)
        in_window = ~stopped & (position - control.window < control.window_beats)
        in_window &= position >= control.window
        m.d.comb += [
            status.busy.eq(busy),
            status.jobs.eq(jobs),
            status.cycles.eq(cycles),
            self.leds.eq(busy | jobs[:7] << 1),
            generator.i.payload.seed.eq(control.seed),
            generator.i.payload.numbers.eq(control.numbers),
        ]
        with m.If(control.stop & busy):
            m.d.sync += stopped.eq(1)
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [position.eq(0), sweep.eq(0), busy.eq(0)]
                with m.If(control.start):
                    m.d.sync += [busy.eq(1), stopped.eq(0), jobs.eq(jobs + 1), cycles.eq(0)]
                    m.next = "CLEAR"
            with m.State("CLEAR"):
                m.d.comb += clear.eq(1)
                m.d.sync += sweep.eq(sweep + 1)
                with m.If(sweep == BINS - 1):
                    m.next = "COMMAND"
            with m.State("COMMAND"):
                m.d.comb += generator.i.valid.eq(1)
                with m.If(generator.i.ready):
                    m.next = "RUN"
            with m.State("RUN"):
                words = Signal(32 * beat_words(self.config))
                last_word = second if len(words) > 32 else Const(1)
                numbers = [number.as_unsigned() for number in beat.lanes]
                m.d.comb += [
                    words.eq(Cat(*numbers) | beat.exponent << len(words) - 8),
                    self.o.valid.eq(generator.o.valid & in_window),
                    self.o.payload.eq(words.word_select(second, 32)),
                    generator.o.ready.eq(~in_window | (last_word & self.o.ready)),
                ]
                m.d.sync += cycles.eq(cycles + generator.o.valid)
                with m.If(self.o.valid & self.o.ready):
                    m.d.sync += second.eq(~last_word)
                with m.If(step):
                    m.d.sync += position.eq(position + 1)
                    with m.If(beat.last):
                        m.next = "FLUSH"
            with m.State("FLUSH"):
                # The pipelines of histogram and norm end.
                m.d.sync += sweep.eq(sweep + 1)
                with m.If(sweep == 7):
                    m.d.sync += sweep.eq(0)
                    m.next = "ADDRESS"
            with m.State("ADDRESS"):
                m.next = "WAIT"
                with m.If(stopped):
                    m.next = "IDLE"
            with m.State("WAIT"):
                m.next = "WORD"
            with m.State("WORD"):
                # A valid word stays until its transfer, also if the host stops the job.
                m.d.comb += [self.o.valid.eq(1), self.o.payload.eq(total)]
                with m.If(self.o.ready):
                    m.d.sync += sweep.eq(sweep + 1)
                    m.next = "ADDRESS"
                    with m.If(sweep == BINS - 1):
                        m.next = "IDLE"
        return m

    def _histogram(self, m, beat, step, sweep, clear):
        """Count each lane's numbers in its own memory; return the total of bin ``sweep``.

        The total is two cycles after ``sweep``. The next beat may have the same number: its read
        returns what is written in the same cycle.
        """
        counts = []
        for k, number in enumerate(beat.lanes):
            m.submodules[f"histogram_{k}"] = memory = Memory(shape=24, depth=BINS, init=[])
            write = memory.write_port()
            read = memory.read_port(transparent_for=(write,))
            place, counted = Signal(range(BINS), name=f"bin_{k}"), Signal(name=f"counted_{k}")
            m.d.comb += [
                read.addr.eq(Mux(step, number.as_unsigned() | beat.exponent << 8, sweep)),
                write.en.eq(counted | clear),
                write.addr.eq(Mux(clear, sweep, place)),
                write.data.eq(Mux(clear, 0, read.data + 1)),
            ]
            m.d.sync += [place.eq(read.addr), counted.eq(step & (k < beat.count))]
            counts.append(read.data)
        total = Signal(32)
        m.d.sync += total.eq(sum(counts))
        return total

    def _norm(self, m, beat, step, clear):
        """Sum the squares of the numbers, scaled by their beat's exponent, in four stages."""
        squares = [Signal(15, name=f"square_{k}") for k in range(self.config.lanes)]
        numbers = [Signal(signed(8), name=f"number_{k}") for k in range(self.config.lanes)]
        exponents = [Signal(EXPONENT_BITS, name=f"exponent_{k}") for k in range(3)]
        total, scaled, norm = Signal(18), Signal(24), Signal(64)
        for k, (number, square) in enumerate(zip(numbers, squares, strict=True)):
            used = step & (k < beat.count)
            m.d.sync += [number.eq(Mux(used, beat.lanes[k], 0)), square.eq(number * number)]
        m.d.sync += [
            exponents[0].eq(beat.exponent),
            exponents[1].eq(exponents[0]),
            exponents[2].eq(exponents[1]),
            total.eq(sum(squares)),
            scaled.eq(total << (exponents[2] << 1)),
            norm.eq(Mux(clear, 0, norm + scaled)),
        ]
        m.d.comb += [self.status.norm_low.eq(norm[:32]), self.status.norm_high.eq(norm[32:])]


def beat_words(config: PerturbationConfig) -> int:
    """Return the words of a beat of the window: a byte for each number and the exponent."""
    return -(-(config.lanes + 1) // 4)


def run(
    device: Device,
    console: Console,
    config: PerturbationConfig = CONFIG,
    *,
    seed: Annotated[int, typer.Option(help="The seed of the perturbation.")] = 1,
    numbers: Annotated[int, typer.Option(help="The length of the perturbation.")] = 1_000_000,
    window: Annotated[int, typer.Option(help="The first beat whose numbers are sent.")] = 0,
    window_beats: Annotated[int, typer.Option(help="How many beats' numbers are sent.")] = 100,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the job that an earlier host started.")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Write a plot of the histogram to this file (PNG, SVG).")
    ] = None,
    force: Force = False,
) -> None:
    """Run a job and compare what the board sends with the golden model, bit for bit.

    Parameters
    ----------
    device
        The board.
    console
        Where the results are printed.
    config
        That of the board, one of :data:`VARIANTS`.
    seed, numbers
        The perturbation's seed, 1..255, and its length.
    window, window_beats
        The beats whose numbers are sent: the first one, and how many.
    resume
        Whether to continue the job that an earlier host started, with its parameters.
    plot
        A file for a plot of the histogram next to the model's.
    force
        Whether an existing file is overwritten.

    Raises ``AssertionError`` for a difference, and ``ValueError`` for a value out of range.
    """
    if plot:
        require_output(plot, force=force)
    if resume:
        seed, numbers, window, window_beats, origin = (
            device.read(name) for name in ("seed", "numbers", "window", "window_beats", "origin")
        )
        if not device.read("jobs"):
            raise ValueError("there is no job to continue: the board was reset")
    else:
        require_int("seed", seed, CONFIG.seeds.start, CONFIG.seeds.stop - 1)
        require_int("numbers", numbers, 1, 2**CONFIG.count_width - 1)
        beats = -(-numbers // config.lanes)
        require_int("window", window, 0, beats - 1)
        require_int("window_beats", window_beats, 0, beats - window)
        origin = _start(device, console, seed, numbers, window, window_beats)
    words, bins, squares = _expected(seed, numbers, window, window_beats, config)
    expected = np.concatenate([words, bins])
    first = (device.position() - origin) % 2**32
    if first > len(expected):
        raise ValueError("the job's words were already read")
    received: list[int] = []
    for part in device.stream((origin + first) % 2**32, len(expected) - first):
        received += part
    same = np.array(received, np.int64) == expected[first:]
    assert same.all(), f"word {first + int(np.argmin(same))} of the job differs from the model"
    norm = device.read("norm_low") | device.read("norm_high") << 32
    assert norm == squares, f"the norm is {norm}, not {squares} as in the model"
    cycles = device.read("cycles")
    console.print(f"seed {seed}: {numbers:,} numbers in {cycles:,} cycles")
    console.print(f"norm: {np.sqrt(norm) * 2.0**-CONFIG.fraction_bits:.3f}, as in the model")
    raw = max(0, len(words) - first) // beat_words(config)
    console.print(f"{raw} beats of raw numbers are those of the model, bit for bit")
    if first > len(words):
        console.print(f"the first {first - len(words)} bins were read by an earlier host")
        return
    console.print(f"{BINS} bins of the histogram are those of the model")
    if plot:
        _plot(plot, np.array(received[-BINS:]), bins, seed, numbers)
        console.print(f"plot: {plot}", soft_wrap=True)


def _start(device: Device, console: Console, *parameters: int) -> int:
    """End an earlier job, start a job, and return its position in the stream."""
    ended, position = device.stop()
    if ended:
        console.print("an earlier job was ended")
    names = ("seed", "numbers", "window", "window_beats", "origin")
    for name, value in zip(names, (*parameters, position), strict=True):
        device.write(name, value)
    device.write("start", 1)
    return position


def _expected(
    seed: int, numbers: int, window: int, window_beats: int, config: PerturbationConfig = CONFIG
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the words of the window, the histogram, and the sum of the squares, by the model."""
    beats = golden.Perturbation(config).beats(seed=seed, d=numbers)
    lanes, exponents = beats.lanes.astype(np.int64), beats.exponents.astype(np.int64)
    shown = slice(window, window + window_beats)
    unsigned = lanes & 0xFF
    octets = np.zeros((len(unsigned[shown]), 4 * beat_words(config)), np.int64)
    octets[:, : config.lanes] = unsigned[shown]
    octets[:, -1] = exponents[shown]
    words = (octets.reshape(-1, 4) << 8 * np.arange(4)).sum(axis=1)
    places = (unsigned | exponents[:, None] << 8).reshape(-1)[:numbers]
    bins = np.bincount(places, minlength=BINS)
    squares = int((lanes**2 << 2 * exponents[:, None]).reshape(-1)[:numbers].sum())
    return words, bins, squares


def _values(bins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the values that the bins count, in order, and their numbers."""
    place = np.arange(BINS)
    number = ((place & 0xFF) ^ 0x80) - 0x80
    values, inverse = np.unique(number << (place >> 8), return_inverse=True)
    return values * 2.0**-CONFIG.fraction_bits, np.bincount(inverse, bins)


def _plot(path: Path, board: np.ndarray, model: np.ndarray, seed: int, numbers: int) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    edges = np.linspace(-4, 4, 129)
    for axes, bins, title in zip(
        figure.subplots(1, 2, sharey=True), (board, model), ("board", "golden model"), strict=True
    ):
        values, counts = _values(bins)
        axes.hist(values, edges, weights=counts, color="#1f5f99")
        axes.set(title=title, xlabel="value of a number")
    figure.axes[0].set_ylabel("numbers")
    figure.suptitle(f"Perturbation of seed {seed}: {numbers:,} numbers")
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as part:
        figure.savefig(part, format=path.suffix.lstrip(".") or "png", dpi=120)

"""Perturbations of rows of weights, by seed: a generator, and a buffer of rows."""

from dataclasses import replace
from enum import IntEnum

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from seedbed.hw.generators.lutopt import Lutopt, latency
from seedbed.hw.parts.delay_line import delay_line
from seedbed.spec.lutopt import LutoptConfig
from seedbed.spec.rank_one import RankOneConfig
from seedbed.spec.weight_perturb import MASK_LANES, WeightPerturbConfig

__all__ = ["Kind", "PerturbationRows", "command_layout", "rewind"]


class Kind(IntEnum):
    """Commands."""

    SEED = 0
    REWIND = 1
    RESTART = 2


def command_layout(config: WeightPerturbConfig | RankOneConfig) -> data.StructLayout:
    """Return the layout of a command; its fields are on the core."""
    fields = {"kind": 2, "seed": 32, "magnitude": range(config.bits + 1), "zeros": 4}
    return data.StructLayout(fields)


def row_numbers(config: WeightPerturbConfig) -> data.ArrayLayout:
    """Return the layout of a row's numbers, before the range and the sign of a pass."""
    return data.ArrayLayout(data.StructLayout({"magnitude": config.bits, "sign": 1}), config.count)


def _generator(config: WeightPerturbConfig) -> LutoptConfig:
    return replace(config.generator, seeding="word")


def rewind(config: WeightPerturbConfig) -> int:
    """Return the cycles from a ``REWIND`` to the first row that needs the generator."""
    return latency(_generator(config)) + config.buffered + 2


class _Draw:
    """Signals of what the generator draws, which commands and rows share."""

    def __init__(self, config: WeightPerturbConfig):
        self.command = Signal(command_layout(config), reset_less=True)
        self.busy = Signal()
        self.seeding = Signal()
        self.filling = Signal()
        # The row of the buffer that is filled, or stepped over.
        self.skipped = Signal(range(max(config.buffered, 2)))
        self.row = Signal(range(max(config.rows, 2)))


class PerturbationRows(wiring.Component):
    """Outputs the perturbations of a row, ``latency`` cycles after it is requested.

    A generator computes a row's bits in a cycle. To go back, it is seeded again, and steps over the
    buffered rows. The buffer of rows is filled once after each seed; its last entry stays 0, and is
    read for rows that are not buffered.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.WeightPerturbConfig`.

    Members
    -------
    i_command : In(stream of :func:`command_layout`)
    advance : In(1)
        Clock enable of the pipeline.
    empty : In(1)
        No row is in the pipeline: a seed may be taken.
    request, perturb, update, subtract, row : In
        A row; with neither ``perturb`` nor ``update``, its perturbations are 0.
    ready : Out(1)
        The row is taken with ``advance``: the generator is not needed, or not busy.
    magnitudes, signs : Out
        Of each weight; the sign is 1 where the magnitude is to be subtracted.
    """

    latency = 1

    def __init__(self, config: WeightPerturbConfig):
        self.config = config
        super().__init__(
            {
                "i_command": In(stream.Signature(command_layout(config))),
                "advance": In(1),
                "empty": In(1),
                "request": In(1),
                "perturb": In(1),
                "update": In(1),
                "subtract": In(1),
                "row": In(range(max(config.rows, 2))),
                "ready": Out(1),
                "magnitudes": Out(data.ArrayLayout(config.bits, config.count)),
                "signs": Out(config.count),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.generator = generator = Lutopt(_generator(config))
        draw = _Draw(config)
        buffered = Signal()
        m.d.comb += buffered.eq(self.row < config.buffered)
        needed = self.update | (self.perturb & ~buffered)
        drawn = (self.request & needed & self.advance & ~draw.busy) | draw.filling
        m.d.comb += self.ready.eq(~draw.seeding & (~needed | ~draw.busy))
        # A row of the buffer is written one cycle after its step: the last one by an idle machine.
        writing = Const(0)
        if config.buffered:
            writing = delay_line(m, draw.filling, 1, "filling", reset=True)[-1]
            m.d.comb += draw.busy.eq(writing)
        self._commands(m, generator, draw, drawn)
        m.d.comb += draw.row.eq(Mux(draw.filling, draw.skipped, self.row))
        numbers = self._numbers(m, generator.o.payload, draw, drawn)
        if config.buffered:
            numbers = self._buffer(m, numbers, writing, draw.row, self.perturb & buffered)
        self._outputs(m, numbers, draw.command)
        return m

    def _commands(self, m, generator, draw, drawn):
        """Seed the generator, step over the buffered rows, and fill the buffer."""
        given, seed, busy = self.i_command, generator.i_seed, draw.busy
        skip = Signal()
        fill = Signal()
        stepping = Signal()
        m.d.comb += [
            generator.o.ready.eq(drawn | stepping | seed.valid),
            seed.payload.eq(draw.command.seed),
            draw.seeding.eq(busy & fill),
            draw.filling.eq(stepping & fill),
        ]
        with m.FSM():
            with m.State("IDLE"):
                is_seed = given.payload.kind == Kind.SEED
                m.d.comb += given.ready.eq(~is_seed | (self.empty & ~self.request))
                with m.If(given.valid & given.ready):
                    m.d.sync += [
                        fill.eq(is_seed),
                        skip.eq(given.payload.kind != Kind.RESTART),
                    ]
                    with m.If(is_seed):
                        m.d.sync += draw.command.eq(given.payload)
                    m.next = "SEED"
            with m.State("SEED"):
                m.d.comb += [busy.eq(1), seed.valid.eq(1)]
                m.next = "EXPAND"
            with m.State("EXPAND"):
                # The state of row 0 is there one cycle before it may be drawn.
                m.d.comb += busy.eq(1)
                with m.If(generator.o.valid):
                    m.next = "IDLE"
                    if self.config.buffered:
                        with m.If(skip):
                            m.next = "SKIP"
            if self.config.buffered:
                with m.State("SKIP"):
                    last = draw.skipped == self.config.buffered - 1
                    m.d.comb += [busy.eq(1), stepping.eq(1)]
                    m.d.sync += draw.skipped.eq(Mux(last, 0, draw.skipped + 1))
                    with m.If(last):
                        m.next = "IDLE"

    def _numbers(self, m, words, draw, drawn):
        """Return registers of the generator's words, 0 where a lane is not perturbed."""
        config, bits, count = self.config, self.config.bits, self.config.count
        shift, zeros = Signal(range(max(bits, 2))), draw.command.zeros
        update = self.update & ~draw.filling
        m.d.comb += shift.eq(Mux(update, draw.command.magnitude - 1, 0))
        select = self._selects(m, zeros[-1], drawn, draw.row)
        numbers = Signal(row_numbers(config), name="row_numbers", reset_less=True)
        for k, number in enumerate(numbers):
            word = words[k]
            mask = [words[(k + o) % count][b % bits] for b, o in enumerate(MASK_LANES)]
            # Whether the mask is at least n, from the least significant bit up.
            least = Const(1)
            for bit, zero in zip(mask[:0:-1], zeros[:-1], strict=True):
                least = (bit & ~zero) | (least & (bit | ~zero))
            clear = Signal(name=f"clear_{k}")
            kept_if_any, kept_if_all = select[k % config.lanes]
            m.d.comb += clear.eq(
                Mux(
                    kept_if_any,
                    kept_if_all | ~(mask[0] | least),
                    kept_if_all & ~(mask[0] & least),
                )
            )
            with m.If(clear):
                m.d.sync += number.eq(0)
            with m.Elif(self.advance):
                m.d.sync += [
                    number.magnitude.eq(Cat(self._rounded(m, word, shift, k), word[1:bits])),
                    number.sign.eq(word[bits]),
                ]
        return numbers

    def _selects(self, m, zero, drawn, row) -> list:
        """Return, for each lane of a way, how its registers are cleared: two bits.

        Clock enable, whether the lane is used, and the most significant bit of n are four cases:
        unchanged (0), and cleared unless one of the last two bits of the comparison is 1 (1), or
        both are (2), or in any case (3). With two bits, the last step of the comparison is a LUT
        of four inputs, and the flip-flops' reset takes the result.
        """
        config = self.config
        selects = {}
        for used in sorted({*config.used, config.lanes}):
            rows = [r for r, lanes in enumerate(config.used) if lanes >= used]
            there = row >= config.buffered
            for r in rows:
                there = there | (row == r)
            enabled = drawn & there if config.buffered else drawn
            pair = [Signal(name=f"clear_{kind}_{used}") for kind in ("any", "all")]
            for signal, one in zip(pair, (~zero, zero), strict=True):
                signal.attrs["keep"] = True
                m.d.comb += signal.eq(self.advance & (~enabled | one))
            selects[used] = pair
        return [selects[min(u for u in selects if u > lane)] for lane in range(config.lanes)]

    def _rounded(self, m, word, shift, k) -> Signal:
        """Return a magnitude below 2^(shift + 1), shifted right, rounded by what is lost."""
        up = Signal(name=f"up_{k}")
        with m.Switch(shift):
            for count in range(self.config.bits):
                with m.Case(count):
                    lost, low = word[:count], count // 2
                    random = Cat(0, lost[:low]) if count % 2 else lost[:low]
                    m.d.comb += up.eq(word[count] | (lost[low:] > random))
        return up

    def _buffer(self, m, numbers, writing, row, buffered) -> list:
        """Return the registers' numbers or the buffer's: those that are not meant are 0."""
        depth = self.config.buffered + 1
        # Few rows of many bits: LUT memory would take more LUTs than all else that a lane needs.
        attrs = {"no_rw_check": True, "ram_style": "block", "syn_ramstyle": "block_ram"}
        m.submodules.buffer = buffer = Memory(
            shape=numbers.shape(), depth=depth, init=[], attrs=attrs
        )
        write = buffer.write_port()
        read = buffer.read_port()
        m.d.comb += [
            write.en.eq(writing),
            write.addr.eq(delay_line(m, row[: len(write.addr)], 1, "row")[-1]),
            write.data.eq(numbers),
            read.addr.eq(Mux(buffered, row[: len(read.addr)], depth - 1)),
            read.en.eq(self.advance & ~writing),
        ]
        return [
            data.View(one.shape(), Value.cast(one) | Value.cast(other))
            for one, other in zip(numbers, read.data, strict=True)
        ]

    def _outputs(self, m, numbers, command):
        """Apply the range, the rounding to one bit, and the sign of the pass."""
        bits = self.config.bits
        kept = Signal(bits)
        # An update has the rounded bit 0 only.
        m.d.comb += kept.eq(Cat((command.magnitude > k) & ~self.update for k in range(bits)) | 1)
        kept = delay_line(m, kept, 1, "kept", enable=self.advance)[-1]
        subtract = delay_line(m, self.subtract, 1, "subtract", enable=self.advance)[-1]
        for k, number in enumerate(numbers):
            m.d.comb += [
                self.magnitudes[k].eq(number.magnitude & kept),
                self.signs[k].eq(number.sign ^ subtract),
            ]

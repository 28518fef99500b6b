"""Perturbations of rows of weights, by seed: a generator, its marks, and a buffer of rows."""

from enum import IntEnum

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from seedbed.hw.delay_line import delay_line
from seedbed.hw.lutopt import Lutopt, LutoptSeeder
from seedbed.spec.weight_perturb import MASK_LANES, WeightPerturbConfig

__all__ = ["Kind", "PerturbationRows", "command_layout"]


class Kind(IntEnum):
    """Commands."""

    SEED = 0
    REWIND = 1
    RESTART = 2


def command_layout(config: WeightPerturbConfig) -> data.StructLayout:
    """Return the layout of a command, see :class:`~seedbed.hw.weight_perturb.WeightPerturb`."""
    fields = {"kind": 2, "seed": 32, "magnitude": range(config.bits + 1), "zeros": 4}
    return data.StructLayout(fields)


def row_numbers(config: WeightPerturbConfig) -> data.ArrayLayout:
    """Return the layout of a row's numbers."""
    return data.ArrayLayout(data.StructLayout({"magnitude": config.bits, "sign": 1}), config.count)


class PerturbationRows(wiring.Component):
    """Gives the numbers of a row, ``latency`` cycles after it is requested.

    A generator makes a row's bits in a cycle. Its state is saved at two marks, row 0 and the first
    row that is not buffered, in a memory as deep as a weight has bits: the lanes are shift chains
    while it is loaded. The buffer of rows is filled once after each seed.

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
        A row; neither ``perturb`` nor ``update`` gives numbers of 0.
    ready : Out(1)
        The row is taken with ``advance``: the generator is not needed, or not busy.
    magnitudes, signs : Out
        Of each weight; the sign is 1 where the number is to be subtracted.
    """

    latency = 2

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
        m.submodules.generator = generator = Lutopt(config.generator)
        busy, seeding, filling = Signal(), Signal(), Signal()
        filled = Signal(range(max(config.buffered, 2)))
        buffered = self.row < config.buffered
        needed = self.update | (self.perturb & ~buffered)
        draw = self.request & needed & self.advance & ~busy
        m.d.comb += self.ready.eq(~seeding & (~needed | ~busy))
        command = self._commands(m, generator, draw | filling, busy, seeding, filling, filled)
        fields = dict.fromkeys(("fill", "drawn", "buffered", "update", "subtract"), 1)
        mark = Signal(data.StructLayout(fields | {"row": len(self.row)}))
        m.d.comb += [
            mark.fill.eq(filling),
            mark.drawn.eq(draw | filling),
            mark.buffered.eq(self.request & self.perturb & buffered & ~filling),
            mark.update.eq(self.update & ~filling),
            mark.subtract.eq(self.subtract & ~filling),
            mark.row.eq(Mux(filling, filled, self.row)),
        ]
        marks = delay_line(m, mark, 1, "mark", enable=self.advance)
        made = self._numbers(m, generator.o.payload, command, marks)
        self._outputs(m, made, marks)
        return m

    def _commands(self, m, generator, drawn, busy, seeding, filling, filled):
        """Seed the generator, save and restore its state, fill the buffer; return the command."""
        config, given, state = self.config, self.i_command, generator.i_state
        width = config.bits + 1
        command = Signal(given.payload.shape(), reset_less=True)
        m.submodules.seeder = seeder = LutoptSeeder(config.generator)
        m.submodules.marks = marks = Memory(shape=config.count, depth=2 * width, init=[])
        write, read = marks.write_port(), marks.read_port(domain="comb")
        beat, mark = Signal(range(width)), Signal()
        saving = Signal()
        moved = state.valid & state.ready
        m.d.comb += [
            # A beat that meets a load is not stepped: it comes again.
            generator.o.ready.eq(drawn | (busy & ~filling)),
            seeder.i.payload.eq(given.payload.seed),
            read.addr.eq(beat + Mux(mark, width, 0)),
            write.addr.eq(read.addr),
            write.data.eq(Cat(generator.saved)),
            write.en.eq(saving & moved),
            state.payload.bits.eq(Mux(saving, Cat(generator.saved), read.data)),
            state.payload.last.eq(beat == width - 1),
        ]
        with m.FSM():
            with m.State("IDLE"):
                is_seed = given.payload.kind == Kind.SEED
                m.d.comb += [
                    given.ready.eq(~is_seed | (self.empty & ~self.request)),
                    seeder.i.valid.eq(given.valid & given.ready & is_seed),
                ]
                with m.If(given.valid & given.ready):
                    m.d.sync += mark.eq(given.payload.kind == Kind.REWIND)
                    m.next = "LOAD"
                    with m.If(is_seed):
                        m.d.sync += command.eq(given.payload)
                        m.next = "EXPAND"
            self._states(m, busy, seeding, saving, (filling, filled), seeder.o, state, beat, mark)
        return command

    def _states(self, m, busy, seeding, saving, fill, seeds, state, beat, mark):
        """Load the generator's state, save it, fill the buffer of rows."""
        config = self.config
        filling, filled = fill
        moved = state.valid & state.ready
        done = moved & state.payload.last
        with m.State("EXPAND"):
            m.d.comb += [
                busy.eq(1),
                seeding.eq(1),
                state.valid.eq(seeds.valid),
                state.payload.eq(seeds.payload),
                seeds.ready.eq(state.ready),
            ]
            with m.If(done):
                m.next = "SAVE"
        with m.State("SAVE"):
            # The state goes round: after as many beats as a weight has bits, it is as before.
            m.d.comb += [busy.eq(1), seeding.eq(1), saving.eq(1), state.valid.eq(1)]
            with m.If(moved):
                m.d.sync += beat.eq(Mux(done, 0, beat + 1))
            with m.If(done):
                m.d.sync += mark.eq(1)
                m.next = "IDLE"
                with m.If(~mark):
                    m.next = "FILL" if config.buffered else "SAVE"
        with m.State("FILL"):
            last = filled == max(config.buffered - 1, 0)
            m.d.comb += [busy.eq(1), seeding.eq(1), filling.eq(1)]
            m.d.sync += filled.eq(Mux(last, 0, filled + 1))
            with m.If(last):
                m.next = "SAVE"
        with m.State("LOAD"):
            m.d.comb += [busy.eq(1), state.valid.eq(1)]
            with m.If(moved):
                m.d.sync += beat.eq(Mux(done, 0, beat + 1))
            with m.If(done):
                m.next = "IDLE"

    def _numbers(self, m, words, command, marks):
        """Return the numbers made of the generator's words, in the cycle after they were drawn."""
        config, bits, count = self.config, self.config.bits, self.config.count
        # The range as a mask, and the place of its highest bit.
        kept, top = Signal(bits), Signal(range(max(bits, 2)))
        m.d.comb += [
            *(kept[k].eq(command.magnitude > k) for k in range(bits)),
            top.eq(command.magnitude - 1),
        ]
        used = self._used(m, marks[0].row)
        made = Signal(row_numbers(config))
        for k, number in enumerate(made):
            word = words[k]
            mask = Signal(4, name=f"mask_{k}")
            keep = Signal(name=f"keep_{k}", reset_less=True)
            magnitude = Signal(bits, name=f"magnitude_{k}", reset_less=True)
            sign = Signal(name=f"sign_{k}", reset_less=True)
            places = [words[(k + o) % count][b % bits] for b, o in enumerate(MASK_LANES)]
            m.d.comb += mask.eq(Cat(*reversed(places)))
            with m.If(self.advance):
                m.d.sync += [
                    keep.eq((mask >= command.zeros) & (used > k % config.lanes) & marks[0].drawn),
                    magnitude.eq(word[:bits] & kept),
                    sign.eq(word[bits] ^ marks[0].subtract),
                ]
            chosen = Mux(marks[1].update, self._rounded(m, magnitude, top, k), magnitude)
            m.d.comb += [number.magnitude.eq(Mux(keep, chosen, 0)), number.sign.eq(sign & keep)]
        return made

    def _used(self, m, row) -> Signal:
        """Return how many lanes of a row have weights."""
        config = self.config
        used = Signal(range(config.lanes + 1))
        m.d.comb += used.eq(config.lanes)
        if config.buffered:
            with m.If(row < config.buffered):
                m.d.comb += used.eq(Array(config.used)[row])
        return used

    def _rounded(self, m, magnitude, top, k) -> Signal:
        """Return a magnitude below 2^(top + 1), shifted right by top, rounded by what is lost."""
        up = Signal(name=f"up_{k}")
        with m.Switch(top):
            for shift in range(self.config.bits):
                with m.Case(shift):
                    lost, low = magnitude[:shift], shift // 2
                    random = Cat(0, lost[:low]) if shift % 2 else lost[:low]
                    m.d.comb += up.eq(magnitude[shift] | (lost[low:] > random))
        return up

    def _outputs(self, m, made, marks):
        """Give the generator's numbers, or the buffer's: those that are not meant are 0."""
        drawn, shown = Signal(made.shape(), reset_less=True), Signal(made.shape(), reset_less=True)
        with m.If(self.advance):
            m.d.sync += drawn.eq(made)
        if self.config.buffered:
            m.submodules.buffer = buffer = Memory(
                shape=made.shape(),
                depth=self.config.buffered,
                init=[],
                attrs={"no_rw_check": True},
            )
            write, read = buffer.write_port(), buffer.read_port()
            m.d.comb += [
                write.en.eq(marks[1].fill),
                write.addr.eq(marks[1].row),
                write.data.eq(made),
                read.addr.eq(marks[0].row),
                read.en.eq(self.advance),
            ]
            for to, number in zip(shown, read.data, strict=True):
                sign = number.sign ^ marks[1].subtract
                with m.If(self.advance):
                    m.d.sync += Value.cast(to).eq(
                        Mux(marks[1].buffered, Cat(number.magnitude, sign), 0)
                    )
        pairs = zip(drawn, shown, strict=True)
        for k, (one, other) in enumerate(pairs):
            m.d.comb += [
                self.magnitudes[k].eq(one.magnitude | other.magnitude),
                self.signs[k].eq(one.sign | other.sign),
            ]

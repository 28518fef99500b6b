"""The schedule of a training: what holds from an epoch on, as a host gives it."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from seedbed.hw.zeroth_order.zo_steps import phase_layout
from seedbed.spec.zo_trainer import PHASES, ZoTrainerConfig

__all__ = ["ZoSchedule", "entry_layout"]


def entry_layout(config: ZoTrainerConfig) -> data.StructLayout:
    """Return the layout of an entry: ``epoch``, ``phase``, ``last``."""
    return data.StructLayout({"epoch": 16, "phase": phase_layout(config), "last": 1})


class ZoSchedule(wiring.Component):
    """Keeps the entries of a schedule, and says what holds in an epoch.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.zo_trainer.ZoTrainerConfig`.

    Members
    -------
    i : In(stream of :func:`entry_layout`)
        1 to 8 entries in the order of their epochs, the first of epoch 0.
    accepts : In(1)
        Whether entries may come.
    valid : Out(1)
        The last schedule was whole and right: epochs ascend, and ``magnitude`` is not 0.
    start, next : In(1)
        Goes to epoch 0, and on by one; not within 2 cycles of one another.
    phase : Out
        Of the epoch, 2 cycles later.

    Errors: without ``valid``, there is no schedule.
    """

    def __init__(self, config: ZoTrainerConfig):
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(entry_layout(config))),
                "accepts": In(1),
                "valid": Out(1),
                "start": In(1),
                "next": In(1),
                "phase": Out(phase_layout(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        given = self.i
        entry = data.StructLayout({"epoch": 16, "phase": phase_layout(self.config)})
        m.submodules.entries = entries = Memory(shape=entry, depth=PHASES, init=[])
        write, read = entries.write_port(), entries.read_port(domain="comb")
        count, previous, right = Signal(range(PHASES + 1)), Signal(16), Signal(init=1)
        ordered, fits = Signal(), Signal()
        fire = Signal()
        m.d.comb += [
            given.ready.eq(self.accepts),
            fire.eq(given.valid & given.ready),
            ordered.eq(
                (count == 0) & (given.payload.epoch == 0)
                | (count != 0) & (given.payload.epoch > previous)
            ),
            fits.eq((count < PHASES) & self._fits(given.payload.phase)),
            write.en.eq(fire & (count < PHASES)),
            write.addr.eq(count),
            write.data.epoch.eq(given.payload.epoch),
            write.data.phase.eq(given.payload.phase),
        ]
        entered = Signal(range(PHASES + 1))
        with m.If(fire):
            m.d.sync += [
                self.valid.eq(0),
                previous.eq(given.payload.epoch),
                right.eq(right & ordered & fits),
                count.eq(count + (count < PHASES)),
            ]
            with m.If(given.payload.last):
                m.d.sync += [
                    self.valid.eq(right & ordered & fits),
                    entered.eq(count + 1),
                    count.eq(0),
                    right.eq(1),
                ]
        self._walk(m, read, entered)
        return m

    def _fits(self, phase):
        """Return whether the numbers of an entry are in their ranges."""
        magnitude = phase.magnitude
        fits = (magnitude != 0) & (magnitude <= self.config.magnitude_bits)
        return fits & (phase.update_bits != 0) if self.config.tail else fits

    def _walk(self, m, read, entered):
        """Take the next entry in its epoch."""
        epoch, place = Signal(16), Signal(range(PHASES + 1))
        m.d.comb += read.addr.eq(place)
        with m.If((place != entered) & (read.data.epoch == epoch)):
            m.d.sync += [self.phase.eq(read.data.phase), place.eq(place + 1)]
        with m.If(self.next):
            m.d.sync += epoch.eq(epoch + 1)
        with m.If(self.start):
            m.d.sync += [epoch.eq(0), place.eq(0)]

"""The level of a step: its loss difference relative to the average of those before it."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from seedbed.spec.step_levels import AVERAGE_BITS, LEVELS

__all__ = ["StepLevels"]


class StepLevels(wiring.Component):
    """Compares magnitudes with their average, by shifts and additions.

    With d a magnitude and m the average, the level is 0, none, where 4 d < m; 1, half a step, where
    4 d < 3 m; 2, one step, where 2 d < 3 m; and else 3, two steps. The average then moves by 2^-6
    of d - m. The first magnitude of a job is one step, and the average's beginning.

    Parameters
    ----------
    width
        Bits of a magnitude.

    Members
    -------
    begin : In(1)
        The next magnitude is the first one of a job.
    size : In(width)
        A magnitude.
    take : In(1)
        The average moves by ``size``.
    level : Out
        Of ``size``, in the same cycle: index of :data:`~seedbed.spec.step_levels.LEVELS`.
    """

    def __init__(self, width: int):
        self.width = width
        super().__init__(
            {"begin": In(1), "size": In(width), "take": In(1), "level": Out(range(len(LEVELS)))}
        )

    def elaborate(self, platform):
        m = Module()
        size = self.size
        average = Signal(self.width + AVERAGE_BITS, reset_less=True)
        first = Signal(init=1)
        mean = average[AVERAGE_BITS:]
        three = Signal(self.width + 2)
        m.d.comb += [three.eq((mean << 1) + mean), self.level.eq(LEVELS.index("two"))]
        with m.If(first | (size << 1 < three)):
            m.d.comb += self.level.eq(LEVELS.index("one"))
        with m.If(~first & (size << 2 < three)):
            m.d.comb += self.level.eq(LEVELS.index("half"))
        with m.If(~first & (size << 2 < mean)):
            m.d.comb += self.level.eq(LEVELS.index("none"))
        with m.If(self.take):
            m.d.sync += [average.eq(average + size - mean), first.eq(0)]
            with m.If(first):
                m.d.sync += average.eq(size << AVERAGE_BITS)
        with m.If(self.begin):
            m.d.sync += first.eq(1)
        return m

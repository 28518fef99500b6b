"""Counts the bursts that a memory has not finished, and the cycles in which it is silent."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from seedbed.spec import ForwardCacheConfig

__all__ = ["BurstMonitor"]


class BurstMonitor(wiring.Component):
    """Counts outstanding bursts, and detects beats and responses that belong to none.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.ForwardCacheConfig`.

    Members
    -------
    write_command, read_command : In(1)
        The command of a burst is transferred.
    response : In(1)
        The answer to a burst that was written comes.
    read, read_last : In(1)
        A beat that is read is transferred; it is its burst's last one.
    clear_writes, clear_reads : In(1)
        No burst of this kind is waited for any longer.
    listen, active : In(1)
        Cycles of silence are counted; one of the memory's ports is active, or is held up.
    writes, reads : Out
        Outstanding bursts.
    answered : Out(1)
        The response belongs to an outstanding burst.
    stray : Out(1)
        A beat or a response comes that belongs to none.
    silent, timed_out : Out(1)
        There were ``drain_cycles``, or ``timeout_cycles``, of silence.

    Counts change a cycle after a transfer; all other outputs have no latency.
    """

    def __init__(self, config: ForwardCacheConfig):
        self.config = config
        writes = config.most_bursts(config.code_beats) + config.most_bursts(config.peak_beats)
        inputs = (
            "write_command", "read_command", "response", "read", "read_last", "clear_writes",
            "clear_reads", "listen", "active",
        )  # fmt: skip
        super().__init__(
            {name: In(1) for name in inputs}
            | {
                "writes": Out(range(writes + 1)),
                "reads": Out(range(config.most_bursts(config.beats) + 1)),
                "answered": Out(1),
                "stray": Out(1),
                "silent": Out(1),
                "timed_out": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        silence = Signal(range(config.timeout_cycles + 1))
        ended = self.read & self.read_last & (self.reads != 0)
        m.d.comb += [
            self.answered.eq(self.response & (self.writes != 0)),
            self.stray.eq((self.response & (self.writes == 0)) | (self.read & (self.reads == 0))),
            self.silent.eq(silence >= config.drain_cycles),
            self.timed_out.eq(silence == config.timeout_cycles),
        ]
        m.d.sync += [
            self.writes.eq(self.writes + self.write_command - self.answered),
            self.reads.eq(self.reads + self.read_command - ended),
        ]
        with m.If(self.clear_writes):
            m.d.sync += self.writes.eq(0)
        with m.If(self.clear_reads):
            m.d.sync += self.reads.eq(0)
        with m.If(self.active | ~self.listen):
            m.d.sync += silence.eq(0)
        with m.Elif(~self.timed_out):
            m.d.sync += silence.eq(silence + 1)
        return m

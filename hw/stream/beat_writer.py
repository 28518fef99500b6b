"""Writes beats to external memory, each as a burst of its own."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.memory.memory_port import command_layout, response_layout, write_layout
from seedbed.hw.memory.silence import silence
from seedbed.spec import StreamEngineConfig

__all__ = ["BeatWriter", "beat_layout"]

#: Beats that the memory has not answered at most.
OUTSTANDING = 15


def beat_layout(config: StreamEngineConfig) -> data.StructLayout:
    """Return the layout of a beat and its address."""
    return data.StructLayout({"address": config.address_bits, "data": config.beat_bits})


class BeatWriter(wiring.Component):
    """Writes beats, and waits for the answers of the memory.

    After an error of the memory, beats are taken and not written: who gives them needs no way out.
    After a reset or an error, nothing is written until the memory is silent.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`.

    Members
    -------
    i : In(stream)
        A beat and its address.
    first, end : In
        Beats are written from the first address to that before the end; another one is an error.
    clear : In(1)
        A pulse, while ``idle``: errors are forgotten.
    reads : In(stream)
        Commands of who reads from the same memory.
    o_command, o_write, i_response : Out(stream), Out(stream), In(stream)
        The memory.
    idle : Out(1)
        All beats that were taken are in memory, or there was an error.
    failed : Out(1)
        There was an error since ``clear``: an answer with an error, one that no beat belongs to, no
        answer for ``timeout_cycles``, or a beat elsewhere.

    Latency: 1 cycle from a beat to its command. Throughput: a beat every 2 cycles, while fewer than
    15 are not answered.
    """

    def __init__(self, config: StreamEngineConfig):
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(beat_layout(config))),
                "first": In(config.address_bits),
                "end": In(config.address_bits + 1),
                "clear": In(1),
                "reads": In(stream.Signature(command_layout(config.address_bits))),
                "o_command": Out(stream.Signature(command_layout(config.address_bits))),
                "o_write": Out(stream.Signature(write_layout(config.beat_bits))),
                "i_response": In(stream.Signature(response_layout())),
                "idle": Out(1),
                "failed": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        write, response = self.o_write, self.i_response
        command = self._commands(m)
        dirty = Signal(init=1)
        outstanding = Signal(range(OUTSTANDING + 1))
        sending = command.valid | write.valid
        moves = [port.valid & port.ready for port in (command, write)]
        waits = sending | dirty | (outstanding != 0) | self.i.valid
        drained = Signal()
        active = Cat(moves).any() | response.valid | ~waits | drained
        silent, timed_out = silence(
            m, active, drain=config.drain_cycles, timeout=config.timeout_cycles
        )
        address, outside = self.i.payload.address, Signal()
        takes = Signal()
        fault = Signal()
        m.d.comb += [
            outside.eq((address < self.first) | (address >= self.end)),
            takes.eq(self.i.valid & ~outside & ~self.failed & ~dirty & ~sending),
            self.i.ready.eq(self.failed | (takes & (outstanding != OUTSTANDING))),
            response.ready.eq(1),
            command.payload.write.eq(1),
            write.payload.last.eq(1),
            self.idle.eq(self.failed | (~sending & (outstanding == 0))),
            fault.eq(
                ~self.failed
                & (
                    (~dirty & response.valid & (response.payload.error | (outstanding == 0)))
                    | (self.i.valid & outside)
                    | (timed_out & ((~dirty & (outstanding != 0)) | self.i.valid))
                )
            ),
            drained.eq(dirty & ~sending & silent & ((outstanding == 0) | timed_out)),
        ]
        for port in (command, write):
            with m.If(port.ready):
                m.d.sync += port.valid.eq(0)
        fire = takes & self.i.ready
        with m.If(fire):
            m.d.sync += [
                command.valid.eq(1),
                write.valid.eq(1),
                command.payload.address.eq(address),
                write.payload.data.eq(self.i.payload.data),
            ]
        m.d.sync += outstanding.eq(outstanding + fire - (response.valid & (outstanding != 0)))
        with m.If(drained):
            m.d.sync += [dirty.eq(0), outstanding.eq(0)]
        with m.If(self.clear):
            m.d.sync += self.failed.eq(0)
        with m.If(fault):
            m.d.sync += [dirty.eq(1), self.failed.eq(1)]
        return m

    def _commands(self, m):
        """Give commands of both, and return those of writes; an offer stays until it is taken."""
        reads, out = self.reads, self.o_command
        writes = stream.Signature(reads.payload.shape()).create(path=("writes",))
        held = Signal()
        chosen = Signal()
        m.d.comb += [
            chosen.eq(writes.valid & (held | ~reads.valid)),
            out.valid.eq(reads.valid | writes.valid),
            out.payload.eq(Mux(chosen, Value.cast(writes.payload), Value.cast(reads.payload))),
            reads.ready.eq(out.ready & ~chosen),
            writes.ready.eq(out.ready & chosen),
        ]
        m.d.sync += held.eq(chosen & ~out.ready)
        return writes

"""Controller of an SDR SDRAM: a port that transfers bursts of beats, refresh, and a self-test."""

from amaranth.hdl import Const, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect

from seedbed.hw.memory.memory_port import memory_members
from seedbed.hw.memory.sdram_accesses import SdramAccesses
from seedbed.hw.memory.sdram_commands import SdramCommands
from seedbed.hw.memory.sdram_data import SdramData
from seedbed.hw.memory.sdram_test import SdramTest, status_layout
from seedbed.spec import SdramConfig

__all__ = ["Sdram", "pin_signature"]


def pin_signature(config: SdramConfig) -> wiring.Signature:
    """Return the signature of the pins; 1 is active, also where a pin of the chip is low then."""
    chip = config.figures
    return wiring.Signature(
        {
            "cke": Out(1), "cs": Out(1), "ras": Out(1), "cas": Out(1), "we": Out(1),
            "ba": Out(chip.bank_bits), "a": Out(chip.row_bits), "dqm": Out(2),
            "dq_o": Out(16), "dq_oe": Out(1), "dq_i": In(16),
        }
    )  # fmt: skip


class Sdram(wiring.Component):
    """Serves bursts in their order; tests the memory first.

    A burst may cross rows and banks. A row is opened while the words before it are transferred.
    ``config.refresh_group`` refreshes that are due interrupt the bursts; where there is no
    command, the first one does.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SdramConfig`.

    Members
    -------
    i_command : In(stream of struct)
        A burst: ``address`` (of its first beat, in beats), ``write``, ``length`` (beats - 1). It
        may cross the end of the memory, and continues at its start. None is accepted before the
        end of the self-test.
    i_write : In(stream of struct)
        ``data`` (beat_bits bits) and ``last`` (of a burst), in the order of the commands, before
        or after their transfer.
    o_response : Out(stream of struct)
        ``error``, once for each burst that was written.
    o_read : Out(stream of struct)
        ``data``, ``error`` and ``last`` (of a burst), in the order of the commands.
    status : Out(struct)
        ``done``: the self-test has ended. ``failed``, with ``lines``, the bits of a beat's
        address at which something else was read, and ``bits``, the data pins with errors at
        address 0.
    pins : Out(signature)
        :func:`pin_signature`: registers, for pads with registers of their own.

    Errors: the response to a burst has ``error`` if a ``last`` of its beats was missing or too
    early; its beats were written nonetheless. Of a memory that failed its test, every answer has.

    Latency: ``latency`` cycles from a read of an open row to its first beat. Throughput: a word a
    cycle, but for refreshes and where consecutive bursts need other rows of one bank.
    """

    def __init__(self, config: SdramConfig):
        self.config = config
        super().__init__(
            memory_members(config.address_bits, config.beat_bits)
            | {"status": Out(status_layout(config)), "pins": Out(pin_signature(config))}
        )

    @property
    def latency(self) -> int:
        """Cycles from a read of an open row to its first beat."""
        config = self.config
        return 5 + config.latency + config.pad_cycles + config.words

    def elaborate(self, platform):
        m = Module()
        m.submodules.test = test = SdramTest(self.config)
        m.submodules.accesses = accesses = SdramAccesses(self.config)
        m.submodules.commands = commands = SdramCommands(self.config)
        m.submodules.data = words = SdramData(self.config)
        for name, member in memory_members(self.config.address_bits, self.config.beat_bits).items():
            outer, inner = wiring.flipped(getattr(self, name)), getattr(test, name)
            connect(m, *((outer, inner) if member.flow is In else (inner, outer)))
        connect(m, test.o_command, accesses.i)
        connect(m, accesses.o, commands.i)
        connect(m, test.o_write, words.i_write)
        connect(m, words.o_response, test.i_response)
        connect(m, words.o_read, test.i_read)
        pins = self.pins
        m.d.comb += [
            commands.may.eq(words.may),
            words.access.eq(accesses.o.payload),
            words.pushed.eq(commands.pushed),
            words.read.eq(commands.read),
            words.write.eq(commands.write),
            words.first.eq(commands.first),
            words.last.eq(commands.last),
            test.configured.eq(commands.configured),
            test.refreshed.eq(commands.refreshed),
            self.status.eq(test.status),
            pins.cke.eq(1),
            pins.cs.eq(1),
            pins.dqm.eq(Const(0)),
            pins.dq_o.eq(words.dq_o),
            pins.dq_oe.eq(words.dq_oe),
            words.dq_i.eq(pins.dq_i),
        ]
        m.d.sync += [
            getattr(pins, name).eq(commands.o[name]) for name in commands.o.shape().members
        ]
        return m

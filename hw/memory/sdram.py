"""Controller of an SDR SDRAM: a port that transfers bursts of beats, refresh, and a self-test."""

from amaranth.hdl import Const, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect

from seedbed.hw.memory.memory_port import memory_members
from seedbed.hw.memory.sdram_accesses import SdramAccesses
from seedbed.hw.memory.sdram_commands import SdramCommands
from seedbed.hw.memory.sdram_data import SdramData
from seedbed.hw.memory.sdram_test import SdramTest, status_layout
from seedbed.hw.parts.skid_buffer import SkidBuffer
from seedbed.spec import SdramConfig, SkidBufferConfig

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
        command of a burst. It may cross the end of the memory, and continues at its start. None is
        accepted before the end of the self-test.
        address : address of the first beat, in beats
        write : 1: write; 0: read
        length : beats of the burst - 1
    i_write : In(stream of struct)
        beat to write. It is in the order of the commands, before or after their transfer.
        data (beat_bits bits) : beat to write: words of 16 bits, first lowest
        last : last beat of the burst that is written
    o_response : Out(stream of struct)
        response to a burst that was written. Each burst has one.
        error : 1: a last was missing or too early, or the self-test failed
    o_read : Out(stream of struct)
        beat that is read. It is in the order of the commands.
        data (beat_bits bits) : beat that is read: words of 16 bits, first lowest
        error : 1: the self-test failed
        last : last beat of the burst that is read
    status : Out(struct)
        result of the self-test
        done : 1: the self-test has ended
        failed : 1: the self-test failed
        lines : bits of a beat's address at which the self-test failed
        bits : data pins at which the self-test failed. They are wrong at address 0.
    pins : Out(signature)
        pins of the chip. They are registers, for pads with registers of their own. See
        :func:`pin_signature`.
        cke : clock enable, active high
        cs : chip select; 1 is active, the chip's pin is inverted
        ras : row address strobe; 1 is active, the chip's pin is inverted
        cas : column address strobe; 1 is active, the chip's pin is inverted
        we : write enable; 1 is active, the chip's pin is inverted
        ba : bank address
        a : row and column address
        dqm : data mask, always 0
        dq_o : data to the chip
        dq_oe : output enable of the data pins
        dq_i : data from the chip

    Errors: the response to a burst has ``error`` if a ``last`` of its beats was missing or too
    early; its beats were written nonetheless. Of a memory that failed its test, every answer has.

    Latency: ``latency`` cycles from a read of an open row to its first beat.
    Throughput: 1 word of 16 bits per cycle, except for refreshes and rows of one bank. Consecutive
    bursts that need other rows of one bank wait.
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
        return 9 + config.latency + config.pad_cycles + config.words

    def elaborate(self, platform):
        m = Module()
        m.submodules.test = test = SdramTest(self.config)
        m.submodules.accesses = accesses = SdramAccesses(self.config)
        m.submodules.commands = commands = SdramCommands(self.config)
        m.submodules.data = words = SdramData(self.config)
        for name, member in memory_members(self.config.address_bits, self.config.beat_bits).items():
            outer, inner = wiring.flipped(getattr(self, name)), getattr(test, name)
            connect(m, *((outer, inner) if member.flow is In else (inner, outer)))
        # It cuts the path of ready.
        command = test.o_command.payload.shape()
        m.submodules.slice = piece = SkidBuffer(SkidBufferConfig(width=command.size), command)
        connect(m, test.o_command, piece.i)
        connect(m, piece.o, accesses.i)
        connect(m, accesses.o, commands.i)
        connect(m, test.o_write, words.i_write)
        connect(m, words.o_response, test.i_response)
        connect(m, words.o_read, test.i_read)
        pins = self.pins
        m.d.comb += [
            commands.available.eq(words.available),
            words.claimed.eq(commands.claimed),
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

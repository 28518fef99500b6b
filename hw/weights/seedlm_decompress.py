"""Decompressor of SeedLM's blocks: one lane per block, and the pipeline's control."""

from amaranth.hdl import Cat, Module, Mux, ResetSignal, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.beat_fifo import BeatFifo
from seedbed.hw.parts.delay_line import delayed
from seedbed.hw.parts.replicate import replicate
from seedbed.hw.weights import seedlm_lane
from seedbed.hw.weights.seedlm_lane import SeedlmLane
from seedbed.spec import SeedlmDecompressConfig

__all__ = ["SeedlmDecompress", "beat_layout", "blocks_layout", "latency"]

#: Registers from the lanes to the FIFOs, and from the FIFOs' level to the lanes' enables.
TO_FIFO = 2
TO_ENABLE = 4
#: Lanes per copy of a register that all lanes read.
LANES_PER_COPY = 4
#: Beats that a FIFO holds, and the level up to which the lanes are enabled.
FIFO_DEPTH = 16
THRESHOLD = FIFO_DEPTH - TO_FIFO - TO_ENABLE - 1


def blocks_layout(config: SeedlmDecompressConfig) -> data.StructLayout:
    """Return the layout of a beat of packed blocks, see :class:`SeedlmDecompress`."""
    blocks = data.ArrayLayout(config.block_bits, config.blocks)
    return data.StructLayout({"blocks": blocks, "last": 1})


def beat_layout(config: SeedlmDecompressConfig) -> data.StructLayout:
    """Return the layout of a beat of weights, see :class:`SeedlmDecompress`."""
    return data.StructLayout(
        {
            "weights": data.ArrayLayout(signed(config.sum_width), config.lanes),
            "exponents": data.ArrayLayout(signed(4), config.blocks),
            "last": 1,
        }
    )


def latency(config: SeedlmDecompressConfig) -> int:
    """Return :attr:`SeedlmDecompress.latency`."""
    return seedlm_lane.latency(config) + (TO_FIFO + 2 if config.queue else 0)


class SeedlmDecompress(wiring.Component):
    """Gives the weights of packed blocks as exact integers, C per block, all in one beat.

    Weight c of a block of seed s, exponent e and coefficients q_0 .. q_(P - 1) is::

        S_c = sum over p of q_p (floor(V_cp / 2^(K - B)) - 2^(B - 1))
        w_c = S_c 2^e / (2^(B - 1) - 1)

    V is filled row by row with the words that follow s in the LFSR. They are computed without a
    clocked LFSR and without multipliers: see :class:`~seedbed.hw.weights.seedlm_lane.SeedlmLane`.
    All pipeline stages have a common enable: the last stage is empty or its beat is transferred.
    With a ``queue``, the enable follows the FIFO's level some cycles later. Where ready is always 1
    and there is no queue, synthesis removes the enable.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SeedlmDecompressConfig`.

    Members
    -------
    i : In(stream of struct)
        compressed blocks
        blocks (array of unsigned(K + 4 + 4 P)) : from bit 0: seed, exponent, coefficients. A seed
            of 0 is allowed: all of its words are 0.
        last : last flag, returned with the weights
    o : Out(stream of struct)
        decompressed weights
        weights (array of signed(sum_width)) : integers, block by block; weight = integer x
            2^exponent. C of the first block, then C of the second, and so on.
        exponents (array of signed(4)) : one exponent per block
        last : last flag of the input beat

    Latency: ``latency`` cycles. It is 16 by default.
    Throughput: 1 beat per cycle.
    Source: SeedLM (arXiv:2410.10714), sections 3.2 and 4.2.
    """

    interval = 1

    def __init__(self, config: SeedlmDecompressConfig):
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(blocks_layout(config))),
                "o": Out(stream.Signature(beat_layout(config))),
            }
        )

    @property
    def latency(self) -> int:
        """Cycles from packed blocks to their weights."""
        return latency(self.config)

    def elaborate(self, platform):
        m = Module()
        lanes = [SeedlmLane(self.config) for _ in range(self.config.blocks)]
        length = lanes[0].latency
        valid = Signal(length)
        last = Signal(length)
        enable = Signal(reset_less=True)
        m.d.comb += self.i.ready.eq(enable)
        with m.If(enable):
            m.d.sync += [
                valid.eq(Cat(self.i.valid, valid)),
                last.eq(Cat(self.i.payload.last, last)),
            ]
        for k, lane in enumerate(lanes):
            m.submodules[f"lane_{k}"] = lane
            m.d.comb += lane.block.eq(self.i.payload.blocks[k])
        if self.config.queue:
            self._connect_fifos(m, lanes, enable, valid, last)
            return m
        m.d.comb += [
            enable.eq(~valid[-1] | self.o.ready),
            self.o.valid.eq(valid[-1]),
            self.o.payload.last.eq(last[-1]),
        ]
        for k, lane in enumerate(lanes):
            m.d.comb += [
                lane.enable.eq(enable.replicate(len(lane.enable))),
                self._block(k).eq(Cat(lane.weights, lane.exponent)),
            ]
        return m

    def _block(self, k):
        """Return the weights and the exponent of block ``k`` at the output."""
        beat, size = self.o.payload, self.config.block
        return Cat(*(beat.weights[size * k + c] for c in range(size)), beat.exponents[k])

    def _connect_fifos(self, m, lanes, enable, valid, last):
        """Connect the pipeline to FIFOs in lockstep, one per lane and one for ``last``.

        ``ready`` is the only net that reaches all lanes within one cycle, and ends at registers. A
        reset is delayed as much as the last beat before it; the FIFO of ``last``, which drives
        ``valid``, is kept in reset meanwhile.
        """
        widths = [*(len(self._block(k)) for k in range(len(lanes))), 1]
        fifos = [BeatFifo(width, FIFO_DEPTH) for width in widths]
        last_fifo = fifos[-1]
        has_room = self._fan_out(m, last_fifo.level <= THRESHOLD, "room")
        # Of the next cycle: whether the pipeline is enabled and has a beat in its last stage.
        write = has_room[-1] & Mux(enable, valid[-2], valid[-1])
        writes = self._fan_out(m, write, "write")
        reset = ResetSignal(allow_reset_less=True)
        resets = self._fan_out(m, reset, "reset")
        tail = Signal(3, reset_less=True)
        m.d.sync += [enable.eq(has_room[-1]), tail.eq(Cat(reset, tail))]
        resets[-1] = reset | tail.any()
        for k, fifo in enumerate(fifos):
            m.submodules[f"fifo_{k}"] = fifo
            m.d.comb += [
                fifo.reset.eq(resets[k]),
                fifo.write.eq(writes[k]),
                fifo.ready.eq(self.o.ready),
            ]
        for k, lane in enumerate(lanes):
            enables = replicate(m, has_room[k], len(lane.enable), f"enable_{k}", fanout=1)
            m.d.comb += [
                lane.enable.eq(Cat(enables)),
                fifos[k].data.eq(
                    delayed(m, Cat(lane.weights, lane.exponent), TO_FIFO, f"to_fifo_{k}")
                ),
                self._block(k).eq(fifos[k].o),
            ]
        m.d.comb += [
            last_fifo.data.eq(delayed(m, last[-1], TO_FIFO, "to_fifo")),
            self.o.valid.eq(last_fifo.valid),
            self.o.payload.last.eq(last_fifo.o),
        ]

    def _fan_out(self, m, value, name):
        """Return a fan-out tree of ``value``: registers of three cycles, the last one per lane.

        One more is for the FIFO of ``last``. The first register is one, the second is one for every
        ``LANES_PER_COPY`` lanes.
        """
        count = self.config.blocks + 1
        (one,) = replicate(m, value, 1, name)
        few = replicate(m, one, count, f"{name}_few", fanout=LANES_PER_COPY)
        return [replicate(m, part, 1, f"{name}_{k}")[0] for k, part in enumerate(few)]

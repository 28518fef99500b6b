"""Decompressor of SeedLM's blocks: a lane a block, and what moves them."""

from amaranth.hdl import Cat, Module, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from seedbed.hw.seedlm_lane import SeedlmLane
from seedbed.spec import SeedlmDecompressConfig

__all__ = ["SeedlmDecompress", "beat_layout", "blocks_layout"]

#: Registers on the way from the lanes to the queues, and from their level back to the enables.
WAY = 2
BACK = 3
#: Beats that a queue holds, and with how many in it the lanes still move.
QUEUE = 16
ROOM = QUEUE - WAY - BACK - 1


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


class SeedlmDecompress(wiring.Component):
    """Gives the weights of packed blocks as exact integers, C a block, all in one beat.

    Weight c of a block of seed s, exponent e and coefficients q_0 .. q_(P - 1) is::

        S_c = sum over p of q_p (floor(V_cp / 2^(K - B)) - 2^(B - 1))
        w_c = S_c 2^e / (2^(B - 1) - 1)

    V is filled row by row with the words that follow s in the LFSR. Neither clocked registers nor
    multipliers are behind that: see :class:`~seedbed.hw.seedlm_lane.SeedlmLane`. A pipeline moves
    as a whole: whenever its last stage is free or taken; with a ``queue`` behind it, some cycles
    after that has room. Where ready is always 1 and there is no queue, nothing is left of that.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SeedlmDecompressConfig`.

    Members
    -------
    i : In(stream of struct)
        ``blocks`` (array of unsigned(K + 4 + 4 P): the seed in the low bits, the exponent, then the
        coefficients), ``last``. A seed of 0 is no error: all of its words are 0.
    o : Out(stream of struct)
        ``weights`` (array of signed(sum_width): C of the first block, C of the second, ..),
        ``exponents`` (array of signed(4), one a block), and ``last`` as given.

    Latency: ``latency`` cycles, 16 by default. Throughput: a beat every cycle.
    Source: SeedLM (arXiv:2410.10714), sections 3.2 and 4.2.
    """

    interval = 1

    def __init__(self, config: SeedlmDecompressConfig):
        self.config = config
        self._lanes = [SeedlmLane(config) for _ in range(config.blocks)]
        super().__init__(
            {
                "i": In(stream.Signature(blocks_layout(config))),
                "o": Out(stream.Signature(beat_layout(config))),
            }
        )

    @property
    def latency(self) -> int:
        """Cycles from packed blocks to their weights."""
        return self._lanes[0].latency + (WAY + 1 if self.config.queue else 0)

    def elaborate(self, platform):
        m = Module()
        length = self._lanes[0].latency
        valid, last = Signal(length), Signal(length)
        moves = Signal(init=1)
        m.d.comb += self.i.ready.eq(moves)
        with m.If(moves):
            m.d.sync += [
                valid.eq(Cat(self.i.valid, valid)),
                last.eq(Cat(self.i.payload.last, last)),
            ]
        for k, lane in enumerate(self._lanes):
            m.submodules[f"lane_{k}"] = lane
            m.d.comb += lane.block.eq(self.i.payload.blocks[k])
        if self.config.queue:
            self._queue(m, moves, valid[-1], last[-1])
            return m
        m.d.comb += [
            moves.eq(~valid[-1] | self.o.ready),
            self.o.valid.eq(valid[-1]),
            self.o.payload.last.eq(last[-1]),
        ]
        for k, lane in enumerate(self._lanes):
            m.d.comb += [
                lane.moves.eq(moves.replicate(len(lane.moves))),
                self._block(k).eq(Cat(lane.weights, lane.exponent)),
            ]
        return m

    def _block(self, k):
        """Return the weights and the exponent of block ``k`` at the output."""
        beat, size = self.o.payload, self.config.block
        return Cat(*(beat.weights[size * k + c] for c in range(size)), beat.exponents[k])

    def _queue(self, m, moves, valid, last):
        """Put what leaves the pipeline into queues, one a lane, that all do the same.

        Nothing that lanes far from each other share is without a register: it has a copy for each.
        """
        room = Signal(init=1)
        comes = Signal()
        m.submodules.queue = queue = SyncFIFO(width=1, depth=QUEUE)
        m.d.sync += [
            room.eq(queue.level <= ROOM),
            comes.eq(valid & moves),
            moves.eq(self._copy(m, "near", room, init=1)),
        ]
        self._fill(m, queue, last, comes)
        m.d.comb += [
            self.o.valid.eq(queue.r_rdy),
            self.o.payload.last.eq(queue.r_data),
            queue.r_en.eq(self.o.ready),
        ]
        for k, lane in enumerate(self._lanes):
            m.submodules[f"queue_{k}"] = queue = SyncFIFO(width=len(self._block(k)), depth=QUEUE)
            near = self._copy(m, f"near_{k}", room, init=1)
            groups = range(len(lane.moves))
            enables = [self._copy(m, f"moves_{k}_{g}", near, init=1) for g in groups]
            m.d.comb += [
                lane.moves.eq(Cat(enables)),
                self._block(k).eq(queue.r_data),
                queue.r_en.eq(self.o.ready),
            ]
            self._fill(m, queue, Cat(lane.weights, lane.exponent), comes, f"_{k}")

    def _copy(self, m, name, value, *, init=0):
        """Return a register of ``value`` that stays one of its own."""
        copy = Signal(init=init, name=name, attrs={"keep": True})
        m.d.sync += copy.eq(value)
        return copy

    def _fill(self, m, queue, value, comes, name=""):
        """Bring ``value`` to a queue, with registers on the way."""
        for n in range(WAY):
            before, value = value, Signal(queue.w_data.shape(), name=f"way{n}{name}")
            m.d.sync += value.eq(before)
        m.d.comb += [
            queue.w_data.eq(value),
            queue.w_en.eq(self._copy(m, f"written{name}", comes)),
        ]

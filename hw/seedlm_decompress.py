"""Decompressor of SeedLM's blocks: a lane a block, and what moves them."""

from amaranth.hdl import Cat, Module, Mux, ResetSignal, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw import seedlm_lane
from seedbed.hw.beat_queue import BeatQueue
from seedbed.hw.delay_line import delayed
from seedbed.hw.replicate import replicate
from seedbed.hw.seedlm_lane import SeedlmLane
from seedbed.spec import SeedlmDecompressConfig

__all__ = ["SeedlmDecompress", "beat_layout", "blocks_layout", "latency"]

#: Registers on the way from the lanes to the queues, and from their level back to the enables.
WAY = 2
BACK = 4
#: Lanes that share a register of what goes to all of them.
FEW = 4
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


def latency(config: SeedlmDecompressConfig) -> int:
    """Return :attr:`SeedlmDecompress.latency`."""
    return seedlm_lane.latency(config) + (WAY + 2 if config.queue else 0)


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
        moves = Signal(reset_less=True)
        m.d.comb += self.i.ready.eq(moves)
        with m.If(moves):
            m.d.sync += [
                valid.eq(Cat(self.i.valid, valid)),
                last.eq(Cat(self.i.payload.last, last)),
            ]
        for k, lane in enumerate(lanes):
            m.submodules[f"lane_{k}"] = lane
            m.d.comb += lane.block.eq(self.i.payload.blocks[k])
        if self.config.queue:
            self._queue(m, lanes, moves, valid, last)
            return m
        m.d.comb += [
            moves.eq(~valid[-1] | self.o.ready),
            self.o.valid.eq(valid[-1]),
            self.o.payload.last.eq(last[-1]),
        ]
        for k, lane in enumerate(lanes):
            m.d.comb += [
                lane.moves.eq(moves.replicate(len(lane.moves))),
                self._block(k).eq(Cat(lane.weights, lane.exponent)),
            ]
        return m

    def _block(self, k):
        """Return the weights and the exponent of block ``k`` at the output."""
        beat, size = self.o.payload, self.config.block
        return Cat(*(beat.weights[size * k + c] for c in range(size)), beat.exponents[k])

    def _queue(self, m, lanes, moves, valid, last):
        """Put what leaves the pipeline into queues, one a lane and one for ``last``, that are one.

        Nothing goes to all lanes in a cycle but ready, to a register. A reset takes as long to come
        as the last beat before it; ``last``'s queue, whose ``valid`` is shown, is kept in reset
        meanwhile.
        """
        widths = [*(len(self._block(k)) for k in range(len(lanes))), 1]
        queues = [BeatQueue(width, QUEUE) for width in widths]
        shown = queues[-1]
        rooms = self._spread(m, shown.level <= ROOM, "room")
        # Of the next cycle: whether the pipeline moves, and has a beat at its end.
        leaves = rooms[-1] & Mux(moves, valid[-2], valid[-1])
        writes = self._spread(m, leaves, "write")
        reset = ResetSignal(allow_reset_less=True)
        resets = self._spread(m, reset, "reset")
        tail = Signal(3, reset_less=True)
        m.d.sync += [moves.eq(rooms[-1]), tail.eq(Cat(reset, tail))]
        resets[-1] = reset | tail.any()
        for k, queue in enumerate(queues):
            m.submodules[f"queue_{k}"] = queue
            m.d.comb += [
                queue.reset.eq(resets[k]),
                queue.write.eq(writes[k]),
                queue.ready.eq(self.o.ready),
            ]
        for k, lane in enumerate(lanes):
            enables = replicate(m, rooms[k], len(lane.moves), f"moves_{k}", fanout=1)
            m.d.comb += [
                lane.moves.eq(Cat(enables)),
                queues[k].data.eq(delayed(m, Cat(lane.weights, lane.exponent), WAY, f"way_{k}")),
                self._block(k).eq(queues[k].o),
            ]
        m.d.comb += [
            shown.data.eq(delayed(m, last[-1], WAY, "way")),
            self.o.valid.eq(shown.valid),
            self.o.payload.last.eq(shown.o),
        ]

    def _spread(self, m, value, name):
        """Return ``value`` of three cycles before, from a register for each lane and one more.

        Those on the way there are one, and one for every ``FEW`` lanes.
        """
        count = self.config.blocks + 1
        (one,) = replicate(m, value, 1, name)
        few = replicate(m, one, count, f"{name}_few", fanout=FEW)
        return [replicate(m, part, 1, f"{name}_{k}")[0] for k, part in enumerate(few)]

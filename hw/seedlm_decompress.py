"""Decompressor of SeedLM's blocks: all weights of a block from one long product."""

from functools import partial, reduce
from operator import add, sub, xor

from amaranth.hdl import Array, Cat, Const, Module, Mux, Shape, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from seedbed.spec import SeedlmDecompressConfig

__all__ = ["SeedlmDecompress", "SeedlmLane", "beat_layout", "blocks_layout"]

#: Stages of a lane that share an enable.
SHARING = 4
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


def _span(count):
    """Return the shape of a sum of ``count`` coefficients."""
    return Shape.cast(range(-8 * count, 7 * count + 1))


def _chosen(bits, terms):
    """Return the sum of the terms whose bit is set; a third term is the sum of the first two.

    All of them are there already: this is a multiplexer, and goes into the LUTs of an adder.
    """
    if len(bits) == 1:
        return Mux(bits[0], terms[0], 0)
    return Mux(bits[1], Mux(bits[0], terms[2], terms[1]), Mux(bits[0], terms[0], 0))


class _Timed:
    """A value that is found in one slot; ``at`` gives it in a later one, through registers.

    A stage is ``slots`` slots, each with time for one addition.
    """

    def __init__(self, m, moves, slots, name, slot, shape, value):
        self._m, self._moves = m, moves
        self._slots, self._name, self._stage = slots, name, slot // slots
        self._steps = [Signal(shape, name=f"{name}_{self._stage}")]
        m.d.comb += self._steps[0].eq(value)

    def at(self, slot):
        """Return the value in ``slot``, which is not before its own."""
        while len(self._steps) <= slot // self._slots - self._stage:
            # Marked `keep`: otherwise the longer of these delays are mapped to shift registers on
            # some families, each bit to a LUT. A reset would do it too, with lines to all of them.
            stage = self._stage + len(self._steps)
            step = Signal(
                self._steps[0].shape(),
                name=f"{self._name}_{stage}",
                reset_less=True,
                attrs={"keep": True},
            )
            with self._m.If(self._moves[(stage - 1) // SHARING]):
                self._m.d.sync += step.eq(self._steps[-1])
            self._steps.append(step)
        return self._steps[slot // self._slots - self._stage]


class SeedlmLane(wiring.Component):
    """Decompresses a block a cycle, see :class:`SeedlmDecompress`.

    The C P words of a block are windows of one string of bits b, so that with D(j) the sum of
    q_p b_(j + p), and N(m) the sum of 2^j D(j) over j < m, the words of weight c, weighted, are::

        sum over p of q_p V_cp = (N(P c + B) - N(P c)) / 2^(P c),   exactly

    All N are cuts through one long product. Bit by bit it is R times the string, for a bit enters P
    of the D: with w_i = sum over p <= i of q_p 2^(i - p), R = w_(P - 1) and acc the R-fold sum,
    N(m) / 2^m is the integer part of acc behind the P - 1 bits that follow m, less w_i for each bit
    b_(m + i) of those. acc grows by one or two bits a slot; the bits that it has behind it never
    change, and are those that two N have in common.

    Members
    -------
    block : In(unsigned(block_bits))
        The packed block.
    moves : In
        Whether all of it moves, a bit for every ``SHARING`` stages.
    weights : Out(array of C x signed(sum_width))
        S_0 .. S_(C - 1).
    exponent : Out(signed(4))
        The block's exponent, as it is.
    """

    def __init__(self, config: SeedlmDecompressConfig):
        self.config = config
        self._stage = config.additions
        # Behind the last row come the edges of its cut and, in a stage of its own, the subtraction.
        slot, _ = self._rows()[-1]
        if config.latent > 1:
            slot += 1 + self._stage * (config.latent // 2 - 1)
        self._final = -(-(slot + 1) // self._stage) * self._stage
        super().__init__(
            {
                "block": In(config.block_bits),
                "moves": In(-(-self.latency // SHARING)),
                "weights": Out(data.ArrayLayout(signed(config.sum_width), config.block)),
                "exponent": Out(signed(4)),
            }
        )

    @property
    def latency(self) -> int:
        """Cycles from a block to its weights."""
        return self._final // self._stage + 1

    def _cuts(self):
        """Return every m > 0 at which N is needed: where words begin or end."""
        config = self.config
        begins = range(0, config.latent * config.block, config.latent)
        return sorted({*begins[1:], *(begin + config.word_bits for begin in begins)})

    def _rows(self):
        """Return slot and bits of each addition to acc: one bit or two, and no cut between them."""
        edge = self.config.latent - 1
        rows, slot, place = [], edge + 1, edge
        for cut in self._cuts():
            while place < cut + edge:
                rows.append((slot, range(place, min(place + 2, cut + edge))))
                slot, place = slot + 1, rows[-1][1].stop
        return rows

    def elaborate(self, platform):
        m = Module()
        config, latent = self.config, self.config.latent
        timed = partial(_Timed, m, self.moves, self._stage)
        nibbles = [self.block[k : k + 4] for k in range(config.width, config.block_bits, 4)]
        exponent, *q = (
            timed(f"nibble{k}", 0, signed(4), nibble.as_signed())
            for k, nibble in enumerate(nibbles)
        )
        # w_0 .. w_(P - 1), and Q, the sum of all q.
        w, total = [q[0]], q[0]
        for i in range(1, latent):
            slot, shape = i - 1, _span(2 ** (i + 1) - 1)
            if i == latent - 1:
                # R, as wide as its addition makes it, though a bit less holds it. Of an adder's
                # operands yosys takes the narrower one plain, and fuses what chooses the other
                # with the adder's LUTs: this keeps acc the narrower one.
                shape = signed(shape.width + 1)
            w.append(timed(f"w{i}", slot, shape, (w[-1].at(slot) << 1) + q[i].at(slot)))
            total = timed(f"total{i}", slot, _span(i + 1), total.at(slot) + q[i].at(slot))
        bits = self._string(timed)
        low, cuts = self._product(timed, bits, w)
        sums = self._subtract(timed, low, cuts, total)
        m.d.comb += [weight.eq(s) for weight, s in zip(self.weights, sums, strict=True)]
        m.d.comb += self.exponent.eq(exponent.at(self._final + self._stage))
        return m

    def _string(self, timed):
        """Return b_0, b_1, .., each as of a stage before it is added."""
        config = self.config
        width, skipped = config.width, 1 + config.width - config.word_bits
        slots = {skipped + j: slot for slot, places in self._rows() for j in places}
        string = [timed(f"x{n}", 0, 1, self.block[n]) for n in range(width)]
        for n in range(width, width + config.block * config.latent):
            slot = max(0, slots.get(n, 0) - self._stage)
            tapped = [string[n - width + tap].at(slot) for tap in config.taps]
            string.append(timed(f"x{n}", slot, 1, reduce(xor, tapped)))
        return string[skipped:]

    def _product(self, timed, bits, w):
        """Return the bits of the long product, and the integer N(m) / 2^m of each cut m."""
        latent, edge = self.config.latent, self.config.latent - 1
        # What the bits at an edge weigh, one or two of them a slot.
        edges = []
        for i in range(0, edge, 2):
            terms = w[i : min(i + 2, edge)]
            if len(terms) == 2:
                both = w[i].at(i + 1) + w[i + 1].at(i + 1)
                terms.append(timed(f"edge{i}", i + 1, _span(6 * 2**i - 2), both))
            edges.append((i, terms))

        def edged(name, operator, value, slot, pause, shape, place):
            for i, terms in edges:
                near = [bits[place + k].at(slot) for k in range(i, min(i + 2, edge))]
                change = _chosen(near, [term.at(slot) for term in terms])
                value = timed(f"{name}_{i}", slot, shape, operator(value.at(slot), change))
                slot += pause
            return value

        once, of_acc = w[-1], _span(2**latent - 1)
        triple = (once.at(edge) << 1) + once.at(edge)
        triple = timed("triple", edge, _span(3 * (2**latent - 1)), triple)
        slot = latent - len(edges)
        acc = edged("start", add, timed("zero", slot, 1, 0), slot, 1, of_acc, 0)
        low, cuts = [], dict.fromkeys(self._cuts())
        for slot, places in self._rows():
            terms = [once.at(slot), once.at(slot) << 1, triple.at(slot)]
            change = _chosen([bits[j].at(slot) for j in places], terms)
            size, stop = len(places), places.stop
            row = timed(f"row{stop}", slot, _span(2**latent - 1 << size), acc.at(slot) + change)
            row = row.at(slot)
            low += [timed(f"low{places[k]}", slot, 1, row[k]) for k in range(size)]
            acc = timed(f"acc{stop}", slot, of_acc, row >> size)
            cut = stop - edge
            if cut in cuts:
                # A stage apart: yosys would make one sum of three numbers of two of them, which
                # takes more LUTs.
                cuts[cut] = edged(f"cut{cut}", sub, acc, slot + 1, self._stage, _span(latent), cut)
        return low, cuts

    def _subtract(self, timed, low, cuts, total):
        """Return S_0, S_1, ..: the difference of two cuts, less 2^(B - 1) Q."""
        config, final = self.config, self._final
        latent, offset = config.latent, config.word_bits - 1
        # The lower cut is a short number. Its upper part, from bit B - 1 on (its sign, unless B is
        # small), stands where Q does: Q plus each such part is shared, and chosen.
        parts = max(1, _span(latent).width - offset)
        tops, shape = [total], signed((8 * latent).bit_length() + 1)
        for k in range(1, 1 << parts):
            top = total.at(final - 1) + Const(k, parts).as_signed()
            tops.append(timed(f"top{k}", final - 1, shape, top))
        tops = Array(top.at(final) for top in tops)
        sums = []
        for c in range(config.block):
            begin, end = latent * c, latent * c + config.word_bits
            upper = Cat((bit.at(final) for bit in low[begin:end]), cuts[end].at(final))
            lower = Cat(Const(0, offset), tops[0])
            if c:
                cut = cuts[begin].at(final)
                cut = [cut[min(k, len(cut) - 1)] for k in range(offset + parts)]
                lower = Cat(cut[:offset], tops[Cat(cut[offset:])])
            less = upper.as_signed() - lower.as_signed()
            sums.append(
                timed(f"sum{c}", final, signed(config.sum_width), less).at(final + self._stage)
            )
        return sums


class SeedlmDecompress(wiring.Component):
    """Gives the weights of packed blocks as exact integers, C a block, all in one beat.

    Weight c of a block of seed s, exponent e and coefficients q_0 .. q_(P - 1) is::

        S_c = sum over p of q_p (floor(V_cp / 2^(K - B)) - 2^(B - 1))
        w_c = S_c 2^e / (2^(B - 1) - 1)

    V is filled row by row with the words that follow s in the LFSR. Neither clocked registers nor
    multipliers are behind that: see :class:`SeedlmLane`. A pipeline moves as a whole: whenever its
    last stage is free or taken; with a ``queue`` behind it, some cycles after that has room. Where
    ready is always 1 and there is no queue, nothing is left of that.

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

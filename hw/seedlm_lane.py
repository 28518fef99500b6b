"""All weights of a block from one long product: what each block of a beat has of its own."""

from functools import partial, reduce
from operator import add, sub, xor

from amaranth.hdl import Array, Cat, Const, Module, Mux, Shape, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.seedlm_waits import Waits
from seedbed.spec import SeedlmDecompressConfig

__all__ = ["SeedlmLane", "latency"]


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
    """A value that is found in one slot; ``at`` gives it in a later one, of stages in between.

    A stage is ``slots`` slots, each with time for one addition.
    """

    def __init__(self, m, waits, slots, name, slot, shape, value):
        self._waits, self._slots, self._name, self._stage = waits, slots, name, slot // slots
        self._steps = {self._stage: Signal(shape, name=f"{name}_{self._stage}")}
        m.d.comb += self._steps[self._stage].eq(value)

    def at(self, slot):
        """Return the value in ``slot``, which is not before its own."""
        stage = slot // self._slots
        while stage not in self._steps:
            begin = max(known for known in self._steps if known < stage)
            step, end = self._waits.step(
                self._name, self._steps[begin], begin, stage, near=begin == self._stage
            )
            self._steps[end] = step
        return self._steps[stage]


def _cuts(config):
    """Return every m > 0 at which N is needed: where words begin or end."""
    begins = range(0, config.latent * config.block, config.latent)
    return sorted({*begins[1:], *(begin + config.word_bits for begin in begins)})


def _rows(config):
    """Return slot and bits of each addition to acc: one bit or two, and no cut between them."""
    edge = config.latent - 1
    rows, slot, place = [], edge + 1, edge
    for cut in _cuts(config):
        while place < cut + edge:
            rows.append((slot, range(place, min(place + 2, cut + edge))))
            slot, place = slot + 1, rows[-1][1].stop
    return rows


def latency(config: SeedlmDecompressConfig) -> int:
    """Return :attr:`SeedlmLane.latency`."""
    stage = config.additions
    # After the last row come the edges of its cut and, in a stage of its own, the subtraction.
    slot, _ = _rows(config)[-1]
    if config.latent > 1:
        slot += 1 + stage * (config.latent // 2 - 1)
    return -(-(slot + 1) // stage) + 1


class SeedlmLane(wiring.Component):
    """Decompresses a block a cycle, see :mod:`seedbed.hw.seedlm_decompress`.

    The C P words of a block are windows of one string of bits b, so that with D(j) the sum of
    q_p b_(j + p), and N(m) the sum of 2^j D(j) over j < m, the words of weight c, weighted, are::

        sum over p of q_p V_cp = (N(P c + B) - N(P c)) / 2^(P c),   exactly

    All N are cuts through one long product. Bit by bit it is R times the string, for a bit enters P
    of the D: with w_i = sum over p <= i of q_p 2^(i - p), R = w_(P - 1) and acc the R-fold sum,
    N(m) / 2^m is the integer part of acc behind the P - 1 bits that follow m, less w_i for each bit
    b_(m + i) of those. acc grows by one or two bits a slot; the bits that it has behind it never
    change, and are those that two N have in common. What waits for its turn does so in registers,
    or, with a ``queue`` behind the lanes, in memories (:mod:`seedbed.hw.seedlm_waits`).

    Members
    -------
    block : In(unsigned(block_bits))
        The packed block.
    moves : In
        Whether all of it moves, a bit for each stage.
    weights : Out(array of C x signed(sum_width))
        S_0 .. S_(C - 1).
    exponent : Out(signed(4))
        The block's exponent, as it is.
    """

    def __init__(self, config: SeedlmDecompressConfig):
        self.config = config
        self._stage = config.additions
        self._final = self._stage * (self.latency - 1)
        super().__init__(
            {
                "block": In(config.block_bits),
                "moves": In(self.latency),
                "weights": Out(data.ArrayLayout(signed(config.sum_width), config.block)),
                "exponent": Out(signed(4)),
            }
        )

    @property
    def latency(self) -> int:
        """Cycles from a block to its weights."""
        return latency(self.config)

    def elaborate(self, platform):
        m = Module()
        config, latent = self.config, self.config.latent
        waits = Waits(m, self.moves, memories=config.queue)
        timed = partial(_Timed, m, waits, self._stage)
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
        waits.finish()
        return m

    def _string(self, timed):
        """Return b_0, b_1, .., each as of a stage before it is added."""
        config = self.config
        width, skipped = config.width, 1 + config.width - config.word_bits
        slots = {skipped + j: slot for slot, places in _rows(self.config) for j in places}
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
        low, cuts = [], dict.fromkeys(_cuts(self.config))
        for slot, places in _rows(self.config):
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

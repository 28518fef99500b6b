"""Datapath of one block per beat: all of its weights from one long product."""

from functools import partial, reduce
from operator import add, sub, xor

from amaranth.hdl import Array, Cat, Const, Module, Mux, Shape, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.weights.seedlm_delay_lines import DelayLines
from seedbed.spec import SeedlmDecompressConfig

__all__ = ["SeedlmLane", "latency"]


def _span(count):
    """Return the shape of a sum of ``count`` coefficients."""
    return Shape.cast(range(-8 * count, 7 * count + 1))


def _select(bits, terms):
    """Return the sum of the terms whose bit is set; a third term is the sum of the first two.

    The sums are precomputed: this is a multiplexer, which is merged into the LUTs of an adder.
    """
    if len(bits) == 1:
        return Mux(bits[0], terms[0], 0)
    return Mux(bits[1], Mux(bits[0], terms[2], terms[1]), Mux(bits[0], terms[0], 0))


class _Scheduled:
    """A value that is computed in one slot; :meth:`at` gives it in a later slot, by delay lines.

    A pipeline stage has ``slots`` slots; a slot has time for one addition.
    """

    def __init__(self, m, lines, slots, name, slot, shape, value):
        self._lines, self._slots, self._name, self._stage = lines, slots, name, slot // slots
        self._steps = {self._stage: Signal(shape, name=f"{name}_{self._stage}")}
        m.d.comb += self._steps[self._stage].eq(value)

    def at(self, slot):
        """Return the value in ``slot``, which is its own or a later one."""
        stage = slot // self._slots
        while stage not in self._steps:
            begin = max(known for known in self._steps if known < stage)
            step, end = self._lines.delay(
                self._name, self._steps[begin], begin, stage, register=begin == self._stage
            )
            self._steps[end] = step
        return self._steps[stage]


def _cuts(config):
    """Return every m > 0 whose N is needed: where words begin or end."""
    begins = range(0, config.latent * config.block, config.latent)
    return sorted({*begins[1:], *(begin + config.word_bits for begin in begins)})


def _rows(config):
    """Return slot and bits of each addition to acc: one bit, or two without a cut between."""
    edge = config.latent - 1
    rows, slot, first_bit = [], edge + 1, edge
    for cut in _cuts(config):
        while first_bit < cut + edge:
            rows.append((slot, range(first_bit, min(first_bit + 2, cut + edge))))
            slot, first_bit = slot + 1, rows[-1][1].stop
    return rows


def latency(config: SeedlmDecompressConfig) -> int:
    """Return :attr:`SeedlmLane.latency`."""
    stage = config.additions
    # After the last row come the edges of its cut and, in a separate stage, the subtraction.
    slot, _ = _rows(config)[-1]
    if config.latent > 1:
        slot += 1 + stage * (config.latent // 2 - 1)
    return -(-(slot + 1) // stage) + 1


class SeedlmLane(wiring.Component):
    """Decompresses a block a cycle, see :mod:`seedbed.hw.weights.seedlm_decompress`.

    The C P words of a block are windows of one string of bits b, so that with D(j) the sum of
    q_p b_(j + p), and N(m) the sum of 2^j D(j) over j < m, the words of weight c, weighted, are::

        sum over p of q_p V_cp = (N(P c + B) - N(P c)) / 2^(P c),   exactly

    All N are prefixes of one long product. It is R times the string, because each bit is a term of
    P of the D: with w_i = sum over p <= i of q_p 2^(i - p), R = w_(P - 1) and acc the accumulated
    product with R, N(m) / 2^m is the integer part of acc after the P - 1 bits that follow m, less
    w_i for each bit b_(m + i) of those. acc is extended by one or two bits per slot; its lower bits
    are final, and two N have them in common. Values are delayed by registers or, with a ``queue``
    after the lanes, by LUTRAM (:mod:`seedbed.hw.weights.seedlm_delay_lines`).

    Members
    -------
    block : In(unsigned(block_bits))
        The packed block.
    enable : In
        Clock enable, one bit per stage.
    weights : Out(array of C x signed(sum_width))
        S_0 .. S_(C - 1).
    exponent : Out(signed(4))
        The block's exponent, unchanged.
    """

    def __init__(self, config: SeedlmDecompressConfig):
        self.config = config
        self._stage = config.additions
        self._final = self._stage * (self.latency - 1)
        super().__init__(
            {
                "block": In(config.block_bits),
                "enable": In(self.latency),
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
        lines = DelayLines(m, self.enable, lutram=config.queue)
        scheduled = partial(_Scheduled, m, lines, self._stage)
        nibbles = [self.block[k : k + 4] for k in range(config.width, config.block_bits, 4)]
        exponent, *q = (
            scheduled(f"nibble{k}", 0, signed(4), nibble.as_signed())
            for k, nibble in enumerate(nibbles)
        )
        # w_0 .. w_(P - 1), and Q, the sum of all q.
        w, total = [q[0]], q[0]
        for i in range(1, latent):
            slot, shape = i - 1, _span(2 ** (i + 1) - 1)
            if i == latent - 1:
                # R, with the full width of its addition, one bit more than needed. yosys merges
                # the multiplexer of an adder's wider operand into the adder's LUTs: the extra bit
                # keeps acc the narrower operand.
                shape = signed(shape.width + 1)
            w.append(scheduled(f"w{i}", slot, shape, (w[-1].at(slot) << 1) + q[i].at(slot)))
            total = scheduled(f"total{i}", slot, _span(i + 1), total.at(slot) + q[i].at(slot))
        bits = self._string(scheduled)
        low, cuts = self._product(scheduled, bits, w)
        sums = self._subtract(scheduled, low, cuts, total)
        m.d.comb += [weight.eq(s) for weight, s in zip(self.weights, sums, strict=True)]
        m.d.comb += self.exponent.eq(exponent.at(self._final + self._stage))
        lines.finish()
        return m

    def _string(self, scheduled):
        """Return b_0, b_1, .., each computed a stage before it is added."""
        config = self.config
        width, skipped = config.width, 1 + config.width - config.word_bits
        slots = {skipped + j: slot for slot, places in _rows(self.config) for j in places}
        string = [scheduled(f"x{n}", 0, 1, self.block[n]) for n in range(width)]
        for n in range(width, width + config.block * config.latent):
            slot = max(0, slots.get(n, 0) - self._stage)
            tapped = [string[n - width + tap].at(slot) for tap in config.taps]
            string.append(scheduled(f"x{n}", slot, 1, reduce(xor, tapped)))
        return string[skipped:]

    def _product(self, scheduled, bits, w):
        """Return the bits of the long product, and the integer N(m) / 2^m of each cut m."""
        latent, edge = self.config.latent, self.config.latent - 1
        # The weights of the bits at an edge, one or two per slot.
        edges = []
        for i in range(0, edge, 2):
            terms = w[i : min(i + 2, edge)]
            if len(terms) == 2:
                both = w[i].at(i + 1) + w[i + 1].at(i + 1)
                terms.append(scheduled(f"edge{i}", i + 1, _span(6 * 2**i - 2), both))
            edges.append((i, terms))

        def apply_edge(name, operator, value, slot, pause, shape, first_bit):
            for i, terms in edges:
                edge_bits = [bits[first_bit + k].at(slot) for k in range(i, min(i + 2, edge))]
                change = _select(edge_bits, [term.at(slot) for term in terms])
                value = scheduled(f"{name}_{i}", slot, shape, operator(value.at(slot), change))
                slot += pause
            return value

        once, of_acc = w[-1], _span(2**latent - 1)
        triple = (once.at(edge) << 1) + once.at(edge)
        triple = scheduled("triple", edge, _span(3 * (2**latent - 1)), triple)
        slot = latent - len(edges)
        acc = apply_edge("start", add, scheduled("zero", slot, 1, 0), slot, 1, of_acc, 0)
        low, cuts = [], dict.fromkeys(_cuts(self.config))
        for slot, places in _rows(self.config):
            terms = [once.at(slot), once.at(slot) << 1, triple.at(slot)]
            change = _select([bits[j].at(slot) for j in places], terms)
            size, stop = len(places), places.stop
            row = scheduled(f"row{stop}", slot, _span(2**latent - 1 << size), acc.at(slot) + change)
            row = row.at(slot)
            low += [scheduled(f"low{places[k]}", slot, 1, row[k]) for k in range(size)]
            acc = scheduled(f"acc{stop}", slot, of_acc, row >> size)
            cut = stop - edge
            if cut in cuts:
                # In a separate stage: yosys would merge two sums into one of three numbers, which
                # takes more LUTs.
                cuts[cut] = apply_edge(
                    f"cut{cut}", sub, acc, slot + 1, self._stage, _span(latent), cut
                )
        return low, cuts

    def _subtract(self, scheduled, low, cuts, total):
        """Return S_0, S_1, ..: the difference of two cuts, less 2^(B - 1) Q."""
        config, final = self.config, self._final
        latent, offset = config.latent, config.word_bits - 1
        # The lower cut is a short number. Its upper part, from bit B - 1 on (its sign, unless B is
        # small), has the weight of Q: Q plus each such part is computed once, and selected.
        parts = max(1, _span(latent).width - offset)
        tops, shape = [total], signed((8 * latent).bit_length() + 1)
        for k in range(1, 1 << parts):
            top = total.at(final - 1) + Const(k, parts).as_signed()
            tops.append(scheduled(f"top{k}", final - 1, shape, top))
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
                scheduled(f"sum{c}", final, signed(config.sum_width), less).at(final + self._stage)
            )
        return sums

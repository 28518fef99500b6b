"""Gaussian generators, each a binary tree of threshold decisions over LFSRs."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.gf2 import product
from seedbed.spec import TreeGrngConfig

__all__ = ["Tree", "TreeGrng"]


class Tree(wiring.Component):
    """From one word a level to a number: the logic of one instance, without its LFSRs.

    The first level decides the half, ``s = word >= T``; the others walk down a tree over the
    magnitude m, each by ``bit = word >= T[node]`` with the node named by the first bits of m that
    are decided. The other half is its mirror image: the number is m where s is 1, and -1 - m
    otherwise.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.TreeGrngConfig`.

    Members
    -------
    words : In(struct of one unsigned word a level, ``w0`` .. ``w7``)
    move : In(1)
        Only with ``compact``: lets the pipeline registers take their next value.
    number : Out(signed(8))

    Latency: the largest of the levels' stages, each of which has its word's own time.
    """

    def __init__(self, config: TreeGrngConfig):
        self.config = config
        words = {f"w{k}": level.bits for k, level in enumerate(config.levels)}
        members = {"words": In(data.StructLayout(words)), "number": Out(signed(8))}
        if config.tree == "compact":
            members["move"] = In(1)
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        (first, *levels) = self.config.levels
        compact = self.config.tree == "compact"
        decide = comparator_a_level if compact else comparator_a_node
        decided, stage = [], 0
        for k, level in enumerate(levels, start=1):
            if level.stage > stage:
                decided, stage = self._registered(m, decided, level.stage), level.stage
            # Most significant bits first in time, least significant first in an address.
            depth = len(level.thresholds).bit_length() - 1
            bit = Signal(name=f"bit_{k}")
            m.d.comb += bit.eq(decide(self.words[f"w{k}"], level.thresholds, decided[:depth][::-1]))
            decided.append(bit)
        lower = Signal()
        m.d.comb += [
            lower.eq(~at_least(self.words.w0, first.thresholds[0])),
            # One operation, so that the port is one vector, of the same name in every instance.
            self.number.eq(Cat(decided[::-1], Const(0, 1)) ^ lower.replicate(8)),
        ]
        return m

    def _registered(self, m, decided, stage):
        held = [Signal(name=f"held_{stage}_{k}") for k in range(len(decided))]
        with m.If(self.move):
            m.d.sync += [new.eq(bit) for new, bit in zip(held, decided, strict=True)]
        return held


def at_least(word, threshold: int):
    """Return ``word >= threshold`` for a constant, from the least significant end.

    Every one in the threshold is an AND, every zero an OR, and what thresholds have in common at
    that end is shared. An operator would be mapped to a carry chain, at several times the LUTs.
    """
    carry = Const(1, 1)
    for k, bit in enumerate(word):
        carry = bit & carry if threshold >> k & 1 else bit | carry
    return carry


def comparator_a_node(word, thresholds, address):
    """Return ``word >= thresholds[address]``: a comparator for each, and multiplexers."""
    shared = {threshold: at_least(word, threshold) for threshold in thresholds}
    nodes = [shared[threshold] for threshold in thresholds]
    for bit in address:
        nodes = [
            low if low is high else Mux(bit, high, low)
            for low, high in zip(nodes[::2], nodes[1::2], strict=True)
        ]
    return nodes[0]


def comparator_a_level(word, thresholds, address):
    """Return ``word >= thresholds[address]``: one comparator, some bits after the others.

    From the least significant end, ``carry' = w + carry > t`` for as many bits at once as fit into
    a table of six inputs together with the carry and the address, which stands for t: one LUT.
    """
    carry, start = [], 0
    while start < len(word):
        bits = word[start : start + 6 - len(address) - len(carry)]
        table = [
            w + c > (threshold >> start) % 2 ** len(bits)
            for threshold in thresholds
            for c in ((0, 1) if carry else (1,))
            for w in range(2 ** len(bits))
        ]
        entries = Const(sum(bit << k for k, bit in enumerate(table)), len(table))
        carry = [(entries >> Cat(bits, carry, address))[0]]
        start += len(bits)
    return carry[0]


class TreeGrng(wiring.Component):
    """Numbers with the probabilities of a Gaussian of sigma 32, one an instance and beat.

    A number k stands for the interval k .. k + 1, cut off at 4 sigma: the distribution is symmetric
    about -1/2. Its bits are decided one after the other, most significant first, each by comparing
    the word of an LFSR of its own with ``T = P(lower half | bits so far) 2**L``; see :class:`Tree`.
    The zero state never occurs, so that a lower half has ``T - 1`` of ``2**L - 1`` words where the
    whole state is compared.

    Seeds come as one serial chain through the registers of all instances: the state's bits of
    instance 0, level 0 first, in the order of :attr:`~seedbed.spec.tree_grng.TreeLevel.chain` (the
    least significant bit first where ``leap`` is 1). Load and data are inputs of the LUT that makes
    the feedback. Longer frames leave the last ``seed_beats`` bits.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.TreeGrngConfig`.

    Members
    -------
    i_seeds : In(stream of a struct of ``bit`` (1 bit) and ``last``)
        ``config.seed_beats`` beats a frame. No register's seed may be zero (the all-zero state is
        absorbing). The first beat of a frame is accepted together with the pending output beat, if
        there is one, so that no beat changes while it waits.
    o : Out(stream of ArrayLayout(signed(8), instances))
        The numbers, from the default seeds after reset; not valid while seeds are loaded.

    Latency: from the last beat of the seeds, or from reset, 1 cycle to the first beat with the tree
    ``published``, 5 cycles with ``compact``. Throughput: a beat every cycle.
    Source: TreeGRNG (DATE 2024), the baseline of PeZO's Table 6.
    """

    interval = 1

    def __init__(self, config: TreeGrngConfig):
        self.config = config
        seed = data.StructLayout({"bit": 1, "last": 1})
        numbers = data.ArrayLayout(signed(8), config.instances)
        super().__init__(
            {"i_seeds": In(stream.Signature(seed)), "o": Out(stream.Signature(numbers))}
        )

    @property
    def latency(self) -> int:
        """Cycles from the last beat of the seeds to the first numbers."""
        return self.config.latency

    def elaborate(self, platform):
        m = Module()
        # Bit 0: seeds are complete. The last bit: the first numbers have gone down the tree.
        filled = Signal(self.latency, init=1)
        valid, load = filled[-1], self.i_seeds.valid
        free, move = Signal(), Signal()
        m.d.comb += [
            free.eq(~valid | self.o.ready),
            move.eq(free & (filled[0] | load)),
            self.o.valid.eq(valid),
            self.i_seeds.ready.eq(free),
        ]
        with m.If(move):
            m.d.sync += filled.eq(Mux(load, self.i_seeds.payload.last, Cat(filled[0], filled)))
        levels = self.config.levels
        # One vector a level: a register a generator would be thousands of processes to synthesize.
        states = [
            Signal(data.ArrayLayout(level.lfsr.width, len(seeds)), init=seeds, name=f"states_{k}")
            for k, (level, seeds) in enumerate(
                zip(levels, zip(*self.config.seeds, strict=True), strict=True)
            )
        ]
        following = [[] for _ in levels]
        # The chain ends at instance 0, level 0, and is entered at the other end.
        enter = self.i_seeds.payload.bit
        for i in reversed(range(self.config.instances)):
            for k, level in reversed(list(enumerate(levels))):
                following[k].insert(0, self._next(level, states[k][i], load, enter))
                enter = states[k][i][0]
        with m.If(move):
            for state, values in zip(states, following, strict=True):
                m.d.sync += Cat(state).eq(Cat(values))
        for i in range(self.config.instances):
            tree = m.submodules[f"tree_{i}"] = Tree(self.config)
            m.d.comb += self.o.payload[i].eq(tree.number)
            for k, level in enumerate(levels):
                m.d.comb += tree.words[f"w{k}"].eq(states[k][i][-level.bits :])
            if self.config.tree == "compact":
                m.d.comb += tree.move.eq(move)
        return m

    def _next(self, level, state, load, enter):
        """Return the state ``leap`` steps on, or the next of its chains while it is loaded."""
        leap = level.lfsr.leap
        shifted = state[leap:]
        fed = product(level.lfsr.matrix, state)[len(shifted) :]
        # Every chain is entered by what leaves the next one, the last one by the chain's data.
        starts = range(level.lfsr.width - leap, level.lfsr.width)
        entering = Cat(enter if k % leap == leap - 1 else state[k % leap + 1] for k in starts)
        return Cat(shifted, Mux(load, entering, fed))

"""Gaussian generators, each a binary tree of threshold decisions over LFSRs."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.gf2 import product
from seedbed.spec import TreeGrngConfig

__all__ = ["Tree", "TreeGrng"]


class Tree(wiring.Component):
    """From one word a level to a number: the logic of one instance, without its LFSRs.

    The first level decides the sign, ``s = word >= T``. The others descend a binary tree over the
    magnitude m, each with ``bit = word >= T[node]``; the bits of m decided so far select the node.
    The distribution is symmetric: the number is m where s is 1, and -1 - m otherwise.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.TreeGrngConfig`.

    Members
    -------
    words : In(struct of one unsigned word a level, ``w0`` .. ``w7``)
    enable : In(1)
        Only with ``compact``: clock enable of the pipeline registers.
    number : Out(signed(8))

    Latency: the largest of the levels' stages; each level's word enters at that level's stage.
    """

    def __init__(self, config: TreeGrngConfig):
        self.config = config
        words = {f"w{k}": level.bits for k, level in enumerate(config.levels)}
        members = {"words": In(data.StructLayout(words)), "number": Out(signed(8))}
        if config.tree == "compact":
            members["enable"] = In(1)
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
            # The most significant bit is decided first; an address begins with the least one.
            depth = len(level.thresholds).bit_length() - 1
            bit = Signal(name=f"bit_{k}")
            m.d.comb += bit.eq(decide(self.words[f"w{k}"], level.thresholds, decided[:depth][::-1]))
            decided.append(bit)
        lower = Signal()
        m.d.comb += [
            lower.eq(~at_least(self.words.w0, first.thresholds[0])),
            # One expression, so that the port is one vector with the same name in every instance.
            self.number.eq(Cat(decided[::-1], Const(0, 1)) ^ lower.replicate(8)),
        ]
        return m

    def _registered(self, m, decided, stage):
        registers = [Signal(name=f"decided_{stage}_{k}") for k in range(len(decided))]
        with m.If(self.enable):
            m.d.sync += [new.eq(bit) for new, bit in zip(registers, decided, strict=True)]
        return registers


def at_least(word, threshold: int):
    """Return ``word >= threshold`` for a constant, from the least significant end.

    Every 1 in the threshold is an AND, every 0 an OR. Thresholds that agree in their low bits share
    logic. The operator ``>=`` would be mapped to a carry chain, at several times the LUTs.
    """
    carry = Const(1, 1)
    for k, bit in enumerate(word):
        carry = bit & carry if threshold >> k & 1 else bit | carry
    return carry


def comparator_a_node(word, thresholds, address):
    """Return ``word >= thresholds[address]``: a comparator per threshold, then multiplexers."""
    shared = {threshold: at_least(word, threshold) for threshold in thresholds}
    nodes = [shared[threshold] for threshold in thresholds]
    for bit in address:
        nodes = [
            low if low is high else Mux(bit, high, low)
            for low, high in zip(nodes[::2], nodes[1::2], strict=True)
        ]
    return nodes[0]


def comparator_a_level(word, thresholds, address):
    """Return ``word >= thresholds[address]``: one comparator whose threshold is looked up.

    From the least significant end, ``carry' = w + carry > t`` for as many bits at once as fit into
    one LUT of six inputs, together with the carry and the address, which selects t.
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
    """Gaussian numbers of sigma 32, one per instance and beat.

    A number k represents the interval k .. k + 1, truncated at 4 sigma: the distribution is
    symmetric about -1/2. Its bits are decided one after the other, most significant first. Each
    bit compares the word of a separate LFSR with ``T = P(lower half | bits so far) 2**L``; see
    :class:`Tree`. The zero state never occurs, so that a lower half has ``T - 1`` of ``2**L - 1``
    words where the whole state is compared.

    Seeds come as one serial chain through the registers of all instances: the state's bits of
    instance 0, level 0 first, in the order of :attr:`~seedbed.spec.tree_grng.TreeLevel.chain` (the
    least significant bit first where ``leap`` is 1). Load and data are inputs of the LUT of the
    feedback. Of a longer frame, the last ``seed_beats`` bits count.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.TreeGrngConfig`.

    Members
    -------
    i_seeds : In(stream of a struct of ``bit`` (1 bit) and ``last``)
        seeds of all registers, one serial chain. ``config.seed_beats`` beats per frame. No
        register's seed may be zero (the all-zero state is absorbing). The first beat of a frame is
        accepted in the cycle that transfers the pending output beat, if there is one, so that a
        valid beat is stable.
        bit : next bit
        last : last bit
    o : Out(stream of ArrayLayout(signed(8), instances))
        Gaussian random numbers, one per instance. They start from the default seeds after reset,
        and are not valid while seeds are loaded.

    Latency: ``latency`` cycles from the end of the seeds to the first beat. It is the same from
    reset: 1 cycle with the tree ``published``, 5 with ``compact``.
    Throughput: 1 beat per cycle.
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
        # Bit 0: seeds are complete. The last bit: the first numbers have reached the output.
        filled = Signal(self.latency, init=1)
        valid, load = filled[-1], self.i_seeds.valid
        ready, enable = Signal(), Signal()
        m.d.comb += [
            ready.eq(~valid | self.o.ready),
            enable.eq(ready & (filled[0] | load)),
            self.o.valid.eq(valid),
            self.i_seeds.ready.eq(ready),
        ]
        with m.If(enable):
            m.d.sync += filled.eq(Mux(load, self.i_seeds.payload.last, Cat(filled[0], filled)))
        levels = self.config.levels
        # One vector per level: a signal per generator would be thousands of processes.
        states = [
            Signal(data.ArrayLayout(level.lfsr.width, len(seeds)), init=seeds, name=f"states_{k}")
            for k, (level, seeds) in enumerate(
                zip(levels, zip(*self.config.seeds, strict=True), strict=True)
            )
        ]
        next_states = [[] for _ in levels]
        # The chain ends at instance 0, level 0; seed bits enter at the other end.
        enter = self.i_seeds.payload.bit
        for i in reversed(range(self.config.instances)):
            for k, level in reversed(list(enumerate(levels))):
                next_states[k].insert(0, self._next(level, states[k][i], load, enter))
                enter = states[k][i][0]
        with m.If(enable):
            for state, values in zip(states, next_states, strict=True):
                m.d.sync += Cat(state).eq(Cat(values))
        for i in range(self.config.instances):
            tree = m.submodules[f"tree_{i}"] = Tree(self.config)
            m.d.comb += self.o.payload[i].eq(tree.number)
            for k, level in enumerate(levels):
                m.d.comb += tree.words[f"w{k}"].eq(states[k][i][-level.bits :])
            if self.config.tree == "compact":
                m.d.comb += tree.enable.eq(enable)
        return m

    def _next(self, level, state, load, enter):
        """Return the state after ``leap`` steps or, during a load, after one shift."""
        leap = level.lfsr.leap
        shifted = state[leap:]
        feedback = product(level.lfsr.matrix, state)[len(shifted) :]
        # Each chain's input is the output of the next one; the last one's is the serial data.
        starts = range(level.lfsr.width - leap, level.lfsr.width)
        entering = Cat(enter if k % leap == leap - 1 else state[k % leap + 1] for k in starts)
        return Cat(shifted, Mux(load, entering, feedback))

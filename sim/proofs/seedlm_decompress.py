"""Proofs of SeedLM's decompressor: the shared product against the products as they are defined."""

from amaranth.hdl import Assert, Assume, Const, Module, Signal, Value
from amaranth.hdl._ast import AnySeq

from seedbed.hw.beat_queue import BeatQueue
from seedbed.hw.seedlm_decompress import QUEUE, SeedlmDecompress
from seedbed.hw.seedlm_lane import SeedlmLane
from seedbed.hw.seedlm_waits import Waits
from seedbed.sim.proofs.bench import (
    around,
    copies_agree,
    happens,
    past,
    serial_step,
    stream_rules,
    transfer,
)
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import SeedlmDecompressConfig

__all__ = ["PROOFS"]


def words_products(m: Module, config: SeedlmDecompressConfig, block) -> tuple[list[Value], Value]:
    """Return a block's weights, of the words of a bit-serial LFSR, and its exponent."""
    width = config.width
    state = block[:width]
    exponent, *q = (block[j : j + 4].as_signed() for j in range(width, len(block), 4))
    weights = []
    for _ in range(config.block):
        total = Value.cast(0)
        for nibble in q:
            # A signal for each: nested, the expressions would grow with every step.
            before, state = state, Signal(width)
            m.d.comb += state.eq(serial_step(config.lfsr, before, 1))
            word = state[width - config.word_bits :]
            total = total + nibble * (word - config.half)
        weights.append(total)
    return weights, exponent


def products(dut: SeedlmLane) -> Module:
    """Hold every block's weights to the products as they are defined.

    Nothing waits: what a stall does is another statement. So the pipeline forgets, and induction
    needs no more than as many cycles as it is long.
    """
    m, inside = around(dut)
    m.d.comb += [dut.block.eq(AnySeq(len(dut.block))), dut.moves.eq(-1)]
    if dut.config.queue:
        # The numbers of the beats, where memories keep them, are one behind the other.
        first = inside["number_0_0"]
        for k in range(1, dut.latency):
            copies_agree(m, inside, rf"number_{k}_\d+", (first - k)[: len(first)])
    given, valid = dut.block, Const(1)
    for _ in range(dut.latency):
        given, valid = past(m, given), past(m, valid)
    weights, exponent = words_products(m, dut.config, given)
    with m.If(valid):
        m.d.comb += Assert(dut.exponent == exponent)
        for shown, weight in zip(dut.weights, weights, strict=True):
            m.d.comb += Assert(shown == weight)
    # The greatest of all numbers: each coefficient -8 and each word 0.
    happens(m, valid & (given != 0), dut.weights[0] == 8 * dut.config.latent * dut.config.half)
    return m


def beats(dut: SeedlmDecompress) -> Module:
    """Hold every beat to its blocks, in their order; nothing waits."""
    m, _ = around(dut)
    m.d.comb += Assume(dut.o.ready)
    given, valid = Value.cast(dut.i.payload), dut.i.valid
    for _ in range(dut.latency):
        given, valid = past(m, given), past(m, valid)
    m.d.comb += Assert(dut.o.valid == valid)
    given, shown = dut.i.payload.shape()(given), dut.o.payload
    size = dut.config.block
    with m.If(valid):
        m.d.comb += Assert(shown.last == given.last)
        for k, block in enumerate(given.blocks):
            weights, exponent = words_products(m, dut.config, block)
            m.d.comb += Assert(shown.exponents[k] == exponent)
            for c, weight in enumerate(weights):
                m.d.comb += Assert(shown.weights[size * k + c] == weight)
    happens(m, valid & (Value.cast(given.blocks) != 0))
    return m


def registers(fragment):
    """Yield every register of a design."""
    if "sync" in fragment.statements:
        yield from fragment.statements["sync"]._lhs_signals()
    for child, *_ in fragment.subfragments:
        yield from registers(child)


def stands(m: Module, moves, found) -> None:
    """Assert that registers are what they were while ``moves`` is 0."""
    assert found, "the registers are not found"
    for register in found:
        before = past(m, register)
        with m.If(past(m, ~moves)):
            m.d.comb += Assert(register == before)


def stalls(dut: SeedlmDecompress) -> Module:
    """Hold the stream rules, and every register to what it was while the pipeline waits."""
    m, inside = around(dut)
    stream_rules(m, dut.o)
    found = [*registers(m.submodules.dut)]
    assert len(found) > dut.latency, "some registers are not found"
    stands(m, inside["moves"], found)
    m.d.comb += Assert(transfer(dut.i) == (dut.i.valid & (~dut.o.valid | dut.o.ready)))
    happens(m, past(m, ~inside["moves"]) & transfer(dut.i) & transfer(dut.o))
    return m


def queued(dut: SeedlmDecompress) -> Module:
    """Hold the stream rules, the lanes to what they were while they wait, the queues to their room.

    What has left the lanes, or may do so before an enable falls, has a place.
    """
    m, inside = around(dut)
    stream_rules(m, dut.o)
    moves, count = inside["moves"], dut.config.blocks
    lanes = [part for part, name, _ in m.submodules.dut.subfragments if name.startswith("lane")]
    stands(m, moves, [r for lane in lanes for r in registers(lane)])
    on_way = []
    for name in ("room", "write"):
        one, few, each = (inside[f"{name}{part}_copy_0"] for part in ("", "_few", f"_{count}"))
        on_way += [one, few, each]
        copies_agree(m, inside, rf"{name}_few_copy_\d+", few)
        copies_agree(m, inside, rf"{name}_\d+_copy_0", each)
    copies_agree(m, inside, r"moves_\d+_copy_\d+", moves)
    own = {
        name: inside[f"queue_{count}.{name}"]
        for name in ("end_0", "place_0", "behind_0", "gone_0", "there_0", "second_0")
    }
    for name, one in own.items():
        copies_agree(m, inside, rf"queue_\d+\.{name.removesuffix('_0')}_\d+", one)
    level = inside[f"queue_{count}.level"]
    m.d.comb += [
        Assert(inside["write_copy_0"] == (inside["valid"][-1] & moves)),
        Assert(sum(on_way, level) <= QUEUE),
        Assert(own["behind_0"] == (own["place_0"] + 1)[: len(level)]),
        Assert(~own["gone_0"] | own["there_0"]),
        Assert(~own["there_0"] | (level >= 1)),
        Assert(~own["second_0"] | (level >= 2)),
    ]
    happens(m, level == QUEUE, ~moves & transfer(dut.o))
    return m


EDGES_ADDED = Mutant(
    name="the edges of a cut are added",
    old='edged(f"cut{cut}", sub,',
    new='edged(f"cut{cut}", add,',
)
NO_LOWER = Mutant(
    name="the second weight's lower cut is left out",
    old="            if c:",
    new="            if c > 1:",
)
BIT_EARLY = Mutant(
    name="the string begins a bit early",
    old="return string[skipped:]",
    new="return string[skipped - 1 :]",
)
ONE_TAP = Mutant(
    name="the string is not an LFSR's",
    old="for tap in config.taps]",
    new="for tap in config.taps[:1]]",
)
NOT_TRIPLE = Mutant(
    name="two bits weigh 2 R",
    old="(once.at(edge) << 1) + once.at(edge)",
    new="once.at(edge) << 1",
)
NO_SIGN = Mutant(
    name="a negative cut is taken for a positive one",
    old="Const(k, parts).as_signed()",
    new="Const(k, parts)",
)
EARLY = Mutant(
    name="the exponent comes a stage early",
    old="exponent.at(self._final + self._stage)",
    new="exponent.at(self._final)",
)
SWAPPED = Mutant(
    name="the exponent is the last nibble",
    old="exponent, *q = (",
    new="*q, exponent = (",
)
LANES_RUN = Mutant(
    name="the lanes run on while a beat waits",
    old="lane.moves.eq(moves.replicate(len(lane.moves)))",
    new="lane.moves.eq(-1)",
)
LANES_RUN_ON = Mutant(
    name="the lanes run on while the queues are full",
    old="lane.moves.eq(Cat(enables))",
    new="lane.moves.eq(-1)",
)
EXCHANGED = Mutant(
    name="the blocks of a beat change places",
    old="beat.weights[size * k + c]",
    new="beat.weights[size * (self.config.blocks - 1 - k) + c]",
)
LAST_EARLY = Mutant(
    name="last comes a cycle early",
    old="self.o.payload.last.eq(last[-1])",
    new="self.o.payload.last.eq(last[-2])",
)
ALL_RUNS = Mutant(
    name="all runs on while a beat waits",
    old="moves.eq(~valid[-1] | self.o.ready)",
    new="moves.eq(1)",
)
PLACE_EARLY = Mutant(
    name="a memory is read where the next beat is",
    part=Waits,
    old="get.addr.eq(numbers.at(end - 1))",
    new="get.addr.eq(numbers.at(end - 2))",
)
LATE = Mutant(
    name="the lanes move with a place less than is needed",
    old="shown.level <= ROOM",
    new="shown.level <= ROOM + 1",
)
SHOWN_AGAIN = Mutant(
    name="the last beat of a queue is shown once more",
    part=BeatQueue,
    old="there.eq(Mux(gone, two, one))",
    new="there.eq(one)",
)
SAYS = {
    products: "Each weight of a block is the sum of q_p (V_cp - 2^(B - 1)) over p, exactly.",
    beats: "A beat has the weights and exponents of its blocks, in their order, and its last.",
    stalls: "A beat waits, unchanged, until it is taken, and so does all that is behind it.",
    queued: "Lanes wait whole; what leaves them has a place in the queues, which are one.",
}


def _proof(
    size: str, harness, depth: int, mutants: tuple[Mutant, ...], reach: int = 12, **params
) -> Proof:
    return Proof(
        name=f"seedlm_decompress_{harness.__name__}_{size}",
        core="seedlm_decompress",
        says=SAYS[harness],
        component=SeedlmLane if harness is products else SeedlmDecompress,
        config=SeedlmDecompressConfig(**params),
        harness=harness,
        depth=depth,
        reach=reach,
        mutants=mutants,
    )


SMALL = {"blocks": 1, "block": 3, "latent": 2, "width": 5}
TRUNCATED = {"blocks": 1, "block": 2, "latent": 2, "width": 8, "word_bits": 3}

#: The depth of ``products`` is the latency and one cycle more.
PROOFS = (
    _proof("5x2", products, 6, (EDGES_ADDED, NO_LOWER, BIT_EARLY, ONE_TAP, NOT_TRIPLE), **SMALL),
    _proof("5x2", stalls, 2, (LANES_RUN, ALL_RUNS), **SMALL),
    _proof("5x2", queued, 2, (LANES_RUN_ON, LATE, SHOWN_AGAIN), reach=32, queue=True, **SMALL),
    _proof("5x2_in_memories", products, 10, (PLACE_EARLY,), additions=1, queue=True, **SMALL),
    _proof("5x1", products, 6, (EARLY, SWAPPED), block=4, latent=1, width=5),
    _proof("5x1", beats, 6, (EXCHANGED, LAST_EARLY), block=4, latent=1, width=5),
    _proof("8x1", products, 6, (NO_LOWER, ONE_TAP), blocks=1, block=3, latent=1, width=8),
    _proof("8x2", products, 5, (BIT_EARLY, NO_SIGN), **TRUNCATED),
)

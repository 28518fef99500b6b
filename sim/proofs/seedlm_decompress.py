"""Proofs of SeedLM's decompressor: the shared product equals the products by definition."""

from amaranth.hdl import Assert, Assume, Const, Module, Signal, Value
from amaranth.hdl._ast import AnySeq

from seedbed.hw.parts.beat_fifo import BeatFifo
from seedbed.hw.weights.seedlm_decompress import FIFO_DEPTH, SeedlmDecompress
from seedbed.hw.weights.seedlm_delay_lines import DelayLines
from seedbed.hw.weights.seedlm_lane import SeedlmLane
from seedbed.sim.proofs.bench import (
    cover,
    duplicates_equal,
    free_inputs,
    past,
    serial_step,
    stream_rules,
    transfer,
)
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import SeedlmDecompressConfig

__all__ = ["PROOFS"]


def words_products(m: Module, config: SeedlmDecompressConfig, block) -> tuple[list[Value], Value]:
    """Return a block's weights, from the words of a bit-serial LFSR, and its exponent."""
    width = config.width
    state = block[:width]
    exponent, *q = (block[j : j + 4].as_signed() for j in range(width, len(block), 4))
    weights = []
    for _ in range(config.block):
        total = Value.cast(0)
        for nibble in q:
            # A signal per state: a nested expression would grow with every step.
            before, state = state, Signal(width)
            m.d.comb += state.eq(serial_step(config.lfsr, before, 1))
            word = state[width - config.word_bits :]
            total = total + nibble * (word - config.half)
        weights.append(total)
    return weights, exponent


def products(dut: SeedlmLane) -> Module:
    """Compare every block's weights with the products by definition.

    The pipeline never stalls here: stalls are a separate proof. Its state then depends on as many
    cycles as its latency, which is the induction's depth.
    """
    m, inside = free_inputs(dut)
    m.d.comb += [dut.block.eq(AnySeq(len(dut.block))), dut.enable.eq(-1)]
    if dut.config.queue:
        # The tags of successive beats, which address the LUTRAMs, are successive.
        first = inside["tag_0_0"]
        for k in range(1, dut.latency):
            duplicates_equal(m, inside, rf"tag_{k}_\d+", (first - k)[: len(first)])
    given, valid = dut.block, Const(1)
    for _ in range(dut.latency):
        given, valid = past(m, given), past(m, valid)
    weights, exponent = words_products(m, dut.config, given)
    with m.If(valid):
        m.d.comb += Assert(dut.exponent == exponent)
        for shown, weight in zip(dut.weights, weights, strict=True):
            m.d.comb += Assert(shown == weight)
    # The greatest of all numbers: each coefficient -8 and each word 0.
    cover(m, valid & (given != 0), dut.weights[0] == 8 * dut.config.latent * dut.config.half)
    return m


def beats(dut: SeedlmDecompress) -> Module:
    """Compare every beat with its blocks, in order, without stalls."""
    m, _ = free_inputs(dut)
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
    cover(m, valid & (Value.cast(given.blocks) != 0))
    return m


def registers(fragment):
    """Yield every register of a design."""
    if "sync" in fragment.statements:
        yield from fragment.statements["sync"]._lhs_signals()
    for child, *_ in fragment.subfragments:
        yield from registers(child)


def stable(m: Module, enable, found) -> None:
    """Assert that registers are stable while ``enable`` is 0."""
    assert found, "the registers are not found"
    for register in found:
        before = past(m, register)
        with m.If(past(m, ~enable)):
            m.d.comb += Assert(register == before)


def stalls(dut: SeedlmDecompress) -> Module:
    """Check the stream rules, and that every register is stable while the pipeline is stalled."""
    m, inside = free_inputs(dut)
    stream_rules(m, dut.o)
    found = [*registers(m.submodules.dut)]
    assert len(found) > dut.latency, "some registers are not found"
    stable(m, inside["enable"], found)
    m.d.comb += Assert(transfer(dut.i) == (dut.i.valid & (~dut.o.valid | dut.o.ready)))
    cover(m, past(m, ~inside["enable"]) & transfer(dut.i) & transfer(dut.o))
    return m


def queued(dut: SeedlmDecompress) -> Module:
    """Check the stream rules, that stalled lanes are stable, and that no FIFO overflows.

    Every beat that has left the lanes, or may do so before the enable falls, has a free entry.
    """
    m, inside = free_inputs(dut)
    stream_rules(m, dut.o)
    enable, count = inside["enable"], dut.config.blocks
    lanes = [part for part, name, _ in m.submodules.dut.subfragments if name.startswith("lane")]
    stable(m, enable, [r for lane in lanes for r in registers(lane)])
    in_flight = []
    for name in ("room", "write"):
        one, few, each = (inside[f"{name}{part}_copy_0"] for part in ("", "_few", f"_{count}"))
        in_flight += [one, few, each]
        duplicates_equal(m, inside, rf"{name}_few_copy_\d+", few)
        duplicates_equal(m, inside, rf"{name}_\d+_copy_0", each)
    duplicates_equal(m, inside, r"enable_\d+_copy_\d+", enable)
    signals = {
        name: inside[f"fifo_{count}.{name}"]
        for name in (
            "write_pointer_0",
            "read_pointer_0",
            "next_read_0",
            "popped_0",
            "first_valid_0",
            "second_valid_0",
        )
    }
    for name, one in signals.items():
        duplicates_equal(m, inside, rf"fifo_\d+\.{name.removesuffix('_0')}_\d+", one)
    level = inside[f"fifo_{count}.level"]
    m.d.comb += [
        Assert(inside["write_copy_0"] == (inside["valid"][-1] & enable)),
        Assert(sum(in_flight, level) <= FIFO_DEPTH),
        Assert(signals["next_read_0"] == (signals["read_pointer_0"] + 1)[: len(level)]),
        Assert(~signals["popped_0"] | signals["first_valid_0"]),
        Assert(~signals["first_valid_0"] | (level >= 1)),
        Assert(~signals["second_valid_0"] | (level >= 2)),
    ]
    cover(m, level == FIFO_DEPTH, ~enable & transfer(dut.o))
    return m


EDGES_ADDED = Mutant("the edges of a cut are added", 'f"cut{cut}", sub,', 'f"cut{cut}", add,')
NO_LOWER = Mutant(
    "the second weight's lower cut is left out", "            if c:", "            if c > 1:"
)
BIT_EARLY = Mutant(
    "the string begins a bit early", "return string[skipped:]", "return string[skipped - 1 :]"
)
ONE_TAP = Mutant(
    "the string is not an LFSR's", "for tap in config.taps]", "for tap in config.taps[:1]]"
)
NOT_TRIPLE = Mutant(
    "two bits weigh 2 R", "(once.at(edge) << 1) + once.at(edge)", "once.at(edge) << 1"
)
NO_SIGN = Mutant(
    "a negative cut is read as a positive one", "Const(k, parts).as_signed()", "Const(k, parts)"
)
EARLY = Mutant(
    "the exponent is a stage early",
    "exponent.at(self._final + self._stage)",
    "exponent.at(self._final)",
)
SWAPPED = Mutant("the exponent is the last nibble", "exponent, *q = (", "*q, exponent = (")
LANES_RUN = Mutant(
    "the lanes are always enabled",
    "lane.enable.eq(enable.replicate(len(lane.enable)))",
    "lane.enable.eq(-1)",
)
LANES_RUN_ON = Mutant(
    "the lanes are enabled while the FIFOs are full",
    "lane.enable.eq(Cat(enables))",
    "lane.enable.eq(-1)",
)
EXCHANGED = Mutant(
    "the blocks of a beat are reversed",
    "beat.weights[size * k + c]",
    "beat.weights[size * (self.config.blocks - 1 - k) + c]",
)
LAST_EARLY = Mutant(
    "last is a cycle early", "self.o.payload.last.eq(last[-1])", "self.o.payload.last.eq(last[-2])"
)
ALL_RUNS = Mutant(
    "the pipeline is always enabled", "enable.eq(~valid[-1] | self.o.ready)", "enable.eq(1)"
)
PLACE_EARLY = Mutant(
    name="a LUTRAM is read at the next beat's address",
    part=DelayLines,
    old="get.addr.eq(tags.at(end - 1))",
    new="get.addr.eq(tags.at(end - 2))",
)
LATE = Mutant(
    "the threshold is one too high",
    "last_fifo.level <= THRESHOLD",
    "last_fifo.level <= THRESHOLD + 1",
)
SHOWN_AGAIN = Mutant(
    name="the last beat of a FIFO is output twice",
    part=BeatFifo,
    old="first_valid.eq(Mux(popped, two, one))",
    new="first_valid.eq(one)",
)
SAYS = {
    products: "Each weight of a block is the sum of q_p (V_cp - 2^(B - 1)) over p, exactly.",
    beats: "A beat has the weights and exponents of its blocks, in their order, and its last.",
    stalls: "A valid beat is stable until its transfer, and so is the whole pipeline.",
    queued: "A stalled lane is stable; no FIFO overflows; all FIFOs are in lockstep.",
}


def _proof(
    size: str, harness, depth: int, mutants: tuple[Mutant, ...], reach: int = 12, **params
) -> Proof:
    return Proof(
        name=f"seedlm_decompress_{harness.__name__}_{size}",
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

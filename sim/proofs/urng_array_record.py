"""Reference state of the generator array's proofs: the progress of a seed, and the lanes.

The harness tracks it separately, by the component's docstring. Assertions relate the component's
internal state to it, so that the proof is inductive.
"""

from amaranth.hdl import Array, Assert, Assume, Const, Module, Mux, Signal, Value

from seedbed.hw.generators.urng_array import UrngArray
from seedbed.hw.parts.gf2 import product
from seedbed.sim.proofs.bench import duplicates_equal, free_inputs, transfer
from seedbed.spec import LfsrConfig, UrngConfig, gf2

__all__ = ["array_harness", "follow", "grown", "lanes", "loads", "repaired_state", "top"]


def array_harness(dut: UrngArray) -> tuple[Module, dict[str, Signal]]:
    """Return what :func:`free_inputs` does, and assert that all copies of ``valid`` are equal."""
    m, inside = free_inputs(dut)
    duplicates_equal(m, inside, r"valid_\d+", inside["valid"])
    return m, inside


def loads(m: Module, dut: UrngArray) -> tuple[Value, Value, Signal]:
    """Return whether a seed begins, whether it ends, and its count of beats or cycles.

    Serial seeds are assumed to come in frames of exactly b beats; the count is of accepted beats.
    A grown seed is one word; the count is of cycles since then. It ends in the cycle before the
    first beat.
    """
    fire = transfer(dut.i_seeds)
    config = dut.config
    if config.seeding == "serial":
        count = Signal(range(config.width))
        last = dut.i_seeds.payload.last
        m.d.comb += [
            Assume(last == (count == config.width - 1)),
            Assert(dut.o.valid == (count == 0)),
            Assert(count < config.width),
        ]
        with m.If(fire):
            m.d.sync += count.eq(Mux(last, 0, count + 1))
        return fire & (count == 0), fire & last, count
    count = Signal(range(config.lanes))
    end = count == config.lanes - 1
    with m.If(fire):
        m.d.sync += count.eq(1)
    with m.Elif(count != 0):
        m.d.sync += count.eq(Mux(end, 0, count + 1))
    m.d.comb += [Assert(dut.o.valid == (count == 0)), Assert(count < config.lanes)]
    return fire, end, count


def lanes(dut: UrngArray) -> list[Value]:
    """Return the words of the n lanes; the rest of the beat is compared with them elsewhere."""
    return [dut.o.payload[j] for j in range(dut.config.lanes)]


def follow(m: Module, dut: UrngArray, inside, count) -> None:
    """Assert that the component's progress of growing equals the harness's."""
    if dut.config.seeding == "grown":
        # The component counts with an LFSR.
        n = dut.config.lanes
        counter = LfsrConfig(width=n.bit_length())
        places = Array(Const(gf2.apply(counter.jump(k), 1), counter.width) for k in range(n))
        m.d.comb += [
            Assert(inside["growing"] == (count != 0)),
            Assert(inside["count"] == places[count]),
        ]


def top(value, bits: int) -> Value:
    """Return the ``bits`` most recently filled bits of a state."""
    value = Value.cast(value)
    return value[len(value) - bits :]


def repaired_state(config: UrngConfig, seed) -> Value:
    """Return the state that a seed gives."""
    seed = Value.cast(seed)
    return Mux(seed == 0, 1 << (config.width - 1), seed) if config.repair else seed


def grown(m: Module, dut: UrngArray, word, count) -> None:
    """Assert what each lane holds while the array grows from ``word``."""
    config = dut.config
    n = config.lanes
    for done in range(1, n):
        with m.If(count == done):
            for rotations in range(done):
                steps = config.leap * rotations + (done - 1 - rotations) * (
                    config.leap + config.spacing
                )
                lane = lanes(dut)[n - 1 - rotations]
                m.d.comb += Assert(lane == product(config.lfsr.jump(steps), word))

"""One whole step of zeroth-order SGD on what the RTL streams, against the golden models' step."""

import numpy as np
import pytest
from amaranth.sim import Simulator

from seedbed.golden.classifier import Mlp
from seedbed.hw.generators.perturbation import Perturbation
from seedbed.studies.zeroth_order import OnTheFly, PreGenerated, step

SOURCES = {"on-the-fly": OnTheFly(), "pre-generated": PreGenerated()}
EPS, RATE = 2.0**-6, 0.05


class RtlSource:
    """A perturbation source whose numbers come out of the simulated core, beat by beat."""

    def __init__(self, config):
        self.config = config

    def numbers(self, seed, d):
        rtl, numbers = Perturbation(self.config), []

        async def bench(ctx):
            command = {"seed": seed, "numbers": d, "eps": 0, "negative": 0}
            ctx.set(rtl.i.payload, command)
            ctx.set(rtl.i.valid, 1)
            ctx.set(rtl.o.ready, 1)
            while True:
                *_, taken, valid, beat = await ctx.tick().sample(
                    rtl.i.ready, rtl.o.valid, rtl.o.payload
                )
                if taken:
                    ctx.set(rtl.i.valid, 0)
                if valid:
                    scale = 2.0 ** (beat.exponent - self.config.fraction_bits)
                    numbers.extend(scale * lane for lane in list(beat.lanes)[: beat.count])
                    if beat.last:
                        return

        simulator = Simulator(rtl)
        simulator.add_clock(1e-8)
        simulator.add_testbench(bench)
        simulator.run()
        return np.array(numbers)


@pytest.mark.parametrize("name", SOURCES)
def test_update_is_the_models(name):
    """theta after a step: both losses and the update from the RTL's numbers, to the last bit."""
    source = SOURCES[name]
    rng = np.random.default_rng(4)
    model = Mlp((16, 8, 4))
    theta = model.init(rng)
    x, labels = rng.standard_normal((32, 16)).astype(np.float32), rng.integers(0, 4, 32)

    def loss(at):
        return model.loss(at, x, labels)

    golden, level = step(loss, theta, source, 77, eps=EPS, rate=RATE)
    rtl, same = step(loss, theta, RtlSource(source.model.config), 77, eps=EPS, rate=RATE)
    assert np.array_equal(rtl, golden)
    assert level == same
    assert not np.array_equal(golden, theta)

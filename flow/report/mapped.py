"""Which configuration of each core is checked in yosys, and for which targets."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from zlib import crc32

from seedbed.flow.cores.registry import CORES
from seedbed.flow.fpga.netlists import COMMANDS, MODELS

__all__ = ["CONFIG", "LARGE", "QUICK", "SMALLER", "Check", "checks", "params"]

#: Name of the configuration that is checked.
CONFIG = "small"
#: Parameters, where they are fewer than in the configuration for tests of all cores.
SMALLER: dict[str, dict[str, Any]] = {
    "perturbation": {"width": 8},
    "prng_pool": {"size": 255, "banks": 4, "lanes": 4},
    "nf4": {"lanes": 2, "dequantise_lanes": 1, "block": 8, "thresholds": 15},
    "mac_array": {"lanes": 4, "blocks": 2, "weight_width": 8, "activation_width": 8},
    "softmax_loss": {"exp_bits": 6, "index_bits": 6, "exp_fraction": 4},
    "loss_sign": {"classes": 3, "ways": 2, "batch": 4},
    "host_link": {"depth": 16},
    "requantize": {"ways": 2, "width": 12, "entries": 5},
}
#: Cores that are mapped in seconds.
QUICK = ("lfsr", "urng_array", "scale_lut", "perturbation", "tree_grng", "seedlm_decompress")
#: Cores that are mapped in minutes, on the target where it takes the fewest. Their netlists are not
#: simulated.
LARGE = {
    "gemv": "gowin", "conv_engine": "ecp5", "lora": "ecp5", "instantft": "gowin",
    "zo_trainer": "gowin", "sparse_trainer": "gowin", "vector_unit": "xcup",
    "stream_engine": "gowin", "stream_trainer": "gowin",
}  # fmt: skip


class Check(NamedTuple):
    """A kind of measurement, and the core and target that it is of."""

    kind: str
    core: str
    target: str


def params(core: str) -> Mapping[str, Any]:
    """Return the parameters of the configuration that is checked."""
    return SMALLER.get(core, CORES[core].small)


def checks() -> Iterator[Check]:
    """Yield the checks of all cores: one target of each kind, of quick cores all to map for.

    A core keeps its targets when others are added. Rows of syntheses have the other targets.
    """
    for core in CORES:
        number = crc32(core.encode())
        targets = [LARGE.get(core) or [*COMMANDS][number // 2 % len(COMMANDS)]]
        for target in COMMANDS if core in QUICK else targets:
            yield Check("mapping", core, target)
        if core not in LARGE:
            yield Check("netlist", core, [*MODELS][number % len(MODELS)])

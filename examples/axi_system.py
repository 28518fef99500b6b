"""Writes the files for axi_system.v: Verilog of the core, matrix, vector, expected product.

Run ``python axi_system.py``, then the commands in examples/README.md.
"""

from pathlib import Path

import numpy as np

from seedbed.flow.cores.registry import find_verilog
from seedbed.flow.emit.verilog import write
from seedbed.golden import seedlm
from seedbed.golden.gemv import Gemv
from seedbed.sim.tools import setup_environment
from seedbed.spec import GemvConfig

ROWS, COLUMNS = 8, 64
#: The same as --set options of `seedbed verilog gemv_axi`.
PARAMETERS = {"beat_bits": 64, "columns": 256, "row_width": 16}


def main() -> None:
    """Write the files to the current folder."""
    setup_environment()  # finds the yosys that came with seedbed
    write(find_verilog("gemv_axi"), PARAMETERS, Path())
    config = GemvConfig(**PARAMETERS)
    model = Gemv(config)
    random = np.random.default_rng(1)
    matrix = random.normal(size=(ROWS, COLUMNS))
    found = seedlm.search(config, matrix.reshape(-1, config.block))
    blocks = seedlm.pack(config, *found).reshape(ROWS, -1)
    vector = random.integers(-(1 << 15), 1 << 15, COLUMNS)
    sums = model.packed_product(blocks, vector)
    words = {
        "weights.hex": model.packed_beats(blocks).reshape(-1, config.beat_bits // 8).view("<u8"),
        "vector.hex": vector.astype("<i2").view("<u8"),
        "sums.hex": sums.view("<u8"),
    }
    for name, each in words.items():
        Path(name).write_text("".join(f"{word:016x}\n" for word in each.reshape(-1)))
    # The LSB of a sum is 2^-8 / (2^15 - 1).
    product = sums * 2.0**-8 / (config.half - 1)
    error = np.linalg.norm(product - matrix @ vector) / np.linalg.norm(matrix @ vector)
    size = f"{ROWS} x {COLUMNS} weights with 4 bits each"
    print(f"{size}; relative error of the product: {error:.3f}")


if __name__ == "__main__":
    main()
